"""Do contrasts have the standard errors of seeds and of sentences, each once?"""

import math

import numpy as np
import pytest
from scipy.stats import t

from audits.statistics.crossed import CAUTION, Contrast, Part, crossed_intervals, independent_contrasts
from audits.statistics.moderated import squeeze

pytestmark = pytest.mark.numerical


def part(seeds: int = 3, sentences: int = 40, seed: int = 0, factor: float = 1.0) -> Part:
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 9, sentences).astype(float)
    return Part(rng.normal(size=(seeds, sentences)) + rng.normal(size=(seeds, 1)) * weights, weights, factor)


def of_seeds(one: Part) -> np.ndarray:
    return one.factor * one.deltas.sum(1) / one.weights.sum()


def test_the_value_is_the_mean_over_seeds_of_the_sum_of_ratios() -> None:
    one, other = part(seed=1, factor=0.5), part(sentences=7, seed=2, factor=-2.0)
    found = crossed_intervals([Contrast((one, other))])[0]
    values = of_seeds(one) + of_seeds(other)
    assert found.value == pytest.approx(values.mean())
    assert found.seed_sd == pytest.approx(values.std(ddof=1))
    assert (found.n, found.seeds, found.seeds_known, found.sentences_known) == (47, 3, True, True)
    half = t.isf(0.025, found.df) * found.se
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert found.p == pytest.approx(2 * t.sf(abs(found.value) / found.se, found.df))


def test_equal_weights_give_the_textbook_analysis_of_variance() -> None:
    # Rows and columns at random, one value each: the variance of the mean is (rows + columns - rest) / cells.
    seeds, sentences = 4, 9
    y = np.random.default_rng(4).normal(size=(seeds, sentences)) + 3 * np.arange(seeds)[:, None] + np.arange(sentences)
    rows, columns = y.mean(1), y.mean(0)
    rest = y - rows[:, None] - columns + y.mean()
    ms_rows = sentences * rows.var(ddof=1)
    ms_columns = seeds * columns.var(ddof=1)
    # The rest is divided by (seeds - 1) (sentences - 1), as in any table of an analysis of variance.
    ms_rest = (rest**2).sum() / ((seeds - 1) * (sentences - 1))
    found = crossed_intervals([Contrast((Part(y, np.ones(sentences)),))])[0]
    assert found.se**2 == pytest.approx((ms_rows + ms_columns - ms_rest) / (seeds * sentences))
    assert found.sentence_se**2 == pytest.approx(ms_columns / (seeds * sentences))


def test_what_both_hold_is_counted_once_but_neither_source_is_lost() -> None:
    # All of the noise belongs to single sentences under single seeds.
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(200):
        found = crossed_intervals([Contrast((Part(rng.normal(size=(3, 50)), np.ones(50)),))])[0]
        errors.append(found.se**2)
        assert found.seed_sd is not None
        assert found.se >= max(found.seed_sd / math.sqrt(3), found.sentence_se) * (1 - 1e-12)
    # One, not two, times 1 / 150, but for the larger of two estimates.
    assert 0.95 < np.mean(errors) * 150 < 1.6


def test_a_ratio_knows_that_long_sentences_have_more_tokens() -> None:
    weights = np.arange(1.0, 60.0)
    deltas = np.stack([0.3 * weights, 0.5 * weights])
    found = crossed_intervals([Contrast((Part(deltas, weights),))])[0]
    assert found.value == pytest.approx(0.4) and found.sentence_se == pytest.approx(0, abs=1e-12)


def test_a_sentence_counts_by_how_far_the_ratio_moves_without_it() -> None:
    # One sentence has half of the weight: what is left of it beside a ratio that it makes itself is little.
    weights, deltas = np.array([1.0, 2.0, 3.0, 4.0, 10.0]), np.array([0.2, -1.0, 2.0, 0.5, 7.0])
    without = (deltas.sum() - deltas) / (weights.sum() - weights)
    found = crossed_intervals([Contrast((Part(deltas[None], weights, 2.0),))])[0]
    jackknife = 4 * (4 / 5) * ((without - deltas.sum() / weights.sum()) ** 2).sum()
    assert found.sentence_se**2 == pytest.approx(jackknife)


def test_parts_of_two_languages_add_their_sentences_and_cancel_what_seeds_do_to_both() -> None:
    rng = np.random.default_rng(3)
    shared = np.array([[-1.0], [0.0], [1.0]])
    one = Part(shared + rng.normal(size=30), np.ones(30))
    other = Part(shared + rng.normal(size=30), np.ones(30), -1.0)
    alone = [crossed_intervals([Contrast((each,))])[0] for each in (one, other)]
    both = crossed_intervals([Contrast((one, other))])[0]
    assert both.seed_sd == pytest.approx(0, abs=1e-12) and alone[0].seed_sd == pytest.approx(1)
    assert both.sentence_se == pytest.approx(math.hypot(alone[0].sentence_se, alone[1].sentence_se))
    assert both.se == pytest.approx(both.sentence_se)


