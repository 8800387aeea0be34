"""Decode images with Pillow: what the header of one says, and its pixels as bytes.

This module opens untrusted files with large libraries. It runs in a contained process, to which
`image_folders` hands the files of a folder.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = {"PNG": (".png",), "JPEG": (".jpg", ".jpeg"), "BMP": (".bmp",), "WEBP": (".webp",), "TIFF": (".tif", ".tiff"),
           "PPM": (".ppm", ".pgm"), "GIF": (".gif",)}  # fmt: skip
"""Formats that are read, and how names of such files end. Named, because others that Pillow knows (EPS) start
programs."""
MAX_PIXELS = 2**26
"""Below Pillow's own limit, from which on it warns and decodes all the same."""
_GREY = ("1", "L", "LA", "La")
_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")
_ORIENTATION = 0x0112
STRIP = 2**20
"""Pixels that are converted at a time: a copy of a whole image could take 256 MiB."""


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of an image says.

    `mode` is Pillow's. `transparent` tells of transparency, also as one colour of a palette, `rotated` of a mark (EXIF)
    that the image is to be shown turned or mirrored.
    """

    mode: str
    width: int
    height: int
    transparent: bool
    rotated: bool

    @property
    def grey(self) -> bool:
        """Whether there is one channel of colour."""
        return self.mode in _GREY


class Decoder:
    """Read several files at a time. The answer to each is a plain value; a refused file does not affect others."""

    def __init__(self, formats: tuple[str, ...]) -> None:
        self._formats = formats

    def headers(self, paths: Sequence[str]) -> list[Any]:
        """Return the fields of each file's `Header`."""
        return [_answer(self._header, path) for path in paths]

    def pixels(self, paths: Sequence[str], shape: tuple[int, int, int], resize: bool) -> list[Any]:
        """Return each image as uint8 (c, h, w); one of another size is resized, or else refused."""
        return [_answer(self._pixels, path, shape, resize) for path in paths]

    def _header(self, path: str) -> tuple[Any, ...]:
        with opened(path, self._formats) as image:
            _check_header(image)
            transparent = image.mode in _ALPHA or "transparency" in image.info
            return astuple(Header(image.mode, image.width, image.height, transparent, _is_rotated(image)))

    def _pixels(self, path: str, shape: tuple[int, int, int], resize: bool) -> NDArray[np.uint8]:
        with opened(path, self._formats) as image:
            if image.size != (shape[2], shape[1]) and not resize:
                raise InputError(
                    "The file has changed its size since it was listed.",
                    hint="Let nothing write to the folder, and run it again.",
                )
            return pixels(image, shape)


def _answer(read: Callable[..., Any], *args: Any) -> Any:
    try:
        return read(*args)
    except InputError as error:
        return {"refused": error.message, "hint": error.hint}


@contextmanager
def opened(path: str, formats: tuple[str, ...]) -> "Iterator[Image]":
    """Open an image of some of Pillow's formats.

    Raises
    ------
    InputError
        Whatever goes wrong while it is read.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Pillow warns about odd headers of files that it reads all the same.
            warnings.simplefilter("ignore")
            with Image.open(path, formats=formats) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")
                yield image
    except (InputError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise InputError(
            f"The header promises an image too large to decode: {error}.", hint=f"At most {MAX_PIXELS} pixels are read."
        ) from None
    except Exception as error:
        # Hostile or damaged bytes: decoders raise almost anything.
        raise InputError(
            f"The file cannot be read as an image: {error or type(error).__name__}.",
            hint=f"It is damaged, or of another kind than {', '.join(formats)}.",
        ) from error


def _check_header(image: "Image") -> None:
    """Refuse an image of more than 8 bits a channel, whose conversion would clip, and one of several frames."""
    if image.mode == "F" or image.mode.startswith("I"):
        raise InputError(
            f"The image has more than 8 bits a channel (Pillow's mode {image.mode}).",
            hint="Convert it to 8 bits, or give an NPZ.",
        )
    # Of a JPEG with several pictures the others are previews. Counting all frames would read the whole file.
    if image.format in ("GIF", "PNG", "WEBP", "TIFF") and getattr(image, "is_animated", False):
        raise InputError("The file holds several frames.", hint="Save the one that is meant.")
    # Pillow 13 turns such a TIFF itself, and mixes up the rows of one that is not compressed.
    if image.format == "TIFF" and _is_rotated(image):
        raise InputError("The TIFF is marked as rotated (EXIF).", hint="Save it upright, without the mark.")


def _is_rotated(image: "Image") -> bool:
    # Without a chunk ahead of the pixels, Pillow decodes a whole PNG to look for one behind them.
    return (image.format != "PNG" or "exif" in image.info) and image.getexif().get(_ORIENTATION, 1) != 1


def pixels(image: "Image", shape: tuple[int, int, int], *, strip: int = STRIP) -> NDArray[np.uint8]:
    """Return an image as uint8 (c, h, w), resized bilinearly where it has another size.

    In its own size it is converted in strips of whole rows, of about `strip` pixels: besides it and the result there
    is no copy of all of it.
    """
    from PIL.Image import Resampling

    channels, height, width = shape
    mode = "L" if channels == 1 else "RGB"
    if image.size != (width, height):
        image = (image if image.mode == mode else image.convert(mode)).resize((width, height), Resampling.BILINEAR)
    values = np.empty(shape, dtype=np.uint8)
    step = max(1, strip // width)
    for top in range(0, height, step):
        bottom = min(top + step, height)
        part = image if step >= height else image.crop((0, top, width, bottom))
        used = np.asarray(part if part.mode == mode else part.convert(mode))
        values[:, top:bottom] = used.reshape(bottom - top, width, channels).transpose(2, 0, 1)
    return values
