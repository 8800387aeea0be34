"""How far apart are the groups, could it be chance, and how does it change from layer to layer?"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.counts import KINDS, TEST, Floats, TaskCounts, sums_of
from audits.asr_fairness.dealing import add_spread, deal_covariance, deal_rates, with_deals
from audits.asr_fairness.estimating import Cohort, add_layer_choice, replicate_rates
from audits.context import Context, Draft
from audits.groups import MIN_WORDS, GroupSet
from audits.records import Estimate
from audits.statistics import (
    GAP_METHOD,
    OTHERS_METHOD,
    RATIO_METHOD,
    Chance,
    Kind,
    MaybeEnds,
    SpeakerSums,
    clearest,
    extremes,
    gap_between,
    gaps_to_others,
    generator,
    monte_carlo_p,
    on_scale,
    percentile_interval,
    ratio,
    shuffle_labels,
    undefined,
    unscaled,
)

FEWEST_LAYERS = 4
"""Layers under which no pattern over layers is estimated."""
PERMUTED = "permutation of labels over speakers"
UNWIDENED = 10**6
"""Clusters of an interval of plain percentiles: what widens it for few is made for means, not for correlations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The groups of one set that have enough speakers to be compared, in one metric.

    Parameters
    ----------
    names, speakers
        The groups and how many speakers each has.
    sums
        Sums per speaker and group.
    dealt
        Rates of the groups in every deal of the clips, shape (deals, groups, layers); None where none are compared.
    """

    groups: GroupSet
    counts: TaskCounts
    names: tuple[str, ...]
    speakers: NDArray[np.int64]
    sums: SpeakerSums
    dealt: Floats | None = None

    @property
    def people(self) -> int:
        """Speakers in any of the groups; one may be in several."""
        return self.sums.people


@dataclass(slots=True, kw_only=True)
class GapRows:
    """Where the estimates of one comparison stand in the report, by layer column and kind or group.

    `alike` are the columns in which no group's speakers differ, `sure` the columns whose gap is beyond chance, `signs`
    which way error and gap go together over those.
    """

    comparison: Comparison
    rates: dict[tuple[int, str], int]
    gap: dict[tuple[int, str], int] = field(default_factory=dict)
    others: dict[tuple[int, str], int] = field(default_factory=dict)
    worst: dict[int, str] = field(default_factory=dict)
    best: dict[int, str] = field(default_factory=dict)
    p: dict[int, int] = field(default_factory=dict)
    spread: dict[int, int] = field(default_factory=dict)
    found: dict[int, bool] = field(default_factory=dict)
    correlation: dict[str, int] = field(default_factory=dict)
    alike: set[int] = field(default_factory=set)
    sure: list[int] = field(default_factory=list)
    signs: dict[str, int] = field(default_factory=dict)


def compare_groups(groups: GroupSet, counts: TaskCounts, cohort: Cohort, options: Options) -> Comparison | None:
    """Return the comparison of a set's groups, or None where fewer than two have enough speakers."""
    sums = sums_of(counts, cohort.speakers, groups.masks)
    enough = sums.speakers >= options.min_speakers
    if counts.task == "asr":
        enough &= sums.sizes.sum(0) >= MIN_WORDS
    chosen = np.flatnonzero(enough)
    if len(chosen) < 2:
        return None
    kept = sums.of(chosen)
    return Comparison(
        groups=groups,
        counts=counts,
        names=tuple(groups.names[place] for place in chosen),
        speakers=kept.speakers,
        sums=kept,
        dealt=deal_rates(counts, groups.masks[chosen]),
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
    drawn = with_deals(comparison.sums.drawn(cohort.weights), comparison.dealt, cohort.shifts)
    chance = _chance(comparison, options, context)
    spreads: dict[str, Floats] = {
        kind: np.full((len(cohort.weights), len(comparison.counts.layers)), np.nan) for kind in KINDS
    }
    held = {kind: spreads[kind].copy() for kind in KINDS}
    points: dict[str, Floats] = {kind: np.full(len(comparison.counts.layers), np.nan) for kind in KINDS}
    for column in range(len(comparison.counts.layers)):
        _add_extremes(rows, column)
    # The same two groups on all layers, those of the layer with the least error: see `_pattern_sign`.
    pair = [comparison.names.index(ends[comparison.counts.best()]) for ends in (rows.worst, rows.best)]
    for column in range(len(comparison.counts.layers)):
        for kind in KINDS:
            replicates = on_scale(drawn, column, kind)
            spreads[kind][:, column] = replicates.max(axis=1) - replicates.min(axis=1)
            held[kind][:, column] = replicates[:, pair[0]] - replicates[:, pair[1]]
            value = _add_gap(draft, rows, column, kind, chance, context)
            points[kind][column] = np.nan if value is None else value
        noise = deal_covariance(comparison.dealt, column, context.level)
        found = gaps_to_others(comparison.sums, chance, column, level=context.level, noise=noise)
        for name, ends in zip(comparison.names, found, strict=True):
            label, where = comparison.counts.named("gap_to_others", column), _where(rows, column, group=name)
            rows.others[column, name] = _add(draft, rows, context, label, ends, OTHERS_METHOD, **where)
        _add_chance(draft, rows, column, chance, context)
        _add_spread(draft, rows, column, context)
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
    ends: MaybeEnds,
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


def _add_extremes(rows: GapRows, column: int) -> None:
    worst, best = extremes(rows.comparison.sums, column)
    rows.worst[column], rows.best[column] = rows.comparison.names[worst], rows.comparison.names[best]


def _add_gap(draft: Draft, rows: GapRows, column: int, kind: Kind, chance: Chance, context: Context) -> float | None:
    comparison = rows.comparison
    pair = (comparison.names.index(rows.worst[column]), comparison.names.index(rows.best[column]))
    rates = on_scale(comparison.sums.totals(), column, "absolute")[0]
    missing = undefined(kind, (rows.worst[column], rows.best[column]), (rates[pair[0]], rates[pair[1]]))
    if missing:
        draft.warn("undefined-gap", missing, **_where(rows, column, kind=kind))
        return None
    noise = deal_covariance(comparison.dealt, column, context.level)
    ends = gap_between(comparison.sums, column, kind, pair, level=context.level, chance=chance, noise=noise)
    apart = np.abs(comparison.sums.errors[..., column] - rates * comparison.sums.sizes)
    if kind == "absolute" and (apart <= 1e-9 * np.maximum(comparison.sums.sizes, 1.0)).all():
        rows.alike.add(column)
    ends = unscaled(kind, ends)
    if kind == "absolute" and comparison.counts.metric == "error":
        ends = (ends[0], max(ends[1], -1.0), min(ends[2], 1.0))
    where = _where(rows, column, kind=kind)
    method = GAP_METHOD if kind == "absolute" else RATIO_METHOD
    rows.gap[column, kind] = _add(draft, rows, context, comparison.counts.named("gap", column), ends, method, **where)
    return ends[0]


def _chance(comparison: Comparison, options: Options, context: Context) -> Chance:
    counts = comparison.counts
    rng = generator(context.seed, "permutation", counts.task, counts.metric, comparison.groups.by)
    return shuffle_labels(comparison.sums, options.permutations, rng, level=context.level)


def _add_chance(draft: Draft, rows: GapRows, column: int, chance: Chance, context: Context) -> None:
    """Add the p-value of the gap, and the gap that chance alone makes."""
    found = monte_carlo_p(
        float(chance.observed["pairs"][column]), chance.shuffled["pairs"][:, column], level=context.level
    )
    # Shuffled labels are exact for groups drawn from one population; joint intervals hold where spreads differ.
    noise = deal_covariance(rows.comparison.dealt, column, context.level)
    least = clearest(rows.comparison.sums, column, "pairs", noise=noise)[0]
    where = _where(rows, column)
    named = partial(rows.comparison.counts.named, column=column)
    ends, method = ((least, None, None), "none") if least > found[0] else (found, PERMUTED)
    rows.p[column] = _add(draft, rows, context, named("p_value"), ends, method, test=TEST, correction="none", **where)
    tail = (1 - context.level) / 2
    permuted = chance.gaps[:, column]
    low, high = np.quantile(permuted, [tail, 1 - tail]).tolist()
    floor = float(permuted.mean())
    ends = (floor, min(low, floor), max(high, floor))
    _add(draft, rows, context, named("noise_floor"), ends, PERMUTED, **where)


def _add_spread(draft: Draft, rows: GapRows, column: int, context: Context) -> None:
    """Add by how much the gap of the two groups differs from one deal of the clips to the next."""
    dealt = rows.comparison.dealt
    if dealt is None:
        return
    worst, best = (rows.comparison.names.index(ends[column]) for ends in (rows.worst, rows.best))
    place = add_spread(draft, dealt[:, worst, column] - dealt[:, best, column], _where(rows, column), context)
    if place is not None:
        rows.spread[column] = place


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
    interval = percentile_interval(replicates, UNWIDENED, level=context.level)
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
    interval = percentile_interval(spearman(errors, held[:, columns]), UNWIDENED, level=estimate.level)
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
