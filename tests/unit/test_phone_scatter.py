"""Are variance and shift of a phone what a slow loop over pairs of tokens says, with and without each speaker?"""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from phone_tokens import BETWEEN, WIDTH, WITHIN, Planted, draw_tokens, true_variance

from probes.speech.phone_scatter import Scatter, measure_scatter, pair_variance
from probes.speech.token_moments import PhoneMoments, Standard, phone_moments

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]
GROUPS = {"near": Planted(speakers=6), "far": Planted(speakers=9, shift=1.0, inflation=2.0)}
TRIALS = 60


class Sample:
    """Tokens with speakers and phones as numbers, and who is in which group."""

    def __init__(self, seed: int, groups=GROUPS, *, unequal: bool = False, **sizes) -> None:
        drawn = draw_tokens(np.random.default_rng(seed), groups=groups, unequal=unequal, **sizes)
        self.vectors = drawn.vectors
        names, self.speakers = np.unique(drawn.speakers, return_inverse=True)
        _, self.phones = np.unique(drawn.phones, return_inverse=True)
        of = np.array([name.split("-")[0] for name in names])
        self.member = np.array([of == group for group in groups])
        self.home = self.member.argmax(0)

    def moments(self, *, cosine: bool = False, leave: int = -1) -> list[PhoneMoments]:
        """Return the moments, all tokens of one speaker left out of the stream."""
        width = self.vectors.shape[1]
        standard = Standard(mean=np.zeros(width), scale=np.ones(width), n=1)
        phones = np.where(self.speakers == leave, -1, self.phones)
        wanted = np.arange(self.phones.max() + 1)
        return list(phone_moments(lambda: [self.vectors], standard, self.speakers, phones, wanted, cosine=cosine))

    def measure(self, *, cosine: bool = False, leave: int = -1) -> Scatter:
        return measure_scatter(self.moments(cosine=cosine, leave=leave), self.member, ~self.member, self.home)


def half_mean_distance(vectors: Floats, speakers: NDArray[np.int64]) -> float:
    """Return half the mean squared distance over all pairs of tokens of different speakers."""
    pairs = [
        0.5 * ((vectors[i] - vectors[j]) ** 2).sum()
        for i, j in combinations(range(len(vectors)), 2)
        if speakers[i] != speakers[j]
    ]
    return float(np.mean(pairs))


def one_phone(vectors: Floats, speakers: NDArray[np.int64], people: int) -> tuple[Floats, Floats, Floats]:
    """Return counts, scatter and squared distances to the centroid of all, shape (speakers,)."""
    counts, scatter, distances = np.zeros((3, people))
    for person in range(people):
        own = vectors[speakers == person]
        if len(own):
            counts[person], mean = len(own), own.mean(0)
            scatter[person] = ((own - mean) ** 2).sum()
            distances[person] = ((mean - vectors.mean(0)) ** 2).sum()
    return counts, scatter, distances


@settings(deadline=None, max_examples=40)
@given(counts=st.lists(st.integers(0, 4), min_size=3, max_size=6).filter(lambda c: sum(n > 0 for n in c) >= 3),
       seed=st.integers(0, 99))  # fmt: skip
