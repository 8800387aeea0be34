"""Which texts are they? Generated ones outside the support of the reference, reference ones that nobody reaches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from audits.precision_recall.comparing import Tally
from audits.precision_recall.diversity import Texts
from audits.precision_recall.inputs import REFERENCE
from probes.loading.texts import TextSet

if TYPE_CHECKING:
    from audits.precision_recall.report import Results

MOST_LETTERS = 300
"""Letters of a text that records.csv and the page show."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A text and the nearest of the other side; `share` is their distance over the radius of the ball around that."""

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


def outside(results: "Results", name: str, most: int) -> tuple[list[Listed], int]:
    """Return the generated texts of the first draw farthest outside the reference, and how many there are.

    Outside are those that lay in no ball around a reference text; copies count as one.
    """
    return _listed(results, name, results.measured.main[name].first[0], name, REFERENCE, most)


def different(results: "Results", name: str) -> int:
    """Return how many different texts of a set were in the first draw."""
    compared = results.measured.main
    tally = next(iter(compared.values())).first[1] if name == REFERENCE else compared[name].first[0]
    return len(np.unique(results.sets[name].pool.kinds[tally.judged > 0]))


def uncovered(results: "Results", most: int) -> tuple[list[Listed], int]:
    """Return the reference texts of the first draw that no candidate reaches, farthest first, and how many there are.

    They lay in no ball around any candidate's text; copies count as one.
    """
    names = [one.name for one in results.inputs.candidates]
    tallies = [results.measured.main[name].first[1] for name in names]
    shares = np.stack([np.where(np.isfinite(one.share), one.share, np.inf) for one in tallies])
    # Each with the candidate that comes nearest, in radii: how far a text is from all of them.
    closest = shares.argmin(0)
    everywhere = np.logical_and.reduce([(one.judged > 0) & (one.apart == one.judged) for one in tallies])
    found: list[Listed] = []
    for number, name in enumerate(names):
        tally = tallies[number]
        mine = everywhere & (closest == number)
        part, _ = _listed(results, name, _only(tally, mine), REFERENCE, name, most)
        found += part
    count = len(np.unique(results.sets[REFERENCE].pool.kinds[everywhere]))
    return sorted(found, key=lambda row: -row.share)[:most], count


def _only(tally: Tally, mask: "np.ndarray[Any, np.dtype[np.bool_]]") -> Tally:
    apart = np.where(mask, tally.apart, -1)
    return Tally(tally.judged, apart, tally.empty, tally.nearest, tally.distance, tally.share)


def _listed(results: "Results", name: str, tally: Tally, own: str, other: str, most: int) -> tuple[list[Listed], int]:
    apart = np.flatnonzero((tally.judged > 0) & (tally.apart == tally.judged))
    kinds = results.sets[own].pool.kinds
    _, first = np.unique(kinds[apart], return_index=True)
    apart = apart[np.sort(first)]
    copies = np.bincount(kinds)
    order = apart[np.argsort(-np.where(np.isfinite(tally.share), tally.share, np.inf)[apart], kind="stable")]
    rows = [
        Listed(
            place=_place(results, own, text),
            text=_text(results.sets[own], text),
            copies=int(copies[kinds[text]]),
            nearest_place=_place(results, other, int(tally.nearest[text])),
            nearest_text=_text(results.sets[other], int(tally.nearest[text])),
            distance=float(tally.distance[text]),
            share=float(tally.share[text]),
        )
        for text in order[:most].tolist()
    ]
    return rows, len(apart)


def records_of(results: "Results") -> Sequence[Mapping[str, Any]]:
    """Return one row for every text that was judged, of either side of every comparison."""
    rows: list[Mapping[str, Any]] = []
    for one in results.inputs.candidates:
        compared = results.measured.main[one.name]
        sides = (
            ("generated", one.name, REFERENCE, compared.generated),
            ("reference", REFERENCE, one.name, compared.reference),
        )
        for side, own, other, tally in sides:
            kinds = results.sets[own].pool.kinds
            copies = np.bincount(kinds)[kinds]
            for text in np.flatnonzero(tally.judged > 0).tolist():
                apart, judged = int(tally.apart[text]), int(tally.judged[text])
                words = ("outside", "inside") if side == "generated" else ("unreached", "reached")
                rows.append(
                    {
                        "candidate": one.name,
                        "side": side,
                        "place": _place(results, own, text),
                        "verdict": words[0] if apart == judged else words[1] if not apart else "undecided",
                        "draws": judged,
                        "draws_apart": apart,
                        "draws_empty": int(tally.empty[text]) if side == "reference" else "",
                        "distance": round(float(tally.distance[text]), 6),
                        "radii": round(float(tally.share[text]), 4) if np.isfinite(tally.share[text]) else "",
                        "nearest_place": _place(results, other, int(tally.nearest[text])),
                        "copies": int(copies[text]),
                        "text": _text(results.sets[own], text),
                        "nearest_text": _text(results.sets[other], int(tally.nearest[text])),
                    }
                )
    return rows


def _place(results: "Results", name: str, text: int) -> int:
    return int(_source(results, name).places[text])


def _source(results: "Results", name: str) -> TextSet:
    if name == REFERENCE:
        return results.inputs.reference
    found = next(one.texts for one in results.inputs.candidates if one.name == name)
    assert found is not None
    return found


def _text(one: Texts, text: int) -> str:
    return "" if one.texts is None else excerpt(one.texts[text])
