"""What a run could show with so many images; bounds of layers are proved, and rest on no sample."""

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.lipschitz import Options
from audits.lipschitz.inputs import Inputs
from audits.statistics.power import needed_units, rate_above


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return which share of the images must lie beyond a radius for the median to be shown to lie there."""
    inputs: Inputs = plan.inputs
    if inputs.images is None:
        return ()

    def size(count: int) -> float | None:
        return rate_above(0.5, count, context.level)

    return (
        Detectable(
            what="share of images with more than a stated radius, for the median radius to lie above it",
            effect=size(len(inputs.images)),
            units=counted(len(inputs.images), "images"),
            assuming="exact binomial, as the interval of the median; images whose answers are wrong count as 0",
            needed=needed_units(size, "images"),
            possible=(0.5, 1.0),
        ),
    )
