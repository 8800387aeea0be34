"""The counts of the audit: one number a length where it is counted, one a round and length where it is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.scaling.growth_claims import Law
from audits.scaling.growth_counts import count_exponent
from audits.scaling.growth_fits import Growth, seconds_excess, seconds_exponent

Floats = NDArray[np.float64]
LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One quantity of one target by length.

    Parameters
    ----------
    lengths
        Rising.
    values
        Shape (rounds, lengths), a single row of what is counted; NaN where a cell is missing.
    counted
        Whether the numbers are exact.
    """

    lengths: tuple[int, ...]
    values: Floats
    counted: bool

    @property
    def n(self) -> Floats:
        """Lengths as numbers."""
        return np.asarray(self.lengths, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedLength:
    """A length of a target that was not used, and why."""

    target: str
    n: int
    reason: str
    timing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """How quiet the machine was: rounds by the reference kernel, spread of cells, and of wall by processor time."""

    contended: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Calls of operators without a formula, by operator, and all calls, at the longest length asked for."""

    operators: Mapping[str, int]
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was counted and measured.

    Parameters
    ----------
    curves
        By target, quantity and what was varied: length, width, batch or length=width.
    asked
        Lengths that the user asked for; counts go beyond them.
    claims
        Laws by target and quantity.
    mode
        Empty of a table.
    allocated
        Bytes of storages that the decode state keeps alive, where they were counted.
    on_real
        Targets that were counted on real tensors, and why.
    """

    targets: tuple[str, ...]
    asked: tuple[int, ...]
    curves: Mapping[tuple[str, str, str], Curve]
    claims: Mapping[tuple[str, str], Law]
    tolerance: float
    mode: str = "forward"
    allocated: Mapping[str, Curve] = field(default_factory=dict)
    skipped_lengths: Sequence[SkippedLength] = ()
    uncounted: Mapping[str, Uncounted] = field(default_factory=dict)
    on_real: Mapping[str, str] = field(default_factory=dict)
    contention: Contention | None = None
    cells: Sequence[Mapping[str, object]] = ()
    _growths: dict[tuple[str, str, str], Growth] = field(default_factory=dict, repr=False, compare=False)

    def growth(self, target: str, quantity: str, *, level: float, seed: int, claimed: bool = False) -> Growth | None:
        """Return the exponent of a curve, or that in excess of its claim; it is computed once."""
        law, curve = self.claims.get((target, quantity)), self.curve(target, quantity)
        if curve is None or (claimed and law is None):
            return None
        key = (target, quantity, "claim" if claimed else "")
        if key not in self._growths:
            self._growths[key] = _growth(curve, law if claimed else None, level, seed)
        return self._growths[key]

    def curve(self, target: str, quantity: str, variable: str = LENGTH) -> Curve | None:
        """Return a curve, or None."""
        return self.curves.get((target, quantity, variable))


def settled(curve: Curve) -> Curve:
    """Return a curve that is the same in every round as one that was counted; another as it is."""
    known = np.where(np.isnan(curve.values), np.nanmax(curve.values, 0), curve.values)
    same = bool((known == known[0]).all())
    return Curve(lengths=curve.lengths, values=known[:1], counted=True) if same else curve


def _growth(curve: Curve, law: Law | None, level: float, seed: int) -> Growth:
    if curve.counted:
        return count_exponent(curve.n, curve.values[0], law)
    if law is None:
        return seconds_exponent(curve.n, curve.values, level=level, seed=seed)
    return seconds_excess(curve.n, curve.values, law, level=level, seed=seed)
