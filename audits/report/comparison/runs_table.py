"""What each run is: its number, name and date, what changed in it, and what else differs between the runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from audits.core.numbers import percent
from audits.report.comparison import wording
from audits.report.comparison.apart import parted
from audits.report.comparison.comparing import Comparison

LONGEST = 24
"""Letters of a run's name over its column; of a longer one the end is shown."""


@dataclass(frozen=True, slots=True)
class Side:
    """A run as it is named beside the matrix; `changes` is empty of the first."""

    number: int
    name: str
    short: str
    date: str
    changes: str


def sides(comparisons: Sequence[Comparison]) -> list[Side]:
    """Return all runs, the first one as number 1."""
    runs = [comparisons[0].before, *(found.after for found in comparisons)]
    brief = ["", *map(wording.brief, comparisons)]
    return [
        Side(at, run.name, short, run.report.created[:10], words)
        for at, (run, short, words) in enumerate(zip(runs, _short([run.name for run in runs]), brief, strict=True), 1)
    ]


def _short(names: Sequence[str]) -> list[str]:
    """Return the ends of paths that tell the runs apart.

    >>> _short(["runs/a", "runs/b"]), _short(["x/a", "y/a"])
    (['a', 'b'], ['x/a', 'y/a'])
    """
    parts = [PurePath(name.removesuffix("/report.json")).parts or (name,) for name in names]
    deepest = max(map(len, parts))
    kept = next((at for at in range(1, deepest) if len({part[-at:] for part in parts}) == len(set(names))), deepest)
    found = ["/".join(part[-kept:]).replace("//", "/") for part in parts]
    return [name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}" for name in found]


def differences(comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
    """Return what the runs differ in, as pairs of a word and its text: each value with the runs that have it."""
    if len(comparisons) == 1:
        return wording.differences(comparisons[0])
    values: dict[tuple[str, str], list[object]] = {}
    for at, found in enumerate(comparisons, 1):
        for word, name, old, new in wording.facts(found):
            values.setdefault((word, name), [old] * (len(comparisons) + 1))[at] = new
    kinds: dict[str, list[str]] = {}
    for (word, name), every in values.items():
        runs: dict[str, list[int]] = {}
        for number, text in enumerate(parted(every), 1):
            runs.setdefault(text, []).append(number)
        spelt = (f"{text} ({_runs(numbers)})" for text, numbers in runs.items())
        kinds.setdefault(word, []).append(f"{name} {', '.join(spelt)}".strip())
    return [(word, "; ".join(texts)) for word, texts in kinds.items()]


def notes(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the notes on the changes, each once with the runs that it holds for."""
    runs: dict[str, list[int]] = {}
    for number, found in enumerate(comparisons, 2):
        for text in () if found.same else wording.notes(found):
            runs.setdefault(text, []).append(number)
    every = sum(not found.same for found in comparisons)
    tests = sum(row.p is not None for found in comparisons for row in found.rows)
    notes = [
        text if len(numbers) == every else f"{_runs(numbers).capitalize()}: {text}" for text, numbers in runs.items()
    ]
    notes += wording.counts(comparisons)
    if tests:
        level = percent(comparisons[0].level)
        notes.append(f"p-values are corrected by Holm over {tests:,} tests; each {level} interval stands on its own.")
    return notes


def _runs(numbers: Sequence[int]) -> str:
    return f"{'run' if len(numbers) == 1 else 'runs'} {ranges(numbers)}"


def ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers in short.

    >>> ranges([2, 3, 4, 7]), ranges([2, 3]), ranges([])
    ('2 to 4, 7', '2, 3', '')
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    parts = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in found)
    return ", ".join(parts)
