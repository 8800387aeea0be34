"""Intervals and tests of log-linear models of error rates, valid with few or uneven clusters.

Variances are those of Mancl and DeRouen (2001), with each cluster's own fit to itself taken out. How well such a
variance is known follows from the design (Bell and McCaffrey 2002; Pustejovsky and Tipton 2018) and from the moves.
"""

from collections.abc import Sequence

import numpy as np

from audits.statistics.poisson_gee import Floats, PoissonFit, without_each

Ends = tuple[float, float, float]
CLEAR = 0.1
"""Share of its square by which a log ratio must exceed its t standard errors for a share of it to be reported."""
MOST_PRODUCTS = 1500
"""Coefficients times columns up to which the terms shared by clusters are computed pair by pair."""


def freedom(fit: PoissonFit, contrasts: Floats) -> float:
    """Return the degrees of freedom of the covariance of some contrasts together, shape (q, p); at least 1.

    The smaller of two. That of the design: with D the covariance over its expectation, were the model's variance true,
    q (q + 1) / sum_st var(D_st), as a Wishart matrix has it (Pustejovsky and Tipton 2018, equation 12); for one
    contrast Satterthwaite's 2 E(V)^2 / var(V) (Bell and McCaffrey 2002). And that of the moves: with z_s the squared
    distance of the move of cluster s in that covariance, q (q + 2) / sum_s z_s^2 - 1, so that normal moves of n
    clusters alike give about n - 1, and one move that is all of it, 2 for a single contrast.
    """
    q = len(contrasts)
    moves = fit.reduced @ contrasts.T
    distances = ((moves @ np.linalg.pinv(moves.T @ moves, hermitian=True)) * moves).sum(axis=1)
    moved = float((distances**2).sum())
    seen = q * (q + 2) / moved - 1 if moved > 0 else np.inf
    # Never so few that a joint test of all contrasts would have no distribution: for that the design decides.
    return max(1.0, min(freedom_by_design(fit, contrasts), max(seen, float(q))))


def freedom_by_design(fit: PoissonFit, contrasts: Floats, *, most_products: int = MOST_PRODUCTS) -> float:
    """Return the degrees of freedom of the covariance of contrasts by the design alone (see `freedom`)."""
    own, shared = without_each(fit, contrasts)
    expected = own.sum(axis=0) - np.einsum("sak,sbk->ab", shared, shared)
    values, vectors = np.linalg.eigh(expected)
    half = vectors / np.sqrt(np.maximum(values, 1e-300)) @ vectors.T
    own, shared = half @ own @ half, half @ shared
    outer = shared @ shared.transpose(0, 2, 1)
    if shared[0].size <= most_products:
        # sum_ij of (tr G_ij)^2 + tr(G_ij G_ij) for G_ij = [i = j] own_i - shared_i shared_j', multiplied out.
        total = _squares(own) - 2 * _squares(own, outer)
        products = np.einsum("iak,ibl->akbl", shared, shared, optimize=True)
        total += float((products**2).sum() + (products * products.transpose(2, 1, 0, 3)).sum())
    else:
        # What two clusters share adds about as much to the spread as one more column in as many clusters.
        total = _squares(own - outer) * (1 + len(fit.coefficients) / fit.clusters)
    q = len(contrasts)
    return q * (q + 1) / total


def _squares(one: Floats, other: Floats | None = None) -> float:
    """Return the sum of tr(A_i) tr(B_i) + tr(A_i B_i) over clusters."""
    other = one if other is None else other
    traces = np.einsum("saa->s", one) * np.einsum("saa->s", other)
    return float(traces.sum() + np.einsum("sab,sba->", one, other))


def coefficient_interval(fit: PoissonFit, contrast: Floats, *, level: float) -> Ends:
    """Return value, low and high of a contrast of coefficients (a log ratio), contrast of shape (p,).

    Student's t on the bias-reduced covariance with the degrees of freedom of `freedom`: few where few clusters decide.
    """
    from scipy.stats import t

    value, error, known = contrast_of(fit, contrast)
    half = error * float(t.isf((1.0 - level) / 2, known))
    return value, value - half, value + half


def coefficient_p(fit: PoissonFit, contrast: Floats) -> float:
    """Return the two-sided p-value of a contrast being 0, from the same t as `coefficient_interval`."""
    from scipy.stats import t

    value, error, known = contrast_of(fit, contrast)
    return float(2 * t.sf(abs(value) / error, known))


def contrast_of(fit: PoissonFit, contrast: Floats) -> Ends:
    """Return value, standard error and degrees of freedom of a contrast, shape (p,)."""
    variance = float(contrast @ fit.covariance @ contrast)
    if variance <= 0:
        raise ValueError("a contrast without variance has neither interval nor test")
    return float(contrast @ fit.coefficients), float(np.sqrt(variance)), freedom(fit, contrast[None])


