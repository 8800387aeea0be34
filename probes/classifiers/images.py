"""Load labelled images from arrays, CSV or a folder: pixels in [0, 1], labels and groups.

NPZ arrays, CSV rows and folders become one record. Arrays keep the type in which they are stored; an image turns
into float32 in [0, 1] when it is read, always into the same bytes. Whatever is decided about the scale is reported
in a note, because a radius is in the units of the pixels.
"""

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.classifiers.class_folders import Folder, read_folder
from probes.classifiers.class_maps import FLAG as CLASS_MAP
from probes.classifiers.class_maps import ClassMap
from probes.classifiers.image_arrays import Arrays, Shape, read_arrays
from probes.core.errors import InputError
from probes.core.hashing import sha256_file, sha256_json
from probes.core.progress import Progress
from probes.files.foreign_paths import with_slashes
from probes.files.images import Resizing
from probes.files.levels import UNKNOWN, Levels
from probes.files.names import suggest
from probes.files.tables import Table, read_table

_ROUNDING = 1e-5
_MAX_LABEL = 2**31

Pixels = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Images:
    """Labelled images; those of a folder are read lazily.

    Parameters
    ----------
    sha256
        Of the content: pixels as used (in folders the bytes of the files), labels and attributes.
    shape
        (c, h, w) of every image.
    labels
        Class of each image, shape (n,).
    names
        What identifies each image: its row, or its path relative to the folder.
    class_names
        Of folders: name of label i.
    attributes
        Value per image of each column of `by`; `unknown` where there is none.
    stored
        Smallest and largest value as stored.
    divisor
        1 or 255: pixels = stored / divisor.
    layout
        What was read, in words.
    notes
        Decisions that a user should see.
    read
        The stored values of one image, shape (c, h, w).
    """

    path: str
    sha256: str
    shape: Shape
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    class_names: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]]
    stored: tuple[float, float]
    divisor: float
    layout: str
    notes: tuple[str, ...]
    read: Callable[[int], NDArray[Any]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def pixels(self, index: int) -> Pixels:
        """Return an image as float32 (c, h, w) in [0, 1], in C order."""
        return scaled(self.read(index), self.divisor)

    def digest(self, index: int) -> str:
        """Return the SHA-256 of an image's shape and pixels as used."""
        return digest_of(self.pixels(index))


def load_images(
    path: Path,
    *,
    layout: str = "hwc",
    by: tuple[str, ...] = (),
    attributes: Path | None = None,
    shape: Shape | None = None,
    class_names: tuple[str, ...] = (),
    resize: bool | Resizing = False,
    taken: slice = slice(None),
    decoding: Progress | None = None,
    class_map: ClassMap | None = None,
    processor: bool = False,
) -> Images:
    """Load labelled images: NPZ (`x` (n, c, h, w) and `y`), CSV (label, then pixels) or a folder.

    Parameters
    ----------
    layout
        Order of the pixels in a CSV row of several channels: `hwc` or `chw`.
    by
        Columns whose values are the groups, of the data or of `attributes`.
    attributes
        A table with one row per image, in order or with a column `idx` (row) or, for folders, `file_name`.
    shape
        (c, h, w) that the model takes; None: unknown.
    class_names
        The model's own names, in the order of its outputs: used for folders.
    resize
        Bring the images of a folder to (h, w) of `shape` instead of refusing other sizes, or each as a `Resizing` says.
    taken
        The images that will be used: others of a folder are not opened, whatever their size.
    decoding
        Where headers of a folder are refused, decode its other images too, with this progress: one refusal names all.
    class_map
        Which output of the classifier each class folder stands for.
    processor
        Whether the classifier says how its pictures are resized, to be offered where a size is refused.

    Raises
    ------
    InputError
        Where the data cannot be read, contradicts itself or the model, or lacks a column.
    """
    if layout not in ("hwc", "chw"):
        raise InputError(f"There is no layout {layout!r}.", where="--layout", hint="Choose hwc or chw.")
    # For a path without permission os.path says that it is no folder; the reader then raises the refusal.
    if os.path.isdir(path):  # noqa: PTH112
        folder = read_folder(
            path,
            shape=shape,
            class_names=class_names,
            resize=resize,
            taken=taken,
            decoding=decoding,
            class_map=class_map,
            processor=processor,
        )
        return _from_folder(path, folder, by, attributes, resize)
    if class_map is not None:
        hint = "Leave it out: arrays hold the numbers of their classes."
        raise InputError("Only folders by class need a map of their classes.", where=CLASS_MAP, hint=hint)
    if isinstance(resize, Resizing):
        raise InputError("Arrays are not resized.", where="--resize", hint="Resize them yourself, or give a folder.")
    return _from_arrays(path, read_arrays(path, layout=layout, shape=shape), by, attributes)


def _from_arrays(path: Path, arrays: Arrays, by: tuple[str, ...], attributes: Path | None) -> Images:
    labels = _labels(arrays)
    stored, divisor, notes = _scale(arrays)
    names = tuple(str(index) for index in range(len(labels)))
    groups, more = _attributes(path, by, attributes, names, arrays.columns, files=False)
    read = partial(_entry, arrays.values, arrays.order)
    content = {
        "labels": labels.tolist(),
        "attributes": groups,
        "images": [digest_of(scaled(read(index), divisor)) for index in range(len(labels))],
    }
    return Images(
        path=str(path),
        sha256=sha256_json(content),
        shape=arrays.shape,
        labels=labels,
        names=names,
        class_names=(),
        attributes=groups,
        stored=stored,
        divisor=divisor,
        layout=arrays.layout,
        notes=(*notes, *more),
        read=read,
    )


def _from_folder(
    path: Path, folder: Folder, by: tuple[str, ...], attributes: Path | None, resize: bool | Resizing
) -> Images:
    groups, more = _attributes(path, by, attributes, folder.names, folder.columns, files=True)
    content = {
        "shape": folder.shape,
        "labels": folder.labels.tolist(),
        "attributes": groups,
        "files": [[name, sha256_file(file)] for name, file in zip(folder.names, folder.files, strict=True)],
    } | ({"resizing": resize.words} if isinstance(resize, Resizing) else {})
    return Images(
        path=str(path),
        sha256=sha256_json(content),
        shape=folder.shape,
        labels=folder.labels,
        names=folder.names,
        class_names=folder.class_names,
        attributes=groups,
        stored=(0.0, 255.0),
        divisor=255.0,
        layout=folder.layout,
        notes=("The values 0..255 were divided by 255.", *folder.notes, *more),
        read=folder.read,
    )


def _entry(values: NDArray[Any], order: Callable[[NDArray[Any]], NDArray[Any]], index: int) -> NDArray[Any]:
    return order(values[index])


def scaled(values: NDArray[Any], divisor: float) -> Pixels:
    """Return stored values as float32 in [0, 1]."""
    # Into one array: each copy of a large image would have four bytes a value.
    pixels = np.empty(values.shape, dtype=np.float32)
    np.divide(values, np.float32(divisor), out=pixels, dtype=np.float32, casting="unsafe")
    return np.clip(pixels, 0.0, 1.0, out=pixels)


def digest_of(pixels: Pixels) -> str:
    """Return the SHA-256 of an image's shape and pixels."""
    digest = hashlib.sha256(",".join(str(side) for side in pixels.shape).encode())
    # One byte order, since hashes of different machines are compared.
    digest.update(pixels.astype("<f4", copy=False).data)
    return digest.hexdigest()


def _scale(arrays: Arrays) -> tuple[tuple[float, float], float, list[str]]:
    """Return the range as stored, what it is divided by, and notes on that choice."""
    values = arrays.values
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(low) or not math.isfinite(high):
        index, position = _first(values, lambda row: ~np.isfinite(row))
        raise InputError(
            f"The pixel {values[index].ravel()[position]} is not a finite number.",
            where=arrays.locate(index, position),
            hint="Mend or drop this image.",
        )
    whole = values.dtype.kind in "iu"
    divisor = 1.0 if high <= (1.0 if whole else 1.0 + _ROUNDING) else 255.0
    if low < -_ROUNDING * divisor:
        index, position = _first(values, lambda row: row < -_ROUNDING * divisor)
        raise InputError(
            f"The pixel {values[index].ravel()[position]} is negative (the smallest is {low:g}).",
            where=arrays.locate(index, position),
            hint="Give raw pixels, 0..255 or 0..1: normalisation belongs into the model.",
        )
    if high > 255.0 * (1.0 + _ROUNDING):
        index, position = _first(values, lambda row: row > 255.0 * (1.0 + _ROUNDING))
        raise InputError(
            f"The pixel {values[index].ravel()[position]} is above 255 (the largest is {high:g}).",
            where=arrays.locate(index, position),
            hint="Give pixels of 8 bits (0..255), or divide by the largest value that they can take.",
        )
    notes = [f"The values {low:g}..{high:g} were divided by 255."] if divisor > 1.0 else []
    if 1.0 < high <= 64.0 and divisor > 1.0:
        notes.append(
            f"The largest value is only {high:g}: is the scale right? Rescale them yourself if they are not 0..255."
        )
    if divisor == 1.0 and whole:
        notes.append("The values are the integers 0 and 1, and were taken as they are.")
    if low < 0.0 or high > 255.0 or (divisor == 1.0 and high > 1.0):
        notes.append("Values beyond the range by no more than rounding were clipped.")
    return (low, high), divisor, notes


def _first(values: NDArray[Any], test: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> tuple[int, int]:
    """Return the indices of the image and of the value in it that first pass a test."""
    for index, image in enumerate(values):
        # Half precision would round the bounds of the test, 255.00255 to 255.
        found = np.flatnonzero(test(image.ravel().astype(np.float64)))
        if len(found):
            return index, int(found[0])
    raise AssertionError("no value is found")


def _labels(arrays: Arrays) -> NDArray[np.int64]:
    labels = arrays.labels
    if labels.dtype.kind == "f":
        # Half precision cannot even hold the limit below.
        labels = labels.astype(np.float64)
    if labels.dtype.kind not in "iuf":
        raise InputError(
            f"The labels are of the type {labels.dtype}, not whole numbers.",
            where=arrays.locate(0, None),
            hint="Give the index of each class, from 0.",
        )
    # NaN compares false, and so counts as bad.
    good = (labels >= 0) & (labels < _MAX_LABEL) & (labels == np.floor(labels))
    if not good.all():
        index = int(np.flatnonzero(~good)[0])
        raise InputError(
            f"The label {labels[index]} is not a whole number from 0 on.",
            where=arrays.locate(index, None),
            hint="Give the index of each class, from 0.",
        )
    return labels.astype(np.int64)


def _attributes(
    path: Path,
    by: tuple[str, ...],
    file: Path | None,
    names: tuple[str, ...],
    own: Mapping[str, Sequence[str | None]],
    *,
    files: bool,
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the level of each image in each column of `by`, and notes; the table goes before the data's own."""
    columns = {name: (values, str(path)) for name, values in own.items()}
    notes = []
    if file is not None:
        table = read_table(file)
        key = next((name for name in (("file_name",) if files else ()) + ("idx",) if name in table.columns), None)
        table.check_flat([*filter(None, [key]), *(name for name in by if name in table.columns)])
        rows = _align(table, names, key)
        for name in table.columns:
            columns[name] = [None if row is None else table.rows[row].values.get(name) for row in rows], str(file)
        without = rows.count(None)
        if without:
            notes.append(f"{without} of {len(names)} images have no row in {file.name} and count as {UNKNOWN}.")
        if not by:
            notes.append(f"{file.name} was not used: no column of it was asked for.")
    groups = {}
    for name in dict.fromkeys(by):
        where = f"{file or path}, --by"
        if name not in columns:
            raise InputError(f"There is no column {name!r}.", where=where, hint=suggest(name, tuple(columns)))
        if "&" in name or "=" in name:
            raise InputError(
                f"The column name {name!r} holds & or =, which separate the parts of a group's name.",
                where=where,
                hint="Rename the column.",
            )
        values, source = columns[name]
        rule = Levels(name)
        groups[name] = tuple(
            rule.level(value, f"{source}, {name} of {of}") for value, of in zip(values, names, strict=True)
        )
        notes += [note.message for note in rule.notes() if note.id != "manifest.case"]
    return groups, notes


def _align(table: Table, names: tuple[str, ...], key: str | None) -> list[int | None]:
    """Return the row of each image: by a column that identifies it, or else in order."""
    if key is None:
        if len(table.rows) != len(names):
            raise InputError(
                f"The table has {len(table.rows)} rows, the data {len(names)} images.",
                where=str(table.path),
                hint="Give one row per image in the same order, or say in a column idx (from 0) which is meant.",
            )
        return list(range(len(names)))
    indices = {name: index for index, name in enumerate(names if key == "file_name" else map(str, range(len(names))))}
    rows: list[int | None] = [None] * len(names)
    for number, row in enumerate(table.rows):
        name = (row.values.get(key) or "").strip()
        index = indices.get(name, indices.get(with_slashes(name)))
        if index is None or rows[index] is not None:
            raise InputError(
                f"The {key} {name!r} {'names no image' if index is None else 'stands twice'}.",
                where=f"{table.path}:{row.line}",
                hint=f"Give one row per image, named as {names[0]!r} is."
                if key == "file_name"
                else f"Give one row per image, from 0 to {len(names) - 1}.",
            )
        rows[index] = number
    return rows
