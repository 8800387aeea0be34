"""Comparisons done by workers and by the parts of an array: each draw of each set is a job.

Of many texts, a table of distances is cut into strips of rows, each a job: first the lists of neighbours of every side,
then the near pairs of two sides, then what follows from both. Sides reach workers as entries of the cache. What is only
needed on the way is removed once its comparison is there.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import numpy as np

from audits.core.context import Cache, Context
from audits.precision_recall.comparing import COMPARED, LISTS, PAIRS, Grounds, Pairing, Referee, strips
from audits.precision_recall.pools import Pool
from audits.precision_recall.settings import Settings
from probes.core.errors import IncompleteError
from probes.core.hashing import sha256_json
from probes.core.holding import held, release
from probes.core.progress import Progress
from probes.core.spreading import spread
from probes.vectors.knn import Points

SPREAD = 8192
"""Texts of a draw from which comparisons are spread: with fewer, one takes seconds."""
SIDES, VERSION = "text-sides", 1
_HERE: dict[str, Pool] = {}
"""The sides that this process has anyway, by their mark: a worker reads them from the cache."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A side in the cache: its vectors, which several sides may share, and its draws and halves.

    Parameters
    ----------
    mark
        A hash of all that is in it.
    """

    name: str
    sha256: str
    vectors: list[object]
    draws: list[object]
    mark: str

    @classmethod
    def of(cls, side: Pool, run: str) -> "Kept":
        """Return where one run keeps a side, which no other run removes; nothing is written."""
        rest = hashlib.sha256()
        for one in (side.point, side.halves, side.draws):
            rest.update(np.ascontiguousarray(one).data)
        vectors: list[object] = ["vectors", VERSION, side.sha256, len(side.vectors)]
        draws: list[object] = ["draws", VERSION, side.name, side.sha256, rest.hexdigest()]
        mark = sha256_json([vectors, draws])
        return cls(side.name, side.sha256, [*vectors, run], [*draws, run], mark)

    def write(self, side: Pool, cache: Cache) -> None:
        """Write what is not there."""
        if not cache.has(SIDES, self.vectors):
            cache.write(SIDES, self.vectors, {"vectors": side.vectors})
        if not cache.has(SIDES, self.draws):
            rest = {"point": side.point, "kinds": side.kinds, "halves": side.halves, "draws": side.draws}
            cache.write(SIDES, self.draws, rest)

    def read(self, cache: Cache) -> Pool:
        """Return the side.

        Raises
        ------
        IncompleteError
            Where it was removed or damaged since.
        """
        if self.mark in _HERE:
            return _HERE[self.mark]
        vectors, rest = (cache.read_arrays(SIDES, key) for key in (self.vectors, self.draws))
        if vectors is None or rest is None:
            raise IncompleteError(
                f"The texts of {self.name} are no longer in the cache.",
                where=str(cache.folder),
                hint="Run the same command again: it resumes.",
            )
        return Pool(self.name, vectors["vectors"], **rest, sha256=self.sha256)

    def discard(self, cache: Cache) -> None:
        """Remove what was written."""
        for key in (self.vectors, self.draws):
            cache.discard(SIDES, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A comparison, or a strip of what it needs.

    Parameters
    ----------
    stage
        What is made: lists of neighbours in `side`, near pairs, or the comparison itself.
    side
        Whose lists: of the reference or of the other.
    first, strip
        The first row of the strip, and how many rows a strip has; 0: there are none.
    key
        Of the entry that is made.
    finals
        Of the comparisons that need it: where all of them are there, it is not.
    """

    stage: Literal["lists", "pairs", "comparison"]
    reference: Kept
    other: Kept
    draw: int
    side: Literal["reference", "other"] = "other"
    first: int = 0
    key: object
    finals: list[object] = field(default_factory=list)
    strip: int
    settings: Settings
    seed: int
    device: str
    cache: Cache

    @property
    def kind(self) -> str:
        """The kind of the entry."""
        return {"lists": LISTS, "pairs": PAIRS, "comparison": COMPARED}[self.stage]

    @property
    def made(self) -> bool:
        """Whether the entry is there, or needed no more."""
        if self.cache.has(self.kind, self.key):
            return True
        return bool(self.finals) and all(self.cache.has(COMPARED, final) for final in self.finals)

    def referee(self) -> Referee:
        """Return the reference with all that decides a comparison."""
        context = Context(seed=self.seed, device=self.device, cache=self.cache)
        return Referee(self.reference.read(self.cache), self.settings, context, self.strip)


def do(job: Job) -> None:
    """Do one job and write its entry."""
    # With the cache: a worker of a cluster outlives a run, and what it holds reads the one that it was made with.
    how = [job.draw, sha256_json(job.settings.as_options()), job.seed, job.device, str(job.cache.folder)]
    both = [job.reference.mark, job.other.mark, *how]
    if job.stage == "lists":
        referee, points = held(["lists", job.side, both], lambda: _points(job))
        job.cache.write(job.kind, job.key, referee.list_strip(points, job.first))
    elif job.stage == "pairs":
        job.cache.write(job.kind, job.key, held(["pairs", both], lambda: _pairing(job)).strip(job.first))
    elif job.strip:
        pairing = held(["pairs", both], lambda: _pairing(job))
        job.cache.write(job.kind, job.key, pairing.measured())
        pairing.discard()
    else:
        # One draw of the reference serves all that are compared with it.
        referee, grounds = held(["grounds", job.reference.mark, how], lambda: _grounds(job))
        pairing = referee.pairing(job.other.read(job.cache), job.draw, grounds)
        job.cache.write(job.kind, job.key, pairing.measured())


