"""The charts of the audit, each answering the question in its title."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from audits.chart_parts import MOST_SERIES, UNDECIDED
from audits.charts import Axis, forest, interval_lines, scatter
from audits.context import Draft
from audits.groups import ALL
from audits.numbers import percent, point
from audits.phoneme_errors import Options
from audits.phoneme_errors.estimating import CORRELATION, RANDOM, SPLIT, SYSTEMATIC, At, Found
from audits.phoneme_errors.judging import best_layer
from audits.phoneme_errors.values import Values
from audits.records import Estimate, Figure, Json
from audits.wording import many, span

if TYPE_CHECKING:
    from audits.phoneme_errors.report import Results

MOST_ROWS, MOST_PANELS, MOST_GROUPS, MOST_POINTS = 40, 12, 8, 300
"""Groups that are drawn as a row each, a panel of lines or points, and a panel of rows; speakers that are points."""
LONGEST = 26
"""Letters of an attribute and its level on a chart; tables hold the whole name."""
TICKS = {1.3: (0.8, 0.9, 1.0, 1.1, 1.25), 4.0: (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)}
WIDE_TICKS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)
"""Ticks of ratios up to a ratio and beyond: a scale of less than ten to one may have none above 1 of its own."""
PROBES = (
    ("everyone", "accuracy", "all"),
    ("as many of everyone", "accuracy", "all_matched"),
    ("the group alone", "accuracy", "in"),
    ("everyone else", "accuracy", "out"),
)
GAPS = (
    ("gap to the others", "accuracy_gap", ""),
    ("mended by own data", "systematic_error", ""),
    ("left with own data", "remaining_gap", ""),
)
"""Rows of a group's panel: label, estimate, and what the probe learned from."""
TESTS = {"systematic_error": SYSTEMATIC, "variance_ratio": RANDOM}
HELD = {"no": "as they are", "yes": "group and tokens per phone held fixed"}


@dataclass(frozen=True, slots=True)
class _Scene:
    """What all figures are drawn from; of too many `groups`, the first are drawn; `names` are theirs on a chart."""

    draft: Draft
    results: "Results"
    options: Options
    layers: tuple[int, ...]
    best: int
    names: Mapping[str, str]
    found: Found
    adjusted: Mapping[tuple[str, int, str], float]
    groups: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        return len(self.layers) > 1

    @property
    def level(self) -> str:
        return percent(self.draft.estimates[0].level)

    @property
    def where(self) -> str:
        """The layer of a figure of one; a plain table of features has none to speak of."""
        which = ", where phones are read best" if self.several else ""
        return "" if self.layers == (0,) else f" in layer {self.best}{which}"

    @property
    def unit(self) -> str:
        return "mean share over phones" if self.options.weights == "phones" else "share of tokens, common mix"

    def row(self, name: str, group: str, training: str = "", layer: int | None = None) -> Estimate | None:
        place = self.found.places.get(At(name, self.best if layer is None else layer, group, training))
        return None if place is None else self.draft.estimates[place]

    def by(self, group: str) -> str:
        return self.results.corpus.by[self.results.corpus.groups.index(group)]

    def shown(self, most: int) -> tuple[list[str], str]:
        """Return the groups that are drawn, in the order of the tables, and what a caption says of the others."""
        left = max(len(self.groups) - most, 0)
        rest = f" {many(left, 'more group is', 'more groups are')} in the tables only." if left else ""
        return [group for group in self.names if group in self.groups[:most]], rest


def draw(draft: Draft, results: "Results", options: Options) -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    if not draft.estimates:
        return []
    layers = tuple(counts.layer for counts in results.measured.layers)
    names, found = _names(results.corpus.groups), results.found
    scene = _Scene(draft, results, options, layers, best_layer(draft, found, layers), names, found, found.adjusted)
    scene = replace(scene, groups=tuple(sorted(names, key=lambda group: _rank(scene, group))))
    kinds = (_elsewhere, _scattered, _gap, _accuracy, _accuracies, _correlations, _speakers, _moved)
    return [figure for kind in kinds if (figure := kind(scene)) is not None]


