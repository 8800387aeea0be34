"""Call functions in contained children: a single call, or a session that keeps an open file there."""

import atexit
import itertools
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from probes.contained.limits import MEMORY_ENDED, TIME_ENDED, ContainedError, LimitError, Limits
from probes.contained.server import Job
from probes.contained.spawned import Child
from probes.contained.wire import MalformedAnswer, read_answer, send_request
from probes.core.errors import MilesError
from probes.core.systems import APART, FORKS, TIME_IS_UP, after_fork_in_child, high_copy
from probes.core.worker_processes import ONE_CORE

_DEFAULT = Limits()
_SLACK = 2**26
"""Bytes of an answer beyond the memory that a child may take: it had some at its start."""
_BUFFER = 2**21
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD", "MKL_ENABLE_INSTRUCTIONS",
         "ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE", "PYTHONHASHSEED", "PYTHONHOME")  # fmt: skip
"""Variables that children see; the others may hold secrets."""
_NEEDED = () if FORKS else ("SYSTEMROOT", "WINDIR", "TEMP", "TMP")
"""Variables without which no program starts on Windows."""
_NUMBERS = itertools.count()
"""Of jobs."""


def call(
    function: Callable[..., Any],
    *args: Any,
    reads: Iterable[Path] = (),
    limits: Limits = _DEFAULT,
    loads: Sequence[str] = (),
    meanwhile: Callable[[], None] = lambda: None,
) -> Any:
    """Call a function in a child of its own and return its result: plain values, arrays and tensors.

    Parameters
    ----------
    function
        Found by its module and name.
    reads
        Files and folders that it may read, besides installed libraries.
    loads
        Heavy modules that it needs; they are imported once for all jobs.
    meanwhile
        What this process does until the child answers.

    Raises
    ------
    MilesError
        What the function raised, if it was one.
    LimitError
        Where the child exceeded a limit or died.
    ContainedError
        What else the function raised.

    Examples
    --------
    >>> import math
    >>> call(math.comb, 5, 2)
    10
    """
    with _Line(function, args, reads, limits, loads, session=False) as line:
        meanwhile()
        return line.answer()


class Session:
    """An object in a child of its own, made there by a function; its methods are called from here.

    Parameters and errors are those of `call`. The child ends with the session, or when it is collected.
    """

    def __init__(
        self,
        opener: Callable[..., Any],
        *args: Any,
        reads: Iterable[Path] = (),
        limits: Limits = _DEFAULT,
        loads: Sequence[str] = (),
    ) -> None:
        self._made = (opener, args, [Path(path).absolute() for path in reads], limits, tuple(loads))
        self._open: tuple[int, _Line] | None = None
        self._line()

    def __getstate__(self) -> Any:
        return self._made

    def __setstate__(self, made: Any) -> None:
        self._made, self._open = made, None

    def ask(self, method: str, *args: Any) -> Any:
        """Call a method of the object there, and return its result."""
        line = self._line()
        with line.alone:
            line.send((method, args))
            return line.answer()

    def close(self) -> None:
        """End the child."""
        if self._open is not None:
            self._open[1].close()

    def _line(self) -> "_Line":
        """Return the line to the child; a forked process opens one of its own."""
        if self._open is None or self._open[0] != os.getpid():
            line = _Line(*self._made, session=True)
            try:
                line.answer()
            except BaseException:
                line.close()
                raise
            self._open = (os.getpid(), line)
        return self._open[1]


def warm(loads: Sequence[str] = ()) -> None:
    """Start the server before its first job, without waiting, and let it import heavy modules."""
    if not FORKS:
        # Each job has a process of its own, and imports for itself.
        return
    # An error here is ignored: the first job reports it.
    with suppress(LimitError):
        running_server().ask_to_load(loads)


