"""Break the code in one place after another and see whether the tests notice: `python tests/support/mutants.py TREE`.

The places are drawn by a seed, so that two revisions can be compared. The tests run once to learn which lines each
executes (`covered_lines`; `--map FILE` keeps it); then each break is shown to the tests that execute its line, the
quickest first. Nothing is written into the tree itself: all happens in a copy. Tests are collected once, and each break
runs in a fork: there the code of the broken function is replaced. A break that is not in a function (a constant, a
default) has a process of its own. The tests of one break may take `--seconds` of the processor, as they took unbroken.
"""

import argparse
import ast
import gc
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from covered_lines import SOURCES, Lines, Mapper, copied

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
TESTS = ("tests/unit", "tests/planted", "tests/oracle", *SOURCES)
HEAVY = ("numpy", "torch", "scipy.stats", "pandas", "sklearn.linear_model", "transformers", "hypothesis", "h5py")
WORDS = ["-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
WORDS += ["--continue-on-collection-errors"]
IMPORTING = 0.7
"""Seconds that the import of a file of tests takes, about."""
FUNCTION = 0x1
"""The flag of code whose names are its own: that of a function, not of a class or module."""


@dataclass(frozen=True)
class Place:
    """A place that can be broken: the file, the number of the place in it, and its line."""

    file: str
    number: int
    line: int


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that a break can change: comparisons, sums and products, and/or, numbers, and conditions."""
    for node in ast.walk(tree):
        operator = node.ops[0] if isinstance(node, ast.Compare) else getattr(node, "op", None)
        numeric = isinstance(node, ast.Constant) and type(node.value) in (int, float)
        if type(operator) in SWAPS or numeric or isinstance(node, ast.If | ast.IfExp):
            yield node


def broken(source: str, number: int) -> ast.Module:
    """Return the tree of source with one place changed."""
    tree = ast.parse(source)
    node = list(places(tree))[number]
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value = node.value + 1
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=node.test), node.test)
    return ast.fix_missing_locations(tree)


def drawn(root: Path, count: int, seed: int, under: Sequence[str]) -> list[Place]:
    """Return places below some folders, drawn without replacement."""
    found = []
    for path in sorted(path for folder in under for path in (root / folder).rglob("*.py")):
        for number, node in enumerate(places(ast.parse(path.read_text(encoding="utf-8")))):
            found.append(Place(str(path.relative_to(root)), number, getattr(node, "lineno", 0)))
    print(f"{len(found)} places below {', '.join(under)}, drawn with seed {seed}", flush=True)
    return random.Random(seed).sample(found, min(count, len(found)))


def tests_of(root: Path, place: Place, lines: Lines) -> list[str]:
    """Return the tests that execute the line of a place, the quickest first; for what an import executes, its users."""
    tree = ast.parse((root / place.file).read_text(encoding="utf-8"))
    node: Any = list(places(tree))[place.number]
    part = node.test if isinstance(node, ast.If | ast.IfExp) else node
    around = [one for one in ast.walk(tree) if isinstance(one, ast.stmt) and one.lineno <= node.lineno]
    around = [one for one in around if (one.end_lineno or 0) >= (node.end_lineno or 0)]
    if any(isinstance(one, ast.FunctionDef) and one.body[0].lineno <= node.lineno for one in around):
        statement = max(around, key=lambda one: one.lineno)
        found = lines.tests(place.file, range(part.lineno, part.end_lineno + 1))
        return found or lines.tests(place.file, range(statement.lineno, part.end_lineno + 1))
    names = {one.id for one in ast.walk(around[0]) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    names |= {one.name for one in around if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    naming = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    found = []
    for file in {file for files in lines.masks.values() for file in files} if naming else ():
        for number, text in enumerate((root / file).read_text(encoding="utf-8").splitlines(), 1):
            found += lines.tests(file, range(number, number + 1)) if naming and naming.search(text) else []
    order = {name: (lines.seconds[name], name) for name in found}
    near = sorted(order, key=order.__getitem__)
    return near + [name for name in lines.tests(place.file, range(1, 2048)) if name not in order]


def chosen(tests: list[str], lines: Lines, seconds: float, file: float = 0.0) -> list[str]:
    """Return the tests that fit into some seconds, in an order in which fixtures of files serve more than one.

    Parameters
    ----------
    file
        Seconds that each file of tests takes beside its tests.
    """
    taken: list[str] = []
    left, files = seconds, set()
    for name in tests:
        left -= lines.seconds[name] + file * (name.partition("::")[0] not in files)
        if left < 0 and taken:
            break
        files.add(name.partition("::")[0])
        taken.append(name)
    order = list(dict.fromkeys(name.partition("::")[0] for name in taken))
    return taken[:10] + sorted(taken[10:], key=lambda name: order.index(name.partition("::")[0]))


def pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield code and its broken twin, down to the one that differs."""
    yield old, new
    mine, theirs = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    for one, other in zip(mine, theirs, strict=True):
        if one != other:
            yield from pairs(one, other)


def functions(root: Path, place: Place, living: Sequence[FunctionType]) -> tuple[list[FunctionType], CodeType | None]:
    """Return the functions that hold a place, of those there are, and the code that breaks them; none for an import."""
    path = root / place.file
    source = path.read_text(encoding="utf-8")
    old = compile(source, str(path), "exec", dont_inherit=True)
    new = compile(broken(source, place.number), str(path), "exec", dont_inherit=True)
    twins = list(pairs(old, new))
    if not twins[-1][0].co_flags & FUNCTION:
        return [], None
    first, code = next((one, other) for one, other in twins if one.co_flags & FUNCTION)
    return [one for one in living if one.__code__.co_filename == str(path) and one.__code__ == first], code


@dataclass(eq=False)
class Picked:
    """A plugin that runs some of the tests, in their order, and ends the process at the first that fails."""

    names: list[str]
    answer: int
    """Where the name of a test that fails is written."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that are wanted."""
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self.names if name in found]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """End the process where a file of tests cannot be imported."""
        if report.failed:
            self.end(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End the process where a test fails."""
        if report.failed:
            self.end(report.nodeid)

    def end(self, name: str) -> None:
        """Tell the name of a test, and end."""
        os.write(self.answer, name.encode())
        os._exit(1)


@dataclass(eq=False)
class Breaker:
    """The plugin that breaks one place after another where pytest would run the tests it collected."""

    root: Path
    given: argparse.Namespace
    lines: Lines
    trusted: dict[str, bool] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    stamp: int = 1_000_000_000

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Break the places and say of each what became of it."""
        self.items = {item.nodeid: item for item in session.items}
        drawn_places = drawn(self.root, self.given.count, self.given.seed, self.given.under)
        for name in {place.file.removesuffix(".py").removesuffix("/__init__") for place in drawn_places}:
            # Many are imported where they are needed only.
            importlib.import_module(name.replace("/", "."))
        below = tuple(f"{self.root}/{name}/" for name in SOURCES)
        self.functions = [one for one in gc.get_objects() if type(one) is FunctionType]
        self.functions = [one for one in self.functions if one.__code__.co_filename.startswith(below)]
        gc.freeze()
        for number, place in enumerate(drawn_places, 1):
            began = time.monotonic()
            word, how = self.judged(place)
            self.counts[word] += 1
            line = f"{number:>4} {word:<9} {place.file}:{place.line} {described(self.root, place)}"
            print(f"{line} ({how}, {time.monotonic() - began:.1f} s)", flush=True)
        print(", ".join(f"{self.counts[word]} {word}" for word in ("killed", "survived", "cut-off", "uncovered")))
        return True

    def judged(self, place: Place) -> tuple[str, str]:
        """Break one place and return what became of it, and by which test."""
        while True:
            tests = [name for name in tests_of(self.root, place, self.lines) if self.trusted.get(name, True)]
            tests = [name for name in tests if name in self.items]
            if not tests:
                return "uncovered", "no test"
            living = functions(self.root, place, self.functions)
            names = chosen(tests, self.lines, self.given.seconds, 0.0 if living[0] else IMPORTING)
            killer = self.shown(place, names, living)
            if killer is None:
                whole = len(names) == len(tests)
                return "survived" if whole else "cut-off", f"{len(names)} of {len(tests)} tests"
            if killer not in self.items or self.passes_unbroken(killer):
                return "killed", killer

    def passes_unbroken(self, name: str) -> bool:
        """Tell whether a test that noticed a break passes without one, in a fork as well."""
        if name not in self.trusted:
            self.trusted[name] = self.forked([name], [], None) is None
        return self.trusted[name]

    def shown(self, place: Place, names: list[str], living: tuple[list[FunctionType], CodeType | None]) -> str | None:
        """Break a place, run tests and mend it; return the test that noticed, if any."""
        path = self.root / place.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(ast.unparse(broken(whole, place.number)), encoding="utf-8")
        # Compiled files are told apart by size and time.
        self.stamp += 1
        os.utime(path, (self.stamp, self.stamp))
        try:
            return self.forked(names, *living) if living[0] else self.apart(names)
        finally:
            path.write_text(whole, encoding="utf-8")
            os.utime(path, (999_999_999, 999_999_999))

    def forked(self, names: list[str], living: list[FunctionType], code: CodeType | None) -> str | None:
        """Run tests in a fork, with the code of some functions replaced."""
        answer, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            self.limit(names)
            try:
                for one in living:
                    one.__code__ = code or one.__code__
                items = [self.items[name] for name in names]
                manager = items[0].config.pluginmanager
                manager.unregister(name="terminalreporter")
                manager.register(Picked(names, theirs))
                for item, later in zip(items, [*items[1:], None], strict=True):
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=later)
                os._exit(0)
            finally:
                os._exit(70)
        os.close(theirs)
        return self.ended(child, answer, names)

    def apart(self, names: list[str]) -> str | None:
        """Run tests in a process of its own, which imports what is broken."""
        answer, theirs = os.pipe()
        wanted = self.root / "picked.json"
        wanted.write_text(json.dumps({"names": names, "answer": theirs}), encoding="utf-8")
        words = [sys.executable, __file__, str(self.root), "--picked", str(wanted)]
        paths = {"PYTHONPATH": f"{os.environ['PYTHONPATH']}:{Path(__file__).parent}"}
        child = subprocess.Popen(words, pass_fds=[theirs], env=os.environ | paths, preexec_fn=lambda: self.limit(names))
        os.close(theirs)
        child.returncode = 0
        return self.ended(child.pid, answer, names)

    def patience(self, names: list[str]) -> int:
        """Return the seconds after which tests hang: well above what they and the imports of their files take."""
        files = len({name.partition("::")[0] for name in names})
        return round(30 + 3 * (sum(self.lines.seconds[name] for name in names) + IMPORTING * files))

    def limit(self, names: list[str]) -> None:
        """Make this process a session of its own that can neither say anything nor go on for ever."""
        os.setsid()
        seconds = self.patience(names)
        # Time of the processor, so that what else the machine does changes no figure.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)

    def ended(self, child: int, answer: int, names: list[str]) -> str | None:
        """Wait for a process and return the test that failed; one that hangs or dies is noticed too."""
        limit = time.monotonic() + 20 * self.patience(names)
        done, status = 0, 0
        while not done and time.monotonic() < limit:
            done, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        for _ in range(2):
            try:
                os.killpg(child, signal.SIGKILL)
            except ProcessLookupError:
                break
        if not done:
            status = os.waitpid(child, 0)[1]
        with open(answer, "rb") as file:
            os.set_blocking(answer, False)
            told = (file.read() or b"").decode()
        shutil.rmtree(self.root.parent / "scratch", ignore_errors=True)
        how = os.waitstatus_to_exitcode(status)
        if told or how == 0:
            return told or None
        return f"hangs ({how})" if how in (-signal.SIGXCPU, -signal.SIGKILL) else f"ends with {how}"


