"""What does counting the operations of a forward pass cost here, beside fvcore, and which count is that of the formula?

`miles` is the count of `miles scaling`: operators are counted as they are dispatched, on tensors without data.
`miles, real tensors` computes them too, as it does for models that read values. `fvcore` asks `FlopCountAnalysis` of
version 0.1.5.post20221221 for its total, which traces the network on real tensors. fvcore counts a multiplication with
its addition as one: its total is doubled here. miles counts bytes moved and memory in the same pass; fvcore does not.

Seven small networks on (1, n, width) have counts that can be written down; none has a norm, an activation is not
counted, and attention counts as the full square: `by hand` is the truth.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import race

KERNEL = 5
OPTIONS = {
    "n": race.Option(1_024, 64, "tokens"),
    "width": race.Option(256, 16, "features of a token"),
    "skip": race.Option("", "", "a network to leave out"),
}
BY_HAND: dict[str, Callable[[int, int], int]] = {
    "perceptron": lambda n, d: 16 * n * d**2,
    "attention": lambda n, d: 8 * n * d**2 + 4 * n**2 * d,
    "fused attention": lambda n, d: 8 * n * d**2 + 4 * n**2 * d,
    "added products": lambda n, d: 2 * n**2 * d,
    "einsum": lambda n, d: 4 * n * d**2,
    "convolutions": lambda n, d: 2 * KERNEL * n * d**2 + 2 * KERNEL * n * d,
    "recurrent": lambda n, d: 16 * n * d**2,
}
"""Multiplications and additions for n tokens of d features, one sequence."""


@cache
def networks() -> dict[str, Callable[[int], Any]]:
    """Return what makes each network, given its width."""
    import torch
    from torch import Tensor, nn

    class Attention(nn.Module):
        def __init__(self, width: int, fused: bool) -> None:
            super().__init__()
            self.fused, self.width = fused, width
            self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.query(x), self.key(x), self.value(x)
            if self.fused:
                return self.out(nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0])
            return self.out((q @ k.transpose(1, 2) / self.width**0.5).softmax(-1) @ v)

    class Added(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.baddbmm(x.new_zeros(1, x.shape[1], x.shape[1]), x, x.transpose(1, 2))

    class Summed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.einsum("bnd,bde->bne", x, torch.einsum("bnd,bne->bde", x, x))

    class Turned(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.transpose(1, 2)).transpose(1, 2)

    def convolutions(width: int) -> nn.Module:
        whole, each = (
            nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, groups=groups, bias=False) for groups in (1, width)
        )
        return Turned(nn.Sequential(whole, each))

    return {
        "perceptron": lambda d: nn.Sequential(
            nn.Linear(d, 4 * d, bias=False), nn.ReLU(), nn.Linear(4 * d, d, bias=False)
        ),
        "attention": lambda d: Attention(d, False),
        "fused attention": lambda d: Attention(d, True),
        "added products": lambda d: Added(),
        "einsum": lambda d: Summed(),
        "convolutions": convolutions,
        "recurrent": lambda d: nn.LSTM(d, d, bias=False, batch_first=True),
    }


def chosen(given: argparse.Namespace) -> dict[str, Callable[[int], Any]]:
    """Return the networks that are not left out."""
    return {name: made for name, made in networks().items() if name != given.skip}


def miles(real: bool) -> race.Side:
    """Count every network."""

    def side(given: argparse.Namespace) -> race.Job:
        from probes.scaling.counting import count
        from probes.scaling.reference_modules import factory_target
        from probes.scaling.workloads import Case

        case = Case(n=given.n, width=given.width)
        targets = {
            name: factory_target(name, lambda batch, n, width, device, made=made: made(width))
            for name, made in chosen(given).items()
        }
        return lambda: {name: count(target, case, real=real).operations for name, target in targets.items()}

    return side


def fvcore(given: argparse.Namespace) -> race.Job:
    """Ask for every network; making it is part of the job, as on the other sides."""
    import logging
    import warnings

    import torch
    from fvcore.nn import FlopCountAnalysis

    warnings.simplefilter("ignore")
    logging.disable()

    def job() -> race.Result:
        x = torch.randn(1, given.n, given.width)
        with torch.no_grad():
            return {
                name: 2 * int(FlopCountAnalysis(made(given.width).eval(), x).total())
                for name, made in chosen(given).items()
            }

    return job


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say what part of the operations by hand each side counts."""
    for name in chosen(given):
        true = BY_HAND[name](given.n, given.width)
        shares = [f"{side} {int(rows[0].result[name]) / true:.1%}" for side, rows in found.items()]
        yield f"{name}, by hand {true:,}: {', '.join(shares)}"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"miles": miles(False), "miles, real tensors": miles(True), "fvcore": fvcore},
        remarks=remarks,
        packages=("fvcore",),
    )
