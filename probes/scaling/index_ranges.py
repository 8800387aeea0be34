"""The greatest number that tensors of positions can hold, known without their values.

On fake tensors a table of positions raises nothing where an index is beyond it; here its rows are compared.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from probes.scaling.workloads import LengthError

_SAME = {"_to_copy", "clone", "copy", "contiguous", "cat", "stack", "repeat", "lift_fresh", "lift_fresh_copy"}
_SAME |= {"index", "index_select", "gather", "_unsafe_view", "flip", "roll"}
_FILLED = {"ones": 1, "ones_like": 1, "new_ones": 1, "zeros": 0, "zeros_like": 0, "new_zeros": 0}
_LOOKUPS = {"embedding": (0, 1), "index_select": (0, 2), "index": (0, 1)}


class IndexRanges:
    """What is known of the numbers in tensors while calls are dispatched; floats and unknown ones have no entry."""

    def __init__(self) -> None:
        self.greatest: Any = WeakTensorKeyDictionary()

    def of(self, value: object) -> int | None:
        """Return the greatest number that a tensor or a number can hold, where it is known."""
        if isinstance(value, Tensor):
            known: int | None = 1 if value.dtype is torch.bool else self.greatest.get(value)
            return known
        return int(value) if isinstance(value, int) else None

    def check(self, name: str, args: Sequence[Any]) -> None:
        """Raise LengthError where a call looks up rows beyond its table."""
        if name not in _LOOKUPS or len(args) <= max(_LOOKUPS[name]):
            return
        table, indices = (args[place] for place in _LOOKUPS[name])
        dim = args[1] if name == "index_select" else 0
        if name == "index":
            if len(indices) != 1 or indices[0] is None:
                return
            indices = indices[0]
        greatest = self.of(indices) if indices.dtype is not torch.bool else None
        if greatest is not None and table.ndim and greatest >= table.shape[dim]:
            raise LengthError(f"Position {greatest} is beyond a table of {table.shape[dim]} rows.")

    def follow(self, name: str, args: Sequence[Any], out: object, *, view: bool) -> None:
        """Keep what is known of an output of whole numbers."""
        for one in out if isinstance(out, list | tuple) else (out,):
            if isinstance(one, Tensor) and one.dtype in (torch.int64, torch.int32):
                found = self._derived(name, args, view=view)
                # What was known of a tensor that is written over is so no more, nor what of others in its storage.
                if name.endswith("_"):
                    storage = one.untyped_storage()._cdata
                    for other in [two for two in self.greatest if two.untyped_storage()._cdata == storage]:
                        del self.greatest[other]
                self.greatest.pop(one, None)
                if found is not None:
                    self.greatest[one] = found

    def _derived(self, name: str, args: Sequence[Any], *, view: bool) -> int | None:
        if name == "arange":
            whole = [one for one in args if isinstance(one, int)]
            numbers = range(*whole) if whole else range(0)
            return max(numbers[0], numbers[-1]) if numbers else None
        if name in _FILLED:
            return _FILLED[name]
        if name in ("full", "full_like", "new_full", "fill_"):
            return self.of(args[-1])
        first = self.of(args[0]) if args and not isinstance(args[0], list | tuple) else None
        if view or name in _SAME:
            parts = [self.of(one) for one in args[0]] if args and isinstance(args[0], list | tuple) else [first]
            return None if None in parts else max(one for one in parts if one is not None)
        if name == "cumsum" and first is not None:
            return first * int(args[0].shape[args[1]])
        second = self.of(args[1]) if len(args) > 1 else None
        if first is None or second is None:
            return None
        results: dict[str, int] = {"add": first + second, "sub": first - second, "mul": first * second}
        return results.get(name.rstrip("_"))
