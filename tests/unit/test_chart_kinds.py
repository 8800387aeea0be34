"""Every kind of chart: its marks and axes, one row, no row, very long names, and numbers that are none."""

import ast
import importlib
import inspect
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import vl_convert

from audits.core import registry
from audits.core.records import Json
from audits.report import charts
from audits.report.charts import Axis, Picture, Tile
from audits.report.charts.theme import CONFIG, MOST_SERIES, OKABE_ITO, UNDECIDED
from audits.report.pages.figures import sized

LONG = "a name that somebody chose without a thought of charts & another part of it " * 3
X, Y = Axis("x", "Across", ".2f"), Axis("y", "Up", ".2f", zero=False)
STATES = {"h": ("hurts", "colour"), "i": ("nobody knows", "hatch"), "x": ("broken", "cross"), "m": ("missing", "empty"),
          "d": ("", "diagonal")}  # fmt: skip


def rows(count, name="row {}", **more) -> list[Json]:
    """Return rows that every kind can draw; the third has no interval."""
    found = []
    for n in range(count):
        across, up = (3 * n / 10, n / 10)
        ends = {"low": up - 0.05, "high": up + 0.05, "x_low": across - 0.05, "x_high": across + 0.05,
                "y_low": up - 0.05, "y_high": up + 0.05}  # fmt: skip
        known: Json = dict.fromkeys(ends) if n == 2 else ends
        place = {"x": across, "y": up, "name": name.format(n), "series": name.format(n % 2), "order": n}
        found.append({**known, **place, "grey": n == 1, "parts": [0.1 * n, 0.2 * n], **more})
    return found


def roc_rows(given) -> list[Json]:
    """Return one curve with a mark on it, beside chance."""
    found: list[Json] = []
    for row in given:
        common = {"panel": "", "series": row["name"]}
        found += [{**common, "fpr": at, "tpr": at**0.5, "low": at, "high": 1.0} for at in (0.01, 0.1, 1.0)]
        found.append({**common, "attack": row["name"], "at": 0.1, "tpr": 0.3, "from": 0.2, "to": 0.5})
    return found + [{"panel": "", "series": "chance", "fpr": at, "most": at} for at in (0.01, 1.0)]


def tiles(given) -> list[list[Tile]]:
    letters = "hixm"
    return [
        [
            Tile(letter="d") if a == b else Tile(letter=letters[(a + b) % 4], value=0.1 * (a - b), half=0.02, p=0.01)
            for b in range(len(given))
        ]
        for a in range(len(given))
    ]


ENDS = {"low": "low", "high": "high"}
KINDS = {
    "lines": lambda given: charts.lines(
        given, x=X, y=Y, **ENDS, series="series", series_title="Way", level=0.2, rule=(0.4, "limit")
    ),
    "curves": lambda given: charts.curves(given, x=X, y=Y, series="series", order="order"),
    "roc": lambda given: charts.roc(
        roc_rows(given[:MOST_SERIES]), x=Axis("fpr", "False alarms", ends=(0.01, 1.0)),
        y=Axis("tpr", "Found", ends=(0.01, 1.0)), guides=["chance"], label="attack",
    ),
    "forest": lambda given: charts.forest(given, label="name", value=Y, **ENDS, reference=0.15, greyed="grey"),
    "bounds": lambda given: charts.bounds(
        [{**row, "until": 0.5} for row in given], label="name", value=Axis("y", "Epsilon", ends=(0.0, 0.4)),
        until="until", words="name", kind="series", kinds={"row 0": "circle", "row 1": "diamond"}, hints=["name"],
        claim=0.3,
    ),
    "bars": lambda given: charts.bars(given, label="name", value=Axis("order", "Clips"), series="series"),
    "heat_map": lambda given: charts.heat_map(
        given, x=Axis("series", "Across"), y=Axis("name", "Down"), value=Y, diverging=True, faded="grey"
    ),
    "effect_matrix": lambda given: charts.effect_matrix(
        [row["name"] for row in given], [row["name"] for row in given], tiles(given), states=STATES,
        titles=("Added", "Held out"), legend=("Change",), hints=("held out", "added", "change", "seeds"),
    ),
    "points": lambda given: charts.points(
        given, x=X, y=Y, label="name", greyed="grey", hollow="grey", order="order", alike=True, cloud=[(0.1, 0.2)]
    ),
    "strips": lambda given: charts.strips(
        given, {row["series"]: 0.1 for row in given}, value=Y, group="series", hints=["name"], greyed="grey"
    ),
    "columns": lambda given: charts.columns(
        given, value=Y, **ENDS, dots="parts", label="name", title="Cells", hints=["name"], greyed="grey"
    ),
    "texts": lambda given: charts.texts(given, value=Y, label="name", edge=0.2),
    "images": lambda given: charts.images([Picture(row["name"], _field(row["y"])) for row in given]),
}  # fmt: skip
MARKS = {
    "lines": ["rule", "area", "line", "point", "rule", "text"],
    "curves": ["rule", "rule", "line", "point"],
    "roc": ["line", "area", "line", "rule", "point"],
    "forest": ["rule", "rule", "point"],
    "bounds": ["rule", "rule", "tick", "point", "point", "text", "text"],
    "bars": ["bar"],
    "heat_map": ["rect", "rect", "text", "text"],
    "effect_matrix": ["rect", "rect", "rect", "rule", "rule", "rect", "text", "text"],
    "points": ["rule", "line", "point", "line", "rule", "rule", "point", "text", "text"],
    "strips": ["rule", "point", "rule"],
    "columns": ["rule", "rule", "point"],
    "texts": ["rule", "rule", "text", "point"],
    "images": ["image"] * 4,
}
"""Marks of each kind for four rows, the lowest layer first."""


