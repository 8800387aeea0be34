"""The figure and the table of the words that are most often taken for others."""

from collections.abc import Sequence

from audits.core.numbers import percent
from audits.core.records import Estimate, Figure, Json
from audits.core.wording import span
from audits.group_rates.wording import spoken
from audits.report.charts import Axis, bars, figure_of, with_table
from audits.speaker_groups.confusions import Confusion, Excess, excesses
from audits.speaker_groups.figure_parts import distinct, named_apart, short
from audits.speaker_groups.measure import Counts

MOST_SYSTEMS = 4
NOTHING = "(nothing)"
COLUMNS = ("said", "written", "times", "of", "by", "more often on")
"""Titles of the table, after that of the system."""


def confused(counts: Counts) -> Figure | None:
    """Return the figure of the most frequent confusions of each system; None where only counts are known."""
    systems = counts.confusions[:MOST_SYSTEMS]
    if not any(systems):
        return None
    data = counts.data
    found = excesses(data, systems, least=counts.options.min_speakers, level=counts.level)
    several = len(data.systems) > 1
    names = named_apart(data.systems)
    drawn: list[Json] = []
    rows: list[list[str | int]] = []
    for name, whole, confusions, groups in zip(names, data.systems, systems, found, strict=False):
        for label, one, more in zip(_labels(confusions), confusions, groups, strict=True):
            drawn.append({"panel": name, "label": label, "kind": one.kind, "times": one.times})
            rows.append([*([whole] if several else []), *_row(counts, one, more)])
    columns = [(title, title) for title in (*(("system",) if several else ()), *COLUMNS)]
    spec = bars(
        drawn, label="label", value=Axis("times", "Times", "d"), series="kind", facet="panel" if several else None
    )
    caption = (
        "The most frequent errors of each system: what was said and what was written, one alignment of the fewest "
        "edits. In the table: how often, of how many occurrences of the word (of all words, where one was put in), "
        f"and by how many {data.unit}. A group is named where the share is higher on it than on all others together: "
        f"the difference with an interval at {percent(counts.level)} for all that was looked at."
    )
    left = len(data.systems) - len(systems)
    if left > 0:
        caption += f" Of the first {len(systems)} systems; {left} more {'are' if left > 1 else 'is'} not drawn."
    title = "Which words are most often taken for others?"
    spec = with_table(spec, columns, rows)
    return figure_of("confusions", title, caption, spec)


def _labels(confusions: Sequence[Confusion]) -> list[str]:
    return distinct(f"{short(one.said or NOTHING)} → {short(one.written or NOTHING)}" for one in confusions)


def _row(counts: Counts, one: Confusion, more: Sequence[Excess]) -> list[str | int]:
    data = counts.data
    people = f"{one.speakers(data.speakers):,} {data.unit}"
    chances = int(one.chances.counts.sum())
    where = [
        f"{spoken(group.group, data.unit)}: by {difference_words(group, data.unit)}, {group.speakers} {data.unit}"
        for group in more[:1]
    ]
    if len(more) > 1:
        where.append(f"and {len(more) - 1} more")
    return [one.said or NOTHING, one.written or NOTHING, one.times, chances, people, "; ".join(where)]


def difference_words(group: Excess, unit: str) -> str:
    """Return a difference with the digits of its interval: of all words, one put in is so rare that three are zeros.

    >>> difference_words(Excess(group="a=x", value=0.0021, low=0.0004, high=0.0038, speakers=9), "speakers")
    '0.0021 (0.0004 to 0.0038)'
    """
    row = Estimate(
        name="excess",
        value=group.value,
        low=group.low,
        high=group.high,
        method="difference",
        n=group.speakers,
        unit=unit,
    )
    return span(row)
