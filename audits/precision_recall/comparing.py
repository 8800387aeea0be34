"""One set of texts compared with the reference: counts of every draw and of its halves, before any interval."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.precision_recall.pools import Pool
from audits.precision_recall.settings import Settings
from audits.precision_recall.tallies import Comparison, tally
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.vectors import knn
from probes.vectors.settled_distances import Settled
from probes.vectors.support_metrics import (
    METRICS,
    Balls,
    Membership,
    Memberships,
    Reference,
    Side,
    balls,
    hubness,
    list_length,
    metrics,
    prepare_reference,
    reach,
    widened_share,
)

Floats = NDArray[np.float64]
COMPARED, VERSION = "text-support", 4
LISTS, PAIRS = "text-neighbours", "text-pairs"
STRIPS, STRIP = 2**16, 2**14
"""Texts of a draw from which its table of distances is cut into strips, and rows of a strip."""
WIDENED = 2**25
"""Numbers that are held in float64 at once: 256 MiB."""
HALF = 0.5
"""Share of a draw that its parts hold."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One draw of one side, ready to be compared."""

    texts: NDArray[np.int64]
    inverse: NDArray[np.int64]
    points: knn.Points
    balls: list[Balls]


@dataclass(frozen=True, slots=True)
class Grounds:
    """One draw of the reference, ready to be compared, with what is needed of it at every k."""

    side: _Prepared
    references: list[Reference]


