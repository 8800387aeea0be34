"""What may be said: of the points, of each claim, of what each access tells, and of one model against another?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.membership.copying import CLEARLY, EXACT, MEMBERS, OTHERS, told_of
from audits.membership.hitting import LARGE_TIMES, NOTABLE_TIMES, Hit
from audits.membership.leaking import ACCESS, Difference, Leak, detectable, tells_nothing
from audits.membership.verdicts import judge_claims
from audits.numbers import point
from audits.records import Estimate, Severity
from audits.wording import listed, size_words, span

if TYPE_CHECKING:
    from audits.membership.report import Results

LARGE, NOTABLE = 0.75, 0.6
"""Low ends of a leak's area from which it is told as of high or of medium severity."""
NOTHING = 0.9
"""Low end of the loss on non-members from which a denoiser is said to have learnt next to nothing."""
DOUBT = " Part or all of this may be the difference between the two sides of points."
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
    _tell_copies(draft, results, context, shifted)
    for leak in _told(draft, results, context):
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


def _tell_copies(draft: Draft, results: "Results", context: Context, shifted: bool) -> None:
    """Say of each model whether its samples repeat members, and more of them than of points it never saw."""
    for model in dict.fromkeys(one.model for one in results.copies):
        own = [one for one in results.copies if one.model == model]
        shown = told_of(own, model, context.level)
        one = shown or own[0]
        if not shown and not any(one.samples.values()):
            continue
        rows = {side: draft.estimates[place] for side, place in one.points_at.items()}
        samples = draft.estimates[one.samples_at[MEMBERS]].n
        kind = "exactly" if one.match == EXACT else "nearly"
        of = f" of {model}" if model else ""
        count = one.samples[MEMBERS]
        text = f"{count:,} of {samples:,} samples{of} {'repeats' if count == 1 else 'repeat'} a member {kind}, "
        text += f"{one.samples[OTHERS]:,} a non-member: {span(rows[MEMBERS])} of the members are copied, and "
        text += f"{span(rows[OTHERS])} of the non-members."
        evidence = [*one.samples_at.values(), *one.points_at.values()]
        where = {"match": one.match} | ({"model": model} if model else {})
        if not shown:
            text += " That members are copied more often was not shown."
            draft.find("membership.copies-alike", "info", text, evidence, **where)
            continue
        clear = (rows[MEMBERS].low or 0.0) >= CLEARLY * (rows[OTHERS].high or 0.0)
        doubt = DOUBT if shifted else ""
        draft.find("membership.copies", "high" if clear else "medium", text + doubt, evidence, **where)


def _hit(results: "Results", leak: Leak) -> Hit | None:
    """Return the attack with this access that finds members most surely where it is hardly ever wrong, if one does."""
    own = [
        hit
        for hit in results.hits
        if hit.judged.attack.where.get("model", "") == leak.model
        and hit.judged.attack.tier in ACCESS[leak.access]
        and not hit.judged.flipped
        and hit.times >= NOTABLE_TIMES
    ]
    return max(own, key=lambda hit: hit.times, default=None)


def _told(draft: Draft, results: "Results", context: Context) -> list[Leak]:
    """Return which leaks make findings: those with a best attack that less access lacks, and the widest unshown one."""
    told: list[Leak] = []
    for model in dict.fromkeys(leak.model for leak in results.leaks):
        own = [leak for leak in results.leaks if leak.model == model]
        shown: dict[tuple[str, str], Leak] = {}
        left: list[Leak] = []
        for leak in own:
            hit, found = _hit(results, leak), _is_shown(draft, leak, context)
            if found or hit is not None:
                key = leak.judged.attack.name if found else "", hit.judged.attack.name if hit is not None else ""
                shown.setdefault(key, leak)
            # Scores that came in the wrong way round, or all equal, are told as that.
            elif not leak.judged.flipped and not (leak.judged.constant and results.inputs.given is not None):
                left.append(leak)
        told += [*shown.values(), *left[-1:]]
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
    hit, found = _hit(results, leak), _is_shown(draft, leak, context)
    if not found and hit is None:
        text = f"{holding}, {_nothing(leak, given, half, row, results, context)}"
        draft.find("membership.no-leak", "info", text, [leak.place], **where)
        return
    low = row.low or 0.0
    grave: Severity = "low"
    if found:
        grave = "high" if low >= LARGE else "medium" if low >= NOTABLE else "low"
        text = f"{holding}, members are told from non-members: {given}{half} reaches an AUC of {span(row)}."
    else:
        text = f"{holding}, some members are told from non-members."
    said, evidence = _hits(draft, leak, hit, context)
    if hit is not None and (grave == "low" or hit.times >= LARGE_TIMES):
        grave = "high" if hit.times >= LARGE_TIMES else "medium"
    average = "" if found else f" On average it is not shown: the best AUC, of {given}{half or ','} is {span(row)}."
    doubt = DOUBT if shifted else ""
    draft.find("membership.leak", grave, f"{text}{said}{average}{doubt}", [leak.place, *evidence], **where)


def _nothing(leak: Leak, given: str, half: str, row: Estimate, results: "Results", context: Context) -> str:
    """Return what is said of an access with which no leak was shown."""
    if tells_nothing(leak.area):
        return f"nothing can be said of leakage: all scores of {given} are equal."
    copied = told_of(results.copies, leak.model, context.level) is not None
    but = " (points that are copied included)" if copied else ""
    least = detectable(leak.area, 1 - (1 - context.level) / len(results.leaks))
    return (
        f"no attack was shown to tell members from non-members{but}: the best, {given}{half or ','} has an "
        f"AUC of {span(row)}. One of {least:.2f} would have been shown in four of five such audits."
    )


def _hits(draft: Draft, leak: Leak, hit: Hit | None, context: Context) -> tuple[str, list[int]]:
    """Return what is said of hits at few false alarms, and where they stand: those that count, or an only attack's."""
    if hit is not None:
        row, ratio = draft.estimates[hit.tpr_at], draft.estimates[hit.place]
        whose = "" if hit.judged is leak.judged else f" of {hit.judged.attack.name}"
        text = (
            f" The threshold{whose} that {hit.call.alarms:,} of {hit.call.others:,} non-members reach finds {span(row)}"
            f" of the members, {point(ratio)} times as often as non-members at the least."
        )
        return text, [hit.tpr_at, hit.place]
    # Of an attack that was chosen, all its hits are of points that had a say in that.
    if leak.judged.calls and leak.area is leak.judged.area:
        name, met = next(iter(leak.judged.calls.items()))
        row = draft.estimates[leak.judged.places[name]]
        text = (
            f" The threshold that {met.alarms:,} of {met.others:,} non-members reach finds {span(row)} of the members."
        )
        return text, [leak.judged.places[name]]
    return "", []


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
