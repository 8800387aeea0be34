"""The estimates: accuracies, both errors and their comparisons, p-values, correlations, and changes of encoders."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined
from audits.core.records import Coordinate
from audits.group_rates.rates import rate_at
from audits.phoneme_errors.alignment_errors import add_alignment_errors
from audits.phoneme_errors.changes import changes
from audits.phoneme_errors.correlations import add_correlations
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import FLAT, JACKKNIFE, SYSTEMATIC, TESTS, UNIT, Row, Values
from audits.statistics import adjust, rate_intervals

ONCE = "no phone was said twice by three speakers of every group"


def estimates(draft: Draft, counts: Counts) -> None:
    """Add the estimates of one encoder; with a second one its own, and the differences."""
    for warning in counts.warnings:
        draft.warn(warning.id, warning.message, **warning.where)
    # Many small products: threads would wait for one another longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        _add(draft, _all_rows(counts.first, draft.level))
        _add_tests(draft, counts)
        add_correlations(draft, counts)
        if counts.second:
            _add(draft, _compared_rows(counts.second, draft.level))
            _add(draft, changes(counts.first, counts.second, draft.level))
    if any(row.method == "none" for row in draft.select("p_value")):
        draft.warn("p-without-interval", "p-values of t tests are computed, not sampled: they have no interval.")
    if counts.aligned:
        add_alignment_errors(draft, counts.aligned, counts.corpus, counts.options.by)


def _add(draft: Draft, rows: Iterable[Row]) -> None:
    """Add rows to the table, and warn of those left out, once for each name and reason."""
    missing: dict[tuple[str, str], list[dict[str, Coordinate]]] = {}
    for name, found, where in rows:
        if isinstance(found, Undefined):
            missing.setdefault((name, found.why), []).append(where)
        else:
            draft.add(name, found, **where)
    for (name, why), left_out in missing.items():
        groups = sorted({str(where["group"]) for where in left_out})
        shown = ", ".join(groups[:6]) + (", ..." if len(groups) > 6 else "")
        layers = _numbers(sorted({int(where["layer"]) for where in left_out}))
        how = f"{len(left_out)} estimate{'s' * (len(left_out) > 1)} ({shown}; {layers})"
        draft.warn("undefined", f"{name} is left out of {how}: {why}.", name=name)


def _numbers(layers: list[int]) -> str:
    return f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers[:20]))}{', ...' if len(layers) > 20 else ''}"


def _all_rows(layers: Sequence[Values], level: float) -> Iterator[Row]:
    for values in layers:
        yield from _accuracies(values, level)
        for group in values.corpus.groups:
            yield from _errors(values, group, level)
            yield from _comparisons(values, group, level)


def _compared_rows(layers: Sequence[Values], level: float) -> Iterator[Row]:
    """Yield the rows that compare a second encoder with the first."""
    for values in layers:
        yield from _accuracies(values, level, prefix="against_")
        for group in values.corpus.groups:
            yield from _errors(values, group, level, prefix="against_")


def _accuracies(values: Values, level: float, *, prefix: str = "") -> Iterator[Row]:
    columns = [values.tokens(group, training) for group, training in values.cells]
    right, trials = (np.stack([column[side] for column in columns], axis=1) for side in (0, 1))
    rates = rate_intervals(right, trials, level=level)
    for cell, (group, training) in enumerate(values.cells):
        found: Interval | Undefined = Undefined("fewer than two speakers")
        if rates.clusters[cell] > 1:
            rate = rate_at(rates, cell, unit=UNIT, most=1.0)
            found = replace(rate, method=f"{rate.method}; {values.probe}")
        yield f"{prefix}accuracy", found, {"layer": values.layer, "group": group, "training": training}


def _errors(values: Values, group: str, level: float, *, prefix: str = "") -> Iterator[Row]:
    where: dict[str, Coordinate] = {"layer": values.layer, "group": group}
    error = values.interval(values.systematic(group), values.strata(group), level)
    yield f"{prefix}systematic_error", error, where
    spread = values.interval(values.variance(group), values.kinds(group), level, scale="log", method=JACKKNIFE)
    yield f"{prefix}random_error", spread, where
    both = values.strata(group, against=True)
    ratio = values.interval(values.excess(group), both, level, scale="log", method=JACKKNIFE)
    yield f"{prefix}variance_ratio", ratio, where


def _comparisons(values: Values, group: str, level: float) -> Iterator[Row]:
    where: dict[str, Coordinate] = {"layer": values.layer, "group": group}
    alone, both, everyone = values.strata(group), values.strata(group, against=True), values.kinds(group)
    own = values.accuracy(group, "in") - values.accuracy(group, "all")
    yield "own_data_gain", values.interval(own, alone, level), where
    yield "accuracy_gap", values.interval(values.gap(group), both, level), where
    yield "remaining_gap", values.interval(values.remaining(group), both, level), where
    lead = values.systematic(group) - values.remaining(group)
    yield "systematic_minus_remaining", values.interval(lead, both, level), where
    once = FLAT if values.variance(group) is None else ONCE
    for name, moved, strata, why in (
        ("random_error_within_speakers", values.variance(group, "within"), everyone, once),
        ("random_error_cosine", values.variance(group, "cosine"), everyone, FLAT),
        ("variance_ratio_within_speakers", values.excess(group, "within"), both, once),
    ):
        yield name, values.interval(moved, strata, level, scale="log", method=JACKKNIFE, why=why), where
    balance = values.scatter_less_shift(group)
    yield "scatter_minus_shift", values.interval(balance, both, level, method=JACKKNIFE), where
    shift = values.shift(group)
    yield "centroid_shift", values.interval(shift, both, level, scale="root", method=JACKKNIFE), where


def _add_tests(draft: Draft, counts: Counts) -> None:
    """Add the p-values, raw and by Holm's correction over all layers and groups of one test."""
    people = {group: int(counts.corpus.inside(group).sum()) for group in counts.corpus.groups}
    cells = [(values, group) for values in counts.first for group in counts.corpus.groups]
    for test in TESTS:
        raw = {(values.layer, group): p for values, group in cells if (p := _p_value(values, group, test)) is not None}
        for ((layer, group), p), holm in zip(raw.items(), adjust(list(raw.values()), "holm"), strict=True):
            for correction, value in (("none", p), ("holm", holm)):
                found = Interval(value=value, method="none", n=people[group], unit=UNIT)
                draft.add("p_value", found, layer=layer, group=group, test=test, correction=correction)


def _p_value(values: Values, group: str, test: str) -> float | None:
    if test == SYSTEMATIC:
        return values.systematic(group).p(values.strata(group), values.sizes)
    excess = values.excess(group)
    return None if excess is None else excess.p(values.strata(group, against=True), values.sizes)
