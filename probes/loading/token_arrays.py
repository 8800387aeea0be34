"""How are the tokens of an NPZ read without ever holding the file?

Labels are read in pieces. Vectors stay in the file: what is stored plainly is read where it stands, what is
compressed is unpacked as a stream. Nothing is mapped into memory, since mapped pages count as memory.
"""

import math
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probes.errors import InputError
from probes.files.json_values import json_text
from probes.loading.field_arrays import Stream
from probes.loading.field_files import Archive, open_archive
from probes.loading.token_vectors import ArrayVectors, NamedArray, VectorPlace, chosen_layers, reading

MAX_TOKENS = 2**25
"""A few numbers of every token are held: above this they would be gigabytes."""
MAX_WIDTH = 2**16
MAX_TEXT = 256
MAX_LAYERS = 1024
_LAYER = re.compile(r"layer_?(-?[0-9]{1,6})")
_UNPACKED, _EXPANSION = 2**28, 100
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
            # In texts numpy takes four bytes a character.
            longest = array.dtype.itemsize // (4 if array.dtype.kind == "U" else 1)
            if not 0 < longest <= MAX_TEXT:
                said = f"has room for {longest} characters; 1 to {MAX_TEXT} can be read"
                raise self._wrong(array.name, said, "Save labels: numpy.array(labels, dtype=str).")
            self._check_length(array, names[0], arrays[0].shape[0])
        if not 0 < arrays[0].shape[0] <= MAX_TOKENS:
            said = f"holds {arrays[0].shape[0]} tokens; 1 to {MAX_TOKENS} can be read"
            raise self._wrong(names[0], said, "Give a file with tokens, or part of one that is too long.")
        with reading(self.path):
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

    def _array(self, name: str) -> NamedArray:
        array = self.archive.arrays.get(name)
        # Archive.find refuses all but numbers, and labels are texts.
        if array is None or name in self.archive.refused or array.dtype.kind not in "USV":
            array = self.archive.find(name)
        assert isinstance(array, Stream)
        if array.fortran:
            raise self._wrong(name, "is stored in Fortran order", "Save it in C order: numpy.ascontiguousarray(x).")
        info, start = self.infos[name], None
        if info.compress_type == zipfile.ZIP_STORED:
            # Behind the member's own header, which may be longer than the list of members says, and numpy's.
            with reading(self.path) as file:
                file.seek(info.header_offset)
                # The fixed part has 30 bytes, of which the last four tell the lengths of the name and the extra field.
                start = info.header_offset + 30 + sum(struct.unpack("<26xHH", file.read(30)))
            start += info.file_size - math.prod(array.shape) * array.dtype.itemsize
        return NamedArray(array.opener, array.shape, False, array.dtype, name=name, start=start)

    def _check_length(self, array: NamedArray, beside: str, count: int, axis: int = 0) -> None:
        if array.shape[axis] != count:
            turned = axis == 1 and array.shape[0] == count
            hint = "Put the layers first: x.transpose(1, 0, 2)." if turned else "Save one entry for each token."
            raise self._wrong(array.name, f"has the shape {array.shape}, but {beside!r} holds {count} tokens", hint)

    def _texts(self, array: NamedArray) -> list[str | None]:
        read = array.reader()
        known: dict[object, str] = {}
        texts: list[str | None] = []
        for start in range(0, array.shape[0], _LABELS):
            values = read(start, min(start + _LABELS, array.shape[0])).tolist()
            for index, value in enumerate(values, start):
                key = value if isinstance(value, str | bytes) else json_text(value)
                # Labels repeat: each is judged once, and stands in memory once.
                if key not in known:
                    known[key] = _as_text(key, self.spot(index, array.name))
                texts.append(known[key])
        return texts

    def _places(self, arrays: Sequence[NamedArray], beside: str, count: int) -> dict[int, VectorPlace]:
        first = arrays[0]
        axes = len(first.shape)
        if axes == 3 and len(arrays) == 1:
            if first.shape[0] > MAX_LAYERS:
                raise self._wrong(first.name, f"has {first.shape[0]} layers", f"Save at most {MAX_LAYERS}.")
            self._check_length(first, beside, count, axis=1)
            depth, _, width = first.shape
            numbers = self._numbers(first, range(depth))
            return {number: VectorPlace((first,), place * count * width, width) for place, number in enumerate(numbers)}
        for array in arrays:
            if len(array.shape) != axes or axes not in (1, 2):
                hint = "Vectors are (tokens, width) or (layers, tokens, width); a feature alone is (tokens,)."
                raise self._wrong(array.name, f"has the shape {array.shape}", hint)
            self._check_length(array, beside, count)
        if axes == 1:
            return {0: VectorPlace(tuple(arrays), 0, len(arrays))}
        own = {layer_of(array.name): VectorPlace((array,), 0, array.shape[1]) for array in arrays}
        if len(arrays) == 1 and None in own:
            return {self._numbers(first, (0,))[0]: own[None]}
        known = {number: place for number, place in own.items() if number is not None}
        if len(known) < len(arrays):
            hint = "Name them layer_0, layer_1, ..., each number once."
            raise self._wrong(first.name, f"and {len(arrays) - 1} more are not one for each layer", hint)
        return dict(sorted(known.items()))

    def _numbers(self, beside: NamedArray, usual: Sequence[int]) -> Sequence[int]:
        if "layers" not in self.infos:
            return usual
        array = self._array("layers")
        numbers: list[int] = []
        if array.shape == (len(usual),) and array.dtype.kind in "iu":
            with reading(self.path):
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
    with reading(path) as file, zipfile.ZipFile(file) as members:
        infos = {name: members.getinfo(f"{name}.npy") for name in names}
    total, size = sum(info.file_size for info in infos.values()), path.stat().st_size
    if total > max(_UNPACKED, _EXPANSION * size):
        said = f"The archive unpacks to {total} bytes, over {_EXPANSION} times its size."
        hint = "Save it uncompressed (numpy.savez) if it really holds so little."
        raise InputError(said, where=str(path), hint=hint)
    return TokenArchive(path=path, archive=archive, infos=infos)


def _as_text(value: str | bytes | None, where: str) -> str:
    try:
        text = value.decode() if isinstance(value, bytes) else value or ""
        text.encode()
    except UnicodeError:
        raise InputError(f"{value!r} is not UTF-8 text.", where=where, hint="Save texts as str.") from None
    return text
