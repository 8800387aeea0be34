"""The findings: how far certificates reach, on what share of the images, what noise costs, and who differs."""

from audits.certification.attack_findings import find_attacks
from audits.certification.certificates import ABSTAIN
from audits.certification.conclusion import conclude
from audits.certification.differences import find_differences
from audits.certification.log_comparison import LogCounts
from audits.certification.log_comparison_findings import find_in_logs
from audits.certification.log_findings import find_in_log
from audits.certification.measure import Counts
from audits.certification.rules import Rule
from audits.certification.run_warnings import HALF, warn
from audits.certification.wording import accuracy_at, beyond_reach, certain, headline_of, over_images, settings_of
from audits.core.context import Draft
from audits.core.numbers import counted
from audits.core.records import Estimate
from audits.core.wording import listed, span

MOST_NAMED = 4
"""Further radii whose certified accuracy stands in the statement; all of them are in the evidence."""


def findings(draft: Draft, counts: Counts | LogCounts) -> None:
    """Add findings, warnings and limits of a run, or of logs whose settings were read from their radii."""
    if isinstance(counts, LogCounts):
        find_in_logs(draft, counts)
        return
    if counts.inputs.log and counts.reading:
        find_in_log(draft, counts.inputs.log, counts.rule, counts.reading)
    _find_noise(draft)
    _find_accuracy(draft, counts)
    find_differences(draft, counts.rule, counts.inputs.attributes)
    find_attacks(draft, counts)
    warn(draft, counts)
    conclude(draft, counts)


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
    rows = _worth_a_sentence(draft, counts.rule)
    if all(row.predict == ABSTAIN for row in counts.verdicts):
        rate = draft.row("abstention_rate")
        images = counted(len(counts.verdicts), "images")
        draft.find(
            "certify.nothing",
            "high",
            f"None of the {images} is certified at any radius. {settings_of(counts)}",
            [rate, *rows],
            headline=f"Nothing is certified: the smoothed classifier abstains on all images, share {span(rate)}.",
            how_sure=over_images(rate),
        )
        return
    # What so many draws cannot certify says nothing of the classifier.
    lost = beyond_reach(counts)
    reached = [row for row in rows if row.value > 0 or row.where["radius"] not in lost]
    # Radius 0 asks for the right answer alone: the first positive one says more.
    first = next((row for row in reached or rows if float(row.where["radius"]) > 0), rows[0])
    rest = [row for row in reached if row is not first]
    further = f"It is {listed([accuracy_at(row) for row in rest[:MOST_NAMED]])}" if rest else ""
    further += f", and at {len(rest) - MOST_NAMED} more radii as the table says" if len(rest) > MOST_NAMED else ""
    draft.find(
        "certify.accuracy",
        "info",
        f"{f'{further}. ' if rest else ''}{settings_of(counts)}",
        [first, *(row for row in rows if row is not first)],
        headline=headline_of(counts, first)
        if reached
        else f"No radius that was asked for can be certified with n = {counts.rule.looks[-1]:,} draws.",
        how_sure=f"{certain(counts)} {over_images(first)} {_counts_as(counts)}",
        radius=rows[-1].where["radius"],
    )


def _counts_as(counts: Counts) -> str:
    """Return which images count as certified."""
    rule, log = counts.rule, counts.reading
    condition = (
        f", if no soft output rises faster than the constant {rule.geometry.lipschitz:g} asserted"
        if rule.soft and rule.asserted
        else ""
    )
    return (
        f"Counted are images on which the smoothed classifier is right and {'said' if log else 'proved'} not to change "
        f"its answer within the radius ({rule.geometry.norm} distance){condition}."
    )


def _find_noise(draft: Draft) -> None:
    noisy, clean = draft.get("noisy_accuracy"), draft.get("clean_accuracy")
    if noisy is None or clean is None:
        return
    text = (
        f"Without noise it is {span(clean)}. Under noise it is the mean share of an image's draws, without noise the "
        "share of images."
    )
    defeated = (noisy.high or 1.0) < HALF
    if not defeated and (noisy.high or 1.0) >= (clean.low or 0.0):
        return
    so = ": the network is wrong more often than right." if defeated else ", lower than without noise."
    draft.find(
        "certify.noise-defeats" if defeated else "certify.noise-costs",
        "high" if defeated else "low",
        text,
        [noisy, clean],
        headline=f"Accuracy under noise is {span(noisy)}{so}",
        how_sure=over_images(noisy),
    )
