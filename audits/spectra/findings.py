"""The findings: a verdict for each grid and its causes, as far as the intervals support them.

Severity: high where the interval of direct less upsampled lies above that of the upsampled error itself (run directly
the operator errs more than twice as much), medium where it lies above zero; everything else is information.
"""

from itertools import pairwise

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.numbers import counted, described, level_of, point
from audits.core.records import Coordinate, Estimate, Severity
from audits.core.wording import fitting, size_words, span
from audits.spectra.conclusion import BOTH_POOR, conclude
from audits.spectra.counts import Counts
from audits.spectra.grids import Grid, Relation, Resolution
from audits.spectra.setup import Setup
from audits.spectra.ways import ADVICE, OTHER, RUN, said, settings_of
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
    "input": "the finer sampled input",
    "coordinates": "the coordinates, edges and period",
    "nonlinear": "aliasing",
}
EVERY = {**PARTS, "operator": "the operator itself"}
"""With what is left where the operator is not traced."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings, and set the answer."""
    setup = counts.setup
    own, *others = setup.grids
    coarse = own.resolution
    misfit = check_fit(draft, coarse, settings_of(setup))
    for grid in others:
        if draft.get("direct_minus_upsampled", resolution=grid.resolution):
            find_verdict(draft, coarse, grid.resolution, misfit, setup.output_method, grid.relation)
    for grid in others:
        if grid.refused:
            _find_refused(draft, coarse, grid)
    if not setup.scored:
        draft.find(
            "spectra.no-targets",
            "info",
            "Told is only how far the operator's answers on two grids lie apart, and their spectra.",
            headline="Without targets there is no error and no verdict.",
        )
    run = [grid.resolution for grid in others if not grid.refused]
    if run:
        _find_parts(draft, setup, run[-1])
    if len(others) > 1:
        _find_law(draft, setup)
    last = run[-1] if run else coarse
    _find_high(draft, counts, last)
    _find_aliasing(draft, last)
    conclude(draft, setup)


def _find_refused(draft: Draft, coarse: Resolution, grid: Grid) -> None:
    """Add the finding that the operator cannot be run on a grid; the way over that of training stays."""
    at = grid.resolution
    raised = draft.get("relative_l2", resolution=at, path="upsampled")
    draft.find(
        "spectra.direct-refused",
        "info",
        f"The reason: {grid.refused.rstrip('.')}. "
        + (f"{said(RUN, grid.relation, coarse).capitalize()} it errs by {span(raised)}." if raised else ""),
        [raised] if raised else [],
        headline=f"At {at} points the operator cannot be run directly.",
        resolution=at,
    )


def verdict_of(lead: Estimate | Interval) -> str:
    """Return upsample, direct or tie from the interval of the direct error less the upsampled one."""
    if lead.n < CLAIMED_FROM or abs(lead.value) < ROUNDING:
        return "tie"
    return "upsample" if lead.above(0) else "direct" if lead.below(0) else "tie"


def find_verdict(
    draft: Draft, coarse: Resolution, at: Resolution, misfit: str, method: Method, relation: Relation = "finer"
) -> None:
    """Add the finding whether to run the operator directly at a resolution or over the grid of training.

    Parameters
    ----------
    misfit
        Why no way can be preferred, as of `check_fit`; empty for nothing of the kind.
    method
        How the upsampled solution was made.
    relation
        Of the grid to that of training, which decides what the way over that is called.
    """
    lead = draft.row("direct_minus_upsampled", resolution=at)
    share = draft.row("direct_worse_share", resolution=at)
    paths = [draft.row("relative_l2", resolution=at, path=path) for path in ("direct", "upsampled", "floor")]
    direct, raised, floor = paths
    # Which way errs less says nothing of a network that misses either way.
    verdict = "tie" if misfit else verdict_of(lead)
    severity: Severity = "info"
    sure = f"{_sampled(lead)} Both ways ran on the same samples, and the interval is that of their difference."
    if misfit:
        headline = f"Neither way can be preferred at {at} points: {misfit}."
    elif lead.n < CLAIMED_FROM:
        samples = counted(lead.n, lead.unit)
        headline = f"{samples} cannot tell running at {at} points from {said(OTHER, relation, coarse)}."
        sure += f" Of fewer than {CLAIMED_FROM} samples nobody can know how skewed the difference is."
    elif verdict == "upsample":
        severity = "high" if raised.high is not None and lead.above(raised.high) else "medium"
        headline = f"For a {at}-point grid, {said(ADVICE, relation, coarse)}: error lower by {span(lead)}."
    elif verdict == "direct":
        headline = f"For a {at}-point grid, run it directly: error lower by {size_words(lead)}."
    else:
        # Numbers written as powers of ten take more words.
        headline = fitting(
            f"No difference is shown between running at {at} points and {said(OTHER, relation, coarse)}: {span(lead)}.",
            f"No difference is shown between both ways at {at} points: {span(lead)}.",
        )
    text = (
        f"Relative l2 error: {span(direct)} run at {at} directly, {span(raised)} {said(RUN, relation, coarse)}; direct "
        f"less {'upsampled' if relation == 'finer' else 'that'} {span(lead)}. "
        f"Direct loses on {span(share)} of the samples."
    )
    if raised.high is not None and floor.above(LIMITED * raised.high):
        text += (
            f" Limited by interpolation: upsampling the true solution alone costs {span(floor)}, so another "
            "way of upsampling may do better."
        )
        draft.warn(
            "limited-by-interpolation",
            f"Upsampling the true solution ({method}) errs by {point(floor)}, by all intervals half or "
            "more of the upsampled error: the comparison is partly one of interpolation.",
            resolution=at,
        )
    if not misfit and direct.above(POOR) and raised.above(POOR):
        text += " Either way the operator misses these targets by half of them or more."
        draft.warn(
            BOTH_POOR,
            f"At {at} points both ways err by half of the targets or more, by their intervals: that one errs less does "
            "not make it good.",
            resolution=at,
        )
    where: dict[str, Coordinate] = {"resolution": at, "verdict": verdict}
    draft.find("spectra.verdict", severity, text, [lead, *paths, share], headline=headline, how_sure=sure, **where)


