"""What a run has otherwise than it was registered, and which of the two was first."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any

from audits.core import registry
from audits.core.option_groups import MACHINES
from audits.core.records import Json, Report, Source, Subject
from audits.report.pages.content import seconds
from audits.report.registration_file import Registered, moment

UNCOMPARED = ("device", "fail_if")
"""Settings that a run may have otherwise: where the model runs, and the gates, which are compared by themselves."""

MOST_LETTERS = 120
"""Letters of a value that a refusal shows."""

LONGEST = 10 * 366 * 24 * 3600.0
"""Seconds of the longest run that is believed."""

_ABSENT = object()


def differences(registered: Registered, planned: Registered) -> list[str]:
    """Return what a run has otherwise than it was registered, each with both values; nothing where it is the same.

    Files are known by their hashes, so that they may lie elsewhere. Criteria, version and date do not count, nor does
    what is `UNCOMPARED`.
    """
    files = _of_files(registered, planned)
    later = dict(registry.later_defaults_of(planned.audit))
    theirs = later | _settled(planned)
    # Who computes was written down by earlier versions, and decides nothing.
    mine = {key: one for key, one in (later | _settled(registered)).items() if key in theirs or key not in MACHINES}
    said, says = _as_given(registered), _as_given(planned)
    found = []
    for key in dict.fromkeys((*mine, *theirs)):
        if _same(mine.get(key, _ABSENT), theirs.get(key, _ABSENT)):
            continue
        one, other = _text(said, key), _text(says, key)
        if one != other:
            one, other = _apart(one, other)
            found.append(f"{key.replace('_', '-')}: registered {one}, here {other}")
        elif not files:
            # A file of the same name with other content is told as an input, if it is not that two were exchanged.
            found.append(f"{key.replace('_', '-')}: the files of {_short(one)} have the content of one another")
    return files + found


def began(report: Report) -> datetime:
    """Return the latest second in which a finished run can have begun: it ended within that of its date.

    Of a run that was resumed, the seconds are those of its last part.
    """
    spent = seconds(report)
    spent = min(max(spent, 0.0), LONGEST) if math.isfinite(spent) else 0.0
    latest = moment(report.created) + timedelta(seconds=1 - spent)
    first = report.provenance.begun
    return latest if first is None else min(latest, moment(first) + timedelta(seconds=1))


def _of_files(registered: Registered, planned: Registered) -> list[str]:
    """Return the model and the inputs that differ, by role; the order of several of one role does not count."""
    held, has = _by_role(registered), _by_role(planned)
    found = []
    for role in dict.fromkeys((*held, *has)):
        mine, theirs = held.get(role, []), has.get(role, [])
        pairs = [*zip_longest(_others(mine, theirs), _others(theirs, mine))] or _exchanged(mine, theirs)
        found += [f"{role}: registered {_file(one)}, here {_file(other)}" for one, other in pairs]
    return found


def _exchanged(
    mine: Sequence[Source | Subject], theirs: Sequence[Source | Subject]
) -> list[tuple[Source | Subject, Source | Subject]]:
    """Return the files of equal names that have the content of one another, as of two languages of a corpus."""
    held, has = _by_name(mine), _by_name(theirs)
    return [(held[name], has[name]) for name in held if name in has and held[name].sha256 != has[name].sha256]


def _by_name(files: Sequence[Source | Subject]) -> dict[str, Source | Subject]:
    """Return files by their names without folders; those that share one are known by their folders alone."""
    names = [re.split(r"[/\\]", one.path)[-1] for one in files]
    count = Counter(names)
    return {name: one for name, one in zip(names, files, strict=True) if count[name] == 1}


def _by_role(one: Registered) -> dict[str, list[Source | Subject]]:
    found: dict[str, list[Source | Subject]] = {} if one.subject is None else {"model": [one.subject]}
    for source in one.data:
        found.setdefault(f"input {source.role}", []).append(source)
    return found


def _others(mine: Sequence[Source | Subject], theirs: Sequence[Source | Subject]) -> list[Source | Subject]:
    """Return the files whose content is not among those of the other side."""
    left = Counter(one.sha256 for one in theirs)
    found = []
    for one in mine:
        left[one.sha256] -= 1
        if left[one.sha256] < 0:
            found.append(one)
    return found


def _file(one: Source | Subject | None) -> str:
    return "none" if one is None else f"{_short(one.path)} ({one.sha256[:12]})"


def _settled(one: Registered) -> Json:
    """Return the settings that count, with the hash of a file in the place of its path."""
    hashes = {source.path: source.sha256 for source in one.data}
    if one.subject is not None:
        hashes[one.subject.path] = one.subject.sha256
    settings = {key: value for key, value in one.settings.items() if key not in UNCOMPARED}
    return {key: _placed(value, hashes) for key, value in settings.items()} | {"seed": one.seed, "level": one.level}


def _placed(value: Any, hashes: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_placed(item, hashes) for item in value]
    if not isinstance(value, str) or value in hashes:
        return hashes[value] if isinstance(value, str) else value
    # NAME=FILE, as the predictions of a system.
    name, equals, path = value.partition("=")
    return f"{name}{equals}{hashes[path]}" if path in hashes else value


def _same(one: Any, other: Any) -> bool:
    # In JSON true is not 1; in Python it is.
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _as_given(one: Registered) -> Json:
    return {**one.settings, "seed": one.seed, "level": one.level}


def _text(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key], ensure_ascii=False) if key in values else "no such option"


def _apart(one: str, other: str) -> tuple[str, str]:
    """Return two texts that differ, cut to where they do if they are long."""
    equal = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return _around(one, equal), _around(other, equal)


def _around(text: str, place: int) -> str:
    if len(text) <= MOST_LETTERS:
        return text
    start = max(0, min(place - MOST_LETTERS // 3, len(text) - MOST_LETTERS))
    end = start + MOST_LETTERS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS // 2]}…{text[1 - MOST_LETTERS // 2 :]}"
