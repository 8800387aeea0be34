"""Which simulations are run, how they are kept over interruptions, and what is published of them.

Every cell of an audit's grid is split into batches of `BATCH` data sets. A batch has a seed of its own, made from its
name, so that results do not hang on how many processes there are or on what was run before; it is kept in a file of
its own as soon as it is done, so that a run can be killed at any moment. Kept batches count as long as the code that
they rest on is the same.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from calibration.checks import NONE, ROOT, Case, audits, bound, calibration, error_of, fingerprint, holds, sources
from calibration.worlds import LEVELS, UNITS, WORLDS

BATCH = 10
STATE = ROOT / ".calibration"
PUBLISHED = ROOT / "docs" / "calibration"
Row = dict[str, Any]
Tally = dict[str, list[int]]
"""By key of a check: data sets, hits, refusals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some data sets of one cell of one audit."""

    audit: str
    case: Case
    number: int
    size: int = BATCH

    @property
    def name(self) -> str:
        """What it is called, and what its seed is made from."""
        case = self.case
        return f"{self.audit}/{case.effect}/{case.world}/{case.units}/{case.level}/{self.number}x{self.size}"

    @property
    def seed(self) -> int:
        """A seed of its own."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big")

    def file(self, state: Path) -> Path:
        """Return where its result is kept."""
        return state / self.audit / fingerprint(self.audit) / f"{self.seed:016x}.json"


