"""Intervals of contrasts of losses with two crossed sources of chance: training seeds and held-out sentences.

The seeds are new at every training and shared by all languages; the sentences of a language are the same for all seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.statistics.moderated import squeeze

Floats = NDArray[np.float64]

CAUTION = 1.0
"""Standard errors by which the seed variances of a family are taken to differ more than they seem to.

Without it, a fifth of the matrices without effects had an alarm after Holm's correction where the models of half of the
pairs had four times the spread of the others; with it, a tenth. Twice as much brought no more.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A contrast of losses of one language: for each seed s, factor * sum_k deltas[s, k] / sum_k weights[k].

    Parameters
    ----------
    deltas
        Sums of nats over the masked tokens of a sentence, under one model less under others, shape (seeds, sentences).
    weights
        Masked tokens of the sentences, shape (sentences,).
    factor
        From nats per masked token to the unit reported, with the sign and share the part has in its contrast.
    language
        Its name: parts of one language in several contrasts share a model. Empty: told by the same weights.
    """

    deltas: Floats
    weights: Floats
    factor: float = 1.0
    language: str = ""

    def __post_init__(self) -> None:
        if self.deltas.ndim != 2 or self.weights.shape != self.deltas.shape[1:] or not self.deltas.size:
            raise ValueError(f"deltas {self.deltas.shape} are not (seeds, sentences) of weights {self.weights.shape}")
        if not (np.isfinite(self.deltas).all() and np.isfinite(self.weights).all() and math.isfinite(self.factor)):
            raise ValueError("deltas, weights and factor must be finite")
        if (self.weights < 0).any() or not self.weights.any():
            raise ValueError("weights must not be negative, nor all 0")


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """A sum of parts, each of another language, with independent sentences and the same seeds.

    What is of one language is one part, such as the mean of a row of the matrix: its deltas are the mean of deltas.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not self.parts or len({len(part.deltas) for part in self.parts}) > 1:
            raise ValueError("a contrast has one part or more, all of the same seeds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """A contrast with its standard error over seeds and sentences.

    Parameters
    ----------
    df
        Satterthwaite's degrees of freedom of `se`; None where nothing varies.
    low, high
        Ends of Student's interval; None where nothing varies.
    p
        Two-sided, against 0; None where nothing varies, and with one seed.
    seed_sd
        Plain standard deviation of this contrast over the seeds; None with one seed.
    sentence_se
        Standard error over the sentences alone.
    n
        Sentences of some weight.
    seeds_known, sentences_known
        Whether there are two seeds, and two sentences of every language, or more: otherwise the interval lacks what
        other seeds, or other sentences, would have changed.
    """

    value: float
    se: float
    df: float | None
    low: float | None
    high: float | None
    p: float | None
    seed_sd: float | None
    sentence_se: float
    n: int
    seeds: int
    seeds_known: bool
    sentences_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """The variance components of one contrast: of seeds, of the mean over sentences, and of both at once."""

    values: Floats
    sentences: float
    freedom: float
    both: float


def crossed_intervals(family: Sequence[Contrast], *, level: float = 0.95) -> list[Crossed]:
    """Return values, intervals and p-values of contrasts of one kind, such as all cells of a matrix.

    With seeds s and sentences k crossed, the variance of a mean over both is A + B - C: A the variance of the S values
    of single seeds over S; B that of the sentences, (K - 1) / K sum z_k^2 with z_k = factor (u_k - r w_k) / (W - w_k)
    how far the ratio of sums moves without each of the K, u the mean of the deltas over seeds and r = sum u / W
    (jackknife, Shao and Tu 1995); C what A and B both hold, the interaction, from what is left of the deltas without
    the means of seeds and sentences (after Cameron, Gelbach and Miller 2011, section 2, two-way clusters). The estimate
    is never below the larger of A and B, as the true one cannot be. The seed variances of a family of three contrasts
    or more are drawn together (`squeeze`); parts with the same weights are taken to be of one language and to share a
    model, so that they count as fewer. Smaller families have S - 1 degrees of freedom for the seeds. The degrees of
    freedom of the whole are Satterthwaite's; those of B follow from the fourth powers of z, so that few long or odd
    sentences count as few.

    Examples
    --------
    Values of seeds 1 and 3, and sentences that are all alike: the variance is 2 / 2, with one degree of freedom.

    >>> part = Part(np.array([[1.0, 1.0], [3.0, 3.0]]), np.ones(2))
    >>> found = crossed_intervals([Contrast((part,))])[0]
    >>> found.value, found.se, found.df, round(found.high, 3), round(found.p, 3), round(2 * math.atan(0.5) / math.pi, 3)
    (2.0, 1.0, 1.0, 14.706, 0.295, 0.295)
    """
    from scipy.stats import t

    if not family:
        return []
    sources = [_sources(contrast) for contrast in family]
    seed_parts = _seed_parts(family, sources)
    variances, freedom = np.array([_total(one, *seeds) for one, seeds in zip(sources, seed_parts, strict=True)]).T
    errors = np.sqrt(variances)
    values = np.array([one.values.mean() for one in sources])
    half = errors * t.isf((1 - level) / 2, freedom)
    p = 2 * t.sf(np.abs(values) / np.where(errors > 0, errors, 1.0), freedom)
    return [
        _result(contrast, source, *map(float, numbers))
        for contrast, source, *numbers in zip(family, sources, values, errors, freedom, half, p, strict=True)
    ]


def _sources(contrast: Contrast) -> _Sources:
    seeds = len(contrast.parts[0].deltas)
    values, sentences, fourth, both = np.zeros(seeds), 0.0, 0.0, 0.0
    for part in contrast.parts:
        count, whole = part.deltas.shape[1], part.weights.sum()
        of_seeds = part.deltas.sum(1) / whole
        values += part.factor * of_seeds
        if count < 2:
            continue
        mean, left = part.deltas.mean(0), whole - part.weights
        # Leave-one-out deviations: dividing by the weight that is left undoes a sentence's own pull on the ratio.
        reach = np.divide(part.factor, left, out=np.zeros(count), where=left > 0)
        squares = ((mean - of_seeds.mean() * part.weights) * reach) ** 2 * (count - 1) / count
        sentences += squares.sum()
        fourth += _spread_of_sum(squares)
        if seeds > 1:
            # The effect of a seed on every token grows with the tokens of a sentence.
            rest = part.deltas - mean - np.outer(of_seeds - of_seeds.mean(), part.weights)
            of_both = (rest * reach) ** 2 * (count - 1) / count
            both += of_both.sum() / (seeds * (seeds - 1))
    # Satterthwaite's degrees of freedom of an estimated variance V, itself of variance F: 2 V^2 / F.
    freedom = 2 * sentences**2 / fourth if fourth > 0 else math.inf
    return _Sources(values=values, sentences=float(sentences), freedom=float(freedom), both=float(both))


def _spread_of_sum(squares: Floats) -> float:
    """Return the variance of a sum of squares, at least that of normal values, 2 sum^2 / (count - 1)."""
    count, total = len(squares), squares.sum()
    return float(max((squares**2).sum() - total**2 / count, 2 * total**2 / (count - 1)))


def _seed_parts(family: Sequence[Contrast], sources: Sequence[_Sources]) -> list[tuple[float, float]]:
    """Return each contrast's variance of the mean over seeds and its degrees of freedom; 0 and infinite for one."""
    found = [(0.0, math.inf)] * len(sources)
    several = [index for index, one in enumerate(sources) if len(one.values) > 1]
    if several:
        counts = np.array([len(sources[index].values) for index in several])
        plain = np.array([sources[index].values.var(ddof=1) for index in several])
        most = independent_contrasts([family[index] for index in several]) * float((counts - 1).mean())
        moderated = squeeze(plain, counts - 1.0, caution=CAUTION, most=most)
        for index, *pair in zip(several, moderated.variances / counts, moderated.freedom, strict=True):
            found[index] = (float(pair[0]), float(pair[1]))
    return found


def independent_contrasts(family: Sequence[Contrast]) -> float:
    """Return the effective number of independent contrasts in a family, where those of one language share a model.

    That model has half of the variance, so that two contrasts are correlated by half the cosine of their factors.
    """
    languages: dict[str | bytes, int] = {}
    columns = [
        [languages.setdefault(p.language or p.weights.tobytes(), len(languages)) for p in one.parts] for one in family
    ]
    factors = np.zeros((len(family), len(languages)))
    for row, where, one in zip(factors, columns, family, strict=True):
        row[where] = [part.factor for part in one.parts]
    length = np.sqrt((factors**2).sum(1, keepdims=True))
    factors /= np.where(length > 0, length, 1.0)
    count = len(family)
    squares = ((factors.T @ factors) ** 2).sum()
    # Half the cosine, squared, is a quarter of its square.
    return float(count**2 / (count + max(squares - count, 0.0) / 4))


def _total(source: _Sources, seeds: float, freedom: float) -> tuple[float, float]:
    """Return the variance of a contrast and Satterthwaite's degrees of freedom, which are 1 where nothing varies."""
    variance = max(seeds + source.sentences - source.both, seeds, source.sentences)
    spread = seeds**2 / freedom + source.sentences**2 / source.freedom
    return variance, variance**2 / spread if spread > 0 else 1.0


def _result(
    contrast: Contrast, source: _Sources, value: float, error: float, freedom: float, half: float, p: float
) -> Crossed:
    seeds, counts = len(source.values), [int((part.weights > 0).sum()) for part in contrast.parts]
    varies = error > 0
    return Crossed(
        value=value,
        se=error,
        df=freedom if varies else None,
        low=value - half if varies else None,
        high=value + half if varies else None,
        p=p if varies and seeds > 1 else None,
        seed_sd=float(source.values.std(ddof=1)) if seeds > 1 else None,
        sentence_se=math.sqrt(source.sentences),
        n=sum(counts),
        seeds=seeds,
        seeds_known=seeds > 1,
        sentences_known=min(counts) > 1,
    )
