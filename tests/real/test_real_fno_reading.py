"""Do trained operators, once read, err as much as they did where they were trained?"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from probes.operators.fno.layers import GridKind
from probes.operators.fno.reading import fit_fields, load_operator

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real


def place(name: str) -> Path:
    path = DATA / "darcy" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the operators")
    return path


@pytest.mark.parametrize(
    ("name", "padding", "grid", "coarse", "fine"),
    [
        ("s31_m8_w16_pad0", "0", "closed", 0.0406, 0.0564),
        ("s31_m8_w16_pad9", "9", "closed", 0.0300, 0.3711),
        ("open30_m8_w16_pad0", "0", "open", 0.0431, 0.0585),
    ],
)
def test_error_of_trained_operators(name: str, padding: str, grid: GridKind, coarse: float, fine: float) -> None:
    loaded = fit_fields(load_operator(place(f"checkpoints/fno2d_darcy_{name}.pt"), padding=padding), 1)
    mean, std = loaded.scales["y_mean"], loaded.scales["y_std"]
    assert loaded.family == "li" and mean is not None and std is not None
    with np.load(place("darcy_gen_61.npz")) as held:
        fields = torch.from_numpy(held["a_high"]).float() * 2 - 1
        targets = torch.from_numpy(held["u"]) * 100
    if grid == "open":
        fields, targets = fields[:, :-1, :-1], targets[:, :-1, :-1]
    for step, wanted in ((2, coarse), (1, fine)):
        x, y = fields[:, None, ::step, ::step], targets[:, ::step, ::step]
        with torch.no_grad():
            parts = [loaded.operator(part, grid)[:, 0] for part in x.split(16)]
        errors = (torch.cat(parts) * std + mean - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)
        assert float(errors.mean()) == pytest.approx(wanted, abs=5e-4)


def test_published_padding_is_the_default() -> None:
    path = place("checkpoints/fno2d_darcy_s31_m8_w16_pad9.pt")
    loaded = load_operator(path)
    assert loaded.operator.layout.padding == load_operator(path, padding="9").operator.layout.padding
    assert any("9 cells" in note and "--padding overrides it" in note for note in loaded.notes)
