"""Temperature and loss (arXiv 2508.09654): sampled sentences, and models of pairs of words whose scores are computed.

Needs the texts of miles' own tests. Pairs are successive words among the most frequent of people's sentences: their
shares are known, so that precision and recall of a model, at any temperature and after any loss, need no sample.
"""

import json
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from replicating import DATA, Claim, Found, Given, Paper, main, mean_of
from torch import Tensor

from audits.core.context import Cache, Context
from audits.core.testing import drafted
from audits.precision_recall import AUDIT
from audits.precision_recall.divergence_curves import prd_scores
from audits.statistics.seeds import generator

TEXTS = DATA / "texts"
WORDS, RANK, SPREAD = 32, 2, 0.25
"""Words of the pairs; rank of the table of logits, too small for it; lambda of the loss, at which recall is raised."""
WARM = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
COLD = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
PAPER = Paper(
    "Improving diversity in language models: when temperature fails, change the loss",
    "Verine, Le Bronnec, Zheng, Allauzen, Chevaleyre, Negrevergne (ICML 2025)",
    "2508.09654",
)
SENTENCES = "English sentences by a word 4-gram model, 1,000 a side, tfidf: "
PAIRS = (
    "Models of rank 2 of pairs of 32 words, trained by likelihood on half of the sentences, scores by their shares: "
)
CLAIMS = {
    "cold_precision": Claim(
        "Lowering the temperature raises precision.", "abstract", f"{SENTENCES}precision at 0.5 less at 1", above=0
    ),
    "warm_recall": Claim(
        "Raising it often fails to raise recall.",
        "abstract; that 0.02 is a rise is our border",
        f"{SENTENCES}recall at 1.3 less at 1",
        below=0.02,
    ),
    "warm_coverage": Claim(
        "It fails to raise coverage, by a score that is not generous to noise.",
        "as above; the score is ours",
        f"{SENTENCES}coverage at 1.3 less at 1",
        below=0.02,
    ),
    "pairs_cold": Claim(
        "Lowering the temperature raises precision, in a simple case.",
        "abstract",
        f"{PAIRS}best precision at temperatures below 1 less that at 1",
        above=0,
    ),
    "pairs_warm": Claim(
        "Raising it fails to raise recall, in a simple case.",
        "abstract; our border",
        f"{PAIRS}best recall at temperatures above 1 less that at 1",
        below=0.02,
    ),
    "reach": Claim(
        "A model trained for coverage reaches more recall by temperature.",
        "abstract: it must be trained toward coverage to be tunable",
        "The same models trained on for the recall of a slope of 0.25, less those trained on by likelihood: best "
        "recall at any temperature",
        above=0,
    ),
    "trade": Claim(
        "The loss gives a better trade-off than likelihood with temperature.",
        "abstract: substantially better",
        "The same: best recall where precision is at least that of likelihood at 1, 0 where it never is",
        above=0,
    ),
    "front": Claim(
        "The same, over all precisions.",
        "as above",
        "The same: area under the front of precision and recall over temperatures",
        above=0,
    ),
    "tunable": Claim(
        "After it, a lower temperature brings precision back.",
        "abstract: tunable through temperature",
        "The models trained for recall: best precision at temperatures below 1 less that at 1",
        above=0,
    ),
    "models": Claim(
        "The losses do the same for large language models.", "abstract", untried="needs to train language models"
    ),
}


def measured(given: Given) -> dict[str, Found]:
    rows = np.array([pairs_of(given, seed) for seed in range(given.size(12, 2))])
    names = ("pairs_cold", "pairs_warm", "reach", "trade", "front", "tunable")
    toy = {name: mean_of(list(row), given.level, "seeds") for name, row in zip(names, rows.T, strict=True)}
    return sentences(given) | toy


