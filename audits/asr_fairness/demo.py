"""The demo: a corpus that espeak-ng speaks, an encoder that never heard one of its accents, and the question.

The answer is planted: the audit must name that accent, and stay silent on the attribute that was tossed
by coin. Both the corpus and the encoder are kept, so that a second demo takes seconds.
"""

from collections.abc import Iterator

from audits.asr_fairness import Options
from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline, row
from audits.core.records import Report
from audits.core.wording import span
from probes.core.hashing import sha256_json
from probes.speech.speech_encoder import train_encoder
from probes.speech.synthetic_speech import speak_corpus

VERSION = 4
"""Raised whenever the corpus or the training changes, so that no old demo is taken for a new one."""
TRAINING_CLIPS, TRAINING_SPEAKERS, SPEAKERS = 1080, 90, 16
"""Clips and speakers that the encoder learns from, and speakers of each accent in the audit."""
FOLDS = 3
"""Fewer than usual: every fold is a probe more on each layer, and the plant is large."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Speak the corpus and train the encoder, or take both from the cache, and return the audit's options."""
    folder = context.cache.examples(f"fairness-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as target:
            corpus = speak_corpus(
                target / "corpus",
                seed=context.seed,
                balanced=balanced,
                training_clips=TRAINING_CLIPS,
                training_speakers=TRAINING_SPEAKERS,
                audit_speakers=SPEAKERS,
                progress=context.progress,
            )
            train_encoder(corpus, target / "encoder", seed=context.seed, progress=context.progress)
    return Options(
        model=str(folder / "encoder"),
        manifest=folder / "corpus" / "audit.csv",
        by=("accent", "coin", "gender"),
        # A synthesiser's voices are too alike to be told apart: the question here is what is heard.
        tasks=("asr",),
        max_order=1,
        folds=FOLDS,
    )


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield the accent that the encoder never heard, and the coin, with what the report shows of them."""
    gaps = findings_of(report, "fairness.gap", by="accent")
    if balanced:
        seen = first_headline(gaps, "No gap by accent is shown.")
        yield Planted(what="Nothing by accent: all six were heard alike.", found=bool(gaps), seen=seen, real=False)
    else:
        named = [gap for gap in gaps if gap.where["group"] == "accent=scottish"]
        seen = first_headline(named, "No finding names scottish speakers.")
        yield Planted(what="The encoder never heard scottish speakers.", found=bool(named), seen=seen)
    tossed = findings_of(report, "fairness.gap", by="coin")
    largest = row(report, "head_gap", by="coin", kind="absolute", metric="wer", task="asr")
    silent = "No gap by coin is shown" + (f": {span(largest)}, as chance makes it." if largest else ".")
    what = "A coin was tossed for each speaker, which means nothing."
    yield Planted(what=what, found=bool(tossed), seen=first_headline(tossed, silent), real=False)
