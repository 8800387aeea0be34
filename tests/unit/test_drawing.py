"""Are charts drawn in a child as they would be here, and the next one after one that ended it?"""

import dataclasses
import re
from typing import Any

import pytest
import vl_convert

from audits.core.records import Report
from audits.report.charts.theme import CONFIG
from audits.report.pages import drawing
from audits.report.pages.figures import draw, drawable, sized

_COUNTED = re.compile(r"(gradient|clip)_?\d+")
SPEC: dict[str, Any] = {
    "data": {"values": [{"a": 1.0, "b": 2.0}]},
    "mark": "point",
    "encoding": {"x": {"field": "a", "type": "quantitative"}},
}


def test_a_child_draws_byte_for_byte_what_the_library_draws_here(sample_report: Report) -> None:
    grounds = ({"background": "red"}, {"background": None}, {"config": {"background": "transparent"}})
    for spec in [drawable(sized(figure.spec)) for figure in sample_report.figures] + [SPEC | one for one in grounds]:
        svg, png = drawing.picture(spec, CONFIG)
        drawn = vl_convert.vegalite_to_svg(spec, config=CONFIG, allowed_base_urls=[])
        # The library counts what it has drawn, and gives gradients and clips these numbers.
        assert _COUNTED.sub(r"\1", svg) == _COUNTED.sub(r"\1", drawn)
        white = {**CONFIG, "background": "white"}
        assert png == vl_convert.vegalite_to_png(spec, config=white, scale=2, allowed_base_urls=[])


def test_a_chart_after_one_that_ended_the_child_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawing.picture(SPEC, CONFIG)
    with pytest.raises(ValueError, match="memory, or ends the program"):
        drawing.picture({**SPEC, "width": 20_000, "height": 20_000}, CONFIG)
    assert drawing.picture(SPEC, CONFIG)[1] == before[1]


def test_what_one_chart_did_wrong_is_not_said_of_the_next() -> None:
    wrong = {**SPEC, "transform": [{"calculate": "datum.x.y.z", "as": "c"}]}
    with pytest.raises(ValueError, match="Cannot read"):
        drawing.picture(wrong, CONFIG)
    drawing.picture(SPEC, CONFIG)


def test_the_same_report_gives_the_same_pictures(sample_report: Report) -> None:
    assert draw(sample_report) == draw(sample_report)


def test_columns_of_data_may_have_the_names_of_sizes(sample_report: Report) -> None:
    rows = [{"width": 10_000, "height": 10_000, "step": 10_000, "a": 1.0}]
    spec = {**SPEC, "data": {"values": rows}, "usermeta": {"width": 10_000}, "transform": []}
    draw(dataclasses.replace(sample_report, figures=(dataclasses.replace(sample_report.figures[0], spec=spec),)))
