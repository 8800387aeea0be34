"""Scores of points by shadow models: by models that were trained with and without each point.

Shadow models have the network of the audited one and fresh weights; each is trained on a random half of the points, and
a second on the other half, so that every point is in as many models as any other. All get the same noise.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from probes.core.cache import Cache
from probes.core.errors import IncompleteError, InputError
from probes.core.executor import Workers, check_complete, run_jobs
from probes.core.hashing import sha256_json
from probes.core.progress import Progress, Silent
from probes.core.random_streams import stream
from probes.generators.attacks.denoiser import Request, score_denoiser
from probes.generators.diffusion import Denoiser
from probes.generators.generative_training import fit_denoiser
from probes.generators.point_sets import PointSet

KIND = "shadow-models"
POINTS = "shadow-points"
"""Kind of the entry from which workers read the points; it is removed when they are done."""
VERSION = 1
"""Raised whenever training changes, so that no weights trained otherwise are taken for these."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How every shadow model is trained: steps of Adam, points in each, learning rate."""

    steps: int
    batch: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shadows:
    """Scores of shadow models: `keep` (models, n) says which points each was trained on, `scores` are (models, n)."""

    keep: Bools
    scores: Mapping[Request, Floats]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    """One shadow model as a job of a worker: `points` is the key of the cache entry that holds them."""

    denoiser: Denoiser
    points: str
    content: str
    kept: Bools
    model: int
    recipe: Recipe
    ask: Mapping[str, Any]
    cache: Cache


