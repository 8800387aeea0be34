"""Reader of NPZ files of tokens, labels and vectors, that never holds the whole file.

Labels are read in pieces. Vectors stay in the file: what is stored plainly is read where it stands, what is
compressed is unpacked as a stream. Nothing is mapped into memory, since mapped pages count as memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probes.core.errors import InputError
from probes.files.arrays import Archive, StoredArray, open_archive
from probes.files.json_values import json_text
from probes.vectors.token_vectors import ArrayVectors, StoredVectors, chosen_layers

MAX_TOKENS = 2**25
"""A few numbers of every token are held: above this they would be gigabytes."""
MAX_WIDTH = 2**16
MAX_TEXT = 256
MAX_LAYERS = 1024
_LAYER = re.compile(r"layer_?(-?[0-9]{1,6})")
_LABELS = 2**13


def layer_of(name: str) -> int | None:
    """Return the number of the layer whose vectors an array of this name holds.

    >>> layer_of("layer_7"), layer_of("layer-1"), layer_of("layers")
    (7, -1, None)
    """
    found = _LAYER.fullmatch(name)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenArchive:
    """An NPZ of tokens, of which only the headers of the arrays have been read."""

    path: Path
    archive: Archive
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(dict.fromkeys((*self.archive.arrays, *self.archive.refused)))

    @property
    def packed(self) -> tuple[tuple[str, ...], ...]:
        """Names of arrays that usually hold vectors, by form: `features`, or one array for each layer."""
        layers = tuple(name for name in self.names if layer_of(name) is not None)
        return (("features",) if "features" in self.names else (), layers)

    def numeric(self, labels: Sequence[str]) -> list[str]:
        """Return the names of arrays of numbers besides the labels."""
        return [name for name, array in self.archive.arrays.items() if name not in labels and array.dtype.kind in "iuf"]

    def line(self, index: int) -> int:
        """Return the index of a token, from 0."""
        return index

    def spot(self, index: int, name: str) -> str:
        """Return the `where` of a value, for messages."""
        return f"{self.path}, {name}[{index}]"

    def labels(self, names: Sequence[str]) -> dict[str, list[str | None]]:
        """Read arrays of labels, one entry a token, as texts; all headers are checked before one array is read."""
        arrays = [self._array(name) for name in names]
        for array in arrays:
            if len(array.shape) != 1 or array.dtype.kind == "V":
                message = f"has the shape {array.shape} and the type {array.dtype}, not one label for each token"
                raise self.archive.refusal(array.name, message, "Save one text or number for each token.")
            # In texts numpy takes four bytes a character.
            longest = array.dtype.itemsize // (4 if array.dtype.kind == "U" else 1)
            if not 0 < longest <= MAX_TEXT:
                message = f"has room for {longest} characters; 1 to {MAX_TEXT} can be read"
                raise self.archive.refusal(array.name, message, "Save labels: numpy.array(labels, dtype=str).")
            self._check_length(array, names[0], arrays[0].shape[0])
        if not 0 < arrays[0].shape[0] <= MAX_TOKENS:
            message = f"holds {arrays[0].shape[0]} tokens; 1 to {MAX_TOKENS} can be read"
            raise self.archive.refusal(names[0], message, "Give a file with tokens, or part of one that is too long.")
        return {array.name: self._texts(array) for array in arrays}

    def vectors(
        self, names: Sequence[str], *, beside: str, count: int, layers: Sequence[int] | None, transform: str
    ) -> ArrayVectors:
        """Return the vectors of some arrays without reading them.

        Parameters
        ----------
        names
            One array (tokens, width) or (layers, tokens, width), or one (tokens, width) for each layer, or one
            (tokens,) for each number of a vector.
        beside, count
            An array with one entry for each of the `count` tokens.
        layers
            Those to use; None: all.
        """
        arrays = [self._array(name) for name in names]
        for array in arrays:
            if array.dtype.kind not in "iuf":
                hint = "Save float16, float32 or float64 (of bfloat16: x.float().numpy())."
                raise self.archive.refusal(array.name, f"is of the type {array.dtype}, not of plain numbers", hint)
        stored = self._stored(arrays, beside, count)
        for vectors in stored.values():
            if not 0 < vectors.width <= MAX_WIDTH:
                message = f"has vectors of {vectors.width} numbers; 1 to {MAX_WIDTH} can be read"
                raise self.archive.refusal(vectors.arrays[0].name, message, "Pool or project the features first.")
        return ArrayVectors(
            path=self.path,
            stored={layer: stored[layer] for layer in chosen_layers(layers, tuple(stored), self.path)},
            features=tuple(names) if len(arrays[0].shape) == 1 else (),
            transform=transform,
            kept=np.ones(count, dtype=np.bool_),
        )

    def _array(self, name: str) -> StoredArray:
        array = self.archive.find(name, "biufUSV")
        if array.fortran:
            raise self.archive.refusal(
                name, "is stored in Fortran order", "Save it in C order: numpy.ascontiguousarray(x)."
            )
        return array

    def _check_length(self, array: StoredArray, beside: str, count: int, axis: int = 0) -> None:
        if array.shape[axis] != count:
            turned = axis == 1 and array.shape[0] == count
            hint = "Put the layers first: x.transpose(1, 0, 2)." if turned else "Save one entry for each token."
            raise self.archive.refusal(
                array.name, f"has the shape {array.shape}, but {beside!r} holds {count} tokens", hint
            )

    def _texts(self, array: StoredArray) -> list[str | None]:
        known: dict[object, str] = {}
        texts: list[str | None] = []
        for start in range(0, array.shape[0], _LABELS):
            values = array.items(start, min(start + _LABELS, array.shape[0]))
            for index, value in enumerate(values, start):
                key = value if isinstance(value, str | bytes) else json_text(value)
                # Labels repeat: each is checked once and held in memory once.
                if key not in known:
                    known[key] = _as_text(key, self.spot(index, array.name))
                texts.append(known[key])
        return texts

    def _stored(self, arrays: Sequence[StoredArray], beside: str, count: int) -> dict[int, StoredVectors]:
        first = arrays[0]
        axes = len(first.shape)
        if axes == 3 and len(arrays) == 1:
            if first.shape[0] > MAX_LAYERS:
                raise self.archive.refusal(first.name, f"has {first.shape[0]} layers", f"Save at most {MAX_LAYERS}.")
            self._check_length(first, beside, count, axis=1)
            depth, _, width = first.shape
            numbers = self._numbers(first, range(depth))
            return {
                number: StoredVectors((first,), index * count * width, width) for index, number in enumerate(numbers)
            }
        for array in arrays:
            if len(array.shape) != axes or axes not in (1, 2):
                hint = "Vectors are (tokens, width) or (layers, tokens, width); a feature alone is (tokens,)."
                raise self.archive.refusal(array.name, f"has the shape {array.shape}", hint)
            self._check_length(array, beside, count)
        if axes == 1:
            return {0: StoredVectors(tuple(arrays), 0, len(arrays))}
        own = {layer_of(array.name): StoredVectors((array,), 0, array.shape[1]) for array in arrays}
        if len(arrays) == 1 and None in own:
            return {self._numbers(first, (0,))[0]: own[None]}
        known = {number: vectors for number, vectors in own.items() if number is not None}
        if len(known) < len(arrays):
            hint = "Name them layer_0, layer_1, ..., each number once."
            raise self.archive.refusal(first.name, f"and {len(arrays) - 1} more are not one for each layer", hint)
        return dict(sorted(known.items()))

    def _numbers(self, beside: StoredArray, usual: Sequence[int]) -> Sequence[int]:
        if "layers" not in self.names:
            return usual
        array = self._array("layers")
        numbers: list[int] = []
        if array.shape == (len(usual),) and array.dtype.kind in "iu":
            numbers = array.items(0, len(usual))
        if len(set(numbers)) < max(1, len(usual)):
            message = f"does not number the {len(usual)} of {beside.name!r}"
            raise self.archive.refusal("layers", message, "Save one integer for each layer, none of them twice.")
        return numbers


def open_tokens(path: Path) -> TokenArchive:
    """Open an NPZ of tokens, reading only headers; refuse one that would unpack to far more than its size."""
    hint = "Save all: numpy.savez(file, phone=phones, speaker=speakers, features=vectors)."
    archive = open_archive(path, forms=("NPZ",), hint=hint)
    archive.check_expansion(tuple(archive.arrays))
    return TokenArchive(path=path, archive=archive)


def _as_text(value: str | bytes | None, where: str) -> str:
    try:
        text = value.decode() if isinstance(value, bytes) else value or ""
        text.encode()
    except UnicodeError:
        raise InputError(f"{value!r} is not UTF-8 text.", where=where, hint="Save texts as str.") from None
    return text
