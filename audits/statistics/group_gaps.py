"""Gaps between groups as absolute, relative or odds differences, with joint intervals.

Several kinds of gap, since near chance or perfection an absolute gap is squeezed to nothing and a ratio to one. With
rates e of the worst and the best group: absolute e_w - e_b, ratio e_w / e_b, relative e_w / e_b - 1, log-odds
log(o_w / o_b) with o = (errors + 1/2) / (hits + 1/2), and four-fifths (1 - e_w) / (1 - e_b), a ratio of successes.

Groups differ in spread, in number and in how much their speakers say. So every difference has the standard errors and
the degrees of freedom of its own two groups, and no spread is shared (Games and Howell 1976).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import ratio
from audits.statistics.clustered_rates import Spread, ends_within, spread_of
from audits.statistics.families import Family, joint_chance, tail_of
from audits.statistics.group_sums import Floats, SpeakerSums
from audits.statistics.label_shuffling import Chance

Kind = Literal["absolute", "relative", "ratio", "log_odds", "four_fifths"]
Ends = tuple[float, float, float]
"""Value, low, high."""
Indices = NDArray[np.int64]
GAP_METHOD = (
    "square-and-add of Student intervals over speakers, simultaneous over all pairs of groups, "
    "or permutation where wider"
)
RATIO_METHOD = (
    "Welch t over speakers on the logarithm, simultaneous over all pairs of groups, "
    "or as near to no gap as the absolute gap reaches"
)
OTHERS_METHOD = (
    "square-and-add of Student intervals over speakers, simultaneous over all groups, or permutation where wider"
)
LEAST_TAIL, PARTS, ROUNDS = 1e-15, 64, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpread:
    """The rates of some groups, shape (groups,), and the covariance of their errors, (groups, groups).

    Where all speakers of a group have the rate 0, or 1, the group is `certain`: it shows no variance, and its ends are
    the exact ones with the speakers as trials, as those of its rate are.
    """

    rates: Spread
    correlation: Floats
    certain: NDArray[np.bool_]

    def apart(self, plus: int, minus: int, tail: float) -> Ends:
        """Return one rate less another, with the ends of its interval for a tail probability on each side.

        From the ends l, u of both rates, for rates a, b whose errors have the correlation c (Zou 2007, equation 5):
        low = a - b - sqrt((a - l_a)^2 + (u_b - b)^2 - 2 c (a - l_a) (u_b - b)), and high likewise. The ends are those
        of Student's t with Satterthwaite's degrees of freedom of the difference, and the exact ones (Clopper and
        Pearson) of a group that shows no variance.
        """
        value, below, above = (part[0] for part in self._apart(np.array([plus]), np.array([minus]), np.array(tail)))
        return float(value), float(value - below), float(value + above)

    def clear(self, plus: Indices, minus: Indices, tail: Floats, *, one_sided: bool = False) -> Floats:
        """Return the low ends of the differences of some pairs of groups, shape (tails, pairs).

        Where not `one_sided`, a difference below 0 counts as that turned round.
        """
        value, below, above = self._apart(plus, minus, tail[:, None])
        return value - below if one_sided else np.maximum(value - below, -value - above)

    def _apart(self, plus: Indices, minus: Indices, tail: Floats) -> tuple[Floats, Floats, Floats]:
        """Return differences with the distances of their lower and upper ends."""
        # t.isf ends up in stdtrit, thirty times slower.
        from scipy.special import stdtrit

        rates, shared = self.rates, self.correlation[plus, minus]
        one, other = rates.error[plus] ** 2, rates.error[minus] ** 2
        parts = ratio(one**2, rates.freedom[plus]) + ratio(other**2, rates.freedom[minus])
        quantile = -stdtrit(np.fmax(ratio((one + other) ** 2, parts), 1.0), tail)
        (a, low_a, high_a), (b, low_b, high_b) = (self._ends(at, quantile, tail) for at in (plus, minus))
        return a - b, _added(a - low_a, high_b - b, shared), _added(high_a - a, b - low_b, shared)

    def _ends(self, at: Indices, quantile: Floats, tail: Floats) -> tuple[Floats, Floats, Floats]:
        """Return rates of some groups and their ends."""
        rates, certain = self.rates, self.certain[at]
        value = rates.value[at]
        low, high = ends_within(value, quantile * rates.error[at], rates.top[at])
        exact = np.where(certain, tail ** (1 / np.maximum(rates.clusters[at], 1)), 0.0)
        low = np.where(certain & (value > 0), np.minimum(low, exact), low)
        return value, low, np.where(certain & (value == 0), np.maximum(high, 1.0 - exact), high)

    def errors(self, tail: float) -> Floats:
        """Return standard errors of the rates; for a rate of 0 or 1 the one whose Student's end is the exact limit."""
        from scipy.special import stdtrit

        clusters = np.maximum(self.rates.clusters, 2)
        exact = (1.0 - tail ** (1 / clusters)) / -stdtrit(clusters - 1.0, tail)
        errors: Floats = np.where(self.certain, np.maximum(self.rates.error, exact), self.rates.error)
        return errors


