"""Runs of the command line in a process where torch, torchaudio and transformers cannot be imported.

As a script: `without_torch.py absent|forbidden FOLDER` reads runs from stdin, a JSON list of words each, and prints how
each ended. `absent`: the packages are not there. `forbidden`: they look installed, and importing them is an error.
"""

import importlib.machinery
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("torch", "torchaudio", "transformers", "torchvision")


class Barrier:
    """A finder that stands before all others."""

    def __init__(self, *, absent: bool) -> None:
        self._absent = absent

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        if self._absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        raise AssertionError(f"{spec.name} is imported")

    def exec_module(self, module: ModuleType) -> None:
        raise AssertionError(f"{module.__name__} is imported")


def main(kind: str, folder: Path, runs: Sequence[list[str]]) -> None:
    """Carry out the runs, one after the other, and print their outcomes as JSON."""
    barrier: Any = Barrier(absent=kind == "absent")
    sys.meta_path.insert(0, barrier)
    from small_world import call

    outcomes = [call(words, folder) for words in runs]
    json.dump([[one.code, one.out] for one in outcomes], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.load(sys.stdin))
