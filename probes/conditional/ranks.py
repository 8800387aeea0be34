"""Ranks of outcomes among their draws, under projections to one number: uniform for the true law, whatever it is.

The outcome and its K draws are K + 1 exchangeable values under the true law, and so are their projections, also those
that depend on all K + 1 symmetrically (Gneiting et al. 2008, TEST 17; Thorarinsdottir et al. 2016, JCGS 25). A
coordinate or direction sees shifts and lost modes; a radial projection, a distance to something, sees spread.
"""

from dataclasses import dataclass

import numpy as np

from probes.conditional.laws import Bools, Floats, Ints
from probes.conditional.scores import distances

COORDINATES = 8
"""Most coordinates that are projections by themselves."""
RADIAL = ("norm", "distance", "nearest")
LEAST = 5
"""Fewest projections that can be asked for: a coordinate, the mean, and the radial ones."""
ROUNDING = 1e-12
"""Share of the squares of a coordinate below which what is left of them is rounding."""
TIED = 1e-12
"""Projections nearer than this to each other, relatively, are ties: rounding alone may set equal values apart."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A map of values to one number: its name, and whether it is a distance, so that spread alone moves it."""

    name: str
    radial: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Projections:
    """Projections, and the reference that standardises coordinates.

    Parameters
    ----------
    items
        In the order of columns of `pits`: linear ones first.
    n, centre, squares
        Outcomes of the reference, their mean by coordinate, and the sum of squares about it, shape (d,).
    weights
        Of the linear projections, shape (d, linear).
    """

    items: tuple[Projection, ...]
    n: int
    centre: Floats
    squares: Floats
    weights: Floats

    @property
    def radial(self) -> Bools:
        """Which are radial, shape (P,)."""
        return np.array([one.radial for one in self.items])

    def without(self, y: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the reference without each of its outcomes, shape (rows, d).

        An outcome is near a mean that holds it, and draws are not: with many coordinates that alone would move ranks.
        A coordinate that is constant among the others has a deviation of 1.
        """
        away, left = y - self.centre, max(self.n - 1, 1)
        squares = self.squares - away**2 * self.n / left
        kept = squares > ROUNDING * self.squares
        return self.centre - away / left, np.sqrt(np.where(kept, squares, left) / left)


def projections(y: Floats, most: int, rng: np.random.Generator) -> Projections:
    """Return at most so many projections, made of the outcomes alone, shape (n, d), so that no candidate moves them.

    At most 8 coordinates, evenly spaced and named by their number; with d > 1 the mean of standardised coordinates and
    at most 2 d random directions; and for any d distances: to the mean of all other outcomes ("norm"), to the mean of
    the outcome and its draws together ("distance"), and to the nearest other of these K + 1 ("nearest").

    Raises
    ------
    ValueError
        With `most` below 5, or no rows.

    >>> [one.name for one in projections(np.array([[0.0], [1.0]]), 32, np.random.default_rng(0)).items]
    ['y0', 'norm', 'distance', 'nearest']
    """
    n, d = y.shape
    if most < LEAST or n == 0:
        raise ValueError(f"at least {LEAST} projections and one row are needed, not {most} and {n}")
    fixed = len(RADIAL) + (d > 1)
    chosen = np.unique(np.linspace(0, d - 1, min(COORDINATES, d, most - fixed)).round().astype(np.int64))
    names, columns = [f"y{at}" for at in chosen], [_columns(chosen, d)]
    if d > 1:
        count = min(2 * d, most - fixed - len(chosen))
        directions = rng.normal(size=(d, count))
        columns += [np.full((d, 1), 1 / d), directions / np.linalg.norm(directions, axis=0)]
        names += ["mean", *(f"direction{at}" for at in range(count))]
    return Projections(
        items=(*(Projection(name, False) for name in names), *(Projection(name, True) for name in RADIAL)),
        n=n,
        centre=y.mean(0),
        # Rounding gives a constant coordinate squares that are not quite 0.
        squares=np.where(np.ptp(y, axis=0) > 0, y.var(0) * n, 0.0),
        weights=np.concatenate(columns, axis=1),
    )


def pits(
    made: Projections, y: Floats, samples: Floats, to_truth: Floats, between: Floats, rng: np.random.Generator
) -> Floats:
    """Return u = (#{draws below y} + V (ties + 1)) / (K + 1) of each projection, V uniform on (0, 1); shape (n, P).

    Exactly uniform for the true law, with ties too. "nearest" ties by nature: two values that are nearest to each other
    have one distance. Which of the exchangeable K + 1 the outcome is remains uniform, and V spreads it over its ties.

    Parameters
    ----------
    y, samples
        Shapes (n, d) and (n, K, d).
    to_truth, between
        Their distances, from `probes.conditional.scores.distances`; with d = 1 in any scale, and else not used.
    """
    values = _projected(made, y, samples, to_truth, between)
    own, others = values[:, :1], values[:, 1:]
    # Linear projections pass through 0 and have a scale of about 1; distances are compared as they are.
    near = TIED * (np.abs(own) + np.where(made.radial, 0.0, 1.0))
    away = others - own
    ties = (np.abs(away) <= near).sum(1)
    below = (away < -near).sum(1)
    return np.asarray((below + rng.random(ties.shape) * (ties + 1)) / values.shape[1])


def _projected(made: Projections, y: Floats, samples: Floats, to_truth: Floats, between: Floats) -> Floats:
    """Return projections of outcomes, then of their draws, shape (n, 1 + K, P)."""
    whole = np.concatenate((y[:, None], samples), axis=1)
    centre, scale = made.without(y)
    whole = (whole - centre[:, None]) / scale[:, None]
    linear = whole @ made.weights
    norm = np.sqrt(np.einsum("nkd,nkd->nk", whole, whole))
    whole -= whole.mean(1, keepdims=True)
    distance = np.sqrt(np.einsum("nkd,nkd->nk", whole, whole))
    if y.shape[1] > 1:
        to_truth, between = distances(whole[:, 0], whole[:, 1:])
    rest = np.where(np.eye(between.shape[1], dtype=bool), np.inf, between).min(2)
    nearest = np.concatenate((to_truth.min(1, keepdims=True), np.minimum(to_truth, rest)), axis=1)
    return np.concatenate((linear, np.stack((norm, distance, nearest), axis=2)), axis=2)


def _columns(chosen: Ints, d: int) -> Floats:
    found = np.zeros((d, len(chosen)))
    found[chosen, np.arange(len(chosen))] = 1.0
    return found
