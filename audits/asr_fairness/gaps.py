"""How far apart are the groups, could it be chance, and how does it change from layer to layer?

Three kinds of gap, since near chance or perfection an absolute gap is squeezed to nothing and a ratio to
one: with rates e of the worst and the best group, absolute e_w - e_b, relative e_w / e_b - 1, and log-odds
log(o_w / o_b) with o = (errors + 1/2) / (hits + 1/2).
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.chance import Chance, shuffle_labels
from audits.asr_fairness.counts import KINDS, TEST, Floats, SpeakerSums, TaskCounts, sum_by_speaker
from audits.asr_fairness.estimating import Cohort, add_layer_choice, replicate_rates
from audits.asr_fairness.groups import MIN_WORDS, GroupSet
from audits.context import Context, Draft
from audits.records import Estimate
from audits.statistics import (
    generator,
    monte_carlo_p,
    percentile_interval,
    ratio,
    simultaneous_contrasts,
)

FEWEST_LAYERS = 4
"""Layers under which no pattern over layers is estimated."""
METHOD = "cluster bootstrap, simultaneous over all pairs of groups, or permutation where wider"
METHOD_OTHERS = "cluster bootstrap, simultaneous over all groups, or permutation where wider"
PERMUTED = "permutation of labels over speakers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The groups of one set that have enough speakers to be compared, in one metric.

    Parameters
    ----------
    names, speakers
        The groups and how many speakers each has.
    sums
        Sums per speaker and group.
    """

    groups: GroupSet
    counts: TaskCounts
    names: tuple[str, ...]
    speakers: NDArray[np.int64]
    sums: SpeakerSums

    @property
    def people(self) -> int:
        """Speakers in any of the groups; one may be in several."""
        return int((self.sums.sizes.sum(1) > 0).sum())


@dataclass(slots=True, kw_only=True)
class GapRows:
    """Where the estimates of one comparison stand in the report, by layer column and kind or group.

    `stretch` is how many times wider shuffled labels make a gap's interval than resampling does, `alike` the
    columns in which no group's speakers differ, `sure` the columns whose gap is beyond chance, `signs` which way
    error and gap go together over those.
    """

    comparison: Comparison
    rates: dict[tuple[int, str], int]
    gap: dict[tuple[int, str], int] = field(default_factory=dict)
    others: dict[tuple[int, str], int] = field(default_factory=dict)
    worst: dict[int, str] = field(default_factory=dict)
    best: dict[int, str] = field(default_factory=dict)
    p: dict[int, int] = field(default_factory=dict)
    found: dict[int, bool] = field(default_factory=dict)
    correlation: dict[str, int] = field(default_factory=dict)
    stretch: dict[int, float] = field(default_factory=dict)
    alike: set[int] = field(default_factory=set)
    sure: list[int] = field(default_factory=list)
    signs: dict[str, int] = field(default_factory=dict)


def compare_groups(groups: GroupSet, counts: TaskCounts, cohort: Cohort, options: Options) -> Comparison | None:
    """Return the comparison of a set's groups, or None where fewer than two have enough speakers."""
    member = groups.member[None] == np.arange(len(groups.names))[:, None]
    sums = sum_by_speaker(counts, cohort.speakers, member)
    enough = sums.speakers >= options.min_speakers
    if counts.task == "asr":
        enough &= sums.sizes.sum(0) >= MIN_WORDS
    chosen = np.flatnonzero(enough)
    if len(chosen) < 2:
        return None
    kept = SpeakerSums(errors=sums.errors[:, chosen], hits=sums.hits[:, chosen], sizes=sums.sizes[:, chosen])
    return Comparison(
        groups=groups,
        counts=counts,
        names=tuple(groups.names[place] for place in chosen),
        speakers=kept.speakers,
        sums=kept,
    )


