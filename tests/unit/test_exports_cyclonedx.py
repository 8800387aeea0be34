"""Is the bill of materials valid, does it name things by hashes that can be computed, and keep each interval?"""

import dataclasses
import hashlib
import json
from typing import Any
from uuid import UUID

import pytest
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import ComponentType
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from audits.core.measures import Measure
from audits.core.records import Coverage, Estimate, Finding, GateResult, GroupCounts, Report, Warning
from audits.core.registration import Registration
from audits.report.exports.cyclonedx import VERSION, to_cyclonedx
from audits.report.exports.in_toto import plain_hashes
from probes.core.errors import InputError

DIGEST = "ab" * 32
VALID = JsonStrictValidator(SchemaVersion.V1_7)
BOUND = Estimate(
    name="epsilon_lower", value=1.5, low=1.5, high=4.0, method="Lower bound: one-sided", n=9, unit="points",
    where={"attack": "score"},
)  # fmt: skip
PROVED = Estimate(name="product_bound", value=6.5, low=5.5, high=6.5, method="Upper bound: proved", n=3, unit="layers")
EXACT = Estimate(name="draws", value=20.0, method="exact", n=20, unit="draws")
NONE = Estimate(name="p_value", value=0.03, method="none", n=20, unit="speakers", where={"by": "accent"})


def bill(report: Report, **more: Any) -> dict[str, Any]:
    made = to_cyclonedx(report, DIGEST, **more)
    assert VALID.validate_str(made.text) is None
    assert to_cyclonedx(report, DIGEST, **more) == made
    found = json.loads(made.text)
    component = found["metadata"]["component"]
    assert (component["type"], made.model) in (("data", None), ("machine-learning-model", component["name"]))
    return found


def rested_on(report: Report, *rows: Estimate) -> Report:
    """Return the report with these estimates alone, and a gate on all of them."""
    gate = GateResult(expression="gap > 0.05", outcome="fail", rows=tuple(range(len(rows))))
    return dataclasses.replace(report, estimates=rows, findings=(), gates=(gate,), warnings=(), answer=None)


def values(owner: dict[str, Any], name: str) -> list[str]:
    return [one["value"] for one in owner.get("properties", ()) if one["name"] == f"miles:{name}"]


def test_it_is_valid_and_the_library_reads_it_back(sample_report: Report) -> None:
    found = bill(sample_report)
    read = Bom.from_json(found)
    component = read.metadata.component
    assert component.type is ComponentType.MACHINE_LEARNING_MODEL and component.name == "wav2vec2-base"
    assert str(read.serial_number) == found["serialNumber"].removeprefix("urn:uuid:") and read.version == 1
    assert UUID(found["serialNumber"].removeprefix("urn:uuid:")).version == 5
    assert found["metadata"]["timestamp"] == sample_report.created and read.metadata.timestamp.tzinfo is not None
    (tool,) = read.metadata.tools.components
    assert (tool.name, tool.version) == ("miles", sample_report.provenance.miles)
    assert {one.name for one in read.components} == {one.path.split("/")[-1] for one in sample_report.data}
    (report,) = read.external_references
    assert [one.content for one in report.hashes] == [DIGEST]
    assert found["specVersion"] == VERSION == SchemaVersion.V1_7.to_version()
    assert to_cyclonedx(sample_report, "cd" * 32) != to_cyclonedx(sample_report, DIGEST)


def test_only_the_hash_of_a_file_is_a_hash(sample_report: Report, tmp_path: Any) -> None:
    file = tmp_path / "clips.csv"
    file.write_text("path,text\n")
    plain = hashlib.sha256(file.read_bytes()).hexdigest()
    data = (dataclasses.replace(sample_report.data[0], path=str(file), sha256=plain), *sample_report.data[1:])
    report = dataclasses.replace(sample_report, data=data)
    found = bill(report, plain_hashes=plain_hashes(report))
    first, *others = found["components"]
    assert first["hashes"] == [{"alg": "SHA-256", "content": plain}] and not values(first, "milesContent")
    assert [values(one, "milesContent") for one in others] == [[one.sha256] for one in data[1:]]
    model = found["metadata"]["component"]
    assert "hashes" not in model and values(model, "milesContent") == [report.subject.sha256]
    assert model["modelCard"]["modelParameters"]["datasets"] == [{"ref": one["bom-ref"]} for one in found["components"]]


