"""Bytes of a decode state: of the numbers in it, and of the storages that are allocated for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import ModuleType

from torch import Tensor, nn

MOST_OBJECTS = 1_000_000
"""Objects that are looked at in one state."""
_PLAIN = (str, bytes, int, float, complex, type(None), type, ModuleType, nn.Module)
"""What has no state inside; the weights of modules are none."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes that hold numbers of tokens seen, and bytes allocated: more where room for later tokens is made at once."""

    logical: int
    allocated: int


def state_bytes(state: object) -> StateBytes:
    """Return the bytes of all distinct tensors and storages that can be reached from a cache.

    Looked through are mappings, sequences, sets, dataclasses and the attributes of objects, each once; of a module its
    attribute `state`. In a layer of a Hugging Face cache with room made before (StaticCache), keys and values
    count their share of tokens seen.

    >>> import torch
    >>> keys = torch.zeros(2, 8)
    >>> state_bytes({"keys": keys, "again": [keys], "half": keys[:, :4]})
    StateBytes(logical=64, allocated=64)
    """
    logical: dict[int, float] = {}
    allocated: dict[int, int] = {}
    for tensor, share in _reachable(getattr(state, "state", None) if isinstance(state, nn.Module) else state):
        storage = tensor.untyped_storage()
        key = storage._cdata
        allocated[key] = storage.nbytes()
        # Views of one storage, such as keys and values made together, hold at most all of it.
        logical[key] = logical.get(key, 0.0) + tensor.numel() * tensor.itemsize * share
    return StateBytes(sum(round(min(logical[key], allocated[key])) for key in allocated), sum(allocated.values()))


def _reachable(state: object) -> Iterator[tuple[Tensor, float]]:
    """Yield each tensor that can be reached, with the share of it that is in use."""
    seen: dict[int, object] = {}
    waiting: list[tuple[object, float]] = [(state, 1.0)]
    while waiting and len(seen) < MOST_OBJECTS:
        one, share = waiting.pop()
        if isinstance(one, _PLAIN) or id(one) in seen:
            continue
        # Kept, so that no other object gets its id.
        seen[id(one)] = one
        if isinstance(one, Tensor):
            yield one, share
        else:
            waiting += [(part, share * _used(one, part)) for part in _parts(one)]


def _parts(one: object) -> list[object]:
    if isinstance(one, Mapping):
        return list(one.values())
    if isinstance(one, list | tuple | set | frozenset):
        return list(one)
    if is_dataclass(one) and not isinstance(one, type):
        return [getattr(one, field.name, None) for field in fields(one)]
    slots = [name for kind in type(one).__mro__ for name in _names(getattr(kind, "__slots__", ()))]
    return [*getattr(one, "__dict__", {}).values(), *(getattr(one, name, None) for name in slots)]


def _names(slots: object) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots) if isinstance(slots, list | tuple) else ()


def _used(layer: object, part: object) -> float:
    """Return the share of tokens seen in the room of a layer, 1 where it makes none before."""
    room, seen = getattr(layer, "max_cache_len", None), getattr(layer, "cumulative_length", None)
    if isinstance(seen, Tensor):
        seen = int(seen)
    if not (isinstance(room, int) and isinstance(seen, int) and room > 0 and isinstance(part, Tensor)):
        return 1.0
    return min(seen / room, 1.0) if part.ndim == 4 and part.shape[2] == room else 1.0
