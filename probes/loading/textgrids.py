"""Where are files of alignments, and which intervals does one hold: a TextGrid, a CTM, a file of TIMIT, a table?

A TextGrid has a long and a short form. To Praat both are one row of numbers and quoted texts, whatever else stands
between them, and they are read that way here. What a file says about its size is never allocated. Times are given as
they are written; nobody has compared them with the recording yet.
"""

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from probes.errors import InputError
from probes.loading.sniffing import impostor
from probes.loading.tables import Table, read_table, suggest

FORMS = (".textgrid", ".ctm", ".phn", ".csv", ".tsv")
"""Suffixes of alignments, in any case."""
MAX_BYTES = 200 * 2**20
PHONE_TIERS = frozenset({"phones", "phone", "phoneme", "phonemes", "segments", "mau", "phonetic"})
"""Names of the tier of phones, in any case: those of MFA, of WebMAUS (MAU) and of Praat's users."""
_TOKEN = re.compile(r'"[^"]*+(?:""[^"]*+)*+"|"|![^\n]*|[^\s"]+')
_NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE)
_SAMPLE = re.compile(r"[0-9]{1,15}")
_UNDEFINED = "--undefined--"
_LONGEST_NUMBER = 100
_DECIMALS = 9
_COLUMNS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "start": (("start",), ("begin", "xmin", "tmin", "start_time")),
    "end": (("end",), ("xmax", "tmax", "end_time")),
    "phone": (("phone",), ("phoneme", "label", "segment"), ("text",)),
}
"""Names of each column of a table, the better ones first."""
_CLIPS = ("path", "utterance", "clip", "file", "file_name", "filename")


class Mark(NamedTuple):
    """An interval as a file writes it: `start` and `end` in seconds, not yet checked, and the line it begins on."""

    label: str
    start: float
    end: float
    line: int


class Tier(NamedTuple):
    """A tier of intervals."""

    name: str
    marks: Sequence[Mark]


def find_files(root: Path) -> tuple[list[Path], list[str]]:
    """Return the alignments below a folder, and what was not read: links out of it, and names that are not UTF-8."""
    home = os.path.realpath(root).rstrip(os.sep) + os.sep
    found, unread, folders = [], [], [root]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            raise InputError(f"The folder cannot be read: {error.strerror}.", where=str(folder)) from error
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


def read_number(text: str) -> float | None:
    """Return a number as a file of times writes it, finite or not; None where the text is none.

    >>> read_number("-1.5e-2"), read_number("1_0"), read_number("0,5")
    (-0.015, None, None)
    """
    if text == _UNDEFINED:
        return math.nan
    return float(text) if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) else None


def check_size(path: Path) -> None:
    """Refuse what is no file, or one of more than `MAX_BYTES`."""
    try:
        size = path.stat().st_size if path.is_file() else -1
    except OSError as error:
        raise InputError(f"The file cannot be read: {error.strerror}.", where=str(path)) from error
    if size < 0:
        raise InputError("This is not a file.", where=str(path), hint="Check the path.")
    if size > MAX_BYTES:
        raise InputError(
            f"The file has {size / 2**20:,.0f} MiB; at most {MAX_BYTES // 2**20} are read.",
            where=str(path),
            hint="Give a folder of smaller files, for example one for each clip.",
        )


