"""The demo: a corpus whose phones' times are known, and an encoder that never heard one of its accents.

The phones of that accent lie where the encoder puts them without having learned to; the attribute that was tossed by
coin has no error of either kind.
"""

from collections.abc import Iterator

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline
from audits.core.records import Report
from audits.phoneme_errors import Options
from probes.core.hashing import sha256_json
from probes.speech.speech_encoder import train_encoder
from probes.speech.synthetic_speech import speak_corpus

VERSION = 3
"""Raised whenever the corpus or the training changes, so that no old demo is taken for a new one."""
TRAINING_CLIPS, TRAINING_SPEAKERS, SPEAKERS = 1080, 90, 16
"""Clips and speakers that the encoder learns from, and speakers of each accent in the audit."""
REPEATS = 1
"""How often speakers are dealt: each deal takes as long as the training."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Speak the corpus and train the encoder, or take both from the cache, and return the audit's options."""
    folder = context.cache.examples(f"phonemes-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as target:
            corpus = speak_corpus(
                target / "corpus",
                seed=context.seed,
                balanced=balanced,
                training_clips=TRAINING_CLIPS,
                training_speakers=TRAINING_SPEAKERS,
                audit_speakers=SPEAKERS,
                alignments=True,
                progress=context.progress,
            )
            # A head of phones, so that the folder can place phones itself: --align-with.
            train_encoder(corpus, target / "encoder", seed=context.seed, units="phones", progress=context.progress)
    return Options(
        tokens=str(folder / "encoder"),
        manifest=folder / "corpus" / "audit.csv",
        alignments=folder / "corpus" / "alignments" / "audit",
        by=("accent", "coin"),
        repeats=REPEATS,
    )


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield the accent that is new to the encoder, and the coin, with what the report shows of them."""
    displaced = [*findings_of(report, "phonemes.both"), *findings_of(report, "phonemes.systematic")]
    noisy = findings_of(report, "phonemes.random")
    if balanced:
        found = [one for one in (*displaced, *noisy) if str(one.where["group"]).startswith("accent=")]
        seen = first_headline(found, "No accent shows an error of either kind.")
        yield Planted(what="Nothing by accent: all six were heard alike.", found=bool(found), seen=seen, real=False)
    else:
        named = [one for one in displaced if one.where["group"] == "accent=scottish"]
        seen = first_headline(named, "No finding says so of scottish speakers.")
        what = "The encoder never heard scottish speakers: it places their sounds elsewhere."
        yield Planted(what=what, found=bool(named), seen=seen)
    tossed = [one for one in (*displaced, *noisy) if str(one.where["group"]).startswith("coin=")]
    what = "A coin was tossed for each speaker, which means nothing."
    seen = first_headline(tossed, "Neither side of the coin shows an error of either kind.")
    yield Planted(what=what, found=bool(tossed), seen=seen, real=False)
