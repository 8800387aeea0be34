"""Score many points by attacks on a diffusion model's network, in chunks that are cached.

Points go through in chunks, and a chunk is the unit of the cache: a killed run goes on with the first missing one.
Noise depends on a point's index alone, so that scores of several models can be set against each other.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.progress import Progress
from probes.files.names import suggest
from probes.generators.attacks import denoiser_attacks as attacks
from probes.generators.attacks.denoiser_attacks import FLUCTUATIONS, Points, Target, stride
from probes.generators.diffusion import Denoiser
from probes.generators.point_sets import PointSet

KIND = "denoiser-scores"
CHUNK = 512
_HELD = 2**24
"""Numbers in all versions of the points that are worked on together: 64 MB in float32."""
_EARLY = (0.01, 0.03, 0.05, 0.1, 0.2, 0.4)


class _Score(Protocol):
    """Scores (steps, b), float64 on the CPU, of points at steps."""

    def __call__(self, target: Target, points: Points, steps: Sequence[int]) -> Tensor:
        """Return the scores."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """The name of an attack, and a timestep from 0 to T - 1."""

    attack: str
    timestep: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack on a denoiser, all of whose scores are higher for a likely member.

    `evaluations(timestep, T, draws)` counts the network's passes for one point, a gradient of the loss as one a draw;
    `noisy` says whether it draws noise; `fractions` are its default timesteps as shares of T; `version` changes when
    scores do.
    """

    score: _Score
    evaluations: Callable[[int, int, int], int]
    noisy: bool
    fractions: tuple[float, ...]
    source: str
    version: int = 1


DENOISER_ATTACKS: Mapping[str, Attack] = {
    "loss": Attack(
        score=attacks.loss,
        evaluations=lambda timestep, total, draws: draws,
        noisy=True,
        fractions=_EARLY,
        source="Matsumoto et al. 2023, arXiv 2302.03262",
    ),
    "sima": Attack(
        score=attacks.sima,
        evaluations=lambda timestep, total, draws: 1,
        noisy=False,
        fractions=_EARLY,
        source="Rao et al. 2025, arXiv 2509.25003, with the 2-norm",
    ),
    "pia": Attack(
        score=attacks.pia,
        evaluations=lambda timestep, total, draws: 2,
        noisy=False,
        fractions=_EARLY,
        source="Kong et al. 2024, arXiv 2305.18355",
    ),
    "pian": Attack(
        score=attacks.pian,
        evaluations=lambda timestep, total, draws: 2,
        noisy=False,
        fractions=(0.1, 0.2, 0.4),
        source="Kong et al. 2024, arXiv 2305.18355, first noise normalised",
    ),
    "secmi": Attack(
        score=attacks.secmi,
        evaluations=lambda timestep, total, draws: -(-timestep // stride(total)) + 2,
        noisy=False,
        fractions=(0.05, 0.1, 0.2),
        source="Duan et al. 2023, arXiv 2302.01316, the statistic",
    ),
    "pfami": Attack(
        score=attacks.pfami,
        evaluations=lambda timestep, total, draws: FLUCTUATIONS + min(draws, FLUCTUATIONS),
        noisy=True,
        fractions=(0.05, 0.1, 0.2),
        source="Fu et al. 2023, arXiv 2308.12143",
    ),
    "gradnorm": Attack(
        score=attacks.gradnorm,
        evaluations=lambda timestep, total, draws: draws,
        noisy=True,
        fractions=(0.05,),
        source="Pang et al. 2023, arXiv 2308.06405, the norm in place of a classifier",
    ),
}
"""Attacks that need the weights of the denoiser and nothing else, by name."""


def default_requests(names: Sequence[str], total: int) -> tuple[Request, ...]:
    """Return the requests of attacks at their default timesteps for a model of `total` steps.

    >>> [request.timestep for request in default_requests(["secmi"], 1000)]
    [50, 100, 200]
    """
    return tuple(
        dict.fromkeys(
            Request(name, min(total - 1, max(1, round(share * total))))
            for name in names
            for share in _attack(name).fractions
        )
    )


def score_denoiser(
    denoiser: Denoiser,
    points: PointSet | NDArray[np.float32],
    requests: Sequence[Request],
    *,
    seed: int,
    draws: int,
    batch: int,
    device: str,
    dtype: str,
    cache: Cache | None,
    progress: Progress,
    label: str,
    indices: NDArray[np.int64] | None = None,
) -> dict[Request, NDArray[np.float64]]:
    """Return the scores (n,) of points under each request, computing only what the cache lacks.

    Parameters
    ----------
    points
        (n, *shape); a set of images is put to the network as 2x - 1, an array as it is.
    seed, indices
        The index decides which noise a point gets, by default its position. Members, non-members and shadow models
        share a seed; points of different sets need indices of their own.
    draws
        Noises per point and timestep, where the attack draws any.
    batch
        The largest number of rows that pass the network together.
    label
        What the phase is called in `progress`.

    Raises
    ------
    InputError
        Where a request is not possible, points are not of the network's shape, or it gives numbers that are not finite.
    IncompleteError
        Where the device runs out of memory.
    """
    _check(denoiser, points, requests)
    numbers = np.arange(len(points), dtype=np.int64) if indices is None else indices
    found = {request: np.empty(len(points), dtype=np.float64) for request in requests}
    with progress.phase(label, len(points), "points") as advance, _on_device(denoiser, device) as moved:
        target = Target(denoiser=moved, batch=batch, device=device, dtype=dtype)
        for part in chunks_of(len(points)):
            x = _block(points, part)
            chunk = Points(x=torch.from_numpy(x), indices=numbers[part], seed=seed, draws=draws)
            for request, scores in _chunk(target, chunk, list(found), cache).items():
                found[request][part] = scores
            advance(len(x))
    return found


def chunks_of(count: int) -> Iterator[slice]:
    """Yield the chunks in which so many points are scored.

    >>> [(part.start, part.stop) for part in chunks_of(600)]
    [(0, 512), (512, 600)]
    """
    return (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))


