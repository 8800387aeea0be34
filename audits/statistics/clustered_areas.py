"""Areas under the ROC curve where rows come in clusters, such as several outputs for one context, and their differences.

Nothing is resampled: the areas without each cluster follow from counts that one sort gives.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import ratio

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClusteredArea:
    value: float
    moves: Floats
    sides: Floats
    shares: Floats
    units: int
    rows: tuple[int, int]
    tied: bool
    naive: float


def clustered_area(
    scores: Floats, positive: Bools, clusters: NDArray[Any], *, strata: NDArray[Any] | None = None, across: bool = False
) -> ClusteredArea | None:
    unit = np.unique(clusters, return_inverse=True)[1]
    block = np.zeros(len(unit), dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    count = int(unit.max(initial=-1)) + 1
    cell = block * count + unit
    won, met = _against(scores, positive, block)
    own_won, own_met = _against(scores, positive, cell)
    if across:
        won, met = won - own_won, met - own_met
        own_won, own_met = 0 * own_won, 0 * own_met
    pairs = float(met[positive].sum())
    if not pairs:
        return None
    value = float(won[positive].sum()) / pairs
    apart = won - own_won / 2 - value * (met - own_met / 2)
    sides = np.stack([np.bincount(unit, apart * side, count) for side in (positive, ~positive)])
    touched = np.bincount(unit, met - own_met / 2, count)
    there = int((touched > 0).sum())
    left = pairs - touched
    moves = ratio((there - 1) / max(there, 1) * sides.sum(0), left)
    naive = float(((won - value * met) ** 2).sum() / pairs**2)
    return ClusteredArea(value, moves, sides / pairs, touched / touched.sum(), _units(cell, block, positive, count, across),
        (int((met[positive] > 0).sum()), int((met[~positive] > 0).sum())), bool(np.all(2 * won == met)), naive)


def _against(scores: Floats, positive: Bools, block: Integers) -> tuple[Floats, Floats]:
    order = np.lexsort((scores, block))
    ranked, where, kind = scores[order], block[order], positive[order]
    counts = np.stack([np.concatenate(([0], np.cumsum(side))) for side in (~kind, kind)])
    begins = np.append(True, where[1:] != where[:-1])
    changes = begins | np.append(True, ranked[1:] != ranked[:-1])
    (first, last), (low, high) = _runs(begins), _runs(changes)
    below = counts[:, low] - counts[:, first]
    above, equal = counts[:, last] - counts[:, high], counts[:, high] - counts[:, low]
    won, met = np.zeros(len(scores)), np.zeros(len(scores))
    won[order] = np.where(kind, below[0] + equal[0] / 2, above[1] + equal[1] / 2)
    met[order] = np.where(kind, (below + above + equal)[0], (below + above + equal)[1])
    return won, met


def _runs(begins: Bools) -> tuple[Integers, Integers]:
    starts = np.flatnonzero(begins)
    run = np.cumsum(begins) - 1
    return starts[run], np.append(starts[1:], len(begins))[run]


def _units(cell, block, positive, count, across) -> int:
    cells = np.unique(cell)
    has = [np.isin(cells, cell[side]) for side in (positive, ~positive)]
    stratum = cells // count
    def per(mask): return np.bincount(stratum, mask, int(block.max()) + 1)
    both = per(has[0] & has[1])
    only = [per(has[0] & ~has[1]), per(has[1] & ~has[0])]
    if across:
        return int(np.minimum(np.minimum(only[0] + both, only[1] + both), (only[0] + only[1] + both) // 2).max())
    inside = len(np.unique((cells % count)[has[0] & has[1]]))
    return max(int((both + np.minimum(*only)).max()), inside)