def read_plain(path: Path) -> str:
    """Return a text in UTF-8, or in UTF-16 with a byte order mark as Praat writes it; lines end in a line feed.

    Raises
    ------
    InputError
        Where it is too large, unreadable, binary or in another encoding.
    """
    check_size(path)
    where = str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"The file cannot be read: {error.strerror}.", where=where) from error
    disguise = impostor(data[:512])
    if disguise:
        raise InputError(f"This is {disguise.what}, not an alignment.", where=where, hint=disguise.hint)
    encoding = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "UTF-8"
    try:
        text = data.decode("utf-16" if encoding == "UTF-16" else "utf-8-sig")
    except UnicodeDecodeError as error:
        met = f"The byte 0x{data[error.start]:02x} at offset {error.start} is not {encoding} text."
        raise InputError(met, where=where, hint="Save it as UTF-8.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        met = "The file holds a NUL byte: it is not text."
        raise InputError(met, where=f"{where}:{line}", hint="Save it as a text file in UTF-8.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_textgrid(path: Path) -> list[Tier]:
    """Return the tiers of intervals; tiers of points are passed over.

    Raises
    ------
    InputError
        Where the file is no TextGrid in text form, ends early, or holds more or less than its counts say.
    """
    tokens = _Tokens(path, read_plain(path))
    head = [tokens.header(), tokens.header()]
    if not head[0].startswith("ooTextFile") or head[1] != "TextGrid":
        met = f"This is no TextGrid: it begins with {head[0][:60]!r}."
        raise InputError(met, where=str(path), hint="In Praat: Save as text file, or Save as short text file.")
    for what in ("the start", "the end"):
        tokens.number(what)
    tiers = [tier for place in range(1, tokens.count("tiers") + 1) if (tier := _tier(tokens, place))]
    tokens.finish()
    return tiers


def _tier(tokens: "_Tokens", place: int) -> Tier | None:
    tokens.inside = f" of tier {place}"
    kind = tokens.string("the class")
    if kind not in ("IntervalTier", "TextTier"):
        tokens.refuse(f"The class of tier {place} is {kind[:60]!r}.", "It is IntervalTier or TextTier.")
    name = tokens.string("the name")
    tokens.inside = f" of tier {name[:60]!r}"
    for what in ("the start", "the end"):
        tokens.number(what)
    marks = []
    for number in range(1, tokens.count("intervals") + 1):
        tokens.interval = number
        start = tokens.number("the start")
        line = tokens.line
        end = tokens.number("the end") if kind == "IntervalTier" else start
        marks.append(Mark(tokens.string("the text"), start, end, line))
    tokens.interval = 0
    return Tier(name, marks) if kind == "IntervalTier" else None


class _Tokens:
    """The numbers and texts of a file in their order, and where in the file the last one stood."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.line = 1
        self.inside = ""
        self.interval = 0
        self._text = text
        self._place = 0
        self._matches = _TOKEN.finditer(text)

    def _next(self) -> str | float | None:
        for match in self._matches:
            token = match[0]
            if token[0] == '"':
                self._move(match.start())
                if token == '"':
                    self.refuse("The quotation mark is never closed.", "Inside a text it is written twice.")
                return token[1:-1].replace('""', '"')
            number = read_number(token)
            if number is not None:
                self._move(match.start())
                return number
        self._move(len(self._text))
        return None

    def _move(self, place: int) -> None:
        self.line += self._text.count("\n", self._place, place)
        self._place = place

    def header(self) -> str:
        """Return the next token, whatever it is: a file that is no TextGrid may hold anything."""
        return str(self._next() or "")

    def string(self, what: str) -> str:
        found = self._next()
        if not isinstance(found, str):
            self._wrong(what, "a text in quotation marks", found)
        return found

    def number(self, what: str) -> float:
        found = self._next()
        if not isinstance(found, float):
            self._wrong(what, "a number", found)
        return found

    def count(self, what: str) -> int:
        found = self.number(f"the number of {what}")
        if not (found >= 0 and found.is_integer()):
            self.refuse(f"The number of {what}{self.inside} is {found:g}.", "It is a whole number.")
        return int(found)

    def finish(self) -> None:
        found = self._next()
        if found is not None:
            self.refuse(f"After the last tier there is more: {str(found)[:60]!r}.", "A count (size) is too small.")

    def _wrong(self, what: str, kind: str, found: str | float | None) -> NoReturn:
        place = f" of interval {self.interval}" if self.interval else ""
        met = "the file ends" if found is None else f"there is {str(found)[:60]!r}"
        self.refuse(
            f"Here {what}{place}{self.inside} was to come, {kind}; but {met}.",
            "The file is cut, or one of its counts (size) is wrong: write it again.",
        )

    def refuse(self, message: str, hint: str) -> NoReturn:
        raise InputError(message, where=f"{self.path}:{self.line}", hint=hint)


def phone_tiers(tiers: Sequence[Tier], tier: str | None, where: str) -> list[Tier]:
    """Return the tiers of phones: one, or one for each speaker as MFA names them (`Ann - phones`).

    Parameters
    ----------
    tier
        Name of the tier, in any case, or what follows the speaker in it; None: one of `PHONE_TIERS`, or the only tier.

    Raises
    ------
    InputError
        Where no tier or several ones may be meant.
    """
    wanted = PHONE_TIERS if tier is None else {tier.strip().casefold()}
    plain = [one for one in tiers if one.name.strip().casefold() in wanted]
    spoken = [one for one in tiers if " - " in one.name and one.name.rpartition(" - ")[2].strip().casefold() in wanted]
    found = plain or spoken
    if not found and tier is None and len(tiers) == 1:
        found = list(tiers)
    if len(plain) > 1 or (tier is None and plain and spoken):
        both = ", ".join(one.name[:60] for one in (*plain, *spoken)[:12])
        hint = "Choose one with --tier NAME, or rename one."
        raise InputError(f"Several tiers may hold the phones: {both}.", where=where, hint=hint)
    if not found:
        met = "No tier is called like one of phones" if tier is None else f"There is no tier {tier!r}"
        hint = suggest(tier or "phones", [one.name[:60] for one in tiers])
        raise InputError(f"{met}.", where=where, hint=f"Choose one with --tier NAME. {hint}")
    if not any(one.marks for one in found):
        raise InputError(f"The tier {found[0].name[:60]!r} is empty.", where=where, hint="Align the recording again.")
    return found


def read_intervals(path: Path, tier: str | None, rate: int) -> list[Tier]:
    """Return the tiers of phones of a file that is the alignment of one clip, in any form but a CTM."""
    suffix = path.suffix.lower()
    if suffix == ".textgrid":
        return phone_tiers(read_textgrid(path), tier, str(path))
    if suffix == ".phn":
        return read_phn(path, tier, rate)
    groups = read_tables(path, tier)
    if len(groups) > 1:
        met = f"The table holds {len(groups)} clips ({', '.join(list(groups)[:3])}, ...), and is called like one."
        raise InputError(met, where=str(path), hint="Give the table itself instead of its folder.")
    return next(iter(groups.values()))


def read_phn(path: Path, tier: str | None, rate: int) -> list[Tier]:
    """Return the intervals of a file of TIMIT, which counts samples: `rate` of them are one second."""
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
    """Return the intervals of each utterance of a CTM; `;;` begins a comment."""
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
            met = f"{name[:60]!r} has the channels {channels[name][:60]!r} and {channel[:60]!r}."
            raise InputError(met, where=f"{path}:{line}", hint="Keep the lines of the channel that is audited.")
        # The file has decimal fractions; the rounding error of their sum is not its own.
        marks[name].append(Mark(fields[4], start, round(start + duration, _DECIMALS), line))
    if not marks:
        _refuse_empty(path)
    return {name: [Tier("", found)] for name, found in marks.items()}


def read_tables(path: Path, tier: str | None) -> dict[str, list[Tier]]:
    """Return the tiers of phones of each clip of a table; the clip is "" where no column names it.

    A column `tier`, or the column `type` in which MFA tells words from phones, holds the names of tiers.
    """
    check_size(path)
    table = read_table(path)
    start, end, phone = (_column(table, role, names) for role, names in _COLUMNS.items())
    lower = {name.casefold(): name for name in table.columns}
    if len(named := [lower[name] for name in _CLIPS if name in lower]) > 1:
        met = f"Several columns may name the clip: {', '.join(named)}."
        raise InputError(met, where=str(path), hint="Keep one of them.")
    tiers = _tier_column(table, lower, tier)
    marks: defaultdict[str, defaultdict[str, list[Mark]]] = defaultdict(lambda: defaultdict(list))
    for row in table.rows:
        get = {name: value or "" for name, value in row.values.items()}
        first, last = (read_number(get.get(name, "").strip()) for name in (start, end))
        if first is None or last is None:
            met = f"{start} {get.get(start, '')[:60]!r} and {end} {get.get(end, '')[:60]!r} are not both seconds."
            raise InputError(met, where=f"{path}:{row.line}", hint="Write them like 0.25.")
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
            met = f"Several columns may hold the {role}: {', '.join(found)}."
            raise InputError(met, where=str(table.path), hint=f"Call the right one {role!r}.")
        if found:
            return found[0]
    met = f"There is no column for the {role} (usual names: {', '.join(name for names in ranks for name in names)})."
    raise InputError(met, where=str(table.path), hint=suggest(role, table.columns))


def _fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    for line, content in enumerate(read_plain(path).split("\n"), start=1):
        fields = content.split()
        if fields and not fields[0].startswith(";;"):
            yield line, fields


def _refuse_line(path: Path, line: int, fields: Sequence[str], hint: str) -> NoReturn:
    raise InputError(f"The line {' '.join(fields)[:60]!r} cannot be read.", where=f"{path}:{line}", hint=hint)


def _refuse_tier(path: Path, tier: str | None) -> None:
    if tier is not None:
        met = f"The file has no tiers, and the tier {tier!r} was asked for."
        raise InputError(met, where=str(path), hint="Leave out --tier.")


def _refuse_empty(path: Path) -> NoReturn:
    raise InputError("The file holds no intervals.", where=str(path), hint="Align the recording again.")
