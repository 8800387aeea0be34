"""Estimators of recurrent gradients: truncated, chunked, and with one fixed feedback in place of all Jacobians.

With h_t the states and e_t = dL/dh_t by the output of step t alone, backpropagation is delta_t = e_t + delta_{t+1} J_t,
J_t = dh_{t+1}/dh_t. The weights get their share from each step, given its delta.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from probes.gradients.estimators import Batch, Loss, backpropagated
from probes.gradients.networks import Gru, Recurrent


class Unrolled:
    """The steps of a sequence, each with a graph of its own, computed at once from the states that are known."""

    def __init__(self, model: nn.Module, batch: Batch, loss: Loss) -> None:
        assert isinstance(model, Recurrent)
        with torch.no_grad():
            states = model.states(batch.inputs)
        self.before = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1).requires_grad_()
        following = model.step(batch.inputs.flatten(0, 1), self.before.flatten(0, 1))
        self.following = following.view_as(states)
        self.value = loss(model.head(states.requires_grad_()), batch.targets)
        (self.local,) = torch.autograd.grad(self.value, states, retain_graph=True)
        self.parameters = dict(model.named_parameters())

    def back(self, deltas: Tensor) -> Tensor:
        """Return delta_{t+1} J_t for all t; nothing comes back to the last state."""
        (found,) = torch.autograd.grad(self.following, self.before, deltas, retain_graph=True)
        return torch.cat([found[:, 1:], torch.zeros_like(found[:, :1])], 1)

    def deltas(self, k: int) -> Tensor:
        """Return what comes back to each state from its own output and the next k - 1, all that there are at most."""
        found = self.local
        for _ in range(min(k, self.local.shape[1]) - 1):
            found = self.local + self.back(found)
        return found

    def rows(self) -> Iterator[Tensor]:
        """Yield the rows of the Jacobians J_t: of each next unit by all former ones, shape (batch, time - 1, width)."""
        for unit in self.following.unbind(2):
            yield torch.autograd.grad(unit.sum(), self.before, retain_graph=True)[0][:, 1:]

    def weights(self, deltas: Tensor, *, differentiable: bool = False) -> dict[str, Tensor]:
        """Return the gradients of the parameters, those of the head exact."""
        outputs, wanted = [self.value, self.following], list(self.parameters.values())
        found = torch.autograd.grad(outputs, wanted, [None, deltas], retain_graph=True, create_graph=differentiable)
        return dict(zip(self.parameters, found, strict=True))


class _OfRecurrent:
    stochastic = False

    def supports(self, model: nn.Module) -> str | None:
        """Return None for a recurrent cell, else the reason why not."""
        return None if isinstance(model, Recurrent) else "it needs a recurrent cell"


class Truncated(_OfRecurrent):
    """Each state gets what comes back from its own output and the next k - 1; k = 1 is no feedback at all."""

    def __init__(self, k: int) -> None:
        self.k, self.name = k, f"truncated-{k}"

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> dict[str, Tensor]:
        """Return the estimate: k - 1 rounds over all steps at once."""
        steps = Unrolled(model, batch, loss)
        return steps.weights(steps.deltas(self.k))


class Chunked(_OfRecurrent):
    """Backpropagation through chunks of k steps, nothing across their borders, as trainers do."""

    def __init__(self, k: int) -> None:
        self.k, self.name = k, f"chunked-{k}"

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> dict[str, Tensor]:
        """Return the estimate from one pass whose states are cut off at the borders."""
        assert isinstance(model, Recurrent)
        state, found = batch.inputs.new_zeros(len(batch.inputs), model.width), []
        for time, inputs in enumerate(batch.inputs.unbind(1)):
            state = model.step(inputs, state.detach() if time % self.k == 0 else state)
            found.append(state)
        names, parameters = zip(*model.named_parameters(), strict=True)
        value = loss(model.head(torch.stack(found, 1)), batch.targets)
        return dict(zip(names, torch.autograd.grad(value, parameters), strict=True))


class Dsf(_OfRecurrent):
    """One feedback A in place of all Jacobians: g_t = e_t + g_{t+1} A (arXiv 2503.23104), by a scan of log2 T rounds.

    linspace: the diagonal of d numbers from 0 to 1, that of the authors' code. constant: sigmoid(bias of the update
    gate), what a gated cell keeps at rest. fitted-diagonal and fitted-full: the mean Jacobian over the steps and
    sequences of the batch that is judged, or its diagonal: so they know this batch. given: `feedback`, a diagonal or a
    matrix.
    """

    def __init__(self, kind: str = "linspace", feedback: Tensor | None = None) -> None:
        self.kind, self.name, self.feedback = kind, f"dsf:{kind}", feedback

    def supports(self, model: nn.Module) -> str | None:
        """Return None for a cell that this kind of feedback can be made for, else the reason why not."""
        if self.kind == "constant" and not isinstance(model, Gru):
            return "a constant feedback needs a cell with gates"
        return super().supports(model)

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> dict[str, Tensor]:
        """Return the estimate."""
        steps = Unrolled(model, batch, loss)
        return steps.weights(scan(steps.local, self._feedback(model, steps)))

    def _feedback(self, model: nn.Module, steps: Unrolled) -> Tensor:
        local = steps.local
        if self.feedback is not None:
            return self.feedback
        if self.kind == "linspace":
            return torch.linspace(0, 1, local.shape[2], dtype=local.dtype, device=local.device)
        if self.kind == "constant":
            assert isinstance(model, Gru)
            return torch.sigmoid((model.cell.bias_ih + model.cell.bias_hh).detach().chunk(3)[1])
        mean = mean_jacobian(steps)
        return mean.diagonal() if self.kind == "fitted-diagonal" else mean


def scan(local: Tensor, feedback: Tensor) -> Tensor:
    """Return g_t = e_t + g_{t+1} A over axis 1, doubling the steps that have been summed in each round.

    >>> scan(torch.ones(1, 4, 1), torch.tensor([0.5])).flatten().tolist()
    [1.875, 1.75, 1.5, 1.0]
    """
    found, reach, steps = local, 1, local.shape[1]
    while reach < steps:
        later = found[:, reach:]
        came = later * feedback if feedback.ndim == 1 else later @ feedback
        found = torch.cat([found[:, :-reach] + came, found[:, -reach:]], 1)
        feedback = feedback * feedback if feedback.ndim == 1 else feedback @ feedback
        reach *= 2
    return found


def mean_jacobian(steps: Unrolled) -> Tensor:
    """Return the mean of J_t over steps and sequences, shape (width, width); zero for a sequence of one step."""
    return torch.stack([row.sum((0, 1)) / max(row.shape[0] * row.shape[1], 1) for row in steps.rows()])


def best_stationary(model: nn.Module, batch: Batch, loss: Loss, *, rounds: int = 50) -> Dsf:
    """Return the diagonal feedback of greatest cosine with the gradient of this batch, over all but the head.

    A local greatest, found by L-BFGS from the best of four starts (none, linspace, the diagonal of the mean Jacobian,
    and least squares of delta_{t+1} A on delta_{t+1} J_t): what a fixed diagonal can reach is at least this. It is
    fitted to the answer, so it is no method to train by.
    """
    steps = Unrolled(model, batch, loss)
    exact = {name: part for name, part in backpropagated(model, batch, loss).items() if not name.startswith("head.")}
    reference = torch.cat([part.flatten() for part in exact.values()])

    def cosine(diagonal: Tensor, *, differentiable: bool = False) -> Tensor:
        found = steps.weights(scan(steps.local, diagonal), differentiable=differentiable)
        estimate = torch.cat([found[name].flatten() for name in exact])
        return nn.functional.cosine_similarity(estimate, reference, dim=0, eps=1e-300)

    best = max(_starts(steps), key=lambda start: float(cosine(start)))
    diagonal = best.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([diagonal], max_iter=rounds, line_search_fn="strong_wolfe", tolerance_grad=1e-10)

    def closure() -> Tensor:
        value = -cosine(diagonal, differentiable=True)
        (diagonal.grad,) = torch.autograd.grad(value, diagonal, materialize_grads=True)
        return value

    optimiser.step(closure)
    reached = diagonal.detach()
    return Dsf("best-stationary", reached if cosine(reached) > cosine(best) else best)


def _starts(steps: Unrolled) -> list[Tensor]:
    deltas = steps.deltas(steps.local.shape[1])
    later = torch.cat([deltas[:, 1:], torch.zeros_like(deltas[:, :1])], 1)
    squares = (later * later).sum((0, 1))
    none = torch.zeros_like(squares)
    fitted = (later * steps.back(deltas)).sum((0, 1)) / squares.clamp_min(1e-300)
    return [none, torch.linspace(0, 1, len(none)).to(none), mean_jacobian(steps).diagonal(), fitted]
