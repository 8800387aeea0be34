"""The figures of the audit, each titled with the question that it answers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import percent, point
from audits.core.records import Figure, Json
from audits.core.wording import many, span
from audits.phoneme_errors.findings import best_layer
from audits.phoneme_errors.further_findings import is_sure
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import CORRELATION, SPLIT
from audits.report.charts import Axis, figure_of, forest, lines, numbers_of, points
from audits.report.charts.theme import MOST_SERIES

MOST_ROWS, MOST_PANELS, MOST_GROUPS, MOST_POINTS = 40, 12, 8, 300
"""Groups that are drawn as a row each, a panel of lines or points, and a panel of rows; speakers that are points."""
LONGEST = 26
"""Letters of an attribute and its level on a chart; tables hold the whole name."""
TICKS = {1.3: (0.8, 0.9, 1.0, 1.1, 1.25), 4.0: (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)}
WIDE_TICKS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)
"""Ticks of ratios up to a ratio and beyond: a scale of less than ten to one may have none above 1 of its own."""
PROBES = (
    ("everyone", "accuracy", {"training": "all"}),
    ("as many of everyone", "accuracy", {"training": "all_matched"}),
    ("the group alone", "accuracy", {"training": "in"}),
    ("everyone else", "accuracy", {"training": "out"}),
)
GAPS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("gap to the others", "accuracy_gap", {}),
    ("fixed by own data", "systematic_error", {}),
    ("left with own data", "remaining_gap", {}),
)
"""Rows of a group's panel: label, estimate, and its further coordinates."""
HELD = {"no": "as they are", "yes": "group and tokens per phone held fixed"}


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures, without those that would be empty."""
    for kind in (_elsewhere, _scattered, _gap, _accuracy, _accuracies, _correlations, _speakers, _moved):
        figure = kind(draft, counts)
        if figure is not None:
            yield figure


def _several(counts: Counts) -> bool:
    return len(counts.layers) > 1


def _where(draft: Draft, counts: Counts) -> str:
    """Return the words that name the layer of a figure; empty for a plain table of features."""
    which = ", where phones are read best" if _several(counts) else ""
    return "" if counts.layers == (0,) else f" in layer {best_layer(draft, counts.layers)}{which}"


def _unit(counts: Counts) -> str:
    return "mean share over phones" if counts.options.weights == "phones" else "share of tokens, common mix"


def _by(counts: Counts, group: str) -> str:
    return counts.corpus.by[counts.corpus.groups.index(group)]


def _shown(draft: Draft, counts: Counts, most: int) -> tuple[dict[str, str], str]:
    """Return the groups that a chart draws by name, and the caption on the others.

    Attributes come before their crossings and large errors before small ones; what is drawn is in the order of the
    tables.
    """
    names, best = _names(counts.corpus.groups), best_layer(draft, counts.layers)

    def rank(group: str) -> tuple[int, float]:
        row = draft.get("systematic_error", layer=best, group=group)
        return _by(counts, group).count("&"), math.inf if row is None or row.low is None else -row.low

    drawn, left = sorted(names, key=rank)[:most], max(len(names) - most, 0)
    rest = f" {many(left, 'more group is', 'more groups are')} in the tables only." if left else ""
    return {group: name for group, name in names.items() if group in drawn}, rest


def _names(groups: Sequence[str]) -> dict[str, str]:
    """Return a distinct short name of each group on a chart, numbered where two would be equal."""
    names: dict[str, str] = {}
    for group in groups:
        again = sum(_short(other) == _short(group) for other in names)
        names[group] = _short(group) + (f" ({again + 1})" if again else "")
    return names


def _short(name: str) -> str:
    cut = (f"{part[: LONGEST - 10].rstrip()}…{part[-9:].lstrip()}" for part in name.split("&"))
    return "&".join(old if len(old) <= LONGEST else new for old, new in zip(name.split("&"), cut, strict=True))


def _elsewhere(draft: Draft, counts: Counts) -> Figure | None:
    what = (
        f"Systematic error ({_unit(counts)}): by how much a probe that learned from the group alone reads its phones "
        "better than one that learned from as many tokens of everyone (a group that is most of the corpus nearly is)"
    )
    words = "Whose phones lie elsewhere?", what, "the group's own data teach more than as many of everyone"
    axis = Axis("value", "Systematic error (share)", ".2f")
    return _by_group(draft, counts, "errors", words, "systematic_error", axis, 0.0)


def _scattered(draft: Draft, counts: Counts) -> Figure | None:
    what = (
        "Variance of a phone's tokens around the centroid of their own group, over the mean of the other groups; it "
        "is that of speakers who differ as well as that of each"
    )
    words = "Whose phones scatter more?", what, "the group's phones scatter more"
    axis = Axis("value", "Ratio of variances", ".2~g", zero=False, scale="log")
    return _by_group(
        draft, counts, "scatter-by-layer" if _several(counts) else "scatter", words, "variance_ratio", axis, 1.0
    )


def _moved(draft: Draft, counts: Counts) -> Figure | None:
    if not counts.second:
        return None
    what = f"Systematic error ({_unit(counts)}) in the second encoder less that in the first, on the same tokens"
    words = "Did the second encoder move whose phones lie elsewhere?", what, "the error rose"
    axis = Axis("value", "Change (share)", ".2f")
    return _by_group(draft, counts, "moved", words, "systematic_error_difference", axis, 0.0)


def _by_group(
    draft: Draft, counts: Counts, id: str, words: tuple[str, str, str], name: str, axis: Axis, reference: float
) -> Figure | None:
    """Draw lines by layer or, for one layer, a row per group; the last of the words names what lies beyond the line."""
    title, what, beyond = words
    groups, rest = _shown(draft, counts, MOST_PANELS if _several(counts) else MOST_ROWS)
    if _several(counts):
        title = title.replace("?", ", and in which layers?")
        what += f", by layer, with {percent(draft.level)} bands over speakers"
        what += f". Where a band lies above the dashed line, {beyond}"
        return _lines(id, title, f"{what}.{rest}", _by_layer(draft, counts, name, groups), axis, reference)
    best, rows = best_layer(draft, counts.layers), []
    for group, short in groups.items():
        if (row := draft.get(name, layer=best, group=group)) is not None:
            undecided = not is_sure(draft, counts, name, best, group)
            rows.append(numbers_of(row, label=short, panel=f"by {_by(counts, group)}", undecided=undecided))
    what += f"{_where(draft, counts)}, with {percent(draft.level)} intervals over speakers. Right of the dashed line, "
    what += f"{beyond}; grey: "
    return _rows(id, title, f"{what}nothing is shown once all groups are counted.{rest}", rows, axis, reference, True)


def _gap(draft: Draft, counts: Counts) -> Figure | None:
    caption = (
        f"For each group{_where(draft, counts)}: by how much a common probe reads the others better than the group, "
        "how much of that a probe that learned from the group alone fixes, and what is then left; the first is the sum "
        f"of the other two. {percent(draft.level)} intervals over speakers; grey ones reach the dashed line, left of "
        f"which the group is read better than the others.{_shown(draft, counts, MOST_GROUPS)[1]}"
    )
    axis = Axis("value", f"Difference in accuracy ({_unit(counts)})", ".2f")
    rows = [{**row, "undecided": row["low"] <= 0 <= row["high"]} for row in _panels(draft, counts, GAPS)]
    return _rows("gap", "How much of the gap would a group's own data fix?", caption, rows, axis, 0.0)


def _accuracy(draft: Draft, counts: Counts) -> Figure | None:
    whole = draft.get("accuracy", layer=best_layer(draft, counts.layers), group=ALL, training="all")
    if whole is None:
        return None
    caption = (
        f"Accuracy of four probes, named by whom they learned from, on each group's tokens{_where(draft, counts)}, "
        f"with {percent(draft.level)} intervals over speakers; the dashed line is the accuracy over all speakers, "
        f"{point(whole)}. Where the group alone teaches more than as many tokens of everyone, that is its systematic "
        "error; where its own probe too stays left of the line, its phones are noisy or close together."
        f"{_shown(draft, counts, MOST_GROUPS)[1]}"
    )
    axis, rows = Axis("value", f"Accuracy ({_unit(counts)})", ".2f"), _panels(draft, counts, PROBES)
    return _rows("accuracy", "Which probe reads a group's phones?", caption, rows, axis, whole.value)


def _panels(draft: Draft, counts: Counts, cells: Sequence[tuple[str, str, dict[str, str]]]) -> list[Json]:
    """Return the rows of a panel per group, the widest gap first."""
    best, (groups, _) = best_layer(draft, counts.layers), _shown(draft, counts, MOST_GROUPS)
    gaps = {group: row.value for group in groups if (row := draft.get("accuracy_gap", layer=best, group=group))}
    return [
        numbers_of(row, label=label, panel=groups[group], undecided=False)
        for group in sorted(groups, key=lambda group: -gaps.get(group, -1.0))
        for label, name, training in cells
        if (row := draft.get(name, layer=best, group=group, **training)) is not None
    ]


def _accuracies(draft: Draft, counts: Counts) -> Figure | None:
    groups, rest = _shown(draft, counts, MOST_PANELS)
    rows = _by_layer(draft, counts, "accuracy", groups, training="all") if _several(counts) else []
    caption = (
        f"Accuracy ({_unit(counts)}) of the probe that learned from everyone, by layer, with {percent(draft.level)} "
        f"bands over speakers. Where bands of two groups overlap widely, no difference can be read off.{rest}"
    )
    axis = Axis("value", "Accuracy (share)", ".2f", zero=False)
    return _lines("accuracy-by-layer", "Whose phones are read worse, and in which layers?", caption, rows, axis, None)


def _correlations(draft: Draft, counts: Counts) -> Figure | None:
    rows = [
        numbers_of(row, layer=layer, series=held, by="")
        for partial, held in HELD.items()
        for layer in counts.layers
        if _several(counts) and (row := draft.get(SPLIT, layer=layer, unit="speaker", partial=partial)) is not None
    ]
    caption = (
        f"Spearman correlation over speakers of the variance {counts.scale} on one half of the phones with "
        f"accuracy on the other half, by layer, with {percent(draft.level)} bands. Where a band lies below the dashed "
        "line, speakers whose phones scatter more are read worse; with group held fixed, also among speakers of one "
        "group."
    )
    title = "Are speakers whose phones scatter more read worse, and in which layers?"
    axis = Axis("value", "Rank correlation of variance and accuracy", ".2f")
    return _lines("correlation", title, caption, rows, axis, 0.0)


def _speakers(draft: Draft, counts: Counts) -> Figure | None:
    corpus, best = counts.corpus, best_layer(draft, counts.layers)
    values = next(values for values in counts.first if values.layer == best)
    right, given = values.tokens(ALL, "all")
    spread = values.spreads[0]
    usable = np.flatnonzero(np.isfinite(spread) & (given > 0))
    row = draft.get(CORRELATION, layer=best, unit="speaker", partial="no")
    if row is None or len(usable) > MOST_POINTS:
        return None
    names = list(_names(corpus.groups).values())
    homes = [names[home] if home >= 0 else "in no compared group" for home in corpus.home]
    rows: list[Json] = [
        {"spread": spread[one], "accuracy": right[one] / given[one], "speaker": corpus.names[one], "home": homes[one]}
        for one in sorted(usable.tolist(), key=lambda one: homes[one])
    ]
    x = Axis("spread", "Variance of the phones", ".3~g", zero=False)
    y = Axis("accuracy", "Accuracy (share)", ".2f", zero=False)
    facet = "home" if 1 < len({row["home"] for row in rows}) <= MOST_PANELS else None
    # Hundreds of names have no room; pointing at a speaker tells who it is.
    spec = points(rows, x=x, y=y, facet=facet)
    caption = (
        f"Each point is a speaker{_where(draft, counts)}: the variance {counts.scale} and how much ({_unit(counts)}) "
        f"the probe of everyone reads right. Over all of them the rank correlation is {span(row)}. Falling "
        "to the right: speakers whose phones scatter more are read worse. Both are of the same tokens, and share what "
        "chance did to these."
    )
    title = "Which speakers' phones scatter, and are these read worse?"
    return figure_of("speakers", title, caption, spec)


def _by_layer(draft: Draft, counts: Counts, name: str, groups: Mapping[str, str], **where: str) -> list[Json]:
    return [
        numbers_of(row, layer=layer, series=short, by=f"by {_by(counts, group)}")
        for group, short in groups.items()
        for layer in counts.layers
        if (row := draft.get(name, layer=layer, group=group, **where)) is not None
    ]


def _lines(id: str, title: str, caption: str, rows: list[Json], axis: Axis, rule: float | None) -> Figure | None:
    """Draw lines by layer beside a dashed one; few groups of several attributes get a panel per attribute."""
    if not rows:
        return None
    series, kinds = (len({row[key] for row in rows}) for key in ("series", "by"))
    facet = "by" if series <= MOST_SERIES and kinds > 1 else None
    x = Axis("layer", "Layer", zero=False)
    axis = _ticked(axis, rows)
    spec = lines(rows, x=x, y=axis, low="low", high="high", series="series", series_title="", facet=facet, level=rule)
    return figure_of(id, title, caption, spec)


def _rows(
    id: str, title: str, caption: str, rows: list[Json], axis: Axis, reference: float, ranked: bool = False
) -> Figure | None:
    """Draw a forest in panels; a shared axis is titled once, and spans the marks alone."""
    if not rows:
        return None
    spec = forest(rows, label="label", value=_ticked(axis, rows), low="low", high="high", reference=reference,
                  greyed="undecided", facet="panel", ranked=ranked, tight=True, title_break="&")  # fmt: skip
    return figure_of(id, title, caption, spec)


def _ticked(axis: Axis, rows: Sequence[Json]) -> Axis:
    """Return an axis of ratios with ticks on both sides of 1."""
    if axis.scale != "log":
        return axis
    most = max(max(row["high"], 1 / row["low"]) for row in rows)
    return replace(axis, ticks=next((ticks for top, ticks in TICKS.items() if most <= top), WIDE_TICKS))
