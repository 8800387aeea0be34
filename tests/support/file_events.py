"""Every event by which a process changes files below some folders, and what may be made of one: a kill, a full disk.

An event is what opens a file for writing, writes to it, brings it to the disk, names, removes or makes it. Python's
own audit events give all but the writes; these are seen through `io.open` and `safetensors.torch.save_file`.
"""

import builtins
import contextlib
import errno
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAMED = {
    "os.rename": 1,
    "os.link": 1,
    "os.symlink": 1,
    **dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod"), 0),
}
"""Audit events, and which of their values names what is changed."""
GROWING = ("open", "os.mkdir", "os.link", "os.symlink", "write", "fsync")
"""Events that a full disk refuses: to rename and to remove needs no room."""

Moment = Callable[[str, Callable[[], None], Path | None], None]
"""Is given the name of an event, what does half of it, and the file that this half would change."""


def full() -> OSError:
    """Return the error of a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _path(name: Any, folder: Any = None) -> Path | None:
    """Return the path of an audit event, which may be relative to an open folder."""
    if isinstance(name, int):
        return _of_handle(name)
    if not isinstance(name, str | bytes | os.PathLike):
        return None
    path = Path(os.fsdecode(name))
    if isinstance(folder, int) and folder >= 0 and not path.is_absolute():
        path = (_of_handle(folder) or Path()) / path
    return path.absolute()


def _of_handle(handle: int) -> Path | None:
    try:
        return Path(f"/proc/self/fd/{handle}").readlink()
    except OSError:
        return None


class Events:
    """Calls `moment` before each event of the main thread of this process below the folders."""

    paused = False
    """Whether the tests themselves are at work."""

    def __init__(self, folders: list[Path], moment: Moment) -> None:
        self.folders, self.moment, self.on = tuple(f"{folder.absolute()}" for folder in folders), moment, False
        self.elsewhere = 0
        """Events of other threads: a copy of the process would not have them."""
        self._process, self._busy = os.getpid(), False

    def audit(self, event: str, values: tuple[Any, ...]) -> None:
        """Take one audit event of the interpreter."""
        if not self.on or self._busy or self.paused:
            return
        if event == "open":
            mode, flags = values[1], values[2]
            if not (
                flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or (isinstance(mode, str) and set("wax+") & {*mode})
            ):
                return
            self._happen(event, _path(values[0]))
        elif event in NAMED:
            folder = values[-1] if event in ("os.remove", "os.rmdir", "os.mkdir") else None
            self._happen(event, _path(values[NAMED[event]], folder))

    def _happen(self, event: str, path: Path | None, half: Callable[[], None] = lambda: None) -> None:
        if path is None or not f"{path}".startswith(self.folders) or os.getpid() != self._process:
            return
        if threading.current_thread() is not threading.main_thread():
            self.elsewhere += 1
            return
        self._busy = True
        try:
            self.moment(event, half, path if event == "write" else None)
        finally:
            self._busy = False

    def become(self) -> None:
        """Go on as the copy of a process, whose events are seen as well."""
        self._process, self._busy = os.getpid(), False

    def opened(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """Return `open` whose files say when they are written to."""

        def opened(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            made = really(file, mode, *more, **named)
            if self.on and set("wax+") & {*mode}:
                path, write = _path(file), made.write

                def half(data: Any) -> None:
                    write(data[: len(data) // 2])
                    made.flush()

                def written(data: Any) -> Any:
                    # What was written before belongs to the moment before.
                    made.flush()
                    place = made.tell() if made.seekable() else None
                    self._happen("write", path, lambda: half(data))
                    # A copy of the process shares the file and where it is written.
                    if place is not None:
                        made.seek(place)
                        made.truncate()
                    return write(data)

                with contextlib.suppress(AttributeError):
                    made.write = written
            return made

        return opened

    def saved(self, really: Callable[..., Any]) -> Callable[..., Any]:
        """Return `save_file` of safetensors that says when it writes."""

        def saved(tensors: Any, filename: Any, *more: Any, **named: Any) -> Any:
            self._happen("write", _path(filename), lambda: _half_a_file(Path(filename)))
            return really(tensors, filename, *more, **named)

        return saved

    def synced(self, really: Callable[[int], None]) -> Callable[[int], None]:
        """Return `fsync` that says so."""

        def synced(handle: int) -> None:
            self._happen("fsync", _path(handle))
            really(handle)

        return synced


def _half_a_file(path: Path) -> None:
    path.write_bytes(b"\x10\0\0\0\0\0\0\0half")


@contextlib.contextmanager
def watched(folders: list[Path], moment: Moment) -> Iterator[Events]:
    """Call `moment` before each event below these folders."""
    from safetensors import torch as tensors

    events = Events(folders, moment)
    sys.addaudithook(events.audit)
    before = io.open, builtins.open, os.fsync, tensors.save_file
    io.open = builtins.open = events.opened(before[0])
    os.fsync, tensors.save_file = events.synced(before[2]), events.saved(before[3])
    events.on = True
    try:
        yield events
    finally:
        events.on = False
        io.open, builtins.open, os.fsync, tensors.save_file = before
