"""Wording that findings and the answer share: certified accuracy, the settings behind it, and how sure it is."""

from dataclasses import replace

from audits.certification.bounds import Method
from audits.certification.drawing_settings import settings_of as settings_of_rule
from audits.certification.log_fit import Reading
from audits.certification.measure import Counts
from audits.certification.rules import Mode, Rule, out_of_reach
from audits.core.numbers import RANGE, counted, ends, level_of
from audits.core.records import Estimate
from audits.core.wording import span

_DRAWS: dict[Mode, str] = {
    "fixed": "n = {:,} draws an image",
    "decide": "draws until the radii are decided, n = {:,} an image at the most,",
    "anytime": "draws until they settle what is asked, n = {:,} an image at the most,",
    "pilot": "as many draws as a pilot asks for, n = {:,} an image at the most,",
}
_BY_LOSS = "draws until more are expected to add {:g} of the radius at most, n = {:,} an image at the most,"
"""Of `anytime` where no radii were asked."""
_DRAWN_OTHERWISE = "draws until they settled what was asked then, n = {:,} an image at the most,"
"""Of counts that are judged by other radii than those that they were drawn for, or that do not name these."""
_LIMITS: dict[Method, str] = {
    "one-sided": "limits of the top class alone",
    "two-class": "limits of the top class and its rivals",
    "auto": "limits of the top class alone or with its rivals, as the first draws favour",
}


def accuracy_at(row: Estimate) -> str:
    """Return a certified accuracy with its radius, for the middle of a sentence."""
    return f"{span(row)} at radius {float(row.where['radius']):g}"


def beyond_reach(counts: Counts) -> tuple[float, ...]:
    """Return the radii at which certified accuracy tells of the number of draws alone."""
    alpha = counts.alpha
    return out_of_reach(counts.rule if alpha is None else replace(counts.rule, alpha=alpha))


def headline_of(counts: Counts, row: Estimate) -> str:
    """Return the answer at one radius, with the source that it rests on."""
    rule = counts.rule
    if counts.reading:
        return f"By the log, certified accuracy is {accuracy_at(row)}."
    if rule.soft and rule.asserted:
        return f"With the Lipschitz constant that you asserted, certified accuracy is {accuracy_at(row)}."
    return f"Certified accuracy is {accuracy_at(row)}."


def settings_of(counts: Counts) -> str:
    """Return the settings that make the certificates, as a sentence."""
    rule = counts.rule
    if counts.reading:
        return settings_of_log(rule, counts.reading)
    noise = f"sigma {rule.geometry.sigma:g} ({rule.geometry.norm})"
    ties = ", randomised" if rule.randomised else ""
    first = f"a pilot of {rule.pilot:,} that chooses" if rule.mode == "pilot" else f"n0 = {rule.n0:,} that choose"
    soft = f", soft outputs with the Lipschitz constant {rule.geometry.lipschitz:.6g}" if rule.soft else ""
    return (
        f"Settings: {noise}, {_draws(counts)} after {first}, "
        f"alpha {rule.alpha:.6g} an image, {_LIMITS[rule.method]}{ties}{soft}."
    )


def _draws(counts: Counts) -> str:
    """Return how many draws an image has, by what they were made for."""
    rule, now = counts.rule, settings_of_rule(counts.rule)
    drawing = counts.inputs.drawing if counts.inputs.stored else now
    if rule.mode == "anytime" and drawing and not drawing.radii:
        return _BY_LOSS.format(drawing.target_loss, rule.n)
    if rule.mode in ("decide", "anytime") and (drawing is None or drawing.radii != now.radii):
        return _DRAWN_OTHERWISE.format(rule.n)
    return _DRAWS[rule.mode].format(rule.n)


def settings_of_log(rule: Rule, reading: Reading, whom: str = "the log") -> str:
    """Return the settings that were named for a log, as a sentence."""
    if reading.outcome == "other settings":
        # A sigma that the radii contradict is not repeated.
        return "With which noise and how many draws, the log's radii leave open."
    return f"As named for {whom}: sigma {rule.geometry.sigma:g} ({rule.geometry.norm}), n = {rule.n:,}."


def certain(counts: Counts) -> str:
    """Return the error probability of a certificate as a sentence; of a log, what its radii allow."""
    return certain_at(counts.alpha, counts.reading)


def certain_at(alpha: float | None, reading: Reading | None) -> str:
    """Return an error probability as a sentence; of a log, what its radii allow."""
    if alpha is not None:
        # Where the radii fit several, the one that was named is no more than that.
        given = f", if alpha was {alpha:g}" if reading and reading.outcome == "fits" and reading.fitting(alpha) else ""
        return f"Each certificate is false with probability {alpha:g} at most{given}."
    if reading and reading.needed and reading.outcome == "larger alpha":
        return f"Each certificate has an error probability of {least_alpha(reading)} or more."
    return "With which error probability a certificate is false, is not known."


def least_alpha(reading: Reading) -> str:
    """Return the least alpha that the largest radius of a log needs, as the range of `implied_alpha` begins."""
    assert reading.needed is not None
    value, low, high = reading.needed
    shown = ends(Estimate(name="range", value=value, low=low, high=high, method=RANGE, n=1, unit="radius"))
    assert shown is not None
    return shown[0]


def over_images(row: Estimate) -> str:
    """Return what the intervals are over, as a sentence."""
    return f"Intervals are over images: {level_of(row)}, {counted(row.n, row.unit)}."
