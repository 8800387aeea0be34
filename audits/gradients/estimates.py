"""Estimates of the audit: agreement with the gradient by layer and step, progress, losses, costs and their intervals.

Batches are the units, seeds where networks were trained. Intervals are those of `mean_interval`. Of estimates with
Gaussian noise, 10 to 1,000 entries and 8 or 16 batches (1,000 repeats a case), those at 95 % hold the mean cosine in 95
to 98 %, those of an expanded percentile bootstrap in 92 to 96 %; where the noise of batches differs (log-normal, sigma
.5) in 92 to 97 and 84 to 95 %, and at sigma 1.5 in 89 and 79 % at worst.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from math import exp, inf, isfinite, sqrt

import numpy as np

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined, exact
from audits.core.records import Coordinate, Estimate
from audits.gradients.counts import ALL, COUNTED_CEILING, HIDDEN, Counts
from audits.statistics import mean_interval
from audits.statistics.order_statistics import enclosing
from probes.gradients.agreement import Agreement, Floats

ENDS = {"cosine": (-1.0, 1.0), "norm_ratio": (0.0, inf), "sign_agreement": (0.0, 1.0), "relative_error": (0.0, inf)}
ALIKE = "range of numbers that are alike to rounding"
ENOUGH = (0.9, 0.99)
"""Cosines for which the iterations needed are reported."""
_FAMILY = re.compile(r"(.+)-(\d{1,6})", re.ASCII)


def estimates(draft: Draft, counts: Counts) -> None:
    """Add all rows of the table."""
    for method, reason in counts.skipped.items():
        draft.warn("skipped", f"{method} was not used: {reason}", method=method)
    for method, times in counts.absent.items():
        if times:
            draft.warn("absent", f"{method} gave no gradient of a parameter {times} times.", method=method)
    for method, times in counts.not_finite.items():
        if times:
            why = f"{method} gave a gradient of a parameter that is not finite {times} times; these are left out."
            draft.warn("not-finite", why, method=method)
    if counts.no_file:
        draft.warn("no-file", f"There is no file of {len(counts.no_file)} of the pairs of step and batch.")
    for layer, step in counts.dead:
        draft.warn("dead", f"The reference gradient of {layer} is zero at step {step}.", layer=layer, step=step)
    if all(one.dot.shape[-1] < 2 for one in counts.agreements.values()):
        draft.warn("one-batch", "There is one batch, so that no number over batches has an interval.")
    for method, agreement in counts.agreements.items():
        _add_agreement(draft, counts, method, agreement)
    _add_progress(draft, counts)
    _add_losses(draft, counts)
    _add_costs(draft, counts)
    for (method, layer, kind), values in counts.gaps.items():
        row = _one_or_mean(values, draft.level, "batches", "networks")
        draft.add("assumption_gap", row, method=method, layer=layer, kind=kind)
    _add_iterations(draft, counts)


def mean_row(
    values: Floats, level: float, unit: str = "batches", ends: tuple[float, float] = (-inf, inf)
) -> Interval | Undefined:
    """Return the mean of the numbers that there are, with its interval; one alone has none."""
    used = values[np.isfinite(values)]
    if not len(used):
        return Undefined(f"There is no number of any of the {unit}.", "no-numbers")
    value = float(used.mean())
    if len(used) == 1:
        return Interval(value=value, method="none", n=1, unit=unit)
    method, (low, high) = mean_interval(used, level=level, positive=ends == (0.0, inf)) or (
        ALIKE,
        (float(used.min()), float(used.max())),
    )
    found = Interval(value=value, low=min(low, value), high=max(high, value), method=method, n=len(used), unit=unit)
    return found.clipped(*ends)


def log_row(values: Floats, level: float, unit: str) -> Interval | Undefined:
    """Return the geometric mean of positive numbers, with its interval."""
    found = mean_row(np.log(np.where(values > 0, values, np.nan)), level, unit)
    if isinstance(found, Undefined):
        return found
    low, high = (None if end is None else exp(min(end, 700.0)) for end in (found.low, found.high))
    return replace(found, value=exp(found.value), low=low, high=high)


def middle_row(values: Floats, level: float) -> Interval:
    """Return the median of rounds with the interval of order statistics, which a busy moment does not move.

    >>> found = middle_row(np.array([3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 900.0, 3.5, 4.5]), 0.95)
    >>> found.value, found.low, found.high
    (5.0, 3.5, 8.0)
    """
    ordered, n = np.sort(values), len(values)
    value, ends = float(np.median(ordered)), enclosing(n, 0.5, level)
    if ends is None:
        return Interval(value=value, method="none", n=n, unit="rounds")
    low, high = (float(ordered[end]) for end in ends)
    return Interval(value=value, low=low, high=high, method="order statistics", n=n, unit="rounds")


def _one_or_mean(values: Floats, level: float, unit: str, single: str) -> Interval | Undefined:
    """Return an exact number where there is one alone."""
    if values.size == 1 and np.isfinite(values).all():
        return exact(float(values.ravel()[0]), n=1, unit=single)
    return mean_row(values, level, unit, (0.0, inf))


def _add_agreement(draft: Draft, counts: Counts, method: str, agreement: Agreement) -> None:
    """Add what one method has of every layer and step; of several draws also bias and variance."""
    values = agreement.measures()
    given, zero = ~np.isnan(agreement.dot[0]), agreement.reference[0] == 0
    for at, layer in enumerate(counts.layers):
        if layer in (HIDDEN, ALL) and not counts.sizes[at]:
            continue
        for when, step in enumerate(counts.steps):
            if not given[at, when].any():
                why = f"{method} has no gradient of {layer} at step {step}."
                draft.warn("no-gradient", why, method=method, layer=layer, step=step)
                continue
            if (zero | ~given)[at, when].all():
                continue
            where: dict[str, Coordinate] = {"method": method, "layer": layer, "step": step}
            for name, ends in ENDS.items():
                row = mean_row(values[name][at, when], draft.level, ends=ends)
                if isinstance(row, Undefined):
                    row = Undefined(f"{method} is zero in {layer} at step {step}: it has no direction.", "zero")
                draft.add(name, row, **where)
            if agreement.draws > 1:
                draft.add("relative_bias", _rooted(mean_row(values["squared_bias"][at, when], draft.level)), **where)
                row = mean_row(values["variance"][at, when], draft.level, ends=(0.0, inf))
                draft.add("relative_variance", row, **where)


def _rooted(square: Interval | Undefined) -> Interval | Undefined:
    """Return the root of a squared bias; one below zero, which is chance, becomes 0."""
    if isinstance(square, Undefined):
        return square
    value, low, high = (None if end is None else sqrt(max(end, 0.0)) for end in (square.value, square.low, square.high))
    return replace(square, value=value or 0.0, low=low, high=high)


def _add_progress(draft: Draft, counts: Counts) -> None:
    """Add the progress of a step as a share of the gradient's; smooth follows from the sums of all parameters."""
    smooth = {
        method: one.measures()["squared_cosine"][counts.layers.index(ALL)] for method, one in counts.agreements.items()
    }
    for kind, by_method in {"smooth": smooth, **counts.progress}.items():
        for method, values in by_method.items():
            for when, step in enumerate(counts.steps):
                row = mean_row(values[when], draft.level, ends=(0.0, 1.0 if kind == "smooth" else inf))
                draft.add("progress_ratio", row, method=method, step=step, kind=kind)


