"""One change: an estimate before and after, its interval, and a p-value of no change."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from audits.core.measures import Measure
from audits.core.numbers import is_bound, is_sampled
from audits.core.records import Coordinate, Estimate, Report
from audits.report.comparison.renaming import OPTION, Renames, translated
from audits.statistics.differences import independent_difference
from audits.statistics.multiplicity import adjust
from probes.core.errors import InputError

NO_WIDTH = "the interval of one run has no width"

Where = tuple[tuple[str, Coordinate], ...]
Interval = tuple[float, float, float]
"""Value, low, high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An estimate before and after; the difference is after minus before, None where it has no interval.

    Parameters
    ----------
    values
        Before and after; over the matched records only where the change is paired.
    p, p_holm
        Two-sided p-value of no change, alone and after Holm over all rows compared; None where nothing is tested.
    matched
        Records that both runs hold and those that one of them holds, where the change is paired by record.
    why
        Why it is not paired, or has no interval at all; empty where it is paired, and of an exact number.
    """

    name: str
    where: Where
    before: Estimate
    after: Estimate
    values: tuple[float, float]
    difference: Interval | None
    p: float | None = None
    p_holm: float | None = None
    matched: tuple[int, int] | None = None
    why: str = ""

    @property
    def exact(self) -> bool:
        """Tell whether nothing was sampled, before or after."""
        return not is_sampled(self.before) and not is_sampled(self.after)

    @property
    def verdict(self) -> str:
        """Return the verdict: "changed", "unclear", "same" (on every record or exactly), or "no interval"."""
        if self.difference is None:
            return "no interval"
        if self.exact:
            return "changed" if self.difference[0] else "same"
        if self.matched and self.difference == (0.0, 0.0, 0.0):
            return "same"
        # The tolerance keeps rounding of 1 - level from deciding a tie.
        return "changed" if self.p_holm is not None and self.p_holm <= 1 - self.before.level + 1e-12 else "unclear"

    @property
    def moved(self) -> float:
        """Value after less value before."""
        return self.values[1] - self.values[0] if self.difference is None else self.difference[0]

    @property
    def measure(self) -> Measure:
        """The measure that the audit declares for the estimate."""
        return self.before.measure

    @property
    def is_worse(self) -> bool:
        """Tell whether the value became worse, for estimates with a direction."""
        if self.measure.worse == "away":
            return self._grown > 0
        return (self.measure.worse == "up" and self.moved > 0) or (self.measure.worse == "down" and self.moved < 0)

    @property
    def _grown(self) -> float:
        return self.measure.distance(self.values[1]) - self.measure.distance(self.values[0])

    @property
    def can_be_judged(self) -> bool:
        """Tell whether a change of this estimate can be a regression: it has a direction and an interval."""
        return self.measure.worse is not None and self.difference is not None

    @property
    def is_regression(self) -> bool:
        """Tell whether the estimate became worse, shown after Holm's correction or exactly."""
        return self.verdict == "changed" and self.is_worse and self._distance_holds()

    @property
    def is_improvement(self) -> bool:
        """Tell whether the estimate became better, shown after Holm's correction or exactly."""
        better = self._grown < 0 if self.measure.worse == "away" else self.can_be_judged and self.moved != 0
        return self.verdict == "changed" and better and not self.is_worse

    def _distance_holds(self) -> bool:
        """Tell whether a signed gap that changed sides also grew beyond chance, since it moved further than it grew."""
        sides = [value - (self.measure.neutral or 0.0) for value in self.values]
        turned = self.measure.worse == "away" and sides[0] * sides[1] < 0
        if not turned or self.difference is None or self.p is None or self.p_holm is None:
            return True
        value, low, high = self.difference
        rest = value - math.copysign(self._grown, value)
        p = p_of((value - rest, low - rest, high - rest), self.before.level)
        return p * (self.p_holm / self.p if self.p else 1.0) <= 1 - self.before.level + 1e-12


def key_of(row: Estimate, renames: Renames = MappingProxyType({})) -> tuple[str, Where]:
    """Return the key of an estimate that is the same in another run: its name and its sorted coordinates.

    Values that have another name there are translated: `renames` holds the old names by the new ones.
    """
    where = ((key, translated(value, renames) if isinstance(value, str) else value) for key, value in row.where.items())
    return row.name, tuple(sorted(where, key=lambda item: item[0]))


