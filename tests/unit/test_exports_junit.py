"""Does the XML hold every gate with the numbers that decided it, and stay XML whatever the report says?"""

import dataclasses
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from audits.core.numbers import described
from audits.core.records import Estimate, Finding, GateResult, Report, Warning
from audits.report.exports import TARGETS, find
from audits.report.exports.junit import MOST_ROWS, MOST_WARNINGS, to_junit
from probes.core.errors import InputError


def read(report: Report) -> ET.Element:
    return ET.fromstring(to_junit(report).encode("ascii"))


def test_each_gate_is_a_test_case_and_its_failure_holds_the_numbers(sample_report: Report) -> None:
    root = read(sample_report)
    cases = root.findall("testsuite/testcase")
    assert [case.get("name") for case in cases] == [gate.expression for gate in sample_report.gates]
    assert {case.get("classname") for case in cases} == {"audit-fairness"}
    failures = [case.find("failure") for case in cases]
    row = described(sample_report.estimates[sample_report.gates[0].rows[0]])
    assert failures[1] is None and failures[0] is not None
    assert row in (failures[0].text or "") and row in failures[0].get("message", "")
    passed = described(sample_report.estimates[sample_report.gates[1].rows[0]])
    said = root.findtext("testsuite/system-out") or ""
    assert f"Gate passed: {sample_report.gates[1].expression}\n" in said and passed in said
    assert [root[0].get(key) for key in ("tests", "failures", "errors", "skipped")] == ["2", "1", "0", "0"]


@pytest.mark.parametrize("gates", ["failed and passed", "none"])
def test_it_has_what_the_schema_of_ant_asks_for_and_no_more(sample_report: Report, gates: str) -> None:
    """Typed anew from JUnit.xsd of Windy Road; tests/oracle holds the file against the schema itself."""
    root = read(sample_report if gates != "none" else dataclasses.replace(sample_report, gates=()))
    assert root.tag == "testsuites" and not root.attrib
    (suite,) = root
    times = {"timestamp", "hostname", "time"}
    assert set(suite.attrib) == times | {"name", "package", "id", "tests", "failures", "errors", "skipped"}
    assert re.fullmatch(r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}", suite.get("timestamp") or "")
    assert (suite.get("id"), suite.get("hostname")) == ("0", "localhost") and float(suite.get("time") or "nan") >= 0
    tags = [child.tag for child in suite]
    assert tags == ["properties", *["testcase"] * (len(tags) - 3), "system-out", "system-err"]
    for case in suite.findall("testcase"):
        assert set(case.attrib) == {"name", "classname", "time"} and case.get("time") == "0.000"
        assert [child.tag for child in case] in ([], ["failure"], ["skipped"])
        assert all(failure.get("type") for failure in case.findall("failure"))


def test_findings_warnings_versions_and_hashes_stand_in_the_suite(sample_report: Report) -> None:
    suite = read(sample_report)[0]
    said = suite.findtext("system-out") or ""
    for text in (*(one.statement for one in sample_report.findings), *(one.message for one in sample_report.warnings)):
        assert text in said
    held = {item.get("name"): item.get("value") for item in suite.iter("property")}
    assert held["miles"] == "0.1.0" and held["seed"] == "0"
    assert {sample_report.subject.sha256, *(one.sha256 for one in sample_report.data)} <= set(held.values())
    assert f"{len(sample_report.estimates) - 2} estimates and {len(sample_report.figures)} figures" in said


def test_a_failure_names_only_the_rows_that_broke_the_gate(sample_report: Report) -> None:
    rows = tuple(
        Estimate(name="rate", value=value, method="exact", n=9, unit="clips", where={"group": f"g{place}"})
        for place, value in enumerate((0.1, 0.9, 0.2))
    )
    gate = GateResult(expression="rate > 0.5", outcome="fail", rows=(0, 1, 2))
    report = dataclasses.replace(sample_report, estimates=rows, findings=(), gates=(gate,))
    failure = read(report).find(".//failure")
    assert failure.get("message") == "1 of 3 rows: rate[group=g1]: 0.900, exact, 9 clips"
    assert failure.text == "rate[group=g1]: 0.900, exact, 9 clips"
    # What cannot be judged again is shown as a whole.
    odd = dataclasses.replace(report, gates=(dataclasses.replace(gate, expression="all is well"),))
    assert [f"g{place}" in read(odd).findtext(".//failure") for place in range(3)] == [True] * 3


def test_a_lower_bound_is_no_interval(sample_report: Report) -> None:
    bound = {"value": 1.5, "low": 1.5, "high": 4.0, "method": "Lower bound: one-sided"}
    rows = (Estimate(name="epsilon_lower", **bound, n=90, unit="points"),)
    gate = GateResult(expression="epsilon_lower > 1", outcome="fail", rows=(0,))
    text = read(dataclasses.replace(sample_report, estimates=rows, findings=(), gates=(gate,))).findtext(".//failure")
    assert text == "epsilon_lower: 1.50 (at least; 4.00 provable), 95 %, 90 points"


def test_without_gates_one_case_is_skipped_with_the_reason(sample_report: Report) -> None:
    root = read(dataclasses.replace(sample_report, gates=()))
    (case,) = root.findall("testsuite/testcase")
    assert case.get("name") == "no gates" and "--fail-if" in case.find("skipped").get("message")
    assert [root[0].get(key) for key in ("tests", "skipped", "failures")] == ["1", "1", "0"]


def test_long_lists_are_cut_and_counted(sample_report: Report) -> None:
    row = Estimate(name="rate", value=0.5, method="exact", n=9, unit="clips")
    gate = GateResult(expression="rate > 0.1", outcome="fail", rows=tuple(range(MOST_ROWS + 7)))
    warnings = tuple(Warning(id="small", message=f"w{place}") for place in range(MOST_WARNINGS + 3))
    report = dataclasses.replace(
        sample_report, estimates=(row,) * len(gate.rows), findings=(), gates=(gate,), warnings=warnings
    )
    root = read(report)
    assert "and 7 more in report.json" in root.findtext(".//failure")
    assert "and 3 more warnings in report.json" in root.findtext("testsuite/system-out")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=st.text(st.characters(codec=None), max_size=12))
@example(text="".join(map(chr, range(32))) + '\x7f\x85\ud800\ufffe\uffff<&>"]]>\U0001f600')
def test_it_is_xml_whatever_the_report_says(sample_report: Report, text: str) -> None:
    row = Estimate(name=text, value=0.5, method=text, n=9, unit=text, where={text: text}, low=0.4, high=0.6)
    outcomes = [GateResult(expression=text, outcome=outcome, rows=(0,)) for outcome in ("pass", "fail")]
    report = dataclasses.replace(
        sample_report,
        audit=text,
        subject=dataclasses.replace(sample_report.subject, path=text),
        estimates=(row,),
        gates=tuple(outcomes),
        findings=(Finding(id=text, severity="high", statement=text),),
        warnings=(Warning(id=text, message=text, where={"group": text}),),
    )
    root = read(report)
    held = "".join(root.itertext()) + "".join(value for element in root.iter() for value in element.attrib.values())
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in held)
    assert to_junit(report) == to_junit(report)


def test_a_target_is_found_by_its_name_and_keeps_to_its_options() -> None:
    assert [find(target.name, target.options) for target in TARGETS] == list(TARGETS)
    with pytest.raises(InputError) as met:
        find("juint")
    assert "Did you mean junit?" in met.value.hint
    with pytest.raises(InputError) as met:
        find("junit", ("--out", "--card"))
    assert met.value.where == "--card" and "model-card" in met.value.hint
