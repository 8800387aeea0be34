"""Errors of the operating system: their exit status, and what is named where they name no file."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from audits.core.errors import InputError

# A file that may not grow meets the limit of its user, which is a quota by another name.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SHORT = (*_FULL, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
"""Errors that say that the machine lacks something; no input is to blame."""
_NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
"""Errors that say that a path which was given cannot be one."""


def is_full(error: OSError) -> bool:
    """Tell whether the error says that a disk is full."""
    return error.errno in _FULL


def status(error: OSError) -> int:
    """Return the exit status: 2 where a path cannot be one, else 3."""
    return 2 if error.errno in _NO_PATH else 3


def words(error: OSError, what: str) -> tuple[str, str, str]:
    """Return the refusal: what is wrong, where, and what to do; `what` is named where the error has no file."""
    hint = "Check the path and its permissions."
    if is_full(error):
        hint = "Make room, then run the same command again: it resumes."
    elif error.errno == errno.EIO:
        hint = "Check the disk or drive, then run the same command again."
    return f"{error.strerror or error}.", str(error.filename or what), hint


@contextmanager
def named(what: str) -> Iterator[None]:
    """Name `what` in errors without a file, as those of reading and writing are."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or what
        raise


@contextmanager
def as_wrong_input(what: str) -> Iterator[None]:
    """Turn errors of the system while inputs are read into refusals of these inputs.

    Raises
    ------
    InputError
        In the place of errors of the system, except of those that say that the machine lacks something.
    """
    try:
        with named(what):
            yield
    except OSError as error:
        if error.errno in _SHORT:
            raise
        message, where, hint = words(error, what)
        raise InputError(f"An input cannot be read: {message}", where=where, hint=hint) from error