def in_both(before: Report, after: Report, renames: Renames = MappingProxyType({})) -> list[tuple[Estimate, Estimate]]:
    """Return the estimates that both reports hold and whose change can be judged.

    Raises
    ------
    InputError
        Where two estimates of the second report would be one by their new names.
    """
    later: dict[tuple[str, Where], Estimate] = {}
    for row in after.estimates:
        if later.setdefault(key_of(row, renames), row) is not row:
            old = next(iter(set(renames.values()) & set(map(str, row.where.values())) or renames.values()))
            raise InputError(
                f"The later run has a {old!r} of its own: two of its numbers would be matched with one.",
                where=OPTION,
                hint=f"Match that too, or leave {old!r} out.",
            )
    compared = (row for row in before.estimates if row.measure.compared)
    found = ((row, later.get(key_of(row))) for row in compared)
    return [(row, other) for row, other in found if other is not None and not (_is_shown(row) or _is_shown(other))]


def _is_shown(row: Estimate) -> bool:
    """Tell whether a number is what one sample sufficed to show, whose change says nothing about the models."""
    return is_bound(row) and is_sampled(row)


def unmatched(
    before: Report, after: Report, renames: Renames = MappingProxyType({})
) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
    """Return the estimates of the first report only, and those of the second only."""
    first = {key_of(row): row for row in before.estimates}
    second = {key_of(row, renames): row for row in after.estimates}
    return (
        tuple(row for key, row in first.items() if key not in second),
        tuple(row for key, row in second.items() if key not in first),
    )


def independent(before: Estimate, after: Estimate, *, why: str = "") -> Change:
    """Return the change of an estimate from its two intervals alone, as if the runs shared nothing.

    An interval of a sampled number that has no width gives none of the change.
    """
    difference = _difference(before, after)
    name, where = key_of(before)
    change = Change(
        name=name,
        where=where,
        before=before,
        after=after,
        values=(before.value, after.value),
        difference=difference,
        why=why,
    )
    if difference is None:
        return replace(change, why=NO_WIDTH if can_be_tested(before, after) else "")
    if change.exact:
        return replace(change, why="")
    return replace(change, p=p_of(difference, before.level))


def can_be_tested(before: Estimate, after: Estimate) -> bool:
    """Tell whether a change can be tested: something was sampled, both methods give intervals, and levels are equal."""
    methods = before.method, after.method
    return (is_sampled(before) or is_sampled(after)) and "none" not in methods and before.level == after.level


def _difference(before: Estimate, after: Estimate) -> Interval | None:
    ends = []
    for row in (before, after):
        if row.method == "none" or row.level != before.level:
            return None
        # A number that was not sampled, such as a proved bound, is known exactly, and so is its change.
        low, high = row.low, row.high
        if low is None or high is None or not is_sampled(row):
            low, high = row.value, row.value
        if low >= high and is_sampled(row):
            # An interval without width, from replicates that never varied, must not pass for certainty.
            return None
        # An estimate may lie outside its own simultaneous interval only by rounding.
        ends.append((row.value, min(low, row.value), max(high, row.value)))
    return independent_difference(ends[0], ends[1])


def p_of(difference: Interval, level: float) -> float:
    """Return the two-sided p-value of no change, by a normal whose spread is that of the interval's side towards zero.

    It is below 1 - level exactly where the interval leaves zero out.

    Examples
    --------
    >>> round(p_of((1.96, 0.0, 9.0), 0.95), 3), p_of((0.0, -1.0, 1.0), 0.95)
    (0.05, 1.0)
    """
    from scipy.special import ndtr, ndtri

    value, low, high = difference
    room = value - low if value > 0 else high - value
    if value == 0 or room == 0:
        return float(value == 0)
    return float(2 * ndtr(-abs(value) / room * ndtri((1 + level) / 2)))


def corrected(rows: Iterable[Change]) -> list[Change]:
    """Return the changes with their p-values after Holm over all that are tested."""
    rows = list(rows)
    tested = [index for index, row in enumerate(rows) if row.p is not None]
    for index, p in zip(tested, adjust([rows[index].p or 0.0 for index in tested], "holm"), strict=True):
        rows[index] = replace(rows[index], p_holm=p)
    return rows


def ranked(rows: Iterable[Change]) -> list[Change]:
    """Sort changes: proven ones first, then those with a better and worse direction, then the largest."""
    return sorted(rows, key=lambda row: (row.verdict != "changed", not row.can_be_judged, -abs(row.moved)))
