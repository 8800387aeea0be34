"""Poisson models of error rates with clips clustered by speaker: planted effects, and what has no fit."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from audits.statistics.adjusted_gaps import adjusted_gap, adjusted_rates
from audits.statistics.poisson_gee import NotFitted, PoissonFit, fit_poisson_gee
from audits.statistics.poisson_tests import (
    attenuation,
    coefficient_interval,
    coefficient_p,
    contrast_of,
    freedom,
    share_left,
    wald_test,
)

pytestmark = pytest.mark.numerical

AGES = np.array([0.0, 0.4, 0.9])
SHARES = np.array([[0.5, 0.3, 0.2], [0.15, 0.35, 0.5]])
FADED = float(np.log((SHARES[1] @ np.exp(AGES)) / (SHARES[0] @ np.exp(AGES))))
"""Log ratio of the accents while age is left out: older speakers are more frequent in the second."""
NOISE = 0.2
TRUTH = np.array([np.log(0.15), 0.0, *AGES[1:], NOISE])
UNIT = np.eye(5)


def corpus(seed: int, speakers: int, clips: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Accent without an effect of its own, ages with one, noise with one, and speakers who differ (Gamma)."""
    rng = np.random.default_rng(seed)
    accent = np.arange(speakers) < speakers // 3
    age = np.array([rng.choice(3, p=SHARES[int(each)]) for each in accent])
    speaker = np.repeat(np.arange(speakers), rng.integers(2, 2 * clips - 1, speakers))
    noise = rng.normal(size=speaker.size)
    words = rng.integers(5, 15, speaker.size).astype(float)
    skill = rng.gamma(4, 0.25, speakers) * np.exp(AGES[age])
    errors = rng.poisson(0.15 * words * skill[speaker] * np.exp(NOISE * noise)).astype(float)
    columns = (np.ones(speaker.size), accent[speaker], age[speaker] == 1, age[speaker] == 2, noise)
    return errors, words, np.stack(columns, axis=1).astype(float), speaker


def fitted(seed: int, columns: int = 5, *, speakers: int = 45, clips: int = 4) -> PoissonFit:
    errors, words, design, speaker = corpus(seed, speakers, clips)
    return fit_poisson_gee(errors, words, design[:, :columns], speaker)


def second(fit: PoissonFit) -> np.ndarray:
    """The contrast that is the coefficient of the second column alone."""
    return np.eye(fit.coefficients.size)[1]


@pytest.fixture(scope="module")
def many() -> list[PoissonFit]:
    return [fitted(seed) for seed in range(200)]


def test_planted_log_ratios_come_back_from_confounded_columns() -> None:
    alone, full = (fitted(2, columns, speakers=600) for columns in (2, 5))
    error = np.sqrt(np.diagonal(full.covariance))
    assert error.max() < 0.08
    assert (np.abs(full.coefficients - TRUTH) < 3 * error).all()
    assert abs(alone.coefficients[1] - FADED) < 3 * np.sqrt(alone.covariance[1, 1]) < 0.25
    assert 1.2 < full.dispersion < 2.5
    assert full.clusters == len(full.influence) == 600


def test_a_level_without_an_effect_is_rarely_called_one(many: list[PoissonFit]) -> None:
    p_values = np.array([coefficient_p(full, UNIT[1]) for full in many])
    assert 0.02 <= (p_values < 0.05).mean() <= 0.08
    assert 0.4 <= (p_values < 0.5).mean() <= 0.6


@pytest.mark.parametrize("column", [1, 2, 3, 4])
def test_intervals_hold_the_planted_ratios(many: list[PoissonFit], column: int) -> None:
    ends = np.array([coefficient_interval(full, UNIT[column], level=0.95) for full in many])
    assert 0.91 <= ((ends[:, 1] <= TRUTH[column]) & (ends[:, 2] >= TRUTH[column])).mean() <= 0.99


def test_intervals_hold_what_adjusting_takes_away(many: list[PoissonFit]) -> None:
    ends = np.array(
        [
            attenuation(first := fitted(seed, 2), second(first), full, second(full), level=0.95)
            for seed, full in enumerate(many[:100])
        ]
    )
    assert 0.89 <= ((ends[:, 1] <= FADED) & (ends[:, 2] >= FADED)).mean() <= 0.99
    # Paired: what both fits share cancels, so that it is narrower than the interval of either.
    either = np.array([coefficient_interval(full, UNIT[1], level=0.95) for full in many[:100]])
    assert np.median(ends[:, 2] - ends[:, 1]) < 0.8 * np.median(either[:, 2] - either[:, 1])


