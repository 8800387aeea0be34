"""Children that work on strangers' files: what they hand back, what they cannot reach, and how they end."""

import ctypes
import errno
import fcntl
import gc
import json
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import contained_jobs as jobs
import pytest
import torch

from probes.contained import ContainedError, LimitError, Limits, Session, call, system_calls, warm, within
from probes.contained.wire import MalformedAnswer, read_answer
from probes.core.errors import InputError

SMALL = Limits(memory=2**28, seconds=1)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="walls around files and the network are Linux's")


def test_every_kind_of_value_comes_back() -> None:
    found, made = call(jobs.everything, loads=["torch"]), jobs.everything()
    assert found.keys() == made.keys() and found["plain"] == made["plain"] and found["bytes"] == made["bytes"]
    assert found["array"].tolist() == made["array"].tolist() and found["empty"].shape == (0, 3)
    assert found["text"].tolist() == ["a", "bc"] and found[1] == {"nested": {}}
    assert found["tied"][0] is found["tied"][1] and torch.equal(found["tied"][0], made["tied"][0])
    for name in ("turned", "scalar", "lone", "complex"):
        assert torch.equal(found[name], made[name]) and found[name].dtype == made[name].dtype
    found["tied"][0].add_(1)


def test_an_object_is_not_handed_over() -> None:
    with pytest.raises(ContainedError, match="TypeError: a object cannot be handed over"):
        call(jobs.an_object)


def test_an_input_error_arrives_as_itself() -> None:
    with pytest.raises(InputError, match="A column is missing") as caught:
        call(jobs.refuse, "table.csv:3")
    assert (caught.value.where, caught.value.hint, caught.value.exit_code) == ("table.csv:3", "Add it.", 2)


