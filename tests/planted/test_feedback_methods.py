"""Are estimators exact where theory says so, wrong by as much as it says elsewhere, and bugs in them told apart?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pytest
import torch
from torch import Tensor, nn

from probes.core.random_streams import stream
from probes.gradients.estimators import Batch, Estimator, backpropagated
from probes.gradients.feedback_methods import Dfa, Fa, Foton, Pass, Pepita, weights_of
from probes.gradients.networks import Mlp, build, cross_entropy, made_batches
from probes.gradients.simple_methods import Bp, ForwardGradient, Random, Sign, forward_slope

DEEP, NARROWING, WIDENING = (64,) * 9 + (10,), (64, 48, 32, 16, 10), (64, 128, 128, 128, 10)


def scene(widths: Sequence[int], act: str, seed: int = 0) -> tuple[Mlp, Batch]:
    rng = torch.Generator().manual_seed(seed)
    model = build("mlp", widths, act, "orthogonal", rng)
    assert isinstance(model, Mlp)
    return model, made_batches("mlp", widths, 1, 32, 1, rng)[0]


def estimate(estimator: Estimator, model: nn.Module, batch: Batch, seed: int = 0) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return dict(estimator.gradients(model, batch, cross_entropy, rng=rng))


@dataclass
class Likeness:
    """Of the hidden layers together, and of the last one; the error is the greatest of a parameter."""

    cosine: float
    length: float
    last: float
    error: float


def likeness(estimator: Estimator, model: Mlp, batch: Batch) -> Likeness:
    found, reference = estimate(estimator, model, batch), backpropagated(model, batch, cross_entropy)
    assert found.keys() == reference.keys()
    errors = {name: float((found[name] - r).norm() / r.norm()) for name, r in reference.items()}
    last = f"layers.{len(model.layers) - 1}."
    f, r = (torch.cat([v.flatten() for k, v in one.items() if not k.startswith(last)]) for one in (found, reference))
    return Likeness(
        float(f @ r / f.norm() / r.norm()), float(f.norm() / r.norm()), errors[f"{last}weight"], max(errors.values())
    )


@pytest.mark.parametrize("widths", [DEEP, NARROWING])
@pytest.mark.parametrize("eps", [1.0, 0.01])
def test_foton_is_the_gradient_where_rows_are_orthonormal(widths: Sequence[int], eps: float) -> None:
    found = likeness(Foton(eps), *scene(widths, "linear"))
    assert found.last == 0
    # A small step loses digits in the difference of the two passes.
    assert found.error <= 1e-13 / eps


def test_foton_keeps_the_part_of_the_gradient_that_the_first_layer_reaches() -> None:
    """W_1 W_1^T projects 128 onto 64 dimensions: cos is about sqrt(1 / 2), and error^2 = 1 - cos^2."""
    cosines = []
    for seed in range(8):
        model, batch = scene(WIDENING, "linear", seed)
        found, reference = estimate(Foton(), model, batch), backpropagated(model, batch, cross_entropy)
        for name in ("layers.0.weight", "layers.1.weight", "layers.2.weight"):
            f, r = found[name], reference[name]
            cosine = float((f * r).sum() / f.norm() / r.norm())
            assert float((f - r).norm() / r.norm()) == pytest.approx(math.sqrt(1 - cosine**2), abs=1e-12)
            assert float(f.norm() / r.norm()) == pytest.approx(cosine, abs=1e-12)
        cosines.append(cosine)
    assert min(cosines) > 0.63
    assert max(cosines) < 0.79
    assert sum(cosines) / 8 == pytest.approx(math.sqrt(0.5), abs=0.03)


def test_foton_goes_to_its_derivative_as_the_step_shrinks() -> None:
    model, batch = scene((12, 10, 8, 6, 4), "tanh")
    output = model(batch.inputs).detach().requires_grad_()
    (error,) = torch.autograd.grad(cross_entropy(output, batch.targets), output)
    step = error @ reduce(torch.matmul, reversed(weights_of(model)))
    distances = []
    for eps in (0.02, 0.01, 0.005):
        found = estimate(Foton(eps), model, batch)
        total = 0.0
        for at in range(3):
            # Row by row the derivative of a state along the step, by the framework.
            slope = forward_slope(lambda x, at=at: model.states(x)[at + 1], batch.inputs, step)
            wanted = slope.detach().T @ model.states(batch.inputs)[at].detach()
            total += float((found[f"layers.{at}.weight"] - wanted).norm())
            assert torch.allclose(found[f"layers.{at}.bias"], slope.sum(0), atol=0.01)
        distances.append(total)
    assert distances[0] < 0.01
    assert distances[0] / distances[1] == pytest.approx(2, abs=0.05)
    assert distances[1] / distances[2] == pytest.approx(2, abs=0.05)


def test_foton_loses_the_first_layer_of_a_deep_rectifier() -> None:
    """The masks above a layer are missing: nothing but the finite step where only the head is above."""
    cosines = []
    for layers in (2, 4, 8):
        model, batch = scene((64,) * layers + (10,), "relu", 1)
        found, reference = estimate(Foton(), model, batch), backpropagated(model, batch, cross_entropy)
        f, r = found["layers.0.weight"], reference["layers.0.weight"]
        cosines.append(float((f * r).sum() / f.norm() / r.norm()))
    assert cosines == pytest.approx([0.98, 0.53, 0.11], abs=0.08)


@pytest.mark.parametrize("act", ["relu", "tanh", "linear"])
def test_feedback_alignment_by_the_weights_is_backpropagation(act: str) -> None:
    model, batch = scene((20, 16, 12, 12, 5), act)
    assert likeness(Fa(0, weights_of(model)[1:]), model, batch).error <= 1e-15
    assert likeness(Bp(), model, batch).error == 0


def test_direct_feedback_by_the_products_is_backpropagation_where_all_is_linear() -> None:
    model, batch = scene((20, 16, 12, 12, 5), "linear")
    weights = weights_of(model)
    products = [reduce(torch.matmul, reversed(weights[at + 1 :])) for at in range(len(weights) - 1)]
    assert likeness(Dfa(0, products), model, batch).error <= 1e-14
    model, batch = scene((20, 16, 12, 12, 5), "tanh")
    found, reference = estimate(Dfa(0, products), model, batch), backpropagated(model, batch, cross_entropy)
    errors = [float((found[name] - value).norm() / value.norm()) for name, value in reference.items()]
    # Between the layer before the last and the output there is nothing but weights.
    assert max(errors[4:]) <= 1e-14
    assert min(errors[:4]) > 0.1


@pytest.mark.parametrize("method", [Foton(0.5), Pepita(0), Fa(0), Dfa(0)])
def test_steps_of_sequences_are_rows(method: Estimator) -> None:
    model, batch = scene((12, 10, 8, 5), "tanh")
    sequences = Batch(batch.inputs.reshape(4, 8, 12), batch.targets.reshape(4, 8))
    rows = estimate(method, model, batch)
    for name, value in estimate(method, model, sequences).items():
        assert torch.allclose(value, rows[name], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("method", [Fa, Dfa, Pepita])
def test_random_feedback_is_at_chance_and_drawn_by_its_seed(method: type[Fa] | type[Dfa] | type[Pepita]) -> None:
    cosines = []
    for seed in range(20):
        model, batch = scene((64, 64, 64, 64, 10), "relu", seed)
        found, reference = estimate(method(seed), model, batch), backpropagated(model, batch, cross_entropy)
        cosines.append(float(torch.cosine_similarity(found["layers.0.bias"], reference["layers.0.bias"], 0)))
        assert not torch.equal(found["layers.0.bias"], estimate(method(seed + 1), model, batch)["layers.0.bias"])
    assert abs(sum(cosines)) / 20 < 4 / math.sqrt(64 * 20)


def test_pepita_follows_its_rule() -> None:
    """On a linear net the change of a state is that of the input times the weights; the last layer is of pass two."""
    model, batch = scene((12, 10, 8, 4), "linear")
    found = estimate(Pepita(3), model, batch)
    inputs, weights = batch.inputs, weights_of(model)
    output = model(inputs).detach().requires_grad_()
    (error,) = torch.autograd.grad(cross_entropy(output, batch.targets), output)
    feedback = (
        (2 * torch.rand(4, 12, generator=stream(3, "pepita"), dtype=torch.float64) - 1) * 0.05 * math.sqrt(6 / 12)
    )
    moved = inputs + len(inputs) * error @ feedback
    states = model.states(moved)
    for at, change in enumerate((error @ feedback @ weights[0].T, error @ feedback @ weights[0].T @ weights[1].T)):
        assert torch.allclose(found[f"layers.{at}.weight"], -change.T @ states[at], atol=1e-12)
        assert torch.allclose(found[f"layers.{at}.bias"], -change.sum(0), atol=1e-12)
    after = states[-1].detach().requires_grad_()
    (late,) = torch.autograd.grad(cross_entropy(after, batch.targets), after)
    assert torch.allclose(found["layers.2.weight"], late.T @ states[2], atol=1e-12)


def test_the_forward_gradient_is_unbiased_and_as_long_as_its_law_says() -> None:
    model, batch = scene((99, 10), "linear")
    reference = torch.cat([g.flatten() for g in backpropagated(model, batch, cross_entropy).values()])
    assert len(reference) == 1000
    rng, draws = torch.Generator().manual_seed(5), []
    for _ in range(1500):
        state = rng.get_state()
        found = ForwardGradient().gradients(model, batch, cross_entropy, rng=rng)
        draws.append(torch.cat([g.flatten() for g in found.values()]))
    again = torch.Generator()
    again.set_state(state)
    direction = torch.cat([torch.randn(p.shape, generator=again, dtype=p.dtype).flatten() for p in model.parameters()])
    assert torch.allclose(draws[-1], (direction @ reference) * direction, rtol=1e-10)
    stacked = torch.stack(draws)
    lengths, along = stacked.square().sum(1), stacked @ reference
    # Four standard errors: sqrt(2) of the squared length, .603 of a cosine's spread 1 / sqrt(1000).
    assert float(lengths.mean() / reference.square().sum()) == pytest.approx(1002, abs=4 * 1002 * math.sqrt(2 / 1500))
    assert float(along.mean() / reference.square().sum()) == pytest.approx(1, abs=4 * math.sqrt(2 / 1500))
    cosines = along / lengths.sqrt() / reference.norm()
    assert float(cosines.abs().mean()) == pytest.approx(0.0252, abs=4 * 0.603 / math.sqrt(1000 * 1500))


def test_noise_and_signs_are_what_they_say() -> None:
    model, batch = scene((30, 40, 10), "tanh")
    reference = backpropagated(model, batch, cross_entropy)
    for name, value in estimate(Sign(), model, batch).items():
        assert torch.equal(value.sign(), reference[name].sign())
        assert torch.allclose(value.abs(), reference[name].abs().mean().expand_as(value))
    noise = estimate(Random(), model, batch)
    assert {name: float(value.norm()) for name, value in noise.items()} == pytest.approx(
        dict.fromkeys(reference, 1), abs=0.4
    )
    cosine = float((noise["layers.0.weight"] * reference["layers.0.weight"]).sum()) / float(
        noise["layers.0.weight"].norm() * reference["layers.0.weight"].norm()
    )
    assert abs(cosine) < 4 / math.sqrt(1200)


def test_a_net_without_biases_gets_none_and_other_nets_are_refused_with_a_reason() -> None:
    model, batch = Mlp((6, 5, 4), "tanh", bias=False).double(), scene((6, 5, 4), "tanh")[1]
    for method in (Foton(), Pepita(0), Fa(0), Dfa(0)):
        assert set(estimate(method, model, batch)) == {"layers.0.weight", "layers.1.weight"}
        assert "this is a Gru" in str(method.supports(build("gru", (3, 4, 2), "tanh", "normal", torch.Generator())))
    assert Random().supports(model) is None


class Slopeless(Fa):
    """Feedback alignment whose author forgot the slope of the activation."""

    def _signals(self, model: Mlp, run: Pass, batch: Batch, loss: object) -> tuple[list[Tensor], list[Tensor]]:
        flat = Pass(run.states, [torch.ones_like(slope) for slope in run.slopes], run.error, run.rows)
        return super()._signals(model, flat, batch, cross_entropy)


class Scaled(Bp):
    """Backpropagation whose author took a sum for a mean of three."""

    def gradients(self, *args: object, **options: object) -> dict[str, Tensor]:
        return {name: 3 * value for name, value in super().gradients(*args, **options).items()}  # type: ignore[arg-type]


def turn(model: Mlp, angle: float) -> None:
    """Turn every hidden weight as training might, its rows still orthonormal."""
    rng = torch.Generator().manual_seed(9)
    for weight in weights_of(model)[:-1]:
        drawn = torch.randn(len(weight), len(weight), generator=rng, dtype=weight.dtype)
        weight.copy_(torch.linalg.matrix_exp(angle * (drawn - drawn.T) / math.sqrt(2 * len(weight))) @ weight)


def test_bugs_are_told_apart_by_the_measures_that_move() -> None:
    linear, batch = scene((64, 64, 64, 64, 10), "linear")
    weights = [weight.clone() for weight in weights_of(linear)]
    tanh, data = scene((64, 64, 64, 64, 10), "tanh")

    # Layers in F swapped: the direction goes, the length and the last layer stay.
    swapped = likeness(Foton(feedback=weights[3] @ weights[0] @ weights[1] @ weights[2]), linear, batch)
    assert abs(swapped.cosine) < 0.2
    assert swapped.length == pytest.approx(1, abs=1e-12)
    assert swapped.last == 0
    # So it is for a product that leaves one out.
    assert abs(likeness(Foton(feedback=weights[3] @ weights[2] @ weights[1]), linear, batch).cosine) < 0.2

    # A factor: only the length moves, and it alone moves the last layer.
    scaled = likeness(Scaled(), linear, batch)
    assert scaled.cosine == pytest.approx(1, abs=1e-14)
    assert (scaled.length, scaled.last) == pytest.approx((3, 2), abs=1e-14)

    # Slopes forgotten: nothing where all is linear; else hidden layers are too long, and little else.
    assert likeness(Slopeless(0, weights[1:]), linear, batch).error <= 1e-14
    slopeless = likeness(Slopeless(0, weights_of(tanh)[1:]), tanh, data)
    assert slopeless.length > 1.2
    assert 0.8 < slopeless.cosine < 0.999
    assert slopeless.last <= 1e-14

    # An old F: nothing at first, then the direction goes as the weights do, at full length.
    old = Foton(feedback=reduce(torch.matmul, reversed(weights)))
    assert likeness(old, linear, batch).error <= 1e-13
    cosines = []
    for _ in range(3):
        turn(linear, 0.3)
        found = likeness(old, linear, batch)
        assert found.length == pytest.approx(1, abs=1e-12)
        assert found.last == 0
        assert likeness(Foton(), linear, batch).error <= 1e-13
        cosines.append(found.cosine)
    assert 0.99 > cosines[0] > cosines[1] > cosines[2] > 0