def test_the_joint_test_keeps_its_level_and_finds_ages(many: list[PoissonFit]) -> None:
    centred = [replace(full, coefficients=full.coefficients - TRUTH) for full in many]
    assert 0.02 <= np.mean([wald_test(fit, [1, 2, 3]) < 0.05 for fit in centred]) <= 0.09
    assert np.mean([wald_test(full, [2, 3]) < 0.05 for full in many]) > 0.8


def test_the_joint_test_of_one_column_is_the_t_test() -> None:
    full = fitted(3)
    assert wald_test(full, [2]) == pytest.approx(coefficient_p(full, UNIT[2]), rel=1e-9)
    assert wald_test(full, [3, 1, 2]) == pytest.approx(wald_test(full, [1, 2, 3]), rel=1e-9)
    low = coefficient_interval(full, UNIT[2], level=1 - coefficient_p(full, UNIT[2]))
    assert min(abs(low[1]), abs(low[2])) == pytest.approx(0.0, abs=1e-9)


def level_fit(errors: list[list[float]], sizes: list[list[float]] | None = None) -> PoissonFit:
    """Fit levels of an attribute alone, one clip a speaker, ten words each if not said otherwise."""
    level = np.repeat(np.arange(len(errors)), [len(row) for row in errors])
    design = (level[:, None] == np.arange(len(errors))).astype(float)
    design[:, 0] = 1.0
    words = np.concatenate(sizes) if sizes else np.full(level.size, 10.0)
    return fit_poisson_gee(np.concatenate(errors), words, design, np.arange(level.size))


def test_two_levels_alike_have_the_degrees_of_freedom_of_a_t_test() -> None:
    fit = level_fit([[1.0, 2, 3, 4, 5]] * 2)
    assert freedom(fit, np.array([[0.0, 1.0]])) == pytest.approx(8.0, rel=1e-9)
    # Each level's variance is sum_s (u_s / (1 - 1/5))^2 / 15^2 with squares of 10 in all.
    assert fit.covariance[1, 1] == pytest.approx(2 * 10 / 0.8**2 / 15**2, rel=1e-9)


def test_one_speaker_who_says_most_leaves_few_degrees_of_freedom() -> None:
    rows = [[9.0, 1, 2, 3, 2, 1], [3.0, 2, 4, 2, 3, 4]]
    even, uneven = level_fit(rows), level_fit(rows, [[100.0, 10, 10, 10, 10, 10], [10.0] * 6])
    contrast = np.array([[0.0, 1.0]])
    assert freedom(uneven, contrast) < 3 < freedom(even, contrast) <= 10
    assert wald_test(level_fit([[0.0, 3], [4.0, 1], [2.0, 5], [6.0, 8]]), [1, 2, 3]) > 0.3


def test_the_joint_test_takes_no_more_degrees_of_freedom_than_the_levels_have() -> None:
    rng = np.random.default_rng(2)
    joint = np.eye(4)[1:]
    few, many = (level_fit([rng.poisson(4.0, people) + 1.0 for _ in range(4)]) for people in (4, 40))
    # Zhang (2012) for k levels of n: (q + 1) k (n - 1) / (2 q), about, where the rates are alike.
    assert freedom(few, joint) <= 4 / 6 * 4 * 3 + 2
    assert 4 / 6 * 4 * 39 * 0.5 < freedom(many, joint) < 4 / 6 * 4 * 39 * 1.2


VARYING, SAME, MORE = [1.0, 2, 4], [2.0, 2, 2], [6.0, 6, 6]


