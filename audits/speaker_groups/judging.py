"""What do the estimates carry, in sentences that say no more than their intervals?

Severity of a gap, by the lower end of the interval of the absolute gap: high from 0.10, medium from 0.03, low above
zero; low at most where the gap is explained by what else differs. A gap is called one only if that end is above zero
and the declared test rejects after Holm's correction over all systems and attributes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.numbers import point
from audits.records import Estimate, Severity
from audits.speaker_groups import Options
from audits.speaker_groups.adjusting import HALF, Adjusted, Rung
from audits.speaker_groups.concluding import conclude
from audits.speaker_groups.counts import Utterances, place
from audits.speaker_groups.gaps import OTHERS, PERMUTED, GapRow, clearest, difference_of, excess_of, rate_words, tested
from audits.speaker_groups.inputs import Inputs
from audits.speaker_groups.telling import tell_columns, tell_explained, tell_search, tell_skipped, tell_systems
from audits.speaker_groups.wording import gap_words, left_words, whose
from audits.statistics import OUT_OF_REACH, MaybeEnds, adjust, scaled
from audits.wording import listed, many, p_words, span

if TYPE_CHECKING:
    from audits.speaker_groups.report import Results

HIGH, MEDIUM = 0.10, 0.03
NOTHING_HELD = "No other attribute or control is in the model to hold fixed."
POWER = 0.84
"""Normal quantile of four in five."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the declared test of one attribute says of one system.

    Parameters
    ----------
    p
        Corrected for all declared tests.
    gap
        Place of the difference that is told: of `group` and what it is compared `against`, a group or others.
    rejected
        Whether the test rejects what was declared.
    found
        Whether, beyond that, the interval of this difference leaves out nought.
    """

    system: int
    row: GapRow
    p: float
    gap: int
    group: str
    against: str
    evidence: tuple[int, ...]
    rejected: bool
    found: bool


def declare(
    draft: Draft,
    data: Utterances,
    rows: Sequence[GapRow],
    adjusted: Adjusted,
    options: Options,
    context: Context,
) -> list[Verdict]:
    """Test the declared hypothesis for every attribute and system, with Holm's correction over all of them."""
    tests: list[tuple[int, GapRow, MaybeEnds, tuple[int, str, str]]] = []
    for row in rows:
        for system in range(len(data.systems)):
            if row.crossed:
                continue
            if options.hypothesis != "conditional":
                p: MaybeEnds = tested(row, system, options.hypothesis, context)
                pair = clearest(row, system, options.hypothesis)
                one_sided = options.hypothesis == "worst-group" and row.reference != "best"
                told_by = excess_of if one_sided else difference_of
                at = told_by(draft, data, row, system, pair, context)
                tests.append((system, row, p, (at, *pair)))
            elif (system, row.by) in adjusted.p:
                at = adjusted.gap[system, row.by, "absolute"]
                told = (at, *adjusted.extremes[system, row.by])
                tests.append((system, row, (adjusted.p[system, row.by], None, None), told))
    verdicts = []
    corrected = adjust([test[2][0] for test in tests], "holm")
    for (system, row, raw, (gap, group, against)), p_value in zip(tests, corrected, strict=True):
        ends = {"none": raw, "holm": scaled(raw, p_value)}
        places = [
            _add_p(draft, data, row, system, ends[correction], correction, options, context) for correction in ends
        ]
        verdicts.append(
            Verdict(
                system=system,
                row=row,
                p=p_value,
                gap=gap,
                group=group,
                against=against,
                evidence=(gap, places[1]),
                rejected=p_value < 1 - context.level,
                found=p_value < 1 - context.level and _beyond(draft.estimates[gap], options.hypothesis),
            )
        )
    return verdicts


def _beyond(gap: Estimate, hypothesis: str) -> bool:
    """Tell whether the interval leaves out nought; that there is a worst group can be shown on one side only."""
    below = gap.high is not None and gap.high < 0 and hypothesis == "parity"
    return (gap.low is not None and gap.low > 0) or below


def _add_p(
    draft: Draft,
    data: Utterances,
    row: GapRow,
    system: int,
    ends: MaybeEnds,
    correction: str,
    options: Options,
    context: Context,
) -> int:
    how = "" if correction == "none" else ", Holm over all declared tests"
    where = place(data, row.counts, system, test=options.hypothesis, by=row.by, correction=correction)
    return draft.add(
        data.estimate(
            "p_value", ends, "none" if ends[1] is None else PERMUTED + how, row.sums.people, where, context.level
        )
    )


