"""Groups of speakers: the levels of attributes, their intersections, and who belongs to each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

UNKNOWN = "unknown"
ALL = "all"
MIN_WORDS = 100
"""Reference words, or characters, below which a group is not compared and its rate is marked as based on too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSet:
    """The groups of one attribute, or of several crossed.

    Parameters
    ----------
    by
        The attributes in alphabetical order, joined by `&`.
    names
        Names of the groups, such as `accent=indian&gender=female`.
    member
        Group of each clip, shape (clips,); -1 where an attribute is unknown.
    """

    by: str
    names: tuple[str, ...]
    member: NDArray[np.int64]

    @property
    def masks(self) -> NDArray[np.bool_]:
        """Membership of clips in groups, shape (groups, clips)."""
        inside: NDArray[np.bool_] = self.member[None] == np.arange(len(self.names))[:, None]
        return inside


def group_sets(attributes: Sequence[Mapping[str, str]], by: Sequence[str], *, max_order: int) -> list[GroupSet]:
    """Return the groups of every attribute and of every crossing of up to `max_order` attributes.

    Examples
    --------
    >>> rows = [{"gender": "f", "age": "old"}, {"gender": "m", "age": "old"}, {"gender": "f", "age": "unknown"}]
    >>> for groups in group_sets(rows, ["gender", "age"], max_order=2):
    ...     print(groups.by, groups.names, groups.member.tolist())
    age ('age=old',) [0, 0, -1]
    gender ('gender=f', 'gender=m') [0, 1, 0]
    age&gender ('age=old&gender=f', 'age=old&gender=m') [0, 1, -1]
    """
    # Sorted, so that the name of a crossing does not depend on the order of --by.
    columns = sorted(set(by))
    crossings = [
        names for order in range(1, min(max_order, len(columns)) + 1) for names in combinations(columns, order)
    ]
    return [_cross(attributes, names) for names in crossings]


def _cross(attributes: Sequence[Mapping[str, str]], columns: tuple[str, ...]) -> GroupSet:
    labels = [
        None if any(row[name] == UNKNOWN for name in columns) else "&".join(f"{name}={row[name]}" for name in columns)
        for row in attributes
    ]
    names = tuple(sorted({label for label in labels if label is not None}))
    index_of = {name: index for index, name in enumerate(names)}
    return GroupSet(
        by="&".join(columns),
        names=names,
        member=np.array([-1 if label is None else index_of[label] for label in labels], dtype=np.int64),
    )


def reported_groups(
    attributes: Sequence[Mapping[str, str]], sets: Sequence[GroupSet]
) -> tuple[list[str], NDArray[np.bool_]]:
    """Return every group that gets a rate, with its members: everyone, all groups, the unknown of each attribute.

    Returns
    -------
    names, and membership of shape (groups, clips)
    """
    names, rows = [ALL], [np.ones(len(attributes), dtype=bool)]
    for groups in sets:
        for index, name in enumerate(groups.names):
            names.append(name)
            rows.append(groups.member == index)
        if "&" not in groups.by and (groups.member < 0).any():
            names.append(f"{groups.by}={UNKNOWN}")
            rows.append(groups.member < 0)
    return names, np.stack(rows)
