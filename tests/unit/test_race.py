"""Does the harness of the benchmarks measure what a job takes, and nothing of what surrounds it?"""

import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPT = '''"""What is raced?"""
import race

def prepare(given):
    (given.folder / "size").write_text(str(given.size))

def side(name, gap):
    def ready(given):
        if name == "lacking":
            raise race.LeftOutError("it lacks a wheel")
        with open(given.log, "a") as log:
            log.write(f"{name} {given.size} {(given.folder / 'size').read_text()}\\n")
        return lambda: lambda: {"answer": given.size + gap, "many": [1.0, 2.0 + gap]}
    return ready

race.main(
    __doc__,
    options={"size": race.Option(8, 2, "of it"), "log": race.Option("", "", "a file")},
    sides={"miles": side("miles", 0), "other": side("other", 0.25), "lacking": side("lacking", 0)},
    prepare=prepare,
    remarks=lambda given, found: [f"sides that ran: {len(found)}"],
    packages=("numpy", "no-such-package"),
)
'''


@pytest.fixture(scope="module")
def race() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("race", FOLDER / "race.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["race"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["race"]


class Clock:
    """The two clocks of the harness, moved by hand: what a busy machine does to real ones is no part of the tests."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def pass_by(self, cpu: float, wall: float) -> None:
        self.cpu += cpu
        self.wall += wall

    @property
    def hands(self) -> dict[str, Callable[[], float]]:
        return {"processor": lambda: self.cpu, "wall": lambda: self.wall}


@pytest.fixture
def clock() -> Clock:
    return Clock()


def extra(job: str) -> float:
    """Return the MB that a job takes in a process of its own, in which no other package keeps what is freed.

    The job may hold memory for a moment, every page of it touched: `held(60)`.
    """
    code = f"""
        import gc, sys
        sys.path.insert(0, {str(FOLDER)!r})
        import numpy as np, race
        def held(megabytes):
            np.ones(megabytes << 20, dtype=np.uint8)
        held(200)
        garbage = [np.ones(200 << 20, dtype=np.uint8)]
        garbage.append(garbage)
        del garbage
        print(race.measured(lambda: ({job}) and None, short=0.0).extra)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True)
    return float(done.stdout)


def test_processor_and_wall_are_told_apart(race: ModuleType, clock: Clock) -> None:
    found = race.measured(lambda: clock.pass_by(0.1, 0.3), short=0.0, **clock.hands)
    # The look at the memory of children took time of its own, which is taken off.
    assert found.cpu == pytest.approx(0.1, abs=0.05)
    assert found.wall == pytest.approx(0.3)


def test_the_time_of_the_watch_is_not_that_of_the_job(race: ModuleType, clock: Clock) -> None:
    spent: list[float] = []
    looked = threading.Event()

    def look() -> float:
        if threading.current_thread() is not threading.main_thread():
            until = time.thread_time() + 0.02
            while time.thread_time() < until:
                pass
            spent.append(time.thread_time())
            looked.set()
        return 0.0

    def job() -> None:
        assert looked.wait(60)
        clock.pass_by(1.0, 0.3)

    found = race.measured(job, short=0.0, pause=0.01, held=look, **clock.hands)
    assert spent[-1] >= 0.02
    assert found.cpu == pytest.approx(1.0 - spent[-1], abs=0.01)


BUSY = "e = time.process_time() + 0.2\nwhile time.process_time() < e: pass\nprint(time.process_time(), flush=True)\n"
"""A child's own work, and what it took by the child's own clock."""


def test_the_memory_of_children_counts(race: ModuleType) -> None:
    looked = threading.Event()
    code = "x = bytearray(b'1') * 80_000_000\nprint(flush=True)\ninput()"

    def job() -> None:
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdout.readline()
            # One look may have begun before the child held anything; the next one has not.
            for _ in range(2):
                looked.clear()
                assert looked.wait(60)
            process.stdin.write(b"\n")

    def look() -> float:
        held: float = race.held_by_children()
        looked.set()
        return held

    assert 76 <= race.measured(job, short=0.0, pause=0.01, held=look).extra < 130


def test_children_count_with_their_time(race: ModuleType) -> None:
    took: list[float] = []

    def job() -> None:
        out = subprocess.run([sys.executable, "-c", f"import time\n{BUSY}"], check=True, stdout=subprocess.PIPE)
        took.append(float(out.stdout))

    found = race.measured(job, short=0.0)
    # By other clocks of the kernel than the child's own, one of which counts in hundredths of a second.
    assert 0.5 * took[0] < found.cpu < 2 * took[0]


