"""The charts of the audit, each answering the question in its title."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from audits.charts import MOST_SERIES, UNDECIDED, Axis, forest, interval_lines, scatter
from audits.context import Draft
from audits.groups import ALL
from audits.numbers import percent, point
from audits.phoneme_errors import Options
from audits.phoneme_errors.estimating import RANDOM, SYSTEMATIC, At, Found
from audits.phoneme_errors.judging import best_layer
from audits.phoneme_errors.values import Values
from audits.records import Estimate, Figure, Json
from audits.wording import span

if TYPE_CHECKING:
    from audits.phoneme_errors.report import Results

MOST_ROWS, MOST_PANELS, MOST_GROUPS = 40, 12, 8
"""Groups that are drawn as one row each, as a panel of lines each, and as a panel of several rows each."""
MOST_POINTS, MOST_HOMES = 300, 6
"""Speakers up to whom each is a point, and groups up to which their points stand in panels."""
LONGEST = 26
"""Letters of a name on a chart; tables and tooltips hold the whole name."""
PROBES = {
    "all": "everyone",
    "all_matched": "as many of everyone",
    "in": "the group alone",
    "out": "everyone else",
}
GAPS = {
    "accuracy_gap": "gap to the others",
    "systematic_error": "mended by own data",
    "remaining_gap": "left with own data",
}
HELD = {"no": "as they are", "yes": "group and tokens per phone held fixed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """What all figures are drawn from; `groups` are ranked, those that are told first come first."""

    draft: Draft
    results: "Results"
    options: Options
    layers: tuple[int, ...]
    best: int
    groups: tuple[str, ...]

    @property
    def found(self) -> Found:
        return self.results.found

    @property
    def level(self) -> str:
        return percent(self.draft.estimates[0].level)

    @property
    def where(self) -> str:
        """The layer of a figure of one; a plain table of features has none to speak of."""
        if len(self.layers) > 1:
            return f" in layer {self.best}, where phones are read best"
        return "" if self.layers == (0,) else f" in layer {self.best}"

    @property
    def unit(self) -> str:
        return "mean share over phones" if self.options.weights == "phones" else "share of tokens"

    def row(self, found: Found, name: str, group: str, layer: int | None = None, training: str = "") -> Estimate | None:
        place = found.places.get(At(name, self.best if layer is None else layer, group, training))
        return None if place is None else self.draft.estimates[place]

    def by(self, group: str) -> str:
        return self.results.corpus.by[self.results.corpus.groups.index(group)]

    def shown(self, most: int) -> tuple[list[str], str]:
        """Return the groups that are drawn, in the order of the tables, and what a caption says of the others."""
        kept = set(self.groups[:most])
        left = len(self.groups) - len(kept)
        rest = f" {left} more {'groups are' if left > 1 else 'group is'} in the tables only." if left else ""
        return [group for group in self.results.corpus.groups if group in kept], rest


def draw(draft: Draft, results: "Results", options: Options) -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    if not draft.estimates:
        return []
    layers = tuple(counts.layer for counts in results.measured.layers)
    best = best_layer(draft, results.found, layers)
    scene = _Scene(draft=draft, results=results, options=options, layers=layers, best=best, groups=())
    ranked = sorted(results.corpus.groups, key=lambda group: _rank(scene, group))
    scene = _Scene(draft=draft, results=results, options=options, layers=layers, best=best, groups=tuple(ranked))
    errors = [_elsewhere(scene), _scattered(scene)] if len(layers) == 1 else [_errors(scene), _variances(scene)]
    read = [_gap(scene), _accuracy(scene), _accuracies(scene)]
    figures = (*errors, *read, _correlations(scene), _speakers(scene), _moved(scene))
    return [figure for figure in figures if figure is not None]


def _rank(scene: _Scene, group: str) -> tuple[int, float]:
    """Put attributes before their crossings, and large errors before small ones."""
    row = scene.row(scene.found, "systematic_error", group)
    return scene.by(group).count("&"), -1.0 if row is None else -(row.low or 0.0)


def _errors(scene: _Scene) -> Figure | None:
    groups, rest = scene.shown(MOST_PANELS)
    axis = Axis("value", f"Systematic error ({scene.unit})", ".2f")
    caption = (
        "Systematic error by layer: by how much a probe that learned from the group alone reads its phones better than "
        f"one that learned from as many tokens of everyone, with {scene.level} bands over speakers. Where a band lies "
        f"above the dashed line, the group's phones lie elsewhere than those of the others.{rest}"
    )
    rows = _by_layer(scene, scene.found, "systematic_error", groups)
    return _lines("errors", "Whose phones lie elsewhere, and in which layers?", caption, rows, axis, 0.0)


def _variances(scene: _Scene) -> Figure | None:
    groups, rest = scene.shown(MOST_PANELS)
    axis = Axis("value", "Variance over that of other groups", ".3~g", zero=False, scale="log")
    caption = (
        "Variance of a phone's tokens around the centroid of their own group, over the mean of the other groups, by "
        f"layer, with {scene.level} bands over speakers. Where a band lies above the dashed line, the group's phones "
        f"scatter more, which its own data cannot mend.{rest}"
    )
    rows = _by_layer(scene, scene.found, "variance_ratio", groups)
    return _lines("scatter-by-layer", "Whose phones scatter more, and in which layers?", caption, rows, axis, 1.0)


def _elsewhere(scene: _Scene) -> Figure | None:
    axis = Axis("value", f"Systematic error ({scene.unit})", ".2f")
    caption = (
        f"Systematic error{scene.where}: by how much a probe that learned from the group alone reads its phones better "
        f"than one that learned from as many tokens of everyone, with {scene.level} intervals over speakers. Right of "
        "the dashed line, the group's phones lie elsewhere than those of the others; grey: not shown once all groups "
        "are counted."
    )
    test = {group: scene.found.adjusted.get((SYSTEMATIC, scene.best, group), 1.0) for group in scene.groups}
    return _one_layer(scene, "errors", "Whose phones lie elsewhere?", caption, "systematic_error", axis, 0.0, test)


def _scattered(scene: _Scene) -> Figure | None:
    axis = Axis("value", "Variance over that of the other groups", ".3~g", zero=False, scale="log")
    caption = (
        f"Variance of a phone's tokens around the centroid of their own group{scene.where}, over the mean of the other "
        f"groups, with {scene.level} intervals over speakers. Right of the dashed line, the group's phones scatter "
        "more, which its own data cannot mend; grey: not shown once all groups are counted."
    )
    test = {group: scene.found.adjusted.get((RANDOM, scene.best, group), 1.0) for group in scene.groups}
    return _one_layer(scene, "scatter", "Whose phones scatter more?", caption, "variance_ratio", axis, 1.0, test)


def _one_layer(
    scene: _Scene,
    id: str,
    title: str,
    caption: str,
    name: str,
    axis: Axis,
    reference: float,
    test: dict[str, float],
    found: Found | None = None,
) -> Figure | None:
    """Draw one row per group in a panel per attribute; grey where `test`, a p-value, or the interval shows nothing."""
    groups, rest = scene.shown(MOST_ROWS)
    rows = []
    labels = _distinct((scene.by(group), _level(group, scene.by(group))) for group in groups)
    for group, label in zip(groups, labels, strict=True):
        row = scene.row(found or scene.found, name, group)
        if row is not None:
            grey = _meets(row, reference) or test[group] >= 1 - row.level
            rows.append(_plain(row, by=f"by {scene.by(group)}", label=label, group=group, undecided=grey))
    if not rows:
        return None
    spec = forest(
        rows, label="label", value=axis, low="low", high="high", reference=reference, facet="by", greyed="undecided"
    )
    return _figure(id, title, caption + rest, spec)


def _gap(scene: _Scene) -> Figure | None:
    groups, rest = scene.shown(MOST_GROUPS)
    axis = Axis("value", f"Accuracy ({scene.unit})", ".2f")
    rows = []
    for group, panel in _worst_first(scene, groups):
        parts = [(label, scene.row(scene.found, name, group)) for name, label in GAPS.items()]
        rows += [_plain(row, panel=panel, label=label, undecided=_meets(row, 0.0)) for label, row in parts if row]
    if not rows:
        return None
    spec = forest(
        rows,
        label="label",
        value=axis,
        low="low",
        high="high",
        reference=0.0,
        facet="panel",
        greyed="undecided",
        ranked=False,
    )
    caption = (
        f"For each group{scene.where}: by how much a common probe reads the others better than the group, how much of "
        "that a probe that learned from the group alone mends, and what is then left; the first is the sum of the "
        f"other two. {scene.level} intervals over speakers; grey intervals reach the dashed line. Left of the line, "
        f"the group is read better than the others.{rest}"
    )
    return _figure("gap", "How much of the gap would a group's own data mend?", caption, _untitled(spec))


def _accuracy(scene: _Scene) -> Figure | None:
    whole = scene.row(scene.found, "accuracy", ALL, training="all")
    groups, rest = scene.shown(MOST_GROUPS)
    rows = []
    for group, panel in _worst_first(scene, groups):
        parts = [
            (label, scene.row(scene.found, "accuracy", group, training=training)) for training, label in PROBES.items()
        ]
        rows += [_plain(row, panel=panel, label=label) for label, row in parts if row]
    if not rows or whole is None:
        return None
    axis = Axis("value", f"Phones read right ({scene.unit})", ".2f", zero=False)
    spec = forest(
        rows,
        label="label",
        value=axis,
        low="low",
        high="high",
        reference=whole.value,
        facet="panel",
        ranked=False,
    )
    caption = (
        f"Accuracy on each group's tokens{scene.where} of four probes, named by whom they learned from, with "
        f"{scene.level} intervals over speakers; the dashed line is that over all speakers, {point(whole)}. Where the "
        "group alone teaches more than as many tokens of everyone, its phones lie elsewhere; where no probe comes near "
        f"the line, they are noisy.{rest}"
    )
    return _figure("accuracy", "Which probe reads a group's phones?", caption, _untitled(spec))


def _accuracies(scene: _Scene) -> Figure | None:
    if len(scene.layers) == 1:
        return None
    groups, rest = scene.shown(MOST_PANELS)
    axis = Axis("value", f"Phones read right ({scene.unit})", ".2f", zero=False)
    caption = (
        f"Accuracy of the probe that learned from everyone, by layer, with {scene.level} bands over speakers. Where "
        f"bands of two groups overlap widely, no difference can be read off.{rest}"
    )
    rows = _by_layer(scene, scene.found, "accuracy", groups, training="all")
    return _lines("accuracy-by-layer", "In which layers are whose phones read worse?", caption, rows, axis, None)


def _correlations(scene: _Scene) -> Figure | None:
    if len(scene.layers) == 1:
        return None
    rows = []
    for layer in scene.layers:
        for partial, held in HELD.items():
            place = scene.found.correlations.get((layer, "speaker", partial))
            if place is not None:
                rows.append(_plain(scene.draft.estimates[place], layer=layer, series=held, by=""))
    axis = Axis("value", "Rank correlation of variance and accuracy", ".2f")
    caption = (
        f"Spearman correlation over speakers of the variance {scene.found.scale} with the share of tokens read right, "
        f"by layer, with {scene.level} bands. Where a band lies below the dashed line, speakers whose phones scatter "
        "more are read worse, there also among speakers of one group where these are held fixed."
    )
    title = "In which layers are speakers whose phones scatter more read worse?"
    return _lines("correlation", title, caption, rows, axis, 0.0)


def _speakers(scene: _Scene) -> Figure | None:
    corpus = scene.results.corpus
    counts = next(counts for counts in scene.results.measured.layers if counts.layer == scene.best)
    right, given = Values(counts, corpus, scene.options.weights == "phones").tokens(ALL, "all")
    within = scene.found.scale == "within speakers"
    spread = counts.scatter.own if within else counts.scatter.around
    usable = np.flatnonzero(np.isfinite(spread) & (given > 0)).tolist()
    place = scene.found.correlations.get((scene.best, "speaker", "no"))
    if place is None or len(usable) > MOST_POINTS:
        return None
    homes = corpus.home
    rows = [
        {"spread": spread[one], "accuracy": right[one] / given[one], "speaker": corpus.names[one],
         "home": _short(corpus.groups[homes[one]]) if homes[one] >= 0 else "in no compared group"}
        for one in usable
    ]  # fmt: skip
    rows.sort(key=lambda row: str(row["home"]))
    apart = 1 < len({row["home"] for row in rows}) <= MOST_HOMES
    spec = scatter(
        rows,
        x=Axis("spread", "Variance of a speaker's phones", ".3~g", zero=False),
        y=Axis("accuracy", f"Read right ({scene.unit})", ".2f", zero=False),
        label="speaker",
        order=None,
        facet="home" if apart else None,
    )
    caption = (
        f"Each point is a speaker{scene.where}: variance {scene.found.scale} and share of tokens that the probe of "
        f"everyone reads right; rank correlation {span(scene.draft.estimates[place])}, {scene.level}. Falling to the "
        "right: speakers whose phones scatter more are read worse."
    )
    return _figure("speakers", "Are speakers whose phones scatter more read worse?", caption, _nameless(spec))


def _moved(scene: _Scene) -> Figure | None:
    changes = scene.results.changes
    if changes is None:
        return None
    name, title = "systematic_error_difference", "Did the second encoder move whose phones lie elsewhere?"
    axis = Axis("value", f"Change of the systematic error ({scene.unit})", ".2f")
    caption = "Systematic error in the second encoder less that in the first, on the same tokens"
    if len(scene.layers) == 1:
        caption += (
            f"{scene.where}, with {scene.level} intervals over speakers. Right of the dashed line, the error rose; "
            "grey: no change could be shown once all groups are counted."
        )
        test = {group: changes.adjusted.get((name, scene.best, group), 1.0) for group in scene.groups}
        return _one_layer(scene, "moved", title, caption, name, axis, 0.0, test, changes.differences)
    groups, rest = scene.shown(MOST_PANELS)
    caption += (
        f" and by layer, with {scene.level} bands over speakers. Where a band lies above the dashed line, the error "
        f"rose; below it, it fell.{rest}"
    )
    return _lines("moved", title, caption, _by_layer(scene, changes.differences, name, groups), axis, 0.0)


def _by_layer(scene: _Scene, found: Found, name: str, groups: Sequence[str], training: str = "") -> list[Json]:
    named = _distinct(("", _short(group)) for group in groups)
    return [
        _plain(row, layer=layer, series=label, by=f"by {scene.by(group)}")
        for group, label in zip(groups, named, strict=True)
        for layer in scene.layers
        if (row := scene.row(found, name, group, layer, training)) is not None
    ]


def _lines(id: str, title: str, caption: str, rows: list[Json], axis: Axis, rule: float | None) -> Figure | None:
    """Draw lines by layer beside a dashed one; few groups of several attributes stand in a panel per attribute."""
    if not rows:
        return None
    kinds = {row["by"] for row in rows}
    apart = len(kinds) > 1 and len({row["series"] for row in rows}) <= MOST_SERIES
    spec = interval_lines(
        rows,
        x=Axis("layer", "Layer", zero=False),
        y=axis,
        low="low",
        high="high",
        series="series",
        series_title="",
        facet="by" if apart else None,
    )
    if rule is not None:
        for row in spec["data"]["values"]:
            row["reference"] = rule
        level = {"field": "reference", "aggregate": "min", "type": "quantitative", "title": axis.title}
        dashed = {"type": "rule", "strokeDash": [4, 3], "color": UNDECIDED}
        spec.get("spec", spec)["layer"].insert(0, {"mark": dashed, "encoding": {"y": level}})
    return _figure(id, title, caption, spec)


def _worst_first(scene: _Scene, groups: Sequence[str]) -> list[tuple[str, str]]:
    """Return the groups, the widest gap first, and what stands above the panel of each."""
    gaps = {group: row.value for group in groups if (row := scene.row(scene.found, "accuracy_gap", group))}
    ordered = sorted(groups, key=lambda group: -gaps.get(group, -1.0))
    return list(zip(ordered, _distinct(("", _short(group)) for group in ordered), strict=True))


def _level(group: str, by: str) -> str:
    parts = zip(group.split("&"), by.split("&"), strict=True)
    return " & ".join(_short(part.removeprefix(f"{name}=")) for part, name in parts)


def _distinct(names: Iterable[tuple[str, str]]) -> list[str]:
    """Return the second of each pair, with a number where the same pair was there before."""
    met: Counter[tuple[str, str]] = Counter()
    found = []
    for pair in names:
        met[pair] += 1
        found.append(pair[1] if met[pair] == 1 else f"{pair[1]} ({met[pair]})")
    return found


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 10].rstrip()}…{name[-9:].lstrip()}"


def _nameless(spec: Json) -> Json:
    """Take the labels off the points: hundreds of speakers have no room for them, and pointing at one names it."""
    view = spec.get("spec", spec)
    view["layer"] = [layer for layer in view["layer"] if layer["mark"]["type"] != "text"]
    for row in spec["data"]["values"]:
        del row["name"], row["side"]
    return spec


def _untitled(spec: Json) -> Json:
    """Name the axis under the last of the panels only, which all have the same."""
    return spec


def _meets(row: Estimate, reference: float) -> bool:
    return row.low is None or row.high is None or row.low <= reference <= row.high


def _plain(row: Estimate, **more: Any) -> Json:
    return {"value": row.value, "low": row.low, "high": row.high, "n": row.n, **more}


def _figure(id: str, title: str, caption: str, spec: Json) -> Figure:
    return Figure(id=id, title=title, caption=caption, file=id, spec=spec)
