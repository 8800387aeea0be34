"""The answer: what attacks found of each model and with which access, and what the claims come to."""

from collections.abc import Sequence

from audits.core.context import Claim as Found
from audits.core.context import Draft
from audits.core.numbers import bounded, coordinate, percent
from audits.core.records import Estimate
from audits.core.wording import NOT_AFTER_CORRECTION, first_of, span
from audits.membership import STEPS
from audits.membership.bounding import CERTIFIED
from audits.membership.leak_findings import HOLDING, held, is_shown
from audits.membership.leaks import Leak
from audits.membership.measure import Counts
from audits.membership.verdicts import VACUOUS, VIOLATION, assumption

MOST_NAMED = 6
UNSOUND = ("membership.shifted", "membership.flipped", "membership.equal")
"""Findings after which no number says anything of the model."""


def conclude(draft: Draft, counts: Counts) -> None:
    """Set the answer: the gravest finding, its numbers, and what of all may be reported."""
    found = draft.by_severity()
    if not found:
        return
    rows = draft.leading(without=("membership.learnt-less",))
    draft.conclude(
        found[0].headline,
        numbers=[(row, number_words(row, given=counts.inputs.given is not None)) for row in rows],
        may=_may(draft, counts, found),
        may_not=_may_not(draft, counts, found),
        verdicts=[(draft.row("leakage", **leak.where), *_judged(draft, leak, found)) for leak in counts.leaks],
        next_step=_next_step(found),
    )


def _next_step(found: Sequence[Found]) -> str:
    """Return what can be done about claims that were contradicted or could not be; empty where another step leads."""
    worst = next((claim.id for claim in found if claim.id in STEPS), "")
    kinds = {claim.where["verdict"] for claim in found if claim.id == "membership.verdict"}
    if worst != "membership.verdict":
        return ""
    if VIOLATION in kinds:
        others = "; test the others with more points and canaries" if len(kinds) > 1 else ""
        return f"Withdraw the claimed epsilon that is contradicted{others}."
    return "Test the claimed epsilon with more points or canaries: so few can contradict none." * (kinds == {VACUOUS})


def _judged(draft: Draft, leak: Leak, found: Sequence[Found]) -> tuple[bool, str]:
    """Return whether the area of a leak is shown after correction for all of them, and how findings say that."""
    row = draft.row("leakage", **leak.where)
    if is_shown(draft, leak):
        return True, ""
    if any(claim.id == "membership.leak" and claim.where == leak.where for claim in found):
        return False, "on average not shown; some points are found"
    return False, NOT_AFTER_CORRECTION if row.above(0.5) else "below chance" if row.below(0.5) else ""


def number_words(row: Estimate, *, given: bool = False) -> str:
    """Return what a row of the membership audit is, for people."""
    where = {key: str(value) for key, value in row.where.items()}
    of = f", {where['model']}" if "model" in where else ""
    if row.name == "leakage_difference":
        return f"difference in AUC with {HOLDING[where['access']]}, {where['model']} less {where['against']}"
    certified = where.get("validity") == CERTIFIED
    words = {
        "leakage": f"AUC of the best attack with {'these scores' if given else HOLDING.get(where.get('access', ''))}",
        "auc": f"AUC of {where.get('attack')}",
        "tpr": f"share of members found by {where.get('attack')}, false alarms {coordinate(row.where.get('fpr', ''))}",
        "blind_auc": "AUC of a classifier of the points alone, without any model",
        "copied_members": "share of the members that samples repeat",
        "epsilon_lower": f"{'proved lower' if certified else 'heuristic'} bound of epsilon, by {where.get('attack')}",
        "epsilon_ceiling": "largest epsilon that so many points can prove",
    }
    return f"{words.get(row.name) or row.measure.label}{of}"