@dataclass(frozen=True, slots=True)
class Referee:
    """The comparison of sets with one reference, whose own neighbours are searched once for each draw.

    Parameters
    ----------
    strip
        Rows of the strips that a table of distances is cut into; 0: it is not cut.
    """

    reference: Pool
    settings: Settings
    context: Context
    strip: int = 0

    @classmethod
    def of(cls, reference: Pool, settings: Settings, context: Context) -> "Referee":
        """Return the referee, who cuts the table of many texts."""
        return cls(reference, settings, context, STRIP if reference.draws.shape[1] >= STRIPS else 0)

    def compare(self, others: Sequence[Pool], progress: Callable[[int], None]) -> list[Comparison]:
        """Compare every set with the reference, draw by draw; what workers compared is read."""
        draws = len(self.reference.draws)
        found: list[list[dict[str, NDArray[np.generic]]]] = [[] for _ in others]
        for draw in range(draws):
            own: Grounds | None = None
            for index, other in enumerate(others):
                key = self.key(other, draw)
                entry = self.context.cache.read_arrays(COMPARED, key)
                if entry is None:
                    # Principal axes are of both sides: with them the reference lies otherwise beside each set.
                    if own is None and not self.turned:
                        own = self.grounds(draw)
                    entry = self.pairing(other, draw, own).measured()
                    self.context.cache.write(COMPARED, key, entry)
                found[index].append(entry)
                progress(1)
        return [self._gathered(other, entries) for other, entries in zip(others, found, strict=True)]

    @property
    def size(self) -> int:
        """Texts of a draw."""
        return int(self.reference.draws.shape[1])

    @property
    def turned(self) -> bool:
        """Whether vectors are turned into principal axes of both sides."""
        return bool(self.settings.pca)

    def key(self, other: Pool, draw: int) -> object:
        """Return what the comparison of one draw depends on."""
        names = [self.reference.name, other.name]
        shas = [self.reference.sha256, other.sha256]
        settings = [self.settings.k, self.settings.pca, self.settings.duplicates]
        sizes = [sha256_json([one.draws[draw].tolist(), len(one.halves)]) for one in (self.reference, other)]
        # Equal distances may fall otherwise on another kind of device; the seed cuts the halves.
        how = [self.context.device.partition(":")[0], self.context.seed]
        return [VERSION, names, shas, settings, sizes, how]

    def list_key(self, side: Pool, other: Pool, draw: int) -> list[object]:
        """Return what the neighbours within one draw of a side depend on."""
        sides = [self.reference, side, *([other] if self.turned else [])]
        shas = [[one.sha256, sha256_json(one.draws[draw].tolist())] for one in sides]
        # Of the reference all vectors, whose mean is taken off.
        settings = [max(self.settings.k), self.settings.pca, self.settings.duplicates]
        return [VERSION, "lists", shas, settings, self.context.device.partition(":")[0]]

    def points_in(self, side: Pool, draw: int) -> int:
        """Return how many distinct points a draw of a side has."""
        return len(np.unique(side.point[side.draws[draw]]))

    def grounds(self, draw: int, axes: NDArray[np.float32] | None = None, other: Pool | None = None) -> "Grounds":
        """Return one draw of the reference, ready to be compared.

        Raises
        ------
        InputError
            Where half of it holds too few different texts.
        """
        prepared = self._prepared(self.reference, draw, axes, other or self.reference)
        if not all(one.drawn.all() for one in prepared.balls):
            raise InputError(
                f"Half of a draw of the reference has no {max(self.settings.k) + 1} different texts.",
                where="--reference",
                hint="Give more different texts, a larger --samples or a smaller --k.",
            )
        return Grounds(prepared, [prepare_reference(one) for one in prepared.balls])

    def pairing(self, other: Pool, draw: int, grounds: "Grounds | None") -> "Pairing":
        """Return one draw of both sides, ready to be compared; grounds that are not given are made."""
        axes = self._axes(other, draw)
        if grounds is None:
            grounds = self.grounds(draw, axes, other)
        return Pairing(self, other, draw, grounds, self._prepared(other, draw, axes, other))

    def points_of(self, side: Pool, other: Pool, draw: int) -> knn.Points:
        """Return the distinct points of a draw of one of two sides."""
        points, _, _ = side.taken(draw)
        return self._points(side, points, self._axes(other, draw))

    def list_strip(self, points: knn.Points, first: int) -> dict[str, NDArray[np.generic]]:
        """Return the neighbours of a strip of points, as an entry of the cache."""
        near = knn.neighbours(points, self._length(len(points)), rows=_strip_at(first, len(points), self.strip))
        return {"squared": near.squared, "index": near.index}

    def _axes(self, other: Pool, draw: int) -> NDArray[np.float32] | None:
        if not self.turned:
            return None
        rows = [side.vectors[side.point[side.draws[draw]]] for side in (self.reference, other)]
        return principal_axes(np.concatenate(rows), self.settings.pca)

    def _points(self, side: Pool, points: NDArray[np.int64], axes: NDArray[np.float32] | None) -> knn.Points:
        vectors = side.vectors if len(points) == len(side.vectors) else side.vectors[points]
        if axes is not None:
            vectors = vectors @ axes
        # In float64 and the same for both sides: distances from far-off vectors would lose their digits.
        centre = self.reference.vectors.mean(0, dtype=np.float64)
        return knn.points(vectors, centre if axes is None else centre @ axes, device=self.context.device)

    def _length(self, points: int) -> int:
        # Long enough that any half finds its k in it: a split then costs no distances.
        return list_length(max(self.settings.k), HALF, points)

    def _prepared(self, side: Pool, draw: int, axes: NDArray[np.float32] | None, other: Pool) -> "_Prepared":
        points, inverse, weights = side.taken(draw)
        ready = self._points(side, points, axes)
        most = self._length(len(points))
        if not most:
            near = _lonely(len(points))
        elif self.strip:
            near = self._lists(ready, self.list_key(side, other, draw), most)
        else:
            near = knn.neighbours(ready, most)
        return _Prepared(side.draws[draw], inverse, ready, balls(Side(near, weights), self.settings.k))

    def _lists(self, points: knn.Points, key: list[object], most: int) -> knn.Neighbours:
        squared, index = np.empty((len(points), most)), np.empty((len(points), most), dtype=np.int32)
        for rows in strips(len(points), self.strip):
            make = partial(self.list_strip, points, rows.start)
            entry = self.context.cache.memo_arrays(LISTS, [*key, rows.start], make)
            squared[rows], index[rows] = entry["squared"], entry["index"]
        return knn.Neighbours(squared, index)

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
            tuple(tally(part, letter, size) for letter, size in (("y", len(other)), ("x", len(self.reference))))
            for part in (entries, entries[:1])
        )
        size = self.reference.draws.shape[1]
        return Comparison(other.name, size, scores, hubs, grouped, sides[0], sides[1], (first[0], first[1]))


