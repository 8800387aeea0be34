"""Spread the jobs of a stage: over processes, over a cluster, or over the parts of an array.

Every job leaves an entry in the cache, named by the hash of all that it depends on, and what was computed is read from
there. So it does not matter who computed it, in which order, or whether a run before this one did: one process, many
workers and the parts of an array come to the same bytes.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.executor import ReusablePool, Workers, check_complete, one_thread, run_jobs
from probes.core.holding import release

Job = TypeVar("Job")
OfEntry = TypeVar("OfEntry", bound="EntryJob")

WORTH = 20.0
"""Seconds of work from which on workers are started that nobody asked for: starting them takes some seconds."""
MOST_PARTS, MOST_NAMED = 1_000_000, 10
"""Parts of a work at most, and those that a sentence lists."""
_PART = re.compile(r"(\d{1,7})/(\d{1,7})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of several parts of the work, counted from 1: it has every `of`-th job.

    >>> part = part_of("2/3")
    >>> [index for index in range(7) if part.has(index)]
    [1, 4]
    """

    number: int
    of: int

    def has(self, index: int) -> bool:
        """Tell whether the job at this index, from 0, belongs to the part."""
        return index % self.of == self.number - 1


def part_of(text: str) -> Part:
    """Return the part that I/N names.

    Raises
    ------
    InputError
        Where it is not I/N with I from 1 to N.
    """
    match = _PART.fullmatch(text)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of <= MOST_PARTS:
        raise InputError(
            f"{text!r} is no part of the work: I/N is the I-th of N, from 1 to N.",
            where="--array",
            hint="Such as --array 3/100.",
        )
    return Part(number=number, of=of)


class PartEnded(Exception):
    """A part of the work did all that it could; `waits` where what comes next needs other parts first."""

    def __init__(self, *, waits: bool) -> None:
        super().__init__()
        self.waits = waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What became of the jobs of one stage.

    Parameters
    ----------
    things
        What the jobs make, in the plural: "batches of clips".
    jobs, computed, found
        How many there are; were computed by this run; and were there already, of those that are this run's to do.
    missing
        How many are still to be computed, by the number of the part that they belong to. Without parts there are none.
    """

    things: str
    jobs: int
    computed: int
    found: int
    missing: Mapping[int, int]


def summed(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return stages with those added up that make the same things, in the order in which these came first.

    >>> one = Stage(things="texts", jobs=4, computed=1, found=1, missing={2: 2})
    >>> summed([one, one])
    (Stage(things='texts', jobs=8, computed=2, found=2, missing={2: 4}),)
    """
    found: dict[str, Stage] = {}
    for stage in stages:
        if (before := found.get(stage.things)) is not None:
            stage = Stage(
                things=stage.things,
                jobs=before.jobs + stage.jobs,
                computed=before.computed + stage.computed,
                found=before.found + stage.found,
                missing=dict(sorted((Counter(before.missing) + Counter(stage.missing)).items())),
            )
        found[stage.things] = stage
    return tuple(found.values())


def numbered(numbers: Sequence[int]) -> str:
    """Return numbers of parts for a sentence, the first of many.

    >>> numbered([2, 5]), numbered(range(1, 31))
    ('2, 5', '1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more')
    """
    more = f" and {len(numbers) - MOST_NAMED:,} more" if len(numbers) > MOST_NAMED else ""
    return f"{', '.join(map(str, numbers[:MOST_NAMED]))}{more}"


def parts_named(numbers: Sequence[int], of: int) -> str:
    """Return which parts of how many, for a sentence.

    >>> parts_named([3], 4), parts_named([2, 3], 4)
    ('part 3 of 4', 'parts 2, 3 of 4')
    """
    return f"part{'s' if len(numbers) > 1 else ''} {numbered(numbers)} of {of:,}"


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Who does the jobs of a run: which workers, and which part of the jobs is this run's.

    Parameters
    ----------
    parts, known
        Of a run without a part: into how many parts other runs cut the same work, 0 where none did, and in words what
        is known of these.
    tell
        Is told in a sentence of jobs that such parts have not done, before they are done here.
    stages
        What became of the stages so far, which `spread` adds to.
    pool
        The worker processes of `workers`, which stages may share.
    """

    workers: Workers = field(default_factory=lambda: Workers(count=1))
    part: Part | None = None
    parts: int = 0
    known: str = ""
    tell: Callable[[str], None] = _silent
    stages: list[Stage] = field(default_factory=list)
    pool: ReusablePool = field(default_factory=ReusablePool)

    def join(self, *, last: bool = False) -> None:
        """End the run of a part where jobs of other parts are missing, which what comes next would need.

        Stages that do not need each other are spread one after the other, and joined once.

        Parameters
        ----------
        last
            Whether no further jobs come, so that the run of a part ends here in any case.

        Raises
        ------
        PartEnded
            Where it ends.
        """
        if self.part is None:
            return
        if last or any(stage.missing for stage in self.stages):
            raise PartEnded(waits=not last)


def spread(
    function: Callable[[Job], object],
    jobs: Sequence[Job],
    *,
    made: Callable[[int], bool],
    machines: Machines,
    things: str,
    done: Callable[[int], None] | None = None,
) -> None:
    """Do the jobs whose entries are missing in the cache: all of them, or those of this run's part.

    Parameters
    ----------
    function
        Does one job and writes its entry; found by workers under its name, as all of a module are. Each job computes
        with one thread, wherever it runs: sums depend on the number of threads.
    jobs
        In an order that does not depend on the machine; small, for they are sent to workers as pickles.
    made
        Tells whether the entry of the job at an index is there.
    things
        What the jobs make, in the plural: "batches of clips".
    done
        Called with the index of each job whose entry is there, in any order.

    Raises
    ------
    IncompleteError
        Where jobs were lost with their workers.
    InputError
        Where a cluster does not answer; and whatever a job raises.

    Examples
    --------
    >>> entries = {2: "kept"}
    >>> machines = Machines(part=part_of("1/2"))
    >>> spread(lambda n: entries.update({n: "new"}), range(4), made=entries.__contains__, machines=machines, things="n")
    >>> entries, machines.stages[0].computed, machines.stages[0].missing
    ({2: 'kept', 0: 'new'}, 1, {2: 2})
    """
    advance = done or _ignored
    missing = [index for index in range(len(jobs)) if not made(index)]
    for index in sorted(set(range(len(jobs))) - set(missing)):
        advance(index)
    part = machines.part or Part(number=1, of=1)
    # Counted on from stage to stage: of many short ones the first part would have most.
    first = sum(stage.jobs for stage in machines.stages)
    mine = [index for index in missing if part.has(first + index)]
    # Where nothing is there yet, nothing was lost: the parts have not come to this stage.
    if machines.parts and 0 < len(missing) < len(jobs):
        shares = _by_part([first + index for index in missing], machines.parts)
        machines.tell(
            f"{len(missing):,} of {len(jobs):,} {things} are missing, of "
            f"{parts_named(list(shares), machines.parts)}, and are computed now ({machines.known})."
        )
    _compute(function, jobs, mine, machines, things, advance)
    others = [index for index in missing if not part.has(first + index) and not made(index)]
    machines.stages.append(
        Stage(
            things=things,
            jobs=len(jobs),
            computed=len(mine),
            found=sum(part.has(first + index) for index in range(len(jobs))) - len(mine),
            missing=_by_part([first + index for index in others], part.of),
        )
    )


class EntryJob(Protocol):
    """A job that leaves one entry in a cache."""

    @property
    def cache(self) -> Cache:
        """The cache that its entry is written to."""

    @property
    def key(self) -> object:
        """All that the entry depends on, a JSON value."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Does a job and writes its entry; `keep_only_for` knows it by `func`, which computes the content."""

    kind: str
    func: Callable[[Any], Mapping[str, Any]]

    def __call__(self, job: EntryJob) -> None:
        job.cache.write(self.kind, job.key, self.func(job))


