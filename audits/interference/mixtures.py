"""Mixtures of three, predicted from the effects of pairs, and which mixtures would then be best.

The loss of i in {i, j, k} is predicted as L_i(i) + I[i<-j] + I[i<-k], and set against real mixtures of three.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb

from audits.core.records import Coordinate
from audits.interference.losses import with_of
from audits.interference.matrix import Judged, Matrix, Weights, combined
from audits.interference.settings import Languages

MOST_MIXTURES = 2000
"""Mixtures of three up to which all are ranked."""
SHOWN = 3
"""Of the best and of the worst mixtures, how many are reported."""
Member = tuple[Languages, str]
"""A mixture, and one of its languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixtures:
    """Errors of prediction, their mean, and the mixtures predicted to be best and worst, best first.

    `apart` is the p-value of the best and the worst being alike, corrected for their having been picked among `count`.
    """

    errors: Mapping[Member, Judged] = field(default_factory=dict)
    mean: Judged | None = None
    ranked: Mapping[Languages, Judged] = field(default_factory=dict)
    count: int = 0
    apart: float | None = None


def where_error(chosen: Languages, target: str) -> Mapping[str, Coordinate]:
    """Return the keys of the error of prediction of a language in a mixture."""
    return {"target": target, "mixture": "+".join(chosen), "with": with_of(chosen, target)}


def mix(matrix: Matrix, sets: Sequence[Languages]) -> Mixtures:
    """Return the errors of prediction on measured mixtures, and the predicted best and worst mixtures."""
    members = [(chosen, target) for chosen in sets if len(chosen) > 2 for target in chosen]
    family = {member: weights for member in members if (weights := _error(matrix, *member)) is not None}
    errors = matrix.judged(family)
    mean = None
    if len(family) > 1 and len(errors) == len(family):
        (mean,) = matrix.judge([combined([(1 / len(family), one) for one in family.values()])])
    contrasts = _contrasts(matrix)
    order = list(contrasts)
    # All are judged, so that those at the ends lend their variances from more than themselves; at a level that holds
    # for all of them at once (Bonferroni), since the ends are picked by what is judged.
    together = replace(matrix, level=1 - (1 - matrix.level) / max(len(order), 1))
    judged = together.judged(contrasts)
    ends = [three for three in dict.fromkeys([*order[:SHOWN], *order[-SHOWN:]]) if three in judged]
    return Mixtures(
        errors=errors,
        mean=mean,
        ranked={three: judged[three] for three in ends},
        count=len(order),
        apart=_apart(matrix, contrasts),
    )


def _error(matrix: Matrix, chosen: Languages, target: str) -> Weights | None:
    """Return the contrast of measured and predicted loss of the target in the mixture."""
    cells = [matrix.cell(target, source) for source in chosen if source != target]
    if not matrix.known(chosen, target) or any(cell is None for cell in cells):
        return None
    parts: list[tuple[float, Weights]] = [(1.0, {(chosen, target): 1.0, ((target,), target): -1.0})]
    return combined([*parts, *((-1.0, cell) for cell in cells if cell is not None)])


def _contrasts(matrix: Matrix) -> dict[Languages, Weights]:
    """Return the mean rise of the members' losses, as pairs predict it, of every mixture of three, least first.

    A mean over the members, each of which has the effects of two others added up.
    """
    languages = matrix.losses.languages
    # Of three languages there is one mixture, and nothing to rank.
    if not len(languages) >= 4 or comb(len(languages), 3) > MOST_MIXTURES:
        return {}
    totals, found = {}, {}
    for three in combinations(languages, 3):
        wanted = [(a, b) for a in three for b in three if a != b]
        if all(cell in matrix.cells for cell in wanted):
            totals[three] = sum(matrix.cells[cell].value for cell in wanted) / 3
            found[three] = combined([(1 / 3, matrix.contrasts[cell]) for cell in wanted])
    return {three: found[three] for three in sorted(totals, key=lambda three: (totals[three], three))}


def _apart(matrix: Matrix, contrasts: Mapping[Languages, Weights]) -> float | None:
    """Return the p-value of the worst mixture against the best, corrected for all ordered pairs of mixtures."""
    if len(contrasts) < 2:
        return None
    best, *others = contrasts.values()
    # Beside all others against the best, so that its variance over seeds is not its own alone.
    judged = matrix.judge([combined([(1.0, one), (-1.0, best)]) for one in others])[-1]
    if judged is None or judged.crossed.p is None:
        return None
    return min(1.0, judged.crossed.p * len(contrasts) * (len(contrasts) - 1))
