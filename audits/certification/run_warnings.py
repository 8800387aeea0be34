"""Limitations of every certificate, and warnings of the rule, the run or the log."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from audits.certification.drawing_settings import STOPPING, DrawingSettings, differences, settings_of
from audits.certification.log_fit import Reading
from audits.certification.measure import Counts
from audits.certification.rules import Rule, reach_words, too_few
from audits.core.context import Draft
from audits.core.numbers import bounded, point
from audits.core.records import Coordinate

Where = Mapping[str, Coordinate]
ALL: Where = MappingProxyType({})
HALF = 0.5
LIKELY = 0.05
"""Probability of at least one false certificate from which on it is warned of."""
VOTES = (
    "A certificate holds for the smoothed classifier, which answers by a vote under noise. It says nothing about the "
    "network alone, whose answer to a single image may change with the smallest perturbation."
)
SOFT = (
    "A certificate holds for the smoothed classifier, which answers by its mean soft output under noise: another "
    "classifier than the vote. It says nothing about the network alone, whose answer to a single image may change."
)
EXECUTED = (
    "The network is certified as it was executed, in floating point: dtype, device and versions stand in the "
    "provenance, those of counts drawn earlier in the note on the input. "
    "Rounding inside the network and the noise generator is not covered by the proof."
)
IN_LOGS = "The certificates are those of the log. Nothing was drawn here: model, images and draws were not checked."
JUDGED_AGAIN = (
    "These certificates judge counts that were drawn earlier. Whoever chooses alpha, interval or radii by what the "
    "counts show loses the guarantee that they name."
)


RANDOMISED = (
    "The limits are randomised: the radius of each image depends on a random number of its own too (u in records.csv). "
    "Whoever chooses among seeds by their radii loses the guarantee that alpha names."
)


def warn(draft: Draft, counts: Counts) -> None:
    """Add the limitations of this run, before those of every run, and its warnings."""
    rule, reading = counts.rule, counts.reading
    draft.limitations.insert(0, SOFT if rule.soft else VOTES)
    draft.limit(IN_LOGS if reading else EXECUTED)
    _warn_sigma(draft, rule, log=reading is not None)
    draft.warn("smoothed-classifier", SOFT if rule.soft else VOTES)
    if not reading:
        draft.warn("floating-point", EXECUTED)
    if reading:
        _warn_reach_of_log(draft, rule, reading)
    else:
        _warn_reach(draft, rule)
    if rule.randomised:
        draft.warn("randomised-limits", RANDOMISED)
    _warn_false(draft, log=reading is not None)
    _warn_run(draft, rule)
    _warn_stopping(draft, rule, counts.inputs.drawing if counts.inputs.stored else settings_of(rule))
    if counts.inputs.stored:
        draft.warn("judged-again", JUDGED_AGAIN)
        _warn_drawn(draft, rule, counts.inputs.drawing)


def _warn_drawn(draft: Draft, rule: Rule, drawing: DrawingSettings | None) -> None:
    """Warn where counts were drawn for another question, or do not say for which."""
    if drawing is None and rule.mode in STOPPING:
        draft.warn(
            "drawn-otherwise",
            f"The counts were drawn in mode {rule.mode} and do not say for which radii and alpha: more draws might "
            "certify more here.",
        )
    if drawing is None:
        return
    other = differences(drawing, rule) if rule.mode in STOPPING else []
    if other:
        draft.warn(
            "drawn-otherwise",
            f"The draws of mode {rule.mode} stopped by other settings: {'; '.join(other)}. The certificates hold, but "
            "more draws might certify more.",
        )
    if drawing.randomised != rule.randomised:
        were, are = ("randomised", "not") if drawing.randomised else ("not randomised", "randomised")
        draft.warn("randomised-otherwise", f"The limits of the run that drew were {were}; here they are {are}.")


def warn_of_log(draft: Draft, rule: Rule, reading: Reading, /, name: str) -> None:
    """Add the warnings of one among several logs that it would have alone."""
    _warn_sigma(draft, rule, log=True, where={"log": name})
    _warn_reach_of_log(draft, rule, reading, where={"log": name})
    _warn_false(draft, log=True, where={"log": name})


def warn_of_votes(draft: Draft, rule: Rule) -> None:
    """Add what holds for the certificates of all logs: whose they are, and how their draws stopped."""
    draft.limitations.insert(0, VOTES)
    draft.limit(IN_LOGS)
    draft.warn("smoothed-classifier", VOTES)
    _warn_run(draft, rule)
    _warn_stopping(draft, rule, settings_of(rule))


def _warn_sigma(draft: Draft, rule: Rule, *, log: bool, where: Where = ALL) -> None:
    kind = (
        "half the width of the uniform noise" if rule.geometry.norm == "l1" else "the standard deviation of the noise"
    )
    given = ", as it was given," if log else ""
    draft.warn(
        "sigma-unit",
        f"sigma {rule.geometry.sigma:g}{given} is {kind} in units of pixels in [0, 1] (in grey levels: "
        f"{255 * rule.geometry.sigma:.4g}); radii are {rule.geometry.norm} distances in the same unit.",
        **where,
    )


def _warn_reach_of_log(draft: Draft, rule: Rule, reading: Reading, where: Where = ALL) -> None:
    # A log is held to the alpha that its radii allow; where that is not known, neither is what could be reached.
    if reading.alpha is not None:
        _warn_reach(draft, replace(rule, alpha=reading.alpha), where)


def _warn_reach(draft: Draft, rule: Rule, where: Where = ALL) -> None:
    """Warn of radii that this number of draws cannot certify."""
    needed = too_few(rule)
    if needed:
        # Unanimous votes give the limit (share / u)^(1/n), which is 1/2 or more where u is share 2^n at most.
        lucky = bounded(rule.share * 2 ** rule.looks[-1], up=True)
        votes = (
            f"unanimous votes certify an image with probability {lucky} at most, by its random number; without "
            f"one it takes {needed} draws at least."
            if rule.randomised
            else f"not even unanimous votes certify anything: it takes {needed} draws at least."
        )
        draft.warn(
            "few-draws",
            f"With n = {rule.looks[-1]} and an error probability of {rule.share:g} a look, {votes}",
            **where,
        )
    for text in reach_words(rule):
        draft.warn("beyond-ceiling", text, **where)


def _warn_false(draft: Draft, *, log: bool, where: Where = ALL) -> None:
    """Warn of false certificates among many."""
    bound = draft.get("false_certificate_bound", **where)
    if bound is None or bound.value <= LIKELY:
        return
    draft.warn(
        "false-certificates",
        f"alpha holds for each image alone: over {bound.n:,} images the probability that at least one certificate "
        f"is false may be as large as {point(bound)}."
        + ("" if log else " --family-wise makes it hold for all together."),
        **where,
    )


def _warn_run(draft: Draft, rule: Rule) -> None:
    """Warn of what network, mode or constant mean for the certificates of a run."""
    noisy = draft.get("noisy_accuracy")
    if noisy and noisy.value < HALF:
        draft.warn(
            "noisy-accuracy",
            f"Under noise of {rule.geometry.sigma:g} the network is right on less than half of the draws. Train it "
            "with noise, or use less.",
        )
    if rule.soft and rule.asserted:
        draft.warn(
            "asserted-lipschitz",
            f"The Lipschitz constant {rule.geometry.lipschitz:g} is the user's word. If an output rises faster "
            "anywhere, the radii are not certified.",
        )


def _warn_stopping(draft: Draft, rule: Rule, drawing: DrawingSettings | None) -> None:
    """Warn of what early stops cost, by what draws were made for."""
    if rule.mode not in ("decide", "anytime") or drawing is None:
        return
    less = "smaller than all draws would give."
    if not drawing.radii:
        text = (
            f"Draws stop where all {rule.n:,} are expected to add {drawing.target_loss:g} of the radius at most, or of "
            f"sigma / 2 where the radius is smaller: the average certified radius is {less}"
        )
    elif rule.asked and drawing.radii == rule.radii:
        text = (
            "Draws stop as soon as the radii asked are decided: certified accuracy is meant at these radii, and the "
            f"average certified radius is {less}"
        )
    else:
        # Of draws for other radii, `drawn-otherwise` says that more might certify more.
        return
    draft.warn("early-stopping", text)
