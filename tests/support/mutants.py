"""Break the code in one place after another and see whether the tests notice: `python tests/support/mutants.py TREE`.

The places are drawn by a seed, so that two revisions can be compared: how many breaks survive the tests that import the
package that was broken, of as many drawn. Nothing is written into the tree itself: each break is made in a copy.
"""

import argparse
import ast
import importlib
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
WHERE = ("unit", "planted", "oracle")
"""Folders of the tests that are run; those of the command line take too long for hundreds of breaks."""


HEAVY = (
    "numpy",
    "torch",
    "scipy.stats",
    "pandas",
    "sklearn.linear_model",
    "transformers",
    "hypothesis",
    "h5py",
)


@dataclass(frozen=True)
class Place:
    """A place that can be broken: the file, the number of the place in it, and the line."""

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


def broken(source: str, number: int) -> str:
    """Return source with one place changed."""
    tree = ast.parse(source)
    node = list(places(tree))[number]
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value = node.value + 1
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
    return ast.unparse(ast.fix_missing_locations(tree))


def drawn(root: Path, count: int, seed: int, under: Sequence[str]) -> list[Place]:
    """Return places below some folders, drawn without replacement."""
    found = []
    for path in sorted(path for folder in under for path in (root / folder).rglob("*.py")):
        for number, node in enumerate(places(ast.parse(path.read_text(encoding="utf-8")))):
            found.append(Place(str(path.relative_to(root)), number, getattr(node, "lineno", 0)))
    return random.Random(seed).sample(found, min(count, len(found)))


def tests_of(root: Path, file: str) -> list[str]:
    """Return the module, for its doctests, then the tests that name it, then those that name its package."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package = ".".join(module.split(".")[:2])
    direct, near = [], []
    for folder in WHERE:
        for path in sorted((root / "tests" / folder).glob("test_*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(rf"\b{re.escape(module)}\b", text):
                direct.append(str(path.relative_to(root)))
            elif re.search(rf"\b{re.escape(package)}\b", text):
                near.append(str(path.relative_to(root)))
    return [file, *direct, *near]


def prepare(root: Path) -> None:
    """Load the heavy libraries once: each break is tested in a fork, which need not load them again."""
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", PYTHONSAFEPATH="1",
                      PYTHONPATH=f"{root}:{root}/tests/support:{root}/tests")  # fmt: skip
    sys.path[:0] = [str(root), str(root / "tests/support"), str(root / "tests")]
    sys.dont_write_bytecode = True
    os.chdir(root)
    for name in HEAVY:
        importlib.import_module(name)


def run_tests(words: list[str], seconds: int) -> None:
    """Run pytest in this process, which becomes a session of its own, and end the process with its status."""
    os.setsid()
    # Time of the processor, so that what else the machine does changes no figure.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    status = 70
    try:
        status = int(pytest.main(words))
    finally:
        os._exit(status)


def survives(root: Path, place: Place, seconds: int) -> tuple[bool, str]:
    """Break one place in the copy, run its tests and mend it; return whether they passed, and how it ended."""
    path = root / place.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(broken(whole, place.number), encoding="utf-8")
    try:
        child = os.fork()
        if child == 0:
            run_tests(
                ["-x", "-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", *tests_of(root, place.file)],
                seconds,
            )
        limit = time.monotonic() + 20 * seconds
        done = 0
        while not done and time.monotonic() < limit:
            done, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.05)
        if not done:
            os.killpg(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
        ended = os.waitstatus_to_exitcode(status)
        if ended in (-signal.SIGKILL, -signal.SIGXCPU):
            # What takes far longer than the tests of the package may hang on the break, or the tests are long.
            return True, f"not noticed within {seconds} s"
        if ended not in (0, 1, 2):
            raise RuntimeError(f"The tests of {place.file} could not be run: {ended}.")
        return ended == 0, f"exit {ended}"
    finally:
        path.write_text(whole, encoding="utf-8")


def main() -> None:
    """Break the places one by one and say which breaks survive."""
    parser = argparse.ArgumentParser(description="Seeded breaks of the code, and how many the tests do not notice.")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", nargs="+", default=["audits"])
    parser.add_argument("--seconds", type=int, default=120, help="time of the processor for the tests of one break")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, source = Path(folder) / "main", given.tree.resolve()
        shutil.copytree(source, root, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "site"))
        if (source / "../shared").exists():
            (Path(folder) / "shared").symlink_to((source / "../shared").resolve())
        prepare(root)
        left = []
        for at, place in enumerate(drawn(root, given.count, given.seed, given.under), 1):
            began = time.monotonic()
            passed, how = survives(root, place, given.seconds)
            left += [place] if passed else []
            word = "SURVIVES" if passed else "noticed"
            print(f"{at:>4} {word:<8} {place.file}:{place.line} ({how}, {time.monotonic() - began:.0f} s)", flush=True)
        print(f"{len(left)} of {given.count} breaks survive")


if __name__ == "__main__":
    main()
