"""The charts of the audit, each answering the question in its title."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from audits.chart_text import titled
from audits.charts import Axis, bars, forest, heat_map
from audits.context import Draft
from audits.groups import ALL, UNKNOWN, GroupSet
from audits.numbers import interval, percent, point
from audits.records import Estimate, Figure, Json
from audits.speaker_groups import Options
from audits.speaker_groups.adjusting import Rung
from audits.speaker_groups.counts import METRIC_WORDS, Utterances
from audits.speaker_groups.gaps import GapRow
from audits.speaker_groups.inputs import Inputs
from audits.statistics import Ends

if TYPE_CHECKING:
    from audits.speaker_groups.report import Results

MOST_IN_ONE = 150
"""Groups above which the crossings have a figure of their own."""
MOST_ROWS, MOST_CROSSINGS, MOST_SYSTEMS = 40, 6, 4
"""Rows of one panel, and panels of crossings and of systems, that are drawn."""
MOST_GAPS, MOST_RUNGS, MOST_STRATA = 15, 6, 8
MOST_COLUMNS, MOST_LINES = 12, 24
"""Columns and lines of the heat map that are drawn."""
WIDEST = 2.0
"""Times the highest end of all groups that are not small to which the interval of a small one is drawn."""
LONGEST = 22
"""Width of a name on a chart in letters; the tables and what a mark tells hold the whole name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """What all figures are drawn from; `whole` is the rate of the first system on all clips."""

    draft: Draft
    data: Utterances
    results: "Results"
    metric: str
    whole: Estimate

    @property
    def level(self) -> str:
        return percent(self.whole.level)

    @property
    def words(self) -> str:
        return METRIC_WORDS[self.metric]

    @property
    def systems(self) -> list[str]:
        return _labels(self.data.systems)

    @property
    def whose(self) -> str:
        """Whose numbers a figure of one system shows; nothing has to be said where there is one only."""
        return f" of {self.systems[0]}" if len(self.systems) > 1 else ""

    def rate(self, group: str) -> Estimate | None:
        at = self.results.rates.rows[self.metric].get((0, group))
        return None if at is None else self.draft.estimates[at]

    def gap(self, row: GapRow, system: int = 0) -> Estimate:
        return self.draft.estimates[row.gap[system, "absolute"]]


def draw(draft: Draft, data: Utterances, results: "Results", inputs: Inputs, options: Options) -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    found = results.rates.rows[options.metric].get((0, ALL))
    figures: list[Figure | None] = []
    if found is not None:
        scene = _Scene(draft=draft, data=data, results=results, metric=options.metric, whole=draft.estimates[found])
        figures = [*_groups(scene), _pairs(scene), _ladder(scene), _gaps(scene), _systems(scene)]
    figures.append(_coverage(data, inputs))
    return [figure for figure in figures if figure is not None]


def _groups(scene: _Scene) -> list[Figure | None]:
    """Return the rates of all groups, in two figures where they are many."""
    singles = scene.data.singles()
    crossed = [groups for groups in scene.data.sets if "&" in groups.by]
    lowest = {row.by: scene.gap(row).low or 0.0 for row in scene.results.rows if (0, "absolute") in row.gap}
    crossed.sort(key=lambda groups: (-lowest.get(groups.by, -1.0), groups.by.count("&"), groups.by))
    parts = [_panel(scene, groups) for groups in singles], [_panel(scene, groups) for groups in crossed]
    single, crossing = ([panel for panel in part if panel[0]] for part in parts)
    beyond = crossing[MOST_CROSSINGS:]
    crossing = crossing[:MOST_CROSSINGS]
    if sum(len(rows) for rows, _ in (*single, *crossing)) <= MOST_IN_ONE:
        return [_rates(scene, "groups", [*single, *crossing], beyond)]
    return [_rates(scene, "groups", single, []), _rates(scene, "crossings", crossing, beyond)]


_Panel = tuple[list[Json], str]
"""The rows of a panel, and what it leaves out in words."""


