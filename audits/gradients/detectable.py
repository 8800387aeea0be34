"""What a run could show with so many batches and seeds, before a gradient is taken."""

import math
from functools import partial

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.gradients import Options
from audits.gradients.inputs import Inputs
from audits.statistics.power import needed_units
from audits.statistics.power_exact import skew_mean


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least cosine that differs from zero, and the least difference of losses after training."""
    inputs: Inputs = plan.inputs
    batches, entries = _compared(inputs)
    found = [_cosine(batches, entries, context.level)] if entries else []
    if inputs.subject is not None and options.train_steps:
        found.append(_losses(options.seeds, context.level))
    return tuple(found)


def _compared(inputs: Inputs) -> tuple[int, int]:
    """Return the number of batches and that of the entries of the gradient."""
    if inputs.stored is not None:
        return len(inputs.stored.axes[1]), sum(math.prod(shape) for shape in inputs.stored.shapes.values())
    assert inputs.subject is not None
    return len(inputs.subject.batches), sum(one.numel() for one in inputs.subject.model.parameters())


def _cosine(batches: int, entries: int, level: float) -> Detectable:
    def size(count: int) -> float | None:
        least = skew_mean(count, level)
        return None if least is None else least / math.sqrt(entries)

    return Detectable(
        what="mean cosine with the gradient, of all parameters, away from 0",
        effect=size(batches),
        units=counted(batches, "batches"),
        assuming=f"batches differ as random directions of {entries:,} entries do; each method and step by itself",
        needed=needed_units(size, "batches"),
        possible=(0.0, 1.0),
    )


def _losses(seeds: int, level: float) -> Detectable:
    return Detectable(
        what="difference in loss after equal budgets, in its own standard deviations over seeds",
        effect=skew_mean(seeds, level),
        units=counted(seeds, "seeds"),
        assuming="normal, whose spread training tells; each method and budget by itself",
        needed=needed_units(partial(skew_mean, level=level), "seeds"),
    )
