"""The counts of the audit: numbers of every row and candidate, from which all estimates follow."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from probes.conditional.laws import Bools, Floats, Ints, Kind
from probes.conditional.ranks import Projection

FEW_INPUTS = 30
"""Distinct inputs from which they are the units of intervals where inputs repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of rows that were fixed before any score was seen.

    Parameters
    ----------
    member
        Group of each row, shape (n,).
    words
        What each group is, where its name does not say it.
    """

    names: tuple[str, ...] = ()
    member: Ints
    words: tuple[str, ...] = ()

    def described(self, name: str) -> str:
        """Return a group as a sentence has it.

        >>> groups = Groups(names=("x0=1/4",), member=np.zeros(2, dtype=np.int64), words=("x0 from 1 to 2",))
        >>> groups.described("x0=1/4")
        'part 1 of 4 of x0'
        """
        column, _, value = name.partition("=")
        return f"part {value.replace('/', ' of ')} of {column}" if self.words else f"{column} {value}"

    def rows(self) -> dict[str, Bools]:
        """Return which rows are in everyone and in each group."""
        found = {"all": np.ones(len(self.member), dtype=bool)}
        return found | {name: self.member == at for at, name in enumerate(self.names)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What was measured of one candidate on every row; arrays have the shape (n, ...).

    Parameters
    ----------
    scores
        By metric.
    scored_at
        Level of an interval score, and levels of a quantile score: only those at the same can be compared.
    absent
        What has no number and why, by measure.
    pits
        Randomised ranks in (0, 1) by projection, shape (n, projections).
    untested
        Why ranks of these draws test nothing; empty where they do.
    width
        Of the central interval by level.
    spread, error
        Variance of the draws, summed over columns and unbiased, times (K + 1) / K; squared error of their mean.
    single
        Distance of the mean of the law from y: the score of a law of that point alone.
    used
        Contributions to the score that is lost with inputs exchanged; of a law that knows the group alone: `knows`.
    best_of
        Squared distance of the nearest of the first draws, by their number.
    distortion
        By number of points, rows and squared distances from y to the nearest point of their law.
    ideal
        By number of points that are no fit to draws, mean squared distance from draws of the true law of each row.
    closed
        By number of points, the least distortion of each row's law, where that is known.
    cells, weights
        Point that is nearest to y, shape (n,), and weights of the points, shape (n, m).
    hits
        Share of draws within the radius of each mode, and whether there is one, shape (2, n, modes).
    inside
        Whether y lies in the interval that was given.
    conditional
        Distances of the law from draws of the true one and the same of one law, by order, shape (2, rows); or from
        outcomes of inputs that repeat, shape (2, inputs).
    law
        Number of the distinct law of each row: equal draws make equal ranks.
    grain
        Widest step between levels that draws or quantiles tell apart: no deviation within it can be seen.
    """

    name: str
    kind: Kind
    draws: int
    scores: Mapping[str, Floats]
    scored_at: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    gap: Floats | None = None
    projections: tuple[Projection, ...] = ()
    pits: Floats | None = None
    untested: str = ""
    width: Mapping[float, Floats] = field(default_factory=dict)
    spread: Floats | None = None
    error: Floats | None = None
    single: Floats | None = None
    used: Floats | None = None
    knows: Floats | None = None
    best_of: Mapping[int, Floats] = field(default_factory=dict)
    distortion: Mapping[int, tuple[Ints, Floats]] = field(default_factory=dict)
    ideal: Mapping[int, Floats] = field(default_factory=dict)
    closed: Mapping[int, Floats] = field(default_factory=dict)
    cells: Ints | None = None
    weights: Floats | None = None
    weighted: bool = True
    hits: Floats | None = None
    inside: Floats | None = None
    level: float | None = None
    calibration: int = 0
    drawn: Floats | None = None
    conditional: Mapping[int, Floats] = field(default_factory=dict)
    law: Ints | None = None
    grain: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was measured of all candidates.

    Parameters
    ----------
    rows
        By candidate; climatology is the last.
    clusters
        Distinct input of each row.
    in_mode
        Whether y lies within the radius of each mode, shape (n, modes).
    references
        By number of points: rows, and distortion of a reference fitted on them (too low) and held out (too high).
    oracle
        Whether these references know the law of each row; else they know its group.
    distances
        Wasserstein distances, the same-law distances of swapped rows, and how many rows these are, by candidate, order,
        kind and group.
    pictures
        By candidate, rows with the highest and the lowest score as images: titles and fields.
    """

    groups: Groups
    clusters: Ints
    rows: Mapping[str, Rows]
    against: str
    levels: tuple[float, ...]
    dimensions: int
    in_mode: Floats | None = None
    references: Mapping[int, tuple[Ints, Floats, Floats]] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    oracle: bool = False
    distances: Mapping[tuple[str, int, str, str], tuple[float, Floats, int]] = field(default_factory=dict)
    pictures: Mapping[str, tuple[tuple[str, Floats], ...]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.clusters)

    @property
    def units(self) -> Ints:
        """Unit of each row for intervals: its input where many repeat, else the row itself."""
        distinct = int(self.clusters.max(initial=0)) + 1
        return self.clusters if FEW_INPUTS <= distinct < self.n else np.arange(self.n)

    @property
    def candidates(self) -> tuple[Rows, ...]:
        """The candidates that are judged."""
        return tuple(one for name, one in self.rows.items() if name != "climatology")
