"""Check an untrusted file before it is opened: it exists, is ordinary, readable, not empty, and what its name says."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from probes.core.errors import InputError
from probes.files.file_kinds import unexpected_kind
from probes.files.foreign_paths import MOVED, has_drive
from probes.files.names import nearest_name

HEAD = 512
"""Bytes at the beginning by which a web page or a pointer without content is known."""


def check_ordinary(path: Path, *, hint: str, where: str = "", taken: Sequence[Path] = ()) -> None:
    """Refuse a path that is no ordinary file, without opening it: reading a pipe or a device might never end.

    `where` says what names the file, such as a line of a manifest, where that is not its path. Files that are `taken`
    are not the ones that a misspelt name can mean.

    Raises
    ------
    InputError
        Where there is nothing of this name, a folder, or something else than an ordinary file.
    """
    where = where or str(path)
    try:
        if path.is_file():
            return
        if path.is_dir():
            raise InputError("This is a folder, not a file.", where=where, hint="Name the file in it.")
        if path.exists():
            raise InputError("This is not an ordinary file.", where=where, hint=hint)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, where) from error
    if "\0" in str(path):
        raise unreadable(path, ValueError("its name holds a NUL byte"), where)
    if path.is_symlink():
        raise InputError("There is no such file: it is a link to nothing.", where=where, hint="Check the link.")
    near = nearest_name(path, taken)
    hint = f"Did you mean {near}?" if near else "Check the path."
    if has_drive(str(path)) and os.sep == "/":
        hint = MOVED
    elif "\\" in str(path) and os.sep == "/":
        hint = "Folders are separated by / here: write it in the place of each \\."
    raise InputError("There is no such file.", where=where, hint=hint)


def read_head(
    path: Path, *, wanted: str, hint: str, size: int = HEAD, where: str = "", taken: Sequence[Path] = ()
) -> bytes:
    """Return the first bytes of an ordinary file that holds something.

    Parameters
    ----------
    wanted
        What should be there, in words, such as "weights".
    hint
        The hint where it is something else.
    where
        What names the file, such as a line of a manifest, where that is not its path.
    taken
        Files that a misspelt name cannot mean.

    Raises
    ------
    InputError
        As of `check_ordinary`, and where it cannot be read, is empty, or is a web page or a pointer.
    """
    check_ordinary(path, hint=hint, where=where, taken=taken)
    try:
        with path.open("rb") as file:
            head = file.read(size)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, where) from error
    if not head:
        raise InputError("The file is empty.", where=where or str(path), hint=hint)
    disguise = unexpected_kind(head)
    if disguise:
        raise InputError(f"This is {disguise.what}, not {wanted}.", where=where or str(path), hint=disguise.hint)
    return head


def advise(error: InputError, path: Path, hint: str) -> None:
    """Give the refusal of a text another hint, unless the file is a web page or a pointer."""
    try:
        with path.open("rb") as file:
            disguise = unexpected_kind(file.read(HEAD))
    except (OSError, ValueError):
        disguise = None
    if not disguise:
        error.hint = hint


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error of the system while a file is read into a refusal that names the file.

    Raises
    ------
    InputError
        Instead of an error of the system.
    """
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception, where: str = "") -> InputError:
    """Return the refusal of a file that the system cannot read."""
    # The message of a system error ends with the path, which `where` already names.
    why = getattr(error, "strerror", None) or error
    hint = "Check the path and its permissions."
    return InputError(f"The file cannot be read: {why}.", where=where or str(path), hint=hint)


def stamp(path: Path) -> tuple[int, ...]:
    """Return what tells a file that is replaced or written from what it was: device, inode, size, and its two times."""
    with reading(path):
        found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def check_unchanged(path: Path, before: tuple[int, ...]) -> None:
    """Refuse a file whose `stamp`, or the first numbers of it that are given, is another one now."""
    if stamp(path)[: len(before)] != before:
        raise InputError("The file changed while it was read.", where=str(path), hint="Run it again.")


@contextmanager
def unchanged(path: Path, before: tuple[int, ...]) -> Iterator[None]:
    """Refuse a file that is written or replaced meanwhile, also where it was refused for something else.

    Raises
    ------
    InputError
        Where its stamp is not the one `before`.
    """
    try:
        yield
    except InputError:
        # What it was refused for may be that it was changed.
        check_unchanged(path, before)
        raise
    check_unchanged(path, before)
