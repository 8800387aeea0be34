"""Verdicts on claims: whether a bound contradicts one, whether it could have, and on whose word that rests."""

import numpy as np

from audits.core.context import Draft
from audits.core.numbers import bounded, percent
from audits.core.records import Severity
from audits.membership import Options
from audits.membership.bounding import CERTIFIED, Bounds, Proved
from audits.membership.claims import Claim
from audits.membership.measure import Counts
from audits.membership.scoring import model_where

VIOLATION, VACUOUS, CONSISTENT = "violation", "vacuous", "consistent"
MOST_DIGITS = 9


def find_verdicts(draft: Draft, counts: Counts) -> None:
    """Add the verdicts on each claim: every violation, or else that of the attack that proves most.

    Attacks whose scores are the wrong way round, or all equal, are left out; with no other left, there is no verdict.
    """
    for model, claim in counts.claims.items():
        of = [one for one in counts.bounds if one.judged.attack.model == model]
        # A bound counts wrong guesses too: of flipped scores it would speak of non-members. Of equal ones it is 0 by
        # itself, and a claim that nothing was held against is not upheld.
        sound = (one for one in of if not (one.judged.flipped or one.judged.constant))
        own = sorted(sound, key=lambda one: -one.leading.epsilon)
        if not own:
            kinds = ["equal"] * any(one.judged.constant for one in of)
            kinds += ["the wrong way round"] * any(one.judged.flipped for one in of)
            why = f"all scores are {' or '.join(kinds)}" if of else "no attack was made on it"
            searched = "" if claim.each is None else f" for a search over {claim.runs:,} runs"
            text = f"The claimed epsilon of {claim.words}{searched} was not judged: {why}."
            draft.warn("no-verdict", text, **model_where(model))
        broken = [one for one in own if _verdict(one.leading, claim) == VIOLATION]
        for one in broken or own[:1]:
            _find_verdict(draft, counts, one, claim)


def _verdict(leading: Proved, claim: Claim) -> str:
    if leading.epsilon > claim.epsilon:
        return VIOLATION
    return VACUOUS if leading.ceiling < claim.epsilon else CONSISTENT


def _find_verdict(draft: Draft, counts: Counts, bounds: Bounds, claim: Claim) -> None:
    leading, attack, rivals = bounds.leading, bounds.judged.attack, bounds.rivals
    verdict, where = _verdict(leading, claim), bounds.judged.where
    certified = leading.validity == CERTIFIED
    lower = draft.row("epsilon_lower", **where, method=leading.method, validity=leading.validity)
    ceiling = draft.row("epsilon_ceiling", **where, method=leading.method)
    evidence = [lower, ceiling, draft.row("epsilon_claimed", **attack.where)]
    # The number of the headline comes first.
    if verdict == VACUOUS:
        evidence[:2] = [ceiling, lower]
        which = "" if claim.each is None else "the search's "
        headline = f"Too few points to test {which}{_claimed(claim, attack.model)}: a perfect attack could show at most"
        headline += f" {_written(leading.ceiling, claim)}."
        text = f"{_basis(leading.validity, counts.options)} "
        least = "nothing above 0" if not leading.epsilon else f"at least {_written(leading.epsilon, claim)}"
        text += f"As it is, attack {attack.name} shows {least}, with {_size(bounds)}."
        text += _of_search(leading, claim)
    else:
        denied = "" if verdict == VIOLATION else "not "
        proof = "attack {} proves at least {}" if certified else "the heuristic bound by attack {} is {}"
        which = "claimed" if claim.each is None else "search's"
        headline = f"The {which} {_claimed(claim, attack.model)} is {denied}contradicted: "
        headline += f"{proof.format(attack.name, _written(leading.epsilon, claim))}."
        text = f"With {_size(bounds)}, a perfect attack would prove {_written(leading.ceiling, claim)}. "
        text += _basis(leading.validity, counts.options) + _between(leading, claim) + _of_search(leading, claim)
    shared = f"; {rivals} attacks share the error" if rivals > 1 else ""
    severity: Severity = "info" if verdict == CONSISTENT else "high" if certified and verdict == VIOLATION else "medium"
    draft.find(
        "membership.verdict",
        severity,
        text,
        evidence,
        headline=headline,
        how_sure=f"{percent(draft.level)}, delta {claim.delta:g}{shared}.",
        **where,
        verdict=verdict,
    )


def _claimed(claim: Claim, model: str) -> str:
    """Return the claim as an equation: an accounted epsilon is an upper bound."""
    return f"epsilon {'=' if claim.least is None else '≤'} {claim.number}" + (f" for {model}" if model else "")


def _of_search(leading: Proved, claim: Claim) -> str:
    """Return words on what a run of a search claims, and whether that would be contradicted."""
    if claim.each is None:
        return ""
    text = f" Judged is the search over {claim.runs:,} runs, each of which claims {claim.each.words} at delta "
    text += f"{claim.each.delta:g}."
    if claim.each.epsilon < leading.epsilon <= claim.epsilon:
        text += " That claim of a single run would be contradicted."
    return text


def _written(bound: float, claim: Claim) -> str:
    """Return a bound rounded down, with the fewest digits that keep it on its side of the claim."""
    written = [bounded(bound, digits=digits) for digits in range(3, MOST_DIGITS + 1)]
    side = np.sign(bound - claim.epsilon)
    return next((text for text in written if np.sign(float(text) - claim.epsilon) == side), written[-1])


def _between(leading: Proved, claim: Claim) -> str:
    """Return words on a bound below an accounted claim but above what the training spends at least."""
    # Of a search nothing is known from below: the run that was chosen may have spent less than any.
    if claim.least is None or claim.each is not None or not claim.least < leading.epsilon <= claim.epsilon:
        return ""
    return (
        f" What was proved lies between {bounded(claim.least)}, below which no accountant of these steps can go, and "
        "the claim, which is an upper bound: a tighter accountant may find the training refuted."
    )


def _size(bounds: Bounds) -> str:
    """Return the numbers of points behind the bounds, in words."""
    member, n = bounds.judged.attack.member, bounds.leading.bound.n
    whole = f"{int(member.sum()):,} members and {int((~member).sum()):,} non-members"
    return whole if n == len(member) else f"the bound resting on {n:,} of {len(member):,} points ({whole})"


def _basis(validity: str, options: Options) -> str:
    """Return the assumption of a bound in words: a certified one rests on a statement of the user."""
    if validity != CERTIFIED:
        return "This is heuristic: points of one training run are no independent trials."
    return f"Valid only if, as you stated, {assumption(options)}."


def assumption(options: Options) -> str:
    """Return what the user stated of the points or the scores, for a sentence of a verdict."""
    if options.coin_flip is not None:
        return "each point was included by its own fair coin flip"
    return "every score is from a training run of its own"
