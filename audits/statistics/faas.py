"""The published Fairness Adjusted ASR Score (FAAS), for comparison with papers that report nothing else.

The score says little of fairness. Within an attribute the rates of the levels are scaled from the lowest to the
highest, so that the worst level always scores 0 and the best 100. With two levels the score of the attribute is the
share of the clips in the better one, whatever the size of the gap: with 90 % of the clips in the better group it is
90 both where that fares a hundredth better and where it fares ten times better. Then it is multiplied by p / 0.05
where p is below 0.05, so that more clips of the same system take it towards 0. It is made from WERs of clips, not
pooled ones, and from a model with normal errors.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[Any]
SIGNIFICANT = 0.05
METHODS = ("bfgs", "lbfgs", "cg", "powell", "nm")
"""Optimisers in the order in which they are tried: the last two still converge where the variance is at 0."""


class Undefined(ValueError):
    """The score is undefined for these data; the message states the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faas:
    """The score in dB, and for each attribute its score out of 100 before the adjustment and its p-value."""

    score: float
    categories: tuple[float, ...]
    p_values: tuple[float, ...]


def fairness_adjusted_score(
    rates: Floats, speakers: Labels, attributes: Sequence[Labels], *, methods: Sequence[str] = METHODS
) -> Faas:
    """Return FAAS = 10 log10(mean of the attributes' scores / mean WER), close to the public code.

    For each attribute a linear mixed model of the WER of a clip, with the attribute's levels as fixed effects and an
    intercept of each speaker, is fitted by maximum likelihood; x_g is the WER it predicts for level g, and p comes
    from the likelihood-ratio test against the model without levels. The attribute's score is
    sum_g share_g 100 (1 - (x_g - min x) / (max x - min x)), share_g the share of clips (100 where all x_g are
    equal), times p / 0.05 if p < 0.05 (Rai, Rahangdale, Anand and Mukherjee 2025, "ASR-FairBench", whose text has
    a Poisson model instead). The scores go from 0 to 100 and the mean WER is a fraction, so that with WERs in percent
    the result would be 20 lower. Public code varies: some of it fits all attributes at once, with the logarithm of
    the number of words, and takes the exponential of x_g, which moves the scores of attributes of three levels or more.

    Parameters
    ----------
    rates
        WER of each clip as a fraction, shape (clips,).
    speakers
        Speaker of each clip, shape (clips,).
    attributes
        For each attribute the level of each clip, shape (clips,).
    methods
        Optimisers, each tried where the one before did not converge.

    Raises
    ------
    Undefined
        Without clips, an attribute or an error, for an attribute of one level, for one speaker, where a model cannot be
        fitted (all rates alike), or where the mean score is 0.

    Examples
    --------
    Three quarters of the clips are of the group with the lower rate, so that 75 is its score; p is above 0.05.

    >>> rates = np.tile([0.1, 0.3, 0.2, 0.2, 0.1, 0.4, 0.2, 0.3], 2)
    >>> found = fairness_adjusted_score(rates, np.arange(16) // 2, [np.arange(16) // 2 % 4 == 3])
    >>> round(found.categories[0], 6), round(found.score, 3), round(float(10 * np.log10(75 / rates.mean())), 3)
    (75.0, 25.229, 25.229)
    """
    if not len(attributes) or not len(rates):
        raise Undefined("there are no clips, or no attribute to compare groups by")
    mean = float(np.mean(rates))
    if not mean > 0:
        raise Undefined(f"the mean WER is {mean}: its logarithm is not defined")
    names, people = np.unique(speakers, return_inverse=True)
    if len(names) < 2:
        raise Undefined("there is one speaker only: a mixed model needs two")
    plain, _ = _fit(rates, np.ones((len(rates), 1)), people, methods)
    found = [_category(rates, people, levels, plain, methods) for levels in attributes]
    adjusted = float(np.mean([score * min(p / SIGNIFICANT, 1.0) for score, p in found]))
    if not adjusted > 0:
        raise Undefined("the mean fairness score is 0: its logarithm is not defined")
    return Faas(
        score=float(10 * np.log10(adjusted / mean)),
        categories=tuple(score for score, _ in found),
        p_values=tuple(p for _, p in found),
    )


def _category(
    rates: Floats, people: NDArray[np.int64], levels: Labels, plain: float, methods: Sequence[str]
) -> tuple[float, float]:
    from scipy.stats import chi2

    names, level = np.unique(levels, return_inverse=True)
    if len(names) < 2:
        raise Undefined(f"an attribute has one level only, {names[0]}: there is nothing to compare")
    likelihood, predicted = _fit(rates, np.eye(len(names))[level], people, methods)
    p = float(chi2.sf(2 * max(likelihood - plain, 0.0), len(names) - 1))
    share = np.bincount(level) / len(level)
    room = predicted.max() - predicted.min()
    score = 100 * (1 - (predicted - predicted.min()) / room) if room > 0 else np.full(len(names), 100.0)
    return float(share @ score), p


def _fit(rates: Floats, design: Floats, people: NDArray[np.int64], methods: Sequence[str]) -> tuple[float, Floats]:
    """Fit a mixed model; return the log-likelihood and the fixed effects (the predictions of the levels)."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    with warnings.catch_warnings():
        # A variance of speakers at its bound of 0 is a result like any other here.
        warnings.simplefilter("ignore")
        try:
            fitted = MixedLM(rates, design, groups=people).fit(reml=False, method=list(methods))
            likelihood, effects = float(fitted.llf), np.asarray(fitted.fe_params, dtype=np.float64)
        except (np.linalg.LinAlgError, ValueError, ZeroDivisionError, FloatingPointError) as error:
            raise Undefined(f"the mixed model cannot be fitted: {error}") from error
    if not fitted.converged or not np.isfinite(likelihood) or not np.isfinite(effects).all():
        raise Undefined("the fit of the mixed model did not converge")
    return likelihood, effects
