"""What a run could show with so many batches and seeds, before a gradient is taken."""

import math

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.gradients import Options
from audits.gradients.inputs import Inputs
from audits.statistics.power import mean, units_needed


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least cosine that differs from nought, and the least difference of losses after training."""
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
    spread = 1 / math.sqrt(entries)

    def needed(effect: float) -> str | None:
        count = units_needed(lambda units: mean(spread, units, level), effect)
        return None if count is None else counted(count, "batches")

    return Detectable(
        what="mean cosine with the gradient, of all parameters, away from 0",
        effect=mean(spread, batches, level),
        units=counted(batches, "batches"),
        assuming=f"batches differ as random directions of {entries:,} entries do; each method and step by itself",
        needed=needed,
    )


def _losses(seeds: int, level: float) -> Detectable:
    def needed(effect: float) -> str | None:
        count = units_needed(lambda units: mean(1.0, units, level), effect)
        return None if count is None else counted(count, "seeds")

    return Detectable(
        what="difference in loss after equal budgets, in its own standard deviations over seeds",
        effect=mean(1.0, seeds, level),
        units=counted(seeds, "seeds"),
        assuming="normal, whose spread training tells; each method and budget by itself",
        needed=needed,
    )
