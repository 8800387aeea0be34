"""Are truncated, chunked and stationary feedback exact where they must be, and as far off as they were seen to be?"""

import pytest
import torch
from plain_cell import Rnn
from torch import Tensor

from probes.core.random_streams import stream
from probes.gradients.estimators import Batch, Estimator, backpropagated
from probes.gradients.networks import Gru, Mlp, Recurrent, build, cross_entropy, made_batches
from probes.gradients.recurrent_methods import Chunked, Dsf, Truncated, Unrolled, best_stationary, mean_jacobian, scan

WIDTH, STEPS, SIZE = 32, 64, 8


def given(output: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient by each output is the target itself."""
    return (output * targets).sum()


def drawn(*shape: int, rng: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def with_open_head(model: Recurrent) -> Recurrent:
    """The head hands the states on, so that targets are gradients of the states."""
    with torch.no_grad():
        model.head.weight.copy_(torch.eye(model.width))
        model.head.bias.zero_()
    return model.double()


def plain(feedback: Tensor, act: str, rng: torch.Generator) -> Recurrent:
    width = len(feedback)
    model = Rnn(width, width, width, act).double()
    with torch.no_grad():
        model.entry.weight.copy_(drawn(width, width, rng=rng) / width**0.5)
        model.entry.bias.zero_()
        model.feedback.weight.copy_(feedback)
    return with_open_head(model)


def gated(bias: float, seed: int = 0) -> tuple[Recurrent, Batch]:
    rng = stream(seed, "gated")
    model = Gru(WIDTH, WIDTH, WIDTH)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-(WIDTH**-0.5), WIDTH**-0.5, generator=rng)
        model.cell.bias_ih[WIDTH : 2 * WIDTH] = bias
    batch = Batch(drawn(SIZE, STEPS, WIDTH, rng=rng), drawn(SIZE, STEPS, WIDTH, rng=rng))
    return with_open_head(model), batch


def against(estimator: Estimator, model: Recurrent, batch: Batch) -> tuple[float, float]:
    """The relative error and the cosine, of all but the head."""
    exact, found = (
        torch.cat([part.flatten() for name, part in one.items() if not name.startswith("head")])
        for one in (
            backpropagated(model, batch, given),
            estimator.gradients(model, batch, given, rng=stream(0, "unused")),
        )
    )
    return float((found - exact).norm() / exact.norm()), float(found @ exact / found.norm() / exact.norm())


def test_a_diagonal_linear_cell_is_exact() -> None:
    rng = stream(1, "diagonal")
    diagonal = torch.rand(WIDTH, generator=rng, dtype=torch.float64)
    model = plain(diagonal.diag(), "linear", rng)
    batch = Batch(drawn(SIZE, STEPS, WIDTH, rng=rng), drawn(SIZE, STEPS, WIDTH, rng=rng))
    for estimator in (Dsf("given", diagonal), Dsf("fitted-diagonal"), best_stationary(model, batch, given)):
        assert against(estimator, model, batch)[0] <= 1e-14
    assert against(Dsf("linspace"), model, batch)[0] > 0.1


def test_a_dense_linear_cell_is_exact_with_its_matrix_and_not_with_its_diagonal() -> None:
    cosines = []
    for seed in range(5):
        rng = stream(seed, "dense")
        matrix = drawn(WIDTH, WIDTH, rng=rng) / WIDTH**0.5 * 0.85
        model = plain(matrix, "linear", rng)
        batch = Batch(drawn(SIZE, STEPS, WIDTH, rng=rng), drawn(SIZE, STEPS, WIDTH, rng=rng))
        for estimator in (Dsf("given", matrix), Dsf("fitted-full")):
            assert against(estimator, model, batch)[0] <= 1e-14
        assert against(Dsf("given", matrix.T), model, batch)[0] > 0.1
        cosines.append(against(Dsf("given", matrix.diagonal()), model, batch)[1])
    assert sum(cosines) / 5 == pytest.approx(0.47, abs=0.1), cosines


def test_a_fixed_point_is_exact_and_noise_moves_it_in_proportion() -> None:
    found: dict[float, list[float]] = {}
    for seed in range(5):
        rng = stream(seed, "fixed point")
        matrix = drawn(WIDTH, WIDTH, rng=rng) / WIDTH**0.5 * 0.85
        model = plain(matrix, "tanh", rng)
        inputs = drawn(1, 1, WIDTH, rng=rng)
        with torch.no_grad():
            state = model.states(inputs.expand(1, 400, WIDTH))[0, -1]
        jacobian = (1 - state**2)[:, None] * matrix
        noise, targets = drawn(SIZE, STEPS, WIDTH, rng=rng), drawn(SIZE, STEPS, WIDTH, rng=rng)
        # The run-up to the fixed point has no loss; what comes back to it from later is what is judged, too.
        before, silent = inputs.expand(SIZE, 200, WIDTH), torch.zeros(SIZE, 200, WIDTH).double()
        for size in (0.0, 0.01, 0.1, 0.3, 1.0):
            batch = Batch(torch.cat([before, inputs + size * noise], 1), torch.cat([silent, targets], 1))
            found.setdefault(size, []).append(against(Dsf("given", jacobian), model, batch)[0])
    assert max(found[0.0]) <= 1e-14
    for size, seen in {0.01: 0.005, 0.1: 0.06, 0.3: 0.21, 1.0: 0.49}.items():
        assert seen / 2 < sum(found[size]) / 5 < seen * 2, (size, found[size])


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_all_steps_are_exact_and_borders_cut(bias: float) -> None:
    model, batch = gated(bias)
    for estimator in (Truncated(STEPS), Truncated(STEPS + 5), Chunked(STEPS)):
        assert against(estimator, model, batch)[0] <= 1e-14
    errors = [against(Truncated(k), model, batch)[0] for k in (1, 2, 4, 8, 16)]
    assert errors == sorted(errors, reverse=True) and errors[-1] > 1e-6
    # Chunks lose more than a window of their length, and of one step there is no difference.
    assert against(Chunked(8), model, batch)[0] > errors[3]
    one, other = (each(1).gradients(model, batch, given, rng=stream(0, "unused")) for each in (Chunked, Truncated))
    for name, part in one.items():
        torch.testing.assert_close(part, other[name], rtol=1e-12, atol=1e-12)


def test_truncation_sums_k_terms() -> None:
    rng = stream(3, "terms")
    matrix = drawn(4, 4, rng=rng)
    model = plain(matrix, "linear", rng)
    batch = Batch(drawn(2, 6, 4, rng=rng), drawn(2, 6, 4, rng=rng))
    ahead = [torch.cat([batch.targets[:, j:], torch.zeros(2, j, 4).double()], 1) for j in range(3)]
    deltas = sum(e @ torch.linalg.matrix_power(matrix, j) for j, e in enumerate(ahead))
    found = Truncated(3).gradients(model, batch, given, rng=rng)["entry.weight"]
    torch.testing.assert_close(found, torch.einsum("bti,btj->ij", deltas, batch.inputs), rtol=1e-12, atol=1e-12)


def test_chunks_are_cut_at_multiples() -> None:
    model, batch = gated(0.0)
    found = Chunked(24).gradients(model, batch, given, rng=stream(0, "unused"))
    wanted = dict.fromkeys(found, torch.zeros(()).double())
    with torch.no_grad():
        states = model.states(batch.inputs)
    for start in (0, 24, 48):
        state = states[:, start - 1] if start else torch.zeros(SIZE, WIDTH).double()
        value = torch.zeros(()).double()
        for time in range(start, min(start + 24, STEPS)):
            state = model.step(batch.inputs[:, time], state)
            value = value + given(model.head(state), batch.targets[:, time])
        parts = torch.autograd.grad(value, list(model.parameters()))
        wanted = {name: wanted[name] + part for name, part in zip(wanted, parts, strict=True)}
    for name, part in found.items():
        torch.testing.assert_close(part, wanted[name], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 8, 33])
@pytest.mark.parametrize("full", [False, True])
def test_the_scan_is_the_recursion(steps: int, full: bool) -> None:
    rng = stream(steps, "scan")
    local, matrix = drawn(3, steps, 5, rng=rng), drawn(5, 5, rng=rng) / 3
    feedback = matrix if full else matrix.diagonal()
    state, wanted = torch.zeros(3, 5).double(), []
    for time in reversed(range(steps)):
        state = local[:, time] + (state @ matrix if full else state * feedback)
        wanted.insert(0, state)
    torch.testing.assert_close(scan(local, feedback), torch.stack(wanted, 1), rtol=1e-12, atol=1e-12)


def test_the_mean_jacobian_is_that_of_the_steps_between_states() -> None:
    model, batch = gated(0.0)
    batch = Batch(batch.inputs[:2, :4], batch.targets[:2, :4])
    states = model.states(batch.inputs).detach()
    jacobians = [
        torch.autograd.functional.jacobian(lambda s, b=b, t=t: model.step(batch.inputs[b : b + 1, t], s)[0], before)
        for b in range(2)
        for t in range(1, 4)
        for before in [states[b : b + 1, t - 1]]
    ]
    wanted = torch.stack([each[:, 0] for each in jacobians]).mean(0)
    torch.testing.assert_close(mean_jacobian(Unrolled(model, batch, given)), wanted, rtol=1e-12, atol=1e-14)


def test_gated_cells_are_as_far_off_as_was_seen() -> None:
    seen: dict[float, dict[Estimator, float]] = {
        0.0: {Dsf("linspace"): 0.62, Truncated(1): 0.84, Truncated(2): 0.95, Dsf("fitted-diagonal"): 0.967},
        2.0: {Dsf("linspace"): 0.64, Truncated(1): 0.53, Truncated(8): 0.95, Dsf("constant"): 0.971},
    }
    full = {0.0: 0.981, 2.0: 0.987}
    for bias, methods in seen.items():
        model, batch = gated(bias)
        cosines = {one.name: against(one, model, batch)[1] for one in (*methods, Dsf("fitted-full"))}
        wanted = {one.name: cosine for one, cosine in methods.items()} | {"dsf:fitted-full": full[bias]}
        assert cosines == pytest.approx(wanted, abs=0.1)
        # A matrix knows more than a diagonal; a diagonal without data is worse than none where memory is short.
        assert cosines["dsf:fitted-full"] == max(cosines.values())
        assert (cosines["dsf:linspace"] < cosines["truncated-1"]) == (bias == 0.0)


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_no_fixed_diagonal_beats_the_best_stationary(bias: float) -> None:
    model, batch = gated(bias)
    found = best_stationary(model, batch, given)
    assert found.feedback is not None and found.name == "dsf:best-stationary"
    best = against(found, model, batch)[1]
    for kind in ("linspace", "constant", "fitted-diagonal"):
        assert against(Dsf(kind), model, batch)[1] < best
    rng = stream(9, "moved")
    for size in (1e-3, 0.03, 0.3):
        moved = found.feedback + size * drawn(WIDTH, rng=rng)
        assert against(Dsf("given", moved), model, batch)[1] < best
    # The slope there is nought, of the cosine without the head.
    for _ in range(3):
        way = drawn(WIDTH, rng=rng)
        ahead, behind = (Dsf("given", found.feedback + side * 1e-3 * way / way.norm()) for side in (1, -1))
        assert abs(against(ahead, model, batch)[1] - against(behind, model, batch)[1]) / 2e-3 < 2e-5
    again = best_stationary(model, batch, given)
    assert again.feedback is not None and torch.equal(again.feedback, found.feedback)


def test_a_dead_cell_has_a_best_feedback_without_an_error() -> None:
    model, batch = gated(0.0)
    found = best_stationary(model, Batch(batch.inputs, batch.targets * 0), given)
    assert found.feedback is not None and found.feedback.isfinite().all()


def test_linspace_rises_from_nought_to_one() -> None:
    rng = stream(2, "linspace")
    model = plain(torch.linspace(0, 1, WIDTH).double().diag(), "linear", rng)
    batch = Batch(drawn(SIZE, STEPS, WIDTH, rng=rng), drawn(SIZE, STEPS, WIDTH, rng=rng))
    # To single precision, which this cell's weights had.
    assert against(Dsf("linspace"), model, batch)[0] < 1e-5


def test_gradients_have_the_parameters_shapes_and_change_nothing() -> None:
    rng = stream(0, "shapes")
    model = build("gru", [6, 5, 3], "tanh", "normal", rng)
    batch = made_batches("gru", [6, 5, 3], 1, 4, 7, rng)[0]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    exact = backpropagated(model, batch, cross_entropy)
    methods = [Truncated(3), Chunked(3), *map(Dsf, ("linspace", "constant", "fitted-diagonal", "fitted-full"))]
    for estimator in methods:
        assert estimator.supports(model) is None
        found = estimator.gradients(model, batch, cross_entropy, rng=rng)
        assert {name: part.shape for name, part in found.items()} == {n: p.shape for n, p in exact.items()}
        torch.testing.assert_close(found["head.weight"], exact["head.weight"], rtol=1e-12, atol=1e-15)
    assert all(map(torch.equal, before, model.parameters()))
    assert all(parameter.grad is None for parameter in model.parameters()) and not batch.inputs.requires_grad


def test_a_sequence_of_one_step_has_nothing_to_feed_back() -> None:
    model, batch = gated(0.0)
    batch = Batch(batch.inputs[:, :1], batch.targets[:, :1])
    for estimator in (Truncated(3), Chunked(3), Dsf("fitted-full"), best_stationary(model, batch, given)):
        assert against(estimator, model, batch)[0] <= 1e-14


def test_other_networks_are_refused() -> None:
    assert "recurrent" in str(Truncated(2).supports(Mlp([2, 2])))
    assert "gates" in str(Dsf("constant").supports(Rnn(2, 2, 2)))
    assert Dsf("linspace").supports(Rnn(2, 2, 2)) is None
