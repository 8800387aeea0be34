"""Sentences and numbers of a comparison, the same in the terminal, on the page and in JSON."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from audits.core.numbers import coordinate, is_bound, is_rounded, percent, point, written
from audits.core.numbers import decimals as decimals_of
from audits.core.records import Coordinate, Estimate
from audits.core.wording import many, p_words
from audits.report.comparison.changes import Change, Where, key_of
from audits.report.comparison.comparing import Comparison
from audits.report.comparison.renaming import OPTION
from audits.report.pages.content import setting

SCHEMA = "miles.comparison/1"
MOST_LETTERS = 60
AROUND = 12
"""Letters that are shown before and after the part in which two long texts differ."""
MOST_NAMED = 3


def heading(found: Comparison) -> str:
    """Return the heading: what changed, in one sentence."""
    rows = found.rows
    if not rows:
        return "No number whose change can be told stands in both runs: nothing is compared."
    tested = [row for row in rows if row.p is not None]
    holding = sum(row.verdict == "changed" for row in tested)
    exact = [row for row in rows if row.exact]
    parts = [f"{holding} of {len(tested)} changes {'holds' if holding == 1 else 'hold'} after Holm"]
    parts[0] += f" ({percent(found.level)} intervals, each on its own)"
    if exact:
        moved = sum(row.verdict == "changed" for row in exact)
        kind = "exact or proved" if any(map(_is_proved, exact)) else "exact"
        parts.append(f"of {many(len(exact), f'{kind} number', f'{kind} numbers')}, {moved} changed")
    worse = sum(row.is_regression for row in rows)
    better = sum(row.is_improvement for row in rows)
    return "; ".join([*parts, f"{many(worse, 'number', 'numbers')} got worse, {better} better"]) + "."


def differences(found: Comparison) -> list[tuple[str, str]]:
    """Return the differences between the runs besides their numbers, as pairs of a word and its text."""
    other = found.differing
    parts = []
    if found.renames:
        parts.append(("names", ", ".join(f"{old} → {new}" for new, old in found.renames.items())))
    if other.model:
        subjects = [run.report.subject for run in (found.before, found.after)]
        parts.append(("model", " → ".join(one.sha256[:12] if one else "none" for one in subjects)))
    if other.data:
        parts.append(("data", ", ".join(other.data)))
    if other.settings:
        parts.append(("settings", ", ".join(f"{key} {_apart(old, new)}" for key, old, new in other.settings)))
    if other.version:
        versions = (run.report.provenance.miles for run in (found.before, found.after))
        parts.append(("version of miles", " → ".join(versions)))
    if other.surroundings:
        texts = (f"{name} {_apart(old, new)}" for name, old, new in other.surroundings)
        parts.append(("surroundings", ", ".join(texts)))
    return parts


def _apart(old: object, new: object) -> str:
    """Return two values, long ones cut to the part in which they differ.

    >>> _apart(0.25, 0.5)
    '0.25 → 0.5'
    >>> folder = "asr=/data/of/a/long/project/with/predictions/of/2026/"
    >>> _apart(f"{folder}deepspeech-0.5.1.tsv", f"{folder}deepspeech-0.6.0.tsv")
    '…eepspeech-0.5.1.tsv → …eepspeech-0.6.0.tsv'
    """
    texts = [setting(old), setting(new)]
    if max(map(len, texts)) <= MOST_LETTERS:
        return " → ".join(texts)
    start = _alike(*texts)
    end = _alike(*(text[start:][::-1] for text in texts))
    first, behind = max(0, start - AROUND), max(0, end - AROUND)
    return " → ".join(_cut(text, first, len(text) - behind) for text in texts)


def _alike(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    apart = (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(apart, min(len(one), len(other)))


def _cut(text: str, first: int, last: int) -> str:
    inside = text[first:last]
    if len(inside) > MOST_LETTERS:
        inside = f"{inside[: MOST_LETTERS // 2]}…{inside[-MOST_LETTERS // 2 :]}"
    return ("…" if first else "") + inside + ("…" if last < len(text) else "")


def notes(found: Comparison) -> list[str]:
    """Return the notes on the changes: how they were computed, and which estimates have none."""
    lines = []
    if found.records is None:
        lines.append(f"No change is paired: {found.why}. Both runs are taken as independent.")
    else:
        both, first, second = found.records
        lines.append(f"Records: {both:,} in both runs, {first:,} in the first only, {second:,} in the second only.")
        if first or second:
            lines.append("Before and after of a paired change are over the records that both runs hold.")
        reasons = Counter(row.why for row in found.rows if row.why and row.difference is not None)
        lines += [
            f"{many(count, 'row rests', 'rows rest')} on the two intervals alone: {why}."
            for why, count in reasons.most_common()
        ]
    bare = sum(row.difference is None for row in found.rows)
    if bare:
        lines.append(f"{bare} of {len(found.rows)} changes have no interval: nothing can be said of them.")
        reasons = Counter(row.why for row in found.rows if row.why and row.difference is None)
        lines += [f"{many(count, 'change has', 'changes have')} none: {why}." for why, count in reasons.items()]
    for run, rows in zip((found.before, found.after), found.alone, strict=True):
        if rows:
            named = "; ".join(f"{row.name} [{_where(key_of(row)[1])}]" for row in rows[:MOST_NAMED])
            more = "; ..." if len(rows) > MOST_NAMED else ""
            lines.append(f"In {run.name} only: {many(len(rows), 'estimate', 'estimates')} ({named}{more}).")
    lines += [_other_names(found, *names) for names in found.other_names]
    inputs = {source.path for run in (found.before, found.after) for source in run.report.data}
    inputs |= {run.report.subject.path for run in (found.before, found.after) if run.report.subject}
    # Settings that name the audited files are reported as a change of model or data, not of settings.
    if any(name != "seed" and not inputs >= {str(old), str(new)} for name, old, new in found.differing.settings):
        lines.append("The settings differ: where they change what is measured, a change is not one of the model.")
    return lines


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


def _where(where: Where, later: Mapping[str, Coordinate] = MappingProxyType({})) -> str:
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
        # Bounds are rounded away from the truth here too, and given numbers are shown as given.
        written(number, places) if is_rounded(report) else point(report)
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


def to_json(comparisons: list[Comparison]) -> dict[str, Any]:
    """Return comparisons with one first run as plain values."""
    first = comparisons[0].before
    return {"schema": SCHEMA, "audit": first.report.audit, "before": first.name, "runs": [*map(_run, comparisons)]}


def _run(found: Comparison) -> dict[str, Any]:
    other = found.differing
    records = None if found.records is None else dict(zip(("both", "before", "after"), found.records, strict=True))
    return {
        "after": found.after.name,
        "same": found.same,
        "level": found.level,
        "statement": heading(found),
        "notes": notes(found),
        "differing": {
            "model": other.model,
            "data": list(other.data),
            "settings": [{"name": key, "before": old, "after": new} for key, old, new in other.settings],
            "version": other.version,
            "surroundings": [{"name": name, "before": old, "after": new} for name, old, new in other.surroundings],
        },
        "records": records,
        "estimates_in_one_run": dict(zip(("before", "after"), map(len, found.alone), strict=True)),
        "renamed": [{"before": old, "after": new} for new, old in found.renames.items()],
        "changes": [_change(row) for row in found.rows],
    }


def _change(row: Change) -> dict[str, Any]:
    value, low, high = row.difference or (row.moved, None, None)
    return {
        "name": row.name,
        "where": dict(row.where),
        "before": row.values[0],
        "after": row.values[1],
        "change": value,
        "low": low,
        "high": high,
        "p": row.p,
        "p_holm": row.p_holm,
        "verdict": row.verdict,
        "worse": row.is_regression,
        "paired": None if row.matched is None else {"matched": row.matched[0], "of": row.matched[1]},
        "why": row.why,
    }
