"""Does the operator of the example learn, repeatably, and does its file hold the network that was trained?"""

from pathlib import Path

import numpy as np
import pytest
import torch

from probes.operators.darcy import darcy_samples
from probes.operators.darcy_operator import fresh_operator, li_state, mirrored_batches, train
from probes.operators.fno.layers import coordinates
from probes.operators.fno.li import read_li
from probes.operators.fno.reading import load_operator

Grids = list[torch.Tensor]


@pytest.fixture(scope="module")
def flows() -> tuple[Grids, Grids]:
    high, pressure = darcy_samples(24, 21, 2)
    x, y = torch.from_numpy(np.where(high, 1, -1).astype(np.float32)), torch.from_numpy(pressure / pressure.std())
    return [x[:, None, ::2, ::2], x[:12, None]], [y[:, None, ::2, ::2], y[:12, None]]


def test_training_lowers_the_loss_on_every_grid(flows: tuple[Grids, Grids]) -> None:
    inputs, targets = flows
    operator = fresh_operator(8, 3, 2, 0)

    def errors() -> list[float]:
        with torch.no_grad():
            return [float((operator(x, "closed") - y).norm() / y.norm()) for x, y in zip(inputs, targets, strict=True)]

    before = errors()
    last = train(operator, inputs, targets, epochs=15, batch=4, seed=0)
    assert all(after < 0.3 * first for after, first in zip(errors(), before, strict=True))
    assert 0 < last < 0.3 and not operator.training


def test_the_same_seed_gives_the_same_weights(flows: tuple[Grids, Grids]) -> None:
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()

    def trained(start: int, seed: int) -> dict[str, torch.Tensor]:
        operator = fresh_operator(4, 2, 2, start)
        train(operator, *flows, epochs=2, batch=12, seed=seed)
        return li_state(operator)

    first, same, started, dealt = trained(1, 1), trained(1, 1), trained(2, 1), trained(1, 2)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["conv0.weights1"], started["conv0.weights1"])
    assert not torch.equal(first["conv0.weights1"], dealt["conv0.weights1"])
    assert torch.equal(torch.random.get_rng_state(), before) and torch.get_num_threads() == threads


def test_the_file_holds_the_network(tmp_path: Path) -> None:
    operator = fresh_operator(6, 3, 3, 4)
    state = li_state(operator)
    scales = {"x_mean": 7.5, "x_std": 4.5, "y_mean": 0.001, "y_std": 0.004}
    torch.save({"state_dict": state, **scales}, tmp_path / "darcy.pt")
    loaded = load_operator(tmp_path / "darcy.pt", padding="0")
    assert loaded.family == "li" and loaded.scales == scales
    x = torch.randn(2, 1, 15, 15, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = operator(x, "closed")
        torch.testing.assert_close(loaded.operator(x, "closed"), expected, rtol=1e-5, atol=1e-6)
        rebuilt = read_li(state, where="x", padding=operator.layout.padding)
        torch.testing.assert_close(rebuilt(x, "closed"), expected, rtol=1e-5, atol=1e-6)
    assert expected.std() > 1e-3


def test_the_names_and_shapes_are_the_published_ones() -> None:
    state = li_state(fresh_operator(6, 3, 2, 0))
    corner = (6, 6, 3, 3)
    assert {name: tuple(values.shape) for name, values in state.items()} == {
        "fc0.weight": (6, 3), "fc0.bias": (6,),
        "conv0.weights1": corner, "conv0.weights2": corner, "w0.weight": (6, 6, 1, 1), "w0.bias": (6,),
        "conv1.weights1": corner, "conv1.weights2": corner, "w1.weight": (6, 6, 1, 1), "w1.bias": (6,),
        "fc1.weight": (128, 6), "fc1.bias": (128,), "fc2.weight": (1, 128), "fc2.bias": (1,),
    }  # fmt: skip
    # Spectral weights are drawn from [0, 1) / width^2, in both parts.
    parts = torch.view_as_real(torch.stack([state["conv0.weights1"], state["conv1.weights2"]])) * 36
    assert parts.min() >= 0 and parts.max() < 1 and float(parts.mean()) == pytest.approx(0.5, abs=0.05)


def test_outputs_are_those_of_the_published_forward_pass() -> None:
    operator = fresh_operator(5, 3, 2, 7)
    state = li_state(operator)
    fields = torch.randn(2, 1, 11, 13, generator=torch.Generator().manual_seed(1))
    places = coordinates("closed", (11, 13)).expand(2, 2, 11, 13)

    def affine(name: str, x: torch.Tensor) -> torch.Tensor:
        mapped = torch.einsum("oi,bihw->bohw", state[f"{name}.weight"].flatten(1), x)
        return mapped + state[f"{name}.bias"][:, None, None]

    x = affine("fc0", torch.cat([fields, places], dim=1))
    for block in range(2):
        hat, out = torch.fft.rfft2(x), torch.zeros(2, 5, 11, 7, dtype=torch.cfloat)
        for rows, corner in ((slice(None, 3), "weights1"), (slice(-3, None), "weights2")):
            kept = hat[:, :, rows, :3]
            out[:, :, rows, :3] = torch.einsum("bihw,iohw->bohw", kept, state[f"conv{block}.{corner}"])
        x = torch.fft.irfft2(out, s=(11, 13)) + affine(f"w{block}", x)
        x = torch.nn.functional.gelu(x) if block == 0 else x
    x = affine("fc2", torch.nn.functional.gelu(affine("fc1", x)))
    with torch.no_grad():
        torch.testing.assert_close(operator(fields, "closed"), x, rtol=1e-4, atol=1e-5)


def test_batches_hold_every_sample_once_mirrored_with_its_target() -> None:
    marked = torch.arange(9.0).reshape(1, 1, 3, 3) + 10 * torch.arange(1, 6).reshape(5, 1, 1, 1)
    grids = [marked, torch.zeros(2, 1, 5, 5)]
    dealt, mirrored, sizes = [], set(), []
    stream = torch.Generator().manual_seed(0)
    for _ in range(20):
        for x, y in mirrored_batches(grids, grids, 2, stream):
            assert torch.equal(x, y)
            sizes.append(len(x))
            if x.shape[-1] == 3:
                dealt += (x[:, 0, 1, 1] // 10).tolist()
                mirrored.add(tuple((x[0, 0] % 10).flatten().tolist()))
            else:
                dealt += [0] * len(x)
    assert sorted(dealt) == sorted([0, 0, 1, 2, 3, 4, 5] * 20) and set(sizes) == {1, 2}
    square = np.arange(9.0).reshape(3, 3)
    assert mirrored == {tuple(square[::a, ::b].ravel()) for a in (1, -1) for b in (1, -1)}
