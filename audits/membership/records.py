"""The rows of records.csv, one for each point and attack, and their pairing over two runs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Coverage, Skipped
from audits.report.comparison.parts import Area, Rows

if TYPE_CHECKING:
    from audits.membership.measure import Counts

MOST_ROWS = 200_000
"""Rows of records.csv; of more points, the first are listed, and a warning says so."""
Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
SOURCES = ("scores", "members", "nonmembers")
"""Roles of the files in which a point is known by its number."""
LONGEST = 19
"""Digits that the number of a point in a file never has."""


def coverage(counts: "Counts") -> Coverage:
    """Return how many points were given and used, and the reasons for skipped ones."""
    pool = counts.pool
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted(pool.skipped.items()))
    return Coverage(given=pool.given, used=len(pool), skipped=skipped)


def records(counts: "Counts") -> list[Mapping[str, Any]]:
    """Return the rows, grouped by attack: point, score, and use of the point."""
    pool = counts.pool
    several = any(one.where for one in counts.attacks)
    rows: list[Mapping[str, Any]] = []
    for attack in counts.attacks:
        scores, judged = attack.scores.tolist(), attack.judged.tolist()
        usable = None if attack.usable is None else attack.usable.tolist()
        for point in range(listed_of(counts)):
            row: dict[str, Any] = {"model": attack.model} if several else {}
            row |= {
                "attack": attack.name,
                "tier": attack.tier,
                "point": pool.names[point],
                "member": int(pool.member[point]),
                "score": scores[point] if usable is None or usable[point] else "",
                "chooses": int(pool.chooses[point]),
                "judged": int(judged[point]),
            }
            rows.append(row)
    return rows


def listed_of(counts: "Counts") -> int:
    """Return the number of listed points of each attack."""
    return min(max(1, MOST_ROWS // max(1, len(counts.attacks))), len(counts.pool))


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return attack, side and point of each row that is judged; points without an id are known by their number."""
    columns = [rows.text[name] for name in ("model", "attack", "tier", "member", "point") if name in rows.text]
    scored = (rows.text["judged"] == "1") & (rows.text["score"] != "")
    known = ("\n".join(cells) for cells in zip(*columns, strict=True))
    numbered = _numbered(rows.text["point"], columns[:-1])
    return [key if mine else None for key, mine in zip(known, scored, strict=True)], SOURCES if numbered else ()


def _numbered(points: NDArray[np.object_], columns: Sequence[NDArray[np.object_]]) -> bool:
    """Tell whether ids are positions in a file: ascending, without leading zeros."""
    last: dict[tuple[str, ...], int] = {}
    for point, *block in zip(points.tolist(), *columns, strict=True):
        if not (point.isascii() and point.isdecimal() and len(point) < LONGEST) or str(int(point)) != point:
            return False
        if int(point) <= last.get(tuple(block), -1):
            return False
        last[tuple(block)] = int(point)
    return True


def units(rows: Rows) -> Sequence[str]:
    """Return the independent units: points with their side, since both sides may be numbered alike."""
    return [f"{point}\n{side}" for point, side in zip(rows.text["point"], rows.text["member"], strict=True)]


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Area | None:
    """Return scores and membership of the points that one attack is judged on."""
    if name != "auc":
        return None
    mine = (rows.text["judged"] == "1") & (rows.text["score"] != "")
    for key in ("model", "attack", "tier"):
        mine &= rows.text[key] == where[key] if key in where else True
    return Area(rows.numbers["score"], np.where(mine, rows.numbers["member"], np.nan))
