"""The matrix of estimates by runs: rows and marks, at the terminal, in Markdown, on the page, and its trends."""

import dataclasses
import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from measured import measured
from rich.console import Console

from audits.core.records import Answer, Estimate, GateResult, KeyNumber, Report
from audits.report.comparison import runs_table, trends, wording
from audits.report.comparison.apart import apart, parted
from audits.report.comparison.comparing import Comparison, Run, compare_all
from audits.report.comparison.markdown import to_markdown
from audits.report.comparison.matrix import matrix_of
from audits.report.comparison.page import MOST_CELLS, to_html
from audits.report.comparison.plain import to_json
from audits.report.comparison.terminal import shown

EVIL = "</script><b>|`x`"


def row(name: str, value: float, half: float = 0.01, **where: str | int) -> Estimate:
    ends = {"low": value - half, "high": value + half, "method": "bootstrap"}
    return measured(Estimate(name=name, value=value, **ends, n=9, unit="speakers", where=where))  # type: ignore[arg-type]


def report(sample: Report, *rows: Estimate, **more: object) -> Report:
    plain = {"findings": (), "gates": (), "answer": Answer(title="So it is.")}
    return dataclasses.replace(sample, estimates=rows, **{**plain, **more})  # type: ignore[arg-type]


def compared(*reports: Report, folder: Path, names: Sequence[str] = (), match: Sequence[str] = ()) -> list[Comparison]:
    names = names or [f"runs/{number}" for number in range(1, len(reports) + 1)]
    runs = [Run(name=name, folder=folder, report=one) for name, one in zip(names, reports, strict=True)]
    return compare_all(runs[0], runs[1:], match=match)


def nights(sample: Report, folder: Path, *values: float, **more: object) -> list[Comparison]:
    """Return runs in which the error rate of all takes these values, and that of old speakers stays."""
    old = row("error_rate", 0.5, group="age=old")
    made = [
        report(sample, row("gap", 0.2, by="age"), row("error_rate", value, group="all"), old, **more)
        for value in values
    ]
    return compared(*made, folder=folder)