TITLES = {
    "bars": ["Clips"],
    "bounds": ["Epsilon"],
    "columns": ["Cells", "Up"],
    "effect_matrix": ["Added", "Held out"],
    "forest": ["Up"],
    "heat_map": ["Across", "Down"],
    "images": ["row 0", "0 to 0"],
    "roc": ["False alarms", "Found"],
    "strips": ["Up"],
    "texts": ["Up"],
}
"""Titles that stand on each kind; on others those of both axes."""


def _field(value) -> np.ndarray:
    return np.full((2, 3), value)


def svg_of(spec, **options) -> str:
    return vl_convert.vegalite_to_svg(sized(spec), config=CONFIG, show_warnings=True, **options)


def marks_of(spec) -> list[str]:
    layers = spec.get("layer") or spec.get("spec", {}).get("layer") or spec.get("concat") or [spec]
    return [layer["mark"]["type"] for layer in layers]


def test_every_kind_is_tried() -> None:
    helpers = {"Axis", "Picture", "Tile", "ends_of", "figure_of", "numbers_of", "stacked", "with_table"}
    assert set(charts.__all__) - helpers == KINDS.keys() == MARKS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_its_marks_and_is_drawn_without_a_warning(kind, capfd) -> None:
    spec = KINDS[kind](rows(4))
    assert marks_of(spec) == MARKS[kind]
    svg = svg_of(json.loads(json.dumps(spec, allow_nan=False)))
    assert "NaN" not in svg and "undefined" not in svg
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1])
def test_one_row_or_none_can_be_drawn(kind, count, capfd) -> None:
    spec = KINDS[kind](rows(count))
    svg = svg_of(json.loads(json.dumps(spec, allow_nan=False)))
    assert "<svg" in svg and "NaN" not in svg
    assert "ERROR" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_long_names_are_drawn(kind) -> None:
    spec = KINDS[kind](rows(4, name=f"{{}} {LONG}"))
    svg = svg_of(json.loads(json.dumps(spec, allow_nan=False)))
    assert "NaN" not in svg
    assert LONG in json.dumps(spec)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"images", "roc", "effect_matrix"}))
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_is_not_drawn_and_hides_no_other(kind, number) -> None:
    given = rows(4)
    odd = {**given[3], "x": number, "y": number, "low": number, "high": number, "parts": [number], "series": "row 1"}
    spec = KINDS[kind]([*given, odd])
    svg = svg_of(json.loads(json.dumps(spec, allow_nan=False)))
    assert "NaN" not in svg and "Infinity" not in svg


@pytest.mark.parametrize("kind", KINDS)
def test_titles_of_axes_stand_on_the_chart(kind) -> None:
    svg = svg_of(KINDS[kind](rows(4)))
    for title in TITLES.get(kind, ["Across", "Up"]):
        assert f">{title}</text>" in svg or f">{title}</tspan>" in svg, title


def test_a_level_is_dashed_and_takes_its_interval_from_the_rows() -> None:
    given = rows(4, task="a") + rows(4, task="b")
    for row in given:
        row |= {"middle": 0.2, "from": 0.1, "to": 0.3}
    options = {"x": X, "y": Y, **ENDS, "series": "series", "series_title": "", "facet": "task"}
    spec = charts.lines(given, level=("middle", "from", "to"), own_scales=True, **options)
    assert marks_of(spec)[:2] == ["rect", "rule"] and spec["resolve"] == {"scale": {"y": "independent"}}
    assert svg_of(spec).count('stroke-dasharray="4,3"') == 2
    assert "stroke-dasharray" not in svg_of(charts.lines(given, **options))


