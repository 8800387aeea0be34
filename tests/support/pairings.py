"""Records of two runs by hand, and how they are paired: for tests of comparison that no audit's own columns are for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from audits.core.records import Coordinate
from audits.report.comparison.parts import Area, Parts, Ratio, Rows
from audits.report.comparison.tables import Table


def table(**columns: Any) -> Table:
    """Return records with these columns, as they are read from a file."""
    cells = {name: tuple(map(str, column)) for name, column in columns.items()}
    return Table(cells, len(next(iter(cells.values()))), "records.csv")


@dataclass(frozen=True, kw_only=True)
class ById:
    """Pair rows by `id`, of units `unit`, by default the records themselves; every estimate has the parts `made`."""

    made: Callable[[Rows], Parts]
    unit: str = "id"
    roles: tuple[str, ...] = ()

    def keys(self, rows: Rows) -> tuple[list[str | None], tuple[str, ...]]:
        return [key or None for key in rows.text["id"]], self.roles

    def units(self, rows: Rows) -> list[str]:
        return list(rows.text[self.unit])

    def parts(self, rows: Rows, name: str, where: Mapping[str, Coordinate]) -> Parts:
        return self.made(rows)


def ratio_of(rows: Rows) -> Ratio:
    """Return the parts of the sum of errors over that of sizes."""
    return Ratio(rows.numbers["errors"], rows.numbers["size"])


def area_of(rows: Rows) -> Area:
    """Return the parts of the area under the curve of scores."""
    return Area(rows.numbers["score"], rows.numbers["member"])


RATIO = ById(made=ratio_of, unit="who")
