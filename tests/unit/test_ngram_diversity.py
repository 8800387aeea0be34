"""Are n-grams counted within texts only, and every text scored against all others and never against itself?"""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audits.precision_recall.ngram_diversity import EPSILON, distinct, ngram_table, self_bleu, split_words

pytestmark = pytest.mark.numerical

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=7).map(" ".join), min_size=2, max_size=6)
EVERYONE = {count: np.ones((1, count), dtype=bool) for count in range(1, 7)}


def grams(text: str, order: int) -> Counter[tuple[str, ...]]:
    words = text.split()
    return Counter(tuple(words[place : place + order]) for place in range(len(words) - order + 1))


def bleu(text: str, others: list[str]) -> float:
    """Return BLEU-4 with the first smoothing, from its definition."""
    length = len(text.split())
    logs = 0.0
    for order in range(1, 5):
        own = grams(text, order)
        most = {gram: max(grams(other, order)[gram] for other in others) for gram in own}
        matched = sum(min(count, most[gram]) for gram, count in own.items())
        if order == 1 and not matched:
            return 0.0
        logs += math.log((matched or EPSILON) / max(own.total(), 1)) / 4
    nearest = min((len(other.split()) for other in others), key=lambda other: (abs(other - length), other))
    return math.exp(logs) * min(1.0, math.exp(1 - nearest / length))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, WORLD!", ["hello", ",", "world", "!"]),
        ("don’t don't", ["don't", "don't"]),
        ("3.5 % of e-mails…", ["3", ".", "5", "%", "of", "e", "-", "mails", "…"]),
        ("tab\tnew\nline\u00a0space\x00null", ["tab", "new", "line", "space", "null"]),
        ("हिन्दी में किताब।", ["हिन्दी", "में", "किताब", "।"]),
        ("می\u200cروم", ["می\u200cروم"]),
        ("cafe\u0301", ["caf\u00e9"]),
        ("$5 🙂🙂", ["$", "5", "🙂", "🙂"]),
        ("  ", []),
        ("", []),
    ],
)
def test_words_are_cut_at_spaces_and_around_punctuation(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


@given(st.text())
def test_cutting_twice_changes_nothing(text: str) -> None:
    words = split_words(text)
    assert split_words(" ".join(words)) == words and "" not in words


@given(TEXTS)
def test_table_holds_every_ngram_of_every_text_and_none_across_two(texts: list[str]) -> None:
    table = ngram_table(texts)
    assert table.lengths.tolist() == [len(text.split()) for text in texts]
    for order, part in enumerate(table.orders, start=1):
        expected = [grams(text, order) for text in texts]
        assert np.bincount(part.document, part.count, minlength=len(texts)).tolist() == [
            one.total() for one in expected
        ]
        assert table.totals[:, order - 1].tolist() == [one.total() for one in expected]
        by_gram = [
            sorted(zip(part.document[part.ngram == gram], part.count[part.ngram == gram], strict=True))
            for gram in np.unique(part.ngram)
        ]
        names = set().union(*expected)
        truth = [[(place, one[name]) for place, one in enumerate(expected) if name in one] for name in names]
        assert sorted(by_gram) == sorted(truth)


@given(TEXTS, st.data())
def test_distinct_and_self_bleu_are_those_of_the_subset_alone(texts: list[str], data: st.DataObject) -> None:
    size = len(texts)
    chosen = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=size, unique=True))
    asked = data.draw(st.lists(st.integers(0, size - 1), max_size=4)) + chosen[:1]
    present = np.isin(np.arange(size), chosen)[None]
    table = ngram_table(texts)
    for order, found in enumerate(distinct(table, present)[0], start=1):
        together: Counter[tuple[str, ...]] = sum((grams(texts[place], order) for place in chosen), Counter())
        assert found == pytest.approx(len(together) / max(together.total(), 1))
    scores = [
        bleu(texts[place], [texts[other] for other in chosen if other != place]) for place in asked if place in chosen
    ]
    assert self_bleu(table, present, np.array(asked))[0] == pytest.approx(sum(scores) / len(scores), abs=1e-12)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # The first text is the second without its end: every n-gram matches, and 4 words stand against 5.
        (["a b c d", "a b c d e"], math.exp(1 - 5 / 4)),
        # A copy is another document.
        (["a b c d e", "a b c d e", "f g"], 1.0),
        # No word in common.
        (["a b c d", "e f g h"], 0.0),
        # Of two lengths as close the shorter: no penalty. Four words match, no 2-gram of three, 3-gram of two ...
        (["a b c d", "d c b", "d c b a e"], (1.0 * 0.1 / 3 * 0.1 / 2 * 0.1 / 1) ** 0.25),
        # No 2-, 3- or 4-gram at all counts as one without match each.
        (["a", "a"], 0.1**0.75),
        (["", "a"], 0.0),
        # "a a a" is held twice at most by another: 2 of 3, 1 of 2, 0.1 of 1, 0.1 of 1.
        (["a a a", "a a b", "a b b"], (2 / 3 * 1 / 2 * 0.1 * 0.1) ** 0.25),
    ],
)
def test_self_bleu_of_the_first_text_by_hand(texts: list[str], expected: float) -> None:
    found = self_bleu(ngram_table(texts), EVERYONE[len(texts)], np.array([0]))
    assert found.tolist() == pytest.approx([expected], abs=1e-15)


def test_distinct_by_hand() -> None:
    table = ngram_table(["a b a", "a b", "c"])
    present = np.array([[True, True, True], [False, False, True]])
    expected = np.array([[3 / 6, 2 / 3, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    assert distinct(table, present) == pytest.approx(expected)
    assert (present @ table.totals).tolist() == [[6, 3, 1, 0], [1, 0, 0, 0]]


def test_copies_raise_self_bleu_and_lower_distinct() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefghij"), 12)) for _ in range(40)]
    present = np.array([[True] * 40 + [False] * 40, ([True] * 20 + [False] * 20) * 2])
    table = ngram_table(texts + texts)
    bleus, shares = self_bleu(table, present, np.arange(80)), distinct(table, present)
    assert bleus[1] == pytest.approx(1.0) and bleus[0] < 0.7
    assert (shares[1, 1:] < shares[0, 1:]).all()


def test_texts_without_words_have_empty_counts() -> None:
    table = ngram_table(["", " \n"])
    assert [len(part.count) for part in table.orders] == [0, 0, 0, 0]
    assert distinct(table, EVERYONE[2]).tolist() == [[0.0] * 4]
    assert self_bleu(table, EVERYONE[2], np.array([0, 1])).tolist() == [0.0]
    assert distinct(ngram_table([]), np.ones((1, 0), dtype=bool)).tolist() == [[0.0] * 4]


def test_nonsense_is_refused() -> None:
    table = ngram_table(["a b", "a c", "d"])
    with pytest.raises(ValueError, match="at least 1"):
        ngram_table(["a"], orders=0)
    for present in (np.ones((1, 2), dtype=bool), np.ones(3, dtype=bool)):
        with pytest.raises(ValueError, match="3 documents"):
            distinct(table, present)
        with pytest.raises(ValueError, match="3 documents"):
            self_bleu(table, present, np.array([0]))
    for number in (3, -1):
        with pytest.raises(ValueError, match="0 to 2"):
            self_bleu(table, EVERYONE[3], np.array([number]))
    for subset, asked in (([True, False, False], [0]), ([True, True, False], [2]), ([True] * 3, [])):
        with pytest.raises(ValueError, match="fewer than two"):
            self_bleu(table, np.array([subset]), np.array(asked, dtype=np.int64))
