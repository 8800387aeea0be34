"""What is an estimate made of? Numbers of the records of one run that an audit names, and how far each moves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from audits.comparison.tables import Floats, Table, Words
from audits.records import Coordinate, Estimate
from audits.statistics.roc import area

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]
Parts = tuple[Literal["ratio", "area"], Floats, Floats]
"""What an estimate is made of, a number a record: the sum of the first over the sum of the second; or scores, and 1 for
members and 0 for others. NaN: the record has no part in it."""


class Pairing(Protocol):
    """What an audit tells of its records.csv; the module that `AuditSpec.records` names has these functions.

    Where an estimate has the coordinate `group`, records of other groups are left out for it by their attributes. A
    module may also hold `ALIKE`, names of columns that are equal in both runs where a key means the same record.
    """

    def keys(self, text: Mapping[str, Words]) -> tuple[Sequence[str | None], tuple[str, ...]]:
        """Return what identifies each row, None where it is not used, and the roles of data that keys rest on.

        Row numbers mean the same records only where the data of these roles are the same files in both runs.
        """

    def units(self, text: Mapping[str, Words]) -> Sequence[str]:
        """Return the unit that each row was sampled with, such as its speaker."""

    def parts(
        self, text: Mapping[str, Words], numbers: Mapping[str, Floats], name: str, where: Mapping[str, Coordinate]
    ) -> Parts | None:
        """Return what an estimate is made of, or None where records do not make it."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one run and the rows that the other run has too, in one order for both, shape (matched,)."""

    table: Table
    pairing: Pairing
    rows: Integers
    groups: dict[str, Bools | None]

    def parts(self, estimate: Estimate) -> Parts | None:
        """Return what an estimate is made of, NaN for records that have no part in it."""
        try:
            found = self.pairing.parts(self.table.text, self.table.numbers, estimate.name, estimate.where)
        except (KeyError, TypeError, ValueError):
            # A column or coordinate that this run, maybe of another version, does not have.
            return None
        inside = self._group(str(estimate.where.get("group", "all")))
        if found is None or inside is None:
            return None
        kind, over, under = found
        part = inside & np.isfinite(over) & np.isfinite(under)
        part &= (under != 0) | (over != 0) if kind == "ratio" else True
        return kind, np.where(part, over, np.nan), np.where(part, under, np.nan)

    def _group(self, group: str) -> Bools | None:
        if group not in self.groups:
            inside: Bools | None = np.ones(self.table.rows, dtype=np.bool_)
            for part in group.split("&") if group != "all" else ():
                name, _, level = part.partition("=")
                column = next((found for found in (f"attribute_{name}", name) if found in self.table.text), None)
                inside = None if column is None or inside is None else inside & self.table.is_level(column, level)
            self.groups[group] = inside
        return self.groups[group]


def measured(parts: Parts) -> tuple[float, Floats] | None:
    """Return an estimate and how far each record moves it, zero where it has no part; None where nothing is left."""
    kind, over, under = parts
    part = np.isfinite(over)
    moves = np.zeros(len(over))
    if kind == "area":
        inside, outside = part & (under == 1), part & (under == 0)
        if not inside.any() or not outside.any():
            return None
        found = area(over[part], under[part] == 1)
        moves[inside] = (found.of_members - found.value) / len(found.of_members)
        moves[outside] = (found.of_others - found.value) / len(found.of_others)
        return found.value, moves
    total = float(under[part].sum())
    if total <= 0:
        return None
    value = float(over[part].sum()) / total
    moves[part] = (over[part] - value * under[part]) / total
    return value, moves


def shares(parts: Parts) -> Floats:
    """Return the weight of each record in an estimate; they sum to one, and to one on each side of an area."""
    kind, over, under = parts
    part = np.isfinite(over)
    found = np.zeros(len(over))
    if kind == "ratio":
        found[part] = under[part] / under[part].sum()
        return found
    for side in (0, 1):
        rows = part & (under == side)
        found[rows] = 1 / max(1, int(rows.sum()))
    return found


def within_one(parts: Parts) -> bool:
    """Tell whether an estimate lies between zero and one whatever the records, as an area and a share do."""
    kind, over, under = parts
    part = np.isfinite(over)
    return kind == "area" or bool(((over[part] >= 0) & (over[part] <= under[part])).all())