def test_grey_rows_are_grey_and_hollow_where_asked() -> None:
    options = {"label": "name", "value": Y, **ENDS, "reference": 0.0, "greyed": "grey"}
    solid, hollow = (svg_of(charts.forest(rows(4), hollow=one, **options)) for one in (False, True))
    assert solid.count(f'fill="{UNDECIDED}"') == 1 and hollow.count(f'fill="{UNDECIDED}"') == 0
    drawn = svg_of(charts.points(rows(4), x=X, y=Y, hollow="grey"))
    assert drawn.count(f'fill="{OKABE_ITO[0]}"') == 3


def test_tight_panels_reach_no_further_than_their_marks_and_have_one_title() -> None:
    far = [{**row, "y": row["y"] + 5, "low": row["y"] + 4.9, "high": row["y"] + 5.1, "panel": "ab"[n % 2]}
           for n, row in enumerate(rows(4))]  # fmt: skip
    options = {"label": "name", "value": Axis("y", "Up"), **ENDS, "reference": 5.0, "facet": "panel"}
    wide, tight = (charts.forest(far, tight=one, **options) for one in (False, True))
    assert [bool(re.search(r">0(\.0)?</text>", svg_of(spec))) for spec in (wide, tight)] == [True, False]
    assert (svg_of(wide).count(">Up</text>"), svg_of(tight).count(">Up</text>")) == (2, 1)


def test_titles_of_panels_are_broken_where_asked() -> None:
    def titles(name, **options) -> str | list[str]:
        given = [{**row, "panel": name} for row in rows(2)]
        spec = charts.forest(given, label="name", value=Y, **ENDS, reference=0.0, facet="panel", **options)
        return spec["vconcat"][0]["title"]["text"]

    crossed = "accent=indian&gender=female&age=old"
    assert titles(crossed) == crossed
    assert titles(crossed, title_break="&") == ["accent=indian&", "gender=female&", "age=old"]
    assert titles("a&b", title_break="&") == "a&b"
    assert titles("one\ntwo", title_break="\n") == ["one", "two"]


def test_a_claim_beyond_the_axis_and_a_line_beyond_it_say_so() -> None:
    def drawn(claim, until) -> Json:
        given = [{**row, "until": until} for row in rows(2)]
        kinds = {"row 0": "circle", "row 1": "diamond"}
        value = Axis("y", "Epsilon", ends=(0.0, 1.0))
        return charts.bounds(given, label="name", value=value, until="until", words="name", kind="series", kinds=kinds,
                             hints=["name"], claim=claim)  # fmt: skip

    assert "stroke-dasharray" in svg_of(drawn(0.5, 0.7)) and "stroke-dasharray" not in svg_of(drawn(5.0, 0.7))
    inside, beyond = (drawn(None, until)["data"]["values"] for until in (0.7, 7.0))
    assert [row["beyond"] for row in inside] == [False, False] and [row["until"] for row in inside] == [0.7, 0.7]
    assert [row["beyond"] for row in beyond] == [True, True] and [row["until"] for row in beyond] == [1.0, 1.0]


def test_steps_keep_the_order_that_the_axis_names() -> None:
    given = [{"a": a, "b": "one", "value": n} for n, a in enumerate(("old", "young"))]
    x = Axis("a", "Age", steps=("young", "middle", "old"))
    spec = charts.heat_map(given, x=x, y=Axis("b", ""), value=Axis("value", "Rate"), diverging=False)
    assert {tuple(layer["encoding"]["x"]["sort"]) for layer in spec["layer"]} == {("young", "middle", "old")}


