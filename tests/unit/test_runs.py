"""The overview of runs: what is read of a report, trends of gated estimates, and the page."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from audits.core.records import Answer, GateResult, Report
from audits.report.report_file import NAME, dumps
from audits.report.run_index.listing import Listing, list_runs, read_run
from audits.report.run_index.page import MOST_POINTS, to_html
from audits.report.run_index.trends import trends_of

EVIL = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"


def put(folder: Path, report: Report, *, text: str | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / NAME).write_text(dumps(report) if text is None else text, encoding="utf-8")
    return folder / NAME


def test_a_run_is_read_without_charts_and_with_the_gated_estimates_alone(sample_report: Report, tmp_path: Path) -> None:
    run = read_run(put(tmp_path / "a", sample_report), "a")
    assert (run.audit, run.subject, run.named) == ("audit-fairness", "models/wav2vec2-base", "models/wav2vec2-base")
    assert (run.created, run.worst, run.failed, run.state) == ("2026-01-15T09:30:00Z", "high", 1, "1 of 2 failed")
    assert run.answer == sample_report.findings[0].title
    rows = [(gate.expression, gate.passed, [row.value for row in gate.rows]) for gate in run.gates]
    assert rows == [
        (gate.expression, gate.outcome == "pass", [sample_report.estimates[row].value for row in gate.rows])
        for gate in sample_report.gates
    ]


@pytest.mark.parametrize("layout", [{"indent": None}, {"indent": 4}, {"separators": (",", ":")}])
def test_a_report_in_another_layout_is_read_as_a_whole(
    sample_report: Report, tmp_path: Path, layout: dict[str, object]
) -> None:
    text = json.dumps(sample_report.to_json(), **layout)  # type: ignore[arg-type]
    assert read_run(put(tmp_path / "a", sample_report, text=text), "a") == read_run(
        put(tmp_path / "b", sample_report), "a"
    )


def test_the_last_estimate_is_read_too(sample_report: Report, tmp_path: Path) -> None:
    last = len(sample_report.estimates) - 1
    gate = GateResult(expression="gap > 1", outcome="pass", rows=(last, 0))
    run = read_run(put(tmp_path / "a", replace(sample_report, gates=(gate,))), "a")
    assert [row.value for row in run.gates[0].rows] == [sample_report.estimates[row].value for row in gate.rows]


def test_the_answer_is_that_of_the_page(sample_report: Report, tmp_path: Path) -> None:
    own = replace(sample_report, answer=Answer(title="So it is."))
    assert read_run(put(tmp_path / "a", own), "a").answer == "So it is."
    nothing = replace(sample_report, findings=())
    run = read_run(put(tmp_path / "b", nothing), "b")
    assert run.answer.startswith("Nothing was found") and run.worst is None


def test_runs_are_found_at_any_depth_and_through_links_the_newest_first(sample_report: Report, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    put(root / "team" / "old", sample_report)
    put(root / "new", replace(sample_report, created="2026-02-01T00:00:00Z", gates=()))
    put(tmp_path / "elsewhere", sample_report)
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root)
    put(root / "broken", sample_report, text="{")
    put(root / "other", sample_report, text='{"schema": "x"}')
    found = list_runs(root)
    assert [run.folder for run in found.runs] == ["new", "team/old", "linked"]
    assert set(found.unreadable) == {"broken", "other"} and not found.cut
    assert [run.folder for run in list_runs(root / "new").runs] == ["."]


def test_a_gated_estimate_has_a_trend_over_the_runs_of_its_audit(sample_report: Report, tmp_path: Path) -> None:
    for month in (1, 2, 3):
        put(tmp_path / str(month), replace(sample_report, created=f"2026-0{month}-15T09:30:00Z"))
    put(tmp_path / "other", replace(sample_report, audit="certify", created="2026-05-15T09:30:00Z"))
    trends = trends_of(list_runs(tmp_path).runs)
    assert [(trend.failed, len(trend.points), trend.limit) for trend in trends] == [(3, 3, 0.05), (0, 3, 0.05)]
    assert [point.run.folder for point in trends[0].points] == ["1", "2", "3"]
    assert "by accent" in trends[0].where and trends[0].name == "gap"
    label = sample_report.estimates[sample_report.gates[0].rows[0]].measure.label
    assert trends[0].title == f"{label}, {trends[0].where}" != f", {trends[0].where}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"low": 0.', '"low": 1e999, "was": 0.'),
        ('"value": 0.', '"value": NaN, "was": 0.'),
        ('"name": "gap"', f'"name": "{"x" * 1_100_000}"'),
        ('"audit": ', '"audit": ' + "[" * 100_000),
        ('"schema": "miles', '"schema": "other'),
    ],
)
def test_what_is_no_report_is_told_and_the_others_are_listed(
    sample_report: Report, tmp_path: Path, old: str, new: str
) -> None:
    put(tmp_path / "good", sample_report)
    text = dumps(sample_report)
    assert old in text
    put(tmp_path / "bad", sample_report, text=text.replace(old, new))
    found = list_runs(tmp_path)
    assert [run.folder for run in found.runs] == ["good"] and [*found.unreadable] == ["bad"]


def test_a_report_that_is_too_large_is_not_read(
    sample_report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a", sample_report)
    monkeypatch.setattr("audits.report.run_index.listing.MOST_PARSED", 2000)
    assert "are no estimates or charts" in list_runs(tmp_path).unreadable["a"]
    monkeypatch.setattr("audits.report.run_index.listing.MOST_BYTES", 2000)
    assert "larger than 2,000 bytes" in list_runs(tmp_path).unreadable["a"]


def test_a_gate_without_a_finite_limit_has_a_trend_without_one(sample_report: Report, tmp_path: Path) -> None:
    gate = GateResult(expression="gap > 1e999", outcome="pass", rows=(0,))
    for day in (1, 2):
        put(tmp_path / str(day), replace(sample_report, gates=(gate,), created=f"2026-01-0{day}T09:30:00Z"))
    (trend,) = trends_of(list_runs(tmp_path).runs)
    assert trend.limit is None and "nan" not in to_html(list_runs(tmp_path)).split("<main")[1]


def test_runs_are_linked_from_where_the_page_lies(sample_report: Report, tmp_path: Path) -> None:
    for name in ("a b", "javascript:alert(1)", "bare"):
        put(tmp_path / "runs" / name, sample_report)
        if name != "bare":
            (tmp_path / "runs" / name / "report.html").write_text("x", encoding="utf-8")
    page = to_html(list_runs(tmp_path / "runs"), tmp_path)
    assert 'href="./runs/a%20b/report.html"' in page and 'href="./runs/javascript%3Aalert%281%29/report.html"' in page
    assert page.count('href="./') == 2 and 'href="./' not in to_html(list_runs(tmp_path / "runs"))


def test_the_page_shows_every_run_and_runs_nothing_of_it(sample_report: Report, tmp_path: Path) -> None:
    evil = replace(sample_report, answer=Answer(title=EVIL), subject=None, created="2026-03-01T00:00:00Z")
    put(tmp_path / "a", sample_report)
    put(tmp_path / "b", evil)
    page = to_html(list_runs(tmp_path))
    assert page.count("<tr data-audit=") == 2 and page.count('<svg class="trend"') == 2
    assert page.count("<script>") == 1 and "<img" not in page and "{{ 7*7 }}" in page
    assert page.count('class="state-fail"') == 2 and "2 with a failed gate" in page
    bare = to_html(Listing(tmp_path, (), {"x": "ValueError: <b>"}))
    assert "0 runs" in bare and "x: ValueError: &lt;b&gt;" in bare and 'id="trends"' not in bare


@pytest.mark.parametrize("what", ["row", "value", "answer"])
def test_a_report_with_numbers_or_letters_that_nothing_holds_is_told_and_the_others_are_listed(
    sample_report: Report, tmp_path: Path, what: str
) -> None:
    data = sample_report.to_json()
    if what == "answer":
        data["answer"] = {"title": "\ud800", "numbers": [], "may": [], "may_not": []}
    else:
        data["gates"] = [{"expression": "gap > 1", "outcome": "fail", "rows": [10**30 if what == "row" else 0]}]
        data["estimates"][0]["value"] = 10**400 if what == "value" else 0.5
    put(tmp_path / "bad", sample_report, text=json.dumps(data, sort_keys=True, indent=1))
    put(tmp_path / "good", sample_report)
    found = list_runs(tmp_path)
    assert [run.folder for run in found.runs] == ["good"] and set(found.unreadable) == {"bad"}


def test_a_folder_whose_name_is_no_text_is_on_the_page(sample_report: Report, tmp_path: Path) -> None:
    put(tmp_path / os.fsdecode(b"a\xff"), sample_report)
    to_html(list_runs(tmp_path), tmp_path).encode()


def test_of_a_long_course_the_newest_runs_are_drawn(sample_report: Report, tmp_path: Path) -> None:
    run = read_run(put(tmp_path / "a", sample_report), "a")
    days = (replace(run, created=f"2026-{day:05d}") for day in range(MOST_POINTS + 3))
    page = to_html(Listing(tmp_path, tuple(days)))
    assert f"{MOST_POINTS + 3} runs" in page and f"drawn are the newest {MOST_POINTS}" in page
    assert page.count("<circle") == MOST_POINTS * page.count('class="course"')
