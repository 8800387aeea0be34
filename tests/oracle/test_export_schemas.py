"""Do exports fit the schemas of those who read them, and do readers of others find in them what the report says?

The schemas come from packages that ship them: `.ci/schemas FOLDER`, and MILES_SCHEMAS names the folder.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import junitparser
import pytest
import sarif_pydantic
import xmlschema
from jsonschema import Draft4Validator

from audits.core.records import Estimate, Finding, GateResult, Report, Source
from audits.core.records import Warning as Warned
from audits.core.registration import Registration
from audits.report.exports.junit import to_junit
from audits.report.exports.sarif import to_sarif

ODD = 'a "b" <c> & ]]> \x1b[31m\ud800 {0} [x](y) ::error:: ä%41\n\t| \U0001f600'


def schema(name: str) -> Path:
    """Return the file of a schema, or skip."""
    folder = os.environ.get("MILES_SCHEMAS", "")
    if not folder:
        pytest.skip("schemas of other projects are not at hand (MILES_SCHEMAS)")
    return Path(folder) / name


def odd(report: Report) -> Report:
    """Return the report with text that no format expects in every place, and registered gates."""
    row = Estimate(name=ODD, value=0.5, low=0.4, high=0.6, method=ODD, n=9, unit=ODD, where={ODD: ODD, "layer": 3})
    gates = [
        GateResult(expression=f"{ODD}{number}", outcome=outcome, rows=(0,), registered=number < 2)
        for number, outcome in enumerate(("pass", "fail", "fail"))
    ]
    return dataclasses.replace(
        report,
        audit=ODD,
        subject=dataclasses.replace(report.subject, path=ODD, family=ODD),
        data=(*report.data, Source(role=ODD, path="C:\\data\\ä b#%.csv", sha256="0" * 64, items=3)),
        estimates=(row,),
        gates=tuple(gates),
        findings=tuple(Finding(id=ODD, severity=one, statement=ODD, where={ODD: ODD}) for one in ("high", "info")),
        warnings=(Warned(id=ODD, message=ODD, where={ODD: ODD}),),
        limitations=(ODD,),
        registration=Registration(sha256="1" * 64, file=ODD, created="2026-01-01T00:00:00Z", miles="0.1.0"),
    )


def empty(report: Report) -> Report:
    """Return the report of a run that found nothing, of nothing."""
    return dataclasses.replace(report, subject=None, data=(), estimates=(), gates=(), findings=(), warnings=())


@pytest.fixture(params=["sample", "odd", "empty"])
def exported(request: pytest.FixtureRequest, sample_report: Report) -> Report:
    """Return reports of all kinds."""
    kinds = {"sample": lambda report: report, "odd": odd, "empty": empty}
    return kinds[request.param](sample_report)  # type: ignore[no-any-return, no-untyped-call]


@pytest.mark.parametrize("file", ["junit-jenkins.xsd", "junit-ant.xsd"])
def test_junit_fits_the_schemas_of_jenkins_and_of_ant(exported: Report, file: str) -> None:
    root = ElementTree.fromstring(to_junit(exported))
    if file == "junit-ant.xsd":
        # The copy at hand is older than what was skipped; the schema of today allows count and element.
        root[0].attrib.pop("skipped")
        for case in root.iter("testcase"):
            for skipped in case.findall("skipped"):
                case.remove(skipped)
    assert [str(error) for error in xmlschema.XMLSchema10(schema(file)).iter_errors(root)] == []


def test_a_reader_of_junit_counts_the_same_gates(sample_report: Report) -> None:
    read = junitparser.JUnitXml.fromstring(to_junit(sample_report).encode())
    (suite,) = read
    cases = {case.name: [type(one).__name__ for one in case.result] for case in suite}
    assert cases == {gate.expression: ["Failure"] * (gate.outcome == "fail") for gate in sample_report.gates}
    assert (suite.tests, suite.failures, suite.errors, suite.hostname) == (2, 1, 0, "localhost")


@pytest.mark.parametrize("problems_only", [False, True])
def test_sarif_fits_its_schema(exported: Report, problems_only: bool) -> None:
    validator = Draft4Validator(json.loads(schema("sarif-2.1.0.json").read_text("utf-8")))
    text = to_sarif(exported, "2" * 64, ["2" * 64], root="/work", problems_only=problems_only)
    assert [error.message for error in validator.iter_errors(json.loads(text))] == []


def test_a_reader_of_sarif_finds_every_gate_and_finding(exported: Report) -> None:
    data: Any = json.loads(to_sarif(exported, "2" * 64, root="/work"))
    (run,) = sarif_pydantic.Sarif.model_validate(data).runs
    results = run.results or []
    assert len(results) == len(exported.gates) + len(exported.findings)
    failed = [one for one in results if (one.rule_id or "").startswith("gate ") and one.level == "error"]
    assert len(failed) == sum(gate.outcome == "fail" for gate in exported.gates)
    rules = run.tool.driver.rules or []
    assert all(rules[one.rule_index].id == one.rule_id for one in results)
