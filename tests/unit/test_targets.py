"""A target by its words: what the user's code needs, and who is blamed where it fails."""

from pathlib import Path

import pytest

from probes.core.errors import InputError
from probes.models.programs import find_callable
from probes.scaling.targets import open_target
from probes.scaling.workloads import Case, TargetSpec

MINE = """
def make(batch, n, width, device):
    from helper_of_targets import twice
    return twice

constant = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine_of_targets.py").write_text(MINE)
    (tmp_path / "helper_of_targets.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spec(source: str) -> TargetSpec:
    return TargetSpec(name="mine", kind="factory", source=source)


def test_a_callable_finds_its_neighbours_when_it_is_called(here: Path) -> None:
    target = open_target(spec("mine_of_targets:make"), allow_code=True)
    assert target.name == "mine"
    assert target.workload(Case(n=4, width=8)).run() is not None


def test_the_path_is_left_as_it_was(here: Path) -> None:
    import sys

    before = list(sys.path)
    find_callable("mine_of_targets:make")(1, 4, 8, "cpu")
    assert sys.path == before


def test_code_is_not_run_unasked(here: Path) -> None:
    (here / "evil_of_targets.py").write_text("raise SystemExit('ran')")
    with pytest.raises(InputError, match="is code") as caught:
        open_target(spec("evil_of_targets:make"), allow_code=False)
    assert (caught.value.where, "--allow-code" in caught.value.hint) == ("mine=evil_of_targets:make", True)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("mine_of_targets", "is not written as module:callable"),
        ("mine_of_targets:absent", "was not found"),
        ("absent_of_targets:make", "cannot be imported: ModuleNotFoundError"),
        ("mine_of_targets:constant", "is a int, which cannot be called"),
    ],
)
def test_the_factory_is_blamed(here: Path, source: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        open_target(spec(source), allow_code=True)
    assert caught.value.where == f"mine={source}"
    assert "f(batch, n, width, device)" in caught.value.hint


def test_a_built_in_module_is_opened() -> None:
    target = open_target(TargetSpec(name="attention", kind="built-in", source="attention"), allow_code=False)
    assert target.workload(Case(n=4, width=8)).run() is not None
