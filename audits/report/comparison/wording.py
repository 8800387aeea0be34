"""Sentences and numbers of a comparison, the same in the terminal, on the page and in JSON."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from audits.core.numbers import coordinate, is_bound, is_rounded, point, written
from audits.core.numbers import decimals as decimals_of
from audits.core.records import Coordinate, Estimate
from audits.core.wording import many, p_words
from audits.report.comparison.apart import apart
from audits.report.comparison.changes import Change, key_of
from audits.report.comparison.comparing import Comparison
from audits.report.comparison.renaming import OPTION

MOST_NAMED, MOST_KINDS = 3, 6
"""Estimates that are named one by one, or names by what they share; and most names that are counted."""


def heading(found: Comparison) -> str:
    """Return the heading: what changed, in one sentence, or in two where there are exact numbers too."""
    return counted([found])


def overall(comparisons: Sequence[Comparison]) -> str:
    """Return what changed in all later runs together."""
    return f"{over(comparisons)}: {counted(comparisons)}"


def over(comparisons: Sequence[Comparison]) -> str:
    """Return which runs are compared."""
    first, later = comparisons[0].before.name, comparisons
    return f"{later[0].after.name if len(later) == 1 else f'{len(later)} later runs'} against {first}"


def counted(comparisons: Sequence[Comparison]) -> str:
    """Count the estimates that changed, and in which direction."""
    return " ".join(sentences(comparisons))


def sentences(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the sentences that count what changed: estimates with intervals, then exact numbers."""
    rows = [row for one in comparisons for row in one.rows]
    if not rows:
        return ["No number whose change can be told stands in both runs: nothing is compared."]
    tested = [row for row in rows if row.p is not None]
    exact = [row for row in rows if row.exact]
    parts = []
    if tested or not exact:
        noun = "estimates" if len(comparisons) == 1 else "changes"
        verb = "changed significantly" if len(comparisons) == 1 else "are significant"
        parts.append(f"{_changed(tested):,} of {len(tested):,} {noun} {verb}{_directions(tested)}.")
    if exact:
        kind = "exact or proved" if any(map(_is_proved, exact)) else "exact"
        numbers = many(len(exact), f"{kind} number", f"{kind} numbers")
        judged = any(row.is_regression or row.is_improvement for row in exact)
        parts.append(f"Of {numbers}, {_changed(exact)} changed{_directions(exact) if judged else ''}.")
    return parts


def brief(found: Comparison) -> str:
    """Return the count of what changed in one run for a line of a table; exact numbers where there are no others."""
    tested = [row for row in found.rows if row.p is not None]
    if found.same or not tested:
        return "the same run" if found.same else sentences([found])[0]
    return f"{_changed(tested):,} of {len(tested):,} changed{_directions(tested)}".replace("with no direction", "other")


def _changed(rows: Sequence[Change]) -> int:
    return sum(row.verdict == "changed" for row in rows)


def _directions(rows: Sequence[Change]) -> str:
    """Return how many of the changed rows got better and worse, after a colon; empty where none changed."""
    changed, worse = _changed(rows), sum(row.is_regression for row in rows)
    better = sum(row.is_improvement for row in rows)
    if not changed:
        return ""
    rest = changed - better - worse
    return f": {better} better, {worse} worse" + (f", {rest} with no direction" if rest else "")


def differences(found: Comparison) -> list[tuple[str, str]]:
    """Return the differences between the runs besides their numbers, as pairs of a word and its text."""
    kinds: dict[str, list[str]] = {}
    for word, name, old, new in facts(found):
        kinds.setdefault(word, []).append(f"{name} {apart(old, new)}".strip())
    return [(word, ", ".join(texts)) for word, texts in kinds.items()]


def facts(found: Comparison) -> Iterator[tuple[str, str, object, object]]:
    """Yield what differs between the runs besides their numbers: a word, a name, and both values."""
    other = found.differing
    there = {value for row in found.after.report.estimates for value in row.where.values()}
    for name, renamed in found.renames.items():
        if name in there:
            yield "names", "", renamed, name
    if other.model:
        old, new = (run.report.subject for run in (found.before, found.after))
        names = [(one.sha256[:12] or one.path) if one else "none" for one in (old, new)]
        yield "model", "", names[0], names[1]
    for role in other.data:
        yield "data", role, *_sources(found, role)
    inputs = _inputs(found)
    for name, before, after in other.settings:
        # That other data were read, and from where, is said already.
        if not (other.data and _names_only(before, inputs) and _names_only(after, inputs)):
            yield "settings", name, before, after
    if other.version:
        yield "version of miles", "", found.before.report.provenance.miles, found.after.report.provenance.miles
    for name, before, after in other.surroundings:
        yield "surroundings", name, before, after


