"""A report as a machine-learning bill of materials: the model, its data, and what was measured, with intervals.

Source: CycloneDX 1.7 (ECMA-424), bom-1.7.schema.json: metadata, component, modelCard, componentData.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_URL, uuid5

from audits.core.gates import abridged
from audits.core.numbers import LOWER_BOUND, coordinates, level_of
from audits.core.records import Estimate, Finding, Json, Report
from audits.core.registration import standing
from audits.report.exports.in_toto import WARNING
from audits.report.exports.places import file_name
from audits.report.exports.subjects import About, about
from audits.report.exports.wording import ends, line, moment, plain, spelled
from audits.report.pages import content
from probes.core.errors import InputError

VERSION = "1.7"
MODEL, INPUTS = "model", "inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A bill of materials as JSON, and the model that it is about; None where it is about data."""

    text: str
    model: str | None


def to_cyclonedx(
    report: Report,
    digest: str,
    plain_hashes: Collection[str] = (),
    *,
    only: Sequence[str] = (),
    system: str | None = None,
    name: str | None = None,
) -> Bill:
    """Return the bill of materials; equal reports and files give equal bytes.

    Parameters
    ----------
    digest
        The SHA-256 of report.json.
    plain_hashes
        Hashes of the report that are those of a file's bytes. Others are properties `miles:milesContent`: nobody
        should take the hash of a model's content for that of its file.
    only, system, name
        As in `about`.

    Raises
    ------
    InputError
        Where the report names neither a model nor data, or `about` refuses.
    """
    subject = about(report, only=only, system=system, name=name)
    if subject.name is None and not report.data:
        raise InputError(
            "The report names neither a model nor data: a bill of materials would list nothing.",
            where="--to cyclonedx",
            hint="Name the model with --model-name.",
        )
    data = [_data(report, place, plain_hashes) for place in range(len(report.data))]
    bom = {
        "$schema": f"http://cyclonedx.org/schema/bom-{VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": VERSION,
        "serialNumber": uuid5(NAMESPACE_URL, f"miles report {digest}").urn,
        "version": 1,
        "metadata": {
            "timestamp": moment(report).replace(tzinfo=None).isoformat(timespec="seconds") + "Z",
            "tools": {
                "components": [{"type": "application", "name": "miles", "version": line(report.provenance.miles)}]
            },
            "component": _component(report, subject, plain_hashes),
            "properties": [*_run(report, subject)],
        },
        **({"components": data} if data else {}),
        "externalReferences": [
            {"type": "quality-metrics", "url": "report.json", "hashes": [{"alg": "SHA-256", "content": digest}]}
        ],
    }
    return Bill(text=json.dumps(bom, sort_keys=True, indent=1) + "\n", model=subject.name)


def _property(name: str, value: object) -> Json:
    """Return one property; what is no text is written as JSON."""
    text = plain(value) if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return {"name": f"miles:{name}", "value": text}


def _hashed(held: str, plain_hashes: Collection[str]) -> tuple[Json, list[Json]]:
    """Return a hash as the field of a component where a verifier can compute it, or else as a property."""
    if held in plain_hashes:
        return {"hashes": [{"alg": "SHA-256", "content": held}]}, []
    return {}, [_property("milesContent", held)] if held else []


def _component(report: Report, subject: About, plain_hashes: Collection[str]) -> Json:
    measured = [*_measured(report, subject)]
    if subject.name is None:
        # A model card is of a model alone: what a run of data measured is in the properties.
        kept = [
            {"type": "dataset", "name": line(file_name(source.path, report.provenance.platform))}
            for source in report.data
        ]
        title = f"data of miles {line(report.audit)}"
        return {"type": "data", "bom-ref": INPUTS, "name": title, "data": kept, "properties": measured}
    own: Json = {}
    about_it: list[Json] = []
    design: Json = {}
    if report.subject is not None and subject.system is None:
        own, about_it = _hashed(report.subject.sha256, plain_hashes)
        about_it += [
            _property("path", line(report.subject.path)),
            _property("parameters", report.subject.parameters),
        ]
        design = {"modelArchitecture": line(report.subject.family)} if line(report.subject.family) else {}
    datasets = (
        {"datasets": [{"ref": f"data-{place}"} for place in range(1, 1 + len(report.data))]} if report.data else {}
    )
    considered = _considered(report, subject)
    return {
        "type": "machine-learning-model",
        "bom-ref": MODEL,
        "name": subject.name,
        **own,
        **({"properties": about_it} if about_it else {}),
        "modelCard": {
            "modelParameters": {**design, **datasets},
            "quantitativeAnalysis": {
                "performanceMetrics": [_metric(report.estimates[row]) for row in subject.rows],
            },
            **({"considerations": considered} if considered else {}),
            "properties": measured,
        },
    }


