"""Are ranks uniform for the true law, with ties too, and does each planted fault move the projection that sees it?"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import kstest

from probes.conditional.ranks import Projections, pits, projections
from probes.conditional.scores import distances

Floats = np.ndarray
Rows = tuple[Floats, Floats]
ROWS, DRAWS = 4_000, 20
SURE, NONE = 1e-6, 0.01
"""p-values of faults that must be seen, and of tests that must stay silent, over all tests of a case."""


def mixture(rng: np.random.Generator) -> Rows:
    """Return y, with x in the mean: two modes, the lower one of weight .3."""
    x = rng.uniform(size=(ROWS, 1))
    modes = np.where(rng.random((ROWS, 1 + DRAWS)) < 0.3, -2.0, 1.0)
    values = x + modes + 0.3 * rng.normal(size=modes.shape)
    return values[:, :1], values[:, 1:, None]


def normal(rng: np.random.Generator) -> Rows:
    """Return y of 5 correlated coordinates of unlike scale, with x in mean and spread."""
    x = rng.normal(size=(ROWS, 1, 5))
    values = x + (1 + x**2) * (rng.normal(size=(ROWS, 1 + DRAWS, 5)) @ rng.normal(size=(5, 5)))
    values *= 10.0 ** np.arange(-2, 3)
    return values[:, 0], values[:, 1:]


def counts(rng: np.random.Generator) -> Rows:
    """Return whole y of 3 coordinates with few values: draws repeat, and so do distances between them."""
    x = rng.uniform(0.2, 1.5, size=(ROWS, 1, 3))
    values = rng.poisson(np.broadcast_to(x, (ROWS, 1 + DRAWS, 3))).astype(np.float64)
    return values[:, 0], values[:, 1:]


def alone(rng: np.random.Generator) -> Rows:
    """Return one draw per row."""
    values = rng.normal(size=(ROWS, 2, 2)) + rng.normal(size=(ROWS, 1, 2))
    return values[:, 0], values[:, 1:]


def ranked(y: Floats, samples: Floats, seed: int = 0) -> tuple[Projections, Floats]:
    rng = np.random.default_rng(seed)
    made = projections(y, 32, rng)
    return made, pits(made, y, samples, *distances(y, samples), rng)


def p_values(u: Floats) -> Floats:
    return np.array([kstest(column, "uniform").pvalue for column in u.T])


@pytest.mark.parametrize("law", [mixture, normal, counts, alone])
def test_ranks_of_the_truth_are_uniform(law: Callable[[np.random.Generator], Rows]) -> None:
    least = []
    for seed in range(3):
        _, u = ranked(*law(np.random.default_rng(seed)), seed)
        assert u.min() > 0 and u.max() < 1
        least.append(p_values(u).min() * u.shape[1])
    assert min(least) > NONE


@pytest.mark.parametrize("scaled", [False, True])
def test_more_coordinates_than_rows_leave_ranks_uniform(scaled: bool) -> None:
    """An outcome is near a mean, and small in a scale, that hold it, and draws are not."""
    rng = np.random.default_rng(3)
    values = rng.uniform(size=(300, 1 + DRAWS, 1_500))
    values /= values[:, 0].std(0) if scaled else 1.0
    _, u = ranked(values[:, 0], values[:, 1:])
    assert p_values(u).min() * u.shape[1] > NONE


def test_each_of_the_values_taken_as_the_outcome_gives_uniform_ranks_together() -> None:
    # Exact for any values, not in the mean over laws: outcome and draws change places.
    values = np.array([0.0, 0.1, 0.1, 0.1, 0.4, 1.0, 1.3, 7.0, 7.2])
    turned = np.stack([np.roll(values, -at) for at in range(len(values))])[:, :, None]
    made = projections(values[:, None], 32, np.random.default_rng(0))
    both = distances(turned[:, 0], turned[:, 1:])
    rng = np.random.default_rng(1)
    u = np.concatenate([pits(made, turned[:, 0], turned[:, 1:], *both, rng) for _ in range(3_000)])
    # Of 9 ranks each cell of width 1/9 holds a share of exactly 1/9 in the mean.
    held = np.stack([np.histogram(column, bins=9, range=(0, 1))[0] for column in u.T]) / len(u)
    np.testing.assert_allclose(held, 1 / 9, atol=5 * np.sqrt(1 / 9 / len(u)))


def test_nearest_neighbours_of_each_other_are_tied_and_share_their_cells() -> None:
    y, samples = np.array([[0.0]]), np.array([[[0.1], [5.0], [9.0]]])
    made = projections(np.array([[0.0], [1.0]]), 32, np.random.default_rng(0))
    both = distances(y, samples)
    rng = np.random.default_rng(2)
    u = np.array([pits(made, y, samples, *both, rng)[0] for _ in range(500)])
    at = [one.name for one in made.items].index("nearest")
    # Two values at distance .1 hold the two lowest of four cells.
    assert 0 < u[:, at].min() < 0.02 and 0.48 < u[:, at].max() < 0.5
    assert u[:, 0].max() < 0.25


def test_rounding_makes_no_order_of_equal_values() -> None:
    rng = np.random.default_rng(3)
    y = np.round(rng.normal(size=(500, 40)), 1) + 0.1
    samples = np.repeat(y[:, None], 7, axis=1)
    _, u = ranked(y, samples)
    # All are ties, so u is V alone: below 1/8 in an eighth of rows, whatever the projection.
    assert np.abs((u < 1 / 8).mean(0) - 1 / 8).max() < 0.08
    assert np.abs(u.mean(0) - 0.5).max() < 0.07
    # 10.3 - 10 is above .3 by rounding: each value's nearest other is as far away.
    assert 10.3 - 10 > 0.3
    many = np.tile(np.array([0.3, 10.0, 10.3]), (500, 1))[:, :, None]
    made, u = ranked(np.zeros((500, 1)), many)
    nearest = u[:, [one.name for one in made.items].index("nearest")]
    assert abs((nearest > 0.5).mean() - 0.5) < 0.1


X = np.random.default_rng(4).uniform(size=ROWS)
QUARTILE = np.minimum((4 * X).astype(int), 3)


def modes(rng: np.random.Generator, weight: float = 0.5, x: Floats = X) -> Floats:
    """Return the two modes of the planted law (spec A4), +-(1 + x), of each draw."""
    return np.where(rng.random((ROWS, DRAWS)) < weight, 1.0, -1.0) * (1 + x.reshape(ROWS, -1))


def noise(rng: np.random.Generator) -> Floats:
    drawn: Floats = rng.normal(size=(ROWS, DRAWS))
    return 0.3 * drawn


FAULTS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "truth": lambda rng: modes(rng) + noise(rng),
    "gaussian": lambda rng: np.sqrt((1 + X[:, None]) ** 2 + 0.09) * rng.normal(size=(ROWS, DRAWS)),
    "one-mode": lambda rng: 1 + X[:, None] + noise(rng),
    "weights": lambda rng: modes(rng, 0.7) + noise(rng),
    "climatology": lambda rng: modes(rng, x=rng.uniform(size=(ROWS, DRAWS))) + noise(rng),
    "spread": lambda rng: modes(rng) + np.where(X < 0.5, 0.5, np.sqrt(2))[:, None] * noise(rng),
    "shift": lambda rng: modes(rng) + 0.3 * (X[:, None] > 0.75) + noise(rng),
    "mean": lambda rng: np.zeros((ROWS, DRAWS)),
}
# Projections that see it over all rows, those that see it in a quartile of x, and those that are blind to it.
SEEN: dict[str, tuple[set[str], set[str], set[str]]] = {
    "truth": (set(), set(), {"y0", "norm", "distance", "nearest"}),
    "gaussian": ({"y0", "norm", "distance"}, {"y0", "norm", "distance"}, set()),
    "one-mode": ({"y0", "nearest", "distance"}, {"y0", "nearest", "distance"}, {"norm"}),
    "weights": ({"y0", "distance"}, {"y0", "distance"}, {"norm"}),
    "climatology": (set(), {"y0", "norm"}, set()),
    "spread": ({"norm"}, {"norm", "nearest"}, set()),
    "shift": (set(), {"y0", "nearest"}, set()),
    "mean": ({"y0", "norm", "distance", "nearest"}, {"y0", "norm", "distance", "nearest"}, set()),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_moves_the_projection_that_should_see_it(fault: str) -> None:
    rng = np.random.default_rng(5)
    # Half of the rows in each mode: "norm" is |y| only where the reference's mean is 0.
    y = np.tile([1.0, -1.0], ROWS // 2) * (1 + X) + 0.3 * rng.normal(size=ROWS)
    made, u = ranked(y[:, None], FAULTS[fault](rng)[:, :, None])
    names = [one.name for one in made.items]
    whole = dict(zip(names, p_values(u), strict=True))
    groups = np.stack([p_values(u[at == QUARTILE]) for at in range(4)])
    least = dict(zip(names, 4 * groups.min(0), strict=True))
    everywhere, somewhere, blind = SEEN[fault]
    assert {name for name in names if whole[name] < SURE} >= everywhere
    assert {name for name in names if least[name] < SURE} >= somewhere
    assert all(min(whole[name], least[name]) > NONE for name in blind)
    if fault == "climatology":
        assert min(whole["y0"], whole["norm"]) > NONE


def test_radial_projections_see_the_spread_of_several_coordinates_best() -> None:
    rng = np.random.default_rng(6)
    y, samples = rng.normal(size=(ROWS, 6)), 0.85 * rng.normal(size=(ROWS, DRAWS, 6))
    made, u = ranked(y, samples)
    away = np.array([kstest(column, "uniform").statistic for column in u.T])
    assert away[made.radial].min() > 2 * away[~made.radial].max()
    assert (u[:, made.radial].mean(0) > 0.6).all()
    assert np.abs(u[:, ~made.radial].mean(0) - 0.5).max() < 0.03


def test_projections_are_made_of_the_reference_alone() -> None:
    rng = np.random.default_rng(7)
    y = np.c_[rng.normal(5, 3, size=500), np.full(500, 0.1), rng.normal(size=(500, 30))]
    made = projections(y, 32, np.random.default_rng(0))
    names = [one.name for one in made.items]
    assert names[:9] == ["y0", "y4", "y9", "y13", "y18", "y22", "y27", "y31", "mean"]
    assert names[9:] == [*(f"direction{at}" for at in range(20)), "norm", "distance", "nearest"]
    assert made.weights.shape == (32, 29) and made.radial.tolist() == [False] * 29 + [True] * 3
    centre, scale = made.without(y[7:8])
    rest = np.delete(y, 7, axis=0)
    np.testing.assert_allclose(centre[0], rest.mean(0))
    np.testing.assert_allclose(scale[0], np.where(np.arange(32) == 1, 1.0, rest.std(0)))
    np.testing.assert_allclose(np.linalg.norm(made.weights[:, 9:], axis=0), 1)
    again = projections(y, 32, np.random.default_rng(0))
    np.testing.assert_array_equal(made.weights, again.weights)
    few = {d: [one.name for one in projections(y[:, :d], 12, rng).items] for d in (1, 2)}
    assert few[1] == ["y0", "norm", "distance", "nearest"]
    assert few[2] == ["y0", "y1", "mean", *(f"direction{at}" for at in range(4)), "norm", "distance", "nearest"]
    assert [one.name for one in projections(y, 5, rng).items] == ["y0", "mean", "norm", "distance", "nearest"]
    for most, rows in ((4, 500), (32, 0)):
        with pytest.raises(ValueError, match="at least 5"):
            projections(y[:rows], most, rng)


def test_ranks_do_not_hang_on_units_or_on_the_size_of_blocks() -> None:
    y, samples = normal(np.random.default_rng(8))
    y, samples = y[:300], samples[:300]
    _, expected = ranked(y, samples)
    for unit in (2.0**40, 2.0**-60):
        np.testing.assert_array_equal(expected, ranked(unit * y, unit * samples)[1])
    rng = np.random.default_rng(0)
    made = projections(y, 32, rng)
    parts = [
        pits(made, y[at : at + 70], samples[at : at + 70], *distances(y[at : at + 70], samples[at : at + 70]), rng)
        for at in range(0, 300, 70)
    ]
    np.testing.assert_array_equal(expected, np.concatenate(parts))
