"""An operator of the user's factory: made, matched with the data, and tried on every grid."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from audits.core.context import Context
from audits.core.records import Warning
from audits.core.wording import listed
from audits.spectra import Options
from audits.spectra.grids import Grid
from audits.spectra.setup import Setup, read_batch, silent_pass
from probes.core.errors import InputError, first_line
from probes.operators.factory_operators import Made, make_operator
from probes.operators.field_channels import Channels
from probes.operators.fields import Fields, input_readings, load_fields
from probes.operators.fno.layers import GridKind, Padding
from probes.operators.fno.network import Layout
from probes.operators.fno.reading import Loaded
from probes.operators.grids import KINDS, coarsened, restricted
from probes.operators.module_operator import ModuleOperator, Order, tap_of

NAMED = 40
"""Submodules that a refusal names, at the most."""


def open_factory(options: Options, context: Context) -> tuple[Loaded, Fields]:
    """Return the operator of the factory and the fields that fit it.

    Raises
    ------
    InputError
        Where the factory or its operator fails, or nothing in the data fits it.
    """
    assert options.factory is not None
    made = make_operator(options.factory, None if options.model is None else Path(options.model).expanduser())
    operator, channels = _fitted(options, made, context)
    fields = load_fields(
        options.data,
        input_key=channels.key,
        target_key=options.target,
        dimensions=operator.dimensions,
        fields=[channels.channels],
        outputs=operator.outputs,
    )
    loaded = Loaded(
        operator=operator,
        reference=options.model or options.factory,
        family=f"factory {options.factory}",
        sha256=made.sha256,
        parameters=made.parameters,
        scales=made.scales,
        notes=(*made.notes, _read_as(operator, channels)),
    )
    return loaded, fields


def _read_as(operator: ModuleOperator, channels: Channels) -> str:
    more = f", followed by {operator.dimensions} coordinates" if operator.layout.coordinates == "grid" else ""
    grid = " x ".join(map(str, channels.grid))
    return (
        f"The operator is called on (batch, channels, *grid); {channels.key!r} was read as {channels.channels} "
        f"channel{'' if channels.channels == 1 else 's'} on a grid of {grid} points{more}."
    )


def _fitted(options: Options, made: Made, context: Context) -> tuple[ModuleOperator, Channels]:
    """Return the operator with the first way to read the input on which it runs."""
    first: InputError | None = None
    for channels in input_readings(options.data, options.input, options.target):
        layout = Layout(
            family="factory",
            release=f"--factory {options.factory}",
            fields=channels.channels,
            coordinates="grid" if options.coordinates else "none",
            padding=Padding(),
        )
        operator = ModuleOperator(made.net.to(context.device), layout, len(channels.grid), 0)
        for kind, part in _thinned(options, channels):
            sample = torch.from_numpy(restricted(channels.read(0, 1), part).copy()).to(context.device)
            try:
                output = _run(operator, sample, kind)
                # One sample without an axis of channels can pass for the channels of one; two cannot.
                _run(operator, torch.cat([sample, sample]), kind)
            except InputError as error:
                first = first or _with_channels(error, operator, channels)
                continue
            operator.outputs = output.shape[1]
            return operator, channels
    if first is not None:
        raise first
    raise InputError(
        f"No grid of {options.train_resolution} points on the first axis lies in the grid of the data.",
        where=f"--train-resolution, {options.data}",
        hint="Nodes of the data make the grid of training: give a resolution that divides theirs.",
    )


def _with_channels(error: InputError, operator: ModuleOperator, channels: Channels) -> InputError:
    """Return a refusal with a hint of the channels that the operator was given, where it fails on its input."""
    # What it returns is another matter than what it takes.
    if error.__cause__ is None:
        return error
    own = f"{channels.channels} channel{'' if channels.channels == 1 else 's'} of {channels.key!r}"
    axes = operator.dimensions
    nodes = f"{axes} coordinate{'' if axes == 1 else 's'}"
    if operator.layout.coordinates == "grid":
        hint = f"It was given {own} and {nodes} behind: where it takes the field alone, leave --coordinates out."
    else:
        hint = f"It was given {own}: where it takes {nodes} of the nodes behind, give --coordinates."
    return InputError(error.message, where=error.where, hint=f"{error.hint} {hint}")


def _thinned(options: Options, channels: Channels) -> Iterator[tuple[GridKind, tuple[slice, ...]]]:
    """Yield kinds of grid with the nodes that make the grid of training; for trying, one is enough."""
    given: GridKind | None = options.grid  # type: ignore[assignment]
    for kind in (given,) if given else KINDS:
        for stored in dict.fromkeys((kind, "closed" if kind == "open" else kind)):
            try:
                yield kind, coarsened(kind, channels.grid, options.train_resolution, stored)
            except InputError:
                continue
            return


@torch.no_grad()
def _run(operator: ModuleOperator, sample: Tensor, kind: GridKind) -> Tensor:
    output: Tensor = operator(sample, kind)
    return output


@torch.no_grad()
def tried_everywhere(setup: Setup, names: tuple[str, ...]) -> Setup:
    """Run one sample on every grid: where the operator fails, the grid says why; stages get their order of channels.

    Raises
    ------
    InputError
        Where it fails on the grid of training, or a stage is no field on a grid on which it runs.
    """
    operator = setup.loaded.operator
    assert isinstance(operator, ModuleOperator)
    arrays, grids = setup.fields.read(0, 1), []
    orders: dict[str, set[Order]] = {name: {"first", "last"} for name in names}
    for grid in setup.grids:
        inputs, _ = read_batch(setup, grid, arrays)
        try:
            silent_pass(setup, inputs)
            found = operator.orders(inputs, setup.kind) if names else {}
        except InputError as error:
            if grid is setup.grids[0]:
                raise
            grids.append(replace(grid, refused=first_line(error)))
            continue
        grids.append(grid)
        for name in names:
            orders[name] = orders[name] & _fits(setup, grid, name, found)
    # Where both fit on every grid, channels come first, as those of the input do.
    stages: dict[str, Order] = {name: "first" if "first" in fits else "last" for name, fits in orders.items()}
    heard = ModuleOperator(operator.net, operator.layout, operator.dimensions, operator.outputs, stages)
    key = (*setup.key, operator.layout.release, list(stages.items()), [grid.refused for grid in grids])
    return replace(setup, grids=tuple(grids), loaded=replace(setup.loaded, operator=heard), key=key)


def _fits(setup: Setup, grid: Grid, name: str, found: dict[str, set[Order] | str]) -> set[Order]:
    """Return the orders of channels with which a submodule's output is a field on a grid."""
    fits = found.get(name, "is no submodule")
    if isinstance(fits, set):
        return fits
    able = [other for other, ways in found.items() if isinstance(ways, set)]
    more = f", and {len(able) - NAMED} more" if len(able) > NAMED else ""
    points = " x ".join(map(str, grid.sizes))
    raise InputError(
        f"{name!r} {fits}: it gives no field (batch, channels, {points}) or (batch, {points}, channels).",
        where=f"--stages, {setup.loaded.family}",
        hint=f"These submodules do: {', '.join(able[:NAMED])}{more}." if able else "No submodule does: leave it out.",
    )


def without_insides(setup: Setup) -> Iterator[Warning]:
    """Yield the warning of what is not measured of an operator whose inside is not looked into."""
    operator = setup.loaded.operator
    if not isinstance(operator, ModuleOperator):
        return
    if not operator.stages:
        yield Warning(
            id="no-stages",
            message="No --stages are named: spectra are those of input, output and target alone, and neither spectra "
            "of stages nor the aliasing of activations are measured.",
        )
    elif not setup.activations:
        yield Warning(
            id="no-activations",
            message=f"None of {listed(list(map(tap_of, operator.stages)))} is an activation module of torch: the "
            "aliasing of activations is not measured.",
        )
