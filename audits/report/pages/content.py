"""The content of a report, its order and its words, whatever the page it is shown on.

Markdown, page and terminal all take their parts from here: head, findings, coverage, tables and warnings.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audits.core import registry
from audits.core.gates import breaking, counted_findings
from audits.core.numbers import coordinate, counted, described, percent, written
from audits.core.records import (
    SEVERITIES,
    Coordinate,
    Estimate,
    Figure,
    Finding,
    GateResult,
    Json,
    Report,
    Severity,
    Subject,
    Warning,
)

SECTIONS = (
    "What we found",
    "Figures",
    "What was used",
    "What was asked",
    "What this cannot say",
    "All numbers",
    "Provenance",
)

MARKS: Mapping[Severity, tuple[str, str]] = {
    "high": ("▲", "High"),
    "medium": ("◆", "Medium"),
    "low": ("●", "Low"),
    "info": ("○", "Info"),
}
"""Icon and word of each severity; the two always stand together."""

SMALL = "small-group"
"""The warning by which an audit says that a group is too small for its number to be trusted."""

ASKED = ("hypothesis", "reference", "metric", "tasks", "by", "normalise", "level")
"""Settings that say what was asked, as far as an audit has them."""

MOST_ALIKE, FIRST_ALIKE = 8, 4
"""Findings of one kind, low or for information, up to which all are shown at once, and else how many of them."""

MOST_METHODS = 3
"""Methods of intervals that the head names; the most frequent ones."""

MOST_BROKEN = 3
"""Estimates that are named below a gate that failed."""

MOST_LISTED, MOST_COLUMNS, MOST_LETTERS = 20, 8, 400
"""Rows and columns of a list under a figure, and letters of a cell of it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The full table behind a figure: titles of columns, which of them hold numbers, and cells as words."""

    titles: tuple[str, ...]
    numbers: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """All estimates of one name: the name in words, the keys of their coordinates, and their indices in the report."""

    name: str
    label: str
    keys: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """Warnings of one kind, which mostly differ only in their coordinates."""

    id: str
    warnings: tuple[Warning, ...]


def canonical(report: Report) -> Report:
    """Return the report as if read from report.json, so that both give the same pages."""
    declared = {row.name: row.measure for row in report.estimates}
    return Report.from_json(json.loads(json.dumps(report.to_json(), sort_keys=True)), declared)


def identity(report: Report) -> str:
    """Return a hash of eight hexadecimal digits that is the same for equal runs."""
    plain = report.to_json()
    # Measures are left out: a reworded label does not make another run.
    kept = {key: value for key, value in plain.items() if key not in ("created", "provenance", "measures")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:8]


def over(report: Report) -> str:
    """Return the line above the answer: what was audited, on how much, and when."""
    parts = [report.title]
    if report.subject is not None:
        parts.append(report.subject.path.rstrip("/").rpartition("/")[2] or report.subject.family)
    parts.append(counted(report.coverage.used, "items"))
    return " · ".join([*parts, report.created[:10]])


def head(report: Report) -> list[tuple[str, str]]:
    """Return the command, the time and the run, as pairs of a word and its value."""
    when = report.created.replace("T", " ").replace("Z", " UTC")
    return [("Audit", f"miles {report.audit}"), ("Date", when), ("Run", identity(report))]


def cautions(report: Report) -> str:
    """Return the title of what may not be reported; of an answer that the audit did not give itself, a milder one."""
    return "Do not report" if report.answer is not None else "Keep in mind"


def paths(report: Report) -> list[tuple[str, str]]:
    """Return model and data with their paths, as pairs of a word and its value."""
    facts = [("Model", _subject(report.subject))] if report.subject is not None else []
    facts += [
        (source.role.capitalize(), f"{source.path}, {source.items:,} items, {source.sha256[:12]}")
        for source in report.data
    ]
    return facts


def _subject(subject: Subject) -> str:
    size = subject.parameters
    words = f"{size / 1e9:.3g} billion" if size >= 1e9 else f"{size / 1e6:.3g} million"
    counted = f"{words} parameters" if size >= 1e6 else f"{size:,} parameters"
    return ", ".join((subject.path, subject.family, counted, subject.sha256[:12]))


def findings(report: Report) -> list[Finding]:
    """Return the findings, worst first; within one severity the audit's own order stays."""
    return sorted(report.findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def folded(found: Sequence[Finding]) -> list[bool]:
    """Return which findings are shown on demand alone: of many of one kind, low or for information, all but the first.

    Findings must be in the order of `findings`.
    """
    kinds = [(finding.id, finding.severity) for finding in found]
    counts, seen, result = Counter(kinds), Counter[tuple[str, Severity]](), []
    for kind in kinds:
        seen[kind] += 1
        result.append(kind[1] in ("low", "info") and counts[kind] > MOST_ALIKE and seen[kind] > FIRST_ALIKE)
    return result


def cited(report: Report) -> list[int]:
    """Return the indices of the estimates that the findings rest on, in the order of the findings."""
    indices = (index for finding in findings(report) for index in finding.evidence)
    return [index for index in dict.fromkeys(indices) if index < len(report.estimates)]


def broken(report: Report, gate: GateResult) -> list[str]:
    """Return the first findings or estimates that made a gate fail, in words; none where it passed."""
    if gate.outcome == "pass":
        return []
    counted = counted_findings(gate.expression, report.findings)
    if counted is not None:
        lines = [f"{MARKS[row.severity][1]}: {row.title}" for row in counted[:MOST_BROKEN]]
        more = f"and {len(counted) - MOST_BROKEN} more" if lines else "there is no such finding"
        return lines if 0 < len(counted) <= MOST_BROKEN else [*lines, more]
    rows = breaking(gate, report.estimates)
    shown = [report.estimates[row] for row in rows[:MOST_BROKEN]]
    lines = [f"{' '.join(filter(None, (row.name, label(row))))}: {described(row)}" for row in shown]
    if len(rows) > len(shown):
        lines.append(f"and {len(rows) - len(shown)} more of {len(gate.rows)} that it looks at")
    return lines


def seconds(report: Report) -> float:
    """Return the seconds that the audit took: the total where it is recorded, else the sum of its phases."""
    spent = report.provenance.seconds
    return float(spent["total"] if "total" in spent else sum(spent.values()))


def asked(report: Report) -> list[tuple[str, str]]:
    """Return the declared hypothesis, reference and definitions, then how the intervals were made."""
    facts = []
    for key in ASKED:
        value = report.settings.get(key)
        if value not in (None, "", [], ()):
            facts.append((key.capitalize(), percent(value) if key == "level" else setting(value)))
    methods = [method for method, _ in Counter(row.method for row in report.estimates).most_common()]
    if methods:
        more = len(methods) - MOST_METHODS
        rest = f"; and {more} more, beside each number in the tables" if more > 0 else ""
        facts.append(("Intervals", "; ".join(methods[:MOST_METHODS]) + rest))
    return facts


def headed(report: Report) -> list[tuple[str, str]]:
    """Return the settings that make the result, as pairs of a word and a value."""
    own = registry.heading_of(report.audit)
    settings = own(report) if own is not None else report.settings
    given = ((name, settings.get(name)) for name in registry.headed_of(report.audit))
    return [(name.replace("_", " "), setting(value)) for name, value in given if value not in (None, "", [], ())]


def setting(value: object) -> str:
    """Return the value of an option as on the command line."""
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not given"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def method_page(report: Report) -> str:
    """Return the address of the documentation of the audit's method."""
    return registry.page(report.audit) or f"the documentation of {report.audit}"


def calibration_page(report: Report) -> str:
    """Return the address of a built-in audit's page on calibration; empty for other audits."""
    page = registry.page(report.audit)
    return f"{page}#calibration" if page else ""


def tables(report: Report) -> list[Table]:
    """Group the estimates by name; the coordinates that vary least come first in each table."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, estimate in enumerate(report.estimates):
        by_name[estimate.name].append(index)
    return [
        Table(name, report.estimates[rows[0]].measure.label, _keys(report, rows), tuple(rows))
        for name, rows in by_name.items()
    ]


def _keys(report: Report, rows: list[int]) -> tuple[str, ...]:
    values: dict[str, set[Coordinate]] = defaultdict(set)
    for index in rows:
        for key, value in report.estimates[index].where.items():
            values[key].add(value)
    return tuple(sorted(values, key=lambda key: (len(values[key]), key)))


def limits(report: Report) -> dict[int, list[Warning]]:
    """Return the warnings whose coordinates all hold for an estimate, by its index."""
    about: dict[tuple[str, Coordinate], list[Warning]] = defaultdict(list)
    for warning in report.warnings:
        if warning.where:
            # Indexed by one coordinate only, so that not every warning is compared with every row.
            about[max(warning.where.items(), key=lambda item: (item[0] == "group", item[0]))].append(warning)
    found = {}
    for index, estimate in enumerate(report.estimates):
        near = [warning for item in estimate.where.items() for warning in about.get(item, ())]
        held = [warning for warning in near if warning.where.items() <= estimate.where.items()]
        if held:
            found[index] = held
    return found


def notices(report: Report) -> list[Notice]:
    """Group the warnings by kind, in order of appearance."""
    kinds: dict[str, list[Warning]] = defaultdict(list)
    for warning in report.warnings:
        kinds[warning.id].append(warning)
    return [Notice(id, tuple(warnings)) for id, warnings in kinds.items()]


def listing(figure: Figure) -> Listing | None:
    """Return the full table inside a figure's specification, or None.

    It stands under usermeta, miles, table: columns as pairs of a key and a title, and rows. The figure may come from a
    file that somebody wrote by hand: what does not fit is left out.
    """
    found: Any = figure.spec
    for key in ("usermeta", "miles", "table"):
        found = found.get(key) if isinstance(found, Mapping) else None
    columns, rows = (found.get(key) if isinstance(found, Mapping) else None for key in ("columns", "rows"))
    if not isinstance(columns, list) or not isinstance(rows, list) or not 0 < len(columns) <= MOST_COLUMNS:
        return None
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str) for pair in columns):
        return None
    fitting = [row for row in rows if isinstance(row, list) and len(row) == len(columns) and all(map(_is_cell, row))]
    if not fitting:
        return None
    cells = [_column(column) for column in zip(*fitting[:MOST_LISTED], strict=True)]
    return Listing(
        titles=tuple(_cut(pair[1]) for pair in columns),
        numbers=tuple(number for number, _ in cells),
        rows=tuple(zip(*(words for _, words in cells), strict=True)),
    )


def chart(figure: Figure) -> Json:
    """Return a figure's specification without the full table in it."""
    return {key: value for key, value in figure.spec.items() if key != "usermeta"}


def _is_cell(value: object) -> bool:
    if isinstance(value, int | float):
        # Larger numbers do not fit a column.
        return not isinstance(value, bool) and abs(value) < 1e15
    return value is None or isinstance(value, str)


def _column(values: Sequence[str | float | None]) -> tuple[bool, list[str]]:
    """Return whether a column holds numbers, and its cells as text; numbers not all whole have two decimals."""
    amounts = [value for value in values if isinstance(value, int | float)]
    places = 0 if all(float(value).is_integer() for value in amounts) else 2
    words = [
        _cut(value) if isinstance(value, str) else "" if value is None else written(value, places) for value in values
    ]
    return bool(amounts) and not any(isinstance(value, str) for value in values), words


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "…"


def people(report: Report) -> tuple[tuple[str, ...], list[tuple[str, tuple[int, ...]]]]:
    """Return what was counted, such as speakers and words, and the counts by group, for groups of one attribute."""
    counted = [row for row in report.coverage.groups if "&" not in row.group and row.counts]
    if counted:
        # The fewest first, as speakers are of clips: JSON does not keep the order.
        units = tuple(sorted(counted[0].counts, key=lambda unit: (counted[0].counts[unit], unit)))
        return units, [(row.group, tuple(row.counts.get(unit, 0) for unit in units)) for row in counted]
    unit, numbers = _units_of_estimates(report)
    return (unit,), [(group, (number,)) for group, number in numbers.items()]


def _units_of_estimates(report: Report) -> tuple[str, dict[str, int]]:
    """Return the unit and its number by group from the n of the estimates, where an audit does not count them."""
    # The n of a row that compares the group with others, such as a test, includes those others.
    grouped = [
        row
        for row in report.estimates
        if isinstance(row.where.get("group"), str)
        and not {"by", "test"} & set(row.where)
        and row.measure.name
        and row.measure.neutral is None
    ]
    if not grouped:
        return "", {}
    unit = grouped[0].unit
    counts: dict[str, int] = {}
    for row in grouped:
        group = str(row.where["group"])
        if row.unit == unit and "&" not in group:
            counts[group] = max(row.n, counts.get(group, 0))
    return unit, counts


def label(estimate: Estimate) -> str:
    """Return the coordinates of an estimate in words without their keys, for a narrow column.

    Examples
    --------
    >>> where = {"group": "accent=indian", "layer": 3}
    >>> label(Estimate(name="rate", value=1.0, method="exact", n=1, unit="x", where=where))
    'accent=indian, layer 3'
    >>> where = {"source": "fr", "target": "en"}
    >>> label(Estimate(name="interference", value=1.0, method="exact", n=1, unit="x", where=where))
    'en ← fr'
    """
    parts = []
    where = dict(estimate.where)
    if {"source", "target"} <= where.keys():
        # An arrow, since the order alone does not say which is source and which is target.
        parts.append(f"{where.pop('target')} ← {where.pop('source')}")
    for key, value in sorted(where.items()):
        text = coordinate(value)
        parts.append(f"{key} {text}" if _bare(text) else text)
    return ", ".join(parts)


def _bare(text: str) -> bool:
    """Tell whether a value is meaningless without its key."""
    return text.lstrip("-").replace(".", "", 1).isdigit() or text in ("yes", "no", "all", "head")