def add_gaps(
    draft: Draft,
    comparison: Comparison,
    rates: dict[tuple[int, str], int],
    cohort: Cohort,
    options: Options,
    context: Context,
) -> GapRows:
    """Add gaps of all kinds, each group against the others, noise floor, p-values, and the pattern over layers.

    `rates` are the indices of the error rates by layer column and group.
    """
    rows = GapRows(comparison=comparison, rates=rates)
    drawn = _drawn(comparison, cohort)
    chance = _chance(comparison, options, context)
    spreads: dict[str, Floats] = {
        kind: np.full((len(cohort.weights), len(comparison.counts.layers)), np.nan) for kind in KINDS
    }
    held = {kind: spreads[kind].copy() for kind in KINDS}
    points: dict[str, Floats] = {kind: np.full(len(comparison.counts.layers), np.nan) for kind in KINDS}
    for column in range(len(comparison.counts.layers)):
        _add_extremes(rows, column)
    pair = [comparison.names.index(ends[comparison.counts.best()]) for ends in (rows.worst, rows.best)]
    for column in range(len(comparison.counts.layers)):
        for kind in KINDS:
            replicates = _scale(drawn, column, kind)
            spreads[kind][:, column] = replicates.max(axis=1) - replicates.min(axis=1)
            held[kind][:, column] = replicates[:, pair[0]] - replicates[:, pair[1]]
            value = _add_gap(draft, rows, column, kind, replicates, chance, context)
            points[kind][column] = np.nan if value is None else value
        _add_others(draft, rows, column, drawn, chance, context)
        _add_chance(draft, rows, column, chance, context)
    alpha = 1 - context.level
    rows.sure = [column for column in comparison.counts.numbered() if draft.estimates[rows.p[column]].value <= alpha]
    for kind in KINDS:
        _add_pattern(draft, rows, cohort, kind, points[kind], spreads[kind], context)
        if kind in rows.correlation and len(rows.sure) >= FEWEST_LAYERS:
            rows.signs[kind] = _pattern_sign(draft.estimates[rows.correlation[kind]], rows, cohort, held[kind])
    return rows


def _where(rows: GapRows, column: int | None = None, **more: str) -> dict[str, str | int]:
    counts = rows.comparison.counts
    return {**(counts.where if column is None else counts.place(column)), "by": rows.comparison.groups.by, **more}


def _add(
    draft: Draft,
    rows: GapRows,
    context: Context,
    name: str,
    ends: tuple[float, float, float],
    method: str,
    **where: str | int,
) -> int:
    return draft.add(
        Estimate(
            name=name,
            value=ends[0],
            low=ends[1],
            high=ends[2],
            level=context.level,
            method=method,
            n=rows.comparison.people,
            unit="speakers",
            where=where,
        )
    )


def _drawn(comparison: Comparison, cohort: Cohort) -> SpeakerSums:
    """Return the sums of every bootstrap sample, shape (repeats, groups, layers)."""
    sums, weights = comparison.sums, cohort.weights
    flat = sums.errors.reshape(len(sums.errors), -1)
    shape = (len(weights), *sums.errors.shape[1:])
    return SpeakerSums(
        errors=(weights @ flat).reshape(shape),
        hits=(weights @ sums.hits.reshape(flat.shape)).reshape(shape),
        sizes=weights @ sums.sizes,
    )


def _scale(sums: SpeakerSums, column: int, kind: str, *, smooth: float = 0.5) -> Floats:
    """Return the groups' values on the scale on which a gap of this kind is a difference, (samples, groups)."""
    errors, hits, sizes = sums.errors[..., column], sums.hits[..., column], sums.sizes
    if kind == "absolute":
        return ratio(errors, sizes)
    below = hits if kind == "log_odds" else sizes
    with np.errstate(divide="ignore"):
        return np.where(sizes > 0, np.log((errors + smooth) / (below + smooth)), np.nan)


def _totals(sums: SpeakerSums) -> SpeakerSums:
    return SpeakerSums(errors=sums.errors.sum(0)[None], hits=sums.hits.sum(0)[None], sizes=sums.sizes.sum(0)[None])


def _add_extremes(rows: GapRows, column: int) -> None:
    rates = _scale(_totals(rows.comparison.sums), column, "absolute")[0]
    worst = int(np.argmax(rates))
    # Where all rates are equal there is still a pair, of two groups.
    best = int(np.argmin(np.where(np.arange(len(rates)) == worst, np.inf, rates)))
    rows.worst[column], rows.best[column] = rows.comparison.names[worst], rows.comparison.names[best]


def _add_gap(
    draft: Draft, rows: GapRows, column: int, kind: str, replicates: Floats, chance: Chance, context: Context
) -> float | None:
    names = rows.comparison.names
    worst, best = names.index(rows.worst[column]), names.index(rows.best[column])
    totals = _totals(rows.comparison.sums)
    rates = _scale(totals, column, "absolute")[0]
    undefined = _undefined(kind, names[worst], names[best], rates[worst], rates[best])
    if undefined:
        draft.warn("undefined-gap", undefined, **_where(rows, column, kind=kind))
        return None
    points = _scale(totals, column, kind, smooth=0.0 if kind == "relative" else 0.5)[0]
    pairs = np.array([_contrast(len(names), *pair) for pair in combinations(range(len(names)), 2)])
    mine = next(place for place, pair in enumerate(pairs) if pair[worst] != 0 and pair[best] != 0)
    pairs[mine] = _contrast(len(names), worst, best)
    floor = _floor(rows.comparison, column, kind)
    found = simultaneous_contrasts(
        points, replicates, pairs, rows.comparison.speakers, level=context.level, floor=floor
    )
    value, low, high = found.at(mine)
    if kind == "absolute":
        rows.stretch[column] = max(1.0, chance.reach(column, worst, best) / (high - value))
        if (floor > 0).all():
            rows.alike.add(column)
    ends = _stretched((value, low, high), rows.stretch[column])
    value, low, high = ends
    if kind == "relative":
        ends = (float(np.expm1(value)), float(np.expm1(max(low, -50.0))), float(np.expm1(min(high, 50.0))))
    elif kind == "absolute" and rows.comparison.counts.metric == "error":
        ends = (value, max(low, -1.0), min(high, 1.0))
    where = _where(rows, column, kind=kind)
    rows.gap[column, kind] = _add(
        draft, rows, context, rows.comparison.counts.named("gap", column), ends, METHOD, **where
    )
    return ends[0]


