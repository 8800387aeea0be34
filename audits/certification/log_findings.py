"""Findings on a log: whether its radii fit the settings that were named for it."""

from audits.certification.log_fit import Fit, Reading
from audits.certification.logs import Log
from audits.certification.rules import Rule
from audits.core.context import Draft
from audits.core.numbers import bounded
from audits.core.wording import listed

_PRINTED = {
    ("nearest",): "rounded to nearest when printed",
    ("down",): "cut off when printed",
    ("nearest", "down"): "however it was rounded when printed",
}
_WAYS = {
    ("nearest",): "only if they were rounded to nearest",
    ("down",): "only if they were cut off",
    ("nearest", "down"): "however they were rounded",
}


def find_in_log(draft: Draft, log: Log, rule: Rule, reading: Reading) -> None:
    """Add a finding on whether the radii of a log fit the settings that were named; none without positive radii."""
    if reading.needed is None:
        return
    fits = reading.fits
    # The share of what was named, and those of all that fit.
    shares = [
        row
        for row in draft.select("reachable_share")
        if row.where["alpha"] == rule.alpha or fits[float(row.where["alpha"])].roundings
    ]
    evidence = [draft.get("implied_alpha"), *shares]
    named = f"n = {rule.n:,} and alpha = {rule.alpha:g}"
    if reading.outcome == "other settings":
        draft.find("certify.other-settings", "high", _asked(log, rule, reading), evidence)
    elif reading.outcome == "larger alpha":
        draft.find(
            "certify.implied-alpha",
            "high",
            f"The log's largest radius cannot come from {named}: even unanimous votes need an alpha of at least "
            f"{bounded(reading.needed[1])}.{_others(reading, rule)} Its certificates are weaker than those "
            f"of alpha = {rule.alpha:g}.",
            evidence,
        )
    elif reading.outcome == "other alpha":
        explained, testable = max(
            reading.fits[rule.alpha].counts.values(), key=lambda pair: (pair[0] / max(pair[1], 1), pair)
        )
        draft.find(
            "certify.unreachable-radii",
            "high",
            f"{testable - explained} of {testable} radii cannot come from n = {rule.n:,} whole votes, one-sided "
            f"limits, sigma = {rule.geometry.sigma:g} and alpha = {rule.alpha:g}, however they were rounded."
            f"{_others(reading, rule)}",
            evidence,
        )
    elif reading.outcome == "doubtful":
        draft.find(
            "certify.doubtful-alpha",
            "medium",
            f"Whether the log was made with alpha = {rule.alpha:g} is in doubt: its radii fit that only if they were "
            f"cut off when printed ({_count(reading.fits[rule.alpha])}).{_others(reading, rule)} Ask how they were "
            "printed, or with which alpha they were made.",
            evidence,
        )
    else:
        draft.find("certify.consistent-log", "info", _consistent(rule, reading, named), evidence)


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
    return f"all {testable} radii that can tell" if testable > 1 else "the one radius that can tell"


def _others(reading: Reading, rule: Rule, too: str = "") -> str:
    """Return which other alphas fit every radius that can be tested, and with which rounding, in words."""
    others = reading.fitting(rule.alpha)
    if not others:
        return " The log's radii fit no alpha in common use." if reading.fits else ""
    fits = [f"alpha = {fit.alpha:g} {_WAYS[fit.roundings]} ({_count(fit)})" for fit in others]
    return f" The log's radii {too}fit {listed(fits)}."


def _consistent(rule: Rule, reading: Reading, named: str) -> str:
    own = reading.fits.get(rule.alpha)
    if own is None:
        return f"The largest radius does not contradict {named}."
    if not own.testable:
        return (
            f"Nothing in the log contradicts {named}, but nothing could: possible radii lie closer together than its "
            "digits tell apart."
        )
    testable = max(testable for _, testable in own.counts.values())
    text = f"Every radius that can tell ({testable}) agrees with {named}, {_PRINTED[own.roundings]}."
    if not reading.fitting(rule.alpha):
        return text
    return f"{text}{_others(reading, rule, 'also ')} Which alpha it was, the log does not tell."
