"""Checks before any number of an estimator is shown, of the estimator and of the gradient that it is held against.

Both are made in evaluation mode, as the audit measures: dropout is off, so that all passes have the same mask, and
batch normalisation uses its stored statistics, so that no row depends on the others.
"""

import copy
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.random_streams import stream
from probes.gradients.estimators import Batch, Estimator, Loss, backpropagated
from probes.gradients.simple_methods import noise

DIRECTIONS = 20
AGREEMENT = 1e-6
"""Greatest difference from central differences, relative to the root mean square of the slopes along the directions."""
STEPS = 1e-3, 1e-4, 1e-5, 1e-6
"""Half lengths of the differences: the long ones round least, the short ones miss most kinks."""


@dataclass(frozen=True, slots=True)
class ReferenceCheck:
    """Comparison of the gradient with central differences: its norm, and the greatest relative difference.

    `reason` says why that is above `AGREEMENT` or absent; `dead` are parameters of gradient 0.
    """

    norm: float
    error: float | None
    reason: str
    dead: tuple[str, ...]


def check_estimator(estimator: Estimator, model: nn.Module, batch: Batch, loss: Loss, seed: int) -> dict[str, int]:
    """Return how many entries each parameter has that gets no gradient, after two runs with equal generators.

    It is given copies, so that the model and the batch stay as they are whatever it does.

    Raises
    ------
    InputError
        Where it changes what it is given, where names, shapes or values are not those of gradients, or the runs differ.
    """
    hashes: list[dict[str, str]] = []
    for _ in range(2):
        rng, given = stream(seed, "check of an estimator"), copy.deepcopy(model).eval()
        own = Batch(batch.inputs.detach().clone(), batch.targets.detach().clone())
        for parameter in given.parameters():
            parameter.grad = torch.ones_like(parameter)
        before, drawn = _state(given, own), rng.get_state()
        found = estimator.gradients(given, own, loss, rng=rng)
        after = _state(given, own)
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        wrong = f"It changes what it is given: {', '.join(changed[:5])}." if changed else _wrong(found, model)
        if not estimator.stochastic and not torch.equal(drawn, rng.get_state()):
            wrong = "It draws random numbers, and its attribute `stochastic` says that it does not."
        hashes.append({} if wrong else {name: _hash(value) for name, value in found.items()})
        if not wrong and hashes[0] != hashes[-1]:
            wrong = "Two runs with equal generators differ: it draws from elsewhere, or keeps something between calls."
        if wrong:
            hint = "Return finite tensors by names of model.named_parameters(), in their shapes; draw from rng alone; "
            hint += "torch.func.functional_call runs other weights, and torch.autograd.grad leaves .grad alone."
            raise InputError(wrong, where=f"estimator {estimator.name}", hint=hint)
    return {name: value.numel() for name, value in model.named_parameters() if name not in hashes[0]}


def _wrong(found: object, model: nn.Module) -> str:
    """Return why something is no gradient of this model; empty where it is one."""
    parameters = dict(model.named_parameters())
    if not isinstance(found, Mapping) or not found:
        return f"It returned {type(found).__name__} without gradients."
    for name, value in found.items():
        if name not in parameters:
            return f"It returned a gradient of {name!r}; the model has {', '.join(list(parameters)[:10])}."
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return (
                f"It returned {getattr(value, 'dtype', type(value).__name__)} for {name}, not floating-point numbers."
            )
        if (value.shape, value.device) != (parameters[name].shape, parameters[name].device):
            shapes = f"{tuple(value.shape)} on {value.device} for {name}, {tuple(parameters[name].shape)}"
            return f"It returned a tensor of shape {shapes} on {parameters[name].device}."
        if not torch.isfinite(value).all():
            return f"{int((~torch.isfinite(value)).sum())} of {value.numel()} values of {name} are not finite."
    return ""


def _hash(value: Tensor) -> str:
    return hashlib.sha256(bytes(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())).hexdigest()


