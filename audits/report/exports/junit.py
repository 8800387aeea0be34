"""The gates of a report as test cases in JUnit's XML, so that a failed gate fails the pipeline.

Source: the schemas of Jenkins' xunit plugin (junit-10.xsd) and of Ant's tasks (JUnit.xsd of Windy Road), both of which
the file fits. That of Maven Surefire allows neither the time nor the host that Ant's asks for.
"""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from audits.core.gates import abridged, breaking, counted_findings
from audits.core.numbers import coordinates, described
from audits.core.records import GateResult, Report
from audits.core.registration import standing
from audits.report.exports.wording import line, named, plain
from audits.report.pages import content

MOST_ROWS = 50
"""Rows of one gate that are written out; the rest are counted."""

MOST_WARNINGS = 100
NO_GATES = "The run had no gates, so nothing was decided. Set some with --fail-if."

NO_TIME = "0.000"
"""Seconds of a test case: a gate is judged on a report that is there; schemas ask for a number."""
HOST = "localhost"
"""Name that Ant's schema asks for where that of the machine is not told; it would differ between equal runs."""


def to_junit(report: Report) -> str:
    """Return the XML: a test case for each gate, findings and warnings as the output of the suite.

    It is ASCII, so that it says the same in every encoding, and equal reports give equal bytes.
    """
    failed = sum(gate.outcome == "fail" for gate in report.gates)
    counts = {"tests": max(1, len(report.gates)), "failures": failed, "errors": 0, "skipped": int(not report.gates)}
    # Ant's schema has no attributes of all suites together.
    root = ET.Element("testsuites")
    about = {
        "name": f"miles {plain(report.audit)}",
        "package": "miles",
        "id": "0",
        # JUnit timestamps have no time zone; this one is UTC.
        "timestamp": report.created.removesuffix("Z"),
        "hostname": HOST,
        **{key: str(count) for key, count in counts.items()},
        "time": f"{max(0.0, content.seconds(report)):.3f}",
    }
    suite = ET.SubElement(root, "testsuite", about)
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report):
        ET.SubElement(properties, "property", name=line(name), value=line(value))
    for gate in report.gates:
        _case(suite, report, gate)
    if not report.gates:
        about = {"classname": plain(report.audit), "name": "no gates", "time": NO_TIME}
        case = ET.SubElement(suite, "testcase", about)
        ET.SubElement(case, "skipped", message=NO_GATES)
    ET.SubElement(suite, "system-out").text = plain("\n".join(_output(report)))
    # Both are asked for, in this order.
    ET.SubElement(suite, "system-err")
    ET.indent(root)
    text = ET.tostring(root, encoding="us-ascii", xml_declaration=False).decode("ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "miles", report.provenance.miles
    if report.subject is not None:
        yield f"sha256 of {report.subject.path}", report.subject.sha256
    for source in report.data:
        yield f"sha256 of {source.role} {source.path}", source.sha256
    yield "seed", str(report.provenance.seed)
    if report.registration is not None:
        yield "registration", report.registration.sha256


def _case(suite: ET.Element, report: Report, gate: GateResult) -> None:
    about = {"classname": _class(report, gate), "name": line(abridged(gate.expression)), "time": NO_TIME}
    case = ET.SubElement(suite, "testcase", about)
    if gate.outcome == "pass":
        # Ant's schema gives a case no output: that of the suite holds what the gate looked at.
        return
    if counted_findings(gate.expression, report.findings) is not None:
        why = [line(row) for row in content.broken(report, gate)]
        ET.SubElement(case, "failure", type="gate", message="; ".join(why)).text = "\n".join(why)
        return
    broken = breaking(gate, report.estimates)
    message = f"{len(broken)} of {len(gate.rows)} rows: {_rows(report, broken[:1])}"
    if len(broken) > 1:
        message += f"; and {len(broken) - 1} more"
    ET.SubElement(case, "failure", type="gate", message=message).text = _rows(report, broken)


def _class(report: Report, gate: GateResult) -> str:
    """Return the audit, and whether the gate was registered before the run where it cites a registration."""
    return ".".join(filter(None, (plain(report.audit), standing(gate.registered, short=True).replace(" ", "-"))))


def _rows(report: Report, rows: Sequence[int]) -> str:
    shown = [report.estimates[row] for row in rows[:MOST_ROWS]]
    lines = [f"{named(row.name, row.where)}: {line(described(row))}" for row in shown]
    if len(rows) > MOST_ROWS:
        lines.append(f"and {len(rows) - MOST_ROWS} more in report.json")
    return "\n".join(lines)


def _output(report: Report) -> Iterator[str]:
    for gate in report.gates:
        if gate.outcome == "pass":
            yield f"Gate passed: {line(abridged(gate.expression))}"
            yield from _rows(report, gate.rows).splitlines()
    for finding in content.findings(report):
        yield f"{content.MARKS[finding.severity][1]}: {line(finding.whole)}"
    if not report.findings:
        yield "No findings."
    for warning in report.warnings[:MOST_WARNINGS]:
        where = f" ({line(coordinates(warning.where))})" if warning.where else ""
        yield f"Warning {line(warning.id)}: {line(warning.message)}{where}"
    if len(report.warnings) > MOST_WARNINGS:
        yield f"and {len(report.warnings) - MOST_WARNINGS} more warnings in report.json"
    judged = {row for gate in report.gates for row in gate.rows}
    rest = len(report.estimates) - len(judged)
    yield f"Not in this file but in report.json: {rest} estimates and {len(report.figures)} figures."
