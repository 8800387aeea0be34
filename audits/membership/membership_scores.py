"""Files of membership scores: the scores of every point, and who was a member.

One model gives a `ScoreSet`, one score a point and attack; several give `ShadowScores`, from which attacks with
shadow models are computed. More means "member" in both. A point that cannot be used is counted under its reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audits.membership.score_arrays import FORMS, Flags, Floats, ScoreArchive
from audits.membership.score_folders import read_score_folder
from audits.membership.score_tables import (
    BESIDE,
    SIDES,
    ScoreRows,
    check_chances,
    read_score_table,
    sign_of,
    unused_notes,
)
from audits.membership.shadow_scores import MAX_POINTS, NOT_FINITE, check_left, shadow_scores
from audits.membership.shadow_scores import ShadowScores as ShadowScores
from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files.names import suggest
from probes.files.table_sources import is_dataset, sha256_table
from probes.files.tables import check_decimal

BOTH = "id both member and non-member"
AGAIN = "id given before"
# Enough for MAX_POINTS rows of 200 characters.
_MAX_TEXT = 2**31
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


def read_scores(
    path: Path, *, higher_is: str | None, target: int | None, decimal: str | None = None
) -> ScoreSet | ShadowScores:
    """Read a file of scores, or a folder that another tool wrote (see `score_folders`).

    Parameters
    ----------
    higher_is
        Whether more means "member" or "nonmember"; columns and arrays named `loss` need no such word.
    target
        Index of the audited model in a file of several; None: the one that the file names, or the last.
    decimal
        The decimal mark of a table, where the user names it.

    Raises
    ------
    InputError
        Where the file cannot be read, contradicts itself or the options, or leaves no member or no non-member.
    """
    if higher_is not in (None, "member", "nonmember"):
        message = f"{higher_is!r} is neither member nor nonmember."
        raise InputError(message, where="--higher-is", hint="Say for whom the scores are higher.")
    if path.is_dir() and not is_dataset(path):
        check_decimal(path, decimal)
        return read_score_folder(path, higher_is=higher_is, target=target)
    head = _head(path)
    if head[:2] == b"PK" or (head and path.suffix.lower() == ".npz"):
        check_decimal(path, decimal)
        archive = ScoreArchive(path)
        # Only a file of several models has to say which of them was trained on which point.
        if "keep" in archive.names:
            return _shadows(archive, higher_is, target)
        layout, rows = _arrays(archive, higher_is)
    elif head.startswith(b"\x93NUMPY"):
        hint = "Save both: numpy.savez(file, scores=scores, member=member)."
        raise InputError("The array does not say who is a member.", where=str(path), hint=hint)
    else:
        layout, rows = read_score_table(path, higher_is, decimal)
    if target is not None:
        raise InputError("The file is of one model.", where=f"{path}, target", hint="Leave it out.")
    return _used(path, layout, rows)


def _used(path: Path, layout: str, rows: ScoreRows) -> ScoreSet:
    if rows.has_ids and "" in rows.names:
        message = f"The id of point {rows.names.index('')}, counted from 0, is empty."
        raise InputError(message, where=f"{path}, id", hint="Give every point an id, or remove the ids.")
    good = np.logical_and.reduce([np.isfinite(values) for values in rows.scores.values()])
    both, again = _repeated(rows, good)
    used = good & ~both & ~again
    check_left(rows.member, good, used, str(path))
    # Every row stands under one reason at most, so that reasons and used rows sum up to the rows given.
    reasons = {BOTH: both, NOT_FINITE: ~good & ~both, AGAIN: again}
    pick = np.flatnonzero(used).tolist()
    return ScoreSet(
        path=str(path),
        sha256=sha256_table(path),
        layout=layout,
        scores={name: values[used] for name, values in rows.scores.items()},
        member=rows.member[used],
        names=tuple(rows.names[index] for index in pick),
        include_prob=None if rows.include_prob is None else rows.include_prob[used],
        groups=None if rows.groups is None else tuple(rows.groups[index] for index in pick),
        one_run=rows.one_run,
        given=len(used),
        skipped={reason: int(which.sum()) for reason, which in reasons.items() if which.any()},
        notes=tuple(rows.notes),
    )


def _repeated(rows: ScoreRows, good: Flags) -> tuple[Flags, Flags]:
    """Tell which rows have an id of both sides, and which repeat a usable one of the same side."""
    both, again = np.zeros((2, len(good)), dtype=np.bool_)
    if rows.has_ids and len(set(rows.names)) < len(rows.names):
        known: dict[str, int] = {}
        codes = np.array([known.setdefault(name, len(known)) for name in rows.names])
        inside, outside = (np.bincount(codes[side], minlength=len(known)) for side in (rows.member, ~rows.member))
        # Nobody knows which side of such an id is true, so all of its rows go, also those without a number.
        both = ((inside > 0) & (outside > 0))[codes]
        usable = np.flatnonzero(good & ~both)
        again[usable] = True
        # np.unique finds the first place of each id: that row stays.
        again[usable[np.unique(codes[usable], return_index=True)[1]]] = False
    return both, again


def _head(path: Path) -> bytes:
    """Return the first bytes of an ordinary file, none of a missing one, which the reader of text refuses."""
    if is_dataset(path):
        return b""
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
    reference = archive.numbers("ref_scores", (2,)) if "ref_scores" in archive.names else None
    return shadow_scores(
        archive.path,
        sha256=sha256_file(archive.path),
        layout=f"NPZ, {key} {scores.shape} and keep",
        scores=sign * scores,
        keep=keep,
        target=_target(archive, target, len(keep)),
        reference=None if reference is None else sign * reference,
        # Ratios of likelihoods, as RMIA takes them, mean something for probabilities alone.
        scale="probability" if sign > 0 and not ((scores < 0) | (scores > 1)).any() else "unknown",
        models=[str(model) for model in range(len(keep))],
        notes=unused_notes(archive.names, {key, "keep", "target", "ref_scores"}, str(archive.path)),
    )


def _target(archive: ScoreArchive, asked: int | None, count: int) -> int | None:
    if asked is not None or "target" not in archive.names:
        return asked
    values = archive.numbers("target", (0, 1))
    if values.size > 1 or not (index := float(values.reshape(-1)[0])).is_integer():
        message = f"target holds {values.size} numbers, the first of them {values.reshape(-1)[0]:g}."
        raise InputError(message, where=archive.where("target"), hint=f"Choose one model of 0 to {count - 1}.")
    return int(index)


def _arrays(archive: ScoreArchive, higher_is: str | None) -> tuple[str, ScoreRows]:
    kind = next((kind for kind, pair in _PAIRS.items() if {*pair} <= {*archive.names}), None)
    if kind is not None:
        keys: tuple[str, ...] = _PAIRS[kind]
        parts = [archive.numbers(key, (1, 2)) for key in keys]
        member = np.repeat([True, False], [len(part) for part in parts])
    else:
        keys = _one(("scores", "loss"), archive), _one(SIDES, archive)
        parts, member = [archive.numbers(keys[0], (1, 2))], archive.flags(keys[1], 1)
        kind = "loss" if keys[0] == "loss" else "score"
    notes = unused_notes(archive.names, {*keys, *BESIDE}, str(archive.path))
    if any(part.ndim > 1 for part in parts):
        notes.append("Several scores of a point were averaged.")
    values = np.concatenate([part.reshape(len(part), -1).mean(axis=1) for part in parts])
    count = len(values)
    if len(member) != count or count > MAX_POINTS:
        message = f"There are {count} scores and {len(member)} entries of {keys[1]}; {MAX_POINTS} points can be read."
        raise InputError(message, where=archive.where(keys[1]), hint="Save one entry for each point.")
    chance = archive.numbers("include_prob", (1,)) if "include_prob" in archive.names else None
    if chance is not None:
        check_chances(chance, count, archive.where("include_prob"))
    return f"NPZ, {' and '.join(keys)}, {count} points", ScoreRows(
        scores={kind: sign_of(kind, higher_is, str(archive.path)) * values},
        member=member,
        names=archive.texts("id", count) if "id" in archive.names else tuple(map(str, range(count))),
        has_ids="id" in archive.names,
        include_prob=chance,
        groups=archive.texts("group", count) if "group" in archive.names else None,
        one_run=keys[1] == "included",
        notes=notes,
    )


def _one(choices: Sequence[str], archive: ScoreArchive) -> str:
    there = [name for name in choices if name in archive.names]
    if len(there) != 1:
        message = f"The file has {' and '.join(there) or 'none'} of the arrays {', '.join(choices)}; it needs one."
        raise InputError(message, where=str(archive.path), hint=f"{FORMS} {suggest(choices[0], [*archive.names])}")
    return there[0]
