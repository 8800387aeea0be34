"""Are the baselines those of their formulas, and near the entropy of text whose entropy is known?"""

import math
import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from probes.language_models.byte_ngrams import baseline_losses, overlap_matrix

CORPORA = st.lists(st.binary(max_size=12), max_size=8)


def by_hand(train: list[list[int]], held: list[list[int]], masked: list[list[bool]], vocabulary: int) -> NDArray:
    """Return both losses of every masked token, counted one by one."""
    single = Counter(token for row in train for token in row)
    pairs = Counter(pair for row in train for pair in pairwise(row))
    total, seen = single.total(), len(single)
    losses = []
    for row, hidden in zip(held, masked, strict=True):
        for place, token in enumerate(row):
            if not hidden[place]:
                continue
            chance = given = (single[token] + seen / vocabulary) / (total + seen)
            followers = {pair: count for pair, count in pairs.items() if place and pair[0] == row[place - 1]}
            if followers and not hidden[place - 1]:
                met, different = sum(followers.values()), len(followers)
                given = (pairs[row[place - 1], token] + different * chance) / (met + different)
            losses.append((-math.log(chance), -math.log(given)))
    return np.array(losses).reshape(-1, 2)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize(("vocabulary", "used"), [(2, 2), (7, 4), (7, 7), (65_536, 65_536)])
def test_the_losses_are_those_of_a_count_one_by_one(vocabulary: int, used: int, as_tensor: bool) -> None:
    rng = np.random.default_rng(vocabulary + used)
    train, held = (rng.choice(used, size=shape).astype(np.int32) for shape in ((9, 8), (5, 6)))
    held[0] = train[0, :6]
    masked = rng.random(held.shape) < 0.5
    given = [torch.from_numpy(array) if as_tensor else array for array in (train, held, masked)]
    # Several pieces, whose counts are put together.
    found = baseline_losses(*given, vocabulary, piece=20)
    expected = by_hand(train.tolist(), held.tolist(), masked.tolist(), vocabulary)
    assert found.unigram == pytest.approx(expected[:, 0]) and found.bigram == pytest.approx(expected[:, 1])
    assert (found.unigram != pytest.approx(found.bigram)) == (len(expected) > 0)


def test_draws_of_masks_are_one_after_the_other() -> None:
    rng = np.random.default_rng(5)
    train, held = rng.integers(0, 9, (4, 30)), rng.integers(0, 9, (3, 30))
    masked = rng.random((2, 3, 30)) < 0.3
    both = baseline_losses(train, held, masked, 9)
    for name in ("unigram", "bigram"):
        apart = [getattr(baseline_losses(train, held, one, 9), name) for one in masked]
        assert getattr(both, name).tolist() == np.concatenate(apart).tolist()


def test_probabilities_of_all_tokens_sum_to_one() -> None:
    rng = np.random.default_rng(2)
    train = rng.choice(5, size=(3, 20))
    for left in range(7):
        held = np.array([[left, token] for token in range(7)])
        found = baseline_losses(train, held, np.array([[False, True]] * 7), 7)
        assert np.exp(-found.unigram).sum() == pytest.approx(1) and np.exp(-found.bigram).sum() == pytest.approx(1)
        assert (found.bigram == pytest.approx(found.unigram)) == (left >= 5), "what was never seen has no followers"


def test_a_markov_source_costs_its_entropies() -> None:
    rng = np.random.default_rng(0)
    chances = np.array([[0.8, 0.15, 0.05, 0.0], [0.1, 0.1, 0.7, 0.1], [0.0, 0.5, 0.0, 0.5], [0.9, 0.0, 0.1, 0.0]])
    ends, state = chances.cumsum(1), np.zeros(400, dtype=np.int64)
    steps = []
    for draw in rng.random((220, 400)):
        state = (draw[:, None] > ends[state]).sum(1)
        steps.append(state)
    windows = np.stack(steps, axis=1)[:, 20:]
    values, vectors = np.linalg.eig(chances.T)
    share = np.real(vectors[:, values.real.argmax()])
    share /= share.sum()
    entropy = -(share * np.log(share)).sum()
    conditional = -(share[:, None] * chances * np.log(np.where(chances > 0, chances, 1))).sum()
    # Every second token is hidden, so that each has a neighbour on its left but the first.
    masked = np.zeros((200, 200), dtype=bool)
    masked[:, 1::2] = True
    found = baseline_losses(windows[:200], windows[200:], masked, 4)
    assert found.unigram.mean() == pytest.approx(entropy, abs=0.02)
    assert found.bigram.mean() == pytest.approx(conditional, abs=0.02) and entropy - conditional > 0.2
    # Where all are hidden, nobody knows a neighbour.
    blind = baseline_losses(windows[:200], windows[200:], np.ones_like(masked), 4)
    assert blind.bigram.tolist() == blind.unigram.tolist()