def chunk_keys(
    denoiser: Denoiser,
    points: PointSet | NDArray[np.float32],
    part: slice,
    indices: NDArray[np.int64],
    *,
    requests: Sequence[Request],
    seed: int,
    draws: int,
    batch: int,
    device: str,
    dtype: str,
) -> dict[Request, dict[str, object]]:
    """Return under which keys of the cache the scores of a chunk are kept; no weights of the denoiser are needed."""
    target = Target(denoiser=denoiser, batch=batch, device=device, dtype=dtype)
    chunk = Points(x=torch.from_numpy(_block(points, part)), indices=indices, seed=seed, draws=draws)
    return {request: _key(target, chunk, request) for request in requests}


def _attack(name: str) -> Attack:
    if name not in DENOISER_ATTACKS:
        raise InputError(
            f"{name!r} is no attack on a denoiser.", where="--attack", hint=suggest(name, list(DENOISER_ATTACKS))
        )
    return DENOISER_ATTACKS[name]


def _check(denoiser: Denoiser, points: PointSet | NDArray[np.float32], requests: Sequence[Request]) -> None:
    shape = points.shape if isinstance(points, PointSet) else points.shape[1:]
    if tuple(shape) != tuple(denoiser.shape):
        sizes = ["x".join(map(str, one)) for one in (shape, denoiser.shape)]
        raise InputError(
            f"The points are {sizes[0]}; the model was made for {sizes[1]}.",
            where=denoiser.path,
            hint="Give points as the model was trained on them.",
        )
    check_requests(requests, denoiser.steps)


