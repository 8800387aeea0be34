"""Limits of a contained job, and the errors that it can end in besides those of miles."""

from dataclasses import dataclass

MIB = 2**20
TIME_ENDED, MEMORY_ENDED = 98, 99
"""Statuses of a child that ended itself at a limit, where the system has no signal for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a job may take.

    Parameters
    ----------
    memory
        Bytes beyond what the child has at its start.
    seconds
        Time of the processor, of one call.
    """

    memory: int = 1024 * MIB
    seconds: float = 10

    @property
    def patience(self) -> float:
        """Wall-clock seconds after which a child that answers nothing is ended."""
        return 60 + 20 * self.seconds


class ContainedError(Exception):
    """An error that a contained job ended in.

    Parameters
    ----------
    kind
        Name of the class of what was raised.
    text
        Its message, as it was raised.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind, self.text = kind, text


class LimitError(ContainedError):
    """A contained job exceeded a limit, or its process died.

    Parameters
    ----------
    what
        "memory", "time" or "died".
    text
        What happened, as a clause.
    """

    def __init__(self, what: str, text: str) -> None:
        super().__init__("LimitError", text)
        self.what = what
