"""All chunks of counts put together: numbers a sample as they are, spectra as running means and spreads."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.spectra.measuring import Counts

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Running:
    """Mean and sum of squared deviations over n samples, joined chunk by chunk (Chan, Golub and LeVeque 1983)."""

    n: int = 0
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    spread: Floats = field(default_factory=lambda: np.zeros(0))

    def join(self, n: int, mean: Floats, spread: Floats) -> None:
        """Take n more samples in.

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


@dataclass(slots=True)
class Tally:
    """Counts of all samples.

    Parameters
    ----------
    rows
        By name, a row a sample: "61/norms" of shape (n, paths, 4) and so on, as `measuring` names them.
    spectra
        By name, "61/stages" or "61/target": energies by stage and whole wavenumber.
    """

    rows: dict[str, Floats]
    spectra: dict[str, Running]


def tally(chunks: Iterable[Counts]) -> Tally:
    """Put chunks together in their order."""
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
    return Tally({name: np.concatenate(parts) for name, parts in pieces.items()}, spectra)
