"""Permutation tests over clusters, their Monte Carlo intervals, and how many permutations a test needs.

The labels are shuffled over the clusters (speakers), never over the items inside them: items of one
speaker are not exchangeable with those of another.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
BLOCK = 250
_FEW_GROUPS = 8
"""Groups up to which one product for each takes less time than counting all at once."""
_AT_ONCE = 2**20
"""Labels that are turned into floats at once."""
MOST = 20_000
"""Most permutations made without being asked for, where that many can reject."""
MOST_NEEDED = 200_000
"""Most permutations made without being asked for, where fewer cannot reject; some seconds a comparison."""
MOST_ASKED = 100_000
"""Most permutations and bootstrap samples that options accept, and so the most that messages advise."""
OUT_OF_REACH = "level-out-of-reach"
"""Id of the warning that no test can reject at so high a level."""
FEW_RESAMPLES = "few-resamples"
"""Id of the warning that the ends of intervals are set by one bootstrap sample or none."""


def permuted_group_sums(sums: Floats, present: Bools, repeats: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the sums per group under shuffled labels, in blocks of shape (block, groups, ...).

    A cluster in one group swaps its label with another such cluster. A cluster in several groups (a
    speaker under several conditions) swaps the labels of its own parts: it is compared with itself.

    Parameters
    ----------
    sums
        Sums per cluster and group, shape (clusters, groups, ...).
    present
        Whether a cluster is in a group, shape (clusters, groups).

    Examples
    --------
    >>> sums = np.array([[3.0, 0.0], [0.0, 5.0]])
    >>> blocks = permuted_group_sums(sums, sums > 0, 100, np.random.default_rng(0))
    >>> sorted({tuple(row) for block in blocks for row in block.tolist()})
    [(3.0, 5.0), (5.0, 3.0)]
    """
    groups = sums.shape[1]
    flat = sums.reshape(len(sums), groups, -1)
    single = present.sum(1) == 1
    labels = present[single].argmax(1)
    alone = flat[single].sum(1)
    several, where = flat[present.sum(1) > 1], present[present.sum(1) > 1]
    # Small numbers are moved faster; which goes where does not depend on their size.
    labels = labels.astype(np.uint8 if groups <= _FEW_GROUPS else np.int64)
    summed = _by_products if groups <= _FEW_GROUPS and _whole(alone) else _by_counting
    for start in range(0, repeats, BLOCK):
        block = min(BLOCK, repeats - start)
        shuffled = rng.permuted(np.tile(labels, (block, 1)), axis=1)
        totals = summed(shuffled, alone, groups)
        if len(several):
            totals += _swapped_within(several, where, block, rng)
        yield totals.reshape(block, groups, *sums.shape[2:])


def _whole(values: Floats) -> bool:
    """Tell whether all sums of these values are exact, in whichever order they are made."""
    return bool((values == np.rint(values)).all()) and float(np.abs(values).sum(axis=0).max(initial=0.0)) < 2**52


