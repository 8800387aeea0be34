"""Results of finished models, one small JSON file each, shared by several machines.

A file is named by the hash of everything that the model depends on, and says so inside: `key`, `sha256` of the
value, `value`. It is written beside its place and renamed into it, so that a run killed at any moment leaves a whole
file or none, and any number of runs may write into one folder: the same model gives the same bytes.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from probes.core.errors import IncompleteError, InputError
from probes.core.hashing import sha256_json

SUBFOLDER = "language-models"
"""Where results stand below the user's cache, unless another folder is named."""
MOST_BYTES = 2**26
"""Largest result: a longer file is not read, and none is written."""
_PART = ".part-"
_TAIL = b"}\n"
_ABSENT = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True, slots=True)
class Results:
    """A writable folder of results, and folders of other machines that are only read.

    A result that is found in another folder is copied into the own one, which is whole from then on without the
    others. A damaged file counts as absent and is listed by `problems`: its model is trained again, which replaces it.

    Parameters
    ----------
    folder
        Holds `<first two digits>/<64 digits>.json`; made when the first result is written.
    also
        Further such folders, in the order in which they are asked.
    """

    folder: Path
    also: tuple[Path, ...] = ()
    _rejected: dict[Path, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def path(self, key: object) -> Path:
        """Return the path of a key's result in the own folder, whether it exists or not."""
        return self.folder / _relative_path(key)

    def has(self, key: object) -> bool:
        """Tell whether a file in any folder looks like the key's whole result; only `read` checks all of it."""
        return any(_looks_whole(path, key) for path in self._paths(key))

    def finished(self, keys: Sequence[object]) -> set[int]:
        """Return the indices of the keys that `has` finds; only both ends of each file are read."""
        return {index for index, key in enumerate(keys) if self.has(key)}

    def read(self, key: object, check: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any] | None:
        """Read the value of a key; None where no folder holds a whole one.

        Parameters
        ----------
        check
            Raises ValueError for a value that cannot be of this model; such a file counts as damaged.

        Raises
        ------
        IncompleteError
            Where a result of another folder cannot be copied into the own one.
        """
        for path in self._paths(key):
            try:
                value = _value(_bytes(path), key)
                if check is not None:
                    check(value)
            except _ABSENT:
                continue
            except (OSError, ValueError, RecursionError) as error:
                self._rejected[path] = str(error)
                continue
            if path != self.path(key):
                self.write(key, value)
            return value
        return None

    def write(self, key: object, value: Mapping[str, Any]) -> None:
        """Write a result atomically, over one that exists.

        Raises
        ------
        IncompleteError
            Where the disk is full or the folder cannot be written.
        InputError
            Where the result is larger than any that is read again.
        ValueError
            Where a number of it is NaN or infinite.
        """
        data = _document(key, value)
        path = self.path(key)
        if len(data) > MOST_BYTES:
            message = f"The result of one model has {len(data)} bytes; {MOST_BYTES} can be kept."
            raise InputError(message, where=str(path), hint="Hold out less text.")
        # Not tempfile: its files are the writer's alone, and a merge may be another user's.
        part = path.parent / f"{_PART}{uuid4().hex}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            raise IncompleteError(
                f"The result of a model cannot be written: {error}",
                where=str(self.folder),
                hint="Make room or name another folder, then run the same command again: it resumes.",
            ) from error
        finally:
            # If the folder cannot be reached any more, the first error reports it.
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def problems(self) -> tuple[str, ...]:
        """Return the files that `read` rejected, as `file: why`, and the other folders that do not exist."""
        missing = (f"{folder}: there is no such folder" for folder in self.also if not folder.is_dir())
        return (*missing, *(f"{path}: {why}" for path, why in sorted(self._rejected.items())))

    def _paths(self, key: object) -> Iterator[Path]:
        relative = _relative_path(key)
        return (folder / relative for folder in (self.folder, *self.also))


def _relative_path(key: object) -> Path:
    name = sha256_json(key)
    return Path(name[:2], f"{name}.json")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _opening(key: object) -> bytes:
    return f'{{"key":{_json(key)},"sha256":"'.encode()


def _document(key: object, value: Mapping[str, Any]) -> bytes:
    # Keys that are no strings become strings in JSON; the hash is of what a reader will find.
    content = json.loads(_json(value))
    return _opening(key) + f'{sha256_json(content)}","value":{_json(content)}'.encode() + _TAIL


def _looks_whole(path: Path, key: object) -> bool:
    opening = _opening(key)
    try:
        if not path.is_file() or not len(opening) < path.stat().st_size <= MOST_BYTES:
            return False
        with path.open("rb") as file:
            start = file.read(len(opening))
            file.seek(-len(_TAIL), os.SEEK_END)
            return start == opening and file.read() == _TAIL
    except OSError:
        return False


def _bytes(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise ValueError("not an ordinary file")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    return data


def _value(data: bytes, key: object) -> dict[str, Any]:
    """Parse and check a file's bytes; any fault is a ValueError or RecursionError."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise ValueError(f"not whole JSON: {error}") from error
    if not isinstance(content, dict) or content.keys() != {"key", "sha256", "value"}:
        raise ValueError("not a result of a model")
    if _json(content["key"]) != _json(json.loads(_json(key))):
        raise ValueError("the result of another model")
    value = content["value"]
    # NaN and infinity, which Python's reader lets through, have no hash.
    if not isinstance(value, dict) or sha256_json(value) != content["sha256"]:
        raise ValueError("the value is not the one that was written")
    return value
