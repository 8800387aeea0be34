"""Scores of many points by attacks on a denoiser, chunk by chunk, by whoever is there to compute them.

Points and weights are put where every worker can read them, so that they are not sent with each job. What a chunk
scored is kept under the same key as ever (`probes.generators.attacks.denoiser`).
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.cache import Cache
from probes.core.errors import IncompleteError
from probes.core.holding import held
from probes.core.progress import Progress, Silent
from probes.core.spreading import Machines, alone, spread
from probes.generators.attacks.denoiser import CHUNK, KIND, Request, chunk_keys, chunks_of, score_denoiser
from probes.generators.denoisers import FACTORY
from probes.generators.diffusion import Denoiser
from probes.generators.point_sets import PointSet

SHARED = "lent-to-workers"
"""Kind of the entries from which workers read points and weights; they are removed when the work is done."""
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of each point: attacks at their timesteps, with which noise, and how the network runs."""

    requests: tuple[Request, ...]
    seed: int
    draws: int
    batch: int
    device: str
    dtype: str = "float32"

    @property
    def call(self) -> dict[str, Any]:
        """The arguments of `score_denoiser` of these names."""
        names = ("requests", "seed", "draws", "batch", "device", "dtype")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    """A chunk of points: the denoiser without its weights, and the entries that hold these and the points."""

    denoiser: Denoiser
    weights: str
    points: str
    start: int
    numbers: tuple[int, ...]
    asked: Asked
    cache: Cache


def compute_scores(
    denoiser: Denoiser,
    points: PointSet,
    asked: Asked,
    *,
    cache: Cache,
    progress: Progress,
    label: str,
    machines: Machines,
    indices: NDArray[np.int64] | None = None,
) -> None:
    """Compute the scores that the cache lacks, or those of this run's part; `score_denoiser` then finds them.

    Parameters
    ----------
    label
        What the phase is called in `progress`.
    indices
        As of `score_denoiser`.

    Raises
    ------
    InputError, IncompleteError
        As of `score_denoiser`; and where workers are lost.
    """
    numbers = np.arange(len(points), dtype=np.int64) if indices is None else indices
    chunks = list(chunks_of(len(points)))

    def made(index: int) -> bool:
        part = chunks[index]
        return scores_there(denoiser, points, part, numbers[part], asked, cache)

    with ExitStack() as opened, progress.phase(label, len(points), "points") as advance:
        weights_key = points_key = ""
        if not all(map(made, range(len(chunks)))):
            weights = {name: weight.detach().cpu() for name, weight in denoiser.module.state_dict().items()}
            weights_key = opened.enter_context(shared_entry(cache, weights))
            points_key = opened.enter_context(shared_entry(cache, {"values": torch.from_numpy(scaled(points))}))
        jobs = [
            _Job(
                denoiser=shaped(denoiser),
                weights=weights_key,
                points=points_key,
                start=part.start,
                numbers=tuple(numbers[part].tolist()),
                asked=asked,
                cache=cache,
            )
            for part in chunks
        ]
        spread(
            _score,
            jobs,
            made=made,
            machines=machines_for(machines, denoiser),
            things="chunks of points",
            done=lambda index: advance(len(jobs[index].numbers)),
        )


def machines_for(machines: Machines, denoiser: Denoiser) -> Machines:
    """Return the machines that can run a denoiser: of a network of the user's code, which no worker has, this process.

    A part of the work is done all the same: each has loaded the code that it was allowed to.
    """
    return alone(machines) if denoiser.family.startswith(FACTORY) else machines


def _score(job: _Job) -> None:
    denoiser, values = held([job.weights, job.points], lambda: _loaded(job))
    chunk = values[job.start : job.start + CHUNK]
    numbers = np.asarray(job.numbers, dtype=np.int64)
    score_denoiser(denoiser, chunk, **job.asked.call, cache=job.cache, progress=Silent(), label="", indices=numbers)


def _loaded(job: _Job) -> tuple[Denoiser, Singles]:
    module = deepcopy(job.denoiser.module)
    module.load_state_dict(read_shared(job.cache, job.weights), assign=True)
    values: Singles = read_shared(job.cache, job.points)["values"].numpy()
    return replace(job.denoiser, module=module.requires_grad_(False).eval()), values


def scaled(points: PointSet) -> Singles:
    """Return points as networks take them: pixels as 2x - 1."""
    values = points.block(0, len(points))
    return 2 * values - 1 if points.pixels else values


def shaped(denoiser: Denoiser) -> Denoiser:
    """Return the denoiser on the CPU without gradients and weights, as it is sent to a worker."""
    module = deepcopy(denoiser.module).cpu()
    for weight in module.parameters():
        # One number, expanded to the shape: a worker draws weights of its own, or reads those of `shared_entry`.
        weight.data = weight.new_zeros(()).expand(weight.shape)
    return replace(denoiser, module=module)


@contextmanager
def shared_entry(cache: Cache, tensors: Mapping[str, Tensor]) -> Iterator[str]:
    """Write tensors where every worker can read them, and remove them at the end; yields the key of the entry."""
    # The key is of this run alone, since another run may end first and remove its entry.
    key = uuid4().hex
    cache.write(SHARED, key, tensors)
    try:
        yield key
    finally:
        cache.discard(SHARED, key)


def read_shared(cache: Cache, key: str) -> dict[str, Tensor]:
    """Return the tensors that `shared_entry` wrote under a key.

    Raises
    ------
    IncompleteError
        Where this process cannot read it.
    """
    entry = cache.read(SHARED, key)
    if entry is None:
        raise IncompleteError(
            "A worker cannot read the points or weights.",
            where=str(cache.path(SHARED, key)),
            hint="Workers on other machines need the folder of MILES_CACHE under the same path.",
        )
    return entry


def scores_there(
    denoiser: Denoiser,
    points: PointSet | Singles,
    part: slice,
    indices: NDArray[np.int64],
    asked: Asked,
    cache: Cache,
) -> bool:
    """Tell whether the cache has all scores of a chunk."""
    keys = chunk_keys(denoiser, points, part, indices, **asked.call)
    return all(cache.has(KIND, key) for key in keys.values())


def read_scores(denoiser: Denoiser, values: Singles, asked: Asked, cache: Cache) -> dict[Request, Floats] | None:
    """Return the scores (n,) of all points by a denoiser that is known by its hash; None where any are missing."""
    found: dict[Request, list[Floats]] = {request: [] for request in asked.requests}
    numbers = np.arange(len(values), dtype=np.int64)
    for part in chunks_of(len(values)):
        for request, key in chunk_keys(denoiser, values, part, numbers[part], **asked.call).items():
            entry = cache.read(KIND, key)
            if entry is None:
                return None
            found[request].append(entry["scores"].numpy())
    return {request: np.concatenate(parts) for request, parts in found.items()}
