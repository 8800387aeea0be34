"""Estimators without a pass back through the weights: by fixed feedback, or by a second forward pass.

All are of layers in a row, h_l = act(z_l), z_l = W_l h_{l-1} + b_l, with e = dL/dz_L in rows of a batch. Each returns
the gradient of a mean over the batch, with biases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

from probes.core.random_streams import stream
from probes.gradients.estimators import Batch, Gradients, Loss
from probes.gradients.networks import ACTIVATIONS, Mlp
from probes.gradients.simple_methods import noise


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward pass: states h_0 ... h_{L-1}, slopes act'(z_1) ... act'(z_{L-1}), the error e and the rows of a batch.

    The error holds the 1 / rows of the loss's mean.
    """

    states: list[Tensor]
    slopes: list[Tensor]
    error: Tensor
    rows: int


def forward(model: Mlp, inputs: Tensor, targets: Tensor, loss: Loss) -> Pass:
    """Run layers in a row, one at a time, with nothing kept of a layer for those below."""
    states, slopes = [inputs.detach()], []
    act = ACTIVATIONS[model.act]
    with torch.enable_grad():
        for layer in model.layers[:-1]:
            before = layer(states[-1]).detach().requires_grad_()
            state = act(before)
            slopes += torch.autograd.grad(state.sum(), before)
            states.append(state.detach())
        output = model.layers[-1](states[-1]).detach().requires_grad_()
        (error,) = torch.autograd.grad(loss(output, targets), output)
    return Pass(states, slopes, error, output[..., 0].numel())


def _weights(model: Mlp) -> list[Tensor]:
    return [value.detach() for name, value in model.named_parameters() if name.endswith("weight")]


def of_layers(model: Mlp, signals: Sequence[Tensor], states: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the gradients of layers from their signals, dL/dz_l or what stands for it, and the states before them."""
    found = {}
    for at, (layer, signal, state) in enumerate(zip(model.layers, signals, states, strict=True)):
        rows = signal.flatten(0, -2)
        found[f"layers.{at}.weight"] = rows.T @ state.flatten(0, -2)
        if layer.bias is not None:
            found[f"layers.{at}.bias"] = rows.sum(0)
    return found


class Layered:
    """What fits layers in a row, and draws nothing once it is made."""

    stochastic = False

    def supports(self, model: nn.Module) -> str | None:
        """Return None for an `Mlp`, else the reason."""
        return None if isinstance(model, Mlp) else f"it needs layers in a row, and this is a {type(model).__name__}"


class Foton(Layered):
    """Forward-only training for orthogonal networks (arXiv 2512.20668): a finite step against e F, F = W_L ... W_1.

    The signal of a hidden layer is what the step changes behind its activation, divided by `eps`: 1 is the published
    rule, and where it goes to 0 the signal goes to D_l W_l ... D_1 W_1 F^T e. The last layer's is e itself. Equal to
    the gradient where all activations are linear and rows of every hidden W orthonormal. `feedback` stands for F, such
    as one of older weights.
    """

    name = "foton"

    def __init__(self, eps: float = 1.0, feedback: Tensor | None = None) -> None:
        self.eps, self.feedback = eps, feedback

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Return the differences between two forward passes."""
        assert isinstance(model, Mlp)
        clean = forward(model, batch.inputs, batch.targets, loss)
        feedback = reduce(torch.matmul, reversed(_weights(model))) if self.feedback is None else self.feedback
        # The error of one row, not its share in the mean: the step is that of the published rule.
        with torch.no_grad():
            stepped = model.states(clean.states[0] - self.eps * clean.rows * clean.error @ feedback)
        pairs = zip(clean.states[1:], stepped[1:-1], strict=True)
        signals = [(state - other) / (self.eps * clean.rows) for state, other in pairs]
        return of_layers(model, [*signals, clean.error], clean.states)


class Pepita(Layered):
    """PEPITA (Dellaferrera and Kreiman, ICML 2022): a finite step along e F with a fixed random F.

    As in its authors' code: F is uniform within `strength` sqrt(6 / features), states before a layer are those of the
    second pass, and so is the error of the last layer.
    """

    name = "pepita"

    def __init__(self, seed: int, strength: float = 0.05) -> None:
        self.seed, self.strength = seed, strength

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Return the differences between two forward passes."""
        assert isinstance(model, Mlp)
        clean = forward(model, batch.inputs, batch.targets, loss)
        shape = clean.error.shape[-1], batch.inputs.shape[-1]
        drawn = torch.rand(shape, generator=stream(self.seed, "pepita"), dtype=clean.error.dtype).to(clean.error)
        feedback = (2 * drawn - 1) * self.strength * math.sqrt(6 / shape[1])
        stepped = forward(model, clean.states[0] + clean.rows * clean.error @ feedback, batch.targets, loss)
        pairs = zip(clean.states[1:], stepped.states[1:], strict=True)
        signals = [(state - other) / clean.rows for state, other in pairs]
        return of_layers(model, [*signals, stepped.error], stepped.states)


class _FixedFeedback(Layered):
    """Signals by fixed matrices: normal with variance 1 / columns by the seed, or those given, of layers 2 to L."""

    name = ""

    def __init__(self, seed: int, matrices: Sequence[Tensor] | None = None) -> None:
        self.seed, self.matrices = seed, matrices

    def _drawn(self, shapes: Sequence[Sequence[int]], like: Tensor) -> Sequence[Tensor]:
        if self.matrices is not None:
            return self.matrices
        rng = stream(self.seed, self.name)
        return [noise(like.new_empty(shape), rng) / math.sqrt(shape[1]) for shape in shapes]


class Fa(_FixedFeedback):
    """Feedback alignment: backpropagation with a fixed random B_l in place of each W_l^T."""

    name = "fa"

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Send the error back through the fixed matrices, layer by layer."""
        assert isinstance(model, Mlp)
        run = forward(model, batch.inputs, batch.targets, loss)
        matrices = self._drawn([weight.shape for weight in _weights(model)[1:]], run.error)
        signals = [run.error]
        for matrix, slope in zip(reversed(matrices), reversed(run.slopes), strict=True):
            signals.insert(0, signals[0] @ matrix * slope)
        return of_layers(model, signals, run.states)


class Dfa(_FixedFeedback):
    """Direct feedback alignment: a fixed random matrix from the output to each hidden layer."""

    name = "dfa"

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Send the error to each layer at once."""
        assert isinstance(model, Mlp)
        run = forward(model, batch.inputs, batch.targets, loss)
        matrices = self._drawn([(run.error.shape[-1], slope.shape[-1]) for slope in run.slopes], run.error)
        pairs = zip(matrices, run.slopes, strict=True)
        signals = [run.error @ matrix * slope for matrix, slope in pairs]
        return of_layers(model, [*signals, run.error], run.states)
