"""Scores as rows of the table, with intervals from halves of the texts."""

from collections.abc import Mapping

import numpy as np

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.records import Coordinate, Estimate
from audits.precision_recall.sides import CEILING, FLOOR
from audits.statistics import clopper_pearson
from audits.statistics.halves import Halved

HALVES = "complementary halves"
HALVES_SHARE = "complementary halves, Wilson"
EXACT = "Clopper-Pearson"
SHARES = ("precision", "recall", "coverage", "f1", "mauve", "prd_precision", "prd_recall")
PLAIN = ("precision", "recall", "coverage")
"""Shares of texts, each of which counts or does not."""
CLIPPED = ("clipped_density", "clipped_coverage")
RANGES = {
    "difference": (-np.inf, np.inf),
    "hubness": (-np.inf, np.inf),
    **dict.fromkeys((*SHARES, *CLIPPED, "frontier_integral"), (0.0, 1.0)),
}
"""Least and largest values; of all others zero and none."""
UNIT = "texts"


def add(
    draft: Draft,
    name: str,
    value: Halved,
    size: int,
    where: Mapping[str, Coordinate],
    *,
    share: bool | None = None,
    seen: int = 0,
    method: str = "",
    unit: str = UNIT,
) -> Estimate:
    """Add a score with its interval, and a warning where it has none."""
    # A control has the name of what it is, and a score as its coordinate.
    kind = str(where["metric"]) if name in (CEILING, FLOOR) else name
    share = kind in SHARES if share is None else share
    found = interval_of(value, kind, size, draft.level, share=share, seen=seen, method=method, unit=unit)
    if found.method == "none":
        of = where.get("candidate", "the reference")
        draft.warn("no-spread", f"All halves agree on the {kind} of {of}: it has no interval.", **where)
    return draft.add(name, found, **where)


def interval_of(
    value: Halved, kind: str, size: int, level: float, *, share: bool, seen: int = 0, method: str = "", unit: str = UNIT
) -> Interval:
    """Return a score with its interval; where halves do not differ, with the widest interval of a share.

    Parameters
    ----------
    seen
        Texts that a share is of, over all draws.
    method
        How the error was made, where not from halves.
    """
    point = min(1.0, value.value) if share or kind in CLIPPED else value.value
    # Halves of a few texts may all agree: no interval may be shorter than that of as many independent texts.
    least = float(np.sqrt(max(point * (1 - point), 0.0) / seen)) if seen and kind in PLAIN else 0.0
    ends = value.interval(level, share=share, least=least)
    method = method or (HALVES_SHARE if share else HALVES)
    # MAUVE is a share of nothing that could be counted.
    if ends is None and share and kind != "mauve":
        ends, method = clopper_pearson(round(point * size), size, level=level), EXACT
    if ends is None:
        return Interval(value=point, method="none", n=size, unit=unit)
    low, high = (float(np.clip(end, *RANGES.get(kind, (0.0, np.inf)))) for end in ends)
    return Interval(value=point, low=min(low, point), high=max(high, point), method=method, n=size, unit=unit)


def defined(value: Halved) -> bool:
    """Tell whether a score and its halves could be computed."""
    return bool(np.isfinite(value.value) and np.isfinite(value.gaps).all())