class _Line:
    """A socket to the child that does a job."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        reads: Iterable[Path],
        limits: Limits,
        loads: Sequence[str],
        *,
        session: bool,
    ) -> None:
        self.alone = threading.Lock()
        self._limits = limits
        job = Job(
            number=next(_NUMBERS),
            module=function.__module__,
            function=function.__name__,
            args=args,
            # Access is granted to the target of a link, not to the link.
            reads=[os.path.realpath(path) for path in reads],
            loads=loads,
            limits=limits,
            folder=str(Path.cwd()),
            session=session,
        )
        self._socket, self._status = _forked(job) if FORKS else _spawned(job)
        self._close = weakref.finalize(self, self._socket.close)
        self._socket.settimeout(limits.patience)

    def __enter__(self) -> "_Line":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def send(self, request: object) -> None:
        try:
            send_request(self._socket, request)
        except OSError:
            raise self._limit_error() from None

    def answer(self) -> Any:
        """Return the next answer; close the line where it is incomplete, since no later one could be recognised."""
        try:
            return read_answer(self._socket, self._limits.memory + _SLACK)
        except (EOFError, ConnectionError):
            raise self._limit_error() from None
        except MalformedAnswer as error:
            self.close()
            raise LimitError("died", f"its reader answers nonsense: {error}") from None
        except TimeoutError:
            self.close()
            self._status()
            raise LimitError("time", f"its reader did nothing for {self._limits.patience:.0f} seconds") from None
        except (ContainedError, MilesError):
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._close()

    def _limit_error(self) -> LimitError:
        self.close()
        status = self._status()
        if status in (TIME_IS_UP, TIME_ENDED):
            return LimitError("time", f"reading it takes more than {self._limits.seconds} seconds of computing")
        if status == MEMORY_ENDED:
            return LimitError("memory", "it asks for more memory than it may take")
        often = ", most often for want of memory" if status < 0 else ""
        return LimitError("died", f"its reader ended with status {status}{often}")


def _forked(job: Job) -> tuple[Any, Callable[[], int]]:
    """Let the server of this process fork a child for a job; return the socket to it, and what asks for its status."""
    server = running_server()
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    with theirs:
        try:
            server.ask(job, theirs)
        except BaseException:
            ours.close()
            raise
    return ours, partial(server.status, job.number)


def _spawned(job: Job) -> tuple[Any, Callable[[], int]]:
    """Start a process for a job, where the system cannot fork."""
    child = Child(job, _environment())
    return child, child.status


@dataclass(slots=True)
class _Server:
    control: socket.socket
    process: "subprocess.Popen[bytes]"
    lock: Any = field(default_factory=threading.Lock)

    def ask(self, job: Job, line: socket.socket) -> None:
        self._send(job, [line.fileno()])

    def ask_to_load(self, names: Sequence[str]) -> None:
        self._send(list(names), [])

    def status(self, number: int) -> int:
        with self.lock:
            try:
                send_request(self.control, number)
                return int.from_bytes(self.control.recv(8, socket.MSG_WAITALL), "little", signed=True)
            except OSError:
                return -9

    def _send(self, request: object, handles: Sequence[int]) -> None:
        import pickle

        data = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        with self.lock:
            try:
                socket.send_fds(self.control, [len(data).to_bytes(8, "little")], handles)
                self.control.sendall(data)
            except OSError:
                raise LimitError("died", "the server of readers is gone") from None

    def stop(self) -> None:
        self.control.close()
        # The server keeps no state, and may be in the middle of a long import: kill it.
        self.process.kill()
        self.process.wait()


_RUNNING: dict[int, _Server] = {}
_STARTING = threading.Lock()


def running_server() -> _Server:
    """Return the server of this process, and start one if there is none or it has died."""
    with _STARTING:
        server = _RUNNING.get(os.getpid())
        if server is None or server.process.poll() is not None:
            server = _RUNNING[os.getpid()] = _start()
        return server


def _start() -> _Server:
    ours, theirs = socket.socketpair()
    # Not a descriptor below 3: those become the standard streams of the server.
    handle = high_copy(theirs.fileno())
    try:
        code = f"from probes.contained.server import serve; serve({handle})"
        process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-c", code],
            pass_fds=[handle],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **APART,
        )
    finally:
        os.close(handle)
        theirs.close()
    return _Server(ours, process)


def _environment() -> dict[str, str]:
    """Return the variables of a process that reads strangers' files, or starts those that do."""
    kept = {name: os.environ[name] for name in (*_PASSED_ON, *_NEEDED) if name in os.environ} | ONE_CORE
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def stop_server() -> None:
    """Stop the server of this process; the next call starts another."""
    server = _RUNNING.pop(os.getpid(), None)
    if server is not None:
        server.stop()


def _forget() -> None:
    """Forget the server after a fork: it belongs to the parent."""
    global _STARTING
    _STARTING = threading.Lock()
    for server in _RUNNING.values():
        with suppress(OSError):
            server.control.close()
        # The server is not a child of the fork, which must not wait for it.
        server.process.returncode = 0
    _RUNNING.clear()


atexit.register(stop_server)
after_fork_in_child(_forget)
