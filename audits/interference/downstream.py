"""Relations of the matrix with the scores of a downstream task that the user brings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from audits.core.intervals import Interval
from audits.core.records import Coordinate, Warning
from audits.interference.effects import correlation_interval, p_interval, without_interval
from audits.interference.likenesses import complete
from audits.interference.matrix import Matrix
from audits.interference.settings import Inputs
from audits.statistics import generator
from audits.statistics.mean_intervals import mean_interval
from audits.statistics.multiplicity import adjust
from audits.statistics.qap import Undefined, permutation_test
from audits.statistics.rank_correlation import bonett_wright, order_p, spearman

Floats = NDArray[np.float64]
FEWEST = 5
"""Languages that a correlation of their means with a score needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One column of scores: its correlation, p-value, and mean errors of prediction by predictor.

    `adjusted` is the p-value after Holm's correction for all columns.
    """

    score: str
    side: str
    correlation: Interval
    p: Interval
    errors: Mapping[str, Interval] = field(default_factory=dict)
    adjusted: float = 1.0

    @property
    def where(self) -> Mapping[str, Coordinate]:
        """The keys of the correlation."""
        return {"score": self.score, "side": self.side}

    def where_p(self, correction: str) -> Mapping[str, Coordinate]:
        """Return the keys of the p-value."""
        return {"test": self.score, "correction": correction}

    def where_error(self, predictor: str) -> Mapping[str, Coordinate]:
        """Return the keys of an error of prediction."""
        return {"of": "downstream", "score": self.score, "predictor": predictor}


Outcome = Relation | Warning


def relate(matrix: Matrix, inputs: Inputs, *, permutations: int, seed: int) -> tuple[Outcome, ...]:
    """Return warnings, then relations of scores of languages with row means, or of scores of pairs with cells."""
    table = inputs.downstream
    if table is None:
        return ()
    found: list[Outcome] = [Warning(id="downstream", message=note) for note in table.notes]
    relation = _of_languages if table.kind == "languages" else _of_pairs
    for name, values in zip(table.names, table.values, strict=True):
        found += relation(matrix, inputs.languages, name, values, permutations, seed)
    columns = [one for one in found if isinstance(one, Relation)]
    adjusted = adjust([one.p.value for one in columns], "holm")
    warnings = [one for one in found if isinstance(one, Warning)]
    return (*warnings, *(replace(one, adjusted=p) for one, p in zip(columns, adjusted, strict=True)))


def _of_languages(
    matrix: Matrix, languages: Sequence[str], name: str, values: Floats, permutations: int, seed: int
) -> list[Outcome]:
    scores = dict(zip(languages, values.tolist(), strict=True))
    codes = [code for code in languages if code in matrix.received and not math.isnan(scores[code])]
    received = np.array([matrix.received[code].value for code in codes])
    score = np.array([scores[code] for code in codes])
    value = spearman(received, score) if len(codes) >= FEWEST else None
    if value is None:
        text = f"Nothing is said of {name}: {len(codes)} languages with a score and a row, or all alike."
        return [Warning(id="no-test", message=text)]
    low, high = bonett_wright(value, len(codes) - 3, level=matrix.level)
    correlation = Interval(
        value=value,
        low=low,
        high=high,
        method="Spearman over languages, Fisher's z with Bonett and Wright's variance",
        n=len(codes),
        unit="languages",
    )
    p = _order_interval(received, score, permutations, generator(seed, "orders", name), matrix.level)
    errors = {
        predictor: _mean_error(left_out_errors(by, score), matrix.level)
        for predictor, by in (("interference", received), ("mean", None))
    }
    return [Relation(score=name, side="received", correlation=correlation, p=p, errors=errors)]


def _order_interval(
    received: Floats, score: Floats, permutations: int, rng: np.random.Generator, level: float
) -> Interval:
    value, low, high = order_p(received, score, permutations, rng, level=level)
    exact = low is None
    return Interval(
        value=value,
        low=low,
        high=high,
        method="exact" if exact else "permutation of scores, Clopper-Pearson over orders",
        n=math.factorial(len(score)) if exact else permutations,
        unit="orders",
    )


def left_out_errors(predictor: Floats | None, score: Floats) -> Floats:
    """Return leave-one-out errors of a regression of the score; without predictor, of the mean of the others."""
    errors = []
    for index in range(len(score)):
        kept = np.delete(np.arange(len(score)), index)
        guess = float(score[kept].mean())
        # A line through languages that all receive the same has no slope: then the mean has to do.
        if predictor is not None and np.ptp(predictor[kept]) > 0:
            slope, start = np.polyfit(predictor[kept], score[kept], 1)
            guess = float(start + slope * predictor[index])
        errors.append(abs(float(score[index]) - guess))
    return np.array(errors)


def _mean_error(errors: Floats, level: float) -> Interval:
    method, (low, high) = mean_interval(errors, level=level, positive=True) or ("none", (None, None))
    full_method = method if method == "none" else f"mean absolute error on languages left out one by one, {method}"
    return Interval(value=float(errors.mean()), low=low, high=high, method=full_method, n=len(errors), unit="languages")


def _of_pairs(
    matrix: Matrix, languages: Sequence[str], name: str, values: Floats, permutations: int, seed: int
) -> list[Outcome]:
    kept = complete(values)
    grid = np.ix_(kept, kept)
    cells, values = matrix.array(languages)[grid], values[grid]
    rng = generator(seed, "relabelling", "downstream", name)
    try:
        test = permutation_test(cells, values, statistic="spearman", repeats=permutations, rng=rng)
    except Undefined as error:
        return [Warning(id="no-test", message=f"Nothing is said of {name}: {error}.")]
    correlation = correlation_interval(cells, values, test.value, matrix.level)
    made = Relation(score=name, side="cell", correlation=correlation, p=p_interval(test, matrix.level))
    return [*without_interval(correlation, made.where), made]
