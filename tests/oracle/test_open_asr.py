"""Does `--normalise open-asr` give what the Open ASR Leaderboard gives?

open_asr.json beside this file holds texts of ours with what the leaderboard's own code made of them, and pairs with the
counts of `kaldialign`: computed once, with their code as of the autumn of 2026, which is no part of this repository.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from probes.speech.normalisers import Normaliser
from probes.speech.open_asr import normalise_open_asr
from probes.speech.open_asr.tables import names, spellings
from probes.speech.word_errors import count_characters, count_edits, count_words

KNOWN: dict[str, Any] = json.loads((Path(__file__).with_name("open_asr.json")).read_text(encoding="utf-8"))


def test_every_text_comes_out_as_there() -> None:
    wrong = [(text, normalise_open_asr(text), theirs) for text, theirs in KNOWN["texts"] if
             normalise_open_asr(text) != theirs]  # fmt: skip
    assert not wrong
    assert len(KNOWN["texts"]) > 200


def test_word_errors_of_every_pair_are_those_there() -> None:
    normaliser = Normaliser("open-asr")
    references, transcripts = (normaliser.all([pair[side] for pair in KNOWN["pairs"]]) for side in (0, 1))
    found = count_edits(references, transcripts, "word", compounds=normaliser.compounds)
    assert found.lengths.tolist() == [pair[2] for pair in KNOWN["pairs"]]
    assert found.errors.tolist() == [sum(pair[3:]) for pair in KNOWN["pairs"]]
    # As one rate: what the leaderboard publishes.
    assert found.errors.sum() / found.lengths.sum() == sum(sum(pair[3:]) for pair in KNOWN["pairs"]) / 181
    # Without compounds there are more: the list has a use.
    assert count_edits(references, transcripts, "word").errors.sum() > 2 * found.errors.sum()


def test_errors_of_many_pairs_of_letters_are_those_there() -> None:
    references, transcripts, errors = zip(*KNOWN["letters"], strict=True)
    found = count_edits(references, transcripts, "word", compounds=True)
    assert found.errors.tolist() == list(errors)
    assert (found.hits >= 0).all() and (found.hits + found.substitutions + found.deletions == found.lengths).all()


@pytest.mark.parametrize(("reference", "transcript"), [pair[:2] for pair in KNOWN["letters"][:40] if pair[0]])
def test_one_pair_is_counted_as_many_are(reference: str, transcript: str) -> None:
    for count, unit in ((count_words, "word"), (count_characters, "character")):
        one = count(reference, transcript, compounds=True)
        many = count_edits([reference], [transcript], unit, compounds=True)  # type: ignore[arg-type]
        assert (one.errors, one.insertions, one.length) == (many.errors[0], many.insertions[0], many.lengths[0])


def test_tables_are_whole() -> None:
    assert (len(spellings()), len(names())) == (1743, 152)
    assert spellings()["yoghurts"] == "yogurts" and spellings()["ok"] == "okay" and names()["pieter"] == "peter"
