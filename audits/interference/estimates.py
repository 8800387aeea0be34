"""The estimates: losses, cells, asymmetries, means of rows and columns; effects, mixtures, relations with scores."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.records import Coordinate, Warning
from audits.interference import Options
from audits.interference.convergence import BASELINES, Baselines
from audits.interference.downstream import Relation
from audits.interference.effects import Association, corrected
from audits.interference.losses import with_of
from audits.interference.matrix import Cell, Judged, Matrix, Weights, interval_of
from audits.interference.measure import Counts
from audits.interference.mixtures import Mixtures, where_error
from audits.interference.settings import Inputs, Languages
from audits.statistics.crossed import Contrast, Part, crossed_intervals

FEW_SENTENCES = 10
"""Held-out sentences of equal length below which those of a language are warned of."""
_BUDGETS = {
    "same-data": "the model of a pair sees as much of each language as that of one",
    "same-total": "the model of a pair sees half as much of each language",
}


def estimates(draft: Draft, counts: Counts) -> None:
    """Add all estimates, and warnings for those that cannot be made."""
    inputs, matrix = counts.inputs, counts.matrix
    draft.title = _title(inputs, counts.options)
    draft.limitations.insert(0, _about_models(inputs, counts.options))
    _warn(draft, counts.warnings)
    add_losses(draft, matrix, counts.baselines, inputs.sets)
    add_matrix(draft, matrix)
    add_effects(draft, counts.effect_outcomes)
    add_mixtures(draft, counts.mixtures)
    add_relations(draft, counts.downstream_outcomes)


def _title(inputs: Inputs, options: Options) -> str:
    if inputs.table is not None:
        return "Interference of languages, from losses measured elsewhere"
    if inputs.kind == "scored":
        return "Interference of languages in given models"
    return f"Interference of languages, {options.budget}: {_BUDGETS[options.budget]}"


def _about_models(inputs: Inputs, options: Options) -> str:
    """Return which part of the models the report covers, in words."""
    training = inputs.training
    seen = training.steps * training.batch * training.window
    length = f"for {training.steps:,} steps, {seen:,} tokens of a language at most"
    if inputs.kind != "trained":
        what = "the models whose losses these are" if inputs.table is not None else "these models as they are"
    elif options.model is not None:
        what = f"this encoder, trained on {length}"
    else:
        what = f"masked language models of {options.layers} layers and a width of {options.hidden}, trained {length}"
    return (
        f"All is said of {what}, on these texts. Interference shrinks in larger models, and grows or turns with the "
        "amount of data: a matrix ranks partners, it does not size the harm elsewhere."
    )


def _warn(draft: Draft, warnings: Iterable[Warning]) -> None:
    for warning in warnings:
        draft.warn(warning.id, warning.message, **warning.where)


def add_losses(draft: Draft, matrix: Matrix, baselines: Mapping[str, Baselines], sets: Sequence[Languages]) -> None:
    """Add the losses of the token baselines, and of every model on each of its languages."""
    cells = [(code, order, one[order]) for code, one in sorted(baselines.items()) for order in BASELINES]
    family = [Contrast((Part(cell.sums[None], cell.weights, cell.factor),)) for _, _, cell in cells]
    level = matrix.level
    for (code, order, _), crossed in zip(cells, crossed_intervals(family, level=level) if family else [], strict=True):
        found = interval_of(crossed)
        method = "none" if found.low is None else "Student's t over held-out sentences"
        row = draft.add("baseline", replace(found, method=method), lang=code, order=order)
        if row.low is None:
            draft.warn("no-interval", "One held-out sentence: this number has no interval.", lang=code, order=order)
    known: dict[tuple[Languages, str], Weights] = {
        (chosen, code): {(chosen, code): 1.0} for chosen in sets for code in chosen if matrix.known(chosen, code)
    }
    judged = matrix.judged(known)
    for chosen, code in known:
        _add(draft, "loss", judged.get((chosen, code)), {"lang": code, "with": with_of(chosen, code)})
    _warn_of_few(draft, matrix)


def _add(draft: Draft, name: str, judged: Judged | None, where: Mapping[str, Coordinate]) -> None:
    """Add a contrast, or the warning that it cannot be made or has no interval."""
    if judged is None:
        text = "The losses of this number have no seed in common, so that it cannot be made."
        draft.warn("other-seeds", text, **where)
    elif draft.add(name, judged.interval, **where).low is None:
        text = "Nothing varies over seeds or sentences, or there is one of each: this number has no interval."
        draft.warn("no-interval", text, **where)


def _warn_of_few(draft: Draft, matrix: Matrix) -> None:
    """Warn of languages with few held-out sentences, or in which a few long ones dominate."""
    weights = {code: cell.weights for (_, _, code), cell in matrix.losses.cells.items()}
    for code, sizes in sorted(weights.items()):
        # As many of equal length as would be as precise (Kish 1965); of one sentence there is no interval at all.
        alike = float(sizes.sum() ** 2 / (sizes**2).sum())
        if len(sizes) > 1 and alike < FEW_SENTENCES:
            text = f"{len(sizes)} held-out sentences of {code} count as {alike:.1f} of equal length: with so few, "
            text += "intervals are too narrow, and verdicts too many, where a kind of sentence is missing among them."
            draft.warn("few-sentences", text, lang=code)


def add_matrix(draft: Draft, matrix: Matrix) -> None:
    """Add the cells, also as shares of a loss, asymmetries, means of rows and columns, and the scatter over seeds."""
    for target, source in matrix.contrasts:
        _add(draft, "interference", matrix.cells.get((target, source)), {"target": target, "source": source})
    _add_relative(draft, matrix)
    _warn_of_missing(draft, matrix)
    for a, b in matrix.differences:
        _add(draft, "asymmetry", matrix.asymmetries.get((a, b)), {"a": a, "b": b})
    for code in matrix.means("target"):
        _add(draft, "received", matrix.received.get(code), {"target": code})
    _warn_of_partial(draft, matrix, "received", "target")
    caused = matrix.means("source")
    judged = matrix.judged(caused)
    for code in caused:
        _add(draft, "caused", judged.get(code), {"source": code})
    _warn_of_partial(draft, matrix, "caused", "source")
    _add_seed_deviation(draft, matrix)


def _add_relative(draft: Draft, matrix: Matrix) -> None:
    """Add cells as shares of the monolingual loss, linearised: d(p/m) = dp/m - p dm/m^2."""
    shares: dict[Cell, float] = {}
    family: dict[Cell, Weights] = {}
    for target, source in matrix.cells:
        weights = matrix.contrasts[target, source]
        alone = _value(matrix, {((target,), target): 1.0}, like=weights)
        pair = _value(matrix, {(tuple(sorted((target, source))), target): 1.0}, like=weights)
        # A loss that was measured elsewhere may be 0.
        if alone <= 0:
            text = f"{target} alone loses nothing: there is no share of it."
            draft.warn("no-share", text, target=target, source=source)
            continue
        shares[target, source] = pair / alone - 1
        family[target, source] = {key: 1 / alone if weight > 0 else -pair / alone**2 for key, weight in weights.items()}
    for (target, source), judged in matrix.judged(family).items():
        # The linearised contrast is 0 at these losses: its interval is moved to where the share is.
        share, found = shares[target, source], judged.interval
        low, high = (None if end is None else end + share for end in (found.low, found.high))
        moved = replace(found, value=share, low=low, high=high)
        draft.add("interference_relative", moved, target=target, source=source)


def _value(matrix: Matrix, weights: Weights, *, like: Weights) -> float:
    """Return the value of a contrast over the seeds of another one."""
    seeds = frozenset.intersection(*(matrix.losses.seeds(chosen, code) for chosen, code in like))
    return float(
        np.mean(
            [
                sum(weight * matrix.losses.cells[chosen, seed, code].loss for (chosen, code), weight in weights.items())
                for seed in sorted(seeds)
            ]
        )
    )


def _warn_of_missing(draft: Draft, matrix: Matrix) -> None:
    """Warn of every loss and cell that is missing because a model did not converge."""
    for (chosen, code), why in sorted(matrix.failed.items()):
        if len(chosen) != 2:
            text = f"The model of {' and '.join(chosen)} has not converged on {code}: {why}."
            draft.warn("interference.not-converged", text, **{"lang": code, "with": with_of(chosen, code)})
    for a, b in matrix.pairs:
        for target, source in ((a, b), (b, a)):
            if (target, source) in matrix.cells:
                continue
            id, text = "not-measured", f"No loss of {target} under a model of {target} and {source}."
            reasons = matrix.reasons(target, source)
            if reasons:
                causes = [f"the model of {' and '.join(chosen)}: {why}" for chosen, why in reasons.items()]
                id, text = "interference.not-converged", f"No number for {target} with {source}: {'; '.join(causes)}."
            draft.warn(id, text, target=target, source=source)


def _warn_of_partial(draft: Draft, matrix: Matrix, name: str, side: str) -> None:
    """Warn of means over fewer cells than others, which are not comparable."""
    counts = Counter(target if side == "target" else source for target, source in matrix.cells)
    most = max(counts.values(), default=0)
    for code, count in sorted(counts.items()):
        if count < most:
            text = f"The mean of {code} ({name}) is over {count} partners, others' over {most}: they do not compare."
            draft.warn("partial-mean", text, **{side: code})


def _add_seed_deviation(draft: Draft, matrix: Matrix) -> None:
    """Add the standard deviation of a cell over seeds: the root of the mean variance of all cells."""
    from scipy.stats import chi2

    spreads = [(one.crossed.seed_sd, one.crossed.seeds) for one in matrix.cells.values()]
    known = [(sd, seeds) for sd, seeds in spreads if sd is not None]
    if not known:
        return
    value = math.sqrt(np.array([sd**2 for sd, _ in known]).mean())
    # Cells of a row share the model of their language alone: only so many are independent.
    rows = len({target for target, _ in matrix.cells})
    freedom = rows * (min(seeds for _, seeds in known) - 1)
    quantiles = ((1 + matrix.level) / 2, (1 - matrix.level) / 2)
    low, high = (value * math.sqrt(freedom / chi2.ppf(q, freedom)) for q in quantiles)
    method = f"root mean square over cells, chi-square with {freedom} degrees of freedom (rows x (seeds - 1))"
    found = Interval(value=value, low=low, high=high, method=method, n=len(known), unit="cells")
    draft.add("seed_deviation", found)


def add_effects(draft: Draft, outcomes: Sequence[Association | Warning]) -> None:
    """Add effects of script and family, and correlations with other similarities, each with its p-value."""
    _warn(draft, [one for one in outcomes if isinstance(one, Warning)])
    tests = [one for one in outcomes if isinstance(one, Association)]
    for one in tests:
        draft.add(one.estimate, one.effect, **one.where)
        draft.add("p_value", one.p, **one.where_p("none"))
    for one in tests:
        draft.add("p_value", corrected(one.p, one.adjusted), **one.where_p("holm"))


def add_mixtures(draft: Draft, mixtures: Mixtures) -> None:
    """Add errors of prediction on measured mixtures, and the predicted best and worst mixtures."""
    for (chosen, target), judged in mixtures.errors.items():
        draft.add("prediction_error", judged.interval, **where_error(chosen, target))
    if mixtures.mean is not None:
        draft.add("prediction_error", mixtures.mean.interval, of="triples")
    for chosen, judged in mixtures.ranked.items():
        found = judged.interval
        picked = f"{found.method}, for all at once (Bonferroni); one of the ends of {mixtures.count:,} mixtures"
        found = found if found.low is None else replace(found, method=picked)
        draft.add("predicted_interference", found, mixture="+".join(chosen))


def add_relations(draft: Draft, outcomes: Sequence[Relation | Warning]) -> None:
    """Add correlations with scores of a task, each with its p-value and errors of prediction."""
    _warn(draft, [one for one in outcomes if isinstance(one, Warning)])
    relations = [one for one in outcomes if isinstance(one, Relation)]
    for one in relations:
        draft.add("downstream_correlation", one.correlation, **one.where)
        draft.add("p_value", one.p, **one.where_p("none"))
        for predictor, error in one.errors.items():
            draft.add("prediction_error", error, **one.where_error(predictor))
    for one in relations:
        draft.add("p_value", corrected(one.p, one.adjusted), **one.where_p("holm"))
