"""Progress of one step along an estimate, as a share of that of a step along the gradient, each of best length.

To second order the best step along g gains (r.g)^2 / (2 g.Hg), r the gradient and H the Hessian. The sign of r.g is
not in it: whether g leads down at all is told by the cosine.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from probes.gradients.estimators import Batch, Gradients, Loss

STEPS = tuple(2.0**power for power in range(-12, 3))
"""Lengths of steps that are tried, as multiples of the gradient's own."""
TWICE = "a part of the model cannot be differentiated twice"
FLAT = "curvature along the gradient is not positive"
BENT = "curvature along the estimate is not positive"
ZERO = "the gradient or the estimate is zero"
STUCK = "no step along the gradient lowers the loss on the other batch"


@dataclass(frozen=True, slots=True)
class Progress:
    """Shares of the gradient's progress; None where there is none, with the reason by kind."""

    curvature: float | None
    line_search: float | None
    reasons: Mapping[str, str]


def progress(
    model: nn.Module,
    batch: Batch,
    loss: Loss,
    reference: Gradients,
    estimates: Mapping[str, Gradients],
    held_out: Batch | None = None,
) -> dict[str, Progress]:
    """Return the progress of estimates by their names; that of equal curvature, cos^2, follows from `Agreement`.

    With another batch, line_search is the loss that the best of `STEPS` really takes off it; an estimate is first
    scaled to the length of the gradient, since its scale is a matter of the learning rate.
    """
    curvatures = curvatures_along(model, batch, loss, [reference, *estimates.values()])
    best = None if held_out is None else largest_decrease(model, held_out, loss, reference)
    squared = inner(reference, reference)
    found = {}
    for (name, estimate), bent in zip(estimates.items(), curvatures[1:], strict=True):
        along, square, reasons = inner(reference, estimate), inner(estimate, estimate), {}
        if not squared * square > 0:
            found[name] = Progress(None, None, dict.fromkeys(("curvature", "line_search"), ZERO))
            continue
        ratio = searched = None
        if curvatures[0] > 0 and bent > 0:
            ratio = along**2 / bent / (squared**2 / curvatures[0])
        else:
            unknown = math.isnan(curvatures[0] + bent)
            reasons["curvature"] = TWICE if unknown else BENT if curvatures[0] > 0 else FLAT
        if held_out is not None and best:
            scaled = {key: part * (squared / square) ** 0.5 for key, part in estimate.items()}
            searched = largest_decrease(model, held_out, loss, scaled) / best
        elif held_out is not None:
            reasons["line_search"] = STUCK
        found[name] = Progress(ratio, searched, reasons)
    return found


def curvatures_along(model: nn.Module, batch: Batch, loss: Loss, directions: list[Gradients]) -> list[float]:
    """Return v.Hv for directions v, by reverse over reverse: one graph for all, one pass back through it for each.

    NaN where a part of the model cannot be differentiated twice.
    """
    try:
        # Fused attention has no second derivative.
        with sdpa_kernel(SDPBackend.MATH):
            return _curvatures(model, batch, loss, directions)
    except RuntimeError as error:
        if "is not implemented" in str(error) or "once_differentiable" in str(error):
            return [math.nan] * len(directions)
        raise


def _curvatures(model: nn.Module, batch: Batch, loss: Loss, directions: list[Gradients]) -> list[float]:
    names, parameters = zip(*((name, p) for name, p in model.named_parameters() if p.requires_grad), strict=True)
    value = loss(model(batch.inputs), batch.targets)
    slopes = torch.autograd.grad(value, parameters, create_graph=True, allow_unused=True)
    there = [(name, own) for name, own in zip(names, slopes, strict=True) if own is not None and own.requires_grad]
    found = []
    for direction in directions:
        parts = [(own * direction[name].detach()).sum() for name, own in there if name in direction]
        if not parts:
            found.append(0.0)
            continue
        turned = torch.autograd.grad(torch.stack(parts).sum(), parameters, retain_graph=True, allow_unused=True)
        products = {name: part for name, part in zip(names, turned, strict=True) if part is not None}
        found.append(inner(products, direction))
    return found


@torch.no_grad()
def largest_decrease(model: nn.Module, batch: Batch, loss: Loss, direction: Gradients) -> float:
    """Return by how much the best of `STEPS` against a direction lowers the loss; 0 where none does."""
    # A twin moves: the model, and what its layers remember of batches, stay.
    twin = copy.deepcopy(model)
    moving = {name: part for name, part in twin.named_parameters() if name in direction}
    start, before, best = float(loss(twin(batch.inputs), batch.targets)), 0.0, 0.0
    for step in STEPS:
        torch._foreach_add_(list(moving.values()), [direction[name] for name in moving], alpha=before - step)
        before = step
        gain = start - float(loss(twin(batch.inputs), batch.targets))
        # A loss that is not a number is no gain.
        best = gain if gain > best else best
    return best


def inner(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """Return the inner product over the parameters that both hold."""
    return sum(float((part.double() * other[name].double()).sum()) for name, part in one.items() if name in other)
