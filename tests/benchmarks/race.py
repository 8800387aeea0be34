"""Which of several ways to the same numbers takes less time and memory, and do they agree? The harness of the races.

Every side of a race runs in a process of its own, and the sides take turns, another one first in each round, so that
what else the machine does hits all of them alike. A side makes its inputs and runs once on small ones, which loads
its libraries; then its job is timed: seconds of the processor, those of its children included, and of the wall. A job
of less than `SHORT` seconds is repeated until then, and counts its mean. Peak memory is what was held at the worst
moment of the job above what was held before it, by children too. Linux only: `/proc` is asked.
"""

import argparse
import gc
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SHORT, PAUSE = 0.2, 0.2
"""Seconds under which a job is repeated, and between two looks at the memory of children."""
SHOWN = 4
"""Numbers of a result that stand in the table."""
LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
PEERS = "MILES_RACES"
"""Names a folder with the packages of other sides, which need not be installed beside miles."""

Result = Mapping[str, Any]
"""What a job found: numbers or arrays by name."""
Job = Callable[[], Result | Callable[[], Result]]
"""What is timed. It may return a function that makes its result when the clock has stopped."""
Side = Callable[[argparse.Namespace], Job]
"""Makes the inputs of a job from the options, and `folder`, where `prepare` wrote; not timed."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a script: its default, what a trial takes for it, and what it is; a bool is a switch."""

    full: Any
    trial: Any
    help: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What one job took: seconds of the processor and of the wall, MB above what was held before, and its result."""

    cpu: float
    wall: float
    extra: float
    result: dict[str, Any]


class LeftOutError(Exception):
    """A side cannot run on this machine; the message says what it lacks."""


Found = Mapping[str, Sequence[Taken]]
"""By side, one for each round."""


def main(
    doc: str | None,
    *,
    options: Mapping[str, Option],
    sides: Mapping[str, Side],
    prepare: Callable[[argparse.Namespace], None] = lambda given: None,
    remarks: Callable[[argparse.Namespace, Found], Iterable[str]] = lambda given, found: (),
    base: str = "miles",
    packages: Sequence[str] = (),
) -> None:
    """Read the options, run the race and print its table.

    Parameters
    ----------
    prepare
        Writes files that all sides read into `given.folder`, once.
    remarks
        Lines to print below the table.
    base
        The side that the others are divided by.
    packages
        Whose versions are told, besides those of miles, torch and Python.
    """
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    # Last: what both have is that of miles.
    sys.path += [one for one in (os.environ.get(PEERS),) if one and one not in sys.path]
    if sys.argv[1:2] == ["--side"]:
        _run_side(sides[sys.argv[2]], json.loads(sys.argv[3]))
        return
    given = _read(doc, options, sides)
    # A choice, such as that of a model or a file, is no size and stays.
    sizes = {name: option.trial for name, option in options.items() if not isinstance(option.trial, str)}
    small = argparse.Namespace(**vars(given) | sizes)
    with tempfile.TemporaryDirectory() as place:
        for one, name in ((given, "full"), (small, "small")):
            one.folder = Path(place) / name
            one.folder.mkdir()
            prepare(one)
        load, found = os.getloadavg()[0], _rounds(given, small)
        print("\n".join(table(found, base)))
        print("\n" + about(given, options, load, packages))
        for line in (*differences(found, base), *remarks(given, found)):
            print(line, flush=True)


def _read(doc: str | None, options: Mapping[str, Option], sides: Iterable[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", action="store_true", help="small sizes and one round, to see whether it runs")
    parser.add_argument("--rounds", type=int, help="how often each side runs (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="of each side (default: 1)")
    parser.add_argument("--sides", nargs="+", choices=list(sides), default=list(sides), metavar="SIDE")
    for name, option in options.items():
        kind: dict[str, Any] = {"action": "store_true"} if option.full is False else {"type": type(option.full)}
        parser.add_argument(f"--{name}", help=f"{option.help} (default: {option.full}; trial: {option.trial})", **kind)
    given = parser.parse_args()
    for name, option in options.items():
        if getattr(given, name) is None:
            setattr(given, name, option.trial if given.trial else option.full)
    given.rounds = given.rounds or (1 if given.trial else 5)
    return given


def _rounds(given: argparse.Namespace, small: argparse.Namespace) -> dict[str, list[Taken]]:
    found: dict[str, list[Taken]] = {name: [] for name in given.sides}
    for number in range(given.rounds):
        turn = number % len(given.sides)
        for name in (*given.sides[turn:], *given.sides[:turn]):
            if name not in found:
                continue
            try:
                found[name].append(_started(name, given, small))
            except LeftOutError as error:
                del found[name]
                print(f"{name}: left out: {error}")
    return found


def _started(name: str, given: argparse.Namespace, small: argparse.Namespace) -> Taken:
    """Run a side in a process of its own."""
    out = given.folder / "out.npz"
    out.unlink(missing_ok=True)
    sizes = [{key: str(value) if isinstance(value, Path) else value for key, value in vars(one).items()}
             for one in (given, small)]  # fmt: skip
    command = [sys.executable, sys.argv[0], "--side", name, json.dumps([*sizes, str(out)])]
    limits = dict.fromkeys(LIMITS, str(given.threads))
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **limits}
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr}")
    with np.load(out) as kept:
        values = {key: kept[key] for key in kept.files}
    if "left out" in values:
        raise LeftOutError(str(values["left out"]))
    cpu, wall, extra = values.pop("taken").tolist()
    return Taken(cpu, wall, extra, values)


def _run_side(side: Side, told: Sequence[Any]) -> None:
    given, small = (argparse.Namespace(**one | {"folder": Path(one["folder"])}) for one in told[:2])
    try:
        measured(side(small), short=0.0)
        taken = measured(side(given))
    except (LeftOutError, ModuleNotFoundError) as error:
        np.savez(told[2], **{"left out": np.array(str(error))})
        return
    np.savez(told[2], taken=np.array([taken.cpu, taken.wall, taken.extra]), **taken.result)


def processor_seconds() -> float:
    """Return the seconds of this process and of its children, whether they have ended or not."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(cpu for cpu, _ in _descendants())


