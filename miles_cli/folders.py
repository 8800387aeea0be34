"""Run folders and their states: absent, unfinished, finished; ours or somebody else's.

A folder is finished when report.json stands in it, which is written last. While a run goes on,
state/settings.json says what is being run, and a lock keeps a second run out.
"""

import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audits.core.errors import IncompleteError, InputError
from audits.core.records import Report
from audits.core.systems import REMOVES_OPEN_FILES, lock, open_lock
from audits.report.records_file import NAMES as RECORDS
from audits.report.report_file import NAME, PART, fingerprint_of, read_report, write_text
from miles_cli.system_errors import is_full

_LATEST = 2.0**36
"""Seconds of the clock that no run begins after."""

OURS = (NAME, "report.md", "report.html", *RECORDS, "figures", "state")


@dataclass(frozen=True, slots=True)
class Begun:
    """An unfinished run: its fingerprint, the digest that it cites, and when it first began, in seconds."""

    mark: str
    registration: str | None
    at: float


def default_folder(command: str) -> Path:
    """Return runs/<command>-<UTC time>-<4 hex>."""
    return Path("runs") / f"{command}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def finished(folder: Path, mark: str, *, force: bool, extra: Sequence[str] = ()) -> Report | None:
    """Return the report of a finished run with the same settings; None where there is work to do.

    `extra` names the files that this audit writes besides those of every audit.

    Raises
    ------
    InputError
        Where the folder holds another run, or is no run folder.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise InputError("The run folder is a file.", where=str(folder), hint="Name another folder with --out.")
    _refuse_link(folder)
    strangers = sorted(
        item.name for item in folder.iterdir() if item.name not in (*OURS, *extra) and not item.name.startswith(PART)
    )
    if strangers:
        raise InputError(
            f"The folder holds other things ({', '.join(strangers[:3])}); it is no run folder.",
            where=str(folder),
            hint="Name a new or empty folder with --out.",
        )
    if (folder / NAME).exists():
        return None if force else _same(folder, mark)
    state = folder / "state" / "settings.json"
    if state.exists() and not force and _stored(state) != mark:
        raise InputError(
            "The folder holds an unfinished run with other settings, inputs or version.",
            where=str(folder),
            hint="Give that run's settings to resume it, name another folder with --out, or use --force.",
        )
    return None


def begun(folder: Path) -> Begun | None:
    """Return what is known of an unfinished run; None where there is none."""
    path = folder / "state" / "settings.json"
    mark = _stored(path)
    if (folder / NAME).exists() or mark is None:
        return None
    state = _state(path)
    cites, at = state.get("registration"), state.get("begun")
    # A folder that was copied has files of today.
    recorded = float(at) if isinstance(at, int | float) and 0 <= at < _LATEST else math.inf
    return Begun(mark, None if cites is None else str(cites), min(recorded, path.stat().st_mtime))


def overwritten(folder: Path) -> Report | None:
    """Return the report of a finished run that is about to be overwritten; None where none can be read."""
    try:
        return read_report(folder) if (folder / NAME).exists() else None
    except InputError:
        return None


def _same(folder: Path, mark: str) -> Report:
    report = read_report(folder)
    if fingerprint_of(report) != mark:
        raise InputError(
            "The folder holds a finished run with other settings, inputs or version.",
            where=str(folder),
            hint="Name another folder with --out, or use --force to overwrite it.",
        )
    # What is left where a run was killed between its last two steps.
    shutil.rmtree(folder / "state", ignore_errors=True)
    return report


def _stored(path: Path) -> str | None:
    found = _state(path).get("fingerprint")
    return None if found is None else str(found)


def _state(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def working(
    folder: Path, mark: str, *, force: bool = False, extra: Sequence[str] = (), registration: str | None = None
) -> Iterator[float | None]:
    """Lock a run folder while a run works in it; on success its state is removed.

    Yields when the run first began, in seconds of the clock, where it is resumed.

    Where the run is interrupted the state stays, for a resume; where the input turns out to be wrong, everything
    goes that was not there before. `registration` is the digest that the run cites: it stands in the state, so that a
    resume without it is noticed.

    Raises
    ------
    InputError
        Where another run holds the folder, it cannot be made, or its state is a link to somewhere else.
    IncompleteError
        Where the disk has no room for it.
    """
    state = folder / "state"
    cites = {} if registration is None else {"registration": registration}
    missing = [path for path in (state, folder, *folder.parents) if not path.exists()]
    _refuse_link(folder)
    try:
        _make(state)
        held = open_lock(state / "lock")
    except OSError as error:
        _remove_empty(missing)
        full = is_full(error)
        raise (IncompleteError if full else InputError)(
            f"The run folder cannot be made: {error.strerror}.",
            where=str(folder),
            hint="Make room, then run the same command again." if full else "Name another with --out.",
        ) from error
    try:
        _hold(held, folder, state / "lock")
        if (folder / NAME).exists() and not force:
            raise InputError(
                "Another run has just finished in this folder.",
                where=str(folder),
                hint="Run it again to see its report.",
            )
        before = begun(folder)
        first = before.at if before is not None and before.mark == mark else None
        # All but the state, which holds the lock.
        _clear(folder, (*OURS[:-1], *extra))
        write_text(
            state / "settings.json",
            json.dumps({"fingerprint": mark, "begun": time.time() if first is None else first, **cites}),
        )
        try:
            yield first
        except InputError:
            # Wrong input that showed only while running.
            held = _let_go(held)
            _clear(folder, (*OURS, *extra))
            _remove_empty(missing)
            raise
        held = _let_go(held)
        shutil.rmtree(state, ignore_errors=True)
    finally:
        if held >= 0:
            os.close(held)


@contextmanager
def judging(folder: Path, report: Report) -> Iterator[None]:
    """Keep others out of a finished run while its gates are judged again: what one call adds, none takes away unseen.

    Raises
    ------
    InputError
        Where another call does the same, or has done so since the report was read.
    """
    path = folder / f"{PART}judging"
    held = open_lock(path)
    try:
        _hold(held, folder, path)
        try:
            if read_report(folder) != report:
                raise _at_work(folder)
            yield
        finally:
            held = _let_go(held)
            path.unlink(missing_ok=True)
    finally:
        if held >= 0:
            os.close(held)


def _let_go(held: int) -> int:
    """Close the file of the lock where it could not be removed otherwise; return what is still open, or -1."""
    if REMOVES_OPEN_FILES:
        return held
    os.close(held)
    return -1


def _make(state: Path) -> None:
    for last in (False, False, True):
        try:
            state.mkdir(parents=True, exist_ok=True)
            return
        except FileNotFoundError:
            # Another run that ended at this moment has removed an empty folder above both.
            if last:
                raise


def _remove_empty(paths: Sequence[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.rmdir()


def _hold(held: int, folder: Path, path: Path) -> None:
    try:
        lock(held)
    except OSError:
        raise _at_work(folder) from None
    # Whoever held the lock may have removed it on finishing, after it was opened here: this one holds nobody out.
    try:
        current = path.stat()
    except OSError:
        raise _at_work(folder) from None
    if not os.path.samestat(os.fstat(held), current):
        raise _at_work(folder)


def _at_work(folder: Path) -> InputError:
    return InputError(
        "Another run is at work in this folder, or has just finished there.",
        where=str(folder),
        hint="Wait for it, or use another --out.",
    )


def _refuse_link(folder: Path) -> None:
    """Refuse a state folder that is a link, where files of others would be overwritten and removed."""
    if (folder / "state").is_symlink():
        raise InputError(
            "The state of the run is a link to somewhere else.",
            where=str(folder / "state"),
            hint="Remove the link, or name another folder with --out.",
        )


def _clear(folder: Path, names: Sequence[str]) -> None:
    for path in [*(folder / name for name in names), *folder.glob(f"{PART}*")]:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
