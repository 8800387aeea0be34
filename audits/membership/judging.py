"""What may be said: of the points, of each claim, of what each access tells, and of one model against another?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.membership.bounding import ASSUMES_GDP, CERTIFIED, HEURISTIC, Bounds
from audits.membership.claims import Claim
from audits.membership.leaking import Gap, Leak, detectable
from audits.numbers import percent
from audits.records import Severity
from audits.wording import size_words, span

if TYPE_CHECKING:
    from audits.membership.report import Results

LARGE, NOTABLE = 0.75, 0.6
"""Low ends of a leak's area from which it is told as of high or of medium severity."""
HOLDING = {"samples": "generated samples alone", "weights": "the model's weights", "full": "all that was released"}
WORDS = {
    CERTIFIED: "This holds as certified.",
    HEURISTIC: "This is heuristic: points of one training run are no independent trials.",
    ASSUMES_GDP: "This holds the trade-off curve to be Gaussian.",
}


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one attack's leading bound says of a claim."""

    bounds: Bounds
    verdict: str
    severity: Severity
    statement: str


def judge(draft: Draft, results: "Results", context: Context) -> None:
    """Add all findings, the gravest first."""
    blind = results.blind
    shifted = blind is not None and blind.shifted is not None
    if blind is not None and blind.shifted is not None:
        _tell_shift(draft, results, blind.shifted)
    else:
        for verdict in _verdicts(draft, results, context):
            attack = verdict.bounds.judged.attack
            leading = verdict.bounds.leading
            evidence = [leading.place, leading.ceiling_place, results.claims_at[attack.where.get("model", "")]]
            where = {"attack": attack.name, **attack.where, "verdict": verdict.verdict}
            draft.find("membership.verdict", verdict.severity, verdict.statement, evidence, **where)
    for leak in results.leaks:
        _tell_leak(draft, leak, context, shifted)
    for gap in results.gaps:
        _tell_gap(draft, gap, results, context)
    order = {"high": 0, "medium": 1, "low": 2, "info": 3}
    draft.findings.sort(key=lambda finding: order[finding.severity])


def _tell_shift(draft: Draft, results: "Results", place: int) -> None:
    row = draft.estimates[place]
    claims = " No verdict on the claimed epsilon is given." if results.claims else ""
    text = (
        f"Members and non-members can be told apart without the model: {row.where['classifier']} on the points alone "
        f"reaches an AUC of {span(row)}. What an attack reaches here may be the same difference.{claims}"
    )
    draft.find("membership.shifted", "high", text, [place])
    if results.claims:
        draft.warn("no-verdict", "Members and non-members are not of one distribution: no claim can be judged.")


def _verdicts(draft: Draft, results: "Results", context: Context) -> Sequence[_Verdict]:
    """Return the verdicts on each claim: every violation; or else that of the attack which proves most."""
    found: list[_Verdict] = []
    for model, claim in results.claims.items():
        own = [one for one in results.bounds if one.judged.attack.where.get("model", "") == model]
        own.sort(key=lambda one: -one.leading.epsilon)
        made = [_verdict(draft, results, one, claim, context) for one in own]
        broken = [one for one in made if one.verdict == "violation"]
        found += broken or made[:1]
    return found


