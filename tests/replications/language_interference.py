"""Interference between languages in one encoder (arXiv 2508.02256) against what miles finds of small ones.

`miles interference` trains a masked language model on each of three languages and on each two of them. One pair shares
its script and not its family, one its family and not its script, one neither.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from replicating import DATA, Claim, Found, Given, Paper, main

from audits.core.context import Cache, Context
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.interference import AUDIT
from audits.statistics.seeds import generator

LANGUAGES = ("en", "tr", "tt")
ALIKE = 6
"""Intervals that are taken together at most: those of the cells."""
Ends = tuple[float, float, float]
PAPER = Paper(
    "Interference Matrix: Quantifying Cross-Lingual Interference in Transformer Encoders",
    "Alastruey, Janeiro, Allauzen, Elbayad, Barrault, Costa-jussà (2025)",
    "2508.02256",
)
MODELS = "English, Turkish and Tatar, encoders of 2 layers, as much data of each language alone and in a pair"
CLAIMS = {
    "interferes": Claim(
        says="Languages that share an encoder interfere with one another.",
        source="abstract: the matrix quantifies it; the sign is our reading",
        measured=f"Mean change of the held-out loss by a second language, nats per byte; {MODELS}",
        above=0,
    ),
    "asymmetric": Claim(
        says="Interference is asymmetrical.",
        source="abstract",
        measured="Largest difference, over pairs, between the harm to one language and that to the other; the same",
        above=0,
    ),
    "script": Claim(
        says="Interference goes with script.",
        source="abstract; which of the two signs is not said there",
        measured="Size of the difference of mean changes, pairs of one script less pairs of two; the same",
        above=0,
    ),
    "script_over_family": Claim(
        says="It goes with script rather than with family.",
        source="abstract",
        measured="Size of the effect of one script, less the size of the effect of one family; the same",
        above=0,
    ),
    "similarity": Claim(
        says="Interference does not follow how similar the embeddings of languages are.",
        source="abstract",
        untried="Three languages are too few for a correlation over languages.",
    ),
    "downstream": Claim(
        says="The matrix predicts how well models do on downstream tasks.",
        source="abstract",
        untried="No task with labels in these languages is at hand.",
    ),
}


def measured(given: Given) -> dict[str, Found]:
    options: dict[str, Any] = {"corpus": DATA / "multilingual", "langs": LANGUAGES}
    if given.trial:
        options["losses"] = drawn_losses(given)
    else:
        options |= {
            "seeds": 3,
            "steps": 200,
            "batch": 16,
            "hidden": 48,
            "held_out": 20_000,
            "margin": 0.0,
            "workers": 1,
        }
    # Intervals that hold together, by Bonferroni.
    context = Context(level=1 - (1 - given.level) / ALIKE, cache=Cache(given.work / "cache"))
    draft = drafted(AUDIT, options, context)
    received, pairs = draft.select("received"), draft.select("asymmetry")
    cells = draft.select("interference")
    script, family = (size_of([effect(cells, pair)]) for pair in ({"en", "tr"}, {"tr", "tt"}))
    mean = [sum(ends) / len(received) for ends in zip(*map(ends_of, received), strict=True)]
    return {
        "interferes": Found(*mean, *resting_on(received)),
        "asymmetric": Found(*size_of(map(ends_of, pairs)), *resting_on(pairs)),
        "script": Found(*script, *resting_on(cells)),
        "script_over_family": Found(
            script[0] - family[0], script[1] - family[2], script[2] - family[1], *resting_on(cells)
        ),
    }


def drawn_losses(given: Given) -> Path:
    """Write losses drawn at random: for a trial, which has no time to train."""
    rng = generator(0, "replications", "losses")
    rows = [
        f"{target},{source},{seed},{2 + (target != source) * 0.1 + rng.normal() / 50}\n"
        for target in LANGUAGES
        for source in LANGUAGES
        for seed in range(3)
    ]
    file = given.work / "losses.csv"
    file.write_text("lang,with,seed,loss\n" + "".join(rows), encoding="utf-8")
    return file


def ends_of(one: Estimate) -> Ends:
    """Return value, low and high."""
    if one.low is None or one.high is None:
        raise ValueError(f"{one.name} {dict(one.where)} has no interval: {one.method}")
    return one.value, one.low, one.high


def effect(cells: Sequence[Estimate], pair: set[str]) -> Ends:
    """Return the mean change in a pair less that in the two others, within the joint intervals of all cells."""
    inside = [ends_of(one) for one in cells if {one.where["target"], one.where["source"]} == pair]
    outside = [ends_of(one) for one in cells if {one.where["target"], one.where["source"]} != pair]
    (value, low, high), (other, least, most) = (
        [sum(ends) / len(rows) for ends in zip(*rows, strict=True)] for rows in (inside, outside)
    )
    return value - other, low - most, high - least


def size_of(found: Iterable[Ends]) -> Ends:
    """Return the largest size among numbers with joint intervals, and what it is at least and at most."""
    sizes = [(abs(value), max(low, -high, 0.0), max(abs(low), abs(high))) for value, low, high in found]
    return max(one[0] for one in sizes), max(one[1] for one in sizes), max(one[2] for one in sizes)


def resting_on(rows: Sequence[Estimate]) -> tuple[int, str, str]:
    """Return number and kind of units, and how the interval was made."""
    method = f"{rows[0].method}, with Bonferroni's correction for {ALIKE}"
    return min(one.n for one in rows), rows[0].unit, method


if __name__ == "__main__":
    main("language_interference", PAPER, CLAIMS, measured)
