"""Vectors of a speech encoder's layers that a user computed himself, in place of the encoder.

A safetensors or NPZ file, or a folder of such files, holds one array a clip under the clip's key, by default its path
as the manifest writes it: frames, of shape (layers, frames, width), or one vector a layer, (layers, width). Layer 0 is
the input of the first block. `hop`, the samples at 16 kHz from one frame to the next, stands in the metadata of a
safetensors file, and as an array of one number in an NPZ. What stands in a file is known from headers; values are read
clip by clip, so that memory does not grow with the corpus.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.arrays import Archive, open_archive
from probes.files.npy import Header, Plain
from probes.files.opening import check_unchanged, read_head, reading, stamp
from probes.files.safe_paths import check_link
from probes.files.safe_tensors import check_safetensors
from probes.speech.frames import RATE

SUFFIXES = (".safetensors", ".npz")
HOP = "hop"
"""What tells the samples between two frames: a key of the metadata, or an array of one number."""
SLACK, SHARE = 2, 0.02
"""Frames, and share of the frames, by which a clip may have more or fewer than its length and the hop say."""
MOST_LAYERS, MOST_WIDTH, MOST_BYTES = 1000, 2**20, 2**31
"""Largest numbers of layers and of values of a vector, and bytes of one clip, that are read."""
_MOST_FILES, _MOST_OPEN = 2**20, 8
_DTYPES = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}
_SHAPES = "Save an array of shape (layers, frames, width), or (layers, width), for each clip."
_NO_CONFIG = "If these are the weights of a model, give its folder, with config.json."


@dataclass(frozen=True, slots=True)
class _Entry:
    """An array of a clip, from what headers say; `start` is where its values begin, -1 in an NPZ."""

    path: Path
    shape: tuple[int, ...]
    kind: str
    start: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerVectors:
    """Files of vectors of one encoder, of which only headers have been read.

    Parameters
    ----------
    entries
        Arrays by key.
    layers, width
        Number of layers, and of values of a vector, the same for every clip.
    hop
        Samples at 16 kHz from one frame to the next; None where there are no frames.
    stamps
        Of each file when its header was read.
    """

    path: Path
    entries: Mapping[str, _Entry]
    layers: int
    width: int
    hop: float | None
    stamps: Mapping[Path, tuple[int, ...]]
    _archives: "OrderedDict[Path, Archive]" = field(default_factory=OrderedDict, repr=False, compare=False)

    @property
    def framed(self) -> bool:
        """Whether there are frames, and not one vector a layer."""
        return self.hop is not None

    def frames(self, key: str) -> int:
        """Return the number of frames of a clip; 1 of one that has one vector a layer."""
        shape = self.entries[key].shape
        return shape[1] if len(shape) == 3 else 1

    def check_length(self, key: str, samples: int, where: str) -> None:
        """Refuse frames that are too many or too few for `samples` at 16 kHz.

        Raises
        ------
        InputError
            Where they are, with `where`, such as a line of a manifest.
        """
        if self.hop is None:
            return
        frames, expected = self.frames(key), samples / self.hop
        if abs(frames - expected) <= max(SLACK, SHARE * expected):
            return
        raise InputError(
            f"{frames} frames, {self.hop:g} samples apart, are not of this clip of {samples} samples at {RATE} Hz, "
            f"which has about {expected:.0f}.",
            where=where,
            hint=f"Write the right {HOP!r}, and cut off the frames of what a batch or a window was padded with.",
        )

    def read(self, key: str) -> NDArray[np.float32]:
        """Return the vectors of a clip, shape (layers, frames, width).

        Raises
        ------
        InputError
            Where the file is damaged or changed meanwhile, or a value is not a finite number.
        """
        entry = self.entries[key]
        where = f"{entry.path}, {key}"
        if entry.start >= 0:
            with reading(entry.path):
                check_unchanged(entry.path, self.stamps[entry.path])
                header = Header(entry.shape, False, np.dtype(_DTYPES[entry.kind]), 0)
                stored = Plain(entry.path, header, entry.start).rows(0, entry.shape[0])
            values = _floats(stored, brain=entry.kind == "BF16")
        else:
            values = _floats(self._archive(entry.path).find(key).whole())
        values = values if values.ndim == 3 else values[:, None]
        if not np.isfinite(values).all():
            layer, frame, _ = np.argwhere(~np.isfinite(values))[0].tolist()
            raise InputError(
                f"A value of layer {layer}, frame {frame}, is not a finite number of float32.",
                where=where,
                hint="Compute the vectors of this clip again; in float16 large values become infinite.",
            )
        return values

    def digest(self, key: str) -> str:
        """Return the hash of a clip's vectors in float32, by which they are known in whatever file they stand."""
        values = np.ascontiguousarray(self.read(key))
        found = hashlib.sha256(repr(values.shape).encode())
        found.update(values.data.cast("B") if values.size else b"")
        return found.hexdigest()

    def _archive(self, path: Path) -> Archive:
        """Return an open NPZ; the eight that were read last stay open, each in a process of its own."""
        check_unchanged(path, self.stamps[path])
        if path not in self._archives:
            while len(self._archives) >= _MOST_OPEN:
                self._archives.popitem(last=False)
            self._archives[path] = open_archive(path, forms=("NPZ",))
        self._archives.move_to_end(path)
        return self._archives[path]


