"""The errors that a run could show with these speakers and tokens, before a probe is trained.

Nothing has been read yet. By how much speakers differ is assumed, as the lines say.
"""

import math
from functools import partial

import numpy as np

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.group_rates.detectable_gaps import corrected_words
from audits.group_rates.wording import levels_of
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.reading import Inputs, layers_of
from audits.statistics.power import mean, mean_difference, needed_units, units_needed

FLIPPED, GAINS = 0.2, 0.03
"""Share of tokens that two probes read differently, and the standard deviation of the speakers' gains."""
SCATTER = 0.4
"""Standard deviation of the logarithms of the speakers' own variances; what few tokens add is known."""


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least systematic and random error of the smallest and the largest group."""
    inputs: Inputs = plan.inputs
    corpus, layers = inputs.corpus, layers_of(inputs)
    if corpus is None or layers is None or not corpus.groups:
        return ()
    tests = len(layers) * len(corpus.groups)
    corrected = 1 - (1 - context.level) / tests
    holm = corrected_words(tests)
    people = corpus.member.sum(axis=1)
    order = np.argsort(people, kind="stable").tolist()
    ends = [order[0], order[-1]] if people[order[-1]] > people[order[0]] else order[:1]
    found = [_systematic(corpus, row, corrected, holm) for row in ends]
    found += [_random(corpus, row, corrected, holm) for row in ends]
    return tuple(found)


def _systematic(corpus: Corpus, row: int, level: float, holm: str) -> Detectable:
    """Return the least accuracy that a group's own data add: paired, over its speakers."""
    speakers, tokens = int(corpus.member[row].sum()), _tokens(corpus, row)
    spread = math.hypot(math.sqrt(FLIPPED / tokens), GAINS)
    least = partial(mean, spread, level=level)

    return Detectable(
        what=f"systematic error (accuracy that own data add), {levels_of(corpus.groups[row])}",
        effect=least(speakers),
        units=f"{speakers:,} speakers of {tokens:,.0f} tokens",
        assuming=f"two probes read {FLIPPED:g} of the tokens differently, gains of speakers vary by {GAINS:g}{holm}",
        needed=needed_units(least, "speakers", 10**6),
        possible=(0.0, 1.0),
    )


def _random(corpus: Corpus, row: int, level: float, holm: str) -> Detectable:
    """Return by how much the least ratio of variances that is shown exceeds 1: two samples of speakers."""
    counts = int(corpus.member[row].sum()), int(corpus.rest[row].sum())
    smaller = min(counts)
    # Of n tokens in two dimensions, the least that phones lie in, the logarithm of a variance varies by 1 / n.
    scatter = math.hypot(SCATTER, 1 / math.sqrt(_tokens(corpus, row)))

    def least(count: int) -> float | None:
        sizes = (math.ceil(counts[0] * count / smaller), math.ceil(counts[1] * count / smaller))
        found = mean_difference(scatter, sizes, level)
        return None if found is None else math.expm1(found)

    def needed(effect: float) -> str | None:
        count = units_needed(least, effect, most=10**6)
        if count is None:
            return None
        return " and ".join(f"{math.ceil(side * count / smaller):,}" for side in counts) + " speakers"

    return Detectable(
        what=f"variance above that of the others (ratio less 1), {levels_of(corpus.groups[row])}",
        effect=least(smaller),
        units=f"{counts[0]:,} and {counts[1]:,} speakers",
        assuming=f"logarithms of the speakers' variances vary by {SCATTER:g}, and by how few tokens they rest on{holm}",
        needed=needed,
    )


def _tokens(corpus: Corpus, row: int) -> float:
    """Return the middle number of tokens of a speaker of the group."""
    people = np.flatnonzero(corpus.member[row])
    counts = np.bincount(corpus.speakers, minlength=len(corpus.names))[people]
    return max(float(np.median(counts)), 1.0)