def test_pair_variance_is_the_mean_over_pairs_of_different_speakers(counts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    speakers = np.repeat(np.arange(len(counts)), counts)
    vectors = rng.normal(3.0, 1.0, size=(len(counts), 2))[speakers] + rng.normal(size=(len(speakers), 2))
    value, without = pair_variance(*one_phone(vectors, speakers, len(counts)))
    assert float(value) == pytest.approx(half_mean_distance(vectors, speakers), rel=1e-9)
    for person in range(len(counts)):
        left = speakers != person
        assert without[person] == pytest.approx(half_mean_distance(vectors[left], speakers[left]), rel=1e-9)


def test_with_one_token_a_speaker_it_is_the_trace_of_the_usual_covariance() -> None:
    vectors = np.random.default_rng(0).normal(2.0, 3.0, size=(7, 4))
    value, without = pair_variance(*one_phone(vectors, np.arange(7), 7))
    assert float(value) == pytest.approx(vectors.var(0, ddof=1).sum())
    assert without[2] == pytest.approx(np.delete(vectors, 2, axis=0).var(0, ddof=1).sum())


@pytest.mark.parametrize(
    ("counts", "value", "without"),
    [
        ([0, 0, 0], False, [False] * 3),
        ([5, 0, 0], False, [False] * 3),
        ([5, 1, 0], True, [False, False, True]),
        ([1, 1, 1], True, [True] * 3),
    ],
)
def test_fewer_than_two_speakers_have_no_variance(counts: list[float], value: bool, without: list[bool]) -> None:
    n = np.array(counts, dtype=float)
    found, less = pair_variance(n, np.maximum(n - 1, 0), (n > 0).astype(float))
    assert bool(np.isfinite(found)) == value
    assert np.isfinite(less).tolist() == without


def test_groups_are_measured_beside_one_another_as_alone() -> None:
    n = np.array([[3.0, 2.0, 1.0, 0.0], [0.0, 2.0, 2.0, 4.0]])
    scatter, distances = n * 0.5 * (n > 1), (n > 0) * np.array([0.4, 0.1, 1.0, 0.2])
    value, without = pair_variance(n, scatter, distances)
    for row in range(2):
        alone = pair_variance(n[row], scatter[row], distances[row])
        assert value[row] == pytest.approx(float(alone[0])) and without[row] == pytest.approx(alone[1])


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("unequal", [False, True])
def test_what_is_without_a_speaker_is_measured_without_the_speaker(cosine: bool, unequal: bool) -> None:
    sample = Sample(1, unequal=unequal, phones=3, width=4, tokens_per_phone=5)
    whole = sample.measure(cosine=cosine)
    for person in range(sample.member.shape[1]):
        again = sample.measure(cosine=cosine, leave=person)
        for name in ("variance", "within", "shift"):
            found = getattr(whole, f"{name}_without")[:, person]
            assert found == pytest.approx(getattr(again, name), rel=1e-9, abs=1e-9), (name, person)
        assert whole.total_without[person] == pytest.approx(again.total, rel=1e-9)


def test_a_speaker_of_neither_side_moves_nothing_but_the_total() -> None:
    sample = Sample(2, {**GROUPS, "aside": Planted(speakers=3)}, phones=3)
    near, far, aside = sample.member
    found = measure_scatter(sample.moments(), sample.member[:2], sample.member[1::-1], sample.home % 2)
    for name in ("variance", "within", "shift"):
        value, without = getattr(found, name), getattr(found, f"{name}_without")
        assert (without[:, aside] == value[:, None]).all(), name
        assert (without[0, near] != value[0]).all(), name
        # Only the shift is a matter of both sides.
        assert (without[0, far] != value[0]).all() if name == "shift" else (without[0, far] == value[0]).all()
    assert (found.total_without[aside] != found.total).all()


@pytest.mark.parametrize("unequal", [False, True])
def test_values_are_those_of_slow_loops(unequal: bool) -> None:
    sample = Sample(3, unequal=unequal, phones=3, width=3, tokens_per_phone=3)
    found = sample.measure()
    vectors = sample.vectors.astype(np.float64)
    assert found.phones == 3
    assert found.total == pytest.approx(half_mean_distance(vectors, sample.speakers))
    for group, inside in enumerate(sample.member):
        mine = inside[sample.speakers]
        variances, insides = [], []
        for phone in range(3):
            chosen = mine & (sample.phones == phone)
            variances.append(half_mean_distance(vectors[chosen], sample.speakers[chosen]))
            clouds = [vectors[chosen & (sample.speakers == person)] for person in np.flatnonzero(inside)]
            squares = sum(((cloud - cloud.mean(0)) ** 2).sum() for cloud in clouds if len(cloud))
            insides.append(squares / sum(max(len(cloud) - 1, 0) for cloud in clouds))
        assert found.variance[group] == pytest.approx(np.mean(variances))
        assert found.within[group] == pytest.approx(np.mean(insides))


def test_shift_is_the_distance_of_centroids_less_their_noise() -> None:
    """With as many tokens of every speaker, the noise of a centroid is the variance of the speakers' own over k."""
    sample = Sample(4, phones=1)
    vectors, noise, squares, means = sample.vectors.astype(np.float64), 0.0, 0.0, []
    for inside in sample.member:
        own = np.stack([vectors[sample.speakers == person].mean(0) for person in np.flatnonzero(inside)])
        noise += own.var(0, ddof=1).sum() / len(own)
        cloud = vectors[inside[sample.speakers]]
        squares += ((cloud - cloud.mean(0)) ** 2).sum()
        means.append(cloud.mean(0))
    per_dimension = squares / (len(vectors) - 2) / WIDTH
    expected = (((means[0] - means[1]) ** 2).sum() - noise) / per_dimension
    assert sample.measure().shift == pytest.approx([expected, expected])


def test_own_and_around_are_those_of_a_slow_loop() -> None:
    sample = Sample(5, phones=4, width=3, tokens_per_phone=2, unequal=True)
    sample.home = np.where(np.arange(15) % 5 == 0, -1, sample.home)
    found = sample.measure()
    vectors = sample.vectors.astype(np.float64)
    for person in range(15):
        ratios, around, count = [], 0.0, 0
        for phone in range(4):
            said = sample.phones == phone
            clouds = [vectors[said & (sample.speakers == one)] for one in range(15)]
            freedom = sum(max(len(cloud) - 1, 0) for cloud in clouds)
            pooled = sum(((cloud - cloud.mean(0)) ** 2).sum() for cloud in clouds if len(cloud)) / freedom
            cloud = clouds[person]
            if len(cloud) > 1:
                ratios.append(cloud.var(0, ddof=1).sum() / pooled)
            if not len(cloud) or sample.home[person] < 0:
                continue
            group = said & sample.member[sample.home[person]][sample.speakers]
            others = int(group.sum()) - len(cloud)
            if others:
                centre = vectors[group].mean(0)
                spread = ((cloud - cloud.mean(0)) ** 2).sum()
                # Where the speaker's own centroid stands is hidden in part; how its tokens scatter around it is not.
                hidden = len(cloud) * ((cloud.mean(0) - centre) ** 2).sum() * (1 + len(cloud) / others)
                around, count = around + spread + hidden, count + len(cloud)
        assert found.own_phones[0, person] == len(ratios)
        assert found.own[0, person] == pytest.approx(np.mean(ratios))
        if count:
            assert found.around[0, person] == pytest.approx(around / count)
        else:
            assert np.isnan(found.around[0, person]) and sample.home[person] < 0


def test_a_speaker_who_said_nothing_twice_has_no_own_variance() -> None:
    sample = Sample(0, {"a": Planted(speakers=2), "b": Planted(speakers=2)}, phones=2)
    once = (sample.speakers == 3) & (np.arange(len(sample.phones)) % 4 > 0)
    sample.vectors, sample.speakers, sample.phones = (
        part[~once] for part in (sample.vectors, sample.speakers, sample.phones)
    )
    found = sample.measure()
    assert found.own_phones.tolist() == [[2, 2, 2, 0], [1, 1, 1, 0], [1, 1, 1, 0]]
    assert np.isfinite(found.own).tolist() == [[True, True, True, False]] * 3
    assert found.own[0] == pytest.approx(found.own[1:].mean(0), nan_ok=True)


def test_a_phone_that_nobody_of_a_group_said_twice_is_left_out_of_the_variance_within() -> None:
    found, expected = (Sample(6, phones=3, width=4, tokens_per_phone=3) for _ in range(2))
    again = (found.phones == 1) & found.member[0][found.speakers] & (np.arange(len(found.phones)) % 3 > 0)
    for one, kept in ((found, ~again), (expected, expected.phones != 1)):
        one.vectors, one.speakers, one.phones = one.vectors[kept], one.speakers[kept], one.phones[kept]
    expected.phones = expected.phones // 2
    here, there = found.measure(), expected.measure()
    assert (here.phones, there.phones) == (3, 2)
    assert here.within == pytest.approx(there.within)
    assert here.within_without == pytest.approx(there.within_without)
    assert (np.abs(here.variance - there.variance) > 1e-3).all()


def test_a_phone_that_one_speaker_alone_said_twice_is_left_out_of_the_variance_within() -> None:
    sample = Sample(6, phones=2, width=4, tokens_per_phone=3)
    row = int(sample.home[0])
    others = (sample.speakers != 0) & sample.member[row][sample.speakers]
    again = (sample.phones == 1) & others & (np.arange(len(sample.phones)) % 3 > 0)
    sample.vectors, sample.speakers, sample.phones = (
        part[~again] for part in (sample.vectors, sample.speakers, sample.phones)
    )
    common, alone = (moment.scatter[sample.member[row]] for moment in sample.moments())
    assert np.count_nonzero(alone) == 1
    assert sample.measure().within[row] == pytest.approx(common.sum() / (2 * len(common)))


def test_without_any_phone_said_twice_there_is_no_variance_within() -> None:
    found = Sample(7, phones=3, tokens_per_phone=1).measure()
    assert np.isnan(found.within).all() and np.isnan(found.within_without).all()
    assert np.isfinite(found.variance).all() and np.isfinite(found.shift_without).all()


def test_directions_differ_by_one_less_the_mean_cosine() -> None:
    sample = Sample(8, phones=2, width=3, tokens_per_phone=3, unequal=True)
    found = sample.measure(cosine=True)
    unit = sample.vectors / np.linalg.norm(sample.vectors.astype(np.float64), axis=1, keepdims=True)
    for group, inside in enumerate(sample.member):
        means = []
        for phone in range(2):
            chosen = np.flatnonzero(inside[sample.speakers] & (sample.phones == phone))
            pairs = [
                1 - float(unit[i] @ unit[j])
                for i, j in combinations(chosen, 2)
                if sample.speakers[i] != sample.speakers[j]
            ]
            means.append(np.mean(pairs))
        assert found.variance[group] == pytest.approx(np.mean(means), abs=1e-9)


def test_the_order_of_groups_and_their_names_change_nothing() -> None:
    sample = Sample(9, phones=3)
    found = sample.measure()
    sample.member, sample.home = sample.member[::-1], 1 - sample.home
    turned = sample.measure()
    for name in ("variance", "within", "shift", "variance_without", "shift_without", "within_without"):
        assert getattr(turned, name)[::-1] == pytest.approx(getattr(found, name), rel=1e-12), name
    assert turned.around == pytest.approx(found.around, nan_ok=True)


def test_moving_all_tokens_changes_nothing_and_stretching_them_only_the_variances() -> None:
    sample = Sample(10, phones=3, unequal=True)
    found = sample.measure()
    sample.vectors = 4 * sample.vectors + 100
    moved = sample.measure()
    for name in ("variance", "within", "variance_without", "total_without", "around"):
        assert getattr(moved, name) == pytest.approx(16 * getattr(found, name), rel=1e-4, nan_ok=True), name
    for name in ("shift", "shift_without", "own"):
        assert getattr(moved, name) == pytest.approx(getattr(found, name), rel=1e-3, abs=1e-4, nan_ok=True), name


def within_four_errors(values: Floats, truth: float) -> bool:
    return abs(values.mean() - truth) < 4 * values.std(ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize("speakers", [(3, 4), (6, 9)])
@pytest.mark.parametrize("unequal", [False, True])
def test_variances_are_unbiased_however_few_the_speakers(speakers: tuple[int, int], unequal: bool) -> None:
    groups = {"near": Planted(speakers=speakers[0], inflation=2.0), "far": Planted(speakers=speakers[1], shift=1.0)}
    drawn = [Sample(seed, groups, unequal=unequal) for seed in range(TRIALS)]
    found = [sample.measure() for sample in drawn]
    for group, planted in enumerate(groups.values()):
        truth = true_variance(planted)
        assert within_four_errors(np.array([one.variance[group] for one in found]), truth)
        inside = WIDTH * WITHIN**2 * planted.inflation
        assert within_four_errors(np.array([one.within[group] for one in found]), inside)
        around = [one.around[0, sample.member[group]].mean() for sample, one in zip(drawn, found, strict=True)]
        assert within_four_errors(np.array(around), truth), (group, np.mean(around), truth)


@pytest.mark.parametrize("unequal", [False, True])
def test_where_nothing_is_planted_the_mean_shift_is_nothing(unequal: bool) -> None:
    groups = {"near": Planted(speakers=6), "far": Planted(speakers=9)}
    shifts = np.array([Sample(seed, groups, unequal=unequal).measure().shift[0] for seed in range(3 * TRIALS)])
    assert within_four_errors(shifts, 0.0), (shifts.mean(), shifts.std(ddof=1) / np.sqrt(len(shifts)))
    assert shifts.min() < 0


@pytest.mark.parametrize("shift", [0.5, 1.5])
def test_a_planted_shift_comes_back_in_variances_of_a_dimension(shift: float) -> None:
    groups = {"near": Planted(speakers=10, shift=shift), "far": Planted(speakers=30)}
    found = [Sample(seed, groups).measure() for seed in range(TRIALS)]
    truth = shift**2 / (BETWEEN**2 + WITHIN**2)
    for group in range(2):
        values = np.array([one.shift[group] for one in found])
        # The variance below is itself estimated: with 40 speakers its ratio is about one in a hundred too large.
        assert abs(values.mean() - truth) < 4 * values.std(ddof=1) / np.sqrt(TRIALS) + 0.015 * truth


def test_a_shift_is_seen_however_noisy_a_group_and_noise_is_no_shift() -> None:
    loud = {"near": Planted(speakers=8, inflation=3.0), "far": Planted(speakers=8)}
    both = loud | {"near": Planted(speakers=8, shift=2.0, inflation=3.0)}
    quiet, moved = (
        np.array([Sample(seed, groups).measure().shift[0] for seed in range(TRIALS)]) for groups in (loud, both)
    )
    assert within_four_errors(quiet, 0.0)
    assert moved.min() > quiet.max()
