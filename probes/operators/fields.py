"""Find the input and target fields in a data set of a partial differential equation.

Arrays are found by name, their channel axis by what the network takes and gives. Data that evolve in time are cut:
the first steps are the input, the next one is the target. Samples are read on demand.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files.arrays import Archive, open_archive
from probes.files.hdf5 import GROUPED
from probes.operators.field_channels import AXES, Channels, Network, fits, misfit, readings, steps
from probes.operators.fno.layers import GridKind
from probes.operators.grids import detect, detect_coordinates

INPUT_NAMES = ("x", "a", "a_high", "coeff", "nu", "input", "inputs", "u0", "features")
TARGET_NAMES = ("y", "u", "sol", "target", "targets", "output", "outputs", "solution", "tensor")
_FLOW = ("density", "pressure", "Vx", "Vy", "Vz")
"""Variables that PDEBench keeps in arrays of their own, in the order in which it stacks them."""
_ALONG = ("{}-coordinate", "{}_coordinate", "{}_coord", "{}_coords", "grid_{}", "{}_grid", "{}")
_MESHES = ("grid", "coords", "coordinates")
_MOST_COORDINATES = 2**26
_BATCH = 2**18
_HINT = "Give an NPZ, NPY, HDF5, MATLAB or torch file with the input and target fields."


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Input and target fields of a file.

    Parameters
    ----------
    count
        Samples.
    sizes
        Points along each axis of the grid.
    kind, kind_source
        Kind of the grid, and what showed it; None and an empty text where nothing does.
    stored
        Whether it is known from coordinates in the file, not from the look of the targets.
    notes
        What was chosen or changed in reading, in sentences.
    """

    path: Path
    sha256: str
    count: int
    sizes: tuple[int, ...]
    inputs: Channels
    targets: Channels | None
    kind: GridKind | None
    kind_source: str
    stored: bool
    notes: tuple[str, ...]

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return self.inputs.channels

    @property
    def target_channels(self) -> int | None:
        """Channels of the target; None where there is none."""
        return self.targets.channels if self.targets else None

    @property
    def keys(self) -> tuple[str, str | None]:
        """Names of the input and of the target in the file."""
        return self.inputs.key, self.targets.key if self.targets else None

    def read(self, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Return input (n, channels, *grid) and target (n, target_channels, *grid) of samples, up to the last one.

        Raises
        ------
        InputError
            Where the file is cut off or damaged there.
        """
        stop = min(stop, self.count)
        start = min(start, stop)
        return self.inputs.read(start, stop), self.targets.read(start, stop) if self.targets else None

    def check_finite(self, count: int | None = None) -> None:
        """Read the first `count` samples (None: all), a few at a time; refuse NaN, infinite values and zero targets.

        Raises
        ------
        InputError
            At the first such sample.
        """
        last = self.count if count is None else min(count, self.count)
        for channels in (self.inputs, self.targets):
            if channels is None:
                continue
            few = max(1, _BATCH // (4 * channels.channels * math.prod(self.sizes)))
            for start in range(0, last, few):
                values = channels.read(start, min(start + few, last))
                wrong = ~np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
                if wrong.any():
                    sample = start + int(wrong.argmax())
                    raise InputError(
                        f"The sample {sample} of {channels.key!r} holds a NaN or an infinite value.",
                        where=f"{self.path}, {channels.key}[{sample}]",
                        hint="Mend or remove the sample (32-bit floats end at 3.4e38).",
                    )
                empty = ~values.any(axis=tuple(range(1, values.ndim)))
                if channels is self.targets and empty.any():
                    sample = start + int(empty.argmax())
                    raise InputError(
                        f"The target {sample} is zero everywhere: an error relative to it is not defined.",
                        where=f"{self.path}, {channels.key}[{sample}]",
                        hint="Remove the sample.",
                    )


def input_readings(path: Path, input_key: str | None, target_key: str | None) -> list[Channels]:
    """Return the ways to read the input where nothing tells what a network takes, the likeliest first.

    (n, *grid) is one channel; else the channels come first, or last. A grid has 1 to 3 axes.

    Raises
    ------
    InputError
        Where the file cannot be read, or no array can be the input.
    """
    archive = open_archive(path, hint=_HINT)
    names = [name for name in _named(archive, INPUT_NAMES) if name != target_key]
    if input_key is not None:
        names = [input_key]
    elif not names and len(archive.arrays) == 1:
        names = list(archive.arrays)
    found = []
    for name in names:
        array = archive.find(name)
        for dimensions in (3, 2, 1):
            every = tuple({1, *array.shape[1:2], *array.shape[-1:]})
            for order, channels, grid in fits(array.shape, Network(dimensions, every, 1), every):
                found.append(Channels(path=path, key=name, parts=(array,), order=order, grid=grid, channels=channels))
    if not found:
        raise InputError(
            f"No array can be read as input fields. {archive.listing()}",
            where=f"{path}, {', '.join(names)}" if names else str(path),
            hint="Give (samples, channels, *grid) or (samples, *grid) with 1 to 3 axes, and name it: --input KEY.",
        )
    return found


def load_fields(
    path: Path,
    *,
    input_key: str | None = None,
    target_key: str | None = None,
    dimensions: int,
    fields: Sequence[int],
    outputs: int,
    initial_steps: int = 1,
) -> Fields:
    """Find the input and target fields of an NPZ, NPY, HDF5, MATLAB or torch file.

    Parameters
    ----------
    input_key, target_key
        Names of the arrays; None: by common names. The same name twice: steps of one array. "none": no target.
    dimensions
        Of the grid on which the network works.
    fields, outputs
        Numbers of channels that it can take, without coordinates, and how many it gives.
    initial_steps
        Time steps that make an input, where the data evolve in time.

    Raises
    ------
    InputError
        Where the file cannot be read, its arrays are not clear, or do not fit the network.
    """
    archive = open_archive(path, hint=_HINT)
    network = Network(dimensions, tuple(fields), outputs)
    evolving = _evolving(archive, network, input_key, target_key)
    if evolving:
        inputs, targets, notes = steps(archive, evolving, network, initial_steps, targeted=target_key != "none")
    else:
        inputs, targets, notes = _pair(archive, network, input_key, target_key)
    count = inputs.parts[0].shape[0]
    if not count:
        raise InputError(
            f"{inputs.key!r} has the shape {inputs.parts[0].shape}: there are no samples.",
            where=f"{path}, {inputs.key}",
            hint="Give at least one.",
        )
    kind, source, stored = _kind(archive, inputs, targets)
    return Fields(
        path=path,
        sha256=sha256_file(path),
        count=count,
        sizes=inputs.grid,
        inputs=inputs,
        targets=targets,
        kind=kind,
        kind_source=source,
        stored=stored,
        notes=(*notes, *_type_notes(inputs, targets)),
    )


def _type_notes(inputs: Channels, targets: Channels | None) -> list[str]:
    """Return notes on the arrays whose type is converted."""
    types = {channels.key: channels.parts[0].dtype for channels in (inputs, targets) if channels}
    return [f"{key!r} is stored as {dtype} and read as float32." for key, dtype in types.items() if dtype != np.float32]


def _evolving(archive: Archive, network: Network, input_key: str | None, target_key: str | None) -> tuple[str, ...]:
    """Return the arrays whose time steps are input and target; () where these are separate arrays."""
    if input_key is not None and input_key == target_key:
        return (input_key,)
    if target_key not in (None, "none", input_key or "tensor"):
        return ()
    fields = [name for name in _named(archive, INPUT_NAMES) if len(archive.arrays[name].shape) > network.dimensions]
    if input_key is None and fields:
        return ()
    if input_key in (None, "tensor") and "tensor" in archive.arrays:
        return ("tensor",)
    if input_key in (None, "data") and archive.form == GROUPED:
        return ("data",)
    flow = tuple(name for name in _FLOW if name in archive.arrays)
    return flow if input_key is None and len(flow) > 1 else ()


def _pair(
    archive: Archive, network: Network, input_key: str | None, target_key: str | None
) -> tuple[Channels, Channels | None, list[str]]:
    """Find two arrays on one grid."""
    notes = []
    if input_key is None:
        input_key = _guess(archive, network, INPUT_NAMES, network.fields, target_key, "--input")
        notes.append(f"{input_key!r} was taken as the input.")
    if target_key is None:
        target_key = _guess(archive, network, TARGET_NAMES, (network.outputs,), input_key, "--target")
        notes.append(f"{target_key!r} was taken as the target.")
    array = archive.find(input_key)
    ways = readings(archive, input_key, array, network, network.fields)
    if target_key == "none":
        return max(ways, key=_narrowest), None, notes
    other = archive.find(target_key)
    others = readings(archive, target_key, other, network, (network.outputs,))
    pairs = [(one, two) for one in ways for two in others if one.grid == two.grid]
    if not pairs or array.shape[0] != other.shape[0]:
        raise InputError(
            f"{input_key!r} has the shape {array.shape}, {target_key!r} {other.shape}: "
            "they are not the same samples on one grid.",
            where=f"{archive.path}, {input_key} and {target_key}",
            hint="Give both on the same grid (--input KEY --target KEY).",
        )
    one, two = max(pairs, key=lambda pair: _narrowest(pair[0]))
    return one, two, notes


def _narrowest(channels: Channels) -> int:
    """Return the fewest points along an axis: the larger it is, the likelier is a reading."""
    return min(channels.grid)


def _guess(
    archive: Archive, network: Network, names: Sequence[str], allowed: tuple[int, ...], taken: str | None, option: str
) -> str:
    """Return the one array with a common name that fits."""
    found = [name for name in _named(archive, names) if name != taken]
    if not found and option == "--input" and len(archive.arrays) == 1 and not archive.refused:
        found = list(archive.arrays)
    fitting = [name for name in found if fits(archive.arrays[name].shape, network, allowed)]
    if len(fitting) == 1:
        return fitting[0]
    role = option.removeprefix("--")
    hint = f"Name it: {option} KEY" + (", or none for data without targets." if role == "target" else ".")
    if fitting:
        raise InputError(
            f"Which array is the {role} is not clear: {', '.join(fitting)} all fit. {archive.listing()}",
            where=str(archive.path),
            hint=hint,
        )
    for name in names:
        if name in archive.refused:
            archive.find(name)
    if found:
        # Report why the likeliest array does not fit.
        shape = archive.find(found[0]).shape
        raise misfit(found[0], shape, network, allowed, f"{archive.path}, {found[0]}")
    raise InputError(
        f"Which array is the {role} is not clear. {archive.listing()}",
        where=str(archive.path),
        hint=hint,
    )


def _named(archive: Archive, names: Sequence[str]) -> list[str]:
    return [name for wanted in names for name in archive.arrays if name.casefold() == wanted]


def _kind(archive: Archive, inputs: Channels, targets: Channels | None) -> tuple[GridKind | None, str, bool]:
    """Return the kind of the grid, what shows it, and whether that is stored coordinates."""
    keys, axes = _coordinates(archive, inputs, targets)
    kind = detect_coordinates(axes) if axes else None
    if kind:
        return kind, f"the stored coordinates {', '.join(keys)}", True
    if targets is None:
        return None, "", False
    kind = detect(targets.read(0, min(2, targets.parts[0].shape[0])))
    if kind is None:
        return None, "", False
    ends = "and the last nodes" if kind == "closed" else "nodes only"
    return kind, f"{targets.key}, which vanishes on the first {ends}", False


def _coordinates(
    archive: Archive, inputs: Channels, targets: Channels | None
) -> tuple[tuple[str, ...], list[NDArray[Any]]]:
    """Return the names of stored coordinates and their values along each axis; both empty where there are none."""
    grid = inputs.grid
    taken = {inputs.key, targets.key if targets else None}
    small = {
        name: array
        for name, array in archive.arrays.items()
        if name not in taken
        and array.dtype.kind in "iuf"
        and 0 < math.prod(array.shape) * array.dtype.itemsize <= _MOST_COORDINATES
    }
    for form in _ALONG:
        names = tuple(form.format(axis) for axis in AXES[: len(grid)])
        lengths = tuple(math.prod(small[name].shape) if name in small else 0 for name in names)
        if lengths == grid and all(max(small[name].shape) == size for name, size in zip(names, grid, strict=True)):
            return names, [small[name].whole().ravel() for name in names]
    for name in _MESHES:
        if name in small:
            along = _along(small[name].whole(), grid)
            if along:
                return (name,), along
    return (), []


def _along(mesh: NDArray[Any], grid: tuple[int, ...]) -> list[NDArray[Any]]:
    """Return the coordinates along each axis, from those of all nodes or from one axis that all share."""
    if mesh.shape == (*grid, len(grid)):
        mesh = np.moveaxis(mesh, -1, 0)
    if mesh.shape == (len(grid), *grid):
        return [np.moveaxis(mesh[axis], axis, 0).reshape(size, -1)[:, 0] for axis, size in enumerate(grid)]
    return [mesh] * len(grid) if all((size,) == mesh.shape for size in grid) else []
