"""Estimates of the audit, rows or their inputs as units: scores, ranks, coverage, distortion and distances."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from audits.conditional import ALL, CLIMATOLOGY, METRICS, OUTCOMES, OWN_MEAN
from audits.conditional.central_intervals import NEAR_LEVEL, ranks_outside
from audits.conditional.counts import Counts, Rows
from audits.conditional.mean_rows import ALIKE, mean_row, ratio_row
from audits.conditional.rank_tests import Tested, tests_of
from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined, exact
from audits.core.records import Coordinate
from audits.statistics import clopper_pearson, generator
from probes.conditional.laws import Bools, Floats

SMALL = 10
"""Rows below which a group has no estimates."""


def estimates(draft: Draft, counts: Counts) -> None:
    """Add all rows of the table."""
    for rows in counts.rows.values():
        _add_scores(draft, counts, rows)
    for rows in counts.candidates:
        if rows.untested:
            draft.warn("not-tested", f"Ranks of {rows.name} are not tested: {rows.untested}.", candidate=rows.name)
        for reason in rows.absent.values():
            draft.warn("undefined", f"{rows.name} lacks a score: {reason}.", candidate=rows.name)
        _add_tests(draft, counts, rows)
        _add_coverage(draft, counts, rows)
        _add_points(draft, counts, rows)
        _add_modes(draft, counts, rows)
        _add_distances(draft, counts, rows)
        if rows.used is not None:
            draft.add("uses_input", loss_row(rows.used, counts, draft.level), candidate=rows.name)
        for points, squares in rows.best_of.items():
            draft.add(
                "best_of",
                mean_row(squares, counts.units, draft.level, positive=True),
                candidate=rows.name,
                points=points,
            )
    if any(rows.best_of for rows in counts.candidates):
        draft.warn("best-of", "best_of is no proper score: a law that is too narrow or too wide can have the least.")
    for points, why in counts.refused.items():
        draft.warn("no-reference", f"There is no distortion_ratio at {points} points: {why}.", points=points)
    if counts.in_mode is not None:
        for group, inside in _groups(counts):
            for mode in range(counts.in_mode.shape[1]):
                row = _share(counts.in_mode[inside, mode], counts.units[inside], draft.level)
                draft.add("mode_weight", row, candidate=OUTCOMES, mode=mode, group=group)


def loss_row(used: Floats, counts: Counts, level: float) -> Interval | Undefined:
    """Return the mean loss of score with inputs exchanged, with the interval that a verdict rests on."""
    # A law that has nothing from its input is to hold 0 nearly always: a fifth of the usual error.
    sure = 1 - (1 - level) / 5
    found = mean_row(used, counts.units, sure)
    return found if isinstance(found, Undefined) else replace(found, method=f"{found.method}, as one of five")


def tests(draft: Draft, counts: Counts, rows: Rows) -> tuple[Tested, ...]:
    """Return the tests of a candidate; the same at every call."""
    return tests_of(rows, counts, draft.level, generator(draft.seed, "one of equal laws", rows.name))


def _groups(counts: Counts) -> Iterator[tuple[str, Bools]]:
    for group, inside in counts.groups.rows().items():
        if inside.sum() >= SMALL:
            yield group, inside


def _add_scores(draft: Draft, counts: Counts, rows: Rows) -> None:
    base = counts.rows[counts.against]
    for metric in METRICS:
        values = rows.scores.get(metric)
        if values is None:
            continue
        other = base.scores.get(metric)
        if other is not None and rows.scored_at.get(metric) != base.scored_at.get(metric):
            why = f"{rows.name} and {base.name} have {metric} scores at different levels: they are not compared."
            draft.warn("undefined", why, candidate=rows.name)
            other = None
        for group, inside in counts.groups.rows().items():
            where: dict[str, Coordinate] = {"metric": metric, "group": group}
            if inside.sum() < SMALL:
                why = f"The group {group} has {inside.sum()} rows, fewer than {SMALL}."
                draft.warn("small-group", why, group=group)
                continue
            units = counts.units[inside]
            # A fair score may lie below zero by chance, a density score at any value.
            draft.add("score", mean_row(values[inside], units, draft.level), candidate=rows.name, **where)
            if other is not None and rows is not base:
                row = mean_row(values[inside] - other[inside], units, draft.level)
                draft.add("difference", row, candidate=rows.name, against=base.name, **where)
        if other is not None and rows is not base and metric != "log":
            gained = ratio_row(values, other, counts.units, draft.level)
            if isinstance(gained, Interval) and gained.low is not None and gained.high is not None:
                gained = replace(gained, value=1 - gained.value, low=1 - gained.high, high=1 - gained.low)
            draft.add("skill", gained, candidate=rows.name, against=base.name, metric=metric)
    if rows.name == CLIMATOLOGY:
        return
    metric = "energy" if "energy" in rows.scores else "crps"
    if rows.kind in ("points", "samples") and rows.single is not None and metric in rows.scores:
        row = mean_row(rows.scores[metric] - rows.single, counts.units, draft.level)
        draft.add("difference", row, candidate=rows.name, against=OWN_MEAN, metric=metric, group=ALL)
    for group, inside in _groups(counts):
        units = counts.units[inside]
        if rows.gap is not None:
            draft.add("self_gap", mean_row(rows.gap[inside], units, draft.level), candidate=rows.name, group=group)
        if rows.spread is not None and rows.error is not None:
            found = ratio_row(rows.spread[inside], rows.error[inside], units, draft.level)
            draft.add("spread_skill", _rooted(found), candidate=rows.name, group=group)


def _rooted(found: Interval | Undefined) -> Interval | Undefined:
    if isinstance(found, Undefined):
        return found
    # A lower end of 0 is what heavy tails leave: one on the scale of logarithms holds the truth less often.
    value, low, high = (
        None if end is None else math.sqrt(max(end, 0.0)) for end in (found.value, found.low, found.high)
    )
    return replace(found, value=value or 0.0, low=low, high=high)


def _add_tests(draft: Draft, counts: Counts, rows: Rows) -> None:
    for one in tests(draft, counts, rows):
        where: dict[str, Coordinate] = {"candidate": rows.name, "projection": one.projection, "group": one.group}
        if one.test == "pit":
            found = Interval(
                value=one.deviation,
                low=max(one.deviation - one.reach, 0.0),
                high=min(one.deviation + one.reach, 1.0),
                method="simultaneous band (Massart)",
                n=one.n,
                unit="rows",
            )
            draft.add("pit_deviation", found, **where)
        for correction, p in (("none", one.p), ("holm", one.adjusted)):
            draft.add("p_value", exact(p, n=one.n, unit="rows"), test=one.test, correction=correction, **where)


def _add_coverage(draft: Draft, counts: Counts, rows: Rows) -> None:
    """Add how many outcomes lie in central intervals (of one column) or balls about the mean, and their widths."""
    for level in (rows.level,) if rows.level is not None else counts.levels:
        held = inside_of(rows, level, counts.dimensions)
        if held is None or level not in rows.width:
            if rows.kind in ("samples", "normal") and not rows.untested:
                why = f"{rows.draws} draws do not reach a level of {level:g} within {NEAR_LEVEL}: give more."
                draft.warn("too-few-draws", why, level=level)
            elif rows.kind == "quantiles":
                draft.warn("no-quantiles", f"No two quantiles hold {level:g}.", candidate=rows.name, level=level)
            continue
        for group, inside in _groups(counts):
            where: dict[str, Coordinate] = {"candidate": rows.name, "level": level, "group": group}
            draft.add("coverage", _share(held[inside], counts.units[inside], draft.level), **where)
            width = mean_row(rows.width[level][inside], counts.units[inside], draft.level, positive=True)
            draft.add("width", width, **where)


def reached(rows: Rows, level: float, dimensions: int) -> float:
    """Return the level that the interval of so many draws really has; that of others as it is."""
    outside = ranks_outside(rows.draws, level, dimensions) if rows.kind in ("samples", "normal") else None
    return level if outside is None else 1 - (2 if dimensions == 1 else 1) * outside / (rows.draws + 1)


def inside_of(rows: Rows, level: float, dimensions: int) -> Floats | None:
    """Return whether each outcome lies in the interval of a level; None where that is not known."""
    if rows.inside is not None:
        return rows.inside
    if rows.pits is None or rows.untested:
        return None
    if rows.kind == "quantiles":
        u = rows.pits[:, 0]
        held = ((1 - level) / 2 <= u) & (u <= (1 + level) / 2)
        return np.asarray(held, dtype=np.float64) if level in rows.width else None
    outside = ranks_outside(rows.draws, level, dimensions)
    if outside is None:
        return None
    name = "y0" if dimensions == 1 else "distance"
    at = [one.name for one in rows.projections].index(name)
    below = rows.pits[:, at] * (rows.draws + 1)
    held = below < rows.draws + 1 - outside
    return np.asarray(held & (below >= outside) if dimensions == 1 else held, dtype=np.float64)


def _share(held: Floats, units: np.ndarray, level: float) -> Interval | Undefined:
    """Return a share of rows: exact where rows are the units, else by clusters."""
    if len(np.unique(units)) < len(units):
        found = mean_row(held, units, level, positive=True)
        if not isinstance(found, Interval) or found.method != ALIKE:
            return found if isinstance(found, Undefined) else found.clipped(0.0, 1.0)
    # What never varied tells how often it might have, though not by its spread.
    count = len(np.unique(units))
    low, high = clopper_pearson(round(float(held.mean()) * count), count, level=level)
    unit = "rows" if count == len(units) else "inputs"
    return Interval(value=float(held.mean()), low=low, high=high, method="Clopper-Pearson", n=count, unit=unit)


def _add_points(draft: Draft, counts: Counts, rows: Rows) -> None:
    """Add distortion by number of points, beside references that are too low and too high, and the error of weights."""
    for points, (which, squares) in sorted(rows.distortion.items()):
        for group, inside in _groups(counts):
            used = inside[which]
            if used.sum() >= SMALL:
                row = mean_row(squares[used], counts.units[which][used], draft.level, positive=True)
                draft.add("distortion", row, candidate=rows.name, points=points, group=group)
        where: dict[str, Coordinate] = {"candidate": rows.name, "points": points}
        if points in rows.closed:
            row = ratio_row(squares, rows.closed[points], counts.units, draft.level)
            draft.add("distortion_ratio", row, reference="closed", **where)
        for reference, row in ratios_to_references(rows, counts, points, draft.level).items():
            draft.add("distortion_ratio", row, reference=reference, **where)
    if rows.cells is not None and rows.weights is not None:
        draft.add("weight_error", weight_error(rows.cells, rows.weights, counts, draft.level), candidate=rows.name)


def ratios_to_references(rows: Rows, counts: Counts, points: int, level: float) -> dict[str, Interval | Undefined]:
    """Return the distortion by that of references that are too low and too high; none where there are no such.

    Where draws of the true law are given both are taken from these, so that their chance cancels.
    """
    if points not in counts.references:
        return {}
    which, squares = rows.distortion[points]
    if counts.oracle and points in rows.ideal:
        which, squares = np.arange(counts.n), rows.ideal[points]
    theirs, fit, held_out = counts.references[points]
    both, ours, refs = np.intersect1d(which, theirs, return_indices=True)
    if len(both) < SMALL:
        return {}
    references = {"lower": fit, "upper": held_out}
    return {
        name: ratio_row(squares[ours], values[refs], counts.units[both], level) for name, values in references.items()
    }


def weight_error(cells: np.ndarray, weights: Floats, counts: Counts, level: float) -> Interval:
    """Return the total variation between stated weights and frequencies of cells, from simultaneous intervals."""
    points = weights.shape[1]
    n, low, high, value = len(np.unique(counts.units)), 0.0, 0.0, 0.0
    for at in range(points):
        held = (cells == at).astype(np.float64)
        stated, share = float(weights[:, at].mean()), float(held.mean())
        # Exact: a cell that no row fell into has no spread that could be seen.
        ends = [one - stated for one in clopper_pearson(round(share * n), n, level=1 - (1 - level) / points)]
        if n < len(cells):
            clustered = mean_row(held - weights[:, at], counts.units, 1 - (1 - level) / points)
            ends += (
                [end for end in (clustered.low, clustered.high) if end is not None]
                if isinstance(clustered, Interval)
                else []
            )
        low += max(min(ends), -max(ends), 0.0) / 2
        high += max(map(abs, ends)) / 2
        value += abs(share - stated) / 2
    return Interval(
        value=value,
        low=min(low, value),
        high=min(max(high, value), 1.0),
        method="Clopper-Pearson, all cells",
        n=n,
        unit="rows",
    )


def _add_modes(draft: Draft, counts: Counts, rows: Rows) -> None:
    if rows.hits is None:
        return
    for group, inside in _groups(counts):
        for mode in range(rows.hits.shape[2]):
            where: dict[str, Coordinate] = {"candidate": rows.name, "mode": mode, "group": group}
            weight = mean_row(rows.hits[0][inside, mode], counts.units[inside], draft.level, positive=True)
            if isinstance(weight, Interval) and weight.method == ALIKE and weight.value in (0.0, 1.0):
                weight = _share(rows.hits[0][inside, mode], counts.units[inside], draft.level)
            draft.add("mode_weight", weight if isinstance(weight, Undefined) else weight.clipped(0.0, 1.0), **where)
            draft.add("mode_coverage", _share(rows.hits[1][inside, mode], counts.units[inside], draft.level), **where)


def _add_distances(draft: Draft, counts: Counts, rows: Rows) -> None:
    """Add Wasserstein distances beside those of one law at the same size."""
    for (name, order, kind, group), (value, floor, n) in counts.distances.items():
        if name != rows.name:
            continue
        where: dict[str, Coordinate] = {"candidate": name, "order": order, "kind": kind, "group": group}
        low, middle, high = np.quantile(floor, [(1 - draft.level) / 2, 0.5, (1 + draft.level) / 2]).tolist()
        # Each of the two samples is about floor / sqrt(2) away from its own law.
        reach = math.sqrt(2) * high
        found = Interval(
            value=value, low=max(value - reach, 0.0), high=value + reach, method="triangle inequality", n=n, unit="rows"
        )
        draft.add("wasserstein", found, **where)
        same = Interval(value=middle, low=low, high=high, method="rows swapped at random", n=n, unit="rows")
        draft.add("floor", same, **where)
    for order, (values, floors) in rows.conditional.items():
        of_rows = len(values) == counts.n
        for group, inside in _groups(counts) if of_rows else [("all", np.ones(len(values), dtype=bool))]:
            where = {
                "candidate": rows.name,
                "order": order,
                "kind": "conditional",
                "group": group,
            }
            units = (counts.units if of_rows else np.arange(len(values)))[inside]
            unit = "rows" if of_rows else "inputs"
            away, chance = (mean_row(one[inside], units, draft.level, positive=True) for one in (values, floors))
            if isinstance(away, Interval) and isinstance(chance, Interval) and away.low is not None:
                reach = math.sqrt(2) * (chance.high or 0.0)
                away = replace(away, low=max(away.low - reach, 0.0), method="triangle inequality", unit=unit)
                draft.add("wasserstein", away, **where)
                draft.add("floor", replace(chance, unit=unit), **where)
