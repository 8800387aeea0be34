"""The findings: on the points, useless scores, claims, copies and leaks, and models side by side."""

from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.records import Estimate
from audits.core.wording import listed, size_words, span
from audits.membership.copying import CLEARLY, EXACT, MEMBERS, OTHERS, Copying, shown_of
from audits.membership.leak_findings import DOUBT, HOLDING, find_leaks
from audits.membership.leaks import Difference
from audits.membership.measure import Counts
from audits.membership.records import listed_of
from audits.membership.scoring import model_where
from audits.membership.verdicts import find_verdicts

NOTHING = 0.9
"""Low end of the loss on non-members from which a denoiser is said to have learnt next to nothing."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add all findings, and warnings of what cannot be judged or listed."""
    shift = max((row for row in draft.select("blind_auc") if row.above(0.5)), key=lambda row: row.value, default=None)
    doubt = "" if shift is None else DOUBT
    if shift is not None:
        _find_shift(draft, counts, shift)
    else:
        find_verdicts(draft, counts)
    if counts.inputs.given is not None:
        _find_no_scores(draft, counts)
    for model in dict.fromkeys(one.model for one in counts.copying):
        _find_copies(draft, [one for one in counts.copying if one.model == model], doubt)
    find_leaks(draft, counts, doubt)
    _find_gaps(draft, counts)
    most = listed_of(counts)
    if most < len(counts.pool):
        draft.warn("records-shortened", f"records.csv lists the first {most:,} points of each attack.")


def _find_shift(draft: Draft, counts: Counts, shift: Estimate) -> None:
    claims = " No verdict on the claimed epsilon is given." if counts.claims else ""
    text = (
        f"Members and non-members can be told apart without the model: {shift.where['classifier']} on the points alone "
        f"reaches an AUC of {span(shift)}. What an attack reaches here may be the same difference.{claims}"
    )
    draft.find("membership.shifted", "high", text, [shift])
    if counts.claims:
        draft.warn("no-verdict", "Members and non-members are not of one distribution: no claim can be judged.")


def _find_no_scores(draft: Draft, counts: Counts) -> None:
    """Add findings on given scores that point the wrong way, or carry no information.

    What they seem to show is then the reverse; and what passes a gate with equal scores has not been audited.
    """
    rows = [(one, draft.row("auc", **one.where, tier=one.attack.tier)) for one in counts.judged]
    for one, row in rows:
        if one.flipped:
            text = (
                f"Scores of {one.attack.label} are higher for non-members: an AUC of {span(row)}. "
                "They are likely the wrong way round (--higher-is); until that is mended they say nothing of leakage."
            )
            draft.find("membership.flipped", "high", text, [row], attack=one.attack.name)
    if rows and all(one.constant for one, _ in rows):
        names = listed([one.attack.label for one, _ in rows])
        text = f"All scores of {names} are equal: nothing can be said of leakage until others are given."
        draft.find("membership.equal", "high", text, [row for _, row in rows])


def _find_copies(draft: Draft, own: Sequence[Copying], doubt: str) -> None:
    """Add a finding on whether the samples of a model repeat members more often than unseen points."""
    shown = shown_of(own, own[0].model, draft.level)
    one = shown or own[0]
    counts = {side: int(repeats.sum()) for side, repeats in one.samples.items()}
    if not shown and not any(counts.values()):
        return
    samples = [draft.row("copies", side=side, **one.where) for side in (MEMBERS, OTHERS)]
    members, others = (draft.row(f"copied_{side}", **one.where) for side in (MEMBERS, OTHERS))
    of = f" of {one.model}" if one.model else ""
    count = counts[MEMBERS]
    text = (
        f"{count:,} of {samples[0].n:,} samples{of} {'repeats' if count == 1 else 'repeat'} a member "
        f"{'exactly' if one.match == EXACT else 'nearly'}, {counts[OTHERS]:,} a non-member: {span(members)} of the "
        f"members are copied, and {span(others)} of the non-members."
    )
    evidence = [*samples, members, others]
    if not shown:
        text += " That members are copied more often was not shown."
        draft.find("membership.copies-alike", "info", text, evidence, **one.where)
        return
    clear = (members.low or 0.0) >= CLEARLY * (others.high or 0.0)
    draft.find("membership.copies", "high" if clear else "medium", text + doubt, evidence, **one.where)


def _find_gaps(draft: Draft, counts: Counts) -> None:
    """Add a finding for each access on which model leaks more than which others, and one on which learnt less."""
    learnt: dict[str, tuple[str, list[Estimate]]] = {}
    for access in dict.fromkeys(gap.first.access for gap in counts.gaps):
        own = [(gap, draft.row("leakage_difference", **gap.where)) for gap in counts.gaps if gap.first.access == access]
        shown = [(gap, row) for gap, row in own if gap.p < 1 - draft.level]
        if not shown:
            _find_alike(draft, own, access)
            continue
        more: dict[str, list[str]] = {}
        for gap, row in shown:
            above, below = (gap.first, gap.second) if row.value > 0 else (gap.second, gap.first)
            more.setdefault(above.model, []).append(f"{below.model} (by {size_words(row)})")
            text, evidence = _learnt_less(draft, above.model, below.model)
            if text:
                learnt.setdefault(below.model, (text, evidence))
        sentences = [f"{name} leaks more than {listed(others)}" for name, others in more.items()]
        rest = " No other difference could be shown." if len(shown) < len(own) else ""
        text = f"With {HOLDING[access]}, {'; '.join(sentences)}, in AUC.{rest}"
        draft.find("membership.more-leakage", "low", text, [row for _, row in shown], access=access)
    if learnt:
        text = (
            f"{' '.join(text for text, _ in learnt.values())} Part of what they leak less may be that they learnt less."
        )
        rows = {id(row): row for _, evidence in learnt.values() for row in evidence}
        draft.find("membership.learnt-less", "low", text, list(rows.values()))


def _find_alike(draft: Draft, own: Sequence[tuple[Difference, Estimate]], access: str) -> None:
    widest, row = max(own, key=lambda pair: abs(pair[1].value))
    counted = ", which does not hold once all comparisons are counted" if (row.low or 0) * (row.high or 0) > 0 else ""
    text = (
        f"With {HOLDING[access]}, no difference in leakage between models could be shown: the largest, of "
        f"{widest.first.model} and {widest.second.model}, is {span(row)} in AUC{counted}."
    )
    draft.find("membership.alike", "info", text, [row for _, row in own], access=access)


def _learnt_less(draft: Draft, more: str, less: str) -> tuple[str, list[Estimate]]:
    """Return words on a model that leaks less but also learnt less, by its loss or else its recall."""
    for measure in ("held_out_loss", "recall"):
        one, other = (draft.get("utility", **model_where(model), measure=measure) for model in (more, less))
        if one is None or other is None or None in (one.low, one.high, other.low, other.high):
            continue
        worse = other.above(one.high or 0.0) if measure == "held_out_loss" else other.below(one.low or 0.0)
        return (_worse(measure, more, less, one, other), [one, other]) if worse else ("", [])
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
