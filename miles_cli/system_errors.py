"""Errors of the operating system: their exit status, and what is named where they name no file."""

import errno
import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audits.core.errors import IncompleteError, InputError

# A file that may not grow meets the limit of its user, which is a quota by another name.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
"""Errors that say that a path which was given cannot be one."""
_NO_HOME = "Could not determine home directory."
"""What pathlib says of ~NAME where there is no such user."""
_NOT_GIVEN = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, *_NO_PATH)
"""Errors that say that a file is not to be had. All others are of the machine or of miles; no input is to blame."""
_PACKAGES = ("site-packages", "dist-packages")
_HERE = Path(__file__).resolve().parents[1]
_INSTALLED = (
    *(_HERE / name for name in ("miles_cli", "audits", "probes")),
    Path(sysconfig.get_path("stdlib")).resolve(),
)


def is_full(error: OSError) -> bool:
    """Tell whether the error says that a disk is full."""
    return error.errno in _FULL


def status(error: OSError) -> int:
    """Return the exit status: 2 where a path cannot be one, else 3."""
    return 2 if error.errno in _NO_PATH else 3


def words(error: OSError, what: str) -> tuple[str, str, str]:
    """Return the refusal: what is wrong, where, and what to do; `what` is named where the error has no file."""
    hint = "Check the path and its permissions."
    if error.errno is None:
        # A library wrote it, of whatever it likes; a period of its own is enough.
        text = str(error).strip().removesuffix(".") or type(error).__name__
        return f"{text}.", str(error.filename or what), "Run it again with --verbose for the traceback."
    if _is_installed(error.filename):
        hint = "Install miles again, with the packages that it needs."
    elif is_full(error):
        hint = "Make room, then run the same command again: it resumes."
    elif error.errno == errno.EIO:
        hint = "Check the disk or drive, then run the same command again."
    elif error.errno == errno.EPIPE:
        hint = "Run the same command again: it resumes."
    return f"{error.strerror or error}.", str(error.filename or what), hint


@contextmanager
def named(what: str) -> Iterator[None]:
    """Let an error that names no file, as those of reading and writing do, say what was at work.

    Raises
    ------
    IncompleteError
        Where a process at the other end is gone. For that error typer ends with status 1, that of a failed gate.
    """
    try:
        yield
    except BrokenPipeError as error:
        message, where, hint = words(error, what)
        raise IncompleteError(message, where=where, hint=hint) from error
    except OSError as error:
        # One without a number, as libraries raise it, would lose its text.
        if error.errno is not None:
            error.filename = error.filename or what
        raise


@contextmanager
def as_wrong_input(what: str) -> Iterator[None]:
    """Turn errors of the system while inputs are read into refusals of these inputs.

    Raises
    ------
    InputError
        In the place of errors that say that a file is not to be had, unless the file belongs to an installed package.
    """
    try:
        with named(what):
            yield
    except RuntimeError as error:
        if str(error) != _NO_HOME:
            raise
        raise InputError("There is no such home folder.", where=what, hint="Write the path without ~.") from error
    except OSError as error:
        if error.errno not in _NOT_GIVEN or _is_installed(error.filename):
            raise
        message, where, hint = words(error, what)
        raise InputError(f"An input cannot be read: {message}", where=where, hint=hint) from error


def _is_installed(name: object) -> bool:
    """Tell whether a file belongs to miles, to Python or to a package, and so not to the user."""
    if not isinstance(name, str | bytes):
        return False
    path = Path(os.fsdecode(name)).absolute()
    # Path.resolve fails at links in a circle.
    real = Path(os.path.realpath(path))
    return not set(_PACKAGES).isdisjoint(path.parts) or any(real.is_relative_to(one) for one in _INSTALLED)
