"""The findings of each group: which error it shows, which is larger, and what could not be shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import point
from audits.core.records import Estimate, Severity
from audits.core.wording import size_words, span
from audits.phoneme_errors.conclusion import conclude, error_headline
from audits.phoneme_errors.further_findings import (
    find_changes,
    find_correlation,
    find_neither,
    in_layer,
    is_sure,
    layer_names,
)
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import RANDOM, SYSTEMATIC

LARGE, NOTABLE = 0.10, 0.05
"""Ends of intervals, shares of the tokens, from which the severity of an error is high, and medium."""
TELLING = 1.05
"""Low end of a ratio of variances from which a random error may be called the larger of the two."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one group: layers with a systematic and with a random error, and the layer to report."""

    group: str
    systematic: tuple[int, ...]
    random: tuple[int, ...]
    layer: int

    def row(self, draft: Draft, name: str, **where: str) -> Estimate | None:
        """Return an estimate of the group in that layer."""
        return draft.get(name, layer=self.layer, group=self.group, **where)


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings on each group, on speakers, and on the second encoder."""
    best = best_layer(draft, counts.layers)
    quiet: dict[str, list[str]] = {}
    for group, by in zip(counts.corpus.groups, counts.corpus.by, strict=True):
        judged = _judged(draft, counts, group, best)
        if judged.systematic or judged.random:
            _find_errors(draft, counts, judged)
        else:
            quiet.setdefault(by, []).append(group)
    for by, groups in quiet.items():
        find_neither(draft, counts, by, groups, best)
    if not counts.corpus.groups:
        draft.find(
            "phonemes.nothing-compared",
            "info",
            f"No two groups of one attribute have {counts.options.min_speakers} speakers: nothing could be compared.",
            headline="No groups could be compared.",
        )
    find_correlation(draft, counts, best)
    if counts.second:
        find_changes(draft, counts, best)
    conclude(draft, counts, best)


def best_layer(draft: Draft, layers: Sequence[int]) -> int:
    """Return the layer with the highest accuracy over all speakers."""
    rows = {layer: draft.get("accuracy", layer=layer, group=ALL, training="all") for layer in layers}
    return max(layers, key=lambda layer: -1.0 if (row := rows[layer]) is None else row.value)


def _judged(draft: Draft, counts: Counts, group: str, best: int) -> Judged:
    def shown(name: str, null: float) -> tuple[int, ...]:
        rows = [(layer, draft.get(name, layer=layer, group=group)) for layer in counts.layers]
        return tuple(
            layer
            for layer, row in rows
            if row is not None and row.above(null) and is_sure(draft, counts, name, layer, group)
        )

    systematic, random = shown("systematic_error", 0.0), shown("variance_ratio", 1.0)
    both = tuple(layer for layer in systematic if layer in random)
    pool = both or systematic or random or (best,)
    return Judged(group, systematic, random, best if best in pool else best_layer(draft, pool))


def _find_errors(draft: Draft, counts: Counts, judged: Judged) -> None:
    layer, group = judged.layer, judged.group
    here = layer in judged.systematic, layer in judged.random
    kind = "both" if all(here) else SYSTEMATIC if here[0] else RANDOM
    gap, remaining = (judged.row(draft, name) for name in ("accuracy_gap", "remaining_gap"))
    parts = [_probes(draft, judged)] if here[0] else []
    # The number of the headline is not repeated.
    parts += [_variance(draft, judged)] if kind == "both" else []
    parts.append(_balance(draft, judged, gap, remaining))
    # The first is the one that the page draws beside the finding.
    first = ("variance_ratio", "systematic_error") if kind == RANDOM else ("systematic_error", "variance_ratio")
    names = (*first, "accuracy_gap", "remaining_gap", "systematic_minus_remaining")
    draft.find(
        f"phonemes.{kind}",
        _severity(draft, judged, gap, remaining),
        " ".join(part for part in parts if part),
        [judged.row(draft, name) for name in names],
        headline=_headline(draft, counts, judged, kind),
        how_sure=_how_sure(draft, counts, judged),
        group=group,
        layer=layer,
    )


def _how_sure(draft: Draft, counts: Counts, judged: Judged) -> str:
    """Return the test, the layers that show each error, and what of them could not be shown."""
    parts = ["Beyond chance by interval and test (Holm over layers and groups)."]
    several = len(counts.layers) > 1
    for layers, word in ((judged.systematic, "systematic"), (judged.random, "random")):
        if several and layers:
            parts.append(f"The {word} error is shown in {layer_names(counts, layers)}.")
    shift = judged.row(draft, "centroid_shift")
    if judged.layer in judged.systematic and not (shift is not None and shift.above(0)):
        # Then it is something else that a probe of the group's own makes use of.
        parts.append("No shift of the phones' centres could be shown.")
    inner = judged.row(draft, "variance_ratio_within_speakers")
    if judged.layer in judged.random and inner is not None and not inner.above(1):
        parts.append(
            f"Within its speakers more variance could not be shown, {span(inner)}: they may differ from one another."
        )
    return " ".join(parts)


def _headline(draft: Draft, counts: Counts, judged: Judged, kind: str) -> str:
    row = judged.row(draft, "variance_ratio" if kind == RANDOM else "systematic_error")
    shift = judged.row(draft, "centroid_shift")
    assert row is not None  # the error is shown, so its row is there
    elsewhere = shift is not None and shift.above(0)
    return error_headline(kind, judged.group, in_layer(counts, judged.layer), row, elsewhere=elsewhere)


def _probes(draft: Draft, judged: Judged) -> str:
    own, common = (judged.row(draft, "accuracy", training=training) for training in ("in", "all_matched"))
    if own is None or common is None:
        return ""
    return f"A probe of its own reads {point(own)} of its tokens, one of as many tokens of everyone {point(common)}."


def _variance(draft: Draft, judged: Judged) -> str:
    ratio = judged.row(draft, "variance_ratio")
    return "" if ratio is None else f"The variance is {span(ratio)} times that of others."


def _balance(draft: Draft, judged: Judged, gap: Estimate | None, remaining: Estimate | None) -> str:
    """Return the sentences on whether the group is read worse, and how much its own data would gain."""
    lead = judged.row(draft, "systematic_minus_remaining")
    if gap is None or remaining is None or lead is None:
        return ""
    if gap.below(0):
        return f"Even so, a common probe reads the group better than the others, by {size_words(gap)}."
    if not gap.above(0):
        return f"That a common probe reads it worse than the others could not be shown: {span(gap)}."
    text = f"A common probe reads it worse by {span(gap)}; with its own "
    text += (
        f"{span(remaining)} is left."
        if remaining.above(0)
        else f"it is read better, by {size_words(remaining)}."
        if remaining.below(0)
        else f"no gap is shown ({span(remaining)})."
    )
    return f"{text} {_larger(draft, judged, lead, remaining)}"


def _larger(draft: Draft, judged: Judged, lead: Estimate, remaining: Estimate) -> str:
    """Return the sentence on which of the two errors is the larger."""
    if lead.above(0) and judged.layer in judged.systematic:
        return "The systematic error dominates: own data would mend most of the gap."
    ratio, spread = (judged.row(draft, name) for name in ("variance_ratio", "scatter_minus_shift"))
    scattered = ratio is not None and ratio.above(TELLING) and spread is not None and spread.above(0)
    inner = judged.row(draft, "variance_ratio_within_speakers")
    if lead.below(0) and remaining.above(0) and judged.layer in judged.random and scattered:
        if inner is not None and not inner.above(1):
            return "Most of the gap would be left, and goes with speakers of the group who differ."
        return "The random error dominates: own data would not mend most of the gap."
    return "Which of the two errors is larger could not be told."


def _severity(draft: Draft, judged: Judged, gap: Estimate | None, remaining: Estimate | None) -> Severity:
    error = judged.row(draft, "systematic_error")
    worse = gap is not None and gap.above(0)
    sizes = []
    if judged.layer in judged.systematic and error is not None:
        sizes.append(error.low or 0.0)
    if judged.layer in judged.random and remaining is not None:
        sizes.append(remaining.low or 0.0)
    largest = max(sizes, default=0.0)
    if worse and largest >= LARGE:
        return "high"
    return "medium" if (worse and largest > 0) or largest >= NOTABLE else "low"
