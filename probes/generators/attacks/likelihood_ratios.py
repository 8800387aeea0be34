"""Likelihood ratios of scores against shadow models that were trained with and without each point (LiRA, RMIA).

Shadow models are trained as the target was, each on a part of the points that is known. They must have been scored as
the target was, with the same random numbers where any are drawn.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from probes.core.errors import InputError

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mode = Literal["online", "offline", "offline-two-sided"]
Variance = Literal["pooled", "per-point"]

_BLOCK = 2**21
"""Scores that are sorted at once, 16 MiB."""
_LEAST_VARIANCE = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratios:
    """Scores of the points that have enough shadow models, and the indices of these points.

    Parameters
    ----------
    scores
        The higher the likelier a member, shape (points with a score,), in the order of the points.
    scored
        Which points have a score, shape (n,).
    with_point, without_point
        Shadow models trained with each point and without it, shape (n,).
    """

    scores: Floats
    scored: Bools
    with_point: Integers
    without_point: Integers


def lira(target: ArrayLike, shadows: ArrayLike, keep: ArrayLike, *, mode: Mode, variance: Variance) -> Ratios:
    """Return the likelihood ratio of each point's statistic with and without it in training (Carlini et al. 2022).

    A statistic that is nearly normal, such as a log odds or minus a log loss, is compared with its median over the
    shadow models, and the mean of the queries is taken:

    - online: log N(phi; mu_in, s_in^2) - log N(phi; mu_out, s_out^2);
    - offline: -log(1 - Phi((phi - mu_out) / s_out)), in the order of the paper's Phi, which is 1 for all far points;
    - offline-two-sided: -log N(phi; mu_out, s_out^2): it is high on either side.

    Parameters
    ----------
    target
        Statistic of the target, the higher the likelier a member, shape (n,) or (n, queries).
    shadows
        Those of the shadow models, shape (models, n) or (models, n, queries), without the target; see `left_out`.
    keep
        Which points each shadow model was trained on, shape (models, n).
    variance
        "pooled" over all points, each around its own mean: for fewer than about 64 models. A point then needs one model
        on each side that the mode uses, and two for "per-point"; one that has fewer has no score.

    Raises
    ------
    InputError
        Where shapes do not fit, a number is not finite, or no point has enough shadow models.
    """
    own, shadow, trained = _with_queries(target, shadows, keep)
    counts = trained.sum(0), (~trained).sum(0)
    least = 1 if variance == "pooled" else 2
    scored = counts[1] >= least
    if mode == "online":
        scored = scored & (counts[0] >= least)
    if not scored.any():
        raise _too_few(least, mode)
    own, shadow, trained = own[scored], shadow[:, scored], trained[:, scored]
    absent = _normal(shadow, ~trained, variance)
    with np.errstate(over="ignore", invalid="ignore"):
        if mode == "online":
            scores = _log_density(own, _normal(shadow, trained, variance)) - _log_density(own, absent)
        elif mode == "offline":
            # 1 - Phi(z) = Phi(-z), whose logarithm has digits left where Phi(z) rounds to 1.
            scores = -log_ndtr((absent.centre - own) / np.sqrt(absent.variance))
        else:
            scores = -_log_density(own, absent)
    return Ratios(scores=_finite(scores.mean(1)), scored=scored, with_point=counts[0], without_point=counts[1])


def rmia(
    target: ArrayLike,
    shadows: ArrayLike,
    keep: ArrayLike,
    target_z: ArrayLike,
    shadows_z: ArrayLike,
    *,
    a: float = 0.3,
    gamma: float = 1.0,
) -> Ratios:
    """Return the share of points z of the population that a point beats: p(x|target) / p(x) > gamma p(z|target) / p(z).

    p(x) is ((1 + a) p_out(x) + 1 - a) / 2, with the mean p_out over the shadow models trained without x (Zarifzadeh,
    Liu and Shokri 2024, offline). Ratios of z are sorted once and each x is found among them, so that no table of all
    pairs is made.

    Parameters
    ----------
    target, shadows
        Log-probabilities of the points, shapes (n,) and (models, n). They are at most 0, as p(x) presumes; with a = 1,
        where p(x) is p_out(x), log-densities of any sign do.
    keep
        Which points each shadow model was trained on, shape (models, n).
    target_z, shadows_z
        The same of points that no model was trained on, shapes (z,) and (models, z).

    Raises
    ------
    InputError
        Where shapes do not fit, a number is not finite or above 0, or no point has a model trained without it.
    ValueError
        Unless 0 <= a <= 1 and gamma > 0.
    """
    if not 0 <= a <= 1 or not gamma > 0:
        raise ValueError(f"a is from 0 to 1 and gamma above 0, got {a} and {gamma}")
    own, shadow, trained = _with_queries(target, shadows, keep)
    others, shadow_z, none = _with_queries(target_z, shadows_z, np.zeros(np.shape(shadows_z), dtype=bool))
    if own.shape[1] != 1 or others.shape[1] != 1 or len(shadow) != len(shadow_z):
        raise InputError(
            f"Ratios need one log-probability a model and point: got shapes {shadow.shape} and {shadow_z.shape}.",
            where="shadows, shadows_z",
            hint="Give those of the same models for the points and for the population.",
        )
    highest = max(float(part.max()) for part in (own, shadow, others, shadow_z))
    if a < 1 and highest > 0:
        raise InputError(
            f"A log-probability is {highest:.4g}, and none is above 0.",
            where="a",
            hint="Give log-probabilities, or a = 1 for log-densities.",
        )
    scored = np.asarray(~trained.all(0))
    if not scored.any():
        raise _too_few(1, "offline")
    ratio = own[scored, 0] - _log_prior(shadow[:, scored, 0], ~trained[:, scored], a)
    ranks = np.sort(others[:, 0] - _log_prior(shadow_z[..., 0], ~none, a))
    # To the left: a ratio that is equal is not beaten.
    scores = np.searchsorted(ranks, ratio - np.log(gamma), side="left") / len(ranks)
    return Ratios(scores=scores, scored=scored, with_point=trained.sum(0), without_point=(~trained).sum(0))


def complements(keep: ArrayLike) -> Integers:
    """Return for each model, shape (models,), another that was trained on exactly the other points; -1 without one.

    Models are paired one to one, in their order.

    >>> complements([[1, 0, 0], [0, 1, 1], [1, 1, 0]]).tolist()
    [1, 0, -1]
    """
    rows = _members(keep)
    found = np.full(len(rows), -1)
    alone: defaultdict[bytes, list[int]] = defaultdict(list)
    packed, turned = np.packbits(rows, axis=1), np.packbits(~rows, axis=1)
    for model, (own, other) in enumerate(zip(packed, turned, strict=True)):
        if partners := alone[other.tobytes()]:
            found[model] = partners.pop(0)
            found[found[model]] = model
        else:
            alone[own.tobytes()].append(model)
    return found


def left_out(keep: ArrayLike, target: int) -> Bools:
    """Return which models may be shadows of the target: all but itself and its complement, shape (models,).

    Where each point is in as many models as any other, leaving out the target alone would leave one model fewer with
    each of its members: the count alone would reveal them. Its complement evens that out.

    >>> left_out([[1, 0, 0], [0, 1, 1], [1, 1, 0]], 0).tolist()
    [False, False, True]
    """
    pairs = complements(keep)
    chosen = np.ones(len(pairs), dtype=bool)
    chosen[target] = False
    if pairs[target] >= 0:
        chosen[pairs[target]] = False
    return chosen


def count_gap(keep: ArrayLike, target: int, chosen: ArrayLike) -> float:
    """Return how many more chosen models, on average, were trained on a member of the target than on another point.

    Away from 0 by more than chance, the number of models reveals who is a member before any score is used.

    >>> keep = [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> count_gap(keep, 0, [False, True, True, True]), count_gap(keep, 0, left_out(keep, 0))
    (-1.0, 0.0)
    """
    rows = _members(keep)
    counts, member = rows[np.asarray(chosen, dtype=bool)].sum(0), rows[target]
    if member.all() or not member.any():
        return 0.0
    return float(counts[member].mean() - counts[~member].mean())


@dataclass(frozen=True, slots=True, eq=False)
class _Normal:
    """Medians of each point and query, shape (n, queries), and variances, of this shape or (1, queries)."""

    centre: Floats
    variance: Floats


def _normal(shadow: Floats, chosen: Bools, variance: Variance) -> _Normal:
    """Fit medians and variances of each point's statistics over the chosen models, at least one for each point."""
    count = chosen.sum(0)[:, None]
    centre, squares = (np.empty(shadow.shape[1:]) for _ in range(2))
    step = max(1, _BLOCK // (shadow.shape[0] * shadow.shape[2]))
    for start in range(0, len(count), step):
        part = slice(start, start + step)
        values, mask, many = shadow[:, part], chosen[:, part, None], count[part]
        # Models that were not chosen sort to the end, behind the `many` whose median is sought.
        ordered = np.sort(np.where(mask, values, np.inf), axis=0)
        ends = [np.take_along_axis(ordered, rank[None], axis=0)[0] for rank in ((many - 1) // 2, many // 2)]
        centre[part] = (ends[0] + ends[1]) / 2
        # The mean, unlike the median, makes squares of so many degrees of freedom.
        mean = np.where(mask, values, 0.0).sum(0) / many
        squares[part] = (np.where(mask, values - mean, 0.0) ** 2).sum(0)
    freedom = count - 1
    if variance == "pooled":
        squares, freedom = squares.sum(0, keepdims=True), freedom.sum(0, keepdims=True)
    if not freedom.all():
        raise InputError(
            "No point has two shadow models with it, or none has two without it: nothing is known of their spread.",
            where="keep",
            hint="Train more shadow models.",
        )
    return _Normal(centre, np.maximum(squares / freedom, _LEAST_VARIANCE))


def _log_density(own: Floats, normal: _Normal) -> Floats:
    return np.asarray(-((own - normal.centre) ** 2) / (2 * normal.variance) - np.log(2 * np.pi * normal.variance) / 2)


def _log_prior(shadow: Floats, out: Bools, a: float) -> Floats:
    """Return log p of each point, model by model, without an array of the size of the whole table."""
    total = np.full(shadow.shape[1], -np.inf)
    for values, chosen in zip(shadow, out, strict=True):
        total = np.where(chosen, np.logaddexp(total, values), total)
    mean = np.log1p(a) + total - np.log(out.sum(0))
    return np.asarray((np.logaddexp(mean, np.log1p(-a)) if a < 1 else mean) - np.log(2))


def _with_queries(target: ArrayLike, shadows: ArrayLike, keep: ArrayLike) -> tuple[Floats, Floats, Bools]:
    own, shadow = np.asarray(target, dtype=np.float64), np.asarray(shadows, dtype=np.float64)
    own, shadow = (part[..., None] if part.ndim == least else part for part, least in ((own, 1), (shadow, 2)))
    trained = _members(keep)
    if own.ndim != 2 or shadow.shape[1:] != own.shape or trained.shape != shadow.shape[:2] or not shadow.size:
        raise InputError(
            f"Scores of shape {np.shape(target)}, of shadows {np.shape(shadows)} and keep {trained.shape} do not fit.",
            where="target, shadows, keep",
            hint="Give (n,) or (n, queries), (models, n) or (models, n, queries), and (models, n).",
        )
    return _finite(own), _finite(shadow), trained


def _members(keep: ArrayLike) -> Bools:
    rows = np.asarray(keep)
    if rows.ndim != 2 or not np.isin(rows, (0, 1)).all():
        raise InputError(
            f"Which points each model was trained on is a table of 0 and 1, not values of shape {rows.shape}.",
            where="keep",
            hint="Give keep as (models, n) of 0 and 1.",
        )
    return rows.astype(bool)


def _finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise InputError(
            f"{np.count_nonzero(~np.isfinite(values))} of {values.size} scores are not finite.",
            hint="Leave these points out, or scale the scores.",
        )
    return values


def _too_few(least: int, mode: Mode) -> InputError:
    sides = "with it and without it" if mode == "online" else "without it"
    return InputError(
        f"No point has {least} or more shadow models trained {sides}.",
        where="keep",
        hint="Train more shadow models, each on a random half of the points.",
    )
