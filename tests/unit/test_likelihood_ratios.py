"""Are likelihood ratios those of a direct loop, and do they see what was planted and nothing else?"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from probes.core.errors import InputError
from probes.generators.attacks.likelihood_ratios import complements, count_gap, left_out, lira, rmia

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]
MODES: tuple[Any, ...] = ("online", "offline", "offline-two-sided")


def auc(scores: Floats, member: NDArray[np.bool_]) -> float:
    ones = int(member.sum())
    above = rankdata(scores)[member].sum() - ones * (ones + 1) / 2
    return float(above / (ones * (len(member) - ones)))


def halves(models: int, points: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return pairs of a random half and the other half: every point is in as many models as it is not."""
    first = rng.permuted(np.tile(np.arange(points) < points // 2, (models // 2, 1)), axis=1)
    return np.stack([first, ~first], axis=1).reshape(models, points)


def planted(models: int, points: int, queries: int, effect: float, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return scores that training on a point raises by `effect` of their spread, each point with a level of its own."""
    rng = np.random.default_rng(seed)
    keep = halves(models, points, rng)
    level = 3 * rng.normal(size=points)
    noise = rng.normal(size=(models, points, queries))
    return level[:, None] + noise + effect * keep[..., None], keep


def direct(target: Floats, shadows: Floats, keep: NDArray[np.bool_], mode: str, variance: str) -> Floats:
    """Do as `lira`, one point and one query after the other."""
    queries, points = target.shape[1], target.shape[0]
    scores = np.zeros((points, queries))
    for query in range(queries):
        sides = {}
        for side, chosen in (("in", keep), ("out", ~keep)):
            groups = [shadows[chosen[:, point], point, query] for point in range(points)]
            squares = [float(((group - group.mean()) ** 2).sum()) for group in groups]
            freedom = [len(group) - 1 for group in groups]
            pooled = sum(squares) / sum(freedom)
            spread = [
                math.sqrt(pooled if variance == "pooled" else one / free)
                for one, free in zip(squares, freedom, strict=True)
            ]
            sides[side] = ([float(np.median(group)) for group in groups], spread)
        for point in range(points):
            asked = target[point, query]
            outside = norm(sides["out"][0][point], sides["out"][1][point])
            if mode == "online":
                inside = norm(sides["in"][0][point], sides["in"][1][point])
                scores[point, query] = inside.logpdf(asked) - outside.logpdf(asked)
            else:
                scores[point, query] = -outside.logsf(asked) if mode == "offline" else -outside.logpdf(asked)
    return scores.mean(1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variance", ["pooled", "per-point"])
@pytest.mark.parametrize(("models", "queries"), [(7, 1), (12, 3)])
def test_scores_are_those_of_a_loop(mode: Any, variance: Any, models: int, queries: int) -> None:
    rng = np.random.default_rng(models)
    shadows, target = rng.normal(size=(models, 15, queries)), 2 * rng.normal(size=(15, queries))
    # Uneven numbers of models, two at least on each side.
    keep = rng.random((models, 15)) < 0.5
    keep[:2], keep[2:4] = True, False
    found = lira(target, shadows, keep, mode=mode, variance=variance)
    assert found.scored.all()
    assert found.scores == pytest.approx(direct(target, shadows, keep, mode, variance), rel=1e-9, abs=1e-12)
    assert (found.with_point + found.without_point == models).all()
    if queries == 1:
        flat = lira(target[:, 0], shadows[..., 0], keep, mode=mode, variance=variance)
        assert flat.scores.tolist() == found.scores.tolist()


def test_points_beyond_what_is_sorted_at_once_change_nothing() -> None:
    shadows, keep = planted(8, 250_000, 2, 1.0, seed=0)
    assert shadows[2:].size > 2**21

    def scored(points: slice) -> list[float]:
        part, chosen = shadows[:, points], keep[:, points]
        return lira(part[0], part[2:], chosen[2:], mode="online", variance="per-point").scores.tolist()

    assert scored(slice(None)) == scored(slice(100_000)) + scored(slice(100_000, None))


def test_far_points_are_told_apart_by_the_one_sided_score() -> None:
    shadows = np.random.default_rng(0).normal(size=(20, 4))
    keep = np.zeros((20, 4), dtype=bool)
    found = lira([0.0, 12.0, 15.0, -12.0], shadows, keep, mode="offline", variance="pooled").scores
    assert np.argsort(found).tolist() == [3, 0, 1, 2]
    turned = lira([0.0, 12.0, 15.0, -12.0], shadows, keep, mode="offline-two-sided", variance="pooled").scores
    assert turned[3] > turned[0]


@pytest.mark.parametrize(
    ("mode", "effect"),
    [("online", 0.0), ("offline", 0.0), ("offline-two-sided", 0.0), ("online", 1.0), ("offline", 1.0)],
)
def test_planted_effects_are_found_and_none_else(mode: Any, effect: float) -> None:
    """With many shadows the best test of a shift by `effect` has an AUC of Phi(effect / sqrt 2)."""
    shadows, keep = planted(66, 4000, 1, effect, seed=3)
    chosen = left_out(keep, 0)
    found = lira(shadows[0], shadows[chosen], keep[chosen], mode=mode, variance="pooled")
    expected = norm.cdf(effect / math.sqrt(2))
    # Medians of 32 models are off by a fifth of the spread, which costs a little.
    assert auc(found.scores, keep[0]) == pytest.approx(expected, abs=3 * 0.0092 + 0.01 * effect)
    # One threshold for all points sees next to nothing of it.
    assert auc(shadows[0, :, 0], keep[0]) < 0.6


def test_points_with_too_few_models_are_named() -> None:
    rng = np.random.default_rng(0)
    shadows, keep = rng.normal(size=(6, 5)), np.zeros((6, 5), dtype=bool)
    keep[:3] = True
    keep[:, 1], keep[:, 2] = True, False
    keep[1:, 3] = False
    table = {
        ("online", "pooled"): [True, False, False, True, True],
        ("online", "per-point"): [True, False, False, False, True],
        ("offline", "pooled"): [True, False, True, True, True],
    }
    for (mode, variance), expected in table.items():
        found = lira(np.zeros(5), shadows, keep, mode=mode, variance=variance)  # type: ignore[arg-type]
        assert found.scored.tolist() == expected
        assert len(found.scores) == sum(expected)
        assert np.isfinite(found.scores).all()
        assert found.with_point.tolist() == [3, 6, 0, 1, 3]
    some = lira(np.zeros(5), shadows, keep, mode="online", variance="pooled")
    alone = lira(np.zeros(3), shadows[:, some.scored], keep[:, some.scored], mode="online", variance="pooled")
    assert some.scores.tolist() == alone.scores.tolist()
    assert rmia(np.zeros(5), -abs(shadows), keep, np.zeros(2), np.zeros((6, 2))).scored.tolist() == [
        True, False, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shadows": np.zeros((4, 4))}, "do not fit"),
        ({"target": np.zeros((3, 2))}, "do not fit"),
        ({"keep": np.zeros((5, 3))}, "do not fit"),
        ({"keep": np.full((4, 3), 0.5)}, "0 and 1"),
        ({"keep": np.zeros(3)}, "0 and 1"),
        ({"target": [0.0, math.nan, 1.0]}, "1 of 3 scores"),
        ({"shadows": np.full((4, 3), np.inf)}, "12 of 12"),
        ({"keep": np.ones((4, 3))}, "No point has 1 or more"),
        ({"keep": np.tile([[1], [0], [0], [0]], 3)}, "their spread"),
        ({"target": [1e200, 0.0, 0.0]}, "not finite"),
    ],
)
def test_wrong_input_is_refused(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {
        "target": np.zeros(3),
        "shadows": np.random.default_rng(0).normal(size=(4, 3)),
        "keep": np.tile([[1], [1], [0], [0]], 3),
    }
    with pytest.raises(InputError, match=words):
        lira(**{**given, **change}, mode="online", variance="pooled")


def table_of_pairs(
    target: Floats, shadows: Floats, keep: NDArray[np.bool_], z: Floats, shadows_z: Floats, a: float, gamma: float
) -> Floats:
    """Do as `rmia` with every pair of x and z."""
    prior = [np.exp(shadows[~keep[:, point], point]).mean() for point in range(len(target))]
    ratio = np.exp(target) / (((1 + a) * np.array(prior) + 1 - a) / 2)
    ratio_z = np.exp(z) / (((1 + a) * np.exp(shadows_z).mean(0) + 1 - a) / 2)
    return (ratio[:, None] / ratio_z[None] > gamma).mean(1)


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_shares_are_those_of_all_pairs(a: float, gamma: float) -> None:
    rng = np.random.default_rng(int(10 * a + gamma))
    shadows, keep = -rng.exponential(size=(6, 80)), halves(6, 80, rng)
    target, z, shadows_z = -rng.exponential(size=80), -rng.exponential(size=51), -rng.exponential(size=(6, 51))
    found = rmia(target, shadows, keep, z, shadows_z, a=a, gamma=gamma)
    assert found.scores == pytest.approx(table_of_pairs(target, shadows, keep, z, shadows_z, a, gamma), abs=1e-12)
    assert 0 < found.scores.mean() < 1


def test_equal_ratios_are_not_beaten() -> None:
    same = np.full((2, 3), -1.0)
    assert rmia(same[0], same, np.zeros((2, 3)), same[0], same).scores.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_shares_see_what_was_planted(effect: float) -> None:
    """Log-probabilities with a level of each point's own, which the shadows take off."""
    shadows, keep = planted(34, 4000, 1, effect, seed=1)
    # Far below 0, and with a = 1 only the mean of the shadows counts.
    values = (shadows[..., 0] - 30) / 4
    rng = np.random.default_rng(2)
    z = (3 * rng.normal(size=500) + rng.normal(size=(34, 500)) - 30) / 4
    chosen = left_out(keep, 0)
    found = rmia(values[0], values[chosen], keep[chosen], z[0], z[chosen], a=1.0)
    assert auc(found.scores, keep[0]) == pytest.approx(norm.cdf(effect / math.sqrt(2)), abs=3 * 0.0092 + 0.015 * effect)


def test_what_is_no_log_probability_is_refused() -> None:
    keep, low = np.zeros((2, 3)), -np.ones((2, 3))
    for above in (([0.1, 0, 0], low, low[0], low), (low[0], -low, low[0], low), (low[0], low, low[0], -low)):
        with pytest.raises(InputError, match="above 0"):
            rmia(above[0], above[1], keep, above[2], above[3])
        assert rmia(above[0], above[1], keep, above[2], above[3], a=1.0).scored.all()
    for wrong in ((low[0], low, low[0], low[:1]), (np.zeros((3, 2)), np.zeros((2, 3, 2)), low[0], low)):
        with pytest.raises(InputError, match="one log-probability"):
            rmia(wrong[0], wrong[1], keep, wrong[2], wrong[3])
    for values in ({"a": 1.1}, {"a": -0.1}, {"gamma": 0.0}):
        with pytest.raises(ValueError, match="a is from 0 to 1"):
            rmia(low[0], low, keep, low[0], low, **values)
    with pytest.raises(InputError, match="trained without it"):
        rmia(low[0], low, 1 - keep, low[0], low)


def test_complements_are_paired_one_to_one() -> None:
    keep = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0], [1, 1, 1]])
    assert complements(keep).tolist() == [1, 0, 3, 2, -1, -1]
    assert left_out(keep, 0).tolist() == [False, False, True, True, True, True]
    assert left_out(keep, 4).tolist() == [True, True, True, True, False, True]
    keep = halves(16, 300, np.random.default_rng(0))
    assert complements(keep).tolist() == [place ^ 1 for place in range(16)]


@pytest.mark.parametrize("mode", ["online", "offline-two-sided"])
def test_counts_of_models_tell_members_unless_the_complement_goes_too(mode: Any) -> None:
    """Where training changes nothing, whatever is seen comes from the number of models alone."""
    shadows, keep = planted(6, 40_000, 1, 0.0, seed=5)
    error = (1 / (12 * 10_000)) ** 0.5
    ways = {"alone": np.arange(6) != 0, "with its complement": left_out(keep, 0)}
    found = {
        way: lira(shadows[0], shadows[chosen], keep[chosen], mode=mode, variance="per-point")
        for way, chosen in ways.items()
    }
    assert [count_gap(keep, 0, chosen) for chosen in ways.values()] == [-1.0, 0.0]
    # The counts alone are a perfect attack, and the scores have some of it.
    assert [auc(-one.with_point, keep[0]) for one in found.values()] == [1.0, 0.5]
    gaps = [abs(auc(one.scores, keep[0]) - 0.5) for one in found.values()]
    assert gaps[0] > 4 * error, gaps
    assert gaps[1] < 3 * error, gaps