def test_every_number_has_its_slice_and_its_interval_and_no_bound_a_limit(sample_report: Report) -> None:
    gap = next(row for row in sample_report.estimates if row.name == "gap")
    report = rested_on(sample_report, gap, BOUND, PROVED, EXACT, NONE)
    warned = Warning(id="p-alone", message="Computed.", where={"by": "accent"})
    card = bill(dataclasses.replace(report, warnings=(warned,)))["metadata"]["component"]["modelCard"]
    metrics = card["quantitativeAnalysis"]["performanceMetrics"]
    limits = [one.get("confidenceInterval") for one in metrics]
    assert limits[0] == {"lowerBound": json.dumps(gap.low), "upperBound": json.dumps(gap.high)}
    assert limits[1:] == [{"lowerBound": "1.5"}, None, None, None]
    assert metrics[0]["slice"] == "by gender, kind absolute, layer -1, metric cer, task asr"
    assert [one.get("slice") for one in metrics[1:]] == ["attack score", None, None, "by accent"]
    assert [one["type"] for one in metrics] == ["gap", "epsilon_lower", "product_bound", "draws", "p_value"]
    assert [float(one["value"]) for one in metrics] == [row.value for row in report.estimates]
    told = [json.loads(one) for one in values(card, "estimate")]
    assert [one["n"] for one in told] == [row.n for row in report.estimates]
    assert (told[0]["level"], told[0]["method"], told[0]["unit"]) == (0.95, "speaker bootstrap", "speakers")
    assert (told[1]["low"], told[1]["provable"], "high" in told[1]) == (1.5, 4.0, False)
    assert (told[2]["low"], told[2]["high"], "level" in told[2]) == (5.5, 6.5, False)
    assert told[4]["method"] == "none" and told[4]["warnings"] == ["p-alone"] and "warnings" not in told[3]
    assert values(card, "warning") == ["p-alone: Computed."]


def test_what_was_decided_and_what_it_cannot_say(sample_report: Report) -> None:
    report = rested_on(sample_report, NONE)
    found = bill(report)
    (gate,) = [json.loads(one) for one in values(found["metadata"], "gate")]
    assert gate == {"expression": "gap > 0.05", "outcome": "fail"}
    assert values(found["metadata"], "estimates") == ["1 of 1; report.json holds them all"]
    considered = found["metadata"]["component"]["modelCard"]["considerations"]
    assert considered == {"technicalLimitations": [f"Of the audit: {limit}" for limit in report.limitations]}
    assert values(bill(dataclasses.replace(report, gates=()))["metadata"], "gate") == ["no gates"]


def test_a_gate_says_whether_it_was_registered(sample_report: Report) -> None:
    held = Registration(sha256="cd" * 32, file="criteria.json", created="2026-01-01T00:00:00Z", miles="0.1.0")
    gates = tuple(
        GateResult(expression="gap > 0.05", outcome="pass", rows=(0,), registered=before) for before in (True, False)
    )
    run = bill(dataclasses.replace(sample_report, gates=gates, registration=held))["metadata"]
    assert [json.loads(one)["registered"] for one in values(run, "gate")] == ["registered", "post hoc"]
    assert values(run, "registration") == ["cd" * 32]
    assert not values(bill(sample_report)["metadata"], "registration")


def test_a_group_is_at_risk_where_the_report_says_so_and_no_further(sample_report: Report) -> None:
    gap = Measure("gap", worse="up", neutral=0.0)
    rows = tuple(
        Estimate(name="gap", value=value, low=value, high=value, method="Wilson", n=9, unit="speakers", measure=measure)
        for value, measure in ((0.1, gap), (-0.1, gap), (0.1, Measure("gap_to_reference", neutral=0.0)))
    )
    at_risk = {"group": "accent=indian", "by": "accent"}
    worse = Finding(
        id="gap", severity="high", headline="They fare worse.", statement="By 0.1.", where=at_risk, evidence=(0,)
    )
    others = (
        dataclasses.replace(worse, severity="low"),
        dataclasses.replace(worse, headline="They fare better.", evidence=(1,)),
        dataclasses.replace(worse, evidence=(2,)),
        dataclasses.replace(worse, evidence=()),
        dataclasses.replace(worse, where={"layer": 3}),
    )
    sizes = Coverage(given=9, used=9, groups=(GroupCounts(group="accent=indian", counts={"speakers": 9}),))
    report = dataclasses.replace(
        sample_report, estimates=rows, findings=(*others, worse), gates=(), coverage=sizes, answer=None
    )
    card = bill(report)["metadata"]["component"]["modelCard"]
    assert card["considerations"]["fairnessAssessments"] == [
        {"groupAtRisk": "accent=indian", "harms": "They fare worse. By 0.1."}
    ]
    assert len(values(card, "finding")) == 6
    alone = bill(dataclasses.replace(report, coverage=Coverage(given=9, used=9)))
    assert "fairnessAssessments" not in alone["metadata"]["component"]["modelCard"]["considerations"]


