"""Which lengths a budget of seconds leaves: targets whose times follow a law that is known."""

import math
from collections.abc import Callable

import pytest

from probes.scaling.time_budget import LeftOut, Plan, predicted, within_budget

DOUBLINGS = [2**k for k in range(8, 14)]


def laws(tried: list[tuple[str, int]], **of: Callable[[int], float]) -> Callable[[str, int], float | LeftOut]:
    def probe(target: str, n: int) -> float:
        tried.append((target, n))
        return of[target](n)

    return probe


def total(plan: Plan, rounds: int, **of: Callable[[int], float]) -> float:
    return sum((rounds + 1) * of[target](n) for target, sizes in plan.kept.items() for n in sizes)


@pytest.mark.parametrize("power", [0.0, 1.0, 4 / 3, 2.0, 3.0])
def test_a_power_is_predicted_exactly(power: float) -> None:
    seen = {n: 1e-6 * float(n**power) for n in (100, 256, 300)}
    assert predicted(seen, 1024) == pytest.approx(1e-6 * 1024**power)


def test_times_that_fall_are_not_predicted_to_fall_on() -> None:
    assert predicted({256: 2.0, 512: 1.0}, 4096) == 1.0


def test_a_budget_that_is_large_leaves_nothing_out() -> None:
    tried: list[tuple[str, int]] = []
    plan = within_budget({"a": DOUBLINGS[::-1]}, 1e6, 9, laws(tried, a=lambda n: 1e-6 * n))
    assert plan.kept == {"a": tuple(DOUBLINGS)}
    assert plan.left_out == ()
    assert plan.seconds == pytest.approx(9 * 1e-6 * sum(DOUBLINGS))
    assert tried == [("a", n) for n in DOUBLINGS]


def test_sizes_go_from_the_top_with_their_predicted_seconds() -> None:
    def square(n: int) -> float:
        return 1e-6 * n * n

    tried: list[tuple[str, int]] = []
    plan = within_budget({"a": DOUBLINGS}, 20.0, 9, laws(tried, a=square))
    # 10 times the sums of squares: .655, 3.28, 13.8, 55.7 s.
    assert plan.kept == {"a": (256, 512, 1024)}
    assert [(one.n, one.kind) for one in plan.left_out] == [(n, "budget") for n in (2048, 4096, 8192)]
    assert [one.seconds for one in plan.left_out] == pytest.approx([10 * square(n) for n in (2048, 4096, 8192)])
    assert "9 rounds would take about 41.9 s" in plan.left_out[0].reason
    # What is predicted not to fit is not even tried.
    assert max(tried) == ("a", 1024)


def test_what_a_target_does_not_need_passes_on() -> None:
    of = {"cheap": lambda n: 1e-7 * n, "dear": lambda n: 1e-6 * n * n, "dearer": lambda n: 1e-4 * n * n}
    for names in (["cheap", "dear", "dearer"], ["dearer", "dear", "cheap"]):
        plan = within_budget(dict.fromkeys(names, DOUBLINGS), 120.0, 9, laws([], **of))
        assert plan.kept["cheap"] == tuple(DOUBLINGS)
        # A third of 120 s would leave off at 1024, half of what the cheap one leaves at 2048 (55.7 s).
        assert plan.kept["dear"] == (256, 512, 1024, 2048)
        assert plan.kept["dearer"] == ()
        assert total(plan, 9, **of) <= 120.0


def test_a_length_that_takes_longer_than_predicted_is_not_kept() -> None:
    def cliff(n: int) -> float:
        return 1.0 if n > 1000 else 1e-3

    plan = within_budget({"a": DOUBLINGS}, 5.0, 9, laws([], a=cliff))
    assert plan.kept == {"a": (256, 512)}
    assert plan.left_out[0].seconds == 9.0


def test_a_length_that_fails_costs_no_other() -> None:
    def probe(target: str, n: int) -> float | LeftOut:
        if n == 512:
            return LeftOut(target=target, n=n, kind="error", reason="fails with ValueError: odd")
        return 1e-3

    plan = within_budget({"a": DOUBLINGS[:4]}, 100.0, 9, probe)
    assert plan.kept == {"a": (256, 1024, 2048)}
    assert [(one.n, one.kind, one.reason) for one in plan.left_out] == [(512, "error", "fails with ValueError: odd")]


def test_above_a_length_without_memory_none_is_tried() -> None:
    tried: list[int] = []

    def probe(target: str, n: int) -> float | LeftOut:
        tried.append(n)
        return LeftOut(target=target, n=n, kind="memory", reason="too much") if n >= 1024 else 1e-3

    plan = within_budget({"a": DOUBLINGS}, 100.0, 9, probe)
    assert tried == [256, 512, 1024]
    assert [(one.n, one.kind) for one in plan.left_out] == [(n, "memory") for n in DOUBLINGS[2:]]


def test_tries_are_paid_from_the_budget() -> None:
    for budget, kept in [(9.5, ()), (10.0, (256,))]:
        assert within_budget({"a": [256]}, budget, 9, lambda target, n: 1.0).kept == {"a": kept}


def test_no_budget_leaves_nothing() -> None:
    plan = within_budget({"a": [256]}, 0.5, 9, lambda target, n: 1.0)
    assert plan.kept == {"a": ()}
    assert math.isclose(plan.left_out[0].seconds or 0, 9.0)