@LINUX
def test_it_reads_only_what_it_was_given(tmp_path: Path) -> None:
    given, other = tmp_path / "given.txt", tmp_path / "other.txt"
    given.write_text("seen", encoding="utf-8")
    other.write_text("secret", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(other)
    assert call(jobs.read, str(given), reads=[given]) == "seen"
    for path in (other, tmp_path / "link.txt", Path("/etc/passwd"), Path(f"/proc/{os.getpid()}/environ")):
        with pytest.raises(ContainedError, match="PermissionError"):
            call(jobs.read, str(path), reads=[given])
    with pytest.raises(ContainedError, match="PermissionError"):
        call(jobs.listing, str(tmp_path), reads=[given])
    assert call(jobs.listing, str(tmp_path), reads=[tmp_path]) == ["given.txt", "link.txt", "other.txt"]


@LINUX
def test_a_folder_of_scripts_is_not_opened_to_children(tmp_path: Path) -> None:
    """The folder of the script stands in `sys.path`, and so does the current folder with `python -m`."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from contained_jobs import read", encoding="utf-8")
    (tmp_path / "package" / "later.py").write_text(
        "def answer():\n    from package import last\n    return last.__name__"
    )
    (tmp_path / "package" / "last.py").touch()
    code = """if True:
        import sys
        from contained_jobs import read
        from package.later import answer
        from probes.contained import ContainedError, call
        print(call(answer))
        try:
            print(call(read, sys.argv[1]))
        except ContainedError as error:
            print(error.kind)
    """
    (tmp_path / "script.py").write_text(code, encoding="utf-8")
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    command = [sys.executable, str(tmp_path / "script.py"), str(secret)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["package.last", "PermissionError"]


@LINUX
def test_it_cannot_write_even_what_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "given.txt"
    path.write_text("as it was", encoding="utf-8")
    for place in (path, tmp_path / "new.txt"):
        with pytest.raises(ContainedError, match="PermissionError"):
            call(jobs.write, str(place), reads=[tmp_path])
    assert path.read_text(encoding="utf-8") == "as it was" and not (tmp_path / "new.txt").exists()


@LINUX
@pytest.mark.parametrize(
    "flags", [os.O_WRONLY | os.O_TRUNC, os.O_RDWR, os.O_TRUNC, os.O_CREAT, os.O_APPEND | os.O_WRONLY]
)
def test_files_are_not_opened_for_writing_where_the_kernel_lacks_landlock(flags: int, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("as it was", encoding="utf-8")
    assert _in_fork(lambda: os.close(os.open(path, os.O_RDONLY))) == 0
    for place in (path, tmp_path / "new.txt"):
        assert _in_fork(lambda: os.open(place, flags)) == errno.EPERM  # noqa: B023
    assert path.read_text(encoding="utf-8") == "as it was" and not (tmp_path / "new.txt").exists()


@LINUX
def test_no_network_no_program_no_signal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(ContainedError, match="PermissionError"):
        call(jobs.connect, listener.getsockname()[1])
    with pytest.raises(ContainedError, match="PermissionError"):
        call(jobs.start)
    with pytest.raises(ContainedError, match="PermissionError"):
        call(jobs.kill, os.getpid())


@LINUX
@pytest.mark.parametrize("job", [jobs.change_mode, jobs.set_times, jobs.cut_off, jobs.set_attribute])
def test_files_keep_their_marks(job: Any, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("as it was", encoding="utf-8")
    before = path.stat()
    with pytest.raises(ContainedError, match="PermissionError"):
        call(job, str(path), reads=[tmp_path])
    assert path.read_text(encoding="utf-8") == "as it was"
    assert (path.stat().st_mode, path.stat().st_mtime) == (before.st_mode, before.st_mtime)


@LINUX
@pytest.mark.parametrize("job", [jobs.lower, jobs.limit, jobs.signal_thread])
def test_other_processes_are_out_of_reach(job: Any) -> None:
    with pytest.raises(ContainedError, match="PermissionError"):
        call(job, os.getpid())


@LINUX
@pytest.mark.parametrize("job", [jobs.fork, jobs.datagram])
def test_neither_processes_nor_datagrams(job: Any) -> None:
    with pytest.raises(ContainedError, match="PermissionError"):
        call(job)


@LINUX
@pytest.mark.parametrize("job", [jobs.share, jobs.share_file, jobs.share_segment, jobs.grow])
def test_memory_that_no_limit_counts_is_not_to_be_had(job: Any) -> None:
    assert call(jobs.own_private, 2**12) == 2**12
    with pytest.raises(ContainedError, match="PermissionError"):
        call(job, 2**12)


@LINUX
def test_sockets_hold_little_that_no_limit_counts() -> None:
    assert call(jobs.fill_sockets, 1490) < 2**25
    with pytest.raises(ContainedError, match="PermissionError"):
        call(jobs.send_handle)


@LINUX
@pytest.mark.parametrize("kind", [resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE])
def test_no_limit_is_set_but_that_of_time(kind: int) -> None:
    """Users who may lift limits, as root may, have children that may not."""
    call(jobs.set_limit, resource.RLIMIT_CPU)
    with pytest.raises(ContainedError, match="not allowed to raise maximum limit"):
        call(jobs.set_limit, kind)


@LINUX
@pytest.mark.parametrize(("job", "args"), [(jobs.send_signals, [1]), (jobs.outlive, []), (jobs.type_ahead, [])])
def test_allowed_calls_do_only_what_is_listed(job: Any, args: list[int]) -> None:
    with pytest.raises(ContainedError, match="PermissionError"):
        call(job, *args)


@LINUX
def test_other_readers_of_a_file_are_not_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.touch()
    call(jobs.lock, str(path), fcntl.LOCK_SH, reads=[path])
    with pytest.raises(ContainedError, match="PermissionError"):
        call(jobs.lock, str(path), fcntl.LOCK_EX, reads=[path])


@LINUX
@pytest.mark.parametrize("job", [jobs.submit, jobs.of_the_future])
def test_newer_calls_fail_as_on_an_older_kernel(job: Any) -> None:
    with pytest.raises(ContainedError, match=f"Errno {errno.ENOSYS}"):
        call(job)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_call_is_listed_that_reaches_others(machine: str) -> None:
    """Numbers are those of the kernel's own lists, looked up by name."""
    denied = {
        "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "execve": (59, 221), "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "kill": (62, 129), "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268),
        "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
        "kexec_load": (246, 104), "init_module": (175, 105), "memfd_create": (319, 279), "shmget": (29, 194),
        "shmat": (30, 196), "mq_open": (240, 180), "msgget": (68, 186), "semget": (64, 190),
        "sched_setaffinity": (203, 122),
        "truncate": (76, 45), "fchmod": (91, 52), "setxattr": (188, 5), "io_setup": (206, 0), "reboot": (169, 142),
    }  # fmt: skip
    place = ["x86_64", "aarch64"].index(machine)
    listed = {*system_calls.ALLOWED[machine], *system_calls.JUDGED[machine]}
    assert not [name for name, numbers in denied.items() if numbers[place] in listed]


def test_threads_are_allowed() -> None:
    assert call(jobs.in_a_thread) == 42


def test_a_question_that_was_interrupted_leaves_no_answer_behind() -> None:
    session = Session(jobs.Counter, 5)
    session.ask("add", 1)
    key = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    key.start()
    with pytest.raises(KeyboardInterrupt):
        session.ask("wait", 20.0)
    key.join()
    with pytest.raises(LimitError):
        session.ask("add", 1)


def test_a_server_starts_where_the_standard_streams_are_closed() -> None:
    code = (
        "import contained_jobs as jobs; from probes.contained import call; import sys; sys.exit(call(jobs.allocate, 7))"
    )
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    closed = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(closed, env=settings).returncode == 7


def test_a_module_that_cannot_be_loaded_ahead_costs_nothing() -> None:
    warm(["no_such_module"])
    assert call(jobs.allocate, 5) == 5


def test_secrets_of_the_environment_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    from probes.contained import client

    monkeypatch.setenv("HF_TOKEN", "secret")
    client.stop_server()
    assert "HF_TOKEN" not in call(jobs.environment)


@LINUX
def test_memory_has_a_limit() -> None:
    assert call(jobs.allocate, 2**26, limits=SMALL) == 2**26
    with pytest.raises(LimitError) as caught:
        call(jobs.allocate, 2**29, limits=SMALL)
    assert caught.value.what == "memory"


def test_time_has_a_limit() -> None:
    with pytest.raises(LimitError, match="more than 1 seconds") as caught:
        call(jobs.spin, limits=SMALL)
    assert caught.value.what == "time"


def test_this_process_goes_on_where_a_block_meets_a_limit() -> None:
    before = [resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGPROF)]
    with pytest.raises(LimitError, match="more than 1 seconds") as late, within(SMALL), suppress(Exception):
        jobs.spin()
    assert late.value.what == "time"
    with within(SMALL):
        assert jobs.allocate(2**26) == 2**26
    assert before == [resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGPROF)]
    assert not any(signal.getitimer(signal.ITIMER_PROF)) and jobs.allocate(2**29) == 2**29


