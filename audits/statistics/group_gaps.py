"""How far apart are groups, on the scale of absolute, relative or odds differences, and how sure is that?

Several kinds of gap, since near chance or perfection an absolute gap is squeezed to nothing and a ratio to one. With
rates e of the worst and the best group: absolute e_w - e_b, ratio e_w / e_b, relative e_w / e_b - 1, log-odds
log(o_w / o_b) with o = (errors + 1/2) / (hits + 1/2), and four-fifths (1 - e_w) / (1 - e_b), a ratio of successes.
"""

from itertools import combinations
from typing import Literal

import numpy as np

from audits.statistics.bootstrap import ratio
from audits.statistics.contrasts import simultaneous_contrasts
from audits.statistics.group_sums import Floats, SpeakerSums
from audits.statistics.label_shuffling import Chance

Kind = Literal["absolute", "relative", "ratio", "log_odds", "four_fifths"]
Ends = tuple[float, float, float]
"""Value, low, high."""
GAP_METHOD = "cluster bootstrap, simultaneous over all pairs of groups, or permutation where wider"
OTHERS_METHOD = "cluster bootstrap, simultaneous over all groups, or permutation where wider"


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
    """Say why there is no gap of this kind between the worst and the best group; empty where there is one."""
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
    sums: SpeakerSums, drawn: SpeakerSums, column: int, kind: Kind, pair: tuple[int, int], *, level: float
) -> Ends:
    """Return the gap of two groups with an interval that holds whichever two of all were picked.

    On the scale of `on_scale`, so that it is still a difference; `unscaled` makes the ratio of it.

    Parameters
    ----------
    sums, drawn
        Per speaker, and in every bootstrap sample (`SpeakerSums.drawn`).
    """
    # The value is the gap as defined; only samples, which may lack errors, need the half for their logarithm.
    points = on_scale(sums.totals(), column, kind, smooth=0.5 if kind == "log_odds" else 0.0)[0]
    replicates = on_scale(drawn, column, kind)
    pairs, mine = all_pairs(points.size, *pair)
    floor = spread_floor(sums, column, kind)
    return simultaneous_contrasts(points, replicates, pairs, sums.speakers, level=level, floor=floor).at(mine)


def unscaled(kind: Kind, ends: Ends) -> Ends:
    """Return a gap of `gap_between` as the kind says it: a ratio, a share more, or the difference itself."""
    if kind in ("absolute", "log_odds"):
        return ends
    # Ends of groups that hardly err may lie beyond any float, and reports hold finite numbers.
    value, low, high = (float(np.exp(np.clip(end, -50.0, 50.0))) for end in ends)
    shift = 1.0 if kind == "relative" else 0.0
    return value - shift, low - shift, high - shift


def gaps_to_others(
    sums: SpeakerSums, drawn: SpeakerSums, chance: Chance, column: int, *, level: float, one_sided: bool = False
) -> list[Ends]:
    """Return each group's rate less that of all the other groups together, with joint intervals.

    Where `one_sided`, each end is a bound of its own, and the low one that of the test for an excess.
    """
    count = sums.sizes.shape[1]
    totals = sums.totals()
    points = np.concatenate([on_scale(totals, column, "absolute"), _rest(totals, column)], axis=1)[0]
    replicates = np.concatenate([on_scale(drawn, column, "absolute"), _rest(drawn, column)], axis=1)
    contrasts = np.concatenate([np.eye(count), -np.eye(count)], axis=1)
    speakers = np.concatenate([sums.speakers, sums.speakers.sum() - sums.speakers])
    alone = spread_floor(sums, column, "absolute")
    # All others together show no variance only where none of them shows any.
    floor = np.concatenate([alone, [np.delete(alone, place).min() for place in range(count)]])
    found = simultaneous_contrasts(
        points, replicates, contrasts, speakers, level=level, floor=floor, one_sided=one_sided
    )
    rows = []
    for place in range(count):
        value, low, high = found.at(place)
        reach = chance.reach(column, place, one_sided=one_sided)
        rows.append(stretched((value, low, high), max(1.0, reach / (high - value))))
    return rows


