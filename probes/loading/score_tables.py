"""Which scores of membership does a CSV or TSV hold, and who was a member?

A table is read in blocks, of which only numbers, ids and groups are kept.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from probes.errors import InputError
from probes.files.names import suggest
from probes.files.text import read_text
from probes.loading.score_arrays import Flags, Floats
from probes.loading.shadow_scores import MAX_POINTS

_BLOCK = 2**12
# The long forms are what numpy.savetxt writes of truth values.
_YES, _NO = ("1", "true", "1.0", "1.000000000000000000e+00"), ("0", "false", "0.0", "0.000000000000000000e+00")
_FLAGS = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
_MISSING = frozenset({"", "na", "n/a", "none", "null"})
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)", re.ASCII | re.IGNORECASE)
SIDES = ("member", "memberships", "included")
BESIDE = ("id", "group", "include_prob")


@dataclass(slots=True)
class ScoreRows:
    """What a file says of its points, before any is left out."""

    scores: dict[str, Floats]
    member: Flags
    names: tuple[str, ...]
    has_ids: bool
    include_prob: Floats | None
    groups: tuple[str, ...] | None
    one_run: bool
    notes: list[str]


def sign_of(key: str, higher_is: str | None, where: str) -> float:
    """Return what turns scores so that more means "member": -1 for losses, else as `higher_is` says.

    >>> sign_of("loss_t10", None, ""), sign_of("score", "member", "")
    (-1.0, 1.0)
    """
    if key == "loss" or key.startswith("loss_"):
        if higher_is == "member":
            said = f"{key!r} is a loss, which is lower for members, and the option says the opposite."
            raise InputError(said, where=f"{where}, --higher-is", hint="Name it score, or leave the option out.")
        return -1.0
    if higher_is is None:
        said = f"Nothing says whether {key!r} is higher for members or for non-members."
        raise InputError(said, where=f"{where}, {key}", hint="Say --higher-is member or --higher-is nonmember.")
    return 1.0 if higher_is == "member" else -1.0


def unused_notes(names: Iterable[str], known: set[str], where: str) -> list[str]:
    """Return a note on the columns or arrays that are not used; weights among them are refused."""
    others = sorted({*names} - known)
    if "weight" in others:
        hint = "Remove the weights or give them another name: here every point counts once."
        raise InputError("The file has weights.", where=f"{where}, weight", hint=hint)
    return [f"Not used: {', '.join(others[:10])}{', ...' if len(others) > 10 else ''}."] if others else []


def check_chances(chance: Floats, count: int, where: str) -> None:
    """Refuse probabilities of inclusion that are not one for each point and strictly between 0 and 1."""
    wrong = np.flatnonzero(~((chance > 0) & (chance < 1)))
    if len(chance) != count or len(wrong):
        odd = f"; number {wrong[0]} is {chance[wrong[0]]:g}" if len(wrong) else ""
        said = f"There are {len(chance)} probabilities for {count} points{odd}."
        raise InputError(said, where=where, hint="Give each point's probability, between 0 and 1.")


def read_score_table(path: Path, higher_is: str | None) -> tuple[str, ScoreRows]:
    """Read a CSV or TSV in blocks, of which only numbers, ids and groups are kept."""
    text = read_text(path)
    tabs = path.suffix.lower() in (".tsv", ".tab") or (path.suffix.lower() != ".csv" and "\t" in text.split("\n", 1)[0])
    blocks = _blocks(path, text, "\t" if tabs else ",")
    columns = [name[0].strip().casefold() for name in next(blocks, ([], []))[1]]
    where, places = str(path), {name: place for place, name in enumerate(columns)}
    if len(places) < len(columns):
        raise InputError("A column stands twice in the header.", where=where, hint="Name each once.")
    side, attacks = _header(columns, where)
    # Beside scores, the option does not speak of losses.
    mixed = not all(name.startswith("loss") for name in attacks)
    signs = {name: sign_of(name, None if mixed and name[0] == "l" else higher_is, where) for name in attacks}
    if "include_prob" in places:
        signs["include_prob"] = 1.0
    found: dict[str, list[Floats]] = {name: [] for name in signs}
    sides: list[Flags] = []
    labels: dict[str, list[str]] = {name: [] for name in ("id", "group") if name in places}
    lines: list[int] = []
    for numbers, fields in blocks:
        lines += numbers
        for name, sign in signs.items():
            found[name].append(sign * _floats(fields[places[name]], numbers, path, name))
        sides.append(_sides(fields[places[side]], numbers, path, side))
        for name, texts in labels.items():
            texts += fields[places[name]]
        if len(lines) > MAX_POINTS:
            raise InputError(f"There are more than {MAX_POINTS} rows.", where=where, hint="Give fewer.")
    if not lines:
        raise InputError("The file has a header but no rows.", where=where, hint="Give a row for each point.")
    numbers_of = {name: np.concatenate(parts) for name, parts in found.items()}
    if (chance := numbers_of.get("include_prob")) is not None:
        check_chances(chance, len(lines), f"{path}, include_prob")
    return f"{'TSV' if tabs else 'CSV'}, {', '.join(attacks)} and {side}, {len(lines)} rows", ScoreRows(
        scores={attack: numbers_of[name] for name, attack in attacks.items()},
        member=np.concatenate(sides),
        names=tuple(labels["id"] if "id" in labels else map(str, lines)),
        has_ids="id" in labels,
        include_prob=chance,
        groups=tuple(labels["group"]) if "group" in labels else None,
        one_run=side == "included",
        notes=unused_notes(columns, {*attacks, side, *BESIDE}, where),
    )


def _header(columns: Sequence[str], where: str) -> tuple[str, dict[str, str]]:
    """Return the column that says who is a member, and the attack of each column of scores."""
    sides = [name for name in columns if name in SIDES]
    attacks = {name: name for name in columns if name in ("score", "loss")}
    attacks |= {name: name.split("_", 1)[1] for name in columns if name.startswith(("score_", "loss_"))}
    if len(sides) != 1 or not attacks:
        said = f"Columns of scores: {', '.join(attacks) or 'none'}; of membership: {', '.join(sides) or 'none'}."
        hint = f"Name them score, loss, score_X or loss_X, and one member or included. {suggest('score', columns)}"
        raise InputError(said, where=where, hint=hint)
    if len({*attacks.values()}) < len(attacks) or "" in attacks.values():
        hint = f"Give each another name after score_ or loss_; there are {', '.join(attacks)}."
        raise InputError("The columns do not name an attack each.", where=where, hint=hint)
    return sides[0], attacks


def _blocks(path: Path, text: str, separator: str) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
    """Yield the header, then blocks of rows that are not blank: the lines of the rows, and the fields by column."""
    # Bare quotation marks are common in TSV files, and no rule of quoting survives them.
    quoting = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator, quoting=quoting)  # type: ignore[arg-type]
    # The header is a block of its own, so that nothing is read as numbers before its columns are known.
    size, width, first = 1, 0, 1
    try:
        while rows := list(islice(reader, size)):
            # A row on several lines would shift the lines that messages name.
            if reader.line_num - first + 1 != len(rows):
                raise csv.Error("a field holds a line break")
            lines, first = list(range(first, first + len(rows))), reader.line_num + 1
            lengths = set(map(len, rows))
            if lengths & {0, 1}:
                kept = [place for place, row in enumerate(rows) if len(row) > 1 or (row and row[0].strip())]
                lines, rows = [lines[place] for place in kept], [rows[place] for place in kept]
            width = width or len(rows[0]) if rows else width
            # Rows are looked at one by one in uneven blocks only: a table may have ten million of them.
            for line, row in zip(lines, rows, strict=True) if lengths != {width} else ():
                if len(row) != width:
                    said = f"The row has {len(row)} fields, the header {width}."
                    raise InputError(said, where=f"{path}:{line}", hint="Every row needs as many as the header.")
            if rows:
                yield lines, list(zip(*rows, strict=True))
                size = _BLOCK
    except csv.Error as error:
        hint = "A quotation mark may be open: inside a quoted text it is written twice."
        raise InputError(f"The row cannot be read: {error}.", where=f"{path}:{reader.line_num}", hint=hint) from None


def _floats(texts: Sequence[str], lines: Sequence[int], path: Path, column: str) -> Floats:
    try:
        # float() would also take 1_000 and the digits of other scripts.
        if "_" not in (plain := "".join(texts)) and plain.isascii():
            return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        # An empty field, or a wrong one: each is looked at.
        pass
    values = [text.strip() for text in texts]
    for place, text in enumerate(values):
        if text.casefold() in _MISSING:
            values[place] = "nan"
        elif not _NUMBER.fullmatch(text):
            said = f"{text[:60]!r} is not a number."
            raise InputError(said, where=f"{path}:{lines[place]}, {column}", hint="Write plain numbers.")
    return np.array(values, dtype=np.float64)


def _sides(texts: Sequence[str], lines: Sequence[int], path: Path, column: str) -> Flags:
    flags = [_FLAGS.get(text.strip().casefold()) for text in texts]
    if None in flags:
        place = flags.index(None)
        said = f"{texts[place][:60]!r} does not say who is a member."
        raise InputError(
            said, where=f"{path}:{lines[place]}, {column}", hint="Write 1 or true for a member, 0 or false otherwise."
        )
    return np.array(flags, dtype=np.bool_)
