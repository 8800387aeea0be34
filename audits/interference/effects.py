"""Is it script, family, or another likeness of languages that goes with interference?

Cells of one row or column are not independent, so that no test may count them as such: the languages are relabelled,
rows and columns together (Mantel 1967; Krackhardt 1988), and with few languages there are few ways to do that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.interference import Options
from audits.interference.estimating import Found, row
from audits.interference.likenesses import EFFECTS, Likeness, complete, likenesses_of
from audits.interference.matrix import Matrix, Weights, combined
from audits.records import Coordinate, Estimate
from audits.statistics import enough_permutations, generator
from audits.statistics.binomial import clopper_pearson
from audits.statistics.multiplicity import adjust, scaled
from audits.statistics.qap import QapTest, Undefined, permutation_test
from audits.statistics.rank_correlation import spearman
from audits.wording import listed

if TYPE_CHECKING:
    from audits.interference.inputs import Inputs

Floats = NDArray[np.float64]
FEWEST = 5
"""Languages below which a correlation over pairs of them has no interval: it is left out one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """One likeness of languages and its test.

    Parameters
    ----------
    effect
        Place of the estimate: of the difference for script and family, else of the correlation.
    p
        Place of the raw p-value.
    adjusted
        P-value after Holm's correction for all likenesses.
    given
        Which other likeness is held fixed; empty for none.
    contrast
        Of an effect: p-value over seeds and sentences, after Holm's correction for all effects; None with one seed.
    """

    name: str
    kind: str
    effect: int
    p: int
    test: QapTest
    adjusted: float
    given: str = ""
    contrast: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """All tests, in the order in which they stand in the report."""

    tests: tuple[Association, ...]


@dataclass(frozen=True, slots=True)
class _Added:
    """Place of an estimate, and the p-value of its contrast where it is one."""

    place: int
    contrast: float | None


def explain(
    draft: Draft, matrix: Matrix, found: Found, inputs: "Inputs", options: Options, context: Context
) -> Effects:
    """Add effects of script and family, and correlations with all other likenesses, with their tests."""
    if inputs.part is not None or not found.cells:
        return Effects(tests=())
    cells = found.array(inputs.languages)
    for given in inputs.similarities:
        for note in given.notes:
            draft.warn("similarity", note, attribute=given.name)
    made: list[Association] = []
    likenesses = likenesses_of(inputs)
    # Each may be asked twice, the second time with the others held fixed.
    enough = enough_permutations(options.permutations, 2 * len(likenesses), context.level)
    options = replace(options, permutations=enough)
    for one in likenesses:
        statistic: Literal["difference", "spearman"] = "difference" if one.name in EFFECTS else "spearman"
        # A stream for each: another column in langs.csv changes no p-value but its own.
        rng = generator(context.seed, "relabelling", one.name)
        kept = complete(one.matrix)
        _say_left_out(draft, one.name, inputs.languages, kept)
        at = np.ix_(kept, kept)
        try:
            test = permutation_test(
                cells[at], one.matrix[at], statistic=statistic, repeats=options.permutations, rng=rng
            )
        except Undefined as error:
            draft.warn("no-test", f"Nothing is said of {one.name}: {error}.")
            continue
        added = _add_effect(draft, matrix, found, inputs, one, test, cells, kept)
        if added is not None:
            made.append(_tested(draft, context, one, test, added))
    made += _adjusted(draft, matrix, found, inputs, options, context, likenesses, cells)
    made = _with_contrasts(made)
    corrected = adjust([one.test.p for one in made], "holm")
    made = [replace(tested, adjusted=p) for tested, p in zip(made, corrected, strict=True)]
    for tested in made:
        raw = draft.estimates[tested.p]
        value, low, high = scaled((raw.value, raw.low, raw.high), tested.adjusted)
        draft.add(replace(raw, value=value, low=low, high=high, where={**raw.where, "correction": "holm"}))
    return Effects(tests=tuple(made))


def _with_contrasts(made: list[Association]) -> list[Association]:
    """Return the effects with the p-values of their contrasts corrected for one another, by Holm."""
    places = [place for place, one in enumerate(made) if one.contrast is not None]
    corrected = adjust([one.contrast for one in made if one.contrast is not None], "holm")
    found = dict(zip(places, corrected, strict=True))
    return [replace(one, contrast=found.get(place)) for place, one in enumerate(made)]


def _say_left_out(draft: Draft, name: str, languages: Sequence[str], kept: Sequence[int]) -> None:
    out = [code for place, code in enumerate(languages) if place not in kept]
    if out:
        draft.warn("left-out", f"{listed(out)} take no part in what is said of {name}: not known of all pairs.")


def _tested(
    draft: Draft, context: Context, one: Likeness, test: QapTest, added: _Added, given: str = ""
) -> Association:
    where = {
        "test": one.name,
        "correction": "none",
        **({"adjusted": "yes" if given else "no"} if one.name in EFFECTS else {}),
    }
    return Association(
        name=one.name,
        kind=one.kind,
        effect=added.place,
        p=draft.add(p_estimate(test, where, context.level)),
        test=test,
        adjusted=test.p,
        given=given,
        contrast=added.contrast,
    )


def p_estimate(test: QapTest, where: Mapping[str, Coordinate], level: float) -> Estimate:
    """Return the p-value of a permutation test: exact where all arrangements were looked at."""
    if test.exact:
        return Estimate(
            name="p_value",
            value=test.p,
            level=level,
            method="exact",
            n=test.arrangements,
            unit="arrangements",
            where=where,
        )
    low, high = clopper_pearson(round(test.p * test.arrangements), test.arrangements, level=level)
    return Estimate(
        name="p_value",
        value=test.p,
        low=min(low, test.p),
        high=max(high, test.p),
        level=level,
        method="permutation of languages, Clopper-Pearson over relabellings",
        n=test.arrangements,
        unit="relabellings",
        where=where,
    )


