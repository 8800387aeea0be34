"""Confine this process: limits, no network, no other program, and no files but a few (Linux: landlock, seccomp).

Where the kernel lacks one of them, the others still hold. What other systems lack is said by `missing_walls`.
"""

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from math import ceil
from pathlib import Path

from probes.contained.system_calls import allow_calls
from probes.core import windows
from probes.core.systems import peak_memory, resource

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _READ_FILE, _READ_DIR = 1, 1 << 2, 1 << 3
_HANDLED = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Bits of rights on files that each version of landlock knows; newer ones know those of 5."""
_NO_NEW_PRIVILEGES, _DIE_WITH_PARENT = 38, 1
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache",
           "/etc/localtime", "/dev/urandom", "/dev/null", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat",
           "/sys/devices/system/cpu")  # fmt: skip
"""What libraries read of a system that says nothing of its users."""
_PACKAGES = ("site-packages", "dist-packages")
"""Names of folders that hold installed packages and nothing else."""
_MOST_OPEN = 64
"""Handles at once: each pair of sockets holds bytes that no limit of memory counts."""


def limit_memory(size: int) -> None:
    """Limit this process to so many bytes more than it holds now."""
    if sys.platform != "linux":
        from probes.contained.watched import watch_memory

        watch_memory(size)
    if resource is None:
        windows.limit_process((windows.used_memory() or 2**31) + size)
        return
    # RLIMIT_DATA counts private writable memory; RLIMIT_AS would count what libraries only reserve.
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    most = held_memory() + size
    hard = resource.getrlimit(kind)[1]
    # Some systems refuse a limit below what libraries have reserved.
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (most, most) if hard == resource.RLIM_INFINITY else (min(most, hard),) * 2)


def limit_time(seconds: float, *, last: bool) -> None:
    """Limit this process to so many more seconds of processor time; after `last` no call can raise the limit."""
    if resource is None:
        from probes.contained.watched import watch_time

        watch_time(seconds)
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = 1 + ceil(used.ru_utime + used.ru_stime + seconds)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # The hard limit is a second later, so that the soft one is reported before the kernel kills the process.
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1 if last and hard == resource.RLIM_INFINITY else hard))


def close_off(reads: Iterable[str], libraries: Iterable[str] | None = None) -> None:
    """Deny this process the network, other programs, writing, and all files but those below these paths.

    Parameters
    ----------
    libraries
        What `installed` returned where the same was imported; None: to be looked for.
    """
    if resource is None:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    most = min([_MOST_OPEN, *(limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE) if limit >= 0)])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sys.platform != "linux":
        return
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_DIE_WITH_PARENT, 9, 0, 0, 0)
    if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        _restrict_files(system, reads, installed() if libraries is None else libraries)
        allow_calls(system)


def confine_program(reads: Iterable[str], runs: Iterable[str]) -> None:
    """Deny the program that this process will become the network, writing, and all files but those below these paths.

    Parameters
    ----------
    runs
        Programs, and folders of programs and libraries, that it may also execute.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform != "linux":
        return
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_DIE_WITH_PARENT, 9, 0, 0, 0)
    if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        _restrict_files(system, reads, installed(), runs)


def missing_walls() -> str:
    """Return as a sentence what this system lacks of what Linux has around a reader; nothing on Linux."""
    if sys.platform == "linux":
        return ""
    limits = "limits of time and memory" if peak_memory() is not None else "a limit of time, and none of memory"
    return (
        f"On this system files are read in processes of their own with {limits}, but without walls around your files "
        "and the network: a file that takes over its reader could reach both. On Linux it could not."
    )


def held_memory() -> int:
    """Return the bytes of this process that its limit of memory counts."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        pages = 0
    # Where the system does not tell, assume what the largest library takes.
    return pages * resource.getpagesize() or 2**31


def _restrict_files(
    system: ctypes.CDLL, reads: Iterable[str], libraries: Iterable[str], runs: Iterable[str] = ()
) -> None:
    version = system.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    handled = (1 << _HANDLED.get(version, 16)) - 1
    # Rights on files, on the network (TCP: bind, connect), and scopes (abstract sockets, signals).
    rules = struct.pack("<QQQ", handled, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = system.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0))
    if ruleset < 0:
        return
    named = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path]
    for path in {*libraries, *_SYSTEM, *named, *reads}:
        _allow(system, ruleset, path)
    for path in runs:
        _allow(system, ruleset, path, _EXECUTE)
    system.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0))
    os.close(ruleset)


def installed() -> set[str]:
    """Return the folders of Python and its packages; of other entries of `sys.path`, only what is imported."""
    roots = {os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)}  # noqa: PTH118
    roots |= {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {path for path in sys.path if Path(path).name in _PACKAGES or Path(path).is_file()}
    real = {os.path.realpath(path) for path in roots}
    whole = tuple(path + os.sep for path in {*roots, *real})
    for name, module in list(sys.modules.items()):
        held = getattr(module, "__dict__", {})
        file, folders = held.get("__file__"), held.get("__path__")
        paths = list(folders) if folders is not None else [file] if file and "." not in name else []
        real |= {os.path.realpath(path) for path in paths if not path.startswith(whole)}
    return real


def _allow(system: ctypes.CDLL, ruleset: int, path: str, more: int = 0) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rights = more | _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)  # noqa: PTH112
    rule = struct.pack("<Qi", rights, handle)
    system.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0))
    os.close(handle)
