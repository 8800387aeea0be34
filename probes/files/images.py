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


FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
"""Filters by Pillow's numbers, which configurations hold."""


@dataclass(frozen=True, slots=True)
class Resizing:
    """How a picture is brought to a size: resized, then cropped at its centre.

    Parameters
    ----------
    short
        Length in pixels that the shorter side gets, the longer one in proportion; 0 where `size` says both.
    size
        (height, width), without keeping the ratio.
    crop
        (height, width) of the part that is kept; None: all of it.
    resample
        One of `FILTERS`.
    rounded
        Whether an odd margin is halved to the nearest even number, as torchvision does, instead of down.
    """

    short: int = 0
    size: tuple[int, int] | None = None
    crop: tuple[int, int] | None = None
    resample: int = 2
    rounded: bool = False

    @property
    def output(self) -> tuple[int, int]:
        """(height, width) of the result."""
        return self.crop or self.size or (self.short, self.short)

    @property
    def words(self) -> str:
        """What is done, in words."""
        how = FILTERS[self.resample]
        if self.size is not None:
            done = f"brought to {self.size[1]} x {self.size[0]} pixels ({how}) without keeping the ratio"
        else:
            done = f"shorter side brought to {self.short} pixels ({how})"
        return done + (f", then the centre of {self.crop[1]} x {self.crop[0]} kept" if self.crop else "")

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        """Return (width, height) of a picture before it is cropped.

        >>> Resizing(short=256, crop=(224, 224)).scaled(640, 481)
        (340, 256)
        """
        if self.size is not None:
            return self.size[1], self.size[0]
        if width <= height:
            return self.short, int(self.short * height / width)
        return int(self.short * width / height), self.short

    def corner(self, width: int, height: int) -> tuple[int, int]:
        """Return left and top of the part that is kept of a picture of this size."""
        spare = (width - self.output[1], height - self.output[0])
        left, top = (round(one / 2) if self.rounded else one // 2 for one in spare)
        return left, top


class Decoder:
    """Read several files at a time. The answer to each is a plain value; a refused file does not affect others."""

    def __init__(self, formats: tuple[str, ...]) -> None:
        self._formats = formats

    def headers(self, paths: Sequence[str]) -> list[Any]:
        """Return the fields of each file's `Header`."""
        return [_answer(self._header, path) for path in paths]

    def pixels(self, paths: Sequence[str], shape: tuple[int, int, int], resize: bool | Resizing) -> list[Any]:
        """Return each image as uint8 (c, h, w); one of another size is resized, or else refused."""
        return [_answer(self._pixels, path, shape, resize) for path in paths]

    def _header(self, path: str) -> tuple[Any, ...]:
        with opened(path, self._formats) as image:
            _check_header(image)
            transparent = image.mode in _ALPHA or "transparency" in image.info
            return astuple(Header(image.mode, image.width, image.height, transparent, _is_rotated(image)))

    def _pixels(self, path: str, shape: tuple[int, int, int], resize: bool | Resizing) -> NDArray[np.uint8]:
        with opened(path, self._formats) as image:
            if isinstance(resize, Resizing):
                return pixels(fitted(image, resize, "L" if shape[0] == 1 else "RGB"), shape)
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


def fitted(image: "Image", resizing: Resizing, mode: str) -> "Image":
    """Return a picture, turned into a mode of Pillow's, resized and cropped.

    Raises
    ------
    InputError
        Where one side is so much longer that the resized picture would be too large.
    """
    width, height = resizing.scaled(image.width, image.height)
    if width * height > MAX_PIXELS:
        raise InputError(
            f"Resized, the image of {image.width} x {image.height} pixels would have {width} x {height}.",
            hint=f"At most {MAX_PIXELS} pixels are made. Leave it out, or crop it yourself.",
        )
    plain = image if image.mode == mode else image.convert(mode)
    made = plain if plain.size == (width, height) else plain.resize((width, height), resizing.resample)
    left, top = resizing.corner(width, height)
    bottom, right = resizing.output
    return made.crop((left, top, left + right, top + bottom))


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
