"""The grids on which the operator is scored; their nodes are among those of the data.

A grid may be finer than that of training or coarser, on all axes or on some. Along each axis the coarser of the two is
made of nodes of the finer one; both meet in the grid that has the coarser one's nodes on every axis.
"""

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from audits.spectra import LEAST, MOST, Options
from probes.core.errors import InputError
from probes.operators.fields import Fields
from probes.operators.fno.layers import GridKind
from probes.operators.fno.network import FourierOperator
from probes.operators.fno.reading import Loaded
from probes.operators.grids import KINDS, coarsened, crossed
from probes.operators.module_operator import ModuleOperator

LOW = 4.0
"""Upper edge of the lowest band, cycles per domain."""
_OWN_GRID: dict[str, GridKind] = {"li": "closed", "pdebench": "cell", "neuralop": "open", "physicsnemo": "closed"}
Resolution = int | str
"""Points on the first axis, with all axes thinned by one ratio; or points on each axis, such as 32x64."""
Wanted = int | tuple[int, ...]
Operator = FourierOperator | ModuleOperator
Relation = Literal["finer", "coarser", "mixed"]
_MOST_AXES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One grid of the audit: its name, all sizes, and the slices that select its nodes.

    Parameters
    ----------
    stored
        From the grid of the data to this one.
    common, within
        From this grid, and from that of training, to the grid in which both meet: that of training where this one is
        finer, this one where it is coarser.
    bands
        Edges of the bands of wavenumbers in which errors are given, the last one without end.
    relation
        To the grid of training: finer on some axis and coarser on none, the reverse, or mixed.
    refused
        Why the operator cannot be run here, in words; empty: it can.
    """

    resolution: Resolution
    sizes: tuple[int, ...]
    stored: tuple[slice, ...]
    common: tuple[slice, ...]
    within: tuple[slice, ...]
    bands: tuple[float, ...]
    relation: Relation = "finer"
    refused: str = ""


def resolutions_of(options: Options) -> tuple[Wanted, ...]:
    """Return the resolutions that are asked for, without repeats: whole numbers ascending, then sizes of all axes.

    Raises
    ------
    InputError
        Where one is no whole number in range, no sizes of axes, or the grid of training.
    """
    found: list[Wanted] = [_read(text) for text in options.test_resolutions]
    if options.train_resolution in found:
        raise InputError(
            f"{options.train_resolution} is the grid of training.",
            where="--test-resolutions",
            hint="Give other grids, finer or coarser; on that of training itself the model is scored anyway.",
        )
    whole = sorted({one for one in found if isinstance(one, int)})
    return (*whole, *dict.fromkeys(one for one in found if not isinstance(one, int)))


def _read(text: str) -> Wanted:
    parts = text.split("x")
    good = all(part.isascii() and part.isdigit() and len(part) < 9 and int(part) <= MOST for part in parts)
    if not good or len(parts) > _MOST_AXES:
        raise InputError(
            f"{text!r} is no resolution.",
            where="--test-resolutions",
            hint="Give whole numbers, such as 61,121, or the points of every axis, such as 32x64.",
        )
    sizes = tuple(map(int, parts))
    if min(sizes) < LEAST:
        raise InputError(
            f"{text} has fewer than {LEAST} points on an axis.", where="--test-resolutions", hint="Give finer grids."
        )
    return sizes[0] if len(sizes) == 1 else sizes


def kinds_of(
    options: Options, loaded: Loaded, fields: Fields, resolutions: Sequence[Wanted]
) -> tuple[GridKind, GridKind, str]:
    """Return the kind of grid that is audited, that of the data, and a sentence on where both come from."""
    own = _OWN_GRID.get(loaded.family, "open")
    given: GridKind | None = options.grid  # type: ignore[assignment]
    kind = given or fields.kind or own
    source = "--grid" if given else fields.kind_source if fields.kind else _usual(loaded.family)
    finest = max(one if isinstance(one, int) else one[0] for one in (options.train_resolution, *resolutions))
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


def _usual(family: str) -> str:
    return f"what {family} uses" if family in _OWN_GRID else "assumption, as neither the data nor --grid tell"


def grids_of(
    options: Options,
    operator: Operator,
    fields: Fields,
    kind: GridKind,
    stored: GridKind,
    resolutions: Sequence[Wanted],
) -> tuple[Grid, ...]:
    """Return the grid of training and then the others, by their number of nodes, each with its nodes in the data.

    Raises
    ------
    InputError
        Where grids do not nest, or that of training is too coarse for the network.
    """
    coarse, flag = options.train_resolution, "--train-resolution"
    slices = _nested(f"{flag}, {fields.path}", kind, fields.sizes, coarse, stored)
    sizes = _sizes(fields.sizes, slices)
    whole = (slice(None),) * len(sizes)
    edges = _edges(operator, half_of(kind, coarse), coarse, beyond=False)
    own = Grid(resolution=coarse, sizes=sizes, stored=slices, common=whole, within=whole, bands=edges)
    others = [_other(operator, own, one, fields, kind, stored) for one in resolutions]
    _check_different(own, others)
    thin = [size for size in own.sizes if size < LEAST]
    if thin:
        raise InputError(
            f"On the grid of training one axis would have {thin[0]} points, fewer than {LEAST}.",
            where="--train-resolution",
            hint="All axes are coarsened by the ratio of the first: give a finer grid.",
        )
    _check_padding(operator, [own, *others])
    if _too_coarse(operator, own):
        raise InputError(
            f"The grid {crossed(own.sizes)} is too coarse for a network that keeps frequencies up to "
            f"{', '.join(map(str, operator.modes))}.",
            where="--train-resolution",
            hint=f"It needs {crossed(operator.smallest)} points or more.",
        )
    others = [replace(one, refused=_too_coarse(operator, one)) for one in others]
    return (own, *sorted(others, key=lambda one: (math.prod(one.sizes), one.sizes)))


def _other(operator: Operator, own: Grid, wanted: Wanted, fields: Fields, kind: GridKind, stored: GridKind) -> Grid:
    """Return a grid besides that of training."""
    coarse, both = own.sizes, "--train-resolution, --test-resolutions"
    if not isinstance(wanted, int) and len(wanted) != len(coarse):
        raise InputError(
            f"{named(wanted)} has {len(wanted)} axes, the data {len(coarse)}.",
            where="--test-resolutions",
            hint="Give the points of every axis, or one number for a grid that is thinned alike on all.",
        )
    slices = _nested(f"--test-resolutions, {fields.path}", kind, fields.sizes, wanted, stored)
    sizes = _sizes(fields.sizes, slices)
    if thin := [size for size in sizes if size < LEAST]:
        raise InputError(
            f"At {named(wanted)} one axis would have {thin[0]} points, fewer than {LEAST}.",
            where="--test-resolutions",
            hint="All axes are coarsened by the ratio of the first: give a finer grid, or the points of every axis.",
        )
    meet = tuple(map(min, sizes, coarse))
    whole = (slice(None),) * len(sizes)
    finer, coarser = meet == coarse, meet == sizes
    # Of one ratio on all axes, a refusal names the resolutions that do nest.
    alike = isinstance(wanted, int)
    common = _nested(both, kind, sizes, int(own.resolution) if alike and finer else meet, kind)
    within = whole if finer else _nested(both, kind, coarse, wanted if alike and coarser else meet, kind)
    half = half_of(kind, int(own.resolution))
    return Grid(
        resolution=named(wanted),
        sizes=sizes,
        stored=slices,
        common=common,
        within=within,
        bands=_edges(operator, half, wanted if isinstance(wanted, int) else max(sizes), beyond=not coarser),
        relation="finer" if finer else "coarser" if coarser else "mixed",
    )


def named(wanted: Wanted) -> Resolution:
    """Return the name of a resolution.

    Examples
    --------
    >>> named(61), named((32, 64))
    (61, '32x64')
    """
    return wanted if isinstance(wanted, int) else "x".join(map(str, wanted))


def _sizes(stored: Sequence[int], slices: Sequence[slice]) -> tuple[int, ...]:
    return tuple(len(range(size)[part]) for size, part in zip(stored, slices, strict=True))


def _edges(operator: Operator, half: float, points: int, *, beyond: bool) -> tuple[float, ...]:
    """Return the edges of bands; half of the grid of training is one where the grid reaches beyond it."""
    kept = [float(max(operator.modes))] if operator.modes else []
    # On the grid of training itself, half of it is where its spectrum ends.
    edges = [0.0, *sorted({LOW, *kept, *([half] if beyond else [])})]
    return (*[edge for edge in edges if edge < points / 2], math.inf)


def _check_different(own: Grid, others: Sequence[Grid]) -> None:
    seen = {own.sizes: own.resolution}
    for grid in others:
        if grid.sizes in seen:
            raise InputError(
                f"{grid.resolution} and {seen[grid.sizes]} are one grid, of {crossed(grid.sizes)} points.",
                where="--test-resolutions",
                hint="Name each grid once; that of training is scored anyway.",
            )
        seen[grid.sizes] = grid.resolution


def _too_coarse(operator: Operator, grid: Grid) -> str:
    """Return why a grid is too coarse for the network, in words; empty where it is not."""
    ends = operator.layout.padding.cells(grid.sizes)
    whole = [size + sum(pair) for size, pair in zip(grid.sizes, ends, strict=True)]
    if all(size >= least for size, least in zip(whole, operator.smallest, strict=True)):
        return ""
    modes = ", ".join(map(str, operator.modes))
    return f"it keeps frequencies up to {modes}, which takes {crossed(operator.smallest)} points or more"


def half_of(kind: GridKind, resolution: int) -> float:
    """Return the highest wavenumber of a grid, in cycles per domain, which a closed grid spans with N - 1 cells."""
    return (resolution - 1 if kind == "closed" else resolution) / 2


def _check_padding(operator: Operator, grids: Sequence[Grid]) -> None:
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


def _nested(
    where: str, kind: GridKind, sizes: Sequence[int], resolution: Wanted, stored: GridKind
) -> tuple[slice, ...]:
    try:
        return coarsened(kind, sizes, resolution, stored)
    except InputError as error:
        raise InputError(error.message, where=where, hint=error.hint) from None


def with_other_kinds(
    error: InputError, options: Options, loaded: Loaded, fields: Fields, resolutions: Sequence[Wanted]
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


def band_names(edges: Sequence[float]) -> list[str]:
    """Return the names of bands.

    Examples
    --------
    >>> band_names([0.0, 4.0, 8.0, math.inf])
    ['0-4', '4-8', '8-']
    """
    return [f"{low:g}-" + (f"{high:g}" if high < math.inf else "") for low, high in itertools.pairwise(edges)]
