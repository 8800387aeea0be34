"""Built-in networks whose parts the estimators can address: layers in a row, residual blocks, a recurrent cell."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from probes.gradients.estimators import Batch

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda z: z,
    "relu": torch.relu,
    "tanh": torch.tanh,
}


class Mlp(nn.Module):
    """Linear layers with an activation between them: h_l = act(W_l h_{l-1} + b_l), the last without one."""

    def __init__(self, widths: Sequence[int], act: str = "relu", *, bias: bool = True) -> None:
        super().__init__()
        self.act = act
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in pairs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the output, shape (batch, classes)."""
        return self.states(inputs)[-1]

    def states(self, inputs: Tensor) -> list[Tensor]:
        """Return the input, the state behind each layer, and the output: one more than there are layers."""
        found = [inputs]
        for at, layer in enumerate(self.layers):
            state = layer(found[-1])
            found.append(state if at == len(self.layers) - 1 else ACTIVATIONS[self.act](state))
        return found


class ResMlp(nn.Module):
    """Residual blocks h_{l+1} = h_l + scale act(W_l h_l + b_l), and a linear head."""

    def __init__(self, width: int, blocks: int, classes: int, act: str = "tanh", *, scale: float = 1.0) -> None:
        super().__init__()
        self.act, self.scale = act, scale
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.head = nn.Linear(width, classes)

    def branch(self, at: int, state: Tensor) -> Tensor:
        """Return what a block adds to its state."""
        return self.scale * ACTIVATIONS[self.act](self.blocks[at](state))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the output, shape (batch, classes)."""
        state = inputs
        for at in range(len(self.blocks)):
            state = state + self.branch(at, state)
        output: Tensor = self.head(state)
        return output


class Recurrent(nn.Module):
    """A cell over (batch, time, features) from a state of zeros, and a linear head at every step."""

    head: nn.Linear

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the next state, shape (batch, width)."""
        raise NotImplementedError

    def states(self, inputs: Tensor) -> Tensor:
        """Return the states behind each step, shape (batch, time, width)."""
        state = inputs.new_zeros(len(inputs), self.width)
        found = []
        for time in range(inputs.shape[1]):
            state = self.step(inputs[:, time], state)
            found.append(state)
        return torch.stack(found, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs, shape (batch, time, classes)."""
        outputs: Tensor = self.head(self.states(inputs))
        return outputs


class Gru(Recurrent):
    """A gated recurrent cell."""

    def __init__(self, features: int, width: int, classes: int, *, gate_bias: float = 0.0) -> None:
        super().__init__(width)
        self.cell = nn.GRUCell(features, width)
        self.head = nn.Linear(width, classes)
        self.gate_bias = gate_bias

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the next state, shape (batch, width)."""
        following: Tensor = self.cell(inputs, state)
        return following


def initialise(model: nn.Module, init: str, rng: torch.Generator) -> None:
    """Draw the weights: orthogonal (rows or columns orthonormal), or normal with variance 1 / inputs; biases are 0.

    A cell's update gate has the bias that the network names: long memory where it is large.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim < 2:
                parameter.zero_()
            elif init == "orthogonal":
                nn.init.orthogonal_(parameter, generator=rng)
            else:
                parameter.normal_(0, 1 / math.sqrt(parameter.shape[1]), generator=rng)
        if isinstance(model, Gru):
            # Rows of a cell of torch: reset, update, new; its state keeps a share of sigmoid(update).
            width = model.cell.hidden_size
            model.cell.bias_ih[width : 2 * width] = model.gate_bias


def build(
    net: str, widths: Sequence[int], act: str, init: str, rng: torch.Generator, *, scale: float = 1.0, gate: float = 0.0
) -> nn.Module:
    """Return a network in double precision; widths are features, hidden ones, and classes at the end."""
    if net == "mlp":
        model: nn.Module = Mlp(widths, act)
    elif net == "resmlp":
        model = ResMlp(widths[0], len(widths) - 2, widths[-1], act, scale=scale)
    else:
        model = Gru(widths[0], widths[1], widths[-1], gate_bias=gate)
    model = model.double()
    initialise(model, init, rng)
    return model


def made_batches(
    net: str, widths: Sequence[int], count: int, size: int, steps: int, rng: torch.Generator
) -> list[Batch]:
    """Draw batches of Gaussian classes, of unit spread about centres of norm 2; a sequence has a class at each step."""
    features, classes = widths[0], widths[-1]
    centres = torch.randn(classes, features, generator=rng, dtype=torch.float64) * (2 / math.sqrt(features))
    shape = (size, steps) if net == "gru" else (size,)
    found = []
    for _ in range(count):
        targets = torch.randint(classes, shape, generator=rng)
        noise = torch.randn(*shape, features, generator=rng, dtype=torch.float64)
        found.append(Batch(centres[targets] + noise, targets))
    return found


def cross_entropy(output: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy over samples and steps, in nats."""
    return nn.functional.cross_entropy(output.flatten(0, -2), targets.flatten())
