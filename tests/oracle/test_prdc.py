"""Are precision, recall, density and coverage those of the prdc package?"""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from probes.vectors import knn
from probes.vectors.support_metrics import Side, balls, evaluate, prepare_reference, reach

pytestmark = pytest.mark.numerical

NAMES = ("precision", "recall", "density", "coverage")


def package(x: NDArray[Any], y: NDArray[Any], k: int) -> dict[str, float]:
    """Return what the package answers; it prints how many points there are."""
    module = pytest.importorskip("prdc")
    with contextlib.redirect_stdout(io.StringIO()):
        return module.compute_prdc(x, y, nearest_k=k)


def ours(x: NDArray[Any], y: NDArray[Any], k: int) -> dict[str, float]:
    one, two = (knn.points(rows, x.mean(0)) for rows in (x, y))
    own, theirs = (
        balls(Side(knn.neighbours(rows, k), np.ones((1, len(rows)), dtype=np.int32)), [k])[0] for rows in (one, two)
    )
    near = knn.pairs(one, two, reach([own]), reach([theirs]))
    found = evaluate(prepare_reference(own), theirs, near)
    return {name: float(found[name][0]) for name in NAMES}


def agree(x: NDArray[Any], y: NDArray[Any], k: int) -> dict[str, float]:
    expected, found = package(x, y, k), ours(x, y, k)
    for name in NAMES:
        assert found[name] == pytest.approx(float(expected[name]), abs=1e-6), name
    return found


@pytest.mark.parametrize("seed", range(20))
def test_random_samples_have_the_same_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, width, k = (int(rng.integers(*ends)) for ends in ((40, 400), (40, 400), (1, 60), (1, 12)))
    dtype = np.float32 if seed % 2 else np.float64
    x = rng.normal(size=(n, width)).astype(dtype)
    # Moved and stretched by as much as leaves something of everything.
    y = (rng.uniform(0.8, 1.3) * rng.normal(size=(m, width)) + rng.uniform(0, 0.5)).astype(dtype)
    found = agree(x, y, k)
    assert all(found[name] > 0 for name in NAMES), found


@pytest.mark.parametrize("k", [1, 3])
def test_copies_kept_apart_have_the_same_values(k: int) -> None:
    rng = np.random.default_rng(1)
    # On a coarse grid both sides compute distances without rounding, so that ties are ties on both.
    x, y = (rng.integers(-8, 8, size=(60, 5)).astype(np.float64) for _ in range(2))
    x, y = np.repeat(x, 3, axis=0), np.concatenate([y, y, x[:20], x[:20]])
    found = agree(x, y, k)
    if k == 1:
        # Every point has a copy at no distance: no ball has any room.
        assert set(found.values()) == {0.0}


def test_where_the_values_are_known() -> None:
    x = np.arange(20.0)[:, None]
    assert agree(x, x + 0.5, 2)["precision"] == 1.0
    assert set(agree(x, x + 1e4, 2).values()) == {0.0}
