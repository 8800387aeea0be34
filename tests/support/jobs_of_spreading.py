"""What the tests of spreading have done by workers, which then import none of what a file of tests does."""

import os
from pathlib import Path

from probes.core.holding import held


def write(path: Path) -> None:
    """Leave an entry, as a job does."""
    path.write_text("kept", encoding="utf-8")


def whose(path: Path) -> None:
    """Tell which process does the job, and whether it did one of this kind before."""
    path.write_text(f"{os.getpid()} {held('kind', list)} {held('kind', list).append('seen')}", encoding="utf-8")


def whose_else(path: Path) -> None:
    """Do a job of another kind, which needs what that kind holds."""
    whose(path)


def fails(path: Path) -> None:
    """Do no job."""
    raise ZeroDivisionError
