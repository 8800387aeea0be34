"""Built-in mixers that have a decode state: causal, called on (batch, n, width), or token by token with equal outputs.

`prefill(x)` returns the outputs of all tokens and the state behind the last one, `step(token, state)` those of the next
token of shape (batch, 1, width). None changes the state that it is given.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Decoding(nn.Module):
    """A mixer whose outputs are those of its prefill."""

    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs of all tokens and the state."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all tokens."""
        return self.prefill(x)[0]


class Attention(Decoding):
    """Softmax attention of one head, written out: n^2 scores and n^2 weights, state n keys and values."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False, device=device)
        # One storage that the state keeps whole.
        self.pairs = nn.Linear(width, 2 * width, bias=False, device=device)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values."""
        k, v = self.pairs(x).chunk(2, -1)
        return self.query(x), k, v

    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs of all tokens and the state."""
        q, k, v = self.project(x)
        return self.attend(q, k, v, causal=True), (k, v)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
        """Return the weighted means of values; the later tokens are left out by scores of minus infinity."""
        rows, columns = (torch.arange(one.shape[1], device=q.device) for one in (q, k))
        later = q.new_zeros(len(rows), len(columns))
        if causal:
            later.masked_fill_(columns > rows[:, None], -math.inf)
        return torch.softmax(torch.baddbmm(later, q, k.mT, alpha=1 / math.sqrt(q.shape[2])), -1) @ v

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output of the next token and the state with it."""
        q, k, v = self.project(token)
        k, v = torch.cat([state[0], k], 1), torch.cat([state[1], v], 1)
        return self.attend(q, k, v, causal=False), (k, v)


class Sdpa(Attention):
    """The same attention by torch's fused kernel, which keeps no scores: memory n."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
        """Return the weighted means of values."""
        return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=causal)[:, 0]


class WindowAttention(Attention):
    """Attention to the last `window` tokens, itself among them: n, state min(n, window)."""

    def __init__(self, width: int, device: str, window: int = 64) -> None:
        super().__init__(width, device)
        self.window = window

    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs of all tokens and the state."""
        w, n = self.window, x.shape[1]
        q, k, v = self.project(x)
        q, *pairs = (F.pad(one, (0, 0, 0, -n % w)).unflatten(1, (-1, w)) for one in (q, k, v))
        # Each block of queries sees its own keys and those of the block before it; before the first there are none.
        near, values = (torch.cat([F.pad(one, (0, 0, 0, 0, 1, 0))[:, :-1], one], 2) for one in pairs)
        key = torch.arange(2 * w, device=x.device) - torch.arange(w, device=x.device)[:, None]
        band = ((key > 0) & (key <= w)).repeat(q.shape[1], 1, 1)
        band[0, :, :w] = False
        scores = (q @ near.mT / math.sqrt(q.shape[-1])).masked_fill(~band, -math.inf)
        y = (torch.softmax(scores, -1) @ values).flatten(1, 2)[:, :n]
        return y, (k[:, -w:].clone(), v[:, -w:].clone())

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output of the next token and the state with it."""
        # What falls out of the window is dropped before the new token comes in.
        older = state if state[0].shape[1] < self.window else tuple(one[:, 1:] for one in state)
        return super().step(token, older)


class LinearAttention(Decoding):
    """Attention with features elu + 1 instead of the softmax (arXiv 2006.16236): n, state width (width + 1).

    It takes `chunk` tokens at once; sums of keys and values go from chunk to chunk.
    """

    def __init__(self, width: int, device: str, chunk: int = 64) -> None:
        super().__init__()
        self.chunk = chunk
        self.project = nn.Linear(width, 3 * width, bias=False, device=device)

    def features(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values; a last feature of ones beside the values sums the weights."""
        q, k, v = self.project(x).chunk(3, -1)
        return F.elu(q) + 1, F.elu(k) + 1, F.pad(v, (0, 1), value=1.0)

    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs of all tokens and the state."""
        n = x.shape[1]
        # Keys of zeros at the end add nothing.
        q, k, v = (F.pad(one, (0, 0, 0, -n % self.chunk)).unflatten(1, (-1, self.chunk)) for one in self.features(x))
        own = k.mT @ v
        sums = own.cumsum(1)
        y = ((q @ k.mT).tril() @ v + q @ (sums - own)).flatten(1, 2)[:, :n]
        return y[..., :-1] / y[..., -1:], sums[:, -1].clone()

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output of the next token and the state with it."""
        q, k, v = self.features(token)
        state = state + k.mT @ v
        y = q @ state
        return y[..., :-1] / y[..., -1:], state


