"""Scores of membership in a table, and who was a member.

A table is read in blocks, of which only numbers, ids and groups are kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audits.membership.score_arrays import Flags, Floats
from audits.membership.shadow_scores import MAX_POINTS
from probes.core.errors import InputError
from probes.files.schemas import Column, OneOf, Schema, SchemaReader

SIDES = ("member", "memberships", "included")
BESIDE = ("id", "group", "include_prob")
SCHEMA = Schema(
    columns=(
        *(Column(name=name, kind="number", family=True, missing=True) for name in ("score", "loss")),
        *(
            Column(
                name=name,
                kind="flag",
                refusal="does not say who is a member",
                hint="Write 1 or true for a member, 0 or false otherwise.",
            )
            for name in SIDES
        ),
        Column(name="id"),
        Column(name="group"),
        Column(name="include_prob", kind="number", missing=True),
    ),
    one_of=(OneOf("scores", ("score", "loss"), several=True), OneOf("membership", SIDES)),
    most_rows=MAX_POINTS,
    hint="Name them score, loss, score_X or loss_X, and one member or included.",
    has_decimal=True,
)


@dataclass(slots=True)
class ScoreRows:
    """All points of a file, before any is left out."""

    scores: dict[str, Floats]
    member: Flags
    names: tuple[str, ...]
    has_ids: bool
    include_prob: Floats | None
    groups: tuple[str, ...] | None
    one_run: bool
    notes: list[str]


def sign_of(key: str, higher_is: str | None, where: str) -> float:
    """Return the sign by which higher scores mean "member": -1 for losses, else as `higher_is` says.

    >>> sign_of("loss_t10", None, ""), sign_of("score", "member", "")
    (-1.0, 1.0)
    """
    if key == "loss" or key.startswith("loss_"):
        if higher_is == "member":
            message = f"{key!r} is a loss, which is lower for members, and the option says the opposite."
            raise InputError(message, where=f"{where}, --higher-is", hint="Name it score, or leave it out.")
        return -1.0
    if higher_is is None:
        message = f"Nothing says whether {key!r} is higher for members or for non-members."
        raise InputError(message, where=f"{where}, {key}", hint="Say --higher-is member or --higher-is nonmember.")
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
        example = f"; number {wrong[0]} is {chance[wrong[0]]:g}" if len(wrong) else ""
        message = f"There are {len(chance)} probabilities for {count} points{example}."
        raise InputError(message, where=where, hint="Give each point's probability, between 0 and 1.")


def read_score_table(path: Path, higher_is: str | None, decimal: str | None = None) -> tuple[str, ScoreRows]:
    """Read a table in blocks, of which only numbers, ids and groups are kept."""
    reader, where = SchemaReader(path, SCHEMA, decimal), str(path)
    attacks = _attacks(reader, where)
    side = next(name for name in reader.names if name in SIDES)
    # Beside scores, the option does not speak of losses.
    mixed = not all(name.startswith("loss") for name in attacks)
    signs = {name: sign_of(name, None if mixed and name[0] == "l" else higher_is, where) for name in attacks}
    notes = unused_notes(reader.names, {*reader.columns}, where)
    numbers: dict[str, list[Floats]] = {name: [] for name in (*signs, "include_prob") if name in reader.columns}
    labels: dict[str, list[str]] = {name: [] for name in ("id", "group") if name in reader.columns}
    sides: list[Flags] = []
    lines: list[int] = []
    for block in reader.blocks():
        lines += block.lines
        for name, parts in numbers.items():
            parts.append(signs.get(name, 1.0) * block.numbers(name))
        sides.append(block.flags(side))
        for name, texts in labels.items():
            texts += block.texts(name)
    joined = {name: np.concatenate(parts) for name, parts in numbers.items()}
    if (chance := joined.get("include_prob")) is not None:
        check_chances(chance, len(lines), f"{path}, include_prob")
    return f"{reader.form}, {', '.join(attacks)} and {side}, {len(lines)} rows", ScoreRows(
        scores={attack: joined[name] for name, attack in attacks.items()},
        member=np.concatenate(sides),
        names=tuple(labels["id"] if "id" in labels else map(str, lines)),
        has_ids="id" in labels,
        include_prob=chance,
        groups=tuple(labels["group"]) if "group" in labels else None,
        one_run=side == "included",
        notes=[*reader.notes, *notes],
    )


def _attacks(reader: SchemaReader, where: str) -> dict[str, str]:
    """Return the attack of each column of scores."""
    scores = [name for name in reader.names if name in reader.columns and reader.columns[name].family]
    scores.sort(key=lambda name: "_" in name)
    attacks = {name: name.split("_", 1)[-1] for name in scores}
    if len({*attacks.values()}) < len(attacks) or "" in attacks.values():
        hint = f"Give each another name after score_ or loss_; there are {', '.join(attacks)}."
        raise InputError("The columns do not name an attack each.", where=where, hint=hint)
    return attacks
