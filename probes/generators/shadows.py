"""Scores of points by shadow models: by models that were trained with and without each point.

Shadow models have the network of the audited one and fresh weights; each is trained on a random half of the points, and
a second on the other half, so that every point is in as many models as any other. All get the same noise.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from probes.core.cache import Cache
from probes.core.errors import IncompleteError, InputError
from probes.core.hashing import sha256_json
from probes.core.progress import Progress, Silent
from probes.core.random_streams import stream
from probes.core.spreading import Machines, as_a_job, spread
from probes.generators.attacks.denoiser import Request, chunks_of, score_denoiser
from probes.generators.attacks.denoiser_jobs import (
    Asked,
    machines_for,
    read_scores,
    read_shared,
    scaled,
    scores_there,
    shaped,
    shared_entry,
)
from probes.generators.diffusion import Denoiser
from probes.generators.generative_training import fit_denoiser
from probes.generators.point_sets import PointSet

KIND = "shadow-models"
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
    asked: Asked
    cache: Cache

    @property
    def seed(self) -> int:
        """The seed of its weights and training."""
        return int(stream(self.asked.seed, f"shadow {self.model}").initial_seed() % 2**31)

    @property
    def key(self) -> list[object]:
        """All that its weights depend on."""
        denoiser, recipe = self.denoiser, self.recipe
        shapes = [[name, list(weight.shape)] for name, weight in denoiser.module.state_dict().items()]
        schedule = [float(value) for value in denoiser.alphas_bar]
        # The hash of the audited model stands for all that a network computes and its layers do not show.
        key = [VERSION, denoiser.sha256, version("torch"), shapes, schedule, denoiser.prediction, self.content]
        key += [self.kept.tolist(), self.seed]
        return [*key, recipe.steps, recipe.batch, recipe.rate, self.asked.device.partition(":")[0]]

    @property
    def trained(self) -> Denoiser:
        """The denoiser as it is known by its scores, still without its weights."""
        return replace(self.denoiser, sha256=sha256_json(self.key), path=f"shadow model {self.model}")


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
    machines: Machines | None = None,
    seed: int,
    draws: int,
    batch: int,
    device: str,
    cache: Cache,
    progress: Progress | None = None,
) -> Shadows | None:
    """Train shadow models, or take them from the cache, and score all points by each of them.

    Of a part of the work, whose other parts may be missing, nothing is returned.

    Parameters
    ----------
    count
        Models, an even number.
    machines
        Who trains; those of other machines need the folder of the cache under the same path.
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
    machines = machines or Machines()
    keep = complementary_halves(count, len(points), seed)
    values = scaled(points)
    # Its result is not used: a network that it refuses should be refused before any worker starts.
    fresh_weights(denoiser.module, seed)
    asked = Asked(requests=tuple(requests), seed=seed, draws=draws, batch=batch, device=device)
    with (
        shared_entry(cache, {"values": torch.from_numpy(np.ascontiguousarray(values))}) as key,
        (progress or Silent()).phase("Training shadow models", count, "models") as advance,
    ):
        common: dict[str, Any] = {
            "denoiser": shaped(denoiser),
            "points": key,
            "content": points.sha256,
            "asked": asked,
            "recipe": recipe,
            "cache": cache,
        }
        jobs = [_Job(**common, kept=keep[model], model=model) for model in range(count)]

        # Chunks are scored in order: a model that has the last one has them all.
        last = list(chunks_of(len(values)))[-1]
        numbers = np.arange(last.start, last.stop)

        def made(model: int) -> bool:
            return scores_there(jobs[model].trained, values, last, numbers, asked, cache)

        spread(
            _shadow,
            jobs,
            made=made,
            machines=machines_for(machines, denoiser),
            things="shadow models",
            done=lambda model: advance(1),
        )
        if machines.part is not None:
            return None
        rows = [read_scores(job.trained, values, asked, cache) or _again(job, values) for job in jobs]
    return Shadows(keep=keep, scores={one: np.stack([row[one] for row in rows]) for one in requests})


def _again(job: _Job, values: NDArray[np.float32]) -> dict[Request, Floats]:
    """Return the scores of a shadow model whose entries were damaged since: they are computed again."""
    with as_a_job():
        _shadow(job)
    found = read_scores(job.trained, values, job.asked, job.cache)
    if found is None:
        hint = "Look at the disk, then run the same command again: it resumes."
        raise IncompleteError("Scores were written and cannot be read.", where=str(job.cache.folder), hint=hint)
    return found


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


def _shadow(job: _Job) -> None:
    """Train one shadow model unless it is cached, and score all points; on one core, for equal bits anywhere."""
    denoiser, recipe, asked, cache = job.denoiser, job.recipe, job.asked, job.cache
    values = read_shared(cache, job.points)["values"].numpy()
    module = fresh_weights(denoiser.module, job.seed)
    entry = cache.read(KIND, job.key)
    if entry is not None and entry.keys() == module.state_dict().keys():
        module.load_state_dict(entry)
    else:
        fit_denoiser(
            module.to(asked.device),
            np.ascontiguousarray(values[job.kept]),
            alphas_bar=denoiser.alphas_bar,
            steps=recipe.steps,
            batch=min(recipe.batch, int(job.kept.sum())),
            rate=recipe.rate,
            seed=job.seed,
            prediction=denoiser.prediction,
            label=f"shadow model {job.model}",
        )
        cache.write(KIND, job.key, {name: weight.cpu() for name, weight in module.state_dict().items()})
    shadow = replace(job.trained, module=module.requires_grad_(False).eval())
    score_denoiser(shadow, values, **asked.call, cache=cache, progress=Silent(), label="")
