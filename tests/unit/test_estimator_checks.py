"""Are estimators that would spoil an audit refused, and is the reference held against the loss itself?"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.gradients import methods
from probes.gradients.checks import AGREEMENT, check_estimator, check_reference
from probes.gradients.estimators import Batch, Loss, backpropagated
from probes.gradients.methods import named_estimators
from probes.gradients.networks import Mlp, build, cross_entropy, made_batches


class Net(nn.Module):
    """Two layers with batch normalisation and dropout between them, and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two, self.idle = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3), nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = nn.functional.dropout(torch.tanh(self.norm(self.one(inputs))), training=self.training)
        output: Tensor = self.two(hidden)
        return output


IDLE = {"idle.weight": 4, "idle.bias": 2}


def parts(seed: int = 0) -> tuple[Net, Batch]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Net().double()
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.5)
        return model, Batch(torch.randn(12, 4, dtype=torch.float64), torch.randint(3, (12,)))


Deed = Callable[[nn.Module, Batch, dict[str, Tensor], torch.Generator], Any]


@dataclass
class Plugin:
    """Backpropagation, and what else its author did; the deed may return something in place of the gradients."""

    deed: Deed
    name: str = "theirs"
    stochastic: bool = False
    calls: int = 0

    def supports(self, model: nn.Module) -> str | None:
        return None

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Any:
        self.calls += 1
        found = backpropagated(model, batch, loss)
        other = self.deed(model, batch, found, rng)
        return other if isinstance(other, Mapping | list) else found


def replace(model: nn.Module) -> None:
    before = model.one.weight
    model.one.weight = nn.Parameter(before.detach().clone())
    model.one.weight.grad = before.grad


