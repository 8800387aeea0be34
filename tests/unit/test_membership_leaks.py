"""Is the best attack chosen on points that do not judge it, and are models compared on the same points?"""

from itertools import pairwise

import numpy as np
import pytest
from audited_points import attack_of, labelled
from scipy.stats import mannwhitneyu, norm

from audits.membership.leaks import ACCESS, NEWEST, Difference, Leak, detectable, gaps_of, leaks_of
from audits.membership.pool import Pool
from audits.membership.rates import judged_of
from audits.membership.scoring import Attack
from audits.statistics.roc import Area, area, area_interval, difference

N = 100
MEMBER = np.arange(2 * N) < N


LEVEL = 0.95


@pytest.fixture
def pool() -> Pool:
    return labelled(MEMBER)


def scores(seed: int, mu: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=2 * N) + mu * MEMBER


def attack(
    name: str, given: np.ndarray, tier: str = "full", model: str = "", judged: np.ndarray | None = None
) -> Attack:
    return attack_of(name, given, MEMBER, tier=tier, model=model, judged=judged)


def leaks(pool: Pool, *attacks: Attack) -> tuple[list[Leak], list[Difference]]:
    models = list(dict.fromkeys(one.model for one in attacks))
    found = leaks_of([judged_of(one, LEVEL) for one in attacks], pool, models)
    return found, gaps_of(found, LEVEL)


def test_the_attack_is_chosen_on_one_half_and_judged_on_the_other(pool: Pool) -> None:
    # One is perfect on the half that chooses and the wrong way round on the other; the second is good on both.
    lucky = np.where(pool.chooses, 9.0, -9.0) * MEMBER + scores(0, 0.0)
    good = scores(1, 1.5)
    (found,), _ = leaks(pool, attack("good", good), attack("lucky", lucky))
    assert found.judged.attack.name == "lucky"
    assert found.area.value == 0.0
    (found,), _ = leaks(pool, attack("good", good), attack("bad", scores(2, -1.0)))
    rest = ~pool.chooses
    expected = area(good[rest], MEMBER[rest])
    low, high, method = area_interval(expected, 0.95)
    row = found.interval(LEVEL)
    assert (row.value, row.low, row.high, row.n) == (expected.value, low, high, N)
    assert found.where == {"access": "full", "attack": "good"}
    assert "chosen on the other half" in row.method
    assert method in row.method


def test_one_attack_alone_is_judged_on_all_its_points(pool: Pool) -> None:
    given = scores(3, 1.0)
    (found,), _ = leaks(pool, attack("only", given))
    assert found.area.value == area(given, MEMBER).value
    assert found.interval(LEVEL).n == 2 * N
    assert "chosen" not in found.interval(LEVEL).method
    rest = ~pool.chooses
    (found,), _ = leaks(pool, attack("tuned", given, judged=rest))
    assert found.area.value == area(given[rest], MEMBER[rest]).value
    assert found.interval(LEVEL).n == N


def test_access_holds_all_that_lesser_access_does() -> None:
    for lesser, more in pairwise(ACCESS):
        assert set(ACCESS[more]) == set(ACCESS[lesser]) | set(NEWEST[more])


def test_more_access_is_told_where_it_adds_an_attack(pool: Pool) -> None:
    near, loss = attack("near", scores(4, 0.2), "samples"), attack("loss", scores(5, 3.0), "denoiser")
    found, _ = leaks(pool, near, loss)
    assert [(one.access, one.judged.attack.name) for one in found] == [("samples", "near"), ("weights", "loss")]
    # What only scores of samples exist for is told once, under that name.
    found, _ = leaks(pool, near)
    assert [one.access for one in found] == ["samples"]
    # A discriminator without the rest is all that was released.
    found, _ = leaks(pool, attack("critic", scores(6, 1.0), "full"))
    assert [one.access for one in found] == ["full"]


def test_models_are_compared_by_the_access_that_any_of_them_allows(pool: Pool) -> None:
    found, gaps = leaks(
        pool,
        attack("near", scores(4, 0.2), "samples", "a"),
        attack("loss", scores(5, 2.0), "denoiser", "a"),
        attack("near", scores(6, 0.2), "samples", "b"),
        attack("latent", scores(7, 1.0), "generator", "b"),
        attack("critic", scores(8, 3.0), "full", "b"),
    )
    assert {(one.model, one.access) for one in found} == {(m, a) for m in "ab" for a in ACCESS}
    assert [(gap.first.model, gap.second.model, gap.first.access) for gap in gaps] == [
        ("a", "b", access) for access in ACCESS
    ]


