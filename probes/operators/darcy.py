"""Samples of Darcy flow: random fields of two permeabilities, and the pressure solved from each.

The flow obeys -div(a grad u) = 1 on the unit square with u = 0 on its edge (Darcy flow as in Li et al. 2021, arXiv
2010.08895, section 5.2). All grids are closed: node i lies at i / (size - 1), both edges included.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from probes.core.errors import InputError
from probes.core.progress import Progress, Silent

LOW, HIGH = 3.0, 12.0
"""The two permeabilities."""

MODES = 241
"""Cosines an axis of which every field is made, whatever the grid that it is looked at on."""

_ALPHA, _TAU = 2.0, 3.0
_SMALLEST = 3


def darcy_samples(
    count: int, size: int, seed: int, *, progress: Progress | None = None
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return where the permeability is high, and the pressure, both of shape (count, size, size).

    A sample depends on the seed and its own number alone: more samples begin with the same ones, and a finer grid
    that holds the nodes of a coarser one has the same permeability there. The pressure is solved on the grid itself.

    Parameters
    ----------
    size
        Nodes along an edge, at least 3. Up to 241 no cosine of the field is finer than the grid of size 241; beyond
        it, edges of the two regions are only refined.
    """
    if count < 0 or size < _SMALLEST:
        raise InputError(
            f"{count} samples on {size} x {size} nodes were asked for.",
            where="count, size",
            hint="Ask for 0 samples or more, on 3 x 3 nodes or more.",
        )
    high = np.empty((count, size, size), dtype=np.bool_)
    pressure = np.empty((count, size, size), dtype=np.float32)
    with (progress or Silent()).phase("Solving flows through random ground", count, "samples") as advance:
        for number in range(count):
            high[number] = random_field(size, seed, number) >= 0
            pressure[number] = solve(np.where(high[number], HIGH, LOW))
            advance(1)
    return high, pressure


def solve(coefficient: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return u of -div(a grad u) = 1, u = 0 on the edge, at the nodes of a; shape (size, size).

    Parameters
    ----------
    coefficient
        The permeability a at every node, positive; shape (size, size) with a size of at least 3.

    Examples
    --------
    One inner node, half a unit from each edge: 4 a u / (1/2)^2 = 1.

    >>> float(solve(np.full((3, 3), 2.0))[1, 1])
    0.03125
    """
    matrix = stiffness(coefficient)
    inner = len(coefficient) - 2
    pressure = np.zeros(coefficient.shape)
    # Minimum degree on A^T + A suits a symmetric matrix: a fifth less time than the default at size 241.
    flat = linalg.spsolve(matrix, np.ones(inner * inner), permc_spec="MMD_AT_PLUS_A")
    pressure[1:-1, 1:-1] = flat.reshape(inner, inner)
    return pressure


def stiffness(coefficient: NDArray[np.floating]) -> sparse.csc_array:
    """Return the matrix of -div(a grad .) on the inner nodes, row by row: symmetric and positive definite.

    Five points in flux form; the permeability between two nodes is the arithmetic mean of theirs.
    """
    if coefficient.ndim != 2 or len(set(coefficient.shape)) != 1 or len(coefficient) < _SMALLEST:
        shape = " x ".join(map(str, coefficient.shape))
        raise InputError(
            f"The permeability has the shape {shape}.",
            where="coefficient",
            hint="Give a square of 3 x 3 nodes or more.",
        )
    if not (np.isfinite(coefficient).all() and (coefficient > 0).all()):
        raise InputError("A permeability is not a positive number.", where="coefficient", hint="Give values above 0.")
    a = np.asarray(coefficient, dtype=np.float64) * (len(coefficient) - 1) ** 2
    down = (a[:-1, 1:-1] + a[1:, 1:-1]) / 2
    across = (a[1:-1, :-1] + a[1:-1, 1:]) / 2
    centre = down[:-1] + down[1:] + across[:, :-1] + across[:, 1:]
    node = np.arange(centre.size).reshape(centre.shape)
    rows = np.concatenate([node[:-1].ravel(), node[:, :-1].ravel()])
    columns = np.concatenate([node[1:].ravel(), node[:, 1:].ravel()])
    faces = -np.concatenate([down[1:-1].ravel(), across[:, 1:-1].ravel()])
    values = np.concatenate([centre.ravel(), faces, faces])
    positions = np.concatenate([node.ravel(), rows, columns]), np.concatenate([node.ravel(), columns, rows])
    return sparse.csc_array((values, positions), shape=(centre.size, centre.size))


def random_field(size: int, seed: int, number: int) -> NDArray[np.float64]:
    """Draw g ~ N(0, (-Laplacian + 9)^-2) with zero mean and zero slope at the edge, by its cosine series."""
    scale, cosines = _basis(size)
    stream = np.random.default_rng((seed, number))
    return np.asarray(cosines @ (scale * stream.standard_normal((MODES, MODES))) @ cosines.T)


@lru_cache(maxsize=4)
def _basis(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the standard deviation of every coefficient, and the orthonormal cosines at the nodes (size, modes)."""
    k = np.arange(MODES)
    # The factor in front, as in the paper's own code, changes no sign of the field, and signs are all that is used.
    scale = _TAU ** (_ALPHA - 1) * (np.pi**2 * (k[:, None] ** 2 + k**2) + _TAU**2) ** (-_ALPHA / 2)
    scale[0, 0] = 0
    cosines = np.cos(np.pi * np.outer(np.arange(size) / (size - 1), k))
    cosines[:, 1:] *= np.sqrt(2)
    return scale, cosines
