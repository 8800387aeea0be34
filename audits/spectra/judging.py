"""Run it on the finer grid, or upsample? The verdict per grid and its causes, as far as the intervals carry them.

Severity: high where the interval of direct less upsampled lies above that of the upsampled error itself (run directly
the operator errs more than twice as much), medium where it lies above zero; everything else is information.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from audits.context import Draft
from audits.numbers import counted, described
from audits.records import Coordinate, Estimate, Severity
from audits.spectra.estimating import main_line
from audits.spectra.measuring import Setup

LIMITED = 0.5
"""Share of the upsampled error from which the floor of interpolation is said to limit it."""
POOR = 0.5
"""Relative error on the grid of training from which model and data may not belong together."""
CLAIMED_FROM = 8
"""Samples from which a way is preferred: of fewer, no interval of a skewed difference holds as often as it says."""
ROUNDING = 1e-5
"""Difference of relative errors below which single precision decides, and nobody is told to prefer either way."""
FIRST = (0.75, 1.25)
"""Orders between which the whole interval must lie for the mismatch to be told as one of the first order."""
STRAIGHT = 0.95
"""R^2 that the lower end of its interval must reach for the first order to be told."""
PARTS = {
    "input": "the input, which is sampled more finely",
    "coordinates": "the coordinates, the edges and the period of the domain",
    "nonlinear": "aliasing in the nonlinear blocks",
}


def judge(draft: Draft, setup: Setup) -> None:
    """Add the findings."""
    found = Found(draft)
    finer = [grid.resolution for grid in setup.grids[1:]]
    misfit = _check_fit(draft, found, setup)
    for resolution in finer:
        if found.has("direct_minus_upsampled", resolution=resolution):
            _tell_verdict(draft, found, setup, resolution, misfit)
    if not setup.scored:
        draft.find("spectra.no-targets", "info", "Without targets there is no error and no verdict: only how far the "
                   "operator's answers on two grids lie apart, and their spectra.")  # fmt: skip
    _tell_parts(draft, found, setup, finer[-1])
    if len(finer) > 1:
        _tell_law(draft, found)
    _tell_high(draft, found, setup, finer[-1])
    if setup.aliasing_samples:
        _tell_aliasing(draft, found, finer[-1])


class Found:
    """Finds the estimates of a draft again."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.places = {_key(row.name, row.where): place for place, row in enumerate(draft.estimates)}

    def has(self, name: str, **where: Coordinate) -> bool:
        """Tell whether there is such an estimate; what would divide by zero has none."""
        return _key(name, where) in self.places

    def place(self, name: str, **where: Coordinate) -> int:
        """Return the index of an estimate."""
        return self.places[_key(name, where)]

    def row(self, name: str, **where: Coordinate) -> Estimate:
        """Return an estimate."""
        return self.draft.estimates[self.place(name, **where)]

    def all(self, name: str, **where: Coordinate) -> Iterator[tuple[int, Estimate]]:
        """Yield the estimates of a name that lie at these coordinates, with their indices."""
        for place, row in enumerate(self.draft.estimates):
            if row.name == name and where.items() <= dict(row.where).items():
                yield place, row


def _key(name: str, where: Any) -> tuple[Any, ...]:
    return name, *sorted(where.items())


def verdict_of(lead: Estimate) -> str:
    """Return upsample, direct or tie from the interval of the direct error less the upsampled one."""
    if lead.low is None or lead.high is None or lead.n < CLAIMED_FROM or abs(lead.value) < ROUNDING:
        return "tie"
    return "upsample" if lead.low > 0 else "direct" if lead.high < 0 else "tie"


def _tell_verdict(draft: Draft, found: Found, setup: Setup, at: int, misfit: str) -> None:
    coarse = setup.grids[0].resolution
    lead = found.row("direct_minus_upsampled", resolution=at)
    share = found.row("direct_worse_share", resolution=at)
    direct, raised, floor = (
        found.row("relative_l2", resolution=at, path=path) for path in ("direct", "upsampled", "floor")
    )
    # Which way errs less says nothing of a network that misses either way.
    verdict = "tie" if misfit else verdict_of(lead)
    worse = f"direct loses on {100 * share.value:.0f} % of them"
    difference = f"direct less upsampled {described(lead)}; {worse}"
    severity: Severity = "info"
    if misfit:
        words = f"At {at}, neither way can be preferred {misfit}"
    elif lead.n < CLAIMED_FROM:
        words = f"At {at}, {counted(lead.n, lead.unit)} cannot tell running it directly from upsampling: of fewer than "
        words += f"{CLAIMED_FROM}, nobody can know how skewed the difference is"
    elif verdict == "upsample":
        severity = "high" if _above(lead.low, raised.high) else "medium"
        words = f"At {at}, run it at {coarse} and upsample: run at {at} directly, its error is higher"
    elif verdict == "direct":
        words = f"At {at}, run it directly: its error is lower than that of running at {coarse} and upsampling"
    else:
        words = f"At {at}, no difference could be shown between running it directly and upsampling from {coarse}"
    text = f"{words} (relative l2 {described_short(direct)} against {described_short(raised)}; {difference})."
    if raised.high is not None and _above(floor.low, LIMITED * raised.high):
        text += (
            f" Limited by interpolation: upsampling the true solution alone costs {described_short(floor)}, so another "
            "way of upsampling may do better."
        )
        draft.warn(
            "limited-by-interpolation",
            f"Upsampling the true solution ({setup.output_method}) errs by {floor.value:.3g}, by all intervals half or "
            "more of the upsampled error: the comparison is partly one of interpolation.",
            resolution=at,
        )
    evidence = [
        found.place("direct_minus_upsampled", resolution=at),
        *(found.place("relative_l2", resolution=at, path=path) for path in ("direct", "upsampled", "floor")),
    ]
    draft.find("spectra.verdict", severity, text, evidence, resolution=at, verdict=verdict)