def _sampled(row: Estimate) -> str:
    """Return level and count of an interval as a sentence."""
    return f"Intervals are over samples: {', '.join(filter(None, (level_of(row), counted(row.n, row.unit))))}."


def check_fit(draft: Draft, coarse: Resolution, settings: str) -> str:
    """Add a finding where the operator misses the targets on its own grid; return why no way is preferred, or "".

    `settings` names what else than a scale may not be that of its training.
    """
    own = draft.get("relative_l2", resolution=coarse, path="same")
    if own is None or (own.value if own.high is None else own.high) <= POOR:
        return ""
    if not own.above(POOR):
        draft.warn(
            "unclear-fit",
            f"Whether the operator misses the targets on its own grid of {coarse} by half of them cannot be told: its "
            f"relative error there is {described(own)}.",
        )
        return "how much the operator errs on its own grid is unclear"
    draft.find(
        "spectra.poor-fit",
        "high",
        f"It is untrained, or {settings}, --input-scale or --target-scale is not that of its training. What follows is "
        "no judgement of it.",
        [own],
        headline=f"The operator misses the targets on its own grid of {coarse}: relative error {span(own)}.",
        how_sure=_sampled(own),
        resolution=coarse,
    )
    draft.warn("poor-fit", f"The operator misses the targets on its own grid of {coarse} by half or more of them.")
    return "the operator misses the targets on its own grid"


def _find_parts(draft: Draft, setup: Setup, at: Resolution) -> None:
    whole = draft.get("mismatch", resolution=at, tap="output")
    if whole is None:
        return
    found = {part: draft.get("mismatch_share", resolution=at, part=part) for part in EVERY}
    parts = {part: row for part, row in found.items() if row}
    (relation,) = [grid.relation for grid in setup.grids if grid.resolution == at]
    words = EVERY if relation == "finer" else {**EVERY, "input": "what one grid alone holds of the input"}
    first, *others = (f"{span(row)} {{}}with {words[part]}" for part, row in parts.items())
    text = f"Of it, {', '.join((first.format('comes '), *(one.format('') for one in others)))}."
    main = _largest(parts)
    if main:
        text += f" The largest part is that of {words[main]}."
    evidence = [whole, *parts.values()]
    domain, edges = draft.get("domain_share", resolution=at), parts.get("coordinates")
    if main == "coordinates" and domain and edges and edges.high is not None and domain.above(edges.high / 2):
        evidence.append(domain)
        text += f" It is made in the blocks: {_cause(setup, at)}."
    elif main == "coordinates" and setup.loaded.operator.layout.coordinates != "none":
        text += " It is there before the blocks: coordinates jump at the edge of the period."
    coarse = setup.grids[0].resolution
    draft.find(
        "spectra.attribution",
        "info",
        text,
        evidence,
        headline=fitting(
            f"The prediction at {at} points differs from that at {coarse} by a relative {span(whole)}.",
            f"Predictions at {at} and {coarse} points differ by a relative {span(whole)}.",
        ),
        how_sure=f"{_sampled(whole)} Compared are the nodes that both grids have; the parts were taken off one after "
        "the other, the input first.",
        resolution=at,
    )


