"""Do the effects of pairs add up to those of larger mixtures, and which mixtures would then be good ones?

The loss of i in {i, j, k} is predicted as L_i(i) + I[i<-j] + I[i<-k], and set against real mixtures of three.
"""

from dataclasses import dataclass
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
    """Errors of prediction by mixture and target, their mean, and the mixtures predicted to be best and worst."""

    errors: dict[tuple[Languages, str], Entry]
    mean: Entry | None
    ranked: dict[Languages, Entry]


def mix(draft: Draft, matrix: Matrix, found: Found, inputs: "Inputs", context: Context) -> Mixed:
    """Add the errors of prediction on real mixtures, and what is predicted of the best and worst ones."""
    if inputs.part is not None:
        return Mixed(errors={}, mean=None, ranked={})
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
    return Mixed(errors=errors, mean=mean, ranked=_ranked(draft, matrix, found, inputs))


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


def _ranked(draft: Draft, matrix: Matrix, found: Found, inputs: "Inputs") -> dict[Languages, Entry]:
    """Rank all mixtures of three by the mean predicted rise of their members' losses; add the ends of the list."""
    languages = inputs.languages
    if not len(languages) >= 4 or comb(len(languages), 3) > MOST_MIXTURES:
        return {}
    value = {where: entry.judged.crossed.value for where, entry in found.cells.items()}
    totals = {}
    for three in combinations(languages, 3):
        wanted = [(a, b) for a in three for b in three if a != b]
        if all(where in value for where in wanted):
            totals[three] = sum(value[where] for where in wanted) / 3
    order = sorted(totals, key=lambda three: (totals[three], three))
    chosen = list(dict.fromkeys([*order[:SHOWN], *order[-SHOWN:]]))
    family = {}
    for three in chosen:
        cells = [matrix.cell(a, b) for a in three for b in three if a != b]
        family[three] = combined([(1 / 3, cell) for cell in cells if cell is not None])
    made: dict[Languages, Entry] = {}
    for three, judged in zip(family, matrix.judge(list(family.values())), strict=True):
        if judged is not None:
            estimate = row(
                "predicted_interference", judged.crossed, matrix.level, {"mixture": "+".join(three)}, len(family)
            )
            made[three] = Entry(judged=judged, place=draft.add(estimate))
    return made
