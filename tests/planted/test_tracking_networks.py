"""Do networks learn what their depth allows, and does the draw of chains hold what it says?"""

import itertools

import pytest
import torch

from audits.tracking.expectations import expected_loss, expected_share
from probes.core.random_streams import stream
from probes.language_models.tracking_networks import (
    VALUES,
    Design,
    Network,
    draw,
    train,
)


@pytest.mark.parametrize(("depth", "chains", "properties"), list(itertools.product([1, 5], [3, 4], [1, 2])))
def test_every_token_takes_its_value_from_an_earlier_one(depth: int, chains: int, properties: int) -> None:
    design = Design(layers=1, depth=depth, chains=chains, properties=properties)
    batch = draw(design, 20, stream(0, "test"))
    for row, one in itertools.product(range(20), range(properties)):
        names = batch.names[row].tolist()
        assert sorted(names) == list(range(design.tokens))
        held: dict[int, int] = {}
        depths: dict[int, int] = {}
        for name, source in zip(names, batch.sources[row, :, one].tolist(), strict=True):
            held[name] = source if source < VALUES else held[source - VALUES]
            depths[name] = 0 if source < VALUES else depths[source - VALUES] + 1
        assert [held[name] for name in names] == batch.answers[row, :, one].tolist()
        assert [depths[name] for name in names] == batch.depths[row].tolist()
        assert sorted(batch.depths[row].tolist()) == sorted(list(range(depth + 1)) * chains)
        assert len(set(batch.answers[row, :chains, one].tolist())) == chains


def test_properties_have_chains_of_their_own() -> None:
    batch = draw(Design(layers=1, depth=4, properties=2), 200, stream(0, "test"))
    moved = batch.depths > 0
    assert float((batch.parents[..., 0] == batch.parents[..., 1])[moved].float().mean()) < 0.8


def test_one_layer_follows_one_step_and_the_solving_layer_all() -> None:
    curve = train(Design(layers=1, depth=2, steps=300, seed=1))
    shares = (curve.hits / curve.sequences).tolist()
    assert min(shares[:2]) > 0.97
    assert shares[2] < 0.4
    assert abs(curve.loss - expected_loss(1, 2, 4)) < 0.1
    solved = train(Design(layers=1, resolvent=True, depth=3, steps=200, seed=1, read=True))
    assert min((solved.hits / solved.sequences).tolist()) > 0.97
    # Before the layer only roots can be read.
    assert float(solved.read[0, 0]) / solved.sequences > 0.97
    assert float(solved.read[0, 1]) / solved.sequences < 0.4
    assert min((solved.read[1] / solved.sequences).tolist()) > 0.9


def test_a_training_is_the_same_twice() -> None:
    design = Design(layers=1, depth=2, steps=5)
    one, other = train(design), train(design)
    assert torch.equal(one.hits, other.hits)
    assert one.loss == other.loss
    state = torch.random.get_rng_state()
    train(design)
    assert torch.equal(state, torch.random.get_rng_state())


def test_no_token_sees_a_later_one() -> None:
    design = Design(layers=2, resolvent=True, depth=3)
    network, batch = Network(design), draw(design, 2, stream(0, "test"))
    with torch.no_grad():
        before = network(batch)
        batch.names[:, -1] = (batch.names[:, -1] + 1) % design.tokens
        batch.sources[:, -1] = 0
        after = network(batch)
    assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-5)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-5)


def test_closed_forms() -> None:
    assert expected_loss(2, 3, 4) == 0
    assert expected_share(3, 2, 4) == 1
    assert expected_share(2, 4, 2) == 0.75