def complementary_halves(models: int, points: int, seed: int) -> Bools:
    """Return which points each model is trained on, (models, points): a random half, then the other half, and so on.

    >>> keep = complementary_halves(4, 6, 0)
    >>> keep.sum(0).tolist(), bool((keep[0] == ~keep[1]).all())
    ([2, 2, 2, 2, 2, 2], True)

    Raises
    ------
    ValueError
        Where the number of models is odd.
    """
    if models % 2:
        raise ValueError("halves and their complements are an even number of models")
    order = np.stack([torch.randperm(points, generator=stream(seed, f"half {k}")).numpy() for k in range(models // 2)])
    first = order < points // 2
    return np.stack([first, ~first], axis=1).reshape(models, points)


def train_and_score(
    denoiser: Denoiser,
    points: PointSet,
    requests: Sequence[Request],
    *,
    count: int,
    recipe: Recipe,
    workers: Workers,
    seed: int,
    draws: int,
    batch: int,
    device: str,
    cache: Cache,
    progress: Progress | None = None,
) -> Shadows:
    """Train shadow models, or take them from the cache, and score all points by each of them.

    Parameters
    ----------
    count
        Models, an even number.
    workers
        Those of other machines need the folder of the cache under the same path. On a GPU, one model after the other.
    seed
        Of the halves, of training, and of the noise that the points meet: the seed with which the audited model is
        asked, for scores are only comparable under the same noise.

    Raises
    ------
    InputError
        Where the network cannot be given fresh weights, or a training diverges.
    IncompleteError
        Where the workers of a model died.
    """
    keep = complementary_halves(count, len(points), seed)
    values = points.block(0, len(points))
    values = 2 * values - 1 if points.pixels else values
    # Its result is not used: a network that it refuses should be refused before any worker starts.
    fresh_weights(denoiser.module, seed)
    ask: dict[str, Any] = {"requests": tuple(requests), "seed": seed, "draws": draws, "batch": batch, "device": device}
    rows: dict[int, dict[Request, Floats]] = {}
    with (
        _points_in_cache(values, cache) as key,
        (progress or Silent()).phase("Training shadow models", count, "models") as advance,
    ):
        common: dict[str, Any] = {"denoiser": _shaped(denoiser), "points": key, "content": points.sha256, "ask": ask}
        jobs = [_Job(**common, kept=keep[model], model=model, recipe=recipe, cache=cache) for model in range(count)]

        def done(model: int, scores: dict[Request, Floats]) -> None:
            rows[model] = scores
            advance(1)

        lost = run_jobs(_shadow, jobs, workers if device == "cpu" else replace(workers, count=1), done=done)
    check_complete(lost, count, "shadow models")
    return Shadows(keep=keep, scores={one: np.stack([rows[model][one] for model in range(count)]) for one in requests})


@contextmanager
def _points_in_cache(values: NDArray[np.float32], cache: Cache) -> Iterator[str]:
    """Write the points where every worker can read them, so that they are not sent with each job."""
    # The key is of this run alone, since another run may end first and remove its points.
    key = uuid4().hex
    cache.write(POINTS, key, {"values": torch.from_numpy(np.ascontiguousarray(values))})
    try:
        yield key
    finally:
        cache.path(POINTS, key).unlink(missing_ok=True)


def fresh_weights(module: nn.Module, seed: int) -> nn.Module:
    """Return a copy of a network whose layers have drawn new weights.

    Raises
    ------
    InputError
        Where it has weights that no layer can draw: they would carry what the audited model learnt into its shadows.
    """
    made = deepcopy(module)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        # A weight that is still NaN at the end was not drawn.
        for weight in made.parameters():
            weight.fill_(torch.nan)
        # Children first, so that a parent's own initialisation of them has the last word.
        for layer in reversed(list(made.modules())):
            reset = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
            if callable(reset):
                reset()
    left = [name for name, weight in made.named_parameters() if bool(weight.isnan().any())]
    if left:
        raise InputError(
            f"The weights {', '.join(left[:3])} belong to no layer that can draw them anew.",
            where="--shadows",
            hint="Give the network's class a method reset_parameters.",
        )
    # Loaded networks are frozen.
    return made.requires_grad_(True).train()


def _shaped(denoiser: Denoiser) -> Denoiser:
    """Return the denoiser on the CPU without gradients and weights, as it is sent to a worker."""
    module = deepcopy(denoiser.module).cpu()
    for weight in module.parameters():
        # One number, expanded to the shape: shadow models draw their own weights.
        weight.data = weight.new_zeros(()).expand(weight.shape)
    return replace(denoiser, module=module)


def _shadow(job: _Job) -> dict[Request, Floats]:
    """Train one shadow model unless it is cached, and score all points; on one core, for equal bits anywhere."""
    denoiser, recipe, model, keep, cache, ask = job.denoiser, job.recipe, job.model, job.kept, job.cache, job.ask
    values = _read(job)
    seed, device = int(ask["seed"]), str(ask["device"])
    own_seed = int(stream(seed, f"shadow {model}").initial_seed() % 2**31)
    module = fresh_weights(denoiser.module, own_seed)
    shapes = [[name, list(weight.shape)] for name, weight in module.state_dict().items()]
    schedule = [float(value) for value in denoiser.alphas_bar]
    # The hash of the audited model stands for all that a network computes and its layers do not show.
    key = [VERSION, denoiser.sha256, version("torch"), shapes, schedule, denoiser.prediction, job.content]
    key += [keep.tolist(), own_seed]
    key += [recipe.steps, recipe.batch, recipe.rate, device.partition(":")[0]]
    held = cache.read(KIND, key)
    if held is not None and held.keys() == module.state_dict().keys():
        module.load_state_dict(held)
    else:
        fit_denoiser(
            module.to(device),
            np.ascontiguousarray(values[keep]),
            alphas_bar=denoiser.alphas_bar,
            steps=recipe.steps,
            batch=min(recipe.batch, int(keep.sum())),
            rate=recipe.rate,
            seed=own_seed,
            prediction=denoiser.prediction,
            label=f"shadow model {model}",
        )
        cache.write(KIND, key, {name: weight.cpu() for name, weight in module.state_dict().items()})
    shadow = replace(
        denoiser, module=module.requires_grad_(False).eval(), sha256=sha256_json(key), path=f"shadow model {model}"
    )
    return score_denoiser(
        shadow,
        values,
        ask["requests"],
        seed=seed,
        draws=int(ask["draws"]),
        batch=int(ask["batch"]),
        device=device,
        dtype="float32",
        cache=cache,
        progress=Silent(),
        label="",
    )


def _read(job: _Job) -> NDArray[np.float32]:
    entry = job.cache.read(POINTS, job.points)
    if entry is None:
        raise IncompleteError(
            "A worker cannot read the points.",
            where=str(job.cache.path(POINTS, job.points)),
            hint="Workers on other machines need the folder of MILES_CACHE under the same path.",
        )
    values: NDArray[np.float32] = entry["values"].numpy()
    return values