@dataclass(frozen=True, slots=True)
class Pairing:
    """One draw of the reference and of another set, ready to be compared."""

    referee: Referee
    other: Pool
    draw: int
    grounds: Grounds
    candidate: _Prepared

    def strip(self, first: int) -> dict[str, NDArray[np.generic]]:
        """Return the near pairs of a strip of the reference, as an entry of the cache."""
        found: list[tuple[NDArray[np.generic], ...]] = []
        rows = _strip_at(first, len(self.grounds.side.points), self.referee.strip)
        most = knn.PAIRS_A_POINT * 2 * STRIP
        near = self._near(lambda *pairs: found.append(pairs), most, rows)
        x, y, squared = (np.concatenate([part[side] for part in found]) for side in range(3))
        nearest = {name: getattr(near, name) for name in ("nearest_y", "to_y", "nearest_x", "to_x")}
        return {"x": x, "y": y, "squared": squared, **nearest}

    def measured(self) -> dict[str, NDArray[np.generic]]:
        """Return the comparison, as an entry of the cache."""
        reference, candidate, settings = self.grounds.side, self.candidate, self.referee.settings
        counts = [Memberships(*sides) for sides in zip(self.grounds.references, candidate.balls, strict=True)]
        near = self._strips(counts) if self.referee.strip else self._whole(counts)
        entry: dict[str, NDArray[np.generic]] = {}
        for k, ours, theirs, found in zip(settings.k, reference.balls, candidate.balls, counts, strict=True):
            values = metrics(found)
            entry[f"scores_{k}"] = np.stack([values[name] for name in METRICS])
            skews, most = hubness(theirs.side, k)
            entry[f"hubs_{k}"] = np.append(skews, float(most[0]))
            entry[f"grouped_{k}"] = np.array([widened_share(ours), widened_share(theirs)])
        return {**entry, **self._seen(counts[0].of(), near)}

    def discard(self) -> None:
        """Remove the strips of near pairs, once the comparison is there."""
        key = self.referee.key(self.other, self.draw)
        for rows in strips(len(self.grounds.side.points), self.referee.strip):
            self.referee.context.cache.discard(PAIRS, [key, rows.start])

    def _seen(self, held: Membership, near: knn.Nearest) -> dict[str, NDArray[np.generic]]:
        """Return what was seen of each text of both sides at the first k."""
        reference, candidate = self.grounds.side, self.candidate
        # Radii are squared, as distances are until somebody reads them.
        widths = (
            np.sqrt(reference.balls[0].radius(0)[near.nearest_x]),
            np.sqrt(candidate.balls[0].radius(0)[near.nearest_y]),
        )
        entry: dict[str, NDArray[np.generic]] = {}
        for side, prepared, apart, empty, nearest, squared, radius, across in (
            ("y", candidate, held.held_by == 0, held.held_by < 0, near.nearest_x, near.to_x, widths[0], reference),
            ("x", reference, ~held.reached, held.holds == 0, near.nearest_y, near.to_y, widths[1], candidate),
        ):
            first = _first_texts(across)
            entry[f"texts_{side}"] = prepared.texts
            entry[f"apart_{side}"] = apart[prepared.inverse]
            entry[f"empty_{side}"] = empty[prepared.inverse]
            entry[f"nearest_{side}"] = first[nearest][prepared.inverse]
            entry[f"distance_{side}"] = np.sqrt(squared)[prepared.inverse]
            entry[f"radius_{side}"] = radius[prepared.inverse]
        return entry

    def _whole(self, counts: Sequence[Memberships]) -> knn.Nearest:
        """Count the near pairs of both sides as they are found, and return who is nearest to whom."""
        points = len(self.grounds.side.points) + len(self.candidate.points)
        own, theirs = (side.balls[0].side.neighbours.squared for side in (self.grounds.side, self.candidate))
        limits = np.concatenate([one.medians for one in self.grounds.references])
        settled = Settled(self.grounds.side.points, self.candidate.points, own, theirs, limits)
        return self._near(_counting(counts), max(knn.MOST_PAIRS, knn.PAIRS_A_POINT * points), distances=settled)

    def _near(
        self, take: Callable[..., None], most: int, rows: slice | None = None, distances: Settled | None = None
    ) -> knn.Nearest:
        sides = self.grounds.side.points, self.candidate.points
        reaches = reach(self.grounds.side.balls), reach(self.candidate.balls)
        return knn.near_pairs(*sides, *reaches, knn.Portions(*sides, take, most=most, distances=distances), rows=rows)

    def _strips(self, counts: Sequence[Memberships]) -> knn.Nearest:
        """As `_whole`, from strips that are in the cache or are made."""
        x, y = len(self.grounds.side.points), len(self.candidate.points)
        nearest_y, to_y = np.zeros(x, dtype=np.int32), np.zeros(x)
        nearest_x, to_x = np.zeros(y, dtype=np.int32), np.full(y, np.inf)
        key, take = self.referee.key(self.other, self.draw), _counting(counts)
        for rows in strips(x, self.referee.strip):
            entry = self.referee.context.cache.memo_arrays(PAIRS, [key, rows.start], partial(self.strip, rows.start))
            for start in range(0, len(entry["x"]), knn.PORTION):
                part = slice(start, start + knn.PORTION)
                take(entry["x"][part], entry["y"][part], entry["squared"][part])
            nearest_y[rows], to_y[rows] = entry["nearest_y"], entry["to_y"]
            nearer = entry["to_x"] < to_x
            nearest_x[nearer], to_x[nearer] = entry["nearest_x"][nearer], entry["to_x"][nearer]
        return knn.Nearest(nearest_y, to_y, nearest_x, to_x)


