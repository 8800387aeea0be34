"""Tests of crossings: whether one errs more, or less, than its attributes on their own lead to expect.

A model with all attributes and controls, but no interactions, says what to expect; a crossing is one more column.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audits.speaker_groups import Options
from audits.speaker_groups.counts import MetricCounts, Utterances
from audits.speaker_groups.designs import Design, design_of
from audits.statistics import (
    Differences,
    Ends,
    NotFitted,
    coefficient_interval,
    coefficient_p,
    score_effects,
    unscaled,
)


def half_of(data: Utterances, counts: MetricCounts, system: int, half: NDArray[np.bool_], options: Options) -> Design:
    """Return the design of the models of the speakers in `half`; its rows are numbers of all clips."""
    part = data.only(half)
    design = design_of(part, part.of(counts.metric), system, options)
    return replace(design, rows=np.flatnonzero(half[data.speakers])[design.rows])


def score_crossings(design: Design, member: NDArray[np.bool_]) -> Differences | None:
    """Return the score tests of all crossings; None where the model cannot be fitted.

    `member` says who is in which crossing, shape (clips, crossings).
    """
    try:
        model = design.fit([term.name for term in design.terms])
    except NotFitted:
        return None
    expected = design.sizes * np.exp(model.matrix @ model.fit.coefficients)
    extra = member[design.rows].astype(np.float64)
    return score_effects(design.errors, expected, model.matrix, extra, design.clusters)


def confirm_crossing(
    design: Design, member: NDArray[np.bool_], sign: float, level: float
) -> tuple[float, Ends, int] | None:
    """Return the one-sided p-value of a crossing's own ratio, the ratio, and its speakers; None without one."""
    try:
        model = design.fit_with(member[design.rows].astype(np.float64))
    except NotFitted:
        return None
    row = np.zeros(len(model.fit.coefficients))
    row[model.columns["", "extra"]] = 1.0
    ends = coefficient_interval(model.fit, row, level=level)
    both = coefficient_p(model.fit, row)
    p = both / 2 if sign * ends[0] > 0 else 1 - both / 2
    return p, unscaled("ratio", ends), model.fit.clusters
