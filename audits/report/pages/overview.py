"""The top of a report: the answer, the matrix of what was compared, and what was not shown."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from audits.core import registry
from audits.core.numbers import coordinate, decimals, written
from audits.core.records import KEY_NUMBERS, Answer, Estimate, KeyNumber, Report, Verdict
from audits.core.summary import Summary
from audits.core.wording import NOT_AFTER_CORRECTION
from audits.report.pages import content
from audits.report.pages.glyphs import Reference, Span, equality, rounded, span

MOST_SAID = 4
"""Most sentences on what may be reported, where the findings stand for an answer of the audit's own."""
MOST_CELLS = 240
"""Most cells of a matrix; a larger one is left to the tables."""
CHANCE = 0.5
"""Neutral value of a probability, such as an AUC; one that is worse away from it, as a share of wins, has two sides."""
NULLS_NOTE = (
    "No difference shown does not mean none: the last column is the end of the interval that is farthest from none, or "
    "the upper one where none is chance. A difference that its own interval shows is listed where correction for the "
    "others took it away."
)

PART = re.compile(r"(x\d+)=(\d+)/(\d+)")
"""A group that is one of several equal parts of the values of an input; `dose=1/2` may be a dose."""

State = Literal["shown", "alone", "none", "plain"]
ICONS: Mapping[State, str] = {"shown": "●", "alone": "◐", "none": "○", "plain": ""}
"""Mark of a cell: a difference that a finding tells, one with a reservation, one that its interval does not carry, and
a number that nothing is held against."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One estimate of the matrix: its index in the report, what it carries, as a state and in words, and details."""

    index: int
    state: State
    words: str = ""
    detail: str = ""
    unshown: bool = False
    """Whether correction for those judged with it alone took away what its own interval shows."""

    @property
    def icon(self) -> str:
        """The mark of the state."""
        return ICONS[self.state]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Estimates of one measure by two keys, with the axis that all of them share."""

    title: str
    label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    axis: Span
    neutral: Reference | None
    level: float

    def nulls(self) -> Iterator[tuple[str, str, Cell]]:
        """Yield row, column and cell of each estimate whose interval does not carry a difference."""
        for row, cells in zip(self.rows, self.cells, strict=True):
            for column, cell in zip(self.columns, cells, strict=True):
                if cell is not None and (cell.state == "none" or cell.unshown):
                    yield row, column, cell


def answer(report: Report) -> Answer:
    """Return the answer of a report: the audit's own, or what its first findings say."""
    if report.answer is not None:
        return report.answer
    found = content.findings(report)
    leading = [
        finding.evidence[0] for finding in found if finding.evidence and finding.evidence[0] < len(report.estimates)
    ]
    numbers = [KeyNumber(row=row, words=words_of(report.estimates[row])) for row in dict.fromkeys(leading)]
    return Answer(
        title=found[0].title if found else "Nothing was found that the estimates would carry.",
        numbers=tuple(numbers[:KEY_NUMBERS]),
        may=tuple(finding.title for finding in found if finding.severity != "info")[:MOST_SAID],
        may_not=report.limitations[:MOST_SAID],
    )


def words_of(estimate: Estimate) -> str:
    """Return what an estimate is, for people: the label of its measure and its coordinates."""
    place = content.label(estimate)
    return f"{estimate.measure.label or estimate.name}{f', {place}' if place else ''}"


def furthest(estimate: Estimate) -> float:
    """Return the end of an interval that is farther from the neutral value: a size that still fits the data.

    Of two that are as far, as written, it is the upper one; of a probability it is, since below chance nothing is seen.
    """
    neutral, places = estimate.measure.neutral or 0.0, decimals(estimate)
    if neutral == CHANCE and estimate.measure.worse != "away" and estimate.high is not None:
        return estimate.high
    ends = [end for end in (estimate.high, estimate.low) if end is not None] or [estimate.value]
    # The distance is rounded too: 0.57 and 0.43 are as far from 0.5.
    return max(ends, key=lambda end: round(abs(round(end, places) - neutral), places + 1))


def still_fits(estimate: Estimate) -> str:
    """Return `furthest` with the digits of its estimate."""
    return written(furthest(estimate), decimals(estimate))


def matrix(report: Report) -> Matrix | None:
    """Return the matrix that the audit declares, with what this report has of it; None where that is nothing."""
    for summary in registry.summaries_of(report.audit):
        found = _matrix(report, summary)
        if found is not None:
            return found
    return None