def strips(points: int, strip: int) -> list[slice]:
    """Return the strips of so many rows that a table of distances is cut into.

    >>> [(rows.start, rows.stop) for rows in strips(40, 16)]
    [(0, 16), (16, 32), (32, 40)]
    """
    return [_strip_at(first, points, strip) for first in range(0, points, strip)]


def _strip_at(first: int, points: int, strip: int) -> slice:
    return slice(first, min(first + strip, points))


def _counting(counts: Sequence[Memberships]) -> Callable[[NDArray[np.int32], NDArray[np.int32], Floats], None]:
    def take(x: NDArray[np.int32], y: NDArray[np.int32], squared: Floats) -> None:
        for found in counts:
            found.add(x, y, squared)

    return take


def principal_axes(rows: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    """Return the fewest principal axes that hold a share of the variance of the rows, shape (width, axes)."""
    mean, width = rows.mean(0, dtype=np.float64), rows.shape[1]
    if len(rows) < width:
        # The smaller of the two product matrices has the same eigenvalues.
        centred = rows.astype(np.float64) - mean
        values, sides = np.linalg.eigh(centred @ centred.T)
        lengths = np.sqrt(np.maximum(values, 0.0))
        axes = np.divide(centred.T @ sides, lengths, out=np.zeros(centred.shape[::-1]), where=lengths > 0)
    else:
        products = np.zeros((width, width))
        for start in range(0, len(rows), step := max(width, WIDENED // width)):
            centred = rows[start : start + step].astype(np.float64) - mean
            products += centred.T @ centred
        values, axes = np.linalg.eigh(products)
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
