"""The setup that the counts of a run depend on, and single passes of the network."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audits.spectra.grids import Grid
from audits.spectra.hooks import Cut
from probes.operators.fields import Fields
from probes.operators.fno.layers import SILENT, GridKind, Listener
from probes.operators.fno.reading import Loaded
from probes.operators.grids import restricted
from probes.operators.radial_spectrum import View
from probes.operators.resampling import Method

PARTS = ("input", "coordinates", "nonlinear")
UNDIVIDED = ("input", "operator")
"""Parts of the mismatch, where the operator is traced and where it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that the counts depend on; two setups share `key` exactly where they share counts.

    Parameters
    ----------
    grids
        That of training first, then the others by their number of nodes.
    input_scale, target_scale
        Mean and standard deviation.
    input_method, output_method
        How inputs, and predictions and targets, are taken to a finer grid.
    stages, activations
        Names in the order in which they are computed.
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

    def parts(self, grid: Grid) -> tuple[str, ...]:
        """Return the parts into which the mismatch on a grid is divided, as they are taken off."""
        if grid.refused:
            return ()
        return PARTS if traced(self, grid) else UNDIVIDED

    def passes(self, grid: Grid) -> int:
        """Return how often the network runs for each sample because of a grid."""
        over = grid.relation != "finer"
        if grid.refused:
            return int(over)
        return 4 if traced(self, grid) else {"finer": 2, "coarser": 2, "mixed": 3}[grid.relation]


def traced(setup: "Setup", grid: Grid) -> bool:
    """Tell whether the mismatch on a grid is traced into the network: where its lift and blocks can run apart.

    Lifted features of the grid of training are taken to a finer grid; on one that is coarser along an axis, part of
    them would be lost.
    """
    return setup.loaded.operator.divided and grid.relation == "finer"


def read_batch(setup: Setup, grid: Grid, arrays: tuple[Any, Any]) -> tuple[Tensor, Tensor | None]:
    """Return input and target of samples on one grid, the target in the unit of the data."""
    mean, std = setup.input_scale
    inputs = torch.from_numpy(np.ascontiguousarray(restricted(arrays[0], grid.stored))).to(setup.device)
    target = arrays[1]
    if target is not None:
        target = torch.from_numpy(np.ascontiguousarray(restricted(target, grid.stored))).to(setup.device)
    return (inputs - mean) / std, target


def predicted(setup: Setup, output: Tensor) -> Tensor:
    """Return the output in the unit of the targets."""
    mean, std = setup.target_scale
    return output * std + mean


def silent_pass(setup: Setup, inputs: Tensor, listener: Listener = SILENT) -> Tensor:
    """Run the network once on example inputs."""
    with torch.no_grad():
        output: Tensor = setup.loaded.operator(inputs, setup.kind, listener)
    return output
