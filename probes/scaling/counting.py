"""Operations, bytes, memory and decode state of one call, counted as its operators are dispatched: exact, no clock.

On fake tensors of torch (shapes without data) a call of any length costs what its number of operators costs.
"""

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from probes.core.errors import first_line
from probes.scaling.decode_state import state_bytes
from probes.scaling.index_ranges import IndexRanges
from probes.scaling.operation_formulas import FORMULAS
from probes.scaling.workloads import Case, LengthError, Target

_NO_WORK = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_local_scalar_dense", "set_"}
"""Operators that neither read nor write a tensor's numbers, beside views."""
_SAME_SHAPE = ("cumsum", "cumprod", "tril", "triu", "tril_", "triu_")
"""Operators whose fake kernels make n x n whole numbers, which are beyond 2^63 bytes where the output is not."""
_NEED_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    NotImplementedError,
)
_VALUES_ASKED = ("data pointer", ".numpy()", "not supported for tensor subclasses", "no fake impl")
"""Parts of messages of torch where something beside its operators reads a fake tensor."""


class NeedsValuesError(Exception):
    """The target reads numbers, or has an operator without a fake kernel: count it with real=True."""


class TooManyCallsError(Exception):
    """The call dispatches more operators than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The cost of one call.

    Parameters
    ----------
    operations
        Multiplications and additions of matrix products, convolutions, attention, FFTs and triangular solves.
    bytes_moved
        Bytes of inputs and outputs of all calls, each as if it were read or written once.
    memory
        Most bytes alive at once of storages that the call made; workspaces inside kernels are not seen.
    state, state_allocated
        Bytes of the tensors of the decode state, and of the storages that hold them; None without a state.
    calls, uncounted
        Operators dispatched, without views; how many of them had no formula, by name.
    fake
        Counted without data.
    """

    operations: int
    bytes_moved: int
    memory: int
    state: int | None
    state_allocated: int | None
    calls: int
    uncounted: dict[str, int]
    fake: bool


def count(target: Target, case: Case, *, real: bool = False, most_calls: int | None = None) -> Count:
    """Count one call of a target; equal on fake and on real tensors where both are possible.

    Parameters
    ----------
    real
        Make the tensors and compute them.
    most_calls
        Give up beyond so many dispatched operators, views too, in the call or in what makes it ready.

    Raises
    ------
    NeedsValuesError
        Where fake tensors do not do.
    TooManyCallsError
        Beyond `most_calls`: the same for equal targets and cases, on every machine.
    LengthError, ModeError
        Where the target has no such call, or looks up positions beyond a table.
    """
    mode = _CountingMode(most_calls, fake=not real)
    with nullcontext() if real else _fake(), _written_out(), mode:
        workload = target.workload(case)
        with mode.counting():
            result = workload.run()
        del result
        mode.dispatched = 0
        state = state_bytes(workload.state()) if workload.state else None
    return Count(
        operations=mode.operations,
        bytes_moved=mode.bytes_moved,
        memory=mode.peak,
        state=state.logical if state else None,
        state_allocated=state.allocated if state else None,
        calls=mode.calls,
        uncounted=dict(sorted(mode.uncounted.items())),
        fake=not real,
    )


