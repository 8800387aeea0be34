"""What do the passes of the network leave behind? Counts of every sample, chunk by chunk, each kept in the cache.

All grids of a chunk are run together, since the finer ones are compared with that of training. Of spectra only a
running mean and spread are kept, so that memory does not grow with the number of samples.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.context import Context
from audits.spectra.listening import FINER, AliasHearing, Cut, Hearing, distance, summed
from probes.errors import InputError
from probes.field_norms import sobolev_squares, squares
from probes.fno.layers import SILENT, GridKind, Listener
from probes.fno.reading import Loaded
from probes.loading.fields import Fields
from probes.loading.grids import restricted
from probes.radial_spectrum import RadialSpectrum, View
from probes.resampling import Method, upsample

CACHE = "spectra-counts"
CHUNK = 8
"""Samples of one entry of the cache: what a run that is killed loses at the most."""
VALUES = 2**22
"""Numbers in one stage of a batch at the most; a larger grid is run sample by sample."""
# Raised whenever a count changes its meaning, so that no old entry is read as a new one.
_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One grid of the audit: its first axis' points, all sizes, and the slices that take the data and itself there.

    Parameters
    ----------
    stored
        From the grid of the data to this one.
    common
        From this grid to that of training.
    bands
        Edges of the bands of wavenumbers in which errors are told, the last one without end.
    """

    resolution: int
    sizes: tuple[int, ...]
    stored: tuple[slice, ...]
    common: tuple[slice, ...]
    bands: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that the counts depend on; `key` is the same for two setups exactly where the counts are.

    Parameters
    ----------
    grids
        That of training first, then the finer ones in ascending order.
    input_scale, target_scale
        Mean and standard deviation.
    input_method, output_method
        How inputs, and predictions and targets, are taken to a finer grid.
    stages, activations
        Names in the order in which they are heard.
    """

    loaded: Loaded
    fields: Fields
    kind: GridKind
    grids: tuple[Grid, ...]
    input_scale: tuple[float, float]
    target_scale: tuple[float, float]
    input_method: Method
    output_method: Method
    view: View
    cut: Cut
    samples: int
    aliasing_samples: int
    stages: tuple[str, ...]
    activations: tuple[str, ...]
    key: tuple[Any, ...]
    device: str = "cpu"

    @property
    def scored(self) -> bool:
        """Whether there are targets."""
        return self.fields.target_channels is not None


Counts = dict[str, Tensor]
"""One chunk by name; the names begin with the resolution."""


def measure(setup: Setup, context: Context) -> Iterator[Counts]:
    """Yield the counts of every chunk of samples, from the cache where they were measured before."""
    with context.progress.phase("Running the operator on every grid", setup.samples, "samples") as advance:
        for start in range(0, setup.samples, CHUNK):
            stop = min(start + CHUNK, setup.samples)
            # Without --max-samples: a larger run takes the whole chunks of a smaller one.
            key = [_VERSION, torch.__version__, *setup.key, "fields", start, stop]
            counts = context.cache.read(CACHE, key)
            if counts is None:
                counts = _chunk(setup, start, stop)
                context.cache.write(CACHE, key, counts)
            yield counts
            advance(stop - start)


def measure_aliasing(setup: Setup, context: Context) -> dict[int, dict[str, NDArray[np.float64]]]:
    """Return what each activation aliases on each grid, shape (samples, 4): ratio, share, and two ratios of the check.

    The check, at 4 and at 8 points for one, is made on one sample and few channels; its rows are zero for the others.
    """
    found: dict[int, dict[str, NDArray[np.float64]]] = {}
    total = len(setup.grids) * setup.aliasing_samples
    with context.progress.phase("Measuring what activations alias", total, "passes") as advance:
        for place, grid in enumerate(setup.grids):
            rows = []
            for sample in range(setup.aliasing_samples):
                key = [_VERSION, torch.__version__, *setup.key, "aliasing", grid.resolution, sample]
                counts = context.cache.read(CACHE, key)
                if counts is None:
                    counts = _aliased(setup, place, sample)
                    context.cache.write(CACHE, key, counts)
                rows.append(counts["aliasing"].numpy())
                advance(1)
            table = np.stack(rows) if rows else np.zeros((0, len(setup.activations), 4))
            found[grid.resolution] = {name: table[:, at] for at, name in enumerate(setup.activations)}
    return found


def read_batch(setup: Setup, grid: Grid, arrays: tuple[Any, Any]) -> tuple[Tensor, Tensor | None]:
    """Return the network's input and the target of samples on one grid; the target in the data's unit."""
    mean, std = setup.input_scale
    inputs = torch.from_numpy(np.ascontiguousarray(restricted(arrays[0], grid.stored))).to(setup.device)
    target = arrays[1]
    if target is not None:
        target = torch.from_numpy(np.ascontiguousarray(restricted(target, grid.stored))).to(setup.device)
    return (inputs - mean) / std, target


def predicted(setup: Setup, output: Tensor) -> Tensor:
    """Return the network's output in the unit of the targets."""
    mean, std = setup.target_scale
    return output * std + mean


