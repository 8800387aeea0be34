"""Lists of texts: generated ones outside the support of the reference, and reference ones not covered."""

from dataclasses import dataclass, replace

import numpy as np

from audits.precision_recall.counts import Counts, Texts
from audits.precision_recall.sides import REFERENCE
from audits.precision_recall.tallies import Tally

MOST_LETTERS = 300
"""Letters of a text that records.csv and the page show."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A text and the nearest of the other side; `share` is their distance over the radius of its ball."""

    place: int
    text: str
    copies: int
    nearest_place: int
    nearest_text: str
    distance: float
    share: float


def excerpt(text: str) -> str:
    """Return a text on one line, cut where it is long.

    >>> excerpt("a\\n b"), len(excerpt("x" * 1000))
    ('a b', 301)
    """
    line = " ".join(text[: 4 * MOST_LETTERS].split())
    # What would move the cursor of a terminal, or turn the direction of a line.
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    return line if len(line) <= MOST_LETTERS else line[:MOST_LETTERS] + "…"


def outside(counts: Counts, name: str, most: int) -> tuple[list[Listed], int]:
    """Return the generated texts of the first draw farthest outside the reference, and the number of all.

    Outside are those that lay in no ball around a reference text; copies count as one.
    """
    return _listed(counts, counts.main[name].first[0], name, REFERENCE, most)


def different(counts: Counts, name: str) -> int:
    """Return the number of distinct texts of a set in the first draw."""
    compared = counts.main
    tally = next(iter(compared.values())).first[1] if name == REFERENCE else compared[name].first[0]
    return len(np.unique(counts.sets[name].pool.kinds[tally.judged > 0]))


def uncovered(counts: Counts, most: int) -> tuple[list[Listed], int]:
    """Return the reference texts of the first draw that no candidate covers, farthest first, and the number of all.

    They lay in no ball around any candidate's text; copies count as one.
    """
    tallies = [counts.main[name].first[1] for name in counts.names]
    shares = np.stack([np.where(np.isfinite(one.share), one.share, np.inf) for one in tallies])
    # Each with the candidate that comes nearest, in radii: how far a text is from all of them.
    closest = shares.argmin(0)
    everywhere = np.logical_and.reduce([(one.judged > 0) & (one.apart == one.judged) for one in tallies])
    found: list[Listed] = []
    for number, name in enumerate(counts.names):
        mine = everywhere & (closest == number)
        tally = replace(tallies[number], apart=np.where(mine, tallies[number].apart, -1))
        found += _listed(counts, tally, REFERENCE, name, most)[0]
    count = len(np.unique(counts.sets[REFERENCE].pool.kinds[everywhere]))
    return sorted(found, key=lambda row: -row.share)[:most], count


def _listed(counts: Counts, tally: Tally, own: str, other: str, most: int) -> tuple[list[Listed], int]:
    apart = np.flatnonzero((tally.judged > 0) & (tally.apart == tally.judged))
    kinds = counts.sets[own].pool.kinds
    _, first = np.unique(kinds[apart], return_index=True)
    apart = apart[np.sort(first)]
    copies = np.bincount(kinds)
    order = apart[np.argsort(-np.where(np.isfinite(tally.share), tally.share, np.inf)[apart], kind="stable")]
    rows = [
        Listed(
            place=int(counts.sets[own].places[text]),
            text=excerpt_of(counts.sets[own], text),
            copies=int(copies[kinds[text]]),
            nearest_place=int(counts.sets[other].places[tally.nearest[text]]),
            nearest_text=excerpt_of(counts.sets[other], int(tally.nearest[text])),
            distance=float(tally.distance[text]),
            share=float(tally.share[text]),
        )
        for text in order[:most].tolist()
    ]
    return rows, len(apart)


def excerpt_of(one: Texts, text: int) -> str:
    """Return the excerpt of a text; empty where only its embedding is known."""
    return "" if one.texts is None else excerpt(one.texts[text])
