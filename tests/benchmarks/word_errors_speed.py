"""What do the word errors of a corpus cost here, beside kaldialign and jiwer, and do all count alike?

`miles` is `count_edits`: substitutions, deletions and insertions of each clip. `miles, word by word` also keeps which
word was written for which. `kaldialign` calls `edit_distance`, version 0.12.0, for each clip on its lists of words;
`jiwer` calls `process_words`, version 4.0.0, once for all clips, and makes its alignments too, as it always does.
jiwer has no interval of a rate, and no bootstrap: see `word_intervals.py` for that. All sides begin with texts.

The fewest edits of a pair of texts are one number, but there may be several ways to them with other shares of
substitutions, deletions and insertions. Here the corpus is written so that the errors made are the fewest, and the
three kinds are known: `errors made` is the truth.

With `--compounds`, words that one side joins and the other parts are no error, which jiwer does not know.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import race

RATE = 0.12
KINDS = ("substitutions", "deletions", "insertions")
OPTIONS = {
    "clips": race.Option(20_000, 400, "pairs of texts"),
    "compounds": race.Option(False, False, "let words be joined or parted"),
}


def drawn(given: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return sentences and what a recogniser makes of them."""
    import numpy as np

    from audits.speaker_groups.transcripts import compose, corrupt

    rng = np.random.default_rng(0)
    said = [compose(rng) for _ in range(given.clips)]
    return [" ".join(one) for one in said], [" ".join(corrupt(one, RATE, rng)) for one in said]


def totals(counts: Any) -> race.Result:
    """Return the sums over clips, and the errors of each clip."""
    return {name: int(getattr(counts, name).sum()) for name in KINDS} | {"of each clip": counts.errors}


def miles(given: argparse.Namespace) -> race.Job:
    """Count the edits of all pairs."""
    from probes.speech.word_errors import count_edits

    said, written = drawn(given)
    return lambda: totals(count_edits(said, written, "word", compounds=given.compounds))


def edits(given: argparse.Namespace) -> race.Job:
    """Count them and keep which words they are."""
    from probes.speech.word_edits import WordAligner

    said, written = drawn(given)

    def job() -> race.Result:
        aligner = WordAligner(compounds=given.compounds)
        counts = aligner.add(said, written)
        return totals(counts) | {"edited words": len(aligner.edits().pair)}

    return job


def kaldialign(given: argparse.Namespace) -> race.Job:
    """Call the package for each pair."""
    import numpy as np
    from kaldialign import edit_distance

    said, written = drawn(given)

    def job() -> race.Job:
        rows = [
            edit_distance(one.split(), two.split(), merge_compounds=given.compounds)
            for one, two in zip(said, written, strict=True)
        ]
        return lambda: {
            **{name: sum(row[name[:3]] for row in rows) for name in KINDS},
            "of each clip": np.array([row["total"] for row in rows]),
        }

    return job


def jiwer(given: argparse.Namespace) -> race.Job:
    """Call the package for all pairs, with no change to the words."""
    import numpy as np
    from jiwer import process_words

    if given.compounds:
        raise race.LeftOutError("it knows no compounds")
    said, written = drawn(given)

    def job() -> race.Job:
        found = process_words(said, written)
        return lambda: {
            **{name: getattr(found, name) for name in KINDS},
            "of each clip": np.array([sum(one.type != "equal" and _length(one) for one in row)
                                      for row in found.alignments]),
        }  # fmt: skip

    return job


def _length(chunk: Any) -> int:
    return max(chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx)


def made(given: argparse.Namespace) -> dict[str, int]:
    """Return how many errors of each kind were made, as the lengths of the texts and their words show."""
    found = dict.fromkeys(KINDS, 0)
    for one, two in zip(*drawn(given), strict=True):
        said, written = one.split(), two.split()
        further = len(written) - len(said)
        # A sentence has deletions or insertions, never both, and false words are none of its own.
        found["insertions" if further > 0 else "deletions"] += abs(further)
        found["substitutions"] += sum(word not in said for word in written) - max(further, 0)
    return found


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say how far each side is from what was made."""
    true = made(given)
    yield f"errors made: {true}"
    for side, rows in found.items():
        apart = {name: int(rows[0].result[name]) - true[name] for name in KINDS}
        yield f"{side}, above what was made: {apart}"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"miles": miles, "miles, word by word": edits, "kaldialign": kaldialign, "jiwer": jiwer},
        remarks=remarks,
        packages=("kaldialign", "jiwer", "rapidfuzz"),
    )