def _added(one: Floats, other: Floats, correlation: Floats) -> Floats:
    added: Floats = np.sqrt(np.maximum(one**2 + other**2 - 2 * correlation * one * other, 0.0))
    return added


def spread_between(sums: SpeakerSums, column: int, noise: Floats | None = None) -> GroupSpread:
    """Return the rates of groups with the covariance of their errors, where speakers may be in several groups.

    Parameters
    ----------
    noise
        Covariance of the rates that speakers do not show, shape (groups, groups), such as that of a random split.
    """
    key = column, b"" if noise is None else noise.tobytes()
    if key not in sums.spreads:
        sums.spreads[key] = _spread_between(sums, column, noise)
    found: GroupSpread = sums.spreads[key]
    return found


def _spread_between(sums: SpeakerSums, column: int, noise: Floats | None) -> GroupSpread:
    errors, sizes = sums.errors[..., column], sums.sizes
    rates = spread_of(errors, sizes)
    totals = sizes.sum(axis=0)
    share = ratio(sizes, np.broadcast_to(totals, sizes.shape))
    moves = np.nan_to_num(ratio(errors - rates.value * sizes, totals + 0 * sizes) / np.maximum(1.0 - share, 1e-9))
    covariance = moves.T @ moves
    certain = rates.certain
    if noise is not None:
        covariance, rates = covariance + noise, rates.wider(np.diag(noise))
    scale = np.sqrt(np.outer(rates.error**2, rates.error**2))
    together = np.clip(np.nan_to_num(ratio(covariance, scale)), -1.0, 1.0)
    np.fill_diagonal(together, 1.0)
    return GroupSpread(rates=rates, correlation=together, certain=certain)


def with_rests(sums: SpeakerSums) -> SpeakerSums:
    """Return the sums of each group, followed by the sums of all other groups, in twice as many columns."""
    rest = SpeakerSums(
        errors=sums.errors.sum(1, keepdims=True) - sums.errors,
        hits=sums.hits.sum(1, keepdims=True) - sums.hits,
        sizes=sums.sizes.sum(1, keepdims=True) - sums.sizes,
    )
    parts = {
        name: np.concatenate([getattr(sums, name), getattr(rest, name)], 1) for name in ("errors", "hits", "sizes")
    }
    return SpeakerSums(**parts)


def on_scale(sums: SpeakerSums, column: int, kind: Kind, *, smooth: float = 0.5) -> Floats:
    """Return the groups' values on the scale on which a gap of this kind is a difference, (samples, groups).

    The absolute scale is the pooled rate itself, the others are logarithms; `smooth` keeps these finite.
    """
    errors, hits, sizes = sums.errors[..., column], sums.hits[..., column], sums.sizes
    if kind == "absolute":
        return ratio(errors, sizes)
    above = np.maximum(sizes - errors, 0.0) if kind == "four_fifths" else errors
    below = hits if kind == "log_odds" else sizes
    with np.errstate(divide="ignore"):
        return np.where(sizes > 0, np.log((above + smooth) / (below + smooth)), np.nan)


def extremes(sums: SpeakerSums, column: int) -> tuple[int, int]:
    """Return the groups with the highest and the lowest rate; two of them also where all are equal."""
    rates = on_scale(sums.totals(), column, "absolute")[0]
    worst = int(np.argmax(rates))
    return worst, int(np.argmin(np.where(np.arange(len(rates)) == worst, np.inf, rates)))


def undefined(kind: Kind, names: tuple[str, str], rates: tuple[float, float]) -> str:
    """Return the reason why a gap of this kind is undefined between two groups; empty where it is defined."""
    (worst, best), (high, low) = names, rates
    if kind in ("relative", "ratio") and low == 0:
        return f"{best} has no errors: a gap relative to it is not defined."
    if kind == "log_odds" and high >= 1:
        return f"The error rate of {worst} is 1 or more: it has no odds."
    if kind == "log_odds" and high == 0:
        return f"Neither {worst} nor {best} has an error: there are no odds to compare."
    if kind == "four_fifths" and high >= 1:
        return f"The error rate of {worst} is 1 or more: it has no rate of success."
    return ""


