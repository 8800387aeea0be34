"""Runs below a folder, each read as far as an overview needs: what was audited, the answer, and the gates.

A report may be large. Its charts are not read, and its estimates only where a gate looks at them: both stand in blocks
that `report.json` ends at a line of its own. A file in another layout is read as a whole.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audits.core.gates import abridged
from audits.core.records import SEVERITIES, Severity, first_sentence
from audits.report.report_file import NAME

MOST_RUNS = 10_000
"""Most runs that are listed; those found first."""
MOST_BYTES = 400_000_000
"""Size of a report above which it is not read."""
DEEPEST = 8
"""Folders below the one given in which runs are looked for."""
BLOCKS = ("estimates", "figures")


@dataclass(frozen=True, slots=True)
class Gated:
    """The estimate that decided a gate: the largest or smallest that it looked at, with its interval."""

    name: str
    where: Mapping[str, Any]
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate of a run, and the estimates that it looked at."""

    expression: str
    passed: bool
    rows: tuple[Gated, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One finished run.

    Parameters
    ----------
    folder
        Relative to the folder that was listed.
    subject
        What was audited: the model, or else the first source of data.
    answer
        One sentence.
    worst
        The gravest severity of its findings; None without any.
    """

    folder: str
    audit: str
    subject: str
    created: str
    answer: str
    worst: Severity | None
    gates: tuple[Gate, ...] = ()

    @property
    def named(self) -> str:
        """The end of the subject's path.

        >>> Run(folder="a", audit="x", subject="/data/models/m", created="", answer="", worst=None).named
        'models/m'
        """
        return "/".join(Path(self.subject).parts[-2:]).lstrip("/")

    @property
    def failed(self) -> int:
        """Gates that failed."""
        return sum(not gate.passed for gate in self.gates)

    @property
    def state(self) -> str:
        """The gates in a word.

        >>> Run(folder="a", audit="x", subject="m", created="", answer="", worst=None).state
        'no gates'
        """
        if not self.gates:
            return "no gates"
        return f"{self.failed} of {len(self.gates)} failed" if self.failed else f"{len(self.gates)} passed"

    def holds(self, text: str) -> bool:
        """Tell whether a text stands in what is shown of the run."""
        return text.casefold() in " ".join((self.folder, self.audit, self.subject, self.answer)).casefold()


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs below a folder, the newest first, and the reports that could not be read, with the reason."""

    root: Path
    runs: tuple[Run, ...]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


def list_runs(root: Path) -> Listing:
    """Read all runs below a folder, which may itself be one."""
    runs: list[Run] = []
    unreadable: dict[str, str] = {}
    cut = False
    for path in _reports(root):
        if len(runs) + len(unreadable) == MOST_RUNS:
            cut = True
            break
        folder = os.path.relpath(path.parent, root)
        try:
            runs.append(read_run(path, folder))
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, OSError) as error:
            unreadable[folder] = f"{type(error).__name__}: {error}"[:200]
    runs.sort(key=lambda run: (run.created, run.folder), reverse=True)
    return Listing(root, tuple(runs), unreadable, cut)


def _reports(root: Path) -> Iterator[Path]:
    """Yield the reports below a folder in the order of their paths; of a linked folder its own only."""
    if (root / NAME).is_file():
        yield root / NAME
        return
    for folder, names, _ in os.walk(root):
        here = Path(folder)
        deeper = []
        for name in sorted(names):
            below = here / name
            if (below / NAME).is_file():
                yield below / NAME
            elif not below.is_symlink() and len(below.relative_to(root).parts) < DEEPEST and not name.startswith("."):
                deeper.append(name)
        names[:] = deeper


def read_run(path: Path, folder: str) -> Run:
    """Read what an overview needs of one report.

    Raises
    ------
    ValueError, KeyError, TypeError
        Where it is no report.
    """
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"the report is larger than {MOST_BYTES:,} bytes")
    text = path.read_text(encoding="utf-8")
    head, blocks = _without_blocks(text)
    data = json.loads(head, parse_constant=_refuse)
    if data["schema"] != "miles.report/1":
        raise ValueError("this is no report of miles")
    gates = data["gates"]
    estimates = _Estimates(data["estimates"], blocks.get("estimates"))
    severities = {str(finding["severity"]) for finding in data["findings"]}
    return Run(
        folder=folder,
        audit=str(data["audit"]),
        subject=_subject(data),
        created=str(data["created"]),
        answer=_answer(data),
        worst=next((one for one in reversed(SEVERITIES) if one in severities), None),
        gates=tuple(_gate(gate, estimates) for gate in gates),
    )


def _without_blocks(text: str) -> tuple[str, dict[str, str]]:
    """Return a report without its largest blocks, and these, where it is laid out as miles writes it."""
    blocks: dict[str, str] = {}
    for name in BLOCKS:
        start = text.find(f'\n "{name}": [\n')
        end = text.find("\n ],\n", start)
        if start < 0 or end < 0:
            continue
        opening = text.index("[", start)
        blocks[name] = text[opening : end + 3]
        text = f"{text[:opening]}[]{text[end + 3 :]}"
    return text, blocks


class _Estimates:
    """The estimates of a report; of a block only those are parsed that are asked for."""

    def __init__(self, read: Sequence[Any], block: str | None) -> None:
        self._read = read
        # Each row of a block ends at a line of its own, since miles writes one space for each level.
        self._texts = None if block is None else block[1:-3].split("\n  },\n")

    def __getitem__(self, index: int) -> Any:
        if self._texts is None:
            return self._read[index]
        text = self._texts[index]
        return json.loads(text if index + 1 == len(self._texts) else f"{text}\n  }}", parse_constant=_refuse)


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _subject(data: Mapping[str, Any]) -> str:
    if data["subject"]:
        return str(data["subject"]["path"])
    return str(data["data"][0]["path"]) if data["data"] else ""


def _answer(data: Mapping[str, Any]) -> str:
    if data.get("answer"):
        return str(data["answer"]["title"])
    order = {name: place for place, name in enumerate(SEVERITIES)}
    found = sorted(data["findings"], key=lambda finding: -order[finding["severity"]])
    if not found:
        return "Nothing was found that the estimates would carry."
    return str(found[0].get("headline") or first_sentence(str(found[0]["statement"])))


def _gate(gate: Mapping[str, Any], estimates: _Estimates) -> Gate:
    rows = tuple(_gated(estimates[row]) for row in gate["rows"])
    return Gate(abridged(str(gate["expression"])), gate["outcome"] == "pass", rows)


def _gated(row: Mapping[str, Any]) -> Gated:
    ends = [None if row[key] is None else float(row[key]) for key in ("low", "high")]
    return Gated(str(row["name"]), dict(row["where"]), float(row["value"]), *ends)