def judge(
    draft: Draft, data: Utterances, results: "Results", inputs: Inputs, options: Options, context: Context
) -> None:
    """Add the findings, worst first, and last what may and what may not be concluded."""
    _warn_about_p(draft)
    verdicts = results.verdicts
    if not verdicts:
        draft.find(
            "groups.nothing-compared",
            "info",
            f"No attribute has two groups with enough {data.unit} and words: nothing is said about any gap."
            if not results.rows
            else "The declared hypothesis could not be tested: there is no adjusted model (see the warnings).",
        )
    for verdict in verdicts:
        if verdict.found:
            _tell_gap(draft, data, verdict, results, options, context)
    for system in range(len(data.systems)):
        silent = [verdict for verdict in verdicts if verdict.system == system and not verdict.found]
        if silent:
            searched = {
                item.group.partition("=")[0]
                for item in results.search.found
                if item.system == system and item.confirmed
            }
            _tell_silence(draft, data, silent, len(verdicts), options.hypothesis, searched, context)
    tell_explained(draft, data, results)
    tell_search(draft, data, results)
    tell_systems(draft, data, results, context)
    tell_skipped(draft, inputs)
    tell_columns(draft, inputs, options)
    order = {"high": 0, "medium": 1, "low": 2, "info": 3}
    draft.findings.sort(key=lambda finding: order[finding.severity])
    conclude(draft, data, results, options, context)


def _warn_about_p(draft: Draft) -> None:
    if any(row.name == "p_value" and row.method == "none" for row in draft.estimates):
        draft.warn(
            "p-without-interval",
            "p-values of joint intervals, and of t and Wald tests, are computed, not sampled: they have no interval.",
        )


def _tell_gap(
    draft: Draft, data: Utterances, verdict: Verdict, results: "Results", options: Options, context: Context
) -> None:
    row, system = verdict.row, verdict.system
    gap = draft.estimates[verdict.gap]
    rung = _rung_of(results.adjusted, verdict)
    spurious = rung is not None and rung.spurious
    low = min(abs(gap.low or 0.0), abs(gap.high or 0.0))
    severity: Severity = "high" if low >= HIGH else "medium" if low >= MEDIUM else "low"
    evidence = list(verdict.evidence)
    if options.hypothesis == "conditional":
        held = results.adjusted.held_words[system, row.by]
        fixed = f" with {listed(held)} held fixed" if held else ""
        text = (
            f"{whose(data, system)} more often on {verdict.group} than on {verdict.against}{fixed}: an adjusted gap in "
            f"{rate_words(row.counts)} of {span(gap)}; p {p_words(verdict.p)} (Wald test, Holm)."
        )
        text += "" if held else f" {NOTHING_HELD}"
        rung, spurious = None, False
    else:
        rates = results.rates.rows[row.counts.metric]
        named = [verdict.group] + ([] if verdict.against == OTHERS else [verdict.against])
        shown = [point(draft.estimates[rates[system, name]]) for name in named]
        evidence += [rates[system, name] for name in named] + [row.floor[system]]
        than = "all others together" if verdict.against == OTHERS else verdict.against
        both = f"{shown[0]} against {shown[1]}, a gap of" if len(shown) > 1 else f"{shown[0]}, a gap of"
        by_chance = draft.estimates[row.floor[system]]
        noise = f", where shuffled labels make one of {point(by_chance)}" if verdict.gap in row.gap.values() else ""
        text = (
            f"{whose(data, system)} {'more' if gap.value > 0 else 'less'} often on {verdict.group} than on {than}: "
            f"{rate_words(row.counts)} {both} {gap_words(gap)}{noise}; p {p_words(verdict.p)} (labels permuted over "
            f"{data.unit} or joint intervals, the larger; Holm).{_per_speaker(draft, data, row, system, named)}"
        )
    if options.hypothesis != "conditional":
        text += " " + (
            _ladder_words(draft, rung) if rung else "It could not be adjusted for anything else (see the warnings)."
        )
        evidence += rung.places if rung else ()
    missing = results.adjusted.left_out.get(system, ())
    if missing:
        text += f" {listed(missing)} could not be held fixed: too few {data.unit}, words or errors a level."
    bare = int(((row.counts.sizes == 0) & (row.counts.errors[:, system] > 0)).sum())
    if bare:
        text += (
            f" {many(bare, 'clip has', 'clips have')} no word to be read, and what was written there counts as errors, "
            "but in no model: see --on-empty-reference."
        )
    if row.sums.present.sum(1).max() > 1:
        text += f" Some {data.unit} are in several of these groups; rates are pooled over all clips, not paired."
    draft.find(
        "groups.spurious" if spurious else "groups.gap",
        "low" if spurious else severity,
        text,
        evidence,
        **place(data, row.counts, system, by=row.by, group=verdict.group),
    )


def _per_speaker(draft: Draft, data: Utterances, row: GapRow, system: int, named: Sequence[str]) -> str:
    """Say what the means of the speakers' own rates are, which give everyone the same weight."""
    where = [place(data, row.counts, system, group=name) for name in named]
    found = [row for row in draft.estimates if row.name == "speaker_rate" and row.where in where]
    found.sort(key=lambda row: where.index(dict(row.where)))
    if not found:
        return ""
    return f" These rates pool all words; one rate per {data.unit[:-1]}, they are {' against '.join(map(span, found))}."


