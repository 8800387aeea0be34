"""Exponents of exact counts: local exponents over the last factor of 16 in n, and the terms of a count."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audits.core.intervals import Interval, Undefined
from audits.scaling.growth_claims import Law
from audits.scaling.growth_fits import LEADING, SPAN, Growth, local_exponents

Floats = NDArray[np.float64]

METHOD = "Range: local exponents in the tail"
CONVERGES = 0.95
"""Ratio of neighbouring steps below which local exponents are taken to run to a limit."""
EXACT = 1e-6
NEEDED = 100.0
"""Times by which a small error grows without a term: by less where it stands for a slower one that is subtracted."""
TERMS = (
    *(Law(Fraction(0)), Law(Fraction(0), 1), Law(Fraction(1, 2)), Law(Fraction(1)), Law(Fraction(1), 1)),
    *(
        Law(Fraction(1), 2),
        Law(Fraction(4, 3)),
        Law(Fraction(3, 2)),
        Law(Fraction(2)),
        Law(Fraction(2), 1),
        Law(Fraction(3)),
    ),
)


def limit_of(steps: Floats) -> float | None:
    """Return what the last three numbers run to, by Aitken's extrapolation; None where they do not converge.

    >>> limit_of(np.array([1.5, 1.75, 1.875]))
    2.0
    """
    if steps.size < 3:
        return None
    before, after = np.diff(steps[-3:])
    if before == 0 or not 0 < after / before < CONVERGES:
        return None
    return float(steps[-1] + after * after / (before - after))


def terms_of(n: ArrayLike, counts: ArrayLike, *claimed: Law) -> tuple[dict[Law, float], float]:
    """Return the factors of the terms that counts are a sum of, and the largest relative error of that sum.

    Non-negative least squares of relative errors; terms without which counts are met as well
    are left out, the fastest first.
    """
    sizes, values = np.asarray(n, np.float64), np.asarray(counts, np.float64)
    return _needed(sizes, values, sorted({*TERMS, *claimed}, key=lambda law: (float(law.power), law.log)))


def _needed(sizes: Floats, values: Floats, offered: list[Law]) -> tuple[dict[Law, float], float]:
    """Return the terms without those that are not needed, and without a fastest one in place of what is subtracted."""
    laws = offered
    found, error = _decompose(sizes, values, laws)
    allowed = max(2 * error, 1e-9)
    for law in reversed(tuple(laws)):
        fewer = [one for one in laws if one != law]
        factors, worse = _decompose(sizes, values, fewer) if fewer else ([], np.inf)
        if worse <= allowed:
            laws, found, error = fewer, factors, worse
    terms = {law: factor for law, factor in zip(laws, found, strict=True) if factor > 0}
    slower = offered[: offered.index(list(terms)[-1])] if error <= EXACT else []
    if slower:
        without = _needed(sizes, values, slower)
        if without[1] <= NEEDED * max(error, 1e-11):
            return without
    return terms, error


def _decompose(sizes: Floats, values: Floats, laws: list[Law]) -> tuple[list[float], float]:
    from scipy.optimize import nnls

    columns = np.stack([law.values(sizes) / values for law in laws], axis=1)
    scale = np.linalg.norm(columns, axis=0)
    found, _ = nnls(columns / scale, np.ones(sizes.size))
    return (found / scale).tolist(), float(np.abs(columns @ (found / scale) - 1).max())


def count_exponent(n: ArrayLike, counts: ArrayLike, law: Law | None = None) -> Growth:
    """Return the exponent of counts, or that in excess of a law, at the largest sizes.

    Parameters
    ----------
    n
        Sizes, rising.
    counts
        One number a size, at least 0.

    Examples
    --------
    >>> found = count_exponent([16, 32, 64, 128, 256], [160, 320, 640, 1280, 2560], Law(1))
    >>> found.exponent.value, found.decided
    (0.0, True)
    """
    sizes, values = np.asarray(n, np.float64), np.asarray(counts, np.float64)
    if sizes.size < 2:
        return Growth(exponent=Undefined("there are fewer than two lengths"))
    claim = law or Law(0)
    slopes = local_exponents(sizes, values / claim.values(sizes))
    if not values.any():
        slopes = slopes - float(claim.power)
    last = slopes[sizes[:-1] * SPAN >= sizes[-1] * (1 - 1e-9)]
    # A tail without two neighbours is of the last pair alone.
    last = last if last.size else slopes[-1:]
    if not np.isfinite(last).all():
        return Growth(exponent=Undefined("the count is 0 at some of the longest lengths, and not at others"))
    limit = limit_of(last)
    ends = [*last.tolist(), *([] if limit is None else [limit])]
    exponent = Interval(
        value=float(last[-1]), low=min(ends), high=max(ends), method=METHOD, n=sizes.size, unit="lengths"
    )
    leading, start = _leading(sizes, values, law)
    wide = bool(sizes[-1] >= SPAN * sizes[0] * (1 - 1e-9))
    even = last.size > 1 and float(np.ptp(local_exponents(sizes, values)[-last.size :])) <= EXACT
    start = float(sizes[0]) if even and start is None else start
    settled = wide and (even or (start is not None and start * SPAN <= sizes[-1] * (1 + 1e-9)))
    return Growth(
        exponent=exponent,
        # Where all terms are known exactly, a claim can be held against the fastest long before that has most.
        decided=settled or (law is not None and wide and leading is not None),
        # Exponents that fall, to where nobody knows, may fall below the claim.
        refutable=settled or (last.size > 1 and (limit is not None or bool(last[-1] >= last[0]))),
        tail_from=start,
        far_enough=None if start is None else SPAN * start,
        leading=leading,
    )


def _leading(sizes: Floats, values: Floats, law: Law | None) -> tuple[Law | None, float | None]:
    """Return the fastest term, where the terms are exact, and the n from which on it has most of the whole."""
    there = values > 0
    if not there.any():
        return None, None
    terms, error = terms_of(sizes[there], values[there], *([law] if law else []))
    fastest = list(terms)[-1]
    # From below the least size, since a pure term leads there already.
    wide = np.concatenate([sizes, np.geomspace(sizes[0], sizes[-1] * 1e9, 4001)])
    wide.sort()
    whole = sum(factor * one.values(wide) for one, factor in terms.items())
    leads = terms[fastest] * fastest.values(wide) >= LEADING * whole
    # As many terms as numbers meet any counts.
    known = fastest if error <= EXACT and 2 * len(terms) <= there.sum() else None
    behind = np.flatnonzero(~leads)
    if not behind.size:
        return known, float(sizes[0])
    return known, float(wide[behind[-1] + 1]) if leads[-1] else None
