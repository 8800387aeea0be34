"""Twelve built-in modules whose growth is known, and the target that a module or a user's callable makes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from probes.core.errors import InputError
from probes.files.names import suggest
from probes.scaling.decoding_modules import (
    Attention,
    FftConvolution,
    LinearAttention,
    PolynomialMixer,
    Sdpa,
    SsmParallel,
    SsmScan,
    WindowAttention,
)
from probes.scaling.length_modules import BlockwiseResolvent, LagMixer, Multipole
from probes.scaling.workloads import Case, ModeError, Workload

Factory = Callable[[int, int, int, str], Callable[..., Any]]
"""Called as f(batch, n, width, device); what it returns is called on (batch, n, width)."""

_MODULES: dict[str, Callable[[int, str], nn.Module]] = {
    "attention": Attention,
    "sdpa": Sdpa,
    "linear-attention": LinearAttention,
    "window-w": WindowAttention,
    "fft-conv": FftConvolution,
    "ssm-scan": SsmScan,
    "ssm-parallel": SsmParallel,
    "pom": PolynomialMixer,
    "multipole": Multipole,
    "blockwise": BlockwiseResolvent,
    "dyadic": partial(LagMixer, squares=False),
    "square-lag": partial(LagMixer, squares=True),
}
NAMES = tuple(_MODULES)
"""Names of the built-in modules; the w of window-w is a number of tokens, and 64 where it is left out."""


def built_in(name: str) -> Factory:
    """Return what makes a built-in module: one of `NAMES`, or a window of so many tokens such as window-128.

    Raises
    ------
    InputError
        Where there is none of the name.
    """
    kind, _, tokens = name.partition("-")
    if kind == "window" and (tokens in ("", "w") or (tokens.isdecimal() and int(tokens) > 0)):
        window = int(tokens) if tokens.isdecimal() else 64
        return lambda batch, n, width, device: WindowAttention(width, device, window)
    if name not in _MODULES:
        raise InputError(f"There is no built-in module {name!r}.", where="target", hint=suggest(name, NAMES))
    made = _MODULES[name]
    return lambda batch, n, width, device: made(width, device)


class ModuleTarget:
    """A module, or a callable, that is made anew for each case and called on random tokens.

    It has the modes decode and prefill where it has `prefill(x)`, which returns outputs and state, and
    `step(token, state)`. An attribute `state` may instead hold the decode state after a call.
    """

    def __init__(self, name: str, factory: Factory) -> None:
        self.name = name
        self.factory = factory

    def workload(self, case: Case) -> Workload:
        """Make the module and its input, equal for equal cases, and the state of n tokens in mode decode.

        Raises
        ------
        ModeError
            Without `prefill` and `step` in modes that need them, or without a gradient in mode train.
        """
        device, dtype = torch.device(case.device), getattr(torch, case.dtype)
        with _seeded(device), _default(dtype):
            model = self.factory(case.batch, case.n, case.width, case.device)
            tokens = torch.randn(case.batch, case.n + 1, case.width, device=device, dtype=dtype)
            if isinstance(model, nn.Module):
                model.train(case.mode == "train")
            return self._workload(model, tokens[:, :-1].clone(), tokens[:, -1:].clone(), case)

    def _workload(self, model: Any, x: Tensor, token: Tensor, case: Case) -> Workload:
        if case.mode in ("decode", "prefill") and not (hasattr(model, "prefill") and hasattr(model, "step")):
            raise ModeError(f"{self.name} has no mode {case.mode}: it needs prefill(x) and step(token, state).")
        if case.mode == "train":
            return Workload(partial(_train, model, x))
        if case.mode == "decode":
            state = _without_gradients(model.prefill, x)[1]
            return Workload(partial(_without_gradients, model.step, token, state), lambda: state)
        run = partial(_without_gradients, model.prefill if case.mode == "prefill" else model, x)
        return Workload(run, _state_maker(model, x))


@contextmanager
def _seeded(device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        yield


@contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    # Weights are made in it: those on fake tensors cannot be converted in place.
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _state_maker(model: Any, x: Tensor) -> Callable[[], object] | None:
    if hasattr(model, "prefill"):
        return lambda: _without_gradients(model.prefill, x)[1]
    if not hasattr(model, "state"):
        return None

    def called() -> object:
        _without_gradients(model, x)
        return model.state

    return called


def _without_gradients(call: Callable[..., Any], *inputs: object) -> Any:
    with torch.no_grad():
        return call(*inputs)


def _train(model: Any, x: Tensor) -> object:
    weights: list[Tensor] = (
        [one for one in model.parameters() if one.requires_grad] if isinstance(model, nn.Module) else []
    )
    sources = weights or [x.requires_grad_()]
    with torch.enable_grad():
        outputs = [one for one in tree_leaves(model(x)) if isinstance(one, Tensor) and one.requires_grad]
    if not outputs:
        raise ModeError("No output has a gradient: there is no mode train.")
    return torch.autograd.grad(outputs[0].sum(), sources, allow_unused=True)


def built_in_target(name: str) -> ModuleTarget:
    """Return the target of a built-in module; InputError where there is none of the name."""
    return ModuleTarget(name, built_in(name))


def factory_target(name: str, factory: Factory) -> ModuleTarget:
    """Return the target of a user's callable f(batch, n, width, device)."""
    return ModuleTarget(name, factory)
