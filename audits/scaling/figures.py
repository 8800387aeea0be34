"""The charts of the audit; each answers the question in its title."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure
from audits.report.charts import Axis, figure_of, forest, lines, points
from audits.scaling.counts import LENGTH, Counts, Curve
from audits.scaling.findings import WORDS
from audits.scaling.rounds import medians

LOG = {"zero": False, "scale": "log"}
MOST_PANELS = 12
N = Axis("n", "Length", "~s", kind="quantitative", **LOG)  # type: ignore[arg-type]
UNITS = {"operations": "Operations", "memory": "Peak bytes", "state": "Bytes of the decode state", "time": "Seconds"}


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures that the curves allow."""
    if any(curve.counted for curve in counts.curves.values()):
        yield _growth(counts)
    if draft.select("seconds"):
        yield _seconds(draft, counts)
    if claims := _over_claims(counts):
        yield claims
    if draft.select("local_exponent"):
        yield _slopes(draft)
    if any("variable" in row.where for row in draft.select("exponent")):
        yield _varied(draft)
    if trade := _trade_off(draft, counts):
        yield trade
    if draft.select("crossover"):
        yield _crossings(draft, counts)


def _middle(curve: Curve) -> list[float]:
    return [float(value) for value in (curve.values[0] if curve.counted else medians(curve.values))]


def _growth(counts: Counts) -> Figure:
    rows = [
        {"n": n, "value": value, "target": target, "quantity": WORDS[quantity]}
        for quantity in ("operations", "memory", "state")
        for target in counts.targets
        if (curve := counts.curve(target, quantity)) is not None and curve.counted
        for n, value in zip(curve.lengths, _middle(curve), strict=True)
        if value > 0
    ]
    several = len(counts.targets) > 4
    spec = lines(
        rows,
        x=N,
        y=Axis("value", "Operations or bytes", ".1~s", **LOG),  # type: ignore[arg-type]
        low="low",
        high="high",
        series="quantity" if several else "target",
        series_title="Quantity" if several else "Target",
        facet="target" if several else "quantity",
        own_scales=not several,
    )
    return figure_of(
        "growth",
        "How do counts grow with length?",
        "Counted without running anything. On logarithmic axes a power law is a straight line and its exponent "
        "the slope. A line that is not seen lies under another.",
        spec,
    )


def _seconds(draft: Draft, counts: Counts) -> Figure:
    rows = []
    for row in draft.select("seconds"):
        target = str(row.where["target"])
        shared = {"n": row.where["n"], "target": target}
        rows.append({**shared, "seconds": row.value, "low": row.low, "high": row.high, "kind": "measured"})
        growth = counts.growth(target, "time", level=draft.level, seed=draft.seed)
        curve = counts.curves[target, "time", LENGTH]
        if growth is not None and growth.fitted:
            fitted = growth.fitted[curve.lengths.index(int(row.where["n"]))]
            rows.append({**shared, "seconds": fitted, "low": None, "high": None, "kind": "fitted"})
    spec = lines(
        rows,
        x=N,
        y=Axis("seconds", "Seconds", ".1~e", **LOG),  # type: ignore[arg-type]
        low="low",
        high="high",
        series="kind",
        series_title="",
        facet="target",
    )
    return figure_of(
        "seconds",
        "How do seconds grow with length?",
        f"Median over rounds with {percent(draft.level)} intervals, and the fit of an overhead and a power of "
        "the length.",
        spec,
    )


def _over_claims(counts: Counts) -> Figure | None:
    rows = []
    for (target, quantity), law in list(counts.claims.items())[: MOST_PANELS * 2]:
        curve = counts.curve(target, quantity)
        if curve is None:
            continue
        ratios = np.array(_middle(curve)) / law.values(curve.n)
        known = np.isfinite(ratios) & (ratios > 0)
        if not known.any():
            continue
        for n, ratio in zip(curve.n[known], ratios[known] / (ratios[known][-1]), strict=True):
            rows.append(
                {
                    "n": int(n),
                    "ratio": float(ratio),
                    "target": target,
                    "quantity": f"{WORDS[quantity]}, claimed {law.text}",
                }
            )
    if not rows:
        return None
    spec = lines(
        rows,
        x=N,
        y=Axis("ratio", "Ratio to the claim", ".2~g", **LOG),  # type: ignore[arg-type]
        low="low",
        high="high",
        series="target",
        series_title="Target",
        facet="quantity",
        level=1.0,
    )
    return figure_of(
        "claims",
        "Does growth keep within the claims?",
        "What was counted or measured, divided by the claimed law and by its value at the last length. A line "
        "that becomes flat grows as claimed; one that still rises grows faster.",
        spec,
    )