def _names(groups: Sequence[str]) -> dict[str, str]:
    """Return what each group is called on a chart; a number tells two apart that are the same once shortened."""
    names: dict[str, str] = {}
    for group in groups:
        again = sum(_short(other) == _short(group) for other in names)
        names[group] = _short(group) + (f" ({again + 1})" if again else "")
    return names


def _short(name: str) -> str:
    cut = (f"{part[: LONGEST - 10].rstrip()}…{part[-9:].lstrip()}" for part in name.split("&"))
    return "&".join(old if len(old) <= LONGEST else new for old, new in zip(name.split("&"), cut, strict=True))


def _rank(scene: _Scene, group: str) -> tuple[int, float]:
    """Put attributes before their crossings, and large errors before small ones."""
    row = scene.row("systematic_error", group)
    return scene.by(group).count("&"), math.inf if row is None or row.low is None else -row.low


def _elsewhere(scene: _Scene) -> Figure | None:
    what = (
        f"Systematic error ({scene.unit}): by how much a probe that learned from the group alone reads its phones "
        "better than one that learned from as many tokens of everyone (a group that is most of the corpus nearly is)"
    )
    words = "Whose phones lie elsewhere?", what, "the group's own data teach more than as many of everyone"
    axis = Axis("value", "Systematic error (share)", ".2f")
    return _by_group(scene, "errors", words, "systematic_error", axis, 0.0)


def _scattered(scene: _Scene) -> Figure | None:
    what = (
        "Variance of a phone's tokens around the centroid of their own group, over the mean of the other groups; it "
        "is that of speakers who differ as well as that of each"
    )
    words = "Whose phones scatter more?", what, "the group's phones scatter more"
    axis = Axis("value", "Ratio of variances", ".2~g", zero=False, scale="log")
    return _by_group(scene, "scatter-by-layer" if scene.several else "scatter", words, "variance_ratio", axis, 1.0)


def _moved(scene: _Scene) -> Figure | None:
    changes = scene.results.changes
    if changes is None:
        return None
    scene = replace(scene, found=changes.differences, adjusted=changes.adjusted)
    what = f"Systematic error ({scene.unit}) in the second encoder less that in the first, on the same tokens"
    words = "Did the second encoder move whose phones lie elsewhere?", what, "the error rose"
    axis = Axis("value", "Change (share)", ".2f")
    return _by_group(scene, "moved", words, "systematic_error_difference", axis, 0.0)


def _by_group(
    scene: _Scene, id: str, words: tuple[str, str, str], name: str, axis: Axis, reference: float
) -> Figure | None:
    """Draw lines by layer or, of one layer, a row per group; the last of the words is what lies beyond the line."""
    title, what, beyond = words
    groups, rest = scene.shown(MOST_PANELS if scene.several else MOST_ROWS)
    if scene.several:
        title = title.replace("?", ", and in which layers?")
        what += f", by layer, with {scene.level} bands over speakers. Where a band lies above the dashed line, {beyond}"
        return _lines(id, title, f"{what}.{rest}", _by_layer(scene, name, groups), axis, reference)
    rows = []
    for group in groups:
        if (row := scene.row(name, group)) is not None:
            shown = scene.adjusted.get((TESTS.get(name, name), scene.best, group), 1.0) < 1 - row.level
            rows.append(_plain(row, label=scene.names[group], panel=f"by {scene.by(group)}", undecided=not shown))
    what += f"{scene.where}, with {scene.level} intervals over speakers. Right of the dashed line, {beyond}; grey: "
    return _rows(id, title, f"{what}nothing is shown once all groups are counted.{rest}", rows, axis, reference, True)


def _gap(scene: _Scene) -> Figure | None:
    caption = (
        f"For each group{scene.where}: by how much a common probe reads the others better than the group, how much of "
        "that a probe that learned from the group alone mends, and what is then left; the first is the sum of the "
        f"other two. {scene.level} intervals over speakers; grey ones reach the dashed line, left of which the group "
        f"is read better than the others.{scene.shown(MOST_GROUPS)[1]}"
    )
    axis = Axis("value", f"Difference in accuracy ({scene.unit})", ".2f")
    rows = [{**row, "undecided": row["low"] <= 0 <= row["high"]} for row in _panels(scene, GAPS)]
    return _rows("gap", "How much of the gap would a group's own data mend?", caption, rows, axis, 0.0)


