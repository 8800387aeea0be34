"""The grids on which the operator is scored; their nodes are among those of the data."""

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from audits.spectra import LEAST, MOST, Options
from probes.core.errors import InputError
from probes.operators.fields import Fields
from probes.operators.fno.layers import GridKind
from probes.operators.fno.network import FourierOperator
from probes.operators.fno.reading import Loaded
from probes.operators.grids import KINDS, coarsened

LOW = 4.0
"""Upper edge of the lowest band, cycles per domain."""
_OWN_GRID: dict[str, GridKind] = {"li": "closed", "pdebench": "cell", "neuralop": "open", "physicsnemo": "closed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One grid of the audit: points of its first axis, all sizes, and the slices that select its nodes.

    Parameters
    ----------
    stored
        From the grid of the data to this one.
    common
        From this grid to that of training.
    bands
        Edges of the bands of wavenumbers in which errors are given, the last one without end.
    """

    resolution: int
    sizes: tuple[int, ...]
    stored: tuple[slice, ...]
    common: tuple[slice, ...]
    bands: tuple[float, ...]


def resolutions_of(options: Options) -> tuple[int, ...]:
    """Return the resolutions of the finer grids, ascending.

    Raises
    ------
    InputError
        Where one is no whole number in range, or not finer than the grid of training.
    """
    coarse, found = options.train_resolution, []
    for text in options.test_resolutions:
        if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= MOST):
            raise InputError(
                f"{text!r} is no resolution.", where="--test-resolutions", hint="Give whole numbers, such as 61,121."
            )
        found.append(int(text))
    small = [size for size in found if size <= coarse]
    if small:
        raise InputError(
            f"{small[0]} is not finer than the grid of training, {coarse}.",
            where="--test-resolutions",
            hint="Give resolutions above --train-resolution; on that grid itself the model is scored anyway.",
        )
    return tuple(sorted(set(found)))


def kinds_of(
    options: Options, loaded: Loaded, fields: Fields, resolutions: Sequence[int]
) -> tuple[GridKind, GridKind, str]:
    """Return the kind of grid that is audited, that of the data, and a sentence on where both come from."""
    own = _OWN_GRID[loaded.family]
    given: GridKind | None = options.grid  # type: ignore[assignment]
    kind = given or fields.kind or own
    source = "--grid" if given else fields.kind_source if fields.kind else f"what {loaded.family} uses"
    finest = max(resolutions)
    # One node too many for an open grid: the data hold both ends.
    trimmed = kind == "open" and fields.sizes[0] % finest and not (fields.sizes[0] - 1) % finest
    stored = fields.kind or kind
    if fields.kind != "closed" and trimmed:
        stored = "closed"
    elif given and not fields.stored and not trimmed:
        # What targets suggest yields to what is said; coordinates beside the fields do not.
        stored = given
    nodes = {"open": "i/N", "closed": "i/(N-1)", "cell": "(i+1/2)/N"}
    words = f"Grid: {kind}, nodes at {nodes[kind]}; told by {source}."
    if given and fields.kind not in (None, given, stored):
        words += f" The targets look as if it were {fields.kind}."
    if stored != kind:
        words += f" The data lie on a {stored} grid; the last node of each axis is left out."
    return kind, stored, words


def grids_of(
    options: Options,
    operator: FourierOperator,
    fields: Fields,
    kind: GridKind,
    stored: GridKind,
    resolutions: Sequence[int],
) -> tuple[Grid, ...]:
    """Return the grid of training and the finer ones, each with its nodes in the data.

    Raises
    ------
    InputError
        Where grids do not nest, or that of training is too coarse for the network.
    """
    coarse = options.train_resolution
    grids: list[Grid] = []
    for resolution in (coarse, *resolutions):
        flag = "--test-resolutions" if grids else "--train-resolution"
        slices = _nested(f"{flag}, {fields.path}", kind, fields.sizes, resolution, stored)
        sizes = tuple(len(range(size)[part]) for size, part in zip(fields.sizes, slices, strict=True))
        common = _nested("--train-resolution, --test-resolutions", kind, sizes, coarse, kind)
        half = half_of(kind, coarse)
        # On the grid of training itself, half of it is where its spectrum ends.
        edges = [0.0, *sorted({LOW, float(max(operator.modes)), *([half] if resolution > coarse else [])})]
        edges = [edge for edge in edges if edge < resolution / 2]
        grids.append(Grid(resolution=resolution, sizes=sizes, stored=slices, common=common, bands=(*edges, math.inf)))
    thin = [size for size in grids[0].sizes if size < LEAST]
    if thin:
        raise InputError(
            f"On the grid of training one axis would have {thin[0]} points, fewer than {LEAST}.",
            where="--train-resolution",
            hint="All axes are coarsened by the ratio of the first: give a finer grid.",
        )
    _check_padding(operator, grids)
    ends = operator.layout.padding.cells(grids[0].sizes)
    whole = [size + sum(pair) for size, pair in zip(grids[0].sizes, ends, strict=True)]
    if any(size < least for size, least in zip(whole, operator.smallest, strict=True)):
        raise InputError(
            f"The grid {crossed(grids[0].sizes)} is too coarse for a network that keeps frequencies up to "
            f"{', '.join(map(str, operator.modes))}.",
            where="--train-resolution",
            hint=f"It needs {crossed(operator.smallest)} points or more.",
        )
    return tuple(grids)


def half_of(kind: GridKind, resolution: int) -> float:
    """Return the highest wavenumber of a grid, in cycles per domain, which a closed grid spans with N - 1 cells."""
    return (resolution - 1 if kind == "closed" else resolution) / 2


def _check_padding(operator: FourierOperator, grids: Sequence[Grid]) -> None:
    padding = operator.layout.padding
    for grid in grids:
        for size, ends in zip(grid.sizes, padding.cells(grid.sizes), strict=True):
            # A reflection cannot reach further than the axis; zeros can, but a mistyped share would take all memory.
            most = size - 1 if padding.mode != "constant" else 2 * size
            if max(ends) > most:
                raise InputError(
                    f"{max(ends)} cells of padding are too many for an axis of {size} points.",
                    where="--padding",
                    hint=f"This network can be padded by {most} cells there, at the most.",
                )


def _nested(where: str, kind: GridKind, sizes: Sequence[int], resolution: int, stored: GridKind) -> tuple[slice, ...]:
    try:
        return coarsened(kind, sizes, resolution, stored)
    except InputError as error:
        raise InputError(error.message, where=where, hint=error.hint) from None


def with_other_kinds(
    error: InputError, options: Options, loaded: Loaded, fields: Fields, resolutions: Sequence[int]
) -> InputError:
    """Add to a refusal the kinds of grid on which all resolutions would nest."""
    able = []
    for other in KINDS:
        tried = replace(options, grid=other)
        kind, stored, _ = kinds_of(tried, loaded, fields, resolutions)
        with suppress(InputError):
            grids_of(tried, loaded.operator, fields, kind, stored, resolutions)
            able.append(f"--grid {other}")
    # What the refusal names, it names for its own resolution alone.
    hint = error.hint.partition(" It would nest")[0]
    if able:
        hint += f" If the network was trained on such a grid: with {' or '.join(able)} all of them nest."
    return InputError(error.message, where=error.where, hint=hint)


def crossed(sizes: Sequence[int]) -> str:
    """Return the points on all axes in words, such as 61 x 61."""
    return " x ".join(map(str, sizes))


def band_names(edges: Sequence[float]) -> list[str]:
    """Return the names of bands.

    Examples
    --------
    >>> band_names([0.0, 4.0, 8.0, math.inf])
    ['0-4', '4-8', '8-']
    """
    return [f"{low:g}-" + (f"{high:g}" if high < math.inf else "") for low, high in itertools.pairwise(edges)]
