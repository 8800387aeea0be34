"""The audit from plan to draft: score, count, bound, compare, judge, draw, list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audits.context import Context, Draft, Plan
from audits.membership import Options
from audits.membership.blind import Blind, compare_blindly
from audits.membership.bounding import Bounds, bound_all
from audits.membership.claims import ACCOUNTANT, Claim
from audits.membership.copying import Copying, copies_of
from audits.membership.estimating import Judged, estimate
from audits.membership.figures import draw
from audits.membership.hitting import Hit, hits_of
from audits.membership.inputs import Inputs
from audits.membership.judging import judge
from audits.membership.leaking import Difference, Leak, gaps_of, leaks_of
from audits.membership.listing import records_of, shortened
from audits.membership.outlook import warnings_of
from audits.membership.scoring import Scored, score
from audits.numbers import UPPER_BOUND
from audits.records import Coverage, Estimate, Skipped

LIMITATIONS = (
    "An attack that finds nothing proves no privacy: a better one may. Bounds of epsilon are from below only.",
    "Numbers of one access are not to be set against numbers of another: who holds the weights can do more than who "
    "holds samples.",
    "All rates hold for these members and non-members. Intervals take them as random draws from one distribution; they "
    "do not hold another training run.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What was scored, counted and bounded, for whoever judges, draws and lists it.

    `claims` are by model, under an empty name where there is one; `claims_at` are the places of their estimates, and
    `utilities` those by model and measure.
    """

    inputs: Inputs
    options: Options
    scored: Scored
    judged: Sequence[Judged]
    bounds: Sequence[Bounds]
    hits: Sequence[Hit]
    copies: Sequence[Copying]
    blind: Blind | None
    leaks: Sequence[Leak]
    gaps: Sequence[Difference]
    claims: Mapping[str, Claim]
    claims_at: Mapping[str, int]
    utilities: Mapping[tuple[str, str], int]


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs: Inputs = plan.inputs
    draft = Draft(limitations=list(LIMITATIONS), coverage=_coverage(inputs))
    for id, message, where in warnings_of(inputs, options):
        draft.warn(id, message, **where)
    scored = score(inputs, options, context)
    for id, message, place in scored.warnings:
        draft.warn(id, message, **place)
    judged = estimate(draft, scored, inputs.pool, inputs.settings, context)
    claims = inputs.claims
    claims_at = {model: _add_claim(draft, model, claim) for model, claim in claims.items()}
    hits = hits_of(draft, judged, context)
    copies = copies_of(draft, scored, inputs.pool, context)
    bounds = bound_all(draft, judged, inputs.pool, options, claims, context)
    blind = None
    if options.blind and inputs.blind is not None:
        blind = compare_blindly(draft, inputs.blind, context)
    models = [one.name for one in inputs.releases] or [""]
    leaks = leaks_of(draft, judged, inputs.pool, models, context)
    gaps = gaps_of(draft, leaks, context)
    utilities: dict[tuple[str, str], int] = {}
    if inputs.given is None:
        # Of models only: a file of scores needs no torch.
        from audits.membership.utility import utilities as measured

        utilities = measured(draft, inputs, options, context)
    results = Results(
        inputs=inputs,
        options=options,
        scored=scored,
        judged=judged,
        bounds=bounds,
        hits=hits,
        copies=copies,
        blind=blind,
        leaks=leaks,
        gaps=gaps,
        claims=claims,
        claims_at=claims_at,
        utilities=utilities,
    )
    judge(draft, results, context)
    draft.figures = draw(draft, results)
    draft.records = records_of(scored.attacks, inputs.pool)
    listed = shortened(scored.attacks, inputs.pool)
    if listed:
        draft.warn("records-shortened", f"records.csv lists the first {listed:,} points of each attack.")
    return draft


def _add_claim(draft: Draft, model: str, claim: Claim) -> int:
    where = {"model": model} if model else {}
    ends: dict[str, Any] = {"method": "exact"}
    if claim.least is not None:
        ends = {"low": claim.least, "high": claim.epsilon, "method": f"{UPPER_BOUND} {ACCOUNTANT}"}
    return draft.add(Estimate(name="epsilon_claimed", value=claim.epsilon, **ends, n=1, unit="claims", where=where))


def _coverage(inputs: Inputs) -> Coverage:
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted(inputs.pool.skipped.items()))
    return Coverage(given=inputs.pool.given, used=len(inputs.pool), skipped=skipped)
