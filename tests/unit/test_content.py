"""Do all forms of a report say alike why a gate failed, and how long the audit took?"""

import dataclasses
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from audits.core import gates
from audits.core.records import Estimate, Report
from audits.report.exports.junit import to_junit
from audits.report.exports.model_card import section
from audits.report.pages import content
from audits.report.pages.html import to_html
from audits.report.pages.markdown import to_markdown
from audits.report.pages.terminal import summarise


def judged(report: Report, *values: float, expression: str = "rate > 0.5") -> Report:
    rows = tuple(
        Estimate(name="rate", value=value, method="exact", n=9, unit="clips", where={"group": f"<g{place}>"})
        for place, value in enumerate(values)
    )
    gate = gates.judge(gates.parse(expression), rows)
    return dataclasses.replace(report, estimates=rows, findings=(), gates=(gate,))


def terminal(report: Report) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(summarise(report, folder=Path("run"), width=100))
    return out.getvalue()


def test_what_broke_a_gate_is_said_in_every_form(sample_report: Report) -> None:
    report = judged(sample_report, 0.1, 0.9, 0.2, 0.8)
    lines = ["rate <g1>: 0.900, exact, 9 clips", "rate <g3>: 0.800, exact, 9 clips"]
    assert content.broken(report, report.gates[0]) == lines
    head = terminal(report).splitlines()
    at = [line.strip() for line in head].index("✗ gate failed  rate > 0.5")
    assert [line.strip() for line in head[at + 1 : at + 3]] == lines
    escaped = "  - rate &lt;g1&gt;: 0.900, exact, 9 clips"
    assert f"`rate > 0.5`\n{escaped}\n" in to_markdown(report)
    assert f"`rate > 0.5`\n{escaped}\n" in section(report, [])
    assert "<li>rate &lt;g1&gt;: 0.900, exact, 9 clips</li>" in to_html(report, {})


def test_of_many_the_first_are_named_and_the_others_counted(sample_report: Report) -> None:
    report = judged(sample_report, *[0.9] * 7, 0.1)
    lines = content.broken(report, report.gates[0])
    assert len(lines) == content.MOST_BROKEN + 1
    assert lines[-1] == f"and {7 - content.MOST_BROKEN} more of 8 that it looks at"


def test_a_gate_on_findings_names_the_findings(sample_report: Report) -> None:
    high = [row for row in sample_report.findings if row.severity == "high"]
    gate = gates.judge(gates.parse("findings[severity=high] > 0"), [], findings=sample_report.findings)
    report = dataclasses.replace(sample_report, gates=(gate,))
    assert content.broken(report, gate) == [f"High: {row.title}" for row in high] != []
    failure = ElementTree.fromstring(to_junit(report)).find(".//failure")
    assert failure is not None and high[0].title in str(failure.get("message"))
    many = dataclasses.replace(report, findings=tuple(high[:1] * 5))
    assert content.broken(many, gate)[content.MOST_BROKEN :] == ["and 2 more"]
    none = gates.judge(gates.parse("findings[severity=high] < 1"), [])
    assert none.outcome == "fail"
    assert content.broken(dataclasses.replace(report, findings=()), none) == ["there is no such finding"]
    passed = gates.judge(gates.parse("findings > 99"), [], findings=sample_report.findings)
    assert passed.outcome == "pass" and content.broken(report, passed) == []


def test_a_gate_that_passed_needs_no_reason(sample_report: Report) -> None:
    report = judged(sample_report, 0.1, 0.2)
    assert report.gates[0].outcome == "pass" and content.broken(report, report.gates[0]) == []
    assert "rate <g0>" not in terminal(report)


@pytest.mark.parametrize(
    ("spent", "seconds"), [({"a": 2.0, "b": 3.5, "total": 6.25}, 6.25), ({"a": 2.0, "b": 3.5}, 5.5), ({}, 0.0)]
)
def test_phases_are_parts_of_the_total(sample_report: Report, spent: dict[str, float], seconds: float) -> None:
    provenance = dataclasses.replace(sample_report.provenance, seconds=spent)
    report = dataclasses.replace(sample_report, provenance=provenance)
    assert content.seconds(report) == seconds
    assert ElementTree.fromstring(to_junit(report))[0].get("time") == f"{seconds:.3f}"


def test_every_form_says_where_its_calibration_stands_and_foreign_audits_claim_none(sample_report: Report) -> None:
    place = "docs/audits/asr_fairness.md#calibration"
    assert f"- How often these intervals hold: `{place}`\n" in to_markdown(sample_report)
    assert f"<dt>How often these intervals hold</dt><dd><code>{place}</code>" in to_html(sample_report, {})
    foreign = dataclasses.replace(sample_report, audit="audit-of-others")
    assert content.calibration_page(foreign) == ""
    assert "How often" not in to_markdown(foreign) and "How often" not in to_html(foreign, {})
