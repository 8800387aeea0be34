"""Is every point audited once, on one side, and half of each side set apart by the seed alone?"""

from pathlib import Path

import numpy as np
import pytest

from audits.membership.pool import LEAST, check_alike, halves, pool_of_labels, pool_of_points, without
from probes.core.errors import InputError
from probes.generators.point_sets import PointSet, read_points


def points(folder: Path, name: str, values: np.ndarray) -> PointSet:
    np.save(folder / f"{name}.npy", values)
    return read_points(folder / f"{name}.npy", role=f"--{name}")


def rows(count: int, start: int = 0) -> np.ndarray:
    """Return different points of two numbers, the first of which is their own."""
    return np.stack([np.arange(start, start + count), np.ones(count)], axis=1).astype(np.float32)


def test_members_come_first_and_nothing_is_lost(tmp_path: Path) -> None:
    pool = pool_of_points(points(tmp_path, "a", rows(12)), points(tmp_path, "b", rows(15, 100)), 0)
    assert pool.points is not None and pool.member.tolist() == [True] * 12 + [False] * 15
    values = pool.points.block(0, len(pool))[:, 0]
    assert values.tolist() == [*range(12), *range(100, 115)]
    assert (len(pool), pool.given, dict(pool.skipped)) == (27, 27, {})


def test_points_on_both_sides_and_repeats_are_left_out(tmp_path: Path) -> None:
    inside = np.concatenate([rows(14), rows(2)[1:], rows(2)[1:]])
    outside = np.concatenate([rows(12, 100), rows(1, 3), rows(1, 3), rows(1, 105)])
    pool = pool_of_points(points(tmp_path, "a", inside), points(tmp_path, "b", outside), 0)
    assert dict(pool.skipped) == {"both member and non-member": 3, "repeated member": 2, "repeated non-member": 1}
    assert pool.points is not None
    values = pool.points.block(0, len(pool))[:, 0].tolist()
    assert values == [*(value for value in range(14) if value != 3), *range(100, 112)]
    assert pool.given == len(pool) + sum(pool.skipped.values()) == 31
    assert pool.names[3] == "4", "names are places in the file"


@pytest.mark.parametrize(("inside", "outside", "flag"), [(LEAST - 1, 20, "--members"), (20, LEAST - 1, "--nonmembers")])
def test_too_few_points_are_refused(tmp_path: Path, inside: int, outside: int, flag: str) -> None:
    with pytest.raises(InputError) as refused:
        pool_of_points(points(tmp_path, "a", rows(inside)), points(tmp_path, "b", rows(outside, 100)), 0)
    assert str(refused.value.where).startswith(flag) and f"Only {LEAST - 1} of" in refused.value.message
    pool_of_points(points(tmp_path, "a", rows(LEAST)), points(tmp_path, "b", rows(LEAST, 100)), 0)


@pytest.mark.parametrize("few", [True, False])
def test_too_few_labels_are_refused(few: bool) -> None:
    member = np.arange(40) < LEAST - 1
    with pytest.raises(InputError, match=f"{LEAST - 1} {'' if few else 'non-'}members"):
        pool_of_labels(member == few, (), 0, given=40, skipped={}, where="s.csv")


@pytest.mark.parametrize(("members", "others"), [(10, 10), (11, 24), (500, 31)])
def test_halves_take_half_of_each_side(members: int, others: int) -> None:
    member = np.arange(members + others) < members
    chosen = halves(member, 0)
    assert (chosen[member].sum(), chosen[~member].sum()) == (members // 2, others // 2)
    assert (halves(member, 0) == chosen).all() and (halves(member, 1) != chosen).any()


def test_every_point_is_chosen_as_often_as_any_other() -> None:
    member = np.arange(24) < 12
    often = np.sum([halves(member, seed) for seed in range(400)], axis=0)
    # Binomial of 400 and one half, five standard errors wide.
    assert often.min() > 150 and often.max() < 250


def test_halves_of_coins_do_not_look_at_who_is_a_member() -> None:
    first, second = np.arange(40) < 20, np.arange(40) % 2 == 0
    chosen = halves(first, 3, coins=True)
    assert (chosen == halves(second, 3, coins=True)).all() and chosen.sum() == 20
    # The count of members in a half varies, as that of fair coins does.
    assert len({int(halves(first, seed, coins=True)[first].sum()) for seed in range(30)}) > 3


def test_halves_of_coins_have_members_and_others_on_both_sides() -> None:
    # So few members are all in one half at some seeds: only then are they looked at.
    member = np.arange(40) < 2
    for seed in range(20):
        chosen = halves(member, seed, coins=True)
        assert chosen.sum() == 20 and {1, 19} == {int(chosen[member].sum()), int(chosen[~member].sum())}


def test_coins_reach_the_halves_of_a_pool(tmp_path: Path) -> None:
    inside, outside = points(tmp_path, "a", rows(12)), points(tmp_path, "b", rows(28, 100))
    member = np.arange(40) < 12
    for coins in (False, True):
        for pool in (
            pool_of_points(inside, outside, 5, coins=coins),
            pool_of_labels(member, (), 5, given=40, skipped={}, where="", coins=coins),
        ):
            assert (pool.chooses == halves(member, 5, coins=coins)).all()
    assert (halves(member, 5, coins=True) != halves(member, 5)).any()


def test_points_of_others_are_taken_out(tmp_path: Path) -> None:
    whole = points(tmp_path, "reference", rows(20))
    left, taken = without(whole, [points(tmp_path, "a", rows(5)), points(tmp_path, "b", rows(3, 10))])
    assert taken == 8 and left.block(0, len(left))[:, 0].tolist() == [*range(5, 10), *range(13, 20)]
    same, none = without(whole, [points(tmp_path, "c", rows(5, 100))])
    assert same is whole and none == 0
    with pytest.raises(InputError, match="All of its points") as refused:
        without(whole, [whole])
    assert "--reference" in str(refused.value.where)


@pytest.mark.parametrize(
    ("other", "says"),
    [(np.ones((9, 3), dtype=np.float32), "shape"), (np.ones((9, 2), dtype=np.uint8), "pixels from 0 to 1")],
)
def test_points_of_two_kinds_are_refused(tmp_path: Path, other: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        check_alike(points(tmp_path, "a", rows(9)), "--a", points(tmp_path, "b", other), "--b")
    assert str(refused.value.where).startswith("--b") and refused.value.hint
    check_alike(points(tmp_path, "a", rows(9)), "--a", points(tmp_path, "c", rows(4)), "--c")
