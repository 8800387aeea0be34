"""Findings on differences of certified accuracy between classes, and between the groups of a column."""

from collections.abc import Mapping, Sequence

from audits.certification.parts import LEAST
from audits.certification.rules import Rule
from audits.certification.wording import accuracy_at
from audits.core.context import Draft
from audits.core.records import Estimate
from audits.core.wording import fitting, listed, span
from audits.group_rates.wording import compared, levels_of, spoken
from audits.statistics import clopper_pearson


def find_differences(draft: Draft, rule: Rule, groups: Mapping[str, Sequence[str]]) -> None:
    """Add findings on whether classes, and the groups of each column, differ at the middle radius.

    Told are differences by intervals that hold for all classes, or for all groups of one column, at once: each column
    is a family of its own, as each is a question of its own.

    Parameters
    ----------
    groups
        Column -> level of every image.
    """
    radius = rule.radii[len(rule.radii) // 2]
    rows = draft.select("certified_accuracy", radius=radius)
    _find_uneven(draft, [row for row in rows if "label" in row.where], "label", "classes")
    even: list[str] = []
    columns: list[str] = []
    bare: list[str] = []
    evidence: list[Estimate] = []
    for column, levels in sorted(groups.items()):
        names = {f"{column}={level}" for level in levels}
        own = [row for row in rows if row.where.get("group") in names]
        if len(own) < 2:
            bare.append(column)
        elif not _find_uneven(draft, own, "group", f"groups of {column}"):
            ends = _extremes(own)
            even.append(f"By {column}: {' to '.join(f'{span(row)} ({levels_of(_name(row))})' for row in ends)}.")
            columns.append(column)
            evidence += ends
    sentences = even
    if bare:
        sentences.append(f"Of {listed(bare)} nothing can be told: fewer than two groups have {LEAST} images.")
    if not sentences:
        return
    headline = fitting(f"Too few images to compare the groups of {listed(bare)}.", "Too few images to compare groups.")
    if columns:
        lowest = f": {span(evidence[0])} at the lowest" if len(columns) == 1 else ""
        headline = f"No difference in certified accuracy is shown by {listed(columns)}{lowest}."
    draft.find(
        "certify.even",
        "info",
        " ".join(sentences),
        evidence,
        headline=fitting(headline, f"No difference in certified accuracy is shown by {len(columns)} of the columns."),
        how_sure=f"At radius {radius:g}, by intervals that hold for all groups of one column at once (Bonferroni).",
    )


def _extremes(rows: Sequence[Estimate]) -> list[Estimate]:
    """Return the rows of the smallest and of the largest number."""
    ordered = sorted(rows, key=lambda row: row.value)
    return [ordered[0], ordered[-1]]


def _find_uneven(draft: Draft, rows: Sequence[Estimate], key: str, what: str) -> bool:
    """Add a finding on two parts whose intervals, corrected for all parts, do not overlap."""
    if len(rows) < 2:
        return False
    level = 1 - (1 - rows[0].level) / len(rows)
    wide = [(row, *clopper_pearson(round(row.value * row.n), row.n, level=level)) for row in rows]
    worst, _, most = min(wide, key=lambda item: item[2])
    best, least, _ = max(wide, key=lambda item: item[1])
    if most >= least:
        return False
    draft.find(
        "certify.uneven",
        "medium",
        f"The highest is {span(best)}, on {_called(best)}. Images: {worst.n:,} and {best.n:,}.",
        [worst, best],
        headline=_uneven_headline(worst, best),
        how_sure=f"The two differ also by intervals that hold for all {len(rows)} {what} at once (Bonferroni).",
        **{key: worst.where[key]},
    )
    return True


def _uneven_headline(worst: Estimate, best: Estimate) -> str:
    """Return the answer on two classes or groups that differ."""
    if "label" in worst.where:
        on = f"on {_name(worst)} than on {_name(best)}"
    else:
        on = compared(_name(worst), _name(best), "images")
    return fitting(
        f"Certified accuracy is lower {on}: it is {accuracy_at(worst)}.",
        f"Certified accuracy is lowest on {_name(worst)}: it is {accuracy_at(worst)}.",
        f"Certified accuracy is uneven: {accuracy_at(worst)} at the lowest.",
    )


def _called(row: Estimate) -> str:
    return _name(row) if "label" in row.where else spoken(_name(row), "images")


def _name(row: Estimate) -> str:
    return f"class {row.where['label']}" if "label" in row.where else str(row.where["group"])
