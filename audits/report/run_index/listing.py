"""Runs below a folder, each read as far as an overview needs: what was audited, the answer, and the gates.

A report may be large. Its charts are not read, and its estimates only where a gate looks at them: both stand in blocks
that `report.json` ends at a line of its own. A file in another layout is read as a whole.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audits.core.gates import abridged
from audits.core.records import SEVERITIES, Severity, first_sentence
from audits.core.registration import standing
from audits.report.report_file import NAME

MOST_RUNS = 10_000
"""Most runs that are listed; those found first."""
MOST_BYTES = 400_000_000
"""Size of a report above which it is not read."""
MOST_PARSED, MOST_ROW = 64_000_000, 1_000_000
"""Bytes that are parsed at once, of a report without its blocks and of one estimate: they grow many times by it."""
MOST_GATES, MOST_LOOKED = 1000, 8
"""Gates of which the estimates are read, and estimates of one gate."""
DEEPEST = 8
"""Folders below the one given in which runs are looked for."""
BLOCKS = (("estimates", "figures"), ("figures", "findings"))
"""The largest parts of a report, each with the key that follows it, since miles sorts them."""


@dataclass(frozen=True, slots=True)
class Gated:
    """The estimate that decided a gate: the largest or smallest that it looked at, with its interval."""

    name: str
    where: Mapping[str, Any]
    value: float
    low: float | None
    high: float | None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate of a run, and the first estimates that it looked at."""

    expression: str
    passed: bool
    rows: tuple[Gated, ...] = ()
    registered: bool | None = None


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
        """The gates in a word; those registered before the run, and those added later, by themselves.

        >>> Run(folder="a", audit="x", subject="m", created="", answer="", worst=None).state
        'no gates'
        """
        kinds = [(kind, [gate for gate in self.gates if gate.registered is kind]) for kind in (None, True, False)]
        parts = [(standing(kind, short=True), gates) for kind, gates in kinds if gates]
        return "; ".join(f"{kind}: {_passed(gates)}" if kind else _passed(gates) for kind, gates in parts) or "no gates"

    def holds(self, text: str) -> bool:
        """Tell whether a text stands in what is shown of the run."""
        return text.casefold() in " ".join((self.folder, self.audit, self.subject, self.answer)).casefold()


def _passed(gates: Sequence[Gate]) -> str:
    failed = sum(not gate.passed for gate in gates)
    return f"{failed} of {len(gates)} failed" if failed else f"{len(gates)} passed"


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
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, OSError) as error:
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
    text = path.read_bytes()
    head, blocks = _without_blocks(text)
    if len(head) > MOST_PARSED:
        raise ValueError(f"more than {MOST_PARSED:,} bytes of it are no estimates or charts")
    data = _parsed(head)
    if data["schema"] != "miles.report/1":
        raise ValueError("this is no report of miles")
    gates = data["gates"]
    looked = [gate["rows"][:MOST_LOOKED] if at < MOST_GATES else [] for at, gate in enumerate(gates)]
    last = max((row for rows in looked for row in rows), default=-1)
    estimates = _Estimates(data["estimates"], text, blocks.get("estimates"), last)
    severities = {str(finding["severity"]) for finding in data["findings"]}
    return Run(
        folder=folder,
        audit=str(data["audit"]),
        subject=_subject(data),
        created=str(data["created"]),
        answer=_answer(data),
        worst=next((one for one in reversed(SEVERITIES) if one in severities), None),
        gates=tuple(
            _gate(gate, rows, estimates, data.get("measures", {})) for gate, rows in zip(gates, looked, strict=True)
        ),
    )


def _without_blocks(text: bytes) -> tuple[str, dict[str, slice]]:
    """Return a report without its largest blocks, and where these are, as far as it is laid out as miles writes it.

    The blocks stay bytes and are not copied: that would take longer than all else.
    """
    blocks: dict[str, slice] = {}
    parts = []
    at = 0
    for name, follower in BLOCKS:
        start = text.find(b'\n "%s": [\n' % name.encode(), at)
        # A line break in a string is written as \\n, so that this is found at the end of the block alone.
        end = text.find(b'\n ],\n "%s": [' % follower.encode(), start)
        if start < 0 or end < 0:
            continue
        opening = text.index(b"[", start) + 1
        blocks[name] = slice(opening, end)
        parts += [text[at:opening], b"]"]
        at = end + 3
    return b"".join([*parts, text[at:]]).decode("utf-8"), blocks


class _Estimates:
    """The estimates of a report; of a block only those are parsed that are asked for, up to the last one that is."""

    def __init__(self, read: Sequence[Any], text: bytes, block: slice | None, last: int) -> None:
        self._read = read
        # Each row of a block ends at a line of its own, since miles writes one space for each level.
        self._rows = None if block is None or last < 0 else text[block].split(b"\n  },\n", last + 1)

    def __getitem__(self, index: int) -> Any:
        if self._rows is None:
            return self._read[index]
        if len(self._rows[index]) > MOST_ROW:
            raise ValueError(f"an estimate takes more than {MOST_ROW:,} bytes")
        text = self._rows[index].decode("utf-8").removesuffix("\n  }")
        return _parsed(f"{text}\n  }}")


def _parsed(text: str) -> Any:
    data = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    if "\\u" in text:
        # An escape may be a lone surrogate, which can be written into no page.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    return data


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    # 1e999 is a number of JSON and no number that miles writes.
    return float(text) if math.isfinite(float(text)) else _refuse(text)


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


def _gate(gate: Mapping[str, Any], looked: Sequence[int], estimates: _Estimates, measures: Mapping[str, Any]) -> Gate:
    rows = tuple(_gated(estimates[row], measures) for row in looked)
    registered = gate.get("registered")
    known = registered if isinstance(registered, bool) else None
    return Gate(abridged(str(gate["expression"])), gate["outcome"] == "pass", rows, known)


def _gated(row: Mapping[str, Any], measures: Mapping[str, Any]) -> Gated:
    low, high = (None if row[key] is None else float(row[key]) for key in ("low", "high"))
    name = str(row["name"])
    label = str(measures[name]["label"]) if name in measures else ""
    return Gated(name, dict(row["where"]), float(row["value"]), low, high, label)
