"""Are the contrasts of the matrix those of its definition, over what their losses have in common?"""

import math
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import t as student

from audits.interference.losses import Cell, Losses
from audits.interference.matrix import Judged, Matrix, combined

A, B, AB = ("a",), ("b",), ("a", "b")
DELTAS = (0.1, 0.2, 0.6)


def losses(rows: dict[Any, float], weights: dict[int, float] | None = None) -> Losses:
    """Return losses of one unit each, whose weight may depend on the seed."""
    made = {}
    for (chosen, seed, code), loss in rows.items():
        size = (weights or {}).get(seed, 1.0)
        made[chosen, seed, code] = Cell(sums=np.array([loss * size]), weights=np.array([size]), factor=1.0)
    return Losses(languages=AB, cells=made, curves={}, diverged=frozenset())


def matrix(given: Losses, failed: Any = None, correction: Literal["holm", "bh"] = "holm") -> Matrix:
    return Matrix(losses=given, failed=failed or {}, level=0.95, correction=correction)


PLAIN = {(A, seed, "a"): 2.0 for seed in range(3)} | {(AB, seed, "a"): 2.0 + DELTAS[seed] for seed in range(3)}
PLAIN |= {(B, seed, "b"): 1.0 for seed in range(3)} | {(AB, seed, "b"): 1.5 for seed in range(3)}


def test_a_cell_is_the_loss_of_the_pair_less_that_alone() -> None:
    found = matrix(losses(PLAIN))
    weights = found.cell("a", "b")
    assert weights == {(AB, "a"): 1.0, (A, "a"): -1.0} == found.cell("a", "b")
    (judged,) = found.judge([weights])
    assert judged is not None and judged.crossed.value == pytest.approx(0.3)
    error = np.std(DELTAS, ddof=1) / math.sqrt(3)
    assert judged.crossed.p == pytest.approx(2 * student.sf(0.3 / error, 2)) == judged.adjusted


def test_the_order_of_a_pair_does_not_matter() -> None:
    found = matrix(losses(PLAIN))
    assert found.cell("b", "a") == {(AB, "b"): 1.0, (B, "b"): -1.0}


@pytest.mark.parametrize("failed", [(A, "a"), (AB, "a")])
def test_a_failed_model_leaves_no_cell(failed: Any) -> None:
    found = matrix(losses(PLAIN), {failed: "stuck"})
    assert found.cell("a", "b") is None and found.cell("b", "a") is not None
    assert not found.known(*failed)
    assert found.reasons("a", "b") == {failed[0]: "stuck"} and not found.reasons("b", "a")


def test_a_missing_model_leaves_no_cell() -> None:
    found = matrix(losses({key: loss for key, loss in PLAIN.items() if key[0] != A}))
    assert found.cell("a", "b") is None and not found.known(A, "a") and found.known(AB, "a")


def test_seeds_are_those_that_all_losses_have() -> None:
    rows = {key: loss for key, loss in PLAIN.items() if key != (AB, 2, "a")}
    found = matrix(losses(rows | {(AB, 7, "a"): 99.0}))
    cell = found.cell("a", "b")
    assert cell is not None
    (judged,) = found.judge([cell])
    assert judged is not None and judged.crossed.seeds == 2 and judged.crossed.value == pytest.approx(0.15)
    apart = matrix(losses({(A, 0, "a"): 1.0, (AB, 1, "a"): 2.0}))
    cell = apart.cell("a", "b")
    assert cell is not None and apart.contrast(cell) is None and apart.judge([cell, cell]) == [None, None]


def test_weights_that_differ_from_seed_to_seed_are_not_mixed_up() -> None:
    given = losses(PLAIN, {0: 1.0, 1: 10.0, 2: 3.0})
    found = matrix(given)
    cell = found.cell("a", "b")
    assert cell is not None
    try:
        (judged,) = found.judge([cell])
    except ValueError:
        return
    assert judged is not None and judged.crossed.value == pytest.approx(0.3)


def test_contrasts_of_one_kind_are_corrected_together() -> None:
    given = losses(PLAIN | {(AB, seed, "b"): 1.2 + 0.3 * seed for seed in range(3)})
    first, second = matrix(given).cell("a", "b"), matrix(given).cell("b", "a")
    assert first is not None and second is not None
    one, two = matrix(given).judge([first, second])
    assert one is not None and two is not None
    p = sorted([one.crossed.p or 0, two.crossed.p or 0])
    assert sorted([one.adjusted, two.adjusted]) == pytest.approx([2 * p[0], max(2 * p[0], p[1])])
    one, two = matrix(given, correction="bh").judge([first, second])
    assert one is not None and two is not None
    assert sorted([one.adjusted, two.adjusted]) == pytest.approx([min(2 * p[0], p[1]), p[1]])


@pytest.mark.parametrize(
    ("value", "adjusted", "verdict"),
    [
        (0.1, 0.04, "interference"),
        (-0.1, 0.04, "synergy"),
        (0.1, 0.051, "indistinguishable"),
        (-0.1, 1.0, "indistinguishable"),
        (0.1, None, "untested"),
    ],
)
def test_a_verdict_follows_the_corrected_p(value: float, adjusted: float | None, verdict: str) -> None:
    found = matrix(losses({key: loss for key, loss in PLAIN.items() if key[2] == "a"}))
    cell = found.cell("a", "b")
    assert cell is not None
    (judged,) = found.judge([combined([(value / 0.3, cell)])])
    assert judged is not None and judged.crossed.value == pytest.approx(value)
    assert Judged(crossed=judged.crossed, adjusted=adjusted).verdict(0.95) == verdict


def test_a_sum_of_contrasts_leaves_out_what_cancels() -> None:
    one, two = {(AB, "a"): 1.0, (A, "a"): -1.0}, {(AB, "b"): 1.0, (B, "b"): -1.0}
    assert combined([(0.5, one), (0.5, one)]) == one
    assert combined([(1.0, one), (-1.0, one)]) == {}
    assert combined([(1.0, one), (-2.0, two)]) == {(AB, "a"): 1.0, (A, "a"): -1.0, (AB, "b"): -2.0, (B, "b"): 2.0}
