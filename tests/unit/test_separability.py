"""Are members found that differ by themselves, and none where chance alone divided the points?"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.datasets import load_digits

from audits.membership import separability
from audits.membership.separability import blind_scores
from probes.core.errors import InputError

Singles = NDArray[np.float32]
LOADED = load_digits()
DIGITS = (LOADED.data / 16).astype(np.float32)


def judged(
    members: Singles, others: Singles, *, seed: int = 0
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_]]:
    return blind_scores(members, others, rng=np.random.default_rng(seed))


def area(scores: NDArray[np.float64], member: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the area under the curve and its standard error (DeLong)."""
    inside, outside = scores[member], scores[~member]
    ranks = rankdata(np.concatenate([inside, outside]))
    above = (ranks[: len(inside)] - rankdata(inside)) / len(outside)
    below = 1 - (ranks[len(inside) :] - rankdata(outside)) / len(inside)
    return float(above.mean()), float(np.sqrt(above.var(ddof=1) / len(inside) + below.var(ddof=1) / len(outside)))


def halves(count: int, seed: int) -> tuple[Singles, Singles]:
    order = np.random.default_rng(seed).permutation(len(DIGITS))
    return DIGITS[order[:count]], DIGITS[order[count : 2 * count]]


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separability, "TREES", 25)


def shifted(kind: str) -> tuple[Singles, Singles]:
    members, others = halves(300, seed=1)
    if kind == "other classes":
        return DIGITS[LOADED.target < 5][:300], DIGITS[LOADED.target >= 5][:300]
    if kind == "darker":
        return members * np.float32(0.95), others
    noise = np.random.default_rng(0).normal(0, 0.02, members.shape).astype(np.float32)
    return members + noise, others


@pytest.mark.parametrize("kind", ["other classes", "darker", "noise"])
def test_a_shift_is_found(kind: str) -> None:
    found, member = judged(*shifted(kind))
    for name, scores in found.items():
        value, error = area(scores, member)
        assert value - 1.96 * error > 0.75, name


def test_chance_is_not_taken_for_a_shift() -> None:
    found = [judged(*halves(100, seed), seed=seed) for seed in range(8)]
    for name in ("linear", "trees"):
        standard = []
        for scores, member in found:
            value, error = area(scores[name], member)
            standard.append((value - 0.5) / error)
        # Of 8 a mean beyond 3 errors, or two beyond 2.6, would come by chance once in some hundred.
        assert abs(np.mean(standard)) < 3 / np.sqrt(8), standard
        assert sum(abs(value) > 2.6 for value in standard) < 2, standard


def test_equal_points_are_kept_together_and_tell_nothing() -> None:
    members, others = halves(100, seed=3)
    found, member = judged(np.repeat(members, 3, axis=0), np.repeat(others, 3, axis=0))
    assert len(member) == 480
    for scores in found.values():
        value, _ = area(scores, member)
        # Copies in two folds would be known by heart, with an area near 1.
        assert abs(value - 0.5) < 0.2


def test_large_sets_are_cut_with_their_shares_and_wide_points_are_shortened() -> None:
    rng = np.random.default_rng(0)
    members, others = rng.normal(size=(900, 150)).astype(np.float32), rng.normal(size=(300, 150)).astype(np.float32)
    members[:, 7] += 3
    found, member = blind_scores(members, others, rng=rng, most=400)
    # The first of five folds has no scores.
    assert len(member) == 400 - 80 and member.sum() == 240
    assert all(area(scores, member)[0] > 0.75 for scores in found.values())


def test_a_seed_gives_the_same_scores() -> None:
    members, others = halves(60, seed=2)
    (one, _), (two, _) = (judged(members, others, seed=5) for _ in range(2))
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.parametrize("members", [DIGITS[:3], np.zeros((50, 64), dtype=np.float32)])
def test_too_few_different_points_are_refused(members: Singles) -> None:
    with pytest.raises(InputError, match="Too few different points"):
        judged(members, members[:1])
