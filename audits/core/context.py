"""The interface of an audit: the context that it is given, and the plan and draft report that it returns.

The command line makes a `Context`, asks the audit for a `Plan`, and later for a `Draft`, which becomes
a report once the gates have been judged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

from audits.core.intervals import Interval, Undefined
from audits.core.measures import UNDECLARED, Measure
from audits.core.records import (
    KEY_NUMBERS,
    SEVERITIES,
    Answer,
    Coordinate,
    Coverage,
    Estimate,
    Figure,
    Finding,
    KeyNumber,
    Severity,
    Source,
    Subject,
    Verdict,
    Warning,
)
from probes.core.cache import Cache
from probes.core.progress import Progress, Silent
from probes.core.spreading import Machines

__all__ = ["Cache", "Claim", "Context", "Draft", "Plan"]

Key = tuple[str, frozenset[tuple[str, Coordinate]]]
MOST_LISTED = 12
"""Rows that an error message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of one run.

    Parameters
    ----------
    seed, level
        Seed of every random choice; confidence level of every interval.
    device, dtype
        Where and in which number format a model runs.
    typed
        The options that stand on the command line, some perhaps at their defaults.
    cache
        Results by content hash; what makes a run resumable.
    machines
        Who computes what is dear: workers, and which part of it, where this run is one part of several.
    progress
        Who is told that work moves on.
    """

    seed: int = 0
    level: float = 0.95
    device: str = "cpu"
    dtype: str = "float32"
    typed: frozenset[str] = frozenset()
    cache: Cache
    machines: Machines = field(default_factory=Machines)
    progress: Progress = field(default_factory=Silent)

    def running(self, batch: int) -> dict[str, Any]:
        """Return where and how a model runs on batches of this size, as what runs texts through one takes it."""
        names = ("device", "dtype", "cache", "progress", "machines")
        return {"batch": batch, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an audit will do, once every input has been checked.

    Parameters
    ----------
    inputs
        Whatever the audit's own `run` needs; opaque to everybody else.
    cost
        (what, how much) in words, for `--dry-run`.
    notes
        What the user should know before it starts.
    coordinates
        Every key that `where` of an estimate of this run can have, with all the values that it can take; a gate on
        another is refused before anything runs. Empty: not known.
    settings
        Options whose values were only settled now, such as those of a preset; the report lists these.
    measure
        Asked by `--dry-run` alone: times a little of the work and returns more lines for `cost`.
    files
        What the user asked the plan itself to write, by path.
    warnings
        What the report must say of the inputs; before the notes, which become warnings too.
    preview
        Notes for `--dry-run` alone: what the run finds out by itself, and says with warnings of its own.
    """

    inputs: Any
    subject: Subject | None
    data: tuple[Source, ...]
    cost: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    coordinates: Mapping[str, tuple[Coordinate, ...]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    measure: Callable[[], tuple[tuple[str, str], ...]] | None = None
    files: Mapping[Path, str] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()
    preview: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A finding in the making: `evidence` are the estimates themselves, whatever their order in the end."""

    id: str
    severity: Severity
    headline: str
    statement: str
    how_sure: str
    where: Mapping[str, Coordinate]
    evidence: tuple[Estimate, ...]

    @property
    def words(self) -> str:
        """All that the finding says."""
        return " ".join(filter(None, (self.headline, self.statement, self.how_sure)))


@dataclass(slots=True, kw_only=True)
class Draft:
    """A report in the making, and the table that findings and figures read: estimates by name and coordinates.

    Parameters
    ----------
    level, seed, progress
        Confidence level of the intervals, seed of what is drawn, and who is told that work moves on.
    measures
        What the audit declares of its estimates; another name or key is an error. Empty: anything goes.
    records
        One mapping per item judged; all have the same keys, the columns of records.csv. Any sequence, which may make
        them when they are asked for: it is gone through once, and twice of more rows than CSV takes.
    files
        Contents of further files of the run folder by name; the names stand in the audit's spec.
    subject
        Where the parameter count is known only after loading; otherwise the plan's stands.
    title
        Where the audit's own would say too little.

    Examples
    --------
    >>> draft = Draft()
    >>> for group, errors in (("red", 12), ("blue", 3)):
    ...     rate = Interval(value=errors / 60, low=0.01, high=0.4, method="Wilson", n=60, unit="answers")
    ...     row = draft.add("rate", rate, group=group)
    >>> draft.row("rate", group="red").value, draft.get("rate", group="green"), len(draft.select("rate"))
    (0.2, None, 2)
    """

    level: float = 0.95
    seed: int = 0
    progress: Progress = field(default_factory=Silent)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    estimates: list[Estimate] = field(default_factory=list)
    findings: list[Claim] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    limitations: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    coverage: Coverage = field(default_factory=lambda: Coverage(given=0, used=0))
    records: Sequence[Mapping[str, Any]] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    subject: Subject | None = None
    title: str | None = None
    answer: Answer | None = field(default=None, init=False)
    _index: dict[Key, Estimate] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._index.update((key_of(row.name, row.where), row) for row in self.estimates)

    @overload
    def add(self, name: str, found: Interval, /, **where: Coordinate) -> Estimate: ...
    @overload
    def add(self, name: str, found: Undefined, /, **where: Coordinate) -> None: ...
    @overload
    def add(self, name: str, found: Interval | Undefined, /, **where: Coordinate) -> Estimate | None: ...
    def add(self, name: str, found: Interval | Undefined, /, **where: Coordinate) -> Estimate | None:
        """Add a row to the table and return it; for an undefined number add a warning instead.

        Raises
        ------
        ValueError
            Where there is such a row, the audit declares no such name or key, or the number breaks a rule of
            `Estimate`.
        """
        if isinstance(found, Undefined):
            self.warn(found.id, found.why, **(where if found.where is None else found.where))
            return None
        row = Estimate(
            name=name,
            value=found.value,
            low=found.low,
            high=found.high,
            level=self.level if found.level is None else found.level,
            method=found.method,
            n=found.n,
            unit=found.unit,
            where=where,
            measure=self._measure(name, where),
        )
        if self._index.setdefault(key_of(name, where), row) is not row:
            raise ValueError(f"{name} {where} stands in the table already")
        self.estimates.append(row)
        return row

    def _measure(self, name: str, where: Mapping[str, Coordinate]) -> Measure:
        if not self.measures:
            return UNDECLARED
        if name not in self.measures:
            raise ValueError(f"{name} is no measure that the audit declares")
        unknown = where.keys() - set(self.measures[name].keys)
        if unknown:
            raise ValueError(f"{name} has no key {', '.join(sorted(unknown))}; it has: {self.measures[name].keys}")
        return self.measures[name]

    def get(self, name: str, /, **where: Coordinate) -> Estimate | None:
        """Return the row with this name and exactly these coordinates, or None."""
        return self._index.get(key_of(name, where))

    def row(self, name: str, /, **where: Coordinate) -> Estimate:
        """Return the row with this name and exactly these coordinates.

        Raises
        ------
        KeyError
            Where there is none; the message lists those of the name.
        """
        found = self.get(name, **where)
        if found is None:
            there = "; ".join(str(dict(row.where)) for row in self.select(name)[:MOST_LISTED]) or "none of the name"
            raise KeyError(f"there is no {name} {where}; there are: {there}")
        return found

    def select(self, name: str, /, **where: Coordinate) -> list[Estimate]:
        """Return the rows with this name whose coordinates include these, in the order of the table."""
        return [row for row in self.estimates if row.name == name and where.items() <= row.where.items()]

    def rows(self, name: str, /, **where: Coordinate) -> list[dict[str, Any]]:
        """Return selected rows as mappings for a chart: value, low, high, n and every coordinate."""
        return [
            {"value": row.value, "low": row.low, "high": row.high, "n": row.n, **row.where}
            for row in self.select(name, **where)
        ]

    def warn(self, id: str, message: str, /, **where: Coordinate) -> None:
        """Append a warning, once."""
        warning = Warning(id=id, message=message, where=where)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def limit(self, text: str) -> None:
        """Add a limitation of this run, beside those of every run of the audit."""
        self.limitations.append(text)

    def find(
        self,
        id: str,
        severity: Severity,
        statement: str,
        /,
        evidence: Sequence[Estimate | None] = (),
        *,
        headline: str = "",
        how_sure: str = "",
        **where: Coordinate,
    ) -> None:
        """Append a finding; a None in the evidence (a missing row) is left out.

        Parameters
        ----------
        statement
            What the headline rests on; without a headline the whole finding, whose first sentence is its title.
        evidence
            The rows that carry it; that of the headline's number first.
        headline
            The answer in at most `records.HEADLINE_WORDS` words, the subject first, one number with its interval.
        how_sure
            Method and corrections, for who wants to know how sure this is.
        """
        self.findings.append(
            Claim(
                id=id,
                severity=severity,
                headline=headline,
                statement=statement,
                how_sure=how_sure,
                where=where,
                evidence=tuple(row for row in evidence if row is not None),
            )
        )

    def conclude(
        self,
        title: str,
        /,
        *,
        numbers: Sequence[tuple[Estimate, str]] = (),
        may: Sequence[str] = (),
        may_not: Sequence[str] = (),
        verdicts: Sequence[tuple[Estimate, bool, str]] = (),
        next_step: str = "",
    ) -> None:
        """Set the answer to the question of the run; without one, the first findings stand for it.

        Parameters
        ----------
        title
            One sentence of at most `records.HEADLINE_WORDS` words that the intervals carry.
        numbers
            At most `records.KEY_NUMBERS` rows with what they are, in words.
        may, may_not
            What may be reported of this run, and what may not.
        verdicts
            Rows of the matrix on top that were judged together, whether each shows a difference, and that in words
            (empty: shown, or not shown); rows without one speak by their intervals.
        next_step
            What can be done, where the step of the worst finding does not say it for this run.
        """
        index_of = self._indices()
        keys = tuple(KeyNumber(row=index_of[key_of(row.name, row.where)], words=words) for row, words in numbers)
        self.answer = Answer(
            title=title,
            numbers=keys[:KEY_NUMBERS],
            may=tuple(may),
            may_not=tuple(may_not),
            verdicts=tuple(
                Verdict(row=index_of[key_of(row.name, row.where)], shown=shown, words=words)
                for row, shown, words in verdicts
            ),
            next_step=next_step,
        )

    def advise(self, steps: Mapping[str, str]) -> None:
        """Add to the answer what can be done about the worst finding for which there is a step, by its id."""
        step = next((steps[claim.id] for claim in self.by_severity() if claim.id in steps), "")
        if self.answer is not None and step:
            self.answer = replace(self.answer, next_step=step)

    def by_severity(self) -> list[Claim]:
        """Return the findings, worst first; within one severity the audit's own order stays."""
        return sorted(self.findings, key=lambda claim: -SEVERITIES.index(claim.severity))

    def leading(self, without: Sequence[str] = ()) -> list[Estimate]:
        """Return the first row of evidence of each finding, worst first and once each, `without` some ids."""
        rows: list[Estimate] = []
        for claim in self.by_severity():
            if claim.id not in without:
                rows += [row for row in claim.evidence[:1] if row not in rows]
        return rows

    def _indices(self) -> dict[Key, int]:
        return {key_of(row.name, row.where): index for index, row in enumerate(self.estimates)}

    def numbered(self) -> tuple[Finding, ...]:
        """Return the findings, worst first, with the indices of their evidence in the table."""
        index_of = self._indices()
        return tuple(
            Finding(
                id=claim.id,
                severity=claim.severity,
                headline=claim.headline,
                statement=claim.statement,
                how_sure=claim.how_sure,
                where=claim.where,
                evidence=tuple(index_of[key_of(row.name, row.where)] for row in claim.evidence),
            )
            for claim in self.by_severity()
        )


def key_of(name: str, where: Mapping[str, Coordinate]) -> Key:
    """Return the key of a row, unique in a table: its name and its coordinates."""
    return name, frozenset(where.items())