class FftConvolution(Decoding):
    """A causal convolution as long as the sequence, by FFTs of length 2 n: n log n, state n inputs."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.rand(width, device=device))

    def kernel(self, n: int) -> Tensor:
        """Return the weights of the last n tokens, the newest first: cos(f t) / (1 + t), which no small state gives."""
        t = torch.arange(n, device=self.frequency.device)[:, None].to(self.frequency.dtype)
        return torch.cos(self.frequency * t) / (1 + t)

    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs of all tokens and the state."""
        n = x.shape[1]
        product = torch.fft.rfft(x, 2 * n, dim=1) * torch.fft.rfft(self.kernel(n), 2 * n, dim=0)
        return torch.fft.irfft(product, 2 * n, dim=1)[:, :n], x

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output of the next token and the state with it."""
        state = torch.cat([state, token], 1)
        return (self.kernel(state.shape[1]).flip(0) * state).sum(1, keepdim=True), state


class SsmScan(Decoding):
    """The linear recurrence h = h A + u with a rotation A, in a loop: n calls one after the other, state width."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.inward = nn.Linear(width, width, bias=False, device=device)
        # A rotation: no power of it vanishes into denormal numbers, which are slow.
        self.rotation = nn.Parameter(torch.linalg.qr(torch.randn(width, width, device=device))[0])

    def states(self, u: Tensor) -> Tensor:
        """Return the states of all tokens."""
        h, kept = torch.zeros_like(u[:, :1]), []
        for t in range(u.shape[1]):
            h = h @ self.rotation + u[:, t : t + 1]
            kept.append(h)
        return torch.cat(kept, 1)

    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs of all tokens and the state."""
        h = self.states(self.inward(x))
        return h, h[:, -1:].clone()

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output of the next token and the state with it."""
        h = state @ self.rotation + self.inward(token)
        return h, h


class SsmParallel(SsmScan):
    """The same recurrence by doubling (Hillis and Steele, 1986): n log n operations, log n calls one after another."""

    def states(self, u: Tensor) -> Tensor:
        """Return the states of all tokens."""
        lag = 1
        power: Tensor = self.rotation
        while lag < u.shape[1]:
            # Each token has summed `lag` tokens; those of the token `lag` before it come to 2 lag.
            u = u + F.pad(u[:, :-lag] @ power, (0, 0, lag, 0))
            lag, power = 2 * lag, power @ power
        return u


class PolynomialMixer(Decoding):
    """PoM (arXiv 2604.06129): a gate times the running mean of polynomial features: n, state 2 widths and a count."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width, device=device)
        self.out = nn.Linear(2 * width, width, device=device)

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gate and the features of degrees one and two."""
        gate, first, second = self.project(x).chunk(3, -1)
        first = F.gelu(first)
        features = torch.cat([first, first * second], -1)
        return torch.sigmoid(gate).repeat(1, 1, 2), features

    def prefill(self, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs of all tokens and the state."""
        gate, features = self.features(x)
        sums = features.cumsum(1)
        counts = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return self.out(gate * (sums / counts)), (sums[:, -1:].clone(), x.shape[1])

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output of the next token and the state with it."""
        gate, features = self.features(token)
        total, count = state[0] + features, state[1] + 1
        return self.out(gate * (total / count)), (total, count)
