"""Read a stored array as channels on a grid: find its axes of channels and of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.arrays import Archive, StoredArray

AXES = ("x", "y", "z")
"""Names of the axes of a grid."""
_TIME_FIRST = frozenset({"tensor", "data"})
_SMALLEST = 4

Order = Literal["ng", "ncg", "ngc", "ntg", "ngt", "ntgv"]
"""The axes as stored: samples, channels, grid, time, variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """Arrays of a file as one of the shape (n, channels, *grid).

    Parameters
    ----------
    key
        Names of the arrays, for messages.
    parts
        One array, or one a variable.
    steps
        Time steps that are wanted, from and to; None: there is no time axis.
    """

    path: Path
    key: str
    parts: tuple[StoredArray, ...]
    order: Order
    grid: tuple[int, ...]
    channels: int
    steps: tuple[int, int] | None = None

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return samples, shape (n, channels, *grid).

        Raises
        ------
        InputError
            Where the file is cut off or damaged there.
        """
        window = None
        if self.steps:
            window = (len(self.parts[0].shape) - 1 if self.order == "ngt" else 1, *self.steps)
        pieces = [part.rows(start, stop, window) for part in self.parts]
        values: NDArray[Any] = np.stack(pieces, axis=-1) if len(pieces) > 1 else pieces[0]
        if self.order == "ntgv":
            values = np.moveaxis(values, -1, 2)
        elif self.order in ("ngc", "ngt"):
            values = np.moveaxis(values, -1, 1)
        with np.errstate(over="ignore"):
            return np.array(values, dtype=np.float32, order="C").reshape(len(values), self.channels, *self.grid)


@dataclass(frozen=True, slots=True)
class Network:
    """The dimensions of a network's grid, its possible numbers of input channels, and its output channels."""

    dimensions: int
    fields: tuple[int, ...]
    outputs: int


def fits(
    shape: tuple[int, ...], network: Network, allowed: tuple[int, ...]
) -> list[tuple[Order, int, tuple[int, ...]]]:
    """Return the ways to read a shape: the order of its axes, its channels and its grid.

    Examples
    --------
    >>> fits((50, 16, 16), Network(2, (1, 3), 1), (1, 3))
    [('ng', 1, (16, 16))]
    >>> fits((50, 16, 16, 3), Network(2, (1, 3), 1), (1, 3))
    [('ngc', 3, (16, 16))]
    """
    ways: list[tuple[Order, int, tuple[int, ...]]] = []
    if len(shape) == network.dimensions + 1:
        ways = [("ng", 1, shape[1:])]
    elif len(shape) == network.dimensions + 2:
        ways = [("ncg", shape[1], shape[2:]), ("ngc", shape[-1], shape[1:-1])]
    return [way for way in ways if way[1] in allowed and min(way[2]) >= _SMALLEST]


def readings(
    archive: Archive, key: str, array: StoredArray, network: Network, allowed: tuple[int, ...]
) -> list[Channels]:
    """Return the ways to read an array as one of the allowed numbers of channels; there is at least one.

    Raises
    ------
    InputError
        Where it does not fit the network.
    """
    ways = fits(array.shape, network, allowed)
    if not ways:
        raise misfit(key, array.shape, network, allowed, f"{archive.path}, {key}")
    return [
        Channels(path=archive.path, key=key, parts=(array,), order=order, grid=grid, channels=channels)
        for order, channels, grid in ways
    ]


