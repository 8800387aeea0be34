"""A recurrent cell without gates, whose Jacobians are known: linear, or those of a fixed point."""

from torch import Tensor, nn

from probes.gradients.networks import ACTIVATIONS, Recurrent


class Rnn(Recurrent):
    """The plain recurrent cell h_t = act(W x_t + b + U h_{t-1})."""

    def __init__(self, features: int, width: int, classes: int, act: str = "tanh") -> None:
        super().__init__(width)
        self.act = act
        self.entry = nn.Linear(features, width)
        self.feedback = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, classes)

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the next state, shape (batch, width)."""
        return ACTIVATIONS[self.act](self.entry(inputs) + self.feedback(state))
