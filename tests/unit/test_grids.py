import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.core.errors import InputError
from probes.operators.fno.layers import coordinates
from probes.operators.grids import KINDS, coarsened, detect, detect_coordinates, nested, restricted, step


def bump(kind, sizes) -> np.ndarray:
    """Return a field that vanishes on the boundary of the unit cube, shape (1, 1, *sizes)."""
    nodes = coordinates(kind, sizes).double().numpy()
    return np.prod(nodes * (1 - nodes), axis=0)[None, None]


@pytest.mark.parametrize(
    ("kind", "fine", "coarse", "ratio"),
    [
        ("open", 32, 16, 2),
        ("open", 32, 32, 1),
        ("open", 32, 12, None),
        ("open", 16, 32, None),
        ("open", 16, 0, None),
        ("closed", 421, 141, 3),
        ("closed", 61, 31, 2),
        ("closed", 61, 30, None),
        ("closed", 61, 1, None),
        ("closed", 31, 61, None),
        ("cell", 27, 9, 3),
        ("cell", 32, 16, None),
        ("cell", 32, 32, 1),
    ],
)
def test_the_ratio_of_two_grids(kind, fine, coarse, ratio) -> None:
    assert step(kind, fine, coarse) == ratio


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.integers(2, 9), st.integers(1, 7), st.integers(1, 2))
def test_slices_lead_to_the_nodes_of_the_coarse_grid(kind, coarse, ratio, dimensions) -> None:
    ratio = 2 * ratio - 1 if kind == "cell" else ratio
    fine = (coarse - 1) * ratio + 1 if kind == "closed" else coarse * ratio
    slices = coarsened(kind, (fine,) * dimensions, coarse, kind)
    found = restricted(coordinates(kind, (fine,) * dimensions), slices)
    torch.testing.assert_close(found, coordinates(kind, (coarse,) * dimensions), rtol=0, atol=2e-7)
    assert coarse in nested(kind, (fine,) * dimensions)


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(1, 7))
def test_a_closed_grid_without_its_last_nodes_is_open(coarse, ratio) -> None:
    sizes = (coarse * ratio + 1,) * 2
    found = restricted(coordinates("closed", sizes).numpy(), coarsened("open", sizes, coarse, "closed"))
    np.testing.assert_allclose(found, coordinates("open", (coarse,) * 2).numpy(), atol=2e-7)


def test_axes_of_other_sizes_are_coarsened_alike() -> None:
    x = np.arange(8 * 12).reshape(1, 8, 12)
    assert np.array_equal(restricted(x, coarsened("open", (8, 12), 4, "open")), x[:, ::2, ::2])


@pytest.mark.parametrize(
    ("kind", "sizes", "resolution", "stored", "said"),
    [
        ("closed", (61, 61), 30, "closed", "These do: 61, 31, 21, 16, 13, 11, ..."),
        ("open", (421, 421), 85, "open", "--grid closed"),
        ("open", (8, 10), 2, "open", "These do: 8, 4."),
        ("cell", (32, 32), 16, "cell", "These do: 32. It would nest with --grid open."),
        ("open", (61, 61), 31, "closed", "--grid closed"),
        ("closed", (32, 32), 16, "open", "Use --grid open."),
        ("open", (32, 32), 16, "cell", "Use --grid cell."),
    ],
)
def test_what_does_not_nest_is_told_with_what_does(kind, sizes, resolution, stored, said) -> None:
    with pytest.raises(InputError) as caught:
        coarsened(kind, sizes, resolution, stored)
    assert said in caught.value.hint
    assert caught.value.where


@pytest.mark.parametrize("sizes", [(16,), (16, 16), (421,), (61, 33), (9, 9, 9)])
@pytest.mark.parametrize("kind", KINDS)
def test_targets_that_vanish_on_the_boundary_tell_the_grid(kind, sizes) -> None:
    assert detect(bump(kind, sizes)) == (None if kind == "cell" else kind)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((2, 1, 16, 16)),
        np.full((2, 1, 16, 16), np.nan),
        np.full((2, 1, 16, 16), 1e200),
        np.ones((2, 1, 16, 16)),
        np.random.default_rng(3).normal(size=(2, 1, 16, 16)),
        bump("closed", (3, 3)),
        np.exp(-((np.linspace(-1, 1, 64) / 0.02) ** 2))[None, None],
    ],
    ids=["zero", "NaN", "huge", "constant", "noise", "small", "faded long before the boundary"],
)
def test_targets_that_tell_nothing(values) -> None:
    assert detect(values) is None


def test_axes_that_disagree_tell_nothing() -> None:
    mixed = bump("closed", (16,))[..., None] * bump("open", (16,))[..., None, :]
    periodic = bump("closed", (16,))[..., None] * (2 + np.sin(2 * np.pi * np.arange(16) / 16))
    assert detect(mixed) is None
    assert detect(periodic) is None


@pytest.mark.parametrize("count", [5, 16, 33, 1024])
@pytest.mark.parametrize("ends", [(0, 1), (-1, 1), (0, 2 * np.pi), (-np.pi, np.pi), (-2.5, 2.5), (0, 10)])
@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_tell_the_grid_of_any_usual_domain(kind, ends, count) -> None:
    axis = coordinates(kind, (count,))[0].numpy() * (ends[1] - ends[0]) + ends[0]
    found = detect_coordinates([axis.astype(np.float32)])
    assert found in (kind, None)
    # Steps of a half or more make several domains end at round numbers.
    assert found == kind or (ends[1] - ends[0]) / count > 0.4


def test_four_coordinates_are_enough() -> None:
    assert detect_coordinates([np.linspace(0, 1, 4)]) == "closed"


@pytest.mark.parametrize(
    "axis",
    [
        np.arange(32),
        np.zeros(8),
        np.arange(8)[::-1] / 8,
        np.linspace(0, 1, 3),
        np.geomspace(0.1, 1, 9),
        [0, np.nan] * 4,
    ],
)
def test_coordinates_that_tell_nothing(axis) -> None:
    assert detect_coordinates([np.asarray(axis)]) is None


def test_coordinates_of_several_axes_must_agree() -> None:
    closed, open_ = np.linspace(0, 1, 9), np.arange(8) / 8
    assert detect_coordinates([closed, closed]) == "closed"
    assert detect_coordinates([closed, open_]) is None
    assert detect_coordinates([]) is None
