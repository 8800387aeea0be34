"""The two ways in which a run can end without a report, both of them shown to the user in one panel.

Anything else that is raised is a bug of ours and keeps its traceback.
"""


class MilesError(Exception):
    """Something that the user can repair: what is wrong, where, and what to do.

    Parameters
    ----------
    message
        What is wrong, in one or two sentences, with the value that was found.
    where
        File, line, column, key or option; empty where there is none.
    hint
        What to do about it.
    """

    exit_code = 2

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint


class InputError(MilesError):
    """Bad usage or bad input; nothing was written (exit status 2)."""


class IncompleteError(MilesError):
    """The audit could not be completed: out of memory or disk, a worker lost for good (exit status 3)."""

    exit_code = 3


class AbsentError(IncompleteError):
    """A worker cannot read what is to be in the cache, and does not make it."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where the message is empty.

    >>> first_line(ValueError("no room\\nat all")), first_line(KeyError())
    ('no room', 'KeyError')
    """
    # Messages of libraries may be pages long, and an assertion may have none.
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def escaped(text: str, most: int = 80) -> str:
    """Return the beginning of untrusted text for a message, without control characters, which would reach the terminal.

    >>> escaped("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return ascii(text)[1:-1][:most]
