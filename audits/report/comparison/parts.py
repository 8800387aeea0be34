"""The parts of an estimate: the numbers of each record of a run that make it up, and how far each moves it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Coordinate, Estimate
from audits.report.comparison.record_columns import Floats, Words
from audits.report.comparison.tables import Table
from audits.statistics.roc import area

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]
STEP = 6e-6
"""Share of a sum by which it is moved for a derivative: the cube root of the rounding of a float, of which the error
of a central difference is least."""


class Parts(Protocol):
    """The parts of an estimate, a row of numbers per record; NaN where the record has no part in it."""

    def present(self) -> Bools:
        """Return a mask of the records that have a part, shape (records,)."""

    def masked(self, rows: Bools) -> "Parts":
        """Return the parts restricted to these records."""

    def taken(self, rows: Integers | Bools) -> "Parts":
        """Return the parts of some of the records."""

    def value(self) -> float | None:
        """Return the estimate; None where it is undefined."""

    def moves(self) -> Floats:
        """Return the first-order influence of each record, zero where it has no part; they sum to zero."""

    def shares(self) -> Floats:
        """Return the weight of each record; weights sum to one over each side."""

    def sides(self) -> list[Bools]:
        """Return the records of each independently drawn sample."""

    def within_one(self) -> bool:
        """Tell whether the estimate always lies between zero and one."""

    def mismatch(self, other: "Parts") -> str:
        """Return the reason why records cannot be paired with those of another run; empty where they can."""


class _OneSample(ABC):
    """Base of the parts of estimates over one sample."""

    @abstractmethod
    def present(self) -> Bools:
        """Return a mask of the records that have a part, shape (records,)."""

    def sides(self) -> list[Bools]:
        """Return all records as one sample."""
        return [np.ones(len(self.present()), dtype=np.bool_)]

    def mismatch(self, other: Parts) -> str:
        """Return an empty reason: records of one sample can always be paired."""
        return ""


@dataclass(frozen=True, slots=True)
class Ratio(_OneSample):
    """The sum of one number over the sum of another, such as errors over words; a mean divides by ones.

    Examples
    --------
    >>> rate = Ratio(np.array([1.0, 3.0]), np.array([10.0, 10.0]))
    >>> rate.value(), rate.moves().tolist(), rate.shares().tolist()
    (0.2, [-0.05, 0.05], [0.5, 0.5])
    """

    over: Floats
    under: Floats

    def present(self) -> Bools:
        """Return a mask of the records with both numbers, not both zero."""
        given = np.isfinite(self.over) & np.isfinite(self.under)
        return np.asarray(given & ((self.under != 0) | (self.over != 0)))

    def masked(self, rows: Bools) -> "Ratio":
        """Return the parts restricted to these records."""
        return Ratio(np.where(rows, self.over, np.nan), self.under)

    def taken(self, rows: Integers | Bools) -> "Ratio":
        """Return the parts of some of the records."""
        return Ratio(self.over[rows], self.under[rows])

    def value(self) -> float | None:
        """Return the ratio; None where the denominator is zero."""
        part = self.present()
        total = float(self.under[part].sum())
        return float(self.over[part].sum()) / total if total > 0 else None

    def moves(self) -> Floats:
        """Return (over - value x under) / total of each record."""
        part, found = self.present(), np.zeros(len(self.over))
        found[part] = (self.over[part] - (self.value() or 0.0) * self.under[part]) / self.under[part].sum()
        return found

    def shares(self) -> Floats:
        """Return the share of each record in the denominator."""
        part, found = self.present(), np.zeros(len(self.over))
        found[part] = self.under[part] / self.under[part].sum()
        return found

    def within_one(self) -> bool:
        """Tell whether no record has a numerator above its denominator."""
        part = self.present()
        return bool(((self.over[part] >= 0) & (self.over[part] <= self.under[part])).all())


@dataclass(frozen=True, slots=True)
class Area:
    """The area under the ROC curve of scores of members (1) and others (0), which are two samples."""

    scores: Floats
    member: Floats

    def present(self) -> Bools:
        """Return a mask of the records with a score and a side."""
        return np.isfinite(self.scores) & np.isfinite(self.member)

    def masked(self, rows: Bools) -> "Area":
        """Return the parts restricted to these records."""
        return Area(np.where(rows, self.scores, np.nan), self.member)

    def taken(self, rows: Integers | Bools) -> "Area":
        """Return the parts of some of the records."""
        return Area(self.scores[rows], self.member[rows])

    def value(self) -> float | None:
        """Return the area; None where a side is empty."""
        inside, outside = self.sides()
        if not inside.any() or not outside.any():
            return None
        part = self.present()
        return float(area(self.scores[part], self.member[part] == 1).value)

    def moves(self) -> Floats:
        """Return the placement value of each record less the area, over the number of records of its side."""
        found, part = np.zeros(len(self.scores)), self.present()
        whole = area(self.scores[part], self.member[part] == 1)
        for rows, own in zip(self.sides(), (whole.of_members, whole.of_others), strict=True):
            found[rows] = (own - whole.value) / len(own)
        return found

    def shares(self) -> Floats:
        """Return equal weights within members and within others."""
        found = np.zeros(len(self.scores))
        for rows in self.sides():
            found[rows] = 1 / max(1, int(rows.sum()))
        return found

    def sides(self) -> list[Bools]:
        """Return members and others."""
        part = self.present()
        return [part & (self.member == 1), part & (self.member == 0)]

    def within_one(self) -> bool:
        """Return True: an area lies between zero and one."""
        return True

    def mismatch(self, other: Parts) -> str:
        """Return the reason where the sides of the records differ; empty where they agree."""
        alike = isinstance(other, Area) and np.array_equal(self.member, other.member)
        return "" if alike else "members of one run are non-members of the other"


@dataclass(frozen=True, slots=True)
class Smooth(_OneSample):
    """A smooth function of sums over records, such as a calibration error from sums within bins.

    Each record moves it by the gradient at the sums times what the record adds beyond its share of them (the delta
    method). The gradient is taken by central differences, so that the function need only be smooth where it is.

    Parameters
    ----------
    sums
        What each record adds to the sums, shape (records, k).
    function
        The estimate from the k sums.
    weights
        Share of each record in the sample, in any unit, shape (records,); None: all alike.
    bounded
        Whether the estimate lies between zero and one whatever the records.

    Examples
    --------
    >>> rows = np.array([[1.0, 10.0], [3.0, 10.0]])
    >>> rate = Smooth(rows, lambda sums: float(sums[0] / sums[1]))
    >>> rate.value(), np.round(rate.moves(), 9).tolist()
    (0.2, [-0.05, 0.05])
    """

    sums: Floats
    function: Callable[[Floats], float]
    weights: Floats | None = None
    bounded: bool = False

    def present(self) -> Bools:
        """Return a mask of the records with all numbers."""
        return np.asarray(np.isfinite(self.sums).all(axis=1))

    def masked(self, rows: Bools) -> "Smooth":
        """Return the parts restricted to these records."""
        return replace(self, sums=np.where(rows[:, None], self.sums, np.nan))

    def taken(self, rows: Integers | Bools) -> "Smooth":
        """Return the parts of some of the records."""
        weights = None if self.weights is None else self.weights[rows]
        return Smooth(self.sums[rows], self.function, weights, self.bounded)

    def value(self) -> float | None:
        """Return the function of the sums; None where it is no finite number, or there is no record."""
        part = self.present()
        if not part.any():
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            found = float(self.function(self.sums[part].sum(axis=0)))
        return found if np.isfinite(found) else None

    def moves(self) -> Floats:
        """Return the gradient times the contribution of each record beyond its share."""
        part, found = self.present(), np.zeros(len(self.sums))
        whole = self.sums[part].sum(axis=0)
        found[part] = (self.sums[part] - self.shares()[part, None] * whole) @ self._gradient(whole)
        return found

    def _gradient(self, whole: Floats) -> Floats:
        steps = STEP * np.maximum(np.abs(whole), np.abs(self.sums[self.present()]).max(axis=0))
        found = np.zeros(len(whole))
        for column in np.flatnonzero(steps):
            ends = []
            for side in (steps[column], -steps[column]):
                moved = whole.copy()
                moved[column] += side
                ends.append(self.function(moved))
            found[column] = (ends[0] - ends[1]) / (2 * steps[column])
        return found

    def shares(self) -> Floats:
        """Return the weights, summing to one."""
        part = self.present()
        weights = part.astype(np.float64) if self.weights is None else np.where(part, self.weights, 0.0)
        return np.asarray(weights / weights.sum())

    def within_one(self) -> bool:
        """Tell whether the audit declares the function to lie between zero and one."""
        return self.bounded


@dataclass(frozen=True, slots=True)
class Rows:
    """The records of one run, as an audit reads them for the parts of an estimate.

    Parameters
    ----------
    text, numbers
        Columns of records.csv by name as words, and as numbers with NaN for an empty cell, shape (records,).
    settings
        The options of the run, as report.json has them.
    """

    text: Mapping[str, Words]
    numbers: Mapping[str, Floats]
    settings: Mapping[str, Any]

    def __len__(self) -> int:
        return len(next(iter(self.text.values()), ()))


class Pairing(Protocol):
    """The pairing protocol: functions in the module `records` of an audit that describe its records.csv.

    Where an estimate has the coordinate `group`, records of other groups are left out for it by their attributes. A
    module may also hold `ALIKE`, names of columns that are equal in both runs where a key means the same record.
    """

    def keys(self, rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
        """Return the key of each row (None where it is not used), and the roles of data that keys rest on.

        Row numbers mean the same records only where the data of these roles are the same files in both runs.
        """

    def units(self, rows: Rows) -> Sequence[str]:
        """Return the sampled unit of each row, such as its speaker."""

    def parts(self, rows: Rows, name: str, where: Mapping[str, Coordinate]) -> Parts | None:
        """Return the parts of an estimate, or None where it is not made of records."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one run, and its rows that the other run has too, in a common order, shape (matched,)."""

    table: Table
    rows: Rows
    pairing: Pairing
    matched: Integers
    groups: dict[str, Bools | None]

    def parts(self, estimate: Estimate) -> Parts | None:
        """Return the parts of an estimate, restricted to the records of its group."""
        try:
            found = self.pairing.parts(self.rows, estimate.name, estimate.where)
        except (KeyError, TypeError, ValueError):
            # This run, perhaps of another version, lacks a column or coordinate.
            return None
        inside = self._group(str(estimate.where.get("group", "all")))
        return None if found is None or inside is None else found.masked(inside)

    def _group(self, group: str) -> Bools | None:
        if group not in self.groups:
            inside: Bools | None = np.ones(self.table.rows, dtype=np.bool_)
            for part in group.split("&") if group != "all" else ():
                name, _, level = part.partition("=")
                column = next((found for found in (f"attribute_{name}", name) if found in self.table.text), None)
                inside = None if column is None or inside is None else inside & self.table.is_level(column, level)
            self.groups[group] = inside
        return self.groups[group]