def test_a_family_lends_seed_variances_and_fewer_than_three_do_not() -> None:
    family = [Contrast((part(sentences=1, seed=seed),)) for seed in range(8)]
    plain = np.array([of_seeds(one.parts[0]).var(ddof=1) for one in family])
    found = crossed_intervals(family)
    expected = squeeze(plain, 2.0, caution=CAUTION, most=independent_contrasts(family) * 2)
    np.testing.assert_allclose([one.se**2 * 3 for one in found], expected.variances)
    np.testing.assert_allclose([one.df for one in found], expected.freedom)
    two = crossed_intervals(family[:2])
    np.testing.assert_allclose([one.se**2 * 3 for one in two], plain[:2])
    np.testing.assert_allclose([one.df for one in two], 2)


def test_contrasts_of_one_language_count_as_fewer() -> None:
    parts = [part(sentences=5, seed=seed) for seed in range(4)]
    assert independent_contrasts([Contrast((one,)) for one in parts]) == pytest.approx(4)
    # Correlations of a half between four: 16 / (4 + 12 / 4).
    assert independent_contrasts([Contrast((parts[0],))] * 4) == pytest.approx(16 / 7)
    # One language of two in common: a quarter.
    pairs = [Contrast((parts[0], parts[1])), Contrast((parts[0], parts[2]))]
    assert independent_contrasts(pairs) == pytest.approx(4 / (2 + 2 / 16))


def test_one_seed_leaves_an_interval_over_sentences_and_no_p() -> None:
    found = crossed_intervals([Contrast((part(seeds=1, seed=seed),)) for seed in range(4)])
    for one in found:
        assert (one.p, one.seed_sd, one.seeds_known, one.sentences_known) == (None, None, False, True)
        assert one.se == one.sentence_se > 0 and one.low is not None and one.low < one.value < (one.high or 0)


def test_a_table_without_sentences_has_an_interval_over_seeds() -> None:
    found = crossed_intervals([Contrast((part(sentences=1),))])[0]
    assert not found.sentences_known and found.sentence_se == 0 and found.n == 1
    assert found.seed_sd is not None and found.se == pytest.approx(found.seed_sd / math.sqrt(3))
    assert found.df == pytest.approx(2) and found.p is not None


def test_a_sentence_without_weight_is_none() -> None:
    found = crossed_intervals(
        [Contrast((Part(np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), np.array([5.0, 0.0, 0.0])),))]
    )[0]
    assert (found.n, found.sentences_known, found.sentence_se) == (1, False, 0.0)


@pytest.mark.parametrize("deltas", [[[1.0]], [[1.0], [1.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_nothing_that_varies_leaves_a_value_alone(deltas: list[list[float]]) -> None:
    found = crossed_intervals([Contrast((Part(np.array(deltas), np.ones(len(deltas[0]))),))])[0]
    assert (found.se, found.df, found.low, found.high, found.p) == (0.0, None, None, None, None)


def test_contrasts_of_fewer_seeds_go_with_the_others() -> None:
    family = [Contrast((part(seeds=seeds, seed=seeds + 10 * k),)) for k in range(3) for seeds in (1, 2, 3)]
    found = crossed_intervals(family)
    assert [one.seeds for one in found] == [1, 2, 3] * 3
    assert [one.p is None for one in found] == [True, False, False] * 3
    assert all(one.df is not None and math.isfinite(one.df) for one in found)
    assert crossed_intervals([]) == []


def test_one_long_sentence_makes_the_degrees_of_freedom_few() -> None:
    deltas = np.random.default_rng(0).normal(size=(1, 200))
    even = crossed_intervals([Contrast((Part(deltas, np.ones(200)),))])[0]
    deltas[0, 0] = 500.0
    odd = crossed_intervals([Contrast((Part(deltas, np.ones(200)),))])[0]
    assert even.df is not None and odd.df is not None
    assert 150 < even.df <= 199 and odd.df < 10


@pytest.mark.parametrize(
    ("deltas", "weights"),
    [
        (np.ones(3), np.ones(3)),
        (np.ones((2, 3)), np.ones(2)),
        (np.ones((2, 0)), np.ones(0)),
        (np.full((2, 3), np.nan), np.ones(3)),
        (np.ones((2, 3)), np.zeros(3)),
        (np.ones((2, 3)), np.array([1.0, -1.0, 1.0])),
    ],
)
def test_what_is_no_part_is_refused(deltas: np.ndarray, weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"deltas|weights"):
        Part(deltas, weights)


def test_parts_must_have_the_same_seeds() -> None:
    for parts in ((), (part(seeds=2), part(seeds=3))):
        with pytest.raises(ValueError, match="same seeds"):
            Contrast(parts)
