"""Do annotations and job summary say what the report says, within GitHub's limits, and stay text whatever it says?"""

import dataclasses
import re
from collections import Counter
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from audits.core.numbers import described
from audits.core.records import Estimate, Finding, GateResult, Report
from audits.core.registration import Registration
from audits.report.exports.github import MOST_ANNOTATIONS, MOST_BYTES, annotations, summary

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)")
"""What a runner reads in a line: kind, properties without a colon or a comma, and all the rest as the message."""


def read(command: str) -> tuple[str, str, str]:
    """Return kind, title and message as a runner understands them."""
    met = COMMAND.fullmatch(command)
    assert met, command
    kind, title, message = met.groups()
    assert re.fullmatch(r"(?:[^%]|%25|%0D|%0A)*", message) and re.fullmatch(r"(?:[^%]|%25|%0D|%0A|%3A|%2C)*", title)
    return kind, unquote(title), unquote(message)


def test_failed_gates_and_grave_findings_are_annotated(sample_report: Report) -> None:
    found = tuple(
        Finding(id=f"f.{severity}", severity=severity, statement=f"100 % of {severity}: a, b.")
        for severity in ("info", "low", "medium", "high")
    )
    said = [read(one) for one in annotations(dataclasses.replace(sample_report, findings=found))]
    gate, row = sample_report.gates[0], sample_report.estimates[sample_report.gates[0].rows[0]]
    assert said[0][:2] == ("error", "miles audit-fairness: gate failed")
    assert said[0][2].startswith(f"{gate.expression}: ") and described(row) in said[0][2]
    assert said[1:] == [
        ("error", "miles audit-fairness: High", "100 % of high: a, b."),
        ("warning", "miles audit-fairness: Medium", "100 % of medium: a, b."),
        ("notice", "miles audit-fairness: Low", "100 % of low: a, b."),
    ]
    assert annotations(dataclasses.replace(sample_report, findings=(), gates=())) == []


@pytest.mark.parametrize("count", [MOST_ANNOTATIONS, MOST_ANNOTATIONS + 1, 300])
def test_ten_of_a_kind_are_shown_and_the_rest_counted(sample_report: Report, count: int) -> None:
    found = [
        Finding(id="f", severity=severity, statement=f"S{place}.")
        for severity in ("low", "medium", "high")
        for place in range(count)
    ]
    said = [read(one) for one in annotations(dataclasses.replace(sample_report, gates=(), findings=tuple(found)))]
    assert Counter(kind for kind, _, _ in said) == dict.fromkeys(("error", "warning", "notice"), MOST_ANNOTATIONS)
    rest = [message for _, _, message in said if message.startswith("and ")]
    assert len(rest) == (0 if count == MOST_ANNOTATIONS else 3)
    assert all(message.startswith(f"and {count - MOST_ANNOTATIONS + 1} more ") for message in rest)


def test_the_summary_begins_with_the_answer_and_the_gates(sample_report: Report) -> None:
    # Those that failed come first, whatever their order.
    text = summary(dataclasses.replace(sample_report, gates=sample_report.gates[::-1]))
    order = [
        text.index(part) for part in ("## ", "### Gates", "Gate failed", "Gate passed", "### Key", "### What we found")
    ]
    assert order == sorted(order)
    for finding in sample_report.findings:
        assert finding.title in text.replace("\\", "")
    # A figure of the run folder would be a broken picture, and a caption without it would speak of nothing.
    assert "![" not in text and "figures/" not in text and "<img" not in text
    assert not any(figure.caption in text for figure in sample_report.figures)
    assert f"{len(sample_report.figures)} figures are in the report" in text
    none = summary(dataclasses.replace(sample_report, gates=(), findings=()))
    assert "No gates: nothing was decided." in none and "Nothing was found" in none


def test_findings_for_information_are_folded(sample_report: Report) -> None:
    notes = tuple(Finding(id="f", severity="info", statement=f"N{place}.") for place in range(3))
    text = summary(dataclasses.replace(sample_report, findings=notes))
    inside = text[text.index("<details><summary>For information: 3</summary>\n\n") : text.index("\n</details>\n")]
    assert [f"- **N{place}.**" in inside for place in range(3)] == [True] * 3


def test_registered_gates_are_marked(sample_report: Report) -> None:
    gates = [dataclasses.replace(one, registered=place == 0) for place, one in enumerate(sample_report.gates)]
    cited = Registration(sha256="c" * 64, file="criteria.json", created="2026-11-28T03:00:00Z", miles="0.1.0")
    report = dataclasses.replace(sample_report, gates=tuple(gates), findings=(), registration=cited)
    assert " (registered before the run): " in annotations(report)[0]
    text = summary(report)
    assert "(registered before the run)" in text and "(added after registration)" in text
    assert f"Criteria registered at 2026-11-28 03:00:00 UTC, SHA-256 `{'c' * 64}`." in text


