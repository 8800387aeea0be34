"""Jobs for contained children: some behave, the others try what a file that took over its reader might."""

import ctypes
import fcntl
import mmap
import os
import resource
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from probes.core.errors import InputError


class Counter:
    """An object that a session keeps."""

    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, amount: int) -> int:
        """Return the sum so far."""
        self.value += amount
        return self.value

    def fail(self) -> None:
        """Raise an error of Python's own."""
        raise KeyError("absent")

    def wait(self, seconds: float) -> None:
        """Take some time."""
        time.sleep(seconds)

    def process(self) -> int:
        """Return the number of the child."""
        return os.getpid()


def everything() -> dict[str, Any]:
    """Return one value of each kind that can be handed over."""
    import torch

    weight = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    return {
        "plain": [None, True, -3, 2.5, "é\n\ud800", (1, [2])],
        "bytes": b"\0\xff",
        "array": np.arange(4, dtype=">i2").reshape(2, 2),
        "empty": np.zeros((0, 3)),
        "text": np.array(["a", "bc"]),
        "tied": (weight, weight),
        "turned": weight.t(),
        "scalar": torch.tensor(3.5),
        "lone": torch.ones(3).as_strided((1,), (0,)),
        "complex": torch.tensor([1 + 2j]),
        1: {"nested": {}},
    }


def refuse(where: str) -> None:
    """Refuse an input."""
    raise InputError("A column is missing.", where=where, hint="Add it.")


def an_object() -> object:
    """Return what cannot be handed over."""
    return object()


def read(path: str) -> str:
    """Return the text of a file."""
    return Path(path).read_text(encoding="utf-8")


def write(path: str) -> None:
    """Write a file."""
    Path(path).write_text("taken", encoding="utf-8")


def listing(path: str) -> list[str]:
    """Return the names in a folder."""
    return sorted(os.listdir(path))  # noqa: PTH208


def connect(port: int) -> None:
    """Connect to a port of this machine."""
    socket.create_connection(("127.0.0.1", port))


def start() -> None:
    """Start a program."""
    subprocess.run(["/bin/true"], check=True)


def kill(process: int) -> None:
    """End another process."""
    os.kill(process, 9)


def change_mode(path: str) -> None:
    """Let everybody read a file."""
    os.chmod(path, 0o777)  # noqa: PTH101


def set_times(path: str) -> None:
    """Change when a file was written."""
    os.utime(path, (0, 0))


def cut_off(path: str) -> None:
    """Empty a file by its name."""
    os.truncate(path, 0)


def set_attribute(path: str) -> None:
    """Write an attribute of a file."""
    os.setxattr(path, "user.taken", b"1")


def lower(process: int) -> None:
    """Set the priority of another process."""
    os.setpriority(os.PRIO_PROCESS, process, 19)


def limit(process: int) -> None:
    """Set a limit of another process."""
    resource.prlimit(process, resource.RLIMIT_CPU, (1, 1))


def fork() -> int:
    """Make another process."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    return child


def signal_thread(process: int) -> None:
    """Send a signal to a thread of another process."""
    _called({"x86_64": 234, "aarch64": 131}, process, process, 10)


def datagram() -> None:
    """Make a socket from which datagrams could be sent."""
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def share(size: int) -> None:
    """Take memory that is shared with nobody yet, which counts as nobody's own."""
    mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)


def share_file(size: int) -> None:
    """Take memory as a file without a name."""
    os.ftruncate(os.memfd_create("taken"), size)


def share_segment(size: int) -> None:
    """Take memory as a segment of System V."""
    _called({"x86_64": 29, "aarch64": 194}, 0, size, 0o1600)


def grow(size: int) -> None:
    """Take memory as a stack, which counts as none."""
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100)


def fill_sockets(most: int) -> int:
    """Hold bytes in pairs of sockets, with as many handles as can be had; return how many bytes."""
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    kept: list[tuple[socket.socket, socket.socket]] = []
    held = 0
    with suppress(OSError):
        while len(kept) < most:
            kept.append(socket.socketpair())
            kept[-1][0].setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    held += kept[-1][0].send(bytes(2**16))
    return held


def set_limit(kind: int) -> None:
    """Set a limit of its own, to what it is."""
    resource.setrlimit(kind, resource.getrlimit(kind))


def send_handle() -> None:
    """Leave a handle in a socket, where it counts as none."""
    socket.send_fds(socket.socketpair()[0], [b"x"], [0])


def own_private(size: int) -> int:
    """Take memory as allocators do."""
    return len(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def send_signals(process: int) -> None:
    """Let the system send signals to another process, where something can be read."""
    fcntl.fcntl(0, fcntl.F_SETOWN, process)


def outlive() -> None:
    """Go on when the server ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def lock(path: str, kind: int) -> None:
    """Lock a file."""
    with Path(path).open("rb") as file:
        fcntl.flock(file, kind | fcntl.LOCK_NB)


def type_ahead() -> None:
    """Type into a terminal."""
    fcntl.ioctl(0, 0x5412, b"x")


def submit() -> None:
    """Ask for a ring of calls that no filter sees."""
    _called({"x86_64": 425, "aarch64": 425}, 1, None)


def of_the_future() -> None:
    """Make a call that no kernel knows yet."""
    _called({"x86_64": 1000, "aarch64": 1000})


def in_a_thread() -> int:
    """Compute in another thread."""
    found: list[int] = []
    worker = threading.Thread(target=lambda: found.append(6 * 7))
    worker.start()
    worker.join()
    return found[0]


def environment() -> dict[str, str]:
    """Return the variables that the child sees."""
    return dict(os.environ)


def allocate(size: int) -> int:
    """Take memory."""
    return len(bytearray(size))


def spin() -> None:
    """Never end."""
    while True:
        pass


def crash() -> None:
    """Read where nothing is."""
    ctypes.string_at(0)


def _called(numbers: dict[str, int], *args: Any) -> None:
    """Make a system call by its number."""
    if ctypes.CDLL(None, use_errno=True).syscall(numbers[os.uname().machine], *args) < 0:
        raise OSError(ctypes.get_errno(), "a call")
