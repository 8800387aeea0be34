"""Findings on gaps that are shown.

The severity of a gap is low at most where it is explained by what else differs. A gap is called one only if the lower
end of its interval is above zero and the declared test rejects after Holm's correction over all systems and attributes.
"""

from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import counted, point
from audits.core.records import Estimate
from audits.core.wording import capitalised, fitting, listed, many, p_words, span
from audits.group_rates import METRIC_WORDS
from audits.group_rates.findings import how_tested, severity_of
from audits.group_rates.wording import compared, levels_of
from audits.speaker_groups.adjusting import HALF, Rung
from audits.speaker_groups.gaps import OTHERS
from audits.speaker_groups.hypotheses import Verdict
from audits.speaker_groups.measure import Counts
from audits.speaker_groups.wording import all_tests, gap_words, left_words, ratio_rows, who

NOTHING_HELD = "No other attribute or control is in the model to hold fixed."


def find_gap(draft: Draft, counts: Counts, verdict: Verdict) -> None:
    """Add the finding on a shown gap: its size, and what is left of it after adjusting."""
    gap, p = verdict.row(draft), verdict.p_row(draft)
    conditional = counts.options.hypothesis == "conditional"
    rung = None if conditional else _rung_of(counts.rungs, verdict)
    spurious = rung is not None and rung.spurious
    evidence: list[Estimate] = []
    if conditional:
        text, sure = _adjusted_words(counts, verdict)
    else:
        text, sure, evidence = _plain_words(draft, counts, verdict, gap)
        before_after = ratio_rows(draft, counts, rung) if rung else ()
        evidence += before_after
        text += " " + (
            _ladder_words(rung, *before_after)
            if rung
            else "It could not be adjusted for anything else (see the warnings)."
        )
        sure += f" Once adjusted, {left_words(rung.share)}." if rung and rung.held and rung.share else ""
    text += _not_held(counts, verdict)
    sure += _cautions(counts, verdict)
    low = min(abs(gap.low or 0.0), abs(gap.high or 0.0))
    draft.find(
        "groups.spurious" if spurious else "groups.gap",
        "low" if spurious else severity_of(low),
        text,
        [gap, p, *evidence],
        headline=_goes_with(counts, verdict, gap, rung) if rung and spurious else gap_headline(counts, verdict, gap),
        how_sure=sure,
        **counts.where(verdict.system, by=verdict.by, group=verdict.group),
    )


def gap_headline(counts: Counts, verdict: Verdict, gap: Estimate) -> str:
    """Return the answer of a shown gap: who errs more often on whom, and by how much."""
    more = "more" if gap.value > 0 else "fewer"
    fixed = ", all else held fixed" if counts.options.hypothesis == "conditional" else ""
    pair = compared(verdict.group, verdict.against, counts.data.unit)
    rest = f"makes {more} errors {pair}{fixed}: by {gap_words(gap)}."
    # A name may be too long for a headline; of several systems the finding's coordinates have it.
    nameless = "One system" if len(counts.data.systems) > 1 else "The system"
    return fitting(f"{who(counts.data, verdict.system)} {rest}", f"{nameless} {rest}")


def _goes_with(counts: Counts, verdict: Verdict, gap: Estimate, rung: Rung) -> str:
    which = f"{counts.data.systems[verdict.system]}'s" if len(counts.data.systems) > 1 else "the"
    return f"Most of {which} gap by {verdict.by}, {gap_words(gap)}, goes with {listed(rung.explained_by)}."


def _adjusted_words(counts: Counts, verdict: Verdict) -> tuple[str, str]:
    """Return the sentences on a gap of the adjusted model, and how sure it is."""
    term = counts.adjustments[verdict.system].term(verdict.by)
    held = term.held_words if term else ()
    metric = METRIC_WORDS[counts.tested.metric]
    text = f"The gap is one in {metric}" + (f", with {listed(held)} held fixed." if held else f". {NOTHING_HELD}")
    return (
        text,
        f"p {p_words(verdict.p)}: Wald test, Holm over {all_tests(counts)}.",
    )


