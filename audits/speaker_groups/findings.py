"""The findings, in sentences that say no more than the intervals of their estimates."""

from audits.core.context import Draft
from audits.group_rates.clips import find_skipped
from audits.speaker_groups.conclusion import conclude
from audits.speaker_groups.further_findings import (
    MOST_NAMED,
    find_columns,
    find_explained,
    find_searched,
    find_systems,
)
from audits.speaker_groups.gap_findings import find_gap
from audits.speaker_groups.measure import Counts
from audits.speaker_groups.null_findings import find_not_shown


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings, and last what may and what may not be concluded."""
    verdicts, data = counts.verdicts, counts.data
    if any(row.method == "none" for row in draft.select("p_value")):
        draft.warn(
            "p-without-interval",
            "p-values of joint intervals, and of t and Wald tests, are computed, not sampled: they have no interval.",
        )
    if not verdicts:
        draft.find(
            "groups.nothing-compared",
            "info",
            f"No attribute has two groups with enough {data.unit} and words: nothing is said about any gap."
            if not counts.comparisons
            else "The hypothesis could not be tested: there is no adjusted model (see the warnings).",
            headline="Nothing could be compared.",
        )
    for verdict in verdicts:
        if verdict.found:
            find_gap(draft, counts, verdict)
    for system in range(len(data.systems)):
        silent = [verdict for verdict in verdicts if verdict.system == system and not verdict.found]
        if silent:
            find_not_shown(draft, counts, silent)
    find_explained(draft, counts)
    find_searched(draft, counts)
    find_systems(draft, counts)
    inputs = counts.inputs
    find_skipped(draft, "groups.skipped", inputs.clips, inputs.skipped, inputs.sets, most=MOST_NAMED)
    find_columns(draft, counts.inputs, counts.options)
    conclude(draft, counts)
