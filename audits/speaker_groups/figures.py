"""The figures of the audit, each titled with the question that it answers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from audits.core.context import Draft
from audits.core.groups import ALL, UNKNOWN, GroupSet
from audits.core.numbers import interval, percent, point
from audits.core.records import Estimate, Figure, Json
from audits.group_rates import METRIC_WORDS
from audits.group_rates.clips import clips_by_level
from audits.report.charts import Axis, bars, figure_of, forest, heat_map
from audits.speaker_groups.adjusting import Rung
from audits.speaker_groups.clips import Inputs
from audits.speaker_groups.confusion_figure import confused
from audits.speaker_groups.counts import Utterances
from audits.speaker_groups.figure_parts import (
    LONGEST_TITLE,
    attribute_of,
    distinct,
    levels_of,
    named_apart,
    short,
    width,
)
from audits.speaker_groups.measure import Counts
from audits.statistics import Ends

MOST_IN_ONE = 150
"""Groups above which the crossings have a figure of their own."""
MOST_ROWS, MOST_CROSSINGS, MOST_SYSTEMS = 40, 6, 4
"""Rows of one panel, and panels of crossings and of systems, that are drawn."""
MOST_GAPS, MOST_RUNGS, MOST_STRATA = 15, 6, 8
MOST_COLUMNS, MOST_LINES = 12, 24
"""Columns and lines of the heat map that are drawn."""
LONGEST_PAIR = 34
"""Width in letters up to which a gap is named with its two groups; tooltips name them all."""
WIDEST = 2.0
"""How many times as high as all others the interval of a small group may end and still be drawn."""
MARGINAL, ADJUSTED = "alone (marginal)", "everything else held fixed"


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures, without those that would be empty."""
    found: list[Figure | None] = []
    if _rate(draft, counts, ALL) is not None:
        found += [*_groups(draft, counts), *_pairs(draft, counts), _ladder(counts), _gaps(draft, counts)]
        found += [_systems(draft, counts), confused(counts)]
    found.append(_coverage(counts.data, counts.inputs))
    yield from (figure for figure in found if figure is not None)


def _rate(draft: Draft, counts: Counts, group: str, system: int = 0) -> Estimate | None:
    """Return the rate of a system, by default the first, on a group."""
    return draft.get("rate", **counts.where(system, group=group))


def _gap(draft: Draft, counts: Counts, by: str, system: int = 0) -> Estimate | None:
    return draft.get("gap", **counts.where(system, by=by), kind="absolute", adjusted="no")


def _least_gap(draft: Draft, counts: Counts, by: str, system: int = 0) -> float:
    """Return the low end of a gap, by which gaps are ranked."""
    gap = _gap(draft, counts, by, system)
    return -1.0 if gap is None else gap.low or 0.0


def _words(counts: Counts) -> str:
    return METRIC_WORDS[counts.options.metric]


def _of(counts: Counts, system: int) -> str:
    """Return the words that name the system of a figure; empty where there is only one system."""
    return f" of {named_apart(counts.data.systems)[system]}" if len(counts.data.systems) > 1 else ""


def _groups(draft: Draft, counts: Counts) -> list[Figure | None]:
    """Return the rates of all groups, in two figures where they are many."""
    crossed = [groups for groups in counts.data.sets if "&" in groups.by]
    crossed.sort(key=lambda groups: (-_least_gap(draft, counts, groups.by), groups.by.count("&"), groups.by))
    single = [_panel(draft, counts, groups) for groups in counts.data.singles()]
    crossing = [_panel(draft, counts, groups) for groups in crossed[:MOST_CROSSINGS]]
    beyond = len(crossed) - MOST_CROSSINGS
    if len({(row["panel"], row["label"]) for rows, _ in (*single, *crossing) for row in rows}) <= MOST_IN_ONE:
        return [_rates(draft, counts, "groups", [*single, *crossing], beyond)]
    return [_rates(draft, counts, "groups", single, 0), _rates(draft, counts, "crossings", crossing, beyond)]


_Panel = tuple[list[Json], str]
"""The rows of a panel, and what it leaves out in words."""


