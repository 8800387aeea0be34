"""Is the bound of a network above what it does, as small as its rules allow, and refused where there is none?"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from probes.classifiers.lipschitz_bound import lipschitz_bound, softmax_bound, weighted
from probes.classifiers.lipschitz_constants import GELU
from probes.classifiers.lipschitz_steps import read_steps
from probes.classifiers.spectral_norm import measure
from probes.core.errors import InputError

pytestmark = pytest.mark.numerical

SHAPE = (2, 6, 6)


class Lambda(nn.Module):
    """A function between a fixed layer and the logits, so that it is part of a network."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.flatten = nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.flatten(self.function(x))
        return result


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    """Fill weights and statistics with fixed random numbers, and leave training mode."""
    source = torch.Generator().manual_seed(seed)
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            drawn = torch.randn(value.shape, generator=source)
            value.copy_(drawn.abs() + 0.1 if name.endswith("running_var") else drawn)
    return module.eval()


def jacobian_norm(module: nn.Module, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> float:
    x = torch.randn(1, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(lambda pixels: module.double()(pixels * 1)[0], x)
    return float(torch.linalg.matrix_norm(slopes.flatten(1), ord=2))


def product(function: Callable[[Tensor], Tensor], shape: tuple[int, int, int] = SHAPE) -> float:
    return lipschitz_bound(Lambda(function).eval(), shape).product


def expect(function: Callable[[Tensor], Tensor], constant: float) -> None:
    assert product(function) == pytest.approx(constant, rel=1e-7)
    assert product(function) >= constant


# Constants


@pytest.mark.parametrize(
    ("layer", "constant"),
    [
        (nn.Identity(), 1.0), (nn.Dropout(0.5), 1.0), (nn.ReLU(), 1.0), (nn.ReLU(inplace=True), 1.0), (nn.ReLU6(), 1.0),
        (nn.Hardtanh(-2, 5), 1.0), (nn.LeakyReLU(0.1), 1.0), (nn.LeakyReLU(-3.0), 3.0), (nn.ELU(), 1.0),
        (nn.ELU(2.5), 2.5), (nn.Tanh(), 1.0), (nn.Sigmoid(), 0.25), (nn.Softplus(4.0), 1.0), (nn.GELU(), GELU),
        (nn.ZeroPad2d(2), 1.0), (nn.ConstantPad2d((1, 0, 0, 0), 7.0), 1.0), (nn.PReLU(2, init=-1.5), 1.5),
        (nn.MaxPool2d(2), 1.0), (nn.MaxPool2d(3, 2), 2.0), (nn.MaxPool2d((3, 2), (1, 2)), math.sqrt(3)),
        (nn.MaxPool2d(3, 2, dilation=2, padding=1), 2.0), (nn.MaxPool2d(5, 5, padding=2), 1.0),
        (nn.AvgPool2d(2), 0.5), (nn.AvgPool2d(3), 1 / 3), (nn.AvgPool2d((2, 3)), 1 / math.sqrt(6)),
        (nn.AdaptiveAvgPool2d(1), 1 / 6), (nn.AdaptiveAvgPool2d((6, 3)), 1 / math.sqrt(2)),
    ],
    ids=repr,
)  # fmt: skip
def test_layers_without_weights_have_their_proven_constants(layer: nn.Module, constant: float) -> None:
    bound = lipschitz_bound(nn.Sequential(layer, nn.Flatten()).eval(), SHAPE)
    assert constant <= bound.product == pytest.approx(constant, rel=1e-7)
    assert [record.method for record in bound.layers] == ["proven"] * (constant != 1.0)
    assert bound.product >= jacobian_norm(nn.Sequential(layer, nn.Flatten()).eval()) - 1e-9


def test_the_slope_of_gelu_is_below_its_constant_and_comes_close() -> None:
    x = torch.linspace(-8, 8, 400_001, dtype=torch.float64, requires_grad=True)
    slope = torch.autograd.grad(F.gelu(x).sum(), x)[0].abs().max().item()
    assert slope <= GELU < slope + 2e-7


@pytest.mark.parametrize(
    "pool", [nn.AvgPool2d(3, 1), nn.AvgPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1, True, False), nn.AvgPool2d((4, 3), 2)]
)
def test_overlapping_mean_pools_have_their_exact_norm(pool: nn.Module) -> None:
    net = nn.Sequential(pool, nn.Flatten())
    assert lipschitz_bound(net, SHAPE).product == pytest.approx(jacobian_norm(net), rel=1e-7)


@pytest.mark.parametrize(
    ("pool", "constant"),
    [(nn.MaxPool2d(3, 2), 2.0), (nn.MaxPool2d(3, 2, padding=1, dilation=2), 3.0), (nn.MaxPool2d(5, 2), 3.0)],
    ids=repr,
)
def test_a_maximum_pool_can_reach_its_constant(pool: nn.Module, constant: float) -> None:
    # One cell alone changes, and with it one output for each window that holds it.
    net = nn.Sequential(pool, nn.Flatten())
    reached = []
    for cell in range(14 * 14):
        x = torch.zeros(14 * 14)
        x[cell] = 1.0
        reached.append(float(net(x.reshape(1, 1, 14, 14)).norm()))
    assert max(reached) == constant == pytest.approx(lipschitz_bound(net, (1, 14, 14)).product, rel=1e-8)


def test_batch_normalisation_is_folded_or_counted_by_itself() -> None:
    before = seeded(nn.Sequential(nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten()))
    norm = before[0]
    scale = (norm.weight.double().abs() / (norm.running_var.double() + norm.eps).sqrt()).max().item()
    assert lipschitz_bound(before, SHAPE).product == pytest.approx(scale, rel=1e-7)
    after = seeded(nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.Flatten()))
    folded, apart = lipschitz_bound(after, SHAPE), lipschitz_bound(nn.Sequential(after[0], nn.Flatten()), SHAPE)
    assert [record.kind for record in folded.layers] == ["Conv2d"]
    worst = (after[1].weight.double().abs() / (after[1].running_var.double() + after[1].eps).sqrt()).max().item()
    assert folded.product < apart.product * worst


