"""Are transcripts compared as promised, and every edit counted once?"""

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.words import NORMALISERS, EditCounts, count_characters, count_words, normalise

SENTENCES = st.lists(st.sampled_from(["one", "two", "too", "three", "tree"]), min_size=1, max_size=8).map(" ".join)


def distance(reference: list[str], hypothesis: list[str]) -> int:
    row = list(range(len(hypothesis) + 1))
    for place, unit in enumerate(reference, start=1):
        previous, row[0] = row[0], place
        for column, other in enumerate(hypothesis, start=1):
            previous, row[column] = row[column], min(previous + (unit != other), row[column] + 1, row[column - 1] + 1)
    return row[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Hello,   WORLD! ", "hello world"),
        ("Don’t", "don't"),
        ("don't 'quote'", "don't 'quote'"),
        ("stop - NOW (really?)", "stop now really"),
        ("3 cats & 2nd dog", "3 cats 2nd dog"),
        ("tab\tnew\nline\u00a0space", "tab new line space"),
        ("नमस्ते, दुनिया!", "नमस्ते दुनिया"),
        ("हिन्दी में किताब।", "हिन्दी में किताब"),
        ("Ärger STRASSE straße", "ärger strasse straße"),
        ("cafe\u0301", "caf\u00e9"),
        ("سلام، دنيا", "سلام دنيا"),
        ("你好，世界。", "你好世界"),
        ("...", ""),
        ("", ""),
    ],
)
def test_basic_keeps_letters_marks_digits_and_apostrophes(text: str, expected: str) -> None:
    assert normalise(text, "basic") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith won't pay twenty one dollars", "mister smith will not pay $21"),
        ("um, it's [noise] (laughs) fine", "it is fine"),
        ("Hello, WORLD!", "hello world"),
        ("colour", "colour"),
    ],
)
def test_whisper_english_spells_out(text: str, expected: str) -> None:
    assert normalise(text, "whisper-english") == expected


def test_none_tidies_spaces_only() -> None:
    assert normalise("  Hello,\t WORLD! ", "none") == "Hello, WORLD!"


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    for how in ("none", "basic"):
        once = normalise(text, how)
        assert normalise(once, how) == once
        assert once == once.strip() and "  " not in once


def test_all_names_are_known() -> None:
    assert {normalise("A b", how).lower() for how in NORMALISERS} == {"a b"}


@pytest.mark.parametrize(
    ("reference", "hypothesis", "words", "characters"),
    [
        ("one two three", "one too", EditCounts(1, 1, 1, 0), None),
        ("a b", "", EditCounts(0, 0, 2, 0), EditCounts(0, 0, 3, 0)),
        ("a", "a b c", EditCounts(1, 0, 0, 2), EditCounts(1, 0, 0, 4)),
        ("cat", "cart", EditCounts(0, 1, 0, 0), EditCounts(3, 0, 0, 1)),
        ("same words", "same words", EditCounts(2, 0, 0, 0), EditCounts(10, 0, 0, 0)),
        ("किताब", "किताबें", EditCounts(0, 1, 0, 0), EditCounts(5, 0, 0, 2)),
    ],
)
def test_counts_of_hand_made_pairs(
    reference: str, hypothesis: str, words: EditCounts, characters: EditCounts | None
) -> None:
    assert count_words(reference, hypothesis) == words
    assert characters is None or count_characters(reference, hypothesis) == characters
    assert words.length == len(reference.split())


@given(SENTENCES, st.one_of(st.just(""), SENTENCES))
def test_errors_are_the_edit_distance(reference: str, hypothesis: str) -> None:
    for found, left, right, rate in (
        (count_words(reference, hypothesis), reference.split(), hypothesis.split(), jiwer.wer(reference, hypothesis)),
        (count_characters(reference, hypothesis), list(reference), list(hypothesis), jiwer.cer(reference, hypothesis)),
    ):
        assert found.errors == distance(left, right)
        assert found.errors == pytest.approx(rate * len(left))
        assert found.length == len(left)
        assert found.hits + found.substitutions + found.insertions == len(right)
        assert found.errors >= abs(len(left) - len(right))
        assert (found.errors == 0) == (left == right)


@given(SENTENCES, SENTENCES)
def test_characters_err_at_least_where_words_do(reference: str, hypothesis: str) -> None:
    assert (count_words(reference, hypothesis).errors == 0) == (count_characters(reference, hypothesis).errors == 0)