def _sources(found: Comparison, role: str) -> tuple[object, object]:
    """Return the paths of a role in both runs, or their hashes where one path holds other things."""
    both = [[one for one in run.report.data if one.role == role] for run in (found.before, found.after)]
    paths, hashes = ([[getattr(one, name) for one in side] for side in both] for name in ("path", "sha256"))
    if paths[0] == paths[1]:
        paths = [[f"content {text[:12]}" for text in side] for side in hashes]
    old, new = (side[0] if len(side) == 1 else side or "none" for side in paths)
    return old, new


def notes(found: Comparison) -> list[str]:
    """Return the notes on the changes of one run: what was matched, and which estimates are in one run only."""
    lines = [_other_names(found, *names) for names in found.other_names]
    if found.records is None:
        lines.append(f"No change is paired: {found.why}. Both runs are taken as independent.")
    else:
        both, first, second = found.records
        lines.append(f"Records: {both:,} in both runs, {first:,} in the first only, {second:,} in the second only.")
        if first or second:
            lines.append("Before and after of a paired change are over the records that both runs hold.")
    lines += [f"{run.name}: {note}" for run in (found.before, found.after) for note in run.notes]
    lines += _alone(found)
    inputs = _inputs(found)
    settings = (setting for setting in found.differing.settings if setting[0] != "seed")
    if not all(_names_only(old, inputs) and _names_only(new, inputs) for _, old, new in settings):
        lines.append("The settings differ: where they change what is measured, a change is not one of the model.")
    return lines