def test_children_that_live_on_count_for_what_they_did_in_the_job(race: ModuleType) -> None:
    code = f"import time\nfor line in iter(input, 'end'):\n{textwrap.indent(BUSY, '    ')}"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        send, answer = process.stdin, process.stdout

        def job() -> float:
            send.write(b"go\n")
            send.flush()
            return float(answer.readline())

        took: list[float] = [job()]
        found = race.measured(lambda: took.append(job()), short=0.0)
        send.write(b"end\n")
    took_in_job = took[1] - took[0]
    assert 0.5 * took_in_job < found.cpu < 1.5 * took_in_job


def test_the_peak_is_that_of_the_job_and_not_what_was_held_before() -> None:
    assert 55 <= extra("held(60)") < 90
    assert extra("0") < 10


def test_garbage_that_goes_during_the_job_is_not_taken_off_its_peak() -> None:
    assert 55 <= extra("gc.collect(), held(60)") < 90


def test_a_short_job_counts_its_mean_and_its_first_result(race: ModuleType, clock: Clock) -> None:
    runs: list[int] = []

    def job() -> Any:
        runs.append(0)
        clock.pass_by(0.5, 1 / 8)
        return {"run": len(runs)}

    found = race.measured(job, short=0.3, **clock.hands)
    assert len(runs) == 3
    assert found.wall == 1 / 8
    assert found.cpu == pytest.approx(0.5, abs=0.05)
    assert found.result == {"run": 1}


def test_a_result_is_made_when_the_clock_has_stopped(race: ModuleType, clock: Clock) -> None:
    def late() -> dict[str, int]:
        clock.pass_by(9.0, 9.0)
        return {"x": 3}

    found = race.measured(lambda: late, short=0.0, **clock.hands)
    assert found.result == {"x": 3}
    assert found.wall == 0


def test_a_race_from_its_options_to_its_table(tmp_path: Path) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\n{SCRIPT}")
    command = [sys.executable, str(script), "--rounds", "2", "--log", str(log)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    # Small first, then as asked; another side is first in the next round.
    order = [*(("miles", "other"), ("other", "miles"))]
    assert log.read_text().split("\n")[:-1] == [
        f"{side} {size} {size}" for turn in order for side in turn for size in (2, 8)
    ]
    assert out[0] == "lacking: left out: it lacks a wheel"
    rows = [line for line in out if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows] == ["| side", "| ---", "| miles", "| other"]
    assert rows[3].endswith("| answer 8.25, many of shape (2,) |")
    text = "\n".join(out)
    assert "size 8" in text and "rounds 2, threads 1" in text and "no-such-package not installed" in text
    assert "largest difference of other from miles: 2.5e-01 (answer)" in out
    assert out[-1] == "sides that ran: 2"


def test_packages_of_other_sides_are_found_in_a_folder_of_their_own(tmp_path: Path) -> None:
    script, packages = tmp_path / "script.py", tmp_path / "packages"
    (packages / "peer_of_a_race-3.7.dist-info").mkdir(parents=True)
    (packages / "peer_of_a_race-3.7.dist-info" / "METADATA").write_text("Name: peer-of-a-race\nVersion: 3.7\n")
    (packages / "peer_of_a_race.py").write_text("answer = 5.5\n")
    # What both have is that of miles.
    (packages / "numpy.py").write_text("raise AssertionError\n")
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\nimport race\n"
        "def peer(given):\n    import numpy, peer_of_a_race\n    return lambda: {'answer': peer_of_a_race.answer}\n"
        "race.main('What?', options={}, sides={'peer': peer}, base='peer', packages=('peer-of-a-race',))\n"
    )
    outs = [
        subprocess.run(
            [sys.executable, str(script), "--trial"],
            capture_output=True, text=True, check=True, env={**os.environ, "MILES_RACES": folder},
        ).stdout
        for folder in (str(packages), "")
    ]  # fmt: skip
    assert "| answer 5.5 |" in outs[0] and "peer-of-a-race 3.7" in outs[0]
    assert "left out: No module named 'peer_of_a_race'" in outs[1] and "peer-of-a-race not installed" in outs[1]


def test_ratios_are_taken_round_by_round(race: ModuleType) -> None:
    def taken(*seconds: float) -> list[Any]:
        return [race.Taken(one, 2 * one, 1.0, {}) for one in seconds]

    found = {"miles": taken(1, 2, 4), "peer": taken(3, 4, 40)}
    assert race.ratios(found, "peer", "miles") == [3, 2, 10]
    assert race.spread([3, 2, 10]) == "3 (2 to 10)"
    assert race.table(found, "miles")[3].startswith("| peer | 4 | 8 | 3 (2 to 10) | 3 (2 to 10) |")
    assert race.differences(found, "miles") == []
