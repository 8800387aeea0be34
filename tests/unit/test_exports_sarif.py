"""Does SARIF say of a run what its report says, at places that code scanning finds, and the same of equal runs?"""

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from audits.core.numbers import counted, described
from audits.core.records import Estimate, Finding, GateResult, Report, Source
from audits.core.registration import Registration
from audits.report.exports import sarif
from audits.report.exports.places import uri
from audits.report.exports.sarif import MOST_EVIDENCE, to_sarif

DIGEST = "d" * 64
RESERVED = r"(?:[A-Za-z0-9._~!$&'()*+,;=@/-]|%[0-9A-F]{2})*"
REFERENCE = re.compile(rf"(?:file:///[A-Za-z]:)?(?:file:)?{RESERVED}")


def run_of(report: Report, plain: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return the one run of a report's SARIF."""
    data = json.loads(to_sarif(report, DIGEST, plain, **more))
    assert (data["version"], len(data["runs"])) == ("2.1.0", 1)
    return data["runs"][0]  # type: ignore[no-any-return]


def messages(run: dict[str, Any]) -> list[str]:
    return [result["message"]["text"] for result in run["results"]]


def prints(run: dict[str, Any]) -> list[str]:
    return [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]


def test_gates_and_findings_are_results_with_their_numbers(sample_report: Report) -> None:
    run = run_of(sample_report)
    failed, passed = run["results"][0], run["results"][-1]
    row = sample_report.estimates[sample_report.gates[0].rows[0]]
    assert (failed["kind"], failed["level"], passed["kind"], passed["level"]) == ("fail", "error", "pass", "none")
    assert failed["ruleId"] == f"gate {sample_report.gates[0].expression}"
    assert failed["message"]["text"].startswith(f"Gate failed: {sample_report.gates[0].expression}. ")
    assert described(row) in failed["message"]["text"]
    held = failed["properties"]["estimates"][0]
    assert (held["value"], held["low"], held["high"], held["n"]) == (row.value, row.low, row.high, row.n)
    words = {one.statement: one.severity for one in sample_report.findings}
    levels = {"high": "error", "medium": "warning", "low": "note", "info": "none"}
    for statement, severity in words.items():
        (found,) = [result for result in run["results"] if statement in result["message"]["text"]]
        assert (found["level"], found["properties"]["severity"]) == (levels[severity], severity)
        assert found["kind"] == ("informational" if severity == "info" else "fail")
    assert len(run["results"]) == len(sample_report.findings) + len(sample_report.gates)
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [one["ruleId"] for one in run["results"]]
    for rule in rules:
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"]
        assert "docs/audits/asr_fairness.md" in rule["help"]["text"]
    assert run["tool"]["driver"]["version"] == "0.1.0" and "informationUri" not in run["tool"]["driver"]
    notices = run["invocations"][0]["toolExecutionNotifications"]
    assert [one["descriptor"]["id"] for one in notices] == [one.id for one in sample_report.warnings]


def test_what_is_no_problem_is_left_out_on_request_and_counted(sample_report: Report) -> None:
    info = Finding(id="fairness.columns", severity="info", statement="Each column was read as follows.")
    report = dataclasses.replace(sample_report, findings=(*sample_report.findings, info))
    run = run_of(report, problems_only=True)
    assert {result["kind"] for result in run["results"]} == {"fail"}
    left = len(run_of(report)["results"]) - len(run["results"])
    assert left >= 2 and run["properties"]["leftOut"] == {"notProblems": left, "overLimit": 0}
    said = run["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"]
    assert said == f"Not in this file but in report.json: {left} gates that passed and findings for information."


def test_a_gate_that_passed_says_what_it_looked_at(sample_report: Report) -> None:
    gates = (
        GateResult(expression="gap > 9", outcome="pass", rows=(0, 1)),
        GateResult(expression="findings[severity=high] > 9", outcome="pass", rows=()),
    )
    said = messages(run_of(dataclasses.replace(sample_report, gates=gates)))
    high = sum(one.severity == "high" for one in sample_report.findings)
    assert said[-2:] == [
        "Gate passed: gap > 9. It looked at 2 estimates.",
        f"Gate passed: findings[severity=high] > 9. It looked at {counted(high, 'findings')}.",
    ]


def test_a_lower_bound_is_no_interval_in_properties(sample_report: Report) -> None:
    bound = {"value": 1.5, "low": 1.5, "high": 4.0, "method": "Lower bound: one-sided"}
    rows = (Estimate(name="epsilon_lower", **bound, n=90, unit="points"),)
    gate = GateResult(expression="epsilon_lower > 1", outcome="fail", rows=(0,))
    run = run_of(dataclasses.replace(sample_report, estimates=rows, findings=(), gates=(gate,)))
    held = run["results"][0]["properties"]["estimates"][0]
    assert (held["low"], held["provable"]) == (1.5, 4.0) and "high" not in held


def test_registered_gates_and_later_ones_are_told_apart(sample_report: Report) -> None:
    gates = [GateResult(expression=f"gap > {place}", outcome="fail", rows=(0,)) for place in range(3)]
    marked = [dataclasses.replace(gate, registered=held) for gate, held in zip(gates, (True, False, None), strict=True)]
    cited = Registration(sha256="1" * 64, file="plan.json", created="2026-01-01T00:00:00Z", miles="0.1.0")
    report = dataclasses.replace(sample_report, findings=(), gates=tuple(marked), registration=cited)
    run = run_of(report)
    assert [one["properties"].get("registered") for one in run["results"]] == [True, False, None]
    said = messages(run)
    assert said[0].startswith("Gate failed: gap > 0 (registered before the run). ")
    assert said[1].startswith("Gate failed: gap > 1 (added after registration). ")
    assert said[2].startswith("Gate failed: gap > 2. ")
    assert run["properties"]["registration"] == {"sha256": "1" * 64, "file": "plan.json"}
    # It is the same gate, registered or not.
    assert prints(run) == prints(run_of(dataclasses.replace(report, gates=tuple(gates), registration=None)))


def test_fingerprints_stay_where_only_numbers_change_and_differ_by_question(sample_report: Report) -> None:
    moved = dataclasses.replace(
        sample_report,
        created="2027-01-01T00:00:00Z",
        estimates=tuple(
            dataclasses.replace(row, value=row.value * 0.99, low=None, high=None, method="none")
            for row in sample_report.estimates
        ),
        findings=tuple(
            dataclasses.replace(one, statement="Another number.", severity="low") for one in sample_report.findings
        ),
        data=tuple(dataclasses.replace(one, sha256="9" * 64, items=7) for one in sample_report.data),
        provenance=dataclasses.replace(sample_report.provenance, seed=3, miles="9"),
    )
    before, after = run_of(sample_report), run_of(moved)
    assert sorted(prints(before)) == sorted(prints(after)) and len(set(prints(before))) == len(prints(before))
    assert before["automationDetails"] == after["automationDetails"]
    assert before["automationDetails"]["id"].startswith("miles/audit-fairness/")
    source = sample_report.data[0]
    other = dataclasses.replace(sample_report, data=(dataclasses.replace(source, path="other.csv"),))
    assert not set(prints(run_of(other))) & set(prints(before))
    # A folder of one machine is no other question; a folder of the repository is.
    homes = [
        prints(run_of(dataclasses.replace(other, data=(dataclasses.replace(source, path=f"{home}/a.csv"),)), root="/w"))
        for home in ("/home/a", "/home/b", "/w/a", "/w/b")
    ]
    assert homes[0] == homes[1] and len({tuple(one) for one in homes}) == 3


def test_an_answer_in_the_coordinates_is_no_new_result(sample_report: Report) -> None:
    found = [
        Finding(id="spectra.verdict", severity="low", statement=said, where={"resolution": 61, "verdict": said})
        for said in ("tie", "upsample")
    ]
    one, other = (prints(run_of(dataclasses.replace(sample_report, gates=(), findings=(kind,)))) for kind in found)
    assert one == other
    # Two in one run are numbered.
    both = prints(run_of(dataclasses.replace(sample_report, gates=(), findings=tuple(found))))
    assert [mark.partition(":")[2] for mark in both] == ["1", "2"]


def test_results_point_at_data_of_the_repository_and_hashes_of_files_alone_are_hashes(sample_report: Report) -> None:
    data = (
        Source(role="audio", path="/elsewhere/a b.csv", sha256="a" * 64, items=3),
        Source(role="manifest", path="/work/data/ä #1.csv", sha256="b" * 64, items=3),
        Source(role="predictions", path="data/ä #1.csv", sha256="b" * 64, items=3),
    )
    report = dataclasses.replace(sample_report, data=data)
    run = run_of(report, ("b" * 64,), file="/work/runs/x/report.json", root="/work")
    held = {one["location"]["uri"]: one for one in run["artifacts"]}
    assert list(held)[1:] == ["file:///elsewhere/a%20b.csv", "data/%C3%A4%20%231.csv", "runs/x/report.json"]
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "data/%C3%A4%20%231.csv", "index": 2}
    assert held[place["uri"]]["hashes"] == {"sha-256": "b" * 64}
    assert held[place["uri"]]["properties"]["roles"] == ["manifest", "predictions"]
    outside = held["file:///elsewhere/a%20b.csv"]
    assert "hashes" not in outside and outside["properties"]["milesContent"] == "a" * 64
    assert held["runs/x/report.json"]["hashes"] == {"sha-256": DIGEST}
    # Without data it is the model, and without one the report.
    no_data = run_of(dataclasses.replace(report, data=()), root="/work")
    assert no_data["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["index"] == 0
    nothing = run_of(dataclasses.replace(report, data=(), subject=None), root="/work")
    assert nothing["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "report.json"


def test_limits_of_code_scanning_are_kept_and_counted(sample_report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MOST_RESULTS", 5)
    row = Estimate(name="rate", value=0.5, method="exact", n=9, unit="clips")
    severities = ("low", "high", "info", "medium", "low", "high", "low")
    found = tuple(
        Finding(id=f"f.{place}", severity=severity, statement=f"S{place}.", evidence=tuple(range(MOST_EVIDENCE + 3)))
        for place, severity in enumerate(severities)
    )
    gate = GateResult(expression="rate > 0.1", outcome="fail", rows=(0,))
    report = dataclasses.replace(
        sample_report, estimates=(row,) * (MOST_EVIDENCE + 3), findings=found, gates=(gate,), warnings=()
    )
    run = run_of(report)
    # The gravest come first.
    assert [one["level"] for one in run["results"]] == ["error", "error", "error", "warning", "note"]
    assert len(run["tool"]["driver"]["rules"]) == 5 and run["properties"]["leftOut"]["overLimit"] == 3
    (said,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "3 results over the limit of a file" in said["message"]["text"]
    held = run["results"][1]["properties"]
    assert (len(held["estimates"]), held["estimatesNotShown"]) == (MOST_EVIDENCE, 3)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=st.text(st.characters(codec=None), max_size=12))
@example(text='\\\\?\\UNC\\a\\b\x1b[31m\x00\ud800\udc80\ufffe<&>"{0}[x](http://y)%41\n|')
@example(text="..")
@example(text="C:\\a\\..\\..\\b c")
def test_hostile_text_stays_text(sample_report: Report, text: str) -> None:
    row = Estimate(name=text, value=0.5, method=text, n=9, unit=text, where={text: text}, low=0.4, high=0.6)
    report = dataclasses.replace(
        sample_report,
        audit=text,
        subject=dataclasses.replace(sample_report.subject, path=text),
        data=(Source(role=text, path=text, sha256="0" * 64, items=1),),
        estimates=(row,),
        gates=tuple(GateResult(expression=text, outcome=outcome, rows=(0,)) for outcome in ("pass", "fail")),
        findings=(Finding(id=text, severity="high", statement=text, where={text: text}),),
    )
    for root in ("", "/work", "C:\\work"):
        run = run_of(report, root=root)
        for one in run["artifacts"]:
            assert REFERENCE.fullmatch(one["location"]["uri"]), one
            assert ".." not in one["location"]["uri"].split("/") or not root.startswith("/")
        for said in messages(run):
            assert not re.search(r"\]\(|\{\d", said) and not any(ord(letter) < 32 for letter in said)
    assert to_sarif(report, DIGEST) == to_sarif(report, DIGEST)
    to_sarif(report, DIGEST).encode("ascii")


@pytest.mark.parametrize(
    ("path", "root", "platform", "place"),
    [
        ("a/./b//c.csv", "", "Linux", "a/b/c.csv"),
        ("../a.csv", "/work/main", "Linux", "file:///work/a.csv"),
        ("/work/mainly/a.csv", "/work/main", "Linux", "file:///work/mainly/a.csv"),
        ("/work/main", "/work/main", "Linux", "./"),
        ("/a", "/", "Linux", "a"),
        ("100%.csv", "", "Linux", "100%25.csv"),
        ("a?b#c.csv", "", "Linux", "a%3Fb%23c.csv"),
        ("data\\x.csv", "C:\\w", "Windows 11 AMD64", "data/x.csv"),
        ("..\\x.csv", "C:\\w", "Windows 11 AMD64", "file:///C:/x.csv"),
        ("D:\\x y.csv", "C:\\w", "Windows 11 AMD64", "file:///D:/x%20y.csv"),
        ("c:\\W\\Ü.csv", "C:\\w", "Windows 11 AMD64", "%C3%9C.csv"),
        ("C:/w/x.csv", "/work", "Windows 11 AMD64", "file:///C:/w/x.csv"),
        ("\\\\?\\C:\\x.csv", "", "Windows 11 AMD64", "file:///C:/x.csv"),
        ("\\\\?\\UNC\\s\\t\\x.csv", "", "Windows 11 AMD64", "file://s/t/x.csv"),
        ("a\udce4.csv", "", "Linux", "a%E4.csv"),
        ("a\ud800.csv", "", "Linux", "a%3F.csv"),
        ("", "", "Linux", "."),
    ],
)
def test_paths_of_both_kinds_become_references(path: str, root: str, platform: str, place: str) -> None:
    assert uri(path, root, platform) == place


def test_what_every_rule_repeats_does_not_grow_with_the_kinds_of_findings(sample_report: Report) -> None:
    finding = dataclasses.replace(sample_report.findings[0], evidence=())
    many = tuple(dataclasses.replace(finding, id=f"x.{place}") for place in range(2000))
    report = dataclasses.replace(
        sample_report, findings=many, limitations=("y" * 30_000,) * 20, question="z" * 30_000, gates=()
    )
    text = to_sarif(report, DIGEST)
    assert len(text) < 10_000_000
    rules = json.loads(text)["runs"][0]["tool"]["driver"]["rules"]
    assert len(rules) == 2000 and "yyy" in rules[0]["help"]["text"] and "yyy" not in rules[-1]["help"]["text"]
