"""How close does each method come to solutions of Darcy's equation that are known on the fine grid?"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.operators.resampling import Method, suitable, upsample

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def solutions() -> Tensor:
    """Solutions (24, 1, 241, 241) on a closed grid, zero at the boundary."""
    path = DATA / "darcy" / "darcy_gen_241.npz"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the data")
    with np.load(path, allow_pickle=False) as arrays:
        return torch.from_numpy(arrays["u"])[:, None]


@pytest.mark.parametrize(
    ("coarse", "fine", "method", "expected"),
    [
        (31, 61, "fourier", 0.052),
        (31, 61, "wrap", 0.0134),
        (31, 61, "even", 0.0141),
        (31, 61, "sine", 0.0032),
        (31, 241, "fourier", 0.090),
        (31, 241, "wrap", 0.0138),
        (31, 241, "even", 0.0145),
        (31, 241, "sine", 0.0033),
        (61, 241, "fourier", 0.039),
        (61, 241, "wrap", 0.0050),
        (61, 241, "sine", 0.0012),
    ],
)
def test_floors_of_upsampled_solutions(
    solutions: Tensor, coarse: int, fine: int, method: Method, expected: float
) -> None:
    low, high = (solutions[..., :: 240 // (size - 1), :: 240 // (size - 1)] for size in (coarse, fine))
    error = torch.linalg.vector_norm(upsample(low, (fine, fine), "closed", method) - high, dim=(1, 2, 3))
    relative = (error / torch.linalg.vector_norm(high, dim=(1, 2, 3))).mean()
    assert float(relative) == pytest.approx(expected, rel=0.15)


def test_sine_is_chosen_for_them(solutions: Tensor) -> None:
    assert suitable(solutions[..., ::8, ::8], "closed") == "sine"
    assert suitable(solutions[..., :-1:8, :-1:8], "open") == "fourier"
