"""Groups of speakers: the levels of attributes, their intersections, and who belongs to each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import overload

import numpy as np
from numpy.typing import NDArray

from probes.files.cells import Coded

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


class LevelRows(Sequence[Mapping[str, str]]):
    """The level of every attribute by clip, held as columns.

    >>> rows = LevelRows({"gender": Coded.of(["f", "m", "f"])}, 3)
    >>> rows[1], rows.take(np.array([2])).column("gender").values()
    ({'gender': 'm'}, ['f'])
    """

    def __init__(self, columns: Mapping[str, Coded], count: int) -> None:
        self._columns, self._count = columns, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, at: slice) -> "LevelRows": ...
    def __getitem__(self, at: int | slice) -> "Mapping[str, str] | LevelRows":
        if isinstance(at, slice):
            return self.take(np.arange(self._count)[at])
        at = range(self._count)[at]
        return {name: str(column.levels[column.codes[at]]) for name, column in self._columns.items()}

    def column(self, name: str) -> Coded:
        """Return the levels of an attribute."""
        return self._columns[name]

    def take(self, index: NDArray[np.int64]) -> "LevelRows":
        """Return the levels of some of the clips."""
        return LevelRows({name: column.take(index) for name, column in self._columns.items()}, len(index))


def column_of(attributes: Sequence[Mapping[str, str]], name: str) -> Coded:
    """Return the levels of an attribute as a column."""
    return attributes.column(name) if isinstance(attributes, LevelRows) else Coded.of(row[name] for row in attributes)


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
    parts = [column_of(attributes, name) for name in columns]
    levels, inside = combined(parts)
    labels = [
        None if UNKNOWN in cell else "&".join(f"{name}={level}" for name, level in zip(columns, cell, strict=True))
        for cell in levels
    ]
    names = tuple(sorted({label for label in labels if label is not None}))
    index_of = {name: index for index, name in enumerate(names)}
    return GroupSet(
        by="&".join(columns),
        names=names,
        member=np.array([-1 if label is None else index_of[label] for label in labels], dtype=np.int64)[inside],
    )


def combined(parts: Sequence[Coded]) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """Return the combinations of levels that there are, and which of them each clip has, shape (clips,)."""
    found: list[tuple[str, ...]] = [()]
    inside = np.zeros(len(parts[0].codes), dtype=np.int64)
    for part in parts:
        # One by one, so that the numbers stay as small as there are clips.
        size = len(part.levels)
        both = inside * size + part.codes
        present = np.flatnonzero(np.bincount(both, minlength=len(found) * size))
        number = np.zeros(len(found) * size, dtype=np.int64)
        number[present] = np.arange(len(present))
        found = [(*found[at // size], str(part.levels[at % size])) for at in present.tolist()]
        inside = number[both]
    return found, inside


def reported_groups(
    attributes: Sequence[Mapping[str, str]], sets: Sequence[GroupSet]
) -> tuple[list[str], NDArray[np.bool_]]:
    """Return every group that gets a rate, with its members: everyone, all groups, the unknown of each attribute.

    Returns
    -------
    names, and membership of shape (groups, clips)
    """
    names, rows = [ALL], [np.ones(len(attributes), dtype=bool)]
    for name, groups, index in _reported(sets):
        names.append(name)
        rows.append(groups.member == index)
    return names, np.stack(rows)


def reported_names(sets: Sequence[GroupSet]) -> list[str]:
    """Return the names of `reported_groups`."""
    return [ALL, *(name for name, _, _ in _reported(sets))]


def _reported(sets: Sequence[GroupSet]) -> Iterator[tuple[str, GroupSet, int]]:
    """Yield the name of every group but the one of all, its set, and its number there, -1 where nothing is known."""
    for groups in sets:
        for index, name in enumerate(groups.names):
            yield name, groups, index
        if "&" not in groups.by and (groups.member < 0).any():
            yield f"{groups.by}={UNKNOWN}", groups, -1
