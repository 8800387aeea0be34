"""Run one function over many small jobs: in this process, in processes of this machine, or on a cluster.

A worker that dies loses only its current job, which is tried again. A job is to be small (numbers
and paths, never arrays): it is pickled, sent to a worker, and once more wherever its worker died.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

from probes.core import graphics_cards
from probes.core.errors import IncompleteError, InputError
from probes.core.installed import is_installed
from probes.core.worker_processes import LostError, Pool, loky_pool

BACKENDS = ("loky", "dask", "ray")
"""Processes of this machine (loky), or workers of a Dask or Ray cluster, which is started here unless it is named."""
_PACKAGES = {"dask": "distributed", "ray": "ray"}

PATIENCE = 20.0
"""Seconds within which a cluster has to answer and to have a worker."""
DEATHS = 25
"""Workers that die one after the other, with no job done in between, after which no other job is begun."""

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """How many worker processes there are, and which backend runs them.

    Parameters
    ----------
    count
        Jobs that run at once; 0: one for each core (of the cluster, where one is named).
    scheduler
        Address of the scheduler of a running Dask cluster, or of the head of a running Ray cluster.
    patience
        Seconds within which it has to answer and to have a worker; None: `PATIENCE`.
    gpus
        0: jobs run on the CPU. Else each worker has one GPU of its own, which is "cuda" there, and this machine has so
        many for them: one worker each, unless `count` says otherwise. More workers than GPUs share them in turn. For a
        named cluster any positive number says that each job needs one.
    cards
        The GPUs of this machine, as `CUDA_VISIBLE_DEVICES` lists them; empty: the first `gpus` that are visible.

    Raises
    ------
    InputError
        Where these contradict each other, or the package of a backend is not installed.
    """

    count: int = 0
    backend: str = "loky"
    scheduler: str | None = None
    patience: float | None = None
    gpus: int = 0
    cards: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            choices = ", ".join(BACKENDS)
            raise InputError(
                f"There is no backend {self.backend!r}.", where="--backend", hint=f"Choose from {choices}."
            )
        if self.count < 0:
            raise InputError(f"{self.count} is too few.", where="--workers", hint="Give 0 or more.")
        if self.gpus < 0 or (self.cards and len(self.cards) != self.gpus):
            raise InputError(
                f"{self.gpus} GPUs are asked for, and {len(self.cards)} are named.",
                where="--device",
                hint="Give cuda:all for all that are visible.",
            )
        if self.scheduler is not None and self.backend == "loky":
            raise InputError(
                "loky starts processes on this machine only.",
                where="--scheduler",
                hint="Give --backend dask or --backend ray too, or leave it out.",
            )
        package = _PACKAGES.get(self.backend)
        if package is not None and find_spec(package) is None:
            raise InputError(
                f"The package {package} is not installed.",
                where=f"--backend {self.backend}",
                hint="pip install 'miles-audit[cluster]'",
            )

    @property
    def here(self) -> bool:
        """Whether jobs run in this process, one after the other."""
        # This process may have started CUDA on another GPU than one that is named.
        return self.backend == "loky" and self.lanes(2) < 2 and not self.cards

    def lanes(self, jobs: int) -> int:
        """Return how many of `jobs` run at once on this machine."""
        from joblib import cpu_count

        return min(self.count or self.gpus or int(cpu_count()), jobs)

    def dealt(self, lanes: int) -> tuple[str, ...]:
        """Return the GPU of this machine that each of so many workers has, dealt in turn; nothing without GPUs.

        Raises
        ------
        InputError
            Where fewer are visible.

        Examples
        --------
        >>> Workers(gpus=2, cards=("2", "3")).dealt(3)
        ('2', '3', '2')
        """
        there = self.cards or (graphics_cards.cards()[: self.gpus] if self.gpus else ())
        if len(there) < self.gpus:
            raise InputError(
                f"{self.gpus} GPUs are asked for, and this process sees {len(there)}.",
                where="--device",
                hint="Give --device cpu, or look at CUDA_VISIBLE_DEVICES.",
            )
        return tuple(there[lane % self.gpus] for lane in range(lanes)) if there else ()


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: Workers,
    *,
    done: Callable[[int, Result], None] | None = None,
    attempts: int = 2,
    pool: Pool | None = None,
) -> dict[int, str]:
    """Call a function on every job, each with one thread, and return the jobs that were lost, with the reason.

    One loky worker is this process itself. An exception that the function raises stops all others and is raised here.

    Parameters
    ----------
    function
        Found by the workers under its name, as all of a module are; on a cluster its module is installed there too.
    done
        Called in this process with the index of a job and its result as each ends, in any order.
    attempts
        How often a job whose worker dies is started, at most. A named Dask scheduler may begin it more often by its
        own setting `allowed-failures`.
    pool
        Workers that are `opened` already; None: they are started for this call.

    Raises
    ------
    InputError
        Where a scheduler cannot be reached, has no worker, or none with a GPU where jobs need one.
    IncompleteError
        Where a cluster does not start on this machine, or is gone.

    Examples
    --------
    >>> found = {}
    >>> run_jobs(abs, [-3, 4], Workers(count=1), done=found.__setitem__), found
    ({}, {0: 3, 1: 4})
    """
    if workers.here and pool is None:
        with one_thread():
            for index, job in enumerate(jobs):
                result = function(job)
                if done is not None:
                    done(index, result)
        return {}
    if not jobs:
        return {}
    run = _Run(function, jobs, done or _ignored, attempts)
    if pool is not None:
        return run.through(pool)
    with opened(workers, len(jobs)) as started:
        return run.through(started)


def check_complete(lost: Mapping[int, str], count: int, things: str) -> None:
    """Raise an IncompleteError where jobs were lost for good; `things` says what they were to make."""
    if not lost:
        return
    first, why = min(lost.items())
    raise IncompleteError(
        f"{len(lost)} of {count} {things} were lost; of number {first + 1}, {why}.",
        where="--workers",
        hint="If memory was short, give fewer workers. The same command makes only those that are missing.",
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one core: over small matrices two wait for each other, and sums depend on their number."""
    if not is_installed("torch"):
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _ignored(index: int, result: object) -> None:
    pass


