"""Findings on gaps that are not shown, with the size that could be missed by each attribute."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from audits.core.context import Draft
from audits.core.wording import first_of, fitting, listed, many, p_words
from audits.group_rates.findings import blind_words, doubtful_words, how_tested, joined, missed_size, missed_words
from audits.speaker_groups.gaps import OTHERS
from audits.speaker_groups.hypotheses import Verdict, beyond
from audits.speaker_groups.measure import Counts
from audits.speaker_groups.wording import all_tests, gap_words

MOST_NAMED = 3


@dataclass(slots=True)
class _Sorted:
    """The verdicts of one system by why nothing is shown."""

    quiet: list[Verdict] = field(default_factory=list)
    doubtful: list[Verdict] = field(default_factory=list)
    unplaced: list[Verdict] = field(default_factory=list)
    lower: list[Verdict] = field(default_factory=list)


def find_not_shown(draft: Draft, counts: Counts, silent: Sequence[Verdict]) -> None:
    """Add the finding on gaps of one system that were not shown, and the sizes that could be missed."""
    system = silent[0].system
    reasons = _sorted(draft, counts, silent)
    blind = blind_words(draft, [_seen(draft, verdict) for verdict in [*reasons.quiet, *reasons.doubtful]])
    sentences = [blind] if blind else []
    if not blind:
        sentences += _quiet_sentences(draft, counts, reasons.quiet, alone=len(silent) == 1)
        if reasons.doubtful:
            names = [verdict.by if len(silent) == 1 else _seen(draft, verdict) for verdict in reasons.doubtful]
            sentences.append(doubtful_words(names, "the tests of the hypothesis"))
    if reasons.unplaced:
        which = "; ".join(_seen(draft, verdict) for verdict in reasons.unplaced)
        some = f"the groups do not err alike by {which}, but which ones differ could not be told."
        if counts.options.hypothesis == "worst-group":
            some = f"some group errs more by {which}, but which one could not be told."
        sentences.append(some)
    if reasons.lower:
        sentences.append(f"all groups err less than {' and '.join(verdict.against for verdict in reasons.lower)}.")
    searched = dict.fromkeys(tuple(item.by.split("&")) for item in counts.searches[system].found if item.confirmed)
    found = [verdict.by for verdict in silent if (verdict.by,) in searched]
    if found:
        sentences.append(
            f"the search, which sets one level against all others together, did confirm a group by "
            f"{' and '.join(found)}: see there."
        )
    crossings = [by for by in searched if len(by) > 1 and {*by} & {verdict.by for verdict in silent}]
    if crossings:
        named = "; of ".join(listed(by) for by in crossings[:MOST_NAMED])
        sentences.append(f"the search did confirm a crossing of {named}: see there.")
    draft.find(
        "groups.no-gap-shown",
        "info",
        joined("", sentences),
        [verdict.row(draft) for verdict in silent],
        headline=_headline(draft, counts, silent, reasons, blind=bool(blind), searched=bool(found)),
        how_sure=_how_sure(counts, silent, reasons),
        **counts.where(system),
    )


def _sorted(draft: Draft, counts: Counts, silent: Sequence[Verdict]) -> _Sorted:
    hypothesis, found = counts.options.hypothesis, _Sorted()
    for verdict in silent:
        gap = verdict.row(draft)
        rows = [gap, *draft.select("gap_to_reference", **counts.where(verdict.system, by=verdict.by))]
        if verdict.rejected:
            found.unplaced.append(verdict)
        elif beyond(gap, hypothesis):
            found.doubtful.append(verdict)
        elif hypothesis == "worst-group" and all((row.high or 0.0) < 0 for row in rows):
            found.lower.append(verdict)
        else:
            found.quiet.append(verdict)
    return found


def _seen(draft: Draft, verdict: Verdict) -> str:
    return f"{verdict.by}, {gap_words(verdict.row(draft))}"


def _quiet_sentences(draft: Draft, counts: Counts, quiet: Sequence[Verdict], *, alone: bool) -> list[str]:
    """Return what was seen by each attribute and the gap that may have been missed; the headline has a lone one."""
    sentences = []
    for verdict in quiet[:MOST_NAMED]:
        size = _missed(draft, counts, verdict)
        words = missed_words(f"{size:.2f}") if size > 0 else ""
        if not alone:
            words = f"by {_seen(draft, verdict)}" + (f": {words}" if words else ".")
        sentences += [words] if words else []
    left = len(quiet) - MOST_NAMED
    if left > 0:
        sentences.append(f"{many(left, 'more attribute shows', 'more attributes show')} none: see the tables.")
    return sentences or (["what was seen stands in the tables."] if quiet else [])


def _missed(draft: Draft, counts: Counts, verdict: Verdict) -> float:
    """Return the gap by one attribute that such an audit shows with 80 % power; 0 where nothing varies."""
    rows = [
        verdict.row(draft),
        *draft.select("gap_to_reference", **counts.where(verdict.system, by=verdict.by)),
    ]
    widest = max((row.high or 0.0) - (row.low or 0.0) for row in rows)
    return missed_size(widest, len(counts.verdicts), level=counts.level) if widest > 0 else 0.0


def _headline(
    draft: Draft, counts: Counts, silent: Sequence[Verdict], reasons: _Sorted, *, blind: bool, searched: bool
) -> str:
    """Return the answer where no gap is shown; with its number where it is about one attribute."""
    whom = f" for {counts.data.systems[silent[0].system]}" if len(counts.data.systems) > 1 else ""
    names = first_of([verdict.by for verdict in silent], MOST_NAMED)
    if len(reasons.unplaced) == len(silent):
        return fitting(
            f"Groups by {names} do not err alike{whom}; which ones differ could not be told.",
            f"Some groups do not err alike{whom}; which ones could not be told.",
        )
    pairs = ""
    if searched and all(verdict.against != OTHERS and "=" not in verdict.comparison.reference for verdict in silent):
        # Else it would seem to contradict the headline of the search.
        pairs = ", between any two levels,"
    if len(silent) > 1:
        return f"No gap by {names}{pairs} is shown{whom}."
    size = gap_words(silent[0].row(draft))
    if reasons.doubtful and not blind:
        return f"A gap by {names}{whom}, {size}, may be chance."
    return f"No gap by {names}{pairs} is shown{whom}: {size}."


def _how_sure(counts: Counts, silent: Sequence[Verdict], reasons: _Sorted) -> str:
    """Return the test with its correction, and the p-values that a reader would ask for."""
    test = "Wald test, Holm" if counts.options.hypothesis == "conditional" else how_tested(counts.data.unit)
    with_p = [*reasons.unplaced, *reasons.doubtful] or (list(silent) if len(silent) == 1 else [])
    p = "; ".join(f"{verdict.by}, p {p_words(verdict.p)}" for verdict in with_p)
    lead = f"{p}: " if p else "Tested with "
    return f"{lead}{test} over {all_tests(counts)}."
