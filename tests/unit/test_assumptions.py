"""Gaps of the methods' assumptions: 0 where they hold, and the known size where they do not."""

import math

import pytest
import torch
from plain_cell import Rnn

from probes.core.random_streams import stream
from probes.gradients.assumptions import gaps, highway, linearity, orthogonality, stationarity
from probes.gradients.estimators import Batch
from probes.gradients.networks import Mlp, Recurrent, ResMlp, build, cross_entropy, made_batches


def mlp(widths: list[int], act: str = "relu", init: str = "orthogonal") -> tuple[Mlp, Batch]:
    rng = stream(0, "mlp")
    model = build("mlp", widths, act, init, rng)
    assert isinstance(model, Mlp)
    return model, made_batches("mlp", widths, 1, 64, 1, rng)[0]


def test_rows_must_be_orthonormal_not_columns() -> None:
    model, _ = mlp([8, 8, 4, 16])
    found = orthogonality(model)
    assert set(found) == {("orthogonality", f"layers.{at}.weight") for at in range(3)}
    assert max(found["orthogonality", f"layers.{at}.weight"] for at in (0, 1)) < 1e-14
    # W W^T of 16 rows is a projection on 4 dimensions: 12 ones are missing.
    assert found["orthogonality", "layers.2.weight"] == pytest.approx(math.sqrt(12 / 16))


def test_twice_the_weights_are_off_by_three() -> None:
    model, _ = mlp([5, 5, 5])
    with torch.no_grad():
        model.layers[0].weight.mul_(2)
    assert orthogonality(model)["orthogonality", "layers.0.weight"] == pytest.approx(3)


def test_linearity_counts_units_whose_slope_is_not_one() -> None:
    for act, wanted in (("linear", 0.0), ("relu", 0.25), ("tanh", 0.75)):
        model, _ = mlp([4, 4, 2], act)
        with torch.no_grad():
            model.layers[0].weight.copy_(torch.eye(4))
        # Of tanh the slope at 0.05 is nearer to 1 than a hundredth.
        inputs = torch.tensor([[0.05, 1.0, 2.0, -3.0]] * 6).double()
        assert linearity(model, inputs) == {("linearity", "layers.0.weight"): wanted}


def test_the_branch_norm_is_that_of_its_jacobian() -> None:
    rng = stream(0, "branch")
    model = build("resmlp", [6, 6, 6, 3], "tanh", "normal", rng, scale=0.5)
    assert isinstance(model, ResMlp)
    inputs = torch.randn(5, 6, generator=rng, dtype=torch.float64)
    found = highway(model, inputs)
    state = inputs
    for at in range(2):
        branch = [torch.autograd.functional.jacobian(lambda s, at=at: model.branch(at, s), one) for one in state]
        wanted = sum(float(torch.linalg.svdvals(each)[0]) for each in branch) / 5
        assert found["highway", f"blocks.{at}.weight"] == pytest.approx(wanted, rel=1e-12)
        state = state + model.branch(at, state)


def recurrent(act: str, noise: float) -> tuple[Recurrent, Batch]:
    rng = stream(0, "cell")
    model = Rnn(5, 5, 3, act).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(*parameter.shape, generator=rng, dtype=torch.float64) / 3)
    inputs = noise * torch.randn(4, 30, 5, generator=rng, dtype=torch.float64)
    return model, Batch(inputs, torch.zeros(4, 30, dtype=torch.long))


def test_stationarity_is_nought_for_a_linear_cell_and_grows_with_noise() -> None:
    assert stationarity(*recurrent("linear", 1.0), cross_entropy) < 1e-14
    sizes = [stationarity(*recurrent("tanh", noise), cross_entropy) for noise in (0.1, 0.3, 1.0)]
    assert sizes == sorted(sizes) and 1e-4 < sizes[0] < 0.1 < sizes[2] < 1


def test_stationarity_is_the_spread_of_jacobians_by_their_norm() -> None:
    model, batch = recurrent("tanh", 1.0)
    states = model.states(batch.inputs).detach()
    after = states[:, 1:].flatten(0, 1)
    jacobians = (1 - after**2)[:, :, None] * model.feedback.weight.detach()
    spread = (jacobians - jacobians.mean(0)).square().sum((1, 2)).mean().sqrt()
    wanted = spread / torch.linalg.matrix_norm(jacobians).mean()
    assert stationarity(model, batch, cross_entropy) == pytest.approx(float(wanted), rel=1e-10)


def test_a_dead_cell_is_stationary() -> None:
    model, batch = recurrent("tanh", 1.0)
    with torch.no_grad():
        model.feedback.weight.zero_()
    assert stationarity(model, batch, cross_entropy) == 0.0


def test_each_network_has_the_gaps_of_its_methods() -> None:
    assert {kind for kind, _ in gaps(*mlp([4, 4, 2]), cross_entropy)} == {"orthogonality", "linearity"}
    assert list(gaps(*recurrent("tanh", 1.0), cross_entropy)) == [("stationarity", "hidden")]
    rng = stream(0, "each")
    blocks = build("resmlp", [4, 4, 4, 2], "tanh", "normal", rng)
    batch = made_batches("resmlp", [4, 4, 4, 2], 1, 8, 1, rng)[0]
    assert list(gaps(blocks, batch, cross_entropy)) == [("highway", f"blocks.{at}.weight") for at in range(2)]
    assert gaps(torch.nn.Linear(4, 2), batch, cross_entropy) == {}
    assert all(parameter.grad is None for parameter in blocks.parameters())
