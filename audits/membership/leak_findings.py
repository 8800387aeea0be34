"""Findings on the leak of each model with each access: by its area, by hits at few false alarms, or none."""

from audits.core.context import Draft
from audits.core.numbers import bounded, point
from audits.core.records import Estimate, Severity
from audits.core.wording import p_words, span
from audits.membership.copying import shown_of
from audits.membership.hit_ratios import LARGE_TIMES, NOTABLE_TIMES, Hit
from audits.membership.leaks import ACCESS, Leak, detectable
from audits.membership.measure import Counts

LARGE, NOTABLE = 0.75, 0.6
"""Low ends of a leak's area from which its severity is high, and medium."""
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
            hit, found = _hit(counts, leak), is_shown(draft, leak)
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


def is_shown(draft: Draft, leak: Leak) -> bool:
    """Tell whether the area of a leak is above chance by its test after correction, and by its interval."""
    return leak.p < 1 - draft.level and draft.row("leakage", **leak.where).above(0.5)


def _find_leak(draft: Draft, counts: Counts, leak: Leak, doubt: str) -> None:
    row, hit = draft.row("leakage", **leak.where), _hit(counts, leak)
    found = is_shown(draft, leak)
    if not found and hit is None:
        _find_no_leak(draft, counts, leak, row)
        return
    who = f"An attacker with {held(counts, leak)}"
    low = row.low or 0.0
    grave: Severity = "low"
    if found:
        grave = "high" if low >= LARGE else "medium" if low >= NOTABLE else "low"
    by_hits = hit is not None and (grave == "low" or hit.ratio.value >= LARGE_TIMES)
    if hit is not None and by_hits:
        grave = "high" if hit.ratio.value >= LARGE_TIMES else "medium"
    hits, evidence = _hits(draft, leak, hit)
    best = _best(leak)
    if not found:
        headline = f"{who} identifies some training points: {span(evidence[0])} found at few false alarms."
        text = f"On average it is not shown: the best AUC, of {best}, is {span(row)}."
        evidence.append(row)
    else:
        text, evidence = f"{_rank(counts)} is {best}.", [row, *evidence]
        if by_hits:
            headline = f"{who} can identify training points, some with few false alarms: AUC {span(row)}."
        elif grave == "low":
            headline = f"{who} tells training points from others better than chance: AUC {span(row)}."
        else:
            where = " on held-out points" if _held_out(leak) else ""
            headline = f"{who} can identify training points: attack {leak.judged.attack.name}, AUC {span(row)}{where}."
    draft.find(
        "membership.leak",
        grave,
        f"{text}{hits}{doubt}",
        evidence,
        headline=headline,
        how_sure=_how_sure(counts, leak, hit if by_hits else None),
        **leak.where,
    )


def held(counts: Counts, leak: Leak) -> str:
    """Return what the attacker holds, in few words."""
    if counts.inputs.given is not None:
        return "these scores"
    released = {"samples": "samples", "weights": "weights", "full": "full release"}[leak.access]
    if leak.model:
        return f"{leak.model}'s {released}"
    return f"generated {released}" if leak.access == "samples" else f"the {released}"


def _rank(counts: Counts) -> str:
    return "The best attack" if len(counts.judged) > 1 else "The attack"


def _held_out(leak: Leak) -> bool:
    """Tell whether the area is of points that chose neither the attack nor its setting."""
    return leak.was_chosen or not bool(leak.judged.attack.judged.all())


def _best(leak: Leak) -> str:
    attack = leak.judged.attack
    given = f"{attack.name} ({attack.setting})" if attack.setting else attack.name
    return given + (", judged on the points that did not choose it" if leak.was_chosen else "")


def _how_sure(counts: Counts, leak: Leak, hit: Hit | None) -> str:
    """Return the tests behind a leak: by its area, or by hits whose ratio to false alarms counts."""
    family = f", Holm over {len(counts.leaks)} models and accesses" if len(counts.leaks) > 1 else ""
    text = f"p {p_words(leak.p)}: rank test of Mann and Whitney, one-sided{family}."
    if hit is not None:
        shared = f", error shared by {len(counts.judged)} attacks" if len(counts.judged) > 1 else ""
        text += f" Hits over false alarms: one-sided Clopper-Pearson{shared}."
    return text


def _find_no_leak(draft: Draft, counts: Counts, leak: Leak, row: Estimate) -> None:
    """Add the finding on an access without a significant leak, and on the area that would have been one."""
    attack = leak.judged.attack
    if leak.says_nothing:
        headline = f"Nothing can be said of leakage: all scores of {attack.name} are equal."
        text, sure = f"The attacker holds {held(counts, leak)}.", ""
    else:
        least = detectable(leak.area, 1 - (1 - draft.level) / len(counts.leaks))
        headline = f"No attack with {held(counts, leak)} is shown to identify training points: AUC {span(row)}."
        text = f"{_rank(counts)} is {_best(leak)}."
        if shown_of(counts.copying, leak.model, draft.level) is not None:
            text += " Points that are copied are included."
        text += f" An AUC of {bounded(least, 2, up=True)} would have been shown in four of five such audits."
        sure = _how_sure(counts, leak, None)
    draft.find("membership.no-leak", "info", text, [row], headline=headline, how_sure=sure, **leak.where)


def _hits(draft: Draft, leak: Leak, hit: Hit | None) -> tuple[str, list[Estimate]]:
    """Return the text on hits at few false alarms, and its evidence: hits that count, or those of an only attack.

    Of an attack that was chosen, all its hits are of points that had a say in that.
    """
    if hit is not None:
        row, ratio = draft.row("tpr", **hit.where), draft.row("hit_ratio", **hit.where)
        of = "" if hit.judged is leak.judged else f" of {hit.judged.attack.name}"
        text = (
            f" The threshold{of} that {hit.call.alarms:,} of {hit.call.others:,} non-members reach finds {span(row)}"
            f" of the members, at least {point(ratio)} times as often as non-members."
        )
        return text, [row, ratio]
    if not leak.judged.calls or leak.was_chosen:
        return "", []
    rate, call = next(iter(leak.judged.calls.items()))
    row = draft.row("tpr", **leak.judged.where, fpr=rate)
    text = f" The threshold that {call.alarms:,} of {call.others:,} non-members reach finds {span(row)} of the members."
    return text, [row]
