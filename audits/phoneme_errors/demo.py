"""The demo: a corpus whose phones' times are known, and an encoder that never heard one of its accents.

The phones of that accent lie where the encoder puts them without having learned to; the attribute that was tossed by
coin has no error of either kind.
"""

from audits.core.context import Context
from audits.phoneme_errors import Options
from probes.core.hashing import sha256_json
from probes.speech.speech_encoder import train_encoder
from probes.speech.synthetic_speech import speak_corpus

VERSION = 2
"""Raised whenever the corpus or the training changes, so that no old demo is taken for a new one."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Speak the corpus and train the encoder, or take both from the cache, and return the audit's options."""
    folder = context.cache.examples(f"phonemes-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as target:
            corpus = speak_corpus(
                target / "corpus", seed=context.seed, balanced=balanced, alignments=True, progress=context.progress
            )
            # A head of phones, so that the folder can place phones itself: --align-with.
            train_encoder(corpus, target / "encoder", seed=context.seed, units="phones", progress=context.progress)
    return Options(
        tokens=str(folder / "encoder"),
        manifest=folder / "corpus" / "audit.csv",
        alignments=folder / "corpus" / "alignments" / "audit",
        by=("accent", "coin", "gender"),
    )
