"""Is progress what quadratics say, and undefined where it has no meaning?"""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.gradients.curvature import BENT, FLAT, STUCK, ZERO, curvatures_along, inner, progress
from probes.gradients.estimators import Batch, Loss, backpropagated
from probes.gradients.networks import build, cross_entropy, made_batches

P = 200
NOTHING = Batch(torch.zeros(1), torch.zeros(1))


class Point(nn.Module):
    """A point; the loss bends by the eigenvalues."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.at = nn.Parameter(start)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.at + 0 * inputs.sum()


def quadratic(eigenvalues: Tensor) -> Loss:
    return lambda at, targets: 0.5 * (eigenvalues * at**2).sum()


@pytest.mark.parametrize(("condition", "wanted"), [(1, 0.666), (100, 0.861)])
def test_progress_on_a_quadratic(condition: float, wanted: float) -> None:
    rng = torch.Generator().manual_seed(0)
    eigenvalues = torch.logspace(0, float(np.log10(condition)), P, dtype=torch.float64)
    ratios = []
    for _ in range(40):
        model, loss = Point(torch.randn(P, generator=rng, dtype=torch.float64)), quadratic(eigenvalues)
        exact = backpropagated(model, NOTHING, loss)
        noise = torch.randn(50, P, generator=rng, dtype=torch.float64) * 0.05 * exact["at"].norm()
        guesses = {str(at): {"at": exact["at"] + one} for at, one in enumerate(noise)}
        ratios += [one.curvature for one in progress(model, NOTHING, loss, exact, guesses).values()]
    assert np.mean(ratios) == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("net", ["mlp", "resmlp", "gru"])
def test_curvature_agrees_with_differences_of_gradients(net: str) -> None:
    rng = torch.Generator().manual_seed(0)
    widths = [6, 5, 3] if net == "gru" else [6, 6, 6, 3]
    model = build(net, widths, "tanh", "normal", rng)
    (batch,) = made_batches(net, widths, 1, 8, 5, rng)
    exact = backpropagated(model, batch, cross_entropy)
    direction = {name: torch.randn(part.shape, generator=rng, dtype=torch.float64) for name, part in exact.items()}
    (found,) = curvatures_along(model, batch, cross_entropy, [direction])
    slopes = []
    for sign in (1e-5, -2e-5):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter += sign * direction[name]
        slopes.append(inner(backpropagated(model, batch, cross_entropy), direction))
    assert found == pytest.approx((slopes[0] - slopes[1]) / 2e-5, rel=1e-5)


def test_the_gradient_itself_makes_all_of_the_progress_at_any_scale() -> None:
    rng = torch.Generator().manual_seed(0)
    model = build("mlp", [6, 8, 3], "tanh", "normal", rng)
    batch, other = made_batches("mlp", [6, 8, 3], 2, 64, 1, rng)
    before = {name: part.detach().clone() for name, part in model.named_parameters()}
    exact = backpropagated(model, batch, cross_entropy)
    guesses = {"thrice": {name: 3 * part for name, part in exact.items()}, "up": {n: -p for n, p in exact.items()}}
    found = progress(model, batch, cross_entropy, exact, guesses, other)
    assert found["thrice"].curvature == pytest.approx(1.0)
    assert found["thrice"].line_search == pytest.approx(1.0)
    assert found["up"].line_search == 0.0
    assert all(torch.equal(part, before[name]) and part.grad is None for name, part in model.named_parameters())


def test_where_there_is_no_progress_it_says_why() -> None:
    bends = torch.tensor([1.0, -0.2], dtype=torch.float64)
    model, loss = Point(torch.tensor([1.0, 1.0], dtype=torch.float64)), quadratic(bends)
    exact = backpropagated(model, NOTHING, loss)
    zero = torch.zeros(2, dtype=torch.float64)
    found = progress(
        model, NOTHING, loss, exact, {"bent": {"at": zero + torch.tensor([0.0, 1.0])}, "none": {"at": zero}}
    )
    assert (found["bent"].curvature, found["bent"].reasons["curvature"]) == (None, BENT)
    assert found["none"].reasons["curvature"] == ZERO
    assert progress(model, NOTHING, quadratic(-bends), exact, {"g": exact})["g"].reasons["curvature"] == FLAT
    assert progress(model, NOTHING, lambda at, _: (0 * at).sum(), exact, {"g": exact}, NOTHING)["g"].reasons == {
        "curvature": FLAT,
        "line_search": STUCK,
    }
