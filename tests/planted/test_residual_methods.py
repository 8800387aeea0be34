"""Is highway backpropagation exact where it must be, and does its error fall with k as it was seen to?"""

import pytest
import torch
from torch import Tensor

from probes.core.random_streams import stream
from probes.gradients.estimators import Batch, backpropagated
from probes.gradients.networks import Gru, ResMlp, build, cross_entropy, made_batches
from probes.gradients.residual_methods import Highway, all_iterations

CLASSES = 10


def subject(blocks: int, scale: float, seed: int = 0) -> tuple[ResMlp, Batch]:
    rng, widths = stream(seed, "highway"), [32] * (blocks + 1) + [CLASSES]
    model = build("resmlp", widths, "tanh", "normal", rng, scale=scale)
    assert isinstance(model, ResMlp)
    return model, made_batches("resmlp", widths, 1, 16, 1, rng)[0]


def hidden(gradients: dict[str, Tensor]) -> Tensor:
    return torch.cat([part.flatten() for name, part in gradients.items() if not name.startswith("head")])


def errors(model: ResMlp, batch: Batch) -> list[float]:
    exact = hidden(backpropagated(model, batch, cross_entropy))
    found = all_iterations(model, batch, cross_entropy, len(model.blocks) - 1)
    return [float((hidden(each) - exact).norm() / exact.norm()) for each in found]


@pytest.mark.parametrize(("blocks", "scale"), [(1, 1.0), (2, 1.0), (5, 0.1), (8, 1.0), (16, 0.5)])
def test_one_iteration_fewer_than_blocks_is_exact(blocks: int, scale: float) -> None:
    found = errors(*subject(blocks, scale))
    assert found[-1] <= 1e-12
    # And no fewer, or the plant would not tell the iterations apart.
    assert all(error > 1e-10 for error in found[:-1])


def test_every_block_is_exact_from_its_iteration_on() -> None:
    model, batch = subject(6, 1.0)
    exact = backpropagated(model, batch, cross_entropy)
    for k, found in enumerate(all_iterations(model, batch, cross_entropy, 5)):
        for at in range(6):
            name = f"blocks.{at}.weight"
            error = float((found[name] - exact[name]).norm() / exact[name].norm())
            assert (error <= 1e-12) == (k >= 5 - at), (k, at, error)
        assert torch.equal(found["head.weight"], exact["head.weight"])


def test_the_first_iteration_adds_each_block_once() -> None:
    model, batch = subject(3, 1.0)
    jacobians, states = [], [batch.inputs]
    for at in range(3):
        weight, bias = model.blocks[at].weight.detach(), model.blocks[at].bias.detach()
        inner = torch.tanh(states[-1] @ weight.T + bias)
        jacobians.append((1 - inner**2)[:, :, None] * weight)
        states.append(states[-1] + inner)
    share = (states[3] @ model.head.weight.T + model.head.bias).detach().softmax(1)
    last = (share - torch.eye(CLASSES)[batch.targets]) / len(batch.inputs) @ model.head.weight.detach()
    behind = last + (last[:, None] @ (jacobians[1] + jacobians[2]))[:, 0]
    wanted = (behind * (1 - (states[1] - states[0]) ** 2)).T @ states[0]
    found = Highway(1).gradients(model, batch, cross_entropy, rng=stream(0, "unused"))
    torch.testing.assert_close(found["blocks.0.weight"], wanted, rtol=1e-12, atol=1e-15)


def test_the_error_falls_as_it_was_seen_to() -> None:
    model, batch = subject(16, 0.1)
    # Near 0, where tanh has slope 1.
    found = errors(model, Batch(batch.inputs * 0.01, batch.targets))
    for k, seen in {0: 0.26, 1: 0.055, 2: 0.0096, 4: 2e-4}.items():
        assert seen / 2 < found[k] < seen * 2, (k, found[k])


def test_strong_branches_need_more_iterations() -> None:
    needed = [next(k for k, e in enumerate(errors(*subject(16, scale))) if e < 0.01) for scale in (0.1, 0.5, 1.0)]
    assert needed == sorted(set(needed))


def test_one_pass_gives_what_each_method_gives_and_changes_nothing() -> None:
    model, batch = subject(5, 0.7)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for k, found in enumerate(all_iterations(model, batch, cross_entropy, 4)):
        alone = Highway(k).gradients(model, batch, cross_entropy, rng=stream(0, "unused"))
        assert all(torch.equal(alone[name], found[name]) for name in alone)
        assert {name: part.shape for name, part in alone.items()} == {n: p.shape for n, p in model.named_parameters()}
    assert all(map(torch.equal, before, model.parameters()))
    assert all(parameter.grad is None for parameter in model.parameters()) and not batch.inputs.requires_grad


def test_other_networks_are_refused() -> None:
    assert Highway(2).name == "highway-2" and Highway(2).supports(subject(2, 1.0)[0]) is None
    assert "residual" in str(Highway(2).supports(Gru(2, 3, 2)))
