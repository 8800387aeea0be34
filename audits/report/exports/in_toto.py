"""A report as an in-toto statement of test results that others may sign.

Source: in-toto Attestation Framework, Statement v1 and the predicate Test Result v0.1.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

from audits.core.gates import abridged
from audits.core.records import Finding, GateResult, Json, Report
from audits.core.registration import SHORT_LATER
from audits.report.exports.wording import line, named, outcome
from probes.core.errors import InputError
from probes.core.hashing import sha256_file

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
CONTENT = "milesContent"
"""Name of a digest that is the SHA-256 of what miles read, such as weights and configuration, and not of a file."""

LARGEST = 2**34
"""Bytes of a file that is read to see whether it has a hash still."""

WARNING = ("medium", "high")
"""The severities of findings that warn."""


def plain_hashes(report: Report) -> frozenset[str]:
    """Return the hashes of a report that still are those of whole files at the paths that it names."""
    named = [(one.path, one.sha256) for one in (report.subject, *report.data) if one is not None]
    return frozenset(held for path, held in named if _has(path, held))


def _has(path: str, held: str) -> bool:
    try:
        # Skip files of size 0: those of the kernel, as in /proc, report none and may be endless.
        return Path(path).is_file() and 0 < Path(path).stat().st_size <= LARGEST and sha256_file(Path(path)) == held
    except (OSError, InputError):
        # An invalid name, or a folder without permission: the file counts as missing.
        return False


def to_in_toto(report: Report, digest: str, plain: Collection[str] = ()) -> str:
    """Return the statement as JSON; equal reports and files give equal bytes.

    Parameters
    ----------
    digest
        The SHA-256 of report.json.
    plain
        Hashes of the report that are those of a file's bytes, which a verifier can compute. Others are written as
        `milesContent`: nobody should take the hash of a model's content for that of its file.

    Raises
    ------
    InputError
        Where the report names neither a model nor data, so that there is nothing to attest.
    """
    statement = {
        "_type": STATEMENT,
        "subject": _subjects(report, plain),
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": _result(report),
            "configuration": [
                *_sources(report, plain),
                *_registration(report),
                _report(report, digest),
            ],
            "passedTests": _unique(_gates(report, "pass")),
            "warnedTests": _unique([*([] if report.gates else ["no gates"]), *_warning(report)]),
            "failedTests": _unique(_gates(report, "fail")),
        },
    }
    return json.dumps(statement, sort_keys=True, indent=1) + "\n"


def _subjects(report: Report, plain: Collection[str]) -> list[Json]:
    if report.subject is not None:
        model = report.subject
        about = {"family": line(model.family), "parameters": model.parameters}
        return [{"name": line(model.path), "digest": _digest(model.sha256, plain), "annotations": about}]
    if not report.data:
        raise InputError(
            "The report names neither a model nor data: an attestation would be about nothing.",
            where="--to in-toto",
            hint="Export it as junit.",
        )
    return _sources(report, plain)


def _digest(held: str, plain: Collection[str]) -> Json:
    return {"sha256" if held in plain else CONTENT: held}


def _sources(report: Report, plain: Collection[str]) -> list[Json]:
    return [
        {
            "name": line(source.path),
            "digest": _digest(source.sha256, plain),
            "annotations": {"role": line(source.role), "items": source.items},
        }
        for source in report.data
    ]


def _registration(report: Report) -> list[Json]:
    held = report.registration
    if held is None:
        return []
    # The digest covers what the file says without it, however the file is written.
    about = {"role": "registration", "created": held.created, "miles": line(held.miles)}
    return [
        {
            "name": line(held.file),
            "digest": {CONTENT: held.sha256},
            "mediaType": "application/json",
            "annotations": about,
        }
    ]


def _report(report: Report, digest: str) -> Json:
    # Skipped items and warnings do not decide the result, as nearly every audit has some; they are listed here.
    skipped: Counter[str] = Counter()
    for item in report.coverage.skipped:
        skipped[line(item.reason)] += item.count
    warned = Counter(line(warning.id) for warning in report.warnings)
    items = {"given": report.coverage.given, "used": report.coverage.used, "skipped": skipped}
    # No finding is listed as a passed test: a small leak is no approval.
    found = [
        {"id": _found(finding), "severity": finding.severity, "statement": line(finding.whole)}
        for finding in report.findings
    ]
    return {
        "name": "report.json",
        "digest": {"sha256": digest},
        "mediaType": "application/json",
        "annotations": {**items, "warnings": warned, "findings": found},
    }


def _result(report: Report) -> str:
    if outcome(report) == "failed":
        return "FAILED"
    warned = any(finding.severity in WARNING for finding in report.findings)
    return "WARNED" if warned or not report.gates else "PASSED"


def _gates(report: Report, wanted: str) -> list[str]:
    return [f"{_kind(gate)} {line(abridged(gate.expression))}" for gate in report.gates if gate.outcome == wanted]


def _kind(gate: GateResult) -> str:
    return f"gate ({SHORT_LATER})" if gate.registered is False else "gate"


def _warning(report: Report) -> list[str]:
    return [f"finding {_found(finding)}" for finding in report.findings if finding.severity in WARNING]


def _found(finding: Finding) -> str:
    return named(finding.id, finding.where)


def _unique(names: Iterable[str]) -> list[str]:
    """Number repeated names, so that no test hides another."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found
