"""Are those read worse whose phones scatter more? The correlations of every layer, over speakers and over groups."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.groups import ALL
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.correlating import Correlation, group_correlation, rank_correlation
from audits.phoneme_errors.estimating import CORRELATION, SPLIT, Found, draws_of_speakers, values_of
from audits.phoneme_errors.measuring import Measured
from audits.phoneme_errors.values import Values
from audits.records import Coordinate, Estimate
from audits.statistics import enough_permutations, generator

MOST_IN_PART = 0.5
"""Share of the speakers who must have said some phone twice for the variance within speakers to be used."""


def add_correlations(
    draft: Draft, found: Found, measured: Measured, corpus: Corpus, options: Options, context: Context
) -> None:
    """Add the correlations of variance and accuracy of every layer, over speakers and over groups."""
    weights = draws_of_speakers(corpus, options, context)
    options = replace(options, permutations=enough_permutations(options.permutations, 1, context.level))
    for counts in measured.layers:
        values = values_of(counts, measured, corpus)
        _correlate_speakers(draft, found, values, options, context)
        _correlate_groups(draft, found, values, weights, options, context)


def _correlate_speakers(draft: Draft, found: Found, values: Values, options: Options, context: Context) -> None:
    counts = values.counts
    right, trials = values.tokens(ALL, "all")
    scatter = counts.scatter
    twice = scatter.own_phones[0] >= 1
    within = float(twice[trials > 0].mean()) >= MOST_IN_PART
    found.scale = "within speakers" if within else "around the centroids of their group"
    spreads = scatter.own if within else scatter.around
    halves = np.arange(counts.hits.trials.shape[1]) % 2 == np.array([[0], [1]])
    parts = [(counts.hits.everyone[:, half].sum(1), counts.hits.trials[:, half].sum(1)) for half in halves]
    usable = np.isfinite(spreads[0]) & (trials > 0)
    split = usable & np.isfinite(spreads).all(0) & (parts[0][1] > 0) & (parts[1][1] > 0)
    # Variance of the phones of one half beside accuracy of those of the other, both ways.
    crossed = np.stack([parts[1 - half][0][split] / parts[1 - half][1][split] for half in (0, 1)])
    _correlate(draft, found, values, (spreads[:1], (right / np.maximum(trials, 1e-9))[None]), usable, options, context)
    _correlate(draft, found, values, (spreads[1:], crossed), split, options, context, name=SPLIT)


def _correlate(
    draft: Draft,
    found: Found,
    values: Values,
    pair: tuple[NDArray[np.float64], NDArray[np.float64]],
    usable: NDArray[np.bool_],
    options: Options,
    context: Context,
    *,
    name: str = CORRELATION,
) -> None:
    """Correlate variance and accuracy of the speakers, raw and with group and tokens per phone held fixed."""
    corpus, counts = values.corpus, values.counts
    spread = pair[0][:, usable]
    accuracy = pair[1][:, usable] if pair[1].shape[1] == len(usable) else pair[1]
    per_phone = counts.hits.trials.sum(1)[usable] / np.maximum((counts.hits.trials[usable] > 0).sum(1), 1)
    home = corpus.home[usable]
    dummies = [(home == row).astype(float) for row in np.unique(home)[1:]]
    controls = {"no": np.zeros((int(usable.sum()), 0)), "yes": np.stack([per_phone, *dummies], axis=1)}
    for partial, columns in controls.items():
        rng = generator(context.seed, name, str(counts.layer), partial)
        if partial == "yes" and np.ptp(per_phone) == 0:
            columns = columns[:, 1:]
        result = rank_correlation(spread, accuracy, columns, options.permutations, rng, level=context.level)
        _add_correlation(draft, found, name, counts.layer, "speaker", partial, result, context)


def _correlate_groups(
    draft: Draft, found: Found, values: Values, weights: NDArray[np.float64], options: Options, context: Context
) -> None:
    corpus, layer = values.corpus, values.counts.layer
    groups = [group for group, by in zip(corpus.groups, corpus.by, strict=True) if by == corpus.by[0]]
    if len(groups) < 4:
        return
    moved = [(values.variance(group), values.accuracy(group, "all")) for group in groups]
    pairs = [(spread, right) for spread, right in moved if spread is not None]
    if len(pairs) < len(groups):
        return
    points = tuple(np.array([pair[side].value for pair in pairs]) for side in (0, 1))
    # To first order, a speaker who is drawn w times moves an estimate by w - 1 times the own move.
    drawn = tuple(
        points[side] + (weights - 1) @ np.stack([pair[side].moves for pair in pairs], axis=1) for side in (0, 1)
    )
    smallest = min(int(corpus.inside(group).sum()) for group in groups)
    rng = generator(context.seed, "group correlation", str(layer))
    result = group_correlation(
        (points[0], points[1]), (drawn[0], drawn[1]), smallest, options.permutations, rng, level=context.level
    )
    _add_correlation(draft, found, CORRELATION, layer, "group", "no", result, context)


def _add_correlation(
    draft: Draft,
    found: Found,
    name: str,
    layer: int,
    unit: str,
    partial: str,
    result: Correlation | None,
    context: Context,
) -> None:
    where: dict[str, Coordinate] = {"layer": layer, "unit": unit, "partial": partial}
    if result is None:
        draft.warn(
            "undefined",
            f"{name} is left out: too few {unit}s, or all of them alike.",
            name=name,
            **where,
        )
        return
    how = "Spearman, Fisher z" if unit == "speaker" else "Spearman, bootstrap over speakers"
    found.correlations[name, layer, unit, partial] = draft.add(
        Estimate(
            name=name,
            value=result.value,
            low=result.low,
            high=result.high,
            level=context.level,
            method=how,
            n=result.n,
            unit=f"{unit}s",
            where=where,
        )
    )
    p, low, high = result.p
    found.chance[name, layer, unit, partial] = p
    draft.add(
        Estimate(
            name="p_value",
            value=p,
            low=low,
            high=high,
            level=context.level,
            method="exact" if low is None else "permutation",
            n=result.n,
            unit=f"{unit}s",
            where={**where, "test": "permutation" if name == CORRELATION else "split", "correction": "none"},
        )
    )