def _may(draft: Draft, counts: Counts, found: Sequence[Found]) -> list[str]:
    lines: list[str] = []
    ids = {claim.id for claim in found}
    if ids & set(UNSOUND):
        return [claim.headline for claim in found if claim.id in UNSOUND]
    for access in dict.fromkeys(leak.access for leak in counts.leaks):
        own = [claim for claim in found if claim.id == "membership.leak" and claim.where["access"] == access]
        shown = [claim for claim in own if claim.evidence[0].name == "leakage"]
        lines += [claim.headline for claim in own if claim not in shown]
        named = [f"{claim.where['attack']}{_of(claim)} {span(draft.row('leakage', **claim.where))}" for claim in shown]
        if named:
            lines.append(f"AUC of the best attack with {_access(counts, access)}: {first_of(named, MOST_NAMED)}.")
    lines += [claim.headline for claim in found if claim.id in ("membership.copies", "membership.more-leakage")]
    for claim in found:
        if claim.id == "membership.verdict":
            lower = next(row for row in claim.evidence if row.name == "epsilon_lower")
            certified = lower.where["validity"] == CERTIFIED
            kind = f"if, as you stated, {assumption(counts.options)}" if certified else "heuristic, not proved"
            epsilon = f"Epsilon{_of(claim).replace(' on ', ' of ', 1)} is "
            epsilon += f"at least {bounded(lower.value)}" if lower.value > 0 else "not shown to be above 0"
            lines.append(
                f"{epsilon} at delta {_delta(counts, claim):g} ({percent(draft.level)}), by attack "
                f"{claim.where['attack']}, {kind}."
            )
    return lines or [claim.headline for claim in found if claim.id in ("membership.no-leak", "membership.alike")]


def _of(claim: Found) -> str:
    return f" on {claim.where['model']}" if "model" in claim.where else ""


def _delta(counts: Counts, claim: Found) -> float:
    """Return the delta of the judged claim: that of the model, or of the search that it is from."""
    return counts.claims[str(claim.where.get("model", ""))].delta


def _access(counts: Counts, access: str) -> str:
    return HOLDING[access] if counts.inputs.given is None else "these scores"


def _may_not(draft: Draft, counts: Counts, found: Sequence[Found]) -> list[str]:
    lines = []
    ids = {claim.id for claim in found}
    if "membership.shifted" in ids:
        lines.append("That the model leaks: what attacks reach may be the difference between both sides.")
    elif ids & set(UNSOUND):
        lines.append("That the model leaks, or does not: these scores cannot say.")
    for claim in found:
        if claim.id == "membership.no-leak":
            lines += _unseen(draft, counts, claim)
    lines += _verdict_words(counts, found)
    if len({leak.access for leak in counts.leaks}) > 1:
        lines.append("Numbers of one access against those of another: who holds more can do more.")
    lines.append("That the training is private: a better attack may find more.")
    lines.append("Anything on another training run, or on points of another kind.")
    return lines


def _unseen(draft: Draft, counts: Counts, claim: Found) -> list[str]:
    """Return what a leak that is not shown does not exclude."""
    row, leak = draft.row("leakage", **claim.where), _leak_of(counts, claim)
    if row.high is None or leak is None:
        return []
    return [f"That nothing leaks with {held(counts, leak)}: an AUC of {span(row).rpartition(' ')[2][:-1]} still fits."]


def _leak_of(counts: Counts, claim: Found) -> Leak | None:
    return next((leak for leak in counts.leaks if leak.where == claim.where), None)


def _verdict_words(counts: Counts, found: Sequence[Found]) -> list[str]:
    """Return what verdicts do not say: once for all models."""
    verdicts = [claim for claim in found if claim.id == "membership.verdict"]
    if not verdicts:
        return []
    kinds = {claim.where["verdict"] for claim in verdicts}
    lower = [next(row for row in claim.evidence if row.name == "epsilon_lower") for claim in verdicts]
    lines = []
    if VACUOUS in kinds:
        lines.append("That a claim was tested which a perfect attack on so many points could not refute.")
    if "consistent" in kinds:
        lines.append("That a claimed epsilon holds: it was only not contradicted.")
    if any(counts.claims[str(claim.where.get("model", ""))].each is not None for claim in verdicts):
        lines.append("What a single run spends: judged is the claim of the search that chose among the runs.")
    if any(row.where["validity"] != CERTIFIED for row in lower):
        lines.append("A heuristic bound as proof: points of one training run are no independent trials.")
    return lines
