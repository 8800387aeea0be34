"""Exponents of measured seconds: y = a + b law(n) n^e, by relative errors, with the overhead a at least 0.

A plain regression of log y on log n takes a constant overhead for a small exponent; here it has a term of its own.
"""

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.core.intervals import Interval, Undefined
from audits.scaling.growth_claims import Law
from audits.scaling.rounds import interval, median_errors, medians, resampled

Floats = NDArray[np.float64]

SPAN = 16.0
"""Over this factor in n, at least, an exponent is looked at before it is held against a claim."""
LEADING = 0.8
"""Share of the whole that the leading term has there."""
REFUTING = 4.0
"""Over this factor the leading term has most where seconds refute a claim: one jump of a cache does not."""
LOG_MARGIN = 0.03
"""Excess over the law times log n of seconds that refute it: n and n log n are not told apart by time."""
FEWEST_SIZES = 4
SEEN, SEEN_AT, WIDEST = 0.5, 3, 1.5
"""Share of the whole that the growing term has at so many sizes at the least: else it is a step, or noise; and the
width of an interval that says nothing any more."""
MISFIT, ERRORS, FEWEST_ROUNDS = 0.1, 3.5, 3
"""Relative distance of a median from the fit, and in its standard errors, beyond which no such fit is believed; with so
many rounds at the least is an error known."""
RELIABLE = 0.9
"""Share of replicates in which the leading term reaches as far."""
_STEPS, _MOST = (0.02, 0.001), 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """An exponent, and how far it can be trusted.

    Parameters
    ----------
    exponent
        Of n, or in excess of the law of a claim.
    decided
        Whether the leading term has most of the whole over a factor of 16 in n.
    refutable
        Whether an exponent above the claim's would refute it.
    tail_from
        The size from which on the leading term has most; None: at no size.
    far_enough
        The largest size up to which to go, at the least, for a decision; None where it cannot be told.
    overhead
        The constant a, in seconds; of counts None.
    doubt
        Why a fit is not to be believed; empty where nothing speaks against it.
    equal_at
        The n where the overhead is as large as the leading term; None where there is no overhead or no growth.
    fitted
        The fitted law at the sizes; of counts empty.
    leading
        The fastest growing term of counts; of seconds None.
    """

    exponent: Interval | Undefined
    decided: bool = False
    refutable: bool = False
    tail_from: float | None = None
    far_enough: float | None = None
    overhead: Interval | None = None
    doubt: str = ""
    equal_at: float | None = None
    fitted: tuple[float, ...] = ()
    leading: Law | None = None


