"""Are the made sentences distinct, well formed, repeatable, and rich in rare kinds?"""

import re
from collections import Counter

import pytest

from probes.texts.ranked_choices import choose, ranked
from probes.texts.synthetic_sentences import FEWEST, MOST, make_sentences


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    return make_sentences(5_000, seed=0)


def test_nearly_all_are_distinct(sentences: list[str]) -> None:
    assert len(sentences) == 5_000
    assert len(set(sentences)) >= 0.95 * 5_000


def test_each_is_one_well_formed_sentence(sentences: list[str]) -> None:
    for sentence in sentences:
        assert FEWEST <= len(sentence.split()) <= MOST, sentence
        assert re.fullmatch(r'"?[A-Z][A-Za-z ,\'"-]*[.?!]', sentence), sentence
        assert not re.search(r"  |,[,.?!]| ,|\ba [aeio]|\ban [^aeiou]|\ban us", sentence, re.IGNORECASE), sentence


def test_the_seed_decides_and_more_go_on_where_fewer_stop(sentences: list[str]) -> None:
    assert make_sentences(50, seed=0) == sentences[:50]
    assert make_sentences(50, seed=1) != sentences[:50]
    assert make_sentences(0, seed=0) == []


def test_words_have_a_heavy_tail(sentences: list[str]) -> None:
    counts = Counter(word for sentence in sentences for word in re.findall(r"[a-z]+", sentence.lower()))
    assert len(counts) > 600
    rare = [word for word, count in counts.items() if count <= 20]
    assert len(rare) > 0.3 * len(counts)


def test_common_and_rare_topics_are_both_there(sentences: list[str]) -> None:
    bakery = sum("bread" in sentence for sentence in sentences)
    court = sum("auctioneer" in sentence or "loan" in sentence or "bond" in sentence for sentence in sentences)
    assert bakery > 2 * court > 40


def test_a_choice_falls_with_its_rank() -> None:
    class Fixed:
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self) -> float:
            return self.value

    # Weights 1, 1/2 and 1/3 are shares of 6/11, 3/11 and 2/11.
    choices = ranked(["x", "y", "z"], 1.0)
    drawn = [choose(choices, Fixed(value)) for value in (0.0, 0.54, 0.55, 0.81, 0.82, 0.9999)]
    assert "".join(drawn) == "xxyyzz"
