"""Measures: what an audit declares of each of its estimates, beside its options.

From a declaration come the names and keys that a gate may use, what `miles compare` calls better or worse, the
reference line of a glyph, how a number is written, its label, and the key `measures` of report.json.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Worse = Literal["up", "down", "away"]
Written = Literal["interval", "probability", "down", "given"]


@dataclass(frozen=True, slots=True)
class Measure:
    """The declaration of one estimate: its name, its coordinates and what its values mean.

    Parameters
    ----------
    name
        As in report.json and in gates.
    keys
        Every key that `where` of such an estimate can have.
    label
        What a person reads instead of the name.
    unit
        What its n counts as a rule, such as speakers.
    worse
        In which direction it gets worse: "up", "down", or "away" from `neutral` on either side; None: no opinion.
    neutral
        The value at which nothing was found: 0 of a difference, 1 of a ratio, 0.5 of a coin.
    apart
        Keys that change what the number measures, so that two of them share no axis.
    compared
        Whether its change from one run to another says something of what was audited. Not of evidence such as a
        p-value.
    written
        How it is rounded: by its interval, as a probability (up), down as a bound that was proved, or as it was given.
    ends
        The least and the largest value that it can have, between which it is drawn; None: as far as the numbers reach.
    gated
        Whether a gate may rest on it; not on a number that a worse model can have the better of.

    Raises
    ------
    ValueError
        Where `worse` or `written` is no such word, there is nothing to move away from, or `apart` names no key.

    Examples
    --------
    >>> gap = Measure("gap", ("by", "kind"), "gap in error rate", unit="speakers", worse="away", neutral=0.0)
    >>> gap.distance(-0.25), gap.public()["worse"]
    (0.25, 'away')
    """

    name: str
    keys: tuple[str, ...] = ()
    label: str = ""
    unit: str = ""
    worse: Worse | None = None
    neutral: float | None = None
    apart: tuple[str, ...] = ()
    compared: bool = True
    written: Written = "interval"
    ends: tuple[float, float] | None = None
    gated: bool = True

    def __post_init__(self) -> None:
        for what, value, known in (
            ("worse", self.worse, (*get_args(Worse), None)),
            ("written", self.written, get_args(Written)),
        ):
            if value not in known:
                raise ValueError(f"{self.name}: {what} is one of {', '.join(map(repr, known))}, not {value!r}")
        if self.worse == "away" and self.neutral is None:
            raise ValueError(f"{self.name}: worse is away from a neutral value, and there is none")
        if not set(self.apart) <= set(self.keys):
            raise ValueError(f"{self.name}: {', '.join(self.apart)} are not all among its keys")

    def distance(self, value: float) -> float:
        """Return how bad a value is (larger is worse), for a measure that has a direction."""
        if self.worse == "away":
            return abs(value - (self.neutral or 0.0))
        return -value if self.worse == "down" else value

    def public(self) -> dict[str, Any]:
        """Return the part of the measure that report.json holds."""
        return {"label": self.label or self.name, "worse": self.worse, "neutral": self.neutral, "unit": self.unit}


SHARE = (0.0, 1.0)
"""Ends of a share, an accuracy or an AUC."""

UNDECLARED = Measure("")
"""The measure of an estimate that no audit declares."""


def by_name(measures: Iterable[Measure]) -> dict[str, Measure]:
    """Return measures by their names.

    Raises
    ------
    ValueError
        Where two have one name.
    """
    found: dict[str, Measure] = {}
    for measure in measures:
        if found.setdefault(measure.name, measure) is not measure:
            raise ValueError(f"two measures are named {measure.name}")
    return found


def read(name: str, data: Mapping[str, Any] | None, declared: Measure | None) -> Measure:
    """Return the measure of a stored estimate: what its report states, and the rest as the audit declares it.

    Examples
    --------
    >>> stored = {"label": "share of blanks", "worse": "up", "neutral": None, "unit": "answers"}
    >>> read("blank_rate", stored, None).worse
    'up'
    """
    base = declared or UNDECLARED
    if data is None:
        return base
    stated = {key: data[key] for key in ("label", "worse", "neutral", "unit")}
    # Raises OverflowError for an integer beyond the floats; reading the report refuses that.
    stated["neutral"] = None if stated["neutral"] is None else float(stated["neutral"])
    if stated["worse"] == "away" and stated["neutral"] is None:
        stated["worse"] = None
    return Measure(
        name=name,
        keys=base.keys,
        apart=base.apart,
        compared=base.compared,
        written=base.written,
        ends=base.ends,
        gated=base.gated,
        **stated,
    )
