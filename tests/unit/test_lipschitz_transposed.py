"""Are the bounds of transposed convolutions those of the whole matrix, over odd geometries too?"""

from typing import Any

import pytest
import torch
from torch import nn

from probes.classifiers.folding import fold_batchnorm
from probes.classifiers.lipschitz_bound import LayerBound, lipschitz_bound
from probes.classifiers.lipschitz_constants import of_module
from probes.classifiers.spectral_norm import has_own_symbol, measure, power_lower
from probes.core.errors import InputError

pytestmark = pytest.mark.numerical


def filled(layer: nn.ConvTranspose2d, seed: int = 0) -> nn.ConvTranspose2d:
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in layer.parameters():
            value.copy_(torch.randn(value.shape, generator=source))
    return layer


def matrix_norm(layer: nn.ConvTranspose2d, size: tuple[int, int]) -> float:
    """Return the largest singular value of the layer as a matrix, one column for each cell of its input."""
    cells = layer.in_channels * size[0] * size[1]
    net = layer.double()
    with torch.no_grad():
        blank = torch.zeros(1, layer.in_channels, *size, dtype=torch.float64)
        columns = net(torch.eye(cells, dtype=torch.float64).reshape(cells, -1, *size)) - net(blank)
        return float(torch.linalg.matrix_norm(columns.flatten(1), ord=2))


def record(layer: nn.ConvTranspose2d, size: tuple[int, int], steps: int = 400) -> LayerBound:
    net = nn.Sequential(layer, nn.Flatten()).eval()
    return lipschitz_bound(net, (layer.in_channels, *size), lower_steps=steps).layers[0]


def layer(**options: Any) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(**{"in_channels": 2, "out_channels": 3, "kernel_size": 3, **options})


GEOMETRIES: list[tuple[dict[str, Any], tuple[int, int]]] = [
    ({}, (4, 5)),
    ({"kernel_size": 2, "stride": 2}, (3, 4)),
    ({"kernel_size": 4, "stride": 2, "padding": 1}, (4, 3)),
    ({"stride": 2, "padding": 1, "output_padding": 1}, (4, 4)),
    ({"stride": (3, 2), "padding": (0, 1), "output_padding": (2, 0)}, (2, 5)),
    ({"kernel_size": (5, 1), "stride": (1, 3), "padding": (2, 0)}, (3, 3)),
    ({"dilation": 2, "padding": 1}, (3, 4)),
    ({"dilation": (3, 2), "stride": (2, 1), "padding": (3, 1), "output_padding": (2, 1)}, (4, 3)),
    ({"in_channels": 4, "out_channels": 6, "groups": 2, "stride": 2}, (3, 3)),
    ({"kernel_size": 4, "stride": 2, "padding": 3}, (4, 4)),
    ({"kernel_size": 1, "stride": 2, "output_padding": 1}, (3, 3)),
    ({"kernel_size": 4}, (1, 1)),
    ({"kernel_size": 4, "stride": 2, "padding": 1}, (1, 4)),
    ({"kernel_size": 1, "stride": 3, "dilation": 4, "output_padding": 3, "padding": 0}, (2, 2)),
    ({"kernel_size": 2, "stride": 5, "output_padding": 4}, (2, 3)),
]


@pytest.mark.parametrize(("options", "size"), GEOMETRIES, ids=str)
def test_the_norm_of_the_whole_matrix_lies_between_both_bounds(options: dict[str, Any], size: tuple[int, int]) -> None:
    made = filled(layer(**options))
    found, truth = record(made, size), matrix_norm(made, size)
    assert found.lower is not None and found.lower <= truth <= found.bound
    assert found.lower == pytest.approx(truth, rel=0.02)
    if found.method == "exact":
        assert found.bound == pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"kernel_size": 2, "stride": 2}, (3, 4)),
        ({"kernel_size": 2, "stride": 5, "output_padding": 4}, (2, 3)),
        ({"kernel_size": 4}, (1, 1)),
        ({"kernel_size": 1, "stride": 2, "output_padding": 1}, (3, 3)),
        ({"kernel_size": (3, 2), "stride": (1, 2)}, (1, 4)),
    ],
    ids=str,
)
def test_where_windows_do_not_overlap_the_bound_is_exact(options: dict[str, Any], size: tuple[int, int]) -> None:
    assert record(filled(layer(**options)), size).method == "exact"


