"""Read the images of a folder: what lies there, what each header says, and pixels, decoded in a contained process.

Which images belong together and what their folders mean is up to the formats that use this. Nothing leads out of the
folder: no link and no path is followed to elsewhere.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.contained import LimitError, Limits, Session
from probes.core.errors import InputError
from probes.files.images import FORMATS, Decoder, Header, Resizing
from probes.files.opening import read_head, unreadable
from probes.files.safe_paths import RootedPaths, is_folder

Shape = tuple[int, int, int]
Bytes = NDArray[np.uint8]

OUTSIDE = "Copy it into the folder: links and paths that lead out of it are not followed."
LIMITS = Limits(memory=5 * 2**28, seconds=20)
"""What decoding may take: a WebP of 2^26 pixels takes 1.1 GiB of memory."""
_LOADS = ("PIL.Image", *(f"PIL.{name}ImagePlugin" for name in ("Png", "Jpeg", "Bmp", "WebP", "Tiff", "Ppm", "Gif")))
_HEADERS = 256
"""Headers that are read at a time."""
_VALUES = 2**22
"""Values of pixels that are read at a time, where these are more than one image."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """The resolved path of an image, and where it is named: its path, or the line of a table."""

    path: Path
    where: str


@dataclass(slots=True)
class Entries:
    """What lies in one folder, by name: images, folders and links to folders, and how many other files."""

    images: list[os.DirEntry[str]] = field(default_factory=list)
    folders: list[os.DirEntry[str]] = field(default_factory=list)
    others: int = 0


class ImageFolder:
    """The files below one folder, of which some are images of some of Pillow's formats."""

    def __init__(self, root: Path, formats: Sequence[str], *, limits: Limits = LIMITS) -> None:
        self.root, self._formats, self._paths, self._limits = root, tuple(formats), RootedPaths(root), limits
        self.suffixes = tuple(suffix for name in formats for suffix in FORMATS[name])

    def entries(self, folder: Path) -> Entries:
        """Return what lies in a folder, without hidden entries and the files that macOS adds to archives."""
        found = Entries()
        try:
            with os.scandir(folder) as all_of_them:
                shown = [entry for entry in all_of_them if not entry.name.startswith((".", "__MACOSX"))]
        except OSError as error:
            raise unreadable(folder, error) from error
        # The order of scandir is that of the disk, and labels and reports follow this one.
        for entry in sorted(shown, key=lambda entry: entry.name):
            if is_folder(entry):
                found.folders.append(entry)
            elif Path(entry.name).suffix.lower() in self.suffixes:
                found.images.append(entry)
            else:
                found.others += 1
        return found

    def name(self, path: str | Path) -> str:
        """Return the name of a file below the root, with slashes."""
        return Path(path).relative_to(self.root).as_posix()

    def find(self, name: str, where: str) -> Path:
        """Return the resolved path of a file.

        Raises
        ------
        InputError
            Where that is not below the root, or its name cannot stand in a report, which is UTF-8.
        """
        if Path(name).is_absolute() or name != name.encode("utf-8", "replace").decode():
            raise InputError(f"The path {name!r} is absolute, or not in UTF-8.", where=where, hint=OUTSIDE)
        try:
            return self._paths.resolve(name, where)
        except InputError as error:
            raise InputError(error.message, where=where, hint=OUTSIDE) from None

    def headers(self, files: Sequence[ImageFile]) -> Iterator[Header]:
        """Yield what the header of each image says; nothing is decoded.

        Raises
        ------
        InputError
            At the first file that is no image, or none whose pixels can be used as they are.
        """
        yield from map(_accepted, self.header_answers(files))

    def header_answers(self, files: Sequence[ImageFile]) -> Iterator[Header | InputError]:
        """Yield what the header of each image says, or why the file is refused."""
        for start in range(0, len(files), _HEADERS):
            for answer in self._ask("headers", files[start : start + _HEADERS]):
                if isinstance(answer, InputError):
                    yield answer
                    continue
                mode, width, height, transparent, rotated = answer
                yield Header(str(mode), int(width), int(height), bool(transparent), bool(rotated))

    def pixels(self, files: Sequence[ImageFile], shape: Shape, *, resize: bool | Resizing = False) -> Iterator[Bytes]:
        """Yield each image as uint8 (c, h, w); one of another size is resized, or else refused.

        Raises
        ------
        InputError
            At the first that cannot be decoded.
        """
        step = batch_size(shape)
        for start in range(0, len(files), step):
            yield from map(_accepted, self.answers(files[start : start + step], shape, resize))

    def answers(self, files: Sequence[ImageFile], shape: Shape, resize: bool | Resizing) -> list[Bytes | InputError]:
        """Return the pixels of each image, or why it is refused."""
        found = self._ask("pixels", files, shape, resize)
        for file, answer in zip(files, found, strict=True):
            if not isinstance(answer, InputError) and (answer.dtype != np.uint8 or answer.shape != shape):
                raise InputError("The image is decoded to something else.", where=file.where, hint="Leave it out.")
        return found

    def _ask(self, method: str, files: Sequence[ImageFile], *args: Any) -> list[Any]:
        """Return the answer of a contained process to each file, or why the file is refused."""
        answers: list[Any] = [_refusal_of(file) for file in files]
        good = [index for index, refusal in enumerate(answers) if refusal is None]
        if not good:
            return answers
        reader = _reader(str(self.root), self.root.stat().st_ino, self._formats, self._limits, os.getpid())
        try:
            found = reader.ask(method, [str(files[index].path) for index in good], *args)
        except LimitError as error:
            _reader.cache_clear()
            if len(files) > 1:
                # One of them caused it: read them one by one to name it.
                return [answer for file in files for answer in self._ask(method, [file], *args)]
            return [_limit_refusal(files[0], error)]
        for index, answer in zip(good, found, strict=True):
            refused = isinstance(answer, dict)
            answers[index] = (
                InputError(answer["refused"], where=files[index].where, hint=answer["hint"]) if refused else answer
            )
        return answers


