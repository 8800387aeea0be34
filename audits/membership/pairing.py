"""How are points matched over two runs of membership, and which areas under a curve do their scores give?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.comparison.parts import Area, Rows

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
SOURCES = ("scores", "members", "nonmembers")
"""Roles of the files in which a point is known by its number."""

LONGEST = 19
"""Digits that a place in a file never has."""


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return attack, side and point of each row that is judged; points without an id are known by their number."""
    columns = [rows.text[name] for name in ("model", "attack", "tier", "member", "point") if name in rows.text]
    scored = (rows.text["judged"] == "1") & (rows.text["score"] != "")
    known = ("\n".join(cells) for cells in zip(*columns, strict=True))
    numbered = _numbered(rows.text["point"], columns[:-1])
    return [key if mine else None for key, mine in zip(known, scored, strict=True)], SOURCES if numbered else ()


def _numbered(points: NDArray[np.object_], columns: Sequence[NDArray[np.object_]]) -> bool:
    """Tell whether points may be known by their places in a file: these rise, and are written without leading zeros."""
    last: dict[tuple[str, ...], int] = {}
    for point, *block in zip(points.tolist(), *columns, strict=True):
        if not (point.isascii() and point.isdecimal() and len(point) < LONGEST) or str(int(point)) != point:
            return False
        if int(point) <= last.get(tuple(block), -1):
            return False
        last[tuple(block)] = int(point)
    return True


def units(rows: Rows) -> Sequence[str]:
    """Return the points, each with its side: members and non-members may be numbered alike."""
    return [f"{point}\n{side}" for point, side in zip(rows.text["point"], rows.text["member"], strict=True)]


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Area | None:
    """Return scores and membership of the points that one attack is judged on."""
    if name != "auc":
        return None
    mine = (rows.text["judged"] == "1") & (rows.text["score"] != "")
    for key in ("model", "attack", "tier"):
        mine &= rows.text[key] == where[key] if key in where else True
    return Area(rows.numbers["score"], np.where(mine, rows.numbers["member"], np.nan))
