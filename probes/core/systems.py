"""What differs between Linux, macOS and Windows: locks, limits, the use of memory, and the ends of processes.

No other module imports what only some systems have. What Windows has no call for in Python is in `windows`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from probes.core import windows

fcntl: Any = None
msvcrt: Any = None
resource: Any = None
"""Limits and use of a process; None on Windows."""
with suppress(ImportError):
    import msvcrt
try:
    import fcntl
    import resource
except ImportError:
    # Every POSIX system has both; going on without would take the limits and walls around readers away unsaid.
    if os.name == "posix":
        raise
FORKS = hasattr(os, "fork") and hasattr(os, "register_at_fork")
"""Whether a process can be copied as it stands."""
TIMER = hasattr(signal, "setitimer") and hasattr(signal, "SIGPROF")
"""Whether a signal can come after so much computing."""
APART: dict[str, Any] = {"start_new_session": True} if hasattr(os, "setsid") else {
    "creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
}  # fmt: skip
"""Arguments of `Popen` for a child that a Ctrl-C of the terminal does not reach."""
_PULSE = 0.5
"""Seconds between two looks at whether a process is alive, where the system does not tell when it ends."""


TIME_IS_UP: int | None = -signal.SIGXCPU if hasattr(signal, "SIGXCPU") else None
"""Status of a process that took more time than its limit; None where no signal says so."""


def high_copy(handle: int) -> int:
    """Return a copy of a handle that is none of the standard streams, and that no program inherits."""
    return int(fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 3))


def open_lock(path: Path) -> int:
    """Open or make a file to lock; a link in its place, which would make or hold one elsewhere, is not followed.

    Raises
    ------
    OSError
        Where it cannot be opened, or is a link.
    """
    if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
        raise OSError(f"{path} is a link")
    return os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))


def lock(handle: int) -> None:
    """Lock an open file for this process alone, without waiting; the lock ends with the handle.

    Raises
    ------
    OSError
        Where another process holds it.
    """
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        raise OSError("this system has no locks on files")


REMOVES_OPEN_FILES = fcntl is not None
"""Whether a file can be removed, or replaced, while a process has it open; on Windows it cannot."""


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Call a function in every forked child of this process, where there are any."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def peak_memory() -> int | None:
    """Return the most memory that this process has held so far, in bytes; None where the system does not tell."""
    if resource is None:
        return windows.used_memory(peak=True)
    # Bytes on macOS, kilobytes on Linux.
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def physical_memory() -> int | None:
    """Return the bytes of memory of this machine; None where the system does not tell."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return windows.physical_memory()


def end_at_once(pid: int) -> None:
    """End a process, which may not clean up before."""
    # Windows has no such signal: there any number ends the process at once.
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def end_with_children(process: "subprocess.Popen[Any]") -> None:
    """End a process that was started `APART`, with all that it started, and wait for its end."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        program = Path(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32", "taskkill.exe")
        with suppress(OSError, subprocess.TimeoutExpired):
            words = [str(program), "/F", "/T", "/PID", str(process.pid)]
            nowhere = subprocess.DEVNULL
            subprocess.run(words, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=10, check=False)
        process.kill()
    process.wait()


def wait_for_parent(parent: int) -> None:
    """Return when the parent of this process has ended."""
    # On Windows the number of the parent stays when it is gone.
    if windows.wait_for(parent):
        return
    while os.getppid() == parent:
        time.sleep(_PULSE)
