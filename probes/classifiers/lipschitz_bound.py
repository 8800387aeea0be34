"""Upper bound of the l2 Lipschitz constant of a network, from pixels to logits.

The constants of its operations multiply along a chain, add up where branches are added, and combine as the
root of squares where they are concatenated.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from probes.classifiers.linear_operators import Operator, Pair, Transposed, convolution_of
from probes.classifiers.lipschitz_steps import Shape, Step, read_steps
from probes.classifiers.spectral_norm import STEPS, UP, Norm, measure
from probes.core.progress import Progress, Silent

Method = Literal["exact", "gram", "proven"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBound:
    """The bound of one layer that has weights, or whose constant is not 1.

    Parameters
    ----------
    bound, method
        Upper bound of the Lipschitz constant: "exact" where it is the layer's norm itself, "gram" where it bounds the
        norm from above by Gram matrices of a periodic layer, "proven" by a formula.
    lower
        A norm that was reached by a vector, for layers with weights.
    grid, stride, padding
        Height and width of the input, strides, and cells added above, below, left and right; of convolutions. A
        transposed one cuts so many cells off.
    """

    name: str
    kind: str
    method: Method
    bound: float
    lower: float | None = None
    grid: Pair | None = None
    stride: Pair | None = None
    padding: tuple[int, int, int, int] | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of the network whose output is all that the rest reads, and the bound of that part alone."""

    name: str
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LipschitzBound:
    """|logits(x) - logits(y)| <= product |x - y| in l2, for all pictures x and y; `stages` multiply to it.

    `linear` tells that the logits are a matrix times the pixels, plus a constant: then one slope holds everywhere.
    """

    product: float
    layers: tuple[LayerBound, ...]
    stages: tuple[Stage, ...]
    linear: bool = False


Measure = Callable[[Operator, int], Norm]
"""How a layer is measured, given it and the steps of the power iteration; a cache may stand in."""


def _measure(layer: Operator, steps: int) -> Norm:
    return measure(layer, steps=steps)


def lipschitz_bound(
    module: nn.Module,
    shape: Shape,
    *,
    lower_steps: int = STEPS,
    progress: Progress = Silent(),
    norms: Measure = _measure,
) -> LipschitzBound:
    """Bound the l2 Lipschitz constant of a network's logits with respect to its pixels.

    Holds for the function in evaluation mode in real arithmetic. Batch normalisations are folded into the
    layer before them where they can be. Every constant but 1 is raised by a factor 1 + 1e-9 against rounding.

    Parameters
    ----------
    shape
        Channels, height and width of a picture.
    lower_steps
        Most steps of the power iteration behind `lower`.
    norms
        How a layer with weights is measured.

    Raises
    ------
    InputError
        Where the network has an operation without a proven constant, or does not take such pictures.

    Examples
    --------
    >>> net = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 2, bias=False))
    >>> _ = nn.init.constant_(net[2].weight, 1.0)
    >>> bound = lipschitz_bound(net, (1, 4, 4))
    >>> [round(layer.bound, 6) for layer in bound.layers], round(bound.product, 6)
    ([0.5, 2.828427], 1.414214)
    """
    steps = read_steps(module, shape)
    layers: list[LayerBound] = []
    reached: list[float] = []
    with progress.phase("Layer bounds", len(weighted(steps)), "layers") as advance:
        for step in steps:
            record = _bound_of(step, lower_steps, norms)
            if record.method != "proven" or record.bound != 1.0:
                layers.append(record)
            reached.append(record.bound * _joined(step, reached))
            if not isinstance(step.constant, float):
                advance(1)
    linear = all(step.linear for step in steps)
    return LipschitzBound(product=reached[-1], layers=tuple(layers), stages=_stages(steps, reached), linear=linear)


def weighted(steps: Sequence[Step]) -> list[tuple[Step, Operator]]:
    """Return the steps with weights, whose norms are expensive, with their operators."""
    return [(step, step.constant) for step in steps if not isinstance(step.constant, float)]


def softmax_bound(logits: float) -> float:
    """Return the Lipschitz constant of each softmax output, given that of the logits.

    The gradient of p_c by the logits is p_c (e_c - p), of squared length p_c^2 ((1 - p_c)^2 + sum of the other
    p_i^2) <= 2 p_c^2 (1 - p_c)^2, since the others are at least zero and sum to 1 - p_c. As p (1 - p) <= 1/4, its
    length is at most sqrt(2)/4, which two classes at p = 1/2 attain.

    Examples
    --------
    >>> round(softmax_bound(4.0), 4)
    1.4142
    """
    return math.sqrt(2) / 4 * logits * UP


def _bound_of(step: Step, lower_steps: int, norms: Measure) -> LayerBound:
    if isinstance(step.constant, float):
        bound = step.constant if step.constant == 1.0 else step.constant * UP
        return LayerBound(name=step.name, kind=step.kind, method="proven", bound=bound)
    norm = norms(step.constant, lower_steps)
    conv = convolution_of(step.constant)
    # A transposed convolution takes what its convolution gives.
    forwards = step.constant if isinstance(step.constant, Transposed) else conv
    return LayerBound(
        name=step.name,
        kind=step.kind,
        method="exact" if norm.tight else "gram",
        bound=norm.value,
        lower=norm.lower,
        grid=forwards.size if forwards else None,
        stride=forwards.stride if forwards else None,
        padding=conv.padding if conv else None,
        seconds=norm.seconds,
    )


def _joined(step: Step, reached: Sequence[float]) -> float:
    """Return the Lipschitz constant, with respect to the pixels, of the input of a step."""
    parts = [
        spread * (1.0 if source < 0 else reached[source])
        for source, spread in zip(step.sources, step.spreads, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return (math.hypot(*parts) if step.combine == "root" else sum(parts)) * UP


def _stages(steps: Sequence[Step], reached: Sequence[float]) -> tuple[Stage, ...]:
    """Cut the network after each step that alone is read by what follows; stages of factor 1 are left out."""
    last_use = {-1: -1}
    for index, step in enumerate(steps):
        last_use |= dict.fromkeys(step.sources, index)
    stages, begun, before, open_until = [], 0, 1.0, last_use[-1]
    for index in range(len(steps)):
        # Only where no later step reads past this one do the factors before and behind it multiply.
        if open_until <= index:
            factor = reached[index] / before if before else 0.0
            if factor != 1.0:
                stages.append(Stage(name=_common(steps[begun : index + 1]), factor=factor))
            begun, before = index + 1, reached[index]
        open_until = max(open_until, last_use.get(index, index))
    return tuple(stages)


def _common(steps: Sequence[Step]) -> str:
    """Return the module path that the steps of a stage share, or its first and last step."""
    if len(steps) == 1:
        return steps[0].name
    paths = [step.name.split(".") for step in steps]
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared) or f"{steps[0].name} to {steps[-1].name}"
