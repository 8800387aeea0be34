"""Is the credible interval of epsilon that of the posterior?"""

import numpy as np
import pytest
from numpy.typing import NDArray

from audits.statistics.joint_beta import joint_beta

pytestmark = pytest.mark.numerical


def posterior(tp: int, tn: int, fp: int, fn: int, delta: float, draws: int) -> NDArray[np.float64]:
    """Draw pairs of rates and return the smallest epsilon that allows each."""
    rng = np.random.default_rng(tp + tn)
    x, y = rng.beta(0.5 + fp, 0.5 + tn, draws), rng.beta(0.5 + fn, 0.5 + tp, draws)
    needed = np.zeros(draws)
    for one, other in ((x, y), (y, x), (1 - x, 1 - y), (1 - y, 1 - x)):
        with np.errstate(divide="ignore"):
            ratio = np.log(np.maximum(1 - delta - other, 0)) - np.log(np.maximum(one, 1e-300))
        needed = np.maximum(needed, ratio)
    return needed


@pytest.mark.parametrize(
    ("counts", "delta"),
    [
        ((300, 300, 200, 200), 1e-5),
        ((300, 300, 200, 200), 0.1),
        ((200, 200, 300, 300), 0.0),
        ((499, 450, 50, 1), 1e-5),
        ((10, 500, 0, 490), 1e-5),
        ((500, 500, 0, 0), 1e-5),
        ((0, 0, 0, 0), 1e-5),
        ((250, 250, 250, 250), 0.2),
    ],
)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_as_much_of_the_posterior_lies_below_as_stated(
    counts: tuple[int, int, int, int], delta: float, level: float
) -> None:
    drawn = posterior(*counts, delta, 100_000)
    low, high = joint_beta(*counts, delta=delta, level=level)
    tail = (1 - level) / 2
    error = 4 * (tail * (1 - tail) / len(drawn)) ** 0.5
    for end, part in ((low, tail), (high, 1 - tail)):
        # Rates that delta alone allows need no epsilon: there may be more of them than asked for.
        share = (drawn <= end).mean()
        assert share == pytest.approx(part, abs=error) if end > 0 else share > part - error


def test_the_published_example() -> None:
    """Published with a tolerance of 5e-3 in the mass: 0.145 and 6.399."""
    low, high = joint_beta(487, 1, 512, 0, delta=1e-5, level=0.9)
    assert (low, high) == (pytest.approx(0.144, abs=5e-4), pytest.approx(6.415, abs=1e-3))


@pytest.mark.parametrize("seed", range(2))
def test_turning_the_attack_or_the_classes_round_changes_nothing(seed: int) -> None:
    tp, tn, fp, fn = (int(count) for count in np.random.default_rng(seed).integers(0, 300, 4))
    expected = joint_beta(tp, tn, fp, fn, delta=1e-3)
    for other in ((tn, tp, fn, fp), (fn, fp, tn, tp), (fp, fn, tp, tn)):
        assert joint_beta(*other, delta=1e-3) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_many_trials_leave_the_rates_themselves() -> None:
    low, high = joint_beta(900_000, 900_000, 100_000, 100_000, delta=0.0)
    assert low < np.log(9) < high < low + 0.02
    assert joint_beta(500_000, 500_000, 500_000, 500_000, delta=0.1) == (0.0, 0.0)


@pytest.mark.parametrize("wrong", [{"tp": -1}, {"delta": 1.0}, {"delta": -0.1}, {"level": 1.0}])
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        joint_beta(**{"tp": 1, "tn": 1, "fp": 1, "fn": 1, "delta": 0.0, **wrong})  # type: ignore[arg-type]
