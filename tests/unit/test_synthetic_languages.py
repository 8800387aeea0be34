"""Do artificial languages have in common what their family and script say, and do ciphers keep what they should?"""

from collections import Counter

import pytest
from ciphers import permuted_letters, shuffled_bytes

from audits.interference.synthetic_languages import CONSONANTS, OWN_WORDS, SCRIPTS, make_language

SIZE = 30_000
CAPITALS = [b"The Owl, \xc3\x89mile's owl.", b"A fox!"]


def words(sentences: list[bytes]) -> Counter[str]:
    return Counter(word for line in sentences for word in line.decode().rstrip(".").split())


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_language_is_the_same_in_every_script_letter_for_letter(script: str) -> None:
    latin, other = (make_language(SIZE, family=4, script=one, seed=2) for one in ("Latn", script))
    back = str.maketrans(SCRIPTS[script], SCRIPTS["Latn"])
    shared = min(len(latin), len(other))
    assert shared > 100
    assert [line.decode().translate(back) for line in other[:shared]] == [line.decode() for line in latin[:shared]]
    assert set("".join(line.decode() for line in other)) <= {*SCRIPTS[script], " ", "."}


def test_scripts_have_letters_of_their_own_for_all_sounds() -> None:
    letters = [letter for script in SCRIPTS.values() for letter in script]
    assert len(set(letters)) == len(letters) == 24 * len(SCRIPTS)
    assert len(CONSONANTS) == 18


@pytest.mark.parametrize("size", [1, 100, SIZE])
def test_a_language_fills_the_bytes_asked_for_and_no_more(size: int) -> None:
    made = make_language(size, family=1)
    total = sum(len(line) + 1 for line in made)
    assert total <= size
    assert size < 200 or total > size - 200
    assert made == make_language(2 * size, family=1)[: len(made)]
    assert all(line.endswith(b".") and b"\n" not in line for line in made)


def test_seeds_choose_sentences_and_families_words() -> None:
    first, again, others, family = (
        make_language(SIZE, family=one, seed=seed) for one, seed in ((5, 0), (5, 0), (5, 1), (6, 0))
    )
    assert first == again != others
    usual, same, foreign = (words(one) for one in (first, others, family))
    assert shared(usual, same) > 0.8 > 0.4 > shared(usual, foreign)


def shared(one: Counter[str], other: Counter[str]) -> float:
    """Return the share of the words of one text that occur in the other."""
    return sum(count for word, count in one.items() if word in other) / one.total()


def test_siblings_share_most_words_but_not_all() -> None:
    first, sibling, second = (words(make_language(200_000, family=5, sibling=one)) for one in (0, 1, 2))
    same = words(make_language(200_000, family=5, seed=9))
    for one in (sibling, second):
        assert 0.5 < shared(first, one) < shared(first, same) - OWN_WORDS / 3
    assert set(sibling) - set(first) != set(second) - set(first)


def test_few_words_are_common_and_many_rare() -> None:
    counts = sorted(words(make_language(200_000, family=3)).values(), reverse=True)
    assert sum(counts[:20]) > 0.3 * sum(counts)
    assert sum(count <= 2 for count in counts) > 0.2 * len(counts)


@pytest.mark.parametrize("sentences", [make_language(2000, family=1), make_language(2000, family=2, script="Grek")])
def test_shuffling_keeps_the_characters_of_every_sentence_and_nothing_else(sentences: list[bytes]) -> None:
    made = shuffled_bytes(sentences, seed=1)
    assert [Counter(line.decode()) for line in made] == [Counter(line.decode()) for line in sentences]
    assert sum(a != b for a, b in zip(made, sentences, strict=True)) > 0.9 * len(made)
    assert made == shuffled_bytes(sentences, seed=1) != shuffled_bytes(sentences, seed=2)


@pytest.mark.parametrize(
    "sentences", [make_language(2000, family=1), make_language(2000, family=2, script="Cyrl"), CAPITALS]
)
def test_a_cipher_moves_every_letter_to_one_other_of_the_same_text(sentences: list[bytes]) -> None:
    plain, made = (b"\n".join(lines).decode() for lines in (sentences, permuted_letters(sentences, seed=3)))
    pairs = set(zip(plain, made, strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    assert all((a != b) == a.isalpha() and a.isupper() == b.isupper() for a, b in pairs)
    assert {a.lower() for a, _ in pairs} == {b.lower() for _, b in pairs}
    assert sorted(Counter(plain.lower()).values()) == sorted(Counter(made.lower()).values())


def test_ciphers_of_other_seeds_are_others() -> None:
    sentences = make_language(2000, family=1)
    assert permuted_letters(sentences, seed=0) == permuted_letters(sentences, seed=0)
    assert permuted_letters(sentences, seed=0) != permuted_letters(sentences, seed=1)
