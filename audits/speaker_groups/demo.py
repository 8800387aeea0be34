"""The demo: three recognisers whose errors depend on who speaks in a planted way.

Old speakers are really served worse; the accent of the west only looks so, since most of its speakers are old; and
one recogniser fails on one intersection.
"""

from audits.core.context import Context
from audits.speaker_groups import Options
from audits.speaker_groups.transcripts import Corpus, write_corpus
from probes.core.hashing import sha256_json

VERSION = 1
"""Raised whenever the corpus changes, so that no old demo is taken for a new one."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Write the corpus and the transcripts, or take them from the cache, and return the audit's options."""
    folder = context.cache.examples(f"groups-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as made:
            write_corpus(made, seed=context.seed, balanced=balanced)
    corpus = Corpus(folder=folder, balanced=balanced)
    return Options(
        manifest=corpus.manifest,
        by=("accent", "age", "gender"),
        predictions=tuple(f"{name}={path}" for name, path in corpus.predictions.items()),
        control=("duration",),
    )
