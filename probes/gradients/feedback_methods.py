"""Estimators without a pass back through the weights: by fixed feedback, or by a second forward pass.

All are of layers in a row, h_l = act(z_l), z_l = W_l h_{l-1} + b_l, with e = dL/dz_L in rows of a batch. A layer's
signal stands for dL/dz_l; times the states before it gives the gradient of W_l, and summed that of b_l.
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
    """A forward pass: h_0 ... h_{L-1}, act'(z_1) ... act'(z_{L-1}), e with its share 1 / rows in the mean, and rows."""

    states: list[Tensor]
    slopes: list[Tensor]
    error: Tensor
    rows: int


def forward(model: Mlp, batch: Batch, loss: Loss) -> Pass:
    """Run layers in a row, one at a time, with nothing kept of a layer for those below."""
    states, slopes = [batch.inputs.detach()], []
    with torch.enable_grad():
        for layer in model.layers[:-1]:
            before = layer(states[-1]).detach().requires_grad_()
            state = ACTIVATIONS[model.act](before)
            slopes += torch.autograd.grad(state.sum(), before)
            states.append(state.detach())
        output = model.layers[-1](states[-1]).detach().requires_grad_()
        (error,) = torch.autograd.grad(loss(output, batch.targets), output)
    return Pass(states, slopes, error, output[..., 0].numel())


def weights_of(model: Mlp) -> list[Tensor]:
    """Return W_1 ... W_L."""
    return [value.detach() for name, value in model.named_parameters() if name.endswith("weight")]


class Layered:
    """Base of estimators that fit layers in a row, and draw nothing once they are made."""

    name = ""
    stochastic = False

    def supports(self, model: nn.Module) -> str | None:
        """Return None for an `Mlp`, else the reason."""
        return None if isinstance(model, Mlp) else f"it needs layers in a row, and this is a {type(model).__name__}"

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Return the estimate from the signals of the layers and the states before them."""
        assert isinstance(model, Mlp)
        found = {}
        signals, states = self._signals(model, forward(model, batch, loss), batch, loss)
        for at, (layer, signal, state) in enumerate(zip(model.layers, signals, states, strict=True)):
            rows = signal.flatten(0, -2)
            found[f"layers.{at}.weight"] = rows.T @ state.flatten(0, -2)
            if layer.bias is not None:
                found[f"layers.{at}.bias"] = rows.sum(0)
        return found

    def _signals(self, model: Mlp, run: Pass, batch: Batch, loss: Loss) -> tuple[list[Tensor], list[Tensor]]:
        raise NotImplementedError


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

    def _signals(self, model: Mlp, run: Pass, batch: Batch, loss: Loss) -> tuple[list[Tensor], list[Tensor]]:
        feedback = reduce(torch.matmul, reversed(weights_of(model))) if self.feedback is None else self.feedback
        # The error of one row, not its share in the mean: the step is that of the published rule.
        with torch.no_grad():
            stepped = model.states(run.states[0] - self.eps * run.rows * run.error @ feedback)
        pairs = zip(run.states[1:], stepped[1:-1], strict=True)
        return [*((state - other) / (self.eps * run.rows) for state, other in pairs), run.error], run.states


class Pepita(Layered):
    """PEPITA (Dellaferrera and Kreiman, ICML 2022): a finite step along e F with a fixed random F.

    As in its authors' code: F is uniform within `strength` sqrt(6 / features), states before a layer are those of the
    second pass, and so is the error of the last layer.
    """

    name = "pepita"

    def __init__(self, seed: int, strength: float = 0.05) -> None:
        self.seed, self.strength = seed, strength

    def _signals(self, model: Mlp, run: Pass, batch: Batch, loss: Loss) -> tuple[list[Tensor], list[Tensor]]:
        shape = run.error.shape[-1], batch.inputs.shape[-1]
        drawn = torch.rand(shape, generator=stream(self.seed, self.name), dtype=run.error.dtype).to(run.error)
        feedback = (2 * drawn - 1) * self.strength * math.sqrt(6 / shape[1])
        stepped = forward(model, Batch(run.states[0] + run.rows * run.error @ feedback, batch.targets), loss)
        pairs = zip(run.states[1:], stepped.states[1:], strict=True)
        return [*((state - other) / run.rows for state, other in pairs), stepped.error], stepped.states


class _FixedFeedback(Layered):
    """Signals by fixed matrices: normal with variance 1 / columns by the seed, or given, for layers 1 to L - 1."""

    def __init__(self, seed: int, matrices: Sequence[Tensor] | None = None) -> None:
        self.seed, self.matrices = seed, matrices

    def _drawn(self, like: Sequence[Tensor]) -> Sequence[Tensor]:
        rng = stream(self.seed, self.name)
        return self.matrices or [noise(one, rng) / math.sqrt(one.shape[1]) for one in like]


class Fa(_FixedFeedback):
    """Feedback alignment: backpropagation with a fixed random matrix in place of each W_l."""

    name = "fa"

    def _signals(self, model: Mlp, run: Pass, batch: Batch, loss: Loss) -> tuple[list[Tensor], list[Tensor]]:
        signals = [run.error]
        for matrix, slope in zip(reversed(self._drawn(weights_of(model)[1:])), reversed(run.slopes), strict=True):
            signals.insert(0, signals[0] @ matrix * slope)
        return signals, run.states


class Dfa(_FixedFeedback):
    """Direct feedback alignment: a fixed random matrix from the output to each hidden layer."""

    name = "dfa"

    def _signals(self, model: Mlp, run: Pass, batch: Batch, loss: Loss) -> tuple[list[Tensor], list[Tensor]]:
        matrices = self._drawn([run.error.new_empty(run.error.shape[-1], slope.shape[-1]) for slope in run.slopes])
        return [*(run.error @ b * slope for b, slope in zip(matrices, run.slopes, strict=True)), run.error], run.states