@torch.no_grad()
def _chunk(setup: Setup, start: int, stop: int) -> Counts:
    batch = batch_of(setup)
    pieces = [_batch(setup, place, min(place + batch, stop)) for place in range(start, stop, batch)]
    joined: Counts = {}
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
    """Return how many samples run at once."""
    operator, sizes = setup.loaded.operator, setup.grids[-1].sizes
    ends = operator.layout.padding.cells(sizes)
    # Of the finest grid, which takes most memory; all grids of a chunk have one batch.
    nodes = math.prod(size + sum(pair) for size, pair in zip(sizes, ends, strict=True))
    widest = max(*operator.lift.channels, *operator.projection.channels)
    return max(1, min(CHUNK, VALUES // (widest * nodes)))


def _batch(setup: Setup, start: int, stop: int) -> Counts:
    operator, found = setup.loaded.operator, {}
    arrays = setup.fields.read(start, stop)
    first, *finer = setup.grids
    inputs, target = read_batch(setup, first, arrays)
    here = Hearing(_spectrum(setup, first), setup.cut, scale=setup.target_scale)
    lifted = operator.lifted(inputs, setup.kind, here)
    output = operator.decoded(lifted, here)
    _check(setup, first, output, target, start)
    found.update(_stages(setup, first, here))
    if target is not None:
        found.update(_scores(setup, first, here.spectrum, {"same": predicted(setup, output)}, target))
    for grid in finer:
        fine, fine_target = read_batch(setup, grid, arrays)
        there = Hearing(
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
    """Refuse samples on which the network overflows, or whose target is nothing on one of the grids."""
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


def _controls(setup: Setup, grid: Grid, inputs: Tensor, lifted: Tensor, output: Tensor) -> Counts:
    """Run the network on what the training grid holds: its input and its lifted features, taken to a finer one."""
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
    """Return the whole ratio nearest to that of the grids; odd where odd and even sizes are different operators."""
    first = setup.grids[0]
    factor = max(2, round(grid.resolution / first.resolution))
    ends = setup.loaded.operator.layout.padding.cells(first.sizes)
    odd = any((size + sum(pair)) % 2 for size, pair in zip(first.sizes, ends, strict=True))
    return factor + 1 if factor % 2 == 0 and odd and setup.loaded.operator.shifted_at_odd else factor


def _stages(setup: Setup, grid: Grid, heard: Hearing) -> Counts:
    sums = [heard.sums[name] for name in setup.stages]
    return {
        f"{grid.resolution}/stages/shells": torch.stack([item.shells for item in sums], dim=1),
        f"{grid.resolution}/stages/sums": torch.stack([item.sums for item in sums], dim=1),
    }


def _scores(setup: Setup, grid: Grid, spectrum: RadialSpectrum, paths: Mapping[str, Tensor], target: Tensor) -> Counts:
    """Score every path: squared error, squared target, both with gradients, and both by band of wavenumbers."""
    at = str(grid.resolution)
    coefficients = spectrum.transform(target)
    mine = spectrum.bands(spectrum.power(coefficients), grid.bands)
    own = squares(target), sobolev_squares(target, setup.kind)
    # In the network's unit, so that it stands beside the output's spectrum.
    mean, std = setup.target_scale
    shift = torch.full((target.shape[1],), -mean / std, device=target.device)
    scaled = summed(spectrum, spectrum.constant(coefficients / std, shift), setup.cut)
    found = {f"{at}/target/shells": scaled.shells[:, None], f"{at}/target/sums": scaled.sums[:, None]}
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
def _aliased(setup: Setup, place: int, sample: int) -> Counts:
    grid = setup.grids[place]
    inputs, _ = read_batch(setup, grid, setup.fields.read(sample, sample + 1))
    rows = _alias_pass(setup, inputs, AliasHearing())
    checked = torch.zeros(len(setup.activations), 2, dtype=torch.float64)
    if sample == 0:
        # Of the same two channels at both rates, so that nothing but the rate differs.
        few = _alias_pass(setup, inputs, AliasHearing(channels=2))[:, :1]
        finer = _alias_pass(setup, inputs, AliasHearing(FINER, channels=2))[:, :1]
        checked = torch.cat([few, finer], dim=1)
    return {"aliasing": torch.cat([rows, checked], dim=1)}


def _alias_pass(setup: Setup, inputs: Tensor, listener: AliasHearing) -> Tensor:
    setup.loaded.operator(inputs, setup.kind, listener)
    return torch.cat([listener.found[name] for name in setup.activations]).cpu()


def silent_pass(setup: Setup, inputs: Tensor, listener: Listener = SILENT) -> Tensor:
    """Run the network once, for an example."""
    with torch.no_grad():
        output: Tensor = setup.loaded.operator(inputs, setup.kind, listener)
    return output
