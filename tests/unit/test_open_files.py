"""Does a reader that refuses a file leave it closed, without waiting for the garbage to be collected?"""

import gc
import gzip
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.membership.membership_scores import read_scores
from probes.core.errors import InputError
from probes.files.contents import open_contents
from probes.files.delimited import Delimited
from probes.files.number_rows import NumberRows
from probes.files.text import numbered_lines

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="open files are listed in /proc")
# More than one reading of a block, so that the end of the file was not met.
LONG = "".join(f"{row},1\n" for row in range(20_000))


@contextmanager
def no_collection() -> Iterator[None]:
    """Leave garbage where it lies."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def open_in(folder: Path) -> list[str]:
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(one.readlink()))
    return [name for name in found if name.startswith(str(folder))]


def scores(path: Path) -> None:
    read_scores(path, higher_is=None, target=None)


def rows(path: Path) -> None:
    for _ in Delimited(path).rows():
        pass


def numbers(path: Path) -> None:
    for _ in NumberRows(path, is_header=lambda *_: True, largest=9.0, row="a point").blocks():
        pass


def lines(path: Path) -> None:
    for _ in numbered_lines(path):
        pass


TABLES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no column": (scores, f"a,b\n{LONG}"),
    "no direction": (scores, f"score,member\n{LONG}"),
    "twice": (scores, f"score,score\n{LONG}"),
    "a short row": (rows, f"a,b\n1\n{LONG}"),
    "a quotation mark": (rows, f'a,b\n1,2\n"1"x,3\n{LONG}'),
    "in the header": (rows, f'"a"x,b\n{LONG}'),
    "no number": (numbers, f"a,b\n1,x\n{LONG}"),
    "a byte": (lines, f"{LONG}\0{LONG}"),
}


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_closed_when_it_is_refused(name: str, suffix: str, tmp_path: Path) -> None:
    read, text = TABLES[name]
    path = tmp_path / f"t{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
    refused = False
    with no_collection():
        # pytest.raises keeps the frames of what it catches.
        try:
            read(path)
        except InputError:
            refused = True
        assert refused and open_in(tmp_path) == []


@pytest.mark.parametrize("saver", [np.savez, np.savez_compressed])
def test_an_array_is_closed_at_its_end_and_by_a_refusal(saver: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    saver(path, whole=np.arange(10.0), cut=np.arange(100_000.0), held=np.array([{}]))
    with no_collection():
        inside = open_contents(path, "NPZ", 2**28)
        assert open_in(tmp_path) == []
        inside.read("cut", 0, 10, None)
        assert open_in(tmp_path) == [str(path)]
        inside.read("cut", 10, 100_000, None)
        inside.read("whole", 0, 10, "checked")
        assert open_in(tmp_path) == [] and list(inside.refused) == ["held"]
        inside.read("cut", 0, 10, None)
        inside.read("cut", 5, 7, None)
        del inside
        assert open_in(tmp_path) == []


def test_a_damaged_archive_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(10.0), b=np.arange(10.0))
    first, second, rest = path.read_bytes().split(b"'descr'")
    path.write_bytes(b"'descr'".join((first, second)) + b"'wrong'" + rest)
    refused = False
    with no_collection():
        try:
            open_contents(path, "NPZ", 2**28)
        except InputError:
            refused = True
        assert refused and open_in(tmp_path) == []


class Ring:
    """What leads back to itself, as the frames of an error that is kept do."""

    def __init__(self, held: Any) -> None:
        self.held, self.ring = held, self


@pytest.mark.parametrize("saver", [np.savez, np.savez_compressed])
def test_an_array_that_is_collected_as_garbage_is_closed_before_its_file(
    saver: Callable[..., None], tmp_path: Path
) -> None:
    saver(tmp_path / "a.npz", a=np.arange(100_000.0))
    inside = open_contents(tmp_path / "a.npz", "NPZ", 2**28)
    inside.read("a", 0, 10, None)
    # Whatever the order in which garbage is finalized.
    stream: Any = inside.arrays["a"]
    file = stream._file
    ring = Ring([getattr(file, "file", file), file, inside])
    gone = weakref.ref(ring)
    del inside, stream, file, ring
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gc.collect()
    assert gone() is None and open_in(tmp_path) == []
    assert [str(one.message) for one in told] == []
