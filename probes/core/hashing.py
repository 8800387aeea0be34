"""SHA-256 hashes of files, folders and JSON values, by which inputs are known.

Every hash is one of content, in 64 lower-case hexadecimal digits. None depends on an absolute path,
a date or an order that the file system happens to choose.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from probes.files.opening import reading


def sha256_file(path: Path) -> str:
    """Return the hash of a file's bytes, read piece by piece.

    Raises
    ------
    InputError
        Where it cannot be read.
    """
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_folder(paths: Iterable[Path]) -> str:
    """Return one hash of several files: of their names below their common folder and of their bytes.

    The same files elsewhere, or listed in another order, have the same hash; a renamed file changes it.
    """
    files = sorted({Path(path).absolute() for path in paths})
    if not files:
        return sha256_json([])
    root = os.path.commonpath([file.parent for file in files])
    return sha256_json([[file.relative_to(root).as_posix(), sha256_file(file)] for file in files])


def sha256_files(paths: Sequence[Path]) -> str:
    """Return the hash of the bytes of a single file, or that of `sha256_folder` of several."""
    return sha256_file(paths[0]) if len(paths) == 1 else sha256_folder(paths)


def sha256_json(value: object) -> str:
    """Return the hash of a JSON value in canonical form: keys sorted, no spaces, UTF-8, no NaN.

    >>> sha256_json({"b": 1, "a": [2.5, None]}) == sha256_json({"a": (2.5, None), "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A lone surrogate (a file name that is not UTF-8) has no UTF-8 form of its own.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