def _points(job: Job) -> tuple[Referee, Points]:
    referee, other = job.referee(), job.other.read(job.cache)
    return referee, referee.points_of(referee.reference if job.side == "reference" else other, other, job.draw)


def _pairing(job: Job) -> Pairing:
    return job.referee().pairing(job.other.read(job.cache), job.draw, None)


def _grounds(job: Job) -> tuple[Referee, Grounds | None]:
    referee = job.referee()
    return referee, None if referee.turned else referee.grounds(job.draw)


def share(given: Sequence[tuple[Referee, Sequence[Pool]]], context: Context) -> None:
    """Do all comparisons that are missing, or those of this run's part; few texts are left to be compared here.

    Raises
    ------
    PartEnded
        Where this run is a part: what follows is for the plain command.
    IncompleteError
        Where jobs were lost with their workers.
    """
    machines = context.machines
    if max(referee.size for referee, _ in given) < SPREAD:
        machines.join(last=True)
        return
    plan = _Plan.of(given, context)
    try:
        plan.keep()
        for stage, things in (
            ("lists", "strips of neighbours"),
            ("pairs", "strips of near pairs"),
            ("comparison", "comparisons"),
        ):
            if jobs := [job for job in plan.jobs if job.stage == stage]:
                _spread(jobs, things, context.progress, context)
                machines.join(last=stage == "comparison")
    finally:
        _HERE.clear()
        release()
        plan.discard_sides()
    plan.discard()


def _spread(jobs: Sequence[Job], things: str, progress: Progress, context: Context) -> None:
    with progress.phase(things.capitalize(), len(jobs), things.partition(" ")[0]) as advance:
        spread(
            do,
            jobs,
            made=lambda index: jobs[index].made,
            machines=context.machines,
            things=things,
            done=lambda index: advance(1),
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """All jobs, stage by stage, and the sides that they need."""

    jobs: list[Job]
    sides: list[tuple[Kept, Pool]]
    cache: Cache

    @classmethod
    def of(cls, given: Sequence[tuple[Referee, Sequence[Pool]]], context: Context) -> "_Plan":
        run = uuid4().hex
        jobs: list[Job] = []
        sides: dict[str, tuple[Kept, Pool]] = {}
        for referee, others in given:
            kept = [Kept.of(side, run) for side in (referee.reference, *others)]
            sides |= {one.mark: (one, side) for one, side in zip(kept, (referee.reference, *others), strict=True)}
            for draw in range(len(referee.reference.draws)):
                for one, other in zip(kept[1:], others, strict=True):
                    jobs += _jobs_of(referee, kept[0], one, other, draw)
        return cls(_once(jobs), list(sides.values()), context.cache)

    def keep(self) -> None:
        """Write the sides, unless all is done."""
        if all(job.made for job in self.jobs):
            return
        for kept, side in self.sides:
            kept.write(side, self.cache)
            _HERE[kept.mark] = side

    def discard(self) -> None:
        """Remove what was only needed on the way."""
        for job in self.jobs:
            if job.stage != "comparison":
                self.cache.discard(job.kind, job.key)

    def discard_sides(self) -> None:
        """Remove the sides, which are of this run alone."""
        for kept, _ in self.sides:
            kept.discard(self.cache)


def _jobs_of(referee: Referee, reference: Kept, other: Kept, side: Pool, draw: int) -> Iterator[Job]:
    context, final = referee.context, referee.key(side, draw)
    more: dict[str, Any] = {
        "reference": reference,
        "other": other,
        "draw": draw,
        "strip": referee.strip,
        "settings": referee.settings,
        "seed": context.seed,
        "device": context.device,
        "cache": context.cache,
    }
    if referee.strip:
        sides: tuple[tuple[Literal["reference", "other"], Pool], ...] = (
            ("reference", referee.reference), ("other", side)
        )  # fmt: skip
        for label, own in sides:
            key = referee.list_key(own, side, draw)
            for rows in strips(referee.points_in(own, draw), referee.strip):
                first = rows.start
                yield Job(stage="lists", side=label, first=first, key=[*key, first], finals=[final], **more)
        for rows in strips(referee.points_in(referee.reference, draw), referee.strip):
            yield Job(stage="pairs", first=rows.start, key=[final, rows.start], finals=[final], **more)
    yield Job(stage="comparison", key=final, **more)


def _once(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs without those that make the same entry as an earlier one, which then serves the comparisons of both.

    Lists of the reference are those of a draw, whatever it is compared with.
    """
    found: dict[str, Job] = {}
    for job in jobs:
        name = sha256_json([job.kind, job.key])
        if name in found:
            found[name].finals.extend(job.finals)
        else:
            found[name] = job
    return list(found.values())
