"""What a run could show of how time grows; what is counted is exact."""

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.scaling import Options


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return that nothing is known of time: how far seconds spread, and how large overheads are, only rounds tell."""
    if not options.rounds or options.from_csv is not None:
        return ()
    return (
        Detectable(
            what="exponent of time beyond a claim",
            effect=None,
            units=counted(options.rounds, "rounds"),
            assuming="how far seconds spread, and what overheads they hold, rounds tell; what is counted is exact",
        ),
    )
