"""The counts of all samples, joined from chunks: what estimates, findings, figures and records are made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    # Records are read without torch.
    from audits.spectra.grids import Resolution
    from audits.spectra.passes import Chunk
    from audits.spectra.setup import Setup

Floats = NDArray[np.float64]
PATHS = ("direct", "upsampled", "floor")
TRACED = 4
"""Columns of the controls where the mismatch is traced into the network."""


@dataclass(slots=True)
class Running:
    """Mean and sum of squared deviations over n samples, joined chunk by chunk (Chan, Golub and LeVeque 1983)."""

    n: int = 0
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    spread: Floats = field(default_factory=lambda: np.zeros(0))

    def join(self, n: int, mean: Floats, spread: Floats) -> None:
        """Add n samples.

        Examples
        --------
        >>> running = Running()
        >>> running.join(2, np.array([1.0]), np.array([2.0]))
        >>> running.join(1, np.array([4.0]), np.array([0.0]))
        >>> running.n, float(running.mean[0]), float(running.spread[0])
        (3, 2.0, 8.0)
        """
        if not self.n:
            self.n, self.mean, self.spread = n, mean, spread
            return
        whole = self.n + n
        apart = mean - self.mean
        self.mean = self.mean + apart * (n / whole)
        self.spread = self.spread + spread + apart**2 * (self.n * n / whole)
        self.n = whole

    @property
    def error(self) -> Floats:
        """Standard error of the mean; needs two samples."""
        return np.sqrt(self.spread / (self.n - 1) / self.n)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of all samples.

    Parameters
    ----------
    rows
        By name, a row a sample: "61/norms" of shape (n, paths, 4) and so on, as `passes` names them.
    spectra
        By name, "61/stages" or "61/target": energies by stage and whole wavenumber.
    aliasing
        By resolution and activation, shape (samples, 4): ratio, share, and two ratios of the check.
    """

    setup: "Setup"
    rows: Mapping[str, Floats]
    spectra: Mapping[str, Running]
    aliasing: Mapping["Resolution", Mapping[str, Floats]]

    def errors(self, resolution: "Resolution", *, slopes: bool = False) -> dict[str, Floats]:
        """Return the relative error of every sample on a grid by path, in the l2 norm or that with slopes."""
        own = resolution == self.setup.grids[0].resolution
        norms, column = self.rows[f"{resolution}/norms"], 2 if slopes else 0
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.sqrt(norms[..., column] / norms[..., column + 1])
        # The first is missing where the operator cannot be run.
        paths = PATHS[-found.shape[1] :]
        return dict(zip(("same",) if own else paths, found.T, strict=True))

    def parts(self, resolution: "Resolution") -> dict[str, Floats]:
        """Return the parts of the mismatch of the output, which add up to it, a number for each sample.

        Three where it was traced, else two; none where the operator cannot be run.
        """
        if f"{resolution}/distances" not in self.rows:
            return {}
        whole = self.rows[f"{resolution}/distances"][:, -1]
        controls = self.rows[f"{resolution}/controls"]
        if controls.shape[1] < TRACED:
            return {"input": whole - controls[:, 0], "operator": controls[:, 0]}
        padded, periodic = controls[:, 0], controls[:, 2]
        return {"input": whole - padded, "coordinates": padded - periodic, "nonlinear": periodic}

    @cached_property
    def main_line(self) -> list[str]:
        """The consecutive stages, without branches; of an operator of unknown make, all that were named."""
        return main_line(self.setup.stages) if self.setup.loaded.operator.divided else list(self.setup.stages)


def joined(chunks: "Iterable[Chunk]") -> tuple[dict[str, Floats], dict[str, Running]]:
    """Return the rows of all chunks in their order, and the means and spreads of their spectra."""
    pieces: dict[str, list[Floats]] = {}
    spectra: dict[str, Running] = {}
    for chunk in chunks:
        plain = {name: value.double().numpy() for name, value in chunk.items()}
        count = next(len(value) for name, value in plain.items() if name.endswith("/sums"))
        for name, value in plain.items():
            if name.endswith("/shells/mean"):
                stem = name.removesuffix("/shells/mean")
                spectra.setdefault(stem, Running()).join(count, value, plain[f"{stem}/shells/spread"])
            elif not name.endswith("/shells/spread"):
                pieces.setdefault(name, []).append(value)
    return {name: np.concatenate(parts) for name, parts in pieces.items()}, spectra


def main_line(stages: Sequence[str]) -> list[str]:
    """Return the consecutive stages from input to output, without branches that are added up later.

    Examples
    --------
    >>> main_line(["input", "lift", "block0.skip", "block0.spectral", "block0.sum", "block0.activated", "output"])
    ['input', 'lift', 'block0.sum', 'block0.activated', 'output']
    """
    added = {name.removesuffix(".sum") for name in stages if name.endswith(".sum")}
    branches = ("skip", "spectral", "norm", "inner")
    kept = []
    for name in stages:
        block, _, rest = name.partition(".")
        if rest.partition(".")[0] in branches and (block in added or rest == "skip"):
            continue
        kept.append(name)
    return kept
