"""Findings on a log: whether its radii fit the settings that were named for it."""

from collections.abc import Mapping

from audits.certification import Options
from audits.certification.log_fit import Fit, Reading
from audits.certification.logs import USUAL_ALPHAS, Log
from audits.certification.rules import Rule
from audits.certification.wording import least_alpha
from audits.core.context import Draft
from audits.core.numbers import exceeding, given
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
    headlines = [headline]
    if reading.outcome == "larger alpha":
        headlines.insert(0, f"{headline.removesuffix('.')}{_fitting_alone(reading, rule)}.")
    headline = fitting(*(f"{where['log']}: {words}" for words in headlines if where), *headlines)
    how = f"{_HOW}{_tested(reading, rule)}"
    draft.find(id, severity, text, evidence, headline=headline, how_sure=how, **where)


def _said(
    draft: Draft, log: Log, rule: Rule, reading: Reading, where: Mapping[str, Coordinate]
) -> tuple[str, Severity, str, str, Estimate | None]:
    """Return id, severity, headline and statement of the finding, and the row of the headline's number."""
    named = f"n = {rule.n:,} and alpha = {given(rule.alpha)}"
    assert reading.needed is not None
    implied, own = draft.get("implied_alpha", **where), reading.fits.get(rule.alpha)
    if reading.outcome == "other settings":
        headline = "Sigma or n is not the log's: no alpha in use explains its largest radius."
        return "certify.other-settings", "high", headline, _asked(log, rule, reading), implied
    if reading.outcome == "larger alpha":
        text = (
            f"It cannot come from {named}: even unanimous votes need an alpha of at least {_least(rule, reading)}."
            f"{_others(reading, rule)} The certificates are weaker than those of alpha = {given(rule.alpha)}."
        )
        return "certify.implied-alpha", "high", _needing(rule, reading), text, implied
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


def _least(rule: Rule, reading: Reading) -> str:
    """Return the least alpha that is needed: as its range begins, or with digits enough to be above the one named."""
    assert reading.needed is not None
    shown = least_alpha(reading)
    return shown if float(shown.replace(" x 10^", "e")) > rule.alpha else exceeding(reading.needed[1], rule.alpha)


def _needing(rule: Rule, reading: Reading) -> str:
    """Return the headline on a log that was read with too small an alpha."""
    # Whoever named no alpha was given the default, which is not the log's fault.
    read_with = given(rule.alpha) + (", the default" if rule.alpha == Options().alpha else "")
    least = _least(rule, reading)
    # More digits than the evidence has stand in the statement only.
    if least != least_alpha(reading):
        return f"The log's largest radius needs a larger alpha than {read_with}, with which it was read."
    return f"The log's largest radius needs an alpha of at least {least}; it was read with {read_with}."


def _fitting_alone(reading: Reading, rule: Rule) -> str:
    """Return which alpha fits the radii as most tools print them, where it is the only one that fits; else nothing."""
    others = reading.fitting(rule.alpha)
    return f"; {others[0].alpha:g} fits" if len(others) == 1 and "nearest" in others[0].roundings else ""


def _asked(log: Log, rule: Rule, reading: Reading) -> str:
    assert reading.needed is not None
    largest = f"{float(log.radii.max()):g}"
    least = exceeding(min(reading.needed[1], 1.0), max(rule.alpha, *USUAL_ALPHAS), 2)
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
