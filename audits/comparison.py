"""What changed between two runs? The same estimate in both, and the interval of the change."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from audits.records import Coordinate, Estimate, Report
from audits.report_file import fingerprint_of
from audits.statistics.differences import independent_difference
from probes.errors import InputError

LESS_IS_BETTER = frozenset(
    {"error_rate", "gap", "gap_to_others", "head_error_rate", "head_gap", "head_gap_to_others", "abstention_rate"}
    | {"relative_l2", "relative_h1", "band_error", "systematic_error", "duplicates", "frontier_integral"}
    | {"auc", "leakage", "tpr", "advantage", "advantage_held_out", "balanced_accuracy", "balanced_accuracy_held_out"}
)
"""Estimates that count as a regression when they rise."""

MORE_IS_BETTER = frozenset(
    {"accuracy", "certified_accuracy", "average_certified_radius", "clean_accuracy", "noisy_accuracy"}
    | {"precision", "recall", "coverage", "f1", "clipped_density", "clipped_coverage", "mauve"}
)
"""Estimates that count as a regression when they fall."""

WITHOUT_CHANGE = frozenset(
    {"p_value", "head_p_value", "noise_floor", "head_noise_floor", "epsilon_lower", "epsilon_credible"}
)
"""Estimates about one run's evidence: their difference says nothing about the models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An estimate before and after; the difference is after minus before, None where it has no interval."""

    name: str
    where: tuple[tuple[str, Coordinate], ...]
    before: Estimate
    after: Estimate
    difference: tuple[float, float, float] | None

    @property
    def excludes_zero(self) -> bool:
        """Tell whether the interval of the change leaves zero out."""
        return self.difference is not None and not self.difference[1] <= 0 <= self.difference[2]

    @property
    def is_worse(self) -> bool:
        """Tell whether the point moved to the worse, for the estimates of which that is known."""
        rose = self.after.value - self.before.value
        return (self.name in LESS_IS_BETTER and rose > 0) or (self.name in MORE_IS_BETTER and rose < 0)

    @property
    def can_be_judged(self) -> bool:
        """Tell whether a change of this estimate could be a regression, and its interval is known."""
        return self.name in LESS_IS_BETTER | MORE_IS_BETTER and self.difference is not None


def _rank(row: Change) -> tuple[bool, bool, float]:
    """Sort what changed first, of that what can be better or worse, of that the largest change."""
    return not row.excludes_zero, not row.can_be_judged, -abs(row.after.value - row.before.value)


def changes(before: Report, after: Report) -> Iterator[Change]:
    """Yield the change of every estimate that both reports hold.

    The two intervals are taken as independent, which is too wide, never too narrow, where both runs
    judged the same speakers and their results move together.
    """
    later = {_key(row): row for row in after.estimates}
    for row in before.estimates:
        other = later.get(_key(row))
        if other is not None and row.name not in WITHOUT_CHANGE:
            yield Change(
                name=row.name,
                where=_key(row)[1],
                before=row,
                after=other,
                difference=_difference(row, other),
            )


def ranked(rows: Iterable[Change]) -> list[Change]:
    """Return the changes whose interval excludes zero first, then the larger ones."""
    return sorted(rows, key=_rank)


def same_run(before: Report, after: Report) -> bool:
    """Tell whether two reports are of one run, or of equal ones, so that nothing can have changed."""
    return fingerprint_of(before) == fingerprint_of(after) and before.estimates == after.estimates


def check_levels(before: Report, after: Report, *, where: str) -> None:
    """Refuse two runs of which no change can be told: other audits, norms, or levels of their intervals.

    Raises
    ------
    InputError
        Where the audit differs, or `norm` or `level` in the settings.
    """
    norms = [report.settings.get("norm") for report in (before, after)]
    for what, pair in (("audits", [before.audit, after.audit]), ("norms", norms)):
        if pair[0] != pair[1]:
            raise InputError(
                f"The runs are of two {what}, {pair[0]} and {pair[1]}: their numbers do not mean the same.",
                where=where,
                hint="Compare runs of one audit with one norm.",
            )
    levels = [report.settings.get("level") for report in (before, after)]
    if None not in levels and levels[0] != levels[1]:
        raise InputError(
            f"The intervals of the first run hold at level {levels[0]}, those of the other at {levels[1]}: "
            "no interval of a change follows from them.",
            where=where,
            hint=f"Run the first again with --level {levels[1]}, or the other with --level {levels[0]}.",
        )


def differing(before: Report, after: Report) -> list[str]:
    """Return what else differs between the runs, so that a change is not laid to the model alone."""
    found = []
    if (before.subject and before.subject.sha256) != (after.subject and after.subject.sha256):
        found.append("model")
    hashes = [{source.role: source.sha256 for source in report.data} for report in (before, after)]
    found += sorted(role for role in hashes[0].keys() | hashes[1].keys() if hashes[0].get(role) != hashes[1].get(role))
    places = {"model", "manifest", "fail_if"}
    keys = (before.settings.keys() | after.settings.keys()) - places
    found += sorted(key for key in keys if before.settings.get(key) != after.settings.get(key))
    if before.provenance.miles != after.provenance.miles:
        found.append("version of miles")
    return found


def unmatched(before: Report, after: Report) -> tuple[int, int]:
    """Return how many estimates stand in the first report only, and in the second only."""
    first, second = {_key(row) for row in before.estimates}, {_key(row) for row in after.estimates}
    return len(first - second), len(second - first)


def _key(row: Estimate) -> tuple[str, tuple[tuple[str, Coordinate], ...]]:
    return row.name, tuple(sorted(row.where.items(), key=lambda item: item[0]))


def _difference(before: Estimate, after: Estimate) -> tuple[float, float, float] | None:
    ends = []
    for row in (before, after):
        if row.method == "none" or row.level != before.level:
            return None
        low, high = (row.value, row.value) if row.low is None or row.high is None else (row.low, row.high)
        # An estimate may lie outside its own simultaneous interval only by rounding.
        ends.append((row.value, min(low, row.value), max(high, row.value)))
    return independent_difference(ends[0], ends[1])
