"""The findings: which claims hold, where memory is quadratic, where a state leaks, and where seconds leave operations.

Counts decide about a claim, since they reach lengths that nobody can run. Of seconds nothing is said but whether they
are consistent with a claim, and nothing at all where they were not steady.
"""

import re
from math import inf, isfinite

import numpy as np

from audits.core.context import Claim, Draft
from audits.core.intervals import Interval
from audits.core.numbers import point
from audits.core.records import Estimate, Severity
from audits.core.wording import first_of, fitting, labelled, many, span
from audits.scaling.claim_verdicts import Verdict, verdict
from audits.scaling.counts import LENGTH, Counts, Curve
from audits.scaling.growth_claims import Law
from audits.scaling.growth_fits import Growth, local_exponents

WORDS = {
    "operations": "operations",
    "bytes_moved": "bytes moved",
    "memory": "peak memory",
    "state": "decode state",
    "time": "time",
    "wall_time": "wall time",
    "device_memory": "memory of the device",
}
"""Quantities, as they stand before "of a target"."""
_SEVERITIES: dict[str, Severity] = {"refuted": "high", "undecided": "low", "confirmed": "info"}
SHOWN = 4
_PRODUCTS = re.compile(
    r"::|linalg_(?!check)|svd|eig|lstsq|_qr|rnn|lstm|gru|attention|trilinear|euclidean|_mm$|convolution"
)
"""Names of operators that multiply matrices inside: without a formula, operations are a lower bound."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings and set the answer."""
    if counts.contention is not None and counts.contention.contended:
        draft.find(
            "scaling.contention",
            "low",
            f"{counts.contention.text} No claim about time is judged.",
            headline="Seconds were not steady: others may have used this machine.",
            how_sure="A fixed product of matrices before each cell, and two clocks.",
        )
    for target, quantity in counts.claims:
        _find_claim(draft, counts, target, quantity)
    for target in counts.targets:
        _find_quadratic(draft, counts, target)
        _find_leak(draft, counts, target)
        _find_departure(draft, counts, target)
        _find_uncounted(draft, counts, target)
    _conclude(draft, counts)


def _find_claim(draft: Draft, counts: Counts, target: str, quantity: str) -> None:
    law = counts.claims[target, quantity]
    curve = counts.curve(target, quantity)
    growth = counts.growth(target, quantity, level=draft.level, seed=draft.seed, claimed=True)
    if curve is None or growth is None:
        return
    clocked = quantity == "time" and counts.contention is not None and counts.contention.contended
    found = verdict(growth, law, counts.tolerance, contended=clocked)
    missed = _missed(counts, target) if quantity == "operations" and found.word == "confirmed" else ""
    found = Verdict("undecided") if missed else found
    excess = draft.get("excess_exponent", target=target, quantity=quantity, claim=law.text)
    tail = draft.get("exponent", target=target, quantity=quantity, range="tail") or draft.get(
        "exponent", target=target, quantity=quantity, range="all"
    )
    severity = _SEVERITIES[found.word]
    draft.find(
        "scaling.claim",
        "medium" if severity == "high" and not curve.counted else severity,
        missed or _reasons(found, growth, curve, counts, clocked),
        [tail, excess],
        headline=_headline(target, quantity, law, found, growth, tail, curve),
        how_sure=_how_sure(curve),
        target=target,
        quantity=quantity,
        verdict=found.word,
    )


def _missed(counts: Counts, target: str) -> str:
    """Say which operators have no formula although they may multiply matrices; empty where none."""
    one = counts.uncounted.get(target)
    names = [name for name in (one.operators if one else ()) if _PRODUCTS.search(name)]
    return (
        f"Operations of {first_of(names, 4)} are not counted, so that these are the least there are." if names else ""
    )


def _headline(
    target: str, quantity: str, law: Law, found: Verdict, growth: Growth, tail: Estimate | None, curve: Curve
) -> str:
    what = f"{WORDS[quantity].capitalize()} of {target}"
    several = quantity in ("operations", "bytes_moved")
    shown = "" if tail is None else f": exponent {_span(tail)}"
    if found.word == "undecided":
        # An exponent that has not settled, or is of a length that was not asked for, is no answer.
        shown = shown if not curve.counted else ""
        keep = "keep" if several else "keeps"
        return f"Whether {WORDS[quantity]} of {target} {keep} within {law.text} is undecided{shown}."
    if not curve.counted:
        middle = "is consistent with" if found.word == "confirmed" else "is not consistent with"
        return fitting(f"{what} {middle} the claimed {law.text}{shown}.", f"{what} {middle} {law.text}.")
    grows = "grow" if several else "grows"
    if found.word == "refuted":
        if growth.leading is not None and growth.leading.log > law.log and growth.leading.power == law.power:
            return f"{what} {grows} faster than the claimed {law.text}: as {growth.leading.text}."
        return f"{what} {grows} faster than the claimed {law.text}{shown}."
    middle = f"{grows} more slowly than the claimed" if found.slower else f"{grows} as claimed,"
    return f"{what} {middle} {law.text}{shown}."


