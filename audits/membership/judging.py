"""What may be said: of the points, of each claim, of what each access tells, and of one model against another?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.membership.leaking import Difference, Leak, detectable, tells_nothing
from audits.membership.verdicts import judge_claims
from audits.records import Estimate, Severity
from audits.wording import listed, size_words, span

if TYPE_CHECKING:
    from audits.membership.report import Results

LARGE, NOTABLE = 0.75, 0.6
"""Low ends of a leak's area from which it is told as of high or of medium severity."""
NOTHING = 0.9
"""Low end of the loss on non-members from which a denoiser is said to have learnt next to nothing."""
HOLDING = {"samples": "generated samples", "weights": "the weights", "full": "all that was released"}


def judge(draft: Draft, results: "Results", context: Context) -> None:
    """Add all findings, the gravest first."""
    blind = results.blind
    shifted = blind is not None and blind.shifted is not None
    if blind is not None and blind.shifted is not None:
        _tell_shift(draft, results, blind.shifted)
    else:
        judge_claims(draft, results, context)
    _tell_flipped(draft, results)
    _tell_equal(draft, results)
    given = results.inputs.given is not None
    for leak in _told(draft, results.leaks, context):
        if given and leak.judged.constant:
            continue
        _tell_leak(draft, leak, results, context, shifted)
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


def _tell_flipped(draft: Draft, results: "Results") -> None:
    """Say of scores that came in that they point the wrong way: what they seem to show is the reverse."""
    for one in results.judged:
        if one.flipped and results.inputs.given is not None:
            place = one.places["auc"]
            text = (
                f"Scores of {one.attack.label} are higher for non-members: an AUC of {span(draft.estimates[place])}. "
                "They are likely the wrong way round (--higher-is); until that is mended they say nothing of leakage."
            )
            draft.find("membership.flipped", "high", text, [place], attack=one.attack.name)


def _tell_equal(draft: Draft, results: "Results") -> None:
    """Say of scores that came in that they are no scores: what passes a gate with them has not been audited."""
    if results.inputs.given is not None and results.judged and all(one.constant for one in results.judged):
        names = listed([one.attack.label for one in results.judged])
        text = f"All scores of {names} are equal: nothing can be said of leakage until others are given."
        draft.find("membership.equal", "high", text, [one.places["auc"] for one in results.judged])


def _told(draft: Draft, leaks: Sequence[Leak], context: Context) -> list[Leak]:
    """Return which leaks make findings: those with a best attack that less access lacks, and the widest unshown one."""
    told: list[Leak] = []
    for model in dict.fromkeys(leak.model for leak in leaks):
        own = [leak for leak in leaks if leak.model == model]
        shown = [leak for leak in own if _is_shown(draft, leak, context)]
        attacks = [leak.judged.attack.name for leak in shown]
        told += [leak for place, leak in enumerate(shown) if leak.judged.attack.name not in attacks[:place]]
        # Scores that came in the wrong way round are told as that.
        told += [leak for leak in own if leak not in shown and not leak.judged.flipped][-1:]
    return told


def _is_shown(draft: Draft, leak: Leak, context: Context) -> bool:
    low = draft.estimates[leak.place].low
    return leak.p < 1 - context.level and low is not None and low > 0.5


def _tell_leak(draft: Draft, leak: Leak, results: "Results", context: Context, shifted: bool) -> None:
    row, attack = draft.estimates[leak.place], leak.judged.attack
    of = f" of {leak.model}" if leak.model else ""
    given = f"{attack.name} ({attack.setting})" if attack.setting else attack.name
    holding = f"With {HOLDING[leak.access]}{of}" if results.inputs.given is None else "By these scores"
    # The area is another object where it was taken on the other half: `leaking` makes a new one.
    half = ", on the points that did not choose it," if leak.area is not leak.judged.area else ""
    where: dict[str, str] = {"access": leak.access, "attack": attack.name}
    where |= {"model": leak.model} if leak.model else {}
    if tells_nothing(leak.area):
        text = f"{holding}, nothing can be said of leakage: all scores of {given} are equal."
        draft.find("membership.no-leak", "info", text, [leak.place], **where)
        return
    if not _is_shown(draft, leak, context):
        text = (
            f"{holding}, no attack was shown to tell members from non-members: the best, {given}"
            f"{half or ','} has an AUC of {span(row)}."
        )
        least = detectable(leak.area, 1 - (1 - context.level) / len(results.leaks))
        text += f" One of {least:.2f} would have been shown in four of five such audits."
        draft.find("membership.no-leak", "info", text, [leak.place], **where)
        return
    evidence, hits = [leak.place], ""
    # Of an attack that was chosen, all its hits are of points that had a say in that.
    if leak.judged.calls and leak.area is leak.judged.area:
        name, met = next(iter(leak.judged.calls.items()))
        hit = draft.estimates[leak.judged.places[name]]
        hits = (
            f" The threshold that {met.alarms:,} of {met.others:,} non-members reach finds {span(hit)} of the members."
        )
        evidence.append(leak.judged.places[name])
    low = row.low or 0.0
    grave: Severity = "high" if low >= LARGE else "medium" if low >= NOTABLE else "low"
    doubt = " Part or all of this may be the difference between the two sides of points." if shifted else ""
    text = f"{holding}, members are told from non-members: {given}{half} reaches an AUC of {span(row)}.{hits}{doubt}"
    draft.find("membership.leak", grave, text, evidence, **where)


