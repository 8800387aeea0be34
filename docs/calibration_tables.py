"""The tables of docs/calibration/*.json as they stand on the pages of the audits."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MARK = "<!-- calibration -->"
FOLDER = Path(__file__).with_name("calibration")
Row = dict[str, Any]
FEW = 100
"""Data sets under which nothing is said of a share."""

_KINDS = {
    "estimate": "How often does an interval hold the truth?",
    "finding": "How often is a finding told where it is false?",
    "power": "How often is a finding told where it is true?",
}
_LEVEL = {
    "estimate": "`--level`",
    "finding": "1 less `--level`, at most",
    "power": "none",
}


def with_calibration(markdown: str, stem: str) -> str:
    """Return a page with the tables of its audit in place of the mark."""
    file = FOLDER / f"{stem}.json"
    if MARK not in markdown:
        return markdown
    if not file.is_file():
        return markdown.replace(MARK, "This audit is not yet calibrated.")
    return markdown.replace(MARK, "\n\n".join(_page(json.loads(file.read_text(encoding="utf-8")), stem)))


def _page(found: Row, stem: str) -> Iterator[str]:
    rows = found["rows"]
    sizes = sorted({row["n"] for row in rows})
    counts = Counter(row["revision"] for row in rows)
    revisions = [f"{name} ({count:,} shares)" for name, count in counts.most_common()]
    yield (
        f"Measured by simulation, {_between(sizes)} data sets a cell, at revision {', '.join(revisions)}; "
        f"[all numbers as JSON](../calibration/{stem}.json). A share is given with its Monte-Carlo error. *No answer* "
        "is the share of data sets in which the report gives no interval, or makes no test; the other share is of the "
        "rest. A cell counts as within its bound where the share is at least, or of false findings at most, what "
        "stands here; outside it is **bold**. The bounds leave room below and above the nominal level, which "
        "*farthest out* is measured from."
    )
    yield _bounds(rows)
    few = [row for row in rows if row["n"] < FEW]
    if few:
        yield (
            f"{len(few)} of the {len(rows)} shares are of fewer than {FEW} data sets (see *n*): of the small run that "
            "the tests make, or of a full one that was stopped. They say little, and are in no count of cells within."
        )
    yield "\n".join(f"- *{name}*: {text}." for name, text in (*found["worlds"].items(), *found["effects"].items()))
    for kind, question in _KINDS.items():
        checks = [check for check in found["checks"] if check["kind"] == kind]
        if checks:
            yield f"**{question}**"
            yield _summary(checks, rows)
    outside = [check for check in found["checks"] if any(row["holds"] is False for row in _of(check, rows))]
    if outside:
        yield "**What the report says where a cell is outside its bound**"
        says = [f"| `{check['name']}` | {check['says'] or 'Nothing.'} |" for check in outside]
        yield "\n".join(["| name | sentence |", "| --- | --- |", *says])
    yield "**All cells**, one column for each number of units a group:"
    for check in found["checks"]:
        yield from _cells(check, _of(check, rows), found["units"])
    yield "**Not calibrated, and why**"
    reasons = [f"| `{name}` | {reason}. |" for name, reason in found["reasons"].items()]
    yield "\n".join(["| name | reason |", "| --- | --- |", *reasons])


def _bounds(rows: list[Row]) -> str:
    """Return a table of the bounds by level: of intervals, of those of few units, and of false findings."""
    found: dict[float, dict[str, set[float]]] = {}
    for row in rows:
        if row["bound"] is not None:
            found.setdefault(row["level"], {}).setdefault(row["kind"], set()).add(row["bound"])
    lines = ["| level | intervals | of fewer than 6 units | false findings |", "| --- | --- | --- | --- |"]
    for level, kinds in sorted(found.items()):
        intervals, false = kinds.get("estimate"), kinds.get("finding")
        ends = [max(intervals), min(intervals)] if intervals else []
        cells = [f"{value:g}" for value in ends] or ["", ""]
        lines.append(f"| {level:g} | {' | '.join(cells)} | {f'{max(false):g}' if false else ''} |")
    return "\n".join(lines)


def _between(sizes: list[int]) -> str:
    return "no" if not sizes else str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _of(check: Row, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if (row["name"], row["kind"]) == (check["name"], check["kind"])]


def _summary(checks: list[Row], rows: list[Row]) -> str:
    lines = ["| name | of what | family | level | cells within | farthest out |", "| --- | --- | --- | --- | --- | --- |"]
    for check in checks:
        mine = [row for row in _of(check, rows) if row["share"] is not None]
        told = [row for row in mine if row["holds"] is not None]
        within = f"{sum(row['holds'] for row in told)} of {len(told)}" if told else "too few simulations"
        within = "" if check["kind"] == "power" else within
        sign = 1 if check["kind"] == "finding" else -1
        # Of power the least share, else what lies farthest beyond its level, in Monte-Carlo errors.
        far = max(told or mine, key=lambda row: sign * _beyond(row), default=None)
        worst = "" if far is None else f"{_share(far)} ({far['world']}, {far['units']} units, level {far['level']:g}, n {far['n']})"
        lines.append(
            f"| `{check['name']}` | {check['estimand']} | {check['family']} | {_LEVEL[check['kind']]} | {within} | "
            f"{worst} |"
        )
    return "\n".join(lines)


def _beyond(row: Row) -> float:
    return float(row["share"] if row["target"] is None else (row["share"] - row["target"]) / row["error"])


def _share(row: Row) -> str:
    if row["share"] is None:
        return "no answer"
    digits = 3 if row["level"] > 0.99 else 2
    text = f"{row['share']:.{digits}f} ±\u00a0{row['error']:.{digits}f}"
    text = f"**{text}**" if row["holds"] is False else text
    return text + (f"; {100 * row['refused']:.0f} % no answer" if row["refused"] else "")


def _cells(check: Row, rows: list[Row], units: list[int]) -> Iterator[str]:
    if not rows:
        return
    kind = {"power": ", power"}.get(check["kind"], "")
    grid: dict[tuple[str, str, float], dict[int, Row]] = {}
    for row in rows:
        grid.setdefault((row["effect"], row["world"], row["level"]), {})[row["units"]] = row
    head = ["effect", "world", "level", "n", *map(str, units)]
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    for (effect, world, level), cells in grid.items():
        shown = [_share(cells[unit]) if unit in cells else "" for unit in units]
        n = _between(sorted({row["n"] for row in cells.values()}))
        lines.append(f"| {effect} | {world} | {level:g} | {n} | {' | '.join(shown)} |")
    yield f'<details markdown="1">\n<summary>{check["name"]}{kind}</summary>\n'
    yield "\n".join(lines)
    yield "</details>"
