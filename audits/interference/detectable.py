"""What a run could show with so many seeds: how far a loss must rise, before a model is trained."""

import math
from functools import cache

import numpy as np

from audits.core.context import Context, Plan
from audits.core.detectable import POWER, Detectable
from audits.core.numbers import counted
from audits.interference import Options
from audits.interference.losses import from_table
from audits.interference.matrix import Matrix
from audits.interference.settings import Inputs
from audits.statistics.crossed import Contrast, Part, crossed_intervals
from audits.statistics.power import needed_units

MOST_LANGUAGES, DRAWN, MOST_SEEDS = 20, 1200, 60
"""Languages of a simulated matrix, cells that are drawn in all, and seeds beyond which none are looked for."""
WHAT = "rise of a loss by another language"


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least rise of a loss that would be shown after correction for all cells."""
    inputs: Inputs = plan.inputs
    cells = 2 * len(inputs.pairs)
    if not cells:
        return ()
    correction = f"{'Holm' if options.correction == 'holm' else 'as Holm'} over {counted(cells, 'cells')}"
    if inputs.table is not None:
        return _of_table(inputs, cells, context.level, correction)
    seeds = len({number for _, number in inputs.trainings})
    languages, alpha = len({code for pair in inputs.pairs for code in pair}), (1 - context.level) / cells

    def size(count: int) -> float | None:
        return _over_seeds(count, min(languages, MOST_LANGUAGES), alpha) if count > 1 else None

    given = "in standard deviations over seeds of such a rise, which training tells; held-out text without end"
    if seeds < 2:
        given = "with one seed nothing is tested"
    return (
        Detectable(
            what=WHAT,
            effect=size(seeds),
            units=counted(seeds, "seeds"),
            assuming=f"{given}; {correction}",
            needed=needed_units(size, "seeds", MOST_SEEDS),
        ),
    )


def _of_table(inputs: Inputs, cells: int, level: float, correction: str) -> tuple[Detectable, ...]:
    """Return the rise that a cell of middling spread would show: of given losses the spread is known already."""
    from scipy.stats import t

    assert inputs.table is not None
    losses = from_table(inputs.table)
    matrix = Matrix(losses=losses, failed={}, level=level, correction="holm", pairs=inputs.pairs)
    judged = [one.crossed for one in matrix.cells.values() if one.crossed.df is not None and one.crossed.seeds_known]
    seeds = max((one.crossed.seeds for one in matrix.cells.values()), default=0)
    if not judged:
        given = "with one seed nothing is tested"
        return (Detectable(what=WHAT, effect=None, units=counted(seeds, "seeds"), assuming=given),)
    tails = (1 - level) / (2 * cells), 1 - POWER
    sizes = [one.se * sum(float(t.isf(tail, one.df)) for tail in tails) for one in judged]
    sentences = int(np.median([one.n for one in judged]))
    return (
        Detectable(
            what=f"{WHAT}, in nats per byte",
            effect=float(np.median(sizes)),
            units=f"{counted(seeds, 'seeds')}, some {counted(sentences, 'sentences')} of a language",
            assuming=f"the spread of these losses, of the middle one of {len(judged):,} cells; {correction}",
        ),
    )


@cache
def _over_seeds(seeds: int, languages: int, alpha: float) -> float:
    """Return the rise, in its standard deviations over seeds, that a cell shows with `POWER`, from cells at random.

    By the audit's own statistics, since how much cells lend each other their variances has no formula. A rise moves the
    value of a cell and not its error, so that each cell that is drawn tells which rise would just have been shown.
    """
    from scipy.stats import t

    rng = np.random.default_rng(0)
    found: list[float] = []
    for _ in range(math.ceil(DRAWN / (languages * (languages - 1)))):
        # A cell is the loss of a pair less that of its target alone, which all cells of a row share.
        alone = rng.normal(size=(languages, 1, seeds))
        values = ((rng.normal(size=(languages, languages, seeds)) - alone) / math.sqrt(2)).tolist()
        family = [
            Contrast((Part(np.array(values[target][source])[:, None], np.ones(1), 1.0, str(target)),))
            for target in range(languages)
            for source in range(languages)
            if target != source
        ]
        found += [float(t.isf(alpha / 2, one.df)) * one.se - one.value for one in crossed_intervals(family)]
    return float(np.quantile(found, POWER))