def _above(low: float | None, other: float | None) -> bool:
    """Tell whether the lower end of one interval lies above the upper end of another; no without both."""
    return low is not None and other is not None and low > other


def _check_fit(draft: Draft, found: Found, setup: Setup) -> str:
    """Tell an operator that misses the targets on its own grid; return why no way can be preferred then, or ""."""
    coarse = setup.grids[0].resolution
    where: dict[str, Coordinate] = {"resolution": coarse, "path": "same"}
    if not found.has("relative_l2", **where):
        return ""
    own = found.row("relative_l2", **where)
    if (own.value if own.high is None else own.high) <= POOR:
        return ""
    if not _above(own.low, POOR):
        draft.warn(
            "unclear-fit",
            f"Whether the operator misses the targets on its own grid of {coarse} by half of them cannot be told: its "
            f"relative error there is {described(own)}.",
        )
        return "as long as it cannot be told whether the operator errs by less than half on its own grid"
    text = (
        f"On its own grid of {coarse} the operator misses the targets by a relative {described(own)}: it is untrained, "
        "or --padding, --grid, --norm or a scale is not that of its training. What follows is no judgement of it."
    )
    draft.find("spectra.poor-fit", "high", text, [found.place("relative_l2", **where)], resolution=coarse)
    draft.warn("poor-fit", f"The operator misses the targets on its own grid of {coarse} by half or more of them.")
    return "while the operator errs as much as this on its own grid"


def _tell_parts(draft: Draft, found: Found, setup: Setup, at: int) -> None:
    if not found.has("mismatch", resolution=at, tap="output"):
        return
    whole = found.row("mismatch", resolution=at, tap="output")
    parts = {part: found.row("mismatch_share", resolution=at, part=part) for part in PARTS}
    told = "; ".join(f"{described_short(row)} comes with {PARTS[part]}" for part, row in parts.items())
    text = f"At the nodes that both grids have, the prediction at {at} differs from that on the grid of training by a "
    text += f"relative {described(whole)}. Of this, {told}."
    main = _largest(parts)
    if main:
        text += f" The largest part is that of {PARTS[main]}."
    evidence = [found.place("mismatch", resolution=at, tap="output")]
    evidence += [found.place("mismatch_share", resolution=at, part=part) for part in PARTS]
    domain, edges = found.row("domain_share", resolution=at), parts["coordinates"]
    if main == "coordinates" and domain.low is not None and edges.high is not None and domain.low > edges.high / 2:
        evidence.append(found.place("domain_share", resolution=at))
        text += f" It is made in the blocks, not before ({described_short(domain)}): {_cause(setup, at)}."
    elif main == "coordinates" and setup.loaded.operator.layout.coordinates != "none":
        text += (
            " It is there when the lifted features are sampled more finely: coordinates jump at the edge of the period."
        )
    draft.find("spectra.attribution", "info", text, evidence, resolution=at)


def _cause(setup: Setup, at: int) -> str:
    """Say what differs between the grids for the blocks, as far as it is known from how they are built."""
    operator = setup.loaded.operator
    sizes = [grid.sizes for grid in setup.grids if grid.resolution in (at, setup.grids[0].resolution)]
    padded = [
        [size + sum(ends) for size, ends in zip(one, operator.layout.padding.cells(one), strict=True)] for one in sizes
    ]
    if operator.shifted_at_odd and any((a - b) % 2 for a, b in zip(*padded, strict=True)):
        return "grids of odd and of even size are different operators in this release"
    if any(operator.layout.padding.amounts):
        fixed = " of as many cells on every grid" if operator.layout.padding.fixed else ""
        return f"they take the grid with its padding{fixed} for one period, which covers another domain on each grid"
    if setup.kind == "closed":
        return (
            "they take all N nodes of a closed grid for one period, with another edge and another length on each grid"
        )
    return "they take the grid for one period, at whose edge the features jump"


