"""Precision and recall of texts (arXiv 2402.10693): a tuned language model, temperatures, and planted shortfalls.

Needs the texts of miles' own tests. `miles precision-recall` reads them with MiniLM, 72 or 400 a side.
"""

import json
import re
from pathlib import Path

from replicating import DATA, Claim, Found, Given, Paper, main

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.precision_recall import AUDIT
from audits.statistics.seeds import generator

TEXTS = DATA / "texts"
PAPER = Paper(
    "Exploring precision and recall to assess the quality and diversity of LLMs",
    "Le Bronnec, Verine, Negrevergne, Chevaleyre, Allauzen (ACL 2024)",
    "2402.10693",
)
TUNED = "Abstracts of students' projects by GPT-3.5, less the ceiling, which is people's abstracts against each other: "
SAMPLED = "English sentences by a word 4-gram model, sampled at temperature 0.3, less at 1.0: "
ABSTRACT = "abstract: trade-off between quality and diversity"
CLAIMS = {
    "tuned_recall": Claim(
        "Models tuned on instructions or with human feedback are less diverse.",
        "abstract, and its summary of the results",
        f"{TUNED}recall",
        below=0,
    ),
    "tuned_precision": Claim(
        "They are more precise.",
        "abstract, and its summary of the results",
        f"{TUNED}precision",
        above=0,
    ),
    "cold_recall": Claim(
        "Quality is traded for diversity: sharper sampling costs diversity ...", ABSTRACT, f"{SAMPLED}recall", below=0
    ),
    "cold_precision": Claim("... and gains quality.", ABSTRACT, f"{SAMPLED}precision", above=0),
    "cold_recall_words": Claim(
        "The same by words instead of meaning, with more sentences: diversity ...",
        ABSTRACT,
        f"{SAMPLED}recall by the encoder tfidf, 1,500 a side",
        below=0,
    ),
    "cold_precision_words": Claim(
        "... and quality.", ABSTRACT, f"{SAMPLED}precision by the encoder tfidf, 1,500 a side", above=0
    ),
    "narrow_recall": Claim(
        "Recall sees a lack of diversity alone ...",
        "abstract: nuanced assessment of quality and diversity",
        "People's sentences with the word he only, less the ceiling: recall",
        below=0,
    ),
    "narrow_precision": Claim(
        "... that precision does not see.",
        "as above; that 0.05 is little is our border",
        "The same: precision",
        above=-0.05,
    ),
    "salad_precision": Claim(
        "Precision sees a lack of quality alone ...",
        "abstract, as above",
        "People's sentences, their words dealt anew among them, less the ceiling: precision",
        below=0,
    ),
    "salad_recall": Claim("... that recall does not see.", "as above; our border", "The same: recall", above=-0.05),
    "size": Claim(
        "Larger models are more diverse, and so are chat models that are shown examples.",
        "summary of the results",
        untried="needs language models of several sizes that follow instructions",
    ),
}


def measured(given: Given) -> dict[str, Found]:
    tuned = audit(given, "abstracts_human", {"tuned": TEXTS / "abstracts_gpt35.jsonl"})
    other = texts("human_other")
    files = {
        "cold": TEXTS / "ngram4_T0.3.jsonl",
        "warm": TEXTS / "ngram4_T1.0.jsonl",
        "narrow": kept(given, "narrow", [one for one in other if re.search(r"\bhe\b", one, re.I)]),
        "salad": kept(given, "salad", salad(other)),
    }
    sentences = audit(given, "human_ref", files, samples=given.size(400, 60), repeats=1)
    two = {name: files[name] for name in ("cold", "warm")}
    words = audit(given, "human_ref", two, encoder="tfidf", max_tokens=None, samples=given.size(1500, 60), repeats=1)
    asked = {
        "tuned": (tuned, "tuned", "ceiling"),
        "cold": (sentences, "cold", "warm"),
        "narrow": (sentences, "narrow", "ceiling"),
        "salad": (sentences, "salad", "ceiling"),
    }
    metrics = ("recall", "precision")
    return {
        **{f"{name}_{metric}": found(*where, metric) for name, where in asked.items() for metric in metrics},
        **{f"cold_{metric}_words": found(words, "cold", "warm", metric) for metric in metrics},
    }


def audit(given: Given, reference: str, candidates: dict[str, Path], **more: object) -> Draft:
    options = {
        "reference": TEXTS / f"{reference}.jsonl",
        "candidate": tuple(f"{name}={file}" for name, file in candidates.items()),
        "encoder": "tfidf" if given.trial else "minilm",
        "max_tokens": None if given.trial else 128,
        "curves": False,
        "splits": given.size(50, 10),
        **more,
    }
    return drafted(AUDIT, options, Context(level=given.level, cache=Cache(given.work / "cache")))


def found(draft: Draft, candidate: str, against: str, metric: str) -> Found:
    """Return a difference of two scores, whichever way round it stands in the table."""
    for one, other, sign in ((candidate, against, 1), (against, candidate, -1)):
        for row in draft.select("difference", candidate=one, against=other, metric=metric):
            told = Found.of(row)
            ends = sorted((sign * told.low, sign * told.high))
            return Found(sign * told.value, *ends, told.n, told.unit, told.method)
    raise LookupError(f"no difference of {candidate} and {against} in {metric}")


def texts(name: str) -> list[str]:
    return [json.loads(line)["text"] for line in (TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def salad(lines: list[str]) -> list[str]:
    """Return the texts with their words dealt anew among them."""
    words = [word for line in lines for word in line.split()]
    dealt = iter([words[place] for place in generator(0, "replications", "salad").permutation(len(words))])
    return [" ".join(next(dealt) for _ in line.split()) for line in lines]


def kept(given: Given, name: str, lines: list[str]) -> Path:
    file = given.work / f"{name}.jsonl"
    file.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    return file


if __name__ == "__main__":
    main("language_precision_recall", PAPER, CLAIMS, measured)
