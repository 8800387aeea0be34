"""Is the operator of multipole attention what it says: windows on grids that halve, linear in the nodes?"""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from probes.operators.darcy import darcy_samples
from probes.operators.darcy_operator import train
from probes.operators.multipole_operator import (
    MultipoleAttention,
    MultipoleOperator,
    fresh_multipole_operator,
    multipole_operator,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def attention(levels: int, window: int = 4, seed: int = 0) -> MultipoleAttention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = MultipoleAttention(6, 2, window, levels).eval().requires_grad_(False)
        torch.nn.init.normal_(made.steps)
        return made


def test_in_one_window_it_is_plain_attention_with_a_weight_for_every_step() -> None:
    made = attention(1, window=3)
    x = torch.randn(2, 6, 3, 3, generator=torch.Generator().manual_seed(1))
    tokens = x.flatten(2).mT
    query, key, value = made.project(tokens).chunk(3, -1)
    whole = []
    for head in range(2):
        q, k, v = (one[..., 3 * head : 3 * head + 3] for one in (query, key, value))
        bias = torch.tensor(
            [[made.steps[head, (a // 3 - b // 3 + 2) * 5 + a % 3 - b % 3 + 2] for b in range(9)] for a in range(9)]
        )
        whole.append(torch.softmax(q @ k.mT / math.sqrt(3) + bias, -1) @ v)
    expected = made.merge(torch.cat(whole, -1)).mT.unflatten(2, (3, 3))
    torch.testing.assert_close(made(x), expected)


@pytest.mark.parametrize("levels, reach", [(1, 4), (2, 8), (3, 16)])
def test_a_level_more_doubles_the_reach(levels: int, reach: int) -> None:
    made, x = attention(levels), torch.randn(1, 6, 16, 16, generator=torch.Generator().manual_seed(2))
    other = x.clone()
    other[..., 15, 15] += 1
    moved = (made(other) - made(x)).abs().amax((0, 1)) > 1e-7
    # The window of the last node on the coarsest grid, in nodes of the finest.
    assert moved[16 - reach :, 16 - reach :].all() and moved.sum() == reach**2


@pytest.mark.parametrize("size", [(5, 5), (13, 7), (16, 16), (3, 9)])
def test_nodes_beyond_the_grid_are_seen_by_none(size: tuple[int, int]) -> None:
    made = attention(1)
    x = torch.randn(1, 6, *size, generator=torch.Generator().manual_seed(3))
    rows, columns = (-(-side // 4) * 4 for side in size)
    found = made(x)
    assert found.shape == x.shape and bool(torch.isfinite(found).all())
    if min(size) >= 4:
        torch.testing.assert_close(found[..., :4, :4], made(x[..., :4, :4]))
    # The last window is cut off by the end of the grid, and is what it would be alone.
    corner = x[..., rows - 4 :, columns - 4 :]
    torch.testing.assert_close(found[..., rows - 4 :, columns - 4 :], made(corner))


def test_its_work_is_linear_in_the_nodes() -> None:
    net, counts = multipole_operator(), []
    for size in (32, 64):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            net(torch.zeros(1, 1, size, size))
        counts.append(counter.get_total_flops())
    assert counts[1] / counts[0] == pytest.approx(4, rel=1e-3)


def test_weights_are_those_of_the_seed() -> None:
    first, again, other = (fresh_multipole_operator(seed).lift.weight for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_it_learns_a_flow() -> None:
    high, pressure = darcy_samples(24, 13, 3)
    x = torch.from_numpy(high[:, None] * 2.0 - 1.0).float()
    y = torch.from_numpy(pressure[:, None] / pressure.std())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = MultipoleOperator(8, 2, 1, 4, 2)
    losses = [train(net, [x], [y], epochs=epochs, batch=6, seed=0) for epochs in (1, 12)]
    assert losses[1] < 0.8 * losses[0]
