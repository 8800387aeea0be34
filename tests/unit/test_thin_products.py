"""Do products in float32 bound squared distances from below, tightly?"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from probes.vectors.thin_products import ThinProducts

pytestmark = pytest.mark.numerical

Singles = NDArray[np.float32]


def normal(count: int, width: int, *, offset: float = 0.0, scale: float = 1.0) -> Singles:
    rows = offset + scale * np.random.default_rng(count).normal(size=(count, width))
    return rows.astype(np.float32)


CASES = {
    "one number": normal(40, 1),
    "wide": normal(50, 900),
    # What is added up again and again rounds to one side: the error grows with the width, and not with its root.
    "wide and even": np.repeat(np.array([[0.1], [1 / 3], [0.7]], np.float32), 5000, axis=1),
    "far from the origin": normal(60, 8, offset=1e3),
    "heap": normal(60, 30, offset=1.0, scale=1e-5),
    "small": normal(30, 5, scale=1e-12),
    "large": normal(30, 5, scale=1e12),
    "copies": np.repeat(normal(10, 64), 4, axis=0),
    "outlier": np.concatenate([normal(40, 6), np.full((1, 6), 1e4, np.float32)]),
    "nothing": np.zeros((5, 3), np.float32),
    "alone": normal(1, 4),
}


@pytest.mark.parametrize("name", CASES)
def test_bounds_are_below_every_distance_and_near_it(name: str) -> None:
    rows = CASES[name]
    few = np.arange(len(rows))[::3]
    found = ThinProducts(rows).distances(few)
    truth = cdist(rows[few].astype(np.float64), rows.astype(np.float64), "sqeuclidean")
    assert found.shape == truth.shape and found.dtype == np.float32
    assert (found <= truth).all()
    # Each point bears its own part of the rounding error: another's length makes no bound loose.
    squares = (rows.astype(np.float64) ** 2).sum(1)
    loose = 2.0**-24 * (4 * rows.shape[1] + 80) * (squares[few, None] + squares)
    assert (truth - found <= loose).all()


def test_places_come_as_a_list_or_an_array_and_again() -> None:
    bounds = ThinProducts(normal(20, 7))
    one, other = bounds.distances([3, 3, 5]), bounds.distances(np.array([3, 3, 5]))
    assert (one == other).all() and (one[0] == one[1]).all() and one.shape == (3, 20)
