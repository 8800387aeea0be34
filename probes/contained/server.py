"""The fork server: it imports what jobs need, forks a child for each job, and reports how each child ended."""

import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from probes.contained import sandbox
from probes.contained.limits import Limits
from probes.contained.wire import read_request, send_answer, send_error

_GRACE = 1.0
"""Seconds that a child which answers no more is given to end by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a child is to run: a function by its module and name, and what it may reach.

    Parameters
    ----------
    loads
        Modules that are imported before the fork, so that later jobs find them.
    session
        Whether the result is kept in the child, and its methods are called from outside.
    """

    number: int
    module: str
    function: str
    args: Sequence[Any]
    reads: Sequence[str]
    loads: Sequence[str]
    limits: Limits
    folder: str
    session: bool


@dataclass(slots=True)
class _Server:
    control: socket.socket
    children: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    imported: tuple[list[str], list[str]] | None = None
    installed: set[str] = field(default_factory=set)

    def serve(self) -> None:
        """Handle requests until the client closes its end."""
        while True:
            head, handles, _, _ = socket.recv_fds(self.control, 8, 1, socket.MSG_WAITALL)
            if len(head) < 8:
                return
            request = read_request(self.control, head)
            self.reap()
            if isinstance(request, Job):
                with socket.socket(fileno=handles[0]) as line:
                    self.start(request, line)
            elif isinstance(request, int):
                self.control.sendall(self.status(request).to_bytes(8, "little", signed=True))
            else:
                # A job that needs the module fails with the error when it imports it.
                with suppress(Exception):
                    self.load(request)

    def load(self, names: Sequence[str]) -> None:
        """Import modules ahead of the jobs that need them."""
        for name in names:
            importlib.import_module(name)

    def start(self, job: Job, line: socket.socket) -> None:
        """Fork a child for a job, after importing what it needs."""
        try:
            self.load((*job.loads, job.module))
            libraries = self.libraries()
            child = os.fork()
        except Exception as error:
            send_error(line, error)
            return
        if child == 0:
            self.control.close()
            _run(job, line, libraries)
        self.children[job.number] = child

    def libraries(self) -> set[str]:
        """Return the folders of what is installed: to look for them in every child would be half of a short job."""
        imported = list(sys.modules), list(sys.path)
        if imported != self.imported:
            self.imported, self.installed = imported, sandbox.installed()
        return self.installed

    def reap(self) -> None:
        """Collect the exit status of children that have ended."""
        for number, child in list(self.children.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                del self.children[number]
                # Nobody asks for the status of a child that answered.
                self.ended = {**dict(list(self.ended.items())[-100:]), number: os.waitstatus_to_exitcode(status)}

    def status(self, number: int) -> int:
        """Return the exit status of a child; end it if it is still running."""
        limit = time.monotonic() + _GRACE
        while number in self.children:
            if time.monotonic() > limit:
                os.kill(self.children[number], signal.SIGKILL)
            self.reap()
            time.sleep(0.005)
        return self.ended.get(number, 0)


def serve(handle: int) -> None:
    """Serve the process at the other end of a socket."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=handle) as control:
        _Server(control).serve()


def _run(job: Job, line: socket.socket, libraries: set[str]) -> NoReturn:
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _keep_only(line.fileno())
    except BaseException:
        # Exit handlers of the server must not run in the child.
        os._exit(1)
    work(job, line, libraries)


def work(job: Job, line: socket.socket, libraries: set[str] | None = None) -> NoReturn:
    """Do a job behind walls, in a process of its own that ends with it."""
    status = 1
    try:
        os.chdir(job.folder)
        function = getattr(importlib.import_module(job.module), job.function)
        # Before files are closed off, since the memory in use is read from /proc.
        sandbox.limit_memory(job.limits.memory)
        sandbox.close_off(job.reads, libraries)
        result = _answer(line, job, function, job.args, send_result=not job.session)
        while job.session and result is not None:
            name, args = read_request(line)
            _answer(line, job, getattr(result, name), args)
        status = 0
    except (EOFError, OSError):
        # The other end is closed.
        status = 0
    finally:
        # As above.
        os._exit(status)


def _answer(
    line: socket.socket, job: Job, function: Callable[..., Any], args: Sequence[Any], *, send_result: bool = True
) -> Any:
    """Call a function and send its result, or what it raised; return the result."""
    sandbox.limit_time(job.limits.seconds, last=not job.session)
    try:
        result = function(*args)
        send_answer(line, result if send_result else None)
        return result
    except (BrokenPipeError, ConnectionResetError):
        raise
    except MemoryError:
        send_error(line, MemoryError())
    except Exception as error:
        # torch has no class of its own for it.
        send_error(line, MemoryError() if "can't allocate memory" in str(error) else error)
    return None


def _keep_only(handle: int) -> None:
    os.closerange(3, handle)
    os.closerange(handle + 1, max(handle + 2, 1024))
