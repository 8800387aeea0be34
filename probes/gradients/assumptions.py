"""Gaps between a network and what the methods assume of it; each is 0 where the assumption holds."""

import math

import torch
from torch import Tensor, nn

from probes.gradients.estimators import Batch, Loss
from probes.gradients.networks import ACTIVATIONS, Mlp, Recurrent, ResMlp
from probes.gradients.recurrent_methods import Unrolled

NEAR_ONE = 0.01
"""A slope nearer to 1 than this counts as linear: a saturating unit has slope 1 exactly only at 0."""
Gaps = dict[tuple[str, str], float]
"""By kind of assumption, and layer: the parameter, or `hidden` for a recurrent cell."""


def gaps(model: nn.Module, batch: Batch, loss: Loss) -> Gaps:
    """Return the gaps of the assumptions that are made of this kind of network."""
    if isinstance(model, Mlp):
        return orthogonality(model) | linearity(model, batch.inputs)
    if isinstance(model, ResMlp):
        return highway(model, batch.inputs)
    return {("stationarity", "hidden"): stationarity(model, batch, loss)} if isinstance(model, Recurrent) else {}


def orthogonality(model: Mlp) -> Gaps:
    """Return ||W W^T - I|| / sqrt(n) of each layer, Frobenius, of its n outputs: rows must be orthonormal."""
    found = {}
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            away = weight.detach() @ weight.detach().T - torch.eye(len(weight)).to(weight)
            found["orthogonality", name] = float(away.norm()) / math.sqrt(len(weight))
    return found


def linearity(model: Mlp, inputs: Tensor) -> Gaps:
    """Return the share of each hidden layer's units, over the batch, whose slope is not 1 to within `NEAR_ONE`."""
    found = {}
    for at, (layer, state) in enumerate(zip(model.layers[:-1], model.states(inputs), strict=False)):
        before = layer(state).detach().requires_grad_()
        (slopes,) = torch.autograd.grad(ACTIVATIONS[model.act](before).sum(), before)
        found["linearity", f"layers.{at}.weight"] = float(((slopes - 1).abs() > NEAR_ONE).double().mean())
    return found


def highway(model: ResMlp, inputs: Tensor) -> Gaps:
    """Return the spectral norm of the Jacobian of what each block adds: its mean over the batch, exactly."""
    found, state = {}, inputs
    for at in range(len(model.blocks)):
        before = state.detach().requires_grad_()
        added = model.branch(at, before)
        rows = [torch.autograd.grad(unit.sum(), before, retain_graph=True)[0] for unit in added.unbind(1)]
        norms = torch.linalg.matrix_norm(torch.stack(rows, 1), 2)
        found["highway", f"blocks.{at}.weight"] = float(norms.mean())
        state = before + added
    return found


def stationarity(model: nn.Module, batch: Batch, loss: Loss) -> float:
    """Return the standard deviation of the state Jacobian over steps and sequences by its mean norm, Frobenius.

    sqrt(mean ||J - mean J||^2) / mean ||J||: 0 where one feedback serves all; 0 too where all Jacobians are 0.
    """
    spread, squares = 0.0, torch.zeros(())
    for row in Unrolled(model, batch, loss).rows():
        spread += float((row - row.mean((0, 1))).square().sum(2).mean())
        squares = squares + row.square().sum(2)
    size = float(squares.sqrt().mean())
    return math.sqrt(spread) / size if size > 0 else 0.0
