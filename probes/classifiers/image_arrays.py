"""Read images and labels of an NPZ or a CSV file exactly as stored; scale and range are for the caller to judge."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.arrays import Archive, StoredArray, open_archive
from probes.files.file_kinds import unexpected_kind
from probes.files.json_values import json_text
from probes.files.names import suggest
from probes.files.number_rows import BLOCK, NumberRows, counts_up, is_plain_number

_KINDS = "USiufb"
_SAVE = "Save both: numpy.savez_compressed(file, x=images, y=labels)."
_MAX_NUMBER = 2**31
_LABEL_NAMES = frozenset({"label", "labels", "class", "target", "y"})

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """Images as stored.

    Parameters
    ----------
    values
        One image an entry of the first axis.
    labels
        As stored, shape (n,).
    order
        Brings one image to (c, h, w).
    shape
        (c, h, w).
    columns
        Other values, one per image.
    locate
        Names the location of a value by the index of its image and its index in it, or None for the label.
    """

    values: NDArray[Any]
    labels: NDArray[Any]
    order: Callable[[NDArray[Any]], NDArray[Any]]
    shape: Shape
    layout: str
    columns: Mapping[str, Sequence[str | None]]
    locate: Callable[[int, int | None], str]


def read_arrays(path: Path, *, layout: str, shape: Shape | None, size: int = BLOCK) -> Arrays:
    """Read an NPZ with `x` (n, c, h, w) and `y`, or a CSV whose rows are a label and then pixels.

    Parameters
    ----------
    layout
        Order of the pixels in a CSV row of several channels: `hwc` or `chw`.
    shape
        (c, h, w) that the model takes; None: any, and that of a CSV follows from the number of its columns.
    size
        Characters of a CSV that are parsed at once.

    Raises
    ------
    InputError
        Where the file cannot be read, or does not hold one label and one image of the shape a row.
    """
    return _read_npz(path, shape) if is_archive(path) else _read_csv(path, layout, shape, size)


def is_archive(path: Path) -> bool:
    """Tell whether a file is a zip; one that is named so and is none is refused."""
    try:
        if path.exists() and not path.is_file():
            raise InputError("This is not an ordinary file.", where=str(path), hint="Name an NPZ, a CSV or a folder.")
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        # Reading it as text raises the refusal.
        return False
    if head.startswith(b"\x93NUMPY"):
        raise InputError(
            "The file holds one array without labels.",
            where=str(path),
            hint=_SAVE,
        )
    if head and path.suffix.lower() == ".npz" and head[:2] != b"PK" and unexpected_kind(head) is None:
        message = "The NPZ file is damaged: it is no zip archive."
        raise InputError(message, where=str(path), hint="Fetch or save it again.")
    return head[:2] == b"PK"


def _read_npz(path: Path, shape: Shape | None) -> Arrays:
    archive = open_archive(path, forms=("NPZ",), hint=_SAVE)
    for key in ("x", "y"):
        _check_there(archive, key)
    columns = [name for name, array in archive.arrays.items() if name != "x" and _is_column(array)]
    archive.check_expansion({"x", "y", *columns})
    labels = archive.arrays["y"].whole()
    values, shape = _check_shape(archive.arrays["x"].whole(), shape, f"{path}, x")
    count = len(values)
    if labels.shape != (count,):
        raise InputError(
            f"y has the shape {labels.shape}, x holds {count} images.",
            where=f"{path}, y",
            hint="Give one class index per image (of one-hot rows: y.argmax(axis=1)).",
        )
    return Arrays(
        values=values,
        labels=labels,
        order=_as_it_is,
        shape=shape,
        layout="NPZ array n,c,h,w",
        columns={name: _texts(archive.arrays[name]) for name in columns if archive.arrays[name].shape == (count,)},
        locate=partial(_entry, path),
    )


def _as_it_is(values: NDArray[Any]) -> NDArray[Any]:
    return values


def _entry(path: Path, index: int, position: int | None) -> str:
    return f"{path}, {'y' if position is None else 'x'}[{index}]"


def _check_there(archive: Archive, key: str) -> None:
    if key not in archive.arrays and key not in archive.refused:
        raise InputError(
            f"The archive has no array {key!r}.",
            where=str(archive.path),
            hint=f"{_SAVE} {suggest(key, tuple(archive.arrays))}",
        )
    archive.find(key, _KINDS)


def _is_column(array: StoredArray) -> bool:
    return len(array.shape) == 1 and array.dtype.kind in _KINDS


def _check_shape(values: NDArray[Any], expected: Shape | None, where: str) -> tuple[NDArray[Any], Shape]:
    """Return images as (n, c, h, w), and (c, h, w)."""
    if values.dtype.kind not in "iuf":
        raise InputError(
            f"The pixels are of the type {values.dtype}, not numbers.",
            where=where,
            hint="Save them as uint8 (0..255) or float32 (0..1).",
        )
    if values.ndim == 3:
        values = values[:, None]
    if values.ndim != 4:
        raise InputError(
            f"x has the shape {values.shape}, not (n, c, h, w) or (n, h, w).",
            where=where,
            hint="Reshape it, for instance x.reshape(n, 1, 28, 28).",
        )
    sides = values.shape[1:]
    if not values.size:
        raise InputError(f"x has the shape {values.shape}: there are no images.", where=where, hint="Give some.")
    shape = (sides[0], sides[1], sides[2])
    turned = (sides[2], sides[0], sides[1])
    if turned == expected != shape or (expected is None and sides[2] in (1, 3, 4) and min(sides[:2]) > sides[2]):
        raise InputError(
            f"x has the shape {values.shape}: the channels stand last.",
            where=where,
            hint="Put them first: x.transpose(0, 3, 1, 2).",
        )
    if expected not in (None, shape):
        raise InputError(
            f"The images have the shape {shape} (c, h, w), the model takes {expected}.",
            where=where,
            hint="Give the images for which the model was trained.",
        )
    return values, shape


def _texts(column: StoredArray) -> list[str | None]:
    """Return values as they would stand in a CSV file."""
    stored = column.items(0, column.shape[0])
    items = [item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in stored]
    return [item.encode("utf-8", "replace").decode() if isinstance(item, str) else json_text(item) for item in items]


def _read_csv(path: Path, layout: str, shape: Shape | None, size: int) -> Arrays:
    file = NumberRows(path, is_header=_is_header, largest=_MAX_NUMBER, row="a label and then pixels", size=size)
    channels, height, width = found = _row_shape(len(file.first) - 1, shape, f"{path}:{file.line}")
    labels, pixels = [], []
    for block in file.blocks():
        labels.append(block[:, 0].copy())
        pixels.append(_small(block[:, 1:]))
    last = channels > 1 and layout == "hwc"
    semicolons = " between semicolons" * file.semicolons + ", with decimal commas" * file.decimal_comma
    return Arrays(
        values=np.concatenate(pixels),
        labels=np.concatenate(labels),
        order=partial(_unfold, (height, width, channels) if last else found, last),
        shape=found,
        layout=f"CSV rows {'h,w' if channels == 1 else ','.join(layout)}{semicolons}",
        columns={},
        locate=partial(_location, file),
    )


def _small(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return pixels as uint8 if all are whole numbers from 0 to 255, and else as they are."""
    if pixels.dtype.kind in "iu" and pixels.size and pixels.min() >= 0 and pixels.max() <= 255:
        return pixels.astype(np.uint8)
    return pixels.copy()