def _reasons(found: Verdict, growth: Growth, curve: Curve, counts: Counts, contended: bool) -> str:
    """Return why, and where it is undecided, what would decide."""
    last = f"{curve.lengths[-1]:,}"
    if found.word != "undecided":
        known = growth.tail_from is not None and (growth.leading is not None or not curve.counted)
        start = f" The leading term makes up four fifths from a length of {growth.tail_from:,.0f} on." if known else ""
        did = "Counted" if curve.counted else "Measured"
        return f"{did} up to a length of {last}, with a tolerance of {counts.tolerance:g}.{start}"
    if contended:
        return "Seconds were not steady, so that they decide nothing."
    if not curve.counted and len(curve.values) == 1:
        return "One round has no interval: measure several."
    if isinstance(growth.exponent, Interval) and growth.decided:
        return f"The interval holds both what the tolerance of {counts.tolerance:g} allows and what it does not."
    if growth.far_enough is None:
        return f"Up to {last} it cannot be told which term leads: go further."
    if growth.far_enough <= curve.lengths[-1]:
        return f"Local exponents still change at {last}: go further, or measure more rounds."
    return f"Lengths up to {last} are too short a range: go to {growth.far_enough:,.0f}."


def _how_sure(curve: Curve) -> str:
    if curve.counted:
        return "Counts are exact; the ends are the range of local exponents over the last factor of 16, and its limit."
    return "Bootstrap over whole rounds, of a fit with an overhead. Seconds of this machine prove no law."


def _find_quadratic(draft: Draft, counts: Counts, target: str) -> None:
    row = draft.get("exponent", target=target, quantity="memory", range="tail")
    law = counts.claims.get((target, "memory"))
    if row is None or row.low is None or row.low < 2 - counts.tolerance or law is not None:
        return
    rows = draft.select("memory", target=target)
    last = [one for one in rows if one.where["n"] in counts.asked][-1:] or rows[-1:]
    at = "".join(f" At {one.where['n']:,} it is {_bytes(one.value)}." for one in last)
    draft.find(
        "scaling.quadratic_memory",
        "low",
        f"Something of n by n is made, such as a table of attention or a mask.{at}",
        [row, *last],
        headline=f"Peak memory of {target} grows quadratically: exponent {_span(row)}.",
        how_sure="Counted." if counts.curves[target, "memory", LENGTH].counted else "Measured.",
        target=target,
    )


def _find_leak(draft: Draft, counts: Counts, target: str) -> None:
    """Say where a state that is claimed to be constant grows, or keeps storages that grow."""
    state, law = counts.curve(target, "state"), counts.claims.get((target, "state"))
    allocated = counts.allocated.get(target)
    if state is None or not state.counted or len(state.lengths) < 2:
        return
    held = allocated if allocated is not None and _slope(allocated) > _slope(state) + counts.tolerance else state
    constant = law is not None and law.text == "const"
    if held is state and not (constant and _slope(state) > counts.tolerance):
        return
    (first, second), (low, high) = state.lengths[-2:], held.values[0, -2:].tolist()
    rows = draft.select("state_bytes", target=target)
    row = ([one for one in rows if one.where["n"] in counts.asked] or rows)[-1]
    what = "state" if held is state else "storage of the state"
    draft.find(
        "scaling.leak",
        "high" if constant else "medium",
        f"From {first:,} to {second:,} tokens the {what} grows from {_bytes(low)} to {_bytes(high)}.",
        [draft.get("exponent", target=target, quantity="state", range="tail"), row],
        headline=f"The decode state of {target} keeps {_bytes((high - low) / (second - first))} of each token.",
        how_sure="Counted: bytes of all tensors that can be reached from the state.",
        target=target,
    )


def _slope(curve: Curve) -> float:
    return float(np.nan_to_num(local_exponents(curve.n, curve.values[0])[-1]))