@contextmanager
def _written_out() -> Iterator[None]:
    """Let torch's own attention layers run as operators, not as the one kernel that hides them in evaluation mode."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _convertible() -> Iterator[None]:
    """Let modules of fake tensors be moved and converted: torch swaps them in place, which their mode forbids."""
    own = nn.Module._apply

    def apply(self: nn.Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        if not any(isinstance(one, FakeTensor) for one in (*self._parameters.values(), *self._buffers.values())):
            own(self, fn, recurse)  # type: ignore[no-untyped-call]
            return self
        for child in self.children() if recurse else ():
            child._apply(fn)
        for key, weight in self._parameters.items():
            if weight is not None:
                self._parameters[key] = nn.Parameter(fn(weight.detach()), weight.requires_grad)
        self._buffers.update({key: fn(one) for key, one in self._buffers.items() if one is not None})
        return self

    nn.Module._apply = apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module._apply = own  # type: ignore[method-assign]


@contextmanager
def _fake() -> Iterator[None]:
    # It logs what it raises.
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), _convertible():
            yield
    except _NEED_VALUES as error:
        raise NeedsValuesError(first_line(error)) from error
    except (RuntimeError, TypeError) as error:
        if any(part in str(error) for part in _VALUES_ASKED):
            raise NeedsValuesError(first_line(error)) from error
        if "Storage size calculation overflowed" in str(error):
            raise LengthError("A tensor of this length has more than 2^63 bytes.") from error
        raise
    finally:
        log.setLevel(level)


class _CountingMode(TorchDispatchMode):
    """Sees every operator below autograd; what was made before `counting` is known by being an input."""

    def __init__(self, most_calls: int | None, *, fake: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most_calls = most_calls
        self.fake = fake
        self.ranges = IndexRanges()
        self.active = False
        self.dispatched = self.calls = self.operations = self.bytes_moved = self.alive = self.peak = 0
        self.uncounted: Counter[str] = Counter()
        self.held: dict[int, weakref.ref[Any]] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the calls within."""
        self.active, self.dispatched = True, 0
        yield
        self.active = False

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            # A question about the device.
            return func(*args, **kwargs)
        formula, view, composite = _about(func)
        if composite:
            # In inference mode whole functions come here, made of operators.
            with self:
                return func.decompose(*args, **kwargs)
        self.dispatched += 1
        if self.most_calls is not None and self.dispatched > self.most_calls:
            raise TooManyCallsError(f"The call dispatches more than {self.most_calls} operators.")
        name = func._overloadpacket.__name__
        self.ranges.check(name, args)
        out = _same_shape(name, args, kwargs) if self.fake and name in _SAME_SHAPE else func(*args, **kwargs)
        self.ranges.follow(name, args, out, view=view)
        if self.active:
            given, made = _tensors((*args, *kwargs.values())), _tensors((out,))
            self._hold(given, made)
            if not view and name not in _NO_WORK:
                self.calls += 1
                self.bytes_moved += sum(map(_bytes, given)) + sum(map(_bytes, made))
                if formula is None:
                    self.uncounted[name if func.namespace == "aten" else f"{func.namespace}::{name}"] += 1
                else:
                    self.operations += formula(*args, **kwargs, out_val=out)
        return out

    def _hold(self, given: list[Tensor], made: list[Tensor]) -> None:
        old = {one.untyped_storage()._cdata for one in given}
        for storage in (one.untyped_storage() for one in made):
            key, size = storage._cdata, storage.nbytes()
            if key not in old and key not in self.held:
                self.held[key] = weakref.ref(storage, partial(self._release, key, size))
                self.alive += size
        self.peak = max(self.peak, self.alive)

    def _release(self, key: int, size: int, _: object) -> None:
        self.alive -= size
        del self.held[key]


@cache
def _about(func: Any) -> tuple[Callable[..., int] | None, bool, bool]:
    """Return the formula of an operator, whether it is a view, and whether it is made of other operators."""
    formula = FORMULAS.get(func._overloadpacket)
    # Two views have no mark of one.
    view = func.is_view or func._overloadpacket.__name__ in ("_unsafe_view", "lift_fresh")
    return formula, view, formula is None and func._can_decompose()


def _same_shape(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x: Tensor = args[0]
    if name.endswith("_"):
        return x
    sums_of_whole_numbers = name.startswith("cum") and not (x.is_floating_point() or x.is_complex())
    return torch.empty_like(x, dtype=kwargs.get("dtype") or (torch.int64 if sums_of_whole_numbers else x.dtype))


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    found = []
    for one in values:
        if isinstance(one, Tensor):
            found.append(one)
        elif isinstance(one, list | tuple):
            found += [part for part in one if isinstance(part, Tensor)]
    return found


def _bytes(tensor: Tensor) -> int:
    # An expanded tensor has fewer than it shows.
    return min(tensor.numel() * tensor.itemsize, tensor.untyped_storage().nbytes())
