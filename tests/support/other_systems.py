"""Let a process of Python believe that it runs on Windows or macOS: what miles itself sees of the system is changed.

Only the modules of miles are lied to, since the standard library and others were built for this system. A folder with
the `sitecustomize` that `write` makes, in PYTHONPATH, does it to a process and to all that it starts.
"""

import builtins
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

OURS = ("miles_cli", "audits", "probes", "small_world", "other_systems_work", "__main__")
POSIX_MODULES = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "_posixsubprocess", "posix")
ABSENT: Mapping[str, Mapping[str, str]] = {
    "windows": {
        "os": "fork forkpty register_at_fork killpg getpgid setpgid setsid getsid getuid geteuid getgid getegid "
        "getgroups setuid setgid setresuid O_NOFOLLOW O_PATH O_CLOEXEC O_NONBLOCK O_DIRECTORY O_NOCTTY O_SYNC O_DSYNC "
        "O_ACCMODE O_ASYNC O_CLOFORK sysconf sysconf_names confstr pathconf sched_getaffinity sched_setaffinity "
        "sched_yield WNOHANG WUNTRACED WIFSIGNALED WIFEXITED WEXITSTATUS WTERMSIG wait wait3 wait4 waitid chown fchown "
        "lchown chroot set_blocking get_blocking uname getloadavg mkfifo mknod statvfs fstatvfs getxattr setxattr "
        "listxattr removexattr fchmod nice getpriority setpriority posix_fadvise posix_fallocate pread preadv pwrite "
        "pwritev readv writev sendfile sync fdatasync ctermid openpty ttyname tcgetpgrp fwalk lockf posix_spawn "
        "posix_spawnp memfd_create eventfd pidfd_open splice copy_file_range pipe2 fchdir getrandom "
        "RTLD_NOW RTLD_LAZY RTLD_GLOBAL EX_OK EX_USAGE",
        "signal": "SIGKILL SIGXCPU SIGXFSZ SIGPROF SIGVTALRM SIGHUP SIGALRM SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE SIGQUIT "
        "SIGSTOP SIGCONT SIGTSTP SIGTTIN SIGTTOU SIGWINCH setitimer getitimer ITIMER_REAL ITIMER_PROF ITIMER_VIRTUAL "
        "alarm pause pthread_kill pthread_sigmask sigwait sigtimedwait sigwaitinfo sigpending siginterrupt",
        "socket": "AF_UNIX send_fds recv_fds SCM_RIGHTS CMSG_SPACE CMSG_LEN",
        "time": "clock_gettime clock_gettime_ns clock_getres CLOCK_MONOTONIC CLOCK_THREAD_CPUTIME_ID "
        "CLOCK_PROCESS_CPUTIME_ID tzset pthread_getcpuclockid",
        "select": "poll epoll kqueue select",
        "selectors": "PollSelector EpollSelector DevpollSelector KqueueSelector DefaultSelector",
        "mmap": "MAP_SHARED MAP_PRIVATE PROT_READ PROT_WRITE",
    },
    "darwin": {
        "os": "sched_getaffinity sched_setaffinity O_PATH O_TMPFILE memfd_create eventfd pidfd_open splice "
        "copy_file_range getxattr setxattr listxattr removexattr posix_fadvise posix_fallocate fdatasync getresuid "
        "setresuid getrandom register_at_fork_",
        "signal": "SIGPWR SIGSTKFLT sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX",
        "select": "epoll",
        "selectors": "EpollSelector",
        "time": "pthread_getcpuclockid",
    },
}
"""What each system lacks of modules that it has."""


