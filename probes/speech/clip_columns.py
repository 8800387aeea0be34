"""Clips of a table whose recordings are not opened, read column by column: a distinct value is looked at once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from probes.core.errors import InputError
from probes.files.cells import Cells, Coded, Places
from probes.files.levels import Levels, clean, is_unknown
from probes.files.table_rows import Rows
from probes.files.tables import Table
from probes.speech.clip_paths import locate
from probes.speech.clips import Clips

_Refusal = tuple[int, int, InputError]
"""The row, counted from 0, the order of what is checked in a row, and what is wrong."""


def clips_of(
    table: Table,
    chosen: Mapping[str, str | None],
    levels: Mapping[str, Levels],
    used: set[str],
    needs: frozenset[str],
) -> Clips:
    """Return the clips of a table.

    Parameters
    ----------
    chosen
        The column of each role.
    levels
        The rule of each column of groups.
    used
        Columns that are no extras.
    needs
        What no clip may lack: text.

    Raises
    ------
    InputError
        Of the first row in which something is wrong: it lacks a text or a path, its values cannot be told apart, or it
        lists a recording again.
    """
    rows, sources = _as_columns(table)
    refusals: list[_Refusal] = []
    where = _Locations(rows, sources)
    path, text, speaker = (chosen[role] for role in ("path", "text", "speaker"))
    if text and "text" in needs:
        refusals += _without_text(rows.columns[text], text, where)
    names = _stripped(rows.columns[path]) if path else None
    if names is not None and path is not None:
        refusals += _unnamed(names, path, where)
    attributes: dict[str, Coded] = {}
    for order, (name, rule) in enumerate(levels.items(), start=2):
        attributes[name], wrong = _levels(rows.columns[name], rule, where)
        refusals += [(at, order, error) for at, error in wrong]
    clips = Clips(
        names=names,
        path=table.path.absolute(),
        lines=rows.lines,
        sources=sources,
        texts=rows.columns[text] if text else None,
        speakers=_speakers(rows.columns[speaker]) if speaker else None,
        attributes=attributes,
        extras={name: cells for name, cells in rows.columns.items() if name not in used},
        places=np.arange(len(rows), dtype=np.intp),
    )
    if names is not None:
        refusals += _twice(names, clips)
    if refusals:
        raise min(refusals, key=lambda refusal: refusal[:2])[2]
    return clips


class _Locations:
    """File and line of each row, for messages."""

    def __init__(self, rows: Rows, sources: Sequence[Path]) -> None:
        self._rows, self._sources = rows, sources

    def __getitem__(self, at: int) -> str:
        return f"{self._sources[at]}:{self._rows.lines[at]}"


class _Same(Sequence[Path]):
    """One file for all rows."""

    def __init__(self, path: Path, count: int) -> None:
        self._path, self._count = path, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int) -> Path:  # type: ignore[override]
        return self._path


def _as_columns(table: Table) -> tuple[Rows, Sequence[Path]]:
    """Return the rows as columns, all columns of the table among them, and the file of each row."""
    if isinstance(table.rows, Rows):
        rows = table.rows
        sources: Sequence[Path] = _Same(table.path, len(rows))
    else:
        rows = Rows()
        rows.add_rows(table.rows)
        sources = [row.source or table.path for row in table.rows]
    for name in table.columns:
        if name not in rows.columns:
            rows.columns[name] = Cells(repeat(None, len(rows)))
    return rows, sources


def _stripped(cells: Cells) -> Cells:
    """Return names without space around them."""
    if all(cell is not None and cell == cell.strip() for cell in cells):
        return cells
    return Cells((cell or "").strip() for cell in cells)


def _without_text(cells: Cells, column: str, where: _Locations) -> Iterator[_Refusal]:
    at = next((at for at, cell in enumerate(cells) if cell is None), None)
    if at is not None:
        hint = f"Fill in {column!r}, or drop the row."
        yield at, 0, InputError("The row has no text.", where=where[at], hint=hint)


def _unnamed(names: Cells, column: str, where: _Locations) -> Iterator[_Refusal]:
    at = next((at for at, name in enumerate(names) if not name), None)
    if at is not None:
        try:
            locate("", column, None, where[at])
        except InputError as error:
            yield at, 1, error


def _levels(cells: Cells, rule: Levels, where: _Locations) -> tuple[Coded, list[tuple[int, InputError]]]:
    """Return the level of each row by a rule, and where two values of the column would become one level."""
    values, codes = cells.coded()
    times = np.bincount(codes, minlength=len(values)).tolist()
    first = np.empty(len(values), dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    found = []
    for value, count, at in zip(values, times, first.tolist(), strict=True):
        try:
            found.append(rule.level(value, where[at], times=count))
        except InputError as error:
            # A refusal that comes before this one may still show its clip.
            return Coded(("",), np.zeros(len(codes), dtype=np.int32)), [(at, error)]
    return _recoded(found, codes), []


def _recoded(values: Sequence[str | None], codes: Places) -> Coded:
    """Return a column whose codes stand for these values, of which some are the same."""
    once = Coded.of(values)
    return Coded(once.levels, once.codes[codes] if len(values) else once.codes)


def _speakers(cells: Cells) -> Coded:
    values, codes = cells.coded()
    names = map(clean, values)
    return _recoded([None if is_unknown(name) else name for name in names], codes)


def _twice(names: Cells, clips: Clips) -> Iterator[_Refusal]:
    seen: set[str] = set()
    for at, key in enumerate(map(_plain, chain.from_iterable(names.blocks()))):
        if key in seen and key:
            before = next(number for number, name in enumerate(names) if _plain(name) == key)
            where = clips[before]
            yield (
                at,
                99,
                InputError(
                    f"The recording is listed twice: before on line {where.line} of {where.source.name}.",
                    where=clips[at].where,
                    hint="Keep one of the two rows; parts of one recording need a start and an end.",
                ),
            )
            return
        seen.add(key)


def _plain(name: str | None) -> str:
    """Return a path in the one form that equal paths have."""
    text = name or ""
    if "//" in text or "/." in text or text.startswith("./") or text.endswith("/"):
        return str(Path(text))
    return text
