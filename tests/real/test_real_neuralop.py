"""Do checkpoints that neuraloperator wrote give the outputs that the library gave, without the library?"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from probes.files.pickles import read_pickle
from probes.operators.fno.layers import Padding
from probes.operators.fno.neuralop import STANDINS, is_neuralop, read_neuralop

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real

MODELS = {
    "neuralop030_dense": "neuralop 0.3 (dense)",
    "neuralop030_tucker": "neuralop 0.3 (Tucker)",
    "neuralop102_dense": "neuralop 1.x (dense)",
    "neuralop200_dense": "neuralop 2.0 (dense)",
    "neuralop200_tucker": "neuralop 2.0 (Tucker)",
    "neuralop200_pad": "neuralop 2.0 (dense)",
}


def content(name: str) -> Any:
    path = DATA / "darcy" / "checkpoints" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the checkpoints")
    return dict(np.load(path)) if path.suffix == ".npz" else read_pickle(path, standins=STANDINS)


def difference(network: torch.nn.Module, golden: dict[str, Any], size: int) -> float:
    with torch.no_grad():
        found = network(torch.from_numpy(golden[f"x{size}"]))
    return float((found - torch.from_numpy(golden[f"y{size}"])).abs().max())


# Releases from 1 on save the metadata among the tensors too.
@pytest.mark.parametrize(
    ("name", "inside"),
    [(name, inside) for name in MODELS for inside in (False, True) if not inside or "030" not in name],
)
def test_the_outputs_of_the_library(name: str, inside: bool) -> None:
    tensors = content(f"{name}_state_dict.pt")
    beside, own = content(f"{name}_metadata.pkl"), tensors.pop("_metadata", None)
    assert is_neuralop(tensors)
    network = read_neuralop(tensors, own if inside else beside, where=name)
    assert network.layout.release == MODELS[name]
    golden = content(f"{name}_golden.npz")
    assert all(difference(network, golden, size) <= 1e-5 for size in (32, 31, 64))
    assert importlib.util.find_spec("neuralop") is None and "neuralop" not in sys.modules


def test_tensors_alone_give_the_same_where_the_padding_is_told() -> None:
    tensors, golden = content("neuralop200_pad_state_dict.pt"), content("neuralop200_pad_golden.npz")
    del tensors["_metadata"]
    told = Padding(amounts=(0.25, 0.25), fraction=True, symmetric=True)
    assert difference(read_neuralop(tensors, None, where="m", padding=told), golden, 31) <= 1e-5
    assert difference(read_neuralop(tensors, None, where="m"), golden, 32) > 1e-3


def test_mended_shifts_differ_on_grids_of_odd_size_only() -> None:
    tensors, golden = content("neuralop200_dense_state_dict.pt"), content("neuralop200_dense_golden.npz")
    network = read_neuralop(tensors, tensors.pop("_metadata"), where="m", fixed_shift=True)
    assert difference(network, golden, 32) <= 1e-5 and difference(network, golden, 31) > 1e-3
