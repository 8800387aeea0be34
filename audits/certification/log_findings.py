"""Findings on a log: whether its radii fit the settings that were named for it."""

from collections.abc import Mapping

from audits.certification import Options
from audits.certification.log_fit import Fit, Reading
from audits.certification.logs import Log
from audits.certification.rules import Rule
from audits.core.context import Draft
from audits.core.numbers import bounded
from audits.core.records import Coordinate, Estimate, Severity
from audits.core.wording import fitting, listed

_PRINTED = {
    ("nearest",): "as rounded to nearest when printed",
    ("down",): "as cut off when printed",
    ("nearest", "down"): "however it was rounded when printed",
}
_WAYS = {("nearest", "down"): "however rounded", ("nearest",): "if rounded to nearest", ("down",): "if cut off"}

_HOW = (
    "Votes are whole numbers, so only some radii can come from a sigma, an n and an alpha; one can tell where possible "
    "radii lie further apart than its digits resolve."
)


def find_in_log(draft: Draft, log: Log, rule: Rule, reading: Reading, /, **where: Coordinate) -> None:
    """Add a finding on whether the radii of a log fit the settings that were named; none without positive radii.

    Of one among several logs the headline begins with its name, `where["log"]`.
    """
    if reading.needed is None:
        return
    fits = reading.fits
    # The share of what was named, and those of all that fit.
    shares = [
        row
        for row in draft.select("reachable_share", **where)
        if row.where["alpha"] == rule.alpha or fits[float(row.where["alpha"])].roundings
    ]
    id, severity, headline, text, first = _said(draft, log, rule, reading, where)
    evidence = [first, *(row for row in (draft.get("implied_alpha", **where), *shares) if row is not first)]
    headline = fitting(f"{where['log']}: {headline}", headline) if where else headline
    how = f"{_HOW}{_tested(reading, rule)}"
    draft.find(id, severity, text, evidence, headline=headline, how_sure=how, **where)


def _said(
    draft: Draft, log: Log, rule: Rule, reading: Reading, where: Mapping[str, Coordinate]
) -> tuple[str, Severity, str, str, Estimate | None]:
    """Return id, severity, headline and statement of the finding, and the row of the headline's number."""
    named = f"n = {rule.n:,} and alpha = {rule.alpha:g}"
    assert reading.needed is not None
    implied, own = draft.get("implied_alpha", **where), reading.fits.get(rule.alpha)
    if reading.outcome == "other settings":
        headline = "Sigma or n is not the log's: no alpha in use explains its largest radius."
        return "certify.other-settings", "high", headline, _asked(log, rule, reading), implied
    if reading.outcome == "larger alpha":
        least = bounded(reading.needed[1])
        text = f"It cannot come from {named}: even unanimous votes need an alpha of at least {least}."
        text += f"{_others(reading, rule)} The certificates are weaker than those of alpha = {rule.alpha:g}."
        # Whoever named no alpha was given the default, which is not the log's fault.
        read_with = f"{rule.alpha:g}, the default" if rule.alpha == Options().alpha else f"{rule.alpha:g}"
        headline = f"The log's largest radius needs an alpha of at least {least}; it was read with {read_with}."
        return "certify.implied-alpha", "high", headline, text, implied
    if own is None or not own.testable:
        text = _consistent(rule, reading, named)
        headline = "Nothing in the log contradicts the settings that were named, but nothing could."
        if own is None:
            headline = "The largest radius of the log does not contradict the alpha that was named."
        return "certify.consistent-log", "info", headline, text, None
    way, (explained, testable) = max(own.counts.items(), key=lambda item: (item[1][0] / max(item[1][1], 1), item[1]))
    first = draft.get("reachable_share", **where, alpha=rule.alpha, rounding=way)
    if reading.outcome == "other alpha":
        text = (
            f"They cannot come from n = {rule.n:,} whole votes, one-sided limits, sigma = {rule.geometry.sigma:g} and "
            f"alpha = {rule.alpha:g}, however they were rounded.{_others(reading, rule)}"
        )
        headline = f"{testable - explained} of {testable} radii cannot come from the settings that were named."
        return "certify.unreachable-radii", "high", headline, text, first
    if reading.outcome == "doubtful":
        text = f"The log's radii fit alpha = {rule.alpha:g} only if they were cut off when printed."
        text += f"{_others(reading, rule)} Ask how they were printed, or with which alpha they were made."
        headline = "The alpha that was named is in doubt: radii that were rounded to nearest fit another."
        return "certify.doubtful-alpha", "medium", headline, text, first
    also = "; other alphas fit as well" if reading.fitting(rule.alpha) else ""
    headline = f"All {testable} radii that can tell fit the settings named{also}."
    if testable == 1:
        headline = f"The one radius that can tell fits the settings named{also}."
    return "certify.consistent-log", "info", headline, _consistent(rule, reading, named), first


def _asked(log: Log, rule: Rule, reading: Reading) -> str:
    assert reading.needed is not None
    largest, least = f"{float(log.radii.max()):g}", bounded(min(reading.needed[1], 1.0), 2)
    return (
        f"The log does not fit sigma = {rule.geometry.sigma:g} and n = {rule.n:,}: with these its largest radius, "
        f"{largest}, would take an alpha of at least {least}, which nobody uses. One of the two is not the log's: with "
        "which sigma, and with how many draws, was it made?"
    )


def _count(fit: Fit) -> str:
    """Return how many radii could be tested against an alpha, in words."""
    testable = max(testable for _, testable in fit.counts.values())
    return f"{testable} radii" if testable > 1 else "1 radius"


def _others(reading: Reading, rule: Rule, too: str = "") -> str:
    """Return which other alphas fit every radius that can be tested, and with which rounding, in words."""
    others = reading.fitting(rule.alpha)
    if not others:
        return " The log's radii fit no alpha in common use." if reading.fits else ""
    by_way = {way: [f"{fit.alpha:g}" for fit in others if fit.roundings == way] for way in _WAYS}
    fits = [f"{listed(alphas)} {_WAYS[way]}" for way, alphas in by_way.items() if alphas]
    return f" The radii {too}fit alpha {'; '.join(fits)}."


def _tested(reading: Reading, rule: Rule) -> str:
    """Return how many radii each alpha that fits was tested by, in words."""
    own = reading.fits.get(rule.alpha)
    fits = [fit for fit in (own, *reading.fitting(rule.alpha)) if fit is not None and fit.testable]
    return f" Tested were {listed([f'{_count(fit)} for alpha {fit.alpha:g}' for fit in fits])}." if fits else ""


def _consistent(rule: Rule, reading: Reading, named: str) -> str:
    own = reading.fits.get(rule.alpha)
    if own is None:
        return f"The largest radius does not contradict {named}."
    if not own.testable:
        return (
            f"Nothing in the log contradicts {named}, but nothing could: possible radii lie closer together than its "
            "digits tell apart."
        )
    text = f"Named were {named}; the radii fit {_PRINTED[own.roundings]}."
    if not reading.fitting(rule.alpha):
        return text
    return f"{text}{_others(reading, rule, 'also ')} Which alpha it was, the log does not tell."
