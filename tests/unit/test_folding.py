"""Does folding leave the function as it was, and hands off where it must?"""

import copy

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from probes.classifiers.folding import fold_batchnorm, fold_graph, trace
from probes.core.errors import InputError


def settled(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give every batch normalisation statistics and parameters of its own."""
    source = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.copy_(torch.randn(part.num_features, generator=source))
            part.running_var.copy_(torch.rand(part.num_features, generator=source) + 0.1)
            if part.affine:
                part.weight.data.copy_(torch.randn(part.num_features, generator=source))
                part.bias.data.copy_(torch.randn(part.num_features, generator=source))
    return module.eval()


def norms(module: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) for part in module.modules())


def same(module: nn.Module, *shape: int) -> nn.Module:
    """Fold and check that outputs stay; return the folded network."""
    before = {name: value.clone() for name, value in module.state_dict().items()}
    folded = fold_batchnorm(module)
    images = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(folded(images), module(images), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    return folded


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1, groups=2, bias=False)
        self.norm = nn.BatchNorm2d(2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x)) + x)


class Shared(nn.Module):
    """One convolution called twice, each time with a normalisation of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.one, self.two = nn.BatchNorm2d(2), nn.BatchNorm2d(2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.two(self.conv(self.one(self.conv(x))))
        return result


class Used(nn.Module):
    """The convolution's output is used beside the normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        result: Tensor = self.norm(y) + y
        return result


class Borrowed(nn.Module):
    """The convolution's weight is used beside the convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.norm(self.conv(x)) + self.conv.weight.sum()
        return result


class Choosing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_a_chain_is_folded() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3, dilation=2),
        nn.BatchNorm2d(2, affine=False), nn.Flatten(), nn.Linear(8, 5), nn.BatchNorm1d(5),
    )  # fmt: skip
    # Behind a Linear the normalisation may run over another axis: it stays where no sizes are known.
    assert norms(same(settled(net), 3, 13, 13)) == 1


def test_a_normalisation_over_another_axis_than_the_features_stays() -> None:
    # Of (b, t, c) a Linear makes c and a BatchNorm1d normalises t: with t = c nothing else shows it.
    net = settled(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    assert norms(same(net, 4, 4)) == 1


def test_a_normalisation_of_vectors_is_folded_where_sizes_are_known() -> None:
    for shape, left in (((3, 4), 0), ((3, 4, 4), 1)):
        net = settled(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
        graph, images = trace(net), torch.randn(shape, generator=torch.Generator().manual_seed(1))
        ShapeProp(graph).propagate(images)
        assert fold_graph(graph) == 1 - left and norms(graph) == left
        torch.testing.assert_close(graph(images), net(images), rtol=1e-4, atol=1e-5)


def test_a_residual_block_is_folded() -> None:
    assert norms(same(settled(nn.Sequential(Residual(), Residual())), 2, 6, 6)) == 0


@pytest.mark.parametrize("network", [Shared, Used, Borrowed])
def test_hands_off_where_somebody_else_needs_the_layer(network: type[nn.Module]) -> None:
    net = settled(network())
    assert norms(same(net, 2, 6, 6)) == norms(net)


def test_one_of_two_normalisations_is_left() -> None:
    net = settled(nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)))
    assert norms(same(net, 2, 4, 4)) == 1


def test_a_hook_or_missing_statistics_keep_a_layer_as_it_is() -> None:
    hooked = settled(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))
    hooked[0].register_forward_hook(lambda module, inputs, output: output * 2)
    assert fold_batchnorm(hooked) is hooked
    bare = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1, track_running_stats=False)).eval()
    assert fold_batchnorm(bare) is bare


def test_a_hook_on_the_whole_network_is_not_passed_over() -> None:
    net = settled(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))
    net.register_forward_hook(lambda module, inputs, output: output * 2)
    assert same(net, 1, 3, 3) is net


def test_tied_layers_stay_tied_for_others() -> None:
    net = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Conv2d(2, 2, 1))
    net[2].weight = net[0].weight
    assert norms(same(settled(net), 2, 4, 4)) == 0


def test_training_mode_is_left_behind_and_the_original_keeps_it() -> None:
    net = settled(nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))).train()
    folded = fold_batchnorm(net)
    assert net.training and not folded.training
    images = torch.randn(2, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(folded(images), copy.deepcopy(net).eval()(images))


def test_weights_keep_their_number_format() -> None:
    net = settled(nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))).bfloat16()
    assert {value.dtype for value in fold_batchnorm(net).state_dict().values()} == {torch.bfloat16}


def test_what_cannot_be_traced_comes_back_and_says_why() -> None:
    net = Choosing()
    assert fold_batchnorm(net) is net
    with pytest.raises(InputError, match="cannot be read as a graph"):
        trace(net)


def test_without_a_normalisation_nothing_is_made() -> None:
    net = nn.Sequential(nn.Conv2d(1, 1, 1))
    assert fold_batchnorm(net) is net and not isinstance(net, fx.GraphModule)