@pytest.mark.parametrize("rows", [*itertools.permutations([VARYING, SAME, MORE]), [VARYING, SAME], [SAME, MORE]])
def test_a_level_of_speakers_all_alike_has_the_variance_of_its_errors(rows: list[list[float]]) -> None:
    fit, levels = level_fit(rows), len(rows)
    logs = np.eye(levels)
    logs[0] = 0.0
    rates = adjusted_rates(fit, logs, np.full(3 * levels, 10.0), np.repeat(np.arange(levels), 3))
    # The log of a Poisson rate of so many errors; where speakers vary, they tell it themselves.
    wanted = [
        sum((error / sum(row) - 1 / 3) ** 2 for error in row) / (2 / 3) ** 2 if row is VARYING else 1 / sum(row)
        for row in rows
    ]
    np.testing.assert_allclose(rates.moves @ fit.covariance @ rates.moves.T, np.diag(wanted), atol=1e-9)
    for one, other in itertools.permutations(range(levels), 2):
        row = logs[one] - logs[other]
        error = contrast_of(fit, row)[1]
        assert error == pytest.approx(np.sqrt(wanted[one] + wanted[other]))
        for value, low, high in adjusted_gap(fit, rates, (one, other), level=0.95, top=1.0):
            assert -np.inf < low < value - 0.1 and value + 0.1 < high < np.inf
        # The very same model once more leaves the whole of it, by the same chance.
        assert attenuation(fit, row, fit, row, level=0.95) == pytest.approx((0, 0, 0), abs=1e-9)
    assert 0.05 < wald_test(fit, range(1, levels)) <= 1


def test_the_share_left_is_told_wherever_there_is_something_to_share() -> None:
    left = []
    for seed in range(40):
        alone, full = (fitted(seed, columns, speakers=150) for columns in (2, 5))
        found = share_left(alone, second(alone), full, second(full), level=0.95)
        low, high = coefficient_interval(alone, second(alone), level=0.95)[1:]
        assert (found is None) <= (low < 0.1 and high > -0.1)
        if found is not None:
            left.append(found)
            assert found[0] == pytest.approx(full.coefficients[1] / alone.coefficients[1], rel=1e-9)
    # In truth nothing is left.
    assert len(left) > 15
    assert np.mean([low <= 0 <= high for _, low, high in left]) >= 0.9
    assert np.mean([high < 0.5 for *_, high in left]) > 0.1


def test_a_level_that_nothing_explains_keeps_its_ratio() -> None:
    errors, words, design, speaker = corpus(5, 60, 4)
    alone = fit_poisson_gee(errors, words, design[:, :2], speaker)
    same = attenuation(alone, second(alone), alone, second(alone), level=0.95)
    assert same == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_units_order_and_labels_do_not_matter() -> None:
    errors, words, design, speaker = corpus(6, 40, 4)
    fit = fit_poisson_gee(errors, words, design, speaker)
    scale = np.array([1.0, 1.0, 1.0, 1.0, 1e-12])
    shuffled = np.random.default_rng(0).permutation(errors.size)
    other = fit_poisson_gee(
        errors[shuffled], words[shuffled], (design * scale)[shuffled], speaker[shuffled] * 10**12 - 7
    )
    assert other.coefficients * scale == pytest.approx(fit.coefficients, abs=1e-8)
    assert other.covariance * np.outer(scale, scale) == pytest.approx(fit.covariance, rel=1e-6, abs=1e-12)
    assert other.influence * scale == pytest.approx(fit.influence, abs=1e-8)


def test_a_column_far_from_zero_is_fitted_as_well_as_a_centred_one() -> None:
    errors, words, design, speaker = corpus(7, 40, 4)
    far = design + np.array([0, 0, 0, 0, 1e6])
    centred, shifted = (fit_poisson_gee(errors, words, each, speaker) for each in (design, far))
    assert shifted.coefficients[1:] == pytest.approx(centred.coefficients[1:], abs=1e-6)
    assert shifted.robust[1:, 1:] == pytest.approx(centred.robust[1:, 1:], rel=1e-6)


def small() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    speaker = np.repeat(np.arange(20), 4)
    group = (speaker % 2).astype(float)
    return {
        "errors": rng.poisson(2.0, 80).astype(float),
        "sizes": np.full(80, 10.0),
        "design": np.stack([np.ones(80), rng.normal(size=80), group], axis=1),
        "clusters": speaker,
    }


