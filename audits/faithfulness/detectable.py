"""What a run could show with these outputs: areas at which a metric is trusted, and differences of two systems.

Nothing is scored for it. What labels and scores of a file vary by is taken from the differences of all pairs of systems
together, whichever is better.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.wording import many
from audits.faithfulness import Options
from audits.faithfulness.faithful_texts import faithful_texts
from audits.faithfulness.inputs import Inputs
from audits.faithfulness.metrics import LABEL
from audits.faithfulness.samples import Sample
from audits.faithfulness.trust_words import TRUSTED
from audits.statistics.mean_intervals import mean_interval
from audits.statistics.power import area_above, mean, needed_units, units_needed

MOST_SCORES = 3
"""Columns of --scores that are listed."""
LEAST_SHARED = 2
"""Contexts that two systems must share for a difference to have an interval."""
Pair = tuple[str, str]
Means = Mapping[str, float]
"""Mean of a system's outputs by context."""


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least areas that are trusted, and the least differences of two systems."""
    inputs: Inputs = plan.inputs
    return (*_areas(inputs, options, context), *_differences(inputs, context.level))


def _areas(inputs: Inputs, options: Options, context: Context) -> Iterator[Detectable]:
    samples = inputs.samples
    if inputs.families and options.corrupt:
        source, rows, _ = faithful_texts(samples, options.plant, context.seed)
        contexts = len({samples[row].context_id for row in rows.tolist()})
        what = f"AUC against planted errors in excess of {TRUSTED:g} (trusted)"
        units = f"{contexts:,} contexts with {source}"
        yield _area(what, (contexts, contexts), units, "an error can be planted in each", context.level)
    kinds = [{sample.context_id for sample in samples if sample.label is label} for label in (True, False)]
    if all(kinds):
        counts = (len(kinds[0]), len(kinds[1]))
        what = f"AUC against labels in excess of {TRUSTED:g} (trusted)"
        units = f"{counts[0]:,} contexts with a faithful output and {counts[1]:,} with another"
        yield _area(what, counts, units, "one output of each a context", context.level)


def _area(what: str, counts: tuple[int, int], units: str, assuming: str, level: float) -> Detectable:
    smaller = min(counts)

    def beyond(count: int) -> float | None:
        sizes = (math.ceil(counts[0] * count / smaller), math.ceil(counts[1] * count / smaller))
        area = area_above(TRUSTED, sizes, level)
        return None if area is None else area - TRUSTED

    def needed(effect: float) -> str | None:
        count = units_needed(beyond, effect, most=10**6) if effect < 1 - TRUSTED else None
        if count is None:
            return None
        both = sorted({math.ceil(side * count / smaller) for side in counts})
        return f"{' and '.join(f'{side:,}' for side in both)} contexts"

    return Detectable(
        what=what,
        effect=beyond(smaller),
        units=units,
        assuming=f"{assuming}; scores are normal, and each verdict stands by itself",
        needed=needed,
        possible=(0.0, round(1 - TRUSTED, 12)),
    )


def _differences(inputs: Inputs, level: float) -> Iterator[Detectable]:
    systems = tuple(dict.fromkeys(sample.system for sample in inputs.samples))
    pairs = [*combinations(systems, 2)]
    if not pairs:
        return
    contexts = {system: _contexts(inputs, system) for system in systems}
    shared = {pair: len(contexts[pair[0]] & contexts[pair[1]]) for pair in pairs}
    # The run corrects for the pairs that get a difference of any metric; before it scores, all that share contexts may.
    compared = {pair for pair in pairs if inputs.families and shared[pair] >= LEAST_SHARED}
    names, told = _names(inputs), {}
    for name in names:
        means = {system: _means(inputs, name, system) for system in systems}
        apart = {pair: _apart(means[pair[0]], means[pair[1]]) for pair in pairs}
        compared |= {pair for pair in apart if pair not in compared and mean_interval(np.array(apart[pair]))}
        told[name] = _spread([*apart.values()]), {pair: len(values) for pair, values in apart.items()}
    tests = max(len(compared), 1)
    runs = {sample.system for sample in inputs.samples if sample.run}
    few = " that can be compared" if tests < len(pairs) else ""
    assuming = f", the strictest of {many(tests, 'pair', 'pairs')} of systems{few} (Bonferroni)" if tests > 1 else ""
    assuming += ", as if trainings did not differ" if runs else ""
    corrected = 1 - (1 - level) / tests
    for name in names[: MOST_SCORES + (LABEL in names)]:
        spread, counts = told[name]
        for pair, count in _ends(counts):
            what = f"difference of {pair[0]} and {pair[1]} in {'labels' if name == LABEL else name}"
            spread_words = f"the spread of all differences of a context, {spread:.2g}"
            yield _difference(what, spread, count, spread_words + assuming, corrected)
    if inputs.families:
        for pair, count in _ends(shared):
            what = f"difference of {pair[0]} and {pair[1]} in a metric, over the spread of a context's difference"
            yield _difference(what, 1.0, count, f"one trusted metric{assuming}", corrected)


def _names(inputs: Inputs) -> list[str]:
    """Return the labels, where there are any, and the columns of --scores."""
    judged = any(sample.label is not None for sample in inputs.samples)
    scores = dict.fromkeys(name for sample in inputs.samples for name in sample.scores)
    return [*([LABEL] if judged else []), *scores]


def _contexts(inputs: Inputs, system: str) -> set[str]:
    return {sample.context_id for sample in inputs.samples if sample.system == system}


def _value(sample: Sample, name: str) -> float | None:
    if name == LABEL:
        return None if sample.label is None else float(sample.label)
    return sample.scores.get(name)


def _means(inputs: Inputs, name: str, system: str) -> Means:
    values: dict[str, list[float]] = {}
    for sample in inputs.samples:
        value = _value(sample, name) if sample.system == system else None
        if value is not None and math.isfinite(value):
            values.setdefault(sample.context_id, []).append(value)
    return {context: math.fsum(each) / len(each) for context, each in values.items()}


def _apart(first: Means, second: Means) -> list[float]:
    return [first[context] - second[context] for context in first if context in second]


def _spread(differences: Sequence[Sequence[float]]) -> float:
    """Return the root mean square of differences: about zero, so that it says nothing of which system is better."""
    values = np.array([value for each in differences for value in each])
    return float(np.sqrt((values**2).mean())) if len(values) else 0.0


def _ends(shared: Mapping[Pair, int]) -> list[tuple[Pair, int]]:
    """Return the pairs of systems that share fewest and most contexts; one of them where they share as many."""
    order = sorted(shared.items(), key=lambda each: each[1])
    return [order[0], order[-1]] if order[-1][1] > order[0][1] else order[:1]


def _difference(what: str, spread: float, shared: int, assuming: str, level: float) -> Detectable:
    least = partial(mean, spread, level=level)

    return Detectable(
        what=what,
        effect=least(shared) if spread else None,
        units=f"{shared:,} shared contexts",
        assuming=assuming if spread else "no context has two outputs that differ",
        needed=needed_units(least, "shared contexts", 10**7) if spread else None,
    )
