"""The findings: on the points, useless scores, claims, copies and leaks, and models side by side."""

from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.records import Estimate, Severity
from audits.core.wording import listed, p_words, size_words, span
from audits.membership.conclusion import conclude
from audits.membership.copying import CLEARLY, EXACT, MEMBERS, OTHERS, Copying, shown_of
from audits.membership.leak_findings import DOUBT, HOLDING, find_leaks
from audits.membership.leaks import Difference
from audits.membership.measure import Counts
from audits.membership.records import listed_of
from audits.membership.scoring import model_where
from audits.membership.verdicts import find_verdicts

CLASSIFIERS = {"linear": "a linear classifier", "trees": "a classifier of trees"}
NOTHING = 0.9
"""Low end of the loss on non-members from which a denoiser is said to have learnt next to nothing."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add all findings, warnings of what cannot be judged or listed, and the answer."""
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
        draft.warn("records-shortened", f"The records list the first {most:,} points of each attack.")
    conclude(draft, counts)


def _find_shift(draft: Draft, counts: Counts, shift: Estimate) -> None:
    claims = " No verdict on the claimed epsilon is given." if counts.claims else ""
    kind = CLASSIFIERS.get(str(shift.where["classifier"]), shift.where["classifier"])
    draft.find(
        "membership.shifted",
        "high",
        f"It is {kind}. What an attack reaches here may be the same difference.{claims}",
        [shift],
        headline="Members and non-members differ without any model: a classifier of the points alone reaches AUC "
        f"{span(shift)}.",
        how_sure="The classifier was fitted on other points than it is judged on; classifiers share the error.",
    )
    if counts.claims:
        draft.warn("no-verdict", "Members and non-members are not of one distribution: no claim can be judged.")


def _find_no_scores(draft: Draft, counts: Counts) -> None:
    """Add findings on given scores that point the wrong way, or carry no information.

    What they seem to show is then the reverse; and what passes a gate with equal scores has not been audited.
    """
    rows = [(one, draft.row("auc", **one.where, tier=one.attack.tier)) for one in counts.judged]
    for one, row in rows:
        if one.flipped:
            text = "They are likely the wrong way round (--higher-is); until that is fixed they say nothing of leakage."
            headline = f"Scores of {one.attack.label} are higher for non-members: AUC {span(row)}."
            sure = f"By the interval of the AUC, at {percent(draft.level)}: all of it lies below 0.5."
            draft.find(
                "membership.flipped", "high", text, [row], headline=headline, how_sure=sure, attack=one.attack.name
            )
    if rows and all(one.constant for one, _ in rows):
        names = listed([one.attack.label for one, _ in rows])
        headline = "Nothing can be said of leakage: all given scores are equal."
        text = f"That is so of {names}. Give others."
        draft.find("membership.equal", "high", text, [row for _, row in rows], headline=headline)


def _find_copies(draft: Draft, own: Sequence[Copying], doubt: str) -> None:
    """Add a finding on whether the samples of a model repeat members more often than unseen points."""
    shown = shown_of(own, own[0].model, draft.level)
    one = shown or own[0]
    counts = {side: int(repeats.sum()) for side, repeats in one.samples.items()}
    if not shown and not any(counts.values()):
        return
    samples = [draft.row("copies", side=side, **one.where) for side in (MEMBERS, OTHERS)]
    members, others = (draft.row(f"copied_{side}", **one.where) for side in (MEMBERS, OTHERS))
    owner, how = f" of {one.model}" if one.model else "", "exactly" if one.match == EXACT else "nearly"
    count = counts[MEMBERS]
    text = (
        f"{count:,} of {samples[0].n:,} samples{owner} {'repeats' if count == 1 else 'repeat'} a member {how}, "
        f"{counts[OTHERS]:,} a non-member. Of the non-members {span(others)} are copied."
    )
    clear = (members.low or 0.0) >= CLEARLY * (others.high or 0.0)
    id = "membership.copies-alike"
    severity: Severity = "info"
    if shown:
        headline = f"Samples{owner} repeat {span(members)} of the members {how}, more than of non-members."
        id, severity = "membership.copies", "high" if clear else "medium"
    else:
        whom = f" for {one.model}" if one.model else ""
        headline = f"No more copies of members than of non-members are shown{whom}: {span(members)} of the members."
        doubt = ""
    sure = f"p {p_words(one.p)}: Fisher's exact test, one-sided, Holm over models and both measures of a copy."
    evidence = [members, *samples, others]
    draft.find(id, severity, text + doubt, evidence, headline=headline, how_sure=sure, **one.where)