def _panel(draft: Draft, counts: Counts, groups: GroupSet) -> _Panel:
    names = [*groups.names, *([] if "&" in groups.by else [f"{groups.by}={UNKNOWN}"])]
    rated = [(name, row) for name in names if (row := _rate(draft, counts, name)) is not None]
    small = counts.small
    # The fewest clips make the most extreme rates: where rows must go, those go first.
    rated.sort(key=lambda pair: (1, -(pair[1].n or 0)) if pair[0] in small else (0, -pair[1].value))
    kept = sorted(rated[:MOST_ROWS], key=lambda pair: (-pair[1].value, pair[0]))
    labels = distinct(levels_of(name, groups.by) for name, _ in kept)
    panel = attribute_of(counts.data, groups.by)
    rows = []
    systems = named_apart(counts.data.systems)[:MOST_SYSTEMS]
    for (name, row), label in zip(kept, labels, strict=True):
        few = name in small
        text = f"{label} (n = {row.n})" if few else label
        for system, called in enumerate(systems):
            found = _rate(draft, counts, name, system)
            named = {"system": called} if len(systems) > 1 else {}
            if found is not None:
                rows.append(_plain(found, panel=panel, label=text, group=name, small=few, n=found.n, **named))
    return rows, f"{len(rated) - len(kept)} of {len(rated)} by {panel}" if len(rated) > len(kept) else ""


def _rates(draft: Draft, counts: Counts, id: str, panels: Sequence[_Panel], beyond: int) -> Figure | None:
    rows = [row for mine, _ in panels for row in mine]
    if not rows:
        return None
    whole = draft.row("rate", **counts.where(0, group=ALL))
    wide = _without_widest(rows)
    title = _words(counts).capitalize()
    several = len({row.get("system") for row in rows}) > 1
    spec = _panelled(rows, Axis("value", title, ".2f"), None if several else whole.value, greyed="small",
                     series="system" if several else None)  # fmt: skip
    caption = f"{title} on each group with {percent(counts.level)} intervals over {counts.data.unit}, the highest "
    if several:
        caption += f"{_of(counts, 0)[1:]} on top; on all clips it is {_on_all(draft, counts)}."
        caption += _rest(len(counts.data.systems) - MOST_SYSTEMS, "systems")
    else:
        caption += f"on top; the dashed line is that on all clips, {point(whole)} ({interval(whole)})."
    if any(row["small"] for row in rows):
        caption += f" Grey, with their n: groups on too few {counts.data.unit} or words to be relied on."
    if wide:
        caption += f" Grey points without a line have no interval or, {wide} of them, one wider than the chart."
    if left := [text for _, text in panels if text]:
        caption += f" In the tables only: {', '.join(left)}: those on the fewest {counts.data.unit}, then the lowest."
    caption += _rest(beyond, "crossings, with less clear gaps,")
    what = "groups" if id == "groups" else "crossings of groups"
    asked = "does each system err most" if several else "are errors more frequent than overall"
    return figure_of(id, f"On which {what} {asked}?", caption, spec)


def _on_all(draft: Draft, counts: Counts) -> str:
    """Return the rates of the systems on all clips, in words."""
    named = enumerate(named_apart(counts.data.systems)[:MOST_SYSTEMS])
    rates = [(name, _rate(draft, counts, ALL, system)) for system, name in named]
    return ", ".join(f"{point(row)} ({name})" for name, row in rates if row is not None)


def _without_widest(rows: Sequence[Json]) -> int:
    """Remove intervals of small groups that would leave no room for all others; return their number."""
    ends = [row["high"] for row in rows if not row["small"] and row["high"] is not None]
    wide = [row for row in rows if ends and (row["high"] or 0.0) > WIDEST * max(ends)]
    for row in wide:
        row["low"] = row["high"] = None
    return len(wide)


def _pairs(draft: Draft, counts: Counts) -> Iterator[Figure | None]:
    """Draw for each system the crossing of two attributes with its clearest gap."""
    for system in range(len(counts.data.systems[:MOST_SYSTEMS])):
        yield _pair(draft, counts, system)


