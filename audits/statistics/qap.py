"""Permutation test of a matrix of languages by languages against a covariate of their pairs, such as a shared script.

Cells of one row or column are not independent. So rows and columns are relabelled together, and what is found is
compared with what would be found if the languages had each other's places (Mantel 1967; Hubert 1987: quadratic
assignment procedure).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Statistic = Literal["difference", "spearman", "slope"]

FEWEST = 4
"""Least number of languages for a test."""
ENUMERATED = 8
"""Languages up to which all orders are enumerated: 40,320 for eight."""
BLOCK_CELLS = 2**20
"""Cells of permuted covariates held at once, 8 MB."""
TIE = 1e-9
"""Difference of two correlations that counts as rounding error."""
COLLINEAR = 1e-10
"""Least share of the covariate's variance that the others must leave unexplained."""


class Undefined(ValueError):
    """The test is undefined for these cells and covariates; the message states the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QapTest:
    """A statistic of a matrix with its permutation test.

    Parameters
    ----------
    value
        Difference of means, Spearman's correlation or slope.
    p
        Two-sided: the share of arrangements that are as far from the mean arrangement, or farther.
    arrangements
        Distinct arrangements of the covariate that were looked at or, if fewer, that are possible.
    exact
        Whether all arrangements were looked at.
    smallest_p
        The least p that any cells could have had with this covariate and as many arrangements.
    cells, languages
        That were compared.
    """

    value: float
    p: float
    arrangements: int
    exact: bool
    smallest_p: float
    cells: int
    languages: int


def permutation_test(
    matrix: Floats,
    covariate: Floats,
    *,
    statistic: Statistic,
    rng: np.random.Generator,
    adjust: Sequence[Floats] = (),
    repeats: int = 20_000,
    enumerated: int = ENUMERATED,
) -> QapTest:
    """Return the association of a matrix with a covariate of pairs, and its permutation test.

    All statistics are compared by the correlation of cells and covariate, which grows with them and has about the same
    spread whatever cells are missing. Of up to eight languages all orders are gone through, of more some are drawn and
    p is (1 + hits) / (1 + repeats). With `adjust`, what the others leave of the covariate is permuted and correlated
    with the cells, given the others (double semi-partialling: Dekker, Krackhardt and Snijders 2007); that is a test
    for large n rather than an exact one.

    Parameters
    ----------
    matrix
        Cells, shape (n, n), not symmetric; the diagonal is not used and NaN is a missing cell, which stays where it is.
    covariate
        Shape (n, n), without missing cells beside the diagonal, which is not used.
    statistic
        'difference', mean of the cells where the covariate is 1 less the mean where it is 0; 'spearman'; or 'slope',
        of least squares with intercept, in cells per unit of the covariate.
    adjust
        Further covariates that the slope is adjusted for.
    enumerated
        Languages up to which all orders are gone through.

    Raises
    ------
    Undefined
        Where there is no test: fewer than four languages, no cells, cells or covariate all alike, or a covariate that
        the others determine.
    ValueError
        For shapes that do not fit, a covariate with missing cells, one of a difference that is not 0 or 1, or an
        adjusted statistic other than the slope.

    Examples
    --------
    Six languages have three scripts, two each, in 6! / (2!^3 3!) = 15 ways.

    >>> same = np.equal.outer([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2]).astype(float)
    >>> cells = 0.5 * same + 0.01 * np.arange(36).reshape(6, 6) ** 0.5
    >>> found = permutation_test(cells, same, statistic="difference", rng=np.random.default_rng(0))
    >>> found.arrangements, found.exact, found.p == found.smallest_p == 1 / 15
    (15, True, True)
    """
    from scipy.stats import rankdata

    _check(matrix, covariate, statistic, adjust)
    n, off = len(matrix), ~np.eye(len(matrix), dtype=bool)
    present = _present(matrix, off)
    ranks, whole = statistic == "spearman", present.sum() == off.sum()
    moved, exact = _left_by(covariate, adjust, present), n <= enumerated
    if ranks:
        # Where cells are missing, `_ranked` ranks the rest of each arrangement anew, from these dense codes.
        moved[off] = rankdata(moved[off], method="average" if whole else "dense")
    compare = _Comparison(matrix, present, adjust, ranks=ranks, again=not whole)
    orders = _all_orders(moved) if exact else _drawn_orders(n, repeats, rng)
    found = _correlations(compare, moved, orders)
    far = np.abs(found - found.mean())
    possible = math.factorial(n) // symmetries(moved)
    alike = _alike(moved, orders, present, turned=not adjust) if exact else 1
    smallest = max(alike / len(found), 1 / possible)
    return QapTest(
        value=float(found[0]) if ranks else compare.slope(_arranged(moved, orders[:1])),
        p=max(float((far >= far[0] - TIE).mean()), smallest),
        arrangements=min(len(found), possible),
        exact=exact,
        smallest_p=smallest,
        cells=int(present.sum()),
        languages=n,
    )


def _present(matrix: Floats, off: Bools) -> Bools:
    """Return which cells off the diagonal have a value; raise Undefined where they are too few to be permuted."""
    if len(matrix) < FEWEST:
        raise Undefined(f"{len(matrix)} languages are too few to be relabelled: {FEWEST} are needed")
    present = off & np.isfinite(matrix)
    if not present.any():
        raise Undefined("no cell of the matrix has a value")
    return present


def _correlations(compare: "_Comparison", moved: Floats, orders: Ints) -> Floats:
    """Return the correlations of all arrangements that have one, the observed one first."""
    size = max(1, BLOCK_CELLS // moved.size)
    blocks = (_arranged(moved, orders[start : start + size]) for start in range(0, len(orders), size))
    found = np.concatenate([compare.correlations(block) for block in blocks])
    # Without missing cells every arrangement varies as the observed one does; with them some may not vary at all.
    kept: Floats = found[np.isfinite(found)]
    return kept


def _check(matrix: Floats, covariate: Floats, statistic: Statistic, adjust: Sequence[Floats]) -> None:
    n = len(matrix)
    off = ~np.eye(n, dtype=bool)
    for one in (matrix, covariate, *adjust):
        if one.shape != (n, n):
            raise ValueError(f"matrix and covariates must have one square shape, got {one.shape} beside {n}")
    if not all(np.isfinite(one[off]).all() for one in (covariate, *adjust)):
        raise ValueError("a covariate has missing cells: leave out the languages without it")
    if statistic == "difference" and not np.isin(covariate[off], (0, 1)).all():
        raise ValueError("the covariate of a difference must be 0 or 1")
    if adjust and statistic != "slope":
        raise ValueError(f"only the slope can be adjusted for other covariates, not {statistic!r}")


def _left_by(covariate: Floats, others: Sequence[Floats], present: Bools) -> Floats:
    """Return the residuals of a covariate regressed on the others over the cells present; the diagonal is 0."""
    off = ~np.eye(len(covariate), dtype=bool)
    left = np.where(off, covariate - covariate[present].mean(), 0.0)
    before = float((left[present] ** 2).sum())
    if before <= TIE**2 * float((covariate[present] ** 2).sum()):
        raise Undefined("the covariate is the same for all cells")
    if others:
        fitted = np.linalg.lstsq(_design(others, present), left[present], rcond=None)[0]
        # Cell by cell, so that cells of equal covariates stay equal to the last digit.
        for weight, one in zip(fitted, (np.ones_like(covariate), *others), strict=True):
            left = left - weight * np.where(off, one, 0.0)
        left = np.where(off, left, 0.0)
        if float((left[present] ** 2).sum()) <= COLLINEAR * before:
            raise Undefined("the covariate follows from the ones it is adjusted for")
    return left


def _design(others: Sequence[Floats], present: Bools) -> Floats:
    return np.stack([np.ones(int(present.sum())), *(one[present] for one in others)], axis=1)


class _Comparison:
    """Correlations of the cells with permuted covariates of shape (block, n * n), given an intercept and the others."""

    def __init__(self, matrix: Floats, present: Bools, others: Sequence[Floats], *, ranks: bool, again: bool) -> None:
        from scipy.stats import rankdata

        self._where = np.flatnonzero(present)
        # Cells that are missing leave others of a permuted covariate each time.
        self._again = ranks and again
        basis, sizes, _ = np.linalg.svd(_design(others, present), full_matrices=False)
        self._basis = basis[:, sizes > TIE * sizes[0]]
        cells = rankdata(matrix[present]) if ranks else matrix[present]
        self._cells = cells - self._basis @ (self._basis.T @ cells)
        self._size = float((self._cells**2).sum())
        if self._size <= TIE**2 * float((cells**2).sum()):
            raise Undefined("the cells are all alike, or follow from the covariates that are adjusted for")

    def correlations(self, moved: Floats) -> Floats:
        """Return the correlations, shape (block,); NaN where the covariate is constant over the cells present."""
        product, left = self._moments(moved)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(left > 0, product / np.sqrt(left * self._size), np.nan)

    def slope(self, moved: Floats) -> float:
        """Return the slope for the first of the permuted covariates."""
        product, left = self._moments(moved)
        return float(product[0] / left[0])

    def _moments(self, moved: Floats) -> tuple[Floats, Floats]:
        x = moved[:, self._where]
        if self._again:
            x = _ranked(x)
        whole = np.einsum("ij,ij->i", x, x)
        left = whole - ((x @ self._basis) ** 2).sum(1)
        return x @ self._cells, np.where(left > COLLINEAR * whole, left, 0.0)


def _ranked(values: Floats) -> Floats:
    """Return mean ranks within rows, shape (block, cells), of positive integers; counted, not sorted."""
    codes, kinds = values.astype(np.int64), int(values.max()) + 1
    rows = kinds * np.arange(len(codes))[:, None]
    counts = np.bincount((codes + rows).ravel(), minlength=kinds * len(codes)).reshape(len(codes), kinds)
    ranks: Floats = (counts.cumsum(1) - (counts - 1) / 2).ravel()[codes + rows]
    return ranks


def _all_orders(moved: Floats) -> Ints:
    """Return one order for each distinct arrangement of the covariate, the given one first."""
    orders = np.array(list(permutations(range(len(moved)))))
    # A byte a cell, since all arrangements are compared as rows: up to 40,320 of 64 cells.
    codes = np.unique(moved, return_inverse=True)[1].reshape(moved.shape).astype(np.uint8)
    first = np.unique(_arranged(codes, orders), axis=0, return_index=True)[1]
    return orders[np.sort(first)]


def _drawn_orders(n: int, repeats: int, rng: np.random.Generator) -> Ints:
    drawn = np.tile(np.arange(n), (repeats + 1, 1))
    drawn[1:] = rng.permuted(drawn[1:], axis=1)
    return drawn


def _arranged(values: NDArray[Any], orders: Ints) -> NDArray[Any]:
    return values[orders[:, :, None], orders[:, None, :]].reshape(len(orders), -1)


def _alike(moved: Floats, orders: Ints, present: Bools, *, turned: bool) -> int:
    """Count the arrangements that equal the given one in all cells present, or where `turned` its mirror image."""
    cells = _arranged(moved, orders)[:, np.flatnonzero(present)]
    alike = np.isclose(cells, cells[0], rtol=0, atol=TIE).all(1)
    if turned and present.sum() == len(moved) * (len(moved) - 1):
        alike |= np.isclose(cells, 2 * cells[0].mean() - cells[0], rtol=0, atol=TIE).all(1)
    return int(alike.sum())


def symmetries(covariate: Floats) -> int:
    """Count the orders of the languages that leave a covariate unchanged, shape (n, n), without the diagonal.

    Orders within sets of interchangeable languages, and of interchangeable such sets, are counted, which for classes
    are all there are; any others are not, and as many arrangements are then taken to be possible.

    Examples
    --------
    >>> symmetries(np.equal.outer([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2]).astype(float)) == 2**3 * 6
    True
    """
    kinds: list[tuple[object, ...]] = [()] * len(covariate)
    total = 1
    while True:
        sets = _interchangeable(covariate, kinds)
        total *= math.prod(math.factorial(len(one)) for one in sets)
        if len(sets) == len(kinds):
            return total
        # A set becomes one language, of the kind of its members, their number and what is between them.
        kinds = [(kinds[one[0]], len(one), float(covariate[one[0], one[1]]) if len(one) > 1 else None) for one in sets]
        chosen = [one[0] for one in sets]
        covariate = covariate[np.ix_(chosen, chosen)]


def _interchangeable(covariate: Floats, kinds: Sequence[tuple[object, ...]]) -> list[list[int]]:
    sets: list[list[int]] = []
    for one in range(len(covariate)):
        for found in sets:
            other = found[0]
            apart = np.ones(len(covariate), dtype=bool)
            apart[[one, other]] = False
            if (
                kinds[one] == kinds[other]
                and covariate[one, other] == covariate[other, one]
                and (covariate[one, apart] == covariate[other, apart]).all()
                and (covariate[apart, one] == covariate[apart, other]).all()
            ):
                found.append(one)
                break
        else:
            sets.append([one])
    return sets
