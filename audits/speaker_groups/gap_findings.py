"""Findings on gaps: shown gaps, and the size that could be missed where none is shown.

The severity of a gap is low at most where it is explained by what else differs. A gap is called one only if the lower
end of its interval is above zero and the declared test rejects after Holm's correction over all systems and attributes.
"""

from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import counted, point
from audits.core.records import Estimate
from audits.core.wording import first_of, listed, many, p_words, span
from audits.group_rates import METRIC_WORDS
from audits.group_rates.findings import (
    blind_words,
    doubtful_words,
    how_tested,
    joined,
    missed_size,
    missed_words,
    severity_of,
)
from audits.group_rates.wording import compared, levels_of
from audits.speaker_groups.adjusting import HALF, Rung
from audits.speaker_groups.gaps import OTHERS
from audits.speaker_groups.hypotheses import Verdict, beyond
from audits.speaker_groups.measure import Counts
from audits.speaker_groups.wording import gap_words, left_words, ratio_rows, who

MOST_NAMED = 3
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
    text += _cautions(counts, verdict)
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
    return f"{who(counts.data, verdict.system)} makes {more} errors {pair}{fixed}: by {gap_words(gap)}."


def _goes_with(counts: Counts, verdict: Verdict, gap: Estimate, rung: Rung) -> str:
    whose = f"{counts.data.systems[verdict.system]}'s" if len(counts.data.systems) > 1 else "the"
    return f"Most of {whose} gap by {verdict.by}, {gap_words(gap)}, goes with {listed(rung.explained_by)}."


def _adjusted_words(counts: Counts, verdict: Verdict) -> tuple[str, str]:
    """Return the sentences on a gap of the adjusted model, and how sure it is."""
    term = counts.adjustments[verdict.system].term(verdict.by)
    held = term.held_words if term else ()
    metric = METRIC_WORDS[counts.tested.metric]
    text = f"The gap is one in {metric}" + (f", with {listed(held)} held fixed." if held else f". {NOTHING_HELD}")
    return text, f"p {p_words(verdict.p)}: Wald test, Holm over {len(counts.verdicts)} declared tests."


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
    text = f"{metric[:1].upper()}{metric[1:]} {', '.join(each)}.{_per_speaker(draft, counts, system, named)}"
    sure = f"p {p_words(verdict.p)}: {how_tested(counts.data.unit)} over {len(counts.verdicts)} declared tests."
    sure += f" Shuffled labels alone make a gap of {point(by_chance)}." if gap.name == "gap" else ""
    return text, sure, [*rates, by_chance]


def _per_speaker(draft: Draft, counts: Counts, system: int, named: Sequence[str]) -> str:
    """Return the sentence on the means of the speakers' own rates, which weigh speakers equally."""
    rows = [draft.get("speaker_rate", **counts.where(system, group=name)) for name in named]
    spans = [span(row) for row in rows if row is not None]
    return f" With each {counts.data.unit[:-1]} weighed equally: {' and '.join(spans)}." if spans else ""


def _cautions(counts: Counts, verdict: Verdict) -> str:
    """Return cautions on a gap: columns not held fixed, and the data that it rests on."""
    data, comparison = counts.data, verdict.comparison
    text = ""
    missing = counts.adjustments[verdict.system].left_out
    if missing:
        text += f" {listed(missing)} could not be held fixed: too few {data.unit}, words or errors a level."
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
    kept = f"with {listed(rung.held_words)} held fixed"
    left = left_words(rung.share) if rung.share else ""
    rates = f"(ratio of both rates: {span(before)} before, {span(after)} after)"
    if rung.spurious:
        way = f" Within the levels of {rung.turned_by} it points the other way." if rung.turned_by else ""
        return f"{kept[0].upper()}{kept[1:]}, {left} {rates}.{way}"
    much = f"How much of this goes with {listed(rung.explained_by or rung.held)} could not be told"
    if rung.share is None:
        return f"{much}: {kept}, {rates[1:-1]}."
    if rung.share[1] <= HALF:
        some = f"Some of this goes with {listed(rung.explained_by)}, how much could not be told"
        return f"{some if rung.explained_by else much}: {kept}, {left} {rates}."
    return f"{kept[0].upper()}{kept[1:]}, {left} {rates}."


def find_not_shown(draft: Draft, counts: Counts, silent: Sequence[Verdict]) -> None:
    """Add the finding on gaps of one system that were not shown, and the size that could be missed."""
    system, hypothesis = silent[0].system, counts.options.hypothesis
    search = counts.searches[system]
    searched = {item.group.partition("=")[0] for item in search.found if item.confirmed}
    quiet: list[str] = []
    doubtful: list[str] = []
    unplaced: list[str] = []
    lower: list[str] = []
    widest = 0.0
    for verdict in silent:
        gap = verdict.row(draft)
        words = f"{verdict.by}, {gap_words(gap)}"
        rows = [gap, *draft.select("gap_to_reference", **counts.where(system, by=verdict.by))]
        widest = max(widest, *((row.high or 0.0) - (row.low or 0.0) for row in rows))
        if verdict.rejected:
            unplaced.append(f"{words}, p {p_words(verdict.p)}")
        elif beyond(gap, hypothesis):
            doubtful.append(f"{words}, p {p_words(verdict.p)}")
        elif hypothesis == "worst-group" and all((row.high or 0.0) < 0 for row in rows):
            lower.append(verdict.against)
        else:
            quiet.append(words)
    blind = blind_words(draft, [*quiet, *doubtful])
    sentences = [blind] if blind else []
    if blind:
        quiet, doubtful, widest = [], [], 0.0
    if quiet:
        upward = hypothesis == "worst-group"
        what = "does not show that a group errs more" if upward else "shows no difference"
        sentences.append(f"the declared test {what} by {'; '.join(quiet)}.")
    if doubtful:
        sentences.append(doubtful_words(doubtful, "the declared tests (Holm)"))
    if unplaced:
        some = f"the groups do not err alike by {'; '.join(unplaced)}, but which ones differ could not be told."
        if hypothesis == "worst-group":
            some = f"some group errs more by {'; '.join(unplaced)}, but which one could not be told."
        sentences.append(some)
    if lower:
        sentences.append(f"all groups err less than {' and '.join(lower)}.")
    if widest > 0:
        sentences.append(missed_words(f"{missed_size(widest, len(counts.verdicts), level=counts.level):.2f}"))
    found = [verdict.by for verdict in silent if verdict.by in searched]
    if found:
        sentences.append(f"the search, another test, did confirm a group by {' and '.join(found)}: see there.")
    name = f"For {counts.data.systems[system]}, " if len(counts.data.systems) > 1 else ""
    draft.find(
        "groups.no-gap-shown",
        "info",
        joined(name, sentences),
        [verdict.row(draft) for verdict in silent],
        headline=_null_headline(draft, counts, silent),
        **counts.where(system),
    )


def _null_headline(draft: Draft, counts: Counts, silent: Sequence[Verdict]) -> str:
    """Return the answer where no gap is shown; with its number where it is about one attribute."""
    whom = f" for {counts.data.systems[silent[0].system]}" if len(counts.data.systems) > 1 else ""
    size = f": {gap_words(silent[0].row(draft))}" if len(silent) == 1 else ""
    return f"No gap by {first_of([verdict.by for verdict in silent], MOST_NAMED)} is shown{whom}{size}."