def spread_entries(
    compute: Callable[[Any], Mapping[str, Any]],
    jobs: Sequence[OfEntry],
    kind: str,
    machines: Machines,
    things: str,
    done: Callable[[OfEntry], None],
) -> None:
    """Compute the entries of jobs that are missing in the cache, as `spread` does jobs.

    Parameters
    ----------
    compute
        Returns the tensors or arrays of a job's entry; found by workers as the function of `spread`.
    kind
        Of the entries.
    done
        Called with each job whose entry is there, in any order.

    Raises
    ------
    IncompleteError, InputError
        As of `spread`; and where the cache cannot be written.
    """
    spread(
        _Written(kind, compute),
        jobs,
        made=lambda index: jobs[index].cache.has(kind, jobs[index].key),
        machines=machines,
        things=things,
        done=lambda index: done(jobs[index]),
    )


def read_entry(compute: Callable[[Any], Mapping[str, Any]], job: EntryJob, kind: str) -> dict[str, Any]:
    """Return the entry of a job of `spread_entries`, as `entry_of` does."""
    return entry_of(job.cache, kind, job.key, partial(compute, job))


def _ignored(index: int) -> None:
    pass


def _by_part(indices: Sequence[int], of: int) -> dict[int, int]:
    return dict(sorted(Counter(index % of + 1 for index in indices).items()))


def _compute(
    function: Callable[[Any], object],
    jobs: Sequence[Any],
    mine: Sequence[int],
    machines: Machines,
    things: str,
    advance: Callable[[int], None],
) -> None:
    """Do the chosen jobs: here, or with workers where these were asked for or are worth the time that they start in."""
    left, workers = list(mine), machines.workers
    unasked = workers.count == 0 and workers.backend == "loky" and not workers.gpus and not workers.here
    if workers.here or unasked:
        left = left[_here(function, [jobs[index] for index in mine], unasked, lambda at: advance(mine[at])) :]
    if left:
        # Each worker loads what it needs itself.
        release()

        def ended(at: int, result: object) -> None:
            advance(left[at])

        with machines.pool.acquired(workers, len(left)) as pool:
            lost = run_jobs(function, [jobs[index] for index in left], workers, done=ended, pool=pool)
        check_complete(lost, len(left), things)


def _here(function: Callable[[Any], object], jobs: Sequence[Any], unasked: bool, advance: Callable[[int], None]) -> int:
    """Do jobs in this process, and return how many: all, or until the rest is worth starting workers for."""
    with as_a_job():
        for at, job in enumerate(jobs):
            begun = time.perf_counter()
            function(job)
            advance(at)
            # The first job may have loaded a model: of that, the next ones say nothing.
            taken = time.perf_counter() - begun
            if unasked and at > 0 and taken * (len(jobs) - at - 1) > WORTH:
                return at + 1
    return len(jobs)


@contextmanager
def as_a_job() -> Iterator[None]:
    """Compute with one thread, as every job does."""
    from threadpoolctl import threadpool_limits

    with one_thread(), threadpool_limits(1):
        yield


def entry_of(cache: Cache, kind: str, key: object, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entry of a job; one that is lost or damaged since is computed again, to the same bits.

    Raises
    ------
    IncompleteError
        Where the cache cannot be written; and whatever the job raises.
    """

    def again() -> dict[str, Any]:
        with as_a_job():
            return dict(compute())

    return cache.memo(kind, key, again)


def alone(machines: Machines) -> Machines:
    """Return the same machines with this process alone as worker, for jobs too small to be sent."""
    return replace(machines, workers=Workers(count=1))
