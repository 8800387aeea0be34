"""Break the code in one place after another and see whether the tests notice: `python tests/support/mutants.py TREE`.

The places are drawn by a seed, so that two revisions can be compared: how many breaks survive the tests that import the
package that was broken, of as many drawn. Nothing is written into the tree itself: each break is made in a copy.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
WHERE = ("unit", "planted", "oracle")
"""Folders of the tests that are run; those of the command line take too long for hundreds of breaks."""


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


def drawn(root: Path, count: int, seed: int, under: str) -> list[Place]:
    """Return places below a folder, drawn without replacement."""
    found = []
    for path in sorted((root / under).rglob("*.py")):
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


def survives(root: Path, place: Place, seconds: int) -> tuple[bool, str]:
    """Break one place in the copy, run its tests and mend it; return whether they passed, and how it ended."""
    path = root / place.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(broken(whole, place.number), encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        *tests_of(root, place.file),
    ]
    settings = {**os.environ, "PYTHONPATH": f"{root}:{root}/tests/support:{root}/tests", "HF_HUB_OFFLINE": "1",
                "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    try:
        done = subprocess.run(words, cwd=root, env=settings, capture_output=True, timeout=seconds)
        return done.returncode == 0, f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        # What takes far longer than the tests of the package may hang on the break, or the tests are long.
        return True, f"not noticed within {seconds} s"
    finally:
        path.write_text(whole, encoding="utf-8")


def main() -> None:
    """Break the places one by one and say which breaks survive."""
    parser = argparse.ArgumentParser(description="Seeded breaks of the code, and how many the tests do not notice.")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", default="audits")
    parser.add_argument("--seconds", type=int, default=120, help="time for the tests of one break")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "main"
        shutil.copytree(given.tree, root, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "site"))
        if (given.tree / "../shared").exists():
            (Path(folder) / "shared").symlink_to((given.tree / "../shared").resolve())
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
