"""Lengths at which one target becomes cheaper than another."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.core.intervals import Interval, exact
from audits.scaling.rounds import exponential, interval, resampled

Floats = NDArray[np.float64]

WIDEST = 4.0
"""Factor between the ends of an interval above which a crossover is not decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """One length at which two targets cost the same; `cheaper_beyond`: the first is the cheaper one from there on."""

    n: Interval
    cheaper_beyond: bool
    decided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossovers:
    """All crossings, and the first target's cost by the other's at the least and greatest common size."""

    crossings: tuple[Crossing, ...]
    ratios: tuple[Interval, Interval]


def crossovers(n: ArrayLike, one: Floats, other: Floats, *, level: float, seed: int) -> Crossovers:
    """Return where log(one / other) is 0, interpolated in log n between common sizes.

    Parameters
    ----------
    n
        Common sizes, rising; two at the least.
    one, other
        Seconds of shape (rounds, sizes), a round of one beside the same round of the other; or counts above 0, of
        shape (sizes,).

    Examples
    --------
    >>> found = crossovers([1, 4, 16], np.array([1.0, 16.0, 256.0]), np.array([8.0, 8.0, 8.0]), level=0.95, seed=0)
    >>> round(found.crossings[0].n.value, 3), found.ratios[1].value
    (2.828, 32.0)
    """
    logs = np.log(np.asarray(n, np.float64))
    if one.ndim == 1:
        gaps = np.log(one / other)[None]
        ends = [exact(float(np.exp(gaps[0, at])), n=logs.size, unit="lengths") for at in (0, -1)]
        found = [
            Crossing(n=exact(float(np.exp(at)), n=logs.size, unit="lengths"), cheaper_beyond=falls, decided=True)
            for at, falls in zeros(logs, gaps[0])
        ]
        return Crossovers(crossings=tuple(found), ratios=(ends[0], ends[1]))
    rounds = min(one.shape[0], other.shape[0])
    gaps = np.log(resampled(one[:rounds], seed)) - np.log(resampled(other[:rounds], seed))
    ends = [exponential(interval(gaps[:, at], rounds, level)) for at in (0, -1)]
    crossings = tuple(_crossing(logs, gaps, at, falls, rounds, level) for at, falls in zeros(logs, gaps[0]))
    return Crossovers(crossings=crossings, ratios=(ends[0], ends[1]))


def zeros(logs: Floats, gaps: Floats) -> list[tuple[float, bool]]:
    """Return where a broken line changes its sign, and whether it falls there.

    >>> zeros(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 0.0, 0.0, -1.0]))
    [(1.5, True)]
    """
    known = np.flatnonzero(np.isfinite(gaps) & (gaps != 0))
    found = []
    for left, right in pairwise(known.tolist()):
        if gaps[left] * gaps[right] < 0:
            # Equal at sizes in between: the middle of those.
            inner = logs[left + 1 : right][gaps[left + 1 : right] == 0]
            share = gaps[left] / (gaps[left] - gaps[right])
            at = (inner[0] + inner[-1]) / 2 if inner.size else logs[left] + share * (logs[right] - logs[left])
            found.append((float(at), bool(gaps[left] > 0)))
    return found


def _crossing(logs: Floats, gaps: Floats, at: float, falls: bool, rounds: int, level: float) -> Crossing:
    """Return a crossing with the interval of the nearest ones, of the same direction, of rounds drawn anew."""
    nearest = np.array([_nearest(logs, row, at, falls) for row in gaps])
    found = interval(nearest, rounds, level)
    if found.low is None or found.high is None:
        return Crossing(n=exponential(found), cheaper_beyond=falls, decided=False)
    inside = found.low > logs[0] and found.high < logs[-1]
    decided = bool(inside and found.high - found.low <= np.log(WIDEST))
    ends = (round(float(np.exp(one_log)), 6) for one_log in logs[[0, -1]])
    return Crossing(n=exponential(found).clipped(*ends), cheaper_beyond=falls, decided=decided)


def _nearest(logs: Floats, gaps: Floats, at: float, falls: bool) -> float:
    same = [one_log for one_log, way in zeros(logs, gaps) if way is falls]
    if same:
        return min(same, key=lambda one_log: abs(one_log - at))
    # Never crossed: it lies beyond the end at which the line still is, or already is, on the other side.
    last = gaps[np.isfinite(gaps)][-1:]
    beyond = last.size and (last[0] > 0) is falls
    return float(logs[-1] if beyond else logs[0])
