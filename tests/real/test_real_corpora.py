"""Do corpora of sixteen languages have the sizes of their table, and counts of n-grams that linguists would expect?"""

import os
from pathlib import Path

import numpy as np
import pytest

from probes.language_models.byte_ngrams import baseline_losses, overlap_matrix
from probes.language_models.language_corpora import (
    LanguageText,
    check_codes,
    read_attributes,
    read_language,
    shared_content,
    shared_sentences,
)

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
CORPORA = DATA / "multilingual"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not CORPORA.is_dir(), reason=f"{CORPORA} is absent; MILES_TEST_DATA names another place"),
]
CODES = ("ar", "bg", "de", "en", "es", "fa", "fr", "hi", "pl", "ta", "tr", "tt", "ug", "uk", "ur", "zh")
LENGTH, HELD = 128, 40_000


@pytest.fixture(scope="module")
def texts() -> dict[str, LanguageText]:
    """Return every language, read whole: what is not held out is for training."""
    codes = check_codes(CORPORA, CODES)
    return {code: read_language(CORPORA, code, seed=0, train_bytes=10**6, held_bytes=HELD) for code in codes}


def windows(sentences: tuple[bytes, ...]) -> np.ndarray:
    stream = np.frombuffer(b"\n".join(sentences), np.uint8)
    return stream[: len(stream) // LENGTH * LENGTH].reshape(-1, LENGTH)


def test_sizes_are_those_of_the_table(texts: dict[str, LanguageText]) -> None:
    table = read_attributes(CORPORA, CODES)
    assert table.missing == () and list(table.columns)[:4] == ["name", "family", "branch", "script"]
    for code, text in texts.items():
        stated = [int(table.columns[name][code]) for name in ("lines", "utf8_bytes", "chars")]
        assert [text.given, text.bytes, text.characters] == stated
        # No sentence stands twice, so that all are used.
        assert not text.skipped and not text.notes and len(text.train) + len(text.held) == text.given
        assert HELD <= sum(map(len, text.held)) + len(text.held) < HELD + 1000
        assert sum(map(len, text.train + text.held)) + text.given == text.bytes


def test_languages_do_not_share_files_and_hardly_a_sentence(texts: dict[str, LanguageText]) -> None:
    assert shared_content(list(texts.values())) == ()
    assert sum(shared_sentences(list(texts.values())).values()) <= 5


def test_baselines_are_those_known_of_the_languages(texts: dict[str, LanguageText]) -> None:
    rng = np.random.default_rng(0)
    found = {}
    for code, text in texts.items():
        held = windows(text.held)
        losses = baseline_losses(windows(text.train), held, rng.random(held.shape) < 0.15, 257)
        found[code] = losses.unigram.mean(), losses.bigram.mean()
    assert found["en"][0] == pytest.approx(3.18, abs=0.05)
    for unigram, bigram in found.values():
        assert 2 < unigram < 4.5 and bigram < unigram - 0.4
    # Three bytes a character, the first of which hardly ever changes.
    assert found["ta"][0] == min(unigram for unigram, _ in found.values())


def test_languages_of_one_script_are_more_alike(texts: dict[str, LanguageText]) -> None:
    script = read_attributes(CORPORA, CODES).columns["script"]
    overlap = overlap_matrix([texts[code].train for code in CODES])
    at = {code: place for place, code in enumerate(CODES)}
    assert overlap[at["en"], at["fr"]] > 5 * overlap[at["en"], at["ar"]]
    same = np.array([[script[one] == script[two] for one in CODES] for two in CODES])
    other = ~np.eye(len(CODES), dtype=bool)
    assert overlap[same & other].min() > overlap[~same].max()
    assert overlap[at["bg"], at["uk"]] > overlap[at["bg"], at["tt"]]
