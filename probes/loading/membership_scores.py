"""Which scores of membership does a file hold, and who was a member?

One model gives a `ScoreSet`, one score a point and attack; several give `ShadowScores`, from which attacks with
shadow models are computed. More means "member" in both. A point that cannot be used is counted under its reason.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from probes.errors import InputError
from probes.loading.hashing import sha256_file
from probes.loading.score_folders import (
    FORMS,
    MAX_POINTS,
    NOT_FINITE,
    Flags,
    Floats,
    ScoreArchive,
    check_left,
    read_score_folder,
    shadow_scores,
)
from probes.loading.score_folders import ShadowScores as ShadowScores
from probes.loading.tables import read_text, suggest

BOTH = "id both member and non-member"
AGAIN = "id given before"
_MAX_TEXT, _BLOCK = 2**31, 2**12
_YES, _NO = ("1", "true", "1.0", "1.000000000000000000e+00"), ("0", "false", "0.0", "0.000000000000000000e+00")
_FLAGS = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
_MISSING = frozenset({"", "na", "n/a", "none", "null"})
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)", re.ASCII | re.IGNORECASE)
_SIDES = ("member", "memberships", "included")
_BESIDE = ("id", "group", "include_prob")
_PAIRS = {"loss": ("loss_train", "loss_test"), "score": ("in_scores", "out_scores")}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreSet:
    """Scores of one model's points, higher for members.

    Parameters
    ----------
    scores
        By name of the attack, each (n,).
    member
        (n,).
    names
        Ids; of a CSV without ids the lines, of an NPZ the places from 0.
    include_prob
        Probabilities of inclusion, (n,).
    one_run
        The file says `included`, not `member`: who is in was drawn for the audit.
    given
        Rows in the file; those not here were `skipped`, by reason.
    """

    path: str
    sha256: str
    layout: str
    scores: Mapping[str, Floats]
    member: Flags
    names: tuple[str, ...]
    include_prob: Floats | None
    groups: tuple[str, ...] | None
    one_run: bool
    given: int
    skipped: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Rows:
    """What a file says of its points, before any is left out."""

    scores: dict[str, Floats]
    member: Flags
    names: tuple[str, ...]
    has_ids: bool
    include_prob: Floats | None
    groups: tuple[str, ...] | None
    one_run: bool
    notes: list[str]


def read_scores(path: Path, *, higher_is: str | None, target: int | None) -> ScoreSet | ShadowScores:
    """Read a file of scores, or a folder that another tool wrote (see `score_folders`).

    Parameters
    ----------
    higher_is
        Whether more means "member" or "nonmember"; columns and arrays named `loss` need no such word.
    target
        Index of the audited model in a file of several; None: the one that the file names, or the last.

    Raises
    ------
    InputError
        Where the file cannot be read, contradicts itself or the options, or leaves no member or no non-member.
    """
    if higher_is not in (None, "member", "nonmember"):
        said = f"{higher_is!r} is neither member nor nonmember."
        raise InputError(said, where="--higher-is", hint="Say for whom the scores are higher.")
    if path.is_dir():
        return read_score_folder(path, higher_is=higher_is, target=target)
    head = _head(path)
    if head[:2] == b"PK" or (head and path.suffix.lower() == ".npz"):
        archive = ScoreArchive(path)
        if "keep" in archive.infos:
            return _shadows(archive, higher_is, target)
        layout, rows = _arrays(archive, higher_is)
    elif head.startswith(b"\x93NUMPY"):
        hint = "Save both: numpy.savez(file, scores=scores, member=member)."
        raise InputError("The array does not say who is a member.", where=str(path), hint=hint)
    else:
        layout, rows = _table(path, higher_is)
    if target is not None:
        raise InputError("The file is of one model.", where=f"{path}, target", hint="Leave the option out.")
    return _used(path, layout, rows)


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


def _used(path: Path, layout: str, rows: _Rows) -> ScoreSet:
    if rows.has_ids and "" in rows.names:
        said = f"The id of point {rows.names.index('')}, counted from 0, is empty."
        raise InputError(said, where=f"{path}, id", hint="Give every point an id, or remove the ids.")
    good = np.logical_and.reduce([np.isfinite(values) for values in rows.scores.values()])
    both, again = _repeated(rows, good)
    used = good & ~both & ~again
    check_left(rows.member, good, used, str(path))
    reasons = {BOTH: both, NOT_FINITE: ~good & ~both, AGAIN: again}
    pick = np.flatnonzero(used).tolist()
    return ScoreSet(
        path=str(path),
        sha256=sha256_file(path),
        layout=layout,
        scores={name: values[used] for name, values in rows.scores.items()},
        member=rows.member[used],
        names=tuple(rows.names[place] for place in pick),
        include_prob=None if rows.include_prob is None else rows.include_prob[used],
        groups=None if rows.groups is None else tuple(rows.groups[place] for place in pick),
        one_run=rows.one_run,
        given=len(used),
        skipped={reason: int(which.sum()) for reason, which in reasons.items() if which.any()},
        notes=tuple(rows.notes),
    )


def _repeated(rows: _Rows, good: Flags) -> tuple[Flags, Flags]:
    """Tell which rows have an id that stands on both sides, and which repeat a usable one of the same side."""
    both, again = np.zeros((2, len(good)), dtype=np.bool_)
    if rows.has_ids and len(set(rows.names)) < len(rows.names):
        known: dict[str, int] = {}
        codes = np.array([known.setdefault(name, len(known)) for name in rows.names])
        inside, outside = (np.bincount(codes[side], minlength=len(known)) for side in (rows.member, ~rows.member))
        both = ((inside > 0) & (outside > 0))[codes]
        usable = np.flatnonzero(good & ~both)
        again[usable] = True
        again[usable[np.unique(codes[usable], return_index=True)[1]]] = False
    return both, again


def _head(path: Path) -> bytes:
    """Return the first bytes of an ordinary file; of one that is not there nothing: reading it as text says so."""
    try:
        if path.exists() and not path.is_file():
            raise InputError("This is not an ordinary file.", where=str(path), hint="Name a CSV, TSV or NPZ file.")
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(512)
    except (OSError, ValueError):
        return b""
    if head[:2] != b"PK" and size > _MAX_TEXT:
        raise InputError(f"The table has {size} bytes.", where=str(path), hint="Save so many scores as an NPZ.")
    return head


def _shadows(archive: ScoreArchive, higher_is: str | None, target: int | None) -> ShadowScores:
    key = _one(("scores", "loss"), archive)
    sign = sign_of(key, higher_is, str(archive.path))
    keep = archive.flags("keep", 2)
    scores = archive.numbers(key, (2, 3))
    reference = archive.numbers("ref_scores", (2,)) if "ref_scores" in archive.infos else None
    return shadow_scores(
        archive.path,
        sha256=sha256_file(archive.path),
        layout=f"NPZ, {key} {scores.shape} and keep",
        scores=sign * scores,
        keep=keep,
        target=_target(archive, target, len(keep)),
        reference=None if reference is None else sign * reference,
        scale="probability" if sign > 0 and not ((scores < 0) | (scores > 1)).any() else "unknown",
        models=[str(model) for model in range(len(keep))],
        notes=_unused(archive.infos, {key, "keep", "target", "ref_scores"}, str(archive.path)),
    )


def _target(archive: ScoreArchive, asked: int | None, count: int) -> int | None:
    if asked is not None or "target" not in archive.infos:
        return asked
    values = archive.numbers("target", (0, 1))
    if values.size > 1 or not (index := float(values.reshape(-1)[0])).is_integer():
        said = f"target holds {values.size} numbers, the first of them {values.reshape(-1)[0]:g}."
        raise InputError(said, where=archive.where("target"), hint=f"Choose one model of 0 to {count - 1}.")
    return int(index)


def _arrays(archive: ScoreArchive, higher_is: str | None) -> tuple[str, _Rows]:
    kind = next((kind for kind, pair in _PAIRS.items() if {*pair} <= archive.infos.keys()), None)
    if kind is not None:
        keys: tuple[str, ...] = _PAIRS[kind]
        parts = [archive.numbers(key, (1, 2)) for key in keys]
        member = np.repeat([True, False], [len(part) for part in parts])
    else:
        keys = _one(("scores", "loss"), archive), _one(_SIDES, archive)
        parts, member = [archive.numbers(keys[0], (1, 2))], archive.flags(keys[1], 1)
        kind = "loss" if keys[0] == "loss" else "score"
    notes = _unused(archive.infos, {*keys, *_BESIDE}, str(archive.path))
    if any(part.ndim > 1 for part in parts):
        notes.append("Several scores of a point were averaged.")
    values = np.concatenate([part.reshape(len(part), -1).mean(axis=1) for part in parts])
    count = len(values)
    if len(member) != count or count > MAX_POINTS:
        said = f"There are {count} scores and {len(member)} entries of {keys[1]}; {MAX_POINTS} points can be read."
        raise InputError(said, where=archive.where(keys[1]), hint="Save one entry for each point.")
    chance = archive.numbers("include_prob", (1,)) if "include_prob" in archive.infos else None
    if chance is not None:
        _check_chances(chance, count, archive.where("include_prob"))
    return f"NPZ, {' and '.join(keys)}, {count} points", _Rows(
        scores={kind: sign_of(kind, higher_is, str(archive.path)) * values},
        member=member,
        names=archive.texts("id", count) if "id" in archive.infos else tuple(map(str, range(count))),
        has_ids="id" in archive.infos,
        include_prob=chance,
        groups=archive.texts("group", count) if "group" in archive.infos else None,
        one_run=keys[1] == "included",
        notes=notes,
    )


def _one(choices: Sequence[str], archive: ScoreArchive) -> str:
    there = [name for name in choices if name in archive.infos]
    if len(there) != 1:
        said = f"The file has {' and '.join(there) or 'none'} of the arrays {', '.join(choices)}; it needs one."
        raise InputError(said, where=str(archive.path), hint=f"{FORMS} {suggest(choices[0], [*archive.infos])}")
    return there[0]


def _unused(names: Iterable[str], known: set[str], where: str) -> list[str]:
    others = sorted({*names} - known)
    if "weight" in others:
        hint = "Remove the weights or give them another name: here every point counts once."
        raise InputError("The file has weights.", where=f"{where}, weight", hint=hint)
    return [f"Not used: {', '.join(others[:10])}{', ...' if len(others) > 10 else ''}."] if others else []


def _check_chances(chance: Floats, count: int, where: str) -> None:
    wrong = np.flatnonzero(~((chance > 0) & (chance < 1)))
    if len(chance) != count or len(wrong):
        odd = f"; number {wrong[0]} is {chance[wrong[0]]:g}" if len(wrong) else ""
        said = f"There are {len(chance)} probabilities for {count} points{odd}."
        raise InputError(said, where=where, hint="Give each point's probability, between 0 and 1.")


def _table(path: Path, higher_is: str | None) -> tuple[str, _Rows]:
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
        _check_chances(chance, len(lines), f"{path}, include_prob")
    return f"{'TSV' if tabs else 'CSV'}, {', '.join(attacks)} and {side}, {len(lines)} rows", _Rows(
        scores={attack: numbers_of[name] for name, attack in attacks.items()},
        member=np.concatenate(sides),
        names=tuple(labels["id"] if "id" in labels else map(str, lines)),
        has_ids="id" in labels,
        include_prob=chance,
        groups=tuple(labels["group"]) if "group" in labels else None,
        one_run=side == "included",
        notes=_unused(columns, {*attacks, side, *_BESIDE}, where),
    )


def _header(columns: Sequence[str], where: str) -> tuple[str, dict[str, str]]:
    """Return the column that says who is a member, and the attack of each column of scores."""
    sides = [name for name in columns if name in _SIDES]
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
    quoting = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator, quoting=quoting)  # type: ignore[arg-type]
    size, width, first = 1, 0, 1
    try:
        while rows := list(islice(reader, size)):
            if reader.line_num - first + 1 != len(rows):
                raise csv.Error("a field holds a line break")
            lines, first = list(range(first, first + len(rows))), reader.line_num + 1
            lengths = set(map(len, rows))
            if lengths & {0, 1}:
                kept = [place for place, row in enumerate(rows) if len(row) > 1 or (row and row[0].strip())]
                lines, rows = [lines[place] for place in kept], [rows[place] for place in kept]
            width = width or len(rows[0]) if rows else width
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