def _add_losses(draft: Draft, counts: Counts) -> None:
    """Add the losses after equal budgets, and their differences within seeds."""
    for budget, by_method in counts.losses.items():
        base = by_method.get(counts.against)
        for method, losses in by_method.items():
            gone = int((~np.isfinite(losses)).sum())
            if gone:
                why = f"{gone} of {len(losses)} trainings by {method} diverged and have no loss."
                draft.warn("diverged", why, method=method, budget=budget)
            draft.add("loss_at_budget", mean_row(losses, draft.level, "seeds"), method=method, budget=budget)
            if base is not None and method != counts.against:
                row = mean_row(losses - base, draft.level, "seeds")
                draft.add("loss_difference", row, method=method, against=counts.against, budget=budget)


def _add_costs(draft: Draft, counts: Counts) -> None:
    """Add costs, how many times faster a step is in pairs of rounds, and what speed it cannot exceed."""
    for (method, kind), values in counts.costs.items():
        timed = kind == "seconds"
        row = log_row(values, draft.level, "rounds") if timed else _one_or_mean(values, draft.level, "rounds", "steps")
        draft.add("cost", row, method=method, kind=kind)
        base = counts.costs.get((counts.against, kind))
        if timed and base is not None and method != counts.against:
            draft.add("speedup", log_row(base / values, draft.level, "rounds"), method=method)
    for method, values in counts.ceilings.items():
        row = exact(float(values[0]), n=1, unit="steps") if len(values) == 1 else middle_row(values, draft.level)
        # What is counted is the least that there is to gain, however seconds spread.
        row = row.clipped(min(COUNTED_CEILING, row.value), inf)
        draft.add("speedup_ceiling", row, method=method)


def _add_iterations(draft: Draft, counts: Counts) -> None:
    """Add the fewest of the tried k with which a method named NAME-k reaches a cosine at every step."""
    families: dict[str, list[int]] = {}
    for method in counts.methods:
        if named := _FAMILY.fullmatch(method):
            families.setdefault(named[1], []).append(int(named[2]))
    layer = HIDDEN if counts.sizes[counts.layers.index(HIDDEN)] else ALL
    for family, tried in families.items():
        if len(tried) < 2:
            continue
        rows = {k: draft.select("cosine", method=f"{family}-{k}", layer=layer) for k in sorted(tried)}
        rows = {k: steps for k, steps in rows.items() if len(steps) == len(counts.steps)}
        for cosine in ENOUGH:
            value, low, high = (_fewest(rows, end, cosine) for end in ("value", "high", "low"))
            where: dict[str, Coordinate] = {"method": family, "cosine": cosine}
            if not isfinite(high):
                why = f"No k that was tried surely brings {family} to a cosine of {cosine:g} at every step."
                draft.add("iterations_needed", Undefined(why, "beyond"), **where)
                continue
            n = min(row.n for steps in rows.values() for row in steps)
            found = Interval(value=value, low=low, high=high, method="ends of the cosines", n=n, unit="batches")
            draft.add("iterations_needed", found, **where)


def _fewest(rows: Mapping[int, list[Estimate]], end: str, cosine: float) -> float:
    """Return the least k with which an end of the interval reaches a cosine at every step; infinite without one."""
    ends = {k: [getattr(row, end) for row in steps] for k, steps in rows.items()}
    return float(min((k for k, found in ends.items() if None not in found and min(found) >= cosine), default=inf))