def _data(report: Report, place: int, plain_hashes: Collection[str]) -> Json:
    source = report.data[place]
    name = line(file_name(source.path, report.provenance.platform)) or line(source.path)
    hashes, properties = _hashed(source.sha256, plain_hashes)
    about_it = [*properties, _property("path", line(source.path)), _property("items", source.items)]
    return {
        "type": "data",
        "bom-ref": f"data-{place + 1}",
        "name": name,
        **hashes,
        "data": [{"type": "dataset", "name": name, "description": line(source.role)}],
        "properties": about_it,
    }


def _metric(row: Estimate) -> Json:
    where = {"slice": line(coordinates(row.where))} if row.where else {}
    return {"type": line(row.name), "value": json.dumps(row.value), **where, **_interval(row)}


def _interval(row: Estimate) -> Json:
    """Return the interval of what was sampled; a proved bound has no level, and a lower bound no upper end."""
    if not level_of(row):
        return {}
    words = (
        {"lowerBound": row.low}
        if row.method.startswith(LOWER_BOUND)
        else {"lowerBound": row.low, "upperBound": row.high}
    )
    return {"confidenceInterval": {word: json.dumps(end) for word, end in words.items()}}


def _considered(report: Report, subject: About) -> Json:
    # The field is meant for the model; these are about what was measured.
    limits = [f"Of the audit: {line(limit)}" for limit in report.limitations]
    assessed = [
        {"groupAtRisk": line(finding.where["group"]), "harms": line(finding.whole)}
        for finding in _findings(report, subject)
        if _harms_a_group(report, finding)
    ]
    return {
        **({"technicalLimitations": limits} if limits else {}),
        **({"fairnessAssessments": assessed} if assessed else {}),
    }


def _harms_a_group(report: Report, finding: Finding) -> bool:
    """Tell whether a finding says that a group fares worse: it warns, and its main number is on the bad side of none.

    A group may stand in a finding because it fares better, or because its gap goes with something else.
    """
    # Only an audit of groups says of how many units each one is.
    if not (report.coverage.groups and finding.severity in WARNING and "group" in finding.where and finding.evidence):
        return False
    main = report.estimates[finding.evidence[0]]
    return main.measure.worse == "up" and main.value > (main.measure.neutral or 0.0)


def _findings(report: Report, subject: About) -> list[Finding]:
    return [finding for finding in content.findings(report) if subject.holds(finding.where)]


def _run(report: Report, subject: About) -> Iterator[Json]:
    """Yield what holds for the run as a whole."""
    yield _property("audit", line(report.audit))
    yield _property("question", line(report.question))
    yield _property("seed", report.provenance.seed)
    yield _property("given", report.coverage.given)
    yield _property("used", report.coverage.used)
    for item in report.coverage.skipped:
        yield _property("skipped", {"count": item.count, "reason": line(item.reason)})
    yield _property("estimates", f"{len(subject.rows)} of {len(report.estimates)}; report.json holds them all")
    if report.registration is not None:
        yield _property("registration", report.registration.sha256)
    for gate in report.gates:
        word = standing(gate.registered, short=True)
        said = {"expression": line(abridged(gate.expression)), "outcome": gate.outcome}
        yield _property("gate", {**said, **({"registered": word} if word else {})})
    if not report.gates:
        yield _property("gate", "no gates")


def _measured(report: Report, subject: About) -> Iterator[Json]:
    """Yield estimates with all that a metric has no room for, then findings and warnings."""
    warned = content.limits(report)
    for place in subject.rows:
        row = report.estimates[place]
        level = {"level": row.level} if level_of(row) else {}
        kept = sorted({line(warning.id) for warning in warned.get(place, ())})
        yield _property(
            "estimate",
            {
                "name": line(row.name),
                "where": spelled(row.where),
                "value": row.value,
                **ends(row),
                **level,
                "method": line(row.method),
                "n": row.n,
                "unit": line(row.unit),
                **({"warnings": kept} if kept else {}),
            },
        )
    for finding in _findings(report, subject):
        yield _property(
            "finding", {"id": line(finding.id), "severity": finding.severity, "statement": line(finding.whole)}
        )
    for notice in content.notices(report):
        more = len(notice.warnings) - 1
        rest = f" And {more} more of this kind." if more else ""
        yield _property("warning", f"{line(notice.id)}: {line(notice.warnings[0].message)}{rest}")
