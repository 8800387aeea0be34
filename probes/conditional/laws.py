"""Outcomes y with their inputs x, and a candidate's law of y for each of their rows.

A law is given as draws, as weighted points, as quantiles, as the mean and standard deviation of a normal law, or as an
interval. Laws are read in blocks of rows, so that memory does not grow with their number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Kind = Literal["samples", "points", "quantiles", "normal", "intervals"]
KEYS: Mapping[Kind, tuple[str, ...]] = {
    "samples": ("samples",),
    "points": ("points", "weights"),
    "quantiles": ("quantiles", "levels"),
    "normal": ("mean", "std"),
    "intervals": ("lower", "upper", "level"),
}
"""Names of the arrays that make a law, by its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The rows: outcomes, and what was known when they were predicted.

    Parameters
    ----------
    y
        Shape (n, d), d values that are scored; of images the masked ones alone, in the order of the file.
    x
        Shape (n, p).
    columns
        Further columns of the rows, as text, by name: what groups can be made of.
    oracle
        Returns draws of the true law of rows from one index to another, shape (rows, draws, d).
    oracle_draws
        Their number; 0 without such draws.
    modes
        Where the law of each row has its modes, shape (n, modes, d).
    image
        (H, W, C) where y are images.
    pictures
        Returns the whole image of a row, in the scale of y, shape (H, W, C).
    masked
        Positions of the scored values in a flat image, shape (d,), where one mask holds for all rows.
    notes
        How the file was read, where that is unusual.
    """

    y: Floats
    x: Floats | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    oracle: Callable[[int, int], Floats] | None = None
    oracle_draws: int = 0
    modes: Floats | None = None
    image: tuple[int, int, int] | None = None
    pictures: Callable[[int], Floats] | None = None
    masked: Ints | None = None
    notes: tuple[str, ...] = ()

    @property
    def clusters(self) -> Ints:
        """Number of the distinct x of each row, shape (n,); every row by itself without x."""
        if self.x is None:
            return np.arange(len(self.y))
        return np.asarray(np.unique(self.x, axis=0, return_inverse=True)[1].reshape(-1), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate's laws of all rows.

    Parameters
    ----------
    draws
        Draws, points or quantiles of each row; 0 of normal laws and intervals.
    block
        Returns the laws of rows from one index to another, by the names in `KEYS`: samples (rows, K, d), points
        (rows, m, d), weights (rows, m), quantiles (rows, q), mean and std (rows, d), lower and upper (rows,).
    weighted
        Of points, whether their weights were given; else they are equal.
    levels
        Of quantiles, increasing, shape (q,).
    level
        Of intervals, what share of outcomes they are to hold.
    calibration
        Rows on which a conformal interval was calibrated; 0: not known, or none.
    pictures
        Returns some draws of a row as whole images, shape (draws, H, W, C).
    """

    name: str
    kind: Kind
    n: int
    d: int
    draws: int
    block: Callable[[int, int], Mapping[str, Floats]]
    weighted: bool = True
    levels: Floats | None = None
    level: float | None = None
    calibration: int = 0
    pictures: Callable[[int, int], Floats] | None = None
    notes: tuple[str, ...] = ()
