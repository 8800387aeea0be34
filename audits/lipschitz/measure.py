"""The counts of the audit: both bounds of every layer, their product through the network, and the margins of images."""

import math
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import torch

from audits.core.context import Cache, Context
from audits.core.records import Coordinate
from audits.lipschitz import Options
from audits.lipschitz.ascent import Ascent, ascend
from audits.lipschitz.inputs import Inputs, layer_name, part_name
from audits.lipschitz.margins import Answer, measure_margins
from probes.classifiers.linear_operators import Convolution, Operator, Transposed
from probes.classifiers.lipschitz_bound import LipschitzBound, lipschitz_bound
from probes.classifiers.spectral_norm import DOWN, EXACT_UP_TO, ITERATIONS, Norm, has_own_symbol
from probes.classifiers.spectral_norm import measure as measure_norm
from probes.core.errors import IncompleteError

CACHE = "spectral-norms"
VERSION = 2
"""Part of the key of every kept norm: another one measures them again."""
_KINDS = ("exact", "gram")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The bounds of layers and network, and the answers to images.

    Parameters
    ----------
    attained
        The product with the lower bounds of the layers in place of the upper ones.
    answers
        One an image; empty without images.
    classes
        Name, or number, of each class with enough images for a radius of its own, by its label.
    ascent
        What ascents met; None where none was asked for.
    """

    bound: LipschitzBound
    attained: float
    answers: tuple[Answer, ...] = ()
    classes: dict[int, Coordinate]
    ascent: Ascent | None = None

    @property
    def near_images(self) -> float:
        """The largest slope near images, rounded down: a lower bound must not exceed the truth."""
        return max((answer.slope for answer in self.answers), default=0.0) * DOWN

    @property
    def steepest(self) -> float:
        """The largest slope that was met near images or by ascent, rounded down."""
        return max(self.near_images, self.ascent.steepest if self.ascent else 0.0)


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Bound every layer and the network, and measure the margin of every image.

    Raises
    ------
    IncompleteError
        Where the product is no number of float64, or the device runs out of memory.
    """
    module, shape = inputs.classifier.module, inputs.shape

    def norms(layer: Operator, steps: int) -> Norm:
        return cached_norm(layer, steps, context.cache)

    def attained(layer: Operator, steps: int) -> Norm:
        norm = norms(layer, steps)
        return replace(norm, value=norm.lower)

    raw = lipschitz_bound(module, shape, lower_steps=options.lower_steps, progress=context.progress, norms=norms)
    # The same way through the network, since a product over layers leaves out how they are joined.
    lower = lipschitz_bound(module, shape, lower_steps=options.lower_steps, norms=attained)
    if not math.isfinite(raw.product):
        raise IncompleteError(
            "The product of the bounds exceeds the largest number that float64 can hold.",
            where=inputs.classifier.reference,
            hint="Look for layers of very large weights; the weights may be damaged.",
        )
    bound = LipschitzBound(
        product=raw.product,
        linear=raw.linear,
        layers=tuple(replace(layer, name=layer_name(layer.name, inputs.classifier)) for layer in raw.layers),
        stages=tuple(replace(stage, name=part_name(stage.name, inputs.classifier)) for stage in raw.stages),
    )
    answers: list[Answer] = []
    if inputs.images is not None:
        answers = measure_margins(
            inputs.classifier, inputs.images, bound.product, device=context.device, progress=context.progress
        )
    return Counts(
        bound=bound,
        attained=lower.product,
        answers=tuple(answers),
        classes=inputs.classes,
        ascent=ascend(options, inputs, context),
    )


def cached_norm(layer: Operator, steps: int, cache: Cache) -> Norm:
    """Return the norm of a layer, from the cache where the same weights were measured before."""
    # By the weights, not by the checkpoint: networks that share a layer share its norm.
    key = [VERSION, torch.__version__, _content(layer), steps, EXACT_UP_TO, ITERATIONS]
    stored = cache.read(CACHE, key)
    if stored is None:
        norm = measure_norm(layer, steps=steps)
        numbers = torch.tensor([norm.value, norm.lower], dtype=torch.float64)
        positions = torch.tensor([_KINDS.index(norm.kind), *norm.grid])
        cache.write(CACHE, key, {"numbers": numbers, "places": positions})
        return norm
    value, lower = stored["numbers"].tolist()
    kind, height, width = stored["places"].tolist()
    return Norm(
        value=value,
        lower=lower,
        kind="gram" if kind else "exact",
        tight=not kind and has_own_symbol(layer),
        grid=(height, width),
        seconds=0.0,
    )


def _content(layer: Operator) -> list[Any]:
    if isinstance(layer, Transposed):
        # Both have one norm, and are measured in one way.
        return _content(layer.convolution)
    # In float64, in which the norm is computed: a file in another precision with equal weights is the same layer.
    weight = layer.weight.detach().cpu().double().contiguous()
    digest = sha256(weight.numpy().tobytes()).hexdigest()
    if not isinstance(layer, Convolution):
        return [digest, list(weight.shape)]
    geometry = [layer.size, layer.stride, layer.padding, layer.dilation, layer.groups, layer.circular]
    return [digest, list(weight.shape), geometry]
