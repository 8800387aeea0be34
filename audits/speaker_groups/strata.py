"""Stratified differences of two levels of an attribute, within the levels of the others."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audits.group_rates import MIN_REPORTED
from audits.speaker_groups.counts import Floats, Utterances
from audits.speaker_groups.designs import Design
from audits.statistics import Ends, linearised_differences


def turned(strata: dict[str, Ends], sign: float) -> str:
    """Return the attribute within whose levels the difference has the other sign; empty where there is none.

    In most of its levels, and in all of them together, weighed by how sure each is (Simpson 1951).
    """
    by: dict[str, list[Ends]] = {}
    for name, ends in strata.items():
        by.setdefault(name.partition("=")[0], []).append(ends)
    for attribute, rows in by.items():
        against = sum(sign * value < 0 for value, _, _ in rows)
        weights = [1 / max(high - low, 1e-9) ** 2 for _, low, high in rows]
        together = sum(weight * row[0] for weight, row in zip(weights, rows, strict=True))
        if len(rows) > 1 and against > len(rows) / 2 and sign * together < 0:
            return attribute
    return ""


def strata_of(data: Utterances, design: Design, pair: tuple[str, str, str], level: float) -> dict[str, Ends]:
    """Return the log ratio of two levels within each level of the other attributes; the pair is (attribute, one, two).

    Levels in which either has too few speakers are left out.
    """
    attribute, *compared = pair
    found: dict[str, Ends] = {}
    rows = design.rows
    own = data.labels(attribute)[rows]
    for other in design.attributes:
        if other.name == attribute:
            continue
        labels = data.labels(other.name)[rows]
        for stratum in (other.reference, *other.shown):
            parts = [(labels == stratum) & (own == level) for level in compared]
            ends = _log_ratio(parts, design, data.people, level)
            if ends is not None:
                found[f"{other.name}={stratum}"] = ends
    return found


def _log_ratio(parts: Sequence[NDArray[np.bool_]], design: Design, people: int, level: float) -> Ends | None:
    errors, sizes = [], []
    for inside in parts:
        speakers = design.clusters[inside]
        if len(np.unique(speakers)) < MIN_REPORTED or design.errors[inside].sum() == 0:
            return None
        errors.append(_by_speaker(design.errors[inside], speakers, people))
        sizes.append(_by_speaker(design.sizes[inside], speakers, people))
    found = linearised_differences((errors[0], errors[1]), (sizes[0], sizes[1]), log=True)
    low, high = found.ends(level)
    return float(found.value[0]), float(low[0]), float(high[0])


def _by_speaker(values: Floats, speakers: NDArray[np.int64], people: int) -> Floats:
    summed: Floats = np.bincount(speakers, weights=values, minlength=people).astype(np.float64)
    return summed[:, None]
