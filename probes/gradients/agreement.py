"""Agreement of an estimate with the gradient: sums over the entries of a parameter, which add up over parameters.

All measures of one batch follow from these sums, so that layers and whole networks are sums of their parameters
and no gradient has to be kept. Memory is that of one parameter, or of one block of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
LEAST_KNOWN = 1e-12
"""Share of a parameter's largest |r| above which the sign of an entry of the reference counts as known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Sums over entries, of estimates g and the reference r; arrays of one shape, with draws on the first axis.

    NaN stands for what a method gave no estimate of. Numbers of a batch, without the axis of draws, are means over
    single draws: of what one step of training would use.

    Parameters
    ----------
    dot, square, reference, error
        g.r, ||g||^2, ||r||^2 and ||g - r||^2.
    agreeing, counted, agreeing_weight, weight
        Entries of equal sign, and all whose sign is known; the same as sums of |r|.
    bias, trace
        ||mean of draws - r||^2, and the trace of the covariance S of a draw (NaN of one draw); the same for each draw.
    size
        Entries.
    """

    dot: Floats
    square: Floats
    reference: Floats
    error: Floats
    agreeing: Floats
    counted: Floats
    agreeing_weight: Floats
    weight: Floats
    bias: Floats
    trace: Floats
    size: Floats

    @property
    def draws(self) -> int:
        """How many estimates there are of one batch."""
        return len(self.dot)

    def measures(self) -> dict[str, Floats]:
        """Return the measures of a batch, by name and without the axis of draws; NaN where it is divided by zero.

        squared_cosine is the share of the gradient's progress where the loss is equally curved in all directions.
        squared_bias is (||mean - r||^2 - tr(S) / m) / ||r||^2 of m draws, unbiased, so that it can come out below zero;
        variance is tr(S) / ||r||^2.
        """
        cosine = np.clip(_over(self.dot, np.sqrt(self.square) * np.sqrt(self.reference)), -1, 1)
        found = {
            "cosine": cosine,
            "squared_cosine": cosine**2,
            "norm_ratio": np.sqrt(_over(self.square, self.reference)),
            "sign_agreement": _over(self.agreeing, self.counted),
            "weighted_sign_agreement": _over(self.agreeing_weight, self.weight),
            "relative_error": np.sqrt(_over(self.error, self.reference)),
            "squared_bias": _over(self.bias - self.trace / self.draws, self.reference),
            "variance": _over(self.trace, self.reference),
        }
        return {name: np.asarray(values.mean(0)) for name, values in found.items()}

    def map(self, change: Callable[[Floats], Floats]) -> "Agreement":
        """Return what a function makes of each array."""
        return Agreement(**{one.name: change(getattr(self, one.name)) for one in fields(self)})

    def with_totals(self, hidden: Sequence[bool]) -> "Agreement":
        """Return the parameters (second axis), then the sum over the hidden ones, and that over all.

        What a method gave no estimate of is in no sum; a sum over nothing is NaN.
        """
        inside = np.asarray(hidden, dtype=bool)
        return self.map(lambda one: np.concatenate((one, _sum(one[:, inside]), _sum(one)), axis=1))


def stacked(parts: Sequence[Agreement], axis: int) -> Agreement:
    """Return agreements side by side along a new axis."""
    return Agreement(
        **{one.name: np.stack([getattr(part, one.name) for part in parts], axis) for one in fields(Agreement)}
    )


def added(one: Agreement, other: Agreement) -> Agreement:
    """Return the sums over the entries of both."""
    return Agreement(**{name.name: getattr(one, name.name) + getattr(other, name.name) for name in fields(Agreement)})


def no_estimate(draws: int) -> Agreement:
    """Return the agreement of a method that gave no estimate."""
    return Agreement(**{one.name: np.full(draws, np.nan) for one in fields(Agreement)})


def compare(estimates: Floats, reference: Floats, largest: float) -> Agreement:
    """Return the sums over a block of entries, shape (draws,).

    Parameters
    ----------
    estimates, reference
        Shapes (draws, entries) and (entries,).
    largest
        Largest |r| of the whole parameter.
    """
    draws, size = estimates.shape
    away, weights = estimates - reference, np.abs(reference)
    known = weights > LEAST_KNOWN * largest
    weights = weights * known
    same = (np.sign(estimates) == np.sign(reference)) & known
    centre = estimates.mean(0)
    spread = estimates - centre
    once: dict[str, Any] = {
        "reference": reference @ reference,
        "counted": known.sum(),
        "weight": weights.sum(),
        "bias": ((centre - reference) ** 2).sum(),
        "trace": (spread * spread).sum() / (draws - 1) if draws > 1 else np.nan,
        "size": size,
    }
    return Agreement(
        dot=estimates @ reference,
        square=np.einsum("ij,ij->i", estimates, estimates),
        error=np.einsum("ij,ij->i", away, away),
        agreeing=same.sum(1).astype(np.float64),
        agreeing_weight=same @ weights,
        **{name: np.full(draws, float(value)) for name, value in once.items()},
    )


def agreement(draws: "Sequence[Mapping[str, Tensor]]", reference: "Mapping[str, Tensor]") -> Agreement:
    """Return the agreement of one batch's estimates by parameter, shape (draws, parameters), as the reference orders.

    A parameter that some draw holds no gradient of is NaN, and so is one with an entry that is not finite.
    """
    found = []
    for name, exact in reference.items():
        parts = [draw[name] for draw in draws if name in draw]
        if len(parts) < len(draws):
            found.append(no_estimate(len(draws)))
            continue
        flat = np.stack([_flat(part) for part in parts])
        right = _flat(exact)
        whole = bool(np.isfinite(flat).all())
        found.append(compare(flat, right, float(np.abs(right).max(initial=0.0))) if whole else no_estimate(len(draws)))
    return stacked(found, axis=1)


def _flat(values: "Tensor") -> Floats:
    found: Floats = values.detach().double().cpu().numpy().ravel()
    return found


def _over(above: Floats, below: Floats) -> Floats:
    """Divide, with NaN where there is nothing to divide by."""
    out: Floats = np.full(np.shape(above), np.nan)
    return np.asarray(np.divide(above, below, out=out, where=below > 0))


def _sum(values: Floats) -> Floats:
    """Return the sum over parameters of what is there, with the axis kept."""
    there = ~np.isnan(values)
    return np.asarray(np.where(there.any(1, keepdims=True), np.where(there, values, 0.0).sum(1, keepdims=True), np.nan))
