"""The findings of each group: which error it shows, which is larger, and what could not be shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import point
from audits.core.records import Coordinate, Estimate, Severity
from audits.core.wording import listed, many, size_words, span
from audits.phoneme_errors.conclusion import (
    change_headline,
    conclude,
    correlation_headline,
    error_headline,
    neither_headline,
)
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import RANDOM, SPLIT, SYSTEMATIC

LARGE, NOTABLE = 0.10, 0.05
"""Ends of intervals, shares of the tokens, from which an error is told as of high or of medium severity."""
TELLING = 1.05
"""Low end of a ratio of variances from which a random error may be told as the larger of the two."""
MOST_NAMED = 6
TEST_OF = {"systematic_error": SYSTEMATIC, "variance_ratio": RANDOM}
"""Test of each error whose p-values are in the table."""


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
        _find_neither(draft, counts, by, groups, best)
    if not counts.corpus.groups:
        draft.find(
            "phonemes.nothing-compared",
            "info",
            f"No two groups of one attribute have {counts.options.min_speakers} speakers: nothing could be compared.",
            headline="No groups could be compared.",
        )
    _find_correlation(draft, counts, best)
    if counts.second:
        _find_changes(draft, counts, best)
    conclude(draft, counts, best)


def best_layer(draft: Draft, layers: Sequence[int]) -> int:
    """Return the layer with the highest accuracy over all speakers."""
    rows = {layer: draft.get("accuracy", layer=layer, group=ALL, training="all") for layer in layers}
    return max(layers, key=lambda layer: -1.0 if (row := rows[layer]) is None else row.value)


def is_sure(draft: Draft, counts: Counts, name: str, layer: int, group: str) -> bool:
    """Tell whether an error, or its change, is beyond chance after correction over layers and groups."""
    if name not in TEST_OF:
        return counts.change_p.get((name, layer, group), 1.0) < 1 - draft.level
    row = draft.get("p_value", layer=layer, group=group, test=TEST_OF[name], correction="holm")
    return row is not None and row.value < 1 - draft.level


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
    parts = []
    if here[0]:
        parts.append(_systematic(draft, counts, judged))
    if here[1]:
        parts.append(_random(draft, counts, judged))
    for there, layers, word in ((here[0], judged.systematic, "systematic"), (here[1], judged.random, "random")):
        if layers and not there:
            parts.append(f"A {word} error is shown in {_layers(counts, layers)} only.")
    gap, remaining = (judged.row(draft, name) for name in ("accuracy_gap", "remaining_gap"))
    parts.append(_balance(draft, judged, gap, remaining))
    kind = "both" if all(here) else SYSTEMATIC if here[0] else RANDOM
    # The first is the one that the page draws beside the finding.
    first = ("variance_ratio", "systematic_error") if kind == RANDOM else ("systematic_error", "variance_ratio")
    names = (*first, "accuracy_gap", "remaining_gap", "systematic_minus_remaining")
    draft.find(
        f"phonemes.{kind}",
        _severity(draft, judged, gap, remaining),
        " ".join(part for part in parts if part),
        [judged.row(draft, name) for name in names],
        headline=_headline(draft, counts, judged, kind),
        how_sure="Beyond chance by interval and test (Holm over layers and groups).",
        group=group,
        layer=layer,
    )


def _headline(draft: Draft, counts: Counts, judged: Judged, kind: str) -> str:
    row = judged.row(draft, "variance_ratio" if kind == RANDOM else "systematic_error")
    shift = judged.row(draft, "centroid_shift")
    assert row is not None  # the error is shown, so its row is there
    elsewhere = shift is not None and shift.above(0)
    return error_headline(kind, judged.group, _in(counts, judged.layer), row, elsewhere=elsewhere)


def _systematic(draft: Draft, counts: Counts, judged: Judged) -> str:
    layer, group = judged.layer, judged.group
    own, common = (judged.row(draft, "accuracy", training=training) for training in ("in", "all_matched"))
    error = judged.row(draft, "systematic_error")
    if own is None or common is None or error is None:
        return ""
    shift = judged.row(draft, "centroid_shift")
    apart = shift is not None and shift.above(0)
    # Without a shift it is something else that a probe of the group's own makes use of.
    lead = (
        f"The phones of {group} lie elsewhere{_in(counts, layer)}"
        if apart
        else f"Though no shift could be shown, the phones of {group} lie otherwise than those of the others"
        f"{_in(counts, layer)}"
    )
    text = (
        f"{lead}: a probe that learned from the group alone reads "
        f"{point(own)} of its tokens, one that learned from as many tokens of everyone {point(common)}, a systematic "
        f"error of {span(error)}."
    )
    return text + _also(counts, judged.systematic, judged.layer)


def _random(draft: Draft, counts: Counts, judged: Judged) -> str:
    ratio = judged.row(draft, "variance_ratio")
    if ratio is None:
        return ""
    text = (
        f"The phones of {judged.group} scatter more than those of the other groups{_in(counts, judged.layer)}: their "
        f"variance is {span(ratio)} times as large."
    )
    inner = judged.row(draft, "variance_ratio_within_speakers")
    if inner is not None and not inner.above(1):
        text += f" Within its speakers that could not be shown ({span(inner)}): they may differ from one another more."
    return text + _also(counts, judged.random, judged.layer)


def _also(counts: Counts, layers: tuple[int, ...], reported: int) -> str:
    return "" if layers == (reported,) else f" (It is shown in {_layers(counts, layers)}.)"


def _layers(counts: Counts, layers: Sequence[int]) -> str:
    if len(layers) == len(counts.layers) > 1:
        return f"all {len(layers)} layers"
    return f"layer{'s' * (len(layers) > 1)} {listed([str(layer) for layer in layers])}"


def _balance(draft: Draft, judged: Judged, gap: Estimate | None, remaining: Estimate | None) -> str:
    """Return the sentences on whether the group is read worse, and how much its own data would gain."""
    lead = judged.row(draft, "systematic_minus_remaining")
    if gap is None or remaining is None or lead is None:
        return ""
    if gap.below(0):
        return f"Even so, a common probe reads the group better than the others, by {size_words(gap)}."
    if not gap.above(0):
        return f"That a common probe reads the group worse than the others could not be shown ({span(gap)})."
    text = f"A common probe reads the group worse than the others by {span(gap)}; with a probe of its own "
    text += (
        f"{span(remaining)} of that is left."
        if remaining.above(0)
        else f"it is read better than they are, by {size_words(remaining)}."
        if remaining.below(0)
        else f"no gap could be shown ({span(remaining)})."
    )
    if lead.above(0) and judged.layer in judged.systematic:
        return f"{text} The systematic error dominates: the group's own data would mend most of the gap."
    ratio, spread = (judged.row(draft, name) for name in ("variance_ratio", "scatter_minus_shift"))
    scattered = ratio is not None and ratio.above(TELLING) and spread is not None and spread.above(0)
    inner = judged.row(draft, "variance_ratio_within_speakers")
    if lead.below(0) and remaining.above(0) and judged.layer in judged.random and scattered:
        if inner is not None and not inner.above(1):
            return f"{text} Most of the gap would be left, and goes with speakers of the group who differ."
        return (
            f"{text} The random error dominates: the group's own data would not mend most of the gap, and its tokens "
            "are further off by their scatter than by a shift."
        )
    return f"{text} Which of the two errors is larger could not be told."


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


def _find_neither(draft: Draft, counts: Counts, by: str, groups: Sequence[str], best: int) -> None:
    """Add the finding on groups with neither error shown, and the size that could be missed."""
    errors, ratios = (
        [draft.get(name, layer=best, group=group) for group in groups]
        for name in ("systematic_error", "variance_ratio")
    )
    rows = zip(groups, errors, ratios, strict=True)
    known = [(group, error, ratio) for group, error, ratio in rows if error is not None and ratio is not None]
    named = "; ".join(
        f"{group}, systematic error {span(error)}, variance {span(ratio)} times that of the others"
        for group, error, ratio in known[:MOST_NAMED]
    )
    more = f"; and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    who = listed(list(groups[:MOST_NAMED])) if len(groups) <= MOST_NAMED else many(len(groups), "group", "groups")
    evidence = [row for _, error, ratio in known[:MOST_NAMED] for row in (error, ratio)]
    several = len(counts.layers) > 1
    anywhere = " in any layer" if several else ""
    lead = f"In layer {best}" if several else "Measured"
    draft.find(
        "phonemes.neither",
        "info",
        f"By {by}, neither error could be shown of {who}{anywhere}." + (f" {lead}: {named}{more}." if named else ""),
        evidence,
        headline=neither_headline(by, groups),
        how_sure="By interval and test (Holm over layers and groups).",
        by=by,
    )


def _find_correlation(draft: Draft, counts: Counts, best: int) -> None:
    """Add the finding on the partial correlation of scatter and accuracy over speakers."""
    for partial in ("yes", "no"):
        where: dict[str, Coordinate] = {"layer": best, "unit": "speaker", "partial": partial}
        row = draft.get(SPLIT, **where)
        if row is None:
            continue
        p = draft.row("p_value", **where, test="split", correction="none").value
        held = ", group and tokens per phone held fixed" if partial == "yes" else ""
        lead = (
            f"Over {row.n} speakers{_in(counts, best)}, variance {counts.scale} of one half of the phones beside "
            f"accuracy of the other half{held}: "
        )
        shown = p < 1 - draft.level and row.excludes(0)
        if shown and row.below(0):
            text = f"{lead}those whose phones scatter more are read worse, rank correlation {span(row)}."
        elif shown:
            text = f"{lead}those whose phones scatter more are read better, rank correlation {span(row)}."
        else:
            text = f"{lead}no relation of variance and accuracy could be shown, rank correlation {span(row)}."
        draft.find(
            "phonemes.correlation",
            "info",
            text,
            [row],
            headline=correlation_headline(row, shown=shown),
            layer=best,
            unit="speaker",
            partial=partial,
        )
        return


def _find_changes(draft: Draft, counts: Counts, best: int) -> None:
    """Add findings on groups whose error changed from the first encoder to the second."""
    still: list[str] = []
    for group in counts.corpus.groups:
        errors = (("systematic_error", "systematic error"), ("variance_ratio", "variance"))
        moved = [_find_change(draft, counts, group, error, words, best) for error, words in errors]
        still += [] if any(moved) else [group]
    if still:
        rows = [(group, draft.get("systematic_error_difference", layer=best, group=group)) for group in still]
        known = [(group, row) for group, row in rows[:MOST_NAMED] if row is not None]
        named = "; ".join(f"{group} {span(row)}" for group, row in known)
        draft.find(
            "phonemes.unmoved",
            "info",
            f"That the second encoder moved an error could not be shown of {many(len(still), 'group', 'groups')}; "
            f"change of the systematic error{_in(counts, best)}: {named}.",
            [row for _, row in known],
            headline=f"No change of an error is shown for {many(len(still), 'group', 'groups')}.",
            layer=best,
        )


def _find_change(draft: Draft, counts: Counts, group: str, error: str, words: str, best: int) -> bool:
    """Add the finding on a change of one error of a group, and return whether there is one."""
    name = f"{error}_difference"
    rows = {layer: draft.get(name, layer=layer, group=group) for layer in counts.layers}
    moved = {
        layer: row
        for layer, row in rows.items()
        if row is not None and row.excludes(0) and is_sure(draft, counts, name, layer, group)
    }
    if not moved:
        return False
    layer = best if best in moved else next(iter(moved))
    change = moved[layer]
    before, after = (draft.get(prefix + error, layer=layer, group=group) for prefix in ("", "against_"))
    way = "rose" if change.value > 0 else "fell"
    beside = ", in units of that of the other groups," if error == "variance_ratio" else ""
    from_to = "" if before is None or after is None else f" from {span(before)} to {span(after)},"
    draft.find(
        "phonemes.moved",
        "low",
        f"In the second encoder the {words} of {group}{beside} {way}{_in(counts, layer)}{from_to} by "
        f"{size_words(change)}." + _also(counts, tuple(moved), layer),
        [change, before, after],
        headline=change_headline(words, group, change),
        group=group,
        layer=layer,
        error=error,
    )
    return True


def _in(counts: Counts, layer: int) -> str:
    return "" if counts.layers == (0,) else f" in layer {layer}"
