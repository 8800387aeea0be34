"""Does a report of somebody who means harm end each command soon, and without its own text in the way?"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusals import one_panel

from audits.core.records import Report
from audits.report.pages import drawing
from audits.report.report_file import dumps

Run = Callable[..., Any]
SOON = 60
"""Seconds within which a command has to end, on a machine that does other things too."""


@pytest.fixture
def hostile(sample_report: Report, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the sample with other gates or figures, and returns its folder."""

    def write(**changed: Any) -> Path:
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        (folder / "report.json").write_text(json.dumps({**json.loads(dumps(sample_report)), **changed}), "utf-8")
        return folder

    return write


@pytest.mark.parametrize(
    "command", [("show",), *(("export", "--to", target) for target in ("junit", "sarif", "github"))], ids=" ".join
)
def test_a_gate_of_spaces_ends_no_command(
    command: tuple[str, ...], hostile: Callable[..., Path], run_miles: Run
) -> None:
    expressions = ["a" + " " * 8000 + "x", "gap[" + "=," * 4000 + "]", "gap" + " " * 900 + "> 1x"]
    both = [(text, outcome) for text in expressions for outcome in ("pass", "fail")]
    run = hostile(gates=[{"expression": text, "outcome": outcome, "rows": [0, 1]} for text, outcome in both])
    done = run_miles(*command[:1], run, *command[1:])
    assert (done.code, done.err) == (0, "")
    assert done.seconds < SOON


@pytest.mark.parametrize(
    "command",
    [("show",), *(("export", "--to", target) for target in ("junit", "in-toto", "model-card", "sarif", "github"))],
)
def test_a_gate_of_seventy_thousand_letters_is_not_printed_whole(
    command: tuple[str, ...], hostile: Callable[..., Path], call_miles: Run
) -> None:
    run = hostile(gates=[{"expression": "x" * 70_000, "outcome": "fail", "rows": [0]}])
    done = call_miles(*command[:1], run, *command[1:])
    assert done.code == 0, done.err
    assert "x" * 150 in done.out.replace("\n", "") and "70,000 letters" in done.out.encode().decode("unicode_escape")
    assert len(done.out) < 60_000


def test_the_limit_of_a_gate_that_is_no_number_is_held_against_nothing(
    hostile: Callable[..., Path], call_miles: Run
) -> None:
    gates = [{"expression": f"gap > {text}", "outcome": "fail", "rows": [0, 1]} for text in (".", "1.2.3", "1e999")]
    done = call_miles("show", hostile(gates=gates))
    assert (done.code, done.err) == (0, "")


LONG = "n" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("show", LONG),
        ("compare", LONG, LONG),
        ("export", LONG, "--to", "junit"),
        ("audit-groups", LONG, "--by", "g"),
        ("audit-fairness", LONG, "--manifest", "m.csv", "--by", "g"),
        ("membership", "--scores", LONG),
        ("lipschitz", LONG, "--arch", "cifar_resnet20"),
        ("interference", LONG),
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_can_have_is_wrong_usage(words: tuple[str, ...], call_miles: Run, tmp_path: Path) -> None:
    one_panel(call_miles(*words, cwd=tmp_path), "File name too long", LONG[:100])
    assert list(tmp_path.iterdir()) == []


def chart(**changed: Any) -> list[dict[str, Any]]:
    """Return the figures of a report: one chart."""
    values = {"values": [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 3.0}]}
    encoding = {axis: {"field": field, "type": "quantitative"} for axis, field in (("x", "a"), ("y", "b"))}
    spec = {"data": values, "mark": "point", "encoding": encoding, **changed}
    return [{"id": "fig", "title": "A chart", "caption": "Of nothing.", "file": "fig", "spec": spec}]


def calculated(expression: str) -> dict[str, Any]:
    return {"transform": [{"calculate": expression, "as": "c"}]}


UNDRAWABLE: dict[str, tuple[dict[str, Any], str]] = {
    "sequence": ({"data": {"sequence": {"start": 0, "stop": 3e8, "as": "a"}}}, "300,000,000 values"),
    "endless sequence": ({"data": {"sequence": {"start": -1e308, "stop": 1e308, "step": 1e-300}}}, "values"),
    "values": ({"data": {"values": [0] * 100_001}}, "100,001 values"),
    "width": ({"width": 30_000}, "width is 30,000 pixels"),
    "height of a layer": ({"layer": [{"mark": "point", "height": 30_000}]}, "height is 30,000 pixels"),
    "step": ({"width": {"step": 10**9}}, "width is 1,000,000,000 pixels"),
    "syntax": (calculated("datum.a +* 2"), "Unexpected token *"),
    "error": (calculated("datum.x.y.z"), "Cannot read properties of undefined"),
    "pattern": (calculated("test(regexp('(('),'a')"), "Unterminated group"),
    "address": ({"data": {"url": "https://x.example/a.csv"}}, ""),
}
"""Charts that cannot be drawn, and what the panel must say."""
ENDLESS: dict[str, tuple[dict[str, Any], str]] = {
    "numbers": (calculated("length(sequence(0,4e8))"), "than"),
    "steps": (calculated("test(regexp('^(a+)+$'),'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab')"), "2 seconds of computing"),
    "facets": ({"data": {"sequence": {"start": 0, "stop": 99_999, "as": "a"}},
                "encoding": {"facet": {"field": "a", "type": "nominal"}}}, "than"),
    "surface": ({"data": {"sequence": {"start": 0, "stop": 30, "as": "a"}}, "width": {"step": 2000},
                 "height": {"step": 2000},
                 "encoding": {axis: {"field": "a", "type": "nominal"} for axis in "xy"}}, "MiB of memory"),
}  # fmt: skip
"""Charts whose drawing would not end, or fill the memory."""


@pytest.mark.parametrize("name", UNDRAWABLE)
def test_a_chart_that_cannot_be_drawn_is_one_panel(name: str, hostile: Callable[..., Path], call_miles: Run) -> None:
    spec, says = UNDRAWABLE[name]
    run = hostile(figures=chart(**spec))
    one_panel(call_miles("render", run), "The chart cannot be drawn", "figure fig", says)
    assert [file.name for file in run.iterdir()] == ["report.json"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_a_chart_that_would_exhaust_the_machine_is_one_panel(
    name: str, hostile: Callable[..., Path], call_miles: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, says = ENDLESS[name]
    run = hostile(figures=chart(**spec))
    # What draws keeps the limits that it began with.
    drawing._end()
    if "seconds" in says:
        monkeypatch.setattr(drawing, "LIMITS", replace(drawing.LIMITS, seconds=2))
    one_panel(call_miles("render", run), "The chart cannot be drawn", "figure fig", says)
    drawing._end()
    assert [file.name for file in run.iterdir()] == ["report.json"]