def batches(audit: str, *, full: bool, levels: Sequence[float] | None = None, most: int | None = None) -> list[Batch]:
    """Return the batches of the full or of the reduced table, those of one cell one after another.

    Those of some `levels`, or of `most` data sets a cell at the most, are the first of the same batches.
    """
    found = calibration(audit)
    cells = [(case, found.full(case)) for case in found.cases()] if full else found.quick
    cells = [(case, min(n, most or n)) for case, n in cells if levels is None or case.level in levels]
    sizes = [(case, [BATCH] * (n // BATCH) + ([n % BATCH] if n % BATCH else [])) for case, n in cells]
    return [
        Batch(audit=audit, case=case, number=number, size=size)
        for case, each in sizes
        for number, size in enumerate(each)
    ]


def lacking(todo: Sequence[Batch], folder: Path = PUBLISHED, *, renew: bool = False) -> list[Batch]:
    """Return the batches of cells of which fewer data sets than these are published.

    Where `renew`, what was published by other code than today's counts for nothing.
    """
    sizes: dict[Case, int] = {}
    for batch in todo:
        sizes[batch.case] = sizes.get(batch.case, 0) + batch.size
    there: dict[tuple[str, Case], int] = {}
    for stem in {batch.audit for batch in todo}:
        file = folder / f"{stem}.json"
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.is_file() else []
        for row in rows:
            case = Case(world=row["world"], units=row["units"], level=row["level"], effect=row["effect"])
            n = 0 if renew and by_other_code(row["revision"], stem) else row["n"]
            there[stem, case] = min(there.get((stem, case), n), n)
    return [batch for batch in todo if there.get((batch.audit, batch.case), 0) < sizes[batch.case]]


@cache
def by_other_code(revision: str, stem: str) -> bool:
    """Tell whether an audit, the statistics or its simulation were others at a revision; also where that is unknown."""
    own = (ROOT / "audits" / stem, ROOT / "audits" / "statistics", ROOT / "tests" / "calibration")
    files = [file for file in sources(stem) if any(file.is_relative_to(folder) for folder in own)]
    paths = [str(file.relative_to(ROOT)) for file in files if file.name != Path(__file__).name]
    try:
        return bool(_git("diff", "--name-only", revision, "--", *paths))
    except (OSError, subprocess.CalledProcessError):
        return True


def tally(batch: Batch) -> Tally:
    """Simulate a batch and count, for every check, what came out."""
    found = calibration(batch.audit)
    checks = found.checks_of(batch.case)
    counts: Tally = {check.key: [0, 0, 0] for check in checks}
    rng = np.random.default_rng(batch.seed)
    for _ in range(batch.size):
        outcomes = found.simulate(batch.case, rng)
        for key, count in counts.items():
            outcome = outcomes.get(key)
            count[0] += 1
            count[1] += outcome is True
            count[2] += outcome is None
    return counts


def kept(batch: Batch, state: Path) -> Tally | None:
    """Return the result of a batch that was run before with the same code; None where there is none."""
    try:
        found: Tally = json.loads(batch.file(state).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def run_batch(batch: Batch, state: Path) -> Tally:
    """Return the result of a batch, and keep it; in one step, so that half a file is never read."""
    found = kept(batch, state)
    if found is not None:
        return found
    counts, file = tally(batch), batch.file(state)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(counts), encoding="utf-8")
    part.replace(file)
    return counts


def run(
    todo: Sequence[Batch], state: Path, workers: int, done: Callable[[Case, int], None] = lambda case, n: None
) -> dict[Case, Tally]:
    """Run batches side by side and return the sums of every cell; `done` is told when one is complete."""
    left: dict[Case, int] = {}
    for batch in todo:
        left[batch.case] = left.get(batch.case, 0) + 1
    sums: dict[Case, Tally] = {}
    for batch, counts in _results(todo, state, workers):
        into = sums.setdefault(batch.case, {})
        for key, count in counts.items():
            into[key] = [old + new for old, new in zip(into.get(key, [0, 0, 0]), count, strict=True)]
        left[batch.case] -= 1
        if not left[batch.case]:
            done(batch.case, max(count[0] for count in into.values()) if into else 0)
    return sums


def _results(todo: Sequence[Batch], state: Path, workers: int) -> Iterator[tuple[Batch, Tally]]:
    if workers < 2:
        yield from ((batch, run_batch(batch, state)) for batch in todo)
        return
    # Not by forking: what the parent has loaded may hold locks.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run_batch, batch, state): batch for batch in todo}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def rows_of(audit: str, sums: dict[Case, Tally], revision: str) -> list[Row]:
    """Return one row for every check of every cell."""
    rows = []
    for case, counts in sums.items():
        for check in calibration(audit).checks_of(case):
            n, hits, refused = counts[check.key]
            answered = n - refused
            share = hits / answered if answered else None
            target = None if check.kind == "power" else case.level if check.kind == "estimate" else 1 - case.level
            error = error_of(hits, answered)
            rows.append(
                {
                    "name": check.name,
                    "kind": check.kind,
                    **asdict(case),
                    "target": None if target is None else round(target, 6),
                    "bound": bound(check.kind, case.level, case.units),
                    "n": n,
                    "hits": hits,
                    "share": None if share is None else round(share, 4),
                    "error": None if error is None else round(error, 4),
                    "refused": round(refused / n, 4),
                    "holds": holds(check.kind, case, hits, answered),
                    "revision": revision,
                }
            )
    return rows


def key_of(row: Row) -> tuple[Any, ...]:
    """Return what tells a row from all others, in the order of the page."""
    places = (("none", "estimate", "finding", "power").index(row["kind"]), row["name"])
    return (*places, row["effect"] != NONE, row["effect"], _at(WORLDS, row["world"]), row["units"], row["level"])


def _at(names: Any, name: str) -> int:
    return list(names).index(name) if name in names else len(names)


def publish(audit: str, rows: Sequence[Row], folder: Path = PUBLISHED, *, renew: bool = False) -> Path:
    """Write the table of an audit; rows of more simulations that stand there already are kept.

    Rows of checks and worlds that are no more are dropped, and where `renew`, those of other code than today's as soon
    as there is a new one.
    """
    file = folder / f"{audit}.json"
    found = calibration(audit)
    known = {(check.name, check.kind, effect) for check in found.checks for effect in check.effects}
    old = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.is_file() else []
    merged = {key_of(row): row for row in old if (row["name"], row["kind"], row["effect"]) in known}
    for row in rows:
        if (row["name"], row["kind"], row["effect"]) not in known:
            continue
        there = merged.get(key_of(row))
        if there is None or there["n"] <= row["n"] or (renew and by_other_code(there["revision"], audit)):
            merged[key_of(row)] = row
    checks = [
        {"name": one.name, "kind": one.kind, "estimand": one.estimand, "family": one.family, "says": one.says}
        for one in found.checks
    ]
    head = {
        "audit": audits()[audit],
        "worlds": WORLDS,
        "effects": dict(found.effects),
        "units": UNITS,
        "levels": LEVELS,
        "checks": checks,
        "reasons": dict(found.reasons),
    }
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(_text(head, [merged[key] for key in sorted(merged)]), encoding="utf-8")
    return file


def _text(head: Row, rows: Sequence[Row]) -> str:
    """Write JSON with one row a line, so that a change can be read."""
    lines = [
        f'  "{key}": {json.dumps(value, indent=1).replace(chr(10), chr(10) + "  ")},' for key, value in head.items()
    ]
    listed = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    return "\n".join(["{", *lines, f'  "rows": [\n{listed}\n  ]', "}"]) + "\n"


def revision() -> str:
    """Return which revision of the repository this is; `-dirty` where the code that numbers rest on is another."""
    try:
        name = _git("describe", "--always", "--abbrev=10", "--exclude=*").strip()
        changed = _git("status", "--porcelain", "--", "audits", "probes", "tests/calibration")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}-dirty" if changed else name


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
