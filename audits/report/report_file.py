"""report.json, read as untrusted input, and files that are written in one step or not at all."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from audits.core import registry
from audits.core.gates import abridged
from audits.core.records import Json, Report
from probes.core.errors import InputError
from probes.core.hashing import sha256_json

NAME = "report.json"
MADE_BY_MILES = "Give a run folder of miles, or the report.json in it; if this was one, run the audit again."
PART = ".part-"
"""Prefix of the name of an unfinished file."""


@cache
def schema() -> Json:
    """Return the JSON Schema of report.json."""
    loaded: Json = json.loads((files("audits") / "report.schema.json").read_text(encoding="utf-8"))
    return loaded


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema())


def _validate(data: Json) -> None:
    """Raise the error of `jsonschema.validate`, which would check the schema itself anew at every call."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(data))
    if error is not None:
        raise error


def dumps(report: Report) -> str:
    """Return the bytes of report.json: keys sorted, no NaN, a newline at the end."""
    return json.dumps(report.to_json(), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_report(report: Report, folder: Path) -> Path:
    """Check a report against the schema and write it in one step."""
    text = dumps(report)
    _validate(json.loads(text))
    write_text(folder / NAME, text)
    return folder / NAME


def read_report(path: Path) -> Report:
    """Read report.json, given as a file or as its run folder.

    Raises
    ------
    InputError
        Where there is none, it is not JSON, or it does not keep to the schema.
    """
    from jsonschema import ValidationError

    file = path / NAME if path.is_dir() else path
    if not file.is_file():
        unfinished = path.is_dir() and (path / "state").is_dir()
        hint = (
            "Run the command that made it again: it resumes." if unfinished else "Give a run folder or its report.json."
        )
        raise InputError("There is no finished report here.", where=str(file), hint=hint)
    try:
        text = file.read_text(encoding="utf-8")
        # 1e999 is valid JSON and parses to infinity, which no report may contain.
        data = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if "\\u" in text:
            # An escape may be a lone surrogate, which cannot be encoded on a page.
            json.dumps(data, ensure_ascii=False).encode("utf-8")
        _validate(data)
        report = Report.from_json(data, registry.measures_of(data["audit"]))
        _check_rows(report)
        return report
    except ValidationError as error:
        key = "/".join(str(part) for part in error.absolute_path) or "the top"
        raise InputError(
            f"The report does not keep to the schema: {error.message[:200]}",
            where=f"{file}, key {key}",
            hint=MADE_BY_MILES,
        ) from error
    # Deeply nested brackets exhaust the stack before the schema is checked.
    except (ValueError, OverflowError, RecursionError, OSError) as error:
        raise InputError(f"The report cannot be read: {error}", where=str(file), hint=MADE_BY_MILES) from error


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _check_rows(report: Report) -> None:
    if any((gate.registered is None) != (report.registration is None) for gate in report.gates):
        raise ValueError("gates are marked as registered or added where a registration is cited, and only there")
    rows = [(finding.id, finding.evidence) for finding in report.findings]
    rows += [(abridged(gate.expression), gate.rows) for gate in report.gates]
    if report.answer:
        rows += [("answer", tuple(number.row for number in report.answer.numbers))]
        rows += [("answer", tuple(verdict.row for verdict in report.answer.verdicts))]
    for name, indices in rows:
        if any(index >= len(report.estimates) for index in indices):
            raise ValueError(f"{name} points to an estimate that is not there")


def fingerprint(audit: str, settings: Mapping[str, Any], data: Any, subject: Any, version: str) -> str:
    """Return the hash of everything that decides the report; gates do not, since they can be judged again.

    Of an audit of another package its version decides too. An option that older versions do not know counts only where
    it has not its default.
    """
    release = registry.release(audit)
    return _fingerprint(audit, settings, data, subject, version, release and release[1])


def _fingerprint(
    audit: str, settings: Mapping[str, Any], data: Any, subject: Any, version: str, release: str | None
) -> str:
    later = registry.later_defaults_of(audit)
    kept = {
        key: value for key, value in settings.items() if key != "fail_if" and not (key in later and value == later[key])
    }
    return sha256_json([audit, kept, data, subject, version, *([release] if release else [])])


def fingerprint_of(report: Report) -> str:
    """Return the fingerprint of a finished report."""
    plain = report.to_json()
    subject = report.subject and report.subject.sha256
    release = registry.release(report.audit)
    made_by = report.provenance.packages.get(release[0]) if release else None
    return _fingerprint(report.audit, plain["settings"], plain["data"], subject, report.provenance.miles, made_by)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step, so that a reader finds the old one or the new one."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file in one step, so that a reader finds the old one or the new one."""
    with in_one_step(path) as file:
        file.write(data)


@contextmanager
def in_one_step(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that gets its name, and takes the place of an older one, where nothing is raised; else it goes."""
    # In the same folder, since a file moves in one step within one file system only. Not tempfile, whose files are the
    # writer's alone: who may read a result is for the user's umask to say.
    part = path.parent / f"{PART}{uuid4().hex}"
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            # Flush before renaming: otherwise a power cut may leave an empty file under the final name.
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The error of a full disk names no file, and others name the temporary one.
            error.filename, error.filename2 = str(path), None
        raise
