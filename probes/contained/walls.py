"""Walls around this process: limits, no network, no other program, and no files but a few (Linux: landlock, seccomp).

Where the kernel lacks one of them, the others stand. Numbers of system calls are those of x86-64 and of ARM64.
"""

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_HANDLED = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Bits of rights on files that each version of landlock knows; newer ones know those of 5."""
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER, _DIE_WITH_PARENT = 38, 22, 2, 1
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    # socket, connect, accept, bind, listen, execve, execveat, ptrace, process_vm_*, kill, tkill, keys,
    # mount, unshare, setns, bpf, perf_event_open, userfaultfd, open_by_handle_at, shmget, io_uring_setup, pidfd_*
    # (not socketpair: both ends are the child's own, and the library that draws charts needs one)
    "x86_64": (41, 42, 43, 49, 50, 59, 322, 101, 310, 311, 62, 200, 248, 249, 250, 165, 272, 308, 321, 298, 323,
               304, 29, 425, 434, 438),
    "aarch64": (198, 203, 202, 200, 201, 221, 281, 117, 270, 271, 129, 130, 217, 218, 219, 40, 97, 268, 280, 241,
                282, 265, 194, 425, 434, 438),
}  # fmt: skip
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache",
           "/etc/localtime", "/dev/urandom", "/dev/null", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat",
           "/sys/devices/system/cpu")  # fmt: skip
"""What libraries read of a system that says nothing of its users."""


def limit_memory(size: int) -> None:
    """Let this process take so many bytes more than it has."""
    # RLIMIT_DATA counts what is private and can be written; of the address space, libraries reserve any amount.
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    most = _held() + size
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most, most) if hard == resource.RLIM_INFINITY else (min(most, hard),) * 2)


def limit_time(seconds: int) -> None:
    """Let this process compute so many seconds more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def close_off(reads: Iterable[str]) -> None:
    """Take from this process the network, other programs, writing, and the files below other places than these."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform != "linux":
        return
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_DIE_WITH_PARENT, 9, 0, 0, 0)
    if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        _restrict_files(system, reads)
        _deny_calls(system)


def _held() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        return 2**31
    return pages * resource.getpagesize()


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
    python = {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, *sys.path) if place}
    for place in {*python, *_SYSTEM, *reads}:
        _allow(system, ruleset, place)
    system.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(system: ctypes.CDLL, ruleset: int, place: str) -> None:
    try:
        handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rights = _READ_FILE | (_READ_DIR if os.path.isdir(place) else 0)  # noqa: PTH112
    rule = struct.pack("<Qi", rights, handle)
    system.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0))
    os.close(handle)


def _deny_calls(system: ctypes.CDLL) -> None:
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        return
    denied = _DENIED[machine]
    count = len(denied)
    # The classic filter: load the architecture, then the number of the call, and compare it with each.
    steps = [(0x20, 0, 0, 4), (0x15, 0, count + 2, _ARCHITECTURES[machine]), (0x20, 0, 0, 0),
             (0x35, count, 0, 0x40000000)]  # fmt: skip
    steps += [(0x15, count - 1 - index, 0, number) for index, number in enumerate(denied)]
    steps[-1] = (0x15, 0, 1, denied[-1])
    steps += [(0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("<HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(buffer))
    system.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0)
