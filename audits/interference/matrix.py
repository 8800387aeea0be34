"""Values: the contrasts of losses that the matrix is made of, and what is known of each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from audits.interference.settings import Languages
from audits.interference.table import Losses
from audits.statistics.crossed import Contrast, Crossed, Part, crossed_intervals
from audits.statistics.multiplicity import adjust

Verdict = Literal["interference", "synergy", "indistinguishable", "untested"]
Weights = Mapping[tuple[Languages, str], float]
"""A contrast: the weight of the loss of each training set on each held-out language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One contrast, with its p-value after correction for all of its kind; None where there is one seed."""

    crossed: Crossed
    adjusted: float | None

    def verdict(self, level: float) -> Verdict:
        """Return what can be said of it once all of its kind have been looked at."""
        if self.adjusted is None:
            return "untested"
        if self.adjusted > 1 - level:
            return "indistinguishable"
        return "interference" if self.crossed.value > 0 else "synergy"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matrix:
    """Losses with those of failed models left out.

    Parameters
    ----------
    failed
        Why a training set has no loss for a language.
    """

    losses: Losses
    failed: Mapping[tuple[Languages, str], str]
    level: float
    correction: Literal["holm", "bh"]
    _stacked: dict[tuple[Languages, str, tuple[int, ...]], NDArray[np.float64]] = field(default_factory=dict)

    def known(self, chosen: Languages, code: str) -> bool:
        """Tell whether the loss of a training set on a language is there and stands."""
        return (chosen, code) not in self.failed and bool(self.losses.seeds(chosen, code))

    def cell(self, target: str, source: str) -> Weights | None:
        """Return the contrast of a cell, in nats per byte; None where one of its two models is missing or failed."""
        pair = tuple(sorted((target, source)))
        if not self.known(pair, target) or not self.known((target,), target):
            return None
        return {(pair, target): 1.0, ((target,), target): -1.0}

    def contrast(self, weights: Weights) -> Contrast | None:
        """Return what the statistics take, from the seeds that all of its losses have; None where they share none."""
        seeds = frozenset.intersection(*(self.losses.seeds(chosen, code) for chosen, code in weights))
        if not seeds:
            return None
        order = tuple(sorted(seeds))
        parts = []
        for code in sorted({code for _, code in weights}):
            mine = [(chosen, weight) for (chosen, lang), weight in weights.items() if lang == code]
            first = self.losses.cells[mine[0][0], order[0], code]
            # Models of a language share its hidden tokens: losses are subtracted sentence by sentence.
            deltas = sum(weight * self._sums(chosen, code, order) for chosen, weight in mine)
            parts.append(Part(np.asarray(deltas), first.weights, first.factor, code))
        return Contrast(tuple(parts))

    def _sums(self, chosen: Languages, code: str, seeds: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the nats of each sentence, (seeds, sentences), as they would be at the weights of the first seed."""
        key = (chosen, code, seeds)
        if key not in self._stacked:
            cells = [self.losses.cells[chosen, seed, code] for seed in seeds]
            # The statistics take one weight a sentence, while given losses may count others with every seed.
            first = cells[0].weights
            at = [
                cell.sums
                if np.array_equal(cell.weights, first)
                else np.divide(cell.sums * first, cell.weights, out=np.zeros_like(first), where=cell.weights > 0)
                for cell in cells
            ]
            self._stacked[key] = np.stack(at)
        return self._stacked[key]

    def judge(self, family: Sequence[Weights]) -> list[Judged | None]:
        """Return the contrasts of one kind, judged together; None where one cannot be made."""
        contrasts = [self.contrast(weights) for weights in family]
        made = [contrast for contrast in contrasts if contrast is not None]
        crossed = crossed_intervals(made, level=self.level) if made else []
        tested = [place for place, one in enumerate(crossed) if one.p is not None]
        adjusted = adjust([one.p for one in crossed if one.p is not None], self.correction)
        corrected = dict(zip(tested, adjusted, strict=True))
        judged = iter([Judged(crossed=one, adjusted=corrected.get(place)) for place, one in enumerate(crossed)])
        return [None if contrast is None else next(judged) for contrast in contrasts]


def combined(parts: Sequence[tuple[float, Weights]]) -> dict[tuple[Languages, str], float]:
    """Return a sum of contrasts, each times a number; what cancels is left out.

    >>> combined([(1.0, {(("a", "b"), "a"): 1.0, (("a",), "a"): -1.0}), (-1.0, {(("a",), "a"): -1.0})])
    {(('a', 'b'), 'a'): 1.0}
    """
    found: dict[tuple[Languages, str], float] = {}
    for times, weights in parts:
        for key, weight in weights.items():
            found[key] = found.get(key, 0.0) + times * weight
    return {key: weight for key, weight in found.items() if abs(weight) > 1e-12}