def compute(*_: object, seconds: float = 10) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Finalized:
    def __del__(self) -> None:
        compute()


def delete() -> None:
    Finalized()


def finalize() -> None:
    held = Weak()
    weakref.finalize(held, compute)


class Weak:
    pass


def collect() -> None:
    gc.callbacks.append(compute)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(compute)


@pytest.mark.parametrize("lose", [delete, finalize, collect])
def test_a_block_whose_time_ends_where_python_loses_errors_is_refused(
    lose: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """What a finalizer or a callback of the garbage collection raises is printed and lost, and the block goes on."""
    limit = Limits(memory=2**28, seconds=0.2)
    with pytest.raises(LimitError, match=r"more than 0\.2 seconds"), within(limit):
        lose()
    with pytest.raises(LimitError, match=r"more than 0\.2 seconds"), within(limit):
        lose()
        jobs.spin()
    assert capfd.readouterr() == ("", "")


def test_what_follows_from_a_lost_end_is_no_error_of_the_block() -> None:
    with pytest.raises(LimitError, match=r"more than 0\.2 seconds"), within(Limits(memory=2**28, seconds=0.2)):
        delete()
        raise ValueError


def test_other_errors_that_python_loses_in_a_block_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Broken:
        def __del__(self) -> None:
            raise ValueError

    with within(SMALL):
        Broken()
    assert [lost.exc_type for lost in told] == [ValueError]
    assert sys.unraisablehook == told.append


def test_a_context_that_is_being_entered_or_left_when_the_time_ends_does_not_stay_open() -> None:
    """Between its entering and the note of it an ExitStack would forget it: a device of torch stayed so for good."""
    held: list[int] = []

    class Slow:
        def __enter__(self) -> None:
            held.append(len(held))
            compute(seconds=0.01)

        def __exit__(self, *error: object) -> None:
            compute(seconds=0.01)
            held.pop()

    for seconds in (0.05, 0.052, 0.055, 0.058):
        limit = Limits(memory=2**28, seconds=seconds)
        with pytest.raises(LimitError, match="seconds"), within(limit):
            while True:
                with ExitStack() as stack:
                    stack.enter_context(Slow())
                    compute(seconds=0.002)
        assert not held


def test_a_block_that_lost_the_end_of_its_time_is_refused_at_its_end() -> None:
    limit = Limits(memory=2**28, seconds=0.1)
    with pytest.raises(LimitError, match=r"more than 0\.1 seconds"), within(limit), suppress(BaseException):
        jobs.spin()


@LINUX
@pytest.mark.parametrize("job", [jobs.allocate, lambda size: torch.empty(size, dtype=torch.uint8)])
def test_a_block_has_a_limit_of_memory(job: Any) -> None:
    with pytest.raises(LimitError) as large, within(SMALL):
        job(2**30)
    assert large.value.what == "memory"
    with pytest.raises(RuntimeError, match="of its own"), within(SMALL):
        raise RuntimeError("of its own")


@LINUX
@pytest.mark.parametrize(("kind", "field"), [(resource.RLIMIT_DATA, 5), (resource.RLIMIT_AS, 0)])
def test_a_limit_of_the_user_that_is_lower_is_no_fault_of_the_block(kind: int, field: int) -> None:
    before = resource.getrlimit(kind)
    held = int(Path("/proc/self/statm").read_text().split()[field]) * resource.getpagesize()
    resource.setrlimit(kind, (held + 2**27, before[1]))
    try:
        with pytest.raises(MemoryError), within(SMALL):
            jobs.allocate(2**29)
        with pytest.raises(MemoryError, match="can't allocate memory"), within(SMALL):
            torch.empty(2**29, dtype=torch.uint8)
    finally:
        resource.setrlimit(kind, before)


@LINUX
def test_limits_of_memory_of_two_threads_follow_one_another() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    inside, left = threading.Event(), threading.Event()
    limits: list[tuple[int, int]] = []

    def work() -> None:
        with within(Limits(memory=2**27, seconds=60)):
            inside.set()
            left.wait(60)
            limits.append(resource.getrlimit(resource.RLIMIT_DATA))

    worker = threading.Thread(target=work)
    with within(Limits(memory=2**28, seconds=60)):
        worker.start()
        # Time to begin, which it must not do yet.
        assert not inside.wait(0.5)
    left.set()
    worker.join()
    assert limits != [before] and resource.getrlimit(resource.RLIMIT_DATA) == before


def test_computing_of_other_threads_is_not_counted() -> None:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            sum(range(1000))

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        start = time.process_time()
        with within(SMALL):
            while time.process_time() - start < 1.5:
                time.sleep(0.01)
        with pytest.raises(LimitError, match="more than 1 seconds"), within(SMALL):
            jobs.spin()
    finally:
        over.set()
        for worker in workers:
            worker.join()


def test_a_block_in_a_thread_runs_without_a_clock() -> None:
    found: list[int] = []

    def work() -> None:
        with within(SMALL):
            found.append(jobs.allocate(5))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert found == [5]


def test_work_is_done_until_a_child_answers() -> None:
    seen: list[str] = []
    assert call(jobs.allocate, 5, meanwhile=lambda: seen.append("done")) == 5 and seen == ["done"]


def test_a_crash_costs_the_child_alone() -> None:
    with pytest.raises(LimitError) as caught:
        call(jobs.crash)
    assert caught.value.what == "died"
    assert call(jobs.allocate, 5) == 5


def test_a_session_keeps_its_object_and_outlives_an_error() -> None:
    session = Session(jobs.Counter, 5)
    assert session.ask("add", 2) == 7
    with pytest.raises(ContainedError, match="KeyError"):
        session.ask("fail")
    assert session.ask("add", 2) == 9
    session.close()
    with pytest.raises(LimitError):
        session.ask("add", 1)


def test_a_session_that_is_sent_elsewhere_opens_again() -> None:
    session = Session(jobs.Counter, 5)
    session.ask("add", 1)
    assert pickle.loads(pickle.dumps(session)).ask("add", 1) == 6


def test_a_fork_has_a_session_and_a_server_of_its_own() -> None:
    session = Session(jobs.Counter, 5)
    theirs = session.ask("process")
    child = os.fork()
    if child == 0:
        other = -1
        try:
            other = session.ask("process")
        finally:
            os._exit(0 if other not in (-1, theirs) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert session.ask("process") == theirs


def test_a_session_without_owner_ends() -> None:
    session = Session(jobs.Counter, 5)
    child = session.ask("process")
    del session
    _wait_until_gone(child)


def test_children_end_with_a_parent_that_is_killed() -> None:
    code = (
        "import sys, contained_jobs as jobs; from probes.contained import Session; s = Session(jobs.Counter, 1); "
        "from probes.contained.client import running_server; "
        "print(s.ask('process'), running_server().process.pid, flush=True); sys.stdin.read()"
    )
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        numbers = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
    assert len(numbers) == 2
    for number in numbers:
        _wait_until_gone(number)


@pytest.mark.parametrize(
    "head",
    [
        {"tree": {"a": [0, "|O8", [1]]}, "blobs": [8]},
        {"tree": {"a": [0, "<f8", [2]]}, "blobs": [8]},
        {"tree": {"a": [0, "<f8", [-1, -1]]}, "blobs": [8]},
        {"tree": {"a": [3, "<f8", [1]]}, "blobs": [8]},
        {"tree": {"T": [0, "load", [1]]}, "blobs": [8]},
        {"tree": {"T": [0, "quint8", [8]]}, "blobs": [8]},
        {"tree": 1, "blobs": [float("inf")]},
        {"tree": {"T": [0, "float32", [3]]}, "blobs": [8]},
        {"tree": {"T": [0, "float32", [2**40]]}, "blobs": [0]},
        {"tree": {"x": 1}, "blobs": []},
        {"tree": {"l": 1, "t": 2}, "blobs": []},
        {"tree": {"d": [[{"l": []}, 1]]}, "blobs": []},
        {"tree": 1, "blobs": [2**40]},
        {"tree": 1, "blobs": [-1]},
        {"blobs": []},
        {"error": "InputError", "blobs": []},
        [],
    ],
)
def test_nonsense_from_a_child_is_known_as_such(head: object) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        data = json.dumps(head).encode()
        theirs.sendall(len(data).to_bytes(8, "little") + data + bytes(8))
        with pytest.raises(MalformedAnswer):
            read_answer(ours, 2**20)


def _in_fork(work: Callable[[], object]) -> int:
    """Return the number of the error that work ends in behind the filter of calls alone, or zero."""
    child = os.fork()
    if child == 0:
        status = 255
        try:
            system = ctypes.CDLL(None, use_errno=True)
            system.prctl(38, 1, 0, 0, 0)
            system_calls.allow_calls(system)
            work()
            status = 0
        except OSError as error:
            status = error.errno or 255
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _wait_until_gone(number: int) -> None:
    for _ in range(200):
        try:
            os.kill(number, 0)
            if Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {number} is still there")
