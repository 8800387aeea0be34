"""Quick runs of the small world, and what two equal ones have in common."""

import csv
import json
from pathlib import Path
from typing import Any

from small_world import BY_GENDER, ONE_EACH

QUICK = {**ONE_EACH, "audit-fairness": BY_GENDER}


def to(words: list[str], folder: Path) -> list[str]:
    """Return the words of a run with another folder."""
    return [*words[:-1], str(folder)]


def report(folder: Path) -> dict[str, Any]:
    """Return what two equal runs have in common."""
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name not in ("created", "provenance")}


def records(folder: Path) -> list[dict[str, str]]:
    """Return the records without the seconds that one audit gives of each."""
    with (folder / "records.csv").open(newline="", encoding="utf-8") as file:
        return [{name: cell for name, cell in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def same(folder: Path, other: Path) -> None:
    """Fail unless two finished runs hold the same numbers and nothing is left of the work."""
    assert report(folder) == report(other)
    assert records(folder) == records(other)
    assert not (folder / "state").exists()
    assert not list(folder.rglob(".part-*"))
