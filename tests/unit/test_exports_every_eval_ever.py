"""Does a record fit the schema of Every Eval Ever, and say of each number no more than the report does?"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from audits.core.measures import Measure
from audits.core.records import Estimate, GateResult, Report
from audits.core.registration import Registration
from audits.report.exports.every_eval_ever import VERSION, Evaluator, evaluator, to_every_eval_ever
from probes.core.errors import InputError

DIGEST = "ab" * 32
US = Evaluator(name="Us", relationship="third_party")
TEXT = {"type": "string"}
WORDS = {"type": "object", "additionalProperties": TEXT}
NUMBER = {"type": "number"}
END = {"anyOf": [NUMBER, {"enum": ["Infinity", "-Infinity"]}]}


def keyed(required: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these keys and no others."""
    return {
        "type": "object", "required": required.split(), "properties": properties, "additionalProperties": False,
    }  # fmt: skip


# The constraints that version 0.3.0 sets on what miles writes, and no key that it does not know.
OURS = keyed(
    "schema_version evaluation_id retrieved_timestamp source_metadata model_info eval_library evaluation_results",
    schema_version={"const": "0.3.0"},
    evaluation_id=TEXT,
    evaluation_timestamp=TEXT,
    retrieved_timestamp={"type": "string", "pattern": "^[0-9]+$"},
    source_metadata=keyed(
        "source_type source_organization_name evaluator_relationship",
        source_name=TEXT,
        source_type={"enum": ["documentation", "evaluation_run"]},
        source_organization_name=TEXT,
        evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
        additional_details=WORDS,
    ),
    eval_library=keyed("name version", name={"const": "miles"}, version=TEXT, additional_details=WORDS),
    model_info=keyed(
        "name id additional_details",
        name=TEXT,
        id=TEXT,
        additional_details={
            **WORDS,
            "required": ["deployment_type", "model_availability"],
            "properties": {
                "deployment_type": {"enum": ["self_deployed", "externally_managed", "unknown"]},
                "model_availability": {"enum": ["open_weights", "closed_weights", "unknown"]},
            },
        },
    ),
    evaluation_results={
        "type": "array",
        "minItems": 1,
        "items": keyed(
            "evaluation_name source_data metric_config score_details",
            evaluation_result_id=TEXT,
            evaluation_name=TEXT,
            source_data=keyed("dataset_name source_type", dataset_name=TEXT, source_type={"const": "other"}),
            metric_config={
                **keyed(
                    "lower_is_better",
                    evaluation_description=TEXT,
                    metric_id=TEXT,
                    metric_name=TEXT,
                    metric_kind=TEXT,
                    metric_unit=TEXT,
                    metric_parameters={"additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
                    lower_is_better={"type": "boolean"},
                    score_type={"enum": ["binary", "continuous", "levels"]},
                    min_score=END,
                    max_score=END,
                ),
                "dependencies": {"score_type": ["min_score", "max_score"]},
            },
            score_details=keyed(
                "score",
                score=NUMBER,
                details=WORDS,
                uncertainty=keyed(
                    "num_samples",
                    num_samples={"type": "integer"},
                    confidence_interval=keyed(
                        "lower upper",
                        lower=NUMBER,
                        upper=NUMBER,
                        confidence_level={**NUMBER, "minimum": 0, "maximum": 1},
                        method=TEXT,
                    ),
                ),
            ),
        ),
    },
)  # fmt: skip


def row(name: str, worse: str | None, *, ends: Any = None, **more: Any) -> Estimate:
    about = {"value": 0.2, "low": 0.1, "high": 0.3, "method": "Wilson", "n": 40, "unit": "clips", **more}
    neutral = 0.0 if worse == "away" else None
    return Estimate(
        name=name, **about, measure=Measure(name, label=f"the {name}", worse=worse, neutral=neutral, ends=ends)
    )


ROWS = (
    row("rate", "up", ends=(0.0, 1.0), where={"group": "accent=indian", "layer": 3}),
    row("accuracy", "down", ends=(0.0, float("inf"))),
    row("shift", "away"),
    row("draws", None, low=None, high=None, method="exact"),
    row("leakage", "up", value=1.5, low=1.5, high=4.0, method="Lower bound: one-sided"),
    row("norm", "up", method="Upper bound: proved"),
    row("share", "down", ends=(0.0, 1.0), value=1.25, high=1.5),
)


def resting(report: Report, *rows: Estimate) -> Report:
    gate = GateResult(expression="rate > 0.05", outcome="fail", rows=tuple(range(len(rows))))
    return dataclasses.replace(report, estimates=rows, findings=(), gates=(gate,), warnings=(), answer=None)


def record(report: Report, **more: Any) -> dict[str, Any]:
    made = to_every_eval_ever(report, DIGEST, US, **more)
    assert to_every_eval_ever(report, DIGEST, US, **more) == made
    found = json.loads(made.text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    Draft7Validator(OURS).validate(found)
    assert (made.results, made.model) == (len(found["evaluation_results"]), found["model_info"]["id"])
    return found


def test_a_record_fits_what_the_schema_asks(sample_report: Report) -> None:
    found = record(sample_report)
    assert found["evaluation_id"] == f"miles-audit-fairness/wav2vec2-base/{found['retrieved_timestamp']}"
    source = found["source_metadata"]
    assert (source["source_organization_name"], source["evaluator_relationship"]) == ("Us", "third_party")
    assert source["additional_details"]["report_sha256"] == DIGEST
    assert sample_report.data[0].sha256 in source["additional_details"]["source_1"]
    assert found["model_info"]["additional_details"]["miles_content"] == sample_report.subject.sha256
    assert found["model_info"]["additional_details"]["deployment_type"] == "self_deployed"
    # A shared store needs no path of somebody's machine.
    assert str(Path(sample_report.subject.path).parent) not in json.dumps(found)


def test_the_schema_itself_takes_it(sample_report: Report) -> None:
    if "MILES_EEE_SCHEMA" not in os.environ:
        pytest.skip("MILES_EEE_SCHEMA names no schema of Every Eval Ever")
    schema = json.loads(Path(os.environ["MILES_EEE_SCHEMA"]).read_text("utf-8"))
    assert schema["version"] == VERSION
    whole = Draft7Validator(schema)
    for report in (sample_report, resting(sample_report, *ROWS)):
        whole.validate(json.loads(to_every_eval_ever(report, DIGEST, US).text))
    data = dataclasses.replace(sample_report, subject=None)
    whole.validate(json.loads(to_every_eval_ever(data, DIGEST, US, name="us/ours").text))


def test_direction_scale_and_uncertainty_are_those_of_the_report(sample_report: Report) -> None:
    made = to_every_eval_ever(resting(sample_report, *ROWS), DIGEST, US)
    found = record(resting(sample_report, *ROWS))
    assert made.left_out == 2
    told = {one["metric_config"]["metric_kind"]: one for one in found["evaluation_results"]}
    assert list(told) == ["rate", "accuracy", "leakage", "norm", "share"]
    assert (
        found["source_metadata"]["additional_details"]["estimates"]
        == "5 of 7; 2 more were chosen and have no direction"
    )
    assert [told[name]["metric_config"]["lower_is_better"] for name in told] == [True, False, True, True, False]
    rate = told["rate"]["metric_config"]
    assert (rate["min_score"], rate["max_score"], rate["metric_unit"]) == (0.0, 1.0, "proportion")
    assert rate["metric_parameters"] == {"group": "accent=indian", "layer": 3} and rate["metric_name"] == "the rate"
    assert told["accuracy"]["metric_config"]["max_score"] == "Infinity"
    # A value outside of its scale would be refused by the store, and a scale that nobody declared is none.
    assert not any("score_type" in told[name]["metric_config"] for name in ("leakage", "norm", "share"))
    interval = told["rate"]["score_details"]["uncertainty"]
    assert interval == {
        "num_samples": 40,
        "confidence_interval": {"lower": 0.1, "upper": 0.3, "confidence_level": 0.95, "method": "Wilson"},
    }
    for name in ("leakage", "norm"):
        assert told[name]["score_details"]["uncertainty"] == {"num_samples": 40}
    assert told["leakage"]["score_details"]["details"] == {
        "unit": "clips", "method": "Lower bound: one-sided", "low": "1.5", "provable": "4.0", "level": "0.95",
    }  # fmt: skip
    assert "level" not in told["norm"]["score_details"]["details"]
    assert found["eval_library"]["additional_details"]["gate_1"] == "rate > 0.05: fail"


def test_a_gate_says_whether_it_was_registered(sample_report: Report) -> None:
    held = Registration(sha256="cd" * 32, file="criteria.json", created="2026-01-01T00:00:00Z", miles="0.1.0")
    gates = tuple(
        GateResult(expression="gap > 0.05", outcome="pass", rows=(0,), registered=before) for before in (True, False)
    )
    told = record(dataclasses.replace(sample_report, gates=gates, registration=held))["eval_library"]
    assert told["additional_details"]["registration_sha256"] == "cd" * 32
    assert told["additional_details"]["gate_1"] == "gap > 0.05: pass, registered"
    assert told["additional_details"]["gate_2"] == "gap > 0.05: pass, post hoc"
    assert "registration_sha256" not in record(sample_report)["eval_library"]["additional_details"]


def test_a_record_is_about_one_model_and_says_who_ran_it(sample_report: Report) -> None:
    data = dataclasses.replace(sample_report, subject=None)
    with pytest.raises(InputError, match="names no model") as refused:
        to_every_eval_ever(data, DIGEST, US)
    assert refused.value.where == "--model-name"
    named = record(data, name="us/ours")["model_info"]
    assert named == {
        "name": "us/ours", "id": "us/ours",
        "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
    }  # fmt: skip
    two = resting(data, *(row("rate", "up", where={"system": system}) for system in ("a", "b")))
    with pytest.raises(InputError, match="names no model") as refused:
        to_every_eval_ever(two, DIGEST, US)
    assert "--system with one of a, b" in refused.value.hint
    one = record(two, system="b", name="us/b")
    assert [result["metric_config"]["metric_parameters"]["system"] for result in one["evaluation_results"]] == ["b"]
    for rows, said in (((row("draws", None),), "better or worse"), ((), "No estimate carries")):
        with pytest.raises(InputError, match=said):
            to_every_eval_ever(resting(sample_report, *rows), DIGEST, US)


@pytest.mark.parametrize(
    ("name", "relationship", "where"),
    [
        (None, "other", "--evaluator"),
        (" ", "other", "--evaluator"),
        ("Us", None, "--relationship"),
        ("Us", "friend", "--relationship"),
    ],
)
def test_nobody_is_guessed(name: str | None, relationship: str | None, where: str) -> None:
    with pytest.raises(InputError) as refused:
        evaluator(name, relationship)
    assert refused.value.where == where
    assert evaluator(" Us\n", "other") == Evaluator(name="Us", relationship="other")


def test_a_report_of_another_system_gives_no_folders_away(sample_report: Report) -> None:
    (source, *_), made = sample_report.data, sample_report.provenance
    for path, platform in ((r"C:\Users\me\clips.csv", "Linux"), (r"me\clips.csv", "Windows 11 AMD64")):
        report = dataclasses.replace(
            sample_report,
            data=(dataclasses.replace(source, path=path),),
            provenance=dataclasses.replace(made, platform=platform),
        )
        text = to_every_eval_ever(report, DIGEST, US, name="m").text
        assert "clips.csv" in text and "Users" not in text and "me\\\\" not in text


def test_a_report_of_before_1970_is_no_record(sample_report: Report) -> None:
    report = dataclasses.replace(sample_report, created="1969-12-31T23:59:59Z")
    with pytest.raises(InputError, match="1970"):
        to_every_eval_ever(report, DIGEST, US, name="m")
