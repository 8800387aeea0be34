"""Cost of a method: layers of work and of span as counted, and bytes kept as measured."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from probes.gradients.estimators import Batch
from probes.gradients.networks import Mlp, Recurrent, ResMlp

BJORCK = 20
"""Rounds that re-orthogonalise the weights before every step of FOTON, as its authors' code does."""


@dataclass(frozen=True, slots=True)
class Cost:
    """In units of one layer's forward pass: `work` in all, `span` of what must come one after the other."""

    work: float
    span: float


def depth_of(model: nn.Module, batch: Batch) -> int | None:
    """Return how many layers follow one another: of a cell the steps, of residual blocks the blocks."""
    if isinstance(model, Recurrent):
        return batch.inputs.shape[1]
    return len(model.layers) if isinstance(model, Mlp) else len(model.blocks) if isinstance(model, ResMlp) else None


def counted(method: str, depth: int, *, ratio: float = 0.0) -> Cost | None:
    """Return the cost of one gradient through `depth` equal layers, or None for a method without a known count.

    Forward, the gradient of the data and that of the weights cost 1 each in a dense layer. `ratio` is width by batch
    size: the cost of a product of two weight matrices, of which FOTON needs one a layer for its feedback and two for
    each round of orthogonalisation. The span counts layers in sequence, however wide; sums over all of them as log2.
    A feedback that is fitted is taken as fitted once and for all; the seconds of `dsf:fitted-...` have a fit in each.

    >>> counted("bp", 8), counted("highway-2", 8), counted("dsf:linspace", 64)
    (Cost(work=24, span=16), Cost(work=32, span=16.0), Cost(work=192, span=70.0))
    """
    name, _, number = method.partition(":")[0].rpartition("-")
    if name in ("highway", "truncated", "chunked") and number.isdecimal():
        k = min(int(number), depth)
        if name == "chunked":
            return Cost(3 * depth, depth + k)
        return Cost(depth * (2 + k), depth + k * (1 + math.log2(depth) if name == "highway" else 1))
    costs = {
        # Ours of a sign or of a minibatch is that of the gradient that it is taken from.
        **dict.fromkeys(("bp", "minibatch", "sign", "fa", "pepita"), Cost(3 * depth, 2 * depth)),
        "foton": Cost(depth * (3 + ratio * (1 + 2 * BJORCK)), 2 * depth),
        # Each layer has its feedback from the output at once.
        "dfa": Cost(3 * depth, depth + 1),
        # The tangent of a layer is two products, beside the layer.
        "forward-gradient": Cost(3 * depth, depth),
        "dsf": Cost(3 * depth, depth + math.log2(depth)),
    }
    return costs.get(method.partition(":")[0])


def saved_bytes(call: Callable[[], object], held: Iterable[Tensor] = ()) -> int | None:
    """Return the bytes that one call saves for its backward passes: each storage once, those `held` before not.

    What a method keeps by itself is not seen; what it frees is not taken off. None inside transforms of torch.func.
    """
    outside = {one.untyped_storage().data_ptr() for one in held}
    kept: dict[int, Tensor] = {}

    def keep(saved: Tensor) -> Tensor:
        # Held until the end, so that no later storage gets the address of one that was freed.
        kept.setdefault(saved.untyped_storage().data_ptr(), saved.detach())
        return saved.detach()

    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
            call()
    except RuntimeError as error:
        if "saved tensor hooks" in str(error) or "python storage" in str(error):
            return None
        raise
    return sum(one.untyped_storage().nbytes() for address, one in kept.items() if address not in outside)
