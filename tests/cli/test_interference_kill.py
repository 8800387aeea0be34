"""Does a matrix whose run, or whose workers, were killed at any moment end in the report of one that was left alone?"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_folders import WITHOUT_PAGES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are found in /proc"),
]

ROOT = Path(__file__).resolve().parents[2]
WORKERS, MODELS_IN_ALL = 2, 12
PATIENCE = 400.0


def write_corpus(folder: Path) -> Path:
    folder.mkdir()
    for number, code in enumerate(("aa", "bb", "cc")):
        draw = random.Random(number)
        words = ["".join(draw.choices("abcdef", k=6)) for _ in range(2)]
        lines = (" ".join(draw.choices(words, k=5)) for _ in range(200))
        (folder / f"{code}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def words_of(folder: Path, out: Path, results: Path, workers: int) -> list[str]:
    models = (
        "--steps", 40, "--batch", 16, "--window", 32, "--layers", 1, "--hidden", 32, "--heads", 2, "--front", 7,
        "--rate", 0.02, "--seeds", 2, "--held-out", 1000, "--device", "cpu",
    )  # fmt: skip
    places = ("--workers", workers, "--results", results, "--out", out, "--quiet", "--force")
    return [str(word) for word in ("interference", folder, *models, *places)]


def content(out: Path) -> dict[str, Any]:
    report = json.loads((out / "report.json").read_bytes())
    del report["settings"]["results"]
    kept = {name: value for name, value in report.items() if name not in ("created", "provenance")}
    return {**kept, "records": (out / "records.csv").read_bytes()}


def states(results: Path) -> dict[str, tuple[int, int]]:
    """Return of each finished model whatever changes when it is written again."""
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in results.rglob("*.json")}


def models(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in results.rglob("*.json")}


def parents() -> dict[int, int]:
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found[int(place.name)] = int(fields[1])
    return found


def below(ancestor: int) -> set[int]:
    """Return all processes that a process started, and those that they started."""
    tree, found = parents(), {ancestor}
    while more := {child for child, parent in tree.items() if parent in found} - found:
        found |= more
    return found - {ancestor}


def is_worker(process: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # Beside the workers there is a process that tidies up after them.
    return any(b"popen_loky" in word for word in words)


@pytest.fixture(scope="module")
def whole(
    finish_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[dict[str, Any], dict[str, bytes]]]:
    """Return the texts, and report and results of a run in this process, which is left alone."""
    folder = tmp_path_factory.mktemp("whole")
    corpus = write_corpus(folder / "corpus")
    finish_run(*words_of(corpus, folder / "out", folder / "results", 1), out=folder / "out")
    found = models(folder / "results")
    assert len(found) == MODELS_IN_ALL
    assert sum(row["name"] == "interference" for row in content(folder / "out")["estimates"]) == 6
    return corpus, (content(folder / "out"), found)


class Run:
    """One command that is watched through its folder of results."""

    def __init__(self, words: list[str], results: Path, environment: dict[str, str], log: Path) -> None:
        self.results, self.log = results, log
        with log.open("ab") as file:
            command = [sys.executable, "-c", WITHOUT_PAGES, *words]
            self.process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=file, stderr=file)

    def until(self, count: int) -> bool:
        """Wait until so many models are finished, and tell whether the command still runs."""
        end = time.monotonic() + PATIENCE
        while len(states(self.results)) < count and self.process.poll() is None:
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)
        return self.process.poll() is None

    def finish(self) -> None:
        assert self.process.wait(timeout=PATIENCE) == 0, self.log.read_text()


@pytest.fixture
def started(
    environment: dict[str, str], whole: tuple[Path, Any], tmp_path: Path
) -> Iterator[tuple[Callable[[], Run], Path, Path]]:
    """Return what starts the command, its report's folder and its results."""
    out, results = tmp_path / "out", tmp_path / "results"
    runs: list[Run] = []

    def start() -> Run:
        variables = {**environment, "MILES_CACHE": str(tmp_path / "cache")}
        runs.append(Run(words_of(whole[0], out, results, WORKERS), results, variables, tmp_path / "log"))
        return runs[-1]

    yield start, out, results
    for run in runs:
        run.process.kill()
        run.process.wait()


def unchanged(before: dict[str, tuple[int, int]], results: Path) -> None:
    after = states(results)
    assert {name: after.get(name) for name in before} == before


def test_a_run_that_was_killed_ends_in_the_same_report_and_trains_nothing_twice(
    whole: tuple[Path, Any], started: tuple[Callable[[], Run], Path, Path]
) -> None:
    start, out, results = started
    draw = random.Random(0)
    run = start()
    # Few enough that some are left in the end, as others are finished before the blow falls.
    assert run.until(draw.randint(1, 4)), "it ended before it could be killed"
    time.sleep(0.2 * draw.random())
    children = below(run.process.pid)
    run.process.kill()
    run.process.wait()
    finished = states(results)
    assert not (out / "report.json").exists()
    end = time.monotonic() + 15
    while children & parents().keys() and time.monotonic() < end:
        time.sleep(0.1)
    # No model outlives who asked for it, but those in hand may just have been finished.
    assert not children & parents().keys()
    unchanged(finished, results)
    before = states(results)
    assert 0 < len(before) <= len(finished) + WORKERS < MODELS_IN_ALL
    run = start()
    run.finish()
    unchanged(before, results)
    assert (content(out), models(results)) == whole[1]


def test_a_run_one_of_whose_workers_is_killed_ends_in_the_same_report(
    whole: tuple[Path, Any], started: tuple[Callable[[], Run], Path, Path]
) -> None:
    start, out, results = started
    draw = random.Random(1)
    run = start()
    assert run.until(3), run.log.read_text()
    time.sleep(0.3 * draw.random())
    workers = sorted(process for process in below(run.process.pid) if is_worker(process))
    assert workers
    before = states(results)
    os.kill(draw.choice(workers), signal.SIGKILL)
    run.finish()
    unchanged(before, results)
    assert (content(out), models(results)) == whole[1]
