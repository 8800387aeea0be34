"""The rows of records.csv: one for every text that was judged, of either side of every comparison."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Coverage, Skipped
from audits.precision_recall import GENERATED
from audits.report.records_file import CSV, MOST_IN_CSV

if TYPE_CHECKING:
    from audits.precision_recall.counts import Counts
    from audits.precision_recall.tallies import Tally


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


def records(counts: "Counts") -> "Rows":
    """Return one row for every text that was judged."""
    from audits.precision_recall.sides import REFERENCE

    return Rows(
        counts,
        tuple(
            Judged(name, side, own, other, tally, np.flatnonzero(tally.judged > 0))
            for name in counts.names
            for side, own, other, tally in (
                ("generated", name, REFERENCE, counts.main[name].generated),
                ("reference", REFERENCE, name, counts.main[name].reference),
            )
        ),
    )


def held_in(counts: "Counts") -> str:
    """Return where the rows stand, for a sentence: they are in another file where they are many."""
    tallies = (counts.main[name] for name in counts.names)
    rows = sum(int((side.judged > 0).sum()) for one in tallies for side in (one.generated, one.reference))
    return CSV if rows <= MOST_IN_CSV else "the records"


@dataclass(frozen=True, slots=True)
class Judged:
    """The texts of one side of one comparison that were judged, by their numbers."""

    candidate: str
    side: str
    own: str
    other: str
    tally: "Tally"
    texts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Mapping[str, Any]]):
    """The rows of all comparisons, each made when it is read: a million of them would take a gigabyte."""

    counts: "Counts"
    sides: tuple[Judged, ...]

    def __len__(self) -> int:
        return sum(len(one.texts) for one in self.sides)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return self._between(0, len(self))

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | list[Mapping[str, Any]]:
        if isinstance(index, slice):
            places = range(len(self))[index]
            if places.step == 1:
                return list(self._between(places.start, places.stop))
            return [self[place] for place in places]
        place = range(len(self))[index]
        return next(self._between(place, place + 1))

    def _between(self, first: int, stop: int) -> Iterator[dict[str, Any]]:
        for one in self.sides:
            yield from self._of(one, one.texts[max(first, 0) : max(stop, 0)])
            first, stop = first - len(one.texts), stop - len(one.texts)

    def _of(self, one: Judged, texts: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        from audits.precision_recall.listing import excerpt_of
        from audits.precision_recall.sides import REFERENCE

        mine, theirs, tally = self.counts.sets[one.own], self.counts.sets[one.other], one.tally
        kinds = mine.pool.kinds
        copies = np.bincount(kinds)
        outside, inside = ("unreached", "reached") if one.own == REFERENCE else ("outside", "inside")
        for text in map(int, texts):
            apart, judged, nearest = int(tally.apart[text]), int(tally.judged[text]), int(tally.nearest[text])
            yield {
                "candidate": one.candidate,
                "side": one.side,
                "place": int(mine.places[text]),
                "verdict": outside if apart == judged else inside if not apart else "undecided",
                "draws": judged,
                "draws_apart": apart,
                "draws_empty": int(tally.empty[text]) if one.own == REFERENCE else "",
                "distance": round(float(tally.distance[text]), 6),
                "radii": round(float(tally.share[text]), 4) if np.isfinite(tally.share[text]) else "",
                "nearest_place": int(theirs.places[nearest]),
                "copies": int(copies[kinds[text]]),
                "text": excerpt_of(mine, text),
                "nearest_text": excerpt_of(theirs, nearest),
            }
