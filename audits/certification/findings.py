"""The findings: how far certificates reach, on what share of the images, what noise costs, and who differs."""

from audits.certification.certificates import ABSTAIN
from audits.certification.differences import find_differences
from audits.certification.log_findings import find_in_log
from audits.certification.log_fit import Reading
from audits.certification.measure import Counts
from audits.certification.rules import Rule
from audits.certification.run_warnings import HALF, warn
from audits.core.context import Draft
from audits.core.numbers import bounded, counted, described, interval, level_of
from audits.core.records import Estimate
from audits.core.wording import span


def findings(draft: Draft, counts: Counts) -> None:
    """Add findings, warnings and limits of a run, or of a log whose settings were read from its radii."""
    if counts.inputs.log and counts.reading:
        find_in_log(draft, counts.inputs.log, counts.rule, counts.reading)
    _find_noise(draft)
    _find_accuracy(draft, counts)
    find_differences(draft, counts.rule, counts.inputs.attributes)
    warn(draft, counts)


def _worth_a_sentence(draft: Draft, rule: Rule) -> list[Estimate]:
    """Return the rows of the curve that get a finding.

    All that were asked for; of a grid the smallest positive radius, and the largest that at least half of the images
    reach, or any at all.
    """
    curve = [draft.row("certified_accuracy", radius=radius) for radius in rule.radii]
    if rule.asked:
        return curve
    positive = [row for row in curve if float(row.where["radius"]) > 0] or curve
    half = [row for row in positive if (row.low or 0.0) >= HALF]
    some = [row for row in positive if row.value > 0]
    last = (half or some or positive)[-1]
    return [positive[0]] if last is positive[0] else [positive[0], last]


def _find_accuracy(draft: Draft, counts: Counts) -> None:
    rule, reading = counts.rule, counts.reading
    rows = _worth_a_sentence(draft, rule)
    if all(row.predict == ABSTAIN for row in counts.verdicts):
        images = counted(len(counts.verdicts), "images")
        draft.find(
            "certify.nothing",
            "high",
            f"Nothing could be certified at any radius: the smoothed classifier abstains on all {images}.",
            [draft.row("abstention_rate"), *rows],
        )
        return
    reach = ", ".join(_within(row) for row in rows)
    draft.find(
        "certify.accuracy",
        "info",
        f"{_subject(rule, reading)} is right, and {'said' if reading else 'proved'} not to change its answer "
        f"({rule.geometry.norm} distance; {_certain(counts)}), {reach}; {level_of(rows[0])}, "
        f"{counted(rows[0].n, rows[0].unit)}. Intervals are over images.",
        rows,
        radius=rows[-1].where["radius"],
    )


def _within(row: Estimate) -> str:
    """Return the share of the images that reach a radius, in words."""
    share = span(row) if row.value else f"none ({interval(row)})"
    return f"within {float(row.where['radius']):g} on {share}"


def _certain(counts: Counts) -> str:
    """Return the error probability of a certificate in words; of a log, what its radii allow."""
    alpha, reading = counts.alpha, counts.reading
    if alpha is not None:
        # Where the radii fit several, the one that was named is no more than that.
        given = f", if alpha was {alpha:g}" if reading and reading.outcome == "fits" and reading.fitting(alpha) else ""
        return f"each certificate false with probability {alpha:g} at most{given}"
    if reading and reading.needed and reading.outcome == "larger alpha":
        return f"each certificate with an error probability of {bounded(reading.needed[1])} or more"
    return "with which error probability, is not known"


def _subject(rule: Rule, reading: Reading | None) -> str:
    subject = f"he smoothed classifier (sigma {rule.geometry.sigma:g})"
    if reading:
        # A sigma that the radii contradict is not repeated.
        known = reading.outcome != "other settings"
        return f"By the log, t{subject}" if known else "By the log, the smoothed classifier"
    if rule.soft and rule.asserted:
        return f"If no output rises faster than the constant {rule.geometry.lipschitz:g} asserted, t{subject}"
    return f"T{subject}"


def _find_noise(draft: Draft) -> None:
    noisy, clean = draft.get("noisy_accuracy"), draft.get("clean_accuracy")
    if noisy is None or clean is None:
        return
    accuracies = f"under this noise it is right on {described(noisy)}, without noise on {described(clean)}"
    if (noisy.high or 1.0) < HALF:
        draft.find(
            "certify.noise-defeats",
            "high",
            f"The network is wrong more often than right: {accuracies} (shares of draws and of images).",
            [noisy, clean],
        )
    elif (noisy.high or 1.0) < (clean.low or 0.0):
        draft.find("certify.noise-costs", "low", f"Noise costs the network accuracy: {accuracies}.", [noisy, clean])
