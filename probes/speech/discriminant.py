"""Linear discriminants of many training sets, fitted from the moments of their classes alone.

The moments of a training set are sums over its items. Those of every set that leaves one fold out are sums over the
other folds, so that all probes of a cross-validation come from one reading of the data.
"""

from dataclasses import dataclass

import torch
from scipy.linalg.blas import ssyrk
from torch import Tensor

Probe = tuple[Tensor, Tensor]
"""Weights, shape (width, classes), and biases, shape (classes,): the class is where x W + b is largest."""


@dataclass(slots=True)
class ClassMoments:
    """Counts (sets, classes), sums (sets, classes, width) and raw second moments (sets, width, width), float64.

    Of the symmetric second moments only the upper triangle is kept.
    """

    counts: Tensor
    sums: Tensor
    squares: Tensor

    @classmethod
    def empty(cls, sets: int, classes: int, width: int) -> "ClassMoments":
        """Return moments without any items."""
        zeros = [torch.zeros(shape, dtype=torch.float64) for shape in ((classes,), (classes, width), (width, width))]
        return cls(*(part.expand(sets, *part.shape).clone() for part in zeros))

    def add(self, index: int, vectors: Tensor, labels: Tensor) -> None:
        """Add items to one set: float32 vectors of shape (items, width), centred roughly, and their classes."""
        self.counts[index] += torch.bincount(labels, minlength=self.counts.shape[1]).double()
        self.sums[index].index_add_(0, labels, vectors.double())
        # The products of one chunk fit float32; their sum over a corpus does not. BLAS forms one triangle only.
        triangle = ssyrk(1.0, vectors.numpy().T, lower=0)
        self.squares[index] += torch.from_numpy(triangle)

    def total(self, indices: list[int]) -> "ClassMoments":
        """Return the moments of the union of several sets, as one set."""
        return ClassMoments(*(part[indices].sum(0)[None] for part in (self.counts, self.sums, self.squares)))

    def subtract(self, other: "ClassMoments") -> "ClassMoments":
        """Return the moments of the items left after those of `other` are removed."""
        return ClassMoments(self.counts - other.counts, self.sums - other.sums, self.squares - other.squares)


def sum_moments(parts: list[ClassMoments]) -> ClassMoments:
    """Add the moments of disjoint items, set by set."""
    counts, sums, squares = ([getattr(part, name) for part in parts] for name in ("counts", "sums", "squares"))
    return ClassMoments(torch.stack(counts).sum(0), torch.stack(sums).sum(0), torch.stack(squares).sum(0))


def fit_discriminant(moments: ClassMoments, priors: Tensor | None = None) -> Probe:
    """Fit the linear discriminant of one training set.

    Parameters
    ----------
    priors
        Shares in which the classes are expected, shape (classes,); None: as frequent as in the set.

    With class means m_c, shares p_c and the pooled covariance S within classes, w_c = S^-1 m_c and b_c =
    -m_c' S^-1 m_c / 2 + log p_c (Hastie, Tibshirani and Friedman 2009, equation 4.10). S is first shrunk towards a
    multiple of the identity by the oracle approximating amount (Chen, Wiesel, Eldar and Hero 2010, equation 23),
    so that it can be inverted however few the items. A class without items is never answered.

    Examples
    --------
    >>> found = ClassMoments.empty(1, 2, 1)
    >>> found.add(0, torch.tensor([[-3.0], [-1.0], [1.0], [3.0]]), torch.tensor([0, 0, 1, 1]))
    >>> weights, biases = fit_discriminant(found)
    >>> weights.tolist(), [round(bias, 3) for bias in biases.tolist()]
    ([[-1.0, 1.0]], [-1.693, -1.693])
    """
    counts, sums, squares = moments.counts[0], moments.sums[0], moments.squares[0]
    seen = counts > 0
    means = sums / counts.clamp_min(1)[:, None]
    # Degrees of freedom: the mean of each class present takes one.
    n = float(counts.sum() - seen.sum())
    squares = torch.triu(squares) + torch.triu(squares, 1).T
    within = (squares - (means * counts[:, None]).T @ means) / max(n, 1.0)
    shrunk = shrunk_covariance(within, max(n, 1.0)).float()
    weights = torch.linalg.solve(shrunk, means.T.float())
    expected = counts / counts.sum() if priors is None else priors
    biases = -0.5 * (means.float() * weights.T).sum(1) + torch.log(expected).float()
    return weights, torch.where(seen, biases, torch.full_like(biases, -torch.inf))


def shrunk_covariance(covariance: Tensor, n: float) -> Tensor:
    """Shrink a covariance of n degrees of freedom towards a multiple of the identity, by the amount of equation 23."""
    width = len(covariance)
    trace = float(covariance.trace())
    square = float((covariance**2).sum())
    level = trace / width
    eye = torch.eye(width, dtype=covariance.dtype)
    if level <= 0:
        return eye
    apart = square - trace**2 / width
    amount = ((1 - 2 / width) * square + trace**2) / ((n + 1 - 2 / width) * apart) if apart > 1e-12 * square else 1.0
    # Never 0: a constant dimension leaves the matrix singular, however many the items.
    amount = min(max(amount, 1e-6), 1.0)
    return (1 - amount) * covariance + amount * level * eye
