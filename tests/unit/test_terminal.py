"""The terminal summary: eighty columns, no colour where none is wanted, the numbers of the page."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from audits.core.numbers import described
from audits.core.records import Estimate, Finding, Warning
from audits.report.pages.terminal import MOST_ESTIMATES, summarise


def _shown(report, *, width=80, folder=Path("runs/x"), **options) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, **options)
    console.print(summarise(report, folder=folder, width=width))
    return out.getvalue()


def test_everything_fits_into_eighty_columns(sample_report) -> None:
    lines = _shown(sample_report).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_findings_then_numbers_then_path_then_next(sample_report) -> None:
    text = " ".join(_shown(sample_report).split())
    marks = [
        "gate failed",
        "▲ High",
        "◆ Medium",
        "○ Info",
        "├",
        "runs/x/report.html",
        "miles compare runs/x OTHER_RUN",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_numbers_are_those_of_the_page(sample_report) -> None:
    text = _shown(sample_report, width=160)
    for part in described(sample_report.estimates[sample_report.findings[0].evidence[0]]).split(", "):
        assert part in text


def test_no_colour_without_a_terminal_and_colour_with_one(sample_report, monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in _shown(sample_report)
    assert "\x1b[1;31m" in _shown(sample_report, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in _shown(sample_report, force_terminal=True, color_system="standard")


def test_at_most_ten_estimates(sample_report) -> None:
    finding = Finding(id="many", severity="low", statement="Many.", evidence=tuple(range(25)))
    text = _shown(replace(sample_report, findings=(finding,), gates=()))
    assert text.count("●") - text.count("● Low") == MOST_ESTIMATES
    assert "and 15 more in the report" in text


def test_names_cannot_steer_the_terminal(sample_report) -> None:
    row = Estimate(
        name="rate", value=0.5, low=0.4, high=0.6, method="m", n=5, unit="clips",
        where={"group": "a=\x1b[2J[bold red]x[/]\r"},
    )  # fmt: skip
    finding = Finding(id="f", severity="low", statement="See \x1b]0;title\x07[link=http://e]it[/link].", evidence=(0,))
    text = _shown(replace(sample_report, estimates=(row,), findings=(finding,), gates=()))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold red]x[/]" in text
    assert "[link=http://e]it[/link]" in text


def test_without_findings_it_says_so_and_compares_next(sample_report) -> None:
    text = _shown(replace(sample_report, findings=(), gates=()))
    assert "Nothing was found" in text
    assert "miles compare runs/x OTHER_RUN" in text


def test_a_narrow_terminal_drops_the_glyphs(sample_report) -> None:
    text = _shown(sample_report, width=44)
    assert "├" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 44


def test_a_run_folder_with_a_space_is_quoted(sample_report) -> None:
    assert "'runs/my run'" in " ".join(_shown(sample_report, folder=Path("runs/my run")).split())


def test_warnings_are_named_once_and_choices_are_not(sample_report) -> None:
    extra = Warning(id="input", message="The keys were guessed.", where={})
    text = _shown(replace(sample_report, warnings=(*sample_report.warnings, extra)), width=160)
    (line,) = [line for line in text.splitlines() if line.startswith("Warned")]
    assert line.split("Warned")[1].strip() == "small-group, fairness.ceiling, fairness.folds (see the report)"
    assert "Warned" not in _shown(replace(sample_report, warnings=(extra,)))
