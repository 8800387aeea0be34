"""Are texts near each other where they share words and spelling, whatever other texts there are?"""

import numpy as np
import pytest

from probes.texts.tfidf import WIDTH, TfIdf

pytestmark = pytest.mark.numerical

REFERENCE = ["the red house", "the blue house", "the old dog", "a cat and the dog"]


@pytest.fixture(scope="module")
def made() -> TfIdf:
    return TfIdf(REFERENCE)


def test_vectors_have_length_one_and_one_width(made: TfIdf) -> None:
    vectors = made.encode([*REFERENCE, "never seen", "漢字", "x"])
    assert vectors.shape == (7, WIDTH)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_texts_without_words_give_zeros_and_no_text_gives_nothing(made: TfIdf) -> None:
    assert not made.encode(["", "  \n\t"]).any()
    assert made.encode([]).shape == (0, WIDTH)


def test_other_texts_change_nothing(made: TfIdf) -> None:
    texts = ["the red cat", "", "never seen before", "the red cat"]
    together = made.encode(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_array_equal(made.encode([text])[0], vector)
    np.testing.assert_array_equal(TfIdf(REFERENCE[::-1]).encode(texts), together)


def test_a_shared_rare_word_counts_more_than_a_shared_common_one() -> None:
    made = TfIdf([*(f"abc q{number}" for number in range(50)), "xyz"])
    same, common, rare, none = made.encode(["abc xyz", "abc uvw", "uvw xyz", "mno uvw"])
    assert same @ rare > same @ common + 0.15
    assert abs(same @ none) < 0.15


def test_a_word_of_one_reference_text_weighs_as_much_as_one_of_none() -> None:
    """Or else reference texts would be nearer to each other than to any other text of their kind."""
    filler = [f"abc q{number}" for number in range(50)]
    once, never, twice = (TfIdf([*filler, *more]).encode(["abc xyz"])[0] for more in (["xyz"], ["uvw"], ["xyz"] * 2))
    np.testing.assert_allclose(once, never, atol=1e-6)
    np.testing.assert_allclose(once, twice, atol=0.02)
    often = TfIdf([*filler, *["xyz"] * 30]).encode(["abc xyz"])[0]
    assert np.abs(often - never).max() > 0.02


def test_words_and_spelling_weigh_the_same(made: TfIdf) -> None:
    # A long text has many more n-grams of letters than words; neither kind may drown the other.
    for part in made._parts:
        lengths = np.linalg.norm(part.project(["dog", "a cat and the dog in the old house by the river"]), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=0.25)


def test_words_that_the_reference_lacks_are_seen(made: TfIdf) -> None:
    one, two, three = made.encode(["zebra quartz", "quartz zebra", "vodka jumps"])
    assert one @ two > 0.6
    assert abs(one @ three) < 0.2


def test_spelling_is_seen_where_words_differ(made: TfIdf) -> None:
    one, two, three = made.encode(["unhappiness", "happiness", "mountains"])
    assert one @ two > 0.25 > one @ three


def test_the_projection_keeps_angles(made: TfIdf) -> None:
    """Projected at random to 512 dimensions, products of unrelated texts scatter by 1 / sqrt(512) around 0."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list(letters), 3)) for _ in range(200)]
    vectors = made.encode(texts)
    products = (vectors @ vectors.T)[np.triu_indices(200, 1)]
    assert abs(np.median(products)) < 0.02
    assert np.quantile(np.abs(products), 0.5) < 2 / np.sqrt(WIDTH)


def test_in_a_script_without_spaces_letters_and_their_pairs_are_the_words() -> None:
    made = TfIdf(["我們決定工作職掌", "他去學校", "天氣很好", "單純閱讀訊息"])
    one, alike, other = made.encode(["我們決定去學校", "去學校我們決定", "天氣很好單純"])
    # With texts as whole words the first two would be at 0.23.
    assert one @ alike > 0.5 and abs(one @ other) < 0.2