def _panel(scene: _Scene, groups: GroupSet) -> _Panel:
    names = [*groups.names, *([] if "&" in groups.by else [f"{groups.by}={UNKNOWN}"])]
    met = [(name, row) for name in names if (row := scene.rate(name)) is not None]
    small = scene.results.rates.small
    # A few clips of one speaker make the most extreme rates: where rows must go, those go first.
    met.sort(key=lambda pair: (pair[0] in small, -pair[1].value, pair[0]))
    kept = sorted(met[:MOST_ROWS], key=lambda pair: (-pair[1].value, pair[0]))
    labels = _distinct(_level(name, groups.by) for name, _ in kept)
    panel = _attribute(scene.data, groups.by)
    rows = [
        _plain(row, panel=panel, label=f"{label} (n = {row.n})" if name in small else label, group=name,
               small=name in small, n=row.n)
        for (name, row), label in zip(kept, labels, strict=True)
    ]  # fmt: skip
    left = f"{len(met) - len(kept)} of {len(met)} by {panel}" if len(met) > len(kept) else ""
    return rows, left


def _rates(scene: _Scene, id: str, panels: Sequence[_Panel], beyond: Sequence[_Panel]) -> Figure | None:
    rows = [row for mine, _ in panels for row in mine]
    if not rows:
        return None
    widest = _without_widest(rows)
    spec = _panelled(rows, Axis("value", scene.words.capitalize(), ".2f"), scene.whole.value, greyed="small")
    left = [said for _, said in panels if said]
    caption = (
        f"{scene.words.capitalize()}{scene.whose} on each group with {scene.level} intervals over {scene.data.unit}, "
        f"the highest on top; the dashed line is that on all clips, {point(scene.whole)} ({interval(scene.whole)})."
    )
    if any(row["small"] for row in rows):
        caption += f" Grey, with their n: groups on too few {scene.data.unit} or words to be relied on."
    if widest:
        caption += f" The intervals of {widest} of them are wider than the chart and in the tables only."
    if left:
        caption += f" In the tables only: {', '.join(left)}; those on too few, then the lowest, were left out."
    caption += _rest(len(beyond), "crossings, with less clear gaps,")
    what = "groups" if id == "groups" else "crossings of groups"
    return Figure(id=id, title=f"On which {what} are errors frequent?", caption=caption, file=id, spec=spec)


def _without_widest(rows: Sequence[Json]) -> int:
    """Take away the intervals of small groups that would leave no room for all others; return how many."""
    ends = [row["high"] for row in rows if not row["small"] and row["high"] is not None]
    wide = [row for row in rows if ends and row["small"] and (row["high"] or 0.0) > WIDEST * max(ends)]
    for row in wide:
        row["low"] = row["high"] = None
    return len(wide)


def _pairs(scene: _Scene) -> Figure | None:
    """Draw the crossing of two attributes whose gap is the clearest."""
    rows = [row for row in scene.results.rows if row.by.count("&") == 1 and (0, "absolute") in row.gap]
    row = max(rows, key=lambda row: scene.gap(row).low or 0.0, default=None)
    if row is None:
        return None
    cells = [tuple(name.split("&")) for name in row.groups.names if scene.rate(name) is not None]
    sides = [list(dict.fromkeys(sorted(cell[side] for cell in cells))) for side in (0, 1)]
    across, down = (0, 1) if len(sides[0]) <= len(sides[1]) else (1, 0)
    columns, lines = _fullest(scene, sides[across], MOST_COLUMNS), _fullest(scene, sides[down], MOST_LINES)
    names = row.by.split("&")
    labels = [
        dict(zip(chosen, _distinct(_level(level, names[side]) for level in chosen), strict=True))
        for side, chosen in ((across, columns), (down, lines))
    ]
    table = []
    for line in lines:
        for column in columns:
            name = "&".join((column, line) if across == 0 else (line, column))
            found = scene.rate(name)
            if found is not None:
                table.append(
                    _plain(found, x=labels[0][column], y=labels[1][line], group=name, n=found.n,
                           small=name in scene.results.rates.small)
                )  # fmt: skip
    titles = [_attribute(scene.data, names[side]) for side in (across, down)]
    spec = heat_map(
        table,
        x=Axis("x", titles[0], kind="ordinal"),
        y=Axis("y", titles[1], kind="ordinal"),
        value=Axis("value", scene.words.capitalize(), ".2f"),
        diverging=False,
        faded="small",
    )
    for layer in spec["layer"]:
        # Cells that nobody is in must not change the order of the levels, such as of ages.
        layer["encoding"]["x"]["sort"], layer["encoding"]["y"]["sort"] = (list(names.values()) for names in labels)
    caption = f"{scene.words.capitalize()}{scene.whose} on each crossing of {titles[1]} and {titles[0]}, of all pairs "
    caption += "the one with the clearest gap; an empty cell is a crossing that nobody is in."
    if any(cell["small"] for cell in table):
        caption += f" Faded: too few {scene.data.unit} or words to be relied on."
    cut = len(sides[0]) + len(sides[1]) - len(columns) - len(lines)
    caption += _rest(cut, f"levels, on the fewest {scene.data.unit},")
    title = f"How do {titles[1]} and {titles[0]} act together?"
    return Figure(id="pairs", title=title, caption=caption, file="pairs", spec=spec)


