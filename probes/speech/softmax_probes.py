"""Softmax probes on frozen vectors, one for each of many layers, all fitted at once.

All layers are fitted in one batch of problems that share nothing but the labels: L-BFGS with a memory,
a step length and a stopping rule of its own for each layer, so that the result of a layer does not
depend on which others are fitted beside it.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import one_hot

MEMORY = 10
LARGEST = 2**27
"""Scores, of layers times items times classes, that are held at once: 0.5 GB, and a few times that beside it."""

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]


def softmax_probe(
    features: Tensor,
    labels: Tensor,
    classes: int,
    *,
    shares: Tensor | None = None,
    penalty: float = 1.0,
    tolerance: float = 1e-3,
    steps: int = 300,
) -> tuple[Tensor, Tensor]:
    """Fit a multinomial logistic regression for each layer.

    Minimises sum_i s_i -log softmax(W x_i + b)[y_i] + penalty / 2 ||W||^2; the bias is not penalised. It is
    scikit-learn's LogisticRegression with C = 1 / penalty.

    Parameters
    ----------
    features
        Shape (layers, items, width), standardised by the caller.
    labels
        Classes 0..classes-1, shape (items,), or (layers, items) where every layer has items of its own.
    shares
        Weights s_i, shape (layers, items); without them all are 1. Layers of fewer items are filled up with weight 0.
    tolerance
        A layer is done when no entry of its gradient is larger.

    Returns
    -------
    weights of shape (layers, width, classes) and biases of shape (layers, classes)

    Examples
    --------
    >>> x = torch.tensor([[[-1.0], [1.0], [-1.2], [1.2]]])
    >>> weights, biases = softmax_probe(x, torch.tensor([0, 1, 0, 1]), 2)
    >>> (x @ weights + biases[:, None]).argmax(-1).tolist()
    [[0, 1, 0, 1]]
    """
    basis = _row_space(features)
    reduced = features if basis is None else features @ basis
    ones = torch.ones((*reduced.shape[:2], 1), dtype=reduced.dtype, device=reduced.device)
    design = torch.cat([reduced, ones], dim=2)
    items = _Items(design, labels, classes)
    weighed = torch.ones(design.shape[:2], dtype=design.dtype, device=design.device) if shares is None else shares
    ridge = torch.full((design.shape[2], 1), penalty, dtype=design.dtype, device=design.device)
    ridge[-1] = 0.0
    start = torch.zeros((len(design), design.shape[2], classes), dtype=design.dtype, device=design.device)
    found = _minimise(start, lambda point: _objective(point, items, weighed, ridge), tolerance, steps)
    weights = found[:, :-1] if basis is None else basis @ found[:, :-1]
    return weights, found[:, -1]


def _row_space(features: Tensor) -> Tensor | None:
    """Return an orthonormal basis of the items' span, (layers, width, rank), if it is smaller than the space.

    The penalty is invariant to rotations, and the best weights lie in the span: the problem is the same.
    """
    if features.shape[1] >= features.shape[2]:
        return None
    basis: Tensor = torch.linalg.qr(features.transpose(1, 2)).Q
    return basis


class _Items:
    """The items of a fit in parts, of which each has few enough scores to be held."""

    def __init__(self, design: Tensor, labels: Tensor, classes: int) -> None:
        self._design, self._labels, self._classes = design, labels, classes
        self._size = max(1, LARGEST // (len(design) * classes))
        self._whole = self._targets(slice(None)) if design.shape[1] <= self._size else None

    def _targets(self, part: slice) -> Tensor:
        return one_hot(self._labels[..., part], self._classes).to(self._design.dtype)

    def parts(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield which items, their design of shape (layers, part, width), and where each has its class, as 0 and 1."""
        if self._whole is not None:
            yield slice(None), self._design, self._whole
            return
        for start in range(0, self._design.shape[1], self._size):
            part = slice(start, start + self._size)
            yield part, self._design[:, part], self._targets(part)