def _accuracy(scene: _Scene) -> Figure | None:
    whole = scene.row("accuracy", ALL, "all")
    if whole is None:
        return None
    caption = (
        f"Accuracy of four probes, named by whom they learned from, on each group's tokens{scene.where}, with "
        f"{scene.level} intervals over speakers; the dashed line is the accuracy over all speakers, {point(whole)}. "
        "Where the group alone teaches more than as many tokens of everyone, that is its systematic error; where its "
        f"own probe too stays left of the line, its phones are noisy or close together.{scene.shown(MOST_GROUPS)[1]}"
    )
    axis, rows = Axis("value", f"Accuracy ({scene.unit})", ".2f"), _panels(scene, PROBES)
    return _rows("accuracy", "Which probe reads a group's phones?", caption, rows, axis, whole.value)


def _panels(scene: _Scene, cells: Sequence[tuple[str, str, str]]) -> list[Json]:
    """Return the rows of a panel per group, the widest gap first."""
    groups = scene.shown(MOST_GROUPS)[0]
    gaps = {group: row.value for group in groups if (row := scene.row("accuracy_gap", group))}
    return [
        _plain(row, label=label, panel=scene.names[group], undecided=False)
        for group in sorted(groups, key=lambda group: -gaps.get(group, -1.0))
        for label, name, training in cells
        if (row := scene.row(name, group, training)) is not None
    ]


def _accuracies(scene: _Scene) -> Figure | None:
    groups, rest = scene.shown(MOST_PANELS)
    rows = _by_layer(scene, "accuracy", groups, "all") if scene.several else []
    caption = (
        f"Accuracy ({scene.unit}) of the probe that learned from everyone, by layer, with {scene.level} bands over "
        f"speakers. Where bands of two groups overlap widely, no difference can be read off.{rest}"
    )
    axis = Axis("value", "Accuracy (share)", ".2f", zero=False)
    return _lines("accuracy-by-layer", "Whose phones are read worse, and in which layers?", caption, rows, axis, None)


def _correlations(scene: _Scene) -> Figure | None:
    rows = [
        _plain(scene.draft.estimates[place], layer=layer, series=held, by="")
        for partial, held in HELD.items()
        for layer in scene.layers
        if scene.several and (place := scene.found.correlations.get((SPLIT, layer, "speaker", partial))) is not None
    ]
    caption = (
        f"Spearman correlation over speakers of the variance {scene.found.scale} on one half of the phones with "
        f"accuracy on the other half, by layer, with {scene.level} bands. Where a band lies below the dashed line, "
        "speakers whose phones scatter more are read worse; with group held fixed, also among speakers of one group."
    )
    title = "Are speakers whose phones scatter more read worse, and in which layers?"
    axis = Axis("value", "Rank correlation of variance and accuracy", ".2f")
    return _lines("correlation", title, caption, rows, axis, 0.0)


def _speakers(scene: _Scene) -> Figure | None:
    corpus, found = scene.results.corpus, scene.found
    counts = next(counts for counts in scene.results.measured.layers if counts.layer == scene.best)
    right, given = Values(counts, corpus, scene.results.measured.mix).tokens(ALL, "all")
    spread = (counts.scatter.own if found.scale == "within speakers" else counts.scatter.around)[0]
    usable = np.flatnonzero(np.isfinite(spread) & (given > 0))
    place = found.correlations.get((CORRELATION, scene.best, "speaker", "no"))
    if place is None or len(usable) > MOST_POINTS:
        return None
    homes = [scene.names[corpus.groups[row]] if row >= 0 else "in no compared group" for row in corpus.home]
    rows: list[Json] = [
        {"spread": spread[one], "accuracy": right[one] / given[one], "speaker": corpus.names[one], "home": homes[one]}
        for one in sorted(usable.tolist(), key=lambda one: homes[one])
    ]
    x = Axis("spread", "Variance of the phones", ".3~g", zero=False)
    y = Axis("accuracy", "Accuracy (share)", ".2f", zero=False)
    facet = "home" if 1 < len({row["home"] for row in rows}) <= MOST_PANELS else None
    spec = scatter(rows, x=x, y=y, label="speaker", order=None, facet=facet)
    view = spec.get("spec", spec)
    # Hundreds of names have no room; pointing at a speaker tells who it is.
    view["layer"] = [layer for layer in view["layer"] if layer["mark"]["type"] != "text"]
    caption = (
        f"Each point is a speaker{scene.where}: the variance {found.scale} and how much ({scene.unit}) the probe of "
        f"everyone reads right. Over all of them the rank correlation is {span(scene.draft.estimates[place])}. Falling "
        "to the right: speakers whose phones scatter more are read worse. Both are of the same tokens, and share what "
        "chance did to these."
    )
    title = "Which speakers' phones scatter, and are these read worse?"
    return Figure(id="speakers", title=title, caption=caption, file="speakers", spec=spec)


