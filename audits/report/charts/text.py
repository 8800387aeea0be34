"""Text on a chart: plain rows, number formats that keep ticks distinct, and line breaks of long names and titles."""

import math
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from audits.core.records import Json

Rows = Sequence[Mapping[str, Any]]

LONGEST_LINE = 24
LONGEST_TITLE = 40
TICKS = 6
"""Number of ticks that an axis is asked for."""

LEAST_SHARE = 0.2
"""Panels of which one spans less than this share of another have an axis each."""

DIGITS = re.compile(r"\.(\d+)(~?)([f%])")


def plain_rows(rows: Iterable[Mapping[str, Any]], *needed: str) -> list[Json]:
    """Copy the rows as plain JSON, without those that lack a number under a needed key.

    Six digits are more than a chart can show and keep the page small.
    """
    copied = ({key: plain(value) for key, value in row.items()} for row in rows)
    return [row for row in copied if all(row.get(key) is not None for key in needed)]


def plain(value: Any) -> Any:
    """Return a value as plain JSON, numbers with six digits at most; None for NaN and infinity.

    Examples
    --------
    >>> plain(1 / 3), plain("head"), plain(float("inf"))
    (0.333333, 'head', None)
    """
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, list | tuple):
        return [plain(part) for part in item]
    if not isinstance(item, float):
        return item
    return float(f"{item:.6g}") if math.isfinite(item) else None


def distinct(rows: Iterable[Json], field: str) -> list[Any]:
    """Return the distinct values under a key, in order of appearance."""
    return list(dict.fromkeys(row[field] for row in rows if row.get(field) is not None))


def numeric(rows: Iterable[Json], field: str) -> bool:
    """Tell whether a key has values, all of them numbers."""
    found = [row[field] for row in rows if row.get(field) is not None]
    return bool(found) and all(isinstance(number, int | float) and not isinstance(number, bool) for number in found)


def span_of(rows: Iterable[Json], fields: Sequence[str], *, zero: bool = False) -> tuple[float, float]:
    """Return the least and the greatest number under these keys, with 0 among them where `zero`; 0 and 0 for none."""
    found = [row[field] for row in rows for field in fields if isinstance(row.get(field), int | float)]
    found += [0.0] * zero
    return (min(found), max(found)) if found else (0.0, 0.0)


def height_of(steps: Sequence[Any], least: int = 20) -> int:
    """Return the height of a chart of one row per step, as a total, since a step height fits no page's width."""
    return len(steps) * max(least, 13 * most_lines(steps) + 8)


def panels_of(rows: list[Json], facet: str | None) -> list[list[Json]]:
    """Return the rows of each panel of a chart, or all rows where it has no panels."""
    return [rows] if facet is None else [[r for r in rows if r[facet] == panel] for panel in distinct(rows, facet)]


def alike(spans: Sequence[tuple[float, float]]) -> bool:
    """Tell whether the ranges of panels are similar enough for one axis.

    Examples
    --------
    >>> alike([(0.0, 1.0), (0.0, 0.3)]), alike([(0.0, 1.0), (0.0, 0.1)])
    (True, False)
    """
    widths = [high - low for low, high in spans]
    return min(widths, default=0.0) >= LEAST_SHARE * max(widths, default=0.0)


def finer(format: str, low: float, high: float) -> str:
    """Return a number format with as many decimals as ticks from `low` to `high` need to differ.

    The step s = (high - low) / 6 is rounded to 1, 2, 5 or 10 times 10^k, k = floor(log10 s), as d3 does.

    Examples
    --------
    >>> finer(".2f", 0.0, 1.0), finer(".2f", 0.8981, 0.8984), finer(".0%", 0.5, 0.52)
    ('.2f', '.5f', '.1%')
    """
    shape = DIGITS.fullmatch(format)
    if shape is None or not high > low:
        return format
    # As d3 chooses ticks: from sqrt(50) on, the step is rounded up to the next power of ten.
    power = math.floor(math.log10((high - low) / TICKS) + 1 - math.log10(math.sqrt(50)))
    return f".{max(int(shape[1]), -power - (2 if shape[3] == '%' else 0))}{shape[2]}{shape[3]}"


def decimals_of(format: str) -> int:
    """Return the number of decimals of a number format; 0 where it names none."""
    shape = DIGITS.fullmatch(format)
    return int(shape[1]) if shape else 0


def shown(number: float, format: str) -> str:
    """Return a number in a d3 format, as far as Python has the same format.

    Examples
    --------
    >>> shown(0.9996, ".2f"), shown(0.25, ".0%"), shown(2.5, "")
    ('1.00', '25%', '2.50')
    """
    try:
        return f"{number:{(format or '.2f').replace('~', '')}}"
    except ValueError:
        return f"{number:.3g}"


def one_tone(title: str, texts: Collection[str], faded: bool) -> str:
    """Return the replacement of a legend where all cells of a heat map are equal.

    Examples
    --------
    >>> one_tone("Word error rate", {"1.00"}, faded=False)
    'Word error rate: 1.00 in all cells'
    """
    if not texts:
        return title
    return f"{title}: {min(texts)} in all cells" + (" that are not faded" if faded else "")


def titled(text: str) -> str | list[str]:
    """Return the title of a legend, in lines where it is long."""
    return textwrap.wrap(text, LONGEST_TITLE) if len(text) > LONGEST_TITLE else text


def wrapped(text: str) -> str:
    """Return a Vega expression that breaks a long intersection after each `&`."""
    return f"length({text}) > {LONGEST_LINE} ? split(replace({text}, /&/g, '&\\n'), '\\n') : {text}"


def lifts(lines: int) -> list[Json]:
    """Return the conditions that centre a label of up to `lines` lines on its row."""
    long = f"length(datum.label) > {LONGEST_LINE}"
    return [
        {"test": f"{long} && length(split(datum.label, '&')) == {count}", "value": -6.5 * (count - 1)}
        for count in range(2, lines + 1)
    ]


def most_lines(labels: Iterable[Any]) -> int:
    """Return the number of lines of the longest of these labels."""
    return max((str(text).count("&") + 1 for text in labels if len(str(text)) > LONGEST_LINE), default=1)
