"""Read a table of measurements made elsewhere: seconds, bytes and operations by target, length and round."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audits.scaling.counts import LENGTH, Curve, Floats, settled
from probes.core.errors import InputError
from probes.files.schemas import CellBlock, Column, OneOf, Schema, SchemaReader

MOST_ROWS, LONGEST, MOST_TARGETS, MOST_LENGTHS, LONGEST_NAME = 10**6, 2**50, 100, 200, 80
QUANTITY_OF = {"seconds": "time", "bytes": "memory", "state_bytes": "state", "operations": "operations"}
"""The quantity that a column holds."""


def _amount(name: str, least: float) -> Column:
    hint = (
        "Write a number above 0." if least else "Write a number, 0 or more; leave a cell empty that was not measured."
    )
    return Column(
        name=name, kind="number", missing=True, least=least, most=1e30, refusal=f"is no number of {name}", hint=hint
    )


SCHEMA = Schema(
    columns=(
        Column(name="target", required=True),
        Column(name="n", kind="whole", required=True, refusal="is no length", hint="Write a whole number."),
        Column(name="round", kind="whole", required=True, refusal="is no round", hint="Write a whole number."),
        _amount("seconds", 1e-12),
        *(_amount(name, 0) for name in ("bytes", "state_bytes", "operations")),
    ),
    one_of=(OneOf("what was measured", tuple(QUANTITY_OF), several=True),),
    most_rows=MOST_ROWS,
    hint="The columns are target, n, round, seconds and, where known, bytes, state_bytes and operations.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthTable:
    """The measurements of a file.

    Parameters
    ----------
    cells
        Rows as they were given, by column.
    rows
        How many there are.
    """

    targets: tuple[str, ...]
    curves: dict[tuple[str, str, str], Curve]
    cells: tuple[dict[str, object], ...]
    notes: tuple[str, ...]


def read_growth(path: Path) -> GrowthTable:
    """Return the curves of a table: a quantity that is the same in every round is taken for counted, seconds never.

    Raises
    ------
    InputError
        Where the file cannot be read, a cell is no number or is negative, or a target, length and round stand twice.
    """
    reader = SchemaReader(path, SCHEMA)
    cells: dict[tuple[str, int, int], dict[str, float]] = {}
    for block in reader.blocks():
        _collect(path, block, cells)
    targets = tuple(dict.fromkeys(target for target, _, _ in cells))
    if len(targets) > MOST_TARGETS:
        raise InputError(f"There are {len(targets)} targets.", where=str(path), hint=f"Give {MOST_TARGETS} at most.")
    curves = {}
    for target in targets:
        own = {(n, round): values for (name, n, round), values in cells.items() if name == target}
        for column, quantity in QUANTITY_OF.items():
            if curve := _curve(path, own, column):
                curves[target, quantity, LENGTH] = curve
    if not curves:
        message = "No cell of seconds, bytes, state_bytes or operations holds a number."
        raise InputError(message, where=str(path), hint=SCHEMA.hint)
    others = [name for name in reader.names if name not in reader.columns]
    notes = [*reader.notes, *([f"Not used: {', '.join(others[:10])}."] if others else [])]
    rows = tuple({"target": target, "n": n, "round": round, **own} for (target, n, round), own in cells.items())
    return GrowthTable(targets=targets, curves=curves, cells=rows, notes=tuple(notes))


def _collect(path: Path, block: CellBlock, cells: dict[tuple[str, int, int], dict[str, float]]) -> None:
    names, lengths, rounds = block.texts("target"), block.wholes("n"), block.wholes("round")
    amounts = {name: _numbers(block, name) for name in QUANTITY_OF if name in block.cells}
    for at, line in enumerate(block.lines):
        name, n, round = names[at].strip(), int(lengths[at]), int(rounds[at])
        if not (name and name.isprintable() and len(name) <= LONGEST_NAME):
            hint = f"Write a name of at most {LONGEST_NAME} letters."
            raise InputError(f"{name[:60]!r} is no name of a target.", where=f"{path}:{line}, target", hint=hint)
        if not 1 <= n <= LONGEST:
            raise InputError(f"{n} is no length.", where=f"{path}:{line}, n", hint="Write a length of 1 or more.")
        if (name, n, round) in cells:
            message = f"Target {name}, n {n} and round {round} stand twice."
            raise InputError(message, where=f"{path}:{line}", hint="Number the rounds of a target and length.")
        cells[name, n, round] = {
            name: float(column[at]) for name, column in amounts.items() if not np.isnan(column[at])
        }


def _numbers(block: CellBlock, name: str) -> Floats:
    """Return the numbers of a column, NaN where a cell is empty; raises InputError where one is out of bounds."""
    found, column = block.numbers(name), block.columns[name]
    wrong = np.flatnonzero(~(np.isnan(found) | ((found >= column.least) & (found <= column.most))))
    if len(wrong):
        raise block.refusal(name, int(wrong[0]))
    return found


def _curve(path: Path, cells: dict[tuple[int, int], dict[str, float]], column: str) -> Curve | None:
    there = {cell: values[column] for cell, values in cells.items() if column in values}
    if not there:
        return None
    lengths, rounds = (sorted({cell[axis] for cell in there}) for axis in (0, 1))
    if len(lengths) > MOST_LENGTHS:
        message = f"A target has {len(lengths)} lengths."
        raise InputError(message, where=str(path), hint=f"Give {MOST_LENGTHS} at most, such as doubling ones.")
    values = np.full((len(rounds), len(lengths)), np.nan)
    for (n, round), value in there.items():
        values[rounds.index(round), lengths.index(n)] = value
    curve = Curve(lengths=tuple(lengths), values=values, counted=False)
    return curve if column == "seconds" else settled(curve)
