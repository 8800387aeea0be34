"""Which test executes which lines: a plugin of pytest that keeps a map of a tree, in this process and in others.

In the process of pytest the package `coverage` traces, test by test. Other processes that start with the tree on their
path (runs of the command, workers, the server of contained readers and its forks) trace themselves by a
`sitecustomize.py` that is written into the tree: they set a byte for each line in a mapped file, which needs no system
call and stays where a process is killed.
"""

import compileall
import json
import mmap
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SOURCES = ("probes", "audits", "miles_cli")
WIDTH = 2048
"""Lines of a file that other processes can note."""
TRACER = """
import mmap
import os
import sys
import threading

NUMBERS = {numbers!r}
if os.getpid() != {process}:
    with open({bits!r}, "r+b") as file:
        BITS = mmap.mmap(file.fileno(), 0)

    def calls(frame, event, argument):
        at = NUMBERS.get(frame.f_code.co_filename)
        if at is None:
            return None

        def lines(frame, event, argument):
            BITS[at + frame.f_lineno % {width}] = 1
            return lines

        return lines(frame, event, argument)

    threading.settrace(calls)
    sys.settrace(calls)
"""


@dataclass(frozen=True)
class Lines:
    """What each test of a tree executes, and the seconds of the processor it takes with all processes it starts."""

    seconds: dict[str, float] = field(default_factory=dict)
    masks: dict[str, dict[str, int]] = field(default_factory=dict)
    """By test and file: a number whose bit of a line's number is set where the line is executed."""
    left_out: set[str] = field(default_factory=set)
    """Tests that fail or are skipped."""

    def tests(self, file: str, lines: range) -> list[str]:
        """Return the tests that execute one of some lines, the quickest first."""
        wanted = sum(1 << line for line in lines)
        found = [name for name, files in self.masks.items() if files.get(file, 0) & wanted]
        found = [name for name in found if name not in self.left_out]
        return sorted(found, key=lambda name: (self.seconds[name], name))

    def write(self, path: Path) -> None:
        """Keep the map in a file."""
        masks = {name: {file: f"{mask:x}" for file, mask in files.items()} for name, files in self.masks.items()}
        held = {"seconds": self.seconds, "masks": masks, "left_out": sorted(self.left_out)}
        path.with_suffix(".part").write_text(json.dumps(held), encoding="utf-8")
        path.with_suffix(".part").replace(path)

    @classmethod
    def read(cls, path: Path) -> "Lines":
        """Return the map that a file holds."""
        held = json.loads(path.read_text(encoding="utf-8"))
        masks = {name: {file: int(mask, 16) for file, mask in of.items()} for name, of in held["masks"].items()}
        return cls(held["seconds"], masks, set(held["left_out"]))


@dataclass(eq=False)
class Mapper:
    """The plugin: it runs the tests that a map does not have yet, and adds them; a stop loses little."""

    root: Path
    files: list[str]
    kept: Path
    lines: Lines
    saved: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        import coverage

        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[str(self.root / file) for file in self.files]
        )
        self._coverage.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured", "trace-changed"])
        place = self.root / "lines.bits"
        place.write_bytes(bytes(WIDTH * len(self.files)))
        with place.open("r+b") as file:
            self._bits = mmap.mmap(file.fileno(), 0)
        numbers = {str(self.root / file): number * WIDTH for number, file in enumerate(self.files)}
        told = TRACER.format(numbers=numbers, process=os.getpid(), bits=str(place), width=WIDTH)
        (self.root / "sitecustomize.py").write_text(told, encoding="utf-8")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Trace from here on, the tests that are new."""
        items[:] = [item for item in items if item.nodeid not in self.lines.seconds]
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Note what one test executes and takes."""
        self._bits[:] = bytes(len(self._bits))
        self._coverage.switch_context(item.nodeid)
        began = spent()
        try:
            return (yield)
        finally:
            self.lines.seconds[item.nodeid] = round(spent() - began, 4)
            self._coverage.switch_context("")
            self._note_others(item.nodeid)
            if time.monotonic() > self.saved + 120 and nextitem and nextitem.path != item.path:
                self.save()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out tests that fail or are skipped."""
        if not report.passed:
            self.lines.left_out.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Keep the rest."""
        self._coverage.stop()
        self.save()

    def save(self) -> None:
        """Add what was traced in this process, and keep the map."""
        data = self._coverage.get_data()
        for file in self.files:
            for line, names in data.contexts_by_lineno(str(self.root / file)).items():
                for name in names:
                    if name:
                        self._add(name, file, 1 << line)
        self.lines.write(self.kept)
        self.saved = time.monotonic()

    def _note_others(self, name: str) -> None:
        whole = self._bits[:]
        for number, file in enumerate(self.files):
            part = whole[number * WIDTH : (number + 1) * WIDTH]
            if any(part):
                self._add(name, file, sum(1 << line for line, hit in enumerate(part) if hit))

    def _add(self, name: str, file: str, mask: int) -> None:
        files = self.lines.masks.setdefault(name, {})
        files[file] = files.get(file, 0) | mask


def spent() -> float:
    """Return the seconds of the processor of this process and of all that it started, ended or not."""
    times = os.times()
    total = sum(times[:4])
    waiting = [os.getpid()]
    while waiting:
        with suppress(OSError):
            for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
                for child in (task / "children").read_text().split():
                    waiting.append(int(child))
                    fields: Any = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                    total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def copied(source: Path, root: Path) -> None:
    """Copy a tree, compiled, beside a link to the data that its tests read."""
    shutil.copytree(source, root, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "site"))
    for path in root.rglob("*.py"):
        os.utime(path, (999_999_999, 999_999_999))
    shared = next((folder / "shared" for folder in source.parents if (folder / "shared").exists()), None)
    if shared:
        (root.parent / "shared").symlink_to(shared)
    for name in SOURCES:
        compileall.compile_dir(str(root / name), quiet=2)
