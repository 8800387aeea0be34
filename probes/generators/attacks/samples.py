"""Scores of points that need only the samples of a generative model: distances to samples.

Points are taken in blocks, so that memory does not grow with their number. All distances are Euclidean, between
flattened points.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.progress import Progress, Silent
from probes.generators.point_sets import PointSet
from probes.vectors import knn

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Points = PointSet | NDArray[np.floating]

ROWS, COLUMNS = 2048, 4096
"""Largest block of distances: 32 MiB in float32, whatever the number of points."""
CROWD = 64
"""Samples of a block that may be equally near to within float32's rounding and are still all computed in float64."""
_PIECE = 2**23


def width(points: Points) -> int:
    """Return how many numbers a point has when it is flattened."""
    shape = points.shape if isinstance(points, PointSet) else points.shape[1:]
    return int(np.prod(shape))


def flat(points: Points, start: int, stop: int) -> Singles:
    """Return points `start` to `stop`, flattened, as float32 of shape (points, width).

    Raises
    ------
    InputError
        Where one holds a number that is not finite.
    """
    values = points.block(start, stop) if isinstance(points, PointSet) else points[start:stop]
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(values, dtype=np.float32).reshape(len(values), -1)
    if not np.isfinite(rows).all():
        raise InputError("A point holds a number that is not finite.", where="points", hint="Mend it, or leave it out.")
    return rows


def blocks(points: Points, most: int) -> Iterator[tuple[slice, Singles]]:
    """Yield flattened points, at most `most` at once and fewer where they are wide."""
    step = max(1, min(most, _PIECE // width(points)))
    for start in range(0, len(points), step):
        part = slice(start, min(start + step, len(points)))
        yield part, flat(points, part.start, part.stop)


def taken(points: Points, most: int, rng: np.random.Generator) -> Singles:
    """Return flattened points; where there are more than `most`, a random subset in their order."""
    if len(points) <= most:
        return flat(points, 0, len(points))
    chosen = np.sort(rng.permutation(len(points))[:most])
    part = points.take(chosen) if isinstance(points, PointSet) else points[chosen]
    return flat(part, 0, most)


def check_widths(points: Points, others: Points) -> None:
    """Refuse sets of points that have different shapes.

    Raises
    ------
    InputError
        Where one is empty, or their points have different numbers of values.
    """
    if not len(points) or not len(others):
        raise InputError("There are no points on one side.", where="points, others", hint="Give at least one point.")
    if width(points) != width(others):
        shapes = [side.shape if isinstance(side, PointSet) else side.shape[1:] for side in (points, others)]
        message = f"Points of the shape {shapes[0]} are compared with {shapes[1]}."
        raise InputError(message, where="points, others", hint="Give one shape.")


def nearest(x: Points, samples: Points, *, progress: Progress | None = None, label: str = "Nearest samples") -> Floats:
    """Score points by minus the squared distance to their nearest sample, shape (points,).

    The full black-box score of Chen, Yu, Zhang and Fritz (2020, "GAN-Leaks"), equation 7. Blocks of distances are
    computed in float32 with a bound on their rounding; whatever may be nearest within it is computed again in float64.
    Only where more than `CROWD` samples of a block are that near may the nearest be missed, by no more than the bound.

    >>> nearest(np.array([[0.0], [5.0]]), np.array([[1.0], [3.0]])).tolist()
    [-1.0, -4.0]
    """
    check_widths(x, samples)
    found = np.empty(len(x))
    centre = next(blocks(x, ROWS))[1].mean(0, dtype=np.float64)
    with (progress or Silent()).phase(label, len(x), "points") as advance:
        for part, rows in blocks(x, ROWS):
            own, best = _prepared(rows, centre), np.full(len(rows), np.inf)
            for _, columns in blocks(samples, COLUMNS):
                best = _nearer(own, _prepared(columns, centre), best)
            found[part] = -best
            advance(len(rows))
    return found


def calibrated(x: Points, samples: Points, reference: Points, *, progress: Progress | None = None) -> Floats:
    """Score points by how much nearer their nearest sample is than their nearest reference point, shape (points,).

    `nearest(x, samples) - nearest(x, reference)`: calibration as in Chen et al. (2020, section 4.4), with the reference
    data in place of the samples of a reference model.

    >>> calibrated(np.array([[0.0]]), np.array([[1.0]]), np.array([[3.0]])).tolist()
    [8.0]
    """
    near = nearest(x, samples, progress=progress)
    return near - nearest(x, reference, progress=progress, label="Nearest reference points")


def monte_carlo(x: Points, samples: Points, *, quantile: float = 0.5, progress: Progress | None = None) -> Floats:
    """Score points by the share of all samples that are near, shape (points,).

    Near is what is no further than the given quantile, over all points, of the distance to the nearest sample: the
    median rule of Hilprecht, Haerterich and Bernau (2019, section 4.1). The quantile is a distance that occurs, and it
    counts as near, so that at least this share of the points has a score above 0.

    >>> monte_carlo(np.array([[0.0], [5.0], [9.0]]), np.array([[1.0], [3.0], [4.0], [6.0]])).tolist()
    [0.25, 0.5, 0.0]
    """
    squared = -nearest(x, samples, progress=progress)
    radius = float(np.quantile(squared, quantile, method="inverted_cdf"))
    counts = np.zeros(len(x))
    done = 0
    with (progress or Silent()).phase("Near samples", len(x), "points") as advance:
        for rows, part in squared_distances(x, samples):
            # Distances within float64 rounding of the radius count as inside.
            counts[rows] += (part <= radius + 1e-12 * float(part.max())).sum(1)
            advance(rows.stop - done)
            done = rows.stop
    return counts / len(samples)


def squared_distances(x: Points, others: Points) -> Iterator[tuple[slice, Floats]]:
    """Yield squared distances in float64, in blocks of shape (points, others), with the slice of points."""
    check_widths(x, others)
    # A centre that float32 holds: points that are all the same are 0 apart, not rounding.
    centre = next(blocks(x, ROWS))[1].mean(0, dtype=np.float64).astype(np.float32).astype(np.float64)
    for which, rows in blocks(x, ROWS // 2):
        left = rows - centre
        squares = np.einsum("ij,ij->i", left, left)
        for _, columns in blocks(others, COLUMNS // 2):
            right = columns - centre
            part = left @ right.T
            part *= -2
            part += squares[:, None]
            part += np.einsum("ij,ij->i", right, right)
            yield which, np.maximum(part, 0, out=part)


def _prepared(rows: Singles, centre: Floats) -> knn.Points:
    try:
        return knn.points(rows, centre)
    except InputError as error:
        raise InputError(error.message, where="points", hint="Scale all points by the same factor.") from None


def _nearer(own: knn.Points, others: knn.Points, best: Floats) -> Floats:
    """Return the smallest squared distances so far, updated by another block of others."""
    bounds = (own.centred @ others.centred.T).mul_(-2).add_(own.floors[:, None]).add_(others.floors)
    pick = bounds.argmin(1)
    everyone = np.arange(len(own))
    best = np.minimum(best, knn.exact(own, others, everyone, pick.numpy()))
    near = bounds <= torch.from_numpy(np.nextafter(best.astype(np.float32), np.float32(np.inf)))[:, None]
    near[everyone, pick] = False
    # Where too many samples are equally near up to rounding, the first will do.
    near[near.sum(1) > CROWD] = False
    row, column = near.nonzero(as_tuple=True)
    np.minimum.at(best, row.numpy(), knn.exact(own, others, row.numpy(), column.numpy()))
    return best