def _slopes(draft: Draft) -> Figure:
    rows = [
        {
            "n": row.where["n"],
            "slope": row.value,
            "low": row.low,
            "high": row.high,
            "target": row.where["target"],
            "quantity": WORDS[str(row.where["quantity"])],
        }
        for row in draft.select("local_exponent")
        if row.where["quantity"] not in ("wall_time", "device_memory")
    ]
    several = len({row["target"] for row in rows}) > 4
    spec = lines(
        rows,
        x=N,
        y=Axis("slope", "Local exponent", ".1f"),
        low="low",
        high="high",
        series="quantity" if several else "target",
        series_title="Quantity" if several else "Target",
        facet="target" if several else "quantity",
    )
    return figure_of(
        "slopes",
        "Has the exponent settled?",
        "Slope between each length and the one before. A claim is about where it runs to, which a single "
        "exponent over all lengths hides.",
        spec,
    )


def _varied(draft: Draft) -> Figure:
    rows = [
        {
            "exponent": row.value,
            "low": row.low,
            "high": row.high,
            "along": f"{row.where['target']}, {row.where['variable']}",
            "quantity": WORDS[str(row.where["quantity"])],
        }
        for row in draft.select("exponent")
        if "variable" in row.where
    ]
    spec = forest(
        rows,
        label="along",
        value=Axis("exponent", "Exponent", ".1f"),
        low="low",
        high="high",
        reference=1.0,
        facet="quantity",
    )
    return figure_of(
        "varied",
        "How do counts grow with width and batch?",
        "Exponents at the longest length asked for; with length=width both grow together. The ends are "
        "the range of local exponents.",
        spec,
    )


def _trade_off(draft: Draft, counts: Counts) -> Figure | None:
    """Return the bytes of the decode state against the seconds of the next token, at the longest common length."""
    rows: list[dict[str, Any]] = []
    for row in draft.select("seconds") if counts.mode == "decode" else ():
        state = draft.get("state_bytes", target=row.where["target"], n=row.where["n"])
        if state is not None and state.value > 0:
            rows.append(
                {
                    "target": row.where["target"],
                    "n": int(row.where["n"]),
                    "state": state.value,
                    "seconds": row.value,
                    "seconds_low": row.low,
                    "seconds_high": row.high,
                }
            )
    common = [n for n in {row["n"] for row in rows} if len([1 for row in rows if row["n"] == n]) > 1]
    if not common:
        return None
    spec = points(
        [row for row in rows if row["n"] == max(common)],
        x=Axis("state", "Bytes of the decode state", ".2~s", **LOG),  # type: ignore[arg-type]
        y=Axis("seconds", "Seconds of the next token", ".1~e", **LOG),  # type: ignore[arg-type]
        label="target",
    )
    return figure_of(
        "state-time", "What does a small state cost in time?", f"Each target after {max(common):,} tokens.", spec
    )


def _crossings(draft: Draft, counts: Counts) -> Figure:
    quantity = (
        "time" if draft.select("crossover", quantity="time") else str(draft.select("crossover")[0].where["quantity"])
    )
    pairs = {
        (str(row.where["target"]), str(row.where["against"])): row
        for row in draft.select("crossover", quantity=quantity)
    }
    rows = []
    for one, other in list(pairs)[:MOST_PANELS]:
        first, second = counts.curves[one, quantity, LENGTH], counts.curves[other, quantity, LENGTH]
        left, right = (dict(zip(curve.lengths, _middle(curve), strict=True)) for curve in (first, second))
        rows += [
            {"n": n, "ratio": left[n] / right[n], "pair": f"{one} by {other}"}
            for n in first.lengths
            if n in right and left[n] > 0 and right[n] > 0
        ]
    spec = lines(
        rows,
        x=N,
        y=Axis("ratio", f"Ratio of {WORDS[quantity]}", ".2~g", **LOG),  # type: ignore[arg-type]
        low="low",
        high="high",
        series="pair",
        series_title="Targets",
        level=1.0,
    )
    return figure_of(
        "crossovers",
        "From which length on is which target cheaper?",
        f"Ratio of {WORDS[quantity]} by length; at 1 both cost the same.",
        spec,
    )