def _state(model: nn.Module, batch: Batch) -> dict[str, object]:
    """Return hashes of all tensors that an estimator is given, and the mode and the number of hooks of each module."""
    found: dict[str, object] = {}
    for name, module in model.named_modules():
        hooks = [len(vars(module)[kind]) for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")]
        found[f"mode or hooks of {name or 'the model'}"] = module.training, hooks
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    tensors |= {f"{name}.grad": p.grad for name, p in tensors.items() if p.grad is not None}
    for name, value in {**tensors, "inputs": batch.inputs, "targets": batch.targets}.items():
        found[name] = id(value), value.requires_grad, value.shape, _hash(value)
    return found


def check_untied(model: nn.Module) -> None:
    """Check that no two parameters are one; another type or a copy can untie those that share their memory alone.

    Raises
    ------
    InputError
        Where two begin at the same place.
    """
    places: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.numel() and places.setdefault(parameter.data_ptr(), name) != name:
            raise InputError(
                f"{places[parameter.data_ptr()]} and {name} are one tensor.",
                where="model",
                hint="The parts of a tied gradient cannot be told apart: give each layer weights of its own.",
            )


def check_reference(model: nn.Module, batch: Batch, loss: Loss, seed: int) -> ReferenceCheck:
    """Hold the gradient by backpropagation against central differences along random directions.

    All is done on a copy in float64 and in evaluation mode. Where they disagree at the weights as they are but not at
    weights beside them, the loss has kinks there, as ReLU has for a row that no unit lets through, and that is said.

    Raises
    ------
    InputError
        Where parameters are tied, two passes differ, the loss is no finite number, or the gradient is wrong.
    """
    check_untied(model)
    model = copy.deepcopy(model).double().eval()
    inputs, targets = (x.detach().double() if x.is_floating_point() else x for x in (batch.inputs, batch.targets))
    batch = Batch(inputs, targets)
    one, other = (loss(model(inputs), targets) for _ in range(2))
    if not one.requires_grad:
        hint = "Let some parameters have requires_grad, and let model and loss detach nothing."
        raise InputError("The loss does not depend on any parameter.", where="model", hint=hint)
    if one.numel() != 1 or not torch.isfinite(one).all() or not torch.allclose(one, other, rtol=1e-12, atol=0):
        raise InputError(
            f"Two passes of one batch have the losses {one.flatten()[:3].tolist()} and {other.flatten()[:3].tolist()}.",
            where="model",
            hint="A loss is one finite number; dropout and other noise have to end with model.eval().",
        )
    gradient = backpropagated(model, batch, loss)
    dead = tuple(name for name, value in gradient.items() if not value.any())
    norm = math.hypot(*(float(value.norm()) for value in gradient.values()))
    if norm == 0:
        return ReferenceCheck(0.0, None, "The gradient is 0: nothing can point along it.", dead)
    rng = stream(seed, "directions")
    error = _difference(model, batch, loss, rng)
    if error <= AGREEMENT:
        return ReferenceCheck(norm, error, "", dead)
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1e-3 * flat.square().mean().sqrt() * noise(parameter, rng))
    beside = _difference(model, batch, loss, rng)
    if beside > AGREEMENT:
        raise InputError(
            f"Backpropagation does not give the gradient of the loss: central differences are {beside:.1e} away.",
            where="model",
            hint="Look for a backward pass of its own, a detached part, or a loss that rounds.",
        )
    reason = "The loss has kinks at these weights: central differences agree only beside them."
    return ReferenceCheck(norm, error, reason, dead)


def _difference(model: nn.Module, batch: Batch, loss: Loss, rng: torch.Generator) -> float:
    """Return the greatest distance of a slope by the gradient from that by central differences.

    Relative to the root mean square of the slopes; of the steps, each direction has that which agrees best.
    """
    gradient = backpropagated(model, batch, loss)
    kept = {name: p.detach() for name, p in model.named_parameters() if name in gradient}

    def value(direction: Mapping[str, Tensor], step: float) -> float:
        moved = {name: p + step * direction[name] for name, p in kept.items()}
        return float(loss(torch.func.functional_call(model, moved, (batch.inputs,)), batch.targets))

    slopes, errors = [], []
    with torch.no_grad():
        for _ in range(DIRECTIONS):
            drawn = {name: noise(p, rng) for name, p in kept.items()}
            length = math.hypot(*(float(v.norm()) for v in drawn.values()))
            direction = {name: v / length for name, v in drawn.items()}
            slopes.append(math.fsum(float((v * gradient[name]).sum()) for name, v in direction.items()))
            each = [(value(direction, step) - value(direction, -step)) / (2 * step) for step in STEPS]
            errors.append(min(abs(one - slopes[-1]) for one in each))
    return max(errors) * math.sqrt(DIRECTIONS) / (math.hypot(*slopes) or 1.0)
