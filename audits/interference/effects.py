"""Tests of script, family and other similarities of languages against interference.

Cells of one row or column are not independent, so that no test may count them as such: the languages are relabelled,
rows and columns together (Mantel 1967; Krackhardt 1988), and with few languages there are few ways to do that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from audits.core.intervals import Interval, exact
from audits.core.records import Coordinate, Warning
from audits.core.wording import listed
from audits.interference.likenesses import EFFECTS, Likeness, complete, likenesses_of
from audits.interference.matrix import Matrix, Weights, combined
from audits.interference.settings import Inputs
from audits.statistics import enough_permutations, generator
from audits.statistics.binomial import clopper_pearson
from audits.statistics.multiplicity import adjust, scaled
from audits.statistics.qap import QapTest, Undefined, permutation_test
from audits.statistics.rank_correlation import spearman

Floats = NDArray[np.float64]
FEWEST = 5
"""Languages below which a correlation over pairs of them has no interval: it is left out one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """One similarity of languages and its test.

    Parameters
    ----------
    given
        Which other likeness is held fixed; empty for none.
    effect
        The difference of cells for script and family, else the correlation.
    p
        The p-value before correction.
    adjusted
        P-value after Holm's correction for all likenesses.
    contrast
        Of an effect: p-value over seeds and sentences, after Holm's correction for all effects; None with one seed.
    """

    name: str
    kind: str
    given: str = ""
    effect: Interval
    p: Interval
    test: QapTest
    adjusted: float = 1.0
    contrast: float | None = None

    @property
    def estimate(self) -> str:
        """The name of the estimate."""
        return f"{self.name}_effect" if self.name in EFFECTS else "similarity_correlation"

    @property
    def where(self) -> Mapping[str, Coordinate]:
        """The keys of the estimate."""
        return {"adjusted": "yes" if self.given else "no"} if self.name in EFFECTS else {"attribute": self.name}

    def where_p(self, correction: str) -> Mapping[str, Coordinate]:
        """Return the keys of the p-value."""
        return {"test": self.name, "correction": correction, **(self.where if self.name in EFFECTS else {})}


Outcome = Association | Warning


def explain(matrix: Matrix, inputs: Inputs, *, permutations: int, seed: int) -> tuple[Outcome, ...]:
    """Return warnings, then the tests of script and family and of the correlations with all other similarities."""
    if not matrix.cells:
        return ()
    found: list[Outcome] = [
        Warning(id="similarity", message=note, where={"attribute": given.name})
        for given in inputs.similarities
        for note in given.notes
    ]
    likenesses = likenesses_of(inputs)
    # Each may be asked twice, the second time with the others held fixed.
    repeats = enough_permutations(permutations, 2 * len(likenesses), matrix.level)
    for one in likenesses:
        # A stream for each: another column in langs.csv changes no p-value but its own.
        rng = generator(seed, "relabelling", one.name)
        found += _left_out(one, inputs.languages)
        found += _plain(matrix, inputs.languages, one, repeats, rng)
    both = {one.name: one for one in likenesses if one.name in EFFECTS}
    for name, other in (EFFECTS, EFFECTS[::-1]) if len(both) == len(EFFECTS) else ():
        rng = generator(seed, "relabelling", name, "given", other)
        found += _given(matrix, inputs.languages, both[name], both[other], repeats, rng)
    warnings = [one for one in found if isinstance(one, Warning)]
    return (*warnings, *_corrected([one for one in found if isinstance(one, Association)]))


def _corrected(tests: Sequence[Association]) -> tuple[Association, ...]:
    """Return the tests with Holm-corrected p-values, and so those of the contrasts."""
    corrected = adjust([one.test.p for one in tests], "holm")
    contrasts = iter(adjust([one.contrast for one in tests if one.contrast is not None], "holm"))
    return tuple(
        replace(one, adjusted=p, contrast=None if one.contrast is None else next(contrasts))
        for one, p in zip(tests, corrected, strict=True)
    )


def _left_out(one: Likeness, languages: Sequence[str]) -> list[Outcome]:
    kept = complete(one.matrix)
    out = [code for index, code in enumerate(languages) if index not in kept]
    text = f"{listed(out)} take no part in what is said of {one.name}: not known of all pairs."
    return [Warning(id="left-out", message=text)] if out else []


def _plain(matrix: Matrix, languages: Sequence[str], one: Likeness, repeats: int, rng: Generator) -> list[Outcome]:
    """Return the test of one similarity alone against the cells."""
    kept = complete(one.matrix)
    grid = np.ix_(kept, kept)
    cells, likeness = matrix.array(languages)[grid], one.matrix[grid]
    statistic: Literal["difference", "spearman"] = "difference" if one.name in EFFECTS else "spearman"
    try:
        test = permutation_test(cells, likeness, statistic=statistic, repeats=repeats, rng=rng)
    except Undefined as error:
        return [Warning(id="no-test", message=f"Nothing is said of {one.name}: {error}.")]
    if one.name in EFFECTS:
        # Not the permutation's own statistic: that says nothing of seeds and sentences.
        return _contrast(matrix, one, test, _difference(matrix, languages, kept, one.matrix))
    effect, p = correlation_interval(cells, likeness, test.value, matrix.level), p_interval(test, matrix.level)
    made = Association(name=one.name, kind=one.kind, effect=effect, p=p, test=test)
    return [*without_interval(effect, made.where), made]


