"""The records behind report.json, in the shape that the report schema fixes.

Every record is frozen, made of the standard library only, and turns into plain JSON and back without
loss. A number never stands alone: an `Estimate` carries its interval, its method and what was counted.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from audits.core.intervals import Ends
from audits.core.measures import UNDECLARED, Measure
from audits.core.measures import read as read_measure
from audits.core.plain_values import UNLESS_NONE, plain
from audits.core.registration import Registration

SCHEMA = "miles.report/1"

Json = dict[str, Any]
Coordinate = str | int | float
Severity = Literal["info", "low", "medium", "high"]

SEVERITIES: tuple[Severity, ...] = ("info", "low", "medium", "high")
"""From the mildest to the worst."""

HEADLINE_WORDS = 20
"""Most words of a headline."""
KEY_NUMBERS = 3
"""Most numbers on top of a page."""

UNBOUNDED_METHODS = ("exact", "none")
"""The only methods under which an estimate may have no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Ends):
    """One number with its interval.

    Parameters
    ----------
    name
        What was estimated; the contract of the command lists the names.
    value, low, high
        The point and the two ends of its interval. Rates are fractions. Both ends are None exactly where
        `method` is "exact" (nothing was sampled) or "none" (no interval can be had; a warning says why).
    level
        Confidence level of the interval.
    method
        How the interval was made, in words.
    n, unit
        How many independent units the number rests on, and what they are ("speakers", "clips").
    where
        The coordinates of the number: group, layer, task.
    measure
        What its audit declares of all estimates of this name; report.json has it once for all of them.

    Raises
    ------
    ValueError
        Where a value is not finite, the ends are reversed, or an interval is missing without the right to.

    Examples
    --------
    >>> rate = Estimate(name="rate", value=0.2, low=0.1, high=0.35, method="Wilson", n=40, unit="clips")
    >>> rate.high
    0.35
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    method: str
    n: int
    unit: str
    where: Mapping[str, Coordinate] = field(default_factory=dict)
    measure: Measure = field(default=UNDECLARED, compare=False, repr=False, metadata={"plain": False})

    def __post_init__(self) -> None:
        bounds = [end for end in (self.low, self.high) if end is not None]
        if not all(math.isfinite(number) for number in (self.value, *bounds)):
            raise ValueError(f"{self.name} {dict(self.where)}: a reported number must be finite")
        if len(bounds) == 1 or (not bounds and self.method not in UNBOUNDED_METHODS):
            raise ValueError(f"{self.name} {dict(self.where)}: method {self.method!r} needs both ends")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"{self.name} {dict(self.where)}: low {self.low} is above high {self.high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the evidence carries, in words.

    Parameters
    ----------
    headline
        The answer in one sentence of at most `HEADLINE_WORDS` words, with one number and its interval.
    statement
        What the answer rests on.
    how_sure
        Method and corrections; empty where interval and method of the evidence say it all.
    evidence
        Indices into the report's estimates; the number of the headline comes first.
    """

    id: str
    severity: Severity
    statement: str
    headline: str = ""
    how_sure: str = ""
    where: Mapping[str, Coordinate] = field(default_factory=dict)
    evidence: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """The headline; of a finding without one, as in reports of earlier versions, the first sentence."""
        return self.headline or first_sentence(self.statement)

    @property
    def rest(self) -> str:
        """The statement without what the title says already."""
        return self.statement if self.headline else self.statement.removeprefix(self.title).strip()

    @property
    def whole(self) -> str:
        """Headline and statement, where both stand in one text."""
        return " ".join(filter(None, (self.headline, self.statement)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNumber:
    """A number that stands on top of a page: the index of its estimate, and what it is, for people."""

    row: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an estimate is held to show once all that were judged with it count: its index, and that in words."""

    row: int
    shown: bool
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the question of a run, for who reads nothing else.

    Parameters
    ----------
    title
        One sentence of at most `HEADLINE_WORDS` words that the intervals carry.
    numbers
        At most `KEY_NUMBERS` numbers that it rests on.
    may, may_not
        What may be reported of this run, and what may not, a sentence each.
    verdicts
        What each estimate of a matrix is held to show, where its own interval does not decide that.
    next_step
        What can be done about the worst finding; empty where nothing is said.
    """

    title: str
    numbers: tuple[KeyNumber, ...] = ()
    may: tuple[str, ...] = ()
    may_not: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    next_step: str = ""

    @classmethod
    def from_json(cls, data: Json) -> "Answer":
        """Build the record again from its JSON."""
        numbers = tuple(KeyNumber(**number) for number in data["numbers"])
        return cls(
            title=data["title"],
            numbers=numbers,
            may=tuple(data["may"]),
            may_not=tuple(data["may_not"]),
            # Absent in reports of earlier versions.
            verdicts=tuple(Verdict(**verdict) for verdict in data.get("verdicts", ())),
            next_step=data.get("next_step", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """Something the reader must know about a number, or about one that is missing."""

    id: str
    message: str
    where: Mapping[str, Coordinate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart as a Vega-Lite specification with its data inside; `file` is the stem under figures/."""

    id: str
    title: str
    caption: str
    file: str
    spec: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Items that were left out for one reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """What of the used items is a group's: counts by their unit, such as speakers, clips and words."""

    group: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many items were given, used and skipped; the three always add up.

    `groups` says how much of them is of whom, for audits of groups; all have the same units in the same order.
    """

    given: int
    used: int
    skipped: tuple[Skipped, ...] = ()
    groups: tuple[GroupCounts, ...] = ()

    def __post_init__(self) -> None:
        left_out = sum(item.count for item in self.skipped)
        if self.used + left_out != self.given:
            raise ValueError(f"coverage does not add up: {self.used} used + {left_out} skipped != {self.given}")


def _portable(path: str) -> str:
    """Return a path with slashes, so that runs of one file compare across systems."""
    return path if os.sep == "/" else path.replace(os.sep, "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The model that was audited."""

    path: str
    family: str
    sha256: str
    parameters: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _portable(self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A data file or folder that went in, and its part in the audit."""

    role: str
    path: str
    sha256: str
    items: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _portable(self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """A `--fail-if` expression, its outcome, and the rows of the estimates that it was evaluated on.

    `registered` says whether it was registered before the run; None where the run cites no registration.
    """

    expression: str
    outcome: Literal["pass", "fail"]
    rows: tuple[int, ...]
    registered: bool | None = field(default=None, metadata=UNLESS_NONE)

    def __bool__(self) -> bool:
        """Tell whether the gate passed, so that `assert` and `if` ask for what was meant."""
        return self.outcome == "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What it takes to repeat the run, and what it cost; the only part that differs between equal runs.

    `begun` is when a run that was interrupted and resumed first began, ISO 8601, UTC; None of other runs.
    """

    miles: str
    python: str
    packages: Mapping[str, str]
    platform: str
    device: str
    dtype: str
    threads: int
    seed: int
    command: tuple[str, ...]
    seconds: Mapping[str, float]
    begun: str | None = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole report; report.json is this record and nothing else."""

    audit: str
    title: str
    question: str
    created: str
    subject: Subject | None
    data: tuple[Source, ...]
    settings: Mapping[str, Any]
    estimates: tuple[Estimate, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[Warning, ...]
    limitations: tuple[str, ...]
    coverage: Coverage
    gates: tuple[GateResult, ...]
    figures: tuple[Figure, ...]
    provenance: Provenance
    answer: Answer | None = None
    registration: Registration | None = field(default=None, metadata=UNLESS_NONE)

    def to_json(self) -> Json:
        """Return plain JSON values; tuples become lists, and the schema's name goes in."""
        values: Json = plain(self)
        measures = {row.name: row.measure.public() for row in self.estimates if row.measure.name}
        if not self.coverage.groups:
            # Of an audit without groups there is nothing to say, and an empty list would say that there are none.
            del values["coverage"]["groups"]
        return {"schema": SCHEMA, **values, "measures": measures}

    @classmethod
    def from_json(cls, data: Json, declared: Mapping[str, Measure] = MappingProxyType({})) -> "Report":
        """Build the record again from what `to_json` gave; the caller has checked the schema.

        `declared` is what the audit of this installation says of its estimates.
        """
        subject = data["subject"]
        names = {row["name"] for row in data["estimates"]}
        stated = data.get("measures", {})
        measures = {
            name: read_measure(name, stated.get(name), declared.get(name))
            if name in stated or name in declared
            else UNDECLARED
            for name in names
        }
        return cls(
            audit=data["audit"],
            title=data["title"],
            question=data["question"],
            created=data["created"],
            subject=Subject(**subject) if subject else None,
            data=tuple(Source(**row) for row in data["data"]),
            settings=data["settings"],
            estimates=tuple(Estimate(**row, measure=measures[row["name"]]) for row in data["estimates"]),
            findings=tuple(Finding(**_tupled(row, "evidence")) for row in data["findings"]),
            warnings=tuple(Warning(**row) for row in data["warnings"]),
            limitations=tuple(data["limitations"]),
            coverage=_coverage(data["coverage"]),
            gates=tuple(GateResult(**_tupled(row, "rows")) for row in data["gates"]),
            figures=tuple(Figure(**row) for row in data["figures"]),
            provenance=Provenance(**_tupled(data["provenance"], "command")),
            answer=Answer.from_json(data["answer"]) if data.get("answer") else None,
            registration=Registration(**data["registration"]) if "registration" in data else None,
        )


def first_sentence(text: str) -> str:
    """Return the first sentence of a text.

    >>> first_sentence("The gap is 0.2 (0.1 to 0.3). It is large.")
    'The gap is 0.2 (0.1 to 0.3).'
    """
    end = re.search(r"[.!?](?=\s+[^\sa-z0-9])", text)
    return text[: end.end()] if end else text


def _tupled(row: Json, key: str) -> Json:
    return {**row, key: tuple(row[key])}


def _coverage(data: Json) -> Coverage:
    return Coverage(
        given=data["given"],
        used=data["used"],
        skipped=tuple(Skipped(**row) for row in data["skipped"]),
        groups=tuple(GroupCounts(**row) for row in data.get("groups", ())),
    )