def _by_products(shuffled: NDArray[Any], values: Floats, groups: int) -> Floats:
    """Return the sums of each sample and group, shape (samples, groups, columns): one product for each group."""
    totals = np.zeros((len(shuffled), groups, values.shape[1]))
    step = max(_AT_ONCE // max(len(values), 1), 1)
    for start in range(0, len(shuffled), step):
        part = shuffled[start : start + step]
        for group in range(1, groups):
            totals[start : start + step, group] = (part == group).astype(np.float64) @ values
    totals[:, 0] = values.sum(axis=0) - totals.sum(axis=1)
    return totals


def _by_counting(shuffled: NDArray[Any], values: Floats, groups: int) -> Floats:
    """Return the sums of each sample and group, shape (samples, groups, columns): of all groups at once."""
    block = len(shuffled)
    cell = (shuffled + groups * np.arange(block)[:, None]).ravel()
    columns = [np.bincount(cell, np.tile(column, block), minlength=block * groups) for column in values.T]
    totals: Floats = np.stack(columns, axis=1).reshape(block, groups, values.shape[1]).astype(np.float64)
    return totals


def _swapped_within(flat: Floats, present: Bools, block: int, rng: np.random.Generator) -> Floats:
    # Present groups first, in their own order and in a random one: the first take the parts of the second.
    target = np.argsort(~present, axis=1, kind="stable")
    moved = _moved_together if _whole(flat) else _moved_one_by_one
    totals = np.zeros((block, present.shape[1], flat.shape[2]))
    step = max(_AT_ONCE // max(present.size, 1), 1)
    for start in range(0, block, step):
        size = min(step, block - start)
        # Above all random keys, so that absent groups are sorted to the end.
        keys = np.where(present, rng.random((size, *present.shape)), 2.0)
        source = np.argsort(keys, axis=2, kind="stable")
        moved(totals[start : start + size], flat, present, target, source)
    return totals


def _moved_together(totals: Floats, flat: Floats, present: Bools, target: Indices, source: Indices) -> None:
    """Add the part at each source to its target, those of all clusters at once."""
    parts = present.sum(axis=1)
    for slot in range(int(parts.max(initial=0))):
        who = np.flatnonzero(parts > slot)
        values = flat[who, source[:, who, slot]]
        for group in range(totals.shape[1]):
            totals[:, group] += values[:, target[who, slot] == group].sum(axis=1)


def _moved_one_by_one(totals: Floats, flat: Floats, present: Bools, target: Indices, source: Indices) -> None:
    """Add the part at each source to its target, in the order of the clusters, on which rounding depends."""
    for cluster, parts in enumerate(flat):
        for slot in range(int(present[cluster].sum())):
            totals[:, target[cluster, slot]] += parts[source[:, cluster, slot]]


def monte_carlo_p(observed: float, permuted: Floats, *, level: float = 0.95) -> tuple[float, float, float]:
    """Return the p-value of a permutation test, (1 + #{T* >= T}) / (1 + R), and its Monte Carlo interval.

    The p-value is valid for any number of permutations R (Phipson and Smyth 2010); the interval is that
    of the exceedance probability itself (Clopper-Pearson).

    Examples
    --------
    >>> p, low, high = monte_carlo_p(2.0, np.array([0.1, 0.2, 2.0, 0.5]))
    >>> p
    0.4
    """
    from audits.statistics.binomial import clopper_pearson

    # Values that differ by rounding error only count as ties.
    exceeding = int(np.sum(permuted >= observed - 1e-12 * max(1.0, abs(observed))))
    low, high = clopper_pearson(exceeding, permuted.size, level=level)
    p = (1 + exceeding) / (1 + permuted.size)
    return p, min(low, p), max(high, p)


def enough_permutations(asked: int, tests: int, level: float) -> int:
    """Return the number of permutations with which one of many tests can reject after Holm's correction.

    Twenty times as many as the smallest p-value needs, up to `MOST`; at least twice as many, up to `MOST_NEEDED`; never
    fewer than were asked for.

    Examples
    --------
    >>> enough_permutations(2000, 3, 0.95), enough_permutations(2000, 10, 0.95), enough_permutations(2000, 99, 0.95)
    (2000, 4000, 20000)
    >>> enough_permutations(2000, 3, 0.9999), enough_permutations(2000, 21, 0.9999)
    (60000, 200000)
    """
    needed = tests / (1 - level)
    return max(asked, round(min(20 * needed, MOST)), round(min(2 * needed, MOST_NEEDED)))


def out_of_reach(permutations: int, tests: int, level: float) -> str:
    """Return the text that too few permutations were made for Holm's correction at this level; empty where enough.

    Examples
    --------
    >>> out_of_reach(2000, 3, 0.95)
    ''
    >>> out_of_reach(2000, 3, 0.999)[:73]
    'No finding can be made at --level 0.999 with 3 tests by 2,000 shuffles: t'
    """
    least = tests / (1 + permutations)
    if least < 1 - level:
        return ""
    advice = ["a lower --level"]
    advice += ["fewer --by columns"] * (tests > 1 and 1 / (1 - level) < MOST_NEEDED)
    advice += ["more --permutations"] * (tests / (1 - level) < MOST_ASKED)
    return (
        f"No finding can be made at --level {level:g} with {tests:,} tests by {permutations:,} shuffles: the smallest "
        f"p-value that they can have is {min(least, 1.0):.2g} after Holm's correction. Take "
        f"{' or '.join(advice)}."
    )


def few_resamples(resamples: int, level: float) -> str:
    """Return the text that fewer than two bootstrap samples lie beyond an end of an interval; empty where more do.

    Examples
    --------
    >>> few_resamples(2000, 0.99)
    ''
    >>> few_resamples(2000, 0.9999)[:66]
    'At --level 0.9999, of 2,000 bootstrap samples fewer than two lie b'
    >>> [few_resamples(2000, level)[-30:] for level in (0.9999, 0.99999)]
    ['level, or --bootstrap 100,000.', 'oo near. Take a lower --level.']
    """
    enough = round(4 / (1 - level))
    if resamples * (1 - level) / 2 >= 2 - 1e-9:
        return ""
    return (
        f"At --level {level:g}, of {resamples:,} bootstrap samples fewer than two lie beyond each end of an interval: "
        "ends that rest on them may be too near. Take a lower --level"
        + (f", or --bootstrap {min(round(20 / (1 - level)), MOST_ASKED):,}." if enough <= MOST_ASKED else ".")
    )
