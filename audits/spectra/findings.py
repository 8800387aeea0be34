"""The findings: a verdict for each grid and its causes, as far as the intervals support them.

Severity: high where the interval of direct less upsampled lies above that of the upsampled error itself (run directly
the operator errs more than twice as much), medium where it lies above zero; everything else is information.
"""

from itertools import pairwise

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.numbers import counted, described
from audits.core.records import Estimate, Severity
from audits.spectra.counts import Counts
from audits.spectra.setup import Setup
from probes.operators.resampling import Method

LIMITED = 0.5
"""Share of the upsampled error from which the floor of interpolation is said to limit it."""
POOR = 0.5
"""Relative error on the grid of training from which model and data may not belong together."""
CLAIMED_FROM = 8
"""Samples from which a way is preferred: of fewer, no interval of a skewed difference holds as often as it says."""
ROUNDING = 1e-5
"""Difference of relative errors below which single precision decides: no way is preferred."""
FIRST = (0.75, 1.25)
"""Orders between which the whole interval must lie for the mismatch to be called one of the first order."""
STRAIGHT = 0.95
"""R^2 that the lower end of its interval must reach for the first order to be named."""
PARTS = {
    "input": "the input, which is sampled more finely",
    "coordinates": "the coordinates, the edges and the period of the domain",
    "nonlinear": "aliasing in the nonlinear blocks",
}


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings."""
    setup = counts.setup
    coarse, *finer = (grid.resolution for grid in setup.grids)
    misfit = check_fit(draft, coarse)
    for resolution in finer:
        if draft.get("direct_minus_upsampled", resolution=resolution):
            find_verdict(draft, coarse, resolution, misfit, setup.output_method)
    if not setup.scored:
        draft.find("spectra.no-targets", "info", "Without targets there is no error and no verdict: only how far the "
                   "operator's answers on two grids lie apart, and their spectra.")  # fmt: skip
    _find_parts(draft, setup, finer[-1])
    if len(finer) > 1:
        _find_law(draft)
    _find_high(draft, counts, finer[-1])
    _find_aliasing(draft, finer[-1])


def verdict_of(lead: Estimate | Interval) -> str:
    """Return upsample, direct or tie from the interval of the direct error less the upsampled one."""
    if lead.n < CLAIMED_FROM or abs(lead.value) < ROUNDING:
        return "tie"
    return "upsample" if lead.above(0) else "direct" if lead.below(0) else "tie"


def find_verdict(draft: Draft, coarse: int, at: int, misfit: str, method: Method) -> None:
    """Add the finding whether to run the operator directly at a resolution or to upsample from the coarse one.

    Parameters
    ----------
    misfit
        Why no way can be preferred, as of `check_fit`; empty for nothing of the kind.
    method
        How the upsampled solution was made.
    """
    lead = draft.row("direct_minus_upsampled", resolution=at)
    share = draft.row("direct_worse_share", resolution=at)
    paths = [draft.row("relative_l2", resolution=at, path=path) for path in ("direct", "upsampled", "floor")]
    direct, raised, floor = paths
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
        severity = "high" if raised.high is not None and lead.above(raised.high) else "medium"
        words = f"At {at}, run it at {coarse} and upsample: run at {at} directly, its error is higher"
    elif verdict == "direct":
        words = f"At {at}, run it directly: its error is lower than that of running at {coarse} and upsampling"
    else:
        words = f"At {at}, no difference could be shown between running it directly and upsampling from {coarse}"
    text = f"{words} (relative l2 {described_short(direct)} against {described_short(raised)}; {difference})."
    if raised.high is not None and floor.above(LIMITED * raised.high):
        text += (
            f" Limited by interpolation: upsampling the true solution alone costs {described_short(floor)}, so another "
            "way of upsampling may do better."
        )
        draft.warn(
            "limited-by-interpolation",
            f"Upsampling the true solution ({method}) errs by {floor.value:.3g}, by all intervals half or "
            "more of the upsampled error: the comparison is partly one of interpolation.",
            resolution=at,
        )
    draft.find("spectra.verdict", severity, text, [lead, *paths], resolution=at, verdict=verdict)


def check_fit(draft: Draft, coarse: int) -> str:
    """Add a finding where the operator misses the targets on its own grid; return why no way is preferred, or ""."""
    own = draft.get("relative_l2", resolution=coarse, path="same")
    if own is None or (own.value if own.high is None else own.high) <= POOR:
        return ""
    if not own.above(POOR):
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
    draft.find("spectra.poor-fit", "high", text, [own], resolution=coarse)
    draft.warn("poor-fit", f"The operator misses the targets on its own grid of {coarse} by half or more of them.")
    return "while the operator errs as much as this on its own grid"


def _find_parts(draft: Draft, setup: Setup, at: int) -> None:
    whole = draft.get("mismatch", resolution=at, tap="output")
    if whole is None:
        return
    parts = {part: draft.row("mismatch_share", resolution=at, part=part) for part in PARTS}
    causes = "; ".join(f"{described_short(row)} comes with {PARTS[part]}" for part, row in parts.items())
    text = f"At the nodes that both grids have, the prediction at {at} differs from that on the grid of training by a "
    text += f"relative {described(whole)}. Of this, {causes}."
    main = _largest(parts)
    if main:
        text += f" The largest part is that of {PARTS[main]}."
    evidence = [whole, *parts.values()]
    domain, edges = draft.row("domain_share", resolution=at), parts["coordinates"]
    if main == "coordinates" and edges.high is not None and domain.above(edges.high / 2):
        evidence.append(domain)
        text += f" It is made in the blocks, not before ({described_short(domain)}): {_cause(setup, at)}."
    elif main == "coordinates" and setup.loaded.operator.layout.coordinates != "none":
        text += (
            " It is there when the lifted features are sampled more finely: coordinates jump at the edge of the period."
        )
    draft.find("spectra.attribution", "info", text, evidence, resolution=at)


def _cause(setup: Setup, at: int) -> str:
    """Return what differs between the grids for the blocks, as far as their construction shows it, in words."""
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
    """Return a value and its interval in words, for a list that states level and count once."""
    return described(row).partition(", ")[0]


def _largest(parts: dict[str, Estimate]) -> str:
    """Return the part whose interval lies above those of all others; empty where none does."""
    for part, row in parts.items():
        others = [other for name, other in parts.items() if name != part]
        if all(other.high is not None and row.above(other.high) for other in others):
            return part
    return ""


def _find_law(draft: Draft) -> None:
    rows = [draft.get("mismatch_law", part=part) for part in ("order", "coefficient", "r2")]
    order, coefficient, r2 = rows
    if order is None or coefficient is None or r2 is None or order.low is None or r2.low is None:
        return
    measured = f"With S the mismatch grows as s^-p - S^-p does, p = {described(order)}"
    if order.above(FIRST[0]) and order.below(FIRST[1]) and r2.low >= STRAIGHT:
        text = (
            f"{measured}, and follows c (1/s - 1/S), c = {described_short(coefficient)}, R² "
            f"{described_short(r2)}: of first order, as a jump at the edge of the period or a period that is off by a "
            "cell make it."
        )
    elif order.below(FIRST[0]) or order.above(FIRST[1]):
        text = f"{measured}: not of first order, as a jump at the edge of the period alone would make it."
    else:
        text = f"{measured}: whether it is of first order cannot be told from these grids (R² {described_short(r2)})."
    draft.find("spectra.law", "info", text, rows)


def _find_high(draft: Draft, counts: Counts, at: int) -> None:
    share = draft.get("high_frequency_share", resolution=at, tap="output")
    if share is None:
        return
    cut, target = counts.setup.cut, draft.get("high_frequency_share", resolution=at, tap="target")
    box = " x ".join(f"{edge:g}" for edge in dict.fromkeys(cut.box))
    edge = f"{box} cycles per domain" if cut.radius is None else f"{cut.radius:g} cycles per domain"
    text = f"At {at}, {described(share)}, of the output's energy lies beyond {edge}"
    text += ", the highest modes kept on the axes" if cut.radius is None else ""
    if target:
        text += f", of the target's {described_short(target)}"
    text += "."
    rise = _steepest(draft, counts, at)
    if rise:
        before, after = rise
        text += (
            " Of the stages after which that share is higher by intervals that lie apart, the factor is largest in "
            f"these samples at {after.where['tap']}: from {described_short(before)} to {described_short(after)}."
        )
    draft.find("spectra.high-frequency", "info", text, [share, target, *rise], resolution=at)


def _steepest(draft: Draft, counts: Counts, at: int) -> tuple[Estimate, ...]:
    """Return the two shares of high frequencies with the largest growth between them, beyond both intervals.

    Nothing where none grows so. A share does not change where a stage is scaled and the next one scaled back, as
    energies do.
    """
    line = [draft.get("high_frequency_share", resolution=at, tap=tap) for tap in counts.main_line]
    grown = [
        (before, after)
        for before, after in pairwise(row for row in line if row)
        if before.value > 0 and before.high is not None and after.above(before.high)
    ]

    def factor(pair: tuple[Estimate, ...]) -> tuple[float, str, str]:
        before, after = pair
        # The names decide between equal factors.
        return after.value / before.value, str(before.where["tap"]), str(after.where["tap"])

    return max(grown, key=factor, default=())


def _find_aliasing(draft: Draft, at: int) -> None:
    rows = draft.select("activation_aliasing", resolution=at)
    nonlinear = draft.get("mismatch_share", resolution=at, part="nonlinear")
    if not rows or nonlinear is None:
        return
    most = max(rows, key=lambda row: row.value)
    text = (
        f"Taken alone, the activation that aliases most at {at} in these samples is {most.where['tap']}, by a relative "
        f"{described(most)}. What the aliasing of all of them leaves in the mismatch of the prediction is "
        f"{described(nonlinear)}."
    )
    draft.find("spectra.aliasing", "info", text, [most, nonlinear], resolution=at)
