"""Memory and time of the comparisons of a run, before it: what is held for each text, and a block of distances timed.

Nothing grows with the number of pairs of texts. A text has its vector twice, a list of neighbours, and for each half of
each split the place in that list that its ball reaches to, and a few small counts; distances come in blocks.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.precision_recall import Options
from audits.precision_recall.comparing import HALF, STRIPS
from audits.precision_recall.sides import Inputs
from audits.statistics import generator
from probes.vectors import knn
from probes.vectors.support_metrics import list_length

BASE = 2**29
"""Bytes of the interpreter and its libraries."""
WORK = 2**28
"""Bytes of what is computed at a time: a block of distances, a portion of near pairs, lists of some thousand points."""
TIMED = 20_000
"""Texts a side from which a block is timed instead of reckoned."""
_NEAR = 100
"""Near pairs of a point, where both sides have the same spread."""
_COUNTS = 7
"""Bytes of the counts of a point in a part at one k: four of how many balls hold it, three of a byte."""
_SEARCH = 1.3
"""Times that a search within a side takes as long as pairs of two sides: lists are kept in order."""
_PART = 1.2e-6
"""Seconds for a point in a part of a comparison, on one core of a small virtual machine."""


@dataclass(frozen=True, slots=True)
class Work:
    """The searches of a run at the size of a draw and, apart from it, at that of the controls.

    Parameters
    ----------
    sizes
        Texts a side.
    own, across
        How often the neighbours of a side are searched in itself, and pairs of two sides, at each size.
    """

    sizes: tuple[int, ...]
    own: tuple[int, ...]
    across: tuple[int, ...]

    def distances(self) -> float:
        """Return how many distances between sides are computed, and in which a search within a side counts too."""
        found = zip(self.sizes, self.own, self.across, strict=True)
        return float(sum(size**2 * (own * _SEARCH + across) for size, own, across in found))

    def points(self) -> int:
        """Return how many points are judged, over all comparisons."""
        return sum(2 * size * across for size, across in zip(self.sizes, self.across, strict=True))


def work_of(inputs: Inputs, options: Options) -> Work:
    """Count the searches of a run."""
    names, floor = len(inputs.names), inputs.encoder is not None
    most = max((len(texts) for texts in inputs.sets.values()), default=inputs.size)
    draws = 1 if most == inputs.size else options.repeats
    found: list[tuple[int, int, int]] = []
    if inputs.control != inputs.size:
        found.append((inputs.size, draws * (1 + names), draws * names))
    if inputs.control:
        sets = names + 1 + floor
        found.append((inputs.control, options.repeats * (1 + sets), options.repeats * sets))
    sizes, own, across = (tuple(row[at] for row in found) for at in range(3))
    return Work(sizes, own, across)


def memory_of(inputs: Inputs, options: Options, width: int) -> tuple[int, int]:
    """Return the bytes of the vectors of all texts and of a draw, and of everything."""
    ks, parts, size = inputs.settings.k, 1 + 2 * options.splits, inputs.size
    length = list_length(max(ks), HALF, size)
    texts = sum(len(one) for one in inputs.sets.values()) + inputs.control * (inputs.encoder is not None)
    copies = any(len(one) > size for one in inputs.sets.values())
    # All texts as read, and the two sides of a draw: taken from them, and less their mean.
    vectors = 4 * width * (texts + 2 * size * (1 + copies))
    # Of a list its exact distances and who is there; while they are searched, those of one side in float32.
    lists = size * (2 * 12 * length + 8 * (length + knn.SPARE))
    # Of a part how many texts a point stands for and where its ball ends, on both sides, and the counts.
    of_parts = parts * size * (2 * (1 + len(ks)) + _COUNTS * len(ks))
    marks = texts * (options.splits + 8 * (4 + options.repeats))
    return vectors, BASE + WORK + vectors + lists + of_parts + marks


def memory_row(inputs: Inputs, options: Options, width: int) -> tuple[str, str]:
    """Return the memory of a run in words."""
    vectors, total = memory_of(inputs, options, width)
    beside = "" if inputs.encoder is None or inputs.encoder.weak else " beside the encoder"
    each = " in each process" if inputs.size >= STRIPS else ""
    return ("memory", f"at most about {_gib(total)}{each}{beside}, {_gib(vectors)} of it vectors")


def disk_row(inputs: Inputs, options: Options, width: int) -> tuple[str, str]:
    """Return the disk that strips take while others wait for them, in words."""
    work, length = work_of(inputs, options), list_length(max(inputs.settings.k), HALF, inputs.size)
    sides = 4 * width * sum(len(one) for one in inputs.sets.values())
    found = zip(work.sizes, work.own, work.across, strict=True)
    strips = sum(size * (own * 12 * length + across * 16 * _NEAR) for size, own, across in found)
    return ("disk", f"some {_gib(sides + strips)} of the cache, until all is compared")


def seconds_of(inputs: Inputs, options: Options, width: int, device: str) -> float:
    """Time a block of distances of the reference's own vectors, and reckon the seconds of all comparisons on it."""
    work = work_of(inputs, options)
    parts = (1 + 2 * options.splits) * len(inputs.settings.k)
    return work.distances() * _distance(inputs, width, device) + work.points() * parts * _PART


def _distance(inputs: Inputs, width: int, device: str) -> float:
    """Return the seconds of one distance, from a block as they are computed, the quickest of three."""
    given = inputs.reference.embeddings
    rows, columns = (
        knn.points(_vectors(given, width, first, count), np.zeros(width), device=device)
        for first, count in ((0, knn.ROWS), (knn.ROWS, 2 * knn.COLUMNS))
    )
    none = np.zeros(len(rows)), np.zeros(len(columns))
    # Of the CPU its own seconds, which other processes do not lengthen.
    clock = time.process_time if device == "cpu" else time.perf_counter
    taken: list[float] = []
    for _ in range(3):
        started = clock()
        knn.near_pairs(rows, columns, *none, knn.Portions(rows, columns, lambda *pairs: None, most=knn.MOST_PAIRS))
        taken.append(clock() - started)
    return min(taken) / (len(rows) * len(columns))


def _vectors(given: NDArray[np.float32] | None, width: int, first: int, count: int) -> NDArray[np.float32]:
    if given is None:
        return generator(first, "timed vectors").normal(size=(count, width)).astype(np.float32)
    return given[np.arange(first, first + count) % len(given)]


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
