"""Attention that follows chains in one layer, Y = (1 - g) A (I - g A)^-1 V.

A is a causal attention matrix whose rows sum to 1, and g < 1 (Fagnou et al. 2024, arXiv 2410.05565). Its forms differ
in operations and exactness, not in what they compute; `reduced` (after Zhao et al. 2026, arXiv 2605.22476, whose own
construction is not known here) replaces what lies between blocks by one representative of each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROW_SUMS = 1e-12
"""Most by which a row of what replaces A may sum to something else than A's: errors grow by 1 / (1 - g) per row."""
EXACT = ("inverse", "triangular", "block")


class RowSumError(ValueError):
    """What replaces the attention has other row sums: near g = 1 its result explodes."""


def check_gamma(gamma: float) -> None:
    """Refuse a discount at which I - g A cannot be solved: the first token attends to itself alone.

    Raises
    ------
    ValueError
        Where g is not at least 0 and below 1.
    """
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma is {gamma:g}, and at 1 the system is singular: it must be at least 0 and below 1")


def triangular(attention: Tensor, values: Tensor, gamma: float) -> Tensor:
    """Solve (I - g A) Y = (1 - g) A V by substitution; A is (n, n), V is (n, d).

    Examples
    --------
    >>> chain = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    >>> triangular(chain, torch.eye(2, dtype=torch.float64), 0.5).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    check_gamma(gamma)
    right = (1 - gamma) * attention @ values
    return _solved(_system(attention, gamma), right)


def inverse(attention: Tensor, values: Tensor, gamma: float) -> Tensor:
    """Compute (1 - g) A (I - g A)^-1 V with the inverse itself."""
    check_gamma(gamma)
    inverted: Tensor = torch.linalg.inv(_system(attention, gamma))
    return (1 - gamma) * attention @ (inverted @ values)


def block(attention: Tensor, values: Tensor, gamma: float, size: int) -> Tensor:
    """Substitute forward over blocks of a size: exact for any."""
    check_gamma(gamma)
    right = (1 - gamma) * attention @ values
    found = torch.zeros_like(right)
    for start in range(0, len(attention), size):
        rows = slice(start, start + size)
        known = right[rows] + gamma * attention[rows, :start] @ found[:start]
        own = _system(attention[rows, rows], gamma)
        found[rows] = _solved(own, known)
    return found


def neumann(attention: Tensor, values: Tensor, gamma: float, terms: int) -> Tensor:
    """Sum the first terms of (1 - g) (A + g A^2 + g^2 A^3 + ...) V; what is left out is at most g^k max|V|."""
    check_gamma(gamma)
    power = attention @ values
    total = torch.zeros_like(power)
    for step in range(terms):
        total += (1 - gamma) * gamma**step * power
        power = attention @ power
    return total


@dataclass(frozen=True, slots=True)
class Reduced:
    """Attention within blocks, and between blocks one weight a row and one vector of keys a block.

    A is replaced by blockdiag(D) + diag(r) S W: `within` is D, (n, n) and zero between blocks; `residue` r, (n,), the
    mass of a row outside of its block; `between` S, (blocks, blocks), whose rows sum to 1 or are 0; `keys` W,
    (blocks, n), whose rows sum to 1 within their block.
    """

    within: Tensor
    residue: Tensor
    between: Tensor
    keys: Tensor
    size: int

    def matrix(self) -> Tensor:
        """Return the matrix that replaces the attention, (n, n)."""
        spread = (self.between @ self.keys).repeat_interleave(self.size, 0)[: len(self.within)]
        return self.within + self.residue[:, None] * spread


def reduce(attention: Tensor, size: int) -> Reduced:
    """Replace attention between blocks by that of one representative a block; row sums are kept.

    Raises
    ------
    RowSumError
        Where they are not.
    """
    n = len(attention)
    blocks = -(-n // size)
    at = torch.arange(n) // size
    member = torch.nn.functional.one_hot(at, blocks).to(attention.dtype)
    same = at[:, None] == at[None, :]
    within, cross = attention * same, attention * ~same
    residue = cross.sum(1)
    mass = member.T @ cross @ member
    between = mass / mass.sum(1, keepdim=True).clamp_min(torch.finfo(attention.dtype).tiny)
    keys = member.T * cross.sum(0)
    weight = keys.sum(1, keepdim=True)
    # A block that nobody outside attends to is never used; any keys that sum to 1 will do.
    keys = torch.where(
        weight > 0, keys / weight.clamp_min(torch.finfo(attention.dtype).tiny), member.T / member.sum(0)[:, None]
    )
    found = Reduced(within, residue, between, keys, size)
    check_row_sums(attention, found.matrix())
    return found


def check_row_sums(attention: Tensor, replaced: Tensor) -> None:
    """Check that what replaces the attention has its row sums.

    Raises
    ------
    RowSumError
        Where one differs by more than rounding.
    """
    off = float((attention.sum(1) - replaced.sum(1)).abs().max())
    allowed = ROW_SUMS if attention.dtype == torch.float64 else 1e-4
    if not off <= allowed:
        sums = replaced.sum(1)
        raise RowSumError(
            f"rows sum to {float(sums.min()):.3g} to {float(sums.max()):.3g}, {off:.2g} off those of the attention"
        )


def reduced(attention: Tensor, values: Tensor, gamma: float, size: int) -> Tensor:
    """Solve with the attention that `reduce` returns: blocks by themselves, and one small system between them."""
    check_gamma(gamma)
    return solve_reduced(reduce(attention, size), values, gamma)


def solve_reduced(parts: Reduced, values: Tensor, gamma: float) -> Tensor:
    """Solve in O(n B d + (n / B)^2 d): Y = ((1 - g) / g) (z + g u c - V), with M = I - g D.

    z = M^-1 V, u = M^-1 r, and c = (I - g S diag(w . u))^-1 S (w . z) of one row a block.
    """
    if gamma == 0:
        return parts.matrix() @ values
    size, n = parts.size, len(values)
    joined = torch.cat([values, parts.residue[:, None]], 1)
    solved = torch.zeros_like(joined)
    for start in range(0, n, size):
        rows = slice(start, start + size)
        own = _system(parts.within[rows, rows], gamma)
        solved[rows] = _solved(own, joined[rows])
    z, u = solved[:, :-1], solved[:, -1]
    gain = parts.keys @ u
    system = _system(parts.between * gain[None, :], gamma)
    c = _solved(system, parts.between @ (parts.keys @ z))
    spread = c.repeat_interleave(size, 0)[:n]
    return (1 - gamma) / gamma * (z + gamma * u[:, None] * spread - values)


def error_bound(attention: Tensor, replaced: Tensor, values: Tensor, gamma: float) -> float:
    """Bound the largest error of a result by what replaces A: max_i sum_j |A - A'| max|V| / (1 - g)."""
    return float((attention - replaced).abs().sum(1).max() * values.abs().max() / (1 - gamma))