def test_a_uniform_source_costs_the_logarithm_of_its_size() -> None:
    rng = np.random.default_rng(1)
    train, held = rng.integers(0, 256, (4000, 128)), rng.integers(0, 256, (200, 128))
    masked = rng.random(held.shape) < 0.15
    found = baseline_losses(train, held, masked, 256)
    assert found.unigram.mean() == pytest.approx(math.log(256), abs=0.01)
    assert math.log(256) < found.bigram.mean() < math.log(256) + 0.1


def test_a_large_vocabulary_needs_no_table_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    train, held = rng.integers(0, 65_536, (500, 100)), rng.integers(0, 65_536, (10, 100))
    tracemalloc.start()
    found = baseline_losses(train, held, rng.random(held.shape) < 0.5, 65_536)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7 and np.isfinite(found.unigram).all() and np.isfinite(found.bigram).all()


@pytest.mark.parametrize(
    ("train", "held", "masked", "told"),
    [
        ([[]], [[1]], [[True]], "no training token"),
        ([[1, 9]], [[1]], [[True]], "ids from 1 to 9"),
        ([[1]], [[-1]], [[True]], "ids from -1"),
        ([[1]], [[1]], [[1]], "masked of shape"),
        ([[1]], [[1, 1]], [[True]], "masked of shape"),
        ([[1]], [1], [True], "masked of shape"),
    ],
)
def test_what_does_not_fit_is_refused(train: list, held: list, masked: list, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        baseline_losses(np.array(train), np.array(held), np.array(masked), 9)


def test_one_token_and_no_mask_are_enough() -> None:
    lone = baseline_losses(np.array([3]), np.array([[3, 3]]), np.array([[False, True]]), 4)
    assert np.exp(-lone.unigram).tolist() == pytest.approx([1.25 / 2]) and lone.bigram.tolist() == lone.unigram.tolist()
    none = baseline_losses(np.array([3]), np.array([[3, 3]]), np.array([[False, False]]), 4)
    assert none.unigram.shape == none.bigram.shape == (0,)


def grams(sentences: list[bytes], n: int) -> Counter[bytes]:
    return Counter(
        sentence[place : place + n] for sentence in sentences for place in range(max(0, len(sentence) - n + 1))
    )


@given(CORPORA, CORPORA, st.integers(1, 7))
def test_overlap_is_the_mass_in_common(first: list[bytes], second: list[bytes], n: int) -> None:
    one, two = grams(first, n), grams(second, n)
    both = sum(min(one[gram] / one.total(), two[gram] / two.total()) for gram in one.keys() & two.keys())
    found = overlap_matrix([first, second, [*first, *first]], n)
    assert found[0, 1] == pytest.approx(both)
    assert found[0, 1] == found[1, 0] <= 1
    assert found[0, 2] == pytest.approx(float(one.total() > 0))
    assert found.diagonal()[:2].tolist() == [float(part.total() > 0) for part in (one, two)]


def test_longest_grams_are_told_apart() -> None:
    high = bytes([255]) * 7
    found = overlap_matrix([[high], [bytes([127]) + high[1:]], [high]], 7)
    assert found[0, 1] == 0 and found[0, 2] == 1


@pytest.mark.parametrize("n", [0, 8])
def test_lengths_without_numbers_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match="1 to 7 are possible"):
        overlap_matrix([[b"text"], [b"text"]], n)
