"""The audit from plan to draft: bound the layers, combine, measure margins, estimate, judge, draw, list."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import torch

from audits.context import Cache, Context, Draft, Plan
from audits.lipschitz import Options
from audits.lipschitz.figures import draw
from audits.lipschitz.inputs import MIN_IMAGES, Inputs, layer_name
from audits.lipschitz.judging import judge
from audits.lipschitz.margins import Answer, measure_margins, median_with_interval
from audits.numbers import ATTAINED, UPPER_BOUND
from audits.records import Coordinate, Coverage, Estimate
from probes.errors import IncompleteError
from probes.lipschitz_bound import LipschitzBound, lipschitz_bound
from probes.spectral_norm import DOWN, EXACT_UP_TO, ITERATIONS, UP, Convolution, Norm, Operator, has_own_symbol, measure

CACHE = "spectral-norms"
_VERSION = 2
MEDIAN = "order statistics of the binomial"
LIMITATIONS = (
    "A bound from above: the true constant may be far smaller. A large bound is no sign of a fragile network, and a "
    "radius of nearly zero does not mean that a small change would alter an answer.",
    "Changes are measured in l2, over all pixels at once. A change of each of d pixel values by at most e has an l2 "
    "norm of at most e sqrt(d); turning, shifting or relighting a picture is a large change in l2.",
    "The bounds are of the network in real arithmetic. The network as it is run rounds, in float32 or less, and could "
    "differ at an image whose margin is as small as that rounding.",
    "The bound of a layer of kind gram is that of a periodic layer which it is a part of, as with zero padding; the "
    "norm of the layer itself lies between its two bounds.",
)
OF_IMAGES = (
    "Radii hold for these images one by one. The interval of their median takes them as a random sample of the images "
    "that the classifier is for."
)
_KINDS = ("exact", "gram")
OF_LAYER = f"{UPPER_BOUND} that of a periodic layer which this one is a part of; the lower end was attained"
OF_OPERATION = f"{UPPER_BOUND} a formula"
OF_NETWORK = f"{UPPER_BOUND} proved from the bounds of all layers"
IN_LAYER = f"{ATTAINED} a stretch met by power iteration; the upper end is the proved bound"
IN_NETWORK = f"{ATTAINED} the largest slope that was met; the upper end is the proved bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured; `attained` is the product with the lower bounds of the layers in place of the upper ones."""

    bound: LipschitzBound
    attained: float
    answers: tuple[Answer, ...]


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs: Inputs = plan.inputs
    found = _measure(inputs, options, context)
    draft = Draft(limitations=list(LIMITATIONS), coverage=_coverage(inputs, found))
    for note in plan.notes:
        draft.warn("input", note)
    # Rounded down: a constant that was attained bounds from below, and must not exceed the truth.
    steepest = max((answer.slope for answer in found.answers), default=0.0) * DOWN
    add_layers(draft, found.bound, steepest, context)
    if found.answers:
        draft.limitations.append(OF_IMAGES)
        add_answers(draft, found, steepest, inputs, context)
    judge(draft, found.bound, found.attained, found.answers)
    draft.figures = draw(draft, found.bound, found.answers, context.level)
    draft.records = _records(found)
    return draft


def _measure(inputs: Inputs, options: Options, context: Context) -> Found:
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
        layers=tuple(replace(layer, name=layer_name(layer.name, inputs.classifier)) for layer in raw.layers),
        stages=tuple(replace(stage, name=layer_name(stage.name, inputs.classifier)) for stage in raw.stages),
    )
    answers: list[Answer] = []
    if inputs.images is not None:
        answers = measure_margins(
            inputs.classifier, inputs.images, bound.product, device=context.device, progress=context.progress
        )
    return Found(bound=bound, attained=lower.product, answers=tuple(answers))


def cached_norm(layer: Operator, steps: int, cache: Cache) -> Norm:
    """Return the norm of a layer, from the cache where the same weights were measured in the same place before."""
    # By the weights, not by the checkpoint: networks that share a layer share its norm.
    key = [_VERSION, torch.__version__, _content(layer), steps, EXACT_UP_TO, ITERATIONS]
    stored = cache.read(CACHE, key)
    if stored is None:
        norm = measure(layer, steps=steps)
        numbers = torch.tensor([norm.value, norm.lower], dtype=torch.float64)
        places = torch.tensor([_KINDS.index(norm.kind), *norm.grid])
        cache.write(CACHE, key, {"numbers": numbers, "places": places})
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
    # In float64, in which the norm is computed: a file in another precision with equal weights is the same layer.
    weight = layer.weight.detach().cpu().double().contiguous()
    digest = sha256(weight.numpy().tobytes()).hexdigest()
    if not isinstance(layer, Convolution):
        return [digest, list(weight.shape)]
    place = [layer.size, layer.stride, layer.padding, layer.dilation, layer.groups, layer.circular]
    return [digest, list(weight.shape), place]