def _objective(point: Tensor, items: _Items, shares: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
    sums = [_part(point, design, targets, shares[:, part]) for part, design, targets in items.parts()]
    (loss, gradient), *more = sums
    for further, bend in more:
        loss, gradient = loss + further, gradient + bend
    return loss + 0.5 * (ridge * point**2).sum((1, 2)), gradient + ridge * point


def _part(point: Tensor, design: Tensor, targets: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    logits = design @ point
    normaliser = torch.logsumexp(logits, dim=2)
    loss = (shares * (normaliser - (logits * targets).sum(2))).sum(1)
    residual = shares[:, :, None] * (torch.exp(logits - normaliser[:, :, None]) - targets)
    return loss, design.transpose(1, 2) @ residual


def _minimise(point: Tensor, objective: Objective, tolerance: float, steps: int) -> Tensor:
    loss, gradient = objective(point)
    moves: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(steps):
        active = gradient.abs().amax((1, 2)) > tolerance
        if not bool(active.any()):
            break
        direction = _direction(gradient, moves) * active[:, None, None]
        length, new_loss, new_gradient, new_point = _step(point, loss, gradient, direction, objective, first=not moves)
        if not bool((length > 0).any()):
            break
        change, bend = new_point - point, new_gradient - gradient
        curvature = (change * bend).sum((1, 2))
        moves = [*moves[-MEMORY + 1 :], (change, bend, curvature)]
        point, loss, gradient = new_point, new_loss, new_gradient
    return point


def _direction(gradient: Tensor, moves: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Return the two-loop product of the inverse Hessian and the gradient, layer by layer."""
    result = -gradient
    scales: list[Tensor] = []
    for change, bend, curvature in reversed(moves):
        scale = torch.where(curvature > 1e-10, (change * result).sum((1, 2)) / curvature.clamp_min(1e-10), 0.0)
        result = result - scale[:, None, None] * bend
        scales.append(scale)
    if moves:
        change, bend, curvature = moves[-1]
        size = curvature / (bend**2).sum((1, 2)).clamp_min(1e-20)
        result = result * torch.where(curvature > 1e-10, size, 1.0)[:, None, None]
    for (change, bend, curvature), scale in zip(moves, reversed(scales), strict=True):
        back = torch.where(curvature > 1e-10, (bend * result).sum((1, 2)) / curvature.clamp_min(1e-10), 0.0)
        result = result + (scale - back)[:, None, None] * change
    return result


def _step(
    point: Tensor, loss: Tensor, gradient: Tensor, direction: Tensor, objective: Objective, *, first: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Halve each layer's step until the loss falls enough (Armijo); a layer without such a step is left as it is."""
    slope = (gradient * direction).sum((1, 2))
    norm = direction.abs().amax((1, 2)).clamp_min(1e-12)
    # The first direction is the plain gradient, whose length is arbitrary: no weight moves by more than 1.
    longest = torch.minimum(torch.ones_like(norm), 1.0 / norm) if first else torch.ones_like(norm)
    length = torch.where(slope < 0, longest, 0.0)
    for _ in range(25):
        trial = point + length[:, None, None] * direction
        new_loss, new_gradient = objective(trial)
        # In float32 a loss cannot fall by less than its rounding.
        slack = 1e-6 * loss.abs() + 1e-6
        poor = (new_loss > loss + 1e-4 * length * slope + slack) & (length > 0)
        if not bool(poor.any()):
            break
        length = torch.where(poor, length / 2, length)
    stuck = new_loss > loss + 1e-6 * loss.abs() + 1e-6
    if bool(stuck.any()):
        length = torch.where(stuck, torch.zeros_like(length), length)
        trial = point + length[:, None, None] * direction
        new_loss, new_gradient = objective(trial)
    return length, new_loss, new_gradient, trial


def standardise(train: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Centre and scale every dimension by the training items; shapes (layers, items, width).

    A dimension without variance is centred only.
    """
    mean = train.mean(1, keepdim=True)
    scale = train.std(1, keepdim=True, unbiased=False)
    scale = torch.where(scale > 1e-6 * mean.abs().clamp_min(1e-6), scale, torch.ones_like(scale))
    return tuple((part - mean) / scale for part in (train, *others))