def _verdict(draft: Draft, results: "Results", bounds: Bounds, claim: Claim, context: Context) -> _Verdict:
    claimed, delta = claim.epsilon, claim.delta
    leading = bounds.leading
    row = draft.estimates[leading.place]
    rivals = sum(one.judged.attack.where == bounds.judged.attack.where for one in results.bounds)
    label = bounds.judged.attack.label
    if rivals > 1:
        label += f" (of {rivals} attacks, which share the error)"
    least = f"epsilon is at least {leading.epsilon:.3g} ({percent(context.level)}, delta {delta:g})"
    size = f"{row.n:,} points"
    if leading.epsilon > claimed:
        grave: Severity = "high" if leading.validity == CERTIFIED else "medium"
        text = f"{label}: {least}, above the claimed {claimed:.4g}. {WORDS[leading.validity]}"
        return _Verdict(bounds, "violation", grave, text)
    if leading.ceiling < claimed:
        text = (
            f"{label}: this audit could not have refuted the claim: with {size} a perfect attack proves an epsilon of "
            f"{leading.ceiling:.3g}, and {claimed:.4g} is claimed. It proves {leading.epsilon:.3g}."
        )
        return _Verdict(bounds, "vacuous", "low", text)
    text = (
        f"{label}: {least}, which does not contradict the claimed {claimed:.4g}; with {size} a perfect attack would "
        f"have proved {leading.ceiling:.3g}. {WORDS[leading.validity]}"
    )
    return _Verdict(bounds, "consistent", "info", text)


def _tell_leak(draft: Draft, leak: Leak, context: Context, shifted: bool) -> None:
    row = draft.estimates[leak.place]
    attack = leak.judged.attack
    of = f" of {leak.model}" if leak.model else ""
    given = attack.name if not leak.judged.attack.setting else f"{attack.name} ({attack.setting})"
    where: Mapping[str, str] = {"access": leak.access, "attack": attack.name} | (
        {"model": leak.model} if leak.model else {}
    )
    alpha = 1 - context.level
    if leak.p < alpha and row.low is not None and row.low > 0.5:
        grave: Severity = "high" if row.low >= LARGE else "medium" if row.low >= NOTABLE else "low"
        evidence, hits = [leak.place], ""
        for name, place in leak.judged.places.items():
            if name.startswith("tpr ") and not hits:
                hit = draft.estimates[place]
                hits = f" At a false-alarm rate of {hit.where['fpr']:g} it finds {span(hit)} of the members."
                evidence.append(place)
        holding = HOLDING[leak.access]
        doubt = " Part or all of this may be the difference between the two sides of points." if shifted else ""
        reached = f"{given} reaches an AUC of {span(row)}"
        text = f"With {holding}{of}, members are told from non-members: {reached}.{hits}{doubt}"
        draft.find("membership.leak", grave, text, evidence, **where)
        return
    least = detectable(leak.area, context.level)
    text = (
        f"With {HOLDING[leak.access]}{of}, no attack was shown to tell members from non-members: the best, {given}, "
        f"has an AUC of {span(row)}. One of {least:.2f} would have been shown in four of five such audits."
    )
    draft.find("membership.no-leak", "info", text, [leak.place], **where)


def _tell_gap(draft: Draft, gap: Gap, results: "Results", context: Context) -> None:
    row = draft.estimates[gap.place]
    evidence = [gap.place, gap.first.place, gap.second.place]
    where = {"access": gap.first.access, "model": gap.first.model, "against": gap.second.model}
    holding = HOLDING[gap.first.access]
    if gap.p >= 1 - context.level:
        text = (
            f"With {holding}, no difference in leakage between {gap.first.model} and {gap.second.model} could be shown "
            f"(AUC {span(row)})."
        )
        draft.find("membership.alike", "info", text, evidence, **where)
        return
    more, less = (gap.first, gap.second) if row.value > 0 else (gap.second, gap.first)
    text = f"With {holding}, {more.model} leaks more than {less.model}: its AUC is higher by {size_words(row)}."
    losses = [results.utilities.get((one.model, "held_out_loss")) for one in (more, less)]
    if losses[0] is not None and losses[1] is not None:
        one, other = draft.estimates[losses[0]], draft.estimates[losses[1]]
        evidence += losses  # type: ignore[arg-type]
        if one.high is not None and other.low is not None and one.high < other.low:
            text += (
                f" It also does its work better: its loss on non-members is {span(one)}, that of {less.model} "
                f"{span(other)}. Part of the difference may be that {less.model} learnt less."
            )
    draft.find("membership.more-leakage", "low", text, evidence, **where)
