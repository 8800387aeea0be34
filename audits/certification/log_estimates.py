"""Estimates that check a log: the alpha that its largest radius needs, and the radii that whole votes reach."""

from audits.certification.log_fit import Reading
from audits.certification.logs import USUAL_ALPHAS, Log
from audits.certification.rules import Rule
from audits.core.context import Draft
from audits.core.intervals import Interval, exact
from audits.core.numbers import RANGE
from audits.core.records import Coordinate


def add_log_estimates(draft: Draft, log: Log, rule: Rule, reading: Reading, /, **where: Coordinate) -> None:
    """Add estimates that test the settings of a log, with warnings of what its rounding leaves open."""
    if log.contradictions:
        shown = ", ".join(str(line) for line in log.contradictions[:8])
        draft.warn(
            "contradictory-rows",
            f"On {len(log.contradictions)} lines (such as {shown}) `correct` is not whether `predict` is `label`; "
            "label and predict were believed.",
            **where,
        )
    draft.warn(
        "printed-radii",
        f"Radii were printed to {log.digits} significant digits, perhaps rounded up: an image may count as certified "
        "at a radius that it misses by half a digit.",
        **where,
    )
    if reading.needed is None:
        return
    if not reading.fits:
        draft.warn(
            "radii-not-checked",
            "Which radii whole votes can reach is known for one-sided limits and a fixed number of draws only; the "
            "largest radius was checked, the others were not.",
            **where,
        )
    _add_implied(draft, rule, reading.needed, **where)
    for alpha, fit in reading.fits.items():
        for way, (explained, testable) in fit.counts.items():
            if testable:
                share = exact(explained / testable, n=testable, unit="radii")
                draft.add("reachable_share", share, **where, alpha=alpha, rounding=way)


def _add_implied(draft: Draft, rule: Rule, needed: tuple[float, float, float], **where: Coordinate) -> None:
    """Add the least alpha that the largest radius needs, where it is a plausible one."""
    value, low, high = needed
    if high < min(rule.alpha, *USUAL_ALPHAS):
        draft.warn(
            "no-implied-alpha",
            "The largest radius does not tell the log's alpha: it lies below what unanimous votes reach with any alpha "
            "in common use.",
            **where,
        )
        return
    usual = [alpha for alpha in USUAL_ALPHAS if low <= alpha <= high]
    method = f"{RANGE} by the rounding of the largest radius{'; the usual alpha in it' * (len(usual) == 1)}"
    value = usual[0] if len(usual) == 1 else value
    draft.add("implied_alpha", Interval(value=value, low=low, high=high, method=method, n=1, unit="radius"), **where)
