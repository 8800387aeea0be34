"""Are mixtures of three foretold by the sum of their pairs' effects, and ranked by what is foretold?"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from audits.core.context import Draft
from audits.interference.estimates import add_mixtures
from audits.interference.losses import Cell, Losses
from audits.interference.matrix import Matrix
from audits.interference.mixtures import SHOWN, Mixtures, mix, where_error

EFFECT = {"a": 0.1, "b": 0.2, "c": -0.3, "d": 0.4, "e": 0.0}


def mixed(languages: str, *, triples: tuple[str, ...] = (), extra: float = 0.0, without: tuple[str, ...] = (),
          failed: Any = None) -> tuple[Draft, Mixtures]:  # fmt: skip
    """Return what is said of mixtures in which a source adds its effect to the loss of every other language."""
    rng = np.random.default_rng(0)
    sets = [(code,) for code in languages] + [
        pair for pair in combinations(languages, 2) if "".join(pair) not in without
    ]
    sets += [tuple(three) for three in triples]
    cells = {}
    for chosen in sets:
        for code in chosen:
            mean = 2.0 + sum(EFFECT[other] for other in chosen if other != code) + (extra if len(chosen) == 3 else 0.0)
            for seed, noise in enumerate(rng.permutation([-0.001, 0.0, 0.001])):
                cells[chosen, seed, code] = Cell(sums=np.array([mean + noise]), weights=np.ones(1), factor=1.0)
    losses = Losses(languages=tuple(languages), cells=cells, curves={}, diverged=frozenset())
    draft, found = Draft(), mix(matrix_of(losses, failed or {}, sets), sets)
    add_mixtures(draft, found)
    return draft, found


def matrix_of(losses: Losses, failed: Any, sets: Sequence[tuple[str, ...]]) -> Matrix:
    pairs = tuple(chosen for chosen in sets if len(chosen) == 2)
    return Matrix(losses=losses, failed=failed, level=0.95, correction="holm", pairs=pairs)


@pytest.mark.parametrize("extra", [0.0, 0.5, -0.5])
def test_the_error_is_what_pairs_leave_of_a_mixture(extra: float) -> None:
    draft, found = mixed("abcd", triples=("abc", "bcd"), extra=extra)
    assert set(found.errors) == {(tuple(three), code) for three in ("abc", "bcd") for code in three}
    for member, judged in found.errors.items():
        assert draft.row("prediction_error", **where_error(*member)).value == pytest.approx(extra, abs=1e-9)
        verdict = {0.0: "indistinguishable", 0.5: "interference", -0.5: "synergy"}[extra]
        assert judged.verdict(0.95) == verdict
    assert draft.row("prediction_error", of="triples").value == pytest.approx(extra, abs=1e-9)


def test_a_mixture_without_a_pair_has_no_error() -> None:
    _, found = mixed("abc", triples=("abc",), without=("ab",))
    assert set(found.errors) == {(("a", "b", "c"), "c")}


def test_a_mixture_that_failed_has_no_error() -> None:
    _, found = mixed("abc", triples=("abc",), failed={(("a", "b", "c"), "b"): "stuck"})
    assert {code for _, code in found.errors} == {"a", "c"}


def test_mixtures_are_ranked_by_the_mean_rise_of_their_losses() -> None:
    draft, found = mixed("abcde")
    # Each of the three hears the other two: a mixture's mean is two thirds of the sum of its effects.
    totals = {three: 2 / 3 * sum(EFFECT[code] for code in three) for three in combinations("abcde", 3)}
    order = sorted(totals, key=lambda three: totals[three])
    assert list(found.ranked) == [*order[:SHOWN], *order[-SHOWN:]]
    for three in found.ranked:
        assert draft.row("predicted_interference", mixture="+".join(three)).value == pytest.approx(totals[three])


def test_the_ends_of_the_list_say_that_they_were_picked() -> None:
    draft, _ = mixed("abcde")
    methods = {row.method for row in draft.select("predicted_interference")}
    assert methods and all(
        method.endswith(", for all at once (Bonferroni); one of the ends of 10 mixtures") for method in methods
    )


def test_intervals_of_the_ends_hold_for_all_mixtures_at_once() -> None:
    draft, found = mixed("abcde")
    for three, judged in found.ranked.items():
        made, crossed = draft.row("predicted_interference", mixture="+".join(three)), judged.crossed
        assert made.level == 0.95 and crossed.df is not None
        # A twentieth over ten mixtures.
        assert (made.high or 0) - made.value == pytest.approx(crossed.se * t.isf(0.005 / 2, crossed.df))


def spread(languages: str, effect: float, seed: int, noise: float = 0.01) -> float | None:
    """Return the p-value of best and worst where the last three languages hurt all others by `effect`."""
    rng = np.random.default_rng(seed)
    sets = [*((code,) for code in languages), *combinations(languages, 2)]
    cells = {
        (chosen, number, code): Cell(
            sums=np.array([2.0 + effect * sum(one in languages[-3:] for one in chosen if one != code)])
            + rng.normal(scale=noise),
            weights=np.ones(1),
            factor=1.0,
        )
        for chosen in sets
        for number in range(3)
        for code in chosen
    }
    losses = Losses(languages=tuple(languages), cells=cells, curves={}, diverged=frozenset())
    return mix(matrix_of(losses, {}, sets), sets).apart


def test_the_ends_of_many_mixtures_are_alike_where_nothing_is_planted() -> None:
    # 220 mixtures of twelve languages: the ends differ by much, for they are picked.
    told = [spread("abcdefghijkl", 0.0, seed) for seed in range(10)]
    assert all(p is not None for p in told)
    assert sum(p <= 0.05 for p in told if p is not None) <= 1, told


def test_the_ends_are_told_apart_where_much_is_planted() -> None:
    p = spread("abcde", 0.1, 0, noise=0.001)
    assert p is not None and p < 0.01


def test_only_whole_mixtures_are_ranked() -> None:
    _, found = mixed("abcd", without=("ad", "bd"))
    assert list(found.ranked) == [("a", "b", "c")] and found.apart is None
    assert not mixed("abc")[1].ranked, "one mixture of three languages is no choice"
