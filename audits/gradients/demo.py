"""The demo: FOTON on a linear network with orthonormal rows, where it is the gradient, and with widths that grow.

Its statement asks for orthogonal matrices; what it needs are orthonormal rows, so that widths must not grow.
"""

from collections.abc import Iterator

from audits.core.context import Context
from audits.core.numbers import described
from audits.core.planted import Planted, findings_of, row
from audits.core.records import Report
from audits.gradients import Options

NARROWED, WIDENED = ("64", "48", "32", "16", "10"), ("64", "128", "128", "128", "10")


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Return the audit's options; with `balanced` widths shrink, so that FOTON is the gradient at the start."""
    del context
    return Options(
        net="mlp",
        widths=NARROWED if balanced else WIDENED,
        act="linear",
        init="orthogonal",
        methods=("bp", "foton", "fa", "dfa", "forward-gradient"),
        # Steps of training take the rows out of orthogonality.
        at_steps=("0",) if balanced else ("0", "50"),
        claim=() if balanced else ("foton=10",),
        train_steps=0 if balanced else 60,
        seeds=5 if balanced else 3,
        lr_grid=("0.1", "0.3"),
    )


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what was planted, and what the report says of it."""
    equal = {one.where["method"] for one in findings_of(report, "gradients.equal")}
    found = row(report, "relative_error", method="foton", layer="hidden", step=0)
    seen = "It is missing." if found is None else f"Relative error {found.value:.2g} in hidden layers."
    if balanced:
        yield Planted(
            what="Widths that shrink: FOTON is the gradient.", found="foton" not in equal, seen=seen, real=False
        )
        return
    unequal = findings_of(report, "gradients.not_equal", method="foton")
    seen = unequal[0].headline if unequal else seen
    yield Planted(what="Widths that grow: FOTON is not the gradient.", found=bool(unequal), seen=seen)
    seen = "Backpropagation is equal to itself." if "bp" in equal else "Backpropagation is not called equal."
    yield Planted(what="Backpropagation among the methods.", found="bp" in equal, seen=seen)
    chance = findings_of(report, "gradients.chance", method="random")
    seen = chance[0].headline if chance else "It is not called so."
    yield Planted(what="A random direction, which is chance.", found=bool(chance), seen=seen)
    claimed = findings_of(report, "gradients.claimed_speed", method="foton")
    top = row(report, "speedup_ceiling", method="foton")
    missed = "There is no ceiling." if top is None else f"The ceiling as timed, {described(top)}, does not exclude it."
    seen = claimed[0].headline if claimed else missed
    yield Planted(what="A claim of ten times the speed.", found=bool(claimed), seen=seen)
