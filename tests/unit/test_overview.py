"""The top of a report: the answer, the matrix, and what was not shown."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from audits.core import registry
from audits.core.context import Draft
from audits.core.measures import SHARE, Measure
from audits.core.records import Answer, Estimate, Finding, GroupCounts, KeyNumber, Report, Verdict
from audits.core.summary import Summary
from audits.report.pages import overview
from audits.report.pages.glyphs import Span, rounded, span, svg_glyph
from audits.report.pages.html import MOST_GROUPS, to_html
from audits.report.pages.markdown import to_markdown

GAP = Measure("gap", ("by", "system", "kind"), "gap in errors", neutral=0.0)
SUMMARY = Summary(
    measure="gap", title="Gaps by attribute", row="by", column="system", where={"kind": "absolute"},
    chosen=("metric",), remarks={"x.spurious": "goes with another"},
)  # fmt: skip


def gap(value: float, by: str, system: str, **where: str) -> Estimate:
    ends = {"low": value - 0.05, "high": value + 0.05}
    place = {"by": by, "system": system, "kind": "absolute", "metric": "wer", **where}
    return Estimate(name="gap", value=value, **ends, method="m", n=9, unit="speakers", where=place, measure=GAP)


@pytest.fixture
def report(sample_report: Report, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Return a report of four gaps: one found, one that goes with another, one only by its interval, one null."""
    spec = replace(registry.find("audit-groups"), summaries=(replace(SUMMARY, measure="ratio"), SUMMARY))
    monkeypatch.setattr(registry, "find", lambda name: spec)
    rows = (
        gap(0.3, "age", "a"), gap(0.2, "age", "b"), gap(0.1, "accent", "a"), gap(-0.02, "accent", "b"),
        gap(0.4, "age", "a", kind="relative"), gap(0.4, "age", "a", metric="cer"), gap(0.4, "age&accent", "a"),
    )  # fmt: skip
    findings = (
        Finding(id="x.gap", severity="high", headline="Old get more errors.", statement="Much.", evidence=(0,)),
        Finding(id="x.spurious", severity="low", headline="Not so.", statement="", evidence=(1,)),
        Finding(id="x.none", severity="info", headline="None.", statement="", evidence=(3,)),
    )
    return replace(
        sample_report, estimates=rows, findings=findings, settings={"metric": "wer"}, warnings=(), gates=(), figures=()
    )


def test_the_matrix_has_a_cell_for_each_pair_and_says_what_carries_it(report: Report) -> None:
    found = overview.matrix(report)
    assert found is not None
    assert (found.title, found.rows, found.columns) == ("Gaps by attribute", ("age", "accent"), ("a", "b"))
    cells = [[(cell.index, cell.state, cell.words) for cell in row if cell] for row in found.cells]
    assert cells == [
        [(0, "shown", "shown · ▲ High"), (1, "alone", "goes with another")],
        [(2, "alone", "by its own interval only"), (3, "none", "not shown")],
    ]
    assert (found.axis.low, found.axis.high) == (-0.1, 0.4)
    assert [(row, column, cell.index) for row, column, cell in found.nulls()] == [("accent", "b", 3)]


def test_what_was_judged_together_speaks_for_a_cell_in_the_place_of_its_interval(report: Report) -> None:
    bare = replace(gap(0.1, "accent", "c"), low=None, high=None, method="none")
    verdicts = (
        Verdict(row=0, shown=True, words="higher"), Verdict(row=1, shown=True, words="higher"),
        Verdict(row=2, shown=False, words="not after correction"), Verdict(row=3, shown=False),
        Verdict(row=7, shown=False, words="not tested"),
    )  # fmt: skip
    judged = replace(
        report, estimates=(*report.estimates, bare), findings=report.findings[:1],
        answer=Answer(title="So.", verdicts=verdicts),
    )  # fmt: skip
    found = overview.matrix(judged)
    assert found is not None
    cells = [[(cell.state, cell.words) for cell in row if cell] for row in found.cells]
    # A finding says more than the verdict that it rests on.
    assert cells == [
        [("shown", "shown · ▲ High"), ("shown", "higher")],
        [("alone", "not after correction"), ("none", "not shown"), ("plain", "not tested")],
    ]
    assert [cell.index for _, _, cell in found.nulls()] == [2, 3], "what was judged not shown is listed as such"