def _find_gaps(draft: Draft, counts: Counts) -> None:
    """Add a finding for each access on which model leaks more than which others, and one on which learnt less."""
    learnt: dict[str, tuple[str, str, list[Estimate]]] = {}
    for access in dict.fromkeys(gap.first.access for gap in counts.gaps):
        own = [(gap, draft.row("leakage_difference", **gap.where)) for gap in counts.gaps if gap.first.access == access]
        shown = _largest_first([(gap, row) for gap, row in own if gap.p < 1 - draft.level])
        if not shown:
            _find_alike(draft, counts, own, access)
            continue
        for gap, row in shown:
            above, below = _ordered(gap, row)
            words = _learnt_less(draft, above, below)
            if words is not None:
                learnt.setdefault(below, words)
        _find_more(draft, counts, shown, len(own) - len(shown), access)
    if learnt:
        (headline, _, _), *_ = learnt.values()
        text = " ".join(f"{title} {rest}" for title, rest, _ in learnt.values()).removeprefix(headline).strip()
        text += " Part of what leaks less may be that it learnt less."
        rows = {id(row): row for _, _, evidence in learnt.values() for row in evidence}
        sure = "The two intervals lie apart; models that are not named were not shown to differ."
        draft.find("membership.learnt-less", "low", text, list(rows.values()), headline=headline, how_sure=sure)


def _largest_first(pairs: Sequence[tuple[Difference, Estimate]]) -> list[tuple[Difference, Estimate]]:
    """Return differences with the largest before all others, which stay in their order."""
    largest = max(range(len(pairs)), key=lambda at: abs(pairs[at][1].value), default=0)
    return [*pairs[largest : largest + 1], *pairs[:largest], *pairs[largest + 1 :]]


def _ordered(gap: Difference, row: Estimate) -> tuple[str, str]:
    """Return the names of the model that leaks more and of the one that leaks less."""
    pair = gap.first.model, gap.second.model
    return pair if row.value > 0 else (pair[1], pair[0])


def _find_more(
    draft: Draft, counts: Counts, shown: Sequence[tuple[Difference, Estimate]], rest: int, access: str
) -> None:
    """Add the finding on models that leak more than others with an access; the largest difference first."""
    largest, row = shown[0]
    above, below = _ordered(largest, row)
    more: dict[str, list[str]] = {}
    for gap, other in shown[1:]:
        name, than = _ordered(gap, other)
        more.setdefault(name, []).append(f"{than} (by {size_words(other)})")
    text = "AUC of the best attack on each, on the same points."
    text += "".join(f" {name} leaks more than {listed(others)}." for name, others in more.items())
    text += " No other difference could be shown." if rest else ""
    draft.find(
        "membership.more-leakage",
        "low",
        text,
        [row for _, row in shown],
        headline=f"{above} leaks more than {below} with {HOLDING[access]}, by {size_words(row)} in AUC.",
        how_sure=_compared(counts, largest.p),
        access=access,
    )


def _compared(counts: Counts, p: float) -> str:
    family = f", Holm over {len(counts.gaps)} comparisons" if len(counts.gaps) > 1 else ""
    return f"p {p_words(p)}: paired DeLong{family}."


def _find_alike(draft: Draft, counts: Counts, own: Sequence[tuple[Difference, Estimate]], access: str) -> None:
    own = _largest_first(own)
    widest, row = own[0]
    text = f"That is the largest difference, of {widest.first.model} less {widest.second.model}, on the same points."
    if (row.low or 0) * (row.high or 0) > 0:
        text += " It does not hold once all comparisons are counted."
    headline = f"No difference in leakage between models is shown with {HOLDING[access]}: {span(row)} in AUC."
    sure = _compared(counts, widest.p)
    draft.find(
        "membership.alike", "info", text, [row for _, row in own], headline=headline, how_sure=sure, access=access
    )


def _learnt_less(draft: Draft, more: str, less: str) -> tuple[str, str, list[Estimate]] | None:
    """Return headline and words on a model that leaks less but also learnt less, by its loss or else its recall."""
    for measure in ("held_out_loss", "recall"):
        one, other = (draft.get("utility", **model_where(model), measure=measure) for model in (more, less))
        if one is None or other is None or None in (one.low, one.high, other.low, other.high):
            continue
        worse = other.above(one.high or 0.0) if measure == "held_out_loss" else other.below(one.low or 0.0)
        return (*_worse(measure, more, less, one, other), [other, one]) if worse else None
    return None


def _worse(measure: str, more: str, less: str, one: Estimate, other: Estimate) -> tuple[str, str]:
    """Return that a model does its work worse than another, and with what numbers."""
    if measure == "recall":
        return (
            f"Samples of {less} cover less of fresh points than those of {more}: recall {span(other)}.",
            f"{more} has {span(one)}.",
        )
    end = ""
    if (other.low or 0.0) >= NOTHING:
        end = f" {less} does hardly better than to answer nothing, which has 1."
        end = end if other.value < 1 else end.replace("hardly", "no")
    return (
        f"{less} predicts the noise of unseen points worse than {more}: loss {span(other)}.",
        f"{more} has {span(one)}.{end}",
    )
