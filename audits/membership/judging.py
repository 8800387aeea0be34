"""What may be said: of the points, of each claim, of what each access tells, and of one model against another?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.membership.bounding import ASSUMES_GDP, CERTIFIED, HEURISTIC, Bounds
from audits.membership.claims import Claim
from audits.membership.leaking import Difference, Leak, detectable
from audits.numbers import percent
from audits.records import Severity
from audits.wording import listed, size_words, span

if TYPE_CHECKING:
    from audits.membership.report import Results

LARGE, NOTABLE = 0.75, 0.6
"""Low ends of a leak's area from which it is told as of high or of medium severity."""
NOTHING = 0.9
"""Low end of the loss on non-members from which a denoiser is said to have learnt next to nothing."""
HOLDING = {"samples": "generated samples", "weights": "the weights", "full": "all that was released"}
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
    for leak in _told(draft, results.leaks, context):
        _tell_leak(draft, leak, len(results.leaks), context, shifted)
    _tell_gaps(draft, results.gaps, results, context)
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


def _told(draft: Draft, leaks: Sequence[Leak], context: Context) -> list[Leak]:
    """Return which leaks make findings: those with a best attack that less access lacks, and the widest unshown one."""
    told: list[Leak] = []
    for model in dict.fromkeys(leak.model for leak in leaks):
        own = [leak for leak in leaks if leak.model == model]
        shown = [leak for leak in own if _is_shown(draft, leak, context)]
        attacks = [leak.judged.attack.name for leak in shown]
        told += [leak for place, leak in enumerate(shown) if leak.judged.attack.name not in attacks[:place]]
        told += [leak for leak in own if leak not in shown][-1:]
    return told


def _is_shown(draft: Draft, leak: Leak, context: Context) -> bool:
    low = draft.estimates[leak.place].low
    return leak.p < 1 - context.level and low is not None and low > 0.5


def _tell_leak(draft: Draft, leak: Leak, cells: int, context: Context, shifted: bool) -> None:
    row, attack = draft.estimates[leak.place], leak.judged.attack
    of = f" of {leak.model}" if leak.model else ""
    given = f"{attack.name} ({attack.setting})" if attack.setting else attack.name
    where: dict[str, str] = {"access": leak.access, "attack": attack.name}
    where |= {"model": leak.model} if leak.model else {}
    if not _is_shown(draft, leak, context):
        least = detectable(leak.area, 1 - (1 - context.level) / cells)
        text = (
            f"With {HOLDING[leak.access]}{of}, no attack was shown to tell members from non-members: the best, "
            f"{given}, has an AUC of {span(row)}. One of {least:.2f} would have been shown in four of five such audits."
        )
        draft.find("membership.no-leak", "info", text, [leak.place], **where)
        return
    evidence, hits = [leak.place], ""
    places = [place for name, place in leak.judged.places.items() if name.startswith("tpr ")]
    if places:
        hit = draft.estimates[places[0]]
        hits = (
            f" The threshold that calls {hit.where['fpr']:.2g} of these non-members finds {span(hit)} of the members."
        )
        evidence.append(places[0])
    low = row.low or 0.0
    grave: Severity = "high" if low >= LARGE else "medium" if low >= NOTABLE else "low"
    doubt = " Part or all of this may be the difference between the two sides of points." if shifted else ""
    reached = f"{given} reaches an AUC of {span(row)}"
    text = f"With {HOLDING[leak.access]}{of}, members are told from non-members: {reached}.{hits}{doubt}"
    draft.find("membership.leak", grave, text, evidence, **where)


def _tell_gaps(draft: Draft, gaps: Sequence[Difference], results: "Results", context: Context) -> None:
    """Say in one finding for each access which model leaks more than which others."""
    for access in dict.fromkeys(gap.first.access for gap in gaps):
        own = [gap for gap in gaps if gap.first.access == access]
        shown = [gap for gap in own if gap.p < 1 - context.level]
        holding = HOLDING[access]
        if not shown:
            widest = max(own, key=lambda gap: abs(draft.estimates[gap.place].value))
            row = draft.estimates[widest.place]
            text = (
                f"With {holding}, no difference in leakage between models could be shown: the largest, of "
                f"{widest.first.model} and {widest.second.model}, is {span(row)} in AUC"
                + (
                    ", which does not hold once all comparisons are counted."
                    if (row.low or 0) * (row.high or 0) > 0
                    else "."
                )
            )
            draft.find("membership.alike", "info", text, [gap.place for gap in own], access=access)
            continue
        more: dict[str, list[str]] = {}
        learnt: dict[str, str] = {}
        evidence: list[int] = []
        for gap in shown:
            row = draft.estimates[gap.place]
            above, below = (gap.first, gap.second) if row.value > 0 else (gap.second, gap.first)
            more.setdefault(above.model, []).append(f"{below.model} (by {size_words(row)})")
            evidence += [gap.place]
            said, places = _learnt_less(draft, results, above.model, below.model)
            if said:
                learnt[below.model] = said
                evidence += [place for place in places if place not in evidence]
        sentences = [f"{name} leaks more than {listed(others)}" for name, others in more.items()]
        rest = " No other difference could be shown." if len(shown) < len(own) else ""
        text = f"With {holding}, {'; '.join(sentences)}, in AUC.{rest}{''.join(learnt.values())}"
        draft.find("membership.more-leakage", "low", text, evidence, access=access)


def _learnt_less(draft: Draft, results: "Results", more: str, less: str) -> tuple[str, list[int]]:
    """Say so where the model that leaks less also does its work worse."""
    places = [results.utilities.get((model, "held_out_loss")) for model in (more, less)]
    if places[0] is None or places[1] is None:
        return "", []
    one, other = draft.estimates[places[0]], draft.estimates[places[1]]
    if one.high is None or other.low is None or one.high >= other.low:
        return "", []
    nothing = other.low >= NOTHING
    text = (
        f" {less} predicts the noise of unseen points worse than {more}: a loss of {span(other)} against {span(one)}"
        + (", hardly better than to answer nothing, which has 1" if nothing and other.value < 1 else "")
        + (", no better than to answer nothing, which has 1" if nothing and other.value >= 1 else "")
        + f". Part of the difference may be that {less} learnt less."
    )
    return text, [places[0], places[1]]
