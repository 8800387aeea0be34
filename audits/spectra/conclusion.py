"""The answer: how to run the operator on each finer grid, and what that does not say."""

from collections.abc import Iterator, Mapping

from audits.core.context import Claim, Draft
from audits.core.numbers import decimals, written
from audits.core.records import SEVERITIES, Coordinate, Estimate
from audits.core.wording import listed, span
from audits.spectra.grids import Relation, Resolution
from audits.spectra.setup import Setup
from audits.spectra.ways import RUN, SHORT, said

Relations = Mapping[Resolution, Relation]
BOTH_POOR = "both-ways-poor"
"""Id of the warning that either way misses the targets on a grid."""


def conclude(draft: Draft, setup: Setup) -> None:
    """Set the answer: the verdict over all finer grids, or without targets how far the answers lie apart."""
    coarse = setup.grids[0].resolution
    verdicts = [claim for claim in draft.findings if claim.id == "spectra.verdict"]
    apart = draft.select("mismatch", tap="output")
    relations = {grid.resolution: grid.relation for grid in setup.grids[1:]}
    numbers = [(row, _difference(row, coarse, relations)) for row in (claim.evidence[0] for claim in verdicts)]
    if not verdicts:
        numbers = [
            (row, f"relative difference of the prediction at {row.where['resolution']} points from that at {coarse}")
            for row in apart
        ]
    draft.conclude(
        _title(draft, verdicts, coarse, relations),
        numbers=numbers,
        may=list(_may(draft, setup, verdicts, relations)),
        may_not=list(_may_not(draft, setup, verdicts)),
    )


def _difference(row: Estimate, coarse: Resolution, relations: Relations) -> str:
    at = row.where["resolution"]
    return f"error run at {at} points directly, less {said(SHORT, relations[_named(at)], coarse)}"


def _named(at: Coordinate) -> Resolution:
    return at if isinstance(at, str) else int(at)


def _title(draft: Draft, verdicts: list[Claim], coarse: Resolution, relations: Relations) -> str:
    worst = max(draft.findings, key=lambda claim: SEVERITIES.index(claim.severity))
    alike = {claim.where["verdict"] for claim in verdicts}
    grids = listed([str(claim.where["resolution"]) for claim in verdicts])
    finer = {relations[_named(claim.where["resolution"])] for claim in verdicts} == {"finer"}
    if worst.id != "spectra.poor-fit" and len(verdicts) > 1 and alike == {"upsample"}:
        if not finer:
            return f"For {grids} points, go over the grid of {coarse}: run directly, the operator errs more."
        return f"For {grids} points, run at {coarse} and upsample: run directly, the operator errs more."
    if len(verdicts) > 1 and alike == {"direct"}:
        other = f"upsampling from {coarse}" if finer else f"going over the grid of {coarse}"
        return f"For {grids} points, run directly: {other} errs more."
    apart = next((claim for claim in draft.findings if claim.id == "spectra.attribution"), worst)
    return worst.headline if verdicts or worst.severity != "info" else apart.headline


def _may(draft: Draft, setup: Setup, verdicts: list[Claim], relations: Relations) -> Iterator[str]:
    coarse = setup.grids[0].resolution
    misses = any(claim.id == "spectra.poor-fit" for claim in draft.findings)
    for claim in [] if misses else verdicts:
        direct, raised = claim.evidence[1:3]
        relation = relations[_named(claim.where["resolution"])]
        method = {"finer": setup.output_method, "coarser": setup.input_method}.get(
            relation, f"{setup.input_method}, {setup.output_method}"
        )
        yield (
            f"At {claim.where['resolution']} points the relative l2 error is {span(direct)} run directly, "
            f"{span(raised)} {said(RUN, relation, coarse)} ({method})."
        )
    for claim in draft.findings:
        if claim.id in ("spectra.poor-fit", "spectra.direct-refused"):
            yield claim.headline
        if claim.id == "spectra.attribution" and not misses:
            yield _apart(draft, claim, coarse)


def _apart(draft: Draft, claim: Claim, coarse: Resolution) -> str:
    """Return how far predictions lie apart: on one grid, or on those where they do least and most."""
    rows = sorted(draft.select("mismatch", tap="output"), key=lambda row: row.value)
    if len(rows) < 2:
        return claim.headline
    least, most = (f"at {row.where['resolution']} points by a relative {span(row)}" for row in (rows[0], rows[-1]))
    return f"Of {len(rows)} grids, the prediction differs least from that at {coarse} points {least}, most {most}."


def _may_not(draft: Draft, setup: Setup, verdicts: list[Claim]) -> Iterator[str]:
    misses = any(claim.id == "spectra.poor-fit" for claim in draft.findings)
    if misses:
        yield "Anything else about the operator: it may have been run with settings that are not those of its training."
    for claim in verdicts:
        if claim.where["verdict"] == "tie":
            yield (
                f"That both ways err alike at {claim.where['resolution']} points: a difference of "
                f"{_furthest(claim.evidence[0])} still fits the data."
            )
    poor = [str(one.where["resolution"]) for one in draft.warnings if one.id == BOTH_POOR]
    if poor:
        yield f"That a way is good enough at {listed(poor)} points: both err by half of the targets or more."
    yield "That a way is better for another operator, or another training of this one: one checkpoint was compared."
    if draft.select("mismatch_share"):
        yield "That the parts of the difference are the same in another order: they were taken off one after the other."
    if any("operator" in setup.parts(grid) for grid in setup.grids[1:] if not grid.refused):
        yield (
            "Whether coordinates, edges or aliasing make the operator's own part: it is not divided where the operator "
            "is not run stage by stage, or on coarser grids."
        )
    if verdicts:
        yield "An error against nature: the targets are those of a solver, whose own error is in all numbers."


def _furthest(lead: Estimate) -> str:
    """Return the size of the largest difference in the interval."""
    ends = [end for end in (lead.low, lead.high) if end is not None] or [lead.value]
    return written(abs(max(ends, key=abs)), decimals(lead))
