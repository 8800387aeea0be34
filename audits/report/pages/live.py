"""Charts as the page draws them: compiled from Vega-Lite to Vega, so that it carries the drawing library alone.

The compiler would be a third of the page. What it needs to know of the width is left open: the script fills in the
width of the page, and how many small multiples stand side by side.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from audits.core.records import Json, Report
from audits.report.charts.theme import CONFIG
from audits.report.pages import content
from audits.report.pages.drawing import compiled
from audits.report.pages.figures import drawable, sized
from audits.report.pages.packing import inlined

Shape = Literal["alone", "stack", "facet", "grid"]
SPECIFICATIONS = 260_000
"""Most bytes of all specifications of interactive charts."""

COLUMNS = "miles_columns"
"""Signal of how many panels stand side by side."""
_DIVIDED = re.compile(r"/ \d+\)$")
_LEAST = re.compile(r", \d+\)$")


@dataclass(frozen=True, slots=True)
class Live:
    """An interactive chart: its Vega specification, how it follows the width, and its most panels side by side."""

    spec: Json
    shape: Shape
    columns: int

    def to_json(self) -> Json:
        """Return it for the script."""
        return {"spec": self.spec, "shape": self.shape, "columns": self.columns}


def live_charts(report: Report) -> tuple[dict[str, Live], Json]:
    """Return the charts that fit the page by the stem of their file, the smallest first, and the style they share.

    A chart that cannot be compiled, or not within the room, is left to its picture.
    """
    found = dict(_compiled(report))
    style = next(iter(found.values())).spec.get("config", {}) if found else {}
    charts = {stem: _without(chart, style) for stem, chart in found.items()}
    kept, room = {}, SPECIFICATIONS
    for size, stem in sorted((len(inlined(chart.to_json())), stem) for stem, chart in charts.items()):
        room -= size
        if room < 0:
            break
        kept[stem] = charts[stem]
    return kept, style


def _compiled(report: Report) -> Iterator[tuple[str, Live]]:
    for figure in report.figures:
        spec = drawable(content.chart(figure))
        if len(inlined(spec)) > SPECIFICATIONS:
            continue
        try:
            # Marks need no words of their own: the chart is one image to a screen reader, told by title and caption.
            chart = compiled(sized(spec), {**CONFIG, "aria": False})
        except ValueError:
            continue
        yield figure.file, fluid(spec, chart)


def fluid(spec: Json, chart: Json) -> Live:
    """Return a compiled chart with the number of its columns as a signal, where it has panels side by side."""
    if "facet" in spec and isinstance(spec.get("spec"), dict):
        shape: Shape = "facet"
    elif isinstance(spec.get("concat"), list):
        shape = "grid"
    else:
        shape = "stack" if isinstance(spec.get("vconcat"), list) else "alone"
    named = spec.get("columns")
    columns = named if isinstance(named, int) and named > 0 else 1
    bare = {key: value for key, value in chart.items() if key != "$schema"}
    return Live(_open(bare, columns) if shape in ("facet", "grid") else bare, shape, columns)


def _open(chart: Json, columns: int) -> Json:
    """Replace the number of columns by its signal: in the layout, and where rows and columns of axes are counted."""
    signals = [*chart.get("signals", []), {"name": COLUMNS, "value": columns}]
    layout = {**chart.get("layout", {}), "columns": {"signal": COLUMNS}}
    data = [_counted(source) for source in chart.get("data", [])]
    return {**chart, "signals": signals, "layout": layout, "data": data}


def _counted(source: Json) -> Json:
    pattern = {"facet_domain_row": _DIVIDED, "facet_domain_column": _LEAST}.get(str(source.get("name")))
    if pattern is None:
        return source
    steps: list[Any] = []
    for step in source.get("transform", []):
        stop = step.get("stop")
        if step.get("type") == "sequence" and isinstance(stop, dict) and isinstance(stop.get("signal"), str):
            step = {**step, "stop": {"signal": pattern.sub(lambda end: f"{end[0][:2]}{COLUMNS})", stop["signal"])}}
        steps.append(step)
    return {**source, "transform": steps}


def _without(chart: Live, style: Json) -> Live:
    """Return a chart without the style that all charts share; one with a style of its own keeps it."""
    if chart.spec.get("config", {}) != style:
        return chart
    return Live({key: value for key, value in chart.spec.items() if key != "config"}, chart.shape, chart.columns)