def _fullest(scene: _Scene, levels: Sequence[str], most: int) -> list[str]:
    """Return the levels with the most speakers, in the order given."""
    people = {level: 0 if (row := scene.rate(level)) is None else row.n or 0 for level in levels}
    kept = set(sorted(levels, key=lambda level: -people[level])[:most])
    return [level for level in levels if level in kept]


def _ladder(scene: _Scene) -> Figure | None:
    chosen: list[Rung] = []
    met = set()
    for rung in sorted(scene.results.adjusted.rungs, key=lambda rung: (-_least(rung.marginal), -rung.marginal[0])):
        pair = (rung.system, rung.attribute, frozenset((rung.level, rung.reference)))
        # With nothing else in the model there is no second rung to stand on.
        if rung.shown and (rung.strata or rung.faded != (0.0, 0.0, 0.0)) and pair not in met:
            met.add(pair)
            chosen.append(rung)
    if not chosen:
        return None
    shown = chosen[:MOST_RUNGS]
    panels = _distinct(_against(scene, rung) for rung in shown)
    rows = [row for panel, rung in zip(panels, shown, strict=True) for row in _steps(rung, panel)]
    axis = Axis("value", f"Ratio of the two {scene.words}s", ".3~g", zero=False, scale="log")
    spec = _panelled(rows, axis, 1.0, greyed="undecided")
    caption = (
        f"Each panel sets one group against another: the ratio of their {scene.words}s as it is, within each level of "
        f"the other attributes, and with everything else held fixed, with {scene.level} intervals. At the dashed line "
        "the two err alike; grey rows reach it. Where the last row crosses the line and the first does not, what "
        "differs goes with the others; a panel whose title says so shows a loss beyond chance."
    )
    caption += _rest(len(chosen) - MOST_RUNGS, "differences, less clear,")
    if any(len(rung.strata) > MOST_STRATA for rung in shown):
        caption += f" Of the levels of others at most {MOST_STRATA} are drawn: the explaining ones, then the surest."
    return Figure(
        id="ladder",
        title="What is left of each difference once everything else is held fixed?",
        caption=caption,
        file="ladder",
        spec=spec,
    )


def _against(scene: _Scene, rung: Rung) -> str:
    """Return the title of a panel: who is set against whom, and what that goes with if it is explained."""
    title = f"{_attribute(scene.data, rung.attribute)}: {_short(rung.level)} against {_short(rung.reference)}"
    if len(scene.systems) > 1:
        title += f" ({scene.systems[rung.system]})"
    if rung.spurious:
        title += f"\ngoes with {' and '.join(_short(name) for name in rung.explained_by[:3])}"
    return title


def _steps(rung: Rung, panel: str) -> list[Json]:
    """Return the rows of one panel from the marginal ratio down to the adjusted one."""
    explaining = {name for name in rung.strata if name.partition("=")[0] in rung.explained_by}
    width = {name: ends[2] - ends[1] for name, ends in rung.strata.items()}
    kept = set(sorted(width, key=lambda name: (name not in explaining, width[name]))[:MOST_STRATA])
    strata = {name: ends for name, ends in rung.strata.items() if name in kept}
    ladder = {"alone": rung.marginal, **strata, "all else held fixed": rung.adjusted}
    labels = ["alone", *(f"in {name}" for name in _labels(strata)), "all else held fixed"]
    return [
        {"panel": panel, "label": label, **_exponentials(ends), "undecided": ends[1] <= 0 <= ends[2], "within": name}
        for label, (name, ends) in zip(labels, ladder.items(), strict=True)
    ]


