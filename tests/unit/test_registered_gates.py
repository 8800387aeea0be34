"""Are registered gates told from those added later wherever gates are shown, and never by colour alone?"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from audits.core.records import GateResult, Report
from audits.core.registration import LATER, REGISTERED, Registration
from audits.report.exports.in_toto import to_in_toto
from audits.report.exports.junit import to_junit
from audits.report.pages.html import to_html
from audits.report.pages.markdown import to_markdown
from audits.report.pages.notebook import fragment
from audits.report.pages.terminal import summarise
from audits.report.report_file import dumps, read_report, write_report

CITED = Registration(sha256="c" * 64, file="my <criteria>.json", created="2026-11-28T03:00:00Z", miles="0.1.0")


@pytest.fixture
def registered(sample_report: Report) -> Report:
    """Return a report of four gates: each kind has one that passed and one that failed."""
    failed, passed = sorted(sample_report.gates, key=bool)
    marked = [replace(gate, registered=mark) for mark in (True, False) for gate in (failed, passed)]
    return replace(sample_report, gates=tuple(marked), registration=CITED)


def shown(report: Report, how: str) -> str:
    if how == "terminal":
        console = Console(width=400, record=True, file=None, quiet=False)
        with console.capture() as captured:
            console.print(summarise(report, folder=Path("runs/a"), width=400))
        return captured.get()
    return {"page": lambda: to_html(report, {}), "markdown": lambda: to_markdown(report),
            "notebook": lambda: fragment(report, Path("runs/a"))}[how]()  # fmt: skip


WAYS = ("page", "markdown", "terminal", "notebook")


@pytest.mark.parametrize("how", WAYS)
def test_each_gate_says_in_words_whether_it_was_registered(registered: Report, how: str) -> None:
    text = shown(registered, how)
    assert text.count(REGISTERED) == text.count(LATER) == 2
    # Between the mark of a gate and its expression, in the order of the gates.
    assert [text.find(REGISTERED) < text.find(LATER), CITED.sha256 in text, "2026-11-28 03:00:00 UTC" in text] == [
        True
    ] * 3


@pytest.mark.parametrize("how", WAYS)
def test_without_a_registration_nothing_is_said_of_it(sample_report: Report, how: str) -> None:
    text = shown(sample_report, how)
    assert REGISTERED not in text and LATER not in text and "egistered at" not in text and "egistration" not in text


def test_a_failed_gate_that_was_added_does_not_look_like_a_registered_one(registered: Report) -> None:
    page = to_html(registered, {})
    assert re.findall(r'<li class="(gate [\w ]+)">', page) == [
        "gate fail", "gate pass", "gate fail later", "gate pass later",
    ]  # fmt: skip
    assert "my &lt;criteria&gt;.json" in page and "my <criteria>" not in page


def test_a_registration_survives_the_disk_and_is_absent_without(registered: Report, tmp_path: Path) -> None:
    write_report(registered, tmp_path)
    again = read_report(tmp_path)
    assert again == registered and again.registration == CITED
    plain = replace(registered, registration=None, gates=tuple(replace(one, registered=None) for one in again.gates))
    assert '"registration"' not in dumps(plain) and '"registered"' not in dumps(plain)


@pytest.mark.parametrize("mark", [None, True])
def test_a_report_that_marks_gates_otherwise_than_it_cites_is_refused(
    registered: Report, tmp_path: Path, mark: bool | None
) -> None:
    cites = None if mark else CITED
    gates = tuple(replace(gate, registered=mark) for gate in registered.gates)
    write_report(replace(registered, gates=gates, registration=cites), tmp_path)
    with pytest.raises(Exception, match="marked as registered or added"):
        read_report(tmp_path)


def test_exports_without_a_registration_are_as_they_were(sample_report: Report) -> None:
    assert "registration" not in to_junit(sample_report) and "post" not in to_junit(sample_report)
    assert "registration" not in to_in_toto(sample_report, "d" * 64)


def test_a_gate_without_a_mark_is_as_it_was() -> None:
    assert GateResult(expression="a > 0", outcome="pass", rows=()).registered is None