def gap_between(
    sums: SpeakerSums,
    column: int,
    kind: Kind,
    pair: tuple[int, int],
    *,
    level: float,
    chance: Chance | None = None,
    noise: Floats | None = None,
) -> Ends:
    """Return the gap of two groups with an interval that is valid whichever pair was picked.

    On the scale of `on_scale`, so that it is still a difference; `unscaled` makes the ratio of it.

    Parameters
    ----------
    sums
        Per speaker.
    chance
        Shuffled labels; an absolute gap's interval is never narrower than they allow, and on no other scale does an
        interval leave out no gap where that of the absolute one holds it.
    noise
        As in `spread_between`.
    """
    tail = tail_of("pairs", sums.sizes.shape[1], 1 - level)
    found = spread_between(sums, column, noise)
    ends = found.apart(*pair, tail)
    if chance is not None:
        ends = reaching(ends, chance.reach(column, *pair))
    return ends if kind == "absolute" else _no_surer(_scaled_gap(sums, found, column, kind, pair, tail), ends)


def _no_surer(scaled: Ends, absolute: Ends) -> Ends:
    """Widen a gap on another scale so that its interval excludes 0 only where that of the absolute gap does.

    On the side of no gap it reaches as many times its own value as the absolute gap does.
    """
    (value, low, high), (gap, least, most) = scaled, absolute
    if value == 0 or gap == 0:
        return scaled
    reach = abs(value) * (gap - least if gap > 0 else most - gap) / abs(gap)
    return (value, min(low, value - reach), high) if value > 0 else (value, low, max(high, value + reach))


def _scaled_gap(
    sums: SpeakerSums, found: GroupSpread, column: int, kind: Kind, pair: tuple[int, int], tail: float
) -> Ends:
    """Return a difference of logarithms by Welch's t, with standard errors from the delta method."""
    from scipy.stats import t

    # The value is the gap as defined; only the variance, which divides by errors, needs the half error.
    points = on_scale(sums.totals(), column, kind, smooth=0.5 if kind == "log_odds" else 0.0)[0]
    totals = sums.totals()
    errors, hits, sizes = totals.errors[0, :, column], totals.hits[0, :, column], totals.sizes[0]
    near = np.maximum(sizes - errors if kind == "four_fifths" else errors, 0.5) / sizes
    slope = 1 / near
    if kind == "log_odds":
        slope = slope + 1 / (np.maximum(hits, 0.5) / sizes)
    variance = (found.errors(tail) * slope) ** 2
    both = list(pair)
    freedom = variance[both].sum() ** 2 / (variance[both] ** 2 / found.rates.freedom[both]).sum()
    shared = found.correlation[pair] * np.sqrt(variance[both].prod())
    # Shared speakers must not make the gap more certain than the more certain of the two rates.
    spread = np.sqrt(max(float(variance[both].sum() - 2 * shared), float(variance[both].min()) * 1e-6))
    half = float(t.isf(tail, freedom)) * spread
    value = float(points[pair[0]] - points[pair[1]])
    # Widen no further than the data allow: rates from half an error to the highest possible, and the odds of these.
    most = np.log(found.rates.top[both] * sizes[both] + 0.5) - np.log(0.5)
    widest = float(most.sum()) * (2 if kind == "log_odds" else 1)
    return value, max(value - half, min(value, -widest)), min(value + half, max(value, widest))


def unscaled(kind: Kind, ends: Ends) -> Ends:
    """Return a gap of `gap_between` in the terms of its kind: a ratio, a relative or an absolute difference."""
    if kind in ("absolute", "log_odds"):
        return ends
    # Ratios of groups that hardly err can overflow, and reports hold finite numbers only.
    value, low, high = (float(np.exp(np.clip(end, -50.0, 50.0))) for end in ends)
    shift = 1.0 if kind == "relative" else 0.0
    return value - shift, low - shift, high - shift


