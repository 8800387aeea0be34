"""The rows of records.csv: one for every text that was judged, of either side of every comparison."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from audits.core.records import Coverage, Skipped
from audits.precision_recall import GENERATED

if TYPE_CHECKING:
    from audits.precision_recall.comparing import Tally
    from audits.precision_recall.counts import Counts


def coverage(counts: "Counts") -> Coverage:
    """Return how many texts of all files were used, and the reasons for skipped ones."""
    sets = counts.inputs.sets.values()
    reasons = Counter[str]()
    for one in sets:
        reasons.update(one.skipped)
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted(reasons.items()))
    return Coverage(given=sum(one.given for one in sets), used=sum(len(one) for one in sets), skipped=skipped)


def files(counts: "Counts") -> dict[str, bytes]:
    """Return the texts that were sampled."""
    from audits.precision_recall.sampling import as_json_lines

    generation = counts.inputs.generation
    return {} if generation is None else {GENERATED: as_json_lines(generation, counts.inputs)}


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return one row for every text that was judged."""
    from audits.precision_recall.sides import REFERENCE

    return [
        {"candidate": name, "side": side, **row}
        for name in counts.names
        for side, own, other, tally in (
            ("generated", name, REFERENCE, counts.main[name].generated),
            ("reference", REFERENCE, name, counts.main[name].reference),
        )
        for row in _judged(counts, own, other, tally)
    ]


def _judged(counts: "Counts", own: str, other: str, tally: "Tally") -> Iterator[dict[str, Any]]:
    from audits.precision_recall.listing import excerpt_of
    from audits.precision_recall.sides import REFERENCE

    mine, theirs = counts.sets[own], counts.sets[other]
    kinds = mine.pool.kinds
    copies = np.bincount(kinds)[kinds]
    outside, inside = ("unreached", "reached") if own == REFERENCE else ("outside", "inside")
    for text in np.flatnonzero(tally.judged > 0).tolist():
        apart, judged, nearest = int(tally.apart[text]), int(tally.judged[text]), int(tally.nearest[text])
        yield {
            "place": int(mine.places[text]),
            "verdict": outside if apart == judged else inside if not apart else "undecided",
            "draws": judged,
            "draws_apart": apart,
            "draws_empty": int(tally.empty[text]) if own == REFERENCE else "",
            "distance": round(float(tally.distance[text]), 6),
            "radii": round(float(tally.share[text]), 4) if np.isfinite(tally.share[text]) else "",
            "nearest_place": int(theirs.places[nearest]),
            "copies": int(copies[text]),
            "text": excerpt_of(mine, text),
            "nearest_text": excerpt_of(theirs, nearest),
        }