def _unfold(sides: Shape, last: bool, row: NDArray[Any]) -> NDArray[Any]:
    image = row.reshape(sides)
    return image.transpose(2, 0, 1) if last else image


def _is_header(fields: Sequence[str], where: str) -> bool:
    """Tell whether a first row names the columns; a row whose label alone is no number does not."""
    if is_plain_number(fields[0]):
        return len(fields) > 2 and counts_up(fields)
    rest = fields[1:]
    counted = counts_up(rest) or counts_up(rest, 1)
    if not counted and all(map(is_plain_number, rest)):
        raise InputError(
            f"The label {fields[0]!r} is not a number.", where=f"{where}, column 1", hint="Give the index of the class."
        )
    named = next((name for name in rest if name.casefold() in _LABEL_NAMES), None)
    if named is not None and fields[0].casefold() not in _LABEL_NAMES:
        raise InputError(
            f"The column {named!r} is not the first.", where=where, hint="Put the label before the pixels."
        )
    return True


def _row_shape(count: int, expected: Shape | None, where: str) -> Shape:
    """Return (c, h, w) of a row of `count` pixels."""
    if expected is not None:
        if math.prod(expected) != count:
            raise InputError(
                f"A row holds {count} pixels after its label, the model takes {' x '.join(map(str, expected))}"
                f" = {math.prod(expected)}.",
                where=where,
                hint="Write the label and then every pixel, separated by commas.",
            )
        return expected
    for channels in (1, 3):
        side = math.isqrt(count // channels)
        if count and channels * side * side == count:
            return channels, side, side
    raise InputError(
        f"A row holds {count} pixels after its label: no square image of 1 or 3 channels.",
        where=where,
        hint="Write the label and then every pixel, separated by commas; give other shapes as NPZ.",
    )


def _location(file: NumberRows, index: int, position: int | None) -> str:
    """Return line and column of a value in a CSV, for an error; the file is read again."""
    line, _ = next(islice(file.rows(), index, None))
    return f"{file.path}:{line}, column {1 if position is None else position + 2}"
