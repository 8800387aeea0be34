"""Built-in mixers without a decode state of their own, called on (batch, n, width)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WINDOW = 64
"""Tokens of one window of the multipole mixer, on each of its levels."""


class Multipole(nn.Module):
    """Attention within windows, of the tokens and of ever coarser means of them, summed (as in arXiv 2507.02748): n.

    Level l has n / 2^l cells; all levels together cost less than twice the first. It looks to both sides.
    """

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width, bias=False, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return the near field of this level and, from the coarser ones, the far field."""
        n = x.shape[1]
        cells = F.pad(x, (0, 0, 0, -n % WINDOW)).unflatten(1, (-1, WINDOW))
        q, k, v = self.project(cells).chunk(3, -1)
        near: Tensor = (torch.softmax(q @ k.mT / math.sqrt(x.shape[2]), -1) @ v).flatten(1, 2)[:, :n]
        if n <= WINDOW:
            return near
        coarse: Tensor = self(F.pad(x, (0, 0, 0, n % 2)).unflatten(1, (-1, 2)).mean(2))
        return near + coarse.repeat_interleave(2, 1)[:, :n]


class BlockwiseResolvent(nn.Module):
    """Y = (I - B)^-1 V within blocks of b tokens, then between the means of blocks (as in arXiv 2605.22476): n^(4/3).

    B has strictly causal weights of queries and keys. Blocks cost n b width, the n / b means (n / b)^2 width: least
    together at b = (2 n)^(1/3).
    """

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width, bias=False, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all tokens."""
        n = x.shape[1]
        b = max(1, round((2 * n) ** (1 / 3)))
        blocks = F.pad(x, (0, 0, 0, -n % b)).unflatten(1, (-1, b))
        q, k, v = self.project(blocks).chunk(3, -1)
        near = self.resolvent(q, k, v)
        far = self.resolvent(q.mean(2), k.mean(2), near.mean(2))
        # A token sees whole blocks before its own.
        return (near + F.pad(far, (0, 0, 1, 0))[:, :-1, None]).flatten(1, 2)[:, :n]

    def resolvent(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return (I - B)^-1 V, whose weights are bounded as each row of B sums to less than one."""
        rows = torch.arange(1, q.shape[-2] + 1, device=q.device)[:, None]
        weights = torch.sigmoid(q @ k.mT / math.sqrt(q.shape[-1])).tril(-1) / rows
        solved: Tensor = torch.linalg.solve_triangular(-weights, v, upper=False, unitriangular=True)
        return solved


class LagMixer(nn.Module):
    """Each token looks back at chosen lags, with weights sigmoid(x_t x_s) (lags of arXiv 2605.31367).

    Parameters
    ----------
    squares
        Lags k^2 + 1, sqrt(n) of them: n^(3/2); else 2^k, log2(n) of them: n log n.
    """

    def __init__(self, width: int, device: str, *, squares: bool) -> None:
        super().__init__()
        self.squares = squares
        self.scale = nn.Parameter(torch.rand(width, device=device) / width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all tokens."""
        k, y = 0, x
        while (lag := k * k + 1 if self.squares else 2**k) < x.shape[1]:
            now, then = (x * self.scale)[:, lag:], x[:, :-lag]
            weights = torch.sigmoid(now[..., None, :] @ then[..., None])[..., 0]
            y = y + F.pad(weights * then, (0, 0, lag, 0))
            k += 1
        return y
