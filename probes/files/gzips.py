"""Files compressed with gzip, unpacked piece by piece while they are read: `table.csv.gz`, `texts.jsonl.gz`.

The suffix says so, as it does for other forms; what is inside goes by the suffix before it. Memory does not grow with
what a file unpacks to, and a file that unpacks to far more than texts and numbers do is refused.
"""

import gzip
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from probes.core.errors import InputError
from probes.files.file_kinds import unexpected_kind
from probes.files.opening import HEAD, read_head, reading, unreadable

FREE = 2**24
"""Bytes that any file may unpack to."""
MOST_TIMES = 300
"""Times its own size that a larger file may unpack to: tables reach 3 to 60, and gzip at most 1,032."""
AGAIN = "Fetch or write it again; `gzip -t FILE` says whether it is whole."
_SUFFIX = ".gz"
_MAGIC = b"\x1f\x8b"


class Readable(Protocol):
    """A source of bytes, at most `size` of them at a time, and none at its end."""

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""


def is_gzip(path: Path) -> bool:
    """Tell whether a file is compressed with gzip, by its suffix."""
    return path.suffix.lower() == _SUFFIX


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file, or of what is in it where that is compressed, in lower case.

    >>> plain_suffix(Path("a.CSV.gz")), plain_suffix(Path("a.tsv")), plain_suffix(Path("a.gz"))
    ('.csv', '.tsv', '')
    """
    return Path(path.stem).suffix.lower() if is_gzip(path) else path.suffix.lower()


@contextmanager
def open_plain(path: Path, seen: Callable[[bytes], object] | None = None) -> Iterator[Readable]:
    """Open the bytes of a file, unpacked where its suffix is `.gz`; `seen` is called with all bytes as they lie.

    Raises
    ------
    InputError
        Where it is no gzip file, is damaged, or unpacks to more than `MOST_TIMES` its size.
    """
    with path.open("rb") as file:
        watched = _Watched(file, seen)
        # Of a reader that waits for the garbage to be collected, its open file may be finalized before it.
        weakref.finalize(watched, file.close)
        if not is_gzip(path):
            yield watched
            return
        with gzip.GzipFile(fileobj=watched) as unpacked:  # type: ignore[call-overload]
            yield _Unpacked(unpacked, path)


def read_plain_head(path: Path, *, wanted: str, hint: str, size: int = HEAD) -> bytes:
    """Return the first bytes of an ordinary file, unpacked where its suffix is `.gz`.

    Raises
    ------
    InputError
        As of `probes.files.opening.read_head`, of the file and of what is in it; and as of `open_plain`.
    """
    head = read_head(path, wanted=wanted, hint=hint, size=size)
    if not is_gzip(path):
        return head
    if not head.startswith(_MAGIC):
        raise InputError(
            "The file is named .gz and is no gzip file.",
            where=str(path),
            hint=f"Take {_SUFFIX} off its name, or fetch it again.",
        )
    with reading(path), open_plain(path) as file:
        head = file.read(size)
    if not head:
        raise InputError("There is nothing in the gzip file.", where=str(path), hint=hint)
    disguise = unexpected_kind(head)
    if disguise:
        raise InputError(f"In the gzip file is {disguise.what}, not {wanted}.", where=str(path), hint=disguise.hint)
    return head


class _Watched:
    """A file whose bytes are shown to somebody else as they are read."""

    def __init__(self, file: BinaryIO, seen: Callable[[bytes], object] | None) -> None:
        self._file, self._seen = file, seen

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        if data and self._seen is not None:
            self._seen(data)
        return data


class _Unpacked:
    """The content of a gzip file, counted while it is read."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        self._file, self._path, self._count = file, path, 0
        self._most = max(FREE, MOST_TIMES * path.stat().st_size)

    def read(self, size: int = -1, /) -> bytes:
        try:
            data = self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            message = f"The gzip file is damaged or cut off: {str(error).rstrip('.')}."
            raise InputError(message, where=str(self._path), hint=AGAIN) from None
        except OSError as error:
            raise unreadable(self._path, error) from error
        self._count += len(data)
        if self._count > self._most:
            raise InputError(
                f"The gzip file unpacks to more than {self._most:,} bytes, over {MOST_TIMES} times its size, as files "
                "made to fill a machine do.",
                where=str(self._path),
                hint="Where it is what you mean, unpack it (gunzip -k FILE), look at it, and name the unpacked file.",
            )
        return data
