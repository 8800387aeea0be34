"""Are transcripts compared as promised, and every edit counted once?"""

import jiwer
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from probes.speech import word_errors
from probes.speech.normalisers import NORMALISERS
from probes.speech.word_errors import (
    EditCounts,
    EditTotals,
    count_characters,
    count_edits,
    count_words,
    normalise,
    normalise_all,
)

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
        ("don't 'quote'", "don't quote"),
        ("‘Come here,’ said the old man, ‘and sit.’", "come here said the old man and sit"),
        ("'Yes, sir', Sophocles' own; the dogs’ ’tis ‘tis", "yes sir sophocles own the dogs tis tis"),
        ("rock 'n' roll o`clock o´clock oʼclock o‘clock o′clock", "rock n roll" + " o'clock" * 5),
        ("the 1990's and the '90s, 5'10 tall", "the 1990's and the 90s 5'10 tall"),
        ("''two'' (dogs')-tail a''b a'-'b", "two dogstail ab ab"),
        ("हिन्दी'हिन्दी", "हिन्दी'हिन्दी"),
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


@given(st.one_of(st.text(), st.text(alphabet="ab '’‘`:-\u0327c")))
@example(text="C:\u0327")
@example(text="a'-'b 'c'")
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


COUNTERS = {"word": count_words, "character": count_characters}
# Few letters, so that a pair has many alignments of equal cost; any letters, so that no character is special.
LETTERS = st.one_of(
    st.lists(st.sampled_from("abc\u0301\U0001f600"), max_size=14).map(" ".join),
    st.text(alphabet="abc ", max_size=14),
    st.text(max_size=12),
)
TEXTS = LETTERS.map(lambda text: normalise(text, "none"))


def rows(totals: EditTotals) -> list[EditCounts]:
    counts = zip(totals.hits, totals.substitutions, totals.deletions, totals.insertions, strict=True)
    return [EditCounts(*map(int, row)) for row in counts]


@pytest.mark.parametrize("unit", COUNTERS)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
@example(pairs=[("a b c d", "b x c"), ("b c", "a b c"), ("\u0645\u0627 \u0647\u0630\u0627", "\u0645\u0627")])
@example(pairs=[("ab", "bc"), ("a b", "b c"), ("bc", "ab"), ("b c", "a b"), ("acbac", "cdbbabdaa")])
@example(pairs=[("ab " * 100, "ba b " * 90), ("a", "a"), ("a " * 70, "b " * 70)])
def test_many_pairs_are_counted_as_jiwer_counts_each(unit, pairs: list[tuple[str, str]]) -> None:
    totals = count_edits([one for one, _ in pairs], [other for _, other in pairs], unit)
    found = rows(totals)
    assert len(found) == len(pairs)
    for counts, (reference, hypothesis) in zip(found, pairs, strict=True):
        if reference:
            assert counts == COUNTERS[unit](reference, hypothesis)
        else:
            units = len(hypothesis.split() if unit == "word" else hypothesis)
            assert counts == EditCounts(0, 0, 0, units)
    assert totals.errors.tolist() == [counts.errors for counts in found]
    assert totals.lengths.tolist() == [counts.length for counts in found]


def test_spaces_around_a_text_are_no_characters() -> None:
    assert rows(count_edits([" a b ", "  "], ["a b", " c"], "character")) == [
        EditCounts(3, 0, 0, 0),
        EditCounts(0, 0, 0, 1),
    ]


@pytest.mark.parametrize("unit", COUNTERS)
def test_counts_are_arrays_of_whole_numbers(unit) -> None:
    for texts in ([], ["a b"], ["a", "", "b c"]):
        totals = count_edits(texts, texts, unit)
        for counts in (totals.hits, totals.substitutions, totals.deletions, totals.insertions, totals.errors):
            assert counts.dtype == np.int64 and counts.shape == (len(texts),)
        assert totals.lengths.tolist() == totals.hits.tolist()


def test_a_reference_without_a_hypothesis_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="shorter"):
        count_edits(["a", "b"], ["a"], "word")


@pytest.mark.parametrize("how", NORMALISERS)
def test_all_texts_are_normalised_as_each_is(how: str) -> None:
    texts = ["Mr. Smith won't", "", "  Hello,\t WORLD! ", "twenty one", "Mr. Smith won't", "caf\u00e9 (x) ["]
    assert normalise_all(texts, how) == [normalise(text, how) for text in texts]
    assert normalise_all([], how) == []


def test_the_normaliser_is_made_once_and_keeps_nothing_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["one hundred", "and twenty", "minus", "five dollars", "double", "oh seven"]
    apart = []
    for text in texts:
        word_errors._whisper_english.cache_clear()
        apart.append(normalise(text, "whisper-english"))
    word_errors._whisper_english.cache_clear()
    loads = []
    load = word_errors.import_module
    monkeypatch.setattr(word_errors, "import_module", lambda name: loads.append(name) or load(name))
    assert normalise_all(texts, "whisper-english") == apart
    assert len(loads) == 1


def test_a_text_that_comes_again_is_normalised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(word_errors, "normalise", lambda text, how: seen.append(text) or how)
    assert normalise_all(["a", "b", "a"], "none") == ["none"] * 3
    assert seen == ["a", "b"]