def local_exponents(n: ArrayLike, y: ArrayLike) -> Floats:
    """Return log(y'/y) / log(n'/n) of neighbours along the last axis: 0 where both are 0, NaN where one is.

    >>> local_exponents([1, 2, 4], [3.0, 6.0, 24.0]).round(9).tolist()
    [1.0, 2.0]
    """
    values = np.asarray(y, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.diff(np.log(values)) / np.diff(np.log(np.asarray(n, np.float64)))
    both = (values[..., 1:] == 0) & (values[..., :-1] == 0)
    return np.where(both, 0.0, np.where(np.isfinite(slopes), slopes, np.nan))


def seconds_exponent(n: ArrayLike, cells: Floats, *, level: float, seed: int) -> Growth:
    """Return the exponent p of seconds a + b n^p.

    Parameters
    ----------
    n
        Sizes, rising.
    cells
        Seconds, shape (rounds, sizes); NaN where a cell is missing.
    """
    return _unless_doubtful(_growth(n, cells, Law(0), level, seed))


def seconds_excess(n: ArrayLike, cells: Floats, law: Law, *, level: float, seed: int) -> Growth:
    """Return the exponent e of seconds a + b law(n) n^e; it refutes a law only where it exceeds that times log n too.

    Of the law const the overhead is the law itself. Where no growth shows beside it, e is the slope without overhead.
    Where no such fit holds over all sizes, that of the tail stands in its place, if it is long enough.
    """
    found = _excess(n, cells, law, level, seed)
    sizes = np.asarray(n, np.float64)
    tail = sizes >= (inf if found.tail_from is None else found.tail_from)
    if not found.doubt or tail.all() or tail.sum() < FEWEST_SIZES or sizes[-1] < SPAN * sizes[tail][0]:
        return found
    return _excess(sizes[tail], cells[:, tail], law, level, seed)


def _excess(n: ArrayLike, cells: Floats, law: Law, level: float, seed: int) -> Growth:
    found = _growth(n, cells, law, level, seed)
    more = _growth(n, cells, replace(law, log=law.log + 1), level, seed).exponent
    apart = isinstance(more, Interval) and more.above(LOG_MARGIN)
    if law.power and isinstance(found.exponent, Interval) and not found.exponent.above(_STEPS[0] - float(law.power)):
        # No growth shows beside the overhead: what is hidden below it may be of any law.
        return _unless_doubtful(replace(found, decided=False, refutable=False))
    if law != Law(0) or found.refutable or not isinstance(found.exponent, Interval):
        return _unless_doubtful(replace(found, refutable=found.refutable and apart))
    if found.exponent.low is None or found.exponent.low > _STEPS[0]:
        return _unless_doubtful(found)
    sizes, values = _kept(n, cells, seed)
    slope = interval(_slopes(sizes, values), cells.shape[0], level)
    wide = bool(sizes[-1] >= SPAN * sizes[0] * (1 - 1e-9))
    return replace(found, exponent=slope, decided=wide, refutable=wide and apart)


def _unless_doubtful(found: Growth) -> Growth:
    """Return a growth without its exponent where its fit is not to be believed."""
    if not found.doubt:
        return found
    return replace(found, exponent=Undefined(found.doubt, "no-growth"), decided=False, refutable=False)


def _doubt(exponent: Interval, terms: Floats, whole: Floats, steepest: bool, cells: Floats) -> str:
    """Return what speaks against a fit: growth at the last sizes alone, or medians that lie off it, as at a kink."""
    if steepest or (terms >= SEEN * whole).sum() < SEEN_AT:
        return f"growth outweighs an overhead at fewer than {SEEN_AT} lengths; go further"
    if exponent.low is not None and exponent.high is not None and exponent.high - exponent.low > WIDEST:
        return f"exponents from {exponent.low:.1f} to {exponent.high:.1f} fit the seconds"
    if len(cells) < FEWEST_ROUNDS:
        return ""
    distance = np.abs(np.log(medians(cells) / whole))
    if (distance > np.maximum(MISFIT, ERRORS * median_errors(cells))).any():
        return "seconds follow no overhead and power of the length; look at the local exponents"
    return ""


def _kept(n: ArrayLike, cells: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return the sizes that were measured, and their medians."""
    there = np.isfinite(cells).any(axis=0)
    return np.asarray(n, np.float64)[there], resampled(cells[:, there], seed)


def _slopes(sizes: Floats, values: Floats) -> Floats:
    """Return the slopes of log y on log n by least squares, one a row."""
    known = np.isfinite(values)
    x, y = np.where(known, np.log(sizes), 0.0), np.where(known, np.log(values), 0.0)
    count = known.sum(axis=-1)
    off = np.where(known, x - (x.sum(axis=-1) / count)[:, None], 0.0)
    return np.asarray((off * y).sum(axis=-1) / (off**2).sum(axis=-1))


def _growth(n: ArrayLike, cells: Floats, law: Law, level: float, seed: int) -> Growth:
    if not (cells[np.isfinite(cells)] > 0).all():
        return Growth(exponent=Undefined("some of its cells are 0"))
    sizes, values = _kept(n, cells, seed)
    if sizes.size < FEWEST_SIZES:
        return Growth(exponent=Undefined(f"it takes {FEWEST_SIZES} lengths, of which there are {sizes.size}"))
    rounds = cells.shape[0]
    powers, overheads, tops = _fits(sizes, values, law.log)
    terms = tops[:, None] * _shape(sizes, powers, law.log)
    whole = overheads[:, None] + terms
    first = _tail_from(sizes, terms >= LEADING * whole)
    tail = _crossing(sizes, powers[0], law.log, tops[0], LEADING / (1 - LEADING) * overheads[0])
    exponent = interval(powers - float(law.power), rounds, level)
    return Growth(
        exponent=exponent,
        decided=_reaches(first, sizes[-1] / SPAN),
        refutable=_reaches(first, sizes[-1] / REFUTING),
        tail_from=float(first[0]) if np.isfinite(first[0]) else None,
        far_enough=None if tail is None else SPAN * max(tail, float(sizes[0])),
        overhead=interval(overheads, rounds, level).clipped(0.0),
        doubt=_doubt(exponent, terms[0], whole[0], powers[0] >= _MOST, cells[:, np.isfinite(cells).any(axis=0)]),
        equal_at=_crossing(sizes, powers[0], law.log, tops[0], overheads[0]) if overheads[0] > 0 else None,
        fitted=tuple(whole[0].tolist()),
    )


def _shape(sizes: Floats, powers: Floats, logs: int) -> Floats:
    """Return n^p (log n)^logs with 1 at the largest size, shape (powers, sizes)."""
    ratio = Law(0, logs).values(sizes) / Law(0, logs).values(sizes[-1])
    return np.asarray((sizes / sizes[-1]) ** np.asarray(powers)[..., None] * ratio)


def _fits(sizes: Floats, values: Floats, logs: int) -> tuple[Floats, Floats, Floats]:
    """Return the exponent, the overhead, and the leading term at the largest size, for each row of values."""
    known = np.isfinite(values)
    weights = np.where(known, 1 / np.where(known, values, 1.0), 0.0)
    # With a logarithm beside it, a law may fall below a constant one.
    least = -0.5 * logs
    powers = np.full(len(values), (least + _MOST) / 2)
    reach = (_MOST - least) / 2
    for step in _STEPS:
        around = np.arange(-round(reach / step), round(reach / step) + 1) * step
        powers = _best(sizes, weights, np.clip(powers[:, None] + around, least, _MOST), logs)
        reach = step
    powers = np.where(known.sum(axis=1) < FEWEST_SIZES, np.nan, powers)
    constants, tops, _ = _constants(weights, _shape(sizes, powers, logs))
    return powers, constants, tops


def _best(sizes: Floats, weights: Floats, powers: Floats, logs: int) -> Floats:
    """Return which of the powers, shape (rows, powers), fits best."""
    errors = _constants(weights[:, None], _shape(sizes, powers, logs))[2]
    # The first of equal ones: what does not grow has the exponent 0.
    best = np.argmin(np.round(errors, 13), axis=1)
    return np.asarray(np.take_along_axis(powers, best[:, None], axis=1)[:, 0])


def _constants(weights: Floats, shapes: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a, b >= 0 with the least sum of (1 - (a + b shape) weight)^2 over the last axis, and that sum."""
    steep = weights * shapes
    h, g = weights.sum(axis=-1), steep.sum(axis=-1)
    hh, hg, gg = (weights**2).sum(axis=-1), (weights * steep).sum(axis=-1), (steep**2).sum(axis=-1)
    determinant = hh * gg - hg**2
    apart = determinant > 1e-9 * hh * gg
    safe = np.where(apart, determinant, 1.0)
    a, b = (gg * h - hg * g) / safe, (hh * g - hg * h) / safe
    alone = ~apart | (a < 0)
    flat = ~alone & (b < 0)
    a = np.where(alone, 0.0, np.where(flat, h / hh, a))
    b = np.where(alone, g / gg, np.where(flat, 0.0, b))
    return a, b, (weights > 0).sum(axis=-1) - a * h - b * g


def _tail_from(sizes: Floats, leads: NDArray[np.bool_]) -> Floats:
    """Return the least size from which on a term leads at all, one a row; infinite where it does not at the last."""
    onwards = np.logical_and.accumulate(leads[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.where(onwards, sizes, inf).min(axis=1))


def _reaches(first: Floats, limit: float) -> bool:
    """Tell whether tails start by a size: that of the rounds as they are, and most of those of rounds drawn anew."""
    reached = first <= limit * (1 + 1e-9)
    return bool(reached[0] and reached[1:].mean() >= RELIABLE)


def _crossing(sizes: Floats, power: float, logs: int, top: float, limit: float) -> float | None:
    """Return the n from which on the leading term is above a limit; None where none can be told."""
    if not top > 0:
        return None
    wide = np.geomspace(1.0, sizes[-1] * 1e9, 8001)
    above = top * (wide / sizes[-1]) ** power * (Law(0, logs).values(wide) / Law(0, logs).values(sizes[-1])) >= limit
    return float(wide[np.argmax(above)]) if above.any() else None