def _pair(draft: Draft, counts: Counts, system: int) -> Figure | None:
    pairs = [item for item in counts.comparisons if item.by.count("&") == 1 and _gap(draft, counts, item.by, system)]
    pair = max(pairs, key=lambda item: _least_gap(draft, counts, item.by, system), default=None)
    if pair is None:
        return None
    cells = {
        tuple(name.split("&")): found
        for name in pair.groups.names
        if (found := _rate(draft, counts, name, system)) is not None
    }
    if not cells:
        return None
    sides = [sorted({cell[side] for cell in cells}) for side in (0, 1)]
    across = int(len(sides[0]) > len(sides[1]))
    called: list[dict[str, str]] = [{}, {}]
    for side, by in enumerate(pair.by.split("&")):
        people = {level: getattr(_rate(draft, counts, level, system), "n", 0) for level in sides[side]}
        fullest = sorted(people, key=lambda level: -people[level])[: MOST_COLUMNS if side == across else MOST_LINES]
        kept = sorted(fullest)
        called[side] = dict(zip(kept, distinct(levels_of(level, by) for level in kept), strict=True))
    table = [
        _plain(found, a=called[0][one], b=called[1][two], group=f"{one}&{two}", n=found.n,
               small=f"{one}&{two}" in counts.small)
        for (one, two), found in cells.items() if one in called[0] and two in called[1]
    ]  # fmt: skip
    names = [attribute_of(counts.data, by) for by in pair.by.split("&")]
    # Crossings that nobody is in must not change the order of the levels, such as of ages.
    x, y = (
        Axis("ab"[side], names[side], kind="ordinal", steps=tuple(called[side].values()))
        for side in (across, 1 - across)
    )
    title = _words(counts).capitalize()
    spec = heat_map(table, x=x, y=y, value=Axis("value", title, ".2f"), diverging=False, faded="small")
    caption = (
        f"{title}{_of(counts, system)} on each crossing of {names[0]} and {names[1]}, of all pairs the one with the "
        "clearest gap."
    )
    if len(table) < len(called[0]) * len(called[1]):
        caption += " Empty: nobody is in it."
    if any(cell["small"] for cell in table):
        caption += f" Faded: too few {counts.data.unit} or words to be relied on."
    caption += _rest(sum(map(len, sides)) - sum(map(len, called)), f"levels, on the fewest {counts.data.unit},")
    whom = f", {named_apart(counts.data.systems)[system]}" if len(counts.data.systems) > 1 else ""
    id = f"pairs-{system + 1}" if system else "pairs"
    return figure_of(id, f"How do {names[0]} and {names[1]} act together{whom}?", caption, spec)


def _ladder(counts: Counts) -> Figure | None:
    chosen: dict[tuple[int, str, frozenset[str]], Rung] = {}
    # Of a pair and its mirror image, the one that errs more comes first.
    reported = {(verdict.system, verdict.group, verdict.against) for verdict in counts.verdicts if verdict.found}

    def rank(rung: Rung) -> tuple[bool, float, float]:
        pair = (rung.system, f"{rung.attribute}={rung.level}", f"{rung.attribute}={rung.reference}")
        return pair not in reported, -_least(rung.marginal), -rung.marginal[0]

    # What the findings tell comes first.
    for rung in sorted(counts.rungs, key=rank):
        # With nothing else in the model there is nothing to hold fixed.
        if rung.shown and (rung.strata or rung.faded != (0.0, 0.0, 0.0)):
            chosen.setdefault((rung.system, rung.attribute, frozenset((rung.level, rung.reference))), rung)
    shown = list(chosen.values())[:MOST_RUNGS]
    if not shown:
        return None
    panels = distinct(_against(counts.data, rung) for rung in shown)
    rows = [row for panel, rung in zip(panels, shown, strict=True) for row in _steps(rung, panel)]
    axis = Axis("value", f"Ratio of the two {_words(counts)}s", ".3~g", zero=False, scale="log")
    caption = (
        f"Each panel sets one group against another: the ratio of their {_words(counts)}s as it is, among each level "
        f"of the other attributes, and with everything else held fixed, with {percent(counts.level)} intervals. At the "
        "dashed line both err alike; grey intervals reach it. Where the last row reaches the line and the first does "
        "not, what differs may go with the other attributes"
        + ("; a title that says so means a loss beyond chance." if any(rung.explained_by for rung in shown) else ".")
    )
    if any(len(rung.strata) > MOST_STRATA for rung in shown):
        caption += f" At most {MOST_STRATA} levels of others are drawn: the explaining ones, then the surest."
    caption += _rest(len(chosen) - MOST_RUNGS, "differences, less clear,")
    title = "What is left of each difference once everything else is held fixed?"
    return figure_of("ladder", title, caption, _panelled(rows, axis, 1.0, greyed="undecided"))