@pytest.mark.parametrize("words", ["not tested", "on average not shown; some points are found"])
def test_what_its_own_interval_shows_is_no_null_where_no_correction_took_it_away(report: Report, words: str) -> None:
    answer = Answer(title="So.", verdicts=(Verdict(row=2, shown=False, words=words), Verdict(row=3, shown=False)))
    found = overview.matrix(replace(report, answer=answer))
    assert found is not None
    assert [(cell.index, cell.words) for _, _, cell in found.nulls()] == [(3, "not shown")]


def test_what_still_fits_is_the_end_that_is_farthest_from_none(report: Report) -> None:
    assert overview.still_fits(report.estimates[3]) == "-0.07"
    assert overview.furthest(report.estimates[0]) == pytest.approx(0.35)
    even = replace(report.estimates[3], low=-0.1699, high=0.1652)
    assert overview.still_fits(even) == "0.17", "of two ends that are written alike, the upper one"
    chance = replace(even, value=0.5, low=0.43, high=0.57, measure=replace(GAP, neutral=0.5))
    assert overview.still_fits(chance) == "0.57"
    below = replace(chance, value=0.47, low=0.38)
    assert overview.still_fits(below) == "0.57", "an AUC below chance is no attack"
    wins = replace(below, measure=replace(below.measure, worse="away"))
    assert overview.still_fits(wins) == "0.38", "fewer wins than losses are a difference as well"


def test_a_square_matrix_has_its_diagonal_in_one_line(report: Report) -> None:
    rows = tuple(gap(0.1, one, other) for one, other in (("a", "b"), ("b", "a"), ("a", "c"), ("c", "b")))
    found = overview.matrix(replace(report, estimates=rows, findings=()))
    assert found is not None and found.rows == found.columns == ("a", "b", "c")
    assert [cells[at] for at, cells in enumerate(found.cells)] == [None, None, None]


def test_ends_of_an_interval_that_would_touch_share_a_label() -> None:
    wide = replace(gap(0.3, "age", "a"), low=0.1, high=0.9)
    narrow = replace(wide, low=0.29, high=0.31)
    axis = Span(0.0, 1.0)
    assert ">0.10<" in svg_glyph(wide, None, axis) and " to " not in svg_glyph(wide, None, axis)
    assert ">0.290 to 0.310<" in svg_glyph(narrow, None, axis) and ">0.290<" not in svg_glyph(narrow, None, axis)


def test_names_may_break_at_underscores_and_what_is_in_backticks_is_code(report: Report) -> None:
    rows = (gap(0.3, "a_long_name", "a"), gap(0.2, "age", "b"))
    page = to_html(replace(report, estimates=rows, findings=(), limitations=("Give `a<b`.", "A lone ` stays.")), {})
    assert '<th scope="row">a_<wbr>long_<wbr>name</th>' in page
    assert "<li>Give <code>a&lt;b</code>.</li>" in page and "<li>A lone ` stays.</li>" in page


def test_a_pair_without_an_estimate_is_an_empty_cell_and_too_large_a_matrix_is_none(report: Report) -> None:
    found = overview.matrix(replace(report, estimates=(*report.estimates[:3], gap(0.1, "accent", "c")), findings=()))
    assert found is not None and found.cells[0][2] is None
    many = tuple(gap(0.1, f"x{place}", "a") for place in range(overview.MOST_CELLS + 1))
    assert overview.matrix(replace(report, estimates=many, findings=())) is None
    assert overview.matrix(replace(report, estimates=(), findings=())) is None


