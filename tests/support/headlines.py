"""What every headline and answer must keep to: few words, and numbers that stand in the evidence."""

import re
from collections.abc import Mapping
from typing import Any

from audits.core.context import Claim, Draft
from audits.core.numbers import coordinate, interval, is_bound, point, written
from audits.core.records import HEADLINE_WORDS, KEY_NUMBERS, Estimate, Finding, Report

NUMBER = re.compile(r"(?<![\w.=])(?<!T = )-?\d[\d,]*\.\d+(?![\w.]*=)")
"""A number with decimals, as a sentence has it; a temperature is none."""


def says(finding: Claim | Finding | Mapping[str, Any]) -> str:
    """Return all that a finding says: headline, statement and how sure it is."""
    if isinstance(finding, Mapping):
        parts = [finding.get("headline", ""), finding["statement"], finding.get("how_sure", "")]
    else:
        parts = [finding.headline, finding.statement, finding.how_sure]
    return " ".join(part for part in parts if part)


def faults(report: Report | Draft) -> list[str]:
    """Return what breaks the rules of headlines and of the answer in a report, in words."""
    found = []
    for finding in report.numbered() if isinstance(report, Draft) else report.findings:
        rows = [report.estimates[index] for index in finding.evidence]
        shown = {text for row in rows for text in NUMBER.findall(f"{point(row)} ({interval(row)})".replace("-", ""))}
        shown |= {coordinate(value) for row in rows for value in row.where.values()}
        for number in NUMBER.findall(finding.headline.replace("-", "")):
            if rows and number not in shown and not any(_rounds_to(row, number) for row in rows):
                found += [f"{finding.id}: {number} of {finding.headline!r} is no number of its evidence"]
        found += _of(finding.id, finding.headline)
    if report.answer is not None:
        found += _of("answer", report.answer.title)
        found += ["too many key numbers"] if len(report.answer.numbers) > KEY_NUMBERS else []
    return found


def _rounds_to(row: Estimate, number: str) -> bool:
    """Tell whether a number is the value of a row in fewer digits, which no bound may lose."""
    return not is_bound(row) and written(abs(row.value), len(number.partition(".")[2])) == number


def _of(name: str, headline: str) -> list[str]:
    words = len(headline.split())
    faults: list[str] = []
    if not 0 < words <= HEADLINE_WORDS:
        faults.append(f"{name}: {words} words in {headline!r}")
    if headline and not headline.endswith("."):
        faults.append(f"{name}: {headline!r} is no sentence")
    if re.search(r"\w=\w|_", headline):
        faults.append(f"{name}: {headline!r} has a machine's name")
    return faults


STATEMENT_WORDS = 60
"""Most words of what a headline rests on."""
LISTS = ("groups.columns", "groups.skipped", "fairness.skipped")
"""Findings whose statement is a list of columns or of groups."""


def long_statements(report: Report) -> list[str]:
    """Return what breaks the rules of statements: length, machine names, the headline once more."""
    found = []
    for finding in report.findings:
        words = len(finding.statement.split())
        if words > STATEMENT_WORDS and finding.id not in LISTS:
            found.append(f"{finding.id}: {words} words in {finding.statement!r}")
        if re.search(r"\w=\w", finding.statement):
            found.append(f"{finding.id}: {finding.statement!r} has a machine's name")
        spans = re.findall(r"-?\d[\d.]* \([^)]* to [^)]*\)", finding.headline)
        found += [f"{finding.id}: {size} stands twice" for size in spans if size in finding.statement]
    return found