class _Seen(ModuleType):
    """A module as another system has it."""

    def __init__(self, real: ModuleType, absent: str, **changed: Any) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _absent=frozenset(absent.split()), **changed)

    def __getattr__(self, name: str) -> Any:
        if name in self._absent:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on the system that is pretended")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def write(system: str, folder: Path, kernel: bool = True) -> Path:
    """Write the folder that is to stand in PYTHONPATH."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        f"_spec = importlib.util.spec_from_file_location('other_systems', {str(Path(__file__).resolve())!r})\n"
        "_module = sys.modules['other_systems'] = importlib.util.module_from_spec(_spec)\n"
        "_spec.loader.exec_module(_module)\n"
        f"_module.pretend({system!r}, {kernel})\n",
        encoding="utf-8",
    )
    return folder


def variables(system: str, folder: Path, *, kernel: bool = True, **more: str) -> dict[str, str]:
    """Return the variables of a process that is to believe it; on Windows no text is UTF-8 that does not say so."""
    root = Path(__file__).resolve().parents[2]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "MILES_"))}
    places = [write(system, folder / f"as-{system}-{int(kernel)}", kernel), root, root / "tests" / "support"]
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "MILES_CACHE": str(folder / "cache"),
        "COLUMNS": "100",
        **(plain if system == "windows" else {"PYTHONUTF8": "1"}),
        **more,
    }


def pretend(system: str, kernel: bool = True) -> None:
    """Show to the modules of miles what another system has; for the whole process, and for good.

    `kernel` gives Windows its kernel32, as far as miles calls it.
    """
    seen = {name: _seen(name, absent, system) for name, absent in ABSENT[system].items()}
    seen["sys"] = _Seen(sys, "", platform={"windows": "win32"}.get(system, system))
    refused: tuple[str, ...] = ()
    if system == "windows":
        refused = POSIX_MODULES
        import subprocess

        seen["msvcrt"] = _locks()
        seen["subprocess"] = _Seen(subprocess, "", Popen=_without_handles(subprocess.Popen))
        if kernel:
            import ctypes

            seen["ctypes"] = _Seen(ctypes, "", WinDLL=lambda name, use_last_error: _Kernel())
        _keep_open_files()
    else:
        seen["resource"] = _limits()
        _hide_proc()
    real = builtins.__import__

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        asker = str((globals or {}).get("__name__", "")).partition(".")[0]
        if level == 0 and asker in OURS:
            if name in refused:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in seen:
                return seen[name]
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = imported


def _seen(name: str, absent: str, system: str) -> _Seen:
    module = __import__(name)
    return _Seen(module, absent, **({"name": "nt"} if (name, system) == ("os", "windows") else {}))


def _locks() -> ModuleType:
    """Return msvcrt as far as miles needs it, with locks that other processes see."""
    import fcntl

    def locking(handle: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    module = ModuleType("msvcrt")
    module.__dict__.update(LK_NBLCK=2, locking=locking)
    return module


class _Kernel:
    """Kernel32: memory as this system counts it, and a job that limits it."""

    def __getattr__(self, name: str) -> Any:
        called = getattr(type(self), f"call_{name}")
        self.__dict__[name] = function = lambda *args: called(self, *args)
        return function

    def call_GetCurrentProcess(self) -> int:
        return 2**64 - 1

    def call_K32GetProcessMemoryInfo(self, process: Any, counters: Any, size: Any) -> int:
        assert (process.value, size.value) == (2**64 - 1, 72)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        record = counters._obj
        assert record.size == 72
        record.committed = pages * 4096
        record.peak_committed = max(record.peak_committed, record.committed)
        return 1

    def call_GlobalMemoryStatusEx(self, status: Any) -> int:
        assert status._obj.size == 64
        status._obj.physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return 1

    def call_OpenProcess(self, rights: Any, inherit: Any, pid: Any) -> int:
        assert (rights.value, inherit.value) == (0x00100000, 0)
        return int(pid.value)

    def call_WaitForSingleObject(self, handle: Any, milliseconds: Any) -> int:
        assert milliseconds.value == 2**32 - 1
        # What nobody waits for stays in the list of processes.
        while Path(f"/proc/{handle.value}").exists() and os.getppid() == handle.value:
            time.sleep(0.1)
        return 0

    def call_CreateJobObjectW(self, security: Any, name: Any) -> int:
        assert security is name is None
        return 77

    def call_SetInformationJobObject(self, job: Any, kind: Any, limits: Any, size: Any) -> int:
        assert (job.value, kind.value, size.value) == (77, 9, 144)
        record = limits._obj
        assert (record.flags, record.processes) == (0x508, 1)
        self.__dict__["most"] = int(record.process_memory)
        return 1

    def call_AssignProcessToJobObject(self, job: Any, process: Any) -> int:
        import resource

        if process.value == 2**64 - 1:
            resource.setrlimit(resource.RLIMIT_DATA, (self.most, self.most))
        return 1

    def call_CloseHandle(self, handle: Any) -> int:
        return 1


def _without_handles(real: type) -> type:
    class Popen(real):  # type: ignore[misc]
        """A process that can be handed no files, and is in no session."""

        def __init__(self, *args: Any, **named: Any) -> None:
            assert not {"pass_fds", "preexec_fn", "start_new_session", "process_group"} & set(named)
            super().__init__(*args, **named)

    return Popen


def _limits() -> ModuleType:
    """Return `resource` as on macOS: peaks in bytes, and no limit of addresses below what is reserved."""
    import resource

    def getrusage(who: int) -> Any:
        used = resource.getrusage(who)
        return SimpleNamespace(ru_maxrss=used.ru_maxrss * 1024, ru_utime=used.ru_utime, ru_stime=used.ru_stime)

    def setrlimit(kind: int, limits: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        resource.setrlimit(kind, limits)

    return _Seen(resource, "prlimit", getrusage=getrusage, setrlimit=setrlimit)


def _hide_proc() -> None:
    import pathlib

    def hidden(real: Any) -> Any:
        def call(self: Path, *args: Any, **named: Any) -> Any:
            if str(self).startswith(("/proc/", "/sys/")):
                raise FileNotFoundError(2, "No such file or directory", str(self))
            return real(self, *args, **named)

        return call

    for name in ("stat", "open", "read_text", "is_file", "exists"):
        setattr(pathlib.Path, name, hidden(getattr(pathlib.Path, name)))
    for name in ("is_file", "exists"):
        kept = getattr(pathlib.Path, name)
        setattr(pathlib.Path, name, _false_if_hidden(kept))


def _false_if_hidden(real: Any) -> Any:
    def call(self: Path, *args: Any, **named: Any) -> Any:
        try:
            return real(self, *args, **named)
        except FileNotFoundError:
            return False

    return call


def _keep_open_files() -> None:
    """Let no file be removed, or replaced by another, that this process has open or mapped, as on Windows."""

    def guarded(real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            for path in args:
                _refuse_open(path, named.get("dir_fd"))
            return real(*args, **named)

        return call

    for name in ("unlink", "remove", "replace", "rename"):
        wrapped = guarded(getattr(os, name))
        for known in (os.supports_dir_fd, os.supports_follow_symlinks):
            if getattr(os, name) in known:
                known.add(wrapped)
        setattr(os, name, wrapped)


def _refuse_open(path: Any, folder: int | None) -> None:
    place = Path(os.fsdecode(path))
    if folder is not None:
        place = Path(f"/proc/self/fd/{folder}").readlink() / place
    place = Path(os.path.realpath(place))
    if not place.is_file():
        return
    held = set()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            held.add(number.readlink())
    if place in held or str(place) in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"):
        raise PermissionError(13, "The process cannot access the file because another process has it open", str(place))