def test_p_values_are_those_of_the_rank_test_corrected_over_all_cells(pool: Pool) -> None:
    given, rest = [scores(9, 0.0), scores(10, 0.4), scores(11, 0.6)], ~pool.chooses
    found, _ = leaks(pool, *(attack("x", one, model=name) for name, one in zip("abc", given, strict=True)))
    raw = [
        mannwhitneyu(
            one[MEMBER & rest], one[~MEMBER & rest], alternative="greater", method="asymptotic", use_continuity=False
        ).pvalue
        for one in given
    ]
    held, expected = 0.0, {}
    for rank, place in enumerate(np.argsort(raw)):
        held = max(held, min(1.0, (3 - rank) * raw[place]))
        expected["abc"[place]] = held
    assert {one.model: one.p for one in found} == pytest.approx(expected)


def test_differences_are_paired_and_turn_with_the_order(pool: Pool) -> None:
    one, two = scores(12, 1.5), scores(12, 1.5) - 0.6 * MEMBER
    _, (gap,) = leaks(pool, attack("x", one, model="a"), attack("x", two, model="b"))
    # Models are compared on the points that choose for none of them.
    rest = ~pool.chooses
    expected = difference(area(one[rest], MEMBER[rest]), area(two[rest], MEMBER[rest]), 0.95)
    row = gap.interval
    assert (row.value, row.low, row.high, row.n) == (expected.value, expected.low, expected.high, N)
    assert gap.where == {"access": "full", "model": "a", "against": "b"}
    assert gap.p == expected.p
    assert expected.low > 0
    _, (turned,) = leaks(pool, attack("x", two, model="b"), attack("x", one, model="a"))
    assert turned.interval.value == -expected.value
    assert turned.p == pytest.approx(gap.p)


def test_models_are_compared_on_the_same_points_however_many_attacks_each_has(pool: Pool) -> None:
    found, gaps = leaks(
        pool,
        attack("latent", scores(20, 0.5), "generator", "gan"),
        attack("loss", scores(21, 2.0), "denoiser", "ddpm"),
        attack("sima", scores(22, 0.1), "denoiser", "ddpm"),
    )
    assert [len(one.area.of_members) for one in found] == [N // 2, N // 2]
    assert len(gaps) == 1
    assert gaps[0].interval.value < 0


def test_all_pairs_within_an_access_are_compared_and_corrected_together(pool: Pool) -> None:
    given = [attack("x", scores(13 + place, place / 4), model=name) for place, name in enumerate("abc")]
    found, gaps = leaks(pool, *given)
    assert [(gap.first.model, gap.second.model) for gap in gaps] == [("a", "b"), ("a", "c"), ("b", "c")]
    alone = {pair: gaps_of([one for one in found if one.model in pair], LEVEL)[0].p for pair in ("ab", "ac", "bc")}
    least = min(alone, key=lambda pair: alone[pair])
    together = {gap.first.model + gap.second.model: gap.p for gap in gaps}
    assert together[least] == pytest.approx(min(1.0, 3 * alone[least]))
    assert all(together[pair] >= alone[pair] for pair in alone)


def test_models_with_the_same_scores_do_not_differ(pool: Pool) -> None:
    one = scores(16, 1.0)
    _, (gap,) = leaks(pool, attack("x", one, model="a"), attack("x", one, model="b"))
    assert gap.p == 1.0
    assert gap.interval.value == 0.0


def test_equal_scores_have_no_interval(pool: Pool) -> None:
    (found,), _ = leaks(pool, attack("x", np.ones(2 * N)))
    row = found.interval(LEVEL)
    assert (row.value, row.low, row.high, row.method) == (0.5, None, None, "none")
    assert found.p == pytest.approx(0.5)


def test_equal_scores_are_not_chosen_where_there_is_another_attack(pool: Pool) -> None:
    # On the choosing half the noise is worse than a coin.
    rows = (attack(name, values) for name, values in (("equal", np.ones(2 * N)), ("noise", scores(3, -0.2))))
    (found,), _ = leaks(pool, *rows)
    assert found.judged.attack.name == "noise"


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_a_detectable_leak_is_shown_in_four_of_five_audits(level: float) -> None:
    least = detectable(Area(0.5, np.ones(400), np.ones(400)), level)
    mu = 2**0.5 * norm.ppf(least)
    rng, shown = np.random.default_rng(0), 0
    for _ in range(400):
        found = mannwhitneyu(rng.normal(mu, 1, 400), rng.normal(0, 1, 400), alternative="greater", method="asymptotic")
        shown += found.pvalue < 1 - level
    assert 0.8 - 4 * 0.02 < shown / 400 < 0.8 + 4 * 0.02
    assert detectable(Area(0.5, np.ones(1), np.ones(1)), 0.95) == 1.0
