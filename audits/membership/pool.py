"""The points that are audited: members and non-members, each once, and none that is both."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audits.statistics import generator
from probes.core.errors import InputError

if TYPE_CHECKING:
    from probes.generators.point_sets import PointSet

Bools = NDArray[np.bool_]
LEAST = 10
"""Members, and non-members, that an audit takes at least: halves of them choose and prove."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """The points that are audited, members first.

    Parameters
    ----------
    points
        None where scores came in and no points, or where texts did.
    member, chooses
        Shape (n,): who was trained on, and the half on which thresholds and hyper-parameters are chosen.
    names
        What identifies each point.
    given
        Points before any was left out, and why some were.
    losses
        The file of scores is of one model, so that scores of which nothing was said were losses.
    texts
        Of a language model; None of others.
    """

    points: "PointSet | None"
    member: Bools
    names: tuple[str, ...]
    chooses: Bools
    given: int
    skipped: Mapping[str, int]
    losses: bool = False
    texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.member)


def pool_of_points(members: "PointSet", others: "PointSet", seed: int, *, coins: bool = False) -> Pool:
    """Join members and non-members, without repeats and without points that are both.

    Parameters
    ----------
    coins
        Every point was put in by a coin of its own.

    Raises
    ------
    InputError
        Where the two are not of one kind, or too few are left.
    """
    # With torch behind it, which scores do not need.
    from probes.generators.point_sets import joined

    check_alike(members, "--members", others, "--nonmembers")
    rows, skipped = distinct(members.digests(), others.digests())
    kept = [np.array(one, dtype=np.int64) for one in rows]
    for indices, flag, source in ((kept[0], "--members", members), (kept[1], "--nonmembers", others)):
        if len(indices) < LEAST:
            raise InputError(
                f"Only {len(indices)} of {len(source)} points are left: each once, and none that is on both sides.",
                where=f"{flag} {source.path}",
                hint=f"An audit takes {LEAST} or more on each side.",
            )
    points = joined((members.take(kept[0]), others.take(kept[1])))
    member = np.arange(len(points)) < len(kept[0])
    return Pool(
        points=points,
        member=member,
        names=points.names,
        chooses=halves(member, seed, coins=coins),
        given=len(members) + len(others),
        skipped=dict(skipped),
    )


def distinct(inside: Sequence[str], outside: Sequence[str]) -> tuple[list[list[int]], Counter[str]]:
    """Return the places on each side of what stands there once and on one side only, and the counts of the others.

    >>> distinct(["a", "b", "b"], ["a", "c"])
    ([[1], [1]], Counter({'both member and non-member': 2, 'repeated member': 1}))
    """
    both = set(inside) & set(outside)
    skipped = Counter[str]()
    kept: list[list[int]] = []
    for digests, kind in ((inside, "member"), (outside, "non-member")):
        seen: set[str] = set()
        rows: list[int] = []
        for index, digest in enumerate(digests):
            # Left out of both sides: of such a point no answer would be right.
            if digest in both:
                skipped["both member and non-member"] += 1
            elif digest in seen:
                skipped[f"repeated {kind}"] += 1
            else:
                rows.append(index)
            seen.add(digest)
        kept.append(rows)
    return kept, skipped


def pool_of_texts(
    texts: Sequence[Sequence[str]],
    names: Sequence[Sequence[str]],
    seed: int,
    *,
    given: int,
    skipped: Mapping[str, int],
    where: Sequence[str],
    coins: bool = False,
) -> Pool:
    """Join the texts of members and of non-members, each of which stands once and on one side only.

    Raises
    ------
    InputError
        Where too few are left.
    """
    for side, source in zip(texts, where, strict=True):
        if len(side) < LEAST:
            raise InputError(
                f"Only {len(side)} texts are left: each once, none that is on both sides, and none without tokens.",
                where=source,
                hint=f"An audit takes {LEAST} or more on each side.",
            )
    member = np.arange(sum(map(len, texts))) < len(texts[0])
    return Pool(
        points=None,
        member=member,
        names=tuple(name for side in names for name in side),
        chooses=halves(member, seed, coins=coins),
        given=given,
        skipped={reason: count for reason, count in skipped.items() if count},
        texts=tuple(text for side in texts for text in side),
    )


def pool_of_labels(
    member: Bools,
    names: Sequence[str],
    seed: int,
    *,
    given: int,
    skipped: Mapping[str, int],
    where: str,
    coins: bool = False,
    losses: bool = False,
) -> Pool:
    """Return the pool of points of which only labels and scores are known.

    Raises
    ------
    InputError
        Where one side is too small.
    """
    for count, kind in ((int(member.sum()), "members"), (int((~member).sum()), "non-members")):
        if count < LEAST:
            raise InputError(f"There are {count} {kind}.", where=where, hint=f"An audit takes {LEAST} or more of each.")
    return Pool(
        points=None,
        member=member,
        names=tuple(names),
        chooses=halves(member, seed, coins=coins),
        given=given,
        skipped=skipped,
        losses=losses,
    )


def halves(member: Bools, seed: int, *, coins: bool = False) -> Bools:
    """Return a random half of the members and of the non-members; with `coins`, of all points regardless of side.

    Bounds that rest on independent coins need a half that was drawn without looking at them.

    >>> half = halves(np.arange(10) < 4, 0)
    >>> int(half[:4].sum()), int(half[4:].sum())
    (2, 3)
    """
    chosen = np.zeros(len(member), dtype=np.bool_)
    rng = generator(seed, "membership", "halves")
    for side in (None,) if coins else (True, False):
        indices = np.arange(len(member)) if side is None else np.flatnonzero(member == side)
        chosen[rng.permutation(indices)[: len(indices) // 2]] = True
    if coins and any(len(set(member[half].tolist())) < 2 for half in (chosen, ~chosen)):
        # One in a hundred thousand with the fewest points that are taken, and none with more.
        return halves(member, seed)
    return chosen


def without(points: "PointSet", others: "Sequence[PointSet]") -> "tuple[PointSet, int]":
    """Return a set without the points of others, and how many were removed."""
    taken: set[str] = set()
    for one in others:
        taken.update(one.digests())
    kept = np.array([index for index, digest in enumerate(points.digests()) if digest not in taken], dtype=np.int64)
    if len(kept) == len(points):
        return points, 0
    if not len(kept):
        raise InputError(
            "All of its points are members or non-members.",
            where=f"--reference {points.path}",
            hint="The attacker's own points must be others.",
        )
    return points.take(kept), len(points) - len(kept)


def check_alike(first: "PointSet", flag: str, second: "PointSet", other: str) -> None:
    """Refuse sets of points that cannot be compared with each other.

    Raises
    ------
    InputError
        Where their shapes or scales differ.
    """
    if first.shape != second.shape:
        raise InputError(
            f"Points of {flag} have the shape {first.shape}, of {other} {second.shape}.",
            where=f"{other} {second.path}",
            hint="All points of an audit have one shape.",
        )
    if first.pixels != second.pixels:
        kinds = ["pixels from 0 to 1" if one.pixels else "numbers as stored" for one in (first, second)]
        raise InputError(
            f"Points of {flag} are {kinds[0]}, of {other} {kinds[1]}.",
            where=f"{other} {second.path}",
            hint="Save both in one form: 8-bit images, or arrays of floats on one scale.",
        )
