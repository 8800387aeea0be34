"""Readers of alignment files (TextGrid, CTM, TIMIT's .phn, tables), and the search for them in a folder.

Times are those of the file, not yet checked against the recording.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from probes.core.errors import InputError
from probes.files.tables import Table, read_table
from probes.speech.textgrids import (
    PHONE_TIERS,
    Mark,
    Tier,
    check_size,
    phone_tiers,
    read_number,
    read_plain,
    read_textgrid,
)

FORMS = (".textgrid", ".ctm", ".phn", ".csv", ".tsv")
"""Suffixes of alignments, in any case."""
_SAMPLE = re.compile(r"[0-9]{1,15}")
_DECIMALS = 9
_COLUMNS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "start": (("start",), ("begin", "xmin", "tmin", "start_time")),
    "end": (("end",), ("xmax", "tmax", "end_time")),
    "phone": (("phone",), ("phoneme", "label", "segment"), ("text",)),
}
"""Names of each column of a table, the better ones first."""
_CLIPS = ("path", "utterance", "clip", "file", "file_name", "filename")


def find_files(root: Path) -> tuple[list[Path], list[str]]:
    """Return the alignment files below a folder, and entries not read: links out of it, names that are not UTF-8."""
    home = os.path.realpath(root).rstrip(os.sep) + os.sep
    found, unread, folders = [], [], [root]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            raise InputError(
                f"The folder cannot be read: {error.strerror}.",
                where=str(folder),
                hint="Check the path and its permissions.",
            ) from error
        for entry in entries:
            is_folder, name = entry.is_dir(), entry.relative_to(root).as_posix()
            if entry.name.startswith((".", "__MACOSX")) or not (is_folder or entry.suffix.lower() in FORMS):
                continue
            readable = name.encode("utf-8", "replace").decode()
            leaves = entry.is_symlink() and not f"{os.path.realpath(entry)}{os.sep}".startswith(home)
            if leaves or readable != name:
                unread.append(readable)
            elif is_folder and not entry.is_symlink():
                folders.append(entry)
            elif entry.is_file():
                found.append(entry)
    return sorted(found), unread


def read_intervals(path: Path, tier: str | None, rate: int) -> list[Tier]:
    """Read the phone tiers of one clip's alignment file, in any form but a CTM."""
    suffix = path.suffix.lower()
    if suffix == ".textgrid":
        return phone_tiers(read_textgrid(path), tier, str(path))
    if suffix == ".phn":
        return read_phn(path, tier, rate)
    groups = read_tables(path, tier)
    if len(groups) > 1:
        message = f"The table holds {len(groups)} clips ({', '.join(list(groups)[:3])}, ...), and is called like one."
        raise InputError(message, where=str(path), hint="Give the table itself instead of its folder.")
    return next(iter(groups.values()))


def read_phn(path: Path, tier: str | None, rate: int) -> list[Tier]:
    """Read the intervals of a TIMIT file, whose times are samples at `rate` Hz."""
    _refuse_tier(path, tier)
    marks = []
    for line, fields in _fields(path):
        if len(fields) != 3 or not all(_SAMPLE.fullmatch(one) for one in fields[:2]):
            hint = "TIMIT writes: first sample, last sample, phone; samples are whole numbers."
            _refuse_line(path, line, fields, hint)
        marks.append(Mark(fields[2], int(fields[0]) / rate, int(fields[1]) / rate, line))
    if not marks:
        _refuse_empty(path)
    return [Tier("", marks)]


def read_ctm(path: Path, tier: str | None) -> dict[str, list[Tier]]:
    """Read the intervals of each utterance of a CTM; `;;` begins a comment."""
    _refuse_tier(path, tier)
    marks: defaultdict[str, list[Mark]] = defaultdict(list)
    channels: dict[str, str] = {}
    for line, fields in _fields(path):
        start, duration = (read_number(one) for one in (*fields[2:4], "", "")[:2])
        if not 5 <= len(fields) <= 8 or start is None or duration is None:
            hint = "A CTM has: utterance, channel, start, duration, phone, and a confidence if it is known."
            _refuse_line(path, line, fields, hint)
        name, channel = fields[:2]
        if channels.setdefault(name, channel) != channel:
            message = f"{name[:60]!r} has the channels {channels[name][:60]!r} and {channel[:60]!r}."
            raise InputError(message, where=f"{path}:{line}", hint="Keep the lines of the channel that is audited.")
        # The file has decimal fractions; the rounding error of their sum is not its own.
        marks[name].append(Mark(fields[4], start, round(start + duration, _DECIMALS), line))
    if not marks:
        _refuse_empty(path)
    return {name: [Tier("", found)] for name, found in marks.items()}


