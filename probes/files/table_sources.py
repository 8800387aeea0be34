"""Sources of tables: a file, a folder of a data set (`FOLDER`, `FOLDER:SPLIT`), or a data set of the hub (`hf://...`).

Readers of tables ask here for the files to read, so that every option that takes a table takes all of them.
"""

from dataclasses import dataclass
from pathlib import Path

from probes.core.errors import InputError
from probes.core.hashing import sha256_files
from probes.files.arrow import is_arrow
from probes.files.hub_datasets import find_files, is_address
from probes.files.saved_datasets import files_below, is_saved, parts_of_folder
from probes.files.shards import splits_of

FOLDER_HINT = (
    "Name the file in it, or a folder that save_to_disk of Hugging Face's datasets wrote or that holds Parquet files."
)


@dataclass(frozen=True, slots=True)
class TableSource:
    """The files of a table in order, how reports name it, and the folder that relative paths start from.

    `notes` say what is not in the name: the commit that a revision of the hub stands for.
    """

    path: Path
    files: tuple[Path, ...]
    written: str
    folder: Path
    notes: tuple[str, ...] = ()

    @property
    def is_arrow(self) -> bool:
        """Whether the files are Parquet or Arrow."""
        return is_arrow(self.files[0])

    @property
    def file(self) -> Path:
        """The only file of a table that is text."""
        if len(self.files) > 1:
            message = f"There are {len(self.files)} files, and one text is read at a time."
            raise InputError(message, where=self.written, hint="Name one of them.")
        return self.files[0]

    @property
    def sha256(self) -> str:
        """The hash of the only file as it lies, or of all files and their names."""
        return sha256_files(self.files)


def find_table(path: Path) -> TableSource:
    """Find the files of a table; none is opened, and whether a file is there is left to its reader.

    Raises
    ------
    InputError
        Where a folder holds no data set, or several splits and none is named; and as of `find_files` of the hub.
    """
    if is_address(path.as_posix()):
        found = find_files(path.as_posix())
        address, commit = found.address, found.commit
        written = address.written(commit)
        note = f"{address.revision} of {address.id} is the commit {commit}."
        return TableSource(path, found.files, written, found.folder, (note,) * (commit != address.revision))
    folder, split = _folder(path)
    if folder is None:
        return TableSource(path, (path,), str(path), path.parent)
    parts = parts_of_folder(folder, split)
    if not parts:
        raise InputError("This is a folder, not a file.", where=str(path), hint=FOLDER_HINT)
    return TableSource(path, parts, str(path), folder)


def _folder(path: Path) -> tuple[Path | None, str]:
    """Return the folder that a path names, and the split behind it; None where it names a file or nothing."""
    try:
        if path.is_dir():
            return path, ""
        name, mark, split = str(path).rpartition(":")
        if mark and split and not path.exists() and Path(name).is_dir():
            return Path(name), split
    except (OSError, ValueError):
        # What is wrong with the name is said by whoever opens it.
        pass
    return None, ""


def sha256_table(path: Path) -> str:
    """Return the hash of a table's files."""
    return find_table(path).sha256


def reported_path(path: Path) -> str:
    """Return how a report names a table: as it was named, and one of the hub by its commit."""
    return find_table(path).written if is_address(path.as_posix()) else str(path)


def is_dataset(path: Path) -> bool:
    """Tell whether a path names a data set, in a folder or on the hub, and no file and no other folder."""
    if is_address(path.as_posix()):
        return True
    folder, split = _folder(path)
    return folder is not None and (bool(split) or is_saved(folder) or bool(splits_of(files_below(folder))))
