"""What of a call's times is kept: a clock that is made up says what each call took."""

import os
import time
from collections.abc import Callable, Iterator

import pytest

from probes.scaling.call_times import (
    LEAST,
    Taken,
    cpu_clock,
    free_memory,
    reference_kernel,
    reference_seconds,
    repeated,
)
from probes.scaling.workloads import Workload


def clock_of(taken: list[Taken]) -> Callable[[Callable[[], object]], Taken]:
    rest: Iterator[Taken] = iter(taken)

    def clock(run: Callable[[], object]) -> Taken:
        run()
        return next(rest)

    return clock


def test_the_first_call_is_not_counted_and_each_clock_keeps_its_least() -> None:
    taken = [Taken(0.1, 0.1, 9), Taken(0.004, 0.009, 5), Taken(0.003, 0.020, 7), Taken(0.005, 0.008, 6)]
    assert repeated(lambda: Workload(int), clock_of(taken), anew=False) == (Taken(0.003, 0.008, 7), 3)


@pytest.mark.parametrize(("seconds", "repeats"), [(1e-3, 10), (4e-3, 3), (2.0, 3), (1e-6, 1000)])
def test_repeats_fill_ten_milliseconds(seconds: float, repeats: int) -> None:
    # A wall clock that stands at a second does not end them: the processor's time counts where it is known.
    clock = clock_of([Taken(seconds, 1.0)] * 2000)
    assert repeated(lambda: Workload(int), clock, anew=False)[1] == repeats
    assert LEAST == 0.01


def test_without_a_processor_clock_the_wall_clock_fills_them() -> None:
    taken, repeats = repeated(lambda: Workload(int), clock_of([Taken(None, 0.002)] * 9), anew=False)
    assert (taken.cpu, repeats) == (None, 5)


def test_a_call_that_changes_its_state_starts_from_the_same_one_each_time() -> None:
    seen: list[int] = []

    def make() -> Workload:
        cache = list(range(7))

        def step() -> None:
            seen.append(len(cache))
            cache.append(0)

        return Workload(step)

    assert repeated(make, clock_of([Taken(1e-6, 1e-6)] * 4), anew=True)[1] == 3
    assert seen == [7, 7, 7, 7]


def test_the_result_is_freed_after_the_clock_stops() -> None:
    events: list[float] = []

    class Result:
        def __del__(self) -> None:
            time.sleep(0.05)
            events.append(time.perf_counter())

    assert cpu_clock(1)(Result).wall < 0.05
    assert len(events) == 1


def test_the_clock_of_the_processor_does_not_run_while_others_do() -> None:
    taken = cpu_clock(1)(lambda: time.sleep(0.05))
    assert taken.wall >= 0.05
    assert taken.cpu is not None
    assert taken.cpu < 0.01


def test_the_reference_is_a_mean_of_wall_seconds() -> None:
    clock = clock_of([Taken(9.0, one) for one in (1.0, 1.0, 1.0, 1.0, 6.0)])
    assert reference_seconds(reference_kernel("cpu"), clock) == 2.0


def test_free_memory_is_less_than_there_is() -> None:
    assert 2**20 < free_memory("cpu") <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