def _add_effect(
    draft: Draft,
    matrix: Matrix,
    found: Found,
    inputs: "Inputs",
    one: Likeness,
    test: QapTest,
    cells: Floats,
    kept: Sequence[int],
) -> _Added | None:
    if one.name in EFFECTS:
        # Not the permutation's own statistic: that says nothing of seeds and sentences.
        weights = _difference(matrix, found, inputs.languages, kept, one.matrix)
        return _add_contrast(draft, matrix, one.name, weights, "no")
    where = {"attribute": one.name}
    at = np.ix_(kept, kept)
    place = correlated(draft, "similarity_correlation", where, test, cells[at], one.matrix[at], matrix.level)
    return _Added(place, None)


def _places(
    found: Found, languages: Sequence[str], kept: Sequence[int], *likenesses: Floats
) -> list[tuple[str, str, tuple[float, ...]]]:
    """Return the cells between the languages that take part, with their likenesses."""
    places = []
    for target, source in found.cells:
        at = languages.index(target), languages.index(source)
        if {*at} <= {*kept}:
            places.append((target, source, tuple(float(one[at]) for one in likenesses)))
    return places


def _difference(matrix: Matrix, found: Found, languages: Sequence[str], kept: Sequence[int], same: Floats) -> Weights:
    """Return the mean cell of pairs that share a class less that of pairs that do not."""
    places = _places(found, languages, kept, same)
    shared = sum(values[0] for _, _, values in places)
    parts = []
    for target, source, values in places:
        weights = matrix.cell(target, source)
        assert weights is not None
        parts.append((1 / shared if values[0] else -1 / (len(places) - shared), weights))
    return combined(parts)


def _add_contrast(draft: Draft, matrix: Matrix, name: str, weights: Weights, adjusted: str) -> _Added | None:
    (judged,) = matrix.judge([weights])
    where = {"adjusted": adjusted}
    if judged is None:
        draft.warn("other-seeds", f"The effect of {name} has no seed that all its cells share.")
        return None
    made = row(f"{name}_effect", judged.crossed, matrix.level, where, 1)
    if made.low is None:
        draft.warn("no-interval", f"Nothing varies over seeds or sentences: the effect of {name} has no interval.")
    return _Added(draft.add(made), judged.crossed.p)


def _adjusted(
    draft: Draft,
    matrix: Matrix,
    found: Found,
    inputs: "Inputs",
    options: Options,
    context: Context,
    likenesses: Sequence[Likeness],
    cells: Floats,
) -> list[Association]:
    """Add the effects of script given family, and of family given script, where the languages can part the two."""
    both = {one.name: one for one in likenesses if one.name in EFFECTS}
    if len(both) < len(EFFECTS):
        return []
    made = []
    for name, other in (EFFECTS, EFFECTS[::-1]):
        rng = generator(context.seed, "relabelling", name, "given", other)
        kept = complete(both[name].matrix, both[other].matrix)
        at = np.ix_(kept, kept)
        try:
            test = permutation_test(
                cells[at],
                both[name].matrix[at],
                statistic="slope",
                adjust=(both[other].matrix[at],),
                repeats=options.permutations,
                rng=rng,
            )
        except Undefined as error:
            draft.warn("no-test", f"Nothing is said of {name} given {other}: {error}.")
            continue
        places = _places(found, inputs.languages, kept, both[name].matrix, both[other].matrix)
        design = np.array([[1.0, *values] for _, _, values in places])
        # A slope of least squares is a weighted sum of the cells, so that it is judged over seeds as any contrast.
        slopes = np.linalg.pinv(design)[1]
        parts = []
        for (target, source, _), weight in zip(places, slopes.tolist(), strict=True):
            weights = matrix.cell(target, source)
            assert weights is not None
            parts.append((weight, weights))
        added = _add_contrast(draft, matrix, name, combined(parts), "yes")
        if added is not None:
            made.append(_tested(draft, context, both[name], test, added, given=other))
    return made


def correlated(
    draft: Draft,
    name: str,
    where: Mapping[str, Coordinate],
    test: QapTest,
    cells: Floats,
    other: Floats,
    level: float,
) -> int:
    """Add a rank correlation over cells, its interval by leaving out one language at a time.

    Snijders and Borgatti 1999: the squared standard error over nodes of a network is (n - 2) / (2n) times the sum of
    squares around the mean of the n values without one node each; here on Fisher's scale.
    """
    ends = _jackknifed(cells, other, test.value, level)
    if ends is None:
        text = "This correlation has no interval: too few languages, or it is perfect or undefined without one of them."
        draft.warn("no-interval", text, **where)
    low, high = ends or (None, None)
    return draft.add(
        Estimate(
            name=name,
            value=test.value,
            low=low,
            high=high,
            level=level,
            method="none" if ends is None else "Spearman over cells, jackknife over languages, Fisher's z",
            n=len(cells),
            unit="languages",
            where=where,
        )
    )


def _jackknifed(cells: Floats, likeness: Floats, value: float, level: float) -> tuple[float, float] | None:
    from scipy.stats import t

    count = len(cells)
    if count < FEWEST or abs(value) >= 1:
        return None
    without = []
    for place in range(count):
        kept = np.delete(np.arange(count), place)
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
