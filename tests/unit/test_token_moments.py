"""Are the moments of a stream those of the whole, however it is cut and whatever its means?"""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from probes.speech.token_moments import PhoneMoments, Standard, phone_moments, standardisation

pytestmark = pytest.mark.numerical

Vectors = NDArray[np.float32]
PEOPLE, PHONES, WIDTH = 5, 4, 3


def cut(vectors: Vectors, ends: list[int]) -> list[Vectors]:
    """Return a stream's parts; two equal ends leave an empty one."""
    return np.split(vectors, sorted(ends))


def tokens(seed: int, count: int = 120) -> tuple[Vectors, NDArray[np.int64], NDArray[np.int64]]:
    """Return vectors, speakers and phones, of which -1 takes no part."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal([5.0, -2.0, 100.0], [1.0, 3.0, 10.0], size=(count, WIDTH)).astype(np.float32)
    return vectors, rng.integers(0, PEOPLE, count), rng.integers(-1, PHONES, count)


def all_moments(vectors: Vectors, ends: list[int], speakers, phones, wanted, **options) -> list[PhoneMoments]:
    parts = cut(vectors, ends)
    standard = standardisation(lambda: parts)
    return list(phone_moments(lambda: parts, standard, speakers, phones, np.array(wanted), **options))


def by_hand(values: NDArray[np.float64], speakers, phones, phone: int) -> tuple[list[int], list, list[float]]:
    counts, means, scatter = [], [], []
    for person in range(PEOPLE):
        own = values[(speakers == person) & (phones == phone)]
        counts.append(len(own))
        means.append(own.mean(0) if len(own) else np.zeros(values.shape[1]))
        scatter.append(float(((own - means[-1]) ** 2).sum()))
    return counts, means, scatter


@settings(deadline=None, max_examples=60)
@given(
    ends=st.lists(st.integers(0, 40), max_size=8),
    scale=st.sampled_from([(0.0, 1.0), (1e4, 1e-1), (1e6, 4.0), (-1e6, 1e3), (1e-12, 1e-12)]),
    seed=st.integers(0, 99),
)
def test_merged_chunks_have_the_moments_of_the_whole(ends: list[int], scale: tuple[float, float], seed: int) -> None:
    centre, spread = scale
    vectors = np.random.default_rng(seed).normal(centre, spread, size=(40, WIDTH)).astype(np.float32)
    found = standardisation(lambda: cut(vectors, ends))
    exact = vectors.astype(np.float64)
    assert found.n == 40
    assert found.mean == pytest.approx(exact.mean(0), rel=1e-12)
    assert found.scale == pytest.approx(exact.std(0), rel=1e-9)
    standardised = found.apply(vectors)
    assert standardised == pytest.approx((exact - exact.mean(0)) / exact.std(0), abs=1e-5)


def test_chunks_far_from_one_another_are_merged_exactly() -> None:
    """A chunk of one token, and chunks whose own means lie a million apart."""
    vectors = np.array([[1e6], [1e6 + 1], [-1e6], [3.0], [-1e6 + 2]], np.float32)
    found = standardisation(lambda: cut(vectors, [1, 2, 3]))
    assert found.mean == pytest.approx(vectors.astype(np.float64).mean(0), abs=1e-9)
    assert found.scale == pytest.approx(vectors.astype(np.float64).std(0), rel=1e-12)


@pytest.mark.parametrize("parts", [[], [np.zeros((0, 2), np.float32)]])
def test_a_stream_without_tokens_has_none(parts: list[Vectors]) -> None:
    assert standardisation(lambda: parts).n == 0


def test_empty_chunks_change_nothing() -> None:
    vectors = tokens(1)[0]
    empty = vectors[:0]
    whole, gappy = (
        standardisation(lambda p=p: p) for p in ([vectors], [empty, vectors[:7], empty, vectors[7:], empty])
    )
    assert gappy.n == whole.n and gappy.mean == pytest.approx(whole.mean) and gappy.scale == pytest.approx(whole.scale)


@pytest.mark.parametrize(
    ("column", "flat"),
    [
        ([7.0] * 6, True),
        ([0.0] * 6, True),
        ([1e6] * 6, True),
        # One step of float32 at 1e6 is 0.0625: a spread of a tenth there is little more than rounding.
        ((1e6 + 0.1 * np.array([-1, 1, -1, 1, -1, 1])).tolist(), True),
        ([1e6 - 20, 1e6 + 20, 1e6, 1e6, 1e6 + 20, 1e6 - 20], False),
        ([1e-20, 2e-20, 1e-20, 3e-20, 1e-20, 1e-20], False),
    ],
)
def test_a_flat_dimension_becomes_zero_and_disturbs_no_other(column: list[float], flat: bool) -> None:
    other = np.arange(6.0)
    vectors = np.stack([column, other], axis=1).astype(np.float32)
    standard = standardisation(lambda: cut(vectors, [2]))
    assert bool(np.isinf(standard.scale[0])) == flat
    values = standard.apply(vectors)
    assert np.isfinite(values).all()
    assert np.all(values[:, 0] == 0) == flat
    assert values[:, 1] == pytest.approx((other - 2.5) / other.std())


@settings(deadline=None, max_examples=25)
@given(ends=st.lists(st.integers(0, 120), max_size=6), seed=st.integers(0, 99), cosine=st.booleans())
def test_phone_moments_are_those_of_a_slow_loop(ends: list[int], seed: int, cosine: bool) -> None:
    vectors, speakers, phones = tokens(seed)
    exact = vectors.astype(np.float64)
    values = (exact - exact.mean(0)) / exact.std(0)
    if cosine:
        values = values / np.linalg.norm(values, axis=1, keepdims=True)
    found = all_moments(vectors, ends, speakers, phones, range(PHONES), cosine=cosine)
    assert [one.phone for one in found] == list(range(PHONES))
    people = speakers.max() + 1
    for one in found:
        counts, means, scatter = by_hand(values, speakers, phones, one.phone)
        assert one.counts.tolist() == counts[:people]
        assert one.means == pytest.approx(np.array(means)[:people], abs=1e-10)
        assert one.scatter == pytest.approx(scatter[:people], abs=1e-9)
        assert not one.scatter[one.counts < 2].any()


def test_passed_over_tokens_reach_no_phone() -> None:
    """What has the number -1 must not be taken for the last phone."""
    vectors, speakers, phones = tokens(2)
    standard = Standard(mean=np.zeros(WIDTH), scale=np.ones(WIDTH), n=120)
    loud = np.where((phones < 0)[:, None], np.float32(1e30), vectors)
    for wanted in ([PHONES - 1], [0, PHONES - 1], [2, 1]):
        plain, shouted = (
            list(phone_moments(lambda p=p: [p], standard, speakers, phones, np.array(wanted))) for p in (vectors, loud)
        )
        assert [one.phone for one in plain] == wanted
        for one, other in zip(plain, shouted, strict=True):
            assert one.counts.sum() == (phones == one.phone).sum()
            assert np.array_equal(one.means, other.means) and np.array_equal(one.scatter, other.scatter)


def test_memory_is_kept_by_blocks_of_phones_that_give_the_same() -> None:
    vectors, speakers, phones = tokens(3)
    parts, readings = cut(vectors, [50, 50, 90]), []

    def chunks() -> Iterator[Vectors]:
        readings.append(1)
        yield from parts

    standard = standardisation(chunks)
    found = {}
    for phones_at_once, needed in ((PHONES, 1), (3, 2), (2, 2), (1, PHONES), (0, PHONES)):
        readings.clear()
        block = phones_at_once * 8 * PEOPLE * WIDTH
        wanted = np.array([3, 0, 2, 1])
        found[phones_at_once] = list(phone_moments(chunks, standard, speakers, phones, wanted, block_bytes=block))
        assert len(readings) == needed
    for moments in found.values():
        assert [one.phone for one in moments] == [3, 0, 2, 1]
        for one, whole in zip(moments, found[PHONES], strict=True):
            assert np.array_equal(one.counts, whole.counts)
            assert np.array_equal(one.means, whole.means) and np.array_equal(one.scatter, whole.scatter)


def test_half_a_squared_distance_of_directions_is_one_less_the_cosine() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 5.0], [-3.0, 0.0], [0.0, -0.1]], np.float32)
    standard = Standard(mean=np.zeros(2), scale=np.ones(2), n=4)
    (found,) = phone_moments(
        lambda: [vectors], standard, np.arange(4), np.zeros(4, dtype=int), np.array([0]), cosine=True
    )
    assert found.means == pytest.approx(np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]))
    assert 0.5 * ((found.means[0] - found.means[2]) ** 2).sum() == pytest.approx(2.0)


def test_a_token_at_the_mean_has_no_direction() -> None:
    vectors = np.array([[1.0], [2.0], [3.0]], np.float32)
    (found,) = phone_moments(
        lambda: [vectors],
        standardisation(lambda: [vectors]),
        np.zeros(3, dtype=int),
        np.zeros(3, dtype=int),
        np.array([0]),
        cosine=True,
    )
    assert found.means.tolist() == [[0.0]] and found.scatter.tolist() == [2.0]


def test_many_tokens_near_one_place_keep_their_scatter() -> None:
    """A phone far out in the layer, whose tokens lie a ten-thousandth apart."""
    rng = np.random.default_rng(4)
    near = rng.normal(900.0, 1e-1, size=(300, 1)).astype(np.float32)
    vectors = np.concatenate([near, rng.normal(0.0, 1.0, size=(300, 1)).astype(np.float32)])
    standard = Standard(mean=np.zeros(1), scale=np.ones(1), n=600)
    phones = np.repeat([0, 1], 300)
    found = next(phone_moments(lambda: [vectors], standard, np.zeros(600, dtype=int), phones, np.array([0])))
    exact = near.astype(np.float64)
    assert found.scatter[0] == pytest.approx(((exact - exact.mean()) ** 2).sum(), rel=1e-6)
