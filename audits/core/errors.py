"""The errors of the engines under a name that the command line may import."""

import probes
from probes.core.errors import IncompleteError, InputError, MilesError

__all__ = ["IncompleteError", "InputError", "MilesError", "shadowed"]


def shadowed() -> str:
    """Return the path of another package that stands in the place of ours, or nothing."""
    return "" if getattr(probes, "OWNER", None) == "miles" else str(probes.__file__)
