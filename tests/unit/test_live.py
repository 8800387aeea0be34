"""Charts of the page: compiled once, and as wide, and with as many panels side by side, as the page has room for."""

import json
from dataclasses import replace
from typing import Any

from audits.core.records import Figure, Report
from audits.report.pages import live
from audits.report.pages.drawing import compiled
from audits.report.pages.figures import sized
from audits.report.pages.live import COLUMNS, SPECIFICATIONS, Live, fluid, live_charts

ROWS = [{"g": name, "a": place, "b": 2 * place} for place, name in enumerate("uvw")]
SIDES = {"x": {"field": "a", "type": "quantitative"}, "y": {"field": "b", "type": "quantitative"}}
PANEL: dict[str, Any] = {"mark": "point", "encoding": SIDES}
DATA: dict[str, Any] = {"data": {"values": ROWS}}
FACET: dict[str, Any] = {**DATA, "facet": {"field": "g"}, "columns": 3, "spec": {**PANEL, "width": 190, "height": 90}}


def _fluid(spec: dict[str, Any]) -> Live:
    return fluid(spec, compiled(sized(spec), {}))


def test_small_multiples_leave_the_number_of_columns_open() -> None:
    chart = _fluid(FACET)
    assert (chart.shape, chart.columns) == ("facet", 3)
    assert chart.spec["layout"]["columns"] == {"signal": COLUMNS}
    assert {"name": COLUMNS, "value": 3} in chart.spec["signals"]
    stops = [
        source["transform"][0]["stop"]["signal"] for source in chart.spec["data"] if "facet_domain_" in source["name"]
    ]
    assert stops == [
        f'ceil(length(data("facet_domain")) / {COLUMNS})',
        f'min(length(data("facet_domain")), {COLUMNS})',
    ]
    assert "child_width" in [signal["name"] for signal in chart.spec["signals"]]


def test_each_shape_has_a_width_to_fill_in() -> None:
    alone = _fluid({**DATA, **PANEL, "width": "container"})
    assert (alone.shape, alone.spec["width"]) == ("alone", 640)
    stack = _fluid({**DATA, "vconcat": [{**PANEL, "width": 440}, {**PANEL, "width": 440}]})
    names = [signal["name"] for signal in stack.spec.get("signals", [])]
    assert stack.shape == "stack" and ("width" in stack.spec or any(name.endswith("idth") for name in names))
    grid = _fluid({**DATA, "concat": [PANEL, PANEL], "columns": 2})
    assert (grid.shape, grid.spec["layout"]["columns"]) == ("grid", {"signal": COLUMNS})
    assert COLUMNS not in json.dumps(alone.spec) + json.dumps(stack.spec)


def test_a_long_title_along_y_stands_in_lines_in_small_panels_alone() -> None:
    title = "Gap, worst against best group"
    up = {"field": "b", "type": "quantitative", "axis": {"title": title}}
    layers = [{"mark": "point", "encoding": {"y": up}}, {"mark": "rule", "encoding": {}}]
    small = sized({"facet": {"field": "c"}, "spec": {"layer": layers}, "columns": 2})
    assert small["spec"]["layer"][0]["encoding"]["y"]["axis"]["title"] == ["Gap, worst against", "best group"]
    assert small["spec"]["layer"][1] == layers[1] and layers[0]["encoding"]["y"]["axis"]["title"] == title
    assert sized({"layer": layers, "width": "container"})["layer"] == layers


def test_small_multiples_have_an_axis_each_where_their_last_row_is_not_full() -> None:
    def drawn(panels: list[str]) -> dict[str, Any]:
        facet = {"field": "c", "sort": panels}
        return sized({"facet": facet, "spec": {"layer": []}, "columns": 2, "resolve": {"scale": {"y": "independent"}}})

    own = {"scale": {"y": "independent"}, "axis": {"x": "independent"}}
    assert drawn(["a", "b", "c"])["resolve"] == own
    assert "axis" not in drawn(["a", "b"])["resolve"] and "axis" not in drawn(["a"])["resolve"]


def _with(report: Report, *specs: dict[str, Any]) -> Report:
    figures = [Figure(id=f"f{n}", title="t", caption="c", file=f"f{n}", spec=spec) for n, spec in enumerate(specs)]
    return replace(report, figures=tuple(figures))


def test_charts_share_their_style_and_one_with_its_own_keeps_it(sample_report: Report) -> None:
    plain = {**DATA, **PANEL, "width": "container"}
    charts, style = live_charts(_with(sample_report, plain, {**plain, "config": {"axis": {"labelFontSize": 30}}}))
    assert style["axis"]["labelFontSize"] == 12
    assert "config" not in charts["f0"].spec
    assert charts["f1"].spec["config"]["axis"]["labelFontSize"] == 30


def test_what_cannot_be_compiled_or_is_too_large_is_left_out(sample_report: Report, monkeypatch: Any) -> None:
    plain = {**DATA, **PANEL, "width": "container"}
    large = {**plain, "data": {"values": [{"a": 1, "b": 1, "g": "x" * SPECIFICATIONS}]}}
    report = _with(sample_report, large, {"mark": 3, **DATA}, plain, {**plain, "height": 500})
    assert set(live_charts(report)[0]) == {"f2", "f3"}
    monkeypatch.setattr(live, "SPECIFICATIONS", len(json.dumps(live_charts(report)[0]["f2"].to_json())) + 50)
    assert set(live_charts(report)[0]) == {"f2"}