class _Run:
    """Jobs on their way through a pool."""

    def __init__(
        self, function: Callable[[Any], Any], jobs: Sequence[Any], done: Callable[[int, Any], None], attempts: int
    ) -> None:
        self._function, self._jobs, self._done, self._attempts = function, jobs, done, attempts
        self._waiting = deque(range(len(jobs)))
        self._begun = [0] * len(jobs)
        self._flying: dict[Any, int] = {}
        self._lost: dict[int, str] = {}
        self._deaths = 0

    def through(self, pool: Pool) -> dict[int, str]:
        while self._waiting or self._flying:
            self._fill(pool)
            for ticket in pool.wait(list(self._flying)):
                self._collect(pool, ticket)
        return self._lost

    def _fill(self, pool: Pool) -> None:
        while self._waiting and pool.room(len(self._flying)) > 0:
            index = self._waiting.popleft()
            self._begun[index] += 1
            self._flying[pool.submit(self._function, self._jobs[index])] = index

    def _collect(self, pool: Pool, ticket: Any) -> None:
        index = self._flying.pop(ticket)
        try:
            outcome = pool.outcome(ticket)
        except LostError as error:
            self._deaths += 1
            if self._begun[index] < self._attempts:
                # Retried last: a job that ran out of memory beside others may succeed when they are done.
                self._waiting.append(index)
            else:
                self._lost[index] = str(error)
            if self._deaths >= DEATHS:
                # What ends every worker would else be tried with every job, twice.
                self._lost |= dict.fromkeys(self._waiting, f"{DEATHS} workers died one after the other")
                self._waiting.clear()
            return
        self._deaths = 0
        if outcome.fault is not None:
            raise outcome.fault.error()
        self._done(index, outcome.result)


@contextmanager
def opened(workers: Workers, jobs: int) -> Iterator[Pool]:
    """Start workers, or reach those of a named cluster, for several calls of `run_jobs` with at most so many jobs.

    They end with the block; at once, and with what they are doing, where it raises.

    Raises
    ------
    InputError
        Where a scheduler cannot be reached, has no worker, or none with a GPU where jobs need one.
    IncompleteError
        Where a cluster does not start on this machine.
    """
    pool = _opened(workers, jobs)
    ended = False
    try:
        yield pool
        ended = True
    finally:
        pool.close(at_once=not ended)


class ReusablePool:
    """The workers of a run, which may go on from stage to stage: each start takes seconds."""

    def __init__(self) -> None:
        self._reusing = False
        self._pool: Pool | None = None
        self._made: tuple[Workers, int] | None = None

    @contextmanager
    def reused(self) -> Iterator[None]:
        """Keep workers from their first job until the block ends; at once, and with what they do, where it raises."""
        self._reusing = True
        try:
            yield
        except BaseException:
            self._end(at_once=True)
            raise
        finally:
            self._reusing = False
            self._end(at_once=False)

    @contextmanager
    def acquired(self, workers: Workers, jobs: int) -> Iterator[Pool]:
        """Start workers for so many jobs, or go on with those that are there; raises what `opened` raises."""
        # A worker that waits would hold memory of a GPU that this process may need meanwhile.
        if not self._reusing or workers.gpus:
            with opened(workers, jobs) as pool:
                yield pool
            return
        lanes = _lanes(workers, jobs)
        if self._made is None or self._made[0] != workers or self._made[1] < lanes:
            self._end(at_once=False)
            self._pool, self._made = _opened(workers, jobs), (workers, lanes)
        assert self._pool is not None
        try:
            yield self._pool
        except BaseException:
            # Jobs may be under way, whose outcome nobody awaits any more.
            self._end(at_once=True)
            raise

    def _end(self, *, at_once: bool) -> None:
        pool, self._pool, self._made = self._pool, None, None
        if pool is not None:
            pool.close(at_once=at_once)


def _lanes(workers: Workers, jobs: int) -> int:
    return workers.count if workers.scheduler else workers.lanes(jobs)


def _opened(workers: Workers, jobs: int) -> Pool:
    lanes = _lanes(workers, jobs)
    cards = () if workers.scheduler else workers.dealt(lanes)
    if workers.backend == "loky":
        return loky_pool(lanes, cards)
    patience = PATIENCE if workers.patience is None else workers.patience
    if workers.backend == "dask":
        from probes.core.dask_workers import DaskPool

        return DaskPool(lanes, workers.scheduler, patience, cards=cards, gpu=workers.gpus > 0)
    from probes.core.ray_workers import ray_pool

    return ray_pool(lanes, workers.scheduler, patience, cards=cards, gpu=workers.gpus > 0)
