"""What a run could show with so many samples, before the operator runs on another grid."""

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.core.wording import listed
from audits.spectra import Options
from audits.spectra.setup import Setup
from audits.statistics.power import needed_units, rate_above


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least share of samples on which running directly must lose for that to be more than by chance.

    By how much errors differ from sample to sample is not known before a run, and the interval of their difference
    widens with their skew: of the mean difference nothing is told.
    """
    setup: Setup = plan.inputs
    grids = [str(grid.resolution) for grid in setup.grids[1:] if not grid.refused]
    if not setup.scored or not grids:
        return ()

    def size(count: int) -> float | None:
        return rate_above(0.5, count, context.level)

    return (
        Detectable(
            what=f"share of samples on which running at {listed(grids[:4])} directly loses",
            effect=size(setup.samples),
            units=counted(setup.samples, "samples"),
            assuming="exact binomial against a half, each grid by itself; how far errors differ is not known before",
            needed=needed_units(size, "samples"),
            possible=(0.5, 1.0),
        ),
    )
