"""List the arrays of an HDF5 file (a MATLAB 7.3 file included), and which of them may be read.

HDF5 can send a reader to other files: by external links, by virtual data sets, by storage outside the file. None of
them is followed; soft links are resolved step by step so that they stay inside. Data are read by slices.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from probes.files.stored import Refusal, Stored, Window

GROUPED = "HDF5, a group a sample"
"""The form of a file in which every sample has a group of its own."""
_MATLAB = b"MATLAB 7.3"
_FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32", 5: "nbit", 6: "scaleoffset", 32000: "lzf"}
"""What HDF5 and h5py undo themselves; any other filter would load a program from elsewhere."""
_DEEPEST = 3
_MOST_NAMES = 10_000
_LINKS = 16


@dataclass(frozen=True, slots=True)
class Hdf5Array:
    """A data set; MATLAB writes the axes in reverse order, which is undone."""

    data: Any
    reverse: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its axes."""
        return tuple(self.data.shape[::-1] if self.reverse else self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a stored value."""
        kind: np.dtype[Any] = self.data.dtype
        return kind

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given."""
        slices = [slice(None)] * len(self.data.shape)
        slices[0] = slice(start, stop)
        if window:
            slices[window[0]] = slice(*window[1:])
        values: NDArray[Any] = self.data[tuple(slices[::-1] if self.reverse else slices)]
        return values.T if self.reverse else values


@dataclass(frozen=True, slots=True)
class Hdf5Samples:
    """One data set a sample, each in a group of its own: `0000/data`, `0001/data`, ...

    Parameters
    ----------
    names
        Of the data sets, in the order of the samples.
    first
        The first of them, which all others must equal in shape.
    """

    file: Any
    names: tuple[str, ...]
    first: Hdf5Array
    limits: tuple[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its axes, the samples first."""
        return (len(self.names), *self.first.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a stored value."""
        return self.first.dtype

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return samples; of another axis only a window (axis, from, to) where one is given."""
        inner = (window[0] - 1, window[1], window[2]) if window else None
        return np.stack([self._sample(name, inner) for name in self.names[start:stop]])

    def _sample(self, name: str, window: Window | None) -> NDArray[Any]:
        data = _array(self.file, name, self.limits, reverse=False)
        if data.shape != self.first.shape:
            raise Refusal(f"{name!r} has the shape {data.shape}, the first sample {self.first.shape}")
        if window and window[0] == 0:
            return data.rows(window[1], window[2])
        return data.rows(0, data.shape[0], window)


def read_hdf5(path: Path, most: int) -> tuple[dict[str, Stored], dict[str, Refusal], str]:
    """Return the arrays of a file by name, those that are refused, and the form in words.

    Parameters
    ----------
    most
        Bytes to which one compressed chunk may unpack.
    """
    with path.open("rb") as opened:
        reverse = opened.read(len(_MATLAB)) == _MATLAB
    limits = (most, path.stat().st_size)
    # Some network disks cannot lock; nothing is written here.
    file = h5py.File(path, "r", locking="best-effort")
    arrays: dict[str, Stored] = {}
    refused: dict[str, Refusal] = {}
    samples = _sample_names(file)
    for name in _names(file, refused, skipped=bool(samples)):
        try:
            arrays[name] = _array(file, name, limits, reverse=reverse)
        except Refusal as refusal:
            refused[name] = refusal.without_traceback()
    if samples:
        first = _array(file, samples[0], limits, reverse=False)
        arrays["data"] = Hdf5Samples(file, samples, first, limits)
        arrays |= _sample_coordinates(file, samples[0].removesuffix("/data"), limits)
        return arrays, refused, GROUPED
    matlab = reverse or any(item.reverse for item in arrays.values() if isinstance(item, Hdf5Array))
    return arrays, refused, "MATLAB 7.3" if matlab else "HDF5"


def _sample_names(file: Any) -> tuple[str, ...]:
    """Return the data sets of a file each of whose groups is a numbered sample; () for any other file."""
    names = list(file)
    if not names or not all(name.isascii() and name.isdigit() for name in names):
        return ()
    # Python refuses to read a number of thousands of digits, which a name may be.
    ordered = sorted(names, key=lambda name: (int(name[:18]), name))
    try:
        _node(file, f"{ordered[0]}/data")
    except (Refusal, KeyError):
        return ()
    return tuple(f"{name}/data" for name in ordered)


def _sample_coordinates(file: Any, group: str, limits: tuple[int, int]) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    for axis in ("x", "y", "z"):
        try:
            found[f"{axis}-coordinate"] = _array(file, f"{group}/grid/{axis}", limits, reverse=False)
        except (Refusal, KeyError):
            continue
    return found


def _names(file: Any, refused: dict[str, Refusal], *, skipped: bool) -> Iterator[str]:
    """Yield the names of data sets, down to a few levels; a group reached through a bad link is refused."""
    waiting = [] if skipped else [(name, 1) for name in file]
    seen = 0
    while waiting and seen < _MOST_NAMES:
        name, depth = waiting.pop(0)
        seen += 1
        try:
            node = _node(file, name)
        except Refusal as refusal:
            refused[name] = refusal.without_traceback()
            continue
        if not isinstance(node, h5py.Group):
            yield name
        # Under #refs# MATLAB keeps what its cells point to.
        elif depth < _DEEPEST and name != "#refs#":
            waiting += [(f"{name}/{inner}", depth + 1) for inner in node]


def _node(file: Any, name: str, links: int = 0) -> Any:
    """Return the object of a name, after checking every link on the way to it."""
    node = file
    for part in name.split("/"):
        if part in ("", "."):
            continue
        if not isinstance(node, h5py.Group):
            raise Refusal("is a link to nothing")
        try:
            link = node.get(part, getlink=True)
        except TypeError:
            raise Refusal("is a link of an unknown kind") from None
        if isinstance(link, h5py.ExternalLink):
            raise Refusal("is a link to another file", "Copy the data into one file.")
        if isinstance(link, h5py.SoftLink):
            if links >= _LINKS:
                raise Refusal("is a link that leads in circles")
            node = _node(file, link.path if link.path.startswith("/") else f"{node.name}/{link.path}", links + 1)
        elif link is None:
            raise Refusal("is a link to nothing")
        else:
            node = node[part]
    return node


def _array(file: Any, name: str, limits: tuple[int, int], *, reverse: bool) -> Hdf5Array:
    data = _node(file, name)
    if not isinstance(data, h5py.Dataset):
        raise Refusal("is no data set")
    # Even asking for the shape of a virtual data set can open other files.
    if data.is_virtual or data.external:
        raise Refusal("keeps its values in other files", "Copy the data into one file.")
    try:
        kind = data.dtype
    except TypeError:
        raise Refusal("has a type that is not known here") from None
    if kind.hasobject:
        raise Refusal("holds references or texts, not numbers", "Save plain numbers.")
    if data.shape is None or "MATLAB_empty" in data.attrs:
        raise Refusal("is empty")
    _check_storage(data, *limits)
    return Hdf5Array(data, reverse or "MATLAB_class" in data.attrs)


def _check_storage(data: Any, most: int, held: int) -> None:
    """Refuse filters from elsewhere, chunks that unpack to too much, and data of which a part was never written."""
    settings = data.id.get_create_plist()
    for index in range(settings.get_nfilters()):
        number = settings.get_filter(index)[0]
        if number not in _FILTERS:
            raise Refusal(f"is packed by filter {number}, which needs a plug-in", "Repack it: h5repack -f GZIP=4.")
    stored, needed = data.id.get_storage_size(), math.prod(data.shape) * data.dtype.itemsize
    # HDF5 invents fill values for data never written: a few bytes could promise terabytes of zeros.
    whole = stored > 0 or needed == 0
    if data.chunks:
        chunk = math.prod(data.chunks) * data.dtype.itemsize
        if chunk > most:
            raise Refusal(f"has chunks that unpack to {chunk} bytes", "Save it with smaller chunks.")
        pieces = math.prod(-(-size // part) for size, part in zip(data.shape, data.chunks, strict=True))
        whole = data.id.get_num_chunks() >= pieces
    if not whole:
        raise Refusal(f"promises {needed} bytes, of which a part was never written", "Fetch or save it again.")
    if stored > held:
        raise Refusal(f"promises {stored} bytes in a file of {held}", "Fetch or save it again.")
