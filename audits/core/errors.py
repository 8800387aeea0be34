"""The errors of `probes`, re-exported for the command line."""

import probes
from probes.core.errors import IncompleteError, InputError, MilesError, first_line

__all__ = ["IncompleteError", "InputError", "MilesError", "first_line", "shadowed"]


def shadowed() -> str:
    """Return the path of a package that shadows our `probes`; empty where none does."""
    return "" if getattr(probes, "OWNER", None) == "miles" else str(probes.__file__)
