"""Do the numbers of the matrix say truly over what they were made, and why others are not there?"""

import math
from typing import Any

import numpy as np
import pytest

from audits.core.context import Draft
from audits.interference.estimates import add_losses, add_matrix
from audits.interference.losses import Cell, Losses, with_of
from audits.interference.matrix import Matrix, interval_of
from audits.statistics.crossed import Contrast, Part, crossed_intervals

SETS = (("a",), ("b",), ("a", "b"))
LOSSES = {(("a",), "a"): 2.0, (("b",), "b"): 4.0, (("a", "b"), "a"): 2.5, (("a", "b"), "b"): 3.0}


def matrix(seeds: int = 3, units: int = 1, failed: Any = None, without: Any = ()) -> Matrix:
    """Return a matrix of known means; seeds and sentences scatter around them."""
    rng = np.random.default_rng(0)
    cells = {}
    for (chosen, code), mean in LOSSES.items():
        noise = rng.normal(scale=0.01, size=(seeds, units))
        noise -= noise.mean() if seeds * units > 1 else noise
        for seed in range(seeds):
            if (chosen, code) not in without:
                cells[chosen, seed, code] = Cell(sums=mean + noise[seed], weights=np.ones(units), factor=1.0)
    losses = Losses(languages=("a", "b"), cells=cells, curves={}, diverged=frozenset())
    return Matrix(losses=losses, failed=failed or {}, level=0.95, correction="holm", pairs=(("a", "b"),))


def estimated(made: Matrix, sets: Any = SETS, baselines: Any = None) -> Draft:
    """Return the table of a matrix."""
    draft = Draft()
    add_losses(draft, made, baselines or {}, sets)
    add_matrix(draft, made)
    return draft


def values(draft: Draft, name: str) -> dict[tuple[Any, ...], float]:
    return {tuple(one.where.values()): one.value for one in draft.estimates if one.name == name}


@pytest.mark.parametrize(("seeds", "units"), [(1, 1), (3, 1), (1, 6), (3, 6)])
def test_numbers_are_those_of_their_definitions(seeds: int, units: int) -> None:
    made = matrix(seeds, units)
    draft = estimated(made)
    assert values(draft, "loss") == pytest.approx({("a", "a"): 2, ("b", "b"): 4, ("a", "b"): 2.5, ("b", "a"): 3})
    assert values(draft, "interference") == pytest.approx({("a", "b"): 0.5, ("b", "a"): -1})
    assert values(draft, "interference_relative") == pytest.approx({("a", "b"): 0.25, ("b", "a"): -0.25})
    assert values(draft, "asymmetry") == pytest.approx({("a", "b"): 1.5})
    assert values(draft, "received") == pytest.approx({("a",): 0.5, ("b",): -1})
    assert values(draft, "caused") == pytest.approx({("a",): -1, ("b",): 0.5})
    assert (seeds == 1) == (not values(draft, "seed_deviation"))
    bare = [one for one in draft.estimates if one.method == "none"]
    assert bool(bare) == (seeds == units == 1)
    assert all(one.n == (units if units > 1 else seeds) for one in draft.estimates if one.name == "interference")
    assert made.array(["b", "a"])[0, 1] == pytest.approx(-1) and math.isnan(made.array(["b", "a"])[0, 0])


def test_a_share_has_the_interval_of_the_delta_method() -> None:
    (share,) = estimated(matrix(3, 1)).select("interference_relative", target="a")
    cells = matrix(3, 1).losses.cells
    pair, alone = (np.array([cells[one, seed, "a"].loss for seed in range(3)]) for one in (("a", "b"), ("a",)))
    deltas = (pair / 2 - 2.5 * alone / 4)[:, None]
    (crossed,) = crossed_intervals([Contrast((Part(deltas, np.ones(1)),))])
    assert share.high is not None and crossed.high is not None
    assert share.high - share.value == pytest.approx(crossed.high - crossed.value, rel=1e-6)