def counts(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the notes on the changes of all runs together: what is not paired, and what has no interval."""
    rows = [row for found in comparisons if found.records is not None for row in found.rows]
    lines = []
    reasons = Counter(row.why for row in rows if row.why and row.difference is not None)
    if reasons:
        its = "its interval is" if reasons.total() == 1 else "their intervals are"
        noun = "row" if reasons.total() == 1 else "rows"
        lines.append(
            f"{reasons.total():,} {noun} could not be paired by record ({_why(reasons)}); {its} wider than needed."
        )
    bare = (row for found in comparisons for row in found.rows if row.difference is None)
    reasons = Counter(row.why or "a run gives none" for row in bare)
    if reasons:
        counted = many(reasons.total(), "change has", "changes have")
        lines.append(f"{counted} no interval, so that nothing can be said of them ({_why(reasons)}).")
    return lines


def _inputs(found: Comparison) -> set[str]:
    """Return the paths of all that was audited in either run."""
    reports = found.before.report, found.after.report
    paths = {source.path for report in reports for source in report.data}
    return paths | {report.subject.path for report in reports if report.subject}


def _names_only(value: object, inputs: set[str]) -> bool:
    """Tell whether a setting only names what was audited: a path, or a list such as `asr=path`."""
    if isinstance(value, list):
        return all(isinstance(item, str) and {item, item.partition("=")[2]} & inputs for item in value)
    return str(value) in inputs


def _why(reasons: Counter[str]) -> str:
    """Return reasons with their counts; a single one stands without."""
    if len(reasons) == 1:
        return next(iter(reasons))
    return "; ".join(f"{count}: {why}" for why, count in reasons.most_common())


def _alone(found: Comparison) -> list[str]:
    """Return the notes on estimates of one run only: which they are, and that few are shared."""
    lines = []
    for run, rows in zip((found.before, found.after), found.alone, strict=True):
        if rows:
            lines.append(f"In {run.name} only: {many(len(rows), 'estimate', 'estimates')} ({_named(rows)}).")
    most = min(len(run.report.estimates) for run in (found.before, found.after))
    shared = most - min(map(len, found.alone))
    if 0 < shared < most / 2:
        lines.append(f"Only {shared:,} of {most:,} estimates stand in both runs.")
    return lines


def _named(rows: Sequence[Estimate]) -> str:
    """Name estimates: each by itself where they are few, else by name, with what all of them or of a name share."""
    if len(rows) <= MOST_NAMED:
        return "; ".join(f"{row.name} [{_where(key_of(row)[1])}]" for row in rows)
    kinds: dict[str, list[Estimate]] = {}
    for row in rows:
        kinds.setdefault(row.name, []).append(row)
    if len(kinds) <= MOST_NAMED:
        return "; ".join(f"{len(alike)} {name}{_shared(alike, ' [{}]')}" for name, alike in kinds.items())
    first = sorted(kinds.items(), key=lambda kind: -len(kind[1]))[:MOST_KINDS]
    more = len(kinds) - len(first)
    named = ", ".join(f"{len(alike)} {name}" for name, alike in first)
    return f"{_shared(rows, 'all of {}: ')}{named}{f' and those of {more} further names' if more else ''}"


def _shared(rows: Sequence[Estimate], form: str) -> str:
    """Return the coordinates that all of the rows share, in a form; empty where there are none."""
    found = _where([pair for pair in key_of(rows[0])[1] if all(pair in row.where.items() for row in rows)])
    return form.format(found) if found else ""


def _other_names(found: Comparison, key: str, gone: Sequence[str], come: Sequence[str]) -> str:
    """Return the note that a coordinate has other names in each run, and how to match two of them."""
    runs = ((found.before, gone), (found.after, come))
    text = " and ".join(
        f"{', '.join(names[:MOST_NAMED])}{', ...' if len(names) > MOST_NAMED else ''} in {run.name} only"
        for run, names in runs
    )
    pair = shlex.quote(f"{gone[0]}={come[0]}") if len(gone) == len(come) == 1 else "OLD=NEW"
    return f"There is a {key} {text}: {OPTION} {pair} compares the two as one."


def basis(row: Change) -> str:
    """Return the basis of an interval, in words."""
    if row.difference is None:
        return "no interval"
    if row.exact:
        return "proved" if _is_proved(row) else "exact"
    if row.matched is None:
        return "independent"
    both, either = row.matched
    return f"paired by {both:,} of {either:,} records"


def paired(row: Change) -> str:
    """Return the number of records in both runs, for a narrow column."""
    if row.matched is None:
        return basis(row) if row.exact else "no"
    return "{:,}/{:,}".format(*row.matched)


def place(row: Change) -> str:
    """Return the coordinates as a gate writes them, with both names of what was renamed."""
    return _where(row.where, row.after.where)


def _where(where: Iterable[tuple[str, Coordinate]], later: Mapping[str, Coordinate] = MappingProxyType({})) -> str:
    parts = []
    for key, value in where:
        name, other = coordinate(value), coordinate(later.get(key, value))
        parts.append(f"{key}={name}" if name == other else f"{key}={name} → {other}")
    return ", ".join(parts)


def shown(row: Change) -> tuple[str, str, str]:
    """Return before, after and the change with its interval, with the digits that the interval bears."""
    value, low, high = row.difference or (row.moved, None, None)
    bare = row.difference is None or row.exact or row.verdict == "same"
    ends: dict[str, Any] = {"method": "exact"} if bare else {"low": low, "high": high, "method": "change"}
    places = decimals_of(Estimate(name=row.name, value=value, n=1, unit="", **ends))
    if bare:
        # A change of zero says nothing about decimals: take those of the two numbers.
        places = max(
            places, *(decimals_of(Estimate(name="", value=end, method="exact", n=1, unit="")) for end in row.values)
        )
    before, after = (
        # Bounds are rounded away from the truth here too, and given numbers are shown as given. A number has no fewer
        # digits than beside its own interval: the interval of a change is wider.
        written(number, max(places, decimals_of(report))) if is_rounded(report) else point(report)
        for number, report in zip(row.values, (row.before, row.after), strict=True)
    )
    if row.difference is None:
        return before, after, f"{written(value, places)}, no interval"
    if low is None or high is None or bare:
        return before, after, "same" if row.verdict == "same" else written(value, places)
    return before, after, f"{written(value, places)} ({written(low, places)} to {written(high, places)})"


def _is_proved(row: Change) -> bool:
    return is_bound(row.before) or is_bound(row.after)


def p_shown(row: Change) -> str:
    """Return the p-value after Holm for a column; empty where nothing is tested."""
    if row.p_holm is None:
        return ""
    return p_words(row.p_holm).removeprefix("= ")
