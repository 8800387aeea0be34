"""Built-in modules: token by token as at once, one recurrence in two forms, and what a target can be called on."""

import pytest
import torch
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.random_streams import stream
from probes.scaling.planted_modules import growing_chunk, hidden_mask, leaking_cache
from probes.scaling.reference_modules import NAMES, ModuleTarget, built_in, built_in_target, factory_target
from probes.scaling.workloads import MODES, Case, ModeError

DECODING = (
    "attention",
    "sdpa",
    "linear-attention",
    "window-w",
    "window-5",
    "fft-conv",
    "ssm-scan",
    "ssm-parallel",
    "pom",
)


def tokens(batch: int, n: int, width: int) -> Tensor:
    return torch.randn(batch, n, width, generator=stream(0, "tokens"))


@pytest.mark.parametrize("name", [*DECODING, leaking_cache])
@pytest.mark.parametrize("n", [1, 4, 64, 65, 130])
def test_next_tokens_are_those_of_the_whole_sequence(name: object, n: int) -> None:
    with torch.random.fork_rng(), torch.no_grad():
        model = (built_in(name) if isinstance(name, str) else leaking_cache)(2, n, 8, "cpu")
        x = tokens(2, n + 3, 8)
        y, state = model.prefill(x[:, :n])  # type: ignore[attr-defined]
        outputs, copied = [y], [one.clone() for one in state if isinstance(one, Tensor)]
        first = state
        for t in range(n, n + 3):
            y, state = model.step(x[:, t : t + 1], state)  # type: ignore[attr-defined]
            outputs.append(y)
        torch.testing.assert_close(torch.cat(outputs, 1), model(x), atol=3e-5, rtol=1e-4)
        # A call that is measured again and again starts from the same state.
        assert all(map(torch.equal, [one for one in first if isinstance(one, Tensor)], copied))


def both(one: str, other: str) -> tuple[Tensor, Tensor]:
    models = []
    for name in (one, other):
        with torch.random.fork_rng():
            torch.manual_seed(3)
            models.append(built_in(name)(2, 90, 8, "cpu"))
    x = tokens(2, 90, 8)
    return models[0](x), models[1](x)


@pytest.mark.parametrize(
    ("one", "other"), [("attention", "sdpa"), ("ssm-scan", "ssm-parallel"), ("window-90", "attention")]
)
def test_two_ways_to_one_function(one: str, other: str) -> None:
    torch.testing.assert_close(*both(one, other), atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["dyadic", "square-lag", "blockwise"])
def test_no_output_depends_on_a_later_token(name: str) -> None:
    with torch.random.fork_rng(), torch.no_grad():
        model = built_in(name)(1, 50, 8, "cpu")
    x = tokens(1, 50, 8)
    changed = torch.cat([x[:, :30], -x[:, 30:]], 1)
    torch.testing.assert_close(model(x)[:, :30], model(changed)[:, :30])
    assert not torch.allclose(model(x)[:, 30:], model(changed)[:, 30:])


def test_an_unknown_name_has_a_hint() -> None:
    assert built_in("window")(1, 4, 8, "cpu").window == built_in("window-w")(1, 4, 8, "cpu").window == 64  # type: ignore[attr-defined]
    for name, hint in (("atention", "attention"), ("window-x", "window-w"), ("window-0", "window-w")):
        with pytest.raises(InputError) as raised:
            built_in(name)
        assert f"{hint!r}" in raised.value.hint


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_each_mode_runs_again_with_the_same_numbers(name: str, mode: str) -> None:
    case = Case(n=70, batch=2, width=8, mode=mode, dtype="float64")  # type: ignore[arg-type]
    before = torch.get_rng_state()
    if name not in DECODING and mode in ("decode", "prefill"):
        with pytest.raises(ModeError, match=mode):
            built_in_target(name).workload(case)
        return
    one, other = (built_in_target(name).workload(case) for _ in range(2))
    first, second, third = (leaves(call()) for call in (one.run, one.run, other.run))
    assert all(map(torch.equal, first, second)) and all(map(torch.equal, first, third))
    assert {leaf.dtype for leaf in first} == {torch.float64} and torch.get_default_dtype() is torch.float32
    assert torch.equal(before, torch.get_rng_state())
    assert (one.state is None) == (mode == "train" or name not in DECODING)


def leaves(value: object) -> list[Tensor]:
    return [one for one in torch.utils._pytree.tree_leaves(value) if isinstance(one, Tensor)]


def test_a_callable_and_a_module_with_a_state_of_its_own() -> None:
    target = factory_target("mine", lambda batch, n, width, device: lambda x: x.square())
    (gradient,) = leaves(target.workload(Case(n=5, width=3, mode="train")).run())
    assert gradient.shape == (1, 5, 3) and target.workload(Case(n=5)).state is None

    class Sums(nn.Module):
        state: Tensor

        def forward(self, x: Tensor) -> Tensor:
            self.state = x.sum(1)
            return x

    Sums.state = torch.zeros(0)
    made = ModuleTarget("sums", lambda batch, n, width, device: Sums()).workload(Case(n=5, width=3)).state
    assert made is not None
    assert [one.shape for one in leaves(made())] == [(1, 3)]


def test_no_gradient_is_no_mode() -> None:
    target = factory_target("signs", lambda batch, n, width, device: torch.sign)
    target.workload(Case(n=5, mode="train")).run()
    counts = factory_target("counts", lambda batch, n, width, device: lambda x: (x > 0).sum())
    with pytest.raises(ModeError, match="gradient"):
        counts.workload(Case(n=5, mode="train")).run()


def test_planted_modules_give_numbers() -> None:
    for planted in (hidden_mask, growing_chunk, leaking_cache):
        with torch.random.fork_rng():
            assert planted(1, 40, 8, "cpu")(tokens(1, 40, 8)).isfinite().all()
