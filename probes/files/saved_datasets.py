"""Folders of data sets: what `save_to_disk` of Hugging Face's datasets writes, and parts in Parquet as on the hub.

A folder of several splits is named with one of them: `FOLDER:train`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.opening import check_ordinary, reading
from probes.files.safe_paths import check_link
from probes.files.shards import choose, no_split, splits_of
from probes.files.text import read_text

MOST_FILES = 50_000
"""Files of a folder that are looked at, and folders in it."""
MOST_DEPTH = 4
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
_AGAIN = "Save the dataset again with save_to_disk."


def is_saved(folder: Path) -> bool:
    """Tell whether `save_to_disk` wrote the folder: a data set, or several splits of one."""
    return (folder / _SPLITS).is_file() or ((folder / _STATE).is_file() and (folder / _INFO).is_file())


def parts_of_folder(folder: Path, split: str = "") -> tuple[Path, ...]:
    """Return the files that a data set is made of, in their order; () where the folder is none.

    Raises
    ------
    InputError
        Where the folder holds several splits and none is named or not this one, a part is lacking, or a link leads out.
    """
    if (folder / _SPLITS).is_file():
        named = sorted(path.parent.name for path in folder.glob(f"*/{_STATE}"))
        if not named:
            message = "This is a dataset of several splits, and none is there."
            raise InputError(message, where=str(folder), hint=_AGAIN)
        if (not split and len(named) > 1) or (split and split not in named):
            raise no_split(named, split, str(folder), ":")
        part = folder / (split or named[0])
        check_link(part, folder)
        return tuple(_saved(part))
    if is_saved(folder):
        if split:
            hint = f"Name the folder alone: {folder}."
            raise InputError("The dataset has no splits.", where=f"{folder}:{split}", hint=hint)
        return tuple(_saved(folder))
    splits = splits_of(files_below(folder))
    if not splits:
        return ()
    paths = [folder / name for name in choose(splits, split, str(folder), ":")]
    for path in paths:
        check_link(path, folder)
    return tuple(paths)


def files_below(folder: Path) -> list[str]:
    """Return the paths of files below a folder, links to folders left out; none where it has more than `MOST_FILES`.

    Raises
    ------
    InputError
        Where the folder cannot be read.
    """
    found: list[str] = []
    seen = 0
    with reading(folder):
        for home, folders, names in os.walk(folder):
            below = Path(home).relative_to(folder)
            found += [(below / name).as_posix() for name in names]
            seen += len(folders) + len(names)
            if seen > MOST_FILES:
                # A corpus of recordings or images, or a whole disk.
                return []
            if len(below.parts) >= MOST_DEPTH:
                folders.clear()
    return found


def _saved(folder: Path) -> Iterator[Path]:
    """Yield the Arrow files that the state of a data set lists."""
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
    names = [file.get("filename") if isinstance(file, dict) else None for file in files]
    if len(set(map(str, names))) < len(names):
        raise InputError("The state lists a file of data twice.", where=f"{path}, key _data_files", hint=_AGAIN)
    for name in names:
        # A part is a file of this folder and no other.
        if not isinstance(name, str) or Path(name).name != name or Path(name).suffix != ".arrow":
            raise InputError(
                f"{str(name)[:60]!r} is no name of an Arrow file of this folder.",
                where=f"{path}, key _data_files",
                hint=_AGAIN,
            )
        check_ordinary(folder / name, hint=_AGAIN)
        check_link(folder / name, folder)
        yield folder / name
