"""Vectors of tokens that stay in their NPZ file and are read in pieces.

What is stored plainly is read where it stands, what is compressed is unpacked as a stream.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.progress import Progress
from probes.files.arrays import StoredArray

PIECE = 2**22
"""Bytes of vectors that are read at a time, where a number takes eight."""
_SHOWN = 40


def as_float32(
    values: NDArray[Any], transform: str, where: Callable[[int, int], str] | None = None
) -> NDArray[np.float32]:
    """Transform numbers (tokens, width) for the analysis: unchanged ("none") or to natural logarithms ("log").

    With `where`, which gives the location of a number, a finite number not above 0 is refused: it has no logarithm.

    >>> as_float32(np.array([[1.0, np.e]]), "log").tolist()
    [[0.0, 1.0]]
    """
    if transform == "log" and where is not None and (values <= 0).any():
        for token, number in np.argwhere(np.isfinite(values) & (values <= 0))[:1].tolist():
            said = f"{values[token, number]:g} has no logarithm."
            raise InputError(said, where=where(token, number), hint="Use --transform none, or correct the value.")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return (np.log(values.astype(np.float64)) if transform == "log" else values).astype(np.float32, copy=False)


def chosen_layers(asked: Sequence[int] | None, there: Sequence[int], path: Path) -> Sequence[int]:
    """Check and return the layers asked for; None asks for all."""
    layers = there if asked is None else asked
    if not layers or len({*layers} & {*there}) < len(layers):
        said, shown = (", ".join(map(str, numbers[:_SHOWN])) for numbers in (layers, there))
        hint = f"Name each once. The first {min(len(there), _SHOWN)} are: {shown}."
        raise InputError(f"There are no such layers: {said or 'none'}.", where=f"{path}, --layers", hint=hint)
    return layers


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """Location of a layer's vectors: from an offset in one array, or each number in an array of its own."""

    arrays: tuple[StoredArray, ...]
    first: int
    width: int

    def read(self, start: int, stop: int, *, checked: bool) -> NDArray[Any]:
        """Read the vectors of the tokens from `start` to `stop`, shape (tokens, width)."""
        if len(self.arrays) > 1:
            return np.stack([array.values(start, stop, checked=checked) for array in self.arrays], axis=1)
        first, last = self.first + start * self.width, self.first + stop * self.width
        return self.arrays[0].values(first, last, checked=checked).reshape(stop - start, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayVectors:
    """Vectors that stay in their file.

    Parameters
    ----------
    features
        Names of the numbers of a vector, where each has an array of its own.
    kept
        Which of the tokens are used, shape (tokens in the file,).
    """

    path: Path
    stored: Mapping[int, StoredVectors]
    features: tuple[str, ...]
    transform: str
    kept: NDArray[np.bool_]

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the layers."""
        return tuple(self.stored)

    def width(self, layer: int) -> int:
        """Return the width of a layer's vectors."""
        return self.stored[layer].width

    def chunks(self, layer: int, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of the used tokens in their order, at most `size` at once, shape (tokens, width)."""
        # Check sums need not be compared again: `usable` has read everything through the zip reader.
        for _, start, values in self._pieces((layer,), size, checked=False):
            kept = self.kept[start : start + len(values)]
            if kept.any():
                yield as_float32(values if kept.all() else values[kept], self.transform)

    def usable(self, progress: Progress, *, piece: int = PIECE) -> NDArray[np.bool_]:
        """Read all layers once, so many bytes at a time, and tell which tokens have only finite numbers."""
        # In the order of the file, so that what is compressed is unpacked once.
        layers = sorted(self.stored, key=lambda layer: self.stored[layer].first)
        size = max(1, piece // (8 * max(vectors.width for vectors in self.stored.values())))
        good = np.ones(len(self.kept), dtype=np.bool_)
        seen = 0
        with progress.phase("Checking tokens", len(good), "tokens") as advance:
            for layer, start, values in self._pieces(layers, size, checked=True):
                numbers = as_float32(values, self.transform, partial(self._spot, layer, start))
                good[start : start + len(values)] &= np.isfinite(numbers).all(axis=1)
                # Steps are tokens, and every token is read once a layer.
                before, seen = seen, seen + len(values)
                advance(seen // len(layers) - before // len(layers))
        return good

    def keeping(self, kept: NDArray[np.bool_]) -> "ArrayVectors":
        """Return a copy that uses other tokens."""
        return replace(self, kept=kept)

    def _pieces(self, layers: Sequence[int], size: int, *, checked: bool) -> Iterator[tuple[int, int, NDArray[Any]]]:
        for layer in layers:
            for start in range(0, len(self.kept), size):
                stop = min(start + size, len(self.kept))
                yield layer, start, self.stored[layer].read(start, stop, checked=checked)

    def _spot(self, layer: int, start: int, token: int, number: int) -> str:
        name = f"{self.features[number]}[" if self.features else f"layer {layer} [token "
        return f"{self.path}, {name}{start + token}{'' if self.features else f', number {number}'}]"
