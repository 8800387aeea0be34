"""An operator of any kind: a module that maps fields (batch, channels, *grid) to fields, whose inside is not known.

Stages are the outputs of submodules that are asked for by name; a forward hook hands each to the listener.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from probes.core.errors import InputError, first_line
from probes.operators.fno.layers import SILENT, Activation, GridKind, Listener, coordinates
from probes.operators.fno.network import Layout
from probes.operators.grids import crossed

Order = Literal["first", "last"]
"""Where a field has its channels: (batch, channels, *grid) or (batch, *grid, channels)."""

POINTWISE = (nn.CELU, nn.ELU, nn.GELU, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU, nn.Mish, nn.ReLU, nn.SELU, nn.SiLU,
             nn.Sigmoid, nn.Softplus, nn.Tanh)  # fmt: skip
"""Modules of torch that are activations of every value alone, whose aliasing can be measured."""
OWN_TAPS = frozenset({"input", "output", "target", "all"})
"""Names of stages that every operator has, or that stand for several."""
_WIDEST = 64


class ModuleOperator(nn.Module):
    """A module of unknown make, in the place of a `FourierOperator`.

    Parameters
    ----------
    net
        Called on (batch, channels, *grid); returns (batch, outputs, *grid).
    layout
        Its `coordinates` say whether those of the nodes are put behind the fields: "grid" or "none".
    stages
        Names of submodules, and where their outputs have their channels, as `orders` tells.
    """

    divided = False
    modes: tuple[int, ...] = ()
    shifted_at_odd = False
    widest = _WIDEST

    def __init__(
        self, net: nn.Module, layout: Layout, dimensions: int, outputs: int, stages: Mapping[str, Order] | None = None
    ) -> None:
        super().__init__()
        self.net, self.layout, self.dimensions, self.outputs = net, layout, dimensions, outputs
        self.stages = dict(stages or {})

    @property
    def smallest(self) -> tuple[int, ...]:
        """The coarsest grid on each axis that is known to be too coarse for no operator."""
        return (1,) * self.dimensions

    def forward(self, fields: Tensor, grid: GridKind = "open", listener: Listener = SILENT) -> Tensor:
        """Map fields (n, fields, *grid) to (n, outputs, *grid); `grid` says where the nodes lie.

        Raises
        ------
        InputError
            Where the module fails, or returns something else.
        """
        fields = self.with_coordinates(fields, grid)
        listener.stage("input", fields)
        if listener is SILENT or not self.stages:
            output = self._called(fields)
        else:
            with self._observed(listener, tuple(fields.shape[2:])):
                output = self._called(fields)
        listener.stage("output", output)
        return output

    def with_coordinates(self, fields: Tensor, grid: GridKind) -> Tensor:
        """Return the fields with the coordinates behind them, where the layout says so."""
        if self.layout.coordinates == "none":
            return fields
        nodes = coordinates(grid, fields.shape[2:]).to(fields)
        return torch.cat([fields, nodes.expand(len(fields), *nodes.shape)], dim=1)

    def orders(self, fields: Tensor, grid: GridKind) -> dict[str, set[Order] | str]:
        """Run the module once and return, by name of a submodule, how its output can be read as a field on the grid.

        Returns
        -------
        dict
            Orders of channels that fit, or a text that says why none does.
        """
        fields = self.with_coordinates(fields, grid)
        sizes, calls = tuple(fields.shape[2:]), dict[str, list[Any]]()
        names = {module: name for name, module in self.net.named_modules() if name}

        def hear(module: nn.Module, _: Any, output: Any) -> None:
            calls.setdefault(names[module], []).append(tuple(output.shape) if isinstance(output, Tensor) else None)

        handles = [module.register_forward_hook(hear) for module in names]
        try:
            self._called(fields)
        finally:
            for handle in handles:
                handle.remove()
        return {name: _fitting(calls.get(name, []), sizes) for name in names.values()}

    @contextmanager
    def _observed(self, listener: Listener, sizes: tuple[int, ...]) -> Iterator[None]:
        """Hand the outputs of the stages to a listener while the module runs."""
        handles: list[Any] = []
        modules = dict(self.net.named_modules())
        for name, order in self.stages.items():
            module = modules[name]

            def before(module: nn.Module, given: Any, *, name: str = name, order: Order = order) -> None:
                if given and isinstance(given[0], Tensor):
                    listener.activation(tap_of(name), _channels_first(given[0], order).clone(), _function(module))

            def after(_: nn.Module, __: Any, output: Any, *, name: str = name, order: Order = order) -> None:
                fits = isinstance(output, Tensor) and _fitting([tuple(output.shape)], sizes)
                if not fits or order not in fits:
                    raise InputError(
                        f"The stage {name} gives no field on the grid of {crossed(sizes)} points.",
                        where=f"--stages, {self.layout.release}",
                        hint="Leave it out, or leave that grid out.",
                    )
                # What comes next may write into it.
                listener.stage(tap_of(name), _channels_first(output, order).clone())

            if isinstance(module, POINTWISE):
                handles.append(module.register_forward_pre_hook(before))
            handles.append(module.register_forward_hook(after))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _called(self, fields: Tensor) -> Tensor:
        shape = tuple(fields.shape)
        where = f"{self.layout.release}, grid of {crossed(shape[2:])} points"
        try:
            output = self.net(fields)
        except (MemoryError, torch.OutOfMemoryError, InputError):
            raise
        except Exception as error:
            raise InputError(
                f"The operator fails on an input of the shape {shape}: {type(error).__name__}: {first_line(error)}",
                where=where,
                hint="It is called on (batch, channels, *grid) and has to take that grid.",
            ) from error
        got = tuple(output.shape) if isinstance(output, Tensor) else None
        real = isinstance(output, Tensor) and output.is_floating_point()
        fits = got is not None and got[:1] == shape[:1] and got[2:] == shape[2:] and len(got) == len(shape)
        if not (real and fits and (not self.outputs or (got is not None and got[1] == self.outputs))):
            found = type(output).__name__ if got is None else f"shape {got}, {output.dtype}"
            raise InputError(
                f"The operator returns no field on the grid of its input {shape}, but: {found}.",
                where=where,
                hint="It has to return real numbers of the shape (batch, channels, *grid), on the grid of the input.",
            )
        field: Tensor = output.float()
        return field


def tap_of(name: str) -> str:
    """Return the name of a submodule as a stage.

    Examples
    --------
    >>> tap_of("blocks.0"), tap_of("output")
    ('blocks.0', 'module.output')
    """
    return f"module.{name}" if name in OWN_TAPS else name


def _fitting(shapes: list[tuple[int, ...] | None], sizes: tuple[int, ...]) -> set[Order] | str:
    if not shapes:
        return "is not called"
    if len(shapes) > 1:
        return f"is called {len(shapes)} times in a pass"
    shape = shapes[0]
    if shape is None:
        return "returns no tensor"
    fits: set[Order] = set()
    if len(shape) == len(sizes) + 2:
        ways: tuple[tuple[Order, tuple[int, ...]], ...] = (("first", shape[2:]), ("last", shape[1:-1]))
        fits = {order for order, grid in ways if grid == sizes}
    return fits or f"gives the shape {shape}"


def _channels_first(values: Tensor, order: Order) -> Tensor:
    return values if order == "first" else values.movedim(-1, 1)


def _function(module: nn.Module) -> Activation:
    # Not through the module's own call, whose hooks would hear it; and on a copy, as some write into their input.
    return lambda x: module.forward(x.clone())
