"""Are the shared Darcy data read as what their makers say they are?"""

import os
from pathlib import Path

import numpy as np
import pytest

from probes.operators.fields import Fields, load_fields
from probes.operators.grids import coarsened, restricted

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real


def darcy(name: str) -> Fields:
    path = DATA / "darcy" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return load_fields(path, dimensions=2, fields=(1, 3), outputs=1)


@pytest.mark.parametrize(
    ("name", "count", "size", "keys", "kind"),
    [
        ("darcy_gen_61", 160, 61, ("a_high", "u"), "closed"),
        ("darcy_gen_241", 24, 241, ("a_high", "u"), "closed"),
        ("neuralop_darcy_train_16", 800, 16, ("x", "y"), "open"),
        ("neuralop_darcy_test_16", 25, 16, ("x", "y"), "open"),
        ("neuralop_darcy_test_32", 25, 32, ("x", "y"), "open"),
    ],
)
def test_grids_are_told_from_the_targets(name, count, size, keys, kind) -> None:
    found = darcy(name)
    assert (found.count, found.sizes, found.keys, found.kind) == (count, (size, size), keys, kind)
    assert (found.channels, found.target_channels) == (1, 1)
    found.check_finite()
    x, _ = found.read(count - 2, count)
    assert set(np.unique(x)) == {0, 1}


def test_the_coarse_file_of_neuralop_is_the_fine_one_at_every_second_node() -> None:
    fine, coarse = darcy("neuralop_darcy_test_32"), darcy("neuralop_darcy_test_16")
    slices = coarsened("open", fine.sizes, 16, fine.kind)
    for one, two in zip(fine.read(0, 25), coarse.read(0, 25), strict=True):
        assert np.array_equal(restricted(one, slices), two)


@pytest.mark.parametrize(("resolution", "kind"), [(121, "closed"), (61, "closed"), (80, "open")])
def test_targets_still_vanish_on_the_boundary_of_a_coarser_grid(resolution, kind) -> None:
    found = darcy("darcy_gen_241")
    targets = found.read(0, 24)[1]
    coarse = restricted(targets, coarsened(kind, found.sizes, resolution, "closed"))
    assert coarse.shape == (24, 1, resolution, resolution)
    assert not coarse[..., 0, :].any()
    assert coarse[..., -1, :].any() == (kind == "open")
    assert coarse.std() == pytest.approx(targets.std(), rel=0.05)
