"""Findings on differences of certified accuracy between classes, and between the groups of a column."""

from collections.abc import Mapping, Sequence

from audits.certification.parts import LEAST
from audits.certification.rules import Rule
from audits.core.context import Draft
from audits.core.numbers import described
from audits.core.records import Estimate
from audits.core.wording import listed
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
    bare: list[str] = []
    evidence: list[Estimate] = []
    for column, levels in sorted(groups.items()):
        names = {f"{column}={level}" for level in levels}
        own = [row for row in rows if row.where.get("group") in names]
        if len(own) < 2:
            bare.append(column)
        elif not _find_uneven(draft, own, "group", f"groups of {column}"):
            ends = _extremes(own)
            even.append(f"{column} ({' to '.join(f'{_name(row)} {described(row)}' for row in ends)})")
            evidence += ends
    sentences = []
    if even:
        sentences.append(
            f"No difference of certified accuracy at radius {radius:g} is shown between the groups of "
            f"{', '.join(even)}."
        )
    if bare:
        sentences.append(f"Of {listed(bare)} nothing can be told: fewer than two groups have {LEAST} images.")
    if sentences:
        draft.find("certify.even", "info", " ".join(sentences), evidence)


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
        f"The certificates are uneven over {what}: at radius {float(worst.where['radius']):g}, {_name(worst)} has "
        f"{described(worst)}, and {_name(best)} {described(best)}; the two differ also by "
        f"intervals that hold for all {len(rows)} {what} at once.",
        [worst, best],
        **{key: worst.where[key]},
    )
    return True


def _name(row: Estimate) -> str:
    return f"class {row.where['label']}" if "label" in row.where else str(row.where["group"])
