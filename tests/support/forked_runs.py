"""Runs of miles in processes that are forked after the imports, so that one costs no more than its work.

The file is a module for tests (`Server`) and a script: what a server runs. A server has one thread and draws nothing
itself, and so may be forked; the process of pytest may not. Unless a run is asked for `pages`, it draws none: they
come from the report alone, and are what costs most in a small run.
"""

import contextlib
import importlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import file_events

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = (signal.SIGINT, signal.SIGKILL)
LIMIT = 300


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit status, or the number of its signal below zero; and what it printed."""

    code: int
    out: str
    err: str
    told: list[dict[str, Any]]
    """What became of the copies that were stopped at moments."""
    events: list[dict[str, Any]]
    """What became of those that were stopped at file events."""


class Server:
    """A process that runs miles in its children, several at once if asked."""

    def __init__(self, logs: Path, threads: int = 1) -> None:
        self.logs, self._number = logs, 0
        logs.mkdir()
        number = str(threads)
        kept = {name: value for name, value in os.environ.items() if name not in ("MILES_CACHE", "COLUMNS")}
        variables = {**kept, "HF_HUB_OFFLINE": "1", "COLUMNS": "200", "PYTHONHASHSEED": "7"}
        variables |= {f"{name}_NUM_THREADS": number for name in ("OMP", "MKL", "OPENBLAS")}
        # Threads that wait for each other in a loop would take the cores of the tests beside.
        variables |= {"PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, words: list[str], folder: Path, cache: Path, **more: Any) -> int:
        """Start a run in a folder and return its number; `more` may hold one of the names in `HOOKS`."""
        self._number += 1
        asked = {"number": self._number, "words": words, "folder": str(folder), "cache": str(cache)}
        self._ask({**asked, "log": str(self.logs / str(self._number)), **more})
        return self._number

    def end(self, number: int) -> Ended:
        """Wait for a run."""
        code = int(self._ask({"wait": number}))
        log = self.logs / str(number)
        told, events = (
            json.loads((log / name).read_text()) if (log / name).exists() else [] for name in ("told", "events")
        )
        return Ended(code, (log / "out").read_text(), (log / "err").read_text(), told, events)

    def run(self, words: list[str], folder: Path, cache: Path, **more: Any) -> Ended:
        """Run miles to its end."""
        return self.end(self.start(words, folder, cache, **more))

    def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + LIMIT
        while not true():
            assert time.monotonic() < end
            time.sleep(0.02)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _ask(self, asked: dict[str, Any]) -> str:
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the server has died"
        return answer


def _serve() -> None:
    import numpy as np
    import pandas
    import scipy.stats
    import torch
    from safetensors import torch as _

    from probes.core.library_imports import transformers

    transformers()
    assert torch and np and pandas and scipy and _
    children: dict[int, tuple[int, Path]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            process, log = children[asked["wait"]]
            answer = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            learn(log / "modules")
        else:
            answer = os.fork()
            if not answer:
                _child(asked)
            children[asked["number"]] = answer, Path(asked["log"])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def learn(modules: Path) -> None:
    """Import what a run has imported, so that the next one need not."""
    for name in modules.read_text().split() if modules.exists() else ():
        if name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _child(asked: dict[str, Any]) -> None:
    """Become a run of miles; nothing of this process goes back to the server."""
    signal.alarm(LIMIT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = Path(asked["log"])
    log.mkdir()
    print_to(log)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.environ["MILES_CACHE"] = asked["cache"]
    os.chdir(asked["folder"])
    sys.argv = ["miles", *asked["words"]]
    from miles_cli.main import main

    code: Any = 70
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_no_unasked_workers())
            for name, hook in HOOKS.items():
                if name in asked:
                    stack.enter_context(hook(asked, log))
            if "pages" not in asked:
                stack.enter_context(_no_pages())
            main()
        code = 0
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        (log / "modules").write_text("\n".join(sys.modules))
        os._exit(code if isinstance(code, int) else int(code is not None))


def print_to(log: Path) -> None:
    """Let this process print to the files `out` and `err` of a folder."""
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(log / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)


@contextlib.contextmanager
def _no_pages() -> Iterator[None]:
    from audits.report import pages as rendering

    write_pages, rendering.write_pages = rendering.write_pages, lambda report, folder: None
    try:
        yield
    finally:
        rendering.write_pages = write_pages


@contextlib.contextmanager
def _no_unasked_workers() -> Iterator[None]:
    """Start no workers that a run does not ask for.

    A job in which copies are made seems long, and what workers go on writing meanwhile differs from copy to copy.
    """
    from probes.core import spreading

    worth, spreading.WORTH = spreading.WORTH, math.inf
    try:
        yield
    finally:
        spreading.WORTH = worth


@contextlib.contextmanager
def _watched(moment: Callable[[str], None]) -> Iterator[None]:
    """Call `moment` at the start of every phase, after every step, and before every file gets its name."""
    from miles_cli.progress import Watch

    phase, rename = Watch.phase, Path.replace

    @contextlib.contextmanager
    def watched_phase(self: Watch, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        with phase(self, name, total, unit) as advance:

            def step(steps: int) -> None:
                advance(steps)
                moment("step")

            moment(f"phase: {name}")
            yield step

    def watched_rename(self: Path, target: Path) -> Path:
        moment("file")
        return rename(self, target)

    Watch.phase, Path.replace = watched_phase, watched_rename
    try:
        yield
    finally:
        Watch.phase, Path.replace = phase, rename


def _chosen(counts: dict[str, int], name: str) -> bool:
    """Tell whether the next moment of this name is one: every phase, and the 1st, 4th, 16th, .. of all others."""
    counts[name] = counts.get(name, 0) + 1
    return name.startswith("phase") or counts[name] in (1, 4, 16, 64, 256)


@contextlib.contextmanager
def _stopped(asked: dict[str, Any], log: Path) -> Iterator[None]:
    """Stop a copy of this process by each signal at every moment, and keep what then stands in the folder and cache.

    `stopped` is the folder for what is kept: `<number>-<signal>/run` and `cache`.
    """
    told: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    process = os.getpid()

    def moment(name: str) -> None:
        # A copy that was stopped otherwise goes on to its end.
        if os.getpid() != process or not _chosen(counts, name):
            return
        for number in SIGNALS:
            ended = _copy(asked, log, Path(asked["stopped"], f"{len(told)}-{number.name}"), None)
            if ended is None:
                os.kill(os.getpid(), number)
                return
            told.append({"at": name, "signal": number.name, **ended})

    with _watched(moment):
        try:
            yield
        finally:
            (log / "told").write_text(json.dumps(told))


@contextlib.contextmanager
def _at_events(asked: dict[str, Any], log: Path) -> Iterator[None]:
    """Kill a copy of this process at file events, and let another find the disk full from there on.

    `events` holds the `share` of all events at which this is done, or of `every` k-th one, and the folder for what is
    `kept`.
    """
    told: list[dict[str, Any]] = []
    counted, out_of_room = 0, False
    every = asked["events"].get("every", 1)
    rng = random.Random(f"{asked['words'][0]} {asked['events'].get('seed', 0)}")

    def moment(event: str, half: Callable[[], None], file: Path | None) -> None:
        nonlocal counted, out_of_room
        if out_of_room:
            if event in file_events.GROWING:
                raise file_events.full()
            return
        counted += 1
        if (counted - 1) % every or rng.random() >= asked["events"]["share"]:
            return
        for kind in ("SIGKILL", "ENOSPC") if event in file_events.GROWING else ("SIGKILL",):
            ended = _copy(asked, log, Path(asked["events"]["kept"], f"event-{counted}-{kind}"), file)
            if ended is None:
                half()
                if kind == "SIGKILL":
                    os.kill(os.getpid(), signal.SIGKILL)
                out_of_room = True
                events.become()
                raise file_events.full()
            told.append({"at": event, "number": counted, "kind": kind, **ended})

    with file_events.watched([*_places(asked).values()], moment) as events:
        try:
            yield
        finally:
            told.append({"kind": "counted", "events": counted, "elsewhere": events.elsewhere})
            (log / "events").write_text(json.dumps(told))


def _places(asked: dict[str, Any]) -> dict[str, Path]:
    return {"run": Path(asked["folder"], asked["words"][-1]), "cache": Path(asked["cache"])}


def _copy(asked: dict[str, Any], log: Path, kept: Path, unfinished: Path | None) -> dict[str, Any] | None:
    """Fork; return None in the copy, and how that ended in this process, with what it left in the folder and cache."""
    places = _places(asked)
    file_events.Events.paused = True
    before = _linked(places, kept.with_name(f"{kept.name}-before"))
    above = [path.parent for path in places.values() if path.parent.exists()]
    child = os.fork()
    if not child:
        (log / kept.name).mkdir()
        print_to(log / kept.name)
        file_events.Events.paused = False
        return None
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _linked(places, kept, unfinished)
    # What the copy has tidied up in its last moments this process still needs.
    for folder in above:
        folder.mkdir(parents=True, exist_ok=True)
    for place, path in places.items():
        for file in [before / place, *(before / place).rglob("*")]:
            there = path / file.relative_to(before / place)
            if file.is_dir():
                there.mkdir(parents=True, exist_ok=True)
            elif file.is_file() and not there.exists():
                os.link(file, there)
    shutil.rmtree(before)
    file_events.Events.paused = False
    said = "".join((log / kept.name / stream).read_text() for stream in ("out", "err"))
    return {"code": status, "said": said, "kept": str(kept)}


def _linked(places: dict[str, Path], target: Path, unfinished: Path | None = None) -> Path:
    """Keep what stands in these places; miles writes no file anew that has a name, so that links do."""
    target.mkdir(parents=True)

    def keep(file: str, there: str) -> None:
        # The process goes on writing to this one.
        if unfinished is not None and Path(file).absolute() == unfinished:
            shutil.copyfile(file, there)
        else:
            os.link(file, there)

    for name, path in places.items():
        if path.exists():
            shutil.copytree(path, target / name, copy_function=keep)
    return target


@contextlib.contextmanager
def _paused(asked: dict[str, Any], log: Path) -> Iterator[None]:
    """Wait at the moment that is named, the first or that of the given `time`, until `file` is gone."""
    pause, seen = asked["paused"], 0

    def moment(name: str) -> None:
        nonlocal seen
        seen += name == pause["at"]
        if name == pause["at"] and seen == pause.get("time", 1):
            Path(pause["file"]).touch()
            while Path(pause["file"]).exists():
                time.sleep(0.02)

    with _watched(moment):
        yield


@contextlib.contextmanager
def _cleared(asked: dict[str, Any], log: Path) -> Iterator[None]:
    """Clear the cache at the chosen moments, as another process would."""
    counts: dict[str, int] = {}
    from probes.core.cache import Cache

    def moment(name: str) -> None:
        if name != "file" and _chosen(counts, name):
            Cache.default().clear()

    with _watched(moment):
        yield


@contextlib.contextmanager
def _installed(asked: dict[str, Any], log: Path) -> Iterator[None]:
    """Find what is installed in the folder `installed` before all else."""
    sys.path.insert(0, asked["installed"])
    yield


HOOKS = {
    "stopped": _stopped,
    "events": _at_events,
    "paused": _paused,
    "cleared": _cleared,
    "installed": _installed,
}

if __name__ == "__main__":
    _serve()
