"""What of Windows the standard library has no call for: memory, the end of another process, and limits by a job.

Each function says None or False where the system is another one or refuses. None has been run on a real Windows yet;
that the records have the size that Windows expects is tested.
"""

import ctypes
from contextlib import suppress
from typing import Any

_SYNCHRONIZE = 0x00100000
_FOREVER = 0xFFFFFFFF
_EXTENDED_LIMITS = 9
_ONE_PROCESS, _MEMORY, _NO_DIALOGUE = 0x8, 0x100, 0x400
"""Flags of a job: a number of processes, memory of each, and no dialogue where one crashes."""


class MemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS, 72 bytes."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("faults", ctypes.c_uint32),
        ("peak_resident", ctypes.c_size_t),
        ("resident", ctypes.c_size_t),
        ("pools", ctypes.c_size_t * 4),
        ("committed", ctypes.c_size_t),
        ("peak_committed", ctypes.c_size_t),
    )


class MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX, 64 bytes."""

    _fields_ = (("size", ctypes.c_uint32), ("load", ctypes.c_uint32), ("physical", ctypes.c_uint64),
                ("others", ctypes.c_uint64 * 6))  # fmt: skip


class JobLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, 144 bytes."""

    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("working_set", ctypes.c_size_t * 2),
        ("processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
        ("transfers", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peaks", ctypes.c_size_t * 2),
    )


def used_memory(*, peak: bool = False) -> int | None:
    """Return the bytes of memory that this process was promised, now or at most; None where the system is another."""
    kernel = _kernel()
    if kernel is None:
        return None
    counters = MemoryCounters()
    counters.size = ctypes.sizeof(counters)
    process = ctypes.c_void_p(kernel.GetCurrentProcess())
    with suppress(AttributeError, OSError):
        if kernel.K32GetProcessMemoryInfo(process, ctypes.byref(counters), ctypes.c_uint32(counters.size)):
            return int(counters.peak_committed if peak else counters.committed)
    return None


def physical_memory() -> int | None:
    """Return the bytes of memory of this machine; None where the system is another."""
    kernel = _kernel()
    if kernel is None:
        return None
    status = MemoryStatus()
    status.size = ctypes.sizeof(status)
    with suppress(AttributeError, OSError):
        if kernel.GlobalMemoryStatusEx(ctypes.byref(status)):
            return int(status.physical)
    return None


def wait_for(pid: int) -> bool:
    """Wait for the end of another process; False at once where it cannot be waited for."""
    kernel = _kernel()
    if kernel is None:
        return False
    with suppress(AttributeError, OSError):
        handle = kernel.OpenProcess(ctypes.c_uint32(_SYNCHRONIZE), ctypes.c_int(0), ctypes.c_uint32(pid))
        if handle:
            return int(kernel.WaitForSingleObject(ctypes.c_void_p(handle), ctypes.c_uint32(_FOREVER))) == 0
    return False


def limit_process(most: int, handle: int | None = None) -> bool:
    """Limit a process, this one by default, to so many bytes of memory and to no other process, for good.

    Parameters
    ----------
    handle
        A handle of the process.
    """
    kernel = _kernel()
    if kernel is None:
        return False
    limits = JobLimits()
    limits.flags, limits.processes, limits.process_memory = _ONE_PROCESS | _MEMORY | _NO_DIALOGUE, 1, most
    with suppress(AttributeError, OSError):
        job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None))
        process = ctypes.c_void_p(kernel.GetCurrentProcess() if handle is None else handle)
        size = ctypes.c_uint32(ctypes.sizeof(limits))
        try:
            return bool(
                kernel.SetInformationJobObject(job, ctypes.c_int(_EXTENDED_LIMITS), ctypes.byref(limits), size)
                and kernel.AssignProcessToJobObject(job, process)
            )
        finally:
            # The limits stay while the process is in the job, and without a handle nobody can lift them.
            kernel.CloseHandle(job)
    return False


def _kernel() -> Any:
    """Return kernel32, whose handles are pointers; None where there is none."""
    make = getattr(ctypes, "WinDLL", None)
    if make is None:
        return None
    try:
        kernel = make("kernel32", use_last_error=True)
        for name in ("GetCurrentProcess", "OpenProcess", "CreateJobObjectW"):
            getattr(kernel, name).restype = ctypes.c_void_p
    except (AttributeError, OSError):
        return None
    return kernel