def _given(
    matrix: Matrix, languages: Sequence[str], one: Likeness, other: Likeness, repeats: int, rng: Generator
) -> list[Outcome]:
    """Return the effect of script given family, or the reverse, where the languages separate the two."""
    kept = complete(one.matrix, other.matrix)
    grid = np.ix_(kept, kept)
    cells, own, held = matrix.array(languages)[grid], one.matrix[grid], other.matrix[grid]
    try:
        test = permutation_test(cells, own, statistic="slope", adjust=(held,), repeats=repeats, rng=rng)
    except Undefined as error:
        return [Warning(id="no-test", message=f"Nothing is said of {one.name} given {other.name}: {error}.")]
    between = _between(matrix, languages, kept, one.matrix, other.matrix)
    design = np.array([[1.0, *values] for _, values in between])
    # A slope of least squares is a weighted sum of the cells, so that it is judged over seeds as any contrast.
    slopes = np.linalg.pinv(design)[1]
    parts = [(weight, weights) for weight, (weights, _) in zip(slopes.tolist(), between, strict=True)]
    return _contrast(matrix, one, test, combined(parts), given=other.name)


def _contrast(matrix: Matrix, one: Likeness, test: QapTest, weights: Weights, given: str = "") -> list[Outcome]:
    (judged,) = matrix.judge([weights])
    if judged is None:
        return [Warning(id="other-seeds", message=f"The effect of {one.name} has no seed that all its cells share.")]
    made = Association(
        name=one.name,
        kind=one.kind,
        given=given,
        effect=judged.interval,
        p=p_interval(test, matrix.level),
        test=test,
        contrast=judged.crossed.p,
    )
    if made.effect.low is not None:
        return [made]
    text = f"Nothing varies over seeds or sentences: the effect of {one.name} has no interval."
    return [Warning(id="no-interval", message=text), made]


def _between(
    matrix: Matrix, languages: Sequence[str], kept: Sequence[int], *likenesses: Floats
) -> list[tuple[Weights, tuple[float, ...]]]:
    """Return the contrasts of the cells between the chosen languages, with their similarities."""
    found = []
    for target, source in matrix.cells:
        at = languages.index(target), languages.index(source)
        if {*at} <= {*kept}:
            found.append((matrix.contrasts[target, source], tuple(float(one[at]) for one in likenesses)))
    return found


def _difference(matrix: Matrix, languages: Sequence[str], kept: Sequence[int], same: Floats) -> Weights:
    """Return the mean cell of pairs that share a class less that of pairs that do not."""
    between = _between(matrix, languages, kept, same)
    shared = sum(is_same for _, (is_same,) in between)
    others = len(between) - shared
    return combined([(1 / shared if is_same else -1 / others, weights) for weights, (is_same,) in between])


def p_interval(test: QapTest, level: float) -> Interval:
    """Return the p-value of a permutation test, exact where all permutations were made."""
    if test.exact:
        return exact(test.p, n=test.arrangements, unit="arrangements")
    low, high = clopper_pearson(round(test.p * test.arrangements), test.arrangements, level=level)
    return Interval(
        value=test.p,
        low=min(low, test.p),
        high=max(high, test.p),
        method="permutation of languages, Clopper-Pearson over relabellings",
        n=test.arrangements,
        unit="relabellings",
    )


def corrected(p: Interval, adjusted: float) -> Interval:
    """Return a p-value after correction, with the limits of its interval scaled alike."""
    value, low, high = scaled((p.value, p.low, p.high), adjusted)
    return replace(p, value=value, low=low, high=high)


def correlation_interval(cells: Floats, other: Floats, value: float, level: float) -> Interval:
    """Return a rank correlation over cells with a jackknife interval over languages.

    Snijders and Borgatti 1999: the squared standard error over nodes of a network is (n - 2) / (2n) times the sum of
    squares around the mean of the n values without one node each; here on Fisher's scale.
    """
    ends = _jackknifed(cells, other, value, level)
    low, high = ends or (None, None)
    method = "none" if ends is None else "Spearman over cells, jackknife over languages, Fisher's z"
    return Interval(value=value, low=low, high=high, method=method, n=len(cells), unit="languages")


def without_interval(correlation: Interval, where: Mapping[str, Coordinate]) -> list[Warning]:
    """Return the warning that a correlation over cells has no interval, where that is so."""
    text = "This correlation has no interval: too few languages, or it is perfect or undefined without one of them."
    return [Warning(id="no-interval", message=text, where=where)] if correlation.low is None else []


def _jackknifed(cells: Floats, likeness: Floats, value: float, level: float) -> tuple[float, float] | None:
    from scipy.stats import t

    count = len(cells)
    if count < FEWEST or abs(value) >= 1:
        return None
    without = []
    for index in range(count):
        kept = np.delete(np.arange(count), index)
        found = rank_correlation(cells[np.ix_(kept, kept)], likeness[np.ix_(kept, kept)])
        # Fisher's z of a perfect correlation is infinite.
        if found is None or abs(found) >= 1:
            return None
        without.append(math.atanh(found))
    spread = np.array(without) - np.mean(without)
    error = math.sqrt((count - 2) / (2 * count) * float((spread**2).sum()))
    half = float(t.isf((1 - level) / 2, count - 1)) * error
    centre = math.atanh(value)
    return math.tanh(centre - half), math.tanh(centre + half)


def rank_correlation(first: Floats, second: Floats) -> float | None:
    """Return Spearman's correlation over the cells off the diagonal that both have; None where one is constant.

    >>> round(rank_correlation(np.array([[0, 1.0], [2, 0]]), np.array([[0, 5.0], [7, 0]])), 6)
    1.0
    """
    there = ~np.eye(len(first), dtype=bool) & ~np.isnan(first) & ~np.isnan(second)
    return spearman(first[there], second[there])