def described_short(row: Estimate) -> str:
    """Return a value and its interval, for a list in which level and count are said once."""
    return described(row).partition(", ")[0]


def _largest(parts: dict[str, Estimate]) -> str:
    """Return the part whose interval lies above those of all others; empty where none does."""
    for part, row in parts.items():
        others = [other for name, other in parts.items() if name != part]
        if row.low is not None and all(other.high is not None and row.low > other.high for other in others):
            return part
    return ""


def _tell_law(draft: Draft, found: Found) -> None:
    if not all(found.has("mismatch_law", part=part) for part in ("coefficient", "r2", "order")):
        return
    rows = {part: found.row("mismatch_law", part=part) for part in ("order", "coefficient", "r2")}
    order, r2 = rows["order"], rows["r2"]
    evidence = [found.place("mismatch_law", part=part) for part in rows]
    if order.low is None or order.high is None or r2.low is None or r2.high is None:
        return
    measured = f"With S the mismatch grows as s^-p - S^-p does, p = {described(order)}"
    if FIRST[0] < order.low and order.high < FIRST[1] and r2.low >= STRAIGHT:
        text = (
            f"{measured}, and follows c (1/s - 1/S), c = {described_short(rows['coefficient'])}, R² "
            f"{described_short(r2)}: of first order, as a jump at the edge of the period or a period that is off by a "
            "cell make it."
        )
    elif order.high < FIRST[0] or order.low > FIRST[1]:
        text = f"{measured}: not of first order, as a jump at the edge of the period alone would make it."
    else:
        text = f"{measured}: whether it is of first order cannot be told from these grids (R² {described_short(r2)})."
    draft.find("spectra.law", "info", text, evidence)


def _tell_high(draft: Draft, found: Found, setup: Setup, at: int) -> None:
    if not found.has("high_frequency_share", resolution=at, tap="output"):
        return
    share = found.row("high_frequency_share", resolution=at, tap="output")
    evidence = [found.place("high_frequency_share", resolution=at, tap="output")]
    box = " x ".join(f"{edge:g}" for edge in dict.fromkeys(setup.cut.box))
    edge = f"{box} cycles per domain" if setup.cut.radius is None else f"{setup.cut.radius:g} cycles per domain"
    text = f"At {at}, {described(share)}, of the output's energy lies beyond {edge}"
    text += ", the highest modes kept on the axes" if setup.cut.radius is None else ""
    if found.has("high_frequency_share", resolution=at, tap="target"):
        evidence.append(found.place("high_frequency_share", resolution=at, tap="target"))
        text += f", of the target's {described_short(draft.estimates[evidence[-1]])}"
    text += "."
    rise = _steepest(found, setup, at)
    if rise:
        before, after = rise
        evidence += [found.place("high_frequency_share", resolution=at, tap=tap) for tap in (before, after)]
        first, last = (draft.estimates[place] for place in evidence[-2:])
        text += (
            " Of the stages after which that share is higher by intervals that lie apart, the factor is largest in "
            f"these samples at {after}: from {described_short(first)} to {described_short(last)}."
        )
    draft.find("spectra.high-frequency", "info", text, evidence, resolution=at)


def _steepest(found: Found, setup: Setup, at: int) -> tuple[str, str] | None:
    """Return the stages between which the high-frequency share grows by the largest factor, beyond both intervals.

    A share does not change where a stage is scaled and the next one scaled back, as energies do.
    """
    line = [tap for tap in main_line(setup.stages) if found.has("high_frequency_share", resolution=at, tap=tap)]
    shares = [found.row("high_frequency_share", resolution=at, tap=tap) for tap in line]
    grown = [
        (after.value / before.value, names)
        for names, (before, after) in zip(pairwise(line), pairwise(shares), strict=True)
        if before.value > 0 and before.high is not None and after.low is not None and after.low > before.high
    ]
    return max(grown)[1] if grown else None


def _tell_aliasing(draft: Draft, found: Found, at: int) -> None:
    rows = list(found.all("activation_aliasing", resolution=at))
    if not rows or not found.has("mismatch_share", resolution=at, part="nonlinear"):
        return
    place, most = max(rows, key=lambda item: item[1].value)
    nonlinear = found.row("mismatch_share", resolution=at, part="nonlinear")
    text = (
        f"Taken alone, the activation that aliases most at {at} in these samples is {most.where['tap']}, by a relative "
        f"{described(most)}. What the aliasing of all of them leaves in the mismatch of the prediction is "
        f"{described(nonlinear)}."
    )
    evidence = [place, found.place("mismatch_share", resolution=at, part="nonlinear")]
    draft.find("spectra.aliasing", "info", text, evidence, resolution=at)
