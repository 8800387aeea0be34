"""Arrays of outcomes and laws: real, finite numbers that are read in blocks of rows, and checked as they are read."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.conditional.image_laws import Shape, View
from probes.conditional.laws import KEYS, Candidate, Floats, Kind
from probes.core.errors import InputError
from probes.files.arrays import PIECE
from probes.files.stored import Stored, Window, cut

NEEDED: Mapping[Kind, tuple[str, ...]] = {**KEYS, "points": ("points",)}
"""Names of the arrays without which there is no law of a kind."""
LAWS = (
    "Give samples (n, draws, d); points (n, m, d) with weights (n, m); quantiles (n, q) with levels (q,); mean and std "
    "(n, d); or lower, upper (n,) and level."
)
_CLOSE = 1e-3
Spot = Callable[[str, Sequence[int]], str]
"""Names the place of a value by its key and indices."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """An array in memory that is read as one in a file is."""

    values: NDArray[Any]

    @property
    def shape(self) -> Shape:
        """Sizes of its axes."""
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value."""
        return self.values.dtype

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given."""
        return cut(self.values[start:stop], window)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Finite numbers of an array, as float64; `unit` is what they are divided by: 255 for the bytes of images."""

    key: str
    array: Stored
    spot: Spot
    unit: float = 1.0

    @property
    def shape(self) -> Shape:
        """Sizes of its axes."""
        return tuple(self.array.shape)

    def read(self, start: int, stop: int, window: Window | None = None) -> Floats:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given.

        Raises
        ------
        InputError
            Where one of them is NaN or infinite.
        """
        # What is beyond float64 becomes infinite, and is refused with its place.
        with np.errstate(over="ignore"):
            values = self.array.rows(start, stop, window).astype(np.float64)
        self.check(np.isfinite(values), start, "a NaN or an infinite value", "Mend the value, or leave out the row.")
        return values / self.unit if self.unit != 1 else values

    def whole(self) -> Floats:
        """Return all of them, read in pieces of 16 MiB."""
        if not self.shape:
            return self.read(0, 1).reshape(())
        step = max(1, PIECE // (8 * max(1, math.prod(self.shape[1:]))))
        pieces = [self.read(start, min(start + step, self.shape[0])) for start in range(0, self.shape[0], step)]
        return np.concatenate(pieces) if pieces else np.empty(self.shape)

    def check(self, fine: NDArray[np.bool_], start: int, what: str, hint: str) -> None:
        """Refuse the first value that is not fine, of rows from `start` on.

        Raises
        ------
        InputError
            Where there is one.
        """
        if not fine.all():
            index = np.argwhere(~np.atleast_1d(fine))[0].tolist()
            index[0] += start
            message = f"{self.key} holds {what} in {_place(index)}."
            raise InputError(message, where=self.spot(self.key, index), hint=hint)


def _place(index: Sequence[int]) -> str:
    """Return indices in words.

    >>> _place([3]), _place([3, 1])
    ('row 3', 'row 3, column 1')
    """
    return f"row {index[0]}" + (f", column {', '.join(map(str, index[1:]))}" if len(index) > 1 else "")


def item_shape(shape: Shape) -> Shape:
    """Return the shape of an outcome with its axes complete.

    >>> item_shape(()), item_shape((8, 8)), item_shape((2,))
    ((1,), (8, 8, 1), (2,))
    """
    return (1,) if not shape else (*shape, 1) if len(shape) == 2 else shape


def in_words(n: int, shape: Shape) -> str:
    """Return rows and outcomes in words.

    >>> in_words(9, (1,)), in_words(9, (2,)), in_words(9, (8, 8, 3))
    ('9 rows of 1 value', '9 rows of 2 values', '9 rows of images 8 x 8 x 3')
    """
    item = f"images {' x '.join(map(str, shape))}" if len(shape) == 3 else f"{shape[0]} value{'s' * (shape[0] != 1)}"
    return f"{n} rows of {item}"


def find_kind(names: Collection[str], where: str, listing: str, forms: str = LAWS) -> Kind:
    """Return the one kind of law whose arrays a file holds.

    Raises
    ------
    InputError
        Where it holds none, a part of one, or two.
    """
    found = [kind for kind, keys in NEEDED.items() if {*keys} <= {*names}]
    if len(found) > 1:
        laws = "; ".join(" and ".join(NEEDED[kind]) for kind in found)
        hint = "Keep one of them here, and give each other as a candidate with a file of its own."
        raise InputError(f"The file holds more than one law: {laws}.", where=where, hint=hint)
    if found:
        return found[0]
    parts = {kind: [key for key in keys if key not in names] for kind, keys in NEEDED.items() if {*keys} & {*names}}
    if not parts:
        raise InputError(f"The file holds no law. {listing}", where=where, hint=forms)
    kind, missing = min(parts.items(), key=lambda part: len(part[1]))
    there = [key for key in NEEDED[kind] if key not in missing]
    hint = (
        "level is the share of outcomes that [lower, upper] is to hold, such as 0.9." if "level" in missing else forms
    )
    raise InputError(f"{' and '.join(there)} lack {' and '.join(missing)}.", where=where, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laws:
    """Laws of one kind, with their arrays by the names in `KEYS`."""

    kind: Kind
    numbers: Mapping[str, Numbers]
    view: View

    def __post_init__(self) -> None:
        sizes = {key: self._size(numbers, key) for key, numbers in self.numbers.items()}
        if self.kind in ("quantiles", "intervals") and self.view.d != 1:
            self._refuse(next(iter(self.numbers.values())), f"{self.kind} are of one value for each row")
        if self.kind == "normal" and not self.view.linear:
            hint = "Give samples, or leave out --features pca and masks that differ between rows."
            message = "Mean and standard deviation of single pixels are no law of their combinations."
            raise InputError(message, where=self.numbers["mean"].spot("mean", ()), hint=hint)
        if "weights" in sizes and sizes["weights"] != sizes["points"]:
            self._refuse(self.numbers["weights"], f"there are {sizes['points']} points in each row")

    @property
    def draws(self) -> int:
        """Draws, points or quantiles of each row; 0 of normal laws and intervals."""
        return self._size(self.numbers[self.kind], self.kind) if self.kind in self.numbers else 0

    def _size(self, numbers: Numbers, key: str) -> int:
        """Return the second axis of an array, or 1 where it has none, after a check of the others."""
        several = key in ("samples", "points", "weights", "quantiles")
        item = (1,) if key in ("weights", "quantiles", "lower", "upper") else self.view.shape
        shape = numbers.shape
        own = shape[2:] if several else shape[1:]
        if len(shape) < 1 + several or shape[0] != self.view.n or item_shape(own) != item:
            self._refuse(numbers, "there is one law for each of them" if several else "each of them has one")
        if several and not shape[1]:
            self._refuse(numbers, "each needs one at least")
        return shape[1] if several else 1

    def _refuse(self, numbers: Numbers, why: str) -> None:
        truth = in_words(self.view.n, self.view.shape)
        message = f"{numbers.key} has the shape {numbers.shape}; the data have {truth}, and {why}."
        raise InputError(message, where=numbers.spot(numbers.key, ()), hint=LAWS)

    def block(self, start: int, stop: int) -> Mapping[str, Floats]:
        """Return the laws of rows from one index to another, as `Candidate.block` does.

        Raises
        ------
        InputError
            Where a value is not finite, or no such law.
        """
        found = {key: numbers.read(start, stop) for key, numbers in self.numbers.items()}
        if self.kind == "samples":
            return {"samples": self.view.scored(found["samples"], start)}
        if self.kind == "points":
            points = self.view.scored(found["points"], start)
            return {"points": points, "weights": self._weights(found.get("weights"), points, start)}
        if self.kind == "normal":
            fine = found["std"] >= 0
            self.numbers["std"].check(fine, start, "a negative number", "Give standard deviations, 0 or more.")
            return {key: self.view.scored(values[:, None], start)[:, 0] for key, values in found.items()}
        if self.kind == "quantiles":
            rising = np.diff(found["quantiles"].reshape(stop - start, -1), axis=1, prepend=-np.inf) >= 0
            hint = "Sort the quantiles of each row."
            self.numbers["quantiles"].check(rising, start, "a quantile below the one before it", hint)
            return found
        lower, upper = (found[key].reshape(stop - start) for key in ("lower", "upper"))
        self.numbers["lower"].check(lower <= upper, start, "a limit over the upper one", "Exchange the two limits.")
        return {"lower": lower, "upper": upper}

    def _weights(self, weights: Floats | None, points: Floats, start: int) -> Floats:
        if weights is None:
            return np.full(points.shape[:2], 1 / points.shape[1])
        numbers, sums = self.numbers["weights"], weights.sum(axis=1)
        numbers.check(weights >= 0, start, "a negative number", "Give weights of 0 or more.")
        close = np.abs(sums - 1) <= _CLOSE
        numbers.check(close, start, "weights whose sum is not 1", "Divide the weights of each row by their sum.")
        return np.asarray(weights / sums[:, None])


def make_candidate(
    name: str,
    laws: Laws,
    *,
    levels: Floats | None = None,
    level: float | None = None,
    calibration: int = 0,
    pictures: Callable[[int, int], Floats] | None = None,
    notes: Sequence[str] = (),
) -> Candidate:
    """Return a candidate whose laws are read in blocks.

    Raises
    ------
    InputError
        Where levels are none, or not those of the quantiles.
    """
    first = next(iter(laws.numbers.values()))
    if laws.kind == "quantiles":
        assert levels is not None
        if levels.shape != (laws.draws,) or not ((levels > 0) & (levels < 1)).all() or (np.diff(levels) <= 0).any():
            message = f"levels must rise from over 0 to under 1, one for each of {laws.draws} quantiles."
            raise InputError(message, where=first.spot("levels", ()), hint="Give levels such as 0.05, 0.5, 0.95.")
    if laws.kind == "intervals" and not (level is not None and 0 < level < 1):
        hint = "Give the share of outcomes that [lower, upper] is to hold, such as 0.9."
        raise InputError(f"The level {level:g} does not lie between 0 and 1.", where=first.spot("level", ()), hint=hint)
    return Candidate(
        name=name,
        kind=laws.kind,
        n=laws.view.n,
        d=laws.view.d,
        draws=laws.draws,
        block=laws.block,
        weighted=laws.kind != "points" or "weights" in laws.numbers,
        levels=levels,
        level=level,
        calibration=calibration,
        pictures=pictures,
        notes=tuple(notes),
    )
