"""The command line of miles, and its calls from Python: `from miles_cli import run, read, register`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from miles_cli.from_python import IncompleteError, InputError, Registered, Report, read, register, run

__all__ = ["IncompleteError", "InputError", "Registered", "Report", "read", "register", "run"]


def __getattr__(name: str) -> Any:
    """Import what Python calls only when it is asked for: the command line starts without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from miles_cli import from_python

    return getattr(from_python, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
