"""What an audit is given, and what it hands back: the two sides of the one way through miles.

The command line makes a `Context`, asks the audit for a `Plan`, and later for a `Draft`, which becomes
a report once the gates have been judged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audits.records import (
    Coordinate,
    Coverage,
    Estimate,
    Figure,
    Finding,
    Severity,
    Source,
    Subject,
    Warning,
)
from probes.cache import Cache
from probes.progress import Progress, Silent

__all__ = ["Cache", "Context", "Draft", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of one run.

    Parameters
    ----------
    seed, level
        Seed of every random choice; confidence level of every interval.
    device, dtype
        Where and in which number format a model runs.
    cache
        Results by content hash; what makes a run resumable.
    progress
        Who is told that work moves on.
    """

    seed: int = 0
    level: float = 0.95
    device: str = "cpu"
    dtype: str = "float32"
    cache: Cache
    progress: Progress = field(default_factory=Silent)


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


@dataclass(slots=True, kw_only=True)
class Draft:
    """A report in the making: what an audit found, before gates and provenance.

    Parameters
    ----------
    records
        One mapping per item judged; all have the same keys, the columns of records.csv.
    files
        Contents of further files of the run folder by name; the names stand in the audit's spec.
    subject
        Where the parameter count is known only after loading; otherwise the plan's stands.
    title
        Where the audit's own would say too little.
    """

    estimates: list[Estimate] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    limitations: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    coverage: Coverage = field(default_factory=lambda: Coverage(given=0, used=0))
    records: Sequence[Mapping[str, Any]] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    subject: Subject | None = None
    title: str | None = None

    def add(self, estimate: Estimate) -> int:
        """Append an estimate and return its index, for use as evidence."""
        self.estimates.append(estimate)
        return len(self.estimates) - 1

    def warn(self, id: str, message: str, **where: Coordinate) -> None:
        """Append a warning, once."""
        warning = Warning(id=id, message=message, where=where)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def find(
        self, id: str, severity: Severity, statement: str, evidence: Sequence[int] = (), **where: Coordinate
    ) -> None:
        """Append a finding."""
        self.findings.append(
            Finding(id=id, severity=severity, statement=statement, where=where, evidence=tuple(evidence))
        )
