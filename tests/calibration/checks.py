"""What is checked: every estimate with an interval and every finding of every audit, or a reason why not.

An audit's module in this package (named like its folder in audits/) holds `CALIBRATION`, found here by name. One
simulated data set answers for all checks of the audit at once.
"""

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Literal

import numpy as np

from audits.core import registry
from audits.core.records import Estimate
from calibration.worlds import LEVELS, UNITS, WORLDS

ROOT = Path(__file__).resolve().parents[2]
Kind = Literal["estimate", "finding", "power"]
NONE = "none"
"""The effect of a world in which nothing is to be found."""
FEW_UNITS = 6
ENOUGH = 100
"""Answers under which nothing is said of a cell."""
COVER = {0.5: (0.45, 0.40), 0.9: (0.87, 0.84), 0.95: (0.93, 0.90), 0.999: (0.993, 0.98)}
"""Least share of intervals that hold the truth, by level: with six units or more, and with fewer."""
FALSE = {0.5: 0.56, 0.9: 0.13, 0.95: 0.07, 0.999: 0.005}
"""Largest share of reports with a false finding of one kind, by level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row of the published table.

    Parameters
    ----------
    name
        Name of the estimate or id of the finding, with coordinates in brackets where the name alone says too little:
        `gap[kind=absolute,adjusted=no]`.
    kind
        "estimate": does the interval hold the truth? "finding": is it told where it is false, at most as often as 1
        less the level? "power": is it told where it is true?
    estimand
        What the number is of, or what the finding says, in a few words.
    family
        What a finding shares its chance of an error with, or over what an interval is simultaneous.
    effects
        The kinds of world in which there is a truth to hold it against.
    worlds
        The worlds that apply.
    says
        What the report says where the table is outside nominal; empty where nothing is outside, or nothing said.
    """

    name: str
    kind: Kind
    estimand: str
    family: str = "itself"
    effects: tuple[str, ...] = (NONE,)
    worlds: tuple[str, ...] = tuple(WORLDS)
    says: str = ""

    @property
    def key(self) -> str:
        """What the simulation calls its answer by."""
        return f"{self.name} found" if self.kind == "power" else self.name

    @property
    def id(self) -> str:
        """The name without coordinates."""
        return self.name.partition("[")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cell of the grid: the same for all checks of an audit."""

    world: str
    units: int
    level: float
    effect: str = NONE


Outcomes = Mapping[str, bool | None]
"""By key of a check: whether the interval held the truth, or whether the finding was told; None: refused, no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How an audit is calibrated.

    Parameters
    ----------
    checks
        What is checked.
    reasons
        Estimates and findings that are not, each with the reason.
    simulate
        (case, rng) -> outcomes, by public functions of the audit.
    effects
        The kinds of world beside `none` that it can make, each with what it is.
    grid
        The cells of the full table; None: all worlds, units and levels without an effect, and each effect at .95.
    full
        Simulations of a cell of the full table, by its units.
    quick
        The cells of the reduced one, and the simulations of each.
    worlds
        The worlds that have a meaning for the audit.
    """

    checks: tuple[Check, ...]
    reasons: Mapping[str, str]
    simulate: Callable[[Case, np.random.Generator], Outcomes]
    effects: Mapping[str, str]
    quick: tuple[tuple[Case, int], ...]
    grid: tuple[Case, ...] | None = None
    full: Callable[[Case], int] = lambda case: 400
    worlds: tuple[str, ...] = tuple(WORLDS)

    def cases(self) -> tuple[Case, ...]:
        """Return the cells of the full table."""
        if self.grid is not None:
            return self.grid
        null = [Case(world=w, units=u, level=c) for w in self.worlds for u in UNITS for c in LEVELS]
        more = [Case(world=w, units=u, level=0.95, effect=e) for e in self.effects for w in self.worlds for u in UNITS]
        return tuple(case for case in (*null, *more) if self.checks_of(case))

    def checks_of(self, case: Case) -> list[Check]:
        """Return what a cell answers for."""
        return [one for one in self.checks if case.world in one.worlds and case.effect in one.effects]


def audits() -> dict[str, str]:
    """Return the names of the built-in audits by folder.

    Examples
    --------
    >>> audits()["speaker_groups"]
    'audit-groups'
    """
    return {entry.target.partition(":")[0].removeprefix("audits."): entry.name for entry in registry.AUDITS}


@cache
def calibration(stem: str) -> Calibration:
    """Import how an audit, named by its folder, is calibrated."""
    found: Calibration = importlib.import_module(f"calibration.{stem}").CALIBRATION
    return found


def calibrated() -> list[str]:
    """Return the folders of the audits that are."""
    return [stem for stem in audits() if importlib.util.find_spec(f"calibration.{stem}") is not None]


def bound(kind: Kind, level: float, units: int) -> float | None:
    """Return the least share of intervals that hold, or the largest of false findings; None of power."""
    if kind == "power":
        return None
    return FALSE[level] if kind == "finding" else COVER[level][units < FEW_UNITS]


def holds(kind: Kind, case: Case, hits: int, answered: int) -> bool | None:
    """Tell whether a measured share is on the right side of its bound; None of power, and of too few answers.

    Examples
    --------
    >>> few, more = (Case(world="ties", units=units, level=0.95) for units in (5, 20))
    >>> holds("estimate", few, 364, 400), holds("estimate", more, 364, 400), holds("finding", more, 24, 400)
    (True, False, True)
    >>> holds("estimate", few, 9, 10) is None
    True
    """
    edge = bound(kind, case.level, case.units)
    if edge is None or answered < ENOUGH:
        return None
    return hits <= edge * answered if kind == "finding" else hits >= edge * answered


def error_of(hits: int, trials: int) -> float | None:
    """Return the Monte-Carlo error of a share: its standard error, taking one more of each kind for seen.

    So it is not 0 where all trials went the same way.
    """
    if trials == 0:
        return None
    share = (hits + 1) / (trials + 2)
    return sqrt(share * (1 - share) / trials)


def held(row: Estimate | None, truth: float) -> bool | None:
    """Tell whether an interval holds the truth; None where there is none."""
    if row is None or row.low is None or row.high is None:
        return None
    # A part in 10^9 of rounding is no miss: what is true is often an end, such as 0.
    return bool(row.low <= truth + 1e-9 and truth <= row.high + 1e-9)


@cache
def sources(stem: str) -> list[Path]:
    """Return the files of all code that a number of this audit rests on."""
    folders = [ROOT / "audits" / stem, ROOT / "audits" / "statistics", ROOT / "probes"]
    here = ROOT / "tests" / "calibration"
    files = sorted({*_python(folders), *(ROOT / "audits" / "core").glob("*.py")})
    return [*files, here / "worlds.py", here / "running.py", *sorted(here.glob(f"{stem}*.py"))]


@cache
def fingerprint(stem: str) -> str:
    """Return a hash of all code that a number of this audit rests on."""
    digest = hashlib.sha256()
    for file in sources(stem):
        digest.update(file.relative_to(ROOT).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _python(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from folder.rglob("*.py")
