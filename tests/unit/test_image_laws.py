import numpy as np
import pytest

from probes.conditional.image_laws import FITTED, View, principal_directions
from probes.core.errors import InputError

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5)])
@pytest.mark.parametrize("count", [2, 99])
def test_directions_are_those_of_a_singular_value_decomposition(shape: tuple[int, int], count: int) -> None:
    parts = RNG.normal(size=shape) * np.arange(1, shape[1] + 1)
    parts -= parts.mean(axis=0)
    squares, directions = principal_directions(parts, count)
    _, wanted, vectors = np.linalg.svd(parts, full_matrices=False)
    count = min(shape[0] - 1, shape[1], count)
    assert np.allclose(squares, wanted[:count] ** 2) and directions.shape == (shape[1], count)
    assert np.allclose(np.abs((vectors[:count] * directions.T).sum(axis=1)), 1)
    assert (directions[np.abs(directions).argmax(axis=0), range(count)] > 0).all()


def test_directions_in_which_nothing_varies_are_left_out() -> None:
    parts = np.outer(RNG.normal(size=8), [1.0, 2.0, 2.0])
    squares, directions = principal_directions(parts - parts.mean(axis=0), 3)
    assert len(squares) == 1 and np.allclose(directions[:, 0], [1 / 3, 2 / 3, 2 / 3])
    assert len(principal_directions(np.zeros((1, 3)), 2)[0]) == 0


def test_components_of_large_values_and_of_many_rows() -> None:
    y = RNG.normal(size=(FITTED + 2000, 3)) * [1, 20, 300] * 1e200
    view, share = View(n=len(y), shape=(3,)).projected(y, 2, "y")
    assert view.d == 2 and view.centre is not None and 0.999 < share < 1
    assert np.allclose(np.abs(view.directions), [[0, 0], [0, 1], [1, 0]], rtol=0, atol=0.02)
    with pytest.raises(InputError, match="vary in 3 directions"):
        view.projected(y, 4, "y")


def test_a_row_and_a_mask_of_its_own() -> None:
    view = View(n=1, shape=(2, 2, 1)).masked(np.array([[[True, False], [False, True]]]), "m")
    assert view.linear and view.d == 2 and view.kept is not None and view.kept.tolist() == [0, 3]
    assert view.scored(np.arange(4.0).reshape(1, 1, 2, 2, 1)).tolist() == [[[0, 3]]]
