"""Arrays of outcomes and laws: real, finite numbers that are read in blocks of rows, and checked as they are read."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.conditional.image_laws import Shape, View
from probes.conditional.laws import KEYS, Bools, Candidate, Floats, Kind
from probes.core.errors import InputError
from probes.files.arrays import PIECE
from probes.files.stored import Stored, Window, cut

NEEDED: Mapping[Kind, tuple[str, ...]] = {**KEYS, "points": ("points",)}
"""Names of the arrays without which there is no law of a kind."""
LAWS = (
    "Give samples (n, draws, d); points (n, m, d) with weights (n, m); quantiles (n, q) with levels (q,); mean and std "
    "(n, d); or lower, upper (n,) and level."
)
_LEVEL = "level is the share of outcomes that the interval is to hold, such as 0.9."
MOST = 1e100
"""The largest number, so that squares of distances are finite."""
_CLOSE = 1e-3


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
    """Finite numbers of an array, as float64.

    Parameters
    ----------
    spot
        Names the place of a value by its key and indices.
    unit
        What values are divided by: 255 for the bytes of images.
    """

    key: str
    array: Stored
    spot: Callable[[str, Sequence[int]], str]
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
            Where one of them is NaN, infinite, or beyond `MOST`.
        """
        # What is beyond float64 becomes infinite, and is refused with its place.
        with np.errstate(over="ignore"):
            values = self.array.rows(start, stop, window).astype(np.float64)
        what = f"a NaN, an infinite value, or one beyond {MOST:g}"
        self.check(np.abs(values) <= MOST, start, what, "Mend the value, or leave out the row.")
        return values / self.unit if self.unit != 1 else values

    def whole(self) -> Floats:
        """Return all of them, read in pieces of 16 MiB."""
        if not self.shape or 0 in self.shape:
            return np.empty(self.shape) if self.shape else self.read(0, 1).reshape(())
        step = max(1, PIECE // (8 * math.prod(self.shape[1:])))
        starts = range(0, self.shape[0], step)
        return np.concatenate([self.read(start, min(start + step, self.shape[0])) for start in starts])

    def check(self, fine: Bools, start: int, what: str, hint: str) -> None:
        """Refuse the first value that is not fine, of rows from `start` on.

        Raises
        ------
        InputError
            Where there is one.
        """
        if not fine.all():
            index = np.argwhere(~fine.reshape(fine.shape or (1,)))[0].tolist()
            index[0] += start
            raise self.refusal(f"{self.key} holds {what} in {_place(index)}.", hint, index)

    def refusal(self, message: str, hint: str, index: Sequence[int] = ()) -> InputError:
        """Return the refusal of the array, or of a value in it."""
        return InputError(message, where=self.spot(self.key, index), hint=hint)


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

    Parameters
    ----------
    names
        Of the arrays.
    listing, forms
        What the file holds, and what it should, in sentences.

    Raises
    ------
    InputError
        Where it holds none, a part of one, or two.
    """
    lacking = {kind: [key for key in keys if key not in names] for kind, keys in NEEDED.items()}
    found = [kind for kind, keys in lacking.items() if not keys]
    if len(found) == 1:
        return found[0]
    if found:
        laws = "; ".join(" and ".join(NEEDED[kind]) for kind in found)
        hint = "Keep one of them here, and give each other as a candidate with a file of its own."
        raise InputError(f"The file holds more than one law: {laws}.", where=where, hint=hint)
    kind = min(lacking, key=lambda kind: len(lacking[kind]) / len(NEEDED[kind]))
    there = [key for key in NEEDED[kind] if key in names]
    if not there:
        raise InputError(f"The file holds no law. {listing}", where=where, hint=forms)
    message = f"{' and '.join(there)} lack{'s' * (len(there) == 1)} {' and '.join(lacking[kind])}."
    raise InputError(message, where=where, hint=_LEVEL if "level" in lacking[kind] else forms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laws:
    """Laws of one kind, their arrays by the names in `KEYS`, whose shapes are checked at once.

    Raises
    ------
    InputError
        Where they do not fit the rows, or one another.
    """

    kind: Kind
    numbers: Mapping[str, Numbers]
    view: View
    levels: Floats | None = None
    level: float | None = None

    def __post_init__(self) -> None:
        first = next(iter(self.numbers.values()))
        sizes = {key: self._size(numbers, key) for key, numbers in self.numbers.items()}
        single = self.kind in ("quantiles", "intervals")
        if single and math.prod(self.view.shape) != 1:
            raise first.refusal(f"{self.kind} are of one value; the data have {self._data()}.", "Give samples.")
        if (single or self.kind == "normal") and not self.view.linear:
            message = "Samples are needed for principal components, and where masks differ between rows."
            raise first.refusal(message, "Give samples, or leave out --features and --mask.")
        if "weights" in sizes and sizes["weights"] != sizes["points"]:
            message = f"There are {sizes['weights']} weights for {sizes['points']} points."
            raise self.numbers["weights"].refusal(message, "Give (n, m), or (m,) for all rows.")
        q = self.levels
        if q is not None and (q.shape != (self.draws,) or not (np.diff(q, prepend=0, append=1) > 0).all()):
            message = f"The levels do not rise from over 0 to under 1, one for each of {self.draws} quantiles."
            raise first.refusal(message, "Give levels such as 0.05, 0.5, 0.95.")
        if self.level is not None and not 0 < self.level < 1:
            raise first.refusal(f"The level {self.level:g} does not lie between 0 and 1.", _LEVEL)

    @property
    def draws(self) -> int:
        """Draws, points or quantiles of each row; 0 of normal laws and intervals."""
        return self.numbers[self.kind].shape[1] if self.kind in self.numbers else 0

    def _data(self) -> str:
        return in_words(self.view.n, self.view.shape)

    def _size(self, numbers: Numbers, key: str) -> int:
        """Return the second axis of an array, or 1 where it has none, after a check of all."""
        several = key in ("samples", "points", "weights", "quantiles")
        item = (1,) if key in ("weights", "quantiles", "lower", "upper") else self.view.shape
        shape = numbers.shape
        if len(shape) <= several or shape[0] != self.view.n or item_shape(shape[1 + several :]) != item or 0 in shape:
            wanted = ", ".join(map(str, (self.view.n, *("any number",) * several, *item)))
            message = f"{numbers.key} has the shape {shape}; the data have {self._data()}, so it is ({wanted})."
            raise numbers.refusal(message, f"Let it have the rows of the data, in their order. {LAWS}")
        return shape[1] if several else 1

    def block(self, start: int, stop: int) -> Mapping[str, Floats]:
        """Return the laws of rows from one index to another, as `Candidate.block` does.

        Raises
        ------
        InputError
            Where a value is not finite, or there is no such law.
        """
        found = {key: numbers.read(start, stop) for key, numbers in self.numbers.items()}
        if self.kind in ("samples", "points"):
            draws = self.view.scored(found[self.kind], start)
            weights = {"weights": self._weights(found.get("weights"), draws, start)} if self.kind == "points" else {}
            return {self.kind: draws, **weights}
        if self.kind == "normal":
            fine = found["std"] >= 0
            self.numbers["std"].check(fine, start, "a negative number", "Give standard deviations, 0 or more.")
            return {key: self.view.scored(values[:, None], start)[:, 0] for key, values in found.items()}
        found = {key: values.reshape(len(values), -1) for key, values in found.items()}
        if self.kind == "quantiles":
            rising = found["quantiles"] == np.maximum.accumulate(found["quantiles"], axis=1)
            what = "a quantile below the one before it"
            self.numbers["quantiles"].check(rising, start, what, "Sort the quantiles of each row.")
            return found
        lower, upper = found["lower"][:, 0], found["upper"][:, 0]
        self.numbers["lower"].check(lower <= upper, start, "a limit over the upper one", "Exchange the two limits.")
        return {"lower": lower, "upper": upper}

    def _weights(self, weights: Floats | None, points: Floats, start: int) -> Floats:
        if weights is None:
            return np.full(points.shape[:2], 1 / points.shape[1])
        weights = weights.reshape(points.shape[:2])
        numbers = self.numbers["weights"]
        numbers.check(weights >= 0, start, "a negative number", "Give weights of 0 or more.")
        sums = weights.sum(axis=1)
        close = np.abs(sums - 1) <= _CLOSE
        numbers.check(close, start, "weights whose sum is not 1", "Divide the weights of each row by their sum.")
        return np.asarray(weights / sums[:, None])

    def candidate(self, name: str) -> Candidate:
        """Return a candidate with these laws."""
        return Candidate(
            name=name,
            kind=self.kind,
            n=self.view.n,
            d=self.view.d,
            draws=self.draws,
            block=self.block,
            weighted=self.kind != "points" or "weights" in self.numbers,
            levels=self.levels,
            level=self.level,
        )
