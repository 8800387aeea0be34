"""A small Fourier neural operator for flow through porous ground, laid out as Li et al. 2021 (arXiv 2010.08895) do.

It shows within minutes on two cores what a trained operator does on a finer grid.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from probes.core.executor import one_thread
from probes.core.progress import Progress, Silent
from probes.operators.fno.layers import Padding, Pointwise, SpectralConv
from probes.operators.fno.network import Block, BlockShape, FourierOperator, Layout

PEAK_RATE = 3e-3
"""Learning rate at its highest: it rises for three tenths of the steps and falls to nothing."""

_HIDDEN = 128
_AXES = 2


def fresh_operator(width: int, modes: int, layers: int, seed: int) -> FourierOperator:
    """Return an untrained operator of one field on plane closed grids, without padding.

    Parameters
    ----------
    width, modes, layers
        Channels; frequencies kept on each axis, -modes to modes - 1 and 0 to modes - 1; blocks.
    """
    frequencies = ([*range(modes), *range(-modes, 0)], range(modes))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        lift = _affine((1 + _AXES, width))
        blocks = []
        for number in range(layers):
            weight = torch.rand(width, width, 2 * modes, modes, dtype=torch.cfloat) / width**2
            shape = BlockShape(activated=number < layers - 1)
            blocks.append(Block(SpectralConv(weight, frequencies), _affine((width, width)), shape, functional.gelu))
        projection = _affine((width, _HIDDEN), (_HIDDEN, 1))
    layout = Layout(family="li", release="scripts of 2021", fields=1, coordinates="grid", padding=Padding())
    return FourierOperator(lift, blocks, projection, layout)


def _affine(*sizes: tuple[int, int]) -> Pointwise:
    linear = [nn.Linear(*pair) for pair in sizes]
    return Pointwise([(one.weight.detach(), one.bias.detach()) for one in linear], functional.gelu)


def train(
    operator: nn.Module,
    inputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    *,
    epochs: int,
    batch: int,
    seed: int,
    progress: Progress | None = None,
) -> float:
    """Train on one grid or on several, and return the loss of the last epoch: |p - t| / |t| in L2, mean over samples.

    Every batch is of one grid, and is mirrored at random along each axis.

    Parameters
    ----------
    operator
        Called on (batch, 1, size, size) and the kind of the grid.
    inputs, targets
        One tensor (n, 1, size, size) a closed grid, in the network's units.
    """
    stream = torch.Generator().manual_seed(seed)
    steps = epochs * sum(-(-len(grid) // batch) for grid in inputs)
    optimiser = torch.optim.AdamW(operator.parameters(), lr=PEAK_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=PEAK_RATE, total_steps=steps)
    operator.train()
    losses: list[Tensor] = []
    watched = (progress or Silent()).phase("Training the operator of the example", steps, "steps")
    with one_thread(), watched as advance:
        for _ in range(epochs):
            losses.clear()
            for x, y in mirrored_batches(inputs, targets, batch, stream):
                error = (operator(x, "closed") - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)
                optimiser.zero_grad()
                error.mean().backward()
                optimiser.step()
                schedule.step()
                losses.append(error.detach())
                advance(1)
    operator.eval()
    return float(torch.cat(losses).mean())


def mirrored_batches(
    inputs: Sequence[Tensor], targets: Sequence[Tensor], batch: int, stream: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of samples, each of one grid, in random order."""
    parts = [
        (grid, part)
        for grid, fields in enumerate(inputs)
        for part in torch.randperm(len(fields), generator=stream).split(batch)
    ]
    for index in torch.randperm(len(parts), generator=stream).tolist():
        grid, part = parts[index]
        axes = [axis for axis in (2, 3) if torch.rand((), generator=stream) < 0.5]
        # A mirrored flow is a flow, and mirrored nodes of a closed grid are its nodes.
        yield inputs[grid][part].flip(axes), targets[grid][part].flip(axes)


def li_state(operator: FourierOperator) -> dict[str, Tensor]:
    """Return the weights under the names of the published scripts: fc0, conv0, w0, ..., fc1, fc2."""
    state: dict[str, Tensor] = {}
    _name(state, ("fc0",), operator.lift)
    for number, module in enumerate(operator.blocks):
        block = cast("Block", module)
        modes = len(block.spectral.frequencies[-1])
        state[f"conv{number}.weights1"] = block.spectral.weight[:, :, :modes]
        state[f"conv{number}.weights2"] = block.spectral.weight[:, :, modes:]
        _name(state, (f"w{number}",), cast("Pointwise", block.skip))
        # The scripts apply the skip as a convolution of one point.
        state[f"w{number}.weight"] = state[f"w{number}.weight"][:, :, None, None]
    _name(state, ("fc1", "fc2"), operator.projection)
    return {name: values.detach().clone() for name, values in state.items()}


def _name(state: dict[str, Tensor], names: Sequence[str], layers: Pointwise) -> None:
    for name, weight, bias in zip(names, layers.weights, layers.biases, strict=True):
        state[f"{name}.weight"], state[f"{name}.bias"] = weight, bias
