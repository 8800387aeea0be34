"""Does a crossing err more, or less, than its attributes on their own lead to expect?

A model with all attributes and controls, but no interactions, says what to expect; a crossing is one more column.
"""

import numpy as np
from numpy.typing import NDArray

from audits.context import Context
from audits.speaker_groups import Options
from audits.speaker_groups.counts import Counts, Utterances
from audits.speaker_groups.designs import Design, design_of
from audits.statistics import (
    Differences,
    Ends,
    NotFitted,
    coefficient_interval,
    coefficient_p,
    score_effects,
)


def score_crossings(
    data: Utterances,
    counts: Counts,
    system: int,
    half: NDArray[np.bool_],
    member: NDArray[np.bool_],
    options: Options,
) -> Differences | None:
    """Return the score tests of all crossings on some of the speakers; None where the model cannot be fitted.

    `half` says which speakers take part, `member` who is in which crossing, shape (clips, crossings).
    """
    design, rows = _design(data, counts, system, half, options)
    try:
        model = design.fit([term.name for term in design.terms])
    except NotFitted:
        return None
    expected = design.sizes * np.exp(model.matrix @ model.fit.coefficients)
    extra = member[rows].astype(np.float64)
    return score_effects(design.errors, expected, model.matrix, extra, design.clusters)


def confirm_crossing(
    data: Utterances,
    counts: Counts,
    system: int,
    half: NDArray[np.bool_],
    member: NDArray[np.bool_],
    sign: float,
    options: Options,
    context: Context,
) -> tuple[float, Ends, int] | None:
    """Return the one-sided p-value of a crossing's own ratio on some of the speakers, the ratio, and how many."""
    design, rows = _design(data, counts, system, half, options)
    try:
        model = design.fit_with(member[rows].astype(np.float64))
    except NotFitted:
        return None
    row = np.zeros(len(model.fit.coefficients))
    row[model.columns["", "extra"]] = 1.0
    value, low, high = coefficient_interval(model.fit, row, level=context.level)
    both = coefficient_p(model.fit, row)
    p = both / 2 if sign * value > 0 else 1 - both / 2
    ends = tuple(float(np.exp(np.clip(end, -50, 50))) for end in (value, low, high))
    return p, (ends[0], ends[1], ends[2]), model.fit.clusters


def _design(
    data: Utterances, counts: Counts, system: int, half: NDArray[np.bool_], options: Options
) -> tuple[Design, NDArray[np.int64]]:
    """Return the design of some of the speakers, and the clips of all that it holds."""
    part = data.only(half)
    design = design_of(part, part.of(counts.metric), system, options)
    return design, np.flatnonzero(half[data.speakers])[design.rows]