def _exponentials(ends: Ends) -> Json:
    # Farther ends than these no axis could show, nor could a float hold the farthest.
    value, low, high = np.exp(np.clip(ends, -12, 12)).tolist()
    return {"value": value, "low": low, "high": high}


def _least(ends: Ends) -> float:
    """Return how far from zero an interval stays."""
    return max(ends[1], -ends[2])


def _gaps(scene: _Scene) -> Figure | None:
    rows: list[Json] = []
    left = 0
    for system, name in enumerate(scene.systems[:MOST_SYSTEMS]):
        mine = [row for row in scene.results.rows if (system, "absolute") in row.gap and system in row.floor]
        mine.sort(key=lambda row: (row.crossed, -(scene.gap(row, system).low or 0.0), row.by))
        left = max(left, len(mine) - MOST_GAPS)
        kept = sorted(mine[:MOST_GAPS], key=lambda row: (-scene.gap(row, system).value, row.by))
        labels = _distinct(_attribute(scene.data, row.by) for row in kept)
        for row, label in zip(kept, labels, strict=True):
            gap, floor = scene.gap(row, system), scene.draft.estimates[row.floor[system]]
            between = {"panel": name, "worst": row.worst[system], "best": row.best[system]}
            rows.append(_plain(gap, label=label, chance=False, **between))
            rows.append(_plain(floor, label=f"{label}, chance", chance=True, panel=name))
    if not rows:
        return None
    axis = Axis("value", f"Gap in {scene.words}, worst against best group", ".2f")
    spec = _panelled(rows, axis, 0.0, greyed="chance", facet="panel" if len(scene.systems) > 1 else None)
    caption = (
        f"Gap between the worst and the best group by each attribute and crossing with {scene.level} intervals and, in "
        f"grey, the gap that chance alone makes: labels shuffled over {scene.data.unit}. A gap that lies right of its "
        "grey interval is seldom made by chance; which ones the declared test rejects, once all tests are counted, "
        "stands in the findings."
    )
    caption += _rest(left, "gaps, the least clear by crossings,") + _rest(len(scene.systems) - MOST_SYSTEMS, "systems")
    title = "Which gaps are larger than chance makes them?"
    return Figure(id="gaps", title=title, caption=caption, file="gaps", spec=spec)


def _systems(scene: _Scene) -> Figure | None:
    singles = {name for groups in scene.data.singles() for name in (ALL, *groups.names, f"{groups.by}={UNKNOWN}")}
    found: dict[str, list[Estimate]] = {name: [] for name in scene.data.systems[1:]}
    for row in scene.draft.estimates:
        if row.name == "system_difference" and row.where["metric"] == scene.metric and row.where["group"] in singles:
            found[str(row.where["system"])].append(row)
    rows = []
    left = 0
    names = dict(zip(scene.data.systems, scene.systems, strict=True))
    met = [name for name in found if found[name]]
    for name in met[:MOST_SYSTEMS]:
        mine = sorted(found[name], key=lambda row: (row.where["group"] != ALL, -(row.n or 0)))
        left = max(left, len(mine) - MOST_ROWS)
        mine = sorted(mine[:MOST_ROWS], key=lambda row: (row.where["group"] != ALL, -row.value))
        for row, label in zip(mine, _labels(str(row.where["group"]) for row in mine), strict=True):
            unsure = row.low is None or row.high is None or row.low <= 0 <= row.high
            shown = {"label": label, "group": row.where["group"], "n": row.n}
            rows.append(_plain(row, panel=names[name], undecided=unsure, **shown))
    if not rows:
        return None
    first = scene.systems[0]
    axis = Axis("value", f"{scene.words.capitalize()} less that of {first}", ".3f")
    caption = (
        f"Difference to {first} on the same clips, all together and by group, with {scene.level} intervals over "
        f"{scene.data.unit}. Left of the dashed line a system errs less than {first}; grey: no difference could be "
        f"shown. Groups on too few {scene.data.unit} or words are left out."
    )
    caption += _rest(left, f"groups, on the fewest {scene.data.unit},") + _rest(len(met) - MOST_SYSTEMS, "systems")
    title = f"Who gains and who loses with another system than {first}?"
    spec = _panelled(rows, axis, 0.0, greyed="undecided")
    return Figure(id="systems", title=title, caption=caption, file="systems", spec=spec)


