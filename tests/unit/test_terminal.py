"""The terminal summary: eighty columns, no colour where none is wanted, the numbers of the page."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from audits.core.numbers import interval, point
from audits.core.records import KEY_NUMBERS, Answer, Estimate, Finding, KeyNumber, Report, Warning
from audits.report.pages.terminal import summarise


def _shown(report, *, width=80, folder=Path("runs/x"), **options) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, **options)
    console.print(summarise(report, folder=folder, width=width))
    return out.getvalue()


def test_everything_fits_into_eighty_columns(sample_report) -> None:
    lines = _shown(sample_report).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_the_answer_then_gates_numbers_findings_warnings_path_and_next(sample_report) -> None:
    text = " ".join(_shown(sample_report).split())
    marks = [
        "wav2vec2-base",
        "At the head, the model errs more often",
        "gate failed",
        "├",
        "▲ High",
        "◆ Medium",
        "○ Info",
        "- Warning: ",
        "runs/x/report.html",
        "miles compare runs/x OTHER_RUN",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_numbers_are_those_of_the_page(sample_report) -> None:
    text = _shown(sample_report, width=160)
    row = sample_report.estimates[sample_report.findings[0].evidence[0]]
    assert f"{point(row)} ({interval(row)})" in text


def test_an_answer_of_its_own_stands_for_the_findings(sample_report) -> None:
    numbers = (KeyNumber(row=3, words="errors of some"),)
    answer = Answer(title="So it is.", numbers=numbers, may=("This.",), may_not=("That.",))
    text = _shown(replace(sample_report, answer=answer, gates=()))
    lines = text.splitlines()
    assert lines[[line.strip() for line in lines].index("So it is.") + 2].startswith("errors of some")
    assert "You may report\n- This." in text and "Do not report\n- That." in text
    assert "You may report" not in _shown(sample_report)


def test_no_colour_without_a_terminal_and_colour_with_one(sample_report, monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in _shown(sample_report)
    assert "\x1b[1;31m" in _shown(sample_report, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in _shown(sample_report, force_terminal=True, color_system="standard")


def test_at_most_three_numbers(sample_report) -> None:
    findings = [Finding(id="one", severity="low", statement="Many.", evidence=(place,)) for place in range(25)]
    text = _shown(replace(sample_report, findings=tuple(findings), gates=()))
    assert text.count("●") - text.count("● Low") == KEY_NUMBERS


def test_a_number_without_an_interval_has_no_glyph(sample_report) -> None:
    row = Estimate(name="rate", value=0.5, method="exact", n=5, unit="clips")
    finding = Finding(id="f", severity="low", statement="So it is.", evidence=(0,))
    text = _shown(replace(sample_report, estimates=(row,), findings=(finding,), gates=()))
    assert "0.500 (exact)" in text and "●" not in text.replace("● Low", "")


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


def test_the_first_warning_of_each_kind_is_said_and_choices_are_not(sample_report) -> None:
    extra = Warning(id="input", message="The keys were guessed.", where={})
    text = _shown(replace(sample_report, warnings=(*sample_report.warnings, extra)), width=160)
    lines = [line.strip() for line in text.splitlines() if line.startswith("- Warning: ")]
    more = sum(warning.id == "small-group" for warning in sample_report.warnings) - 1
    assert len(lines) == 3 and "fewer than 20." in lines[0] and lines[0].endswith(f"And {more} more of the kind.")
    assert lines[2] == "- Warning: Two folds share a recording room."
    assert "Warning" not in _shown(replace(sample_report, warnings=(extra,)))


def _answered(report, *words: str) -> Report:
    rows = [at for at, row in enumerate(report.estimates) if row.low is not None]
    numbers = tuple(KeyNumber(row=row, words=said) for row, said in zip(rows, words, strict=False))
    return replace(report, answer=Answer(title="So it is.", numbers=numbers), gates=())


def test_short_labels_stand_beside_their_numbers(sample_report) -> None:
    lines = [line.strip() for line in _shown(_answered(sample_report, "errors of some", "and of others")).splitlines()]
    for label in ("errors of some", "and of others"):
        (line,) = (line for line in lines if line.startswith(label))
        assert "├" in line and ")" in line


def test_labels_that_do_not_fit_stand_above_their_numbers_and_unbroken(sample_report) -> None:
    long = "higher word error rate on speakers of one kind than on those of another"
    shown = _shown(_answered(sample_report, long, "errors of some"))
    lines = [line.rstrip() for line in shown.splitlines()]
    for label in (long, "errors of some"):
        below = lines[lines.index(label) + 1]
        assert below.startswith("  ") and "├" in below and below.endswith(")")
    narrow = [line.rstrip() for line in _shown(_answered(sample_report, long), width=44).splitlines()]
    assert max(map(len, narrow)) <= 44 and not any("├" in line for line in narrow)


def test_a_number_with_two_ends_in_words_is_not_broken(sample_report) -> None:
    row = Estimate(name="bound", value=157.0, low=8.243, high=157.0, n=3, unit="layers",
                   method="Upper bound: proved from the bounds of all layers")  # fmt: skip
    report = replace(sample_report, estimates=(row,), findings=(), gates=())
    lines = [line.rstrip() for line in _shown(_answered(report, "proved bound")).splitlines()]
    assert any(line.startswith("proved bound") and line.endswith("(at most; at least 8.24)") for line in lines)
