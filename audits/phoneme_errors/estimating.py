"""From the counts of every layer to the estimates of the report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.groups import ALL
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.correlating import Correlation, group_correlation, rank_correlation
from audits.phoneme_errors.measuring import Measured
from audits.phoneme_errors.values import TRAININGS, Values
from audits.records import Coordinate, Estimate
from audits.statistics import adjust, cluster_weights, generator, rate_intervals
from audits.statistics.influences import Moved

UNIT = "speakers"
STUDENT = "Student t over speakers"
JACKKNIFE = "Student t, jackknife over speakers"
SYSTEMATIC, RANDOM = "systematic", "random"
TESTS = (SYSTEMATIC, RANDOM)
ALIKE = "every speaker shows exactly the same, which leaves nothing to make an interval of"
FLAT = "the tokens do not vary at all"
ONCE = "no phone was said twice by some speaker of every group"
MOST_IN_PART = 0.5
"""Share of the speakers who must have said some phone twice for the variance within speakers to be used."""


class At(NamedTuple):
    """Where an estimate stands: its name, its layer, its group and, for an accuracy, what its probe learned from."""

    name: str
    layer: int
    group: str
    training: str = ""


@dataclass(slots=True)
class Found:
    """Places of the estimates in the draft, and what a finding needs besides."""

    places: dict[At, int] = field(default_factory=dict)
    adjusted: dict[tuple[str, int, str], float] = field(default_factory=dict)
    """Holm-adjusted p-value by test, layer and group."""
    correlations: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """By layer, unit and partial."""
    chance: dict[tuple[int, str, str], float] = field(default_factory=dict)
    scale: str = ""
    """Which variance of a speaker was correlated, in words."""
    missing: dict[tuple[str, str], list[At]] = field(default_factory=dict)
    """By name and reason what could not be estimated."""


def estimate(
    draft: Draft, measured: Measured, corpus: Corpus, options: Options, context: Context, *, prefix: str = ""
) -> Found:
    """Add the estimates of one encoder; with a prefix only those that a second encoder is compared by."""
    found = Found()
    weights = cluster_weights(len(corpus.names), options.bootstrap, generator(context.seed, "bootstrap"))
    tests: list[tuple[str, int, str, float]] = []
    for counts in measured.layers:
        values = Values(counts, corpus, measured.mix)
        _add_accuracies(draft, found, values, weights, context, prefix)
        for group in corpus.groups:
            _add_errors(draft, found, values, group, context, prefix)
            if not prefix:
                _add_comparisons(draft, found, values, group, context)
                tests += _p_values(values, group)
        if not prefix:
            _add_correlations(draft, found, values, weights, options, context)
    _add_tests(draft, found, tests, corpus, context)
    warn_missing(draft, found)
    return found


def warn_missing(draft: Draft, found: Found) -> None:
    """Say which estimates are left out, once for each reason."""
    for (name, why), places in found.missing.items():
        groups, layers = ({getattr(at, side) for at in places} for side in ("group", "layer"))
        shown = ", ".join(sorted(groups)[:6]) + (", ..." if len(groups) > 6 else "")
        how = f"{len(places)} estimate{'s' * (len(places) > 1)} ({shown}; {_numbers(sorted(layers))})"
        draft.warn("undefined", f"{name} is left out of {how}: {why}.", name=name)


def _numbers(layers: list[int]) -> str:
    return f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers[:20]))}{', ...' if len(layers) > 20 else ''}"


def add(
    draft: Draft,
    found: Found,
    at: At,
    moved: Moved | None,
    strata: NDArray[np.bool_],
    context: Context,
    *,
    scale: str = "plain",
    method: str = STUDENT,
    why: str = FLAT,
) -> None:
    """Add one estimate with Student's interval, or a warning where there is none.

    Parameters
    ----------
    scale
        "log": the estimate is a logarithm and is reported as a ratio; "root": it is a square, of which the root is
        reported, and 0 below.
    why
        There may be no estimate at all.
    """
    where: dict[str, Coordinate] = {"layer": at.layer, "group": at.group}
    where |= {"training": at.training} if at.training else {}
    ends = None if moved is None else moved.interval(strata, context.level)
    if moved is None or ends is None or ends[0] == ends[1]:
        found.missing.setdefault((at.name, why if moved is None else ALIKE), []).append(at)
        return
    value, low, high = moved.value, *ends
    if scale == "log":
        value, low, high = (float(np.exp(end)) for end in (value, low, high))
    if scale == "root":
        value, low, high = (float(np.sqrt(max(end, 0.0))) for end in (value, low, high))
    found.places[at] = draft.add(
        Estimate(
            name=at.name,
            value=value,
            low=low,
            high=high,
            level=context.level,
            method=method,
            n=int(strata[0].sum()),
            unit=UNIT,
            where=where,
        )
    )


def _add_accuracies(
    draft: Draft, found: Found, values: Values, weights: NDArray[np.float64], context: Context, prefix: str
) -> None:
    layer = values.counts.layer
    cells = [(ALL, "all"), *((group, training) for group in values.corpus.groups for training in TRAININGS)]
    columns = [values.tokens(group, training) for group, training in cells]
    right, trials = (np.stack([column[side] for column in columns], axis=1) for side in (0, 1))
    rates = rate_intervals(right, trials, weights, level=context.level)
    for place, (group, training) in enumerate(cells):
        at = At(f"{prefix}accuracy", layer, group, training)
        if not np.isfinite([rates.low[place], rates.high[place]]).all():
            found.missing.setdefault((at.name, "fewer than two speakers"), []).append(at)
            continue
        found.places[at] = draft.add(
            Estimate(
                name=at.name,
                value=float(rates.value[place]),
                low=float(rates.low[place]),
                high=float(min(rates.high[place], 1.0)),
                level=context.level,
                method=rates.method[place],
                n=int(rates.clusters[place]),
                unit=UNIT,
                where={"layer": layer, "group": group, "training": training},
            )
        )


def _add_errors(draft: Draft, found: Found, values: Values, group: str, context: Context, prefix: str) -> None:
    layer, alone = values.counts.layer, values.strata(group)
    add(draft, found, At(f"{prefix}systematic_error", layer, group), values.systematic(group), alone, context)
    everyone = values.kinds(group)
    add(
        draft,
        found,
        At(f"{prefix}random_error", layer, group),
        values.variance(group),
        everyone,
        context,
        scale="log",
        method=JACKKNIFE,
    )


def _add_comparisons(draft: Draft, found: Found, values: Values, group: str, context: Context) -> None:
    layer, alone, both = values.counts.layer, values.strata(group), values.strata(group, against=True)
    own = values.accuracy(group, "in") - values.accuracy(group, "all")
    add(draft, found, At("own_data_gain", layer, group), own, alone, context)
    add(draft, found, At("accuracy_gap", layer, group), values.gap(group), both, context)
    add(draft, found, At("remaining_gap", layer, group), values.remaining(group), both, context)
    lead = values.systematic(group) - values.remaining(group)
    add(draft, found, At("systematic_minus_remaining", layer, group), lead, both, context)
    everyone = values.kinds(group)
    flat = values.variance(group) is None
    for name, kind in (("random_error_within_speakers", "within"), ("random_error_cosine", "cosine")):
        moved, why = values.variance(group, kind), ONCE if kind == "within" and not flat else FLAT
        add(draft, found, At(name, layer, group), moved, everyone, context, scale="log", method=JACKKNIFE, why=why)
    excess = values.excess(group)
    add(draft, found, At("variance_ratio", layer, group), excess, both, context, scale="log", method=JACKKNIFE)
    inner, why = values.excess(group, "within"), FLAT if flat else ONCE
    at = At("variance_ratio_within_speakers", layer, group)
    add(draft, found, at, inner, both, context, scale="log", method=JACKKNIFE, why=why)
    balance = values.scatter_less_shift(group)
    add(draft, found, At("scatter_minus_shift", layer, group), balance, both, context, method=JACKKNIFE)
    shift = values.shift(group)
    add(draft, found, At("centroid_shift", layer, group), shift, both, context, scale="root", method=JACKKNIFE)


def _p_values(values: Values, group: str) -> list[tuple[str, int, str, float]]:
    layer, excess = values.counts.layer, values.excess(group)
    found = [(SYSTEMATIC, layer, group, values.systematic(group).p(values.strata(group)))]
    if excess is not None:
        found.append((RANDOM, layer, group, excess.p(values.strata(group, against=True))))
    return found


def _add_tests(
    draft: Draft, found: Found, tests: list[tuple[str, int, str, float]], corpus: Corpus, context: Context
) -> None:
    """Add the p-values, raw and by Holm's correction over all layers and groups of one test."""
    people = {group: int(corpus.inside(group).sum()) for group in corpus.groups}
    for test in TESTS:
        mine = [row for row in tests if row[0] == test]
        for (_, layer, group, raw), holm in zip(mine, adjust([row[3] for row in mine], "holm"), strict=True):
            found.adjusted[test, layer, group] = holm
            for correction, p in (("none", raw), ("holm", holm)):
                where: Mapping[str, Coordinate] = {
                    "layer": layer,
                    "group": group,
                    "test": test,
                    "correction": correction,
                }
                draft.add(
                    Estimate(
                        name="p_value",
                        value=p,
                        level=context.level,
                        method="none",
                        n=people[group],
                        unit=UNIT,
                        where=where,
                    )
                )


