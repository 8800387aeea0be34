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

from probes.core.errors import IncompleteError, InputError
from probes.core.installed import is_installed
from probes.core.worker_processes import LostError, Pool, loky_pool

BACKENDS = ("loky", "dask", "ray")
"""Processes of this machine (loky), or workers of a Dask or Ray cluster, which is started here unless it is named."""
_PACKAGES = {"dask": "distributed", "ray": "ray"}

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
        Seconds in which it has to answer, and a worker of it to be there; None: twenty.

    Raises
    ------
    InputError
        Where these contradict each other, or the package of a backend is not installed.
    """

    count: int = 0
    backend: str = "loky"
    scheduler: str | None = None
    patience: float | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            choices = ", ".join(BACKENDS)
            raise InputError(
                f"There is no backend {self.backend!r}.", where="--backend", hint=f"Choose from {choices}."
            )
        if self.count < 0:
            raise InputError(f"{self.count} is too few.", where="--workers", hint="Give 0 or more.")
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
        return self.backend == "loky" and self.lanes(2) < 2

    def lanes(self, jobs: int) -> int:
        """Return how many of `jobs` run at once on this machine."""
        from joblib import cpu_count

        return min(self.count or int(cpu_count()), jobs)


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: Workers,
    *,
    done: Callable[[int, Result], None] | None = None,
    attempts: int = 2,
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

    Raises
    ------
    InputError
        Where a scheduler cannot be reached, or has no worker.

    Examples
    --------
    >>> found = {}
    >>> run_jobs(abs, [-3, 4], Workers(count=1), done=found.__setitem__), found
    ({}, {0: 3, 1: 4})
    """
    if workers.here:
        with one_thread():
            for index, job in enumerate(jobs):
                result = function(job)
                if done is not None:
                    done(index, result)
        return {}
    return _Run(function, jobs, done or _ignored, attempts).through(workers) if jobs else {}


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

    def through(self, workers: Workers) -> dict[int, str]:
        pool = _opened(workers, len(self._jobs))
        ended = False
        try:
            while self._waiting or self._flying:
                self._fill(pool)
                for ticket in pool.wait(list(self._flying)):
                    self._collect(pool, ticket)
            ended = True
        finally:
            pool.close(at_once=not ended)
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
            if self._begun[index] < self._attempts:
                # Retried last: a job that ran out of memory beside others may succeed when they are done.
                self._waiting.append(index)
            else:
                self._lost[index] = str(error)
            return
        if outcome.error is not None:
            raise outcome.error
        self._done(index, outcome.result)


def _opened(workers: Workers, jobs: int) -> Pool:
    if workers.backend == "loky":
        return loky_pool(workers.lanes(jobs))
    from probes.core.cluster_pools import dask_pool, ray_pool

    pool = dask_pool if workers.backend == "dask" else ray_pool
    lanes = workers.count if workers.scheduler else workers.lanes(jobs)
    return pool(lanes, workers.scheduler, workers.patience)
