"""A report as a record of Every Eval Ever, the shared schema of evaluation results.

Source: EvalEval Coalition, eval.schema.json 0.3.0, as in the package every-eval-ever 0.3.0.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from audits.core.gates import abridged
from audits.core.measures import SHARE
from audits.core.numbers import LOWER_BOUND, level_of
from audits.core.records import Estimate, Json, Report
from audits.core.registration import standing
from audits.report.exports import RELATIONSHIPS
from audits.report.exports.places import file_name
from audits.report.exports.subjects import About, about, listed, systems
from audits.report.exports.wording import ends, line, moment, named, spelled
from probes.core.errors import InputError

VERSION = "0.3.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Who ran the audit, and what they are to the model: one of `RELATIONSHIPS`."""

    name: str
    relationship: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as JSON, the model that it is about, how many results it has and how many had no direction."""

    text: str
    model: str
    results: int
    left_out: int


def evaluator(name: str | None, relationship: str | None) -> Evaluator:
    """Return who ran the audit.

    Raises
    ------
    InputError
        Where either is missing, or the relationship is no word of the schema.

    Examples
    --------
    >>> evaluator("University of Somewhere", "third_party").relationship
    'third_party'
    """
    if name is None or not line(name):
        raise InputError(
            "A record says who ran the evaluation.", where="--evaluator", hint="Give the name of your organization."
        )
    if relationship not in RELATIONSHIPS:
        wrong = "says" if relationship is None else f"knows no {line(relationship)!r}: it says"
        raise InputError(
            f"A record {wrong} what the evaluator is to the makers of the model.",
            where="--relationship",
            hint=f"One of {', '.join(RELATIONSHIPS)}.",
        )
    return Evaluator(name=line(name), relationship=relationship)


def to_every_eval_ever(
    report: Report,
    digest: str,
    by: Evaluator,
    *,
    only: Sequence[str] = (),
    system: str | None = None,
    name: str | None = None,
) -> Record:
    """Return the record; equal reports give equal bytes, so its time is that of the report.

    Estimates that are neither better nor worse when they grow are left out and counted: the schema asks of each
    whether less is better.

    Parameters
    ----------
    digest
        The SHA-256 of report.json.
    only, system, name
        As in `about`.

    Raises
    ------
    InputError
        Where no model is named, or no estimate that could be a result is chosen.
    """
    subject = about(report, only=only, system=system, name=name)
    if subject.name is None:
        held = systems(report, subject.rows)
        more = f", and --system with one of {listed(held)}" if len(held) > 1 else ""
        raise InputError(
            "The run names no model, and a record is about one.",
            where="--model-name",
            hint=f"Give its name, as in --model-name ORGANIZATION/MODEL{more}.",
        )
    rows = [report.estimates[row] for row in subject.rows]
    used = [row for row in rows if row.measure.worse in ("up", "down")]
    if not used:
        raise InputError(
            f"None of the {len(rows)} chosen estimates is better or worse when it grows, which a record says of each."
            if rows
            else "No estimate carries a finding or a gate.",
            where="--only",
            hint="Choose others, as in a gate: --only NAME or --only 'NAME[key=value]'.",
        )
    seconds = moment(report).timestamp()
    if seconds < 0:
        message = f"A record counts time from 1970 on, and the report is of {line(report.created)}."
        raise InputError(message, where="key created", hint="Set the clock of the machine, and run the audit again.")
    when = f"{seconds:.0f}"
    record = {
        "schema_version": VERSION,
        "evaluation_id": f"miles-{line(report.audit)}/{subject.name}/{when}",
        "evaluation_timestamp": when,
        "retrieved_timestamp": when,
        "source_metadata": _source(report, digest, by, len(used), len(rows)),
        "eval_library": _library(report),
        "model_info": _model(report, subject),
        "evaluation_results": [_result(report, row) for row in used],
    }
    text = json.dumps(record, sort_keys=True, indent=1) + "\n"
    return Record(text=text, model=subject.name, results=len(used), left_out=len(rows) - len(used))


def _source(report: Report, digest: str, by: Evaluator, used: int, chosen: int) -> Json:
    counted = {
        "estimates": f"{used} of {len(report.estimates)}; {chosen - used} more were chosen and have no direction"
    }
    for place, source in enumerate(report.data, start=1):
        name = line(file_name(source.path, report.provenance.platform)) or line(source.path)
        words = f"{name}: {line(source.role)}, {source.items} items, miles content {source.sha256}"
        counted[f"source_{place}"] = words
    return {
        "source_name": "miles",
        "source_type": "evaluation_run",
        "source_organization_name": by.name,
        "evaluator_relationship": by.relationship,
        "additional_details": {"report_sha256": digest, **counted},
    }


def _library(report: Report) -> Json:
    held = report.registration
    details = {} if held is None else {"registration_sha256": held.sha256}
    for place, gate in enumerate(report.gates, start=1):
        words = ", ".join(filter(None, (gate.outcome, standing(gate.registered, short=True))))
        details[f"gate_{place}"] = f"{line(abridged(gate.expression))}: {words}"
    seed = {"audit": line(report.audit), "seed": str(report.provenance.seed), "python": line(report.provenance.python)}
    return {"name": "miles", "version": line(report.provenance.miles), "additional_details": {**seed, **details}}


def _model(report: Report, subject: About) -> Json:
    own = report.subject if subject.system is None else None
    # miles runs a model that it is given on the user's own machine.
    details = {"deployment_type": "self_deployed" if own else "unknown", "model_availability": "unknown"}
    if own is not None:
        about_it = {"family": line(own.family), "parameters": str(own.parameters), "miles_content": own.sha256}
        details |= {key: value for key, value in about_it.items() if value}
    return {"name": subject.name, "id": subject.name, "additional_details": details}


def _result(report: Report, row: Estimate) -> Json:
    return {
        "evaluation_result_id": named(row.name, row.where),
        "evaluation_name": f"miles-{line(report.audit)}",
        "source_data": _data(report),
        "metric_config": _config(report, row),
        "score_details": _score(row),
    }


def _data(report: Report) -> Json:
    names = [line(file_name(source.path, report.provenance.platform)) or line(source.path) for source in report.data]
    return {"dataset_name": ", ".join(names) or "none", "source_type": "other"}


def _config(report: Report, row: Estimate) -> Json:
    measure = row.measure
    config = {
        "evaluation_description": line(report.question),
        "metric_id": f"miles.{line(report.audit)}.{line(row.name)}",
        "metric_name": line(measure.label or row.name),
        "metric_kind": line(row.name),
        "metric_parameters": spelled(row.where),
        "lower_is_better": measure.worse == "up",
    }
    if measure.ends == SHARE:
        config["metric_unit"] = "proportion"
    # Without declared ends nothing is said of the scale: a continuous score would need both.
    if measure.ends is not None and measure.ends[0] <= row.value <= measure.ends[1]:
        low, high = measure.ends
        config |= {"score_type": "continuous", "min_score": _bound(low), "max_score": _bound(high)}
    return config


def _bound(end: float) -> float | str:
    """Return an end of a scale; JSON has no infinity, and the schema a word for it."""
    return end if math.isfinite(end) else "Infinity" if end > 0 else "-Infinity"


def _score(row: Estimate) -> Json:
    details = {"unit": line(row.unit), "method": line(row.method)}
    uncertain: Json = {"num_samples": row.n}
    if level_of(row) and not row.method.startswith(LOWER_BOUND):
        interval = {"lower": row.low, "upper": row.high, "confidence_level": row.level, "method": line(row.method)}
        uncertain["confidence_interval"] = interval
    else:
        # An interval of the schema has two ends: a lower bound and what was proved are told in words.
        details |= {word: json.dumps(end) for word, end in ends(row).items()}
        details |= {"level": json.dumps(row.level)} if level_of(row) else {}
    return {"score": row.value, "details": details, "uncertainty": uncertain}
