"""Verdicts on claims: whether a growth keeps within an upper bound, O(law)."""

from dataclasses import dataclass
from typing import Literal

from audits.core.intervals import Interval
from audits.scaling.growth_claims import Law
from audits.scaling.growth_fits import Growth

Word = Literal["confirmed", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a claim; `slower`: the growth stays below it by more than the tolerance."""

    word: Word
    slower: bool = False


def verdict(excess: Growth, claim: Law, tolerance: float, *, contended: bool = False) -> Verdict:
    """Hold the exponent in excess of a claim against a tolerance.

    Parameters
    ----------
    excess
        Of `seconds_excess` or `count_exponent` with the claim.
    contended
        Whether seconds were measured beside others' work: they decide nothing.
    """
    found = excess.exponent
    if contended or not isinstance(found, Interval) or found.low is None or found.high is None:
        return Verdict("undecided")
    if excess.refutable and found.low > tolerance:
        return Verdict("refuted")
    # A logarithm is less than a tolerance, yet it is there: the terms of counts are exact.
    if excess.decided and excess.leading is not None and excess.leading.outgrows(claim):
        return Verdict("refuted")
    if excess.decided and found.high <= tolerance:
        return Verdict("confirmed", slower=found.high < -tolerance)
    return Verdict("undecided")