def truncation_bound(values: Tensor, gamma: float, terms: int) -> float:
    """Bound the largest error of the first terms of the series."""
    return float(values.abs().max()) * gamma**terms


def block_shares(attention: Tensor, size: int, graph: Tensor | None = None) -> dict[str, list[float]]:
    """Return the share of attention within blocks of a size, and controls, for each of several maps (maps, n, n).

    `measured` is that of the map; `uniform` that of attention that looks at all earlier tokens alike; `phase` the mean
    over all shifts of the grid of blocks: locality without these blocks; `graph` that of a map to compare with.

    >>> {kind: round(share[0], 3) for kind, share in block_shares(torch.eye(4)[None], 2).items()}
    {'measured': 1.0, 'uniform': 0.708, 'phase': 1.0}
    """
    n = attention.shape[-1]
    steps = torch.arange(n)
    apart = (steps[:, None] - steps).abs()
    same = (steps[:, None] // size == steps // size).float()
    # Of all shifts, this share leaves two tokens in one block.
    near = (1 - apart / size).clamp_min(0)
    flat = torch.ones(n, n).tril() / (steps[:, None] + 1)
    maps = {"measured": (attention, same), "uniform": (flat, same), "phase": (attention, near)}
    if graph is not None:
        maps["graph"] = graph, same
    return {
        kind: ((one * within).sum((-2, -1)) / n).expand(len(attention)).tolist() for kind, (one, within) in maps.items()
    }


def dependency_map(ends: Sequence[int], sources: Sequence[Sequence[int]], n: int) -> Tensor:
    """Return attention (n, n) that follows dependencies and nothing else, from the tokens at which statements end.

    Tokens of a statement look at the last token of each statement that its values come from, all others at themselves.

    >>> dependency_map([1, 3], [(), (0,)], 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    found, start = torch.eye(n), 0
    for end, of in zip(ends, sources, strict=True):
        if of:
            found[start:end] = 0
            found[start:end, [ends[at] - 1 for at in of]] = 1 / len(of)
        start = end
    return found


def automatic_block(length: int) -> int:
    """Return the size of blocks that takes the fewest operations, (2 n)^(1/3).

    >>> automatic_block(512)
    10
    """
    return max(round(math.cbrt(2 * length)), 1)


def _system(matrix: Tensor, gamma: float) -> Tensor:
    return torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device) - gamma * matrix


def _solved(system: Tensor, right: Tensor) -> Tensor:
    found: Tensor = torch.linalg.solve_triangular(system, right, upper=False)
    return found