def _cause(setup: Setup, at: Resolution) -> str:
    """Return what differs between the grids for the blocks, as far as their construction shows it, in words."""
    operator = setup.loaded.operator
    sizes = [grid.sizes for grid in setup.grids if grid.resolution in (at, setup.grids[0].resolution)]
    padded = [
        [size + sum(ends) for size, ends in zip(one, operator.layout.padding.cells(one), strict=True)] for one in sizes
    ]
    if operator.shifted_at_odd and any((a - b) % 2 for a, b in zip(*padded, strict=True)):
        return "grids of odd and even size are different operators in this release"
    if any(operator.layout.padding.amounts):
        fixed = "fixed " if operator.layout.padding.fixed else ""
        return f"they take the grid and its {fixed}padding for one period, another domain on each grid"
    if setup.kind == "closed":
        return "they take all nodes of a closed grid for one period, another on each grid"
    return "they take the grid for one period, at whose edge the features jump"


def _largest(parts: dict[str, Estimate]) -> str:
    """Return the part whose interval lies above those of all others; empty where none does."""
    for part, row in parts.items():
        others = [other for name, other in parts.items() if name != part]
        if all(other.high is not None and row.above(other.high) for other in others):
            return part
    return ""


def _find_law(draft: Draft, setup: Setup) -> None:
    rows = [draft.get("mismatch_law", part=part) for part in ("order", "coefficient", "r2")]
    order, coefficient, r2 = rows
    if order is None or coefficient is None or r2 is None or order.low is None or r2.low is None:
        return
    divided = setup.loaded.operator.divided
    if order.above(FIRST[0]) and order.below(FIRST[1]) and r2.low >= STRAIGHT:
        headline = f"The difference between grids is of first order in their spacing: {span(order)}."
        text = (
            f"It follows the difference of both spacings times {span(coefficient)}, R² {span(r2)}, as "
            + ("a jump at the edge of the period or a period that is off by a cell make it." if divided
               else "an error of the operator that is proportional to the spacing makes it.")
        )  # fmt: skip
    elif order.below(FIRST[0]) or order.above(FIRST[1]):
        headline = f"The difference between grids is of order {span(order)} in their spacing, not the first."
        cause = "A jump at the edge of the period alone" if divided else "An error proportional to the spacing"
        text = f"{cause} would make it of the first order."
    else:
        headline = f"Whether the difference between grids is of first order cannot be told: {span(order)}."
        text = f"These grids do not decide it (R² of the first order {span(r2)})."
    sure = f"Order is p of s^-p - S^-p, fitted over the grids S; s is that of training. {_sampled(order)}"
    draft.find("spectra.law", "info", text, rows, headline=headline, how_sure=sure)


def _find_high(draft: Draft, counts: Counts, at: Resolution) -> None:
    share = draft.get("high_frequency_share", resolution=at, tap="output")
    if share is None:
        return
    cut, target = counts.setup.cut, draft.get("high_frequency_share", resolution=at, tap="target")
    box = " x ".join(f"{edge:g}" for edge in dict.fromkeys(cut.box))
    edge = f"{box} cycles per domain" if cut.radius is None else f"{cut.radius:g} cycles per domain"
    text = f"High means beyond {edge}"
    text += ", the highest modes kept" if cut.radius is None else ""
    text += f". Of the target's energy it is {span(target)}." if target else "."
    rise = _steepest(draft, counts, at)
    if rise:
        before, after = rise
        text += (
            f" In these samples it grows most at stage {after.where['tap']}: from {span(before)} to {span(after)}, by "
            "intervals that lie apart."
        )
    draft.find(
        "spectra.high-frequency",
        "info",
        text,
        # The output may be the stage at which it grows most.
        [share, target, *(row for row in rise if row is not share)],
        headline=fitting(
            f"Of the output's energy at {at} points, {span(share)} is at high frequencies.",
            f"High frequencies hold {span(share)} of the output's energy at {at} points.",
        ),
        how_sure=_sampled(share),
        resolution=at,
    )


def _steepest(draft: Draft, counts: Counts, at: Resolution) -> tuple[Estimate, ...]:
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


def _find_aliasing(draft: Draft, at: Resolution) -> None:
    rows = draft.select("activation_aliasing", resolution=at)
    nonlinear = draft.get("mismatch_share", resolution=at, part="nonlinear")
    if not rows:
        return
    most = max(rows, key=lambda row: row.value)
    left = "What it leaves in the prediction was not traced."
    if nonlinear:
        left = f"What the aliasing of all of them leaves in the mismatch of the prediction is {span(nonlinear)}."
    draft.find(
        "spectra.aliasing",
        "info",
        f"In these samples and taken alone, that is {most.where['tap']}. {left}",
        [most, *([nonlinear] if nonlinear else [])],
        headline=fitting(
            f"The activation that aliases most at {at} points does so by a relative {span(most)}.",
            f"The strongest aliasing at {at} points is a relative {span(most)}.",
        ),
        how_sure=_sampled(most),
        resolution=at,
    )