@pytest.mark.parametrize("most", [MOST_BYTES, 40_000, 16_384])
def test_the_summary_keeps_below_the_limit_and_counts_the_rest(sample_report: Report, most: int) -> None:
    # More than fit in any case.
    many = max(300, most // 350)
    found = tuple(
        Finding(id="f", severity=severity, statement=f"Finding {place} of many. " + "ä@ " * 200)
        for place in range(many)
        for severity in ("high", "info")
    )
    gates = tuple(GateResult(expression=f"gap > {place}", outcome="fail", rows=(0,)) for place in range(2 * many))
    report = dataclasses.replace(sample_report, findings=found, gates=gates)
    text = summary(report, most)
    assert most - 6000 < len(text.encode()) <= most
    counted = [
        int(one.replace(",", "")) for one in re.findall(r"^- and ([\d,]+) more gates in report.json$", text, re.M)
    ]
    assert text.count("**✗ Gate failed**") + sum(counted) == 2 * many
    assert text.rstrip().endswith("</sub>")
    fewer = summary(dataclasses.replace(report, gates=()), most)
    left = [int(one.replace(",", "")) for one in re.findall(r"^- and ([\d,]+) more findings", fewer, re.M)]
    assert fewer.count("High: **Finding") + sum(left) == many and len(fewer.encode()) <= most


HOSTILE = (
    "::add-mask::secret",
    "a, file=b: c",
    "\n::error::x",
    "\r\n##[error]x",
    "a%0A::error::x",
    "a]::error::b",
    "@somebody and @org/team",
    "<script>alert(1)</script><img src=x onerror=y>",
    "a | b \\| c",
    "[x](https://x.example) ![y](https://y.example) www.z.example",
    "``` \n# head",
    "</details>",
    "$\\href{https://x.example}{y}$",
    "<!-- a --> &lt;b&gt; &amp;",
    "\u2028::error::x",
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec=None), max_size=12)))
@example(text="\n".join(HOSTILE))
@example(text=HOSTILE[2])
@example(text="#")
def test_hostile_text_is_no_command_no_markup_and_no_mention(sample_report: Report, text: str) -> None:
    row = Estimate(name=text, value=0.5, method=text, n=9, unit=text, where={"group": text}, low=0.4, high=0.6)
    report = dataclasses.replace(
        sample_report,
        audit=text,
        title=text,
        subject=dataclasses.replace(sample_report.subject, path=text),
        estimates=(row,),
        gates=tuple(GateResult(expression=text, outcome=outcome, rows=(0,)) for outcome in ("pass", "fail")),
        findings=tuple(Finding(id=text, severity=one, statement=text, where={text: text}) for one in ("high", "info")),
        limitations=(text,),
        answer=None,
    )
    commands = annotations(report)
    assert [read(one)[0] for one in commands] == ["error", "error"]
    paper = summary(report)
    for one in paper.split("\n"):
        # A runner reads commands at the beginning of a line, and those of an older form anywhere.
        assert not one.lstrip().startswith("::") and "##[" not in one
        assert not any(ord(letter) < 32 for letter in one)
    bare = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", paper)
    assert not re.search(r"@[A-Za-z0-9]", bare)
    tags = set(re.findall(r"<[^>]*>", bare))
    ours = {"<details>", "<summary>", "</summary>", "</details>", "<sub>", "</sub>", "<span>", "</span>"}
    assert tags <= ours and paper.count("\n</details>\n") == 1
    assert not re.search(r"(?<!>)\$(?!<)", bare)
    kinds = {token.type: token.content for token in parsed(paper)}
    assert not kinds.keys() & {"link_open", "image", "table_open", "fence", "code_block", "s_open", "em_open"}
    assert len([token for token in parsed(paper) if token.type == "heading_open"]) == paper.count("\n#") + 1


def parsed(text: str) -> list[Token]:
    """Return what a parser of Markdown with tables and strikes, as on GitHub, finds, at all depths."""
    found = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [token for block in found for token in (block, *(block.children or ()))]


def test_the_summary_cites_the_registration_below_the_gates(sample_report: Report) -> None:
    held = Registration(sha256="cd" * 32, file="criteria.json", created="2026-01-01T00:00:00Z", miles="0.1.0")
    gates = tuple(dataclasses.replace(gate, registered=True) for gate in sample_report.gates)
    text = summary(dataclasses.replace(sample_report, gates=gates, registration=held))
    said = f"Criteria registered at 2026-01-01 00:00:00 UTC, SHA-256 `{'cd' * 32}`.\n\n"
    assert text.index("registered before the run") < text.index(said) < text.index("###", text.index("### Gates") + 3)
    assert "Criteria" not in summary(sample_report)