def _plain_words(draft: Draft, counts: Counts, verdict: Verdict, gap: Estimate) -> tuple[str, str, list[Estimate]]:
    """Return the sentences on an unadjusted gap, how sure it is, and further evidence: rates and noise floor."""
    system, others = verdict.system, verdict.against == OTHERS
    named = [verdict.group] if others else [verdict.group, verdict.against]
    rates = [draft.row("rate", **counts.where(system, group=name)) for name in named]
    by_chance = draft.row("noise_floor", **counts.where(system, by=verdict.by))
    metric = METRIC_WORDS[counts.tested.metric]
    each = [
        f"{point(rate)} for {levels_of(name)} ({counted(rate.n, rate.unit)})"
        for name, rate in zip(named, rates, strict=True)
    ]
    text = f"{capitalised(metric)} {', '.join(each)}."
    sure = f"p {p_words(verdict.p)}: {how_tested(counts.data.unit)} over {all_tests(counts)}."
    sure += f" Shuffled labels alone make a gap of {point(by_chance)}." if gap.name == "gap" else ""
    sure += _per_speaker(draft, counts, system, named)
    return text, sure, [*rates, by_chance]


def _per_speaker(draft: Draft, counts: Counts, system: int, named: Sequence[str]) -> str:
    """Return the sentence on the means of the speakers' own rates, which weigh speakers equally."""
    rows = [draft.get("speaker_rate", **counts.where(system, group=name)) for name in named]
    spans = [span(row) for row in rows if row is not None]
    return f" With each {counts.data.unit[:-1]} weighed equally: {' and '.join(spans)}." if spans else ""


def _not_held(counts: Counts, verdict: Verdict) -> str:
    """Return the sentence on columns that could not be held fixed."""
    missing = counts.adjustments[verdict.system].left_out
    few = f"too few {counts.data.unit}, words or errors a level"
    return f" {listed(missing)} could not be held fixed: {few}." if missing else ""


def _cautions(counts: Counts, verdict: Verdict) -> str:
    """Return cautions on the data that a gap rests on."""
    data, comparison = counts.data, verdict.comparison
    text = ""
    bare = int(((comparison.counts.sizes == 0) & (comparison.counts.errors[:, verdict.system] > 0)).sum())
    if bare:
        text += (
            f" {many(bare, 'clip has', 'clips have')} no word to be read, and what was written there counts as errors, "
            "but in no model: see --on-empty-reference."
        )
    if comparison.overlapping:
        text += f" Some {data.unit} are in several of these groups; rates are pooled over all clips, not paired."
    return text


def _rung_of(rungs: Sequence[Rung], verdict: Verdict) -> Rung | None:
    """Return the adjusted comparison of two groups; against all others, the one with the reference."""
    level, against = (name.partition("=")[2] for name in (verdict.group, verdict.against))
    mine = [rung for rung in rungs if (rung.system, rung.attribute) == (verdict.system, verdict.by)]
    if verdict.against == OTHERS:
        return next((rung for rung in mine if rung.level == level), None)
    return next((rung for rung in mine if (rung.level, rung.reference) == (level, against)), None)


def _ladder_words(rung: Rung, before: Estimate, after: Estimate) -> str:
    if not rung.held:
        return NOTHING_HELD
    ratio = (
        f"The ratio of both rates is {span(before)} as measured and {span(after)} with {listed(rung.held_words)} held "
        "fixed."
    )
    if rung.spurious:
        way = f" Within the levels of {rung.turned_by} it points the other way." if rung.turned_by else ""
        return ratio + way
    if rung.share is not None and rung.share[1] > HALF:
        return ratio
    much = f"How much of the gap goes with {listed(rung.explained_by or rung.held)} could not be told."
    if rung.share is not None and rung.explained_by:
        much = f"Some of the gap goes with {listed(rung.explained_by)}; how much could not be told."
    return f"{ratio} {much}"
