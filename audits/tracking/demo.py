"""The demo: networks that learn to follow chains of pointers, with one layer, two layers, and one that solves.

The law says 2^L - 1: one layer follows 1 step, two follow 3, and the solving layer all that there are.
"""

from collections.abc import Iterator

from audits.core.context import Context
from audits.core.planted import Planted, row
from audits.core.records import Report
from audits.tracking import Options

DEEPEST = 4
BOUNDS = {"softmax-1 seed 0": 1, "softmax-2 seed 0": 3, "resolvent-1 seed 0": DEEPEST}
"""Depth that each network follows, by the law."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Return the audit's options; with `balanced` no chain is deeper than one layer allows."""
    del context
    return Options(
        n=tuple(str(depth) for depth in range(2 if balanced else DEEPEST + 1)),
        train=True,
        layers=("1", "2"),
        resolvent=True,
        seeds=1,
        steps=800,
    )


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield how deep each network follows by the law, or without deep chains that none fails."""
    for system, bound in BOUNDS.items():
        found = row(report, "critical_n", system=system, task="pointer", scoring="trained")
        name = system.partition(" ")[0]
        seen = "Its depth is missing."
        if found is not None and found.low is not None and found.high is not None:
            seen = f"It follows {found.value:.0f} ({found.low:.0f} to {found.high:.0f})."
        if balanced:
            failed = found is None or found.low != 1
            yield Planted(what=f"No chain deeper than one for {name}.", found=failed, seen=seen, real=False)
            continue
        reached = found is not None and found.low == found.high == bound
        most = "all that there are" if bound == DEEPEST else f"2^L - 1 = {bound}"
        yield Planted(what=f"Chains of which {name} follows {most}.", found=reached, seen=seen)
