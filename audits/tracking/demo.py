"""The demo: networks that learn to follow chains of pointers, with one layer, two, and one that solves.

The law says 2^L - 1: one layer follows 1 step, two follow 3, and the solving layer all that there are.
"""

from audits.core.context import Context
from audits.tracking import Options

DEEPEST = 4


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