def _by_layer(scene: _Scene, name: str, groups: Sequence[str], training: str = "") -> list[Json]:
    return [
        _plain(row, layer=layer, series=scene.names[group], by=f"by {scene.by(group)}")
        for group in groups
        for layer in scene.layers
        if (row := scene.row(name, group, training, layer)) is not None
    ]


def _lines(id: str, title: str, caption: str, rows: list[Json], axis: Axis, rule: float | None) -> Figure | None:
    """Draw lines by layer beside a dashed one; few groups of several attributes stand in a panel per attribute."""
    if not rows:
        return None
    series, kinds = (len({row[key] for row in rows}) for key in ("series", "by"))
    facet = "by" if series <= MOST_SERIES and kinds > 1 else None
    x = Axis("layer", "Layer", zero=False)
    spec = interval_lines(rows, x=x, y=axis, low="low", high="high", series="series", series_title="", facet=facet)
    if rule is not None:
        for row in spec["data"]["values"]:
            row["reference"] = rule
        level = {"field": "reference", "aggregate": "min", "type": "quantitative", "title": axis.title}
        dashed = {"type": "rule", "strokeDash": [4, 3], "color": UNDECIDED}
        spec.get("spec", spec)["layer"].insert(0, {"mark": dashed, "encoding": {"y": level}})
    return Figure(id=id, title=title, caption=caption, file=id, spec=_ticked(spec, rows, axis))


def _rows(
    id: str, title: str, caption: str, rows: list[Json], axis: Axis, reference: float, ranked: bool = False
) -> Figure | None:
    """Draw a forest in panels; an axis that they share is named once, and reaches no further than the marks."""
    if not rows:
        return None
    ends: dict[str, Any] = {"low": "low", "high": "high", "reference": reference, "greyed": "undecided"}
    spec = forest(rows, label="label", value=axis, facet="panel", ranked=ranked, **ends)
    if spec["resolve"]["scale"]["x"] == "shared":
        for place in (place for view in spec["vconcat"] for place in _places(view, "x")):
            place.get("scale", {}).update({"zero": False} if axis.scale == "linear" else {})
        for place in (place for view in spec["vconcat"][:-1] for place in _places(view, "x")):
            place |= {"title": None, "axis": {**place.get("axis", {}), "title": None}}
    for view in (view for view in spec["vconcat"] if len(view["title"]["text"]) > LONGEST):
        view["title"]["text"] = view["title"]["text"].replace("&", "&\n").split("\n")
    return Figure(id=id, title=title, caption=caption, file=id, spec=_ticked(spec, rows, axis))


def _places(view: Json, side: str) -> Iterator[Json]:
    """Yield what each mark of a view says of its place on one side."""
    return (layer["encoding"][side] for layer in view["layer"] if side in layer["encoding"])


def _ticked(spec: Json, rows: Sequence[Json], axis: Axis) -> Json:
    if axis.scale == "log":
        most = max(max(row["high"], 1 / row["low"]) for row in rows)
        ticks = next((ticks for top, ticks in TICKS.items() if most <= top), WIDE_TICKS)
        for view in spec.get("vconcat", [spec.get("spec", spec)]):
            for place in (*_places(view, "x"), *_places(view, "y")):
                if place.get("scale", {}).get("type") == "log":
                    place["axis"] |= {"values": ticks}
    return spec


def _plain(row: Estimate, **more: Any) -> Json:
    return {"value": row.value, "low": row.low, "high": row.high, "n": row.n, **more}
