"""Further findings: what is not shown, scatter and accuracy over speakers, and changes by another encoder."""

from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import decimals, written
from audits.core.records import Coordinate
from audits.core.wording import listed, many, p_words, span
from audits.group_rates.wording import levels_of
from audits.phoneme_errors.conclusion import change_headline, correlation_headline, neither_headline
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import RANDOM, SPLIT, SYSTEMATIC

MOST_NAMED = 6
PAIRED = "By interval and test, paired on the same tokens (Holm over layers, groups and both errors)."
TEST_OF = {"systematic_error": SYSTEMATIC, "variance_ratio": RANDOM}
"""Test of each error whose p-values are in the table."""


def is_sure(draft: Draft, counts: Counts, name: str, layer: int, group: str) -> bool:
    """Tell whether an error, or its change, is beyond chance after correction over layers and groups."""
    if name not in TEST_OF:
        return counts.change_p.get((name, layer, group), 1.0) < 1 - draft.level
    row = draft.get("p_value", layer=layer, group=group, test=TEST_OF[name], correction="holm")
    return row is not None and row.value < 1 - draft.level


def layer_names(counts: Counts, layers: Sequence[int]) -> str:
    """Return some of the layers in words."""
    if len(layers) == len(counts.layers) > 1:
        return f"all {len(layers)} layers"
    return f"layer{'s' * (len(layers) > 1)} {listed([str(layer) for layer in layers])}"


def in_layer(counts: Counts, layer: int) -> str:
    """Return the layer as the end of a sentence, or nothing where there is only one."""
    return "" if counts.layers == (0,) else f" in layer {layer}"


def find_neither(draft: Draft, counts: Counts, by: str, groups: Sequence[str], best: int) -> None:
    """Add the finding on groups with neither error shown, and the size that could be missed."""
    errors, ratios = (
        [draft.get(name, layer=best, group=group) for group in groups]
        for name in ("systematic_error", "variance_ratio")
    )
    known = [(error, ratio) for error, ratio in zip(errors, ratios, strict=True) if error and ratio]
    evidence = [row for pair in known[:MOST_NAMED] for row in pair]
    several = len(counts.layers) > 1
    fits = [
        f"{what} {written(farthest.high or 0.0, decimals(farthest))}{than} ({levels_of(str(farthest.where['group']))})"
        for rows, what, than in (
            ([error for error, _ in known], "a systematic error of", ""),
            ([ratio for _, ratio in known], "a variance", " times that of the others"),
        )
        if rows and (farthest := max(rows, key=lambda row: row.high or 0.0)).high is not None
    ]
    draft.find(
        "phonemes.neither",
        "info",
        f"At most {listed(fits)} still {'fits' if len(fits) == 1 else 'fit'} the data{in_layer(counts, best)}."
        if fits
        else "Nothing could be measured of them (see the warnings).",
        evidence,
        headline=neither_headline(by, groups),
        how_sure=f"By interval and test{' in every layer' if several else ''} (Holm over layers and groups).",
        by=by,
    )


def find_correlation(draft: Draft, counts: Counts, best: int) -> None:
    """Add the finding on the partial correlation of scatter and accuracy over speakers."""
    for partial in ("yes", "no"):
        where: dict[str, Coordinate] = {"layer": best, "unit": "speaker", "partial": partial}
        row = draft.get(SPLIT, **where)
        if row is None:
            continue
        p = draft.row("p_value", **where, test="split", correction="none").value
        held = ", with group and tokens per phone held fixed" if partial == "yes" else ""
        draft.find(
            "phonemes.correlation",
            "info",
            f"Over {row.n} speakers{in_layer(counts, best)}: variance {counts.scale} of one half of the phones beside "
            f"accuracy of the other half{held}.",
            [row],
            headline=correlation_headline(row, shown=p < 1 - draft.level and row.excludes(0)),
            how_sure=f"p {p_words(p)}: Spearman's rank correlation, accuracies permuted over speakers; layer with the "
            "highest accuracy.",
            layer=best,
            unit="speaker",
            partial=partial,
        )
        return


def find_changes(draft: Draft, counts: Counts, best: int) -> None:
    """Add findings on groups whose error changed from the first encoder to the second."""
    still: list[str] = []
    for group in counts.corpus.groups:
        errors = (("systematic_error", "systematic error"), ("variance_ratio", "variance"))
        moved = [_find_change(draft, counts, group, error, words, best) for error, words in errors]
        still += [] if any(moved) else [group]
    if still:
        rows = [(group, draft.get("systematic_error_difference", layer=best, group=group)) for group in still]
        known = [(group, row) for group, row in rows[:MOST_NAMED] if row is not None]
        named = "; ".join(f"{levels_of(group)} {span(row)}" for group, row in known)
        draft.find(
            "phonemes.unmoved",
            "info",
            f"Change of the systematic error{in_layer(counts, best)}: {named}."
            if named
            else "Nothing could be measured of them (see the warnings).",
            [row for _, row in known],
            headline=f"No change of an error is shown for {many(len(still), 'group', 'groups')}.",
            how_sure=PAIRED,
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
    beside = "In units of that of the other groups: from" if error == "variance_ratio" else "From"
    draft.find(
        "phonemes.moved",
        "low",
        f"Moved{in_layer(counts, layer)}."
        if before is None or after is None
        else f"{beside} {span(before)} to {span(after)}{in_layer(counts, layer)}.",
        [change, before, after],
        headline=change_headline(words, group, change),
        how_sure=PAIRED + (f" It is shown in {layer_names(counts, tuple(moved))}." if len(counts.layers) > 1 else ""),
        group=group,
        layer=layer,
        error=error,
    )
    return True
