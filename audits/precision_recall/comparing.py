"""One set of texts compared with the reference: counts of every draw and of its halves, before any interval."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.precision_recall.pools import Pool
from audits.precision_recall.settings import Settings
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.vectors import knn
from probes.vectors.support_metrics import (
    METRICS,
    Balls,
    Reference,
    Side,
    balls,
    evaluate,
    hubness,
    list_length,
    prepare_reference,
    reach,
    widened_share,
)
from probes.vectors.support_metrics import membership as memberships

Floats = NDArray[np.float64]
KIND, VERSION = "text-support", 3
HALF = 0.5
"""Share of a draw that its parts hold."""


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


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One draw of one side, ready to be compared."""

    texts: NDArray[np.int64]
    inverse: NDArray[np.int64]
    points: knn.Points
    balls: list[Balls]


@dataclass(frozen=True, slots=True)
class Referee:
    """The comparison of sets with one reference, whose own neighbours are searched once for each draw."""

    reference: Pool
    settings: Settings
    context: Context

    def compare(self, others: Sequence[Pool], progress: Callable[[int], None]) -> list[Comparison]:
        """Compare every set with the reference, draw by draw."""
        draws = len(self.reference.draws)
        found: list[list[dict[str, NDArray[np.generic]]]] = [[] for _ in others]
        for draw in range(draws):
            own: tuple[_Prepared, list[Reference]] | None = None
            for index, other in enumerate(others):
                key = self._key(other, draw)
                entry = self._kept(key)
                if entry is None:
                    axes = self._axes(other, draw)
                    # Principal axes are of both sides: with them the reference lies otherwise beside each set.
                    if own is None or axes is not None:
                        own = self._grounds(draw, axes)
                    entry = self._measured(own, other, draw, axes)
                    self._keep(key, entry)
                found[index].append(entry)
                progress(1)
        return [self._gathered(other, entries) for other, entries in zip(others, found, strict=True)]

    def _key(self, other: Pool, draw: int) -> object:
        names = [self.reference.name, other.name]
        shas = [self.reference.sha256, other.sha256]
        settings = [self.settings.k, self.settings.pca, self.settings.duplicates]
        sizes = [sha256_json([one.draws[draw].tolist(), len(one.halves)]) for one in (self.reference, other)]
        # Equal distances may fall otherwise on another kind of device; the seed cuts the halves.
        how = [self.context.device.partition(":")[0], self.context.seed]
        return [VERSION, names, shas, settings, sizes, how]

    def _kept(self, key: object) -> dict[str, NDArray[np.generic]] | None:
        return self.context.cache.read_arrays(KIND, key)

    def _keep(self, key: object, entry: Mapping[str, NDArray[np.generic]]) -> None:
        self.context.cache.write(KIND, key, entry)

    def _grounds(self, draw: int, axes: NDArray[np.float32] | None) -> tuple[_Prepared, list[Reference]]:
        prepared = self._prepared(self.reference, draw, axes)
        if not all(one.drawn.all() for one in prepared.balls):
            raise InputError(
                f"Half of a draw of the reference has no {max(self.settings.k) + 1} different texts.",
                where="--reference",
                hint="Give more different texts, a larger --samples or a smaller --k.",
            )
        return prepared, [prepare_reference(one) for one in prepared.balls]

    def _axes(self, other: Pool, draw: int) -> NDArray[np.float32] | None:
        if not self.settings.pca:
            return None
        rows = [side.vectors[side.point[side.draws[draw]]] for side in (self.reference, other)]
        return principal_axes(np.concatenate(rows), self.settings.pca)

    def _prepared(self, side: Pool, draw: int, axes: NDArray[np.float32] | None) -> _Prepared:
        points, inverse, weights = side.taken(draw)
        vectors = side.vectors[points]
        if axes is not None:
            vectors = vectors @ axes
        # In float64 and the same for both sides: distances from far-off vectors would lose their digits.
        centre = self.reference.vectors.mean(0, dtype=np.float64)
        ready = knn.points(
            vectors,
            centre if axes is None else centre @ axes,
            device=self.context.device,
        )
        # Long enough that any half finds its k in it: a split then costs no distances.
        most = list_length(max(self.settings.k), HALF, len(points))
        near = knn.neighbours(ready, most) if most else _lonely(len(points))
        return _Prepared(side.draws[draw], inverse, ready, balls(Side(near, weights), self.settings.k))

    def _measured(
        self, own: tuple[_Prepared, list[Reference]], other: Pool, draw: int, axes: NDArray[np.float32] | None
    ) -> dict[str, NDArray[np.generic]]:
        reference, grounds = own
        candidate = self._prepared(other, draw, axes)
        near = knn.pairs(
            reference.points,
            candidate.points,
            reach(reference.balls),
            reach(candidate.balls),
        )
        entry: dict[str, NDArray[np.generic]] = {}
        for k, ours, theirs in zip(self.settings.k, grounds, candidate.balls, strict=True):
            values = evaluate(ours, theirs, near)
            entry[f"scores_{k}"] = np.stack([values[name] for name in METRICS])
            skews, most = hubness(theirs.side, k)
            entry[f"hubs_{k}"] = np.append(skews, float(most[0]))
            entry[f"grouped_{k}"] = np.array([widened_share(ours.balls), widened_share(theirs)])
        held = memberships(grounds[0], candidate.balls[0], near)
        width = (
            # Radii are squared, as distances are until somebody reads them.
            np.sqrt(reference.balls[0].radii[0][near.nearest_x]),
            np.sqrt(candidate.balls[0].radii[0][near.nearest_y]),
        )
        for side, prepared, apart, empty, nearest, squared, radius, across in (
            ("y", candidate, held.held_by == 0, held.held_by < 0, near.nearest_x, near.to_x, width[0], reference),
            ("x", reference, ~held.reached, held.holds == 0, near.nearest_y, near.to_y, width[1], candidate),
        ):
            first = _first_texts(across)
            entry[f"texts_{side}"] = prepared.texts
            entry[f"apart_{side}"] = apart[prepared.inverse]
            entry[f"empty_{side}"] = empty[prepared.inverse]
            entry[f"nearest_{side}"] = first[nearest][prepared.inverse]
            entry[f"distance_{side}"] = np.sqrt(squared)[prepared.inverse]
            entry[f"radius_{side}"] = radius[prepared.inverse]
        return entry

    def _gathered(self, other: Pool, entries: Sequence[Mapping[str, NDArray[np.generic]]]) -> Comparison:
        scores = {
            (name, k): np.stack([entry[f"scores_{k}"][index] for entry in entries], axis=1).astype(np.float64)
            for index, name in enumerate(METRICS)
            for k in self.settings.k
        }
        hubs = {}
        for k in self.settings.k:
            rows = np.stack([entry[f"hubs_{k}"] for entry in entries], axis=1).astype(np.float64)
            hubs[k] = rows[:-1], int(rows[-1].max())
        grouped = {
            k: (
                # The worst draw: one that is not to be trusted is enough.
                max(float(entry[f"grouped_{k}"][0]) for entry in entries),
                max(float(entry[f"grouped_{k}"][1]) for entry in entries),
            )
            for k in self.settings.k
        }
        sides, first = (
            tuple(_tally(part, letter, size) for letter, size in (("y", len(other)), ("x", len(self.reference))))
            for part in (entries, entries[:1])
        )
        size = self.reference.draws.shape[1]
        return Comparison(other.name, size, scores, hubs, grouped, sides[0], sides[1], (first[0], first[1]))