def check_requests(requests: Sequence[Request], steps: int) -> None:
    """Refuse attacks whose timesteps are not possible in a schedule of `steps`.

    Raises
    ------
    InputError
        Where one cannot.
    """
    for request in requests:
        _attack(request.attack)
        # SecMI needs a step before and a step after.
        beside = stride(steps) if request.attack == "secmi" else 0
        lowest, highest = min(1, beside), steps - 1 - beside
        if not lowest <= request.timestep <= highest:
            raise InputError(
                f"Timestep {request.timestep} of {request.attack} is not one of {lowest} to {highest}.",
                where="--timesteps",
                hint=f"The model has {steps} steps, counted from 0. Give others, or other attacks by --attack.",
            )


@contextmanager
def _on_device(denoiser: Denoiser, device: str) -> Iterator[Denoiser]:
    """Yield the denoiser on a device, its network in evaluation mode; the caller's network is left as it was."""
    if device != "cpu":
        module: nn.Module = deepcopy(denoiser.module).to(device).eval()
        yield replace(denoiser, module=module)
        return
    modes = [(part, part.training) for part in denoiser.module.modules()]
    denoiser.module.eval()
    try:
        yield denoiser
    finally:
        for part, training in modes:
            part.training = training


def _block(points: PointSet | NDArray[np.float32], part: slice) -> NDArray[np.float32]:
    if isinstance(points, PointSet):
        block = points.block(part.start, part.stop)
        x = 2 * block - 1 if points.pixels else block
    else:
        x = points[part]
    # A copy, since mapped files are read-only and torch wants writable arrays.
    x = np.array(x, dtype=np.float32)
    bad = ~np.isfinite(x).reshape(len(x), -1).all(axis=1)
    if bad.any():
        message = f"Point {part.start + int(bad.argmax())} holds a number that is not finite."
        raise InputError(message, where="points", hint="Mend the point, or leave it out.")
    return x


def _chunk(
    target: Target, points: Points, requests: Sequence[Request], cache: Cache | None
) -> dict[Request, NDArray[np.float64]]:
    """Return the scores of a chunk of points, from the cache where it has them."""
    keys = {request: _key(target, points, request) for request in requests}
    found: dict[Request, NDArray[np.float64]] = {}
    for request, key in keys.items():
        entry = cache.read(KIND, key) if cache is not None else None
        if entry is not None:
            found[request] = entry["scores"].numpy()
    missing = [request for request in requests if request not in found]
    for name in dict.fromkeys(request.attack for request in missing):
        steps = [request.timestep for request in missing if request.attack == name]
        for step, scores in zip(steps, _scores(target, points, name, steps), strict=True):
            request = Request(name, step)
            found[request] = scores.numpy()
            if cache is not None:
                cache.write(KIND, keys[request], {"scores": scores})
    return found


def _key(target: Target, points: Points, request: Request) -> dict[str, object]:
    attack = DENOISER_ATTACKS[request.attack]
    content = hashlib.sha256(f"{tuple(points.x.shape)} ".encode())
    content.update(points.x.numpy().data)
    chance: list[object] = []
    # An attack without noise has the same entry for all seeds, draws and indices.
    if attack.noisy:
        content.update(np.ascontiguousarray(points.indices).data)
        chance = [points.seed, points.draws, version("numpy")]
    return {
        "denoiser": target.denoiser.sha256,
        "points": content.hexdigest(),
        "request": [request.attack, attack.version, request.timestep],
        "chance": chance,
        # The batch too: a network may round otherwise in one of another size.
        "format": [version("torch"), target.device.partition(":")[0], target.dtype, target.batch],
    }


def _scores(target: Target, points: Points, name: str, steps: Sequence[int]) -> Tensor:
    """Return scores (steps, points), in batches that fit the memory limit."""
    versions = points.draws + 2 * FLUCTUATIONS
    together = max(1, min(target.batch, _HELD // (versions * points.x[0].numel())))
    parts = []
    for start in range(0, len(points.x), together):
        part = slice(start, start + together)
        block = replace(points, x=points.x[part].to(target.device), indices=points.indices[part])
        parts.append(DENOISER_ATTACKS[name].score(target, block, steps))
    return torch.cat(parts, dim=1)