def _undefined(kind: str, worst: str, best: str, high: float, low: float) -> str:
    """Say why there is no gap of this kind between two groups with these rates; empty where there is one."""
    if kind == "relative" and low == 0:
        return f"{best} has no errors: a gap relative to it is not defined."
    if kind == "log_odds" and high >= 1:
        return f"The error rate of {worst} is 1 or more: it has no odds."
    if kind == "log_odds" and high == 0:
        return f"Neither {worst} nor {best} has an error: there are no odds to compare."
    return ""


def _stretched(ends: tuple[float, float, float], factor: float) -> tuple[float, float, float]:
    value, low, high = ends
    return value, value - factor * (value - low), value + factor * (high - value)


def _contrast(groups: int, plus: int, minus: int) -> Floats:
    row = np.zeros(groups)
    row[plus], row[minus] = 1.0, -1.0
    return row


def _floor(comparison: Comparison, column: int, kind: str) -> Floats:
    """Return a variance for groups in which resampling sees none: all speakers have the same rate, 0 or 1 mostly.

    It is that of half an error among one trial more than there are speakers.
    """
    totals, speakers = _totals(comparison.sums), comparison.speakers.astype(np.float64)
    rates = _scale(totals, column, "absolute")[0]
    apart = np.abs(comparison.sums.errors[..., column] - rates * comparison.sums.sizes).max(axis=0)
    certain = apart <= 1e-9 * np.maximum(totals.sizes[0], 1.0)
    if kind == "log_odds":
        # Without hits these do not vary although insertions may.
        certain = certain | (totals.hits[0, :, column] == 0)
    share = 0.5 / (speakers + 1.0)
    variance = share * (1 - share) / speakers
    if kind == "relative":
        variance = variance / np.maximum(rates, share) ** 2
    elif kind == "log_odds":
        odds = np.clip(rates, share, 1 - share)
        variance = variance / (odds * (1 - odds)) ** 2
    return np.where(certain, variance, 0.0)


def _add_others(draft: Draft, rows: GapRows, column: int, drawn: SpeakerSums, chance: Chance, context: Context) -> None:
    """Add each group's rate less that of all the other groups together."""
    count = len(rows.comparison.names)
    totals = _totals(rows.comparison.sums)
    points = np.concatenate([_scale(totals, column, "absolute"), _rest(totals, column)], axis=1)[0]
    replicates = np.concatenate([_scale(drawn, column, "absolute"), _rest(drawn, column)], axis=1)
    contrasts = np.concatenate([np.eye(count), -np.eye(count)], axis=1)
    speakers = np.concatenate([rows.comparison.speakers, rows.comparison.speakers.sum() - rows.comparison.speakers])
    alone = _floor(rows.comparison, column, "absolute")
    floor = np.concatenate([alone, [np.delete(alone, place).min() for place in range(count)]])
    found = simultaneous_contrasts(points, replicates, contrasts, speakers, level=context.level, floor=floor)
    for place, name in enumerate(rows.comparison.names):
        label, where = rows.comparison.counts.named("gap_to_others", column), _where(rows, column, group=name)
        value, low, high = found.at(place)
        ends = _stretched((value, low, high), max(1.0, chance.reach(column, place) / (high - value)))
        rows.others[column, name] = _add(draft, rows, context, label, ends, METHOD_OTHERS, **where)


def _rest(sums: SpeakerSums, column: int) -> Floats:
    errors = sums.errors[..., column]
    return ratio(errors.sum(-1, keepdims=True) - errors, sums.sizes.sum(-1, keepdims=True) - sums.sizes)


def _chance(comparison: Comparison, options: Options, context: Context) -> Chance:
    counts = comparison.counts
    rng = generator(context.seed, "permutation", counts.task, counts.metric, comparison.groups.by)
    return shuffle_labels(comparison.sums, options.permutations, rng, level=context.level)


