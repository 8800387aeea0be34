"""Score points by the ratio of two kernel density estimates: of a model's samples, and of fresh data."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.progress import Progress, Silent
from probes.generators.attacks.samples import Points, squared_distances

Floats = NDArray[np.float64]


def density_ratio(
    x: Points,
    samples: Points,
    reference: Points,
    bandwidths: Sequence[float],
    *,
    progress: Progress | None = None,
) -> Floats:
    """Score points by log p_S(x) - log p_R(x), both kernel density estimates, shape (bandwidths, points).

    DOMIAS (van Breugel, Sun, Qian and van der Schaar 2023, equation 2) with Gaussian kernels of one standard deviation
    in all directions; the sums are kept as logarithms throughout, so that no density vanishes.

    Parameters
    ----------
    bandwidths
        Standard deviations of the kernel, in units of the points.

    >>> density_ratio(np.array([[0.0]]), np.array([[0.0]]), np.array([[2.0]]), [1.0]).tolist()
    [[2.0]]
    """
    made = log_kernel_means(x, samples, bandwidths, progress=progress, label="Density of samples")
    return made - log_kernel_means(x, reference, bandwidths, progress=progress, label="Density of the reference")


def log_kernel_means(
    x: Points,
    others: Points,
    bandwidths: Sequence[float],
    *,
    progress: Progress | None = None,
    label: str = "Density",
) -> Floats:
    """Return the log of the mean over others of exp(-d^2 / 2 h^2), shape (bandwidths, points).

    It is the log density of a kernel estimate up to a term that depends on the width and the bandwidth alone.

    Raises
    ------
    InputError
        Where a bandwidth is not above 0, or so small that no float64 holds the exponent.
    """
    if not len(bandwidths) or not all(0 < h < math.inf for h in bandwidths):
        message = f"The bandwidths {list(bandwidths)} are not all above 0."
        raise InputError(message, where="bandwidths", hint="Give positive numbers.")
    scales = np.array([-0.5 / h / h for h in bandwidths])
    top = np.full((len(bandwidths), len(x)), -np.inf)
    total = np.zeros_like(top)
    done = 0
    with (progress or Silent()).phase(label, len(x), "points") as advance:
        for rows, squared in squared_distances(x, others):
            for which, scale in enumerate(scales):
                with np.errstate(over="ignore", invalid="ignore"):
                    _add(top[which, rows], total[which, rows], squared * scale)
            advance(rows.stop - done)
            done = rows.stop
    found = top + np.log(total / len(others))
    if not np.isfinite(found).all():
        raise InputError(
            f"The bandwidth {min(bandwidths):g} is too small for the distances of these points.",
            where="bandwidths",
            hint="Give one near the distance between neighbouring points.",
        )
    return np.asarray(found)


def _add(top: Floats, total: Floats, exponents: Floats) -> None:
    """Add a block of exponents to sums that are stored as exp(top) * total."""
    high = np.maximum(top, exponents.max(1))
    with np.errstate(invalid="ignore"):
        # The difference of two infinities is NaN, which stays in the sum and is reported at the end.
        total *= np.exp(top - high)
        total += np.exp(exponents - high[:, None]).sum(1)
    top[:] = high
