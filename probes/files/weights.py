"""Take the state dict out of a checkpoint: open wrappers, and take prefixes off names.

Training loops save a state dict bare, or below a key beside counters and optimisers. Modules around a network put a
prefix before all of its names. Both are taken off here, for every format alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from probes.core.errors import InputError, escaped

if TYPE_CHECKING:
    from torch import Tensor

MOST_WRAPPERS = 8
"""Of one in another, of networks as of files: a file may hold itself."""
_KEYS = ("state_dict", "model_state_dict", "module_state_dict", "model", "net", "network", "net_model")
_PREFIXES = ("module.", "_module.", "_orig_mod.")
"""Of DataParallel and averages of weights, of Opacus, and of torch.compile."""
_BOOKKEEPING = ("_metadata", "n_averaged")

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """A state dict, the keys that it was found below, and the other entries beside it."""

    content: object
    keys: tuple[str, ...] = ()
    beside: dict[str, Any] = field(default_factory=dict)


def unwrap(content: object, *, first: Sequence[str] = (), levels: int = 1) -> Unwrapped:
    """Open the wrappers around a state dict.

    Parameters
    ----------
    first
        Keys that count before those that all checkpoints may have.
    levels
        How many wrappers in one another are opened at most.

    >>> unwrap({"state_dict": {"a": 1}, "epoch": 3})
    Unwrapped(content={'a': 1}, keys=('state_dict',), beside={'epoch': 3})
    """
    keys: list[str] = []
    beside: dict[str, Any] = {}
    for _ in range(levels):
        if not isinstance(content, Mapping):
            break
        key = next((name for name in (*first, *_KEYS) if isinstance(content.get(name), Mapping)), None)
        if key is None:
            break
        keys.append(key)
        beside |= {str(name): value for name, value in content.items() if name != key}
        content = content[key]
    return Unwrapped(content, tuple(keys), beside)


def entries(content: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the entries of a state dict by name, without torch's own metadata."""
    named = {str(name): value for name, value in content.items() if name not in _BOOKKEEPING}
    return {name: value for name, value in named.items() if not name.endswith("_extra_state")}


def is_plain(tensor: "Tensor") -> bool:
    """Tell whether a tensor is a dense array on the CPU whose numbers are not quantised."""
    import torch

    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized


def check_held(tensors: Mapping[str, Any], where: str) -> None:
    """Refuse tensors that claim more numbers than are stored for them; other values are ignored.

    One number that is spread over a large shape takes the memory of all as soon as it is copied.

    Raises
    ------
    InputError
        Naming the first of them.
    """
    import torch

    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.device.type == "meta":
            continue
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise InputError(
                f"The tensor {escaped(name)} claims {value.numel()} numbers, more than are stored for it.",
                where=where,
                hint="Save contiguous tensors, from a model that you trust.",
            )


def without_prefixes(tensors: Mapping[str, _Value], *, more: Sequence[str] = ()) -> dict[str, _Value]:
    """Return tensors without the prefixes that wrappers around a network put before all of their names.

    Parameters
    ----------
    more
        Further prefixes, of attributes in which a format keeps its network, such as "model.".

    >>> without_prefixes({"_orig_mod.module.weight": 1, "_orig_mod.module.bias": 2})
    {'weight': 1, 'bias': 2}
    """
    tensors = dict(tensors)
    # Bounded, since every round copies all names, and a hostile one may be megabytes of a prefix.
    for _ in range(MOST_WRAPPERS):
        known = (*_PREFIXES, *more)
        prefix = next((head for head in known if tensors and all(_has_prefix(name, head) for name in tensors)), None)
        if prefix is None:
            break
        tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors


def _has_prefix(name: str, prefix: str) -> bool:
    return len(name) > len(prefix) and name.startswith(prefix)
