"""What was counted of every text over the draws, and the comparison of one set with the reference that it makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of every text of a set over the draws, all of shape (texts,).

    Parameters
    ----------
    judged, apart
        Draws that took the text, and those in which it lay in no ball of the other side.
    empty
        Draws in which its own ball held nothing of the other side.
    nearest, distance, share
        The nearest text of the other side over all draws (-1: none), how far it is, and this distance over the
        radius of the ball around that text.
    """

    judged: NDArray[np.int64]
    apart: NDArray[np.int64]
    empty: NDArray[np.int64]
    nearest: NDArray[np.int64]
    distance: Floats
    share: Floats


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one set with the reference.

    Parameters
    ----------
    scores
        By metric and k, shape (1 + 2 splits, draws): of whole draws, then of the halves of each split.
    hubs
        Skewness of the k-occurrence of the set itself and, in the last place, its largest number, by k.
    grouped
        By k, the shares of reference points and of its own points whose balls jump in width in halves of a draw.
    generated, reference
        What was seen of the texts of either side at the first k.
    first
        The same of the first draw alone, in which all sets have as many texts.
    """

    name: str
    size: int
    scores: Mapping[tuple[str, int], Floats]
    hubs: Mapping[int, tuple[Floats, int]]
    grouped: Mapping[int, tuple[float, float]]
    generated: Tally
    reference: Tally
    first: tuple[Tally, Tally]

    def seen(self, metric: str) -> int:
        """Return the number of texts that a share is of, over all draws."""
        side = self.generated if metric == "precision" else self.reference
        return int((side.judged > 0).sum())


def tally(entries: Sequence[Mapping[str, NDArray[np.generic]]], letter: str, size: int) -> Tally:
    """Return the counts of the texts of a side, from those of every draw; a letter names the side in the entries."""
    judged, apart, empty = (np.zeros(size, dtype=np.int64) for _ in range(3))
    nearest, distance, share = np.full(size, -1), np.full(size, np.inf), np.full(size, np.inf)
    for entry in entries:
        texts = entry[f"texts_{letter}"].astype(np.int64)
        judged[texts] += 1
        apart[texts] += entry[f"apart_{letter}"].astype(np.int64)
        empty[texts] += entry[f"empty_{letter}"].astype(np.int64)
        gap, radius = (entry[f"{what}_{letter}"].astype(np.float64) for what in ("distance", "radius"))
        closer = gap < distance[texts]
        at = texts[closer]
        distance[at], nearest[at] = gap[closer], entry[f"nearest_{letter}"].astype(np.int64)[closer]
        # The ball of a copy has no size, that of a text without neighbours no end: neither is a unit of distance.
        wide = np.isfinite(radius) & (radius > 0)
        share[at] = np.where(wide, gap / np.where(wide, radius, 1.0), np.inf)[closer]
    return Tally(judged, apart, empty, nearest, distance, share)
