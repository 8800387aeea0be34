"""How are the tokens of an NPZ read without ever holding the file?

Labels are read in pieces. Vectors stay in the file: what is stored plainly is read where it stands, what is
compressed is unpacked as a stream. Nothing is mapped into memory, since mapped pages count as memory.
"""

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError
from probes.loading.field_arrays import Stream
from probes.loading.field_files import Archive, damaged, open_archive
from probes.loading.tables import json_text, suggest
from probes.progress import Progress

MAX_TOKENS = 2**25
"""A few numbers of every token are held: above this they would be gigabytes."""
MAX_WIDTH = 2**16
MAX_TEXT = 256
MAX_LAYERS = 1024
_RANGE = re.compile(r"(.*?)(\d{1,6})\.\.(.*?)(\d{1,6})", re.ASCII)
_LAYER = re.compile(r"layer_?(-?[0-9]{1,6})")
_UNPACKED, _EXPANSION = 2**28, 100
_PIECE = 2**22
_LABELS = 2**13
_SHOWN = 40
_FAULTS = (OSError, EOFError, ValueError, RuntimeError, SystemError, zipfile.BadZipFile, zlib.error, struct.error)
"""What damaged bytes raise once the headers have been read; SystemError: numpy met what is no character."""

_Read = Callable[[int, int], NDArray[Any]]


def as_float32(
    values: NDArray[Any], transform: str, where: Callable[[int, int], str] | None = None
) -> NDArray[np.float32]:
    """Return numbers (tokens, width) as they are analysed: as they are ("none") or their natural logarithm ("log").

    Where `where` can tell the place of a number, one that is finite and not above 0 has no logarithm and is refused.

    >>> as_float32(np.array([[1.0, np.e]]), "log").tolist()
    [[0.0, 1.0]]
    """
    if transform == "log" and where is not None and (values <= 0).any():
        for token, number in np.argwhere(np.isfinite(values) & (values <= 0))[:1].tolist():
            said = f"{values[token, number]:g} has no logarithm."
            raise InputError(said, where=where(token, number), hint="Use --transform none, or mend the value.")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return (np.log(values.astype(np.float64)) if transform == "log" else values).astype(np.float32, copy=False)


def layer_of(name: str) -> int | None:
    """Return the number of the layer whose vectors an array of this name holds.

    >>> layer_of("layer_7"), layer_of("layer-1"), layer_of("layers")
    (7, -1, None)
    """
    found = _LAYER.fullmatch(name)
    return int(found[1]) if found else None


def chosen_layers(asked: Sequence[int] | None, there: Sequence[int], path: Path) -> Sequence[int]:
    """Return the layers asked for, after looking whether they are there; None asks for all."""
    layers = there if asked is None else asked
    if not layers or len({*layers} & {*there}) < len(layers):
        said, shown = (", ".join(map(str, numbers[:_SHOWN])) for numbers in (layers, there))
        hint = f"Name each once. The first {min(len(there), _SHOWN)} are: {shown}."
        raise InputError(f"There are no such layers: {said or 'none'}.", where=f"{path}, --layers", hint=hint)
    return layers


def expanded(entry: str, names: Sequence[str], where: str) -> Sequence[str]:
    """Return the columns that an entry such as `x0..x12` or `x3` names, after looking whether they are there."""
    found = None if entry in names else _RANGE.fullmatch(entry)
    columns = [entry]
    if found is not None:
        stem, low, other, high = found.groups()
        if stem != other or not 0 <= int(high) - int(low) < MAX_WIDTH:
            raise InputError(f"The range {entry!r} cannot be read.", where=where, hint="Write x0..x12, rising.")
        digits = len(low) if low.startswith("0") else 0
        columns = [f"{stem}{number:0{digits}d}" for number in range(int(low), int(high) + 1)]
    there = frozenset(names)
    absent = next((name for name in columns if name not in there), None)
    if absent is not None:
        raise InputError(f"There is no column {absent!r}.", where=where, hint=suggest(absent, names))
    return columns