def wald_test(fit: PoissonFit, columns: Sequence[int]) -> float:
    """Return the p-value of all these coefficients being 0 together.

    With W the Wald statistic of q coefficients on the bias-reduced covariance and d its degrees of freedom (`freedom`),
    (d - q + 1) / (d q) W against F(q, d - q + 1): the approximate Hotelling test of Pustejovsky and Tipton (2018),
    for one coefficient the t of `coefficient_p`. Where d < q, so few clusters decide that nothing can be rejected: 1.
    """
    from scipy.stats import f

    indices = list(columns)
    q = len(indices)
    if q == 0 or len(set(indices)) < q:
        raise ValueError(f"no joint test of columns {indices}")
    known = freedom(fit, np.eye(fit.coefficients.size)[indices])
    rest = known - q + 1
    if rest <= 0:
        return 1.0
    values = fit.coefficients[indices]
    wald = float(values @ np.linalg.solve(fit.covariance[np.ix_(indices, indices)], values))
    return float(f.sf(rest / (known * q) * wald, q, rest))


def attenuation(
    before: PoissonFit, contrast_before: Floats, after: PoissonFit, contrast_after: Floats, *, level: float
) -> Ends:
    """Return value, low and high of the decrease of a level's log ratio by adjusting.

    Both fits are of the same clips and clusters. The variance of the difference before - after is
    sum_s (a_s - b_s)^2 over the clusters, a_s and b_s their bias-reduced influences on the two contrasts,
    so that what both fits share cancels. Student's t with the fewest degrees of freedom of both contrasts.

    Parameters
    ----------
    contrast_before, contrast_after
        Coefficients of the log ratio in each model, shapes (p,) of each.
    """
    from scipy.stats import t

    moves, known = _paired(before, contrast_before, after, contrast_after)
    shift = moves[0] - moves[1]
    value = float(before.coefficients @ contrast_before - after.coefficients @ contrast_after)
    half = float(np.sqrt(shift @ shift) * t.isf((1.0 - level) / 2, known))
    return value, value - half, value + half


def share_left(
    before: PoissonFit, contrast_before: Floats, after: PoissonFit, contrast_after: Floats, *, level: float
) -> Ends | None:
    """Return value, low and high of the share of a level's log ratio left after adjusting; None without an interval.

    With M the log ratio before and A that after, the shares r for which A - r M lies within t standard errors of 0,
    those of the paired influences of both fits (Fieller 1954). Where M itself may be 0 there is no such interval, and
    where M^2 (1 - `CLEAR`) does not exceed the square of its t standard errors, none that says anything.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group, words = np.repeat([0.0, 1.0], 20), np.full(40, 100.0)
    >>> errors = rng.poisson(words * np.where(group > 0, 0.4, 0.1)).astype(float)
    >>> from audits.statistics.poisson_gee import fit_poisson_gee
    >>> fit = fit_poisson_gee(errors, words, np.stack([np.ones(40), group], axis=1), np.arange(40))
    >>> one = np.array([0.0, 1.0])
    >>> [round(end, 6) for end in share_left(fit, one, fit, one, level=0.95)]
    [1.0, 1.0, 1.0]
    """
    from scipy.stats import t

    moves, known = _paired(before, contrast_before, after, contrast_after)
    whole, left = float(before.coefficients @ contrast_before), float(after.coefficients @ contrast_after)
    reach = float(t.isf((1.0 - level) / 2, known)) ** 2
    # (left - r whole)^2 = reach (v_aa - 2 r v_am + r^2 v_mm), solved for r.
    square = whole**2 - reach * float(moves[0] @ moves[0])
    cross = whole * left - reach * float(moves[0] @ moves[1])
    constant = left**2 - reach * float(moves[1] @ moves[1])
    if square <= CLEAR * whole**2:
        return None
    root = float(np.sqrt(max(cross**2 - square * constant, 0.0)))
    value = left / whole
    return value, min((cross - root) / square, value), max((cross + root) / square, value)


def _paired(
    before: PoissonFit, contrast_before: Floats, after: PoissonFit, contrast_after: Floats
) -> tuple[Floats, float]:
    """Return the moves of both contrasts by each cluster, shape (2, clusters), and the smaller degrees of freedom.

    Where clusters do not differ, the same chance moves both: it is one more column, of its size in each.
    """
    if after.clusters != before.clusters:
        raise ValueError(
            f"the two fits are of {before.clusters} and {after.clusters} clusters, so not of the same clips"
        )
    both = ((before, contrast_before), (after, contrast_after))
    moves = np.stack([np.append(fit.reduced @ row, np.linalg.norm(fit.unseen @ row)) for fit, row in both])
    return moves, min(freedom(before, contrast_before[None]), freedom(after, contrast_after[None]))
