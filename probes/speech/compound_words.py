"""Word edits of a pair of texts where words that one side joins and the other parts are no error.

"ice cream" against "icecream" is none, in either direction: words that stand side by side on one side and give one word
of the other when written together count as right. So does the Open ASR Leaderboard count, by `kaldialign.edit_distance`
with `merge_compounds`: the errors are as many as there, though where no compound is others may be substitutions.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Edit = tuple[int, int]
"""Positions of the words that were said and written; `NOTHING` for the side of an insertion or deletion without one."""
NOTHING = -1
MOST_LETTERS = 200
"""Longer words are no compounds."""
_Step = tuple[int, int]
"""How many words of the reference and of the hypothesis a step of the alignment takes."""
_PLAIN: tuple[_Step, ...] = ((1, 1), (1, 0), (0, 1))
_BOTH, _DELETED, _INSERTED = range(3)
"""Positions in `_PLAIN`."""


@dataclass(frozen=True, slots=True)
class CompoundAlignment:
    """The edits of a pair, and the runs of words that were matched as compounds: (start, end) of both sides."""

    edits: tuple[Edit, ...]
    merged: tuple[tuple[int, int, int, int], ...]


def align_compounds(reference: Sequence[str], hypothesis: Sequence[str]) -> CompoundAlignment:
    """Return the alignment of fewest edits, where joining words costs nothing; empty where no words can be joined.

    Examples
    --------
    >>> align_compounds("the ice cream van".split(), "an icecream van".split())
    CompoundAlignment(edits=((0, 0),), merged=((1, 3, 1, 2),))
    """
    joins = _joins(reference, hypothesis)
    if not joins:
        return CompoundAlignment((), ())
    steps = _best_steps(reference, hypothesis, joins)
    edits: list[Edit] = []
    merged = []
    said, written = len(reference), len(hypothesis)
    while said or written:
        step = steps[said][written]
        back, over = _PLAIN[step] if step < len(_PLAIN) else joins[said, written][step - len(_PLAIN)]
        before, at = said - back, written - over
        if back + over > 2:
            merged.append((before, said, at, written))
        elif back + over == 1 or reference[before] != hypothesis[at]:
            edits.append((before if back else NOTHING, at if over else NOTHING))
        said, written = before, at
    return CompoundAlignment(tuple(reversed(edits)), tuple(reversed(merged)))


def with_compounds(
    reference: Sequence[str], hypothesis: Sequence[str], merged: Sequence[tuple[int, int, int, int]]
) -> str:
    """Return the hypothesis with its compounds written as in the reference.

    Examples
    --------
    >>> sides = "the ice cream van".split(), "an icecream van".split()
    >>> with_compounds(*sides, align_compounds(*sides).merged)
    'an ice cream van'
    """
    words, start = [], 0
    for first, last, at, end in merged:
        words += [*hypothesis[start:at], *reference[first:last]]
        start = end
    return " ".join([*words, *hypothesis[start:]])


def _joins(reference: Sequence[str], hypothesis: Sequence[str]) -> dict[tuple[int, int], list[_Step]]:
    """Return the compounds by where they end on both sides."""
    found: dict[tuple[int, int], list[_Step]] = {}
    for (said, written), back in _runs(reference, hypothesis):
        found.setdefault((said, written), []).append((back, 1))
    for (written, said), over in _runs(hypothesis, reference):
        found.setdefault((said, written), []).append((1, over))
    return found


def _runs(parted: Sequence[str], joined: Sequence[str]) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the runs of two and more words that together are a word of the other side, shorter ones first."""
    places: dict[str, list[int]] = {}
    for at, word in enumerate(joined, start=1):
        places.setdefault(word, []).append(at)
    longest = min(max(map(len, joined), default=0), MOST_LETTERS)
    for end in range(2, len(parted) + 1):
        text = parted[end - 1]
        for start in range(end - 2, -1, -1):
            text = parted[start] + text
            if len(text) > longest:
                break
            for at in places.get(text, ()):
                yield (end, at), end - start


def _best_steps(
    reference: Sequence[str], hypothesis: Sequence[str], joins: dict[tuple[int, int], list[_Step]]
) -> list[bytearray]:
    """Return the last step of the best alignment of each pair of beginnings, shape (said + 1, written + 1).

    A step is a position in `_PLAIN`, or beyond it in the joins of the pair. Bytes and arrays, since an hour of speech
    has a hundred million pairs.
    """
    width = len(hypothesis) + 1
    costs = [array("i", range(width))]
    steps = [bytearray([_INSERTED] * width)]
    for said, word in enumerate(reference, start=1):
        row, last, above = array("i", [said]), bytearray([_DELETED]), costs[said - 1]
        for written in range(1, width):
            cost, step = above[written - 1] + (word != hypothesis[written - 1]), _BOTH
            deleted, inserted = above[written] + 1, row[written - 1] + 1
            if cost >= deleted or cost >= inserted:
                cost, step = (deleted, _DELETED) if deleted < inserted else (inserted, _INSERTED)
            for number, join in enumerate(joins.get((said, written), ()), start=len(_PLAIN)):
                joined = costs[said - join[0]][written - join[1]]
                if joined < cost:
                    cost, step = joined, number
            row.append(cost)
            last.append(step)
        costs.append(row)
        steps.append(last)
    return steps
