"""Common parts of all presets: the corpus, out of which no link is followed, and the layout it is turned into."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from probes.core.errors import InputError
from probes.files.levels import Note
from probes.files.names import nearest_name
from probes.files.safe_paths import check_link
from probes.files.tables import Row, Table, read_table
from probes.files.text import read_text
from probes.speech.manifests import ColumnMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A corpus as read: its table, the roles of the columns, the folder of relative paths, and notes on values.

    `home` is the folder that `root` may not lead out of by a link; None where the user named the root.
    """

    table: Table
    columns: ColumnMap
    root: Path
    notes: tuple[Note, ...] = ()
    home: Path | None = None


@dataclass(frozen=True, slots=True)
class Corpus:
    """The folder of a corpus; every file is read through it, so that no link out of it is followed.

    `named` is the file that the user named, if any: it may be a link, since the user chose it.
    """

    folder: Path
    named: Path | None = None

    def check(self, path: Path) -> Path:
        """Return the path if it stays inside the corpus.

        Raises
        ------
        InputError
            Where a link leads out of the corpus.
        """
        if path != self.named:
            check_link(path, self.folder)
        return path

    def text(self, file: Path) -> str:
        """Return the text of a file, as `read_text` does."""
        return read_text(self.check(file))

    def table(self, file: Path) -> Table:
        """Return the table of a file, as `read_table` does."""
        return read_table(self.check(file))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A known layout: its reader `read(path, audio_root)`, and aliases of columns that a user may ask for."""

    summary: str
    read: Callable[[Path, Path | None], Layout]
    aliases: Mapping[str, str] = field(default_factory=dict)


def require_folder(path: Path, what: str) -> Path:
    """Return the path if it is a folder.

    Raises
    ------
    InputError
        Where it is missing or a file.
    """
    if path.is_dir():
        return path
    near = None if path.exists() else nearest_name(path)
    raise InputError(
        "This is a file, not a folder." if path.exists() else "There is no such folder.",
        where=str(path),
        hint=f"Did you mean {near}?" if near else f"Give {what}.",
    )


def one_file(path: Path, patterns: Sequence[str], what: str) -> tuple[Corpus, Path]:
    """Return the corpus, and the path if it is a file, else the only file of the folder that matches a pattern.

    Raises
    ------
    InputError
        Where there is none, or the choice is the user's.
    """
    if not path.is_dir():
        return Corpus(path.parent, named=path), path
    found: dict[Path, None] = {}
    for pattern in patterns:
        found |= dict.fromkeys(sorted(path.glob(pattern)))
    names = [file.relative_to(path).as_posix() for file in found]
    if len(names) == 1:
        return Corpus(path), path / names[0]
    raise InputError(
        f"The folder has several files that may be {what}." if names else f"The folder has no {what}.",
        where=str(path),
        hint=f"Name one: {', '.join(names[:12])}." if names else f"Looked for {', '.join(patterns)}.",
    )


def subfolder(folder: Path, *names: str) -> Path:
    """Return the first of the subfolders that exists, else the folder."""
    return next((folder / name for name in names if (folder / name).is_dir()), folder)


def make_table(path: Path, rows: Sequence[Row], sources: Iterable[Path], what: str) -> Table:
    """Make the table of a layout's rows.

    Raises
    ------
    InputError
        Where there is no row.
    """
    if not rows:
        raise InputError(f"No recording was found: {what}.", where=str(path), hint="Is this the corpus's folder?")
    columns = tuple(dict.fromkeys(name for row in rows for name in row.values))
    return Table(path=path, columns=columns, rows=tuple(rows), sources=tuple(dict.fromkeys(sources)))


def change(table: Table, column: str, new: Callable[[Row], str | None]) -> Table:
    """Return the table with a column computed from each row, replaced or added."""
    rows = tuple(replace(row, values={**row.values, column: new(row)}) for row in table.rows)
    return replace(table, columns=tuple(dict.fromkeys([*table.columns, column])), rows=rows)


def copy_column(table: Table, own: str, name: str) -> Table:
    """Return the table with a column repeated under another name."""
    return change(table, name, lambda row: row.values[own])


def unify(table: Table, column: str, spellings: Mapping[str, str]) -> tuple[Table, list[Note]]:
    """Replace known variant spellings of a corpus; a note counts them."""
    if column not in table.columns:
        return table, []
    variants = [value for row in table.rows if (value := (row.values[column] or "").strip()) in spellings]
    if not variants:
        return table, []
    pairs = ", ".join(f"{old} -> {spellings[old]}" for old in sorted(set(variants)))
    note = Note("corpus.spelling", f"{column}: the corpus's own spellings were unified ({pairs}).", len(variants))
    return change(table, column, lambda row: spellings.get((row.values[column] or "").strip(), row.values[column])), [
        note
    ]


def skipped(count: int, what: str) -> list[Note]:
    """Return a note that counts what was left out; no note for 0."""
    return [Note("corpus.skipped", f"{count} {what} were left out.", count)] if count else []
