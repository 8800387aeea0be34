"""Do the settings of every run of tests leave tests what they prove?"""

import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from process_state import GRAMMARS

SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.mark.parametrize(("address", "right"), [("https://größe.example/ä", True), ("https://a b", False)])
def test_addresses_beyond_ascii_are_judged_by_the_package_that_is_loaded_late(address: str, right: bool) -> None:
    validator = Draft202012Validator({"format": "iri"}, format_checker=FormatChecker())
    # Where it is not installed, jsonschema judges none.
    assert validator.is_valid(address) is (right or PathFinder.find_spec(GRAMMARS) is None)


def test_an_example_in_a_docstring_is_run_and_a_file_without_one_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text('def two():\n    """Return 2.\n\n    >>> two()\n    3\n    """\n    return 2\n')
    (tmp_path / "plain.py").write_text("raise RuntimeError\n")
    (tmp_path / "text.txt").write_text(">>> 1 + 1\n2\n")
    command = [sys.executable, "-m", "pytest", "-p", "process_state", "--doctest-modules", "--doctest-glob=*.txt"]
    env = {**os.environ, "PYTHONPATH": str(SUPPORT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, "-q", "-c", "/dev/null", "."], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout
