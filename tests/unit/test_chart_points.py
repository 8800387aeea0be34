"""Charts of points with intervals both ways, and of single things by their distance."""

import json

import pytest
import vl_convert

from audits.report.charts import Axis, curves, points, texts
from audits.report.charts.labels import Side, box_of
from audits.report.charts.theme import CONFIG, PHONE_WIDTH
from audits.report.pages.figures import sized

X, Y = Axis("x", "Across", ".2f", zero=False), Axis("y", "Up", ".2f", zero=False)


def point(name, x, y, **more) -> dict:
    ends = {"x_low": x - 0.01, "x_high": x + 0.01, "y_low": y - 0.01, "y_high": y + 0.01}
    return {"name_of": name, "x": x, "y": y, **ends, "what": "a", "hollow": False, "order": None, "named": True} | more


def drawn(spec) -> str:
    return vl_convert.vegalite_to_svg(sized(spec), config=CONFIG, allowed_base_urls=[])


def flat(rows) -> dict:
    keys = {"label": "name_of", "kind": "what", "kinds": {"a": "circle", "b": "diamond"}}
    return points(rows, x=X, y=Y, hollow="hollow", order="order", named="named", **keys)


def test_points_keep_their_intervals_and_labels_stay_inside() -> None:
    names = [f"a name of some length {n}" for n in range(6)]
    spec = flat([point(name, 0.1 * n, 0.5) for n, name in enumerate(names)])
    rows = spec["data"]["values"]
    assert [row["x"] for row in rows] == pytest.approx([0.1 * n for n in range(6)])
    side = Side(Axis("x", "", ends=tuple(spec["layer"][0]["encoding"]["x"]["scale"]["domain"])), PHONE_WIDTH)
    boxes = [box_of(side.pixel(row), 170.0, row["name"], row["side"]) for row in rows if "name" in row]
    assert boxes and all(left >= -8 and right <= PHONE_WIDTH + 8 for left, right, _, _ in boxes)
    assert not any(
        a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3] for n, a in enumerate(boxes) for b in boxes[:n]
    )
    svg = drawn(spec)
    assert svg.count('aria-roledescription="rule mark"') == 12
    assert 2 <= sum(f">{name}</text>" in svg for name in names) == len(boxes)


def test_a_point_without_an_interval_has_no_bar() -> None:
    bare = point("bare", 0.2, 0.3) | {"x_low": None, "x_high": None, "y_low": None, "y_high": None}
    assert drawn(flat([bare, point("whole", 0.5, 0.5)])).count('aria-roledescription="rule mark"') == 2


def test_hollow_points_are_clear() -> None:
    svg = drawn(flat([point("one", 0.2, 0.3, hollow=True), point("two", 0.5, 0.5)]))
    assert svg.count('fill="#3B8EDE" stroke="#3B8EDE"') == 1


@pytest.mark.parametrize(("series", "panels"), [(1, False), (4, False), (5, True)])
def test_more_than_four_lines_become_panels(series, panels) -> None:
    rows = [point(f"s{n}", 0.1 * m, 0.9 - 0.1 * m - 0.01 * n, at=m) for n in range(series) for m in range(4)]
    rows = [
        {key: row[key] for key in ("name_of", "x", "y", "x_low", "x_high", "y_low", "y_high", "at")} for row in rows
    ]
    spec = curves(rows, x=X, y=Y, series="name_of", order="at")
    assert ("facet" in spec) == panels
    assert json.dumps(spec["data"]["values"]).count('"name_of"') == 4 * series
    svg = drawn(spec)
    if panels:
        assert all(f">s{n}</text>" in svg for n in range(series))


def test_dots_have_their_texts_and_an_edge() -> None:
    rows = [{"text": f"text {n} <b>&", "far": 1.5 - 0.1 * n} for n in range(3)]
    spec = texts(rows, value=Axis("far", "Distance", ".2f", zero=False), label="text", edge=1.0)
    assert [row["far"] for row in spec["data"]["values"]] == [1.5, 1.4, 1.3]
    svg = drawn(spec)
    assert svg.count("&lt;b&gt;&amp;</text>") == 3 and svg.count("stroke-dasharray") == 1
    bare = texts(rows, value=Axis("far", "Distance", ".2f", zero=False), label="text", edge=None)
    assert "stroke-dasharray" not in drawn(bare) and "edge" not in json.dumps(bare)


def test_equal_rows_give_equal_bytes() -> None:
    rows = [point("one", 0.2, 0.3), point("two", 0.5, 0.5)]
    assert json.dumps(flat(rows)) == json.dumps(flat(rows))
