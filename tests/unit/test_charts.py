"""The shared charts: valid, silent, the same bytes each time, and drawn from plain rows."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import vl_convert

from audits.core.records import Json
from audits.report.charts import Axis, bars, forest, heat_map, lines, points
from audits.report.charts.heat_map import NEUTRAL
from audits.report.charts.theme import CONFIG, MOST_SERIES, OKABE_ITO, UNDECIDED
from audits.report.pages.figures import sized

LAYERS = (-1, 0, 1, 2, "head")


def _lines(count, layers=LAYERS) -> list[dict[str, object]]:
    return [
        {"layer": layer, "group": f"g{place}", "value": 0.1 * place + 0.01, "low": 0.1 * place,
         "high": 0.1 * place + 0.03, "n": 9, "task": task}
        for place in range(count) for layer in layers for task in ("sid", "asr")
    ]  # fmt: skip


def _groups() -> list[dict[str, object]]:
    names = ("all", "accent=indian&age=60-79&gender=female", "accent=<script>")
    return [
        {"group": name, "value": 0.3 - 0.1 * place, "low": 0.1, "high": 0.4, "few": place == 1, "task": task}
        for place, name in enumerate(names)
        for task in ("sid", "asr")
    ]


def _lines_of(count, layers=LAYERS, facet=None) -> Json:
    value = Axis("value", "error rate", ".2f")
    return lines(
        _lines(count, layers), x=Axis("layer", "layer"), y=value, low="low", high="high", series="group",
        series_title="group", facet=facet,
    )  # fmt: skip


def _forest_of(rows, **options) -> Json:
    value = Axis("value", "error rate", ".2f")
    return forest(rows, label="group", value=value, low="low", high="high", reference=0.2, **options)


def _cells(diverging, faded=None) -> Json:
    rows = [
        {"to": a, "from": b, "value": place - 1.0, "open": place == 1}
        for place, (a, b) in enumerate(zip("abab", "aabb", strict=True))
    ]
    x, y = Axis("from", "added"), Axis("to", "hurt")
    return heat_map(rows, x=x, y=y, value=Axis("value", "interference", ".2f"), diverging=diverging, faded=faded)


CHARTS = {
    "lines": lambda: _lines_of(3),
    "lines over numbers": lambda: _lines_of(2, layers=(0, 1, 2)),
    "one line": lambda: _lines_of(1),
    "many lines": lambda: _lines_of(7),
    "lines in panels": lambda: _lines_of(3, facet="task"),
    "many lines in panels": lambda: _lines_of(6, facet="task"),
    "heat map": lambda: _cells(False),
    "diverging heat map": lambda: _cells(True, faded="open"),
    "forest": lambda: _forest_of(_groups()[::2], greyed="few"),
    "forest in panels": lambda: _forest_of(_groups(), facet="task", greyed="few"),
    "scatter": lambda: points(
        _groups()[::2], x=Axis("value", "error"), y=Axis("low", "gap"), label="group", order="value"
    ),
    "scatter in panels": lambda: points(
        _groups(), x=Axis("value", "error"), y=Axis("low", "gap"), label="group", facet="task"
    ),
    "bars": lambda: bars(_groups()[::2], label="group", value=Axis("value", "share")),
    "stacked bars": lambda: bars(
        _groups(), label="group", value=Axis("value", "share"), series="task", series_title="task"
    ),
}


def _keys(value) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


@pytest.mark.parametrize("name", CHARTS)
def test_compiles_without_a_warning(name, capfd) -> None:
    # Vega-Lite's warnings come from outside Python, straight to standard error.
    for spec in (CHARTS[name](), sized(CHARTS[name]())):
        assert "<svg" in vl_convert.vegalite_to_svg(spec, config=CONFIG, show_warnings=True)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", CHARTS)
def test_draws_marks(name) -> None:
    svg = vl_convert.vegalite_to_svg(sized(CHARTS[name]()))
    assert svg.count("mark-") > 4
    assert "NaN" not in svg
    assert "undefined" not in svg


@pytest.mark.parametrize("name", CHARTS)
def test_has_tooltips_and_no_colour_of_background_or_text(name) -> None:
    spec = CHARTS[name]()
    keys = set(_keys({key: value for key, value in spec.items() if key != "data"}))
    assert "tooltip" in keys
    assert not keys & {"background", "config", "labelColor", "titleColor", "usermeta"}


def test_the_same_rows_give_the_same_bytes_in_any_order() -> None:
    first = {name: json.dumps(draw()) for name, draw in CHARTS.items()}
    again = {name: json.dumps(CHARTS[name]()) for name in reversed(CHARTS)}
    assert first == again


def test_more_than_four_lines_become_small_multiples() -> None:
    assert "layer" in _lines_of(MOST_SERIES)
    assert _lines_of(MOST_SERIES + 1)["facet"]["field"] == "group"
    both = _lines_of(MOST_SERIES + 1, facet="task")
    assert both["facet"]["field"] == "panel"
    assert len(both["facet"]["sort"]) == 2 * (MOST_SERIES + 1)


def test_mixed_layers_are_steps_and_numbers_are_an_axis() -> None:
    mixed, numbers = _lines_of(2), _lines_of(2, layers=(0, 1, 2))
    assert mixed["layer"][0]["encoding"]["x"]["type"] == "ordinal"
    assert mixed["layer"][0]["encoding"]["x"]["sort"] == ["-1", "0", "1", "2", "head"]
    assert numbers["layer"][0]["encoding"]["x"]["type"] == "quantitative"


def test_colour_never_stands_alone() -> None:
    encoding = _lines_of(3)["layer"][2]["encoding"]
    assert encoding["color"]["field"] == encoding["shape"]["field"] == "group"


def test_a_diverging_scale_is_centred_on_zero() -> None:
    low, high = _cells(True)["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert low == -high == -2.0


def _map_of(*values, **options) -> Json:
    rows = [{"x": str(place), "y": "a", "value": value} for place, value in enumerate(values)]
    value = Axis("value", "word error rate", ".2f")
    return heat_map(rows, x=Axis("x", "x"), y=Axis("y", "y"), value=value, diverging=False, **options)


def test_cells_that_do_not_differ_to_the_digits_shown_have_one_neutral_tone() -> None:
    spec = _map_of(0.9961, 1.0, 1.0039)
    assert spec["layer"][0]["encoding"]["color"] == {"value": NEUTRAL}
    assert spec["title"]["text"] == "word error rate: 1.00 in all cells"
    svg = vl_convert.vegalite_to_svg(sized(spec))
    assert "gradient" not in svg
    assert "1.40" not in svg
    assert "scale" in _map_of(0.98, 1.0)["layer"][0]["encoding"]["color"]


def _labels(spec) -> list[str]:
    return re.findall(r">([\d.]+)</text>", vl_convert.vegalite_to_svg(sized(spec)))


@pytest.mark.parametrize("width", [1.0, 0.03, 0.0006, 0.00004])
def test_ticks_differ_however_small_the_range(width) -> None:
    rows = [{"x": 0.5 + share * width, "y": share, "n": ""} for share in (0.0, 0.3, 1.0)]
    spec = points(rows, x=Axis("x", "x", ".2f", zero=False), y=Axis("y", "y"), label="n")
    texts = [text for text in _labels(spec) if text.startswith("0.5") or width == 1.0]
    assert len(texts) > 2
    assert len(set(texts)) == len(texts)


def test_an_axis_of_whole_numbers_has_no_ticks_between_them() -> None:
    rows = [{"depth": depth, "share": 0.5, "name": "a"} for depth in (0.0, 1.0)]
    x, y = Axis("depth", "Depth", "d"), Axis("share", "Share", ends=(5.0, 6.0))
    spec = lines(rows, x=x, y=y, low="low", high="high", series="name", series_title="")
    texts = [text for text in _labels(spec) if text in ("0", "1")]
    assert texts == ["0", "1"], "a tick at 0.5 would be written 0 or 1"


def _named(rows) -> list[tuple[str, str] | None]:
    spec = points(rows, x=Axis("x", "x"), y=Axis("y", "y"), label="n")
    return [(row["name"], row["side"]) if "name" in row else None for row in spec["data"]["values"]]


def test_points_on_each_other_share_a_label_and_near_ones_stand_apart() -> None:
    places = ((0.5, 0.1), (0.5, 0.1), (0.5, 0.102), (0.9, 0.5))
    rows = [{"x": x, "y": y, "n": str(place)} for place, (x, y) in enumerate(places)]
    assert _named(rows) == [("0, 1, 2", "above"), None, None, ("3", "above")]
    rows[2]["y"] = 0.115
    assert _named(rows) == [("0, 1", "above"), None, ("2", "below"), ("3", "above")]
    svg = vl_convert.vegalite_to_svg(sized(points(rows, x=Axis("x", "x"), y=Axis("y", "y"), label="n")))
    assert ">0, 1</text>" in svg
    assert svg.count('aria-roledescription="point"') == 4


def test_a_long_name_without_room_is_left_to_the_tooltip() -> None:
    rows = [{"x": 0.5, "y": 0.5, "n": f"a name too long to join {place}"} for place in range(12)]
    found = [one[0] for one in _named(rows) if one]
    assert 0 < len(found) <= 6 and all(", " not in name for name in found)


@pytest.mark.parametrize(("shrunk", "resolved"), [(0.5, "shared"), (0.1, "independent")])
def test_panels_of_very_different_range_have_an_axis_each(shrunk, resolved) -> None:
    rows = [
        {"group": name, "value": size * value, "low": 0.0, "high": 2 * size * value, "few": False, "panel": str(size)}
        for size in (1.0, shrunk) for name, value in (("a", 0.2), ("b", 0.4))
    ]  # fmt: skip
    value = Axis("value", "gap", ".2f")
    spec = forest(rows, label="group", value=value, low="low", high="high", reference=0.0, facet="panel")
    assert spec["resolve"]["scale"]["x"] == resolved
    titles = {layer["encoding"]["x"]["title"] for view in spec["vconcat"] for layer in view["layer"][:1]}
    assert titles == {"gap" if resolved == "shared" else "gap (scales differ)"}


def test_greyed_marks_are_grey() -> None:
    svg = vl_convert.vegalite_to_svg(sized(_forest_of(_groups()[::2], greyed="few")))
    points = re.findall(r'aria-roledescription="point"[^>]*? fill="(\S+?)"', svg)
    assert sorted(points) == ["#3B8EDE", "#3B8EDE", UNDECIDED]
    assert 'opacity="0.5"' not in svg


def _luminance(colour) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("paper", ["#ffffff", "#14171b"])
@pytest.mark.parametrize("colour", [OKABE_ITO[0], UNDECIDED])
def test_thin_marks_have_contrast_on_light_and_dark_pages(paper, colour) -> None:
    one, two = sorted((_luminance(paper), _luminance(colour)))
    assert (two + 0.05) / (one + 0.05) >= 3.3


def test_a_legend_title_is_never_cut() -> None:
    title = "a long title of a legend that says what the numbers are"
    rows = [{"x": str(place), "y": "a", "value": place} for place in range(3)]
    spec = heat_map(rows, x=Axis("x", "x"), y=Axis("y", "y"), value=Axis("value", title), diverging=False)
    legend = spec["layer"][0]["encoding"]["color"]["legend"]
    assert legend["titleLimit"] == 0
    assert " ".join(legend["title"]) == title
    assert "…" not in vl_convert.vegalite_to_svg(sized(spec))


@pytest.mark.parametrize("facet", [None, "task"])
def test_a_rule_stands_at_its_place_with_its_name(facet) -> None:
    rows = _lines(2, layers=(0, 1, 2))
    value = Axis("value", "error rate", ".2f")
    options = {"low": "low", "high": "high", "series": "group", "series_title": "group", "facet": facet}
    spec = lines(rows, x=Axis("layer", "layer"), y=value, rule=(4.0, "ceiling"), **options)
    svg = vl_convert.vegalite_to_svg(sized(spec))
    panels = 2 if facet else 1
    assert svg.count(">ceiling</text>") == panels
    assert svg.count("stroke-dasharray") >= panels
    assert ">4.0</text>" in svg or ">4</text>" in svg


def test_undecided_cells_take_no_colour_and_do_not_stretch_the_scale() -> None:
    rows = [
        {"x": "a", "y": "a", "value": 0.1, "open": False},
        {"x": "b", "y": "a", "value": 9.0, "open": True},
        {"x": "c", "y": "a", "value": 0.0, "open": False},
    ]
    value = Axis("value", "v")
    spec = heat_map(rows, x=Axis("x", "x"), y=Axis("y", "y"), value=value, diverging=True, faded="open")
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == [-0.1, 0.1]
    assert spec["layer"][0]["transform"][0]["filter"] == '!(datum["open"])'
    assert "color" not in spec["layer"][1]["encoding"]


def test_a_forest_is_sorted_and_holds_its_reference() -> None:
    spec = _forest_of(_groups()[::2])
    assert [row["group"] for row in spec["data"]["values"]] == [
        "all",
        "accent=indian&age=60-79&gender=female",
        "accent=<script>",
    ]
    assert {row["reference"] for row in spec["data"]["values"]} == {0.2}


def test_a_forest_that_is_not_ranked_keeps_the_order_of_its_rows() -> None:
    spec = _forest_of(_groups()[::-2], ranked=False)
    assert [row["group"] for row in spec["data"]["values"]] == [row["group"] for row in _groups()[::-2]]
    assert spec["layer"][1]["encoding"]["y"]["sort"][-1] == "all"


def test_a_forest_without_an_interval_keeps_its_point() -> None:
    rows = [{"group": "a", "value": 0.2, "low": None, "high": None}, *_groups()[:1]]
    svg = vl_convert.vegalite_to_svg(sized(_forest_of(rows)))
    assert svg.count('aria-roledescription="point"') == 2


def test_a_long_intersection_gets_room_for_its_lines() -> None:
    short = bars([{"g": "all", "n": 3}], label="g", value=Axis("n", "n"))
    long = bars([{"g": "accent=indian&age=60-79&gender=female", "n": 3}], label="g", value=Axis("n", "n"))
    assert long["height"] > short["height"]
    svg = vl_convert.vegalite_to_svg(sized(long))
    assert "accent=indian&amp;</tspan>" in svg


def test_numpy_numbers_and_long_decimals_become_plain() -> None:
    np = pytest.importorskip("numpy")
    spec = bars([{"g": "a", "n": np.float64(1 / 3)}, {"g": "b", "n": np.int64(2)}], label="g", value=Axis("n", "n"))
    assert spec["data"]["values"] == [{"g": "a", "n": 0.333333}, {"g": "b", "n": 2}]
    json.dumps(spec)


def test_names_with_vega_syntax_are_data() -> None:
    rows = [{"group": "x'] + datum[\"y", "value": 0.1, "low": 0.0, "high": 0.2, "few": False}]
    assert "<svg" in vl_convert.vegalite_to_svg(sized(_forest_of(rows, greyed="few")))


def test_an_empty_chart_is_still_a_chart() -> None:
    assert _forest_of([], facet="task")["data"] == {"values": []}
    assert "facet" not in lines(
        [], x=Axis("x", "x"), y=Axis("y", "y"), low="l", high="h", series="s", series_title="s", facet="f"
    )


def test_drawing_leaves_altair_out_of_the_import() -> None:
    probe = "import sys, audits.report.charts; sys.exit('altair' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