def test_intervals_of_points_are_drawn_both_ways() -> None:
    # A chart that was edited after it was made had lost those along one axis.
    kinds = {"row 0": "circle", "row 1": "square"}
    spec = charts.points(rows(2), x=replace(X, zero=False), y=Y, label="name", kind="series", kinds=kinds)
    ends = [layer["encoding"].keys() & {"x2", "y2"} for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    assert ends == [{"x2"}, {"y2"}]


def test_charts_under_one_another_have_titles_and_a_lone_one_has_none() -> None:
    one, two = (KINDS["forest"](rows(count)) for count in (2, 3))
    assert charts.stacked([("alone", one)]) is one
    both = charts.stacked([("first", one), ("second", two)])
    assert [view["title"]["text"] for view in both["vconcat"]] == ["first", "second"]
    assert all("$schema" not in view for view in both["vconcat"])


def test_a_table_travels_with_a_chart_that_stays_as_it_was() -> None:
    chart = KINDS["bars"](rows(2))
    before = json.dumps(chart)
    told = charts.with_table(chart, [("a", "A")], [("one",)])
    assert told["usermeta"]["miles"]["table"] == {"columns": [["a", "A"]], "rows": [["one"]]}
    assert json.dumps(chart) == before and {key: told[key] for key in chart} == chart


CHART_WORDS = {
    *("mark", "encoding", "vconcat", "hconcat", "concat", "facet", "resolve", "usermeta", "$schema", "transform"),
    *("labelExpr", "strokeDash", "strokeWidth", "fillOpacity", "tickCount"),
}
"""Keys that only a chart has: whoever writes one builds a chart, and who looks one up reads or edits one."""
CHARTS = {"spec", "chart", "view", "figure.spec"}
"""What charts are called: whoever looks up any key in one of these reads or edits a chart."""
OWN = {("audit-phonemes", "transform")}
"""An option of the audit of phonemes."""


def chart_words(source: str) -> set[str]:
    """Return the keys of charts that a module looks up or puts into a mapping."""
    keys: list[tuple[str, ast.expr | None]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            keys += [("", key) for key in node.keys]
        elif isinstance(node, ast.Subscript):
            keys.append((ast.unparse(node.value), node.slice))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            keys += [(ast.unparse(node.func.value), key) for key in node.args[:1]]
    named = [(of, key.value) for of, key in keys if isinstance(key, ast.Constant)]
    return {key for of, key in named if key in CHART_WORDS or of in CHARTS}


def test_the_examples_of_the_documentation_draw_every_kind() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    code = page.partition('```python title="kinds_of_charts.py"\n')[2].partition("\n```")[0]
    made: Json = {}
    exec(compile(code, "kinds_of_charts.py", "exec"), made)
    specs = [spec for spec in made.values() if isinstance(spec, dict) and "$schema" in spec]
    assert len(specs) == len(KINDS) + 2
    assert all(f"{kind}(" in code for kind in KINDS)
    for spec in specs:
        assert "NaN" not in svg_of(json.loads(json.dumps(spec, allow_nan=False)))


def test_the_documentation_names_every_parameter() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    for kind in KINDS.keys() - {"images"}:
        line = next(line for line in page.splitlines() if line.startswith(f"| `{kind}` |"))
        named = set(re.findall(r"\b[a-z_]+\b", line.split("|")[2]))
        assert set(inspect.signature(getattr(charts, kind)).parameters) - {"rows"} <= named
    words = page.partition("`Axis(")[2].partition(")` is a key")[0]
    assert set(re.findall(r"\b[a-z]+\b", words)) >= set(inspect.signature(Axis).parameters)


def test_the_words_of_charts_are_found() -> None:
    assert chart_words('{"mark": 1}; spec["layer"] = []; x.get("vconcat"); "facet"; row["layer"]') == {
        "mark",
        "layer",
        "vconcat",
    }


@pytest.mark.parametrize("name", [entry.name for entry in registry.entries() if entry.distribution == registry.OURS])
def test_no_audit_builds_or_edits_a_chart(name) -> None:
    folder = Path(importlib.import_module(registry.find(name).package).__file__ or "").parent
    files = sorted(folder.glob("*.py"))
    assert len(files) > 5
    for file in files:
        source = file.read_text(encoding="utf-8")
        found = {word for word in chart_words(source) if (name, word) not in OWN}
        assert found == set(), f"{file.name} builds or edits a chart; the kinds are in audits.report.charts"
        assert "altair" not in source and "vega" not in source.lower()


def test_points_on_a_log_axis_are_the_positive_ones() -> None:
    rows = [{"x": x, "y": 1.0, "n": str(x)} for x in (-1.0, 0.0, 2.0, 30.0)]
    drawn = charts.points(rows, x=Axis("x", "X", scale="log"), y=Axis("y", "Y"), label="n")
    scales = re.findall(r'"domain": \[([^\]]*)\], "nice": false', json.dumps(drawn))
    ends = [float(number) for number in scales[0].split(", ")]
    assert 0 < ends[0] < 2
    assert ends[1] > 30


def test_what_stands_beside_the_rows_has_to_be_finite_too() -> None:
    rows = [{"x": 1.0, "y": 2.0, "low": 1.0, "high": 3.0, "s": "a", "n": "p"}]
    x, y = Axis("x", "X"), Axis("y", "Y")
    json.dumps(charts.points(rows, x=x, y=y, label="n", cloud=[(math.nan, 1.0), (1.0, 2.0)]), allow_nan=False)
    json.dumps(
        charts.lines(rows, x=x, y=y, low="low", high="high", series="s", series_title="S", level=math.nan),
        allow_nan=False,
    )
    bound = [{"l": "a", "v": 1.0, "u": math.inf, "w": "words", "k": "c"}]
    json.dumps(
        charts.bounds(
            bound, label="l", value=Axis("v", "V"), until="u", words="w", kind="k", kinds={"c": "circle"}, hints=[]
        ),
        allow_nan=False,
    )


@pytest.mark.parametrize("panels", [1, 2])
def test_a_long_title_stands_in_lines_below_panels_beside_each_other(panels: int) -> None:
    title = "False alarms (share of non-members)"
    x, y = Axis("fpr", title, ends=(0.01, 1.0)), Axis("tpr", "Found", ends=(0.01, 1.0))
    given = [{**row, "panel": name} for name in "ab"[:panels] for row in roc_rows([{"name": "one"}])]
    chart = charts.roc(given, x=x, y=y, guides=["chance"], label="attack")
    inner = chart["spec"] if panels > 1 else chart
    titles = [one["encoding"]["x"]["axis"]["title"] for one in inner["layer"]]
    # The narrowest panels are 158 pixels wide; 24 letters take about 152.
    assert titles == [title if panels == 1 else ["False alarms (share of", "non-members)"]] * 5
    if panels > 1:
        drawn = vl_convert.vegalite_to_svg({**chart, "spec": {**inner, "width": 158}, "config": CONFIG})
        assert f">{title}<" not in drawn and drawn.count(">non-members)<") == 2


def test_several_points_stand_side_by_side_on_a_row_each_in_its_colour_and_shape() -> None:
    rows = [
        {"group": group, "system": system, "value": 0.2, "low": 0.1, "high": 0.3, "few": group == "b", "panel": panel}
        for panel in "xy" for group in "ab" for system in ("one", "two")
    ]  # fmt: skip
    ends = {"value": Axis("value", "Rate"), "low": "low", "high": "high", "greyed": "few", "facet": "panel"}
    spec = charts.forest(rows, label="group", reference=None, series="system", **ends)
    first, second = (view["layer"] for view in spec["vconcat"])
    assert [layer["mark"]["type"] for layer in first] == ["rule", "point"], "no rule where nothing is held against"
    for layer in (*first, *second):
        assert layer["encoding"]["yOffset"]["field"] == "system"
        assert layer["encoding"]["color"]["condition"]["value"] == UNDECIDED
    assert first[1]["encoding"]["shape"]["scale"]["domain"] == ["one", "two"]
    assert first[0]["encoding"]["color"]["legend"] is not None
    assert second[0]["encoding"]["color"]["legend"] is None, "one legend is enough"
    plain = charts.forest(rows[:1], label="group", reference=0.0, series="system", **ends)
    assert "yOffset" not in json.dumps(plain), "a single one needs no room beside it"


def test_no_line_joins_what_stands_apart() -> None:
    rows = [
        {"layer": layer, "group": group, "error": 0.2, "low": 0.1, "high": 0.3}
        for group in "ab" for layer in ("log-mel", "0", "1", "own head")
    ]  # fmt: skip
    axes = {"x": Axis("layer", "Layer", kind="ordinal"), "y": Axis("error", "Error"), "low": "low", "high": "high"}
    spec = charts.lines(rows, **axes, series="group", series_title="", apart=("log-mel", "own head"))
    table = spec["data"]["values"]
    stretches = {row["layer"]: row["stretch"] for row in table}
    assert stretches["0"] == stretches["1"] and len(set(stretches.values())) == 3
    assert {row["layer"] for row in table if row["lone"]} == {"log-mel", "own head"}
    marks = {layer["mark"]["type"]: layer for layer in spec["layer"]}
    assert marks["line"]["encoding"]["detail"]["field"] == marks["area"]["encoding"]["detail"]["field"] == "stretch"
    assert "lone" in marks["rule"]["transform"][0]["filter"], "what is alone has its interval as a rule"
    joined = charts.lines(rows, **axes, series="group", series_title="")
    assert "detail" not in json.dumps(joined)


def test_an_axis_of_powers_reaches_beyond_its_intervals() -> None:
    rows = [{"group": "a", "value": 2.0, "low": 1.0, "high": 4.0}]
    ratio = Axis("value", "Ratio", zero=False, scale="log")
    spec = charts.forest(rows, label="group", value=ratio, low="low", high="high", reference=1.0)
    low, high = spec["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert low < 1.0 and high > 4.0
