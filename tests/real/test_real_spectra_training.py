"""Does an operator in the form of neuralop 2.0, trained here on its 16 x 16 data, lose to upsampling at 32?"""

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.spectra import AUDIT, Options
from probes.operators.fno.network import FourierOperator
from probes.operators.fno.neuralop import read_neuralop

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
WIDTH, LAYERS, MODES, EPOCHS = 24, 4, 12, 8
METADATA = {
    "n_modes": (MODES, MODES), "in_channels": 1, "out_channels": 1, "hidden_channels": WIDTH, "n_layers": LAYERS,
    "lifting_channel_ratio": 2, "projection_channel_ratio": 2, "positional_embedding": "grid", "norm": None,
    "complex_data": False, "use_channel_mlp": True, "channel_mlp_expansion": 0.5, "channel_mlp_skip": "soft-gating",
    "fno_skip": "linear", "resolution_scaling_factor": None, "domain_padding": None, "fno_block_precision": "full",
    "stabilizer": None, "factorization": None, "separable": False, "preactivation": False, "_name": "FNO",
}  # fmt: skip
pytestmark = pytest.mark.real


def place(name: str) -> Path:
    path = DATA / "darcy" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the data")
    return path


def fresh_state() -> dict[str, torch.Tensor]:
    """Return the tensors of an untrained network under the names of the release."""
    stream = torch.Generator().manual_seed(0)

    def linear(*shape: int) -> torch.Tensor:
        return (torch.rand(*shape, generator=stream) * 2 - 1) / shape[1] ** 0.5

    state: dict[str, torch.Tensor] = {}

    def perceptron(name: str, *widths: int) -> None:
        for number, (before, after) in enumerate(pairwise(widths)):
            state[f"{name}.fcs.{number}.weight"] = linear(after, before, 1)
            state[f"{name}.fcs.{number}.bias"] = linear(1, before)[0, :1].expand(after).clone()

    perceptron("lifting", 3, 2 * WIDTH, WIDTH)
    perceptron("projection", WIDTH, 2 * WIDTH, 1)
    for block in range(LAYERS):
        shape = (WIDTH, WIDTH, MODES, MODES // 2 + 1)
        parts = [torch.randn(*shape, generator=stream) / WIDTH for _ in range(2)]
        state[f"fno_blocks.convs.{block}.weight.tensor"] = torch.complex(*parts)
        state[f"fno_blocks.convs.{block}.bias"] = torch.zeros(WIDTH, 1, 1)
        state[f"fno_blocks.fno_skips.{block}.conv.weight"] = linear(WIDTH, WIDTH, 1)
        perceptron(f"fno_blocks.channel_mlp.{block}", WIDTH, WIDTH // 2, WIDTH)
        state[f"fno_blocks.channel_mlp_skips.{block}.weight"] = torch.ones(1, WIDTH, 1, 1)
    return state


def trained_state(operator: FourierOperator) -> dict[str, Any]:
    """Return the operator's tensors under the names of the release."""
    state: dict[str, Any] = {}

    def perceptron(name: str, part: Any) -> None:
        for number, (weight, bias) in enumerate(zip(part.weights, part.biases, strict=True)):
            state[f"{name}.fcs.{number}.weight"] = weight.detach()[:, :, None]
            state[f"{name}.fcs.{number}.bias"] = bias.detach()

    perceptron("lifting", operator.lift)
    perceptron("projection", operator.projection)
    for number, block in enumerate(operator.blocks):
        assert block.spectral.weight.shape == (WIDTH, WIDTH, MODES, MODES // 2 + 1)
        state[f"fno_blocks.convs.{number}.weight.tensor"] = block.spectral.weight.detach()
        state[f"fno_blocks.convs.{number}.bias"] = block.spectral.bias.detach()[:, None, None]
        state[f"fno_blocks.fno_skips.{number}.conv.weight"] = block.skip.weights[0].detach()[:, :, None]
        perceptron(f"fno_blocks.channel_mlp.{number}", block.mlp)
        state[f"fno_blocks.channel_mlp_skips.{number}.weight"] = block.mlp_skip.scale.detach()[None, :, None, None]
    return {**state, "_metadata": METADATA}


def train(operator: FourierOperator, x: torch.Tensor, y: torch.Tensor) -> None:
    stream = torch.Generator().manual_seed(0)
    steps = EPOCHS * (len(x) // 20)
    optimiser = torch.optim.AdamW(operator.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=3e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x), generator=stream).split(20):
            optimiser.zero_grad()
            lost = (operator(x[batch], "open") - y[batch]).flatten(1).norm(dim=1) / y[batch].flatten(1).norm(dim=1)
            lost.mean().backward()
            optimiser.step()
            schedule.step()


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Draft:
    train_data, folder = np.load(place("neuralop_darcy_train_16.npz")), tmp_path_factory.mktemp("neuralop")
    x = torch.from_numpy(train_data["x"].astype(np.float32))[:, None]
    y = torch.from_numpy(train_data["y"])[:, None]
    operator = read_neuralop(fresh_state(), METADATA, where="fresh")
    train(operator, x, y)
    torch.save(trained_state(operator), folder / "model_state_dict.pt")
    options = Options(
        model=str(folder / "model_state_dict.pt"),
        data=place("neuralop_darcy_test_32.npz"),
        train_resolution=16,
        test_resolutions=("32",),
        aliasing_samples=1,
    )
    context = Context(cache=Cache(folder / "cache"))
    return drafted(AUDIT, options, context)


def estimate(draft: Draft, name: str, **where: Any) -> Any:
    (found,) = [row for row in draft.estimates if row.name == name and where.items() <= dict(row.where).items()]
    return found


def test_direct_is_worse_than_upsampled_with_its_interval(draft: Draft) -> None:
    same, direct, upsampled = (
        estimate(draft, "relative_l2", path=path).value for path in ("same", "direct", "upsampled")
    )
    lead = estimate(draft, "direct_minus_upsampled")
    print(json.dumps({"same": same, "direct": direct, "upsampled": upsampled, "lead": [lead.value, lead.low, lead.high],
                      "floor": estimate(draft, "relative_l2", path="floor").value,
                      "worse": estimate(draft, "direct_worse_share").value}))  # fmt: skip
    assert same < 0.16 and direct > upsampled
    assert 0 < lead.low < lead.high and lead.n == 25
    (verdict,) = [finding for finding in draft.findings if finding.id == "spectra.verdict"]
    assert verdict.where["verdict"] == "upsample"


def test_the_floor_of_zero_padding_is_that_of_the_data(draft: Draft) -> None:
    assert estimate(draft, "relative_l2", path="floor").value == pytest.approx(0.043, abs=0.006)


def test_even_grids_are_not_warned_about_and_the_grid_is_told_from_the_data(draft: Draft) -> None:
    assert "odd-grid" not in {warning.id for warning in draft.warnings}
    assert any("open" in warning.message for warning in draft.warnings if warning.id == "input")