def _add_correlations(
    draft: Draft, found: Found, values: Values, weights: NDArray[np.float64], options: Options, context: Context
) -> None:
    corpus, counts = values.corpus, values.counts
    right, trials = values.tokens(ALL, "all")
    scatter = counts.scatter
    twice = scatter.own_phones >= 1
    within = float(twice[trials > 0].mean()) >= MOST_IN_PART
    found.scale = "within speakers" if within else "around the centroids of their group"
    spread = scatter.own if within else scatter.around
    usable = np.isfinite(spread) & (trials > 0)
    accuracy = right[usable] / trials[usable]
    per_phone = counts.hits.trials.sum(1)[usable] / np.maximum((counts.hits.trials[usable] > 0).sum(1), 1)
    home = corpus.home[usable]
    dummies = [(home == row).astype(float) for row in np.unique(home)[1:]]
    controls = {"no": np.zeros((len(accuracy), 0)), "yes": np.stack([per_phone, *dummies], axis=1)}
    for partial, columns in controls.items():
        rng = generator(context.seed, "correlation", str(counts.layer), partial)
        if partial == "yes" and np.ptp(per_phone) == 0:
            columns = columns[:, 1:]
        result = rank_correlation(spread[usable], accuracy, columns, options.permutations, rng, level=context.level)
        _add_correlation(draft, found, counts.layer, "speaker", partial, result, context)
    _correlate_groups(draft, found, values, weights, options, context)


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
    drawn = tuple(
        points[side] + (weights - 1) @ np.stack([pair[side].moves for pair in pairs], axis=1) for side in (0, 1)
    )
    smallest = min(int(corpus.inside(group).sum()) for group in groups)
    rng = generator(context.seed, "group correlation", str(layer))
    result = group_correlation(
        (points[0], points[1]), (drawn[0], drawn[1]), smallest, options.permutations, rng, level=context.level
    )
    _add_correlation(draft, found, layer, "group", "no", result, context)


def _add_correlation(
    draft: Draft, found: Found, layer: int, unit: str, partial: str, result: Correlation | None, context: Context
) -> None:
    name = "variance_accuracy_correlation"
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
    found.correlations[layer, unit, partial] = draft.add(
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
    found.chance[layer, unit, partial] = p
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
            where={**where, "test": "permutation", "correction": "none"},
        )
    )
