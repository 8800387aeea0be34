"""Does the matrix foretell the scores of a downstream task that the user brings?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.interference import Options
from audits.interference.effects import correlated, p_estimate
from audits.interference.estimating import Found
from audits.interference.likenesses import complete
from audits.records import Estimate
from audits.statistics import generator
from audits.statistics.mean_intervals import mean_interval
from audits.statistics.multiplicity import adjust, scaled
from audits.statistics.qap import Undefined, permutation_test
from audits.statistics.rank_correlation import bonett_wright, order_p, spearman

if TYPE_CHECKING:
    from audits.interference.inputs import Inputs

Floats = NDArray[np.float64]
FEWEST = 5
"""Languages that a correlation of their means with a score needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """One column of scores: places of the correlation and of its p-value, and of the errors of prediction.

    `adjusted` is the p-value after Holm's correction for all columns.
    """

    score: str
    side: str
    correlation: int
    p: int
    errors: tuple[int, ...]
    adjusted: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstreamed:
    """All columns that could be set against the matrix."""

    related: tuple[Related, ...]


def relate(draft: Draft, found: Found, inputs: "Inputs", options: Options, context: Context) -> Downstreamed:
    """Add correlations of scores with what languages receive (a score each), or with the cells (a score a pair)."""
    table = inputs.downstream
    if table is None or inputs.part is not None:
        return Downstreamed(related=())
    for note in table.notes:
        draft.warn("downstream", note)
    made = []
    for name, values in zip(table.names, table.values, strict=True):
        one = (
            _of_languages(draft, found, inputs, name, values, options, context)
            if table.kind == "languages"
            else _of_pairs(draft, found, inputs, name, values, options, context)
        )
        if one is not None:
            made.append(one)
    corrected = adjust([draft.estimates[one.p].value for one in made], "holm")
    for one, p in zip(made, corrected, strict=True):
        raw = draft.estimates[one.p]
        value, low, high = scaled((raw.value, raw.low, raw.high), p)
        draft.add(replace(raw, value=value, low=low, high=high, where={**raw.where, "correction": "holm"}))
    return Downstreamed(related=tuple(replace(one, adjusted=p) for one, p in zip(made, corrected, strict=True)))


def _of_languages(
    draft: Draft, found: Found, inputs: "Inputs", name: str, values: Floats, options: Options, context: Context
) -> Related | None:
    scores = dict(zip(inputs.languages, values.tolist(), strict=True))
    codes = [code for code in inputs.languages if code in found.received and not math.isnan(scores[code])]
    received = np.array([found.received[code].judged.crossed.value for code in codes])
    score = np.array([scores[code] for code in codes])
    value = spearman(received, score) if len(codes) >= FEWEST else None
    if value is None:
        draft.warn(
            "no-test", f"Nothing is said of {name}: {len(codes)} languages with a score and a row, or all alike."
        )
        return None
    low, high = bonett_wright(value, len(codes) - 3, level=context.level)
    where = {"score": name, "side": "received"}
    correlation = draft.add(
        Estimate(
            name="downstream_correlation",
            value=value,
            low=low,
            high=high,
            level=context.level,
            method="Spearman over languages, Fisher's z with Bonett and Wright's variance",
            n=len(codes),
            unit="languages",
            where=where,
        )
    )
    p = _add_p(draft, received, score, name, options, context)
    errors = tuple(
        _add_error(draft, left_out, name, predictor, context)
        for predictor, left_out in (("interference", _left_out(received, score)), ("mean", _left_out(None, score)))
    )
    return Related(score=name, side="received", correlation=correlation, p=p, errors=errors)


def _add_p(draft: Draft, received: Floats, score: Floats, name: str, options: Options, context: Context) -> int:
    rng = generator(context.seed, "orders", name)
    value, low, high = order_p(received, score, options.permutations, rng, level=context.level)
    exact = low is None
    return draft.add(
        Estimate(
            name="p_value",
            value=value,
            low=low,
            high=high,
            level=context.level,
            method="exact" if exact else "permutation of scores, Clopper-Pearson over orders",
            n=math.factorial(len(score)) if exact else options.permutations,
            unit="orders",
            where={"test": name, "correction": "none"},
        )
    )


def _left_out(predictor: Floats | None, score: Floats) -> Floats:
    """Return how far each language's score lies from what a line through all others says; None: from their mean."""
    errors = []
    for place in range(len(score)):
        kept = np.delete(np.arange(len(score)), place)
        guess = float(score[kept].mean())
        # A line through languages that all receive the same has no slope: then the mean has to do.
        if predictor is not None and np.ptp(predictor[kept]) > 0:
            slope, start = np.polyfit(predictor[kept], score[kept], 1)
            guess = float(start + slope * predictor[place])
        errors.append(abs(float(score[place]) - guess))
    return np.array(errors)


def _add_error(draft: Draft, errors: Floats, name: str, predictor: str, context: Context) -> int:
    method, (low, high) = mean_interval(errors, level=context.level, positive=True) or ("none", (None, None))
    return draft.add(
        Estimate(
            name="prediction_error",
            value=float(errors.mean()),
            low=low,
            high=high,
            level=context.level,
            method=f"mean absolute error on languages left out one by one, {method}" if method != "none" else method,
            n=len(errors),
            unit="languages",
            where={"of": "downstream", "score": name, "predictor": predictor},
        )
    )


def _of_pairs(
    draft: Draft, found: Found, inputs: "Inputs", name: str, values: Floats, options: Options, context: Context
) -> Related | None:
    cells = found.array(inputs.languages)
    rng = generator(context.seed, "relabelling", "downstream", name)
    kept = complete(values)
    cells, values = cells[np.ix_(kept, kept)], values[np.ix_(kept, kept)]
    try:
        test = permutation_test(cells, values, statistic="spearman", repeats=options.permutations, rng=rng)
    except Undefined as error:
        draft.warn("no-test", f"Nothing is said of {name}: {error}.")
        return None
    where: Mapping[str, str | int | float] = {"score": name, "side": "cell"}
    correlation = correlated(draft, "downstream_correlation", where, test, cells, values, context.level)
    p = draft.add(p_estimate(test, {"test": name, "correction": "none"}, context.level))
    return Related(score=name, side="cell", correlation=correlation, p=p, errors=())