def test_the_answer_is_the_audits_own_or_what_the_findings_say(report: Report) -> None:
    made = overview.answer(report)
    assert made.title == "Old get more errors." and made.may == ("Old get more errors.", "Not so.")
    assert [number.row for number in made.numbers] == [0, 1, 3] and made.may_not == report.limitations[:4]
    assert made.numbers[0].words == "gap in errors, age, absolute, wer, a"
    own = Answer(title="So.", numbers=(KeyNumber(row=2, words="the gap"),))
    assert overview.answer(replace(report, answer=own)) == own
    nothing = overview.answer(replace(report, findings=()))
    assert nothing.title.startswith("Nothing was found") and nothing.numbers == () == nothing.may


def test_page_and_markdown_show_matrix_nulls_and_answer(report: Report) -> None:
    own = Answer(title="So <b> it is.", numbers=(KeyNumber(row=2, words="the gap"),), may=("This & that.",))
    report = replace(report, answer=own)
    page, text = to_html(report, {}), to_markdown(report)
    assert "<h1>So &lt;b&gt; it is.</h1>" in page and "<title>So &lt;b&gt; it is.</title>" in page
    assert '<td class="none" data-key="b">' in page and "○ not shown" in page and "This &amp; that." in page
    assert text.startswith("# So &lt;b&gt; it is.\n") and "0.10 (0.05 to 0.15); ◐ by its own interval only" in text
    for shown in (page, text):
        assert "Gaps by attribute" in shown and "No difference shown" in shown and "-0.07" in shown
    alone = replace(report, estimates=report.estimates[:1], findings=report.findings[:1], answer=None)
    assert "No difference shown" not in to_html(alone, {}) + to_markdown(alone)


def test_findings_of_what_the_table_of_nulls_shows_are_folded_under_it(report: Report) -> None:
    page = to_html(report, {})
    nulls = page[page.index('id="nulls"') :]
    found = page[page.index('id="found"') : page.index('id="nulls"')]
    assert "<summary>What was tested (1)</summary>" in nulls and "None.</h3>" in nulls and "None.</h3>" not in found
    assert found.count("<article") == 2
    alone = to_html(replace(report, findings=report.findings[2:]), {})
    assert "What was tested" not in alone and "None.</h3>" in alone, "the list of findings is never empty for that"


def test_words_of_rows_and_details_of_cells_stand_in_the_matrix(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"system": "system {}", "by=age": "by age"}
    summary = replace(SUMMARY, words=words, detail=lambda report, index: f"<{index}>")
    spec = replace(registry.find("audit-groups"), summaries=(summary,), headed=("metric", "left"))
    monkeypatch.setattr(registry, "find", lambda name: spec)
    found = overview.matrix(report)
    assert found is not None and (found.rows, found.columns) == (("by age", "accent"), ("system a", "system b"))
    page = to_html(replace(report, settings={"metric": "wer", "left": None}), {})
    assert "<small>&lt;0&gt;</small>" in page and "; &lt;0&gt;; ● shown" in to_markdown(report)
    assert "<span>metric <b>wer</b></span></p>" in page


def test_words_that_an_audit_declares_for_a_metric_come_before_those_for_all(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"kind": "absolute", "system": "a"}
    summary = replace(SUMMARY, column="metric", where=where, chosen=(), words={"metric=word_errors": "wrong words"})
    spec = replace(registry.find("audit-groups"), summaries=(summary,))
    monkeypatch.setattr(registry, "find", lambda name: spec)
    rows = tuple(gap(0.3, "age", "a", metric=metric) for metric in ("word_errors", "char_errors"))
    found = overview.matrix(replace(report, estimates=rows, findings=()))
    assert found is not None and found.columns == ("wrong words", "char errors")


