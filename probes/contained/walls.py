"""Walls around this process: limits, no network, no other program, and no files but a few (Linux: landlock, seccomp).

Where the kernel lacks one of them, the others stand. Numbers of system calls are those of x86-64 and of ARM64.
"""

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_HANDLED = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Bits of rights on files that each version of landlock knows; newer ones know those of 5."""
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER, _DIE_WITH_PARENT = 38, 22, 2, 1
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    # connections: socket, connect, accept, accept4, bind, listen
    # programs and processes: execve, execveat, fork, vfork, ptrace, process_vm_*, process_madvise, kcmp, pidfd_*
    # signals: kill, tkill, rt_sigqueueinfo, rt_tgsigqueueinfo
    # files by name or attributes: chmod, chown, utime, truncate and *xattr of every kind, mknod, open_by_handle_at
    # priorities and rights of others: setpriority, sched_set*, ioprio_set, add_key, request_key, keyctl
    # the system: mount of every kind, chroot, pivot_root, unshare, setns, bpf, perf_event_open, userfaultfd, io_uring
    # memory beyond the limit: memfd_create, shmget, msgget, semget, mq_open
    "x86_64": (
        41, 42, 43, 288, 49, 50, 59, 322, 57, 58, 101, 310, 311, 440, 312, 434, 438, 424, 62, 200, 129, 297, 90, 91,
        268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 76, 188, 189, 190, 197, 198, 199, 463, 466, 133, 259, 304, 141,
        142, 144, 203, 314, 251, 248, 249, 250, 165, 166, 428, 429, 430, 432, 433, 442, 161, 155, 272, 308, 321, 298,
        323, 425, 426, 427, 319, 29, 68, 64, 240,
    ),
    "aarch64": (
        198, 203, 202, 242, 200, 201, 221, 281, 117, 270, 271, 440, 272, 434, 438, 424, 129, 130, 138, 240, 52, 53, 452,
        54, 55, 88, 45, 5, 6, 7, 14, 15, 16, 463, 466, 33, 265, 140, 118, 119, 122, 274, 30, 217, 218, 219, 40, 39, 428,
        429, 430, 432, 433, 442, 51, 41, 97, 268, 280, 241, 282, 425, 426, 427, 279, 194, 186, 190, 180,
    ),
}  # fmt: skip
_JUDGED = {"x86_64": (56, 435, 234, 302, 53), "aarch64": (220, 435, 131, 261, 199)}
"""clone, clone3, tgkill, prlimit64 and socketpair: allowed with some arguments."""
_THREAD, _NAMESPACES = 0x10000, 0x7E020000
"""Flags of clone."""
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
    python = {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, *sys.path) if place}
    libraries = [place for place in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if place]
    for place in {*python, *_SYSTEM, *libraries, *reads}:
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
    code = b"".join(struct.pack("<HBBI", *step) for step in _filter(machine, os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    system.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0)


def _filter(machine: str, process: int) -> "list[_Step]":
    """Return the steps of a classic filter: what a call by a number may do, in blocks that end in a verdict."""
    load = partial(_step, _LOAD)
    steps = [load(_ARCHITECTURE), _step(_EQUAL, _ARCHITECTURES[machine], yes=1), _DENY, load(_NUMBER)]
    # Numbers of the other interface of x86-64.
    steps += [_step(_AT_LEAST, 0x40000000, no=1), _DENY]
    for number in _DENIED[machine]:
        steps += [_step(_EQUAL, number, no=1), _DENY]
    clone, clone3, tgkill, limits, pair = _JUDGED[machine]
    # The flags of clone3 stand in memory, where no filter looks: libraries fall back to clone.
    steps += [_step(_EQUAL, clone3, no=1), _step(_RETURN, 0x00050026)]
    for number, judged in (
        (clone, [load(_ARGUMENT), _step(_ANY_OF, _NAMESPACES, no=1), _DENY, _step(_ANY_OF, _THREAD, yes=1), _DENY]),
        (tgkill, [load(_ARGUMENT), _step(_EQUAL, process, yes=1), _DENY]),
        (limits, [load(_ARGUMENT), _step(_EQUAL, 0, yes=1), _DENY]),
        # Streams alone: a datagram could be sent to anybody.
        (pair, [load(_ARGUMENT + 8), _step(_AND, 0xF), _step(_EQUAL, 1, yes=1), _DENY]),
    ):
        steps += [_step(_EQUAL, number, no=len(judged) + 1), *judged, _ALLOW]
    return [*steps, _ALLOW]


_Step = tuple[int, int, int, int]
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
"""Places of what a filter is shown: the number of the call, the architecture, the first argument's lower half."""


def _step(kind: int, value: int, *, yes: int = 0, no: int = 0) -> _Step:
    """Return one step, and how many steps it skips where its condition holds or does not."""
    return kind, yes, no, value


_DENY, _ALLOW = _step(_RETURN, 0x00050001), _step(_RETURN, 0x7FFF0000)