def _floats(stored: NDArray[Any], *, brain: bool = False) -> NDArray[np.float32]:
    if brain:
        # A bfloat16 is the upper half of a float32.
        return (stored.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        return stored.astype(np.float32)


def are_vectors(reference: str) -> bool:
    """Tell whether a path is of vectors, and not of a model: a file, or a folder of files, without a model's names."""
    path = Path(reference).expanduser()
    if path.is_file():
        return path.suffix in SUFFIXES
    if not path.is_dir() or (path / "config.json").exists() or any(path.glob("model*.safetensors")):
        return False
    return next(_files(path), None) is not None


def open_vectors(reference: str) -> LayerVectors:
    """Read the headers of a file, or of all files of a folder, of vectors.

    Raises
    ------
    InputError
        Where a file cannot be read, a key stands in two of them, shapes contradict each other, or there are frames and
        nothing says how far apart, or no frames and something says it.
    """
    path = Path(reference).expanduser()
    entries: dict[str, _Entry] = {}
    hops: dict[Path, float] = {}
    stamps: dict[Path, tuple[int, ...]] = {}
    for file in [path] if path.is_file() else _listed(path):
        # Without the time of the last change of its status: a backup may link to the file.
        stamps[file] = stamp(file)[:-1]
        found, hop = _headers(file)
        if hop is not None:
            hops[file] = hop
        for key, entry in found.items():
            if key in entries:
                hint = "Leave one of them out."
                raise InputError(f"{key!r} also stands in {entries[key].path}.", where=str(file), hint=hint)
            entries[key] = entry
    if not entries:
        raise InputError("There is no array of a clip in it.", where=str(path), hint=_SHAPES)
    layers, width, framed = _agreed(entries)
    if hops and not framed:
        key, entry = next(iter(entries.items()))
        raise InputError(
            f"{HOP!r} says how far apart frames are, and the array of {key!r}, {entry.shape}, has no axis of frames.",
            where=str(entry.path),
            hint=f"{_SHAPES} Frames of one layer are (1, frames, width); with one vector a layer leave {HOP!r} out.",
        )
    return LayerVectors(
        path=path, entries=entries, layers=layers, width=width, hop=_hop(hops, path) if framed else None, stamps=stamps
    )


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.iterdir() if file.suffix in SUFFIXES)


def _listed(folder: Path) -> list[Path]:
    found: list[Path] = []
    for file in _files(folder):
        check_link(file, folder)
        found.append(file)
        if len(found) > _MOST_FILES:
            hint = "Save the vectors of many clips in one file."
            raise InputError(f"The folder has more than {_MOST_FILES} files.", where=str(folder), hint=hint)
    return sorted(found)


def _headers(path: Path) -> tuple[dict[str, _Entry], float | None]:
    """Return the arrays of a file by key, and its hop where it says one."""
    head = read_head(path, wanted="a file of vectors", hint="Save vectors as safetensors or NPZ.")
    return _npz_headers(path) if head.startswith(b"PK") else _safetensors_headers(path)