def add_layers(draft: Draft, bound: LipschitzBound, steepest: float, context: Context) -> None:
    """Add both bounds of each layer and the bound of the network; nothing of it was sampled."""
    one: dict[str, Any] = {"level": context.level, "n": 1, "unit": "layers"}
    for layer in bound.layers:
        where: dict[str, Coordinate] = {"layer": layer.name}
        if layer.lower is None:
            # The constant of the formula itself: what was added against rounding would show as a digit of its own.
            value = float(f"{layer.bound / UP:.12g}")
            draft.add(_bounded("operation_constant", value, 0.0, method=OF_OPERATION, where=where, **one))
            continue
        where_upper = {**where, "kind": layer.method}
        if layer.method == "exact":
            draft.add(Estimate(name="spectral_norm", value=layer.bound, method="exact", where=where_upper, **one))
        else:
            draft.add(_bounded("spectral_norm", layer.bound, layer.lower, method=OF_LAYER, where=where_upper, **one))
        where_lower = {**where, "kind": "lower"}
        draft.add(_attained("spectral_norm", layer.lower, layer.bound, method=IN_LAYER, where=where_lower, **one))
    weights = sum(layer.lower is not None for layer in bound.layers)
    method = f"{OF_NETWORK}; the lower end is the largest slope that was met" if steepest else OF_NETWORK
    whole: dict[str, Any] = {**one, "n": weights}
    draft.add(_bounded("product_bound", bound.product, min(steepest, bound.product), method=method, **whole))


def _bounded(name: str, value: float, attained: float, **rest: Any) -> Estimate:
    return Estimate(name=name, value=value, low=attained, high=value, **rest)


def _attained(name: str, value: float, proved: float, **rest: Any) -> Estimate:
    return Estimate(name=name, value=value, low=value, high=max(proved, value), **rest)


def add_answers(draft: Draft, found: Found, steepest: float, inputs: Inputs, context: Context) -> None:
    """Add the largest slope that was met, and the median radius of all images and of each class with enough."""
    answers = found.answers
    draft.add(
        _attained(
            "constant_lower",
            steepest,
            found.bound.product,
            method=IN_NETWORK,
            level=context.level,
            n=len(answers),
            unit="images",
        )
    )
    _add_radius(draft, answers, {}, context)
    for label, name in inputs.classes.items():
        _add_radius(draft, [answer for answer in answers if answer.label == label], {"label": name}, context)
    labels = {answer.label for answer in answers}
    few = len(labels) - len(inputs.classes)
    if few and len(labels) > 1:
        draft.warn(
            "few-images",
            f"{few} of {len(labels)} classes have fewer than {MIN_IMAGES} images and no radius of their own.",
        )


def _add_radius(draft: Draft, answers: Sequence[Answer], where: dict[str, Coordinate], context: Context) -> None:
    radii = [answer.radius for answer in answers]
    middle = median_with_interval(radii, context.level)
    if middle is None:
        ordered = sorted(radii)
        value, low, high = ordered[(len(radii) - 1) // 2], None, None
        draft.warn(
            "no-interval",
            f"{len(radii)} images are too few for an interval of their median at this level.",
            **where,
        )
    else:
        value, low, high = middle
    draft.add(
        Estimate(
            name="margin_radius",
            value=value,
            low=low,
            high=high,
            level=context.level,
            method="none" if middle is None else MEDIAN,
            n=len(radii),
            unit="images",
            where=where,
        )
    )


def _coverage(inputs: Inputs, found: Found) -> Coverage:
    count = len(inputs.images) if inputs.images is not None else len(found.bound.layers)
    return Coverage(given=count, used=count)


def _records(found: Found) -> list[dict[str, Any]]:
    """Return a row an image, or without images a row a layer."""
    if found.answers:
        return [
            {
                "idx": place,
                "label": answer.label,
                "predict": answer.predict,
                "margin": answer.margin,
                "radius": answer.radius,
                "correct": int(answer.correct),
                "slope": answer.slope,
            }
            for place, answer in enumerate(found.answers)
        ]
    return [
        {
            "layer": layer.name,
            "kind": layer.kind,
            "method": layer.method,
            "bound": layer.bound,
            "lower": "" if layer.lower is None else layer.lower,
            "height": layer.grid[0] if layer.grid else "",
            "width": layer.grid[1] if layer.grid else "",
            "stride": "x".join(map(str, layer.stride)) if layer.stride else "",
            "padding": ",".join(map(str, layer.padding)) if layer.padding else "",
        }
        for layer in found.bound.layers
    ]
