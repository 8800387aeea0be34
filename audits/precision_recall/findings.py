"""The findings on each candidate, and on a sweep of temperatures."""

import math
from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import point
from audits.core.records import Estimate, Severity
from audits.core.wording import capitalised, first_of, fitting, listed, size_words, span
from audits.precision_recall.conclusion import conclude
from audits.precision_recall.counts import WORDS, Counts
from audits.precision_recall.listing import different, outside, uncovered
from audits.precision_recall.lookup import difference, least_precise, relabelled, score, shown, significant
from audits.precision_recall.sides import ASKED, CEILING, DIVERSITY, FLOOR, FLOORED, QUALITY, REFERENCE, RELABELLED
from audits.precision_recall.sweep import judge_sweep

LARGE, NOTABLE = 0.20, 0.05
"""Ends of intervals, shares of the texts, from which the severity of a shortfall is high, and medium."""
COPIES = 0.05
"""Low end of the share of repeated texts from which a candidate is said to repeat itself."""
_BENCHMARKS = {
    CEILING: "the reference set against itself",
    RELABELLED: "a set of the reference's own source",
}
HUBS = 3.0
"""Skewness of the k-occurrence from which hubs are warned of."""
MOST_NAMED = 6
FAMILY = "Holm over all scores and Self-BLEU of all candidates; intervals are not corrected."
"""How sure all comparisons of candidates with the reference are."""
_WIDE = "as of texts whose balls are wide or that lie in the middle"


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings."""
    grouped = counts.grouped
    if grouped:
        _find_groups(draft, counts)
    unflagged = [
        name for name in counts.names if not _find_candidate(draft, counts, name) and not {name, REFERENCE} & grouped
    ]
    for name in counts.names:
        _find_copies(draft, name)
        _find_copied(draft, name)
        _find_sequences(draft, counts, name)
        _find_floor(draft, counts, name)
    _find_uninformative(draft, counts)
    asked = [name for name in unflagged if difference(draft, counts, "precision", name, counts.benchmark) is not None]
    if asked:
        _find_no_shortfall(draft, counts, asked)
    judge_sweep(draft, counts)
    _find_texts(draft, counts)
    _warn_of_hubs(draft, counts)
    conclude(draft, counts)


def _find_candidate(draft: Draft, counts: Counts, name: str) -> bool:
    """Add findings on where a candidate falls short of the reference against itself; return whether it does."""
    against = counts.benchmark
    rows = {metric: row for metric in ASKED if (row := difference(draft, counts, metric, name, against)) is not None}
    signs = {metric: shown(draft, counts, metric, name, against) for metric in rows}
    short = {metric: row for metric, row in rows.items() if signs[metric] < 0}
    if not short:
        return False
    # Texts that lie elsewhere cover less, whatever their kinds.
    elsewhere = "coverage" in short and "recall" not in short and bool(short.keys() & set(QUALITY))
    kinds = [
        word
        for word, metrics in (("quality", QUALITY), ("diversity", DIVERSITY))
        if short.keys() & set(metrics) and not (word == "diversity" and elsewhere)
    ]
    worst = max(short, key=lambda metric: _least_shortfall(draft, counts, metric, short[metric]))
    rest = [f"{metric} by {size_words(row)}" for metric, row in short.items() if metric != worst]
    text = f"That is against {_BENCHMARKS[against]}."
    text += f" Lower, too: {listed(rest)}." if rest else ""
    for metrics, why in ((QUALITY, "as of texts that keep to what is common"), (DIVERSITY, _WIDE)):
        above = [metric for metric in metrics if signs.get(metric, 0) > 0]
        if above:
            text += f" Its {listed(above)} {'is' if len(above) == 1 else 'are'} higher, {why}."
    level = [metric for metric in signs if signs[metric] == 0]
    if level:
        text += f" In {listed(level)} no difference could be shown."
    if elsewhere:
        text += " Its coverage may be lower because texts lie elsewhere rather than because there are fewer kinds."
    text += _plainly(draft, counts, name, kinds)
    end = _least_shortfall(draft, counts, worst, short[worst])
    evidence: list[Estimate | None] = [short[worst]]
    evidence += [row for metric, row in short.items() if metric != worst]
    headline = f"{name} falls short of reference texts in {listed(kinds)}: {worst} lower by {size_words(short[worst])}."
    evidence += [*(score(draft, counts, one, name) for one in (short if against == CEILING else rows))]
    evidence += [relabelled(draft, counts, metric, name) for metric in rows]
    draft.find(
        f"texts.below-{against}",
        _severity(end),
        text,
        evidence,
        headline=headline,
        how_sure=FAMILY,
        candidate=name,
    )
    return True


def _plainly(draft: Draft, counts: Counts, name: str, kinds: Sequence[str]) -> str:
    """Return precision and recall beside those of sets of one source, in words, where no ceiling was measured."""
    rows = {
        metric: row for metric in ("precision", "recall") if (row := score(draft, counts, metric, name)) is not None
    }
    dealt = [row for metric in rows if (row := relabelled(draft, counts, metric, name)) is not None]
    if counts.benchmark == CEILING or not dealt:
        return ""
    parts = listed([f"its {metric} is {span(row)}" for metric, row in rows.items()])
    values = listed([point(row) for row in dealt])
    text = f" {capitalised(parts)}; sets of one source would have {values}."
    if kinds == ["diversity"] and "precision" in rows:
        text += f" So {name} is less diverse, not shown to be less precise."
    return text


def _least_shortfall(draft: Draft, counts: Counts, metric: str, row: Estimate) -> float:
    """Return the smallest shortfall that the interval allows, as a share of the texts.

    Texts that lie in no ball have no density: a density lower by a fifth of what it would be is that of a fifth of
    such texts, if the others lie as the reference does.
    """
    # Without an interval nothing is shown, so that it is behind all others.
    end = -math.inf if row.high is None else -row.high
    if metric != "density":
        return end
    # What it would be: the score less its difference.
    name = str(row.where["candidate"])
    would_be = score(draft, counts, metric, CEILING) or relabelled(draft, counts, metric, name)
    return end / would_be.value if would_be is not None and would_be.value > 0 else 0.0


def _find_groups(draft: Draft, counts: Counts) -> None:
    """Add a finding on texts in groups hardly larger than k, whose intervals cannot be trusted."""
    names = listed([name for name in (REFERENCE, *counts.names) if name in counts.grouped][:MOST_NAMED])
    text = (
        f"Texts of {names} stand in groups hardly larger than k = {counts.k}, such as answers to one prompt: in halves "
        "of a draw their balls reach into other groups, and intervals are too narrow. No difference is told of them; "
        "take a smaller --k, or more texts of each group."
    )
    first = first_of([name for name in (REFERENCE, *counts.names) if name in counts.grouped], 3)
    headline = f"Too few texts in each group to judge {first}: groups are hardly larger than k = {counts.k}."
    draft.find("texts.grouped", "medium", text, headline=headline)
    draft.warn("grouped", text)


def _severity(end: float) -> Severity:
    return "high" if end >= LARGE else "medium" if end >= NOTABLE else "low"


def _find_copies(draft: Draft, name: str) -> None:
    own, reference = draft.get("duplicates", candidate=name), draft.get("duplicates", candidate=REFERENCE)
    if own is None or own.low is None or reference is None or reference.high is None:
        return
    # People repeat themselves too: report copies only where there are more than in the reference.
    if own.low < COPIES or own.low <= reference.high:
        return
    text = f"That is of {own.n:,} texts; of as many reference texts {point(reference)} are."
    headline = f"{name} repeats itself: {span(own)} of its texts are copies of an earlier one."
    sure = "The intervals of both shares lie apart."
    rows = [own, reference]
    draft.find("texts.mode-collapse", _severity(own.low), text, rows, headline=headline, how_sure=sure, candidate=name)


def _find_copied(draft: Draft, name: str) -> None:
    """Add a finding on a candidate with many texts copied from the reference."""
    row, reference = draft.get("copied", candidate=name), draft.get("duplicates", candidate=REFERENCE)
    if row is None or row.low is None or row.low < COPIES:
        return
    # Where reference texts repeat each other, those of their kind repeat them too.
    if reference is not None and reference.high is not None and row.low <= reference.high:
        return
    text = (
        "They were learnt by heart, or stand in both by mistake. Where a draw holds both, such a text counts as good "
        "in every score."
    )
    headline = f"Of the texts of {name}, {span(row)} stand word for word in the reference."
    draft.find("texts.copied", _severity(row.low), text, [row], headline=headline, candidate=name)


def _find_sequences(draft: Draft, counts: Counts, name: str) -> None:
    """Add a finding on a candidate whose texts share more word sequences than reference texts do."""
    row = difference(draft, counts, WORDS, name, REFERENCE)
    if row is None or not significant(draft, row) or not row.above(0.0):
        return
    own, other = draft.row(WORDS, candidate=name), draft.row(WORDS, candidate=REFERENCE)
    draft.find(
        "texts.more-alike",
        "low",
        f"Among themselves they have a Self-BLEU of {point(own)}, reference texts one of {point(other)}.",
        [row, own, other],
        headline=f"Texts of {name} are more alike in their words than reference texts: Self-BLEU higher by "
        f"{size_words(row)}.",
        how_sure=FAMILY,
        candidate=name,
    )


def _informative(draft: Draft, counts: Counts) -> list[str]:
    """Return the scores by which reference texts are significantly above their own words shuffled."""
    return [metric for metric in FLOORED if shown(draft, counts, metric, CEILING, FLOOR) > 0]


def _find_uninformative(draft: Draft, counts: Counts) -> None:
    """Add a finding where encoder and number of texts do not separate reference texts from shuffled words."""
    rows = {metric: difference(draft, counts, metric, CEILING, FLOOR) for metric in FLOORED}
    known = [metric for metric, row in rows.items() if row is not None]
    informative = _informative(draft, counts)
    blind = [metric for metric in known if metric not in informative]
    encoder = counts.inputs.encoder
    if not blind or encoder is None or REFERENCE in counts.grouped:
        return
    size = counts.controls[CEILING].size
    below = [metric for metric in blind if shown(draft, counts, metric, CEILING, FLOOR) < 0]
    sides = (
        ([metric for metric in blind if metric not in below], "is not shown to be above it"),
        (below, "is below it"),
        (informative, "is above it"),
    )
    said = "; ".join(f"in {listed(metrics)} the ceiling {words}" for metrics, words in sides if metrics)
    text = (
        f"The floor is reference texts with their words shuffled. With {size:,} texts a side and {encoder.reference}, "
        f"{said}. So no candidate is judged against that floor{f' in {listed(blind)}' if informative else ''}."
    )
    # The score that speaks most plainly against the encoder, not the first.
    worst, first = max(
        ((metric, row) for metric in below or blind if (row := rows[metric]) is not None),
        key=lambda pair: _least_shortfall(draft, counts, *pair),
    )
    if below:
        headline = f"In {worst} shuffled words look better to the encoder: real texts are lower by {size_words(first)}"
        if len(below) == len(known):
            headline = (
                f"To the encoder shuffled words look better: {worst} of real texts is lower by {size_words(first)}"
            )
    elif informative:
        headline = f"In {worst} the encoder is not shown to see word order: real less shuffled is {span(first)}"
    else:
        headline = f"The encoder is not shown to see word order: {worst} less that of shuffled words is {span(first)}"
    # The headline's number first.
    blind.sort(key=lambda metric: metric != worst)
    evidence = [rows[metric] for metric in blind]
    draft.find("texts.order-unseen", "info", text, evidence, headline=f"{headline}.", how_sure=FAMILY)


def _find_floor(draft: Draft, counts: Counts, name: str) -> None:
    """Add a finding on scores below the ceiling that are not above shuffled words.

    Not shown to be above is what chance does to good texts too: what falls short of nothing is not accused.
    """
    rows = {metric: difference(draft, counts, metric, name, FLOOR) for metric in _informative(draft, counts)}
    low = [
        metric
        for metric, row in rows.items()
        if row is not None
        and shown(draft, counts, metric, name, FLOOR) <= 0
        and shown(draft, counts, metric, name, CEILING) < 0
    ]
    if not low or {name, REFERENCE} & counts.grouped:
        return
    found = [row for metric in low if (row := rows[metric]) is not None]
    others = [f"{metric}, {span(row)}" for metric, row in zip(low[1:], found[1:], strict=True)]
    text = "The floor is reference texts with their words shuffled; the score is below the ceiling."
    text += f" Nor is {' nor '.join(others)}." if others else ""
    draft.find(
        "texts.not-above-floor",
        "medium",
        text,
        found,
        headline=f"{low[0].capitalize()} of {name} is not shown to be above shuffled words: {span(found[0])}.",
        how_sure=FAMILY,
        candidate=name,
    )


def _find_no_shortfall(draft: Draft, counts: Counts, unflagged: Sequence[str]) -> None:
    """Add a finding on candidates without significant shortfall, and how large a detectable one is."""
    against, metrics = counts.benchmark, ("precision", "recall")
    rows = [difference(draft, counts, metric, name, against) for name in unflagged for metric in metrics]
    least = max(
        one.detectable(1 - draft.level)
        for one in counts.differences
        if one.candidate in unflagged and one.metric in metrics and one.against == against
    )
    names = listed(list(unflagged[:MOST_NAMED])) + (
        f" and {len(unflagged) - MOST_NAMED} more" if len(unflagged) > MOST_NAMED else ""
    )
    text = (
        f"That is of {names} against {_BENCHMARKS[against]}; a shortfall of {_up(least)} or more in precision or "
        "recall would most likely have been shown."
    )
    headline = f"No shortfall of {first_of(unflagged, 3)} is shown"
    if len(unflagged) == 1 and rows[0] is not None:
        headline += f": precision differs from that of reference texts by {span(rows[0])}"
    else:
        # The one whose interval leaves room for the largest shortfall.
        rows.sort(key=lambda row: math.inf if row is None else row.low or 0.0)
        if rows[0] is not None:
            where = rows[0].where
            headline = fitting(
                f"{headline}: {where['metric']} of {where['candidate']} differs by {span(rows[0])}", headline
            )
    draft.find("texts.no-shortfall", "info", text, rows, headline=f"{headline}.", how_sure=FAMILY)


def _up(number: float) -> str:
    """Return a number rounded up to two decimals, so that it promises no more than it can.

    >>> _up(0.0142), _up(0.02)
    ('0.02', '0.02')
    """
    return f"{math.ceil(round(100 * number, 6)) / 100:.2f}"


def _find_texts(draft: Draft, counts: Counts) -> None:
    """Add a finding with a text of the least precise candidate outside the reference, and uncovered texts."""
    found = {name: outside(counts, name, 1) for name in counts.names}
    name = least_precise(draft, counts)
    rows, count = found[name]
    if count:
        judged = different(counts, name)
        row, verb = score(draft, counts, "precision", name), "lies" if count == 1 else "lie"
        outsiders = f"{count:,} of {judged:,} texts of {name} {verb} near no reference text"
        headline = f"{outsiders}."
        if row is not None:
            headline = fitting(f"{outsiders}; over all draws precision is {span(row)}.", headline)
        text = f"That is of the different texts of the first draw, in no ball (k = {counts.k}) around a reference text"
        if rows and rows[0].text:
            own, nearest = _short(rows[0].text), _short(rows[0].nearest_text)
            text += f"; the farthest: “{own}”, whose nearest reference text is “{nearest}”"
        others = [
            f"{other} {found[other][1]:,} of {different(counts, other):,}" for other in counts.names if other != name
        ]
        if others:
            text += f". Of others: {listed(others[:MOST_NAMED])}"
        draft.find("texts.outside", "info", text + ".", [row], headline=headline, candidate=name)
    missed, count = uncovered(counts, 1)
    if count:
        judged, verb = different(counts, REFERENCE), "is" if count == 1 else "are"
        headline = f"{count:,} of {judged:,} reference texts {verb} reached by no candidate."
        text = "That is of the different reference texts of the first draw"
        if missed and missed[0].text:
            text += f"; the farthest: “{_short(missed[0].text)}”"
        draft.find("texts.uncovered", "info", text + ".", headline=headline)


def _short(text: str) -> str:
    return text if len(text) <= 90 else text[:90].rsplit(" ", 1)[0] + "…"


def _warn_of_hubs(draft: Draft, counts: Counts) -> None:
    for row in draft.select("hubness", k=counts.k):
        if row.value > HUBS:
            name = str(row.where["candidate"])
            most = counts.main[name].hubs[counts.k][1]
            text = (
                f"Some texts of {name} are among the nearest of very many others, one of {most:,} (skewness "
                f"{point(row)}): recall rests on these hubs."
            )
            draft.warn("hubs", text, candidate=name)
