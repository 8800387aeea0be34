"""Paired differences between two encoders on the same tokens, folds and matched draws."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from audits.core.records import Coordinate
from audits.phoneme_errors.values import JACKKNIFE, STUDENT, Row, Values
from audits.statistics import adjust
from audits.statistics.influences import Moved


def changes(first: Sequence[Values], second: Sequence[Values], level: float) -> Iterator[Row]:
    """Yield the differences between two encoders, second less first."""
    for before, after in zip(first, second, strict=True):
        for group, training in after.cells:
            moved = after.accuracy(group, training) - before.accuracy(group, training)
            found = after.interval(moved, after.strata(group), level, method=f"{STUDENT}, paired")
            yield "accuracy_difference", found, {"layer": after.layer, "group": group, "training": training}
        for group in after.corpus.groups:
            where: dict[str, Coordinate] = {"layer": after.layer, "group": group}
            moved, strata = _systematic(before, after, group), after.strata(group)
            found = after.interval(moved, strata, level, method=f"{STUDENT}, paired")
            yield "systematic_error_difference", found, where
            spread, everyone = _apart(after.variance(group), before.variance(group)), after.kinds(group)
            found = after.interval(spread, everyone, level, method=f"{JACKKNIFE}, paired")
            yield "random_error_difference", found, where
            ratio, both = _ratio(before, after, group), after.strata(group, against=True)
            found = after.interval(ratio, both, level, method=f"{JACKKNIFE}, paired")
            yield "variance_ratio_difference", found, where


def adjusted_changes(first: Sequence[Values], second: Sequence[Values]) -> Mapping[tuple[str, int, str], float]:
    """Return the p-values of the changes by name, layer and group, by Holm's correction over both errors.

    Together, since either of them makes the one finding that something moved.
    """
    raw: dict[tuple[str, int, str], float] = {}
    for before, after in zip(first, second, strict=True):
        for group in after.corpus.groups:
            moved, strata = _systematic(before, after, group), after.strata(group)
            raw["systematic_error_difference", after.layer, group] = moved.p(strata, after.sizes)
            ratio, both = _ratio(before, after, group), after.strata(group, against=True)
            if ratio is not None:
                raw["variance_ratio_difference", after.layer, group] = ratio.p(both, after.sizes)
    return dict(zip(raw, adjust(list(raw.values()), "holm"), strict=True))


def _systematic(before: Values, after: Values, group: str) -> Moved:
    return after.systematic(group) - before.systematic(group)


def _ratio(before: Values, after: Values, group: str) -> Moved | None:
    # Against the other groups: a layer's variance falls when a shift is mended, and noise seems to rise.
    return _apart(after.excess(group), before.excess(group))


def _apart(after: Moved | None, before: Moved | None) -> Moved | None:
    """Return the difference of two numbers of which the logarithms are given; None where one is."""
    if after is None or before is None:
        return None
    one, other = (Moved(float(np.exp(log.value)), np.exp(log.value) * log.moves) for log in (after, before))
    return one - other
