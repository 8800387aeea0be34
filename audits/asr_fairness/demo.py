"""The demo: a corpus that espeak-ng speaks, an encoder that never heard one of its accents, and the question.

The answer is planted: the audit must name that accent, and stay silent on the attribute that was tossed
by coin. Both the corpus and the encoder are kept, so that a second demo takes seconds.
"""

from audits.asr_fairness import Options
from audits.core.context import Context
from probes.core.hashing import sha256_json
from probes.speech.speech_encoder import train_encoder
from probes.speech.synthetic_speech import speak_corpus

VERSION = 3
"""Raised whenever the corpus or the training changes, so that no old demo is taken for a new one."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Speak the corpus and train the encoder, or take both from the cache, and return the audit's options."""
    folder = context.cache.examples(f"fairness-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as target:
            corpus = speak_corpus(target / "corpus", seed=context.seed, balanced=balanced, progress=context.progress)
            train_encoder(corpus, target / "encoder", seed=context.seed, progress=context.progress)
    return Options(
        model=str(folder / "encoder"),
        manifest=folder / "corpus" / "audit.csv",
        by=("accent", "coin", "gender"),
        # A synthesiser's voices are too alike to be told apart: the question here is what is heard.
        tasks=("asr",),
        max_order=1,
    )
