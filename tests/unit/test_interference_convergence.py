"""Is a model that learnt too little, or too late, named with its reason, and no other?"""

from typing import Any

import numpy as np
import pytest

from audits.interference.convergence import failures
from audits.interference.losses import Cell, Losses

ALONE, PAIR = ("a",), ("a", "b")


def cell(loss: float, factor: float = 1.0) -> Cell:
    """Return a cell of a loss in nats per byte."""
    return Cell(sums=np.array([loss / factor]), weights=np.ones(1), factor=factor)


def losses(cells: dict[Any, float], curves: dict[Any, tuple[float, ...]] | None = None, diverged: Any = ()) -> Losses:
    made = {key: cell(loss) for key, loss in cells.items()}
    return Losses(languages=PAIR, cells=made, curves=curves or {}, diverged=frozenset(diverged))


BASELINES = {code: {"unigram": cell(3.0), "bigram": cell(2.5)} for code in PAIR}


@pytest.mark.parametrize(
    ("chosen", "loss", "why"),
    [
        (ALONE, 2.3, None),
        (ALONE, 2.4, "bigram"),
        (ALONE, 2.86, "unigram"),
        # A partner may cost as much as all that is known of neighbours.
        (PAIR, 2.4, None),
        (PAIR, 2.84, None),
        (PAIR, 2.86, "unigram"),
        (PAIR, 9.0, "unigram"),
    ],
)
def test_a_model_must_beat_what_counts_know(chosen: tuple[str, ...], loss: float, why: str | None) -> None:
    found = failures(losses({(chosen, 0, "a"): loss}), BASELINES, 0.05)
    assert list(found) == ([] if why is None else [(chosen, "a")])
    assert why is None or (why in found[chosen, "a"] and "seed 0" in found[chosen, "a"])


def test_the_margin_is_a_share_of_the_baseline() -> None:
    # 10 % less than 2.5 is 2.25.
    for margin, failed in ((0.0, False), (0.05, False), (0.09, True), (0.10, True)):
        assert bool(failures(losses({(ALONE, 0, "a"): 2.3}), BASELINES, margin)) == failed


def test_one_failed_seed_is_enough() -> None:
    found = failures(losses({(ALONE, 0, "a"): 1.0, (ALONE, 1, "a"): 3.0, (ALONE, 2, "a"): 3.0}), BASELINES, 0.05)
    assert list(found) == [(ALONE, "a")] and "seed 1" in found[ALONE, "a"]


def test_one_language_of_a_pair_may_fail_alone() -> None:
    found = failures(losses({(PAIR, 0, "a"): 3.0, (PAIR, 0, "b"): 1.0}), BASELINES, 0.05)
    assert list(found) == [(PAIR, "a")]


def test_a_loss_that_was_no_number_fails_all_languages_of_the_model() -> None:
    found = failures(losses({}, diverged=[(PAIR, 2)]), BASELINES, 0.05)
    assert set(found) == {(PAIR, "a"), (PAIR, "b")} and "no number" in found[PAIR, "b"]


@pytest.mark.parametrize(
    ("curve", "late"),
    [
        ((2.0, 1.0, 1.0, 1.0), False),
        ((3.0, 3.0, 1.0, 1.0), False),
        ((3.0, 3.0, 3.0, 1.0), True),
        ((3.0, 3.0, 3.0, 3.0), True),
        ((2.86, 2.84, 1.0, 1.0), False),
        ((), False),
    ],
)
def test_the_plateau_must_be_left_by_half_time(curve: tuple[float, ...], late: bool) -> None:
    given = losses({(PAIR, 0, "a"): 1.0}, {(PAIR, 0, "a"): curve})
    found = failures(given, BASELINES, 0.05)
    assert bool(found) == late and all("plateau" in why for why in found.values())


@pytest.mark.parametrize(
    ("alone", "pair", "apart"),
    [
        # Of ten stretches, after one and three the plateau is left at about the same time.
        (1, 3, False),
        (3, 1, False),
        (1, 4, True),
        (4, 1, True),
        (5, 5, False),
    ],
)
def test_models_that_are_compared_left_the_plateau_at_about_the_same_time(alone: int, pair: int, apart: bool) -> None:
    curves = {(chosen, 0, "a"): (3.0,) * left + (1.0,) * (10 - left) for chosen, left in ((ALONE, alone), (PAIR, pair))}
    found = failures(losses({(ALONE, 0, "a"): 1.0, (PAIR, 0, "a"): 1.0}, curves), BASELINES, 0.05)
    assert list(found) == ([(PAIR, "a")] if apart else [])
    assert not apart or f"after {pair}0% of its steps, and a alone after {alone}0%" in found[PAIR, "a"]


def test_without_a_margin_a_curve_on_the_plateau_has_not_left_it() -> None:
    # 2 % below 3 is 2.94.
    for loss, late in ((2.95, True), (2.93, False)):
        given = losses({(PAIR, 0, "a"): 1.0}, {(PAIR, 0, "a"): (loss,) * 4})
        assert bool(failures(given, BASELINES, 0.0)) == late


def test_curves_are_in_tokens_and_losses_in_bytes() -> None:
    # Two bytes a token: 3 nats per byte are 6 per token, and a curve of 5 has left the plateau.
    baselines = {"a": {"unigram": cell(3.0, 0.5), "bigram": cell(2.5, 0.5)}}
    given = losses({(PAIR, 0, "a"): 1.0}, {(PAIR, 0, "a"): (5.0, 5.0, 5.0)})
    assert failures(given, baselines, 0.05) == {}


def test_without_texts_nothing_can_be_told() -> None:
    assert failures(losses({(ALONE, 0, "a"): 99.0}, {(ALONE, 0, "a"): (99.0,)}), {}, 0.05) == {}
