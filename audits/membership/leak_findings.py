"""Findings on the leak of each model with each access: by its area, by hits at few false alarms, or none."""

from audits.core.context import Draft
from audits.core.numbers import point
from audits.core.records import Estimate, Severity
from audits.core.wording import span
from audits.membership.copying import shown_of
from audits.membership.hit_ratios import LARGE_TIMES, NOTABLE_TIMES, Hit
from audits.membership.leaks import ACCESS, Leak, detectable
from audits.membership.measure import Counts

LARGE, NOTABLE = 0.75, 0.6
"""Low ends of a leak's area from which it is told as of high or of medium severity."""
DOUBT = " Part or all of this may be the difference between the two sides of points."
HOLDING = {"samples": "generated samples", "weights": "the weights", "full": "all that was released"}


def find_leaks(draft: Draft, counts: Counts, doubt: str) -> None:
    """Add findings on leaks: each best attack at the least access it needs, and the widest access without leak."""
    for model in dict.fromkeys(leak.model for leak in counts.leaks):
        shown: dict[tuple[str, str], Leak] = {}
        left: list[Leak] = []
        for leak in counts.leaks:
            if leak.model != model:
                continue
            hit, found = _hit(counts, leak), _is_shown(draft, leak)
            if found or hit is not None:
                key = leak.judged.attack.name if found else "", hit.judged.attack.name if hit is not None else ""
                shown.setdefault(key, leak)
            # Reversed or constant scores are named as such.
            elif not leak.judged.flipped and not (leak.judged.constant and counts.inputs.given is not None):
                left.append(leak)
        for leak in (*shown.values(), *left[-1:]):
            _find_leak(draft, counts, leak, doubt)


def _hit(counts: Counts, leak: Leak) -> Hit | None:
    """Return the attack with this access of the highest lower limit at few false alarms, if one counts."""
    own = [
        hit
        for hit in counts.hits
        if hit.judged.attack.model == leak.model
        and hit.judged.attack.tier in ACCESS[leak.access]
        and not hit.judged.flipped
        and hit.ratio.value >= NOTABLE_TIMES
    ]
    return max(own, key=lambda hit: hit.ratio.value, default=None)


def _is_shown(draft: Draft, leak: Leak) -> bool:
    return leak.p < 1 - draft.level and draft.row("leakage", **leak.where).above(0.5)


def _find_leak(draft: Draft, counts: Counts, leak: Leak, doubt: str) -> None:
    row, attack = draft.row("leakage", **leak.where), leak.judged.attack
    of = f" of {leak.model}" if leak.model else ""
    given = f"{attack.name} ({attack.setting})" if attack.setting else attack.name
    holding = f"With {HOLDING[leak.access]}{of}" if counts.inputs.given is None else "By these scores"
    half = ", on the points that did not choose it," if leak.was_chosen else ""
    best = f"{given}{half or ','}"
    hit, found = _hit(counts, leak), _is_shown(draft, leak)
    if not found and hit is None:
        text = f"{holding}, {_nothing(draft, counts, leak, given, best, row)}"
        draft.find("membership.no-leak", "info", text, [row], **leak.where)
        return
    low = row.low or 0.0
    grave: Severity = "low"
    if found:
        grave = "high" if low >= LARGE else "medium" if low >= NOTABLE else "low"
        text = f"{holding}, members are told from non-members: {given}{half} reaches an AUC of {span(row)}."
    else:
        text = f"{holding}, some members are told from non-members."
    hits, evidence = _hits(draft, leak, hit)
    if hit is not None and (grave == "low" or hit.ratio.value >= LARGE_TIMES):
        grave = "high" if hit.ratio.value >= LARGE_TIMES else "medium"
    average = "" if found else f" On average it is not shown: the best AUC, of {best} is {span(row)}."
    draft.find("membership.leak", grave, f"{text}{hits}{average}{doubt}", [row, *evidence], **leak.where)


def _nothing(draft: Draft, counts: Counts, leak: Leak, given: str, best: str, row: Estimate) -> str:
    """Return the text on an access without a significant leak."""
    if leak.says_nothing:
        return f"nothing can be said of leakage: all scores of {given} are equal."
    copied = shown_of(counts.copying, leak.model, draft.level) is not None
    but = " (points that are copied included)" if copied else ""
    least = detectable(leak.area, 1 - (1 - draft.level) / len(counts.leaks))
    return (
        f"no attack was shown to tell members from non-members{but}: the best, {best} has an "
        f"AUC of {span(row)}. One of {least:.2f} would have been shown in four of five such audits."
    )


def _hits(draft: Draft, leak: Leak, hit: Hit | None) -> tuple[str, list[Estimate]]:
    """Return the text on hits at few false alarms, and its evidence: hits that count, or those of an only attack.

    Of an attack that was chosen, all its hits are of points that had a say in that.
    """
    if hit is not None:
        row, ratio = draft.row("tpr", **hit.where), draft.row("hit_ratio", **hit.where)
        of = "" if hit.judged is leak.judged else f" of {hit.judged.attack.name}"
        text = (
            f" The threshold{of} that {hit.call.alarms:,} of {hit.call.others:,} non-members reach finds {span(row)}"
            f" of the members, {point(ratio)} times as often as non-members at the least."
        )
        return text, [row, ratio]
    if not leak.judged.calls or leak.was_chosen:
        return "", []
    rate, call = next(iter(leak.judged.calls.items()))
    row = draft.row("tpr", **leak.judged.where, fpr=rate)
    text = f" The threshold that {call.alarms:,} of {call.others:,} non-members reach finds {span(row)} of the members."
    return text, [row]