def _find_departure(draft: Draft, counts: Counts, target: str) -> None:
    """Say where seconds grow otherwise than operations do at the same lengths."""
    time, counted = counts.curve(target, "time"), counts.curve(target, "operations")
    row = draft.get("exponent", target=target, quantity="time", range="tail")
    if time is None or counted is None or not counted.counted or row is None or row.low is None or row.high is None:
        return
    local = local_exponents(counted.n, counted.values[0]).tolist()
    slopes = {n: slope for n, slope in zip(counted.lengths[1:], local, strict=True) if isfinite(slope)}
    growth = counts.growth(target, "time", level=draft.level, seed=draft.seed)
    start = inf if growth is None or growth.tail_from is None else growth.tail_from
    there = [slopes[n] for n in time.lengths[1:] if n in slopes and n > start]
    contended = counts.contention is not None and counts.contention.contended
    if contended or not there:
        return
    if row.low <= max(there) + counts.tolerance and row.high >= min(there) - counts.tolerance:
        return
    rows = [draft.get("local_exponent", target=target, quantity="time", n=n) for n in time.lengths[1:] if n in slopes]
    leaves = [
        one for one in rows if one is not None and abs(one.value - slopes[int(one.where["n"])]) > counts.tolerance
    ]
    at = first_of([f"{one.where['n']:,}" for one in leaves], 6) or "none alone"
    draft.find(
        "scaling.time_not_operations",
        "info",
        f"Operations have {min(there):.2f} to {max(there):.2f} at these lengths. Seconds leave them up to: {at}. "
        "Overhead, caches, allocation and elementwise work take time, and are no operations.",
        [row, *leaves[:SHOWN]],
        headline=f"Seconds of {target} do not follow its operations: exponent {span(row)}.",
        how_sure=row.method,
        target=target,
    )


def _find_uncounted(draft: Draft, counts: Counts, target: str) -> None:
    one = counts.uncounted.get(target)
    if one is None or not one.operators or not one.calls:
        return
    names = sorted(one.operators, key=lambda name: -one.operators[name])
    without, row = sum(one.operators.values()), draft.select("operations", target=target)[-1:]
    nothing = not row or row[0].value == 0
    draft.find(
        "scaling.uncounted",
        "low" if nothing else "info",
        f"Among them {first_of([f'{name} ({one.operators[name]:,})' for name in names], 6)}. Elementwise work is seen "
        "in bytes moved.",
        headline=f"Operations of {target} leave out {without:,} of {one.calls:,} calls: they have no formula.",
        how_sure="Counted at the longest length that was asked for.",
        target=target,
    )


def _span(row: Estimate) -> str:
    """Return an exponent with its interval, alone where both ends are the same."""
    return point(row) if row.low == row.high else span(row)


def _bytes(count: float) -> str:
    """Return a number of bytes in words.

    >>> _bytes(256), _bytes(34_426_847_232)
    ('256 bytes', '32.1 GiB')
    """
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.3g} {unit}"
    return f"{count:.4g} bytes"


def _conclude(draft: Draft, counts: Counts) -> None:
    claims = [claim for claim in draft.by_severity() if claim.id == "scaling.claim"]
    by_word = {word: [one for one in claims if one.where["verdict"] == word] for word in _SEVERITIES}
    leading = draft.leading(without=("scaling.uncounted",)) or draft.select("exponent", range="tail")
    draft.conclude(
        _title(draft, counts, by_word),
        numbers=[(row, labelled(row, "target", "against", "quantity", "n")) for row in leading],
        may=[one.headline for one in (*by_word["refuted"], *by_word["confirmed"])][:8] or _exponents(draft),
        may_not=_may_not(counts, by_word),
    )


def _title(draft: Draft, counts: Counts, by_word: dict[str, list[Claim]]) -> str:
    refuted, undecided, confirmed = (by_word[word] for word in ("refuted", "undecided", "confirmed"))
    if refuted:
        return refuted[0].headline
    if undecided:
        return undecided[0].headline
    if confirmed:
        return confirmed[0].headline if len(confirmed) == 1 else f"All {len(confirmed)} claims hold."
    audited = many(len(counts.targets), "target", "targets")
    return next(iter(_exponents(draft)), f"The growth of {audited} cannot be told from these lengths.")


def _exponents(draft: Draft) -> list[str]:
    """Return exponents in words: in the tail where there are any, and of what was varied beside length."""
    rows = draft.select("exponent", range="tail") or draft.select("exponent")
    rows.sort(key=lambda row: row.where["quantity"] in ("bytes_moved", "device_memory", "wall_time"))
    said = []
    for row in rows[:8]:
        where, varied = row.where, row.where.get("variable")
        along = f" along {varied}" if varied else ""
        said.append(f"{WORDS[str(where['quantity'])].capitalize()} of {where['target']}{along}: exponent {_span(row)}.")
    return said


def _may_not(counts: Counts, by_word: dict[str, list[Claim]]) -> list[str]:
    timed = any(quantity == "time" for _, quantity, _ in counts.curves)
    said = ["That time grows with n and not with n log n, or the other way: no clock tells them apart."] * timed
    if any(curve.counted and curve.lengths[-1] > max(counts.asked) for curve in counts.curves.values()):
        said.append(f"Seconds or accuracy beyond {max(counts.asked):,}: only counts go further.")
    if by_word["undecided"]:
        said.append("Claims that are undecided, either way.")
    if timed and counts.mode not in ("decode", ""):
        said.append("How long the next token takes: that is --mode decode.")
    return said
