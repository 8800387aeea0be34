"""Folders given as a manifest: data sets, and recordings with a table of metadata."""

from pathlib import Path

from probes.core.errors import InputError
from probes.files.safe_paths import check_link
from probes.files.saved_datasets import is_saved, parts_of_folder
from probes.files.table_sources import find_table
from probes.files.tables import Table, read_table
from probes.speech.known_layouts import advice_on_folder

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


def open_manifest(path: Path, decimal: str | None = None, *, lean: bool = False) -> Table:
    """Read the table of a manifest: a file, or a folder that `table_of_folder` knows; options are of `read_table`.

    Raises
    ------
    InputError
        Where it cannot be read; of a folder that is laid out as a corpus, the hint names the preset.
    """
    if path.is_dir():
        table = table_of_folder(path, decimal, lean=lean)
        if table is not None:
            return table
        advice = advice_on_folder(path)
        raise InputError("This is a folder, not a file.", where=str(path), hint=advice or "Name the file in it.")
    return read_table(path, decimal, lean=lean)


def table_of_folder(folder: Path, decimal: str | None = None, *, lean: bool = False) -> Table | None:
    """Read the table of a folder of a data set, or of one that holds a table of metadata; None for any other.

    Raises
    ------
    InputError
        Where the folder holds several splits or tables, a part of it is lacking, or a link leads out of it.
    """
    if is_saved(folder):
        return read_table(folder, decimal, lean=lean)
    found = [name for name in METADATA if (folder / name).is_file()]
    if len(found) > 1:
        raise _several(folder, "several tables of metadata", found)
    if found:
        check_link(folder / found[0], folder)
        return read_table(folder / found[0], decimal, lean=lean)
    splits = sorted({path.parent.name for name in METADATA for path in folder.glob(f"*/{name}")})
    if splits:
        raise _several(folder, "a folder of splits, each with its own metadata", splits)
    return read_table(folder, decimal, lean=lean) if parts_of_folder(folder) else None


def root_of(path: Path) -> Path:
    """Return the folder that relative paths of a manifest start from: the one of its file, or the data set's own."""
    return path if path.is_dir() else find_table(path).folder


def _several(folder: Path, what: str, names: list[str]) -> InputError:
    hint = f"Name one of them, such as {folder / names[0]}."
    return InputError(f"This is {what}: {', '.join(names[:12])}.", where=str(folder), hint=hint)