@dataclass(slots=True)
class _Array(Stream):
    """A named array; `start` is the place of its first value in the file, None where it is compressed."""

    name: str = ""
    start: int | None = None

    def reader(self, file: IO[bytes] | None = None) -> _Read:
        """Return a function that reads values by their places, from a file where they can be read directly.

        The other way goes through the zip reader, which compares check sums.
        """
        if self.start is None or file is None:
            return Stream(self.opener, (math.prod(self.shape),), False, self.dtype).rows
        return partial(self._direct, file, self.start)

    def _direct(self, file: IO[bytes], origin: int, start: int, stop: int) -> NDArray[Any]:
        values = np.empty((stop - start) * self.dtype.itemsize, dtype=np.uint8)
        file.seek(origin + start * self.dtype.itemsize)
        if file.readinto(values.data) < len(values):  # type: ignore[attr-defined]
            raise EOFError("it ends in the middle of an array")
        return values.view(self.dtype)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the vectors of a layer lie: from a value of one array on, or each number in an array of its own."""

    arrays: tuple[_Array, ...]
    first: int
    width: int

    def read(self, readers: Sequence[_Read], start: int, stop: int) -> NDArray[Any]:
        if len(readers) > 1:
            return np.stack([read(start, stop) for read in readers], axis=1)
        values = readers[0](self.first + start * self.width, self.first + stop * self.width)
        return values.reshape(stop - start, self.width)


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
    places: Mapping[int, _Place]
    features: tuple[str, ...]
    transform: str
    kept: NDArray[np.bool_]

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the layers."""
        return tuple(self.places)

    def width(self, layer: int) -> int:
        """Return how many numbers a vector of a layer has."""
        return self.places[layer].width

    def chunks(self, layer: int, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of the used tokens in their order, at most `size` at once, shape (tokens, width)."""
        for _, start, values in self._pieces((layer,), size, direct=True):
            kept = self.kept[start : start + len(values)]
            if kept.any():
                yield as_float32(values if kept.all() else values[kept], self.transform)

    def usable(self, progress: Progress) -> NDArray[np.bool_]:
        """Tell which tokens have finite numbers in all layers, by one reading of them."""
        # In the order of the file, so that what is compressed is unpacked once.
        layers = sorted(self.places, key=lambda layer: self.places[layer].first)
        size = max(1, _PIECE // (8 * max(place.width for place in self.places.values())))
        good = np.ones(len(self.kept), dtype=np.bool_)
        seen = 0
        with progress.phase("Checking tokens", len(good), "tokens") as advance:
            for layer, start, values in self._pieces(layers, size, direct=False):
                numbers = as_float32(values, self.transform, partial(self._spot, layer, start))
                good[start : start + len(values)] &= np.isfinite(numbers).all(axis=1)
                before, seen = seen, seen + len(values)
                advance(seen // len(layers) - before // len(layers))
        return good

    def keeping(self, kept: NDArray[np.bool_]) -> "ArrayVectors":
        """Return the same with other tokens used."""
        return replace(self, kept=kept)

    def _pieces(self, layers: Sequence[int], size: int, *, direct: bool) -> Iterator[tuple[int, int, NDArray[Any]]]:
        readers: dict[str, _Read] = {}
        with _reading(self.path) as file:
            for layer in layers:
                place = self.places[layer]
                for array in place.arrays:
                    readers.setdefault(array.name, array.reader(file if direct else None))
                own = [readers[array.name] for array in place.arrays]
                for start in range(0, len(self.kept), size):
                    yield layer, start, place.read(own, start, min(start + size, len(self.kept)))

    def _spot(self, layer: int, start: int, token: int, number: int) -> str:
        name = f"{self.features[number]}[" if self.features else f"layer {layer} [token "
        return f"{self.path}, {name}{start + token}{'' if self.features else f', number {number}'}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenArchive:
    """An NPZ of tokens, of which nothing but the headers of its arrays has been read."""

    path: Path
    archive: Archive
    infos: Mapping[str, zipfile.ZipInfo]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(self.infos)

    @property
    def packed(self) -> tuple[tuple[str, ...], ...]:
        """Names of arrays that usually hold vectors, by form: `features`, or one array for each layer."""
        layers = tuple(name for name in self.names if layer_of(name) is not None)
        return (("features",) if "features" in self.infos else (), layers)

    def numeric(self, labels: Sequence[str]) -> list[str]:
        """Return the names of arrays of numbers besides the labels."""
        return [name for name, array in self.archive.arrays.items() if name not in labels and array.dtype.kind in "iuf"]

    def line(self, index: int) -> int:
        """Return the number of a token, from 0 as numpy counts."""
        return index

    def spot(self, index: int, name: str) -> str:
        """Say where a value stands."""
        return f"{self.path}, {name}[{index}]"

    def labels(self, names: Sequence[str]) -> dict[str, list[str | None]]:
        """Return arrays of texts or numbers, one entry a token, as texts; all are judged before one is read."""
        arrays = [self._array(name) for name in names]
        for array in arrays:
            if len(array.shape) != 1 or array.dtype.kind == "V":
                said = f"has the shape {array.shape} and the type {array.dtype}, not one label for each token"
                raise self._wrong(array.name, said, "Save one text or number for each token.")
            longest = array.dtype.itemsize // (4 if array.dtype.kind == "U" else 1)
            if not 0 < longest <= MAX_TEXT:
                said = f"has room for {longest} characters; 1 to {MAX_TEXT} can be read"
                raise self._wrong(array.name, said, "Save labels: numpy.array(labels, dtype=str).")
            self._check_length(array, names[0], arrays[0].shape[0])
        if not 0 < arrays[0].shape[0] <= MAX_TOKENS:
            said = f"holds {arrays[0].shape[0]} tokens; 1 to {MAX_TOKENS} can be read"
            raise self._wrong(names[0], said, "Give a file with tokens, or part of one that is too long.")
        with _reading(self.path):
            return {array.name: self._texts(array) for array in arrays}

    def vectors(
        self, names: Sequence[str], *, beside: str, count: int, layers: Sequence[int] | None, transform: str
    ) -> ArrayVectors:
        """Return the vectors that arrays hold, without reading them.

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
                raise self._wrong(array.name, f"is of the type {array.dtype}, not of plain numbers", hint)
        places = self._places(arrays, beside, count)
        for place in places.values():
            if not 0 < place.width <= MAX_WIDTH:
                said = f"has vectors of {place.width} numbers; 1 to {MAX_WIDTH} can be read"
                raise self._wrong(place.arrays[0].name, said, "Pool or project the features first.")
        return ArrayVectors(
            path=self.path,
            places={layer: places[layer] for layer in chosen_layers(layers, tuple(places), self.path)},
            features=tuple(names) if len(arrays[0].shape) == 1 else (),
            transform=transform,
            kept=np.ones(count, dtype=np.bool_),
        )

    def _wrong(self, name: str, said: str, hint: str) -> InputError:
        return InputError(f"The array {name!r} {said}.", where=f"{self.path}, {name}", hint=hint)

    def _array(self, name: str) -> _Array:
        array = self.archive.arrays.get(name)
        if array is None or name in self.archive.refused or array.dtype.kind not in "USV":
            array = self.archive.find(name)
        assert isinstance(array, Stream)
        if array.fortran:
            raise self._wrong(name, "is stored in Fortran order", "Save it in C order: numpy.ascontiguousarray(x).")
        info, start = self.infos[name], None
        if info.compress_type == zipfile.ZIP_STORED:
            # Behind the member's own header, which may be longer than the list of members says, and numpy's.
            with _reading(self.path) as file:
                file.seek(info.header_offset)
                start = info.header_offset + 30 + sum(struct.unpack("<26xHH", file.read(30)))
            start += info.file_size - math.prod(array.shape) * array.dtype.itemsize
        return _Array(array.opener, array.shape, False, array.dtype, name=name, start=start)

    def _check_length(self, array: _Array, beside: str, count: int, axis: int = 0) -> None:
        if array.shape[axis] != count:
            turned = axis == 1 and array.shape[0] == count
            hint = "Put the layers first: x.transpose(1, 0, 2)." if turned else "Save one entry for each token."
            raise self._wrong(array.name, f"has the shape {array.shape}, but {beside!r} holds {count} tokens", hint)

    def _texts(self, array: _Array) -> list[str | None]:
        read = array.reader()
        known: dict[object, str] = {}
        texts: list[str | None] = []
        for start in range(0, array.shape[0], _LABELS):
            values = read(start, min(start + _LABELS, array.shape[0])).tolist()
            for index, value in enumerate(values, start):
                key = value if isinstance(value, str | bytes) else json_text(value)
                if key not in known:
                    known[key] = _as_text(key, self.spot(index, array.name))
                texts.append(known[key])
        return texts

    def _places(self, arrays: Sequence[_Array], beside: str, count: int) -> dict[int, _Place]:
        first = arrays[0]
        axes = len(first.shape)
        if axes == 3 and len(arrays) == 1:
            if first.shape[0] > MAX_LAYERS:
                raise self._wrong(first.name, f"has {first.shape[0]} layers", f"Save at most {MAX_LAYERS}.")
            self._check_length(first, beside, count, axis=1)
            depth, _, width = first.shape
            numbers = self._numbers(first, range(depth))
            return {number: _Place((first,), place * count * width, width) for place, number in enumerate(numbers)}
        for array in arrays:
            if len(array.shape) != axes or axes not in (1, 2):
                hint = "Vectors are (tokens, width) or (layers, tokens, width); a feature alone is (tokens,)."
                raise self._wrong(array.name, f"has the shape {array.shape}", hint)
            self._check_length(array, beside, count)
        if axes == 1:
            return {0: _Place(tuple(arrays), 0, len(arrays))}
        own = {layer_of(array.name): _Place((array,), 0, array.shape[1]) for array in arrays}
        if len(arrays) == 1 and None in own:
            return {self._numbers(first, (0,))[0]: own[None]}
        known = {number: place for number, place in own.items() if number is not None}
        if len(known) < len(arrays):
            hint = "Name them layer_0, layer_1, ..., each number once."
            raise self._wrong(first.name, f"and {len(arrays) - 1} more are not one for each layer", hint)
        return dict(sorted(known.items()))

    def _numbers(self, beside: _Array, usual: Sequence[int]) -> Sequence[int]:
        if "layers" not in self.infos:
            return usual
        array = self._array("layers")
        numbers: list[int] = []
        if array.shape == (len(usual),) and array.dtype.kind in "iu":
            with _reading(self.path):
                numbers = array.reader()(0, len(usual)).tolist()
        if len(set(numbers)) < max(1, len(usual)):
            said = f"does not number the {len(usual)} of {beside.name!r}"
            raise self._wrong("layers", said, "Save one integer for each layer, none of them twice.")
        return numbers


def open_tokens(path: Path) -> TokenArchive:
    """Open an NPZ of tokens, reading only headers; one that would unpack to far more than its size is refused."""
    archive = open_archive(path)
    if archive.form != "NPZ":
        hint = "Save all: numpy.savez(file, phone=phones, speaker=speakers, features=vectors)."
        raise InputError(f"This is a file of the form {archive.form}, not an NPZ.", where=str(path), hint=hint)
    names = dict.fromkeys((*archive.arrays, *archive.refused))
    with _reading(path) as file, zipfile.ZipFile(file) as members:
        infos = {name: members.getinfo(f"{name}.npy") for name in names}
    total, size = sum(info.file_size for info in infos.values()), path.stat().st_size
    if total > max(_UNPACKED, _EXPANSION * size):
        said = f"The archive unpacks to {total} bytes, over {_EXPANSION} times its size."
        hint = "Save it uncompressed (numpy.savez) if it really holds so little."
        raise InputError(said, where=str(path), hint=hint)
    return TokenArchive(path=path, archive=archive, infos=infos)


@contextmanager
def _reading(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except _FAULTS as error:
        raise damaged(path, error) from error


def _as_text(value: str | bytes | None, where: str) -> str:
    try:
        text = value.decode() if isinstance(value, bytes) else value or ""
        text.encode()
    except UnicodeError:
        raise InputError(f"{value!r} is not UTF-8 text.", where=where, hint="Save texts as str.") from None
    return text