def _add_chance(draft: Draft, rows: GapRows, column: int, chance: Chance, context: Context) -> None:
    """Add the p-value of the gap, the gap that chance alone makes, and what is left of the gap without it."""
    gap = draft.estimates[rows.gap[column, "absolute"]]
    found = monte_carlo_p(float(chance.observed[column]), chance.pairs[:, column], level=context.level)
    where = _where(rows, column)
    named = partial(rows.comparison.counts.named, column=column)
    rows.p[column] = _add(
        draft, rows, context, named("p_value"), found, PERMUTED, test=TEST, correction="none", **where
    )
    tail = (1 - context.level) / 2
    permuted = chance.gaps[:, column]
    low, high = np.quantile(permuted, [tail, 1 - tail]).tolist()
    floor = float(permuted.mean())
    ends = (floor, min(low, floor), max(high, floor))
    _add(draft, rows, context, named("noise_floor"), ends, PERMUTED, **where)
    if gap.low is not None and gap.high is not None:
        left = (gap.value - floor, gap.low - floor, gap.high - floor)
        method = f"{METHOD}, less the mean under {PERMUTED}"
        _add(draft, rows, context, named("debiased_gap"), left, method, **where)


def _add_pattern(
    draft: Draft, rows: GapRows, cohort: Cohort, kind: str, points: Floats, spreads: Floats, context: Context
) -> None:
    """Add the rank correlation over layers of error and gap, and the layer with the least gap."""
    counts = rows.comparison.counts
    columns = [column for column in counts.numbered() if np.isfinite(points[column])]
    if len(counts.numbered()) < FEWEST_LAYERS:
        _warn_no_pattern(draft, rows, f"at least {FEWEST_LAYERS} layers")
        return
    if len(columns) < len(counts.numbered()):
        _warn_no_pattern(draft, rows, "one on every layer", kind)
        return
    overall = counts.errors.sum(0)[columns] / counts.sizes.sum()
    replicates = spearman(replicate_rates(counts, cohort)[:, columns], spreads[:, columns])
    value = float(spearman(overall[None], points[columns][None])[0])
    interval = percentile_interval(replicates, 10**6, level=context.level)
    if interval is None or not np.isfinite(value):
        _warn_no_pattern(draft, rows, "errors and gaps that differ", kind)
        return
    ends = (value, min(interval[0], value), max(interval[1], value))
    method = "percentile cluster bootstrap of Spearman's correlation"
    rows.correlation[kind] = _add(draft, rows, context, "layer_correlation", ends, method, **_where(rows, kind=kind))
    by, drawn = rows.comparison.groups.by, spreads[:, columns]
    add_layer_choice(draft, "fairest_layer", counts, cohort, columns, points[columns], drawn, context, by=by, kind=kind)


def _warn_no_pattern(draft: Draft, rows: GapRows, needs: str, kind: str = "") -> None:
    gaps = f"{kind.replace('_', '-')} gaps".strip()
    message = f"By {rows.comparison.groups.by}, no pattern of {gaps} over layers: it needs {needs}."
    draft.warn("no-layer-pattern", message, **_where(rows, None, **({"kind": kind} if kind else {})))


def _pattern_sign(estimate: Estimate, rows: GapRows, cohort: Cohort, held: Floats) -> int:
    """Return which way error and gap go together over the layers, 0 where that cannot be told.

    The largest gap of noise is the larger the more is erred, so the correlation over all layers has a sign even
    where no group differs. A sign needs that correlation, and one that noise alone cannot make: over the layers
    whose gap is beyond chance, and of the same two groups everywhere, those of the layer with the least error.
    """
    columns = rows.sure
    errors = replicate_rates(rows.comparison.counts, cohort)[:, columns]
    interval = percentile_interval(spearman(errors, held[:, columns]), 10**6, level=estimate.level)
    ends = [(estimate.low or 0.0, estimate.high or 0.0), interval or (0.0, 0.0)]
    return next((sign for sign in (1, -1) if all(min(sign * low, sign * high) > 0 for low, high in ends)), 0)


def spearman(first: Floats, second: Floats) -> Floats:
    """Return Spearman's rank correlation of every row; NaN where a row is constant.

    Examples
    --------
    >>> spearman(np.array([[1.0, 2.0, 3.0]]), np.array([[10.0, 40.0, 20.0]])).round(2).tolist()
    [0.5]
    """
    from scipy.stats import rankdata

    ranks = [rankdata(part, axis=1) for part in (first, second)]
    a, b = (rank - rank.mean(1, keepdims=True) for rank in ranks)
    scale = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return ratio((a * b).sum(1), scale)