def _tell_gaps(draft: Draft, gaps: Sequence[Difference], results: "Results", context: Context) -> None:
    """Say in one finding for each access which model leaks more than which others, and in one which learnt less."""
    learnt: dict[str, tuple[str, list[int]]] = {}
    for access in dict.fromkeys(gap.first.access for gap in gaps):
        own = [gap for gap in gaps if gap.first.access == access]
        shown = [gap for gap in own if gap.p < 1 - context.level]
        if not shown:
            _tell_alike(draft, own, access)
            continue
        more: dict[str, list[str]] = {}
        for gap in shown:
            row = draft.estimates[gap.place]
            above, below = (gap.first, gap.second) if row.value > 0 else (gap.second, gap.first)
            more.setdefault(above.model, []).append(f"{below.model} (by {size_words(row)})")
            said = _learnt_less(draft, results, above.model, below.model)
            if said[0]:
                learnt.setdefault(below.model, said)
        sentences = [f"{name} leaks more than {listed(others)}" for name, others in more.items()]
        rest = " No other difference could be shown." if len(shown) < len(own) else ""
        text = f"With {HOLDING[access]}, {'; '.join(sentences)}, in AUC.{rest}"
        draft.find("membership.more-leakage", "low", text, [gap.place for gap in shown], access=access)
    if learnt:
        evidence = list(dict.fromkeys(place for _, places in learnt.values() for place in places))
        text = (
            f"{' '.join(said for said, _ in learnt.values())} Part of what they leak less may be that they learnt less."
        )
        draft.find("membership.learnt-less", "low", text, evidence)


def _tell_alike(draft: Draft, gaps: Sequence[Difference], access: str) -> None:
    widest = max(gaps, key=lambda gap: abs(draft.estimates[gap.place].value))
    row = draft.estimates[widest.place]
    counted = ", which does not hold once all comparisons are counted" if (row.low or 0) * (row.high or 0) > 0 else ""
    text = (
        f"With {HOLDING[access]}, no difference in leakage between models could be shown: the largest, of "
        f"{widest.first.model} and {widest.second.model}, is {span(row)} in AUC{counted}."
    )
    draft.find("membership.alike", "info", text, [gap.place for gap in gaps], access=access)


def _learnt_less(draft: Draft, results: "Results", more: str, less: str) -> tuple[str, list[int]]:
    """Say so where the model that leaks less also does its work worse: by its loss, or else by what it covers."""
    for measure, sign in (("held_out_loss", 1), ("recall", -1)):
        places = [results.utilities.get((model, measure)) for model in (more, less)]
        if places[0] is None or places[1] is None:
            continue
        one, other = draft.estimates[places[0]], draft.estimates[places[1]]
        if one.high is None or one.low is None or other.low is None or other.high is None:
            continue
        if (one.high < other.low) if sign > 0 else (other.high < one.low):
            return _worse(measure, more, less, one, other), [places[0], places[1]]
        return "", []
    return "", []


def _worse(measure: str, more: str, less: str, one: Estimate, other: Estimate) -> str:
    if measure == "recall":
        return f"Samples of {less} cover less of fresh points than those of {more}: {span(other)} against {span(one)}."
    end = ""
    if (other.low or 0.0) >= NOTHING:
        end = ", no better than to answer nothing, which has 1" if other.value >= 1 else ", hardly better than nothing"
    return (
        f"{less} predicts the noise of unseen points worse than {more}: a loss of {span(other)} against "
        f"{span(one)}{end}."
    )
