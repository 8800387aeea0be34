"""Do the shares within balls follow from their definitions, for a whole sample and for every part of it?"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import hypergeom, skew

from probes.vectors import knn
from probes.vectors.support_metrics import (
    METRICS,
    Balls,
    Memberships,
    Reference,
    Side,
    balls,
    coverage_ceiling,
    evaluate,
    hubness,
    list_length,
    membership,
    prepare_reference,
    reach,
    widened_share,
)

pytestmark = pytest.mark.numerical

Floats = NDArray[np.float64]
Weights = NDArray[np.int32]


def ones(rows: Floats) -> Weights:
    return np.ones((1, len(rows)), dtype=np.int32)


def side(rows: Floats, weights: Weights | None = None, *, count: int | None = None) -> Side:
    """Return a sample with lists of all others, or of so many."""
    near = knn.neighbours(knn.points(rows), len(rows) - 1 if count is None else count)
    return Side(near, ones(rows) if weights is None else weights)


def metrics(
    x: Floats, y: Floats, k: int, wx: Weights | None = None, wy: Weights | None = None, *, count: int | None = None
) -> dict[str, Floats]:
    """Return all metrics of y against x, in all parts that the weights name."""
    own, theirs = (balls(side(rows, weights, count=count), [k])[0] for rows, weights in ((x, wx), (y, wy)))
    one, two = (knn.points(rows, x.mean(0)) for rows in (x, y))
    return evaluate(prepare_reference(own), theirs, knn.pairs(one, two, reach([own]), reach([theirs])))


def line(*places: float) -> Floats:
    return np.array(places, dtype=float)[:, None]


def normal(count: int, width: int = 3, *, seed: int = 0, shift: float = 0.0) -> Floats:
    return shift + np.random.default_rng(seed).normal(size=(count, width))


def test_points_on_a_line_by_hand() -> None:
    # Balls of the reference: 0 (radius 1), 1 (1), 3 (2), 10 (7); of the candidates: .5 (1.5), 2 (1.5), 30 (28).
    found = metrics(line(0, 1, 3, 10), line(0.5, 2, 30), 1)
    expected = {
        "precision": 2 / 3,  # 30 lies in no ball
        "recall": 1.0,  # 10 lies within the ball of 30
        "density": 3 / 3,  # .5 in two balls; 2 at the very edge of that of 1, within that of 3
        "coverage": 3 / 4,  # 10 holds none
        "f1": 0.8,
        # Radii are cut at the median of squared ones, 2.5: 2 lies within 3 still. Of the reference, 0 and 1 lie in
        # each other's ball, 3 and 10 in none.
        "clipped_density": (2 / 3) / (2 / 4),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx([value]), name


def test_membership_names_who_lies_where() -> None:
    x, y = line(0, 1, 3, 10), line(0.5, 2, 30)
    own, theirs = (balls(side(rows), [1])[0] for rows in (x, y))
    one, two = (knn.points(rows, x.mean(0)) for rows in (x, y))
    who = membership(prepare_reference(own), theirs, knn.pairs(one, two, reach([own]), reach([theirs]))).of()
    assert who.held_by.tolist() == [2, 1, 0]
    assert who.holds.tolist() == [1, 1, 1, 0]
    # Of balls that are cut to the median, at most k count.
    assert who.narrow.tolist() == [1, 1, 0]
    assert who.reached.tolist() == [True, True, True, True]


def brute(x: Floats, y: Floats, k: int) -> dict[str, float]:
    """Return what can be had from the full table of distances."""
    own, theirs, both = cdist(x, x), cdist(y, y), cdist(x, y)
    r_x, r_y = np.sort(own, 1)[:, k], np.sort(theirs, 1)[:, k]
    clipped = np.minimum(r_x, np.median(r_x))
    within, reached = both < r_x[:, None], both < r_y[None, :]
    full = np.minimum((own <= clipped[:, None]).sum(0) - 1, k).mean()
    return {
        "precision": within.any(0).mean(),
        "recall": reached.any(1).mean(),
        "density": within.sum(0).mean() / k,
        "coverage": within.any(1).mean(),
        "clipped_density": np.minimum((both < clipped[:, None]).sum(0), k).mean() / full,
    }


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_sample_has_the_values_of_its_table_of_distances(k: int) -> None:
    x, y = normal(90), normal(70, seed=1, shift=0.4)
    found = metrics(x, y, k)
    for name, value in brute(x, y, k).items():
        assert found[name] == pytest.approx([value], abs=1e-12), name
    assert set(found) == set(METRICS)


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("copies", [False, True])
def test_every_part_has_the_values_of_its_own_points(k: int, copies: bool) -> None:
    rng = np.random.default_rng(7)
    x, y = normal(80), normal(60, seed=1, shift=0.5)
    most = 4 if copies else 2
    wx, wy = (rng.integers(0, most, (6, len(rows))).astype(np.int32) for rows in (x, y))
    lists = list_length(k, 0.5, 60) if not copies else None
    found = metrics(x, y, k, wx, wy, count=lists)
    for part in range(6):
        in_x, in_y = wx[part] > 0, wy[part] > 0
        fresh = metrics(x[in_x], y[in_y], k, wx[[part]][:, in_x], wy[[part]][:, in_y])
        for name in METRICS:
            assert found[name][part] == pytest.approx(fresh[name][0], abs=1e-12), name


def halves(rows: Floats, seed: int) -> Weights:
    first = np.random.default_rng(seed).random((4, len(rows))) < 0.5
    return np.stack([*first, *~first]).astype(np.int32)


def test_parts_of_points_with_ties_are_told_apart_as_exactly_as_the_whole() -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.permutation(np.unique(rng.integers(0, 3, (250, 7)), axis=0)) + 0.0 for _ in range(2))
    wx, wy = (np.vstack([ones(rows), halves(rows, 5)]) for rows in (x, y))
    own, theirs = (balls(side(rows, weights), [3])[0] for rows, weights in ((x, wx), (y, wy)))
    one, two = (knn.points(rows, x.mean(0)) for rows in (x, y))
    found = evaluate(prepare_reference(own), theirs, knn.pairs(one, two, reach([own]), reach([theirs])))
    for part in range(len(wx)):
        for name, value in exact_shares(own, theirs, x, y, part).items():
            assert found[name][part] == pytest.approx(value, abs=1e-12), (part, name)


def exact_shares(own: Balls, theirs: Balls, x: Floats, y: Floats, part: int) -> dict[str, float]:
    """Return the shares of one part from squared distances between whole numbers."""
    in_x, in_y = (one.side.weights[part] > 0 for one in (own, theirs))
    both = cdist(x[in_x], y[in_y], "sqeuclidean")
    within, reached = both < own.radii[part][in_x, None], both < theirs.radii[part][None, in_y]
    return {
        "precision": within.any(0).mean(),
        "recall": reached.any(1).mean(),
        "density": within.sum(0).mean() / own.k,
        "coverage": within.any(1).mean(),
    }


@pytest.mark.parametrize("kind", [np.int32, np.uint8])
@pytest.mark.parametrize(("k", "portion"), [(2, 10**6), (2, 1), (150, 3000)])
def test_who_lies_where_in_each_part_is_counted_pair_by_pair(k: int, portion: int, kind: type[np.int32]) -> None:
    # A small lattice: nearly every distance is met many times, also by the medians that cut the balls.
    rng = np.random.default_rng(k)
    cells = np.stack(np.meshgrid(*[np.arange(7.0)] * 3), -1).reshape(-1, 3)
    x, y = (rng.permutation(cells)[:count] for count in ((40, 30) if k == 2 else (320, 310)))
    wx, wy = (np.vstack([ones(rows), rng.integers(0, 200, (2, len(rows)))]).astype(kind) for rows in (x, y))
    wx[2, ::2] = wy[1, 1::2] = 0
    own, theirs = (balls(side(rows, weights), [k])[0] for rows, weights in ((x, wx), (y, wy)))
    reference, both = prepare_reference(own), cdist(x, y, "sqeuclidean")
    found = Memberships(reference, theirs)
    pairs = rng.permutation(both.size)
    for start in range(0, both.size, portion):
        i, j = (one.astype(np.int32) for one in np.divmod(pairs[start : start + portion], len(y)))
        found.add(i, j, both[i, j])
    for part in range(3):
        there, who = (wx[part] > 0)[:, None] & (wy[part] > 0), found.of(part)
        inside = there & (both < own.radius(part)[:, None])
        assert (who.held_by == inside.sum(0)).all()
        assert (who.holds == np.minimum(inside.sum(1), k)).all()
        assert (who.narrow == np.minimum((inside & (both < reference.medians[part])).sum(0), k)).all()
        assert (who.reached == (there & (both < theirs.radius(part))).any(1)).all()


def test_a_ball_that_is_full_again_and_again_stays_full() -> None:
    # Of more than 127 neighbours two full counts are more than a byte holds.
    k, rng = 140, np.random.default_rng(6)
    x, y = normal(300), 1e-3 * normal(310, seed=1)
    own, theirs = (balls(side(rows), [k])[0] for rows in (x, y))
    found, both = Memberships(prepare_reference(own), theirs), cdist(x, y, "sqeuclidean")
    for some in np.array_split(rng.permutation(both.size), 2):
        i, j = (one.astype(np.int32) for one in np.divmod(some, len(y)))
        found.add(i, j, both[i, j])
    inside = both < own.radius(0)[:, None]
    assert (inside.sum(1) == 310).any() and (found.of().holds == np.minimum(inside.sum(1), k)).all()


def test_weights_of_one_byte_make_the_same_means_as_wide_ones() -> None:
    rng = np.random.default_rng(8)
    x, y = normal(50), normal(40, seed=1, shift=0.4)
    wx, wy = (rng.integers(100, 250, (2, len(rows))) for rows in (x, y))
    wide, byte = (metrics(x, y, 3, wx.astype(kind), wy.astype(kind)) for kind in (np.int32, np.uint8))
    for name in METRICS:
        assert (wide[name] == byte[name]).all(), name


def test_points_at_the_very_edge_of_all_balls_lie_in_none() -> None:
    # Everybody is as far from everybody.
    rows = np.eye(60)
    found = metrics(rows[:30], rows[30:], 3)
    assert all(found[name] == [0.0] for name in METRICS), found


def test_what_the_reference_reaches_hardly_depends_on_how_long_lists_are() -> None:
    rows = np.unique(np.random.default_rng(0).integers(0, 3, (200, 8)), axis=0) + 0.0
    short, long = (prepare_reference(balls(side(rows, count=count), [5])[0]) for count in (5, 48))
    # Which of several that are equally far are listed is open.
    assert short.own_density == pytest.approx(long.own_density, abs=0.03)


def test_several_k_come_from_the_same_lists() -> None:
    x = normal(50)
    found = [one.radius(0) for one in balls(side(x), [1, 4, 9])]
    truth = np.sort(cdist(x, x), 1) ** 2
    for place, k in enumerate([1, 4, 9]):
        np.testing.assert_allclose(found[place], truth[:, k])


def test_a_list_that_ends_too_early_gives_the_widest_radius_that_it_knows() -> None:
    short = side(normal(20), count=4)
    found = np.stack([one.radius(0) for one in balls(short, [4, 5])])
    assert (found == short.neighbours.squared[:, -1]).all()


def test_a_part_of_too_few_points_has_no_radii() -> None:
    weights = np.array([[1] * 20, [1] * 4 + [0] * 16], dtype=np.int32)
    whole = side(normal(20), weights)
    three, four = balls(whole, [3, 4])
    assert three.drawn.tolist() == [True, True] and four.drawn.tolist() == [True, False]
    assert np.isinf(four.radii[1, :4]).all() and np.isfinite(four.radii[0]).all()
    with pytest.raises(ValueError, match="no 4 neighbours"):
        prepare_reference(four)
    nobody = Side(knn.Neighbours(np.empty((2, 0)), np.empty((2, 0), dtype=np.int32)), np.ones((1, 2), dtype=np.int32))
    assert np.isinf(balls(nobody, [1])[0].radii).all()


def test_a_part_of_too_few_points_has_no_radii_in_lists_that_were_cut() -> None:
    weights = np.array([[1] * 20, [1] * 4 + [0] * 16], dtype=np.int32)
    (drawn,) = balls(side(normal(20), weights, count=10), [4])
    assert drawn.drawn.tolist() == [True, False]


def test_weights_of_other_points_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights of shape \(1, 4\) for 5 points"):
        side(normal(5), np.ones((1, 4), dtype=np.int32))


def test_copies_leave_the_radii_and_move_the_means() -> None:
    x, y = normal(60), normal(40, seed=1, shift=0.7)
    weights = np.random.default_rng(3).integers(1, 6, (1, 40)).astype(np.int32)
    plain, copied = metrics(x, y, 3), metrics(x, y, 3, None, weights)
    assert (plain["recall"], plain["coverage"]) == (copied["recall"], copied["coverage"])
    own, both = cdist(x, x), cdist(x, y)
    within = both < np.sort(own, 1)[:, 3][:, None]
    assert copied["precision"][0] == pytest.approx(np.average(within.any(0), weights=weights[0]))
    assert copied["density"][0] == pytest.approx(np.average(within.sum(0) / 3, weights=weights[0]))
    assert copied["precision"] != plain["precision"]
    # The same of the reference, whose items the other two are means over.
    heavy = np.random.default_rng(4).integers(1, 6, (1, 60)).astype(np.int32)
    copied = metrics(x, y, 3, heavy)
    assert copied["coverage"][0] == pytest.approx(np.average(within.any(1), weights=heavy[0]))
    assert (plain["precision"], plain["density"]) == (copied["precision"], copied["density"])


def test_a_candidate_of_one_text_again_and_again_has_no_recall() -> None:
    x, y = normal(50), normal(1, seed=1)
    own = balls(side(x), [3])[0]
    lonely = knn.Neighbours(np.empty((1, 0)), np.empty((1, 0), dtype=np.int32))
    theirs = balls(Side(lonely, np.array([[50]], dtype=np.int32)), [3])[0]
    one, two = (knn.points(rows, x.mean(0)) for rows in (x, y))
    near = knn.pairs(one, two, reach([own]), reach([theirs]))
    found = evaluate(prepare_reference(own), theirs, near)
    assert np.isnan(found["recall"]).all() and np.isnan(found["f1"]).all()
    assert found["precision"] == [1.0]
    held = int((cdist(x, y)[:, 0] < np.sort(cdist(x, x), 1)[:, 3]).sum())
    assert found["density"] == pytest.approx([held / 3]) and found["coverage"] == pytest.approx([held / 50])


def test_a_candidate_elsewhere_has_nothing() -> None:
    found = metrics(normal(40), normal(30, seed=1, shift=1e3), 2)
    assert all(found[name] == [0.0] for name in METRICS), found


def test_a_reference_meets_itself_in_an_independent_draw() -> None:
    found = [metrics(normal(600, 4, seed=seed), normal(600, 4, seed=100 + seed), 5, count=5) for seed in range(6)]
    for name in ("clipped_density", "clipped_coverage", "density"):
        values = np.array([one[name][0] for one in found])
        assert abs(values.mean() - 1) < 0.04, (name, values)
    covered = np.array([one["coverage"][0] for one in found])
    assert covered.mean() == pytest.approx(coverage_ceiling(600, 600, 5), abs=0.01)


@pytest.mark.parametrize("good", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize(("k", "m"), [(3, 300), (3, 600), (10, 300)])
def test_clipped_scores_are_the_share_of_good_candidates(good: float, k: int, m: int) -> None:
    found, draws = [], 16
    for seed in range(draws):
        x, y = normal(300, 4, seed=seed), normal(m, 4, seed=50 + seed)
        y[round(good * m) :] += 1e3
        one = metrics(x, y, k, count=k)
        found.append([one[name][0] for name in ("clipped_density", "clipped_coverage")])
    error = 4 * np.std(found, axis=0, ddof=1) / np.sqrt(draws)
    assert (np.abs(np.mean(found, axis=0) - good) <= error).all(), np.mean(found, axis=0)
    assert error.max() < 0.03 + 0.12 * good


def test_a_far_reference_point_hardly_lets_bad_candidates_in() -> None:
    x, y = normal(300), normal(300, seed=1)
    far = x.copy()
    far[0] = 100.0
    y[:150] = normal(150, seed=2, shift=70.0)
    plain, moved = metrics(x, y, 5), metrics(far, y, 5)
    assert plain["precision"][0] < 0.51 and moved["precision"][0] > 0.95
    assert moved["density"][0] - plain["density"][0] > 0.08
    # One reference point less among the good ones: a change of a few in three hundred.
    for name in ("clipped_density", "clipped_coverage"):
        assert abs(moved[name][0] - plain[name][0]) < 0.025, name


@pytest.mark.parametrize(("k", "value"), [(1, 0.5), (3, 0.875), (4, 0.938), (5, 0.969), (10, 0.999)])
def test_the_ceiling_of_large_samples(k: int, value: float) -> None:
    assert coverage_ceiling(4000, 4000, k) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize(("n", "m", "k"), [(20, 20, 1), (20, 60, 2), (60, 20, 3), (90, 70, 5)])
def test_the_ceiling_is_the_mean_coverage(n: int, m: int, k: int) -> None:
    # Coverage asks which of the n - 1 + m others of a point come first: the k-th of its own kind or any candidate.
    assert coverage_ceiling(n, m, k) == pytest.approx(1 - hypergeom.pmf(k, n - 1 + m, n - 1, k))
    values = [
        metrics(normal(n, 2, seed=seed), normal(m, 2, seed=10_000 + seed), k, count=k)["coverage"][0]
        for seed in range(120)
    ]
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert abs(np.mean(values) - coverage_ceiling(n, m, k)) < 4 * error


def ring(count: int) -> Floats:
    angle = 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def test_hubs_skew_how_often_a_point_is_near() -> None:
    skewness, most = hubness(side(ring(12)), 2)
    assert skewness == pytest.approx([0.0]) and most.tolist() == [2]
    # All directions are nearest to the middle, and none to each other.
    star = np.vstack([np.zeros((1, 6)), np.eye(6), -np.eye(6)])
    skewness, most = hubness(side(star), 1)
    assert skewness[0] > 2 and most.tolist() == [12]


def test_hubness_of_parts_is_that_of_their_own_points() -> None:
    x = normal(60, 8)
    weights = np.random.default_rng(1).integers(0, 3, (4, 60)).astype(np.int32)
    skewness, most = hubness(side(x, weights), 4)
    for part, there in enumerate(weights > 0):
        nearest = np.argsort(cdist(x[there], x[there]), 1)[:, 1:5]
        counts = np.bincount(nearest.ravel(), minlength=int(there.sum()))
        assert skewness[part] == pytest.approx(skew(counts)) and most[part] == counts.max()


def test_reach_is_the_widest_ball_of_any_part() -> None:
    x = normal(40)
    weights = np.random.default_rng(0).integers(0, 2, (5, 40)).astype(np.int32)
    drawn = balls(side(x, weights), [1, 3])
    found = reach(drawn)
    for point in range(40):
        widest = max((one.radii[part, point] for one in drawn for part in range(5) if weights[part, point]), default=0)
        assert found[point] == widest
    assert (reach(balls(side(x[:3]), [3])) == 0).all()


@pytest.mark.parametrize(("k", "share", "size"), [(1, 0.5, 2000), (5, 0.5, 2000), (10, 0.5, 500), (3, 0.2, 2000)])
def test_lists_are_as_long_as_the_risk_asks(k: int, share: float, size: int) -> None:
    risk = 1e-2
    length = list_length(k, share, size, risk=risk)
    rng = np.random.default_rng(0)
    tries = 200_000
    for more, allowed in ((0, True), (-1, False)):
        short = (rng.binomial(length + more, share, tries) < k).mean()
        assert (short <= risk + 4 * np.sqrt(risk / tries)) if allowed else (short > risk - 4 * np.sqrt(risk / tries))
    assert list_length(k, share, size) > length


def test_lists_of_wholes_and_of_few_points_are_short() -> None:
    assert list_length(7, 1.0, 100) == 7
    assert list_length(7, 0.5, 9) == 8 and list_length(7, 1.0, 5) == 4


def test_a_ground_knows_its_clipped_radii() -> None:
    found: Any = prepare_reference(balls(side(line(0, 1, 3, 10)), [1])[0])
    assert isinstance(found, Reference)
    np.testing.assert_allclose(found.clipped, [[1, 1, 2.5, 2.5]])
    assert found.own_density == pytest.approx([0.5])


def in_groups(groups: int, members: int, *, width: int = 8, apart: float = 100.0) -> Floats:
    rng = np.random.default_rng(0)
    return np.repeat(apart * rng.normal(size=(groups, width)), members, axis=0) + rng.normal(
        size=(groups * members, width)
    )


@pytest.mark.parametrize(
    ("groups", "members", "low", "high"),
    [(20, 10, 0.2, 0.7), (20, 50, 0.0, 0.0), (1, 200, 0.0, 0.0), (20, 8, 0.6, 0.9), (40, 5, 0.0, 0.0)],
)
def test_balls_jump_in_halves_where_groups_are_hardly_larger_than_k(
    groups: int, members: int, low: float, high: float
) -> None:
    x = in_groups(groups, members)
    first = np.random.default_rng(1).permuted(np.tile(np.arange(len(x)), (20, 1)), axis=1) < len(x) // 2
    weights = np.concatenate([ones(x), np.stack([first, ~first], 1).reshape(-1, len(x)).astype(np.int32)])
    own = balls(side(x, weights), [5])[0]
    # Of groups of no more than k every ball reaches beyond, in the whole as in halves.
    assert low <= widened_share(own) <= high
    members_left = hypergeom(len(x) - 1, members - 1, len(x) // 2 - 1)
    if members > 6:
        # A ball jumps where fewer than k others of its group are in the same half.
        assert widened_share(own) == pytest.approx(float(members_left.cdf(4)), abs=0.05)
    assert widened_share(Balls(own.side, 5, own.ranks[:1])) == 0.0


def test_balls_that_jump_are_those_more_than_three_times_as_wide() -> None:
    weights = np.array([[1, 1, 1, 1], [1, 1, 0, 1], [1, 0, 0, 1]], dtype=np.int32)
    own = balls(side(line(0, 1, 2, 6), weights), [1])[0]
    # Of the points in the parts: 0 has its nearest at 1, 1 and 6; 1 has 1 and 1; 6 has 4, 5 and 6.
    assert widened_share(own) == pytest.approx(1 / 5)
    assert widened_share(own, factor=1.4) == pytest.approx(2 / 5)
