"""Clips in records.csv and in the report: used and left-out clips by speaker, and keys that pair two runs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from audits.core.context import Draft
from audits.core.groups import GroupSet
from audits.core.records import Coverage, GroupCounts, Skipped
from audits.report.comparison.parts import Rows
from probes.speech.manifests import Clip, Clips

Left = Sequence[tuple[Clip, str]]
"""Clips that were left out, with the reason."""


def reasons_of(skipped: Left) -> tuple[Skipped, ...]:
    """Return the number of clips left out for each reason."""
    counts = Counter(reason for _, reason in skipped)
    return tuple(Skipped(reason=reason, count=count) for reason, count in sorted(counts.items()))


def coverage_of(used: int, skipped: Left, groups: Sequence[GroupCounts] = ()) -> Coverage:
    """Return the number of clips used, of those left out for each reason, and what is of each group."""
    return Coverage(given=used + len(skipped), used=used, skipped=reasons_of(skipped), groups=tuple(groups))


def find_skipped(
    draft: Draft, id: str, used: Sequence[Clip], skipped: Left, sets: Sequence[GroupSet], *, most: int | None = None
) -> None:
    """Warn of the clips that were left out, why and of whom: by level, those that lost the largest share first."""
    if not skipped:
        return
    reasons = ", ".join(f"{item.count} {item.reason}" for item in reasons_of(skipped))
    whom = []
    for by in [groups.by for groups in sets if "&" not in groups.by]:
        lost = Counter(clip.attributes[by] for clip, _ in skipped)
        given = lost + clips_by_level(used, by)
        names = sorted(given)
        if most is not None:
            names = sorted(lost, key=lambda name: (-lost[name] / given[name], name))[:most]
        whom.append(f"by {by}, " + ", ".join(f"{lost[name]} of {given[name]} {name}" for name in names))
    draft.find(
        id,
        "info",
        f"Why: {reasons}. Of whom: {'; '.join(whom)}.",
        headline=f"{len(skipped):,} of {len(used) + len(skipped):,} clips were left out.",
    )


def clips_by_level(clips: Sequence[Clip], attribute: str) -> Counter[str]:
    """Return how many clips have each level of an attribute."""
    if not isinstance(clips, Clips):
        return Counter(clip.attributes[attribute] for clip in clips)
    column = clips.each_level(attribute)
    counts = np.bincount(column.codes, minlength=len(column.levels)).tolist()
    return Counter({str(level): count for level, count in zip(column.levels, counts, strict=True) if count})


def column_of(attribute: str, fixed: Sequence[str], starts: tuple[str, ...] = ()) -> str:
    """Return the column name of an attribute in records.csv, distinct from the fixed columns."""
    return f"attribute_{attribute}" if attribute in fixed or attribute.startswith(starts) else attribute


def row_of(clip: Clip, status: str, column: Callable[[str], str], **more: Any) -> dict[str, Any]:
    """Return a row of records.csv: clip, speaker, use, further values, and the attributes by their columns."""
    known = {"path": clip.name, "line": clip.line, "speaker": clip.speaker or "", "status": status, **more}
    return known | {column(name): level for name, level in clip.attributes.items()}


def rows_of_left(
    skipped: Left, rows: Sequence[Mapping[str, Any]], column: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return the rows of left-out clips, with the columns of the used ones."""
    empty = dict.fromkeys(rows[0], "")
    return [empty | row_of(clip, reason, column) for clip, reason in skipped]


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return the key of each used clip: its path or, where paths are missing or repeat, its line in the manifest."""
    known, named = _known(rows)
    used = rows.text["status"] == "used"
    return [key if mine else None for key, mine in zip(known, used, strict=True)], () if named else ("manifest",)


def units(rows: Rows) -> Sequence[str]:
    """Return the speaker of each clip; a clip without one is its own unit."""
    return [who or f"\n{clip}" for who, clip in zip(rows.text["speaker"], _known(rows)[0], strict=True)]


def _known(rows: Rows) -> tuple[Sequence[str], bool]:
    paths = rows.text["path"].tolist()
    named = all(paths) and len(set(paths)) == len(paths)
    return (paths if named else rows.text["line"].tolist()), named
