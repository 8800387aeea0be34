"""Workers that only pretend to work, in a time that only pretends to pass: a thousand of them in a second.

`VirtualPool` is a `Pool` as the executor knows it. Which job goes where, what is begun again and what is lost is
decided by the code that runs on real machines; only time and deaths are made up here.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from probes.core import executor
from probes.core.worker_processes import LostError, Outcome

HOUR = 3600.0


class Killed(BaseException):
    """The whole run is gone, as a task is whose node was taken away."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Workers: `deaths` are those of one in an hour, `until` is when the whole run is killed; all times in seconds."""

    lanes: int
    start: float = 0.0
    deaths: float = 0.0
    restart: float = 0.0
    slow: tuple[int, float] = (0, 1.0)
    """So many lanes take so many times as long."""
    until: float = float("inf")


@dataclass
class VirtualPool:
    """Workers under virtual time; `seconds` gives those of a job.

    Attributes
    ----------
    now
        Seconds since the pool was opened.
    deaths
        By job, how often its worker died.
    """

    fleet: Fleet
    seconds: Callable[[Any], float]
    rng: np.random.Generator
    now: float = 0.0
    begun: int = 0
    deaths: Counter[Any] = field(default_factory=Counter)
    _idle: list[int] = field(default_factory=list)
    _events: list[tuple[float, int, int, bool]] = field(default_factory=list)
    _jobs: dict[int, tuple[Callable[[Any], Any], Any, int, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._events = [(self.fleet.start, -1, lane, False) for lane in range(self.fleet.lanes)]

    def room(self, busy: int) -> int:
        assert busy == len(self._jobs)
        return len(self._idle)

    def submit(self, function: Callable[[Any], Any], job: Any) -> int:
        lane = self._idle.pop()
        ticket, self.begun = self.begun, self.begun + 1
        taken = self.seconds(job) * (self.fleet.slow[1] if lane < self.fleet.slow[0] else 1.0)
        life = self.rng.exponential(HOUR / self.fleet.deaths) if self.fleet.deaths else taken
        dies = life < taken
        heapq.heappush(self._events, (self.now + min(life, taken), ticket, lane, dies))
        self._jobs[ticket] = function, job, lane, dies
        return ticket

    def wait(self, tickets: Sequence[int]) -> list[int]:
        at, ticket, lane, _ = heapq.heappop(self._events)
        if at > self.fleet.until:
            raise Killed
        self.now = at
        if ticket < 0:
            self._idle.append(lane)
            return []
        assert ticket in self._jobs
        return [ticket]

    def outcome(self, ticket: int) -> Outcome:
        function, job, lane, dies = self._jobs.pop(ticket)
        if dies:
            self.deaths[job] += 1
            heapq.heappush(self._events, (self.now + self.fleet.restart, -1, lane, False))
            raise LostError("its worker died")
        self._idle.append(lane)
        return Outcome(result=function(job))

    def close(self, *, at_once: bool) -> None:
        self._idle.clear()


@contextmanager
def virtual(
    fleet: Fleet, seconds: Callable[[Any], float], seed: int, patch: pytest.MonkeyPatch
) -> Iterator[list[VirtualPool]]:
    """Let the executor open pools of such workers; yields those that it opened."""
    opened: list[VirtualPool] = []

    def open_pool(*_: object) -> VirtualPool:
        opened.append(VirtualPool(fleet, seconds, np.random.default_rng([seed, len(opened)])))
        return opened[-1]

    with patch.context() as inner:
        inner.setattr(executor, "_opened", open_pool)
        yield opened


def skewed(jobs: int, mean: float, spread: float, seed: int) -> NDArray[np.float64]:
    """Return seconds of jobs from a log-normal law, shape (jobs,), scaled to their mean."""
    drawn = np.random.default_rng(seed).lognormal(0.0, spread, jobs)
    return np.asarray(drawn * (mean / drawn.mean()))
