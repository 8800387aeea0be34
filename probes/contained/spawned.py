"""A child for each job where the system cannot fork, as on Windows: a new process, asked through its pipes.

It imports what it needs each time, which takes a second, or several with torch.
"""

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, cast

from probes.contained.limits import LimitError
from probes.contained.server import Job, work
from probes.contained.wire import read_request, send_error, send_request
from probes.core.systems import APART, end_with_children

_GRACE = 1.0
"""Seconds that a child which answers no more is given to end by itself."""


class Child:
    """A child and its pipes; it has the methods of a socket that messages need.

    Raises
    ------
    LimitError
        Where it ends before it has read its job.
    """

    def __init__(self, job: Job, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-c", "from probes.contained.spawned import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
            **APART,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout
        self._patience, self._late = 0.0, False
        try:
            send_request(cast(Any, self), job)
        except OSError:
            self.close()
            raise LimitError("died", "the reader cannot be started") from None

    def settimeout(self, seconds: float) -> None:
        """Set after how many seconds a child that says nothing is ended."""
        self._patience = seconds

    def sendall(self, data: Any) -> None:
        """Send bytes."""
        try:
            _write(self._to, data)
        except ValueError:
            # It was closed here.
            raise BrokenPipeError from None
        except OSError:
            self.status()
            raise

    def recv(self, size: int) -> bytes:
        """Return bytes, at most so many; none where the child has ended."""
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.recv_into(memoryview(buffer))])

    def recv_into(self, buffer: Any) -> int:
        """Fill a buffer as far as bytes are there, and return how many.

        Raises
        ------
        TimeoutError
            Where the child said nothing for too long.
        """
        timer = threading.Timer(self._patience, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            count = int(self._from.readinto(memoryview(buffer).cast("B")) or 0)  # type: ignore[attr-defined]
        finally:
            timer.cancel()
        if not count:
            # It is ending: wait for its own status.
            self.status()
            if self._late:
                raise TimeoutError
        return count

    def status(self) -> int:
        """Return the status of the child, which is ended if it still runs."""
        try:
            return self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            end_with_children(self.process)
            return self.process.returncode

    def close(self) -> None:
        """End the child."""
        if self.process.poll() is None:
            end_with_children(self.process)
        for stream in (self._to, self._from):
            with suppress(OSError):
                stream.close()

    def _end_late(self) -> None:
        self._late = True
        self.process.kill()


class _Line:
    """The other end: the standard streams of the child, put where nothing that it runs can print to them."""

    def __init__(self) -> None:
        self._from, self._to = (open(os.dup(number), mode, buffering=0) for number, mode in ((0, "rb"), (1, "wb")))  # noqa: PTH123, SIM115
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(nowhere, number)

    def sendall(self, data: Any) -> None:
        """Send bytes."""
        _write(self._to, data)

    def recv(self, size: int) -> bytes:
        """Return bytes, at most so many; none where the other end is closed."""
        return bytes(self._from.read(size) or b"")


def serve() -> None:
    """Do the job that comes on stdin, and end."""
    line = cast(Any, _Line())
    job: Job = read_request(line)
    try:
        for name in (*job.loads, job.module):
            importlib.import_module(name)
    except Exception as error:
        send_error(line, error)
        os._exit(0)
    work(job, line)


def _write(stream: IO[bytes], data: Any) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[stream.write(left) :]