def test_an_axis_has_the_ends_of_its_measure_or_begins_at_none_where_nothing_is_neutral() -> None:
    share, size = Measure("share", ends=SHARE), Measure("size")
    ends = {"value": 0.5, "low": 0.4, "high": 0.6, "method": "m", "n": 9, "unit": "images"}
    of_share, of_size = (Estimate(name=one.name, measure=one, **ends) for one in (share, size))
    below = Estimate(name="size", measure=size, **{**ends, "low": -0.1})
    assert span([of_share]) == Span(0.0, 1.0) and span([of_size]) == Span(0.0, 0.6)
    assert span([below]) == Span(-0.1, 0.6) and span([gap(0.3, "age", "a")]) == Span(0.25, 0.35)
    labels = [re.findall(r">([\d.]+)</text>", svg_glyph(row, None)) for row in (of_share, of_size)]
    assert labels == [["0.40", "0.60", "0", "1"], ["0.40", "0.60", "0"]]


@pytest.mark.parametrize("name", [entry.name for entry in registry.AUDITS])
def test_every_audit_says_what_to_do_about_findings_that_it_has(name: str) -> None:
    spec = registry.find(name)
    folder = Path(__file__).resolve().parents[2] / spec.package.replace(".", "/")
    code = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py") if file.name != "__init__.py")
    assert spec.steps and all(f'"{id}"' in code for id in spec.steps)
    assert all(len(step.split()) <= 40 and step.endswith(".") for step in spec.steps.values())


def test_the_step_of_the_worst_finding_stands_on_top(sample_report: Report) -> None:
    draft = Draft()
    draft.find("a.small", "low", "It is small.", headline="It is small.")
    draft.find("a.large", "high", "It is large.", headline="It is large.")
    draft.conclude("It is large.")
    draft.advise({"a.small": "Wait & see.", "a.other": "Go."})
    assert draft.answer is not None and draft.answer.next_step == "Wait & see."
    draft.advise({"a.small": "Wait & see.", "a.large": "Stop <now>."})
    assert draft.answer.next_step == "Stop <now>."
    report = replace(sample_report, answer=draft.answer)
    assert "Stop &lt;now&gt;." in to_html(report, {}) and "**What now?** Stop" in to_markdown(report)
    assert "What now?" not in to_html(sample_report, {})


@pytest.mark.parametrize(
    "axis",
    [Span(-1.7e308, 1.7e308), Span(0.0, 5e-324), Span(1e16, 1e16 + 2), Span(0.1, 0.1 + 2e-17), Span(-1.0, 1.79e308)],
)
def test_an_axis_beyond_rounding_stays_one_that_numbers_can_be_drawn_on(axis: Span) -> None:
    found = rounded(axis)
    assert found.low <= axis.low and axis.high <= found.high
    assert found.low < found.high < float("inf") or axis.low == axis.high


def test_groups_that_read_alike_have_a_row_each(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = registry.find("audit-groups")
    monkeypatch.setattr(
        registry, "find", lambda name: replace(spec, summaries=(replace(SUMMARY, row="group", crossed=True),))
    )
    rows = tuple(gap(0.3, "age", "a", group=group) for group in ("age=old x&sex=y", "age=old&sex=x y"))
    found = overview.matrix(replace(report, estimates=rows, findings=()))
    assert found is not None and found.rows == ("old x y (age, sex)",) * 2
    assert [cell.index for (cell,) in found.cells if cell is not None] == [0, 1]


def test_groups_without_counts_or_very_many_of_them_leave_a_page_that_opens(report: Report) -> None:
    none = (GroupCounts(group="age=old", counts={}),)
    assert to_html(replace(report, coverage=replace(report.coverage, groups=none)), {})
    many = tuple(GroupCounts(group=f"age={at}", counts={"speakers": 1}) for at in range(MOST_GROUPS + 2))
    page = to_html(replace(report, coverage=replace(report.coverage, groups=many)), {})
    assert f"age={MOST_GROUPS - 1}<" in page and f"age={MOST_GROUPS}<" not in page and "and 2 more in <code>" in page


def test_what_steers_a_terminal_does_not_reach_markdown(report: Report) -> None:
    text = to_markdown(replace(report, answer=Answer(title="\x1b[31mred\x9b2J")))
    assert "\x1b" not in text and "\x9b" not in text and "red" in text
