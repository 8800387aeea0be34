"""Records of two runs matched by key, and intervals of the changes over the matched records.

An estimate that is a ratio of two sums over records, or the area under a curve of scores, moves with each record by a
known amount. The differences of these amounts between the runs, summed over the units that were sampled (speakers,
images), give the variance of the change: what moves both runs alike cancels. Members and non-members are two samples.
"""

from dataclasses import dataclass

import numpy as np

from audits.core.records import Estimate, Report
from audits.report.comparison.parts import Bools, Integers, Pairing, Parts, Records, Rows
from audits.report.comparison.record_columns import Floats
from audits.report.comparison.tables import Table
from audits.statistics.unit_moves import Side, freedom, student, together

LEAST = 5
"""Units that a paired interval rests on at least: on each side of an area, and as many equal ones where they differ."""
FEW = f"fewer than {LEAST} independent units are matched"
UNEQUAL = "one unit or a few weigh too much beside the others"
HARDLY = f"fewer than {LEAST} units came out otherwise: too few to tell their spread"
NOT_OF_RECORDS = "not a sum or an area over records"
NOT_GIVEN = "the records of a run do not give its number"
ROUNDING = 1e-6
"""Share by which a number may move, and a record differ, by the arithmetic of another machine or batch alone."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A change over matched records: both values, interval, p-value, and records matched and in either run."""

    values: tuple[float, float]
    difference: tuple[float, float, float]
    p: float
    matched: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Matching:
    """Two runs whose records were matched.

    Parameters
    ----------
    units
        Number of the unit of each matched record, shape (matched,).
    alone
        Records of the first run and of the second that the other does not have.
    """

    before: Records
    after: Records
    units: Integers
    alone: tuple[int, int]

    @property
    def matched(self) -> int:
        """Number of records that both runs hold."""
        return len(self.units)

    def change(self, before: Estimate, after: Estimate) -> Paired | str:
        """Return the change of an estimate over the matched records, or the reason why it cannot be paired."""
        first, second = self.before.parts(before), self.after.parts(after)
        if first is None or second is None or type(first) is not type(second):
            return NOT_OF_RECORDS
        for parts, estimate in ((first, before), (second, after)):
            found = parts.value()
            if found is None or abs(found - estimate.value) > ROUNDING * abs(estimate.value) + 1e-9:
                return NOT_GIVEN
        kept = first.taken(self.before.matched), second.taken(self.after.matched)
        shared = kept[0].present() & kept[1].present()
        count = int(shared.sum())
        either = sum(int(parts.present().sum()) for parts in (first, second)) - count
        ends = before.value, after.value
        return self._over(kept[0].taken(shared), kept[1].taken(shared), shared, before.level, ends, (count, either))

    def _over(
        self,
        first: Parts,
        second: Parts,
        shared: Bools,
        level: float,
        reported: tuple[float, float],
        matched: tuple[int, int],
    ) -> Paired | str:
        if first.mismatch(second):
            return first.mismatch(second)
        units = self.units[shared]
        found = first.value(), second.value()
        if found[0] is None or found[1] is None or len(np.unique(units)) < LEAST:
            return FEW
        values = reported if matched[0] == matched[1] else (found[0], found[1])
        value = values[1] - values[0]
        moved = second.moves() - first.moves()
        dust = ROUNDING * max(map(abs, values))
        if np.abs(moved).max() * len(units) <= dust and abs(value) <= dust:
            return Paired((values[0], values[0]), (0.0, 0.0, 0.0), 1.0, matched)
        # What a record adds in all: the part above is less what it would add if every record moved alike.
        added = moved + found[1] * second.shares() - found[0] * first.shares()
        weights = (first.shares() + second.shares()) / 2
        sides = _sides(first, units, moved, added, weights, dust)
        if isinstance(sides, str):
            return sides
        low, high, p = student(value, *together(sides), level)
        if first.within_one() and second.within_one():
            low, high = max(low, -1.0), min(high, 1.0)
        return Paired(values, (value, low, high), p, matched)


def _sides(
    parts: Parts, units: Integers, moved: Floats, added: Floats, weights: Floats, dust: float
) -> list[Side] | str:
    """Return the units of each sample with their contributions, or the reason why their spread cannot be estimated."""
    apart = parts.sides()
    if len(apart) == 2 and np.intersect1d(units[apart[0]], units[apart[1]]).size:
        return "a unit holds members and others"
    sides = []
    for rows in apart:
        names, codes = np.unique(units[rows], return_inverse=True)
        if len(names) < LEAST:
            return FEW
        sums = (np.bincount(codes, weights=amounts[rows]) for amounts in (moved, added, weights))
        own, whole, share = (found.astype(np.float64) for found in sums)
        if freedom(share) < LEAST - 1 - 1e-9:
            return UNEQUAL
        sides.append(Side(own, share, int((np.abs(whole) * len(names) > dust).sum())))
    # With one or two degrees of freedom t is so wide that comparing the two intervals says more.
    if sum(side.movers for side in sides) < LEAST:
        return HARDLY
    if all(np.abs(side.moved).max() * len(side.moved) <= dust for side in sides):
        return "all units moved alike, of which no spread can be told"
    return sides


def matched(reports: tuple[Report, Report], tables: tuple[Table, Table], pairing: Pairing) -> Matching | str:
    """Match the records of two runs, or return the reason why they cannot be matched."""
    keys, roles = [], []
    runs = [Rows(table.text, table.numbers, report.settings) for table, report in zip(tables, reports, strict=True)]
    for run in runs:
        try:
            found, resting = pairing.keys(run)
        except KeyError as error:
            return f"there is no column {error} in the records of a run"
        rows = {key: index for index, key in enumerate(found) if key is not None}
        if len(rows) < sum(key is not None for key in found):
            return "a record stands twice in the records of a run"
        keys.append(rows)
        roles.append(resting)
    if roles[0] != roles[1]:
        return "the runs name their records in different ways"
    sources = [sorted((item.role, item.sha256) for item in report.data if item.role in roles[0]) for report in reports]
    if roles[0] and (sources[0] != sources[1] or not sources[0]):
        return f"records are known by their place in the {' and '.join(roles[0])}, which differ or are not named"
    common = [key for key in keys[0] if key in keys[1]]
    if not common:
        return "no record stands in both runs"
    indices = [np.array([rows[key] for key in common], dtype=np.int64) for rows in keys]
    units = [np.asarray(pairing.units(run), dtype=object)[at] for run, at in zip(runs, indices, strict=True)]
    if (units[0] != units[1]).any():
        return "a record belongs to one unit in the first run, and to another in the second"
    for name in getattr(pairing, "ALIKE", ()):
        if all(name in table.text for table in tables):
            cells = [table.text[name][at] for table, at in zip(tables, indices, strict=True)]
            if (cells[0] != cells[1]).any():
                return f"records of one name have other {name} in the second run"
    known: dict[str, int] = {}
    codes = np.array([known.setdefault(unit, len(known)) for unit in units[0]], dtype=np.int64)
    first, second = (Records(table, run, pairing, at, {}) for table, run, at in zip(tables, runs, indices, strict=True))
    return Matching(first, second, codes, (len(keys[0]) - len(common), len(keys[1]) - len(common)))
