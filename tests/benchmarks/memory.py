"""Does the memory of an audit stay flat when the corpus grows?

Two corpora are audited, both tasks and all layers of a small encoder; the columns of extra MB should be alike.
"""

import argparse
from types import SimpleNamespace

import encoding_speed
import race

OPTIONS = {"few": race.Option(200, 20, "clips"), "many": race.Option(600, 40, "clips")}


def prepare(given: argparse.Namespace) -> None:
    """Write both corpora, with an encoder each."""
    for name in OPTIONS:
        folder = given.folder / name
        folder.mkdir()
        encoding_speed.make_corpus(folder, getattr(given, name))
        encoding_speed.make_encoder(folder / "model", width=128, layers=4, channels=32)


def audited(name: str) -> race.Side:
    """Return the side that audits one of the corpora."""
    both = encoding_speed.audit("sid", "asr")
    return lambda given: both(SimpleNamespace(folder=given.folder / name))


if __name__ == "__main__":
    race.main(__doc__, options=OPTIONS, sides={name: audited(name) for name in OPTIONS}, prepare=prepare, base="few")