def gaps_to_others(
    sums: SpeakerSums,
    chance: Chance,
    column: int,
    *,
    level: float,
    one_sided: bool = False,
    noise: Floats | None = None,
) -> list[Ends]:
    """Return each group's rate less that of all the other groups together, with joint intervals.

    Where `one_sided`, each end is a bound of its own, and the low one that of the test for an excess.
    """
    count = sums.sizes.shape[1]
    found = spread_between(with_rests(sums), column, _with_rests(sums, noise))
    tail = tail_of("others", count, 1 - level, one_sided=one_sided)
    return [
        reaching(found.apart(group, count + group, tail), chance.reach(column, group, one_sided=one_sided))
        for group in range(count)
    ]


def gaps_to_one(
    sums: SpeakerSums,
    chance: Chance,
    column: int,
    reference: int,
    *,
    fixed: bool,
    level: float,
    one_sided: bool = False,
) -> list[Ends]:
    """Return each group's rate less that of one group, with joint intervals; 0 for that group itself.

    Where the reference is not `fixed` but picked by its rate, the intervals hold for all pairs of groups. Where
    `one_sided`, each end is a bound of its own, and the low one that of the test for an excess.
    """
    count = sums.sizes.shape[1]
    found = spread_between(sums, column)
    tail = tail_of("reference" if fixed else "pairs", count, 1 - level, one_sided=one_sided and fixed)
    gaps = [(0.0, 0.0, 0.0)] * count
    for group in range(count):
        if group != reference:
            reach = chance.reach(column, group, reference, fixed=fixed, one_sided=one_sided)
            gaps[group] = reaching(found.apart(group, reference, tail), reach)
    return gaps


def clearest(
    sums: SpeakerSums,
    column: int,
    family: Family,
    *,
    reference: int | None = None,
    one_sided: bool = False,
    noise: Floats | None = None,
) -> tuple[float, int, int | None]:
    """Return the joint p-value of the clearest difference, and its two groups (None: all others).

    The chance is one less the largest level at which the joint interval of any difference of the family leaves out 0,
    so that test and interval say the same. Where `one_sided`, only rates above what they are compared with count.

    Examples
    --------
    >>> sizes = np.repeat(np.kron(np.eye(2), np.ones((20, 1))), 1, axis=0) * 50
    >>> errors = (sizes * np.array([0.1, 0.3]))[..., None]
    >>> p, worst, best = clearest(SpeakerSums(errors=errors, hits=sizes[..., None] - errors, sizes=sizes), 0, "pairs")
    >>> p < 1e-6, worst, best
    (True, 1, 0)
    """
    count = sums.sizes.shape[1]
    found = spread_between(
        with_rests(sums) if family == "others" else sums,
        column,
        _with_rests(sums, noise) if family == "others" else noise,
    )
    among = _contrasts(count, family, reference)
    rows, columns = (np.array(side) for side in zip(*among, strict=True))
    low, high = np.log(LEAST_TAIL), np.log(0.5)
    # Narrow in on the least tail at which a difference is significant; at one half each interval is a point.
    for _ in range(ROUNDS):
        tails = np.linspace(low, high, PARTS + 1)
        clear = (found.clear(rows, columns, np.exp(tails[1:-1]), one_sided=one_sided) > 0).any(axis=1)
        first = int(np.argmax(clear)) + 1 if clear.any() else PARTS
        low, high = tails[first - 1], tails[first]
    best = int(np.argmax(found.clear(rows, columns, np.exp([high]), one_sided=one_sided)))
    one, other = among[best]
    if family == "pairs" and found.rates.value[one] < found.rates.value[other]:
        one, other = other, one
    p = joint_chance(family, count, float(np.exp(high)), one_sided=one_sided)
    return p, one, (None if family == "others" else other)


def _contrasts(count: int, family: Family, reference: int | None) -> list[tuple[int, int]]:
    if family == "others":
        return [(group, count + group) for group in range(count)]
    if reference is not None:
        return [(group, reference) for group in range(count) if group != reference]
    return [(one, other) for one in range(count) for other in range(count) if one < other]


def _with_rests(sums: SpeakerSums, noise: Floats | None) -> Floats | None:
    """Return the covariance of the rates of groups and of their rests from that of the groups."""
    if noise is None:
        return None
    sizes = sums.sizes.sum(axis=0)
    shares = np.tile(sizes, (len(sizes), 1)) * (1 - np.eye(len(sizes)))
    rows = np.vstack([np.eye(len(sizes)), shares / shares.sum(axis=1, keepdims=True)])
    spread: Floats = rows @ noise @ rows.T
    return spread


def reaching(ends: Ends, reach: float) -> Ends:
    """Widen an interval to at least this half-width on either side of its value."""
    value, low, high = ends
    return value, min(low, value - reach), max(high, value + reach)
