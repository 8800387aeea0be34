"""Trends: the course of each gated estimate over the runs of one audit, oldest first."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from audits.core.numbers import coordinates
from audits.report.pages.glyphs import LIMIT
from audits.report.run_index.listing import Gated, Run

MOST_TRENDS = 60
"""Most courses on a page: those with a failed gate first."""


@dataclass(frozen=True, slots=True)
class Point:
    """An estimate in one run, and whether the gate on it passed there."""

    run: Run
    row: Gated
    passed: bool


@dataclass(frozen=True, slots=True)
class Trend:
    """The course of one estimate, with the limit that a gate sets."""

    audit: str
    expression: str
    name: str
    where: str
    points: tuple[Point, ...]

    @property
    def limit(self) -> float | None:
        """The number of the gate."""
        found = LIMIT.search(self.expression)
        return float(found[1]) if found and math.isfinite(float(found[1])) else None

    @property
    def title(self) -> str:
        """The label of the estimate in the newest run, and its coordinates."""
        return ", ".join(filter(None, (self.points[-1].row.label or self.name, self.where)))

    @property
    def failed(self) -> int:
        """Runs in which the gate failed."""
        return sum(not point.passed for point in self.points)


def trends_of(runs: Iterable[Run]) -> list[Trend]:
    """Return the courses of estimates that a gate looked at in two runs or more, those with failures first."""
    found: dict[tuple[str, str, str, str], list[Point]] = {}
    for run in sorted(runs, key=lambda run: (run.created, run.folder)):
        for gate in run.gates:
            for row in gate.rows:
                key = (run.audit, gate.expression, row.name, coordinates(row.where))
                found.setdefault(key, []).append(Point(run, row, gate.passed))
    trends = [Trend(*key, tuple(points)) for key, points in found.items() if len(points) > 1]
    return sorted(trends, key=lambda trend: (-trend.failed, trend.audit, trend.expression, trend.where))[:MOST_TRENDS]