def sentences(given: Given) -> dict[str, Found]:
    """Return what changes with the temperature of the sentences, by `miles precision-recall`."""
    options = {
        "reference": TEXTS / "human_ref.jsonl",
        "candidate": tuple(f"at{t}={TEXTS / f'ngram4_T{t}.jsonl'}" for t in ("0.5", "1.0", "1.3")),
        "encoder": "tfidf",
        "curves": False,
        "splits": given.size(50, 10),
        "samples": given.size(1000, 60),
        "repeats": 1,
    }
    draft = drafted(AUDIT, options, Context(level=given.level, cache=Cache(given.work / "cache")))

    def change(candidate: str, metric: str) -> Found:
        for one, other, sign in ((candidate, "at1.0", 1), ("at1.0", candidate, -1)):
            for row in draft.select("difference", candidate=one, against=other, metric=metric):
                told = Found.of(row)
                ends = sorted((sign * told.low, sign * told.high))
                return Found(sign * told.value, *ends, told.n, told.unit, told.method)
        raise LookupError(f"no difference of {candidate} in {metric}")

    asked = (("cold_precision", "at0.5", "precision"), ("warm_recall", "at1.3", "recall"))
    return {name: change(*what) for name, *what in (*asked, ("warm_coverage", "at1.3", "coverage"))}


def pairs_of(given: Given, seed: int) -> list[float]:
    """Return what temperature and loss do to models of pairs of words, of one half of the sentences."""
    truth, steps = shares(seed), given.size(600, 30)
    start = fitted(seed, None, lambda q: -(truth * q.clamp_min(1e-30).log()).sum(), steps)
    likely = fitted(seed, start, lambda q: -(truth * q.clamp_min(1e-30).log()).sum(), steps)
    covering = fitted(seed, start, lambda q: -torch.minimum(truth, q / SPREAD).sum(), steps)
    plain, wide = ({t: scores(truth, law(model, t)) for t in (*COLD, *WARM)} for model in (likely, covering))
    enough = plain[1.0][0]
    return [
        max(plain[t][0] for t in COLD) - enough,
        max(plain[t][1] for t in WARM[1:]) - plain[1.0][1],
        max(recall for _, recall in wide.values()) - max(recall for _, recall in plain.values()),
        max((recall for precision, recall in wide.values() if precision >= enough), default=0.0)
        - max(recall for precision, recall in plain.values() if precision >= enough),
        area(wide) - area(plain),
        max(wide[t][0] for t in COLD) - wide[1.0][0],
    ]


def area(path: dict[float, tuple[float, float]]) -> float:
    """Return the mean, over precisions from 0 to 1, of the best recall that is reached with as much."""
    grid = np.linspace(0.0005, 0.9995, 1000)
    return float(np.mean([max((recall for one, recall in path.values() if one >= g), default=0.0) for g in grid]))


def shares(seed: int) -> Tensor:
    """Return the shares of pairs of frequent words that follow each other, in half of the sentences."""
    lines = (TEXTS / "human_ref.jsonl").read_text(encoding="utf-8").splitlines()
    words = [re.findall(r"[a-z']+", json.loads(line)["text"].lower()) for line in lines]
    frequent = [word for word, _ in Counter(word for one in words for word in one).most_common(WORDS)]
    place = {word: number for number, word in enumerate(frequent)}
    counts = torch.zeros(WORDS, WORDS)
    for chosen in generator(seed, "replications", "half").permutation(len(words))[: len(words) // 2]:
        for one, other in zip(words[chosen], words[chosen][1:], strict=False):
            if one in place and other in place:
                counts[place[one], place[other]] += 1
    return counts / counts.sum()


Model = list[Tensor]


def law(model: Model, temperature: float = 1.0) -> Tensor:
    """Return the shares of pairs, each word sampled at a temperature."""
    first, before, after, bias = model
    following = ((before @ after + bias) / temperature).log_softmax(1)
    return ((first / temperature).log_softmax(0)[:, None] + following).exp()


def fitted(seed: int, start: Model | None, loss: Callable[[Tensor], Tensor], steps: int) -> Model:
    """Return a model after so many steps on a loss of its shares."""
    chance = generator(seed, "replications", "start")
    drawn = [torch.tensor(0.1 * chance.standard_normal(shape)).float() for shape in SHAPES]
    model = [one.clone().requires_grad_() for one in start or drawn]
    optimiser = torch.optim.Adam(model, 0.03)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(law(model)).backward()
        optimiser.step()
    return [one.detach() for one in model]


SHAPES = ((WORDS,), (WORDS, RANK), (RANK, WORDS), (WORDS,))


def scores(truth: Tensor, shares: Tensor) -> tuple[float, float]:
    """Return precision and recall, the largest F1/8 and F8 on the curve."""
    precision, recall = prd_scores(truth.flatten().double().numpy(), shares.flatten().double().numpy())
    return float(precision), float(recall)


if __name__ == "__main__":
    main("temperature_loss", PAPER, CLAIMS, measured)
