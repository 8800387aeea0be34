"""Is this file an image whose pixels can be used as they are stored, and what does its header say?

Folders of labelled images and folders of points ask the same questions of untrusted files; here they are answered.
"""

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from probes.errors import InputError
from probes.files.names import nearest_name
from probes.files.sniffing import impostor

if TYPE_CHECKING:
    from PIL.Image import Image

GREY = ("1", "L", "LA", "La")
"""Pillow's modes of one channel of colour."""
_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")
# Below Pillow's own limit, from which on it warns and decodes all the same.
_MAX_PIXELS = 2**26
_ORIENTATION = 0x0112


def visible(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder by name, without hidden ones and what a Mac puts into archives."""
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith((".", "__MACOSX"))]
    except OSError as error:
        raise InputError(
            f"The folder cannot be read: {error.strerror}.",
            where=str(folder),
            hint="Check the path and its permissions.",
        ) from error
    # The order of scandir is that of the disk, and labels and reports follow this one.
    return sorted(shown, key=lambda entry: entry.name)


def check_image_file(path: Path, where: str) -> None:
    """Refuse what is no ordinary file, is empty, or is a download that went wrong."""
    try:
        # Opening a named pipe would wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("This is not an ordinary file.", where=where, hint="Name a file that holds an image.")
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        near = nearest_name(path)
        raise InputError(
            f"There is no file {path}.", where=where, hint=f"Did you mean {near}?" if near else "Check the path."
        ) from None
    except OSError as error:
        raise InputError(
            f"The file cannot be read: {error.strerror or error}.",
            where=where,
            hint="Check the path and its permissions.",
        ) from error
    disguise = impostor(head)
    if disguise:
        raise InputError(f"The file is {disguise.what}, not an image.", where=where, hint=disguise.hint)
    if not head:
        raise InputError("The file is empty.", where=where, hint="Fetch it again, or leave it out.")


@contextmanager
def opened_image(path: Path, where: str, formats: tuple[str, ...]) -> "Iterator[Image]":
    """Open an image of some of Pillow's formats; whatever goes wrong while it is read is told with its name."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Pillow warns about odd headers of files that it reads all the same.
            warnings.simplefilter("ignore")
            with Image.open(path, formats=formats) as image:
                if image.width * image.height > _MAX_PIXELS:
                    raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")
                yield image
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise InputError(
            f"The header promises an image too large to decode: {error}.",
            where=where,
            hint=f"At most {_MAX_PIXELS} pixels are read.",
        ) from None
    except Exception as error:
        # Hostile or damaged bytes: decoders raise almost anything.
        raise InputError(
            f"The file cannot be read as an image: {error or type(error).__name__}.",
            where=where,
            hint=f"It is damaged, or of another kind than {', '.join(formats)}.",
        ) from error


def check_header(image: "Image", where: str) -> None:
    """Refuse an image of more than 8 bits a channel, whose conversion would clip, and one of several frames."""
    if image.mode == "F" or image.mode.startswith("I"):
        raise InputError(
            f"The image has more than 8 bits a channel (Pillow's mode {image.mode}).",
            where=where,
            hint="Convert it to 8 bits, or give an NPZ.",
        )
    # Of a JPEG with several pictures the others are previews.
    if image.format in ("GIF", "PNG", "WEBP", "TIFF") and getattr(image, "n_frames", 1) > 1:
        raise InputError("The file holds several frames.", where=where, hint="Save the one that is meant.")


def is_transparent(image: "Image") -> bool:
    """Tell whether an image is stored with transparency, also as one colour of its palette."""
    return image.mode in _ALPHA or "transparency" in image.info


def is_rotated(image: "Image") -> bool:
    """Tell whether an image is marked to be shown turned or mirrored."""
    # Without a chunk ahead of the pixels, Pillow decodes a whole PNG to look for one behind them.
    return (image.format != "PNG" or "exif" in image.info) and image.getexif().get(_ORIENTATION, 1) != 1