def _matrix(report: Report, summary: Summary) -> Matrix | None:
    there: dict[tuple[str, str], int] = {}
    for index, row in enumerate(report.estimates):
        if summary.takes(row.name, row.where, report.settings):
            row_of, column_of = (coordinate(row.where.get(key, "")) for key in (summary.row, summary.column))
            there.setdefault((row_of, column_of), index)
    rows, columns = (tuple(dict.fromkeys(key[side] for key in there)) for side in (0, 1))
    if set(rows) == set(columns):
        # Of a square matrix, the diagonal is one.
        columns = rows
    if not 0 < len(rows) * len(columns) <= MOST_CELLS:
        return None
    estimates = [report.estimates[index] for index in there.values()]
    remarks, verdicts = _remarks(report, summary), _verdicts(report)
    cells = tuple(
        tuple(_cell(report, there.get((row, column)), remarks, verdicts) for column in columns) for row in rows
    )
    return Matrix(
        title=summary.title,
        label=estimates[0].measure.label or summary.measure,
        # Only now in words: two groups may read alike, and would be one.
        rows=tuple(_named(summary, summary.row, row) for row in rows),
        columns=tuple(_named(summary, summary.column, column) for column in columns),
        cells=tuple(tuple(_detailed(report, summary, cell) for cell in row) for row in cells),
        axis=rounded(span(estimates, [equality(row) for row in estimates])),
        neutral=equality(estimates[0]),
        level=estimates[0].level,
    )


def _named(summary: Summary, key: str, text: str) -> str:
    """Return the words that an audit declares for a value, or those that people say for it."""
    return summary.said(key, text if f"{key}={text}" in summary.words else _spoken(key, text))


def _spoken(key: str, text: str) -> str:
    """Return a group or a metric as people say it; other values as they are.

    >>> _spoken("group", "age=old&gender=female"), _spoken("group", "all"), _spoken("by", "a=b")
    ('old female (age, gender)', 'all', 'a=b')
    >>> _spoken("group", "x0=3/4"), _spoken("group", "dose=1/2"), _spoken("metric", "value_support")
    ('part 3 of 4 of x0', '1/2 (dose)', 'value support')
    """
    if key == "metric":
        return text.replace("_", " ")
    if key != "group" or "=" not in text:
        return text
    if part := PART.fullmatch(text):
        return "part {2} of {3} of {1}".format(*part.group(0, 1, 2, 3))
    pairs = [part.partition("=") for part in text.split("&")]
    return f"{' '.join(level for _, _, level in pairs)} ({', '.join(attribute for attribute, _, _ in pairs)})"


def _detailed(report: Report, summary: Summary, cell: Cell | None) -> Cell | None:
    if cell is None or summary.detail is None:
        return cell
    return replace(cell, detail=summary.detail(report, cell.index))


def _remarks(report: Report, summary: Summary) -> dict[int, tuple[State, str]]:
    """Return state and words of the first finding that speaks of an estimate, by its index."""
    found: dict[int, tuple[State, str]] = {}
    for finding in content.findings(report):
        if finding.severity != "info":
            said = summary.remarks.get(finding.id)
            mark = " ".join(content.MARKS[finding.severity])
            for index in finding.evidence[:1] if summary.leading else finding.evidence:
                found.setdefault(index, ("alone", said) if said else ("shown", f"shown · {mark}"))
    return found


def _verdicts(report: Report) -> dict[int, Verdict]:
    return {verdict.row: verdict for verdict in report.answer.verdicts} if report.answer else {}


def _cell(
    report: Report, index: int | None, remarks: Mapping[int, tuple[State, str]], verdicts: Mapping[int, Verdict]
) -> Cell | None:
    if index is None:
        return None
    estimate = report.estimates[index]
    if index in verdicts:
        return _judged(index, estimate, verdicts[index], remarks)
    apart = _apart(estimate)
    if apart is None:
        return Cell(index, "plain", remarks[index][1].removeprefix("shown · ") if index in remarks else "")
    if not apart:
        return Cell(index, "none", "not shown")
    return Cell(index, *remarks.get(index, ("alone", "by its own interval only")))


def _judged(index: int, estimate: Estimate, verdict: Verdict, remarks: Mapping[int, tuple[State, str]]) -> Cell:
    """Return the cell of an estimate that was judged with others: what was found of all counts, not its interval."""
    if verdict.shown:
        return Cell(index, *remarks.get(index, ("shown", verdict.words or "shown")))
    states: Mapping[bool | None, State] = {True: "alone", False: "none", None: "plain"}
    apart = _apart(estimate)
    # Other words say that it was not tested, or shows something else.
    corrected = bool(apart) and verdict.words in ("", NOT_AFTER_CORRECTION)
    return Cell(index, states[apart], verdict.words or "not shown", unshown=corrected)


def _apart(estimate: Estimate) -> bool | None:
    """Tell whether an interval excludes the neutral value; None where there is no interval or no such value."""
    neutral = estimate.measure.neutral
    if neutral is None or estimate.low is None or estimate.high is None:
        return None
    return not estimate.low <= neutral <= estimate.high