def test_one_by_hand() -> None:
    made = layer(in_channels=1, out_channels=1, kernel_size=2, stride=2, bias=False)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[[[1.0, 2.0], [4.0, 2.0]]]]))
    # Each cell becomes four of its own: sqrt(1 + 4 + 16 + 4) = 5.
    assert record(made, (3, 3)).bound == pytest.approx(5.0, rel=1e-8)


def test_the_record_tells_the_layer_and_not_its_adjoint() -> None:
    found = record(filled(layer(kernel_size=5, stride=2, padding=2, output_padding=1)), (3, 4))
    assert (found.grid, found.stride, found.padding) == (
        (3, 4),
        (2, 2),
        (2, 1, 2, 1),
    ) and found.kind == "ConvTranspose2d"
    assert record(filled(layer(kernel_size=4, stride=2)), (1, 1)).stride == (2, 2)


def test_an_output_of_zeros_alone_has_the_constant_0() -> None:
    # Its one row lies below the last window, which the padding cuts off.
    made = filled(layer(kernel_size=1, stride=3, padding=1, output_padding=2))
    assert matrix_norm(made, (1, 1)) == 0.0
    assert lipschitz_bound(nn.Sequential(made, nn.Flatten()), (2, 1, 1)).product == 0.0


class Asked(nn.Module):
    """Asks for its output size when it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.up = filled(layer(stride=3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.up(x, output_size=[11, 9]).flatten(1)
        return result


def test_an_output_size_that_is_asked_for_counts() -> None:
    found = lipschitz_bound(Asked(), (2, 3, 3), lower_steps=400).layers[0]
    plain = record(filled(layer(stride=3)), (3, 3))
    # Zeros more: the same norm, of windows that do not overlap.
    assert found.bound == plain.bound and found.padding == (0, 0, 0, 0)


def test_operator_and_adjoint_agree() -> None:
    made = filled(layer(stride=2, padding=1, output_padding=1)).double()
    found: Any = of_module(made, nn.ConvTranspose2d, (1, 2, 4, 3), (1, 3, 8, 6))
    x, y = torch.randn(1, 2, 4, 3, dtype=torch.float64), torch.randn(1, 3, 8, 6, dtype=torch.float64)
    with torch.no_grad():
        blank = made(torch.zeros_like(x))
        assert torch.allclose(found.apply(x), made(x) - blank)
        assert float((found.apply(x) * y).sum()) == pytest.approx(float((x * found.apply_adjoint(y)).sum()))
    assert measure(found).lower == power_lower(found) and not has_own_symbol(found)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_normalisation_after_it_is_folded(groups: int) -> None:
    norm = nn.BatchNorm2d(6)
    source = torch.Generator().manual_seed(1)
    for name, value in norm.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=source) + 0.5 * (name == "running_var"))
    made = filled(layer(in_channels=4, out_channels=6, groups=groups, stride=2))
    net = nn.Sequential(made, norm, nn.Flatten()).double().eval()
    folded = fold_batchnorm(net)
    x = torch.rand(3, 4, 3, 3, generator=source).double()
    with torch.no_grad():
        assert torch.allclose(net(x), folded(x), rtol=1e-12, atol=1e-12)
    assert [found.kind for found in lipschitz_bound(net, (4, 3, 3)).layers] == ["ConvTranspose2d"]


@pytest.mark.parametrize("part", [nn.ConvTranspose1d(2, 2, 3), nn.Conv1d(2, 2, 3)], ids=repr)
def test_other_dimensions_are_refused_with_the_reason(part: nn.Module) -> None:
    with pytest.raises(InputError, match="No Lipschitz constant is known") as caught:
        lipschitz_bound(nn.Sequential(nn.Flatten(2), part, nn.Flatten()), (2, 3, 3))
    assert caught.value.hint.startswith("Of convolutions only those in two dimensions are covered.")
    assert caught.value.where == "layer 1"
