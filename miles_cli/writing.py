"""Files that commands write: never into a run folder; through links, and as private as they were."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from audits.core.errors import InputError
from audits.report.records_file import NAMES as RECORDS
from audits.report.report_file import NAME, PART, write_text


def check_path(path: Path, option: str, runs: Sequence[Path]) -> None:
    """Refuse a path that no file can have, and one inside these run folders, which hold nothing else.

    Parameters
    ----------
    option
        The option that named the path.
    runs
        Run folders, or reports.

    Raises
    ------
    InputError
        Where the file may not be written.
    """
    # Not resolve, which fails at links that lead in a circle.
    meant = Path(os.path.realpath(path))
    try:
        why = _unfit(meant)
    except OSError as error:
        why = f"cannot be written: {error.strerror}"
    if why:
        raise InputError(
            f"{_short(path)} {why}.",
            where=option,
            hint="Give the name of a file outside of run folders, in a folder that is there.",
        )
    for run in runs:
        file = run / NAME if run.is_dir() else run
        held = Path(os.path.realpath(file))
        # Through a link to a report its own run can be met, and through a linked folder too.
        folders = {Path(os.path.realpath(found.parent)) for found in (file, held) if found.name == NAME}
        if meant == held or any(meant.is_relative_to(folder) for folder in folders):
            raise InputError(
                f"{_short(path)} stands in the run folder.",
                where=f"{option}, {file.parent}",
                hint="Give a place outside: a run folder that holds other things is not used again.",
            )


def _unfit(meant: Path) -> str:
    if meant.is_symlink():
        return "is a link that leads in a circle"
    # What is no file, such as /dev/null, would be replaced by one.
    if meant.exists() and not meant.is_file():
        return "is no file"
    if not meant.parent.is_dir():
        return "stands in a folder that is not there"
    # A run that is not asked about can be lost as easily; two files, as others write a report.json too.
    runs = (folder for folder in list(meant.parents)[:2] if (folder / NAME).is_file())
    return "stands in the run folder" if any((folder / name).is_file() for folder in runs for name in RECORDS) else ""


def _short(path: Path) -> str:
    name = str(path)
    return name if len(name) <= 200 else f"{name[:100]}…{name[-99:]}"


def write(path: Path, text: str) -> None:
    """Write a file in one step: a link stays and its target is written, with its permissions unchanged.

    Its owner and its group stay where the system lets them; else others than the new owner may not read it.
    """
    meant = Path(os.path.realpath(path))
    if not meant.exists():
        write_text(meant, text)
        return
    # A file is made for everybody to read, so it is made where only its owner may enter.
    with tempfile.TemporaryDirectory(dir=meant.parent, prefix=PART) as folder:
        made = Path(folder) / meant.name
        write_text(made, text)
        held = meant.stat()
        rights = held.st_mode & 0o777
        try:
            # On Windows a file has no group.
            if hasattr(os, "chown"):
                os.chown(made, held.st_uid, held.st_gid)
        except PermissionError:
            same = held.st_gid == made.stat().st_gid
            rights &= 0o777 if same else 0o707
        made.chmod(rights)
        made.replace(meant)


def to_stdout(text: str) -> None:
    """Write to stdout what another program reads: UTF-8 and line breaks of one kind, whatever terminals here have."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        # Whoever calls this from Python may collect text instead.
        sys.stdout.write(text)
    else:
        buffer.write(text.encode("utf-8", "replace"))
        buffer.flush()
