"""Estimates of the audit: values, local exponents, exponents, laws, overheads, crossovers, and growth beyond claims.

What is counted is exact, and its exponent in the tail has for ends the range of local exponents over the last factor of
16 in length. What is measured has intervals of a bootstrap over whole rounds.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined, exact
from audits.scaling.counts import LENGTH, Counts, Curve, Floats
from audits.scaling.crossovers import Crossovers, crossovers
from audits.scaling.growth_counts import count_exponent
from audits.scaling.growth_fits import FEWEST_SIZES, local_exponents, seconds_exponent
from audits.scaling.growth_laws import law_weights
from audits.scaling.rounds import exponential, interval, resampled

VALUES = {"operations": "operations", "memory": "memory", "state": "state_bytes", "time": "seconds"}
"""The estimate that holds the numbers of a quantity; those of the others stand in records.csv."""
LEAST_WEIGHT = 0.001
MOST_PAIRED = 6
"""Targets of which all pairs are compared; of more, each with the first."""


def estimates(draft: Draft, counts: Counts) -> None:
    """Add all rows of the table."""
    _warn(draft, counts)
    with draft.progress.phase("Fitting", len(counts.curves), "curves") as advance:
        for (target, quantity, variable), curve in counts.curves.items():
            if variable == LENGTH:
                _add_curve(draft, target, quantity, curve, counts)
            else:
                found = _rounded(count_exponent(curve.n, curve.values[0]).exponent)
                draft.add("exponent", found, target=target, quantity=quantity, range="tail", variable=variable)
            advance(1)
    for target, quantity in counts.claims:
        _add_excess(draft, target, quantity, counts)
    for pair in _pairs(draft, counts):
        _add_crossovers(draft, *pair)


def _add_curve(draft: Draft, target: str, quantity: str, curve: Curve, counts: Counts) -> None:
    _add_values(draft, target, quantity, curve, counts)
    _add_exponents(draft, target, quantity, curve, counts)
    weights = law_weights(curve.n, curve.values[0] if curve.counted else curve.values)
    for law, weight in weights.items():
        if weight >= LEAST_WEIGHT:
            row = exact(weight, n=len(curve.lengths), unit="lengths")
            draft.add("law_weight", row, target=target, quantity=quantity, law=law.text)


def _warn(draft: Draft, counts: Counts) -> None:
    for one in counts.skipped_lengths:
        what = "timed" if one.timing else "counted"
        draft.warn("skipped", f"{one.target} was not {what} at {one.n:,}: {one.reason}.", target=one.target, n=one.n)
    for target, why in counts.on_real.items():
        text = f"{target} was counted on real tensors, at the lengths that were asked for alone: {why}."
        draft.warn("real-tensors", text, target=target)
    for (target, quantity, _), curve in counts.curves.items():
        if not curve.counted and len(curve.values) == 1:
            draft.warn("one-round", f"{quantity} of {target} was measured in one round: no interval.", target=target)
        missing = int(np.isnan(curve.values).sum())
        if missing:
            text = f"{missing} of {curve.values.size} cells of {quantity} of {target} are missing."
            draft.warn("missing", text, target=target, quantity=quantity)
    for target, quantity in counts.claims:
        if counts.curve(target, quantity) is None:
            text = f"{quantity} of {target} is claimed, and was neither counted nor measured."
            draft.warn("not-measured", text, target=target, quantity=quantity)


def _add_values(draft: Draft, target: str, quantity: str, curve: Curve, counts: Counts) -> None:
    """Add the numbers at the lengths asked for and at the last, and the local exponents of all."""
    measured = None if curve.counted else resampled(curve.values, draft.seed)
    name, last = VALUES.get(quantity), curve.lengths[-1]
    for at, n in enumerate(curve.lengths):
        if name is not None and (n in counts.asked or n == last):
            draft.add(name, _cell(curve.values, measured, at, draft.level), target=target, n=n)
    slopes = local_exponents(curve.n, curve.values[0] if measured is None else measured)
    for at, n in enumerate(curve.lengths[1:]):
        if measured is None:
            row = exact(float(slopes[at]), n=2, unit="lengths")
        else:
            row = interval(slopes[:, at], len(curve.values), draft.level)
        if np.isfinite(row.value):
            draft.add("local_exponent", row, target=target, quantity=quantity, n=n)


def _cell(values: Floats, measured: Floats | None, at: int, level: float) -> Interval:
    if measured is None:
        return exact(float(values[0, at]), n=1, unit="calls")
    own, rounds = measured[:, at], int(np.isfinite(values[:, at]).sum())
    # Of what is above 0 the interval is too; bytes may be 0.
    positive = bool((own[np.isfinite(own)] > 0).all())
    return exponential(interval(np.log(own), rounds, level)) if positive else interval(own, rounds, level)


def _add_exponents(draft: Draft, target: str, quantity: str, curve: Curve, counts: Counts) -> None:
    """Add the exponent over all lengths and that of the tail, and of what is measured the overhead."""
    growth = counts.growth(target, quantity, level=draft.level, seed=draft.seed)
    assert growth is not None
    where = {"target": target, "quantity": quantity}
    if curve.counted:
        whole = local_exponents(curve.n[[0, -1]], curve.values[0][[0, -1]])[0]
        if np.isfinite(whole):
            draft.add("exponent", exact(float(whole), n=len(curve.lengths), unit="lengths"), **where, range="all")
        draft.add("exponent", _named(_rounded(growth.exponent), target, quantity), **where, range="tail")
        return
    draft.add("exponent", _named(growth.exponent, target, quantity), **where, range="all")
    if growth.overhead is not None and isinstance(growth.exponent, Interval) and quantity == "time":
        draft.add("overhead", growth.overhead, **where)
    tail = curve.n >= (np.inf if growth.tail_from is None else growth.tail_from)
    if tail.sum() >= FEWEST_SIZES:
        own = seconds_exponent(curve.n[tail], curve.values[:, tail], level=draft.level, seed=draft.seed)
        draft.add("exponent", _named(own.exponent, target, quantity), **where, range="tail")
    elif isinstance(growth.exponent, Interval):
        why = f"{quantity} of {target} has no tail of {FEWEST_SIZES} lengths at which its overhead is below a fifth."
        draft.add("exponent", Undefined(why, "no-tail"), **where, range="tail")


def _named(found: Interval | Undefined, target: str, quantity: str) -> Interval | Undefined:
    """Name target and quantity in the reason why there is no exponent."""
    if isinstance(found, Interval):
        return found
    where = {"target": target, "quantity": quantity}
    return Undefined(f"No exponent of {quantity} of {target}: {found.why}.", found.id, where)


def _rounded(found: Interval | Undefined) -> Interval | Undefined:
    """Return an exponent of counts to a thousandth: overheads leave it that far from its limit."""
    if isinstance(found, Undefined) or found.unit != "lengths" or found.low is None or found.high is None:
        return found
    return replace(found, value=round(found.value, 3), low=round(found.low, 3), high=round(found.high, 3))


def _add_excess(draft: Draft, target: str, quantity: str, counts: Counts) -> None:
    growth = counts.growth(target, quantity, level=draft.level, seed=draft.seed, claimed=True)
    if growth is not None:
        law = counts.claims[target, quantity].text
        found = _named(_rounded(growth.exponent), target, quantity)
        draft.add("excess_exponent", found, target=target, quantity=quantity, claim=law)


def _pairs(draft: Draft, counts: Counts) -> Iterator[tuple[str, str, str, tuple[int, int], Crossovers]]:
    """Yield where two targets cost the same, quantity by quantity."""
    names = counts.targets
    pairs = combinations(names, 2) if len(names) <= MOST_PAIRED else ((name, names[0]) for name in names[1:])
    for target, against in pairs:
        for quantity in VALUES:
            one, other = counts.curve(target, quantity), counts.curve(against, quantity)
            if one is None or other is None or one.counted != other.counted:
                continue
            common = [n for n in one.lengths if n in other.lengths]
            first, second = (_at(curve, common) for curve in (one, other))
            known = np.isfinite(first).any(0) & np.isfinite(second).any(0) & (first > 0).any(0) & (second > 0).any(0)
            if known.sum() < 2:
                text = f"{target} and {against} have no two lengths of {quantity} in common: no crossover."
                draft.warn("crossover", text, target=target, against=against, quantity=quantity)
                continue
            first, second = first[:, known], second[:, known]
            parts = (first[0], second[0]) if one.counted else (first, second)
            n = np.array(common)[known]
            found = crossovers(n, *parts, level=draft.level, seed=draft.seed)
            yield target, against, quantity, (int(n[0]), int(n[-1])), found


def _at(curve: Curve, lengths: list[int]) -> Floats:
    return curve.values[:, [curve.lengths.index(n) for n in lengths]]


def _add_crossovers(
    draft: Draft, target: str, against: str, quantity: str, ends: tuple[int, int], found: Crossovers
) -> None:
    where = {"target": target, "against": against, "quantity": quantity}
    for number, crossing in enumerate(found.crossings, 1):
        further = {"crossing": number} if len(found.crossings) > 1 else {}
        if not crossing.decided:
            low, high = crossing.n.low, crossing.n.high
            reach = "" if low is None or high is None else f", between {low:,.0f} and {high:,.0f}"
            text = f"The length at which {target} and {against} take equal {quantity} is uncertain{reach}."
            draft.warn("crossover", text, **where, **further)
        draft.add("crossover", crossing.n, **where, **further)
    for n, ratio in zip(ends, found.ratios, strict=True):
        draft.add("ratio_at", ratio, **where, n=n)
