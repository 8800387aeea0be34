"""The words that a system takes for others most often, and the groups on which it clearly does so more.

Of each system the most frequent confusions are kept, chosen without a look at who speaks; of each the clips that have
it and the clips in which it could have happened. The rate of a confusion is that of the occurrences of the word that
was said, so that groups who read other texts can be compared; of an insertion, that of all words.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import GroupSet
from audits.group_rates import MIN_REPORTED
from audits.speaker_groups.counts import Floats, Utterances
from audits.statistics import independent_difference, rate_intervals
from probes.speech.word_edits import NOTHING, WordEdits

MOST_KEPT = 20
"""Confusions of all systems together; a table under a figure holds as many."""
SUBSTITUTED, DELETED, INSERTED = "substituted", "deleted", "inserted"
BLOCK = 32
"""Groups whose rates are computed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often something is in each clip that has it: numbers of clips and counts, shape (clips,)."""

    clips: NDArray[np.int64]
    counts: NDArray[np.int64]

    def by_speaker(self, speakers: NDArray[np.int64], inside: NDArray[np.bool_], people: int) -> Floats:
        """Return the counts of every speaker in some of the clips, shape (people,)."""
        here = inside[self.clips]
        return np.bincount(speakers[self.clips[here]], self.counts[here], people).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """A word written for another, left out (`written` is empty) or put in (`said` is empty).

    `chances` says where it could have happened: the occurrences of the word that was said, or all words.
    """

    said: str
    written: str
    errors: Tally
    chances: Tally

    @property
    def kind(self) -> str:
        """What happened to the word."""
        return INSERTED if not self.said else SUBSTITUTED if self.written else DELETED

    @property
    def times(self) -> int:
        """How often it happened."""
        return int(self.errors.counts.sum())

    def speakers(self, speakers: NDArray[np.int64]) -> int:
        """Return the number of speakers whose words it happened to."""
        return len(np.unique(speakers[self.errors.clips]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A group on which a confusion is more frequent than on all others of its attribute.

    `value`, `low` and `high` are the difference of the two rates; `speakers` make the error there.
    """

    group: str
    value: float
    low: float
    high: float
    speakers: int


def most_frequent(edits: WordEdits, references: Sequence[str | None], most: int) -> tuple[Confusion, ...]:
    """Return the most frequent confusions of one system, each with its clips.

    Examples
    --------
    >>> from probes.speech.word_edits import WordAligner
    >>> texts, aligner = ["a goat", "a boat", "a goat"], WordAligner()
    >>> _ = aligner.add(texts, ["a boat", "a boat", "a coat boat"])
    >>> (found,) = most_frequent(aligner.edits(), texts, 1)
    >>> found.said, found.written, found.times, found.chances.counts.tolist()
    ('goat', 'boat', 2, [1, 1])
    """
    if not len(edits.pair):
        return ()
    width = len(edits.words) + 1
    codes, inverse, times = np.unique(
        (edits.said + 1) * width + edits.written + 1, return_inverse=True, return_counts=True
    )

    def words(code: int) -> tuple[str, str]:
        said, written = code // width - 1, code % width - 1
        return tuple("" if at == NOTHING else edits.words[at] for at in (said, written))  # type: ignore[return-value]

    # Equal counts in the order of the alphabet: that of the clips must not decide.
    least = np.partition(times, -min(most, len(times)))[-min(most, len(times))]
    frequent = sorted(np.flatnonzero(times >= least).tolist(), key=lambda at: (-times[at], words(int(codes[at]))))
    chosen = frequent[:most]
    named = [words(int(codes[at])) for at in chosen]
    chances = _occurrences(references, {said for said, _ in named})
    return tuple(
        Confusion(said=said, written=written, errors=_tally(edits.pair[inverse == at]), chances=chances[said])
        for at, (said, written) in zip(chosen, named, strict=True)
    )


def _tally(clips: NDArray[np.int64]) -> Tally:
    where, counts = np.unique(clips, return_counts=True)
    return Tally(clips=where, counts=counts)


def _occurrences(references: Sequence[str | None], words: set[str]) -> Mapping[str, Tally]:
    """Return how often each word is in each reference; of "", how many words there are."""
    found = {word: (array("q"), array("q")) for word in words}
    for at, reference in enumerate(references):
        said = (reference or "").split()
        for word in words.intersection(said):
            clips, counts = found[word]
            clips.append(at)
            counts.append(said.count(word))
        if "" in words and said:
            clips, counts = found[""]
            clips.append(at)
            counts.append(len(said))
    return {
        word: Tally(clips=np.array(clips, dtype=np.int64), counts=np.array(counts, dtype=np.int64))
        for word, (clips, counts) in found.items()
    }


def excesses(
    data: Utterances, systems: Sequence[Sequence[Confusion]], *, least: int, level: float
) -> list[list[tuple[Excess, ...]]]:
    """Return, for each confusion of each system, the groups on which it is clearly more frequent, the surest first.

    Each group of a single attribute is set against all others of it, where `least` speakers on both sides say the word.
    The intervals combine those of both rates over speakers, and hold for all groups, confusions and systems at once
    (Bonferroni). A group is named where its interval lies above 0 and at least `MIN_REPORTED` of its speakers make the
    error.
    """
    looked = [
        [(one, [pair for groups in data.singles() for pair in _spoken(data, groups, one, least)]) for one in confusions]
        for confusions in systems
    ]
    tests = sum(len(pairs) for row in looked for _, pairs in row)
    inner = 1 - (1 - level) / max(tests, 1)
    return [[_clearly_more(data, one, pairs, inner) for one, pairs in row] for row in looked]


_Sides = tuple[str, NDArray[np.bool_], NDArray[np.bool_]]
"""A group, its clips, and the clips of all others of its attribute."""


def _spoken(data: Utterances, groups: GroupSet, confusion: Confusion, least: int) -> Iterator[_Sides]:
    """Yield the groups of which `least` speakers say the word, as do so many of the others."""
    for at, name in enumerate(groups.names):
        inside = groups.member == at
        sides = inside, (groups.member >= 0) & ~inside
        said = [np.count_nonzero(confusion.chances.by_speaker(data.speakers, side, data.people)) for side in sides]
        if min(said) >= least:
            yield name, *sides


def _clearly_more(data: Utterances, confusion: Confusion, pairs: Sequence[_Sides], level: float) -> tuple[Excess, ...]:
    found: list[Excess] = []
    made = [int((confusion.errors.by_speaker(data.speakers, pair[1], data.people) > 0).sum()) for pair in pairs]
    enough = [(pair, people) for pair, people in zip(pairs, made, strict=True) if people >= MIN_REPORTED]
    for start in range(0, len(enough), BLOCK):
        chosen = enough[start : start + BLOCK]
        sides = [side for pair, _ in chosen for side in pair[1:]]
        errors, sizes = (
            np.stack([tally.by_speaker(data.speakers, side, data.people) for side in sides], axis=1)
            for tally in (confusion.errors, confusion.chances)
        )
        rates = rate_intervals(errors, sizes, level=level)
        ends = list(zip(rates.value.tolist(), rates.low.tolist(), rates.high.tolist(), strict=True))
        for number, (pair, people) in enumerate(chosen):
            value, low, high = independent_difference(ends[2 * number + 1], ends[2 * number])
            if low > 0:
                found.append(Excess(group=pair[0], value=value, low=low, high=high, speakers=people))
    return tuple(sorted(found, key=lambda one: (-one.low, one.group)))
