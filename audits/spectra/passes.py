"""Passes of the network: the counts of a chunk of samples on every grid.

All grids of a chunk are run together, since the finer ones are compared with that of training.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from audits.spectra.grids import Grid
from audits.spectra.hooks import FINER, AliasingHook, StageHook, distance, summed
from audits.spectra.setup import Setup, predicted, read_batch
from probes.core.errors import InputError
from probes.operators.field_norms import sobolev_squares, squares
from probes.operators.radial_spectrum import RadialSpectrum
from probes.operators.resampling import upsample

CHUNK = 8
"""Samples of one entry of the cache: what a run that is killed loses at the most."""
VALUES = 2**22
"""Numbers in one stage of a batch at the most; a larger grid is run sample by sample."""
Chunk = dict[str, Tensor]
"""Counts of some samples by name; the names begin with the resolution."""


@torch.no_grad()
def count_chunk(setup: Setup, start: int, stop: int) -> Chunk:
    """Return the counts of the samples from start to stop, on every grid."""
    batch = batch_of(setup)
    pieces = [_batch(setup, first, min(first + batch, stop)) for first in range(start, stop, batch)]
    joined: Chunk = {}
    for name in pieces[0]:
        rows = torch.cat([piece[name] for piece in pieces]).cpu()
        if not name.endswith("/shells"):
            joined[name] = rows
            continue
        joined[f"{name}/mean"] = rows.mean(0)
        # Squared deviations, not squares: their difference from a large mean would lose its digits.
        joined[f"{name}/spread"] = ((rows - rows.mean(0)) ** 2).sum(0)
    return joined


def batch_of(setup: Setup) -> int:
    """Return the batch size."""
    operator, sizes = setup.loaded.operator, setup.grids[-1].sizes
    ends = operator.layout.padding.cells(sizes)
    # Of the finest grid, which takes most memory; all grids of a chunk have one batch.
    nodes = math.prod(size + sum(pair) for size, pair in zip(sizes, ends, strict=True))
    widest = max(*operator.lift.channels, *operator.projection.channels)
    return max(1, min(CHUNK, VALUES // (widest * nodes)))


def _batch(setup: Setup, start: int, stop: int) -> Chunk:
    operator, found = setup.loaded.operator, {}
    arrays = setup.fields.read(start, stop)
    first, *finer = setup.grids
    inputs, target = read_batch(setup, first, arrays)
    here = StageHook(_spectrum(setup, first), setup.cut, scale=setup.target_scale)
    lifted = operator.lifted(inputs, setup.kind, here)
    output = operator.decoded(lifted, here)
    _check(setup, first, output, target, start)
    found.update(_stages(setup, first, here))
    if target is not None:
        found.update(_scores(setup, first, here.spectrum, {"same": predicted(setup, output)}, target))
    for grid in finer:
        fine, fine_target = read_batch(setup, grid, arrays)
        there = StageHook(
            _spectrum(setup, grid), setup.cut, common=grid.common, reference=here.kept, scale=setup.target_scale
        )
        # The whole pass, coordinates of the finer grid included: this is what a user would do.
        direct = operator(fine, setup.kind, there)
        _check(setup, grid, direct, fine_target, start)
        found.update(_stages(setup, grid, there))
        found[f"{grid.resolution}/distances"] = torch.stack([there.distances[name] for name in setup.stages], dim=1)
        found.update(_controls(setup, grid, inputs, lifted, output))
        if target is None or fine_target is None:
            continue
        scored = {"direct": predicted(setup, direct)}
        scored["upsampled"] = upsample(predicted(setup, output), grid.sizes, setup.kind, setup.output_method)
        scored["floor"] = upsample(target, grid.sizes, setup.kind, setup.output_method)
        found.update(_scores(setup, grid, there.spectrum, scored, fine_target))
    return found


def _check(setup: Setup, grid: Grid, output: Tensor, target: Tensor | None, start: int) -> None:
    """Refuse samples on which the network overflows, or whose target is zero on one of the grids."""
    wrong = ~torch.isfinite(output.flatten(1)).all(1)
    if bool(wrong.any()):
        raise InputError(
            f"At {grid.resolution} the network puts out numbers that are not finite.",
            where=f"{setup.fields.path}, sample {start + int(wrong.int().argmax())}",
            hint="Mend or remove the sample, or check --input-scale.",
        )
    empty = torch.zeros(0) if target is None else squares(target) == 0
    if bool(empty.any()):
        raise InputError(
            f"At {grid.resolution} the target is zero at every node: an error relative to it is not defined.",
            where=f"{setup.fields.path}, sample {start + int(empty.int().argmax())}",
            hint="Remove the sample.",
        )


def _controls(setup: Setup, grid: Grid, inputs: Tensor, lifted: Tensor, output: Tensor) -> Chunk:
    """Run the network on input, and on lifted features, of the training grid taken to a finer one: the controls."""
    operator, kind = setup.loaded.operator, setup.kind
    padded = predicted(setup, operator(upsample(inputs, grid.sizes, kind, setup.input_method), kind))
    features = predicted(setup, operator.decoded(upsample(lifted, grid.sizes, kind, setup.input_method)))
    # In the period and padding of the grid of training: what is left is the work of activations alone.
    periodic = predicted(setup, operator.oversampled(lifted, oversampling(setup, grid)))
    base = predicted(setup, output)
    raised = upsample(base, grid.sizes, kind, setup.output_method)
    whole = [slice(None)] * len(grid.sizes)
    columns = [
        distance(padded, base, grid.common),
        distance(features, base, grid.common),
        distance(periodic, base, whole),
        distance(padded, raised, whole),
    ]
    return {f"{grid.resolution}/controls": torch.stack(columns, dim=1)}


def oversampling(setup: Setup, grid: Grid) -> int:
    """Return the integer ratio nearest to that of the grids; odd where parity of the size changes the operator."""
    first = setup.grids[0]
    factor = max(2, round(grid.resolution / first.resolution))
    ends = setup.loaded.operator.layout.padding.cells(first.sizes)
    is_odd = any((size + sum(pair)) % 2 for size, pair in zip(first.sizes, ends, strict=True))
    return factor + 1 if factor % 2 == 0 and is_odd and setup.loaded.operator.shifted_at_odd else factor


def _stages(setup: Setup, grid: Grid, hook: StageHook) -> Chunk:
    return {
        f"{grid.resolution}/stages/shells": torch.stack([hook.shells[name] for name in setup.stages], dim=1),
        f"{grid.resolution}/stages/sums": torch.stack([hook.sums[name] for name in setup.stages], dim=1),
    }


def _scores(setup: Setup, grid: Grid, spectrum: RadialSpectrum, paths: Mapping[str, Tensor], target: Tensor) -> Chunk:
    """Score every path: squared error, squared target, both with gradients, and both by band of wavenumbers."""
    at = str(grid.resolution)
    coefficients = spectrum.transform(target)
    mine = spectrum.bands(spectrum.power(coefficients), grid.bands)
    own = squares(target), sobolev_squares(target, setup.kind)
    # In the network's unit, so that it stands beside the output's spectrum.
    mean, std = setup.target_scale
    shift = torch.full((target.shape[1],), -mean / std, device=target.device)
    shells, sums = summed(spectrum, spectrum.constant(coefficients / std, shift), setup.cut)
    found = {f"{at}/target/shells": shells[:, None], f"{at}/target/sums": sums[:, None]}
    norms, bands = [], []
    for field in paths.values():
        error = field - target
        norms.append(torch.stack([squares(error), own[0], sobolev_squares(error, setup.kind), own[1]], dim=1))
        bands.append(torch.stack([spectrum.bands(spectrum.power(spectrum.transform(error)), grid.bands), mine], dim=2))
    found[f"{at}/norms"] = torch.stack(norms, dim=1)
    found[f"{at}/bands"] = torch.stack(bands, dim=1)
    return found


def _spectrum(setup: Setup, grid: Grid) -> RadialSpectrum:
    return RadialSpectrum(grid.sizes, setup.kind, setup.view, device=setup.device)


@torch.no_grad()
def count_aliasing(setup: Setup, grid: Grid, sample: int) -> Chunk:
    """Return the aliasing of each activation of one sample on a grid: ratio, share, and two ratios of the check."""
    inputs, _ = read_batch(setup, grid, setup.fields.read(sample, sample + 1))
    rows = _alias_pass(setup, inputs, AliasingHook())
    checked = torch.zeros(len(setup.activations), 2, dtype=torch.float64)
    if sample == 0:
        # Of the same two channels at both rates, so that nothing but the rate differs.
        few = _alias_pass(setup, inputs, AliasingHook(channels=2))[:, :1]
        finer = _alias_pass(setup, inputs, AliasingHook(FINER, channels=2))[:, :1]
        checked = torch.cat([few, finer], dim=1)
    return {"aliasing": torch.cat([rows, checked], dim=1)}


def _alias_pass(setup: Setup, inputs: Tensor, listener: AliasingHook) -> Tensor:
    setup.loaded.operator(inputs, setup.kind, listener)
    return torch.cat([listener.found[name] for name in setup.activations]).cpu()
