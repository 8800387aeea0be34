"""Is the slope that ascent met one that the network has, the largest where that is known, and the same on every run?"""

import math

import pytest
import torch
from torch import Tensor, nn

from probes.classifiers import slope_ascent
from probes.classifiers.lipschitz_bound import lipschitz_bound
from probes.classifiers.slope_ascent import climb

pytestmark = pytest.mark.numerical


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pictures(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filled(net: nn.Sequential, seed: int) -> nn.Sequential:
    for place, value in enumerate(net.state_dict().values()):
        value.copy_(0.4 * drawn(seed + place, *value.shape))
    return net.double().eval()


def small(seed: int, middle: nn.Module) -> nn.Sequential:
    layers = (nn.Conv2d(1, 3, 3, padding=1), middle, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 5))
    return filled(nn.Sequential(*layers), seed)


def truths(net: nn.Module, points: Tensor) -> list[float]:
    """Return the norms of whole Jacobians, by another way of differentiation."""
    jacobian = torch.func.vmap(torch.func.jacrev(lambda pixels: net(pixels[None])[0]))
    found: list[float] = torch.linalg.matrix_norm(jacobian(points).detach().flatten(2), ord=2).tolist()
    return found


@pytest.mark.parametrize("middle", [nn.ReLU(), nn.GELU(), nn.ReLU(inplace=True)], ids=repr)
def test_slopes_are_the_norms_of_the_jacobians(middle: nn.Module) -> None:
    net, points = small(3, middle), pictures(4, 3, 1, 4, 4)
    found = climb(net, points, torch.zeros_like(points), steps=0)
    for one, truth in zip(found, truths(net, points), strict=True):
        assert one.start == one.slope <= truth == pytest.approx(one.slope, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_on_a_linear_map_the_lower_bound_the_upper_bound_and_the_truth_are_one(seed: int) -> None:
    net = filled(nn.Sequential(nn.Flatten(), nn.Linear(16, 5)), seed)
    truth = float(torch.linalg.matrix_norm(net[1].weight.detach(), ord=2))
    found = climb(net, pictures(seed, 3, 1, 4, 4), drawn(seed, 3, 1, 4, 4), steps=4)
    upper = lipschitz_bound(net, (1, 4, 4)).product
    for one in found:
        assert one.slope <= truth <= upper
        assert one.slope == pytest.approx(truth, rel=1e-6) and upper == pytest.approx(truth, rel=1e-8)


def test_a_map_to_zeros_has_no_slope() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).double()
    nn.init.zeros_(net[1].weight)
    (found,) = climb(net, pictures(0, 1, 1, 2, 2), drawn(0, 1, 1, 2, 2), steps=3)
    assert (found.start, found.slope) == (0.0, 0.0)


class Step(nn.Module):
    """A sigmoid over the mean of the pixels, steep where that is `at`: its largest slope is rate / (4 sqrt(d))."""

    def __init__(self, rate: float, at: float) -> None:
        super().__init__()
        self.rate, self.at = rate, at

    def forward(self, x: Tensor) -> Tensor:
        risen = torch.sigmoid(self.rate * (x.flatten(1).mean(1, keepdim=True) - self.at))
        return torch.cat([risen, 0 * risen], 1)


def test_ascent_finds_the_steepest_place_of_a_smooth_function() -> None:
    net, start = Step(20.0, 0.6), torch.full((1, 1, 4, 4), 0.2, dtype=torch.float64)
    (found,) = climb(net, start, drawn(0, *start.shape), steps=40)
    truth = 20.0 / 4 / 4
    # 20 s(8) (1 - s(8)) / 4, at a mean of 0.2, is next to nothing.
    assert found.start == pytest.approx(20 / 4 * math.exp(-8), rel=2e-3)
    assert 0.98 * truth < found.slope <= truth


class Bend(nn.Module):
    """The mean of the pixels below `at`, and five times as steep above: no gradient of its slope points there."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at

    def forward(self, x: Tensor) -> Tensor:
        mean = x.flatten(1).mean(1, keepdim=True)
        return torch.cat([mean + 4 * torch.relu(mean - self.at), 0 * mean], 1)


def test_ascent_crosses_a_kink_that_no_gradient_shows() -> None:
    start = torch.full((1, 1, 4, 4), 0.1, dtype=torch.float64)
    (found,) = climb(Bend(0.7), start, drawn(0, *start.shape), steps=20)
    assert found.start == pytest.approx(1 / 4, rel=1e-6)
    assert found.slope == pytest.approx(5 / 4, rel=1e-6) and found.slope <= 5 / 4


def test_points_stay_in_the_range_of_pictures() -> None:
    # Steep only where no picture is, at means above 1.1, which the ends of a first chord would reach from here.
    start = torch.full((1, 1, 4, 4), 0.9, dtype=torch.float64)
    (found,) = climb(Bend(1.1), start, drawn(0, *start.shape), steps=20)
    assert found.slope == pytest.approx(1 / 4, rel=1e-6)


@pytest.mark.parametrize("middle", [nn.ReLU(), nn.GELU(), nn.Tanh()], ids=repr)
def test_ascent_gains_on_its_starts_and_stays_below_the_proved_bound(middle: nn.Module) -> None:
    for seed in range(3):
        net, at = small(10 * seed, middle), pictures(seed, 4, 1, 4, 4)
        found = climb(net, at, drawn(seed, *at.shape), steps=25)
        upper = lipschitz_bound(net, (1, 4, 4)).product
        assert all(one.start <= one.slope <= upper for one in found)
        assert max(one.slope for one in found) > max(one.start for one in found)


def test_what_is_found_is_a_slope_that_the_network_has() -> None:
    # A chord is never steeper than the steepest point on it, and many points bound none of them from above: the
    # largest slope of a network with one ReLU is that with it open, by hand.
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 2, bias=False)).double()
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[1.0, 2.0, 0.0, 2.0]]))
        net[1].bias.fill_(-4.5)
        net[3].weight.copy_(torch.tensor([[3.0], [4.0]]))
    start = torch.full((1, 1, 2, 2), 0.85, dtype=torch.float64)
    (found,) = climb(net, start, drawn(1, *start.shape), steps=30)
    # |(1, 2, 0, 2)| = 3 and |(3, 4)| = 5; closed at the start, where 5 * 0.85 < 4.5.
    assert found.start == 0.0 and found.slope == pytest.approx(15.0, rel=1e-6) and found.slope <= 15.0


def test_starts_do_not_influence_each_other_and_chance_is_fixed() -> None:
    net, at, hairs = small(1, nn.ReLU()), pictures(2, 5, 1, 4, 4), drawn(3, 5, 1, 4, 4)
    together, again = (climb(net, at, hairs, steps=15) for _ in range(2))
    assert together == again
    alone = [climb(net, at[place : place + 1], hairs[place : place + 1], steps=15)[0] for place in range(5)]
    for one, other in zip(together, alone, strict=True):
        assert one.slope == pytest.approx(other.slope, rel=1e-6)


def test_every_step_of_every_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(slope_ascent, "POLISH", 2)
    climb(small(1, nn.ReLU()), pictures(2, 3, 1, 4, 4), drawn(3, 3, 1, 4, 4), steps=7, advance=told.append)
    assert told == [3] * 7
