import contextlib
import io
import signal
import sys
import threading
import time
import weakref

import pytest

from miles_cli import interrupts, progress
from miles_cli.progress import Watch
from probes.core.progress import Silent


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_silent_listener_accepts_everything() -> None:
    with Silent().phase("Encoding", 3, "clips") as advance:
        assert advance(2) is None


@pytest.mark.parametrize("quiet", [True, False])
def test_short_phases_say_nothing_where_nobody_watches(capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    watch = Watch(quiet=quiet)
    with watch.phase("Encoding", 100, "clips") as advance:
        for _ in range(100):
            advance(1)
    assert capsys.readouterr() == ("", "")


def test_a_line_every_half_minute_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    watch = Watch(quiet=False)
    with watch.phase("Encoding", 100, "clips") as advance:
        for _ in range(10):
            now[0] += 10
            advance(5)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "Encoding: 15 of 100 clips, 0.5 a second, about 3 min left"
    assert len(lines) == 3
    assert watch.seconds == {"Encoding": 100.0}


def test_a_line_of_progress_is_never_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    name = "Training on [a, b] of a language with a name that is long"
    with Watch(quiet=False).phase(name, 1000, "steps of many") as advance:
        now[0] = 31.0
        advance(1)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"{name}: 1 of 1000 steps of many, 1.9 a minute, about 8.6 h left"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    watch = Watch(quiet=False)
    watch._console.width = 120
    with watch.phase("Encoding", 4, "clips") as advance:
        advance(3)
        time.sleep(0.3)
    shown = stream.getvalue()
    assert "Encoding" in shown
    assert "clips" in shown
    assert "3/4" in shown


def test_quiet_shows_no_bar_on_a_terminal_either(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Watch(quiet=True).phase("Encoding", 4, "clips") as advance:
        advance(4)
    assert stream.getvalue() == ""


def test_seconds_add_up_over_phases_of_one_name_and_survive_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    watch = Watch(quiet=True)
    for seconds in (1.5, 2.0):
        with pytest.raises(RuntimeError), watch.phase("Encoding", 1, "clips"):
            now[0] += seconds
            raise RuntimeError
    with watch.phase("Statistics", 0, "metrics"):
        pass
    assert watch.seconds == {"Encoding": 3.5, "Statistics": 0.0}


def test_a_phase_of_nothing_and_one_step_too_many_are_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(quiet=False)
    with watch.phase("Encoding", 0, "clips") as advance:
        advance(0)
        advance(7)
    assert capsys.readouterr().out == ""


def test_an_interrupt_that_a_library_swallows_still_ends_the_run() -> None:
    with interrupts.remembered() as check, pytest.raises(KeyboardInterrupt):
        watch = Watch(quiet=True, check_interrupt=check)
        with watch.phase("Encoding", 2, "clips") as advance:
            advance(1)
            with contextlib.suppress(BaseException):
                signal.raise_signal(signal.SIGINT)
            advance(1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_a_finaliser_swallows_is_not_told_as_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: told.append(what.exc_type))
    with interrupts.remembered() as check, pytest.raises(KeyboardInterrupt):
        for fault in (lambda _: signal.raise_signal(signal.SIGINT), lambda _: 1 / 0):
            weak = weakref.ref(watched := Thing(), fault)
            del watched
            assert weak() is None
        check()
    assert told == [ZeroDivisionError]


class Thing:
    """Something that can be watched by a weak reference."""


def test_an_interrupt_swallowed_before_a_phase_is_heeded_when_it_opens() -> None:
    with interrupts.remembered() as check, pytest.raises(KeyboardInterrupt):
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        with Watch(quiet=True, check_interrupt=check).phase("Writing the report", 1, "report"):
            raise AssertionError


def test_interrupts_that_are_ignored_stay_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.remembered() as check:
            signal.raise_signal(signal.SIGINT)
            check()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_nothing_is_set() -> None:
    def run() -> None:
        with interrupts.remembered() as check:
            check()
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_slow_work_has_its_pace_by_the_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Watch(quiet=False).phase("Training models", 10, "models") as advance:
        now[0] += 40
        advance(1)
    assert capsys.readouterr().err == "Training models: 1 of 10 models, 1.5 a minute, about 6 min left\n"