MUTATIONS: dict[str, tuple[Deed, str]] = {
    "weights": (lambda m, b, f, r: m.one.weight.data.add_(1e-12), "one.weight"),
    "buffers": (lambda m, b, f, r: m.norm.running_mean.add_(1), "norm.running_mean"),
    "a pass in training mode": (lambda m, b, f, r: (m.train(), m(b.inputs), m.eval(), None)[-1], "norm.running_mean"),
    "backward": (lambda m, b, f, r: cross_entropy(m(b.inputs), b.targets).backward(), "one.weight.grad"),
    "zero_grad": (lambda m, b, f, r: m.zero_grad(), "one.weight.grad"),
    "mode": (lambda m, b, f, r: (m.norm.train(), None)[-1], "mode or hooks of norm"),
    "a hook": (lambda m, b, f, r: m.two.register_forward_hook(lambda *_: None), "mode or hooks of two"),
    "inputs": (lambda m, b, f, r: b.inputs.mul_(2), "inputs"),
    "a switch": (lambda m, b, f, r: b.inputs.requires_grad_(), "inputs"),
    "a parameter": (lambda m, b, f, r: replace(m), "one.weight"),
    "a new buffer": (lambda m, b, f, r: m.register_buffer("memory", torch.zeros(2)), "memory"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_estimator_that_changes_the_model_is_refused_and_the_model_is_as_before(name: str) -> None:
    deed, expected = MUTATIONS[name]
    model, batch = parts()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(InputError, match="It changes what it is given") as caught:
        check_estimator(Plugin(deed), model, batch, cross_entropy, 0)
    assert expected in caught.value.message
    assert (caught.value.exit_code, caught.value.where) == (2, "estimator theirs")
    assert model.training
    assert before.keys() == model.state_dict().keys()
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(torch.equal(p.grad, torch.full_like(p, 0.5)) for p in model.parameters() if p.grad is not None)
    assert torch.equal(batch.inputs, parts()[1].inputs)
    assert not batch.inputs.requires_grad


WRONG: dict[str, tuple[Deed, str]] = {
    "a name": (lambda m, b, f, r: {**f, "one.wieght": f["one.weight"]}, "a gradient of 'one.wieght'"),
    "a shape": (lambda m, b, f, r: {**f, "one.weight": f["one.weight"].T}, r"shape \(4, 5\) on cpu for one.weight"),
    "a device": (lambda m, b, f, r: {"two.bias": torch.empty(3, device="meta")}, "on meta for two.bias"),
    "an integer": (lambda m, b, f, r: {"two.bias": torch.zeros(3, dtype=torch.int64)}, "torch.int64 for two.bias"),
    "an array": (lambda m, b, f, r: {"two.bias": f["two.bias"].numpy()}, "float64 for two.bias"),
    "no number": (
        lambda m, b, f, r: {"two.bias": f["two.bias"] / torch.tensor([0, 1, 0])},
        "2 of 3 values of two.bias",
    ),
    "a list": (lambda m, b, f, r: list(f.values()), "list without gradients"),
    "nothing": (lambda m, b, f, r: {}, "dict without gradients"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_gradient_of_the_model_is_refused(name: str) -> None:
    deed, expected = WRONG[name]
    with pytest.raises(InputError, match=expected):
        check_estimator(Plugin(deed), *parts(), cross_entropy, 0)


def noisy(model: nn.Module, batch: Batch, found: dict[str, Tensor], rng: torch.Generator) -> dict[str, Tensor]:
    return {name: value + torch.randn(value.shape, generator=rng, dtype=value.dtype) for name, value in found.items()}


def test_equal_generators_have_to_give_equal_bytes() -> None:
    assert check_estimator(Plugin(noisy, stochastic=True), *parts(), cross_entropy, 0) == IDLE
    with pytest.raises(InputError, match="its attribute `stochastic` says that it does not"):
        check_estimator(Plugin(noisy), *parts(), cross_entropy, 0)
    elsewhere = torch.Generator().manual_seed(0)
    with pytest.raises(InputError, match="Two runs with equal generators differ"):
        check_estimator(
            Plugin(lambda m, b, f, r: noisy(m, b, f, elsewhere), stochastic=True), *parts(), cross_entropy, 0
        )
    counting = Plugin(lambda m, b, f, r: None)
    counting.deed = lambda m, b, f, r: f if counting.calls == 1 else {"two.bias": f["two.bias"]}
    with pytest.raises(InputError, match="Two runs with equal generators differ"):
        check_estimator(counting, *parts(), cross_entropy, 0)


def test_parameters_without_a_gradient_are_counted() -> None:
    assert check_estimator(Plugin(lambda m, b, f, r: None), *parts(), cross_entropy, 0) == IDLE
    # Half precision, other strides, and what still hangs on a graph are all gradients.
    deed = Plugin(lambda m, b, f, r: {"two.weight": f["two.weight"].float().T.contiguous().T})
    assert set(check_estimator(deed, *parts(), cross_entropy, 0)) == {
        *IDLE, "one.weight", "one.bias", "norm.weight", "norm.bias", "two.bias"
    }  # fmt: skip
    expanded = Plugin(lambda m, b, f, r: {"two.bias": f["two.bias"][:1].expand(3)})
    assert "two.weight" in check_estimator(expanded, *parts(), cross_entropy, 0)


@pytest.mark.parametrize(("net", "act"), [("mlp", "tanh"), ("mlp", "relu"), ("resmlp", "tanh"), ("gru", "tanh")])
def test_the_reference_agrees_with_central_differences(net: str, act: str) -> None:
    rng = torch.Generator().manual_seed(1)
    model = build(net, (8, 8, 8, 3), act, "orthogonal", rng)
    batch = made_batches(net, (8, 8, 8, 3), 1, 16, 5, rng)[0]
    found = check_reference(model, batch, cross_entropy, 0)
    assert found.error is not None
    assert found.error < AGREEMENT / 10
    assert (found.reason, found.dead) == ("", ())
    exact = torch.cat([g.flatten() for g in backpropagated(model, batch, cross_entropy).values()])
    assert found.norm == pytest.approx(float(exact.norm()), rel=1e-12)


def test_the_reference_is_checked_in_double_precision_with_dropout_off_and_statistics_kept() -> None:
    model, batch = parts()
    found = check_reference(model.float(), Batch(batch.inputs.float(), batch.targets), cross_entropy, 0)
    assert found.error is not None
    assert found.error < AGREEMENT / 10
    assert model.training
    assert model.one.weight.dtype == torch.float32
    assert int(model.norm.num_batches_tracked) == 0


def test_kinks_at_the_weights_are_said_and_tolerated() -> None:
    rng = torch.Generator().manual_seed(0)
    # Of narrow layers some let nothing of a row through: with biases of 0 all units behind them are at their kink.
    model = build("mlp", (8, 4, 4, 4, 4, 4, 4, 3), "relu", "orthogonal", rng)
    found = check_reference(model, made_batches("mlp", (8, 3), 1, 64, 1, rng)[0], cross_entropy, 0)
    assert found.error is not None
    assert found.error > 0.01
    assert "kinks" in found.reason


class Doubled(torch.autograd.Function):
    """The identity, with a backward pass that is not its own."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 1.00001 * gradient


def test_a_wrong_backward_pass_is_refused() -> None:
    model, batch = parts()
    plain = model.two.forward
    model.two.forward = lambda value: plain(Doubled.apply(value))  # type: ignore[method-assign]
    with pytest.raises(InputError, match="does not give the gradient of the loss"):
        check_reference(model, batch, cross_entropy, 0)


def test_tied_weights_and_noise_and_losses_that_are_no_number_are_refused() -> None:
    model, batch = Mlp((4, 4, 4, 3), "tanh").double(), parts()[1]
    model.layers[1].weight = model.layers[0].weight
    with pytest.raises(InputError, match=r"layers\.0\.weight and layers\.1\.weight are one tensor"):
        check_reference(model, batch, cross_entropy, 0)
    model.layers[1].weight = nn.Parameter(model.layers[0].weight.detach())
    with pytest.raises(InputError, match=r"layers\.0\.weight and layers\.1\.weight are one tensor"):
        check_reference(model, batch, cross_entropy, 0)
    noise = nn.Sequential(nn.Linear(4, 3).double())
    noise.register_forward_hook(lambda module, given, output: output * torch.rand(1))
    with pytest.raises(InputError, match="Two passes of one batch have the losses"):
        check_reference(noise, batch, cross_entropy, 0)
    for loss in (lambda o, t: o.square().sum(1), lambda o, t: o.sum() / 0):
        with pytest.raises(InputError, match="Two passes of one batch have the losses"):
            check_reference(nn.Sequential(nn.Linear(4, 3).double()), batch, loss, 0)


@pytest.mark.parametrize("model", [nn.Identity(), nn.Linear(4, 3, dtype=torch.float64).requires_grad_(False)])
def test_a_loss_that_hangs_on_nothing_is_refused(model: nn.Module) -> None:
    with pytest.raises(InputError, match="does not depend on any parameter"):
        check_reference(model, parts()[1], cross_entropy, 0)


def test_a_dead_net_and_dead_layers_are_flagged() -> None:
    batch = parts()[1]
    model = build("mlp", (4, 5, 3), "relu", "normal", torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.layers[0].bias.fill_(-100)  # type: ignore[union-attr, index]
    found = check_reference(model, batch, cross_entropy, 0)
    assert found.dead == ("layers.0.weight", "layers.0.bias", "layers.1.weight")
    assert found.norm > 0
    found = check_reference(model, batch, lambda output, targets: 0 * output.sum(), 0)
    assert (found.norm, found.error) == (0, None)
    assert "The gradient is 0" in found.reason
    assert len(found.dead) == 4


def test_frozen_parameters_have_no_gradient() -> None:
    model, batch = parts()
    model.one.weight.requires_grad_(False)
    found = check_reference(model, batch, cross_entropy, 0)
    assert found.reason == ""
    for estimator in named_estimators(["bp", "sign", "random", "forward-gradient"], 0):
        assert "one.weight" in check_estimator(estimator, model, batch, cross_entropy, 0)


def point(name: str, made: object, package: str = "theirs") -> Any:
    def load() -> object:
        if isinstance(made, Exception):
            raise made
        return made

    return SimpleNamespace(name=name, value=f"{package}:it", load=load, dist=SimpleNamespace(name=package))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda *points: monkeypatch.setattr(methods, "entry_points", lambda group: points)


def test_estimators_come_in_their_order_and_the_minibatch_is_left_to_the_audit(installed: Callable[..., None]) -> None:
    installed()
    names = ["foton", "minibatch", "bp", "random", "sign", "pepita", "fa", "dfa", "forward-gradient"]
    found = named_estimators(names, 3, eps=0.5)
    assert [one.name for one in found] == [name for name in names if name != "minibatch"]
    assert vars(found[0])["eps"] == 0.5
    assert {vars(one)["seed"] for one in found if "seed" in vars(one)} == {3}
    assert [one.name for one in found if one.stochastic] == ["random", "forward-gradient"]


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, classes in {
        "residual_methods": ["Highway"],
        "recurrent_methods": ["Truncated", "Chunked", "Dsf"],
    }.items():
        stub = ModuleType(module)
        for name in classes:
            setattr(stub, name, lambda *given, name=name: SimpleNamespace(name=f"{name} {given}", stochastic=False))
        monkeypatch.setitem(sys.modules, f"probes.gradients.{module}", stub)


@pytest.mark.usefixtures("stubs")
def test_numbers_and_kinds_are_read_from_names(installed: Callable[..., None]) -> None:
    installed()
    names = ["highway-0", "highway-12", "truncated-1", "chunked-8", "dsf", "dsf:fitted-full"]
    assert [one.name for one in named_estimators(names, 0)] == [
        "Highway (0,)", "Highway (12,)", "Truncated (1,)", "Chunked (8,)", "Dsf ()", "Dsf ('fitted-full',)"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["footn", "highway", "highway-", "highway-x", "truncated-0", "highway--1", "dsf:line", "dsf-1", "", "bp-1"]
)
def test_unknown_names_are_refused_with_those_that_there_are(name: str, installed: Callable[..., None]) -> None:
    installed(point("foton-of-mine", Plugin))
    with pytest.raises(InputError, match="There is no method") as caught:
        named_estimators(["bp", name], 0)
    assert "highway-K" in caught.value.hint
    assert "foton-of-mine" in caught.value.hint
    assert ("Did you mean 'foton'?" in caught.value.hint) == (name == "footn")


def test_a_method_is_named_once(installed: Callable[..., None]) -> None:
    installed()
    with pytest.raises(InputError, match="The method bp is named twice"):
        named_estimators(["bp", "foton", "bp"], 0)


class Theirs(Plugin):
    def __init__(self) -> None:
        super().__init__(lambda m, b, f, r: None)


class Failing(Theirs):
    def supports(self, model: nn.Module) -> str | None:
        raise KeyError("layers")

    def gradients(self, *_: object, **__: object) -> Any:
        raise RuntimeError("shapes\ndo not fit")


def test_another_package_brings_estimators_and_answers_for_their_faults(installed: Callable[..., None]) -> None:
    broken = ImportError("no jax")
    installed(point("mine", Theirs), point("failing", Failing), point("broken", broken), point("object", object))
    mine, failing = named_estimators(["mine", "failing"], 0)
    assert (mine.name, mine.stochastic, mine.supports(nn.Identity())) == ("mine", False, None)
    assert check_estimator(mine, *parts(), cross_entropy, 0) == IDLE
    with pytest.raises(InputError, match=r"The estimator failing of theirs failed: RuntimeError: shapes$"):
        check_estimator(failing, *parts(), cross_entropy, 0)
    with pytest.raises(InputError, match="failing of theirs failed: KeyError"):
        failing.supports(nn.Identity())
    with pytest.raises(InputError, match="broken of theirs failed: ImportError: no jax"):
        named_estimators(["broken"], 0)
    with pytest.raises(InputError, match="object of theirs failed: AttributeError"):
        named_estimators(["object"], 0)
    # What is not asked for is not loaded.
    assert named_estimators(["bp"], 0)[0].name == "bp"


@pytest.mark.usefixtures("stubs")
@pytest.mark.parametrize("name", ["foton", "minibatch", "mine", "highway-7"])
def test_a_name_that_is_taken_is_refused(name: str, installed: Callable[..., None]) -> None:
    installed(point("mine", Theirs, "ours"), point(name, Theirs, "others"))
    with pytest.raises(InputError, match=f"The package others brings an estimator named {name}, a name that is taken"):
        named_estimators(["bp"], 0)
