"""The rows of records.csv: one for each candidate and row, with its scores, ranks and cells."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from audits.core.records import Coverage

if TYPE_CHECKING:
    from audits.conditional.counts import Counts, Rows


def coverage(counts: "Counts") -> Coverage:
    """Return how many rows were given and judged: laws that do not fit all rows are refused."""
    return Coverage(given=counts.n, used=counts.n)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return the numbers of every row; empty where a kind of law has none."""
    from audits.conditional import METRICS
    from audits.conditional.estimates import inside_of

    names = list(dict.fromkeys(one.name for rows in counts.candidates for one in rows.projections))
    groups = [counts.groups.names[at] if counts.groups.names else "all" for at in counts.groups.member]
    found = []
    for rows in counts.candidates:
        levels = dict.fromkeys((*counts.levels, *(one.level for one in counts.candidates if one.level is not None)))
        columns: dict[str, Any] = {metric: rows.scores.get(metric) for metric in METRICS}
        columns |= dict(_ranks(rows, names))
        columns |= {
            f"in_{level:g}": inside_of(rows, level, counts.dimensions) if rows.level in (None, level) else None
            for level in levels
        }
        columns["cell"], columns["min_distance"] = rows.cells, _nearest(rows)
        tables = {name: [""] * counts.n if one is None else one.tolist() for name, one in columns.items()}
        for at, values in enumerate(zip(*tables.values(), strict=True)):
            found.append(
                {"row": at, "candidate": rows.name, "group": groups[at], **dict(zip(tables, values, strict=True))}
            )
    return found


def _ranks(rows: "Rows", names: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield ranks by projection, then the rank among draws of the first one: how many lie below."""
    own = {one.name: at for at, one in enumerate(rows.projections)}
    for name in names:
        there = rows.pits is not None and name in own
        yield f"pit_{name}", rows.pits[:, own[name]] if there and rows.pits is not None else None
    draws = rows.kind in ("samples", "normal") and rows.pits is not None
    yield "rank", (rows.pits[:, 0] * (rows.draws + 1)).astype(int) if draws and rows.pits is not None else None


def _nearest(rows: "Rows") -> Any:
    """Return the distance from the outcome to the nearest of all points, or draws that were looked at."""
    if rows.cells is not None:
        return next(iter(rows.distortion.values()))[1] ** 0.5
    most = max(rows.best_of, default=0)
    return rows.best_of[most] ** 0.5 if most else None
