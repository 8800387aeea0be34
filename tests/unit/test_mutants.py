"""The program that breaks code: the map of lines and tests, with other processes, and what becomes of a break."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from covered_lines import Lines

TOOL = Path(__file__).parents[1] / "support/mutants.py"
SOURCE = """
LIMIT = 3


def within(number):
    return number < LIMIT


def either(left, right):
    return left and right


def nobody(number):
    return number * number


def elsewhere(number):
    return number - number
"""
TESTS = """
import subprocess
import sys

from probes import sums


def test_within():
    assert sums.within(2) and not sums.within(3)


def test_either():
    assert sums.either(True, True)


def test_another_process():
    words = [sys.executable, "-c", "from probes.sums import elsewhere; assert elsewhere(7) == 0"]
    subprocess.run(words, check=True)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what became of each place of a small tree, by its text."""
    tree = tmp_path_factory.mktemp("mutants") / "tree"
    for name, text in (("probes/__init__.py", ""), ("probes/sums.py", SOURCE), ("tests/test_sums.py", TESTS)):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    # Without the heavy libraries, which this tree does not need: they take longer than all that is tested.
    light = f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); import mutants; mutants.HEAVY = (); mutants.main()"
    words = [sys.executable, "-c", light, str(tree), "--under", "probes", "--tests", "tests"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tree)
    found = re.findall(r"^ *\d+ ([a-z-]+) +\S+ \[\w+ (.*?)\] \(", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {text: word for word, text in found}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("number < LIMIT", "killed"),
        ("left and right", "survived"),
        ("number * number", "uncovered"),
        ("number - number", "killed"),
    ],
)
def test_a_break_is_shown_to_the_tests_that_execute_it(told: dict[str, str], text: str, word: str) -> None:
    assert told[text] == word


def test_what_only_an_import_executes_is_shown_to_the_tests_of_its_users(told: dict[str, str]) -> None:
    assert told["3"] == "killed"


def test_a_map_gives_the_quickest_first_and_comes_back_from_its_file(tmp_path: Path) -> None:
    lines = Lines({"a": 2.0, "b": 1.0, "c": 0.5}, {"a": {"x.py": 6}, "b": {"x.py": 4}, "c": {"x.py": 4}}, {"c"})
    lines.write(tmp_path / "map.json")
    assert Lines.read(tmp_path / "map.json") == lines
    assert lines.tests("x.py", range(2, 3)) == ["b", "a"]
    assert lines.tests("x.py", range(1, 2)) == ["a"]
    assert lines.tests("y.py", range(1, 3)) == []
