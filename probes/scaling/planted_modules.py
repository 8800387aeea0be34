"""Modules that break their claim of linear growth in a known way, for tests and demonstrations.

Each is a factory f(batch, n, width, device), as a user's own.
"""

from typing import Any

import torch
from torch import Tensor, nn

from probes.scaling.decoding_modules import LinearAttention


class _HiddenMask(LinearAttention):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        seen = torch.ones(n, n, dtype=torch.bool, device=x.device).tril_().sum(1)
        return super().forward(x) / seen[:, None].sqrt()


class _LeakingCache(LinearAttention):
    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        y, state = super().prefill(x)
        return y, (state, [x])

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        y, sums = super().step(token, state[0])
        return y, (sums, [*state[1], token])


def hidden_mask(batch: int, n: int, width: int, device: str) -> nn.Module:
    """Return a mixer with linear operations that counts the tokens before each by a mask of n x n bytes.

    Memory grows with n^2; seconds look linear below about 2,000 tokens.
    """
    return _HiddenMask(width, device)


def growing_chunk(batch: int, n: int, width: int, device: str) -> nn.Module:
    """Return linear attention with a sixteenth of the sequence as its chunk: operations and memory grow with n^2."""
    return LinearAttention(width, device, chunk=max(64, n // 16))


def leaking_cache(batch: int, n: int, width: int, device: str) -> nn.Module:
    """Return linear attention whose state should be constant and keeps each token too: it grows with n."""
    return _LeakingCache(width, device)