def _coverage(data: Utterances, inputs: Inputs) -> Figure | None:
    if not inputs.skipped:
        return None
    rows, left = [], []
    for groups in data.singles():
        used = Counter(clip.attributes[groups.by] for clip in inputs.clips)
        lost = Counter(clip.attributes[groups.by] for clip, _ in inputs.skipped)
        levels = sorted({*used, *lost}, key=lambda level: (-lost[level], -used[level], level))
        panel = _attribute(data, groups.by)
        for level, label in zip(levels, _labels(levels[:MOST_ROWS]), strict=False):
            clips = {"used": used[level], "left out": lost[level]}
            rows += [
                {"panel": panel, "label": label, "status": status, "clips": count} for status, count in clips.items()
            ]
        left += [f"{len(levels) - MOST_ROWS} levels of {panel}"] * (len(levels) > MOST_ROWS)
    caption = "Clips used and left out for each level of each attribute, those with the most left out on top."
    if left:
        caption += f" Not drawn, with the fewest left out: {', '.join(left)}."
    spec = bars(rows, label="label", value=Axis("clips", "Clips", "d"), series="status", series_title="", facet="panel")
    return Figure(id="coverage", title="Whose clips were left out?", caption=caption, file="coverage", spec=spec)


def _panelled(rows: Sequence[Json], value: Axis, reference: float, *, greyed: str, facet: str | None = "panel") -> Json:
    """Draw a forest whose rows keep their order; long titles of panels are broken into lines."""
    ends = {"low": "low", "high": "high", "reference": reference}
    spec = forest(rows, label="label", value=value, **ends, facet=facet, greyed=greyed, ranked=False)
    for view in spec.get("vconcat", ()):
        lines = [titled(line) for line in view["title"]["text"].split("\n")]
        view["title"]["text"] = [part for line in lines for part in ([line] if isinstance(line, str) else line)]
    return spec


def _rest(count: int, what: str) -> str:
    """Say how many more there are than are drawn, if any."""
    return f" {count} more {what} {'is' if count == 1 else 'are'} in the tables only." if count > 0 else ""


def _plain(row: Estimate, **more: Any) -> Json:
    return {"value": row.value, "low": row.low, "high": row.high, **more}


def _level(group: str, by: str) -> str:
    """Return the levels of a group without the names of the attributes, which stand above."""
    parts = zip(group.split("&"), by.split("&"), strict=False)
    return " & ".join(_short(part.removeprefix(f"{name}=")) for part, name in parts)


def _attribute(data: Utterances, by: str) -> str:
    """Return what the attributes of a set are called above a panel."""
    every = [groups.by for groups in data.singles()]
    called = dict(zip(every, _labels(every), strict=True))
    return " & ".join(called.get(name) or _short(name) for name in by.split("&"))


def _labels(names: Iterable[str]) -> list[str]:
    """Return short names that all differ: one step of a chart holds all rows of its name."""
    return _distinct(_short(name) for name in names)


def _distinct(texts: Iterable[str]) -> list[str]:
    met: dict[str, None] = {}
    for text in texts:
        found, number = text, 1
        while found in met:
            number += 1
            found = f"{text} ({number})"
        met[found] = None
    return list(met)


def _short(name: str) -> str:
    """Return a name with its middle left out where it is wide; the two ends tell most names apart."""
    if _width(name) <= LONGEST:
        return name
    head, tail = "", ""
    for letter in name:
        if _width(head + letter) > LONGEST * 2 // 3:
            break
        head += letter
    for letter in reversed(name):
        if _width(head + letter + tail) >= LONGEST:
            break
        tail = letter + tail
    return f"{head.rstrip()}…{tail.lstrip()}"


def _width(text: str) -> int:
    """Return how many letters wide a text is: those of East Asia and emoji take two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)
