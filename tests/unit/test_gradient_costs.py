"""Costs of gradients: counts against the table, bytes against those known, seconds in turns."""

import pytest
import torch
from torch import Tensor

from audits.gradients.counts import COUNTED_CEILING
from probes.core.random_streams import stream
from probes.core.timing import in_turns, middle, ratios
from probes.gradients.costs import BJORCK, Cost, counted, depth_of, saved_bytes
from probes.gradients.estimators import Batch, backpropagated
from probes.gradients.networks import Mlp, build, made_batches
from probes.gradients.recurrent_methods import Chunked, Dsf

L = 16


@pytest.mark.parametrize(
    ("method", "work", "span"),
    [
        ("bp", 3 * L, 2 * L),
        ("minibatch", 3 * L, 2 * L),
        ("sign", 3 * L, 2 * L),
        ("fa", 3 * L, 2 * L),
        ("dfa", 3 * L, L + 1),
        ("pepita", 3 * L, 2 * L),
        ("foton", 3 * L, 2 * L),
        ("forward-gradient", 3 * L, L),
        ("highway-0", 2 * L, L),
        ("highway-3", 5 * L, L + 3 * (1 + 4)),
        ("highway-99", (2 + L) * L, L + L * (1 + 4)),
        ("dsf", 3 * L, L + 4),
        ("dsf:fitted-full", 3 * L, L + 4),
        ("truncated-4", 6 * L, L + 4),
        ("truncated-99", (2 + L) * L, 2 * L),
        ("chunked-4", 3 * L, L + 4),
        ("chunked-99", 3 * L, 2 * L),
    ],
)
def test_counts_are_those_of_the_table(method: str, work: float, span: float) -> None:
    assert counted(method, L) == Cost(work, span)


def test_orthogonalisation_can_exceed_the_rest_at_small_batches() -> None:
    large, small = counted("foton", L, ratio=1 / 64), counted("foton", L, ratio=4.0)
    assert large is not None and small is not None and large.span == small.span == 2 * L
    assert small.work == L * (3 + 4 * (1 + 2 * BJORCK)) > 50 * 3 * L > large.work


def test_what_has_no_count_is_absent() -> None:
    assert [counted(method, L) for method in ("random", "theirs", "highway", "highway-x", "dfa-2")] == [None] * 5


def test_no_method_that_only_speeds_the_backward_pass_beats_the_ceiling() -> None:
    whole = counted("bp", L)
    assert whole is not None and whole.work / L == COUNTED_CEILING


def test_depth_is_of_layers_blocks_or_steps() -> None:
    rng = stream(0, "depth")
    for net, widths, wanted in (("mlp", [3, 4, 4, 2], 3), ("resmlp", [4, 4, 4, 2], 2), ("gru", [3, 4, 2], 7)):
        batch = made_batches(net, widths, 1, 5, 7, rng)[0]
        assert depth_of(build(net, widths, "tanh", "normal", rng), batch) == wanted
    assert depth_of(torch.nn.Linear(3, 2), batch) is None


def total(output: Tensor, targets: Tensor) -> Tensor:
    return (output * targets).sum()


def test_bytes_are_those_of_the_states_between_layers() -> None:
    model = Mlp([6, 8, 8, 3], "tanh").double()
    batch = Batch(torch.ones(5, 6).double(), torch.ones(5, 3).double())
    held = [*model.parameters(), batch.inputs, batch.targets]
    # Each state behind tanh is saved twice, by tanh and by the next layer: it is one storage.
    assert saved_bytes(lambda: backpropagated(model, batch, total), held) == 2 * 5 * 8 * 8
    inputs, weights = 5 * 6 * 8, 8 * 8 * 8 + 8 * 3 * 8
    # The weight of the first layer is not needed: nothing goes back to the inputs.
    assert saved_bytes(lambda: backpropagated(model, batch, total)) == 2 * 5 * 8 * 8 + inputs + weights + 5 * 3 * 8
    with torch.no_grad():
        assert saved_bytes(lambda: model(batch.inputs), held) == 0


def test_storages_that_were_freed_count_each() -> None:
    weight = torch.ones(1000, requires_grad=True)

    def passes() -> None:
        for _ in range(10):
            torch.autograd.grad((weight * weight.detach().exp()).sum(), weight)

    assert saved_bytes(passes, [weight]) == 10 * 4000


def test_every_recurrent_method_keeps_what_the_steps_keep() -> None:
    rng = stream(0, "bytes")
    model = build("gru", [4, 6, 3], "tanh", "normal", rng)
    batch = made_batches("gru", [4, 6, 3], 1, 5, 8, rng)[0]

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        return output.square().mean()

    held = [*model.parameters(), batch.inputs]
    found = [saved_bytes(lambda: backpropagated(model, batch, loss), held)]
    found += [
        saved_bytes(lambda each=each: each.gradients(model, batch, loss, rng=rng), held)
        for each in (Chunked(2), Dsf("linspace"))
    ]
    assert min(found) > 8 * 5 * 6 * 8 and max(found) <= 1.05 * min(found)


def test_transforms_hide_their_bytes_and_faults_come_through() -> None:
    one = torch.ones(3).double()
    assert saved_bytes(lambda: torch.func.grad(lambda x: (x * x).sum())(one)) is None
    with pytest.raises(RuntimeError, match="theirs"):
        saved_bytes(lambda: (_ for _ in ()).throw(RuntimeError("theirs")))


def test_calls_take_turns_and_the_first_round_warms_up() -> None:
    order: list[str] = []
    found = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 4
    assert {name: len(seconds) for name, seconds in found.items()} == {"a": 3, "b": 3}
    assert all(second > 0 for seconds in found.values() for second in seconds)


def test_seconds_are_those_between_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, taken = [0.0], iter([100.0, 1.0, 2.0, 0.0])

    def call() -> None:
        clock[0] += next(taken)

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    assert in_turns({"a": call}, 3) == {"a": (1.0, 2.0, 1e-9)}


def test_speedup_is_the_median_of_ratios_not_the_ratio_of_medians() -> None:
    whole, own = (4.0, 6.0, 40.0), (2.0, 2.0, 50.0)
    assert ratios(whole, own) == (2.0, 3.0, 0.8)
    assert middle(ratios(whole, own)) == (2.0, 0.8, 3.0)
