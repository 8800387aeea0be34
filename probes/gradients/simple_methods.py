"""Estimators that fit every model: backpropagation, and what is made of it by signs and by chance."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from probes.gradients.estimators import Batch, Gradients, Loss, backpropagated


def noise(like: Tensor, rng: torch.Generator) -> Tensor:
    """Draw Gaussian noise of the shape and type of a tensor."""
    # Drawn where the generator lives, so that a seed means the same on every device.
    return torch.randn(like.shape, generator=rng, dtype=like.dtype, device=rng.device).to(like.device)


def forward_slope(function: Callable[[Any], Any], at: Any, along: Any) -> Any:
    """Return the derivative of a function of tensors along a direction, by forward differentiation."""
    with warnings.catch_warnings():
        # torch loads its own scripted formulas at the first call, and warns of scripting.
        warnings.filterwarnings("ignore", "`torch.jit.script", DeprecationWarning)
        return torch.func.jvp(function, (at,), (along,))[1]


class AnyModel:
    """Base of estimators that fit every model."""

    def supports(self, model: nn.Module) -> str | None:
        """Return None."""
        return None


class Bp(AnyModel):
    """Backpropagation itself."""

    name, stochastic = "bp", False

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Return the gradient."""
        return backpropagated(model, batch, loss)


class Sign(AnyModel):
    """The sign of each entry of the gradient, times the mean size of a parameter's entries."""

    name, stochastic = "sign", False

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Return the scaled signs."""
        return {name: g.sign() * g.abs().mean() for name, g in backpropagated(model, batch, loss).items()}


class Random(AnyModel):
    """Gaussian noise of expected squared norm 1 for each parameter: what knows nothing of the loss."""

    name, stochastic = "random", True

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Draw a direction."""
        parameters = ((name, p.detach()) for name, p in model.named_parameters() if p.requires_grad)
        return {name: noise(p, rng) / math.sqrt(max(p.numel(), 1)) for name, p in parameters}


class ForwardGradient(AnyModel):
    """(v . gradient) v for one Gaussian v, by forward differentiation: unbiased, E ||g||^2 = (P + 2) ||gradient||^2."""

    name, stochastic = "forward-gradient", True

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Draw a direction, and scale it by the loss's slope along it."""
        parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        directions = {name: noise(p, rng) for name, p in parameters.items()}

        def value(of: dict[str, Tensor]) -> Tensor:
            return loss(torch.func.functional_call(model, of, (batch.inputs,)), batch.targets)

        slope = forward_slope(value, parameters, directions)
        return {name: slope * v for name, v in directions.items()}
