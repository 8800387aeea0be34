"""The correlations of variance and accuracy, over speakers and over groups."""

import numpy as np

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.intervals import Interval
from audits.core.records import Coordinate
from audits.phoneme_errors.correlating import Correlation, group_correlation, rank_correlation
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import CORRELATION, SPLIT, Bools, Floats, Values
from audits.statistics import cluster_weights, enough_permutations, generator


def add_correlations(draft: Draft, counts: Counts) -> None:
    """Add the correlations of variance and accuracy of every layer, over speakers and over groups."""
    options = counts.options
    # How often each speaker is in each bootstrap sample.
    weights = cluster_weights(len(counts.corpus.names), options.bootstrap, generator(draft.seed, "bootstrap"))
    permutations = enough_permutations(options.permutations, 1, draft.level)
    for values in counts.first:
        _correlate_speakers(draft, values, permutations)
        _correlate_groups(draft, values, weights, permutations)


def _correlate_speakers(draft: Draft, values: Values, permutations: int) -> None:
    hits, spreads = values.counts.hits, values.spreads
    right, trials = values.tokens(ALL, "all")
    halves = np.arange(hits.trials.shape[1]) % 2 == np.array([[0], [1]])
    parts = [(hits.everyone[:, half].sum(1), hits.trials[:, half].sum(1)) for half in halves]
    usable = np.isfinite(spreads[0]) & (trials > 0)
    split = usable & np.isfinite(spreads).all(0) & (parts[0][1] > 0) & (parts[1][1] > 0)
    # Variance of the phones of one half beside accuracy of those of the other, both ways.
    crossed = np.stack([parts[1 - half][0][split] / parts[1 - half][1][split] for half in (0, 1)])
    whole = (right / np.maximum(trials, 1e-9))[None, usable]
    _correlate(draft, values, CORRELATION, (spreads[:1, usable], whole), usable, permutations)
    _correlate(draft, values, SPLIT, (spreads[1:, split], crossed), split, permutations)


def _correlate(
    draft: Draft, values: Values, name: str, pair: tuple[Floats, Floats], usable: Bools, permutations: int
) -> None:
    """Correlate variance and accuracy of the speakers, raw and with group and tokens per phone held fixed."""
    trials = values.counts.hits.trials[usable]
    per_phone = trials.sum(1) / np.maximum((trials > 0).sum(1), 1)
    home = values.corpus.home[usable]
    dummies = [(home == row).astype(float) for row in np.unique(home)[1:]]
    held = [*([] if np.ptp(per_phone) == 0 else [per_phone]), *dummies]
    none = np.zeros((int(usable.sum()), 0))
    for partial, controls in (("no", none), ("yes", np.stack(held, axis=1) if held else none)):
        rng = generator(draft.seed, name, str(values.layer), partial)
        found = rank_correlation(*pair, controls, permutations, rng, level=draft.level)
        _add(draft, name, found, values.layer, "speaker", partial)


def _correlate_groups(draft: Draft, values: Values, weights: Floats, permutations: int) -> None:
    corpus = values.corpus
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
    rng = generator(draft.seed, "group correlation", str(values.layer))
    found = group_correlation(
        (points[0], points[1]), (drawn[0], drawn[1]), smallest, permutations, rng, level=draft.level
    )
    _add(draft, CORRELATION, found, values.layer, "group", "no")


def _add(draft: Draft, name: str, found: Correlation | None, layer: int, unit: str, partial: str) -> None:
    """Add a correlation and its p-value."""
    where: dict[str, Coordinate] = {"layer": layer, "unit": unit, "partial": partial}
    if found is None:
        draft.warn("undefined", f"{name} is left out: too few {unit}s, or all of them alike.", name=name, **where)
        return
    how = "Spearman, Fisher z" if unit == "speaker" else "Spearman, bootstrap over speakers"
    n, units = found.n, f"{unit}s"
    draft.add(name, Interval(value=found.value, low=found.low, high=found.high, method=how, n=n, unit=units), **where)
    p, low, high = found.p
    method, test = "exact" if low is None else "permutation", "permutation" if name == CORRELATION else "split"
    chance = Interval(value=p, low=low, high=high, method=method, n=n, unit=units)
    draft.add("p_value", chance, **where, test=test, correction="none")