def principal_axes(rows: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    """Return the fewest principal axes that hold a share of the variance of the rows, shape (width, axes)."""
    centred = rows.astype(np.float64) - rows.mean(0, dtype=np.float64)
    if len(centred) < centred.shape[1]:
        # The smaller of the two product matrices has the same eigenvalues.
        values, sides = np.linalg.eigh(centred @ centred.T)
        lengths = np.sqrt(np.maximum(values, 0.0))
        axes = np.divide(centred.T @ sides, lengths, out=np.zeros(centred.shape[::-1]), where=lengths > 0)
    else:
        values, axes = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(values)[::-1]
    part = np.cumsum(np.maximum(values[order], 0.0))
    count = int(np.searchsorted(part, share * part[-1]) + 1)
    return np.ascontiguousarray(axes[:, order[:count]], dtype=np.float32)


def _lonely(size: int) -> knn.Neighbours:
    return knn.Neighbours(np.empty((size, 0)), np.empty((size, 0), dtype=np.int32))


def _first_texts(prepared: _Prepared) -> NDArray[np.int64]:
    """Return one text for every point: the first in its file."""
    first = np.full(len(prepared.points), np.iinfo(np.int64).max)
    np.minimum.at(first, prepared.inverse, prepared.texts)
    return first


def _tally(entries: Sequence[Mapping[str, NDArray[np.generic]]], letter: str, size: int) -> Tally:
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