def told(comparisons: list[Comparison], width: int = 80, *, everything: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    for part in shown(comparisons, lambda text: " ".join(str(text).split()), everything=everything, width=width):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_row_has_a_cell_for_each_run_marked_where_it_changed(sample_report: Report, tmp_path: Path) -> None:
    found = matrix_of(nights(sample_report, tmp_path, 0.4, 0.2, 0.4, 0.6))
    assert [run.name for run in found.runs] == ["runs/1", "runs/2", "runs/3", "runs/4"]
    (line,) = [line for block in found.changed for line in block.lines]
    assert [cell and cell.words for cell in line.cells] == ["", "↓ better", "", "↑ worse"]
    assert [cell and cell.number for cell in line.cells] == ["0.400", "0.200", "0.400", "0.600"]
    assert [len(block.lines) for block in found.rest] == [1, 1] and not found.main


def test_main_rows_are_those_on_top_of_a_report_and_those_of_a_gate(sample_report: Report, tmp_path: Path) -> None:
    numbers = Answer(title="So.", numbers=(KeyNumber(row=2, words="old"),))
    gate = GateResult(expression="gap > 1", outcome="pass", rows=(0,))
    found = matrix_of(nights(sample_report, tmp_path, 0.4, 0.2, answer=numbers, gates=(gate,)))
    assert [(block.name, [line.place for line in block.lines]) for block in found.main] == [
        ("gap", [""]), ("error_rate", [""])
    ]  # fmt: skip
    assert [line.name for line in found.lines] == ["gap", "error_rate", "error_rate"]


def test_the_summary_of_the_audit_is_main_too(sample_report: Report, tmp_path: Path) -> None:
    bare = dataclasses.replace(sample_report, gates=(), answer=Answer(title="So."))
    settings = {**bare.settings, "seed": 9}
    found = matrix_of(compared(bare, dataclasses.replace(bare, settings=settings), folder=tmp_path))
    assert found.main and {line.name for block in found.main for line in block.lines} == {"gap"}
    assert all(dict(line.where)["kind"] == "absolute" for block in found.main for line in block.lines)


def test_rows_of_a_measure_share_their_label_and_say_only_what_differs(sample_report: Report, tmp_path: Path) -> None:
    rows = [row("error_rate", 0.2, task="asr", metric="wer", group=group) for group in ("all", "age=old")]
    (block,) = matrix_of(compared(report(sample_report, *rows), report(sample_report, *rows), folder=tmp_path)).rest
    assert block.label == rows[0].measure.label != "" and block.shared == "wer, asr"
    assert [line.place for line in block.lines] == ["group all", "age=old"]


def test_a_renamed_system_has_both_names_and_one_row(sample_report: Report, tmp_path: Path) -> None:
    reports = [report(sample_report, row("gap", 0.2, system=name), row("gap", 0.2, system="x")) for name in ("a", "b")]
    found = matrix_of(compared(*reports, folder=tmp_path, match=["a=b"]))
    assert [line.place for block in found.rest for line in block.lines] == ["a → b", "x"]


def test_five_runs_stand_side_by_side_at_eighty_columns(sample_report: Report, tmp_path: Path) -> None:
    text = told(nights(sample_report, tmp_path, 0.4, 0.2, 0.4, 0.6, 0.6))
    assert max(map(len, text.splitlines())) <= 80
    (line,) = [line for line in text.splitlines() if "0.400" in line]
    assert line.split() == ["0.400", "0.200", "↓+", "0.400", "0.600", "↑!", "0.600", "↑!"]
    assert "2 others did not change significantly; --all shows them." in text
    assert "4 later runs against runs/1: 3 of 12 changes are significant: 1 better, 2 worse." in " ".join(text.split())


def test_of_thirty_runs_the_first_the_last_and_where_it_changed_are_shown(
    sample_report: Report, tmp_path: Path
) -> None:
    values = [0.4] * 10 + [0.2] * 10 + [0.6] * 10
    text = told(nights(sample_report, tmp_path, *values))
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert "1 30 change changed in" in words
    assert "0.400 0.600 ↑! 0.200" in words and "11 to 20 ↓+," in words and "21 to 30 ↑!" in words


def test_two_runs_show_the_change_with_its_interval_verdict_and_p(sample_report: Report, tmp_path: Path) -> None:
    text = told(nights(sample_report, tmp_path, 0.4, 0.2), everything=True)
    words = " ".join(text.split())
    assert "before after change p" in words
    assert "0.400 0.200 -0.200 ↓ better <0.001 (-0.214 to -0.186)" in words
    assert "0.500 0.500 0.000 (-0.014 to 0.014) unclear 1.000" in words
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("runs", [2, 3, 6, 9])
def test_names_are_broken_at_marks_and_not_within_a_word(sample_report: Report, tmp_path: Path, runs: int) -> None:
    name = "accent=indian&age=middle&gender=female&training=fine-tuned"
    made = [
        report(sample_report, *(row("error_rate", 0.2 + 0.1 * at, group=group) for group in (name, "all")))
        for at in range(runs)
    ]
    lines = told(compared(*made, folder=tmp_path)).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("  accent="))
    pieces = [(line.split() or [""])[0] for line in lines[start : start + 9]]
    whole = next(at for at in range(1, 9) if "".join(pieces[:at]) == name)
    assert all(piece.endswith(("&", "=", "-")) for piece in pieces[: whole - 1])


def test_a_run_that_shares_few_estimates_is_told_with_a_hint(sample_report: Report, tmp_path: Path) -> None:
    reports = [
        report(sample_report, row("gap", 0.2), *(row("error_rate", 0.1, system=name, layer=at) for at in range(5)))
        for name in ("old", "new")
    ]
    found = compared(*reports, folder=tmp_path)
    words = " ".join(told(found).split())
    assert "Only 1 of 6 estimates stand in both runs." in words
    assert "There is a system old in runs/1 only and new in runs/2 only: --match old=new compares" in words
    assert "In runs/1 only: 5 estimates (5 error_rate [system=old])." in words
    assert to_json(found)["runs"][0]["alone"]["before"][0] == {
        "name": "error_rate",
        "where": {"layer": 0, "system": "old"},
    }
    assert "error_rate [layer=4," in re.sub(r"<[^>]*>", "", to_html(found))


def test_settings_of_several_runs_are_said_once_with_the_runs_that_have_them(
    sample_report: Report, tmp_path: Path
) -> None:
    made = [
        report(sample_report, row("gap", 0.2), settings={**sample_report.settings, "folds": folds})
        for folds in (5, 5, 9)
    ]
    found = compared(*made, folder=tmp_path)
    assert runs_table.differences(found) == [("settings", "folds 5 (runs 1, 2), 9 (run 3)")]
    assert ("settings", "folds 5 → 9") in wording.differences(found[1])


