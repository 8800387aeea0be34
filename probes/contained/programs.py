"""Run an installed program of others on an untrusted file: without a shell, behind walls, with limits of all it takes.

It has limits of memory, time and output, no network, nothing to write to, and on Linux no file but those that it is
given, installed programs and libraries. System calls are not limited as in a child of our own, which starts no program.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from probes.contained.limits import LimitError, Limits

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
        path = Path(folder, name)
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
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", _LAUNCH, json.dumps(walls), str(program), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**kept, "LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        output, said = _read(process, time.monotonic() + limits.patience, limits, most)
        status = process.wait(timeout=limits.patience)
    except subprocess.TimeoutExpired:
        raise LimitError("time", f"it does not end within {limits.patience:.0f} seconds") from None
    finally:
        # With all that it may have started.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if status == -signal.SIGXCPU:
        raise LimitError("time", f"it takes more than {limits.seconds:g} seconds of computing")
    return Ended(status, output, said)


def _read(process: "subprocess.Popen[bytes]", end: float, limits: Limits, most: int) -> tuple[bytes, str]:
    """Return what a process writes until it closes both streams."""
    found, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, found)  # type: ignore[arg-type]
        selector.register(process.stderr, selectors.EVENT_READ, said)  # type: ignore[arg-type]
        while selector.get_map():
            ready = selector.select(timeout=max(0.0, end - time.monotonic()))
            if not ready:
                raise LimitError("time", f"it does not end within {limits.patience:.0f} seconds")
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.data is found or len(said) < _MOST_SAID:
                    key.data.extend(piece)
            if len(found) > most:
                raise LimitError("output", f"it writes more than {most >> 20:,} MiB")
    return bytes(found), said.decode("utf-8", "replace")