def test_data_alone_has_no_model_card_unless_a_model_is_named(sample_report: Report) -> None:
    report = dataclasses.replace(sample_report, subject=None)
    component = bill(report)["metadata"]["component"]
    assert component["type"] == "data" and "modelCard" not in component
    assert [one["name"] for one in component["data"]] == [one.path.split("/")[-1] for one in report.data]
    assert len(values(component, "estimate")) == len({row for one in report.findings for row in one.evidence})
    named = bill(report, name="Ours")["metadata"]["component"]
    assert (named["type"], named["name"], "hashes" in named) == ("machine-learning-model", "Ours", False)
    assert not values(named, "path") and named["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    with pytest.raises(InputError, match="neither a model nor data"):
        to_cyclonedx(dataclasses.replace(report, data=()), DIGEST)
    assert "components" not in bill(dataclasses.replace(report, data=()), name="Ours")


def test_a_card_is_of_one_system(sample_report: Report) -> None:
    rows = [dataclasses.replace(NONE, where={"system": system, "by": "accent"}) for system in ("a", "b", "a")]
    report = dataclasses.replace(rested_on(sample_report, *rows, EXACT), subject=None)
    found = tuple(Finding(id=system, severity="low", statement="s", where={"system": system}) for system in "ab")
    report = dataclasses.replace(report, findings=found)
    assert bill(report)["metadata"]["component"]["type"] == "data"
    component = bill(report, system="a")["metadata"]["component"]
    assert component["name"] == "a" and len(values(component["modelCard"], "estimate")) == 2
    assert [json.loads(one)["id"] for one in values(component["modelCard"], "finding")] == ["a"]
    # The hash of the audited model is not that of a system which it was compared with.
    beside = bill(dataclasses.replace(report, subject=sample_report.subject), system="a")["metadata"]["component"]
    assert not values(beside, "milesContent") and not values(beside, "path")
    with pytest.raises(InputError, match="of 2 systems") as refused:
        to_cyclonedx(report, DIGEST, name="Ours")
    assert refused.value.where == "--system" and "a, b" in refused.value.hint
    with pytest.raises(InputError, match="no system 'c'") as refused:
        to_cyclonedx(report, DIGEST, system="c")
    assert "a, b" in refused.value.hint
    with pytest.raises(InputError, match="None of the chosen"):
        to_cyclonedx(report, DIGEST, system="a", only=["draws"])
    with pytest.raises(InputError, match="no system 'c'"):
        to_cyclonedx(sample_report, DIGEST, system="c")


def test_foreign_text_stays_text_and_a_false_time_is_refused(sample_report: Report) -> None:
    hostile = dataclasses.replace(NONE, name="a\x1b[31m\nb", where={"k\x00": "\ud800<script>\n"})
    report = dataclasses.replace(rested_on(sample_report, hostile), limitations=("\x07limit",))
    text = json.dumps(bill(report))
    assert not any(part in text for part in ("\\u001b", "\\u0000", "\\ud800", "\\u0007"))
    with pytest.raises(InputError, match="at no time"):
        to_cyclonedx(dataclasses.replace(report, created="yesterday"), DIGEST)


def test_a_year_has_four_digits(sample_report: Report) -> None:
    told = bill(dataclasses.replace(sample_report, created="0070-01-01T00:00:00Z"))
    assert told["metadata"]["timestamp"] == "0070-01-01T00:00:00Z"
