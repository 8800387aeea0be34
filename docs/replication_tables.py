"""The tables of docs/replications/*.json as they stand on their pages, and all of them together on the first."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

MARK, ALL = "<!-- replication -->", "<!-- replications -->"
FOLDER = Path(__file__).with_name("replications")
VERDICTS = ("confirmed", "refuted", "undecided")
FEW = 5
"""A verdict on so many units or fewer says so."""
Page = dict[str, Any]


def with_replications(markdown: str, stem: str) -> str:
    """Return a page with the table of its paper, or of all papers, in place of the mark."""
    if ALL in markdown:
        markdown = markdown.replace(ALL, _all())
    file = FOLDER / f"{stem}.json"
    if MARK in markdown and file.is_file():
        return markdown.replace(MARK, _one(json.loads(file.read_text(encoding="utf-8")), stem))
    return markdown


def _one(page: Page, stem: str) -> str:
    made = page["made"]
    lines = ["| verdict | claim | found | measured here |", "| --- | --- | --- | --- |"]
    for row in page["claims"]:
        says = f"{row['says']} *({row['source']})*"
        measured = row["measured"] or f"Not tried: {row['untried']}"
        lines.append(f"| {_verdict(row)} | {says} | {_found(row)} | {measured} |")
    told = (
        f"Measured at revision {made['revision']}, torch {made['torch']}; the last run took "
        f"{_time(made['cpu_seconds'])} of one processor, beside what earlier ones had kept. "
        f"[All numbers as JSON]({stem}.json). *n* counts the units of an interval, or what was counted."
    )
    return "\n".join([*lines, "", told])


def _all() -> str:
    lines = ["| paper | confirmed | refuted | undecided | of those decided, ours |", "| --- | ---: | ---: | ---: | ---: |"]
    total: Counter[str] = Counter()
    for file in sorted(FOLDER.glob("*.json")):
        page = json.loads(file.read_text(encoding="utf-8"))
        counts = Counter(row["verdict"] for row in page["claims"])
        counts["ours"] = sum(_ours(page["claims"]))
        total += counts
        name = f"[{page['paper']['title']}]({file.stem}.md), {page['paper']['by']}"
        lines.append(f"| {name} | " + " | ".join(str(counts[one]) for one in (*VERDICTS, "ours")) + " |")
    lines.append("| **all** | " + " | ".join(f"**{total[one]}**" for one in (*VERDICTS, "ours")) + " |")
    return "\n".join(lines)


def _ours(rows: list[Page]) -> list[bool]:
    """Return of each row whether it is decided by a reading, border or comparison that its source calls ours.

    >>> told = ("abstract", "our control", "as above", "abstract; the border is ours", "four layers")
    >>> _ours([{"source": source, "verdict": "refuted"} for source in told])
    [False, True, True, True, False]
    """
    found: list[bool] = []
    for row in rows:
        of_us = bool(re.search(r"\bours?\b", row["source"]))
        if "as above" in row["source"] and found:
            of_us = of_us or found[-1]
        found.append(of_us)
    return [one and row["verdict"] != "undecided" for one, row in zip(found, rows, strict=True)]


def _found(row: Page) -> str:
    found, wanted = row["found"], row["wanted"]
    if found is None:
        return "-"
    ends = [found[name] for name in ("value", "low", "high")]
    # An end that rounds to the border would show a verdict that does not follow.
    digits = 3 if {_number(end) for end in ends}.isdisjoint(map(_number, wanted.values())) else 4
    value, low, high = (_number(end, digits) for end in ends)
    text = value if found["level"] is None else f"{value} ({low} to {high}, {100 * found['level']:.1f} %)"
    sides = [f"{side} {_number(border)}" for side, border in wanted.items()]
    return f"{text}; n = {found['n']:,} {found['unit']}; {found['method']}. Wanted: {' and '.join(sides)}"


def _number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits.

    >>> [_number(one) for one in (0.12345, 1234.5, 0.0, 3e-14)]
    ['0.123', '1,234', '0', '3e-14']
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _time(seconds: int) -> str:
    return f"{seconds} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _verdict(row: Page) -> str:
    """Return the verdict; of one that rests on few units, on how many.

    >>> found = {"level": 0.99, "n": 3, "unit": "seeds"}
    >>> _verdict({"verdict": "refuted", "found": found}), _verdict({"verdict": "refuted", "found": {**found, "n": 9}})
    ('**refuted**, by 3 seeds', '**refuted**')
    """
    found = row["found"]
    if row["verdict"] == "undecided":
        return "undecided"
    sampled = found["level"] is not None and found["n"] <= FEW
    return f"**{row['verdict']}**" + (f", by {found['n']} {found['unit']}" if sampled else "")