def held_by_children() -> float:
    """Return the MB that the living descendants hold."""
    return sum(held for _, held in _descendants())


def measured(
    job: Job,
    *,
    short: float = SHORT,
    pause: float = PAUSE,
    processor: Callable[[], float] = processor_seconds,
    wall: Callable[[], float] = time.perf_counter,
    held: Callable[[], float] = held_by_children,
) -> Taken:
    """Run a job in this process and say what it took.

    Parameters
    ----------
    short
        Seconds of the wall up to which the job is run again.
    pause
        Seconds between two looks at what children hold, in MB.
    """
    # What is garbage by now would else be freed in the middle of the job, and taken off its peak.
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    runs, made = 0, None
    with _Children(pause, held) as children:
        cpu, began = processor(), wall()
        while not runs or wall() - began < short:
            again = job()
            made = again if made is None else made
            runs += 1
        took, cpu = wall() - began, processor() - cpu
    extra = max(_status("VmHWM") - before, 0.0) + children.peak
    result = made() if callable(made) else made
    return Taken((cpu - children.own) / runs, took / runs, extra, dict(result or {}))


def _status(key: str) -> float:
    """Return a line of this process's memory, MB."""
    found = re.search(rf"^{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def _descendants() -> list[tuple[float, float]]:
    """Return seconds and MB of each living descendant."""
    rows: dict[int, list[str]] = {}
    for place in os.listdir("/proc"):  # noqa: PTH208
        if place.isdigit():
            try:
                rows[int(place)] = Path(f"/proc/{place}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                # It has just ended.
                continue
    family, size = {os.getpid()}, 0
    while size < len(family):
        size = len(family)
        family |= {pid for pid, row in rows.items() if int(row[1]) in family}
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE") / 2**20
    found = [rows[pid] for pid in family - {os.getpid()} if pid in rows]
    return [(sum(map(int, row[11:15])) / ticks, int(row[21]) * page) for row in found]


class _Children(threading.Thread):
    """Looks now and then at what the descendants hold; `own` is the seconds of the processor that this took."""

    def __init__(self, pause: float, held: Callable[[], float]) -> None:
        super().__init__(daemon=True)
        self.own, self._over = 0.0, threading.Event()
        self._pause, self._held = pause, held
        self._before = self._most = held()

    def run(self) -> None:
        """Look until it is over."""
        while not self._over.wait(self._pause):
            self._most = max(self._most, self._held())
            self.own = time.thread_time()

    @property
    def peak(self) -> float:
        """Return the MB that they held at the most, above what they held at first."""
        return self._most - self._before

    def __enter__(self) -> "_Children":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def ratios(found: Found, side: str, base: str, what: str = "cpu") -> list[float]:
    """Return round by round how many times what the base takes a side takes."""
    return [getattr(a, what) / max(getattr(b, what), 1e-9) for a, b in zip(found[side], found[base], strict=True)]


def spread(values: Sequence[float]) -> str:
    """Return the median with the lowest and the highest."""
    return f"{_short(statistics.median(values))} ({_short(min(values))} to {_short(max(values))})"


def table(found: Found, base: str) -> list[str]:
    """Return the lines of the table, in Markdown."""
    head = ("side", "CPU s", "wall s", f"CPU, side / {base}", f"wall, side / {base}", "extra MB", "result")
    lines = [head, ("---", *["---:"] * 5, "---")]
    for side, rows in found.items():
        middle = [statistics.median(getattr(row, what) for row in rows) for what in ("cpu", "wall", "extra")]
        beside = ["", ""]
        if base in found:
            beside = (
                ["1", "1"] if side == base else [spread(ratios(found, side, base, what)) for what in ("cpu", "wall")]
            )
        shown = [f"{name} {_shown(value)}" for name, value in rows[0].result.items()]
        shown[SHOWN:] = [f"and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
        lines.append((side, *map(_short, middle[:2]), *beside, f"{middle[2]:.0f}", ", ".join(shown)))
    return [f"| {' | '.join(line)} |" for line in lines]


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _shown(value: Any) -> str:
    many = np.asarray(value)
    return f"{many.item():.6g}" if many.size == 1 else f"of shape {many.shape}"


def about(given: argparse.Namespace, options: Mapping[str, Option], load: float, packages: Sequence[str]) -> str:
    """Return a line of sizes, threads, load and versions."""
    sizes = ", ".join(f"{name} {getattr(given, name)}" for name in options)
    names = {"miles": "miles-audit", **{name: name for name in (*packages, "torch")}}
    versions = ", ".join(f"{name} {_version(package)}" for name, package in names.items())
    model = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return (
        f"{sizes}; rounds {given.rounds}, threads {given.threads}; load of the last minute {load:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after; {versions}, Python {platform.python_version()}; "
        f"{os.cpu_count()} cores of {model[1] if model else platform.machine()}"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def differences(found: Found, base: str) -> list[str]:
    """Return for each side how far it is from the base at the most, of all numbers that both found."""
    lines = []
    for side in found if base in found else ():
        pairs = list(zip(found[side], found[base], strict=True))
        apart = {
            name: max(float(np.abs(a.result[name] - b.result[name]).max()) for a, b in pairs)
            for name in sorted(found[side][0].result.keys() & found[base][0].result.keys())
        }
        if side != base and apart:
            name = max(apart, key=apart.__getitem__)
            lines.append(f"largest difference of {side} from {base}: {apart[name]:.1e} ({name})")
    return lines