# Graphs


def test_the_first_example_worked_out_by_hand() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(72, 2, bias=False), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        net[1].weight.fill_(0.5)
        net[2].weight.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    bound = lipschitz_bound(net, SHAPE)
    # |0.5 ones(2, 72)| = 0.5 sqrt(144) = 6, |diag(3, 1)| = 3.
    assert [round(record.bound, 6) for record in bound.layers] == [6.0, 3.0]
    assert bound.product == pytest.approx(18.0) and [stage.name for stage in bound.stages] == ["1", "2"]
    assert [(record.name, record.kind, record.method) for record in bound.layers] == [
        ("1", "Linear", "exact"),
        ("2", "Linear", "exact"),
    ]


@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (lambda x: x + x, 2.0), (lambda x: x + F.relu(x) * 3, 4.0), (lambda x: x - 2 * x, 3.0), (lambda x: 1 - x, 1.0),
        (lambda x: torch.cat([x, 2 * x], 1), math.sqrt(5)), (lambda x: torch.cat([x, x], 1), math.sqrt(2)),
        (lambda x: -x, 1.0), (lambda x: x / 4, 0.25), (lambda x: x * torch.tensor([-2.0]), 2.0),
        (lambda x: x[:, :, ::2, 1:] * 2, 2.0), (lambda x: F.pad(x, (1, 1)), 1.0), (lambda x: x.mean((2, 3)), 1 / 6),
        (lambda x: torch.mean(x, -1, keepdim=True), 1 / math.sqrt(6)), (lambda x: x.view(x.size(0), -1), 1.0),
        (lambda x: torch.flatten(x, 1).reshape(x.shape[0], -1), 1.0), (lambda x: x.permute(0, 2, 3, 1), 1.0),
        (lambda x: F.max_pool2d(x, 3, 2), 2.0), (lambda x: F.max_pool2d(x, 3, stride=3), 1.0),
        (lambda x: F.avg_pool2d(x, 2), 0.5), (lambda x: F.adaptive_avg_pool2d(x, 1), 1 / 6),
        (lambda x: F.leaky_relu(x, 2.0), 2.0), (lambda x: F.elu(x, alpha=3.0), 3.0), (lambda x: x.sigmoid(), 0.25),
        (lambda x: torch.tanh(x).relu(), 1.0), (lambda x: F.gelu(x), GELU), (lambda x: F.softplus(x), 1.0),
        (lambda x: F.dropout(x, training=False), 1.0),
        (lambda x: x[:, :, :1, :1] + x, 7.0), (lambda x: x[:, :, :1, :1] * torch.ones(6, 1), math.sqrt(6)),
    ],
)  # fmt: skip
def test_operations_combine_as_they_should(function: Callable[[Tensor], Tensor], constant: float) -> None:
    expect(function, constant)
    assert product(function) >= jacobian_norm(Lambda(function)) - 1e-9


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5])[:, None, None])
        self.register_buffer("std", torch.tensor([0.25, 0.2])[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = (x - self.mean) / self.std
        return result


def test_standardising_the_picture_counts_by_its_smallest_deviation() -> None:
    bound = lipschitz_bound(nn.Sequential(Normalised(), nn.Flatten()), SHAPE)
    assert bound.product == pytest.approx(5.0, rel=1e-6)
    assert [(record.name, record.kind) for record in bound.layers] == [("0.truediv", "Normalised.truediv")]


class Block(nn.Module):
    def __init__(self, width: int, *, inplace: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=inplace)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x
        result: Tensor = self.relu(y)
        return result


def residual() -> nn.Sequential:
    layers = (nn.Conv2d(2, 3, 3, padding=1), Block(3), Block(3, inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    net = seeded(nn.Sequential(*layers, nn.Linear(3, 4)))
    assert isinstance(net, nn.Sequential)
    return net


def test_residual_blocks_are_one_and_their_branch() -> None:
    bound = lipschitz_bound(residual(), SHAPE)
    parts = {record.name: record.bound for record in bound.layers}
    expected = parts["0"] / 6 * parts["5"]
    for block in ("1", "2"):
        expected *= 1 + parts[f"{block}.conv1"] * parts[f"{block}.conv2"]
    assert bound.product == pytest.approx(expected, rel=1e-7) and bound.product >= expected * (1 - 1e-12)
    assert [stage.name for stage in bound.stages] == ["0", "1", "2", "3", "5"]
    assert math.prod(stage.factor for stage in bound.stages) == pytest.approx(bound.product)


@pytest.mark.parametrize("seed", range(5))
def test_no_slope_exceeds_the_bound(seed: int) -> None:
    net = seeded(residual(), seed)
    assert jacobian_norm(net, seed=seed) <= lipschitz_bound(net, SHAPE).product


def test_layers_tell_their_geometry_and_both_bounds() -> None:
    net = seeded(nn.Sequential(nn.Conv2d(2, 3, 3, stride=(1, 2), padding=(0, 1)), nn.Flatten()))
    record = lipschitz_bound(net, SHAPE, lower_steps=2000).layers[0]
    assert (record.grid, record.stride, record.padding) == ((6, 6), (1, 2), (0, 0, 1, 1))
    truth = jacobian_norm(net)
    assert record.lower is not None and record.lower <= truth <= record.bound
    assert record.lower == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize(
    ("padding", "mode"), [("same", "zeros"), ("valid", "zeros"), (1, "circular"), ("same", "circular")]
)
def test_paddings_in_words_and_circles(padding: Any, mode: str) -> None:
    conv = nn.Conv2d(2, 2, 3, padding=padding, padding_mode=mode)
    net = seeded(nn.Sequential(conv, nn.Flatten()))
    record = lipschitz_bound(net, SHAPE, lower_steps=5000).layers[0]
    truth = jacobian_norm(net)
    assert record.lower is not None and record.lower <= truth <= record.bound
    assert record.lower == pytest.approx(truth, rel=1e-4)
    if mode == "circular":
        assert record.bound == pytest.approx(truth, rel=1e-7)


def forward(self, x: Tensor) -> Tensor:
    logits = 2 * x.flatten(1)
    logits * 100
    return logits


class Wasteful(nn.Module):
    """Computes more than it returns."""

    def forward(self, x: Tensor) -> Tensor:
        logits = 2 * x.flatten(1)
        logits * 100
        return logits


def test_what_is_thrown_away_does_not_count() -> None:
    assert lipschitz_bound(Wasteful(), SHAPE).product == pytest.approx(2.0)


def test_a_layer_used_twice_counts_twice_under_two_names() -> None:
    conv = nn.Conv2d(2, 2, 1)
    net = seeded(nn.Sequential(conv, nn.ReLU(), conv, nn.Flatten()))
    once, twice = lipschitz_bound(net, SHAPE).layers
    assert (once.name, twice.name) == ("0", "0#2") and once.bound == twice.bound
    assert lipschitz_bound(net, SHAPE).product == pytest.approx(once.bound**2)


def test_the_network_given_is_left_as_it_was() -> None:
    net = residual().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    lipschitz_bound(net, SHAPE)
    assert net.training and all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert next(net.parameters()).dtype == torch.float32


def test_weights_made_by_a_parametrisation_count_as_they_are_used() -> None:
    net = nn.Sequential(parametrizations.weight_norm(nn.Conv2d(2, 2, 3)), nn.Flatten()).eval()
    assert lipschitz_bound(net, SHAPE).product >= jacobian_norm(net)


def test_a_cache_may_stand_in_for_the_measurement() -> None:
    met = []

    def norms(layer: Any, steps: int) -> Any:
        met.append(steps)
        return measure(layer, steps=steps)

    net = residual()
    assert lipschitz_bound(net, SHAPE, lower_steps=3, norms=norms).product == lipschitz_bound(net, SHAPE).product
    assert met == [3] * 6 and len(weighted(read_steps(net, SHAPE))) == 6


def test_softmax_is_flatter_than_its_logits() -> None:
    logits = torch.tensor([0.3, 0.3, -40.0], dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, 0)[0], logits)
    assert float(slopes.norm()) == pytest.approx(softmax_bound(1.0)) and float(slopes.norm()) <= softmax_bound(1.0)


# Refusals


class Twice(nn.Module):
    """Changes in place what it reads again."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 5
        z = y.flatten(1)
        z *= 9
        result: Tensor = y.flatten(1) + z
        return result


class Chance(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * torch.rand(1)).flatten(1)


class Late(nn.Module):
    """Changes in place, by a layer, what is read later."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = x - 0.5
        result: Tensor = (self.relu(y) + y).flatten(1)
        return result


class Choosing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class Item(nn.Module):
    """A number read off the pixels is no constant."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * x.max().item()).flatten(1)


class Subclass(nn.ReLU):
    def forward(self, input: Tensor) -> Tensor:
        return input**2


class Two(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("logits", torch.ones(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.logits * 2
        return result


def inside(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Sequential(nn.Conv2d(2, 2, 1), layer), nn.Flatten()).eval()


def hooked() -> nn.Module:
    layer = nn.ReLU()
    layer.register_forward_hook(lambda module, inputs, output: output * 9)
    return layer


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.SiLU(), "SiLU"),
        (nn.GELU("tanh"), "GELU"),
        (nn.GroupNorm(1, 2, eps=0.0), "GroupNorm"),
        (nn.LayerNorm(6, eps=0.0), "LayerNorm"),
        (nn.RMSNorm(6), "RMSNorm"),
        (hooked(), "ReLU"),
        (nn.Softmax(1), "Softmax"),
        (nn.LPPool2d(2, 2), "LPPool2d"),
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "Conv2d"),
        (nn.Softplus(1.0, 0.1), "Softplus"),
        (nn.BatchNorm2d(2, track_running_stats=False), "BatchNorm2d"),
        (nn.AvgPool2d(2, divisor_override=1), "AvgPool2d"),
        (nn.Conv2d(2, 2, 3, padding=2, padding_mode="circular"), "Conv2d"),
        (nn.Upsample(scale_factor=2), "Upsample"),
        (nn.InstanceNorm2d(2, track_running_stats=True), "InstanceNorm2d"),
        (nn.ReflectionPad2d(1), "ReflectionPad2d"),
    ],
    ids=repr,
)
def test_a_layer_without_a_proof_is_refused_by_name_and_place(layer: nn.Module, name: str) -> None:
    # Statistics are kept by a normalisation only where it does not follow a layer that takes it up.
    net = nn.Sequential(nn.Sequential(nn.ReLU(), layer), nn.Flatten()).eval()
    with pytest.raises(InputError, match=f"No Lipschitz constant is known for {name}") as caught:
        lipschitz_bound(net, SHAPE)
    assert caught.value.where == "layer 0.1"


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.Conv2d(2, 2, 3, padding=3, padding_mode="circular"), "Its circular padding is wider than the kernel"),
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "Only padding with zeros and circular"),
        (nn.GroupNorm(1, 2, eps=0.0), "Its eps is 0"),
        (nn.RMSNorm(6), "It has no eps of its own"),
        (nn.InstanceNorm2d(2, track_running_stats=True), "It keeps statistics"),
        (nn.ReflectionPad2d(1), "The page docs/audits/lipschitz.md lists"),
    ],
    ids=repr,
)
def test_a_refusal_says_why_a_layer_has_no_constant(layer: nn.Module, why: str) -> None:
    with pytest.raises(InputError) as caught:
        lipschitz_bound(nn.Sequential(layer, nn.Flatten()).eval(), SHAPE)
    assert caught.value.hint is not None and caught.value.hint.startswith(why)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x,
        lambda x: x**2,
        lambda x: 1 / x,
        lambda x: x / 0,
        lambda x: x.sum((2, 3)),
        torch.exp,
        lambda x: x[:, [0, 0]],
        lambda x: x.repeat(1, 2, 1, 1),
        lambda x: x.expand(1, 2, 6, 6),
        lambda x: x.chunk(2, 1)[0],
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        lambda x: F.interpolate(x, 12),
        lambda x: torch.add(x, x, alpha=5),
        lambda x: torch.matmul(x, x),
        lambda x: x.mean((0, 1)),
        lambda x: F.dropout(x),
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
        lambda x: x.abs().sqrt(),
        lambda x: F.conv2d(x, torch.ones(2, 2, 1, 1).double()),
        lambda x: F.normalize(x),
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: F.avg_pool2d(x, 2, divisor_override=1),
        lambda x: torch.div(x, 2, rounding_mode="floor"),
        lambda x: F.leaky_relu(x, x[0, 0, 0, 0]),
        lambda x: F.leaky_relu(x, x.size(0) * 0.3),
        lambda x: F.pad(x, (1, 1), value=x[0, 0, 0, 0]),
        lambda x: F.threshold(x, 0.5, 0.0),
        lambda x: F.layer_norm(x, (6,)),
        lambda x: F.conv_transpose2d(x, torch.ones(2, 2, 1, 1).double()),
    ],
)
def test_an_operation_without_a_proof_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(InputError, match=r"No Lipschitz constant is known for|changes in place"):
        lipschitz_bound(Lambda(function), SHAPE)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Twice(), "does not compute what its graph"),
        (Chance(), "or depends on chance"),
        (Late(), "ReLU changes in place what is used elsewhere"),
        (Choosing(), "cannot be read as a graph"),
        (inside(Item()), "No Lipschitz constant"),
        (inside(Subclass()), "No Lipschitz constant is known for Subclass.pow"),
        (Two(), "does not return one tensor"),
        (Constant(), "does not return one tensor"),
        (nn.Sequential(nn.Conv2d(5, 2, 1)), "cannot be run on pictures"),
        (nn.Sequential(nn.Conv2d(2, 2, 1)), "one tensor of logits"),
        (nn.Flatten(), None),
        (nn.Bilinear(3, 3, 3), "cannot be run"),
    ],
)
def test_networks_that_have_no_bound_say_why(network: nn.Module, message: str | None) -> None:
    if message is None:
        assert lipschitz_bound(network, SHAPE).product == 1.0
        return
    with pytest.raises(InputError, match=message):
        lipschitz_bound(network, SHAPE)


# What names and memory hide


def tenfold() -> nn.Linear:
    layer = nn.Linear(4, 4, bias=False)
    layer.weight.data = 10 * torch.eye(4)
    return layer


class Named(nn.Module):
    """A layer that bears the name of a method that tells sizes."""

    def __init__(self, name: str, join: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.name, self.join = name, join
        self.add_module(name, tenfold())

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.join(flat, getattr(self, self.name)(flat))


@pytest.mark.parametrize(
    ("name", "join", "constant"),
    [
        ("size", torch.add, 11.0),
        ("dim", torch.add, 11.0),
        ("numel", lambda x, y: torch.cat([x, y], 1), math.sqrt(101)),
    ],
)
def test_a_layer_named_like_a_method_counts(
    name: str, join: Callable[[Tensor, Tensor], Tensor], constant: float
) -> None:
    bound = lipschitz_bound(Named(name, join).eval(), (1, 2, 2)).product
    assert constant <= bound == pytest.approx(constant, rel=1e-7)


def test_a_product_with_a_layer_named_like_a_method_is_refused() -> None:
    with pytest.raises(InputError, match="No Lipschitz constant is known for mul"):
        lipschitz_bound(Named("dim", torch.mul).eval(), (1, 2, 2))


class Changed(nn.Module):
    """A value is handed on by something, changed in place, and read again."""

    def __init__(self, hand_on: Callable[[Tensor], Tensor], change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.hand_on, self.change = nn.Conv2d(1, 2, 1, bias=False), hand_on, change

    def forward(self, x: Tensor) -> Tensor:
        kept = self.conv(x)
        result: Tensor = (self.change(self.hand_on(kept)) + kept).flatten(1)
        return result


@pytest.mark.parametrize("change", [lambda x: x.mul_(10), nn.LeakyReLU(20, inplace=True)], ids=["mul_", "layer"])
@pytest.mark.parametrize(
    "hand_on",
    [
        nn.Identity(), nn.Dropout(), nn.Dropout2d(), nn.Sequential(nn.Dropout(), nn.Dropout2d()),
        lambda x: F.dropout(x, training=False), lambda x: x.contiguous(), lambda x: x[:, :, :1],
        lambda x: x.permute(0, 2, 1, 3).transpose(1, 2),
    ],
)  # fmt: skip
def test_what_is_changed_in_place_under_another_name_is_refused(
    hand_on: Callable[[Tensor], Tensor], change: Callable[[Tensor], Tensor]
) -> None:
    with pytest.raises(InputError, match="changes in place what is used elsewhere"):
        lipschitz_bound(Changed(hand_on, change).eval(), (1, 2, 2))


def test_what_memory_alone_tells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # A layer of torch that is no view by name and yet returns its input.
    monkeypatch.setattr(nn.ReLU6, "forward", lambda self, x: x)
    with pytest.raises(InputError, match="changes in place what is used elsewhere"):
        lipschitz_bound(Changed(nn.ReLU6(), lambda x: x.mul_(10)).eval(), (1, 2, 2))


def test_a_change_in_place_of_new_memory_is_counted() -> None:
    net = Changed(nn.ReLU(), lambda x: x.mul_(10)).eval()
    net.conv.weight.data = torch.tensor([[[[1.0]]], [[[0.0]]]])
    assert lipschitz_bound(net, (1, 2, 2)).product == pytest.approx(11.0, rel=1e-7)


class OtherNumbers(nn.Module):
    """The same bytes read as other numbers; the type is written out, or read off a buffer."""

    places: Tensor

    def __init__(self, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.dtype = dtype
        self.register_buffer("places", torch.arange(3))

    def forward(self, x: Tensor) -> Tensor:
        return x.view(self.dtype or self.places.dtype).flatten(1) * 1.0


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, None], ids=str)
def test_a_view_of_other_numbers_is_refused_by_name(dtype: torch.dtype | None) -> None:
    with pytest.raises(InputError, match=r"No Lipschitz constant is known for .*view"):
        lipschitz_bound(OtherNumbers(dtype), (1, 2, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view((x.size(0), -1)),
        lambda x: x.view(size=[1, 4]),
        lambda x: x.view(x.shape),
        lambda x: x.view(x.shape[0], x.shape[1] * 2, -1),
    ],
)
def test_views_by_sizes_are_not(function: Callable[[Tensor], Tensor]) -> None:
    assert product(function, (1, 2, 2)) == 1.0


def test_a_normalisation_after_a_linear_layer_is_folded_for_vectors_alone() -> None:
    pair = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    vectors = seeded(nn.Sequential(nn.Flatten(), pair))
    tokens = seeded(nn.Sequential(nn.Flatten(1, 2), pair, nn.Flatten()))
    for net, shape, kinds in ((vectors, (1, 2, 2), ["Linear"]), (tokens, (1, 4, 4), ["Linear", "BatchNorm1d"])):
        bound = lipschitz_bound(net, shape)
        assert [record.kind for record in bound.layers] == kinds
        assert jacobian_norm(net, shape) <= bound.product
