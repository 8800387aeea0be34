"""Walls around this process: limits, no network, no other program, and no files but a few (Linux: landlock, seccomp).

Where the kernel lacks one of them, the others stand.
"""

import ctypes
import os
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from probes.contained.calls import allow_calls

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
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
    """Let this process take so many bytes more than it has."""
    # RLIMIT_DATA counts what is private and can be written; of the address space, libraries reserve any amount.
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    most = held_memory() + size
    hard = resource.getrlimit(kind)[1]
    # Some systems refuse a limit below what libraries have reserved.
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (most, most) if hard == resource.RLIM_INFINITY else (min(most, hard),) * 2)


def limit_time(seconds: int, *, last: bool) -> None:
    """Let this process compute so many seconds more; `last` says that no later call is to lengthen it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # A second more before the end without a word, so that it is known for what it is.
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1 if last and hard == resource.RLIM_INFINITY else hard))


def close_off(reads: Iterable[str]) -> None:
    """Take from this process the network, other programs, writing, and the files below other places than these."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    most = min(_MOST_OPEN, *(each for each in resource.getrlimit(resource.RLIMIT_NOFILE) if each >= 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sys.platform != "linux":
        return
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_DIE_WITH_PARENT, 9, 0, 0, 0)
    if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        _restrict_files(system, reads)
        allow_calls(system)


def held_memory() -> int:
    """Return the bytes of this process that its limit of memory counts."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        pages = 0
    # Where the system does not say, as much as the largest library takes.
    return pages * resource.getpagesize() or 2**31


def _restrict_files(system: ctypes.CDLL, reads: Iterable[str]) -> None:
    version = system.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    handled = (1 << _HANDLED.get(version, 16)) - 1
    # Rights on files, on the network (TCP: bind, connect), and scopes (abstract sockets, signals).
    rules = struct.pack("<QQQ", handled, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = system.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0))
    if ruleset < 0:
        return
    libraries = [place for place in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if place]
    for place in {*_installed(), *_SYSTEM, *libraries, *reads}:
        _allow(system, ruleset, place)
    system.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0))
    os.close(ruleset)


def _installed() -> set[str]:
    """Return where Python and its packages stand: of other places of `sys.path`, such as a home, what was imported."""
    roots = {os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)}  # noqa: PTH118
    roots |= {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {place for place in sys.path if Path(place).name in _PACKAGES or Path(place).is_file()}
    real = {os.path.realpath(place) for place in roots}
    whole = tuple(place + os.sep for place in {*roots, *real})
    for name, module in list(sys.modules.items()):
        held = getattr(module, "__dict__", {})
        file, folders = held.get("__file__"), held.get("__path__")
        places = list(folders) if folders is not None else [file] if file and "." not in name else []
        real |= {os.path.realpath(place) for place in places if not place.startswith(whole)}
    return real


def _allow(system: ctypes.CDLL, ruleset: int, place: str) -> None:
    try:
        handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rights = _READ_FILE | (_READ_DIR if os.path.isdir(place) else 0)  # noqa: PTH112
    rule = struct.pack("<Qi", rights, handle)
    system.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0))
    os.close(handle)
