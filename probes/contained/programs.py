"""Run an installed program of others on an untrusted file: without a shell, behind walls, with limits of all it takes.

It has limits of memory, time and output, no network, nothing to write to, and on Linux no file but those that it is
given, installed programs and libraries. System calls are not limited as in a child of our own, which starts no program.
Where the system cannot confine a process before it becomes another program, as Windows, it is started as it is: with
limits of output and of seconds by the clock, and of memory where Windows grants a job.
"""

import json
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from probes.contained.limits import LimitError, Limits
from probes.core import windows
from probes.core.systems import APART, FORKS, TIME_IS_UP, end_with_children

_LAUNCH = str(Path(__file__).with_name("launch.py"))
_PROGRAMS = ("/usr/bin", "/bin", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib")
"""Folders of programs and libraries, which say nothing of users."""
_MOST_SAID = 2**14
"""Bytes of complaints that are kept."""
_PIECE = 2**18


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its status (below 0: a signal), its output, and what it said on stderr."""

    status: int
    output: bytes
    said: str


def installed(name: str) -> Path | None:
    """Return the program of this name in the folders of PATH, of which only absolute ones count; None without one."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder, name if os.name == "posix" else f"{name}.exe")
        if path.is_absolute() and path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def run_program(program: Path, words: Sequence[str], *, reads: Iterable[Path] = (), limits: Limits, most: int) -> Ended:
    """Run a program to its end and return what it wrote to stdout.

    Parameters
    ----------
    words
        Its arguments.
    reads
        Files that it may read, besides installed programs and libraries.
    most
        Bytes that it may write.

    Raises
    ------
    LimitError
        Where it took more time or memory than it may, or wrote more.
    """
    real = Path(os.path.realpath(program))
    # Of a program that was not installed by the system, as by conda, the libraries lie beside its folder.
    runs = [str(program), str(real), str(real.parent.parent / "lib"), *_PROGRAMS]
    walls = [limits.memory, limits.seconds, [os.path.realpath(path) for path in reads], runs, os.getpid()]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    launch = [sys.executable, "-I", "-S", _LAUNCH, json.dumps(walls)] if FORKS else []
    process = subprocess.Popen(
        [*launch, str(program), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**kept, "LC_ALL": "C"},
        **APART,
    )
    # Where no limit counts its computing, seconds by the clock.
    patience = limits.patience if FORKS else limits.seconds
    if not FORKS:
        windows.limit_process(limits.memory, getattr(process, "_handle", None))
    try:
        output, said = (_read if FORKS else _read_by_threads)(process, patience, most)
        status = process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        raise _late(patience) from None
    finally:
        end_with_children(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if status == TIME_IS_UP:
        raise LimitError("time", f"it takes more than {limits.seconds:g} seconds of computing")
    return Ended(status, output, said)


def _late(patience: float) -> LimitError:
    return LimitError("time", f"it does not end within {patience:.0f} seconds")


def _long(most: int) -> LimitError:
    return LimitError("output", f"it writes more than {most >> 20:,} MiB")


def _read(process: "subprocess.Popen[bytes]", patience: float, most: int) -> tuple[bytes, str]:
    """Return what a process writes until it closes both streams."""
    found, said, end = bytearray(), bytearray(), time.monotonic() + patience
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, found)  # type: ignore[arg-type]
        selector.register(process.stderr, selectors.EVENT_READ, said)  # type: ignore[arg-type]
        while selector.get_map():
            ready = selector.select(timeout=max(0.0, end - time.monotonic()))
            if not ready:
                raise _late(patience)
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.data is found or len(said) < _MOST_SAID:
                    key.data.extend(piece)
            if len(found) > most:
                raise _long(most)
    return bytes(found), said.decode("utf-8", "replace")


def _read_by_threads(process: "subprocess.Popen[bytes]", patience: float, most: int) -> tuple[bytes, str]:
    """Do the same where a system cannot wait for several pipes at once: a thread reads each."""
    found, said, end = bytearray(), bytearray(), time.monotonic() + patience
    # Few pieces at a time, so that a program that writes without end waits.
    pieces: queue.Queue[tuple[bytearray, bytes]] = queue.Queue(8)
    for stream, kept in ((process.stdout, found), (process.stderr, said)):
        threading.Thread(target=_pass_on, args=(stream, kept, pieces), daemon=True).start()
    still_open = 2
    while still_open:
        try:
            kept, piece = pieces.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise _late(patience) from None
        still_open -= not piece
        if kept is found or len(said) < _MOST_SAID:
            kept.extend(piece)
        if len(found) > most:
            raise _long(most)
    return bytes(found), said.decode("utf-8", "replace")


def _pass_on(stream: IO[bytes], kept: bytearray, pieces: "queue.Queue[tuple[bytearray, bytes]]") -> None:
    """Hand over what a stream holds, and at its end nothing."""
    piece = b"-"
    while piece:
        try:
            piece = os.read(stream.fileno(), _PIECE)
        except (OSError, ValueError):
            # It was closed here, since the program came to its limits.
            piece = b""
        try:
            pieces.put((kept, piece), timeout=60)
        except queue.Full:
            return