@pytest.mark.parametrize(
    ("failed", "cells"),
    [((("a",), "a"), [("a", "b")]), ((("a", "b"), "b"), [("b", "a")]), ((("b",), "b"), [("b", "a")])],
)
def test_a_model_that_failed_is_told_with_its_cell(failed: Any, cells: Any) -> None:
    found = matrix(failed={failed: "it is stuck"})
    draft = estimated(found)
    told = [one for one in draft.warnings if one.id == "interference.not-converged" and "target" in one.where]
    assert [(one.where["target"], one.where["source"]) for one in told] == cells
    assert all("it is stuck" in one.message for one in told)
    assert not set(found.cells) & set(cells) and len(found.cells) == 1 and not found.asymmetries


def test_what_was_never_measured_is_told_otherwise() -> None:
    found = matrix(without=[(("a", "b"), "b")])
    draft = estimated(found)
    assert {one.id for one in draft.warnings} == {"not-measured"} and list(found.cells) == [("a", "b")]


def test_a_language_that_loses_nothing_alone_has_no_share() -> None:
    made = matrix()
    for seed in range(3):
        cell = made.losses.cells[("a",), seed, "a"]
        cell.sums[:] = 0.0
    draft = estimated(made)
    assert list(values(draft, "interference_relative")) == [("b", "a")]
    assert [one.where for one in draft.warnings if one.id == "no-share"] == [{"target": "a", "source": "b"}]


def test_baselines_stand_beside_the_losses() -> None:
    cells = [Cell(sums=np.array([loss, loss + 1]), weights=np.ones(2), factor=1.0) for loss in (3.0, 2.0)]
    draft = estimated(matrix(), baselines={"a": {"unigram": cells[0], "bigram": cells[1]}})
    assert values(draft, "baseline") == pytest.approx({("a", "unigram"): 3.5, ("a", "bigram"): 2.5})


def test_the_seed_deviation_is_the_root_of_the_mean_variance() -> None:
    found = matrix(4, 1)
    spreads = [one.crossed.seed_sd or 0.0 for one in found.cells.values()]
    made = estimated(found).row("seed_deviation")
    assert made.value == pytest.approx(math.sqrt(sum(one**2 for one in spreads) / 2))
    assert "6 degrees of freedom" in made.method and made.low is not None and made.high is not None
    assert made.low < made.value < made.high


def test_a_number_without_spread_has_no_interval() -> None:
    (crossed,) = crossed_intervals([Contrast((Part(np.ones((2, 1)), np.ones(1)),))])
    made = interval_of(crossed)
    assert (made.low, made.high, made.method, made.n, made.unit) == (None, None, "none", 2, "seeds")


@pytest.mark.parametrize(("units", "told"), [(1, set()), (9, {"a", "b"}), (10, set())])
def test_few_sentences_are_told_by_language(units: int, told: set[str]) -> None:
    draft = estimated(matrix(2, units))
    assert {one.where["lang"] for one in draft.warnings if one.id == "few-sentences"} == told


def test_a_training_set_is_named_by_the_others() -> None:
    assert [with_of(("a", "b", "c"), code) for code in "abc"] == ["b+c", "a+c", "a+b"] and with_of(("a",), "a") == "a"


def test_a_mean_over_fewer_partners_than_others_is_told() -> None:
    codes = ("a", "b", "c")
    sets = [(code,) for code in codes] + [("a", "b"), ("a", "c"), ("b", "c")]
    cells = {
        (chosen, seed, code): Cell(sums=np.array([2.0 + len(chosen) + seed / 9]), weights=np.ones(1), factor=1.0)
        for chosen in sets
        for code in chosen
        for seed in range(2)
        if (chosen, code) != (("b", "c"), "b")
    }
    losses = Losses(languages=codes, cells=cells, curves={}, diverged=frozenset())
    pairs = tuple(chosen for chosen in sets if len(chosen) == 2)
    draft = estimated(Matrix(losses=losses, failed={}, level=0.95, correction="holm", pairs=pairs), sets)
    assert [dict(one.where) for one in draft.warnings if one.id == "partial-mean"] == [{"target": "b"}, {"source": "c"}]
