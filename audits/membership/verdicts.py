"""Does what was proved contradict a claim, could it have, and on whose word does that rest?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from audits.context import Context, Draft
from audits.membership import Options
from audits.membership.bounding import CERTIFIED, Bounds, Proved
from audits.membership.claims import Claim, stated
from audits.numbers import bounded, percent
from audits.records import Severity

if TYPE_CHECKING:
    from audits.membership.report import Results


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one attack's leading bound says of a claim."""

    bounds: Bounds
    verdict: str
    severity: Severity
    statement: str


def judge_claims(draft: Draft, results: "Results", context: Context) -> None:
    """Add the verdicts on each claim: every violation; or else that of the attack which proves most.

    Attacks whose scores are the wrong way round, or all equal, are left out; with no other left, there is no verdict.
    """
    for model, claim in results.claims.items():
        of = [one for one in results.bounds if one.judged.attack.where.get("model", "") == model]
        # A bound counts wrong guesses too: of flipped scores it would speak of non-members. Of equal ones it is 0 by
        # itself, and a claim that nothing was held against is not upheld.
        sound = (one for one in of if not (one.judged.flipped or one.judged.constant))
        own = sorted(sound, key=lambda one: -one.leading.epsilon)
        if not own:
            where = {"model": model} if model else {}
            kinds = [
                word
                for word, met in (
                    ("equal", any(one.judged.constant for one in of)),
                    ("the wrong way round", any(one.judged.flipped for one in of)),
                )
                if met
            ]
            text = f"all scores are {' or '.join(kinds)}" if of else "no attack was made on it"
            draft.warn("no-verdict", f"The claimed epsilon of {claim.words} was not judged: {text}.", **where)
            continue
        made = [_verdict(draft, results, one, claim, context) for one in own]
        broken = [one for one in made if one.verdict == "violation"]
        for verdict in broken or made[:1]:
            attack, leading = verdict.bounds.judged.attack, verdict.bounds.leading
            evidence = [leading.place, leading.ceiling_place, results.claims_at[model]]
            where = {"attack": attack.name, **attack.where, "verdict": verdict.verdict}
            draft.find("membership.verdict", verdict.severity, verdict.statement, evidence, **where)


def _verdict(draft: Draft, results: "Results", bounds: Bounds, claim: Claim, context: Context) -> _Verdict:
    leading, attack, rivals = bounds.leading, bounds.judged.attack, bounds.rivals
    name = f" for {attack.where['model']}" if attack.where else ""
    claimed = f"The claimed epsilon of {claim.words}{name}"
    tried = f", one of {rivals} attacks that share the error," if rivals > 1 else ""
    least = f"{attack.name}{tried} bounds it from below by {_told(leading.epsilon, claim)} ({percent(context.level)}"
    least += f", delta {claim.delta:g})"
    most = f"with {_size(draft, bounds, results)}, a perfect attack would prove {_told(leading.ceiling, claim)}"
    rest = _basis(leading.validity, results.options) + _between(leading, claim)
    if leading.epsilon > claim.epsilon:
        grave: Severity = "high" if leading.validity == CERTIFIED else "medium"
        text = f"{claimed} is contradicted: {least}. {rest}"
        return _Verdict(bounds, "violation", grave, text)
    if leading.ceiling < claim.epsilon:
        text = f"{claimed} could not have been refuted by this audit: {most}. As it is, {least}. {rest}"
        return _Verdict(bounds, "vacuous", "medium", text)
    text = f"{claimed} is not contradicted: {least}; {most}. {rest}"
    return _Verdict(bounds, "consistent", "info", text)


MOST_DIGITS = 9


def _told(bound: float, claim: Claim) -> str:
    """Return a bound rounded down, in as few digits as leave it on its own side of the claim."""
    written = [bounded(bound, digits=digits) for digits in range(3, MOST_DIGITS + 1)]
    side = np.sign(bound - claim.epsilon)
    return next((text for text in written if np.sign(float(text) - claim.epsilon) == side), written[-1])


def _between(leading: Proved, claim: Claim) -> str:
    """Say where a bound contradicts no accounted claim, but perhaps the training that was accounted for."""
    if claim.least is None or not claim.least < leading.epsilon <= claim.epsilon:
        return ""
    return (
        f" What was proved lies between {bounded(claim.least)}, below which no accountant of these steps can go, and "
        "the claim, which is an upper bound: a tighter accountant may find the training refuted."
    )


def _size(draft: Draft, bounds: Bounds, results: "Results") -> str:
    """Return how many points prove, as a reader can count them."""
    member = bounds.judged.attack.member
    whole = f"{int(member.sum()):,} members and {int((~member).sum()):,} non-members"
    n = draft.estimates[bounds.leading.place].n
    return whole if n == len(member) else f"the bound resting on {n:,} of {len(member):,} points ({whole})"


def _basis(validity: str, options: Options) -> str:
    """Return what a bound rests on: also a certified one holds on somebody's word."""
    if validity != CERTIFIED:
        return "This is heuristic: points of one training run are no independent trials."
    word = stated(options)
    return f"This is certified on your word that {word}."
