"""Seconds of calls that take turns, and the median of their ratios."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def in_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, ...]]:
    """Return the seconds of every call in each round, one after the other: a busy moment slows all of them."""
    found = [[_seconds(call) for call in calls.values()] for _ in range(rounds + 1)]
    # The first round warms up.
    return dict(zip(calls, zip(*found[1:], strict=True), strict=True))


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return max(time.perf_counter() - begun, 1e-9)


def ratios(ones: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """Return the seconds of one call by those of another, round by round.

    Of backpropagation by the forward pass alone this is the ceiling 1 + (b + w) / f, of it by a method the speedup.
    """
    return tuple(one / other for one, other in zip(ones, others, strict=True))


def middle(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of numbers and the least and greatest, which hold it with 98.4 % where there are seven.

    >>> middle((1.0, 3.0, 2.0, 5.0, 4.0, 7.0, 6.0))
    (4.0, 1.0, 7.0)
    """
    return statistics.median(values), min(values), max(values)
