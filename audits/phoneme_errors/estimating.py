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
from audits.phoneme_errors.measuring import LayerCounts, Measured
from audits.phoneme_errors.values import TRAININGS, Values
from audits.records import Coordinate, Estimate
from audits.statistics import adjust, cluster_weights, generator, rate_intervals
from audits.statistics.influences import Moved

UNIT = "speakers"
STUDENT = "Student t over speakers"
JACKKNIFE = "Student t, jackknife over speakers"
SYSTEMATIC, RANDOM = "systematic", "random"
TESTS = (SYSTEMATIC, RANDOM)
CORRELATION, SPLIT = "variance_accuracy_correlation", "split_correlation"
ALIKE = "every speaker shows exactly the same, which leaves nothing to make an interval of"
BELOW = "its square lies below 0, further than chance explains: speakers of the two sides are alike by design"
FLAT = "the tokens do not vary at all"
ONCE = "no phone was said twice by three speakers of every group"
PROBE_WORDS = {"logistic": "softmax probe", "discriminant": "linear discriminant"}


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
    correlations: dict[tuple[str, int, str, str], int] = field(default_factory=dict)
    """By name, layer, unit and partial."""
    chance: dict[tuple[str, int, str, str], float] = field(default_factory=dict)
    scale: str = ""
    """Which variance of a speaker was correlated, in words."""
    missing: dict[tuple[str, str], list[At]] = field(default_factory=dict)
    """By name and reason what could not be estimated."""


def estimate(
    draft: Draft, measured: Measured, corpus: Corpus, options: Options, context: Context, *, prefix: str = ""
) -> Found:
    """Add the estimates of one encoder; with a prefix only those that a second encoder is compared by."""
    found = Found()
    tests: list[tuple[str, int, str, float]] = []
    for counts in measured.layers:
        values = values_of(counts, measured, corpus)
        _add_accuracies(draft, found, values, context, prefix)
        for group in corpus.groups:
            _add_errors(draft, found, values, group, context, prefix)
            if not prefix:
                _add_comparisons(draft, found, values, group, context)
                tests += _p_values(values, group)
    _add_tests(draft, found, tests, corpus, context)
    warn_missing(draft, found)
    return found


def draws_of_speakers(corpus: Corpus, options: Options, context: Context) -> NDArray[np.float64]:
    """Return how often each speaker is in each bootstrap sample, shape (samples, speakers)."""
    return cluster_weights(len(corpus.names), options.bootstrap, generator(context.seed, "bootstrap"))


def values_of(counts: LayerCounts, measured: Measured, corpus: Corpus) -> Values:
    """Return one layer's estimates, to be added and subtracted."""
    return Values(counts, corpus, measured.mix, PROBE_WORDS[measured.method])


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
    values: Values,
) -> None:
    """Add one estimate with Student's interval, or a warning where there is none.

    Parameters
    ----------
    scale
        "log": the estimate is a logarithm and is reported as a ratio; "root": it is a square, of which the root is
        reported, and 0 below.
    why
        There may be no estimate at all.
    values
        Where the estimate is from.
    """
    where: dict[str, Coordinate] = {"layer": at.layer, "group": at.group}
    where |= {"training": at.training} if at.training else {}
    sizes, probe = values.sizes, values.probe
    ends = None if moved is None else moved.interval(strata, context.level, sizes)
    below = scale == "root" and ends is not None and ends[1] <= 0
    if moved is None or ends is None or ends[0] == ends[1] or below:
        found.missing.setdefault((at.name, why if moved is None else BELOW if below else ALIKE), []).append(at)
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
            method=method if method.startswith(JACKKNIFE) else f"{method}; {probe}",
            # The group itself; the strata after it are whom it is compared with.
            n=int(strata[0].sum()),
            unit=UNIT,
            where=where,
        )
    )


def _add_accuracies(draft: Draft, found: Found, values: Values, context: Context, prefix: str) -> None:
    layer = values.counts.layer
    cells = [(ALL, "all"), *((group, training) for group in values.corpus.groups for training in TRAININGS)]
    columns = [values.tokens(group, training) for group, training in cells]
    right, trials = (np.stack([column[side] for column in columns], axis=1) for side in (0, 1))
    rates = rate_intervals(right, trials, level=context.level)
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
                method=f"{rates.method[place]}; {values.probe}",
                n=int(rates.clusters[place]),
                unit=UNIT,
                where={"layer": layer, "group": group, "training": training},
            )
        )


def _add_errors(draft: Draft, found: Found, values: Values, group: str, context: Context, prefix: str) -> None:
    layer, alone = values.counts.layer, values.strata(group)
    add(
        draft,
        found,
        At(f"{prefix}systematic_error", layer, group),
        values.systematic(group),
        alone,
        context,
        values=values,
    )
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
        values=values,
    )
    excess = values.excess(group)
    add(
        draft,
        found,
        At(f"{prefix}variance_ratio", layer, group),
        excess,
        values.strata(group, against=True),
        context,
        scale="log",
        method=JACKKNIFE,
        values=values,
    )


def _add_comparisons(draft: Draft, found: Found, values: Values, group: str, context: Context) -> None:
    layer, alone, both = values.counts.layer, values.strata(group), values.strata(group, against=True)
    own = values.accuracy(group, "in") - values.accuracy(group, "all")
    add(draft, found, At("own_data_gain", layer, group), own, alone, context, values=values)
    add(draft, found, At("accuracy_gap", layer, group), values.gap(group), both, context, values=values)
    add(draft, found, At("remaining_gap", layer, group), values.remaining(group), both, context, values=values)
    lead = values.systematic(group) - values.remaining(group)
    add(draft, found, At("systematic_minus_remaining", layer, group), lead, both, context, values=values)
    everyone = values.kinds(group)
    flat = values.variance(group) is None
    for name, kind in (("random_error_within_speakers", "within"), ("random_error_cosine", "cosine")):
        moved, why = values.variance(group, kind), ONCE if kind == "within" and not flat else FLAT
        add(
            draft,
            found,
            At(name, layer, group),
            moved,
            everyone,
            context,
            scale="log",
            method=JACKKNIFE,
            why=why,
            values=values,
        )
    inner, why = values.excess(group, "within"), FLAT if flat else ONCE
    at = At("variance_ratio_within_speakers", layer, group)
    add(draft, found, at, inner, both, context, scale="log", method=JACKKNIFE, why=why, values=values)
    balance = values.scatter_less_shift(group)
    add(
        draft,
        found,
        At("scatter_minus_shift", layer, group),
        balance,
        both,
        context,
        method=JACKKNIFE,
        values=values,
    )
    shift = values.shift(group)
    add(
        draft,
        found,
        At("centroid_shift", layer, group),
        shift,
        both,
        context,
        scale="root",
        method=JACKKNIFE,
        values=values,
    )


def _p_values(values: Values, group: str) -> list[tuple[str, int, str, float]]:
    layer, excess = values.counts.layer, values.excess(group)
    found = [(SYSTEMATIC, layer, group, values.systematic(group).p(values.strata(group), values.sizes))]
    if excess is not None:
        found.append((RANDOM, layer, group, excess.p(values.strata(group, against=True), values.sizes)))
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
