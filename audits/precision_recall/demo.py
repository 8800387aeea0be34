"""The demo: a small language model, trained on sentences that the package makes itself, sampled at six temperatures.

Where it is balanced there is nothing to find: the candidates are further sentences by the same grammar.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline
from audits.core.records import Report
from audits.precision_recall import Options
from probes.core.hashing import sha256_json
from probes.texts.synthetic_sentences import make_sentences

VERSION = 1
"""Raised whenever the sentences or the training change, so that no old demo is taken for a new one."""
TRAINING, REFERENCE, SAMPLED = 5000, 1600, 800
TEMPERATURES = ("0.3", "0.5", "0.7", "1.0", "1.3", "1.6")


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Make the sentences and train the model, or take both from the cache, and return the audit's options."""
    folder = context.cache.examples(f"texts-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as target:
            _make(target, context, balanced)
    reference = folder / "reference.jsonl"
    if balanced:
        further = tuple(f"{name}={folder / name}.jsonl" for name in ("first", "second", "third"))
        return Options(reference=reference, candidate=further, encoder="tfidf")
    return Options(
        reference=reference,
        generate=str(folder / "model"),
        temperatures=TEMPERATURES,
        max_new_tokens=32,
        batch=100,
        encoder="tfidf",
    )


def _make(target: Path, context: Context, balanced: bool) -> None:
    made = make_sentences(TRAINING + REFERENCE + 3 * SAMPLED, seed=context.seed)
    held_out, rest = made[TRAINING : TRAINING + REFERENCE], made[TRAINING + REFERENCE :]
    _write(target / "reference.jsonl", held_out)
    if balanced:
        for number, name in enumerate(("first", "second", "third")):
            _write(target / f"{name}.jsonl", rest[number * SAMPLED : (number + 1) * SAMPLED])
        return
    from probes.texts.causal_lm import train_causal_lm

    train_causal_lm(made[:TRAINING], target / "model", seed=context.seed, progress=context.progress)


def _write(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what temperatures do, or that there is nothing, with what the report shows of it."""
    short = [*findings_of(report, "texts.below-ceiling"), *findings_of(report, "texts.below-reference")]
    if balanced:
        what = "Nothing: all candidates are by the grammar of the reference."
        seen = first_headline(short, "No candidate is shown to fall short.")
        yield Planted(what=what, found=bool(short), seen=seen, real=False)
        return
    for temperature, what, metric in (
        (TEMPERATURES[0], "keeps to what is common, so it covers less", "recall"),
        (TEMPERATURES[-1], "makes up words, so its texts are worse", "precision"),
    ):
        name = f"T={temperature}"
        lower = [
            one
            for one in short
            if one.where.get("candidate") == name
            and any(
                report.estimates[index].name == "difference" and report.estimates[index].where.get("metric") == metric
                for index in one.evidence
            )
        ]
        seen = first_headline(lower, f"{name} is not shown to fall short in {metric}.")
        yield Planted(what=f"{name} {what}.", found=bool(lower), seen=seen)
