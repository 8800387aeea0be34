"""Highway backpropagation: the gradient as a sum over the paths through at most k residual blocks.

Fagnou et al., arXiv 2501.17086. With J_j the Jacobian of what block j adds, delta^0_l = delta_L, and
delta^{k+1}_l = delta_L + sum over j >= l of delta^k_{j+1} J_j: all blocks at once, a series that ends after L terms.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from probes.gradients.estimators import Batch, Loss
from probes.gradients.networks import ResMlp


class Highway:
    """Highway backpropagation with `iterations`; one fewer than there are blocks is exact for the weights."""

    stochastic = False

    def __init__(self, iterations: int) -> None:
        self.iterations, self.name = iterations, f"highway-{iterations}"

    def supports(self, model: nn.Module) -> str | None:
        """Return None for residual blocks, else the reason why not."""
        return None if isinstance(model, ResMlp) else "highway backpropagation needs residual blocks"

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> dict[str, Tensor]:
        """Return the estimate after the last iteration."""
        return next(all_iterations(model, batch, loss, self.iterations, first=self.iterations))


def all_iterations(
    model: nn.Module, batch: Batch, loss: Loss, most: int, first: int = 0
) -> Iterator[dict[str, Tensor]]:
    """Yield the estimates after `first`, ... `most` iterations, from one pass."""
    assert isinstance(model, ResMlp)
    states, branches = [batch.inputs.detach().requires_grad_()], []
    # Each block has a graph of its own: one call differentiates all of them, and passes from none to another.
    for at in range(len(model.blocks)):
        branches.append(model.branch(at, states[-1]))
        states.append((states[-1] + branches[-1]).detach().requires_grad_())
    value = loss(model.head(states[-1]), batch.targets)
    (last,) = torch.autograd.grad(value, states[-1], retain_graph=True)
    names, parameters = zip(*model.named_parameters(), strict=True)
    behind = [last] * len(branches)
    for iteration in range(most + 1):
        if iteration >= first:
            found = torch.autograd.grad([value, *branches], parameters, [None, *behind], retain_graph=True)
            yield dict(zip(names, found, strict=True))
        if iteration < most:
            added = torch.autograd.grad(branches, states[:-1], behind, retain_graph=True)
            # Sums from the last block back; the state before the first block is nobody's output.
            sums = torch.stack(added[::-1]).cumsum(0).flip(0) + last
            behind = [*sums[1:].unbind(), last]
