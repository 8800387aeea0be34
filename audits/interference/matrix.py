"""The matrix: contrasts of losses, with intervals and p-values corrected over all of their kind."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from audits.core.intervals import Interval
from audits.interference import OF_SENTENCES
from audits.interference.losses import Losses
from audits.interference.settings import Languages
from audits.statistics.crossed import Contrast, Crossed, Part, crossed_intervals
from audits.statistics.multiplicity import adjust

Verdict = Literal["interference", "synergy", "indistinguishable", "untested"]
Weights = Mapping[tuple[Languages, str], float]
"""A contrast: the weight of the loss of each training set on each held-out language."""
Key = TypeVar("Key", bound=Hashable)
Cell = tuple[str, str]
"""Target and source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One contrast with its p-value corrected for all of its kind; None where there is one seed.

    `family` is how many were judged together.
    """

    crossed: Crossed
    adjusted: float | None
    family: int = 1

    @property
    def value(self) -> float:
        """The value of the contrast."""
        return self.crossed.value

    @property
    def interval(self) -> Interval:
        """The value with its interval."""
        return interval_of(self.crossed, self.family)

    def verdict(self, level: float) -> Verdict:
        """Return the verdict after correction for all contrasts of its kind."""
        if self.adjusted is None:
            return "untested"
        if self.adjusted > 1 - level:
            return "indistinguishable"
        return "interference" if self.value > 0 else "synergy"

    def shown(self, level: float) -> bool:
        """Tell whether it differs significantly from 0."""
        return self.verdict(level) in ("interference", "synergy")


def interval_of(crossed: Crossed, family: int = 1) -> Interval:
    """Return a contrast with its interval; without any spread it has none."""
    known = crossed.low is not None and crossed.high is not None
    return Interval(
        value=crossed.value,
        low=crossed.low,
        high=crossed.high,
        method=_method(crossed, family) if known else "none",
        n=crossed.n if crossed.sentences_known else crossed.seeds,
        unit=OF_SENTENCES if crossed.sentences_known else "seeds",
    )


def _method(crossed: Crossed, family: int) -> str:
    # Fewer than three have nothing to lend each other.
    shared = ", variances over seeds drawn together from others of its kind" if family > 2 else ""
    if not crossed.seeds_known:
        return "Student's t over held-out sentences, with one seed"
    sentences = " and held-out sentences" if crossed.sentences_known else ""
    return f"Student's t over {crossed.seeds} seeds{sentences}{shared}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrix:
    """Losses with those of failed models left out, and the cells that are made of them.

    Parameters
    ----------
    failed
        Why a training set has no loss for a language.
    pairs
        The pairs whose cells are asked for.
    """

    losses: Losses
    failed: Mapping[tuple[Languages, str], str]
    level: float
    correction: Literal["holm", "bh"]
    pairs: tuple[Languages, ...] = ()
    _stacked: dict[tuple[Languages, str, tuple[int, ...]], NDArray[np.float64]] = field(default_factory=dict)

    @cached_property
    def contrasts(self) -> dict[Cell, Weights]:
        """The contrast of every cell whose two models converged."""
        wanted = [cell for a, b in self.pairs for cell in ((a, b), (b, a))]
        return {cell: weights for cell in wanted if (weights := self.cell(*cell)) is not None}

    @cached_property
    def cells(self) -> dict[Cell, Judged]:
        """The rise of the loss of a target with a source, judged."""
        return self.judged(self.contrasts)

    @cached_property
    def differences(self) -> dict[Cell, Weights]:
        """The contrast of the two cells of every pair that has both, by (a, b), a before b."""
        both = [(a, b) for a, b in self.contrasts if a < b and {(a, b), (b, a)} <= self.cells.keys()]
        return {(a, b): combined([(1.0, self.contrasts[a, b]), (-1.0, self.contrasts[b, a])]) for a, b in both}

    @cached_property
    def asymmetries(self) -> dict[Cell, Judged]:
        """The excess of what the first language of a pair receives over the second, judged."""
        return self.judged(self.differences)

    @cached_property
    def received(self) -> dict[str, Judged]:
        """The mean of each row: what a language receives from others, judged."""
        return self.judged(self.means("target"))

    def means(self, side: Literal["target", "source"]) -> dict[str, Weights]:
        """Return the contrast of the mean of each row (target), or column (source), that has a cell."""
        at = 0 if side == "target" else 1
        lines = {code: [cell for cell in self.cells if cell[at] == code] for code in self.losses.languages}
        return {
            code: combined([(1 / len(cells), self.contrasts[cell]) for cell in cells])
            for code, cells in lines.items()
            if cells
        }

    def array(self, languages: Sequence[str]) -> NDArray[np.float64]:
        """Return the cells as an array (target, source), NaN where there is none."""
        made = np.full((len(languages), len(languages)), np.nan)
        for (target, source), judged in self.cells.items():
            made[languages.index(target), languages.index(source)] = judged.value
        return made

    def known(self, chosen: Languages, code: str) -> bool:
        """Tell whether the loss of a training set on a language is there and its model converged."""
        return (chosen, code) not in self.failed and bool(self.losses.seeds(chosen, code))

    def cell(self, target: str, source: str) -> Weights | None:
        """Return the contrast of a cell, in nats per byte; None where one of its two models is missing or failed."""
        pair = tuple(sorted((target, source)))
        if not self.known(pair, target) or not self.known((target,), target):
            return None
        return {(pair, target): 1.0, ((target,), target): -1.0}

    def reasons(self, target: str, source: str) -> dict[Languages, str]:
        """Return the reasons why a cell is missing, by the training set that failed; empty where none did."""
        sets = ((target,), tuple(sorted((target, source))))
        return {chosen: self.failed[chosen, target] for chosen in sets if (chosen, target) in self.failed}

    def contrast(self, weights: Weights) -> Contrast | None:
        """Return a weighted sum of losses as a contrast, from the seeds that all share; None where they share none."""
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
        """Return the nats of each sentence, (seeds, sentences), at the weights of the first seed."""
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
        # Together: contrasts of one kind lend each other their variances over seeds, of which each has few.
        contrasts = [self.contrast(weights) for weights in family]
        made = [contrast for contrast in contrasts if contrast is not None]
        crossed = crossed_intervals(made, level=self.level) if made else []
        tested = [index for index, one in enumerate(crossed) if one.p is not None]
        adjusted = adjust([one.p for one in crossed if one.p is not None], self.correction)
        corrected = dict(zip(tested, adjusted, strict=True))
        judged = iter(
            [
                Judged(crossed=one, adjusted=corrected.get(index), family=len(family))
                for index, one in enumerate(crossed)
            ]
        )
        return [None if contrast is None else next(judged) for contrast in contrasts]

    def judged(self, family: Mapping[Key, Weights]) -> dict[Key, Judged]:
        """Return the contrasts of one kind by their keys, judged together; one that cannot be made is left out."""
        judged = self.judge(list(family.values()))
        return {key: one for key, one in zip(family, judged, strict=True) if one is not None}


def combined(parts: Sequence[tuple[float, Weights]]) -> dict[tuple[Languages, str], float]:
    """Return a weighted sum of contrasts; terms that cancel are left out.

    >>> combined([(1.0, {(("a", "b"), "a"): 1.0, (("a",), "a"): -1.0}), (-1.0, {(("a",), "a"): -1.0})])
    {(('a', 'b'), 'a'): 1.0}
    """
    found: dict[tuple[Languages, str], float] = {}
    for times, weights in parts:
        for key, weight in weights.items():
            found[key] = found.get(key, 0.0) + times * weight
    return {key: weight for key, weight in found.items() if abs(weight) > 1e-12}
