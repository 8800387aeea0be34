"""Claims of a paper held against what miles finds: how they are judged, and what is published of it.

A script names a paper and its claims, each with what is measured of it and where the interval must lie for it to be
confirmed. `main` hands it the level of the intervals, judges what it found, and writes the table of the paper's page to
`docs/replications/`. Claims of one page share an error of 5 %: with m intervals each has the level 1 - 0.05 / m, so
that at most 1 of 20 pages has a false verdict, as far as the intervals hold their level.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "docs" / "replications"
STATE = ROOT / ".replications"
DATA = ROOT.parent / "shared" / "data"
ERROR = 0.05
"""Chance of a false verdict on a page."""
CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"


@dataclass(frozen=True, slots=True)
class Paper:
    """Whose claims they are."""

    title: str
    by: str
    arxiv: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, and what would confirm it here.

    Parameters
    ----------
    says
        The claim, in words of our own.
    source
        Where it stands: abstract, figure, code.
    measured
        What is measured of it here: quantity, model and data.
    above, below
        The interval must lie strictly between them for the claim to be confirmed, and entirely beyond one of them for
        it to be refuted.
    untried
        Why nothing is measured of it here, if so.
    """

    says: str
    source: str
    measured: str = ""
    above: float = -math.inf
    below: float = math.inf
    untried: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A value with its interval, of how many independent units, and its method; exact where `low = high`."""

    value: float
    low: float
    high: float
    n: int
    unit: str
    method: str

    @classmethod
    def exact(cls, value: float, n: int, unit: str, method: str) -> "Found":
        """Return a number without error of sampling."""
        return cls(value, value, value, n, unit, method)

    @classmethod
    def of(cls, estimate: Any) -> "Found":
        """Return an estimate of a report, by `estimate`, with its interval, or exact where it has none."""
        ends = (end if end is not None else estimate.value for end in (estimate.low, estimate.high))
        return cls(estimate.value, *ends, estimate.n, estimate.unit, estimate.method)


@dataclass(frozen=True, slots=True)
class Given:
    """What a script is given: the level of its intervals, whether it is a trial, and a folder that outlives a kill."""

    level: float
    trial: bool
    work: Path

    def size(self, full: int, trial: int) -> int:
        """Return one of two sizes."""
        return trial if self.trial else full


Measured = Callable[[Given], Mapping[str, Found]]


def verdict(claim: Claim, found: Found | None) -> str:
    """Judge a claim by where the interval lies.

    >>> better = Claim("", "", above=0)
    >>> [verdict(better, Found(0, low, high, 1, "", "")) for low, high in ((1, 2), (-2, -1), (-1, 1))]
    ['confirmed', 'refuted', 'undecided']
    """
    if found is None:
        return UNDECIDED
    if claim.above < found.low and found.high < claim.below:
        return CONFIRMED
    return REFUTED if found.high <= claim.above or found.low >= claim.below else UNDECIDED


def level_of(claims: Mapping[str, Claim]) -> float:
    """Return the level of each interval of a page."""
    return 1 - ERROR / max(1, sum(not claim.untried for claim in claims.values()))


def estimate(report: Any, name: str, **where: object) -> Any:
    """Return the one estimate of a report with a name and, among others, these coordinates."""
    asked = {key: str(value) for key, value in where.items()}
    named = [one for one in report.estimates if one.name == name]
    fitting = [one for one in named if asked.items() <= {key: str(value) for key, value in one.where.items()}.items()]
    if len(fitting) != 1:
        raise LookupError(f"{len(fitting)} estimates {name} {asked} of {[dict(one.where) for one in named[:9]]}")
    return fitting[0]


def mean_of(values: Sequence[float], level: float, unit: str) -> Found:
    """Return the mean of independent values with Student's interval."""
    import numpy as np
    from scipy import stats

    n = len(values)
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(n)
    reach = float(stats.t.ppf((1 + level) / 2, n - 1)) * error
    return Found(mean, mean - reach, mean + reach, n, unit, "mean, Student's interval")


def main(stem: str, paper: Paper, claims: Mapping[str, Claim], measured: Measured) -> None:
    """Measure, judge, print, and publish unless it is a trial."""
    parser = argparse.ArgumentParser(description=f"What miles finds of: {paper.title}")
    parser.add_argument("--trial", action="store_true", help="small sizes, to see whether it runs; publishes nothing")
    trial = parser.parse_args().trial
    work = STATE / (f"{stem}-trial" if trial else stem)
    work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MILES_CACHE", str(work / "cache"))
    began = time.process_time()
    found = measured(Given(level_of(claims), trial, work))
    tried = {name for name, claim in claims.items() if not claim.untried}
    if set(found) != tried:
        raise ValueError(f"Measured and claimed differ: {sorted(set(found) ^ tried)}")
    rows = [row_of(name, claim, found.get(name), level_of(claims)) for name, claim in claims.items()]
    for row in rows:
        print(f"{row['verdict']:<10} {row['name']}: {told(row)}")
    if not trial:
        file = PUBLISHED / f"{stem}.json"
        page = {"paper": asdict(paper), "made": made(time.process_time() - began), "claims": rows}
        file.write_text(json.dumps(page, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        print(f"Written: {file}")


def row_of(name: str, claim: Claim, found: Found | None, level: float) -> dict[str, Any]:
    """Return what is published of a claim."""
    wanted = {side: value for side in ("above", "below") if math.isfinite(value := getattr(claim, side))}
    words = {"says": claim.says, "source": claim.source, "measured": claim.measured, "untried": claim.untried}
    number = None if found is None else {**asdict(found), "level": None if found.low == found.high else level}
    return {"name": name, **words, "wanted": wanted, "found": number, "verdict": verdict(claim, found)}


def told(row: Mapping[str, Any]) -> str:
    """Return the number of a row for a terminal."""
    found = row["found"]
    if found is None:
        return str(row["untried"])
    span = "" if found["level"] is None else f" ({found['low']:.4g} to {found['high']:.4g})"
    return f"{found['value']:.4g}{span}, n = {found['n']} {found['unit']}, wanted {row['wanted']}"


def made(seconds: float) -> dict[str, Any]:
    """Return when and with what a page was measured."""
    revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    versions = {name: version(name) for name in ("torch", "numpy")}
    return {
        "revision": revision.stdout.strip(),
        "cpu_seconds": round(seconds),
        "python": platform.python_version(),
        **versions,
    }
