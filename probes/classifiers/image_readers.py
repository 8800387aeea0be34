"""Read single images again, elsewhere than where their data set was checked: by name from a folder, or by index.

A data set is listed, checked and hashed once. A worker that is to look at a few of its images reads only these, in the
same way, and whoever sent it says by a hash of their pixels which ones are meant.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from probes.classifiers.image_arrays import Shape, is_archive, read_arrays
from probes.classifiers.images import Images, Pixels, digest_of, scaled
from probes.core.errors import InputError
from probes.files.arrays import open_archive
from probes.files.image_folders import ImageFile, ImageFolder, ImageRun
from probes.files.images import FORMATS, Resizing


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """All that is needed to read single images of a data set as `load_images` read them.

    Parameters
    ----------
    path
        Absolute path of the NPZ, CSV or folder.
    shape
        (c, h, w) of every image.
    divisor
        1 or 255: pixels = stored / divisor.
    layout
        Order of the pixels in a CSV row.
    resize
        How pictures of a folder were brought to the shape.
    """

    path: str
    shape: Shape
    divisor: float
    layout: str = "hwc"
    resize: bool | Resizing = False

    @classmethod
    def of(cls, images: Images, *, layout: str, resize: bool | Resizing) -> "ImageSource":
        """Return the source of images that were loaded with this layout, and resized so."""
        path = str(Path(images.path).absolute())
        return cls(path=path, shape=images.shape, divisor=images.divisor, layout=layout, resize=resize)


class ImageReader:
    """The images of a source, one at a time.

    Raises
    ------
    InputError
        Where the source cannot be opened.
    """

    def __init__(self, source: ImageSource) -> None:
        self._source = source
        self._stored = _opened(source)

    def pixels(self, index: int, name: str, digest: str) -> Pixels:
        """Return an image as float32 (c, h, w) in [0, 1].

        Parameters
        ----------
        index, name
            Its number among all images, which tells it in arrays; its path relative to the folder, which does in these.
        digest
            The hash of its pixels, as of `digest_of`.

        Raises
        ------
        InputError
            Where it cannot be read, or is another image than the one that was checked.
        """
        found = scaled(self._stored(index, name), self._source.divisor)
        check_same(found, digest, f"{self._source.path}, image {name}")
        return found


def check_same(pixels: Pixels, digest: str, where: str) -> None:
    """Refuse an image that is not the one that was checked.

    Raises
    ------
    InputError
        Where its hash is another.
    """
    if digest_of(pixels) != digest:
        raise _another(where)


def _another(where: str) -> InputError:
    return InputError(
        "This is another image than the one that was checked when the run began.",
        where=where,
        hint="Were the data changed meanwhile, or are they others on this machine? Then run the command again.",
    )


def _opened(source: ImageSource) -> Callable[[int, str], NDArray[Any]]:
    path = Path(source.path)
    if path.is_dir():
        return _of_folder(path, source)
    if is_archive(path):
        return _of_archive(path, source)
    arrays = read_arrays(path, layout=source.layout, shape=source.shape)

    def read(index: int, name: str) -> NDArray[Any]:
        if index >= len(arrays.values):
            raise _another(f"{path}, image {name}")
        return arrays.order(arrays.values[index])

    return read


def _of_archive(path: Path, source: ImageSource) -> Callable[[int, str], NDArray[Any]]:
    # Only the rows that are asked for: each worker has its own images, and memory for no more.
    x = open_archive(path, forms=("NPZ",)).find("x")

    def read(index: int, name: str) -> NDArray[Any]:
        if not x.shape or index >= x.shape[0] or math.prod(x.shape[1:]) != math.prod(source.shape):
            raise _another(f"{path}, x[{name}]")
        return x.rows(index, index + 1).reshape(source.shape)

    return read


def _of_folder(path: Path, source: ImageSource) -> Callable[[int, str], NDArray[Any]]:
    folder = ImageFolder(path, tuple(FORMATS))

    def read(index: int, name: str) -> NDArray[Any]:
        where = f"{path}, {name}"
        return ImageRun(
            folder, [ImageFile(folder.find(name, where), where)], source.shape, source.resize, range(1)
        ).read(0)

    return read
