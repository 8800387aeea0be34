import copy

import pytest
import torch
from torch import nn

from probes.scaling.module_calls import Call, NotCalledError, captured, repeated, trained, written


class Notes:
    """A state of which one tensor grows, and one is written in place."""

    def __init__(self) -> None:
        self.seen, self.last = torch.zeros(0), torch.zeros(1)


class Noting(nn.Module):
    def forward(self, notes: Notes, value: torch.Tensor) -> torch.Tensor:
        notes.seen = torch.cat([notes.seen, value])
        notes.last.copy_(value)
        return notes.seen.sum() + notes.last.sum()


def test_a_repeated_call_begins_with_the_same_state() -> None:
    notes, value = Notes(), torch.ones(1)
    again = repeated(Call(Noting(), (notes,), {"value": value}))
    assert [float(again()) for _ in range(3)] == [2, 2, 2]
    assert len(notes.seen) == 0 and float(notes.last) == 0
    assert notes.last._version == 0


def test_only_what_is_written_in_place_is_copied(monkeypatch) -> None:
    notes = Notes()
    again = repeated(Call(Noting(), (notes, torch.ones(1)), {}))
    shared, true = [], copy.deepcopy
    monkeypatch.setattr(copy, "deepcopy", lambda value, memo: (shared.append(memo), true(value, memo))[1])
    again()
    assert shared[0][id(notes.seen)] is notes.seen
    assert shared[0][id(notes.last)] is not notes.last


def test_what_a_call_puts_into_objects_is_its_state() -> None:
    notes = Notes()
    notes.other = torch.ones(5)
    assert {id(one) for one in written(Call(Noting(), (notes, torch.ones(1)), {}))} == {id(notes.seen), id(notes.last)}


def test_captured_inputs_have_gradients_where_the_model_has_them() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    inner = captured(model[2], Call(model, (torch.ones(4, 2),), {}))
    outer = captured(model[0], Call(model, (torch.ones(4, 2),), {}))
    assert inner.positional[0].is_leaf and inner.positional[0].requires_grad
    assert not outer.positional[0].requires_grad
    assert torch.equal(inner(), model(torch.ones(4, 2)))


def test_a_part_that_is_not_called_is_named() -> None:
    model = nn.Sequential(nn.Linear(2, 3))
    with pytest.raises(NotCalledError):
        captured(nn.ReLU(), Call(model, (torch.ones(1, 2),), {}))
    assert not model._forward_pre_hooks


def test_training_leaves_no_gradient() -> None:
    model = nn.Linear(2, 3)
    inputs = torch.ones(4, 2, requires_grad=True)
    seen = []
    inputs.register_hook(lambda grad: seen.append(grad))
    loss = trained(Call(model, (inputs,), {}))()
    assert torch.equal(loss, model(inputs).sum())
    assert torch.allclose(seen[0], model.weight.sum(0).expand(4, 2))
    assert inputs.grad is None and model.weight.grad is None