class ImageRun:
    """Images of a folder, read one at a time. The further they are read in order, the more are read ahead."""

    def __init__(
        self, folder: ImageFolder, files: Sequence[ImageFile], shape: Shape, resize: bool | Resizing, order: range
    ) -> None:
        self._folder, self._files, self._shape, self._resize = folder, files, shape, resize
        self._order = order
        self._ahead: deque[tuple[int, Bytes | InputError]] = deque()
        self._next, self._size = -1, 1

    def read(self, index: int) -> Bytes:
        """Return one image as uint8 (c, h, w)."""
        if not self._ahead or self._ahead[0][0] != index:
            self._fetch(index)
        answer: Bytes = _accepted(self._ahead.popleft()[1])
        return answer

    def _fetch(self, index: int) -> None:
        # One bad image does not affect others.
        self._size = min(2 * self._size, batch_size(self._shape)) if index == self._next else 1
        start = self._order.index(index) if index in self._order else len(self._order)
        chosen = self._order[start : start + self._size] or [index]
        answers = self._folder.answers([self._files[one] for one in chosen], self._shape, self._resize)
        self._ahead = deque(zip(chosen, answers, strict=True))
        self._next = next(iter(self._order[start + len(chosen) :]), -1)


def batch_size(shape: Shape) -> int:
    """Return how many images of a shape are decoded at a time."""
    return max(1, _VALUES // (shape[0] * shape[1] * shape[2]))


@lru_cache(maxsize=4)
def _reader(root: str, inode: int, formats: tuple[str, ...], limits: Limits, process: int) -> Session:
    """Return the contained process that reads a folder; a forked process gets one of its own."""
    return Session(Decoder, formats, reads=[Path(root)], limits=limits, loads=_LOADS)


def _refusal_of(file: ImageFile) -> InputError | None:
    try:
        read_head(file.path, wanted="an image", hint="Fetch it again, or leave it out.", where=file.where)
    except InputError as error:
        return error
    return None


def _limit_refusal(file: ImageFile, error: LimitError) -> InputError:
    return InputError(
        f"The image cannot be decoded within the limits for strangers' files: {error.text}.",
        where=file.where,
        hint="Leave it out, or save it anew as PNG.",
    )


def _accepted(answer: Any) -> Any:
    if isinstance(answer, InputError):
        raise answer
    return answer
