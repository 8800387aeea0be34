"""The charts of the audit; each answers the question in its title."""

import math
from collections.abc import Iterator, Sequence

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Figure
from audits.lipschitz.margins import Answer, rounded
from audits.lipschitz.measure import Counts
from audits.report.charts import Axis, bars, figure_of, forest, lines
from audits.statistics import clopper_pearson
from probes.classifiers.lipschitz_bound import LipschitzBound

_POINTS = 40
_DIGITS = 3
"""Significant digits of the numbers that a chart shows."""


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures: radii first, where one is above zero, since they are what a reader looks for."""
    if any(answer.radius > 0 for answer in counts.answers):
        yield _radii(counts.answers, draft.level)
    if any(layer.lower is not None for layer in counts.bound.layers):
        yield _layers(counts.bound)
    if counts.bound.stages and counts.bound.product > 0:
        yield _stages(counts.bound)


def _layers(bound: LipschitzBound) -> Figure:
    rows = [
        # Rounded away from the truth to the digits that the chart shows, so that it cannot round the other way.
        {
            "layer": layer.name,
            "bound": layer.bound if layer.method == "exact" else rounded(layer.bound, _DIGITS, up=True),
            "lower": rounded(layer.lower, _DIGITS),
            "kind": layer.kind,
            "how": layer.method,
        }
        for layer in bound.layers
        if layer.lower is not None
    ]
    spec = forest(
        rows,
        label="layer",
        value=Axis("bound", "Largest stretch of a change of the layer's input, l2", format=".3~g"),
        low="lower",
        high="bound",
        reference=1.0,
    )
    return figure_of(
        "layers",
        "How much can each layer stretch a change?",
        "The point is the proved bound; the line reaches down to a stretch that was attained, so the layer's "
        "norm lies on it. The rule at 1: left of it a layer shrinks every change.",
        spec,
    )


def _stages(bound: LipschitzBound) -> Figure:
    # Up, like every bound.
    whole = math.ceil(100 * math.log10(bound.product)) / 100
    rows = [{"part": stage.name, "orders": math.log10(stage.factor)} for stage in bound.stages]
    spec = bars(rows, label="part", value=Axis("orders", "Factor of the part, powers of ten", format=".2~f"))
    return figure_of(
        "parts",
        "Which parts of the network does the bound come from?",
        "The network in its order, cut wherever everything passes one place; a residual block is one part. The "
        f"bars add up to {whole:.2f}, the bound of the whole as a power of ten. Bars to the left "
        "make it smaller.",
        spec,
    )


def _radii(answers: Sequence[Answer], level: float) -> Figure:
    radii = sorted(answer.radius for answer in answers)
    count, largest = len(radii), radii[-1]
    rows = []
    for step in range(_POINTS + 1):
        # Down: no chart may show a radius that is larger than what its share was counted at.
        radius = rounded(largest * step / _POINTS, _DIGITS)
        # At radius 0 the right answers count, and nothing else.
        safe = sum(answer.correct and answer.radius >= radius for answer in answers)
        low, high = clopper_pearson(safe, count, level=level)
        rows.append(
            {"radius": radius, "share": safe / count, "low": low, "high": high, "images": safe, "all": "images"}
        )
    spec = lines(
        rows,
        x=Axis("radius", "Radius, l2 of pixels in [0, 1]", format=".3~g"),
        y=Axis("share", "Right, and proved within the radius", format=".2f"),
        low="low",
        high="high",
        series="all",
        series_title="",
    )
    return figure_of(
        "radii",
        "How many answers are proved, and how far?",
        "Share of images that are classified rightly and whose answer no change of that length can alter, "
        f"with {percent(level)} intervals (Clopper-Pearson). It says nothing of answers that are not proved.",
        spec,
    )