def _against(data: Utterances, rung: Rung) -> str:
    """Return the title of a panel in lines: the two levels, and what explains their difference if anything."""
    parts = [f"{attribute_of(data, rung.attribute)}: {short(rung.level)}", f"against {short(rung.reference)}"]
    if len(data.systems) > 1:
        parts.append(f"({named_apart(data.systems)[rung.system]})")
    lines = parts[:1]
    for part in parts[1:]:
        # A name is never broken: the halves of one that reads from the right would run into each other.
        joined = f"{lines[-1]} {part}"
        lines[-1:] = [joined] if width(joined) <= LONGEST_TITLE else [lines[-1], part]
    for number, name in enumerate(rung.explained_by[:3]):
        lines.append(f"{'and' if number else 'goes with'} {short(name)}")
    return "\n".join(lines)


def _steps(rung: Rung, panel: str) -> list[Json]:
    """Return the rows of one panel from the marginal ratio down to the adjusted one."""
    explaining = {name for name in rung.strata if name.partition("=")[0] in rung.explained_by}
    widths = {name: ends[2] - ends[1] for name, ends in rung.strata.items()}
    kept = sorted(widths, key=lambda name: (name not in explaining, widths[name]))[:MOST_STRATA]
    strata = {name: ends for name, ends in rung.strata.items() if name in kept}
    labels = [MARGINAL, *(f"among {name}" for name in named_apart(strata)), ADJUSTED]
    ladder = {MARGINAL: rung.marginal, **strata, ADJUSTED: rung.adjusted}
    return [
        {"panel": panel, "label": label, **_exponentials(ends), "undecided": ends[1] <= 0 <= ends[2], "among": name}
        for label, (name, ends) in zip(labels, ladder.items(), strict=True)
    ]


def _exponentials(ends: Ends) -> Json:
    # No axis could show ends farther out than these, and no float the farthest.
    return dict(zip(("value", "low", "high"), np.exp(np.clip(ends, -12, 12)).tolist(), strict=True))


def _least(ends: Ends) -> float:
    """Return the distance of an interval from zero."""
    return max(ends[1], -ends[2])


def _gaps(draft: Draft, counts: Counts) -> Figure | None:
    rows: list[Json] = []
    left = 0
    systems = named_apart(counts.data.systems)
    for system, name in enumerate(systems[:MOST_SYSTEMS]):
        mine = list(counts.comparisons)
        mine.sort(key=lambda item: (item.crossed, -_least_gap(draft, counts, item.by, system), item.by))
        left = max(left, len(mine) - MOST_GAPS)
        by = {item.by: item.extremes[system] for item in mine[:MOST_GAPS]}
        gaps = [draft.row("gap", **counts.where(system, by=each), kind="absolute", adjusted="no") for each in by]
        gaps.sort(key=lambda gap: (-gap.value, gap.where["by"]))
        labels = distinct(attribute_of(counts.data, str(gap.where["by"])) for gap in gaps)
        for gap, label in zip(gaps, labels, strict=True):
            worst, best = by[str(gap.where["by"])]
            floor = draft.row("noise_floor", **counts.where(system, by=str(gap.where["by"])))
            named = {"panel": name, "worst": worst, "best": best}
            pair = " against ".join(levels_of(group, str(gap.where["by"])) for group in (worst, best))
            whole = f"{label}: {pair}"
            rows.append(_plain(gap, label=whole if width(whole) <= LONGEST_PAIR else label, chance=False, **named))
            rows.append(_plain(floor, label=f"{label}, chance", chance=True, **named))
    if not rows:
        return None
    axis = Axis("value", f"Gap in {_words(counts)}, worst against best group", ".2f")
    facet = "panel" if len(systems) > 1 else None
    caption = (
        f"Gap between the worst and the best group by each attribute and crossing with {percent(counts.level)} "
        f"intervals and, in grey, the gap that chance alone makes: labels shuffled over {counts.data.unit}. A "
        "gap that lies right of its grey interval is seldom made by chance; which ones the declared test rejects, once "
        "all tests are counted, stands in the findings."
    )
    caption += _rest(left, "gaps, the least clear,") + _rest(len(systems) - MOST_SYSTEMS, "systems")
    title = "Which gaps are larger than chance makes them?"
    return figure_of("gaps", title, caption, _panelled(rows, axis, 0.0, greyed="chance", facet=facet))


