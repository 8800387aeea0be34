"""Find points that samples copy, exactly or so nearly that nothing else comes as near."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probes.core.progress import Progress
from probes.generators.attacks.samples import nearest
from probes.generators.point_sets import PointSet

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

NEAR = 0.2
"""Of the distance at which the middle other point has its nearest sample: what is nearer counts as a near copy."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copied:
    """Points that are copied and samples that are copies, by one definition of a copy.

    Parameters
    ----------
    points
        Shape (points,).
    of_members, of_others
        Samples that repeat a member, and those that repeat another point, each shape (samples,).
    """

    points: Bools
    of_members: Bools
    of_others: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copies:
    """Exact copies, in every float32 number, and near ones, which include them; `radius` is the largest distance."""

    exact: Copied
    near: Copied
    radius: float


def find_copies(
    points: PointSet, member: Bools, samples: PointSet, squared: Floats, *, progress: Progress | None = None
) -> Copies:
    """Find the points, members and others, that a sample copies.

    Near is within `NEAR` of the median, over the others, of the distance to the nearest sample: others show how near
    samples come to points that nothing was learnt from, so that no scale of the data has to be known.

    Parameters
    ----------
    squared
        Squared distance of each point to its nearest sample, shape (points,).
    """
    own, theirs = np.array(points.digests()), np.array(samples.digests())
    exact = Copied(
        points=np.isin(own, theirs),
        of_members=np.isin(theirs, own[member]),
        of_others=np.isin(theirs, own[~member]),
    )
    limit = NEAR * NEAR * float(np.median(squared[~member]))
    touched = exact.points | (squared <= limit)
    sides = [
        repeats | _within(samples, points, touched & side, limit, progress)
        for side, repeats in ((member, exact.of_members), (~member, exact.of_others))
    ]
    near = Copied(points=touched, of_members=sides[0], of_others=sides[1])
    return Copies(exact=exact, near=near, radius=float(np.sqrt(limit)))


def _within(samples: PointSet, points: PointSet, chosen: Bools, limit: float, progress: Progress | None) -> Bools:
    """Return which samples have one of the chosen points within the limit."""
    if not chosen.any():
        return np.zeros(len(samples), dtype=np.bool_)
    taken = points.take(np.flatnonzero(chosen))
    return np.asarray(-nearest(samples, taken, progress=progress, label="Samples near copied points") <= limit)
