"""Is a wrong command refused: in one panel that says what is wrong and the mend, and with nothing written?"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 123456\n"
HTML = "<!DOCTYPE html>\n<html><head><title>404</title></head><body>Not found</body></html>\n"
Words = list[Any]
Case = Callable[[Any, Path], Words]


class Table(dict[str, tuple[Case, tuple[str, ...]]]):
    """Wrong inputs by name: what makes each of what is right, in an empty folder, and what its panel must hold."""

    def add(self, name: str, says: str | tuple[str, ...], make: Case) -> None:
        """Register a wrong input; a part that begins with `not: ` must be absent from its panel."""
        assert name not in self, f"two wrong inputs are named {name}"
        self[name] = (make, (says,) if isinstance(says, str) else says)

    def case(self, *says: str) -> Callable[[Case], Case]:
        """Return what registers a function under its own name."""

        def register(make: Case) -> Case:
            self.add(make.__name__, says, make)
            return make

        return register

    def names(self, **unmended: str) -> list[Any]:
        """Return the names, as parameters of a test; with them, those that are not refused well yet, and why."""
        assert unmended.keys() <= self.keys()
        marks = {name: pytest.mark.xfail(strict=True, reason=why) for name, why in unmended.items()}
        return [pytest.param(name, marks=marks.get(name, ())) for name in sorted(self)]


@contextmanager
def nothing_runs() -> Iterator[None]:
    """Let a case that wrongly passes its checks end at once instead of running the audit."""
    from audits.core import registry, runner

    def refuse(*_: Any) -> None:
        raise AssertionError("the wrong input was not noticed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "carry_out", refuse)
        patch.setattr(runner, "carry_out_part", refuse)
        # What other packages add is looked for many times in each call, and is of no matter here.
        patch.setattr(registry, "entry_points", lambda **_: ())
        yield


def told(outcome: Any) -> str:
    """Return what the panel says, in one line."""
    return " ".join(outcome.err.replace("│", " ").split())


def one_panel(outcome: Any, *says: str, code: int = 2) -> None:
    """Fail unless a call ended in one panel that says this, and in no other noise."""
    assert outcome.code == code, (outcome.code, outcome.err)
    # A panel of typer, on options that are no options or have no value, has neither place nor mend.
    usage = re.search(r"│ (Option|No such|Missing|Got|Invalid value)", outcome.err) is not None
    assert outcome.err.count("╭─ Error ─") == 1, outcome.err
    assert "Traceback" not in outcome.err and "an error of its own" not in outcome.err, outcome.err
    assert outcome.out == ""
    assert usage or " fix: " in outcome.err, outcome.err
    assert usage or " where: " in outcome.err or code != 2, outcome.err
    # No panel fills the screen, or changes it.
    assert len(outcome.err) < 8000 and "\x1b" not in outcome.err
    # A long path is broken across lines of the panel.
    text = told(outcome).replace(" ", "").casefold()
    for part in says:
        wanted = part.removeprefix("not: ")
        assert (wanted.replace(" ", "").casefold() in text) is (wanted == part), (part, outcome.err)


def everything(*folders: Path) -> list[tuple[str, int]]:
    """Return what lies in folders, and when each was last written."""
    # Thousands of tests ask for it twice: with the paths of pathlib it took a third of their time.
    found: list[tuple[str, int]] = []
    left: list[str | Path] = list(folders)
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                found.append((entry.path, entry.stat(follow_symlinks=False).st_mtime_ns))
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
    return sorted(found)
