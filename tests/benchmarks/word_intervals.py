"""What does an interval of the word error rate cost here, beside kaldialign, and which is closer to 95 %?

`miles` counts the edits of all clips and takes the interval of `miles audit-groups`: Student's over whole speakers, no
resampling. `kaldialign` calls `bootstrap_wer_ci`, version 0.12.0, on lists of words, with --replications samples of
clips; it is not told who speaks, and has no way to be told. jiwer 4.0.0 has no interval at all.

The second part draws --corpora small ones in which the true rate is known. A word goes wrong by chance, and then is one
that no sentence has, so that the fewest edits are those made. Either speakers err alike, and clips are independent, or
each has a factor of their own, with a coefficient of variation of 0.4. Of how many corpora does the interval hold the
true rate? Wanted: 95 %; both sides get the same corpora.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import race

RATE, SPREAD, WORDS = 0.12, 0.4, 10
OPTIONS = {
    "clips": race.Option(10_000, 300, "pairs of texts of the timed corpus"),
    "speakers": race.Option(400, 30, "who speak them"),
    "replications": race.Option(1_000, 100, "bootstrap samples of kaldialign"),
    "corpora": race.Option(400, 10, "corpora in which intervals are held against the truth"),
}
SMALL = {"speakers": 40, "clips": 800}
"""Of a corpus of the second part."""


def drawn(speakers: int, clips: int, spread: float, seed: int) -> tuple[list[str], list[str], Any]:
    """Return texts, what is written for them, and who speaks."""
    import numpy as np

    rng = np.random.default_rng(seed)
    rates = np.full(speakers, RATE)
    if spread:
        rates = RATE * rng.gamma(spread**-2, spread**2, speakers)
    # A rate above 1 would lower the true one; of this law it takes 8 times the mean, once in 10^15.
    who = np.arange(clips) % speakers
    wrong = rng.random((clips, WORDS)) < rates[who, None]
    words = [f"w{place}" for place in range(WORDS)]
    written = [" ".join("no" if one else word for one, word in zip(row, words, strict=True)) for row in wrong]
    return [" ".join(words)] * clips, written, who


def interval(said: list[str], written: list[str], who: Any) -> dict[str, float]:
    """Return the rate and its interval from whole speakers."""
    import numpy as np

    from audits.statistics import rate_intervals
    from probes.speech.word_errors import count_edits

    counts = count_edits(said, written, "word")
    errors, words = (np.bincount(who, one)[:, None] for one in (counts.errors, counts.lengths))
    found = rate_intervals(errors, words)
    return {name: float(getattr(found, name)[0]) for name in ("value", "low", "high")}


def bootstrapped(said: list[str], written: list[str], replications: int, seed: int) -> dict[str, float]:
    """Return kaldialign's bootstrap mean and percentiles of 2.5 and 97.5."""
    from kaldialign import bootstrap_wer_ci

    rows = [[text.split() for text in texts] for texts in (said, written)]
    found = bootstrap_wer_ci(*rows, replications=replications, seed=seed)
    mean, half = found["wer"], found["ci95"]
    return {"value": mean, "low": mean - half, "high": mean + half}


def miles(given: argparse.Namespace) -> race.Job:
    """From texts to the interval."""
    texts = drawn(given.speakers, given.clips, SPREAD, 0)
    return lambda: interval(*texts)


def kaldialign(given: argparse.Namespace) -> race.Job:
    """From texts to the interval."""
    import kaldialign  # noqa: F401

    said, written, _ = drawn(given.speakers, given.clips, SPREAD, 0)
    return lambda: bootstrapped(said, written, given.replications, 0)


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say how often the intervals of each side hold the true rate, and how wide they are."""
    import numpy as np

    for spread in (0.0, SPREAD):
        rows: dict[str, list[dict[str, float]]] = {side: [] for side in found}
        for seed in range(1, given.corpora + 1):
            said, written, who = drawn(SMALL["speakers"], SMALL["clips"], spread, seed)
            if "miles" in found:
                rows["miles"].append(interval(said, written, who))
            if "kaldialign" in found:
                rows["kaldialign"].append(bootstrapped(said, written, given.replications, seed))
        kind = f"speakers with factors of {spread} CV" if spread else "speakers who err alike"
        for side, ends in rows.items():
            held = np.mean([one["low"] <= RATE <= one["high"] for one in ends])
            wide = np.mean([one["high"] - one["low"] for one in ends])
            yield f"{kind}, {side}: {held:.1%} of {len(ends)} intervals hold {RATE}; mean width {wide:.4f}"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"miles": miles, "kaldialign": kaldialign},
        remarks=remarks,
        packages=("kaldialign", "rapidfuzz"),
    )
