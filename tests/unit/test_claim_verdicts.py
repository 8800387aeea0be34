"""What is said of a claim, by its excess exponent."""

import pytest

from audits.core.intervals import Interval, Undefined
from audits.scaling.claim_verdicts import Verdict, verdict
from audits.scaling.growth_claims import Law
from audits.scaling.growth_fits import Growth


def growth(low: float | None, high: float | None, *, decided: bool = True, **more: object) -> Growth:
    found = Interval(value=0.0, low=low, high=high, method="none" if low is None else "range", n=9, unit="rounds")
    return Growth(exponent=found, decided=decided, refutable=True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "decided", "word"),
    [
        (-0.1, 0.1, True, "confirmed"),
        (-0.1, 0.1, False, "undecided"),
        (-0.1, 0.2, True, "undecided"),
        (0.1, 0.2, True, "undecided"),
        (0.2, 0.3, True, "refuted"),
        (0.2, 0.3, False, "refuted"),
        (None, None, True, "undecided"),
    ],
)
def test_a_claim_is_an_upper_bound(low: float | None, high: float | None, decided: bool, word: str) -> None:
    assert verdict(growth(low, high, decided=decided), Law(1), 0.15) == Verdict(word)  # type: ignore[arg-type]


def test_growth_far_below_a_claim_keeps_it() -> None:
    assert verdict(growth(-1.1, -0.9), Law(2), 0.15) == Verdict("confirmed", slower=True)


def test_contended_seconds_and_no_exponent_decide_nothing() -> None:
    assert verdict(growth(0.2, 0.3), Law(1), 0.15, contended=True).word == "undecided"
    assert verdict(Growth(exponent=Undefined("No sizes.")), Law(1), 0.15).word == "undecided"


def test_an_exact_logarithm_is_no_tolerance() -> None:
    counts = growth(0.05, 0.06, leading=Law(1, 1))
    assert verdict(counts, Law(1), 0.15).word == "refuted" and verdict(counts, Law(1, 1), 0.15).word == "confirmed"