def described(root: Path, place: Place) -> str:
    """Return what stands in a place, in one line."""
    node = list(places(ast.parse((root / place.file).read_text(encoding="utf-8"))))[place.number]
    text = ast.unparse(node.test if isinstance(node, ast.If) else node)
    return f"[{type(node).__name__} {text[:70]}]"


def prepare(root: Path) -> None:
    """Load the heavy libraries, and make the tree the one that is imported."""
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", PYTHONSAFEPATH="1",
                      PYTHONPATH=f"{root}:{root}/tests/support:{root}/tests")  # fmt: skip
    sys.path[:0] = [str(root), str(root / "tests/support"), str(root / "tests")]
    sys.dont_write_bytecode = True
    os.chdir(root)
    for name in HEAVY:
        importlib.import_module(name)


def main() -> None:
    """Learn which tests execute what, break the places one by one, and count."""
    parser = argparse.ArgumentParser(description="Seeded breaks of the code, and how many the tests do not notice.")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--count", type=int, default=200, help="places to break; 0 only makes the map")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", nargs="+", default=list(SOURCES), help="folders whose code is broken")
    parser.add_argument("--tests", nargs="+", help="what to run for the map: files or folders of tests and sources")
    parser.add_argument("--seconds", type=float, default=60, help="time of the processor for the tests of one break")
    parser.add_argument("--map", type=Path, help="where the map is kept; it is made where there is none")
    parser.add_argument("--picked", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.picked:
        prepare(given.tree)
        picked = Picked(**json.loads(given.picked.read_text(encoding="utf-8")))
        files = list(dict.fromkeys(name.partition("::")[0] for name in picked.names))
        os._exit(int(pytest.main([*WORDS, f"--basetemp={given.tree.parent}/scratch", *files], [picked])))
    with tempfile.TemporaryDirectory() as folder:
        root, kept = Path(folder).resolve() / "main", (given.map or Path(folder) / "lines.json").resolve()
        copied(given.tree.resolve(), root)
        prepare(root)
        if given.tests or not kept.exists():
            in_fork(lambda: mapped(root, given, kept))
        lines = Lines.read(kept)
        took = sum(lines.seconds.values())
        print(f"{len(lines.seconds) - len(lines.left_out)} tests that pass, {took:.0f} s in all", flush=True)
        files = list(dict.fromkeys(name.partition("::")[0] for name in lines.masks))
        if given.count:
            pytest.main([*WORDS, f"--basetemp={folder}/scratch", *files], [Breaker(root, given, lines)])


def mapped(root: Path, given: argparse.Namespace, kept: Path) -> None:
    """Run the tests once, and write which of them executes which lines."""
    files = [str(path.relative_to(root)) for one in given.under for path in sorted((root / one).rglob("*.py"))]
    mapper = Mapper(root, files, kept, Lines.read(kept) if kept.exists() else Lines())
    pytest.main([*WORDS, f"--basetemp={root.parent}/scratch", *(given.tests or TESTS)], [mapper])
    (root / "sitecustomize.py").unlink()


def in_fork(function: Callable[[], None]) -> None:
    """Call a function in a fork, and end where it fails."""
    child = os.fork()
    if child == 0:
        function()
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("The tests could not be run.")


if __name__ == "__main__":
    main()
