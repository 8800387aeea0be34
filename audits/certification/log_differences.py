"""Findings on the differences of a log from the first: which hold for all at once, where, and in which direction.

A radius that one of the two cannot reach by its settings shows its noise or its draws, not its classifier: such a
difference is marked, and leads only where nothing else is shown.
"""

from collections.abc import Sequence

from audits.certification.log_comparison import ACCURACY, PREDICTED, RADIUS, LogCounts
from audits.core.context import Draft
from audits.core.numbers import bounded
from audits.core.records import Estimate
from audits.core.wording import fitting, listed, p_words, size_words, span

DIFFER = "certify.logs-differ"
MOST_NAMED = 4


def find_log_difference(draft: Draft, counts: LogCounts, name: str) -> None:
    """Add a finding on the differences of a log from the first that hold after correction for all, or on none."""
    tests = (ACCURACY, RADIUS) if counts.logs.certified else (PREDICTED,)
    rows = [row for test in tests for row in draft.select(f"{test}_difference", log=name)]
    p = {id(row): _holm(draft, row) for row in rows}
    shown = sorted((row for row in rows if p[id(row)].value < 1 - draft.level), key=lambda row: p[id(row)].value)
    against = counts.logs.names[0]
    family = len(draft.select("p_value", correction="holm"))
    how = f"{over_common(rows[0])} P-values hold for all {family} differences at once (Holm)."
    if not shown:
        first = first_row([row for row in rows if row.name.startswith((ACCURACY, PREDICTED))])
        draft.find(
            "certify.logs-alike",
            "info",
            f"{measure_of(first)} differs by {span(first)} from {against}; "
            f"after correction p {p_words(p[id(first)].value)}.",
            [first, p[id(first)]],
            headline=fitting(f"No difference between {name} and {against} is shown.", "No difference is shown."),
            how_sure=how,
            log=name,
            against=against,
        )
        return
    first, other = _leading(shown, counts)
    lead = [row for row in (first, other) if row is not None]
    rest = [row for row in shown if row not in lead]
    way_back = f", and {p_words(p[id(other)].value)} the other way" if other is not None else ""
    draft.find(
        DIFFER,
        "low",
        f"After correction p {p_words(p[id(first)].value)}{way_back}."
        + _also(rest, counts)
        + (" The sign is not the same everywhere." if other is not None else "")
        + _reason(lead, counts),
        [*lead, *(p[id(row)] for row in lead), *rest],
        headline=_headline(first, other, counts),
        how_sure=how,
        log=name,
        against=against,
    )


def _also(rest: Sequence[Estimate], counts: LogCounts) -> str:
    """Return the differences that do not lead, those beyond the reach of a log last, as a sentence."""
    if not rest:
        return ""
    ordered = sorted(rest, key=lambda row: bool(counts.beyond(row.where)))[:MOST_NAMED]
    within = [row for row in ordered if not counts.beyond(row.where)]
    beyond = [row for row in ordered if row not in within]
    parts = [listed([f"{span(row)} {_at_radius(row)}" for row in part]) for part in (within, beyond) if part]
    names = dict.fromkeys(name for row in beyond for name in counts.beyond(row.where))
    more = f", and at {len(rest) - MOST_NAMED} more" if len(rest) > MOST_NAMED else ""
    return f" Also shown: {'; '.join(parts)}{f', which {listed([*names])} cannot reach' if names else ''}{more}."


def _leading(shown: Sequence[Estimate], counts: LogCounts) -> tuple[Estimate, Estimate | None]:
    """Return the row that leads, and the one that leads the other direction, where both are shown."""
    # Radius 0 asks for the right answer alone.
    first = min(
        shown,
        key=lambda row: (bool(counts.beyond(row.where)), row.name.startswith(RADIUS), row.where.get("radius") == 0),
    )
    others = [row for row in shown if (row.value > 0) != (first.value > 0)]
    if not others:
        return first, None
    return first, min(
        others,
        key=lambda row: (row.name.startswith(RADIUS), bool(counts.beyond(row.where)), row.where.get("radius") == 0),
    )


