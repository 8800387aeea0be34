"""Do the effects of pairs add up to those of larger mixtures, and which mixtures would then be good ones?

The loss of i in {i, j, k} is predicted as L_i(i) + I[i<-j] + I[i<-k], and set against real mixtures of three.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.interference.estimating import Entry, Found, row, with_of
from audits.interference.matrix import Matrix, Weights, combined
from audits.interference.settings import Languages

if TYPE_CHECKING:
    from audits.interference.inputs import Inputs

MOST_MIXTURES = 2000
"""Mixtures of three up to which all are ranked."""
SHOWN = 3
"""Of the best and of the worst mixtures, how many are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Errors of prediction by mixture and target, their mean, and the mixtures predicted to be best and worst.

    `apart` is the p-value of the best and the worst being alike, corrected for their having been picked.
    """

    errors: dict[tuple[Languages, str], Entry]
    mean: Entry | None
    ranked: dict[Languages, Entry]
    apart: float | None


def mix(draft: Draft, matrix: Matrix, found: Found, inputs: "Inputs", context: Context) -> Mixed:
    """Add the errors of prediction on real mixtures, and what is predicted of the best and worst ones."""
    if inputs.part is not None:
        return Mixed(errors={}, mean=None, ranked={}, apart=None)
    family = {
        (chosen, target): weights
        for chosen in inputs.sets
        if len(chosen) > 2
        for target in chosen
        if (weights := _error(matrix, chosen, target)) is not None
    }
    errors = _added(draft, matrix, family)
    mean = None
    if len(family) > 1 and len(errors) == len(family):
        weights = combined([(1 / len(family), one) for one in family.values()])
        (judged,) = matrix.judge([weights])
        if judged is not None:
            mean = Entry(
                judged=judged,
                place=draft.add(row("prediction_error", judged.crossed, matrix.level, {"of": "triples"}, 1)),
            )
    ranked, apart = _ranked(draft, matrix, found, inputs)
    return Mixed(errors=errors, mean=mean, ranked=ranked, apart=apart)


def _error(matrix: Matrix, chosen: Languages, target: str) -> Weights | None:
    """Return the contrast: loss of the target in the mixture, less what its pairs predict."""
    cells = [matrix.cell(target, source) for source in chosen if source != target]
    if not matrix.known(chosen, target) or any(cell is None for cell in cells):
        return None
    parts: list[tuple[float, Weights]] = [(1.0, {(chosen, target): 1.0, ((target,), target): -1.0})]
    return combined([*parts, *((-1.0, cell) for cell in cells if cell is not None)])


def _added(
    draft: Draft, matrix: Matrix, family: dict[tuple[Languages, str], Weights]
) -> dict[tuple[Languages, str], Entry]:
    found: dict[tuple[Languages, str], Entry] = {}
    for (chosen, target), judged in zip(family, matrix.judge(list(family.values())), strict=True):
        if judged is not None:
            where = {"target": target, "mixture": "+".join(chosen), "with": with_of(chosen, target)}
            made = row("prediction_error", judged.crossed, matrix.level, where, len(family))
            found[chosen, target] = Entry(judged=judged, place=draft.add(made))
    return found


def _ranked(
    draft: Draft, matrix: Matrix, found: Found, inputs: "Inputs"
) -> tuple[dict[Languages, Entry], float | None]:
    """Rank all mixtures of three by the mean predicted rise of their members' losses; add the ends of the list.

    The p-value is of best and worst being alike, corrected for their having been picked.
    """
    languages = inputs.languages
    # Of three languages there is one mixture, and nothing to rank.
    if not len(languages) >= 4 or comb(len(languages), 3) > MOST_MIXTURES:
        return {}, None
    value = {where: entry.judged.crossed.value for where, entry in found.cells.items()}
    totals = {}
    for three in combinations(languages, 3):
        wanted = [(a, b) for a in three for b in three if a != b]
        if all(where in value for where in wanted):
            # A mean over the members, each of which has the effects of two others added up.
            totals[three] = sum(value[where] for where in wanted) / 3
    order = sorted(totals, key=lambda three: (totals[three], three))
    family: dict[Languages, Weights] = {three: _mean(matrix, three) for three in order}
    # All are judged, so that those at the ends lend their variances from more than themselves; at a level that holds
    # for all of them at once (Bonferroni), since the ends are picked by what is judged.
    together = replace(matrix, level=1 - (1 - matrix.level) / max(len(order), 1))
    judged = dict(zip(order, together.judge(list(family.values())), strict=True))
    made: dict[Languages, Entry] = {}
    for three in dict.fromkeys([*order[:SHOWN], *order[-SHOWN:]]):
        one = judged[three]
        if one is not None:
            estimate = row(
                "predicted_interference", one.crossed, matrix.level, {"mixture": "+".join(three)}, len(family)
            )
            picked = f"{estimate.method}, for all at once (Bonferroni); one of the ends of {len(order):,} mixtures"
            estimate = estimate if estimate.low is None else replace(estimate, method=picked)
            made[three] = Entry(judged=one, place=draft.add(estimate))
    return made, _apart(matrix, family, order)


def _mean(matrix: Matrix, three: Languages) -> Weights:
    """Return the contrast: mean rise of the members' losses, as effects of pairs predict it."""
    cells = [matrix.cell(a, b) for a in three for b in three if a != b]
    return combined([(1 / 3, cell) for cell in cells if cell is not None])


def _apart(matrix: Matrix, family: Mapping[Languages, Weights], order: Sequence[Languages]) -> float | None:
    """Return the p-value of the worst mixture against the best, times the ordered pairs that could have been these."""
    if len(order) < 2:
        return None
    # Beside all others against the best, so that its variance over seeds is not its own alone.
    beside = [combined([(1.0, family[three]), (-1.0, family[order[0]])]) for three in order[1:]]
    judged = matrix.judge(beside)[-1]
    if judged is None or judged.crossed.p is None:
        return None
    return min(1.0, judged.crossed.p * len(order) * (len(order) - 1))
