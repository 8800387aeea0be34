"""What would the score of a point be if the model had, or had not, been trained on it?

Shadow models have the network of the audited one and fresh weights; each is trained on a random half of the points, and
a second on the other half, so that every point is in as many models as any other. All are asked with the same noise.
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

from probes.attacks.denoiser import Request, score_denoiser
from probes.cache import Cache
from probes.diffusion import Denoiser
from probes.errors import InputError
from probes.generative_training import fit_denoiser, one_thread, stream
from probes.loading.hashing import sha256_json
from probes.loading.point_sets import PointSet
from probes.progress import Progress, Silent

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
    """Shadow models as their scores: `keep` (models, n) tells who was trained on what, `scores` are (models, n)."""

    keep: Bools
    scores: Mapping[Request, Floats]


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
    workers: int,
    seed: int,
    draws: int,
    batch: int,
    device: str,
    cache: Cache,
    progress: Progress | None = None,
) -> Shadows:
    """Train shadow models, or take those that the cache has, and put all points to each of them.

    Parameters
    ----------
    count
        Models, an even number.
    workers
        Processes that train side by side, each on one core; 0: one for each core. On a GPU, one after the other.
    seed
        Of the halves, of training, and of the noise that the points meet: the seed with which the audited model is
        asked, for scores are only comparable under the same noise.

    Raises
    ------
    InputError
        Where the network cannot be given fresh weights, or a training diverges.
    """
    from joblib import Parallel, delayed

    keep = complementary_halves(count, len(points), seed)
    values = points.block(0, len(points))
    values = 2 * values - 1 if points.pixels else values
    fresh_weights(denoiser.module, seed)
    ask: dict[str, Any] = {"requests": tuple(requests), "seed": seed, "draws": draws, "batch": batch, "device": device}
    jobs = (
        delayed(_shadow)(_shaped(denoiser), points.sha256, values, keep[model], model, recipe, ask, cache)
        for model in range(count)
    )
    lanes = 1 if device != "cpu" else (workers or -1)
    rows: list[dict[Request, Floats] | None] = [None] * count
    with (progress or Silent()).phase("Training shadow models", count, "models") as advance:
        for model, scores in Parallel(n_jobs=lanes, return_as="generator_unordered")(jobs):
            rows[model] = scores
            advance(1)
    done = [row for row in rows if row is not None]
    return Shadows(keep=keep, scores={one: np.stack([row[one] for row in done]) for one in requests})


def fresh_weights(module: nn.Module, seed: int) -> nn.Module:
    """Return a copy of a network with weights drawn anew by its own layers.

    Raises
    ------
    InputError
        Where it has weights that no layer can draw: they would carry what the audited model learnt into its shadows.
    """
    made = deepcopy(module)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        # What is still no number at the end was not drawn.
        for weight in made.parameters():
            weight.fill_(torch.nan)
        # Children first: a parent's own way of drawing them stands.
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
    """Return the denoiser on the CPU without gradients, as it is sent to a worker."""
    return replace(denoiser, module=deepcopy(denoiser.module).cpu())


def _shadow(
    denoiser: Denoiser,
    content: str,
    values: NDArray[np.float32],
    kept: Bools,
    model: int,
    recipe: Recipe,
    ask: Mapping[str, Any],
    cache: Cache,
) -> tuple[int, dict[Request, Floats]]:
    """Train one shadow model unless the cache has it, and score all points; on one core, for equal bits anywhere."""
    seed, device = int(ask["seed"]), str(ask["device"])
    own_seed = int(stream(seed, f"shadow {model}").initial_seed() % 2**31)
    module = fresh_weights(denoiser.module, own_seed)
    shapes = [[name, list(weight.shape)] for name, weight in module.state_dict().items()]
    schedule = [float(value) for value in denoiser.alphas_bar]
    # The hash of the audited model stands for all that a network computes and its layers do not show.
    key = [VERSION, denoiser.sha256, version("torch"), shapes, schedule, denoiser.prediction, content]
    key += [kept.tolist(), own_seed]
    key += [recipe.steps, recipe.batch, recipe.rate, device.partition(":")[0]]
    held = cache.read(KIND, key)
    with one_thread():
        if held is not None and held.keys() == module.state_dict().keys():
            module.load_state_dict(held)
        else:
            fit_denoiser(
                module.to(device),
                np.ascontiguousarray(values[kept]),
                alphas_bar=denoiser.alphas_bar,
                steps=recipe.steps,
                batch=min(recipe.batch, int(kept.sum())),
                rate=recipe.rate,
                seed=own_seed,
                prediction=denoiser.prediction,
                label=f"shadow model {model}",
            )
            cache.write(KIND, key, {name: weight.cpu() for name, weight in module.state_dict().items()})
        shadow = replace(
            denoiser, module=module.requires_grad_(False).eval(), sha256=sha256_json(key), path=f"shadow model {model}"
        )
        scores = score_denoiser(
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
    return model, scores