def difference_words(draft: Draft, counts: LogCounts, name: str) -> tuple[list[Estimate], str]:
    """Return the rows that lead the difference of a log from the first, and a sentence with all of them."""
    claim = next(one for one in draft.findings if one.id in (DIFFER, "certify.logs-alike") and one.where["log"] == name)
    if claim.id != DIFFER:
        return list(claim.evidence[:1]), claim.headline
    rows = [row for row in claim.evidence[:2] if row.name != "p_value"]
    first, *others = rows
    of, less = f"of {name}", f"that of {counts.logs.names[0]}"
    text = f"{measure_of(first)} {of} is {_direction(first)} than {less}, by {_sized(first, counts)}"
    for row in others:
        own = "" if row.name == first.name else f"{measure_of(row).lower()} is "
        text += f", {'but' if own else 'and'} {own}{_direction(row)}, by {_sized(row, counts)}"
    return rows, f"{'By the logs, ' if counts.logs.certified else ''}{_lowered(text, counts)}."


def _lowered(text: str, counts: LogCounts) -> str:
    return text[0].lower() + text[1:] if counts.logs.certified else text


def _sized(row: Estimate, counts: LogCounts) -> str:
    return f"{size_words(row)}{radius_words(row)}{_unreached(row, counts)}"


def _direction(row: Estimate) -> str:
    return "higher" if row.value > 0 else "lower"


def _headline(first: Estimate, other: Estimate | None, counts: LogCounts) -> str:
    name, against = str(first.where["log"]), str(first.where["against"])
    if other is not None:
        return _both_ways(first, other, counts)
    size, beyond = f"{size_words(first)}{radius_words(first)}", _beyond(first, counts)
    words = f"{measure_of(first)} of {name} is {_direction(first)} than that of {against}, by {size}"
    return fitting(
        f"{words}{beyond}.",
        f"{words}.",
        f"{measure_of(first)} is {_direction(first)}, by {size}, than in the first log.",
    )


def _both_ways(first: Estimate, other: Estimate, counts: LogCounts) -> str:
    """Return a headline with the differences of both directions, which their signs tell."""
    pair = f"{first.where['log']} less {first.where['against']}"
    here = f"{span(first)}{radius_words(first) or ' of the average radius'}"
    if "radius" not in other.where or "radius" not in first.where:
        there = f"but {span(other)}{radius_words(other) or ' of the average radius'}"
        return fitting(f"{pair}: {here}, {there}.", f"Less the first log: {here}, {there}.")
    named, beyond = "Certified accuracy, ", _beyond(other, counts)
    near, far = f"but {span(other)}{radius_words(other)}", f"{span(other)} at {float(other.where['radius']):g}"
    return fitting(
        *([] if beyond else [f"{named}{pair}: {here}, {near}."]),
        f"{named}{pair}: {here}; {far}{beyond}.",
        f"{pair}: {here}; {far}{beyond}.",
        f"{pair}: {here}, but {far}.",
        f"Less the first log: {here}; {far}.",
    )


def _beyond(row: Estimate, counts: LogCounts) -> str:
    """Return which log cannot reach the radius of a row, as few words."""
    names = counts.beyond(row.where)
    return f", beyond {listed(names)}" if names else ""


def _unreached(row: Estimate, counts: LogCounts) -> str:
    """Return which log cannot reach the radius of a row, as a clause."""
    names = counts.beyond(row.where)
    return f", which {listed(names)} cannot reach" if names else ""


def _reason(rows: Sequence[Estimate], counts: LogCounts) -> str:
    """Return how far the logs reach of which a headline says that they do not reach a radius."""
    names = dict.fromkeys(name for row in rows for name in counts.beyond(row.where))
    ends = [f"{name} ends at {bounded(counts.reaches[name], 4, up=True)}" for name in names]
    return f" By its settings {listed(ends)}: it is 0 beyond." if ends else ""


def _holm(draft: Draft, row: Estimate) -> Estimate:
    return draft.row("p_value", test=row.name.removesuffix("_difference"), correction="holm", **row.where)


def first_row(rows: Sequence[Estimate]) -> Estimate:
    """Return the row of the smallest positive radius: radius 0 asks for the right answer alone."""
    return next((row for row in rows if float(row.where.get("radius", 0)) > 0), rows[0])


def measure_of(row: Estimate) -> str:
    """Return what a row or a difference is of, to begin a sentence."""
    names = {ACCURACY: "Certified accuracy", RADIUS: "The average certified radius", PREDICTED: "Accuracy"}
    return names[row.name.removesuffix("_difference")]


def radius_words(row: Estimate) -> str:
    """Return the radius of a row to follow its number; nothing for one without a radius."""
    return f" at radius {float(row.where['radius']):g}" if "radius" in row.where else ""


def over_common(row: Estimate) -> str:
    """Return what the intervals are over, as a sentence."""
    return f"Intervals are over the {row.n:,} images that all logs have."


def _at_radius(row: Estimate) -> str:
    return radius_words(row).strip() or "of the average certified radius"