def _listed(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def misfit(key: str, shape: tuple[int, ...], network: Network, allowed: tuple[int, ...], where: str) -> InputError:
    """Return the refusal of an array that does not fit the network."""
    dimensions = network.dimensions
    wanted = f"{_listed(allowed)} channel{'' if allowed == (1,) else 's'}"
    if len(shape) not in (dimensions + 1, dimensions + 2):
        problem = f"that is not a set of samples on a {dimensions}-D grid"
    elif len(shape) == dimensions + 1 and 1 not in allowed:
        problem = f"that is one channel, the network has {wanted} there"
    elif len(shape) == dimensions + 2 and not {shape[1], shape[-1]} & set(allowed):
        problem = f"that is {shape[1]} channels (or {shape[-1]} if they stand last), the network has {wanted} there"
    else:
        problem = f"an axis of the grid has fewer than {_SMALLEST} points"
    axes = ", ".join(AXES[:dimensions])
    return InputError(
        f"{key!r} has the shape {shape}: {problem}.",
        where=where,
        hint=f"The network works on {dimensions}-D grids: give (samples, channels, {axes}) with {wanted}.",
    )


def steps(
    archive: Archive, keys: tuple[str, ...], network: Network, initial: int, *, targeted: bool
) -> tuple[Channels, Channels | None, list[str]]:
    """Take the first steps as input and the next one as target from arrays that evolve in time, with notes.

    Variables of one step stay together, as PDEBench stacks them (Takamoto et al. 2022, arXiv 2210.07182).

    Raises
    ------
    InputError
        Where the time axis is not clear, or the steps and variables do not fit the network.
    """
    parts = tuple(archive.find(key) for key in keys)
    key, where = ", ".join(keys), f"{archive.path}, {', '.join(keys)}"
    shape = parts[0].shape
    if any(part.shape != shape for part in parts):
        shapes = ", ".join(str(part.shape) for part in parts)
        raise InputError(f"The arrays {key} have different shapes: {shapes}.", where=where, hint="Give equal ones.")
    order, grid, length, variables = _time_axis(keys, shape, network, where)
    if variables != network.outputs or initial * variables not in network.fields:
        raise InputError(
            f"{initial} steps of {variables} variables make {initial * variables} channels, followed by {variables}; "
            f"the network takes {_listed(network.fields)} and gives {network.outputs}.",
            where=where,
            hint="Give the data for which the network was trained.",
        )
    if length < initial + targeted:
        raise InputError(
            f"{key!r} has the shape {shape}: {length} time steps, of which {initial + targeted} are needed.",
            where=where,
            hint="Give longer series.",
        )

    def part(start: int, stop: int) -> Channels:
        return Channels(
            path=archive.path,
            key=key,
            parts=parts,
            order=order,
            grid=grid,
            channels=(stop - start) * variables,
            steps=(start, stop),
        )

    notes = [
        f"The input is the first {initial} of {length} time steps of {key!r} as stored"
        + (", the target the next one" if targeted else "")
        + "; where the network was trained on every k-th step, keep only those in the file."
    ]
    return part(0, initial), part(initial, initial + 1) if targeted else None, notes


def _time_axis(
    keys: tuple[str, ...], shape: tuple[int, ...], network: Network, where: str
) -> tuple[Order, tuple[int, ...], int, int]:
    """Return the order of the axes, the grid, the number of steps and of variables."""
    dimensions = network.dimensions
    if len(shape) == dimensions + 3 and len(keys) == 1:
        return "ntgv", shape[2:-1], shape[1], shape[-1]
    if len(shape) != dimensions + 2:
        raise misfit(keys[0], shape, network, network.fields, where)
    if len(keys) > 1:
        return "ntgv", shape[2:], shape[1], len(keys)
    if keys[0] in _TIME_FIRST:
        return "ntg", shape[2:], shape[1], 1
    # Li's files keep time last; only a grid that is square on one reading alone tells.
    first, last = len(set(shape[2:])) == 1, len(set(shape[1:-1])) == 1
    if dimensions == 1 or first == last:
        raise InputError(
            f"{keys[0]!r} has the shape {shape}: which axis is time cannot be told.",
            where=where,
            hint="Save the input steps and the target step as two arrays, or (samples, time, grid) as 'tensor'.",
        )
    return ("ntg", shape[2:], shape[1], 1) if first else ("ngt", shape[1:-1], shape[-1], 1)