def gaps_to_one(
    sums: SpeakerSums,
    drawn: SpeakerSums,
    chance: Chance,
    column: int,
    reference: int,
    *,
    fixed: bool,
    level: float,
    one_sided: bool = False,
) -> list[Ends]:
    """Return each group's rate less that of one group, with joint intervals; nought for that group itself.

    Where the reference is not `fixed` but picked by its rate, the intervals hold for all pairs of groups. Where
    `one_sided`, each end is a bound of its own, and the low one that of the test for an excess.
    """
    points = on_scale(sums.totals(), column, "absolute")[0]
    replicates = on_scale(drawn, column, "absolute")
    others = [place for place in range(points.size) if place != reference]
    rows = [contrast(points.size, place, reference) for place in others]
    more = [] if fixed else [contrast(points.size, *pair) for pair in combinations(others, 2)]
    floor = spread_floor(sums, column, "absolute")
    found = simultaneous_contrasts(
        points, replicates, np.array([*rows, *more]), sums.speakers, level=level, floor=floor, one_sided=one_sided
    )
    gaps = [(0.0, 0.0, 0.0)] * points.size
    for place, other in enumerate(others):
        value, low, high = found.at(place)
        reach = chance.reach(column, other, reference, fixed=fixed, one_sided=one_sided)
        gaps[other] = stretched((value, low, high), max(1.0, reach / (high - value)))
    return gaps


def stretched(ends: Ends, factor: float) -> Ends:
    """Return an interval made wider about its value."""
    value, low, high = ends
    return value, value - factor * (value - low), value + factor * (high - value)


def contrast(groups: int, plus: int, minus: int) -> Floats:
    """Return the coefficients of one group less another."""
    row = np.zeros(groups)
    row[plus], row[minus] = 1.0, -1.0
    return row


def all_pairs(groups: int, plus: int, minus: int) -> tuple[Floats, int]:
    """Return the contrasts of all pairs of groups, shape (pairs, groups), and the place of one group less another.

    Examples
    --------
    >>> rows, place = all_pairs(3, 2, 0)
    >>> len(rows), rows[place].tolist()
    (3, [-1.0, 0.0, 1.0])
    """
    order = list(combinations(range(groups), 2))
    place = order.index((min(plus, minus), max(plus, minus)))
    order[place] = (plus, minus)
    return np.array([contrast(groups, *pair) for pair in order]), place


def _rest(sums: SpeakerSums, column: int) -> Floats:
    errors = sums.errors[..., column]
    return ratio(errors.sum(-1, keepdims=True) - errors, sums.sizes.sum(-1, keepdims=True) - sums.sizes)


def spread_floor(sums: SpeakerSums, column: int, kind: Kind) -> Floats:
    """Return a variance for groups in which resampling sees none: all speakers have the same rate, 0 or 1 mostly.

    It is that of half an error among one trial more than there are speakers.
    """
    totals, speakers = sums.totals(), sums.speakers.astype(np.float64)
    rates = on_scale(totals, column, "absolute")[0]
    apart = np.abs(sums.errors[..., column] - rates * sums.sizes).max(axis=0)
    certain = apart <= 1e-9 * np.maximum(totals.sizes[0], 1.0)
    if kind == "log_odds":
        # Without hits these do not vary although insertions may.
        certain = certain | (totals.hits[0, :, column] == 0)
    share = 0.5 / (speakers + 1.0)
    variance = share * (1 - share) / speakers
    if kind in ("relative", "ratio"):
        variance = variance / np.maximum(rates, share) ** 2
    elif kind == "four_fifths":
        variance = variance / np.maximum(1 - rates, share) ** 2
    elif kind == "log_odds":
        odds = np.clip(rates, share, 1 - share)
        variance = variance / (odds * (1 - odds)) ** 2
    return np.where(certain, variance, 0.0)
