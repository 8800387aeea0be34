"""Grids of nodes: recognise the kind on which a field was stored, and take coarser grids out of finer ones.

Three kinds of N nodes on the unit interval are known: open, x_i = i/N; closed, x_i = i/(N - 1); cell,
x_i = (i + 1/2)/N. A kind is read off stored coordinates, or off targets that vanish on the boundary of the domain.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from probes.core.errors import InputError
from probes.operators.fno.layers import GridKind

KINDS: tuple[GridKind, ...] = get_args(GridKind)
EDGE = 0.05
STEEP = 0.1
_FLAT = 0.25
_FAINT = 1e-3
_OFF = 0.05
_NEAR = 1e-3
_ROUND: tuple[tuple[float, int], ...] = ((1.0, 1), (math.pi, 2), (0.5, 2**20), (math.pi, 2**20))
"""Ends at which domains are taken to stop: multiples of a number, up to how many; the likelier first."""

Values = TypeVar("Values", Tensor, NDArray[Any])


def step(kind: GridKind, fine: int, coarse: int) -> int | None:
    """Return q where every q-th of `fine` nodes makes a grid of `coarse` nodes; None where there is no such q.

    open: fine = q coarse; closed: fine - 1 = q (coarse - 1); cell: fine = q coarse with q odd.

    Examples
    --------
    >>> step("open", 32, 16), step("closed", 421, 85), step("cell", 30, 10), step("cell", 32, 16)
    (2, 5, 3, None)
    """
    less = 1 if kind == "closed" else 0
    if coarse <= less or fine < coarse:
        return None
    ratio, rest = divmod(fine - less, coarse - less)
    return None if rest or (kind == "cell" and ratio % 2 == 0) else ratio


def nested(kind: GridKind, sizes: Sequence[int]) -> list[int]:
    """Return the sizes of the first axis, finest first, of all grids nested in one of these sizes.

    Examples
    --------
    >>> nested("closed", (13, 13)), nested("open", (8, 12)), nested("cell", (45,))
    ([13, 7, 5, 4, 3, 2], [8, 4, 2], [45, 15, 9, 5, 3])
    """
    return [size for size in range(sizes[0], 1, -1) if _ratio(kind, sizes, size)]


def coarsened(
    kind: GridKind, sizes: Sequence[int], resolution: int | Sequence[int], stored: GridKind
) -> tuple[slice, ...]:
    """Return the slices of a stored grid that give the grid with `resolution` points on its first axis.

    All axes are coarsened by the same ratio, or with points given for every axis, each by its own. From a closed grid
    to an open one, the last node of each axis goes first.

    Parameters
    ----------
    kind
        Of the grid that is wanted.
    sizes, stored
        Points on each axis of the stored grid, and its kind.

    Raises
    ------
    InputError
        Where the grids do not nest.

    Examples
    --------
    >>> coarsened("open", (61, 61), 30, "closed")
    (slice(0, 60, 2), slice(0, 60, 2))
    >>> coarsened("closed", (61, 61), (31, 61), "closed")
    (slice(0, 61, 2), slice(0, 61, 1))
    """
    sizes = tuple(sizes)
    if (stored, kind) == ("closed", "open"):
        inner = tuple(size - 1 for size in sizes)
    elif stored == kind:
        inner = sizes
    else:
        raise InputError(
            f"The data lie on {_article(stored)} grid, which holds no {kind} grid.",
            where="--grid",
            hint=f"Use --grid {stored}.",
        )
    if isinstance(resolution, int):
        ratio = _ratio(kind, inner, resolution)
        if ratio is None:
            raise _not_nested(kind, inner, resolution, sizes)
        return tuple(_every(kind, size, ratio) for size in inner)
    slices = []
    for size, wanted in zip(inner, resolution, strict=True):
        ratio = step(kind, size, wanted)
        if ratio is None:
            raise _not_nested(kind, (size,), wanted, (size + sizes[0] - inner[0],))
        slices.append(_every(kind, size, ratio))
    return tuple(slices)


def _every(kind: GridKind, size: int, ratio: int) -> slice:
    # Of `ratio` cells that make a larger one, the middle one has its node where the larger one has it.
    return slice((ratio - 1) // 2 if kind == "cell" else 0, size, ratio)


def restricted(x: Values, slices: Sequence[slice]) -> Values:
    """Return values (..., *grid) on the nodes that the slices of `coarsened` name.

    Examples
    --------
    >>> restricted(np.arange(8).reshape(1, 8), coarsened("open", (8,), 4, "open")).tolist()
    [[0, 2, 4, 6]]
    """
    index: Any = (..., *slices)
    chosen: Values = x[index]
    return chosen


def detect(targets: NDArray[Any]) -> GridKind | None:
    """Recognise the grid by where targets (n, channels, *grid) vanish; None where that is not conclusive.

    A side of the grid lies on a boundary where the field is zero if its root mean square is at most 5 % of the
    field's and at most 10 % of that of the row beside it, which itself must be above 0.1 % of the field's: a field
    that has decayed before the boundary shows nothing. Both sides of every axis: closed. The first side of every
    axis, and last sides that hold at least 25 % of the row beside them (a node one step from a zero holds about
    half): open. These limits are this project's own.

    Examples
    --------
    >>> wave = lambda nodes: np.sin(2 * np.pi * nodes)[None, None]
    >>> detect(wave(np.arange(9) / 8)), detect(wave(np.arange(8) / 8)), detect(wave((np.arange(8) + 0.5) / 8))
    ('closed', 'open', None)
    """
    values = targets.astype(np.float64)
    whole = _rms(values)
    if not np.isfinite(whole) or whole == 0 or min(values.shape[2:]) < 4:
        return None
    sides = set()
    for axis in range(2, values.ndim):
        first, next_first, next_last, last = (_rms(values.take(index, axis)) / whole for index in (0, 1, -2, -1))
        if min(next_first, next_last) <= _FAINT or not _on_boundary(first, next_first):
            return None
        if _on_boundary(last, next_last):
            sides.add("closed")
        else:
            sides.add("open" if last >= _FLAT * next_last else "unclear")
    found: tuple[GridKind, ...] = tuple(kind for kind in KINDS if sides == {kind})
    return found[0] if found else None


def detect_coordinates(axes: Sequence[NDArray[Any]]) -> GridKind | None:
    """Recognise the grid by the coordinates along each axis; None where they are uneven, differ, or fit several kinds.

    Nodes x_0 ... x_(N-1) a step h apart fill the domain [x_0, x_(N-1)] if closed, [x_0, x_(N-1) + h] if open and
    [x_0 - h/2, x_(N-1) + h/2] if cells. The kind is the one whose domain ends at round numbers: 0 and 1 or -1, then
    up to 2 pi, then multiples of 1/2, then of pi.

    Examples
    --------
    >>> detect_coordinates([np.arange(8) / 8]), detect_coordinates([np.linspace(-1, 1, 9)])
    ('open', 'closed')
    >>> detect_coordinates([(np.arange(8) + 0.5) / 8]), detect_coordinates([np.arange(8)])
    ('cell', None)
    """
    kinds = {_kind_along(np.asarray(axis, dtype=np.float64).ravel()) for axis in axes}
    return kinds.pop() if len(kinds) == 1 else None


def _rms(values: Any) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.mean(np.square(values))))


def _on_boundary(side: float, beside: float) -> bool:
    return side <= EDGE and side <= STEEP * beside


def _kind_along(nodes: NDArray[np.float64]) -> GridKind | None:
    if len(nodes) < 4 or not np.isfinite(nodes).all():
        return None
    width = (nodes[-1] - nodes[0]) / (len(nodes) - 1)
    if width <= 0 or np.abs(np.diff(nodes) - width).max() > _OFF * width:
        return None
    first, last = float(nodes[0]), float(nodes[-1])
    ends: dict[GridKind, tuple[float, float]] = {
        "open": (first, last + width),
        "closed": (first, last),
        "cell": (first - width / 2, last + width / 2),
    }
    for unit, most in _ROUND:
        fitting = [kind for kind, domain in ends.items() if all(_is_round(end, unit, most, width) for end in domain)]
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _is_round(end: float, unit: float, most: int, width: float) -> bool:
    times = round(end / unit)
    return abs(times) <= most and abs(end - times * unit) <= min(_OFF * width, _NEAR)


def _ratio(kind: GridKind, sizes: Sequence[int], resolution: int) -> int | None:
    """Return the ratio that takes the first axis to `resolution` points, if it divides the other axes too."""
    ratio = step(kind, sizes[0], resolution)
    less = 1 if kind == "closed" else 0
    return ratio if ratio and all((size - less) % ratio == 0 for size in sizes) else None


def _not_nested(kind: GridKind, sizes: Sequence[int], resolution: int, stored: Sequence[int]) -> InputError:
    shown = " x ".join(map(str, sizes))
    sizes_that_do = nested(kind, sizes)
    listed = ", ".join(map(str, sizes_that_do[:6])) + (", ..." if len(sizes_that_do) > 6 else "")
    others = [other for other in KINDS if other != kind and _ratio(other, stored, resolution)]
    named = " or ".join(f"--grid {other}" for other in others)
    return InputError(
        f"A grid of {resolution} points an axis does not nest in {_article(kind)} grid of {shown} points.",
        where=f"resolution {resolution}",
        hint=f"These do: {listed}." + (f" It would nest with {named}." if others else ""),
    )


def _article(kind: GridKind) -> str:
    return f"{'an' if kind == 'open' else 'a'} {kind}"


def crossed(sizes: Sequence[int]) -> str:
    """Return the points on all axes in words, such as 61 x 61."""
    return " x ".join(map(str, sizes))
