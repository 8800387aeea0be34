"""Does the harness of the benchmarks measure what a job takes, and nothing of what surrounds it?"""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
MB = 1 << 20
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


def spin(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def held(megabytes: int) -> None:
    """Hold memory for a moment, every page of it touched."""
    np.ones(megabytes * MB, dtype=np.uint8)


def test_processor_and_wall_are_told_apart(race: ModuleType) -> None:
    busy, idle = race.measured(lambda: spin(0.1), short=0.0), race.measured(lambda: time.sleep(0.3), short=0.0)
    assert busy.cpu >= 0.1
    assert idle.wall >= 0.3
    assert idle.cpu < 0.1


def child(code: str) -> Any:
    return lambda: print(subprocess.run([sys.executable, "-c", code], check=True).returncode)


def test_children_count_with_their_time_and_memory(race: ModuleType) -> None:
    code = "import time\nx = bytearray(b'1') * 80_000_000\ntime.sleep(0.5)\nwhile time.process_time() < 0.2: pass"
    found = race.measured(child(code), short=0.0)
    assert found.cpu >= 0.2
    assert 76 <= found.extra < 130


def test_children_that_live_on_count_for_what_they_did_in_the_job(race: ModuleType) -> None:
    code = "import time\nfor line in iter(input, 'end'):\n    e = time.process_time() + 0.2\n"
    code += "    while time.process_time() < e: pass\n    print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        send, answer = process.stdin, process.stdout

        def job() -> None:
            send.write(b"go\n")
            send.flush()
            answer.readline()

        job()
        found = race.measured(job, short=0.0)
        send.write(b"end\n")
    # The kernel counts a child's time in hundredths of a second.
    assert 0.17 <= found.cpu < 0.37


def test_the_peak_is_that_of_the_job_and_not_what_was_held_before(race: ModuleType) -> None:
    held(200)
    found = race.measured(lambda: held(60), short=0.0)
    assert 55 <= found.extra < 90
    assert race.measured(lambda: None, short=0.0).extra < 10


def test_a_short_job_counts_its_mean_and_its_first_result(race: ModuleType) -> None:
    runs: list[int] = []

    def job() -> Any:
        runs.append(0)
        time.sleep(0.001)
        return {"run": len(runs)}

    found = race.measured(job, short=0.3)
    assert len(runs) > 1
    assert found.wall < 0.3
    assert found.wall * len(runs) > 0.299
    assert found.result == {"run": 1}


def test_a_result_is_made_when_the_clock_has_stopped(race: ModuleType) -> None:
    def late() -> dict[str, int]:
        spin(0.2)
        return {"x": 3}

    found = race.measured(lambda: late, short=0.0)
    assert found.result == {"x": 3}
    assert found.cpu < 0.15


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


def test_ratios_are_taken_round_by_round(race: ModuleType) -> None:
    def taken(*seconds: float) -> list[Any]:
        return [race.Taken(one, 2 * one, 1.0, {}) for one in seconds]

    found = {"miles": taken(1, 2, 4), "peer": taken(3, 4, 40)}
    assert race.ratios(found, "peer", "miles") == [3, 2, 10]
    assert race.spread([3, 2, 10]) == "3 (2 to 10)"
    assert race.table(found, "miles")[3].startswith("| peer | 4 | 8 | 3 (2 to 10) | 3 (2 to 10) |")
    assert race.differences(found, "miles") == []
