"""Allow a contained child some system calls on Linux (x86-64, ARM64); all others fail, and the child goes on.

A list of allowed calls, for a list of denied ones would have to know all that a kernel can do. What an older kernel
does not know fails as it does there, so that libraries take the way that they have for it.
"""

import ctypes
import os
import struct
from collections.abc import Mapping, Sequence
from functools import partial

_SET_SECCOMP, _FILTER = 22, 2
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED: Mapping[str, tuple[int, ...]] = {
    # files that are open: read, pread64, readv, preadv, preadv2, write, writev, lseek, close, close_range, dup*,
    #   fadvise64, readahead, fstat, fstatfs, getdents*
    # files by name, where landlock lets them be opened: stat, lstat, newfstatat, statx, access,
    #   faccessat*, readlink*, statfs, getcwd, chdir, fchdir, umask
    # memory: brk, munmap, mprotect, mremap, madvise, mincore, pkey_*, get_mempolicy, membarrier
    # threads: futex, *_robust_list, set_tid_address, rseq, gettid, sched_yield, sched_get*, getcpu, arch_prctl, exit*
    # signals to itself: rt_sig* without rt_sigqueueinfo, sigaltstack, restart_syscall
    # time: clock_* without clock_settime, nanosleep, gettimeofday, time, times
    # what it is: getpid, getppid, get*uid, get*gid, getgroups, getpgrp, getsid, getpriority, getrusage, getrlimit,
    #   uname, sysinfo, getrandom
    # open sockets, pipes: sendto, recvfrom, recvmsg (not sendmsg, which can keep handles on their way), shutdown,
    #   getsockname, getpeername, getsockopt, poll, ppoll, select, pselect6, pipe*, eventfd*, epoll_*
    "x86_64": (
        0, 17, 19, 295, 327, 1, 20, 8, 3, 436, 32, 33, 292, 221, 187, 5, 138, 78, 217,
        4, 6, 262, 332, 21, 269, 439, 89, 267, 137, 79, 80, 81, 95,
        12, 11, 10, 25, 28, 27, 329, 330, 331, 239, 324,
        202, 273, 274, 218, 334, 186, 24, 204, 143, 145, 146, 147, 309, 158, 60, 231,
        13, 14, 15, 127, 128, 130, 131, 219,
        228, 229, 230, 35, 96, 201, 100,
        39, 110, 102, 107, 104, 108, 115, 118, 120, 121, 111, 124, 140, 98, 97, 63, 99, 318,
        44, 45, 47, 48, 51, 52, 55, 7, 271, 23, 270, 22, 293, 284, 290, 213, 291, 233, 232, 281, 441,
    ),
    "aarch64": (
        63, 67, 65, 69, 286, 64, 66, 62, 57, 436, 23, 24, 223, 213, 80, 44, 61,
        79, 291, 48, 439, 78, 43, 17, 49, 50, 166,
        214, 215, 226, 216, 233, 232, 288, 289, 290, 236, 283,
        98, 99, 100, 96, 293, 178, 124, 123, 121, 120, 125, 126, 168, 93, 94,
        134, 135, 139, 136, 137, 133, 132, 128,
        113, 114, 115, 101, 169, 153,
        172, 173, 174, 175, 176, 177, 158, 148, 150, 155, 156, 141, 165, 163, 160, 179, 278,
        206, 207, 212, 210, 204, 205, 209, 73, 72, 59, 19, 20, 21, 22, 441,
    ),
}  # fmt: skip
_ABSENT = 0xFFFFFFFF
JUDGED = {
    "x86_64": (9, 56, 234, 302, 53, 157, 72, 16, 257, 2, 73),
    "aarch64": (222, 220, 131, 261, 199, 167, 25, 29, 56, _ABSENT, 32),
}
"""Allowed with some arguments: mmap, clone, tgkill, prlimit64, socketpair, prctl, fcntl, ioctl, openat, open, flock."""
_NEWER = 424
"""From here on both architectures count alike; libraries that run on older kernels do without."""
_WRITING = 0x3 | os.O_CREAT | os.O_TRUNC
"""Flags of open that change a file, also where landlock is not there to forbid it; the first is O_ACCMODE of Linux."""
_THREAD, _NAMESPACES = 0x10000, 0x7E020000
"""Flags of clone."""
_NAMED, _GROWING = 0x21, 0x100
"""Flags of mmap: shared without a file, and a stack; neither counts among the memory that is limited."""
_PROCESS = (3, 15, 16, 21, 23, 39, 42, 0x53564D41)
"""Allowed operations of prctl: name threads and memory, and read settings."""
_TIME = 0
"""The limit of prlimit64 that each call of a session moves."""
_HANDLE = (0, 1, 2, 3, 4, 1030)
"""What fcntl may do: copy a handle, and read and set its flags; not send signals, nor lock."""
_LOCKS = (1, 5, 8, 12)
"""What flock may do, which HDF5 needs: share a lock with other readers, and give it up; not keep them out."""
_DEVICE = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Allowed operations of ioctl: test for a terminal, read the bytes available, and set the flags of a descriptor."""


def allow_calls(system: ctypes.CDLL) -> None:
    """Deny this process all other system calls, irrevocably."""
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        return
    code = b"".join(struct.pack("<HBBI", *step) for step in _filter(machine, os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    system.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0)


def _filter(machine: str, process: int) -> "list[_Step]":
    """Return the instructions of a classic BPF filter: blocks, each of which ends in a verdict on a system call."""
    load = partial(_step, _LOAD)
    steps = [load(_ARCHITECTURE), _step(_EQUAL, _ARCHITECTURES[machine], yes=1), _DENY, load(_NUMBER)]
    for number in ALLOWED[machine]:
        steps += [_step(_EQUAL, number, no=1), _ALLOW]
    mmap, clone, tgkill, limits, pair, prctl, fcntl, ioctl, open_at, open_named, flock = JUDGED[machine]
    for number, judged in (
        (mmap, [load(_argument(3)), _step(_ANY_OF, _GROWING, no=1), _DENY,
                _step(_AND, _NAMED), _step(_EQUAL, _NAMED, no=1), _DENY, _ALLOW]),
        (clone, [load(_argument(0)), _step(_ANY_OF, _NAMESPACES, no=1), _DENY, *_one_of([_THREAD], _ANY_OF)]),
        (tgkill, [load(_argument(0)), *_one_of([process])]),
        # Of this process; what is set is the time alone, for a user who may lift limits could lift the others.
        (limits, [load(_argument(0)), _step(_EQUAL, 0, yes=1), _DENY,
                  load(_argument(1)), _step(_EQUAL, _TIME, no=1), _ALLOW,
                  load(_argument(2)), _step(_EQUAL, 0, yes=1), _DENY,
                  load(_argument(2) + 4), *_one_of([0])]),
        # Streams alone: a datagram could be sent to anybody.
        (pair, [load(_argument(1)), _step(_AND, 0xF), *_one_of([1])]),
        (prctl, [load(_argument(0)), *_one_of(_PROCESS)]),
        (fcntl, [load(_argument(1)), *_one_of(_HANDLE)]),
        (ioctl, [load(_argument(1)), *_one_of(_DEVICE)]),
        (flock, [load(_argument(1)), *_one_of(_LOCKS)]),
        *((number, [load(_argument(flags)), _step(_ANY_OF, _WRITING, no=1), _DENY, _ALLOW])
          for number, flags in ((open_at, 2), (open_named, 1))),
    ):  # fmt: skip
        steps += [_step(_EQUAL, number, no=len(judged)), *judged]
    # Among them clone3, whose flags stand in memory, where no filter looks: libraries fall back to clone. Not so the
    # numbers of the other interface of x86-64.
    return [*steps, _step(_AT_LEAST, 0x40000000, no=1), _DENY, _step(_AT_LEAST, _NEWER, no=1), _UNKNOWN, _DENY]


_Step = tuple[int, int, int, int]
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
"""Places of what a filter is shown: the number of the call, and the architecture."""


def _argument(index: int) -> int:
    """Return the offset of the lower half of an argument."""
    return 16 + 8 * index


def _step(kind: int, value: int, *, yes: int = 0, no: int = 0) -> _Step:
    """Return one instruction, with how many to skip where its condition holds and where it does not."""
    return kind, yes, no, value


def _one_of(values: Sequence[int], kind: int = _EQUAL) -> list[_Step]:
    """Return instructions that allow the call if the loaded value is one of these, and else deny it."""
    return [step for value in values for step in (_step(kind, value, no=1), _ALLOW)] + [_DENY]


_DENY, _UNKNOWN, _ALLOW = _step(_RETURN, 0x00050001), _step(_RETURN, 0x00050026), _step(_RETURN, 0x7FFF0000)
