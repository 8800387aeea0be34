"""Folders given as a manifest: datasets that `save_to_disk` wrote, and recordings with a table of metadata."""

from collections.abc import Iterator
from pathlib import Path

from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.safe_paths import check_link
from probes.files.tables import Row, Table, check_decimal, read_table
from probes.files.text import read_text
from probes.speech.known_layouts import advice_on_folder

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
_AGAIN = "Save the dataset again with save_to_disk."


def open_manifest(path: Path, decimal: str | None = None) -> Table:
    """Read the table of a manifest: a file, or a folder that `table_of_folder` knows; `decimal` as of `read_table`.

    Raises
    ------
    InputError
        Where it cannot be read; of a folder that is laid out as a corpus, the hint names the preset.
    """
    if path.is_dir():
        table = table_of_folder(path, decimal)
        if table is not None:
            return table
        advice = advice_on_folder(path)
        raise InputError("This is a folder, not a file.", where=str(path), hint=advice or "Name the file in it.")
    return read_table(path, decimal)


def table_of_folder(folder: Path, decimal: str | None = None) -> Table | None:
    """Read the table of a folder that `save_to_disk` wrote, or that holds a table of metadata; None for any other.

    Raises
    ------
    InputError
        Where the folder holds several splits or tables, a part of it is lacking, or a link leads out of it.
    """
    if (folder / _SPLITS).is_file():
        named = [path.parent.name for path in sorted(folder.glob(f"*/{_STATE}"))]
        raise _several(folder, "a dataset of several splits", named)
    if (folder / _STATE).is_file() and (folder / _INFO).is_file():
        check_decimal(folder, decimal)
        return _saved(folder)
    found = [name for name in METADATA if (folder / name).is_file()]
    if len(found) > 1:
        raise _several(folder, "several tables of metadata", found)
    if found:
        check_link(folder / found[0], folder)
        return read_table(folder / found[0], decimal)
    splits = sorted({path.parent.name for name in METADATA for path in folder.glob(f"*/{name}")})
    if splits:
        raise _several(folder, "a folder of splits, each with its own metadata", splits)
    return None


def _several(folder: Path, what: str, names: list[str]) -> InputError:
    hint = f"Name one of them, such as {folder / names[0]}." if names else _AGAIN
    return InputError(f"This is {what}{': ' * bool(names)}{', '.join(names[:12])}.", where=str(folder), hint=hint)


def _saved(folder: Path) -> Table:
    """Read the parts of a saved dataset in order; rows are numbered within their part."""
    parts = [_part(folder, name) for name in _parts(folder)]
    columns = parts[0].columns
    other = next((part for part in parts if part.columns != columns), None)
    if other is not None:
        raise InputError("The part has other columns than the first one.", where=str(other.path), hint=_AGAIN)
    rows = tuple(Row(row.line, row.values, part.path) for part in parts for row in part.rows)
    return Table(path=folder, columns=columns, rows=rows, sources=tuple(part.path for part in parts))


def _part(folder: Path, name: str) -> Table:
    path = folder / name
    check_link(path, folder)
    return read_table(path)


def _parts(folder: Path) -> Iterator[str]:
    """Yield the names of the Arrow files that the state of a dataset lists."""
    path = folder / _STATE
    check_link(path, folder)
    state = parse_json(read_text(path), str(path), once=True)
    files = state.get("_data_files") if isinstance(state, dict) else None
    if not isinstance(files, list) or not files:
        raise InputError("The state lists no files of data.", where=f"{path}, key _data_files", hint=_AGAIN)
    if isinstance(state, dict) and state.get("_indices_data_files"):
        raise InputError(
            "The dataset is a selection of rows whose numbers stand in a file of their own.",
            where=f"{path}, key _indices_data_files",
            hint="Call dataset.flatten_indices() and save it again.",
        )
    for file in files:
        name = file.get("filename") if isinstance(file, dict) else None
        # A part is a file of this folder and no other.
        if not isinstance(name, str) or Path(name).name != name or Path(name).suffix != ".arrow":
            raise InputError(
                f"{str(name)[:60]!r} is no name of an Arrow file of this folder.",
                where=f"{path}, key _data_files",
                hint=_AGAIN,
            )
        yield name
