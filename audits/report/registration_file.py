"""A registration: criteria and all that decides a run, written down before it, with a digest to be recomputed.

The digest is the SHA-256 of the file's JSON without the key `sha256`: keys sorted, no spaces, UTF-8, no NaN. So it says
the same of a file that was formatted anew. The file comes from somebody else, and is read as such.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from audits.core.gates import MOST_LETTERS
from audits.core.options import as_json
from audits.core.records import Json, Source, Subject
from audits.core.registration import Registration
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.json_values import parse_json
from probes.files.text import read_text

SCHEMA = "miles.registration/1"
DIGEST = "sha256"
"""The key that the digest stands under, and that it does not cover."""

LARGEST = 2**20
"""Bytes of a registration; one with a hundred gates has some ten thousand."""
MOST_CRITERIA = 1000
TIME = "%Y-%m-%dT%H:%M:%SZ"
MADE_BY_MILES = "Give the file as miles register wrote it: one that was changed is no longer what was registered."
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What was registered: the criteria in their order, and all that decides the numbers of the run.

    Parameters
    ----------
    settings
        Every option of the audit after defaults, as the report has them, without the gates.
    created
        When it was made by the clock of its maker, ISO 8601, UTC, to the second.
    """

    audit: str
    criteria: tuple[str, ...]
    data: tuple[Source, ...]
    subject: Subject | None
    settings: Mapping[str, Any]
    seed: int
    level: float
    miles: str
    created: str

    def content(self) -> Json:
        """Return what the digest covers."""
        return {
            "schema": SCHEMA,
            "audit": self.audit,
            "criteria": list(self.criteria),
            "data": [as_json(source) for source in self.data],
            "subject": as_json(self.subject),
            "settings": dict(self.settings),
            "seed": self.seed,
            "level": self.level,
            "miles": self.miles,
            "created": self.created,
        }

    @property
    def digest(self) -> str:
        """The SHA-256 of the content in canonical form."""
        return sha256_json(self.content())

    def dumps(self) -> str:
        """Return the file: the content and its digest as canonical JSON."""
        whole = {**self.content(), DIGEST: self.digest}
        return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def says_as(self, other: "Registered") -> bool:
        """Tell whether both say the same but for when they were made."""
        mine, others = self.content(), other.content()
        return mine | {"created": ""} == others | {"created": ""}

    def cited(self, file: Path) -> Registration:
        """Return the citation of it for a report."""
        return Registration(sha256=self.digest, file=str(file), created=self.created, miles=self.miles)


def moment(text: str) -> datetime:
    """Return a date of a report or a registration.

    Raises
    ------
    ValueError
        Where there is no such day or time.

    Examples
    --------
    >>> moment("2026-11-28T03:00:00Z").isoformat()
    '2026-11-28T03:00:00+00:00'
    """
    return datetime.strptime(text, TIME).replace(tzinfo=UTC)


def without_gates(settings: Mapping[str, Any]) -> Json:
    """Return the settings of a report as they are registered: the criteria stand beside them."""
    return {key: value for key, value in settings.items() if key != "fail_if"}


def read_registration(path: Path) -> Registered:
    """Read a registration, bounded and checked, and recompute its digest.

    Raises
    ------
    InputError
        Where it is none, or its digest is another than that of its content.
    """
    where = str(path)
    text = read_text(path, hint=MADE_BY_MILES, largest=LARGEST)
    try:
        data = parse_json(text, where, once=True)
    except InputError as error:
        error.hint = MADE_BY_MILES
        raise
    _check_shape(data, where)
    assert isinstance(data, dict), "the schema asks for an object"
    stated = data.pop(DIGEST)
    try:
        found = sha256_json(data)
        moment(data["created"])
    except (ValueError, RecursionError) as error:
        # NaN and numbers beyond those of JSON, nesting that can be read but not written, and days that no month has.
        raise InputError(f"The registration cannot be read: {error}.", where=where, hint=MADE_BY_MILES) from None
    if found != stated:
        message = f"The registration was changed: its content has the digest {found[:12]}…, and it says {stated[:12]}…."
        raise InputError(message, where=f"{where}, key {DIGEST}", hint=MADE_BY_MILES)
    return Registered(
        audit=data["audit"],
        criteria=tuple(data["criteria"]),
        data=tuple(Source(**row) for row in data["data"]),
        subject=Subject(**data["subject"]) if data["subject"] else None,
        settings=data["settings"],
        seed=data["seed"],
        level=data["level"],
        miles=data["miles"],
        created=data["created"],
    )


def _check_shape(data: object, where: str) -> None:
    from jsonschema.exceptions import best_match

    if not (isinstance(data, dict) and data.get("schema") == SCHEMA):
        hint = "Name the file that miles register wrote, or register one: miles register AUDIT --help."
        raise InputError("This is no registration of miles.", where=where, hint=hint)
    error = best_match(_validator().iter_errors(data))
    if error is not None:
        key = "/".join(str(part) for part in error.absolute_path)
        place = f"{where}, key {key}" if key else where
        message = f"This is no registration of miles: {error.message[:200]}"
        raise InputError(message, where=place, hint=MADE_BY_MILES)


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_schema())


def _schema() -> Json:
    """Return the shape of the file as a JSON Schema; every object but the settings is closed."""
    text = {"type": "string", "maxLength": 4096}
    source = {"role": text, "path": text, "sha256": _HASH, "items": _COUNT}
    subject = {"path": text, "family": text, "sha256": _HASH, "parameters": _COUNT}
    return _closed(
        schema={"const": SCHEMA},
        sha256=_HASH,
        audit={"type": "string", "maxLength": 100},
        criteria={
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_CRITERIA,
            "items": {"type": "string", "maxLength": MOST_LETTERS},
        },
        data={"type": "array", "items": _closed(**source)},
        subject={"anyOf": [{"type": "null"}, _closed(**subject)]},
        settings={"type": "object"},
        seed={"type": "integer"},
        level={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        miles={"type": "string", "maxLength": 100},
        created={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
    )


def _closed(**properties: Any) -> Json:
    return {"type": "object", "additionalProperties": False, "required": list(properties), "properties": properties}
