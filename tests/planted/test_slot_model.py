"""Has the model made by hand the probabilities that its formula says, and does the probe find them?"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from probes.core.cache import Cache
from probes.core.progress import Silent
from probes.language_models.slot_model import MOST_SLOTS, MOST_VALUES, SlotWorld
from probes.models.checkpoints import find_model
from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.grounded_prompts import Template
from probes.texts.text_generation import CausalLM
from probes.texts.token_draws import Sampling
from probes.texts.token_information import Information

EXACT = 1e-9


def information(folder: Path, cache: Path, without: str = "blank", dtype: str = "float64") -> Information:
    call = {"seed": 0, "batch": 16, "device": "cpu", "cache": Cache(cache), "progress": Silent()}
    return Information(find_model(str(folder)), Template(), without, dtype=dtype, **call)  # type: ignore[arg-type]


def grounded(context: str, output: str) -> Grounded:
    return Grounded(read_evidence(context, "row"), output)


@pytest.mark.parametrize(
    ("world", "right", "wrong", "mean"),
    [
        (SlotWorld(5, 10, 0.1), 2.1972, -2.1972, 1.7578),
        (SlotWorld(5, 2, 0.1), 0.5878, -1.6094, 0.3681),
        (SlotWorld(1, 100, 0.1), 4.4998, -2.2925, 3.8206),
        (SlotWorld(2, 3, 0.7), math.log(0.9), math.log(1.05), 0.3 * math.log(0.9) + 0.7 * math.log(1.05)),
    ],
)
def test_information_is_that_of_the_formula(
    world: SlotWorld, right: float, wrong: float, mean: float, tmp_path: Path
) -> None:
    values = [world.information(right=True), world.information(right=False)]
    assert values == pytest.approx([right, wrong], abs=5e-5)
    assert (1 - world.error) * values[0] + world.error * values[1] == pytest.approx(mean, abs=5e-5)
    world.write_model(tmp_path / "model")
    rows = world.make_rows(24, 0.4, seed=1)
    assert len({cell for row in rows for cell in row.wrong}) == 2
    pairs = [grounded(row.context, row.output) for row in rows]
    probe = information(tmp_path / "model", tmp_path / "cache")
    found, scores, lowest = probe.by_token(pairs), probe.score(pairs), probe.lowest_span(pairs)
    stated = {world.value(slot, at) for slot in range(world.slots) for at in range(world.values)}
    for at, (row, pair, one) in enumerate(zip(rows, pairs, found, strict=True)):
        assert one is not None
        words = [pair.output[start:stop] for start, stop in one.spans]
        assert words == pair.output.split()
        slots = iter(row.wrong)
        expected = np.array([values[next(slots)] if word in stated else 0.0 for word in words])
        assert np.abs(one.information - expected).max() < EXACT
        chance = [1 - world.error, world.error / (world.values - 1)]
        likely = [math.log(chance[off]) for off in row.wrong]
        assert one.given.sum() == pytest.approx(sum(likely), abs=EXACT)
        assert one.alone.sum() == pytest.approx(-world.slots * math.log(world.values), abs=EXACT)
        sums = {"cxmi_output": expected.sum(), "cxmi_token": expected.mean(), "cxmi_minimum": expected.min()}
        sums["log_probability"] = sum(likely) / len(words)
        assert {name: scores[name][at] for name in sums} == pytest.approx(sums, abs=EXACT)
        span = lowest[at]
        assert span is not None
        # The least token is a wrong value where there is one and that tells against it.
        if any(row.wrong) and values[1] < 0:
            assert pair.output[slice(*span)] in stated


def test_a_slot_that_the_context_lacks_has_no_information(tmp_path: Path) -> None:
    world = SlotWorld(3, 4, 0.2)
    world.write_model(tmp_path / "model")
    row = world.make_rows(1, 0.0, seed=2)[0]
    kept = ", ".join(row.context.split(", ")[::2])
    one = information(tmp_path / "model", tmp_path / "cache").by_token([grounded(kept, row.output)])[0]
    assert one is not None
    values = [value for value in one.information if abs(value) > EXACT]
    assert values == pytest.approx([world.information(right=True)] * 2, abs=EXACT)


def test_the_context_of_another_row_tells_against_what_differs(tmp_path: Path) -> None:
    world = SlotWorld(2, 5, 0.1)
    world.write_model(tmp_path / "model")
    pairs = [grounded(world.context(chosen), world.output(chosen)) for chosen in ([0, 1], [1, 1])]
    found = information(tmp_path / "model", tmp_path / "cache", "shuffled").score(pairs)["cxmi_output"]
    # One slot is right in both contexts, one in the own context alone.
    expected = world.information(right=True) - world.information(right=False)
    assert found == pytest.approx([expected] * 2, abs=EXACT)


def test_every_probability_sums_to_one_and_other_words_have_none(tmp_path: Path) -> None:
    world = SlotWorld(3, 4, 0.2)
    world.write_model(tmp_path)
    model = CausalLM(find_model(str(tmp_path)), device="cpu", dtype="float64")
    context = read_evidence(world.context([0, 1, 2]), "row").text
    with torch.inference_mode():
        ids = model.speller.whole(f"{context}\n{world.output([0, 1, 2])}")
        chances = model.network(torch.tensor([ids])).logits[0].softmax(-1)
    behind = len(model.speller.whole(f"{context}\n"))
    likely = [(row > EXACT).sum().item() for row in chances[behind - 1 :]]
    assert likely == [4, 1, 4, 1, 1, 1, 4, 1, 1, 1]


def test_texts_in_single_precision_are_sampled_from_it(tmp_path: Path) -> None:
    world = SlotWorld(5, 4, 0.25)
    world.write_model(tmp_path)
    model = CausalLM(find_model(str(tmp_path)), device="cpu", dtype="float32")
    rows = world.make_rows(40, 0.0, seed=3)
    prompts = [f"{read_evidence(row.context, 'row').text}\n" for row in rows]
    texts = model.generate(prompts, Sampling(max_new_tokens=30), range(40))
    assert all(text.ended for text in texts)
    words = [(text.continuation.split(), row.output.split()) for text, row in zip(texts, rows, strict=True)]
    wrong = sum(said != truth for both in words for said, truth in zip(*both, strict=True))
    # 50 of 200 values, with a deviation of 6.1.
    assert 32 <= wrong <= 68


@pytest.mark.parametrize("world", [SlotWorld(MOST_SLOTS, MOST_VALUES), SlotWorld(1, 2)])
def test_every_value_has_a_word_of_its_own(world: SlotWorld) -> None:
    values = {world.value(slot, at) for slot in range(world.slots) for at in range(world.values)}
    frame = world.output([0] * world.slots).split()
    words = [word for word in frame if word not in values]
    assert len(values) == world.slots * world.values and len(words) == len(set(words))


def test_rows_hold_the_errors_that_were_asked_for() -> None:
    world = SlotWorld(5, 10, 0.1)
    rows = world.make_rows(400, 0.1, seed=4)
    assert rows == world.make_rows(400, 0.1, seed=4) != world.make_rows(400, 0.1, seed=5)
    assert sum(sum(row.wrong) for row in rows) / 2000 == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 2000))
    for row in rows:
        cells = read_evidence(row.context, "row").cells
        assert tuple(value not in row.output.split() for _, value in cells) == row.wrong
    assert not any(cell for row in world.make_rows(50, 0.0, seed=6) for cell in row.wrong)


@pytest.mark.parametrize("settings", [(0, 2, 0.1), (6, 2, 0.1), (1, 1, 0.1), (1, 101, 0.1), (1, 2, 0.0), (1, 2, 1.0)])
def test_worlds_without_a_formula_are_refused(settings: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="is no world"):
        SlotWorld(*settings)


@pytest.mark.parametrize(("corrupted", "expected"), [(1, 0.822), (2, 0.963), (3, 0.995)])
def test_an_exact_model_tells_corrupted_outputs_as_well_as_it_can(corrupted: int, expected: float) -> None:
    world, random = SlotWorld(5, 10, 0.1), np.random.default_rng(7)
    right, wrong = (world.information(right=side) for side in (True, False))

    def sums(forced: int) -> np.ndarray:
        off = random.random((100_000, world.slots)) < world.error
        off[:, :forced] = True
        return np.where(off, wrong, right).sum(axis=1).round(6)

    faithful, corrupt = sums(0), sums(corrupted)
    levels = np.union1d(faithful, corrupt)
    shares = [np.array([np.mean(side == level) for level in levels]) for side in (faithful, corrupt)]
    below = np.cumsum(shares[1]) - shares[1] / 2
    assert float(shares[0] @ below) == pytest.approx(expected, abs=0.01)


def test_a_context_without_slots_is_no_context(tmp_path: Path) -> None:
    world = SlotWorld(2, 3, 0.1)
    world.write_model(tmp_path / "model")
    probe = information(tmp_path / "model", tmp_path / "cache")
    found = probe.score([Grounded(Evidence(""), world.output([0, 0]))])
    assert found["cxmi_output"] == pytest.approx([0.0], abs=EXACT)