def _rung_of(adjusted: Adjusted, verdict: Verdict) -> Rung | None:
    """Return the comparison of these two groups in the models; against all others, that with the reference."""
    level, against = (name.partition("=")[2] for name in (verdict.group, verdict.against))
    mine = [rung for rung in adjusted.rungs if (rung.system, rung.attribute) == (verdict.system, verdict.row.by)]
    if verdict.against == OTHERS:
        return next((rung for rung in mine if rung.level == level), None)
    return next((rung for rung in mine if (rung.level, rung.reference) == (level, against)), None)


def _ladder_words(draft: Draft, rung: Rung) -> str:
    if not rung.held:
        return NOTHING_HELD
    before, after = (draft.estimates[place] for place in rung.places)
    kept = f"with {listed(rung.held_words)} held fixed"
    left = left_words(rung.share) if rung.share else ""
    rates = f"(rate over that of {rung.reference}, this pair alone: {span(before)} before, {span(after)} after)"
    if rung.spurious:
        way = f" Within the levels of {rung.turned_by} it points the other way." if rung.turned_by else ""
        return f"Spurious: most of this goes with {listed(rung.explained_by)}; {kept}, {left} {rates}.{way}"
    much = f"How much of this goes with {listed(rung.explained_by or rung.held)} could not be told"
    if rung.share is None:
        return f"{much}: {kept}, {rates[1:-1]}."
    if rung.share[1] <= HALF:
        some = f"Some of this goes with {listed(rung.explained_by)}, how much could not be told"
        return f"{some if rung.explained_by else much}: {kept}, {left} {rates}."
    return f"{kept[0].upper()}{kept[1:]}, {left} {rates}."


def _tell_silence(
    draft: Draft,
    data: Utterances,
    silent: Sequence[Verdict],
    tests: int,
    hypothesis: str,
    searched: set[str],
    context: Context,
) -> None:
    """Say what could not be shown, and how large a gap could hide."""
    quiet: list[str] = []
    doubtful: list[str] = []
    unplaced: list[str] = []
    lower: list[str] = []
    widest = 0.0
    for verdict in silent:
        gap = draft.estimates[verdict.gap]
        told = f"{verdict.row.by}, {gap_words(gap)}"
        rivals = [at for (system, _), at in verdict.row.to_reference.items() if system == verdict.system]
        rows = [gap, *(draft.estimates[at] for at in rivals)]
        widest = max(widest, *((row.high or 0.0) - (row.low or 0.0) for row in rows))
        if verdict.rejected:
            unplaced.append(f"{told}, p {p_words(verdict.p)}")
        elif _beyond(gap, hypothesis):
            doubtful.append(f"{told}, p {p_words(verdict.p)}")
        elif hypothesis == "worst-group" and all((row.high or 0.0) < 0 for row in rows):
            lower.append(verdict.against)
        else:
            quiet.append(told)
    blind = next((warning.message for warning in draft.warnings if warning.id == OUT_OF_REACH), "")
    sentences = [f"nothing was told by {'; '.join([*quiet, *doubtful])}. {blind}"] if blind and quiet + doubtful else []
    if sentences:
        quiet, doubtful, widest = [], [], 0.0
    if quiet:
        upward = hypothesis == "worst-group"
        what = "does not show that a group errs more" if upward else "shows no difference"
        sentences.append(f"the declared test {what} by {'; '.join(quiet)}.")
    if doubtful:
        sentences.append(f"what was seen by {'; '.join(doubtful)} may be chance, given all the declared tests (Holm).")
    if unplaced:
        some = f"the groups do not err alike by {'; '.join(unplaced)}, but which ones differ could not be told."
        if hypothesis == "worst-group":
            some = f"some group errs more by {'; '.join(unplaced)}, but which one could not be told."
        sentences.append(some)
    if lower:
        sentences.append(f"all groups err less than {' and '.join(lower)}.")
    tail = (1 - context.level) / 2
    plain, corrected = (NormalDist().inv_cdf(1 - share) for share in (tail, tail / tests))
    if widest > 0:
        # Half the widest interval over its own quantile is a standard error, and four in five lie POWER of them above.
        missed = (corrected + POWER) / plain * widest / 2
        sentences.append(f"a gap of less than about {missed:.2f} may have been missed.")
    found = [verdict.row.by for verdict in silent if verdict.row.by in searched]
    if found:
        sentences.append(f"the search, another test, did confirm a group by {' and '.join(found)}: see there.")
    first, *rest = sentences
    name = f"For {data.systems[silent[0].system]}, " if len(data.systems) > 1 else ""
    text = " ".join([f"{name}{first}", *(part[0].upper() + part[1:] for part in rest)])
    draft.find(
        "groups.no-gap-shown",
        "info",
        text[0].upper() + text[1:],
        [verdict.gap for verdict in silent],
        **place(data, silent[0].row.counts, silent[0].system),
    )
