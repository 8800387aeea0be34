"""Calls of modules that can be made again from the same inputs: captured, trained, and with a decode state."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only


class NotCalledError(Exception):
    """The module is not called in the course of a call."""


class _ReachedError(Exception):
    """Ends a call once the inputs of a module are known."""


@dataclass(frozen=True, slots=True)
class Call:
    """A module with what it is called on."""

    module: nn.Module
    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    def __call__(self) -> Any:
        """Call the module."""
        return self.module(*self.positional, **self.named)


def captured(part: nn.Module, call: Call) -> Call:
    """Return the first call of a part within a call, which is ended there.

    Inputs that have a gradient there are leaves here, so that a backward pass computes it.

    Raises
    ------
    NotCalledError
        Where the part is not called.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> tuple(captured(model[1], Call(model, (torch.ones(1, 2),), {})).positional[0].shape)
    (1, 3)
    """
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def keep(module: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        found.append((positional, named))
        raise _ReachedError

    handle = part.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        call()
    except _ReachedError:
        positional, named = tree_map_only(Tensor, _leaf, found[0])
        return Call(part, positional, named)
    finally:
        handle.remove()
    raise NotCalledError


def trained(call: Call) -> Callable[[], object]:
    """Return a forward pass with the backward pass of the sum of its first output; gradients are dropped after it."""

    def run() -> object:
        leaves = [*call.module.parameters(), *_tensors((call.positional, call.named))]
        try:
            with torch.enable_grad():
                outputs = [one for one in tree_leaves(call()) if isinstance(one, Tensor) and one.requires_grad]
                loss = outputs[0].sum()
                # Gradients of other outputs, such as attention weights, would be none of the model's own.
                del outputs
                loss.backward()
            return loss
        finally:
            for leaf in leaves:
                leaf.grad = None

    return run


def repeated(call: Call) -> Callable[[], Any]:
    """Return a call that leaves its inputs as they were, a decode state in them too.

    Objects are copied before each call, without their tensors, of which only those are copied that it writes in place.
    """
    tensors = list(_tensors((call.positional, call.named)))
    trial = {id(one): one.clone() for one in tensors}
    versions = {key: one._version for key, one in trial.items()}
    _copied(call, trial)()
    changed = {key for key, one in trial.items() if one._version != versions[key]}
    return lambda: _copied(call, {id(one): one.clone() if id(one) in changed else one for one in tensors})()


def written(call: Call) -> list[Tensor]:
    """Make a call, and return the tensors that it put or changed in the objects among its inputs: its decode state."""
    inputs = [one for one in (*call.positional, *call.named.values()) if not isinstance(one, Tensor)]
    before = [(one, one._version) for one in _tensors(inputs)]
    versions = {id(one): version for one, version in before}
    call()
    return [one for one in _tensors(inputs) if versions.get(id(one)) != one._version]


def _copied(call: Call, tensors: Mapping[int, Tensor]) -> Call:
    # What the memo holds counts as copied.
    positional, named = copy.deepcopy((call.positional, dict(call.named)), dict(tensors))
    return Call(call.module, positional, named)


def _leaf(value: Tensor) -> Tensor:
    return value.detach().requires_grad_() if value.requires_grad else value


def _tensors(value: object) -> Iterator[Tensor]:
    """Yield the tensors that can be reached from an object, each once."""
    waiting, seen = [value], set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
        elif hasattr(item, "__dict__") and not isinstance(item, nn.Module | type):
            waiting += vars(item).values()
