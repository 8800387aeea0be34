"""Does the statement say of which bytes it speaks, and does its result follow from gates and findings alone?"""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from audits.core.records import Finding, GateResult, Report
from audits.report.exports.in_toto import plain_hashes, to_in_toto
from probes.core.errors import InputError
from probes.core.hashing import sha256_file

DIGEST = "ab" * 32


def read(report: Report) -> dict[str, Any]:
    held = {one.sha256 for one in (report.subject, *report.data) if one is not None}
    return json.loads(to_in_toto(report, DIGEST, held))


def with_(report: Report, severities: str, outcomes: str) -> Report:
    findings = tuple(
        Finding(id="f", severity=word, statement="s", where={"layer": place})
        for place, word in enumerate(severities.split())
    )
    gates = tuple(
        GateResult(expression=f"gap > {place}", outcome=word, rows=()) for place, word in enumerate(outcomes.split())
    )
    return dataclasses.replace(report, findings=findings, gates=gates)


def test_the_statement_names_model_data_and_report_by_their_hashes(sample_report: Report) -> None:
    found = read(sample_report)
    assert set(found) == {"_type", "subject", "predicateType", "predicate"}
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    (subject,) = found["subject"]
    assert (subject["name"], subject["digest"]) == (
        sample_report.subject.path,
        {"sha256": sample_report.subject.sha256},
    )
    used = {(one["name"], one["digest"]["sha256"]) for one in found["predicate"]["configuration"]}
    assert used == {("report.json", DIGEST), *((one.path, one.sha256) for one in sample_report.data)}


@pytest.mark.parametrize(
    ("severities", "outcomes", "result"),
    [
        ("info low", "pass", "PASSED"),
        ("", "pass pass", "PASSED"),
        ("info medium", "pass", "WARNED"),
        ("high", "pass", "WARNED"),
        ("info", "", "WARNED"),
        ("info", "pass fail", "FAILED"),
        ("high", "fail", "FAILED"),
    ],
)
def test_gates_decide_and_findings_warn(sample_report: Report, severities: str, outcomes: str, result: str) -> None:
    found = read(with_(sample_report, severities, outcomes))["predicate"]
    assert found["result"] == result
    warned = [name for name in found["warnedTests"] if name != "no gates"]
    listed = [*found["passedTests"], *found["warnedTests"], *found["failedTests"]]
    assert len(set(listed)) == len(listed) == len(warned) + max(1, len(outcomes.split()))
    assert len(found["failedTests"]) == outcomes.count("fail")
    assert ("no gates" in found["warnedTests"]) is (not outcomes)
    assert found["passedTests"] == [
        f"gate gap > {place}" for place, word in enumerate(outcomes.split()) if word == "pass"
    ]
    assert len(warned) == severities.count("medium") + severities.count("high")


def test_names_that_come_again_are_numbered(sample_report: Report) -> None:
    report = with_(sample_report, "high", "pass")
    found = read(dataclasses.replace(report, findings=report.findings * 2))["predicate"]
    assert found["warnedTests"] == ["finding f[layer=0]", "finding f[layer=0] #2"]


def test_without_a_model_the_data_are_the_subject(sample_report: Report) -> None:
    alone = dataclasses.replace(sample_report, subject=None)
    assert [one["name"] for one in read(alone)["subject"]] == [one.path for one in sample_report.data]
    with pytest.raises(InputError):
        read(dataclasses.replace(alone, data=()))


def test_equal_reports_give_equal_bytes_whenever_and_wherever_they_were_made(sample_report: Report) -> None:
    later = dataclasses.replace(
        sample_report,
        created="2031-01-01T00:00:00Z",
        provenance=dataclasses.replace(sample_report.provenance, platform="elsewhere"),
    )
    assert to_in_toto(sample_report, DIGEST) == to_in_toto(later, DIGEST)
    assert to_in_toto(sample_report, DIGEST).isascii()


def test_only_the_hash_of_a_file_that_lies_there_is_called_one(sample_report: Report, tmp_path: Path) -> None:
    file = tmp_path / "manifest.csv"
    file.write_bytes(b"path,speaker\n")
    held = hashlib.sha256(file.read_bytes()).hexdigest()
    table, clips = sample_report.data
    data = (dataclasses.replace(table, path=str(file), sha256=held), dataclasses.replace(clips, path=str(tmp_path)))
    report = dataclasses.replace(sample_report, data=data)
    found = json.loads(to_in_toto(report, DIGEST, plain_hashes(report)))
    assert [one["digest"] for one in found["predicate"]["configuration"]] == [
        {"sha256": held}, {"milesContent": clips.sha256}, {"sha256": DIGEST},
    ]  # fmt: skip
    assert found["subject"][0]["digest"] == {"milesContent": sample_report.subject.sha256}
    file.write_bytes(b"another file\n")
    assert plain_hashes(report) == frozenset()


def test_a_path_that_no_system_takes_has_no_plain_hash(sample_report: Report, tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(b"a")
    held = hashlib.sha256(b"a").hexdigest()
    source = dataclasses.replace(sample_report.data[0], path=str(file), sha256=held)
    long = dataclasses.replace(source, path="x" * 5000, sha256="cd" * 32)
    assert plain_hashes(dataclasses.replace(sample_report, data=(long, source))) == {held}


def test_what_was_left_out_and_warnings_are_told(sample_report: Report) -> None:
    about = read(sample_report)["predicate"]["configuration"][-1]["annotations"]
    coverage = sample_report.coverage
    assert (about["given"], about["used"]) == (coverage.given, coverage.used)
    assert about["skipped"] == {item.reason: item.count for item in coverage.skipped} and about["skipped"]
    assert sum(about["warnings"].values()) == len(sample_report.warnings) > 0


def test_every_finding_is_told_beside_the_report_and_no_mild_one_is_a_test(sample_report: Report) -> None:
    found = read(with_(sample_report, "low high", "pass"))["predicate"]
    assert found["configuration"][-1]["annotations"]["findings"] == [
        {"id": "f[layer=0]", "severity": "low", "statement": "s"},
        {"id": "f[layer=1]", "severity": "high", "statement": "s"},
    ]
    assert (found["passedTests"], found["warnedTests"]) == (["gate gap > 0"], ["finding f[layer=1]"])


def test_what_has_no_size_is_not_read(sample_report: Report) -> None:
    """A report of a stranger may name a file of the kernel, which never ends."""
    kernel = Path("/proc/version")
    source = dataclasses.replace(sample_report.data[0], path=str(kernel), sha256=sha256_file(kernel))
    assert plain_hashes(dataclasses.replace(sample_report, subject=None, data=(source,))) == frozenset()