def _systems(draft: Draft, counts: Counts) -> Figure | None:
    groups = {name for groups in counts.data.singles() for name in (ALL, *groups.names, f"{groups.by}={UNKNOWN}")}
    found: dict[str, list[Estimate]] = {}
    for row in draft.select("system_difference", metric=counts.options.metric):
        if row.where["group"] in groups:
            found.setdefault(str(row.where["system"]), []).append(row)
    if not found:
        return None
    systems = named_apart(counts.data.systems)
    called = dict(zip(counts.data.systems, systems, strict=True))
    rows: list[Json] = []
    for name, mine in list(found.items())[:MOST_SYSTEMS]:
        mine.sort(key=lambda row: (row.where["group"] != ALL, -(row.n or 0)))
        kept = sorted(mine[:MOST_ROWS], key=lambda row: (row.where["group"] != ALL, -row.value))
        for row, label in zip(kept, named_apart(str(row.where["group"]) for row in kept), strict=True):
            unsure = row.low is None or row.high is None or row.low <= 0 <= row.high
            named = {"label": label, "group": row.where["group"], "n": row.n}
            rows.append(_plain(row, panel=called[name], undecided=unsure, **named))
    first, unit = systems[0], counts.data.unit
    axis = Axis("value", f"{_words(counts).capitalize()} less that of {first}", ".2f")
    caption = (
        f"Difference to {first} on the same clips, all together and by group, with {percent(counts.level)} intervals "
        f"over {unit}. Left of the dashed line a system errs less than {first}; grey: no difference could be shown. "
        f"Groups on too few {unit} or words are left out."
    )
    left = max(map(len, found.values())) - MOST_ROWS
    caption += _rest(left, f"groups, on the fewest {unit},") + _rest(len(found) - MOST_SYSTEMS, "systems")
    title = f"Who gains and who loses with another system than {first}?"
    return figure_of("systems", title, caption, _panelled(rows, axis, 0.0, greyed="undecided"))


def _coverage(data: Utterances, inputs: Inputs) -> Figure | None:
    if not inputs.skipped:
        return None
    rows, left = [], 0
    for groups in data.singles():
        used = clips_by_level(inputs.clips, groups.by)
        lost = Counter(clip.attributes[groups.by] for clip, _ in inputs.skipped)
        levels = sorted({*used, *lost}, key=lambda level: (-lost[level], -used[level], level))
        left += max(0, len(levels) - MOST_ROWS)
        panel = attribute_of(data, groups.by)
        for level, label in zip(levels, named_apart(levels[:MOST_ROWS]), strict=False):
            for status, count in (("used", used[level]), ("left out", lost[level])):
                rows.append({"panel": panel, "label": label, "level": level, "status": status, "clips": count})
    axis = Axis("clips", "Clips", "d")
    spec = bars(rows, label="label", value=axis, series="status", series_title="", facet="panel")
    caption = "Clips used and left out for each level of each attribute, those with the most left out on top."
    return figure_of("coverage", "Whose clips were left out?", caption + _rest(left, "levels", "not drawn"), spec)


def _panelled(
    rows: Sequence[Json],
    axis: Axis,
    at: float | None,
    *,
    greyed: str,
    facet: str | None = "panel",
    series: str | None = None,
) -> Json:
    """Draw a forest whose rows keep their order, with a rule at `at`; a title may have several lines."""
    return forest(rows, label="label", value=axis, low="low", high="high", reference=at, facet=facet, greyed=greyed,
                  series=series, ranked=False, title_break="\n")  # fmt: skip


def _rest(count: int, what: str, where: str = "in the tables only") -> str:
    """Return the words on how many are not drawn, if any."""
    return f" {count} more {what} {'are' if count > 1 else 'is'} {where}." if count > 0 else ""


def _plain(row: Estimate, **more: Any) -> Json:
    return {"value": row.value, "low": row.low, "high": row.high, **more}