def spoiled(what: str) -> dict[str, np.ndarray]:
    data = small()
    design, speaker, group = data["design"], data["clusters"], data["design"][:, 2]
    extra = {
        "dependent": 1 - group,
        "absent level": np.zeros(80),
        "two at odds": 3 * group - 2 * design[:, 1],
        "one speaker": (speaker == 3).astype(float),
    }
    if what in extra:
        data["design"] = np.column_stack([design, extra[what]])
    elif what == "reference of one speaker":
        third = (speaker % 4)[:, None] == [0, 1, 2, 3]
        data["design"] = np.column_stack([np.ones(80), third & (speaker != 8)[:, None]]).astype(float)
    elif what == "alike clusters":
        data["design"] = design[:, [0, 2]]
    data["clusters"] = speaker // 5 if what == "few" else speaker
    data["errors"] = {
        "no errors": np.zeros(80),
        "level without": data["errors"] * (group == 0),
        "reference without": data["errors"] * (group == 1),
        "all exact": 2.0 * np.exp(group),
        "steep": np.round(np.exp(4 * design[:, 1])),
        "alike clusters": np.tile([1.0, 3.0], 40),
        "overflow": data["errors"] * 1e307,
    }.get(what, data["errors"])
    return data


@pytest.mark.parametrize(
    ("what", "column", "words"),
    [
        ("few", None, "4 clusters for 3 columns, at least 5"),
        ("no errors", None, "no errors at all"),
        ("dependent", 3, "column 3 of the design depends on those before"),
        ("absent level", 3, "column 3 of the design depends"),
        ("two at odds", 3, "column 3 of the design depends"),
        ("level without", 2, "a level of column 2, or the one it is compared with, has no errors"),
        ("reference without", 2, "a level of column 2, or the one it is compared with, has no errors"),
        ("one speaker", 3, "one cluster alone decides the coefficient of column 3"),
        ("reference of one speaker", 0, "one cluster alone"),
        ("steep", 1, "column 1 differ e\\^"),
        ("overflow", None, "did not converge"),
    ],
)
def test_what_has_no_fit_is_said_in_words(what: str, column: int | None, words: str) -> None:
    with pytest.raises(NotFitted, match=words) as refusal:
        fit_poisson_gee(**spoiled(what))
    if column is not None:
        assert refusal.value.column == column


def test_the_same_clips_unspoiled_have_a_fit() -> None:
    fit = fit_poisson_gee(**small())
    assert fit.clusters == 20
    assert len(fit.unseen) == 0


@pytest.mark.parametrize("what", ["all exact", "alike clusters"])
def test_clips_that_leave_no_spread_have_that_of_their_counts(what: str) -> None:
    data = spoiled(what)
    fit = fit_poisson_gee(**data)
    bread = (data["design"] * fit.expected[:, None]).T @ data["design"]
    # Some columns may show a variance all the same; none is surer than its counts by nothing at all.
    values = np.linalg.eigvals(bread @ fit.covariance).real
    assert len(fit.unseen) > 0
    assert np.isclose(values, 1.0, rtol=1e-6).sum() >= len(fit.unseen) and values.min() > 1e-9
    assert np.isfinite(coefficient_interval(fit, second(fit), level=0.95)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"errors": np.full(80, np.nan)}, "finite"),
        ({"errors": np.full(80, -1.0)}, "below 0"),
        ({"sizes": np.zeros(80)}, "without reference words"),
        ({"sizes": np.ones(79)}, "80 errors"),
        ({"design": np.ones(80)}, "80 errors"),
    ],
)
def test_wrong_input_is_refused(change: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        fit_poisson_gee(**{**small(), **change})
    assert not isinstance(refusal.value, NotFitted)


def test_wrong_questions_are_refused() -> None:
    fit = fit_poisson_gee(**small())
    for columns in ([], [1, 1]):
        with pytest.raises(ValueError, match="no joint test"):
            wald_test(fit, columns)
    with pytest.raises(ValueError, match="without variance"):
        coefficient_p(fit, np.zeros(3))
    with pytest.raises(ValueError, match="20 and 45 clusters"):
        attenuation(fit, second(fit), fitted(0), second(fitted(0)), level=0.95)


def test_with_one_attribute_the_ratio_is_that_of_the_pooled_rates() -> None:
    rng = np.random.default_rng(1)
    speaker = np.concatenate([np.zeros(2000, dtype=np.int64), np.arange(1, 40)])
    group = rng.integers(0, 2, 40)[speaker].astype(float)
    errors = rng.poisson(2.0, speaker.size).astype(float)
    errors[:2000] = np.tile([1.0, 3.0], 1000)
    fit = fit_poisson_gee(errors, np.full(speaker.size, 10.0), np.stack([np.ones(speaker.size), group], 1), speaker)
    pooled = [errors[group == level].mean() / 10 for level in (0, 1)]
    assert fit.coefficients == pytest.approx([np.log(pooled[0]), np.log(pooled[1] / pooled[0])], abs=1e-8)
