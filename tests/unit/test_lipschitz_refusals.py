"""Normalisations by a picture's own spread, which have a constant, and attention, which says why it has none."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from probes.classifiers.lipschitz_bound import lipschitz_bound
from probes.core.errors import InputError

pytestmark = pytest.mark.numerical

SHAPE = (4, 3, 3)


@pytest.mark.parametrize(
    ("norm", "least"),
    [
        (nn.LayerNorm(3, eps=0.01), 10.0),
        (nn.LayerNorm((4, 3, 3)), 1 / math.sqrt(1e-5)),
        (nn.GroupNorm(2, 4, eps=0.04), 5.0),
        (nn.InstanceNorm2d(4, eps=0.25), 2.0),
        (nn.RMSNorm(3, eps=0.01), 10.0),
    ],
    ids=repr,
)
def test_division_by_ones_own_spread_has_the_slope_of_equal_numbers(norm: nn.Module, least: float) -> None:
    net = nn.Sequential(norm, nn.Flatten()).double().eval()
    bound = lipschitz_bound(net, SHAPE)
    assert least <= bound.product == pytest.approx(least, rel=1e-7)
    assert [layer.method for layer in bound.layers] == ["proven"]
    # At a picture of equal numbers, zeros for the one that takes no mean off, the constant is the slope.
    flat = torch.zeros(1, *SHAPE, dtype=torch.float64)
    assert jacobian(net, flat) == pytest.approx(least, rel=1e-9)
    drawn = torch.rand(1, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert jacobian(net, 3 * drawn) < 0.9 * least


def jacobian(net: nn.Module, at: Tensor) -> float:
    slopes = torch.autograd.functional.jacobian(lambda x: net(x)[0], at)
    return float(torch.linalg.matrix_norm(slopes.flatten(1), ord=2))


def test_the_largest_weight_counts() -> None:
    norm = nn.GroupNorm(1, 4, eps=0.01)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, -3.0, 2.0, 0.0]))
    net = nn.Sequential(norm, nn.Flatten()).double()
    bound = lipschitz_bound(net, SHAPE).product
    reached = jacobian(net, torch.zeros(1, *SHAPE, dtype=torch.float64))
    assert reached <= bound == pytest.approx(30.0, rel=1e-7) and reached == pytest.approx(30.0, rel=0.02)


class Tokens(nn.Module):
    """Takes the pixels for tokens, as many as `keep`, and hands them to a layer."""

    def __init__(self, layer: Callable[[Tensor], Tensor], keep: int = 9) -> None:
        super().__init__()
        self.layer, self.keep = layer, keep

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(2).permute(0, 2, 1)[:, : self.keep]).flatten(1)


class Own(nn.Module):
    """Attention of the layer of torch, called on its input alone, or with keys that are fixed."""

    def __init__(self, *, fixed: bool = False) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(4, 2, batch_first=True)
        self.register_buffer("keys", torch.ones(1, 5, 4) if fixed else None)

    def forward(self, x: Tensor) -> Tensor:
        if self.keys is not None:
            result: Tensor = self.inner(x, self.keys, self.keys)[0]
        else:
            result = self.inner(query=x, key=x, value=x)[0]
        return result


class ProductAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x @ x.transpose(1, 2), -1) @ x


BARE = "By itself, dot-product self-attention over two tokens or more has in general no finite constant on unbounded"
WHOLE = "It holds attention; no constant is known for the whole layer."


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (Tokens(Own()), BARE),
        (Tokens(lambda x: F.scaled_dot_product_attention(x, x, x)), BARE),
        (Tokens(Own(), keep=1), WHOLE),
        (Tokens(lambda x: F.scaled_dot_product_attention(x, x, x), keep=1), WHOLE),
        (Tokens(Own(fixed=True)), WHOLE),
        (Tokens(nn.TransformerEncoderLayer(4, 2, batch_first=True)), WHOLE),
        (Tokens(nn.TransformerEncoderLayer(4, 2, batch_first=True, norm_first=True)), WHOLE),
        (Tokens(ProductAttention()), WHOLE),
    ],
    ids=["layer", "function", "one-token", "function-one-token", "fixed-keys", "encoder", "norm-first", "own-class"],
)
def test_only_attention_by_itself_is_said_to_have_no_constant(network: nn.Module, why: str) -> None:
    with pytest.raises(InputError, match="No Lipschitz constant is known for") as caught:
        lipschitz_bound(network.double().eval(), SHAPE)
    assert caught.value.hint.startswith(why) and caught.value.where.startswith("layer ")
    assert (BARE in caught.value.hint) == (why == BARE)


class Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) if x.sum() > 0 else -x.flatten(1)


def test_a_network_that_cannot_be_traced_says_that_it_holds_attention() -> None:
    with pytest.raises(InputError, match="cannot be read as a graph") as caught:
        lipschitz_bound(Choosing(), SHAPE)
    assert caught.value.hint.startswith("It holds attention (MultiheadAttention)")


@pytest.mark.parametrize("function", [lambda x: F.layer_norm(x, (3,)), lambda x: F.group_norm(x, 2)])
def test_a_normalisation_called_as_a_function_says_so(function: Callable[[Tensor], Tensor]) -> None:
    class Called(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x).flatten(1)

    with pytest.raises(InputError, match="No Lipschitz constant is known for") as caught:
        lipschitz_bound(Called(), SHAPE)
    assert caught.value.hint.startswith("Called as a function it is not read")
