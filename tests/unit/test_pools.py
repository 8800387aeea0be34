"""Are texts, their copies, draws and halves kept account of, and do draws depend on nothing that they should not?"""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audits.precision_recall.pools import Pool, distinct, pool, set_against_itself, shuffled_words
from probes.texts.text_words import count_words, words_of

Vectors = NDArray[np.float32]


def vectors(texts: int, kinds: int, *, seed: int = 0) -> Vectors:
    """Return rows of which many are copies of others."""
    rng = np.random.default_rng(seed)
    rows: Vectors = rng.normal(size=(kinds, 3)).astype(np.float32)[rng.integers(0, kinds, texts)]
    return rows


def made(rows: Vectors, size: int, **options: Any) -> Pool:
    return pool(
        **{"name": "one", "repeats": 4, "splits": 6, "keep": False, "seed": 0, **options}, vectors=rows, size=size
    )


def test_every_text_keeps_its_vector() -> None:
    rows = vectors(50, 12)
    unique, point = distinct(rows)
    assert (unique[point] == rows).all() and len(point) == 50
    assert len(unique) == len(np.unique(rows, axis=0)) < 50


@pytest.mark.parametrize("keep", [False, True])
def test_copies_are_merged_or_kept_apart_and_known_either_way(keep: bool) -> None:
    rows = vectors(50, 12)
    found = made(rows, 20, keep=keep)
    assert (found.vectors[found.point] == rows).all()
    assert len(found.vectors) == (50 if keep else len(np.unique(rows, axis=0)))
    same = (rows[:, None] == rows[None]).all(-1)
    assert ((found.kinds[:, None] == found.kinds[None]) == same).all()


def test_distinct_vectors_come_in_order_of_first_occurrence() -> None:
    rows = np.array([[3, 1], [1, 2], [3, 1], [0, 5], [1, 2]], dtype=np.float32)
    unique, point = distinct(rows)
    assert unique.tolist() == [[3, 1], [1, 2], [0, 5]] and point.tolist() == [0, 1, 0, 2, 1]


def test_zeros_are_equal_whatever_their_sign_and_neighbouring_numbers_are_not() -> None:
    after = float(np.nextafter(np.float32(1), np.float32(2)))
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0], [0.0, after]], dtype=np.float32)
    assert distinct(rows)[1].tolist() == [0, 0, 1, 2]


def test_rows_that_do_not_lie_together_in_memory_are_told_apart() -> None:
    rows = vectors(30, 8)
    for other in (np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2]):
        assert distinct(other)[1].tolist() == distinct(rows)[1].tolist()


@pytest.mark.parametrize("size", [1, 20, 50])
def test_draws_have_the_size_and_no_text_twice(size: int) -> None:
    found = made(vectors(50, 12), size)
    assert len(found) == 50 and found.draws.shape == (4, size)
    assert all(len(set(draw)) == size and set(draw) <= set(range(50)) for draw in found.draws.tolist())
    assert size == 50 or len({tuple(sorted(draw)) for draw in found.draws.tolist()}) > 1
    assert found.halves.shape == (6, 50) and (found.halves.sum(1) == 25).all()


def test_every_text_is_drawn_as_often() -> None:
    found = made(vectors(10, 10), 3, repeats=5000)
    counts = np.bincount(found.draws.ravel(), minlength=10)
    assert np.abs(counts - 1500).max() < 5 * np.sqrt(5000 * 0.3 * 0.7)


def test_draws_and_halves_follow_the_seed_and_the_name() -> None:
    rows = vectors(50, 12)
    first, again = made(rows, 20), made(rows, 20)
    assert (first.draws == again.draws).all() and (first.halves == again.halves).all()
    for other in (made(rows, 20, seed=1), made(rows, 20, name="two")):
        assert (first.draws != other.draws).any() and (first.halves != other.halves).any()
    longer = made(rows, 20, repeats=7)
    assert (longer.draws[:4] == first.draws).all() and (longer.halves == first.halves).all()


def test_the_hash_is_that_of_the_rows_in_order() -> None:
    rows = vectors(20, 6)
    assert made(rows, 5).sha256 == made(np.asfortranarray(rows), 5).sha256
    assert made(rows, 5).sha256 != made(rows[::-1], 5).sha256


@pytest.mark.parametrize("keep", [False, True])
def test_weights_count_the_texts_of_every_point_in_every_part(keep: bool) -> None:
    found = made(vectors(60, 10), 41, keep=keep)
    for draw, texts in enumerate(found.draws):
        points, place, weights = found.taken(draw)
        assert (points[place] == found.point[texts]).all() and len(set(points.tolist())) == len(points)
        assert weights.shape == (13, len(points)) and weights.dtype == np.uint8
        assert weights[0].sum() == 41 and (weights[0] > 0).all()
        assert (weights[1::2] + weights[2::2] == weights[0]).all() and (weights >= 0).all()
        for split, inside in enumerate(found.halves):
            counts = Counter(found.point[text] for text in texts if inside[text])
            assert weights[1 + 2 * split].tolist() == [counts[point] for point in points.tolist()]
        assert keep == bool((weights[0] == 1).all())


def test_a_set_against_itself_has_no_common_text() -> None:
    reference = made(vectors(60, 50), 60, repeats=5)
    one, two = set_against_itself(reference, 30, name="ceiling", seed=0)
    assert (one.name, two.name) == ("one", "ceiling")
    assert one.draws.shape == two.draws.shape == (5, 30)
    for mine, theirs in zip(one.draws.tolist(), two.draws.tolist(), strict=True):
        assert len({*mine, *theirs}) == 60
    for side in (one, two):
        assert side.vectors is reference.vectors and side.point is reference.point
        assert (side.halves == reference.halves).all() and side.sha256 == reference.sha256
    again = set_against_itself(reference, 30, name="ceiling", seed=0)[1]
    other = set_against_itself(reference, 30, name="ceiling", seed=1)[1]
    assert (again.draws == two.draws).all() and (other.draws != two.draws).any()


def test_words_are_dealt_anew_and_none_is_lost() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), size)) for size in (5, 0, 1, 30, 12)]
    found = shuffled_words(texts, 3)
    assert [len(text.split()) for text in found] == [5, 0, 1, 30, 12]
    assert Counter(" ".join(found).split()) == Counter(" ".join(texts).split())
    assert found != texts and found == shuffled_words(texts, 3) != shuffled_words(texts, 4)


def test_words_go_over_from_text_to_text() -> None:
    texts = [" ".join(["one"] * 200), " ".join(["two"] * 200)]
    shares = [text.split().count("one") / 200 for text in shuffled_words(texts, 0)]
    assert sum(shares) == 1 and abs(shares[0] - 0.5) < 0.15


@pytest.mark.parametrize("texts", [[], [""], ["", "  "], ["word"]])
def test_there_may_be_nothing_to_deal(texts: list[str]) -> None:
    assert shuffled_words(texts, 0) == [" ".join(text.split()) for text in texts]


def test_letters_of_a_script_without_spaces_are_dealt_anew_not_whole_texts() -> None:
    texts = ["我們決定工作職掌", "他去 Python 學校，好", "so it goes"]
    found = shuffled_words(texts, 0)
    assert not set(found) & set(texts)
    assert [count_words(text) for text in found] == [8, 6, 3] == [count_words(text) for text in texts]
    assert Counter(word for text in found for word in words_of(text)) == Counter(
        word for text in texts for word in words_of(text)
    )
    # Spaces stand where they stood: what is dealt has no more of them to be told by.
    assert " " not in found[0] and found[1].count(" ") >= 2