def _safetensors_headers(path: Path) -> tuple[dict[str, _Entry], float | None]:
    start, header = check_safetensors(path)
    metadata = header.pop("__metadata__", None) or {}
    entries = {}
    for key, entry in header.items():
        if entry["dtype"] not in _DTYPES:
            raise _wrong(path, key, f"holds values of the kind {entry['dtype']}", "Save float16 or float32.")
        shape = tuple(entry["shape"])
        entries[key] = _Entry(path, shape, entry["dtype"], start + entry["data_offsets"][0])
        _check_shape(path, key, shape)
    text = metadata.get(HOP) if isinstance(metadata, dict) else None
    return entries, None if text is None else _as_hop(text, path)


def _npz_headers(path: Path) -> tuple[dict[str, _Entry], float | None]:
    archive = open_archive(path, forms=("NPZ",), hint="Save vectors as safetensors or NPZ.")
    entries, hop = {}, None
    for key in (*archive.arrays, *archive.refused):
        array = archive.find(key, "fiu")
        if key == HOP and not array.shape:
            hop = _as_hop(array.whole().item(), path)
            continue
        if array.dtype.kind != "f" or array.dtype.itemsize > 8:
            raise _wrong(path, key, f"holds values of the type {array.dtype}", "Save float16 or float32.")
        _check_shape(path, key, array.shape)
        entries[key] = _Entry(path, array.shape, array.dtype.str)
    return entries, hop


def _check_shape(path: Path, key: str, shape: Sequence[int]) -> None:
    if len(shape) not in (2, 3) or not 0 < shape[0] <= MOST_LAYERS or not 0 < shape[-1] <= MOST_WIDTH:
        raise _wrong(path, key, f"has the shape {tuple(shape)}", f"{_SHAPES} {_NO_CONFIG}")
    if 4 * math.prod(shape) > MOST_BYTES:
        raise _wrong(path, key, f"is too large, {tuple(shape)}", "Cut the recording into utterances.")


def _wrong(path: Path, key: str, what: str, hint: str) -> InputError:
    return InputError(f"The array of {key!r} {what}.", where=str(path), hint=hint)


def _as_hop(value: object, path: Path) -> float:
    try:
        hop = float(str(value)[:40])
    except ValueError:
        hop = math.nan
    if 1 <= hop <= 10 * RATE:
        return hop
    raise InputError(
        f"{HOP!r} is {str(value)[:40]!r}.",
        where=f"{path}, {HOP}",
        hint=f"Write how many samples at {RATE} Hz lie between two frames: 320 where they are 20 ms apart.",
    )


def _hop(hops: Mapping[Path, float], path: Path) -> float:
    if not hops:
        raise InputError(
            f"Nothing says how far apart the frames are: there is no {HOP!r}.",
            where=str(path),
            hint=f"Write the samples at {RATE} Hz between two frames, such as 320, into the metadata of a safetensors "
            f"file, or into an NPZ as an array {HOP!r} of one number.",
        )
    (first, hop), *others = hops.items()
    for file, other in others:
        if other != hop:
            message = f"{HOP!r} is {other:g} here, and {hop:g} in {first}."
            raise InputError(message, where=f"{file}, {HOP}", hint="Give vectors of one encoder.")
    return hop


def _agreed(entries: Mapping[str, _Entry]) -> tuple[int, int, bool]:
    """Return layers, width, and whether there are frames, of which all clips have to have the same."""
    (first, one), *others = entries.items()
    for key, entry in others:
        for what, ours, theirs in (
            ("layers", entry.shape[0], one.shape[0]),
            ("values a vector", entry.shape[-1], one.shape[-1]),
            ("axes", len(entry.shape), len(one.shape)),
        ):
            if ours != theirs:
                raise _wrong(
                    entry.path,
                    key,
                    f"has {ours} {what}, that of {first!r} has {theirs}",
                    f"Give vectors of one encoder. {_SHAPES}",
                )
    return one.shape[0], one.shape[-1], len(one.shape) == 3
