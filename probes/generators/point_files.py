"""Read points from a folder of images, flat or nested and without labels, or from the rows of a CSV.

Of images only headers are read while listing. What would change pixels silently (16 bits, several frames, another
size) is refused with the file's name.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.image_folders import OUTSIDE, ImageFile, ImageFolder
from probes.files.images import Header
from probes.files.number_rows import BLOCK, NumberRows, counts_up, is_plain_number

Singles = NDArray[np.float32]

_FORMATS = ("PNG", "JPEG")
_PLAIN = ("RGB", "P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Points of a file or a folder, of which none has been read yet.

    Parameters
    ----------
    shape
        Of one point, (c, h, w) or (d,).
    pixels
        Values are those of images and lie in [0, 1].
    rows
        Returns the points from one index to another, shape (points, *shape).
    spot
        Returns the location of a point in words.
    """

    shape: tuple[int, ...]
    pixels: bool
    names: tuple[str, ...]
    layout: str
    notes: tuple[str, ...]
    rows: Callable[[int, int], Singles]
    spot: Callable[[int], str]


def read_image_files(root: Path) -> Source:
    """List the PNG and JPEG images of a folder and of those inside it, by name, and check the header of each.

    Raises
    ------
    InputError
        Where there are none, or one is unreadable, elsewhere, or of another size or number of channels than the first.
    """
    folder = ImageFolder(root, _FORMATS)
    found, others = _listed(folder)
    suffixes = ", ".join(folder.suffixes)
    if not found:
        raise InputError(
            "There are no images in this folder.",
            where=str(root),
            hint=f"Their names end in {suffixes}; a file of arrays is named itself.",
        )
    names = tuple(sorted(found))
    files = tuple(ImageFile(found[name], str(found[name])) for name in names)
    shape, changes = _check_headers(folder, files, names[0])
    notes = [f"{number} image(s) {what}" for what, number in sorted(changes.items())]
    if others:
        notes.append(f"{others} file(s) left out, whose names do not end in {suffixes}.")
    return Source(
        shape=shape,
        pixels=True,
        names=names,
        layout=f"folder of {'grey' if shape[0] == 1 else 'RGB'} images",
        notes=tuple(notes),
        rows=partial(_decoded, folder, files, shape),
        spot=lambda index: files[index].where,
    )


def _listed(folder: ImageFolder) -> tuple[dict[str, Path], int]:
    """Return the resolved path of each image by its name below the root, and the number of other files."""
    found: dict[str, Path] = {}
    others, folders = 0, [folder.root]
    while folders:
        entries = folder.entries(folders.pop())
        for entry in entries.folders:
            if entry.is_symlink():
                raise InputError("This is a link to a folder.", where=entry.path, hint=OUTSIDE)
            folders.append(Path(entry.path))
        for entry in entries.images:
            name = folder.name(entry.path)
            found[name] = folder.find(name, entry.path)
        others += entries.others
    return found, others


def _check_headers(
    folder: ImageFolder, files: Sequence[ImageFile], first: str
) -> tuple[tuple[int, int, int], Counter[str]]:
    """Return (c, h, w) of all images, and how many have what makes the pixels as used differ from those of the file."""
    changes: Counter[str] = Counter()
    shape = None
    for file, header in zip(files, folder.headers(files), strict=True):
        changes.update(_changes(header))
        own = 1 if header.grey else 3, header.height, header.width
        shape = shape or own
        if own != shape:
            raise InputError(
                f"The image has the shape {own} (c, h, w), the first one ({first}) {shape}.",
                where=file.where,
                hint="Bring all images to one size and to grey or RGB first.",
            )
    assert shape is not None
    return shape, changes


def _changes(header: Header) -> Iterator[str]:
    if header.transparent:
        yield "stored with transparency, which was dropped."
    elif not header.grey and header.mode not in _PLAIN:
        yield f"converted from {header.mode} to RGB."
    if header.rotated:
        yield "marked as rotated (EXIF), which was ignored."


def _decoded(
    folder: ImageFolder, files: Sequence[ImageFile], shape: tuple[int, int, int], start: int, stop: int
) -> Singles:
    values = np.empty((stop - start, *shape), dtype=np.float32)
    for index, image in enumerate(folder.pixels(files[start:stop], shape)):
        values[index] = image
    values /= np.float32(255)
    return values


def read_number_rows(path: Path, *, size: int = BLOCK) -> Source:
    """Read a CSV or TSV of numbers, a point a row, with or without a header, `size` characters at once.

    Raises
    ------
    InputError
        Where it is no text, or a field is no number that float32 holds.
    """
    largest = float(np.finfo(np.float32).max)
    file = NumberRows(path, is_header=_is_header, largest=largest, row="a point", dtype=np.float64, size=size)
    with np.errstate(over="ignore"):
        singles = np.concatenate([block.astype(np.float32) for block in file.blocks()])
    if not np.isfinite(singles).all():
        raise file.refusal()
    return Source(
        shape=(len(file.first),),
        pixels=False,
        names=tuple(map(str, range(len(singles)))),
        layout=f"CSV of {len(file.first)} numbers a row, {'with' if file.header else 'without'} a header",
        notes=("Fields are separated by semicolons; a comma is a decimal comma.",) if file.semicolons else (),
        rows=lambda start, stop: singles[start:stop].copy(),
        spot=lambda index: f"{path}, row {index}",
    )


def _is_header(fields: Sequence[str], where: str) -> bool:
    """Tell whether a first row names the columns: none of its fields is a number, or they count from 0."""
    if not any(map(is_plain_number, fields)):
        if not all(fields):
            hint = "If it counts the rows, save without it (pandas: index=False)."
            raise InputError("A column has no name.", where=where, hint=hint)
        return True
    return len(fields) > 2 and counts_up(fields)
