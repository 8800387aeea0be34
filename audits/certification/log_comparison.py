"""Estimates of several logs, or of one of predictions: shares and radii of each, and paired differences.

All numbers are over the images that every log has. Each further log is held against the first, image by image.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audits.certification.bounds import Floats
from audits.certification.certificates import ABSTAIN, Verdict
from audits.certification.image_means import mean_within
from audits.certification.log_estimates import add_log_estimates
from audits.certification.log_fit import Reading, read_settings
from audits.certification.logs import ROUNDINGS, USUAL_ALPHAS
from audits.certification.named_logs import Logs, NamedLog
from audits.core.context import Draft
from audits.core.intervals import Interval, exact
from audits.core.numbers import UPPER_BOUND
from audits.core.records import Coordinate
from audits.statistics import exact_share
from audits.statistics.mean_intervals import STUDENT_SKEW, claim_p, mean_interval
from audits.statistics.multiplicity import adjust
from audits.statistics.paired_shares import BONETT_PRICE, paired_difference

UNSAMPLED = 0.95
ACCURACY, RADIUS, PREDICTED = "certified_accuracy", "average_certified_radius", "prediction_accuracy"


@dataclass(frozen=True, kw_only=True)
class LogCounts:
    """The logs of a call; what each says is counted, and nothing is drawn."""

    logs: Logs

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """The test of the settings that were named for each log, by its name; empty for predictions."""
        return {one.name: read_settings(one.log, one.rule) for one in self.logs.logs if one.rule is not None}

    @cached_property
    def reaches(self) -> dict[str, float]:
        """The largest radius that each log can hold, by its sigma, its n and the alpha that its radii fit."""
        return {one.name: _reach(one, self.readings[one.name]) for one in self.logs.logs if one.rule is not None}

    def citable(self, name: str) -> bool:
        """Tell whether certificates of a log may be reported: its radii fit what was named, or a larger alpha."""
        reading = self.readings.get(name)
        return reading is None or (reading.alpha is not None and reading.outcome != "other alpha")

    def unsettled(self, name: str) -> bool:
        """Tell whether sigma or n of a log is another than was named: no alpha explains its radii."""
        return name in self.readings and self.readings[name].alpha is None

    def beyond(self, where: Mapping[str, Coordinate]) -> tuple[str, ...]:
        """Return which of the two logs of a difference cannot reach its radius; none without a radius."""
        if "radius" not in where:
            return ()
        pair = (str(where["log"]), str(where["against"]))
        return tuple(name for name in pair if float(where["radius"]) > self.reaches[name])


def _reach(one: NamedLog, reading: Reading) -> float:
    assert one.rule is not None
    held = replace(one.rule, alpha=reading.alpha or one.rule.alpha)
    # Printed radii may be rounded up, or contradict the settings: what a log holds, it reached.
    return max(held.ceiling, float(one.log.radii.max(initial=0.0)))


@dataclass(frozen=True, slots=True)
class Difference:
    """A number of one log less that of the first, its interval, and its p-value before correction."""

    measure: str
    where: dict[str, Coordinate]
    found: Interval
    p: float


def add_logs(draft: Draft, counts: LogCounts) -> None:
    """Add the estimates of each log, of its settings, and of its differences from the first, corrected by Holm."""
    for one in counts.logs.logs:
        rows = counts.logs.verdicts[one.name]
        _add_log(draft, one, rows, counts.logs.radii)
        if one.rule is not None:
            add_log_estimates(draft, one.log, one.rule, counts.readings[one.name], log=one.name)
            _add_bound(draft, one, counts.readings[one.name], len(rows))
        elif one.log.contradictions:
            _warn_contradictions(draft, one)
    found = list(differences(counts.logs, draft.level))
    for row in found:
        if row.found.method == "none":
            draft.warn("no-interval", "All images have the same difference, which tells no interval.", **row.where)
        draft.add(f"{row.measure}_difference", row.found, **row.where)
    for correction, ps in (("none", [row.p for row in found]), ("holm", adjust([row.p for row in found], "holm"))):
        for row, p in zip(found, ps, strict=True):
            p_value = exact(p, n=row.found.n, unit="images", level=UNSAMPLED)
            draft.add("p_value", p_value, test=row.measure, correction=correction, **row.where)


def _add_log(draft: Draft, one: NamedLog, rows: Sequence[Verdict], radii: Sequence[float]) -> None:
    count, level = len(rows), draft.level
    abstained = sum(row.predict == ABSTAIN for row in rows)
    draft.add("abstention_rate", exact_share(abstained, count, "images", level=level), log=one.name)
    if one.rule is None:
        draft.add(PREDICTED, exact_share(sum(row.correct for row in rows), count, "images", level=level), log=one.name)
        return
    for radius in radii:
        hits = sum(row.correct and row.radius >= radius for row in rows)
        draft.add(ACCURACY, exact_share(hits, count, "images", level=level), log=one.name, radius=radius)
    held = _radii(rows)
    draft.add(RADIUS, mean_within(held, max(float(held.max()), one.rule.ceiling), level), log=one.name)


def _add_bound(draft: Draft, one: NamedLog, reading: Reading, images: int) -> None:
    if reading.alpha is None:
        message = "With which error probability the certificates of this log were made, its radii do not tell."
        draft.warn("alpha-unknown", message, log=one.name)
        return
    bound = -float(np.expm1(images * np.log1p(-reading.alpha)))
    method = f"{UPPER_BOUND} 1 - (1 - alpha)^m for m images"
    interval = Interval(value=bound, low=0.0, high=bound, method=method, n=images, unit="images", level=UNSAMPLED)
    draft.add("false_certificate_bound", interval, log=one.name)


def _warn_contradictions(draft: Draft, one: NamedLog) -> None:
    shown = ", ".join(str(line) for line in one.log.contradictions[:8])
    draft.warn(
        "contradictory-rows",
        f"On {len(one.log.contradictions)} lines (such as {shown}) `correct` is not whether `predict` is `label`; "
        "label and predict were believed.",
        log=one.name,
    )


def differences(logs: Logs, level: float) -> Iterator[Difference]:
    """Yield the differences of each further log from the first, over the images that all logs have."""
    first = logs.logs[0].name
    for name in logs.names[1:]:
        mine, others = logs.verdicts[name], logs.verdicts[first]
        where: dict[str, Coordinate] = {"log": name, "against": first}
        if not logs.certified:
            yield _shares(PREDICTED, where, mine, others, lambda row: row.correct, level)
            continue
        for radius in logs.radii:
            reached = _reaching(radius)
            yield _shares(ACCURACY, {**where, "radius": radius}, mine, others, reached, level)
        apart = _radii(mine) - _radii(others)
        ends = mean_interval(apart, level=level)
        low, high = ends[1] if ends else (None, None)
        method = f"{STUDENT_SKEW}, paired by image" if ends else "none"
        found = Interval(value=float(apart.mean()), low=low, high=high, method=method, n=len(apart), unit="images")
        yield Difference(RADIUS, where, found, claim_p(apart))


def _reaching(radius: float) -> Callable[[Verdict], bool]:
    return lambda row: row.correct and row.radius >= radius


def _shares(
    measure: str,
    where: dict[str, Coordinate],
    mine: Sequence[Verdict],
    others: Sequence[Verdict],
    counted: Callable[[Verdict], bool],
    level: float,
) -> Difference:
    sides: list[NDArray[np.bool_]] = [np.array([counted(row) for row in rows]) for rows in (mine, others)]
    paired = paired_difference(sides[0], sides[1], level=level)
    method = f"{BONETT_PRICE}, by image"
    found = Interval(
        value=paired.value, low=paired.low, high=paired.high, method=method, n=len(mine), unit="images", level=level
    )
    return Difference(measure, where, found, paired.p)


def _radii(rows: Sequence[Verdict]) -> Floats:
    return np.array([row.radius * row.correct for row in rows], dtype=np.float64)


def log_coordinates(logs: Logs) -> dict[str, tuple[Coordinate, ...]]:
    """Return every key that an estimate of these logs can have, with its values."""
    tests = (ACCURACY, RADIUS) if logs.certified else (PREDICTED,)
    alphas = {one.rule.alpha for one in logs.logs if one.rule is not None}
    found: dict[str, tuple[Coordinate, ...]] = {"log": logs.names}
    if len(logs.logs) > 1:
        found |= {"against": logs.names[:1], "test": tests, "correction": ("none", "holm")}
    if logs.certified:
        found |= {"radius": logs.radii, "alpha": tuple(sorted({*USUAL_ALPHAS, *alphas})), "rounding": ROUNDINGS}
    return found


def unpaired_notes(logs: Logs) -> tuple[str, ...]:
    """Return a note on images that some logs lack."""
    left = logs.given - logs.used
    return (f"{left} of {logs.given} images are not in all logs and were left out.",) if left else ()
