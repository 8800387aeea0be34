"""Children that are processes of their own, as where a system cannot fork: the same answers, and limits."""

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import contained_jobs as jobs
import pytest

from probes.contained import (
    ContainedError,
    LimitError,
    Limits,
    Session,
    block_limits,
    call,
    client,
    sandbox,
    warm,
    watched,
    within,
)
from probes.core.errors import InputError

SMALL = Limits(memory=2**28, seconds=1)


@pytest.fixture(autouse=True)
def cannot_fork(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(client, "FORKS", False)
    started = set(client._RUNNING)
    yield
    assert set(client._RUNNING) == started


def test_values_and_errors_come_back() -> None:
    warm(["torch"])
    assert call(jobs.allocate, 7) == 7
    with pytest.raises(InputError, match="A column is missing") as caught:
        call(jobs.refuse, "table.csv:3")
    assert (caught.value.where, caught.value.hint) == ("table.csv:3", "Add it.")
    with pytest.raises(ContainedError, match="TypeError: a object cannot be handed over"):
        call(jobs.an_object)
    with pytest.raises(ContainedError, match="ModuleNotFoundError"):
        call(jobs.allocate, 7, loads=["no_such_module"])


def test_a_session_keeps_its_object() -> None:
    session = Session(jobs.Counter, 5)
    assert [session.ask("add", 1), session.ask("add", 2)] == [6, 8]
    with pytest.raises(ContainedError, match="KeyError"):
        session.ask("fail")
    assert session.ask("process") != os.getpid()
    again = pickle.loads(pickle.dumps(session))
    assert again.ask("add", 1) == 6 and session.ask("add", 1) == 9
    session.close()
    again.close()


def test_a_child_ends_with_its_session() -> None:
    session = Session(jobs.Counter, 5)
    child = session.ask("process")
    session.close()
    for _ in range(100):
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.05)
    raise AssertionError("the child is still there")


def test_a_limit_of_memory_ends_it() -> None:
    assert call(jobs.allocate, 2**26, limits=SMALL) == 2**26
    with pytest.raises(LimitError) as caught:
        call(jobs.allocate, 2**29, limits=SMALL)
    assert caught.value.what == "memory"


@pytest.mark.slow
def test_a_limit_of_time_ends_it() -> None:
    with pytest.raises(LimitError, match="more than 1 seconds") as caught:
        call(jobs.spin, limits=SMALL)
    assert caught.value.what == "time"


def test_one_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Limits, "patience", 2.0)
    session = Session(jobs.Counter, 5)
    started = time.monotonic()
    with pytest.raises(LimitError, match="did nothing for 2 seconds") as caught:
        session.ask("wait", 60.0)
    assert caught.value.what == "time" and time.monotonic() - started < 10
    with pytest.raises(LimitError):
        session.ask("add", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="walls around files and the network are Linux's")
def test_walls_stand_around_it_too(tmp_path: Path) -> None:
    given, other = tmp_path / "given.txt", tmp_path / "other.txt"
    given.write_text("seen", encoding="utf-8")
    other.write_text("secret", encoding="utf-8")
    assert call(jobs.read, str(given), reads=[given]) == "seen"
    with pytest.raises(ContainedError, match="PermissionError"):
        call(jobs.read, str(other), reads=[given])


def test_what_is_printed_there_is_no_answer() -> None:
    assert call(print, "nonsense") is None


def test_secrets_of_the_environment_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "HF_TOKEN" not in call(jobs.environment)


def _ended(work: Callable[[], object]) -> int:
    """Return the status of a fork that does some work."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_thread_ends_a_process_at_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold() -> None:
        assert watched.watch_memory(2**26)
        held = bytearray(2**28)
        time.sleep(5)
        del held

    def spin() -> None:
        watched.watch_time(0.2)
        jobs.spin()

    assert [_ended(hold), _ended(spin), _ended(lambda: watched.watch_time(5))] == [99, 98, 0]
    monkeypatch.setattr(watched, "peak_memory", lambda: None)
    assert not watched.watch_memory(2**20)


def test_missing_walls_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sandbox.missing_walls() == ""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "limits of time and memory, but without walls" in sandbox.missing_walls()
    monkeypatch.setattr(sandbox, "peak_memory", lambda: None)
    assert "a limit of time, and none of memory, but without walls" in sandbox.missing_walls()


@pytest.fixture
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_limits, "TIMER", False)
    monkeypatch.setattr(block_limits, "resource", None)


def test_a_block_ends_without_a_timer_of_signals(no_timer: None) -> None:
    limit = Limits(memory=2**28, seconds=0.3)
    for lost in (Exception, BaseException):
        with pytest.raises(LimitError, match=r"more than 0\.3 seconds"), within(limit), suppress(lost):
            jobs.spin()
    with within(limit):
        assert jobs.allocate(2**20) == 2**20
    with pytest.raises(KeyError), within(limit):
        raise KeyError("of its own")


def test_a_block_ends_in_its_own_thread_alone(no_timer: None) -> None:
    found: list[Any] = []

    def work() -> None:
        try:
            with within(Limits(memory=2**28, seconds=0.2)):
                jobs.spin()
        except LimitError as error:
            found.append(error.what)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["time"]


def test_no_interruption_comes_behind_a_block(no_timer: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was asked for while the block ended is taken back."""
    asked: list[tuple[int, object]] = []
    monkeypatch.setattr(block_limits, "_raise_in", lambda thread, error: asked.append((thread, error)))
    with within(Limits(memory=2**28, seconds=5)):
        pass
    assert asked == [(threading.get_ident(), None)]