def read_tables(path: Path, tier: str | None) -> dict[str, list[Tier]]:
    """Read the phone tiers of each clip of a table; the clip is "" where no column names it.

    A column `tier`, or the column `type` in which MFA tells words from phones, holds the names of tiers.
    """
    check_size(path)
    table = read_table(path)
    start, end, phone = (_column(table, role, names) for role, names in _COLUMNS.items())
    table = table.with_points([start, end])
    lower = {name.casefold(): name for name in table.columns}
    if len(named := [lower[name] for name in _CLIPS if name in lower]) > 1:
        message = f"Several columns may name the clip: {', '.join(named)}."
        raise InputError(message, where=str(path), hint="Keep one of them.")
    tiers = _tier_column(table, lower, tier)
    table.check_flat([start, end, phone, *named, *filter(None, [tiers])])
    marks: defaultdict[str, defaultdict[str, list[Mark]]] = defaultdict(lambda: defaultdict(list))
    for row in table.rows:
        get = {name: value or "" for name, value in row.values.items()}
        first, last = (read_number(get.get(name, "").strip()) for name in (start, end))
        if first is None or last is None:
            message = f"{start} {get.get(start, '')[:60]!r} and {end} {get.get(end, '')[:60]!r} are not both seconds."
            hint = table.mark_hint([get.get(start, ""), get.get(end, "")], "Write them like 0.25.", option=False)
            raise InputError(message, where=f"{path}:{row.line}", hint=hint)
        clip = get.get(named[0], "").strip() if named else ""
        if named and not clip:
            raise InputError("The row names no clip.", where=f"{path}:{row.line}", hint=f"Fill in {named[0]!r}.")
        marks[clip][get.get(tiers, "")].append(Mark(get.get(phone, ""), first, last, row.line))
    found = {clip: [Tier(*one) for one in groups.items()] for clip, groups in marks.items()}
    if not tiers:
        return found
    return {clip: phone_tiers(one, tier, f"{path}, {clip}" if clip else str(path)) for clip, one in found.items()}


def _tier_column(table: Table, lower: Mapping[str, str], tier: str | None) -> str:
    if "tier" in lower:
        return lower["tier"]
    kinds = {(row.values.get(lower.get("type", "")) or "").strip().casefold() for row in table.rows}
    # A column `type` may also tell vowels from consonants.
    if kinds & (PHONE_TIERS if tier is None else {tier.strip().casefold()}):
        return lower["type"]
    _refuse_tier(table.path, tier)
    return ""


def _column(table: Table, role: str, ranks: Sequence[Sequence[str]]) -> str:
    for names in ranks:
        found = [column for column in table.columns if column.casefold() in names]
        if len(found) > 1:
            message = f"Several columns may hold the {role}: {', '.join(found)}."
            raise InputError(message, where=str(table.path), hint=f"Call the right one {role!r}.")
        if found:
            return found[0]
    message = (
        f"There is no column for the {role} (usual names: {', '.join(name for names in ranks for name in names)})."
    )
    raise InputError(message, where=str(table.path), hint=table.suggest(role))


def _fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    for line, content in enumerate(read_plain(path).split("\n"), start=1):
        fields = content.split()
        if fields and not fields[0].startswith(";;"):
            yield line, fields


def _refuse_line(path: Path, line: int, fields: Sequence[str], hint: str) -> NoReturn:
    raise InputError(f"The line {' '.join(fields)[:60]!r} cannot be read.", where=f"{path}:{line}", hint=hint)


def _refuse_tier(path: Path, tier: str | None) -> None:
    if tier is not None:
        message = f"The file has no tiers, and the tier {tier!r} was asked for."
        raise InputError(message, where=str(path), hint="Leave out --tier.")


def _refuse_empty(path: Path) -> NoReturn:
    raise InputError("The file holds no intervals.", where=str(path), hint="Align the recording again.")
