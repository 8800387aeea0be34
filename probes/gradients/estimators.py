"""Estimators of a loss's gradient: the interface that anybody's package can meet, and the checks before one is used.

A package offers estimators through the entry-point group `miles.estimators`; each entry names a class that is called
without arguments.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

GROUP = "miles.estimators"
Gradients = Mapping[str, Tensor]
"""By the names of `model.named_parameters()`, of the same shapes; a parameter that gets no gradient is absent."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""Of the model's output and the targets: one number, a mean over the batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs and targets, with the batch as their first axis."""

    inputs: Tensor
    targets: Tensor


class Estimator(Protocol):
    """An estimator of the gradient.

    `stochastic` says that it draws random numbers, from the generator that it is given and from nowhere else.
    """

    @property
    def name(self) -> str:
        """The name of the method, with its setting."""

    @property
    def stochastic(self) -> bool:
        """Whether it draws random numbers."""

    def supports(self, model: nn.Module) -> str | None:
        """Return None where it can be used on this model, else the reason why not."""

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Return its estimate; the model, its buffers and its `.grad` stay as they are."""


def backpropagated(model: nn.Module, batch: Batch, loss: Loss) -> dict[str, Tensor]:
    """Return the gradient by backpropagation; parameters that are frozen or do not move the loss are absent."""
    names, parameters = zip(*((name, p) for name, p in model.named_parameters() if p.requires_grad), strict=True)
    value = loss(model(batch.inputs), batch.targets)
    found = torch.autograd.grad(value, parameters, allow_unused=True)
    return {name: gradient for name, gradient in zip(names, found, strict=True) if gradient is not None}
