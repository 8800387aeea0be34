"""What does a reader say of a file that is read in part, before the disk fails with an error that names no file?"""

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import fuzz
from hostile.uncontained import in_this_process

from probes.core.errors import MilesError

MOST = 240
"""Reads of a small file by one reader, more than any needs."""
NAMES = tuple(sorted(fuzz.READERS.keys() | {"a.pt", "a.safetensors", "a.wav", "b.pt", "fields.h5", "fields.mat"}))


class Disk:
    """Files below a folder that can be read so many times, all together, before the system has errors alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.left, self.failed = folder, 0, False
        self._open = io.open

    def open(self, file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
        """Open a file as Python does; those that are written to are whole."""
        if isinstance(file, int) or set("wax+") & {*mode} or not f"{file}".startswith(f"{self.folder}"):
            return self._open(file, mode, buffering, *more, **named)
        raw = _Raw(self, file)
        if buffering == 0:
            return raw
        return io.BufferedReader(raw) if "b" in mode else io.TextIOWrapper(io.BufferedReader(raw), *more, **named)

    def count(self) -> None:
        """Count a read, or fail."""
        if not self.left:
            self.failed = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.left -= 1


class _Raw(io.FileIO):
    def __init__(self, disk: Disk, file: Any) -> None:
        super().__init__(file)
        self._disk = disk

    def readinto(self, buffer: Any) -> Any:
        self._disk.count()
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._disk.count()
        return super().readall()

    def read(self, size: int | None = -1) -> Any:
        self._disk.count()
        return super().read(-1 if size is None else size)


@contextlib.contextmanager
def failing(folder: Path, reads: int) -> Iterator[Disk]:
    """Let the disk of a folder fail after so many reads."""
    disk = Disk(folder)
    disk.left = reads
    before = io.open, builtins.open
    io.open = builtins.open = disk.open
    try:
        yield disk
    finally:
        io.open, builtins.open = before


def met(read: Callable[[Path], object], path: Path) -> MilesError | None:
    """Return how a file is refused."""
    try:
        read(path)
    except MilesError as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_the_disk_gives_in_part_is_refused_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seed, *_), read = fuzz.readers(tmp_path)[name]
    path = tmp_path / name
    path.write_bytes(seed)
    # What a reader imports, it imports now.
    met(read, path)
    in_this_process(monkeypatch.setattr)
    for reads in range(MOST):
        with failing(tmp_path, reads) as disk:
            refused = met(read, path)
        if not disk.failed:
            break
        assert refused is not None, f"read, though read {reads} fails"
        assert refused.exit_code == 2
        assert name in refused.where, refused.where
    else:
        pytest.fail("more reads than counted")
    assert reads > 0