def test_values_are_never_cut_to_the_same_text() -> None:
    long = "x" * 100
    values = [f"{start}{long}{middle}{long}{end}" for start, middle, end in ("a1b", "a2b", "c1d")]
    assert len(set(parted(values))) == 3
    assert apart(True, "yes") == 'true → "yes"'
    assert apart(["a"], "a") == '["a"] → "a"'


def test_only_what_names_the_audited_files_is_left_to_the_data(sample_report: Report, tmp_path: Path) -> None:
    first, *others = sample_report.data
    made = [
        report(
            sample_report,
            row("gap", 0.2),
            data=(dataclasses.replace(first, path=path, sha256=path[:1] * 64), *others),
            settings={**sample_report.settings, "predictions": [f"asr={path}"]},
        )
        for path in ("a.tsv", "b.tsv")
    ]
    (found,) = compared(*made, folder=tmp_path)
    assert wording.differences(found) == [("data", f"{first.role} a.tsv → b.tsv")]
    assert not any("settings differ" in note for note in wording.notes(found))
    same = dataclasses.replace(made[0], data=(dataclasses.replace(made[0].data[0], sha256="c" * 64), *others))
    (found,) = compared(made[0], same, folder=tmp_path)
    assert wording.differences(found) == [("data", f"{first.role} content aaaaaaaaaaaa → content cccccccccccc")]


def test_trends_are_drawn_from_three_runs_on_with_the_limit_of_a_gate(sample_report: Report, tmp_path: Path) -> None:
    gate = GateResult(expression="error_rate > 0.45", outcome="pass", rows=(1,))
    found = nights(sample_report, tmp_path, 0.4, 0.2, 0.6, gates=(gate,))
    ((label, _, picture, ends),) = trends.drawn(matrix_of(found), found, ["a", "b", "c"])
    assert picture.count("<circle") == picture.count('class="interval"') == 3 and picture.count("reference") == 1
    assert picture.count("point fail") == 1 and picture.count("point plain") == 1
    # 0.45 on an axis from 0.19 to 0.61, between the margins of the picture.
    assert f'y1="{88 - 80 * (0.45 - 0.19) / 0.42:.1f}"' in picture
    assert ends == "from 0.400 in a to 0.600 in c" and label.startswith("error rate")
    assert "c: 0.600 (0.590 to 0.610) ↑ worse" in picture
    assert trends.drawn(matrix_of(found[:1]), found[:1], ["a", "b"]) == []
    assert 'id="trends"' in to_html(found) and 'id="trends"' not in to_html(found[:1])


def test_markdown_holds_the_matrix_and_escapes_names(sample_report: Report, tmp_path: Path) -> None:
    reports = [report(sample_report, row("gap", value, by=EVIL), row("gap", 0.1, by="x")) for value in (0.2, 0.4, 0.2)]
    text = to_markdown(compared(*reports, folder=tmp_path, names=[f"a{EVIL}", "b", "c"]))
    assert text.startswith("# 1 of 4 changes are significant: 0 better, 1 worse.")
    assert "<b>" not in text and "</script>" not in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "0.400 ↑ worse" in line]
    assert len(rows) == 1 and rows[0].count(" | ") == 4
    assert "<details><summary>The rest: 1</summary>" in text


def test_the_page_folds_what_is_not_main_and_holds_names_as_text(sample_report: Report, tmp_path: Path) -> None:
    gate = GateResult(expression="gap > 1", outcome="pass", rows=(0,))
    reports = [
        report(sample_report, row("gap", 0.1, by="x"), row("error_rate", value, group=EVIL), gates=(gate,))
        for value in (0.2, 0.4)
    ]
    page = to_html(compared(*reports, folder=tmp_path))
    assert "<b>" not in page and page.count("<script>") == 1
    assert page.index("<h3>Main estimates</h3>") < page.index("<summary>Others that changed: 1</summary>")
    assert page.count("<em>↑ worse</em>") == 1


def test_a_page_of_many_rows_leaves_out_those_that_did_not_change(sample_report: Report, tmp_path: Path) -> None:
    count = MOST_CELLS // 3
    made = [
        report(sample_report, *(row("gap", 0.2, by=str(at)) for at in range(count)), row("gap", value, 1e-5, by="last"))
        for value in (0.2, 0.9)
    ]
    page = to_html(compared(*made, folder=tmp_path))
    assert "Others that changed" in page and "1 more estimates did not fit" in page
    assert len(page) < 1_500_000
