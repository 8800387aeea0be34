"""Is every file of arrays read by one reader, in a contained child, and refused in one way?"""

import io
import multiprocessing
import os
import pickle
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from promised_arrays import promise

from probes.contained import LimitError
from probes.core.errors import InputError
from probes.files.arrays import StoredArray, listed_array, open_archive
from probes.files.contents import ContainedContents, open_contents

RNG = np.random.default_rng(3)
X = RNG.normal(size=(7, 5, 6)).astype(np.float32)
NAMES = np.array(["a", "é", "\U0001f600", "", "e", "f", "g"])


def plain(path: Path, **arrays: Any) -> Path:
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return path


def packed(path: Path, **arrays: Any) -> Path:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return path


def hdf5(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, compression="gzip")
    return path


def matlab(path: Path, **arrays: Any) -> Path:
    scipy.io.savemat(path, arrays, appendmat=False)
    return path


def npy(path: Path, **arrays: Any) -> Path:
    with path.open("wb") as file:
        np.save(file, *arrays.values())
    return path


WRITERS = [plain, packed, hdf5, matlab, npy]


def refuse(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        for array in open_archive(path, **options).arrays.values():
            array.whole()
    assert str(path) in caught.value.where and caught.value.hint
    return caught.value.message


def only(path: Path) -> StoredArray:
    (array,) = open_archive(path).arrays.values()
    return array


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_form_gives_what_was_stored_in_any_order(tmp_path: Path, writer: Callable[..., Path], order: Any) -> None:
    array = only(writer(tmp_path / "a", x=np.array(X, order=order)))
    assert (array.shape, array.dtype) == (X.shape, X.dtype)
    for start, stop in ((0, 1), (5, 7), (1, 2), (3, 3)):
        np.testing.assert_array_equal(array.rows(start, stop), X[start:stop])
        np.testing.assert_array_equal(array.rows(start, stop, (2, 1, 4)), X[start:stop, :, 1:4])
    np.testing.assert_array_equal(array.whole(), X)


def test_all_is_read_in_pieces(tmp_path: Path) -> None:
    for writer in WRITERS:
        np.testing.assert_array_equal(only(writer(tmp_path / "a", x=X)).whole(piece=3 * X[0].nbytes), X)
    assert only(plain(tmp_path / "a", x=np.float64(3))).whole() == 3
    assert only(packed(tmp_path / "a", x=X[:0])).whole().shape == (0, 5, 6)


@pytest.mark.parametrize("writer", [packed, hdf5, matlab])
def test_what_is_unpacked_is_never_opened_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Callable[..., Path]
) -> None:
    path = writer(tmp_path / "a", x=X)

    def never(*args: object, **options: object) -> None:
        raise AssertionError("opened in this process")

    for owner, name in ((zipfile, "ZipFile"), (h5py, "File"), (scipy.io, "loadmat")):
        monkeypatch.setattr(owner, name, never)
    np.testing.assert_array_equal(only(path).whole(), X)
    with pytest.raises(AssertionError, match="opened in this process"):
        zipfile.ZipFile(path)


def test_values_by_their_places(tmp_path: Path) -> None:
    for writer in (plain, packed, npy):
        array = only(writer(tmp_path / "a", x=X))
        for checked in (True, False):
            for start, stop in ((0, 210), (17, 80), (3, 5), (0, 0)):
                np.testing.assert_array_equal(array.values(start, stop, checked=checked), X.ravel()[start:stop])


def test_reading_on_unpacks_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path / "a", x=X)
    opened: list[object] = []

    class Watched(zipfile.ZipExtFile):
        def __init__(self, *rest: Any) -> None:
            opened.append(rest)
            super().__init__(*rest)

    monkeypatch.setattr(zipfile, "ZipExtFile", Watched)
    inside = open_contents(path, "NPZ", 2**28)
    assert len(opened) == 1
    for start in range(7):
        np.testing.assert_array_equal(inside.read("x", start, start + 1, None), X[start : start + 1])
    assert len(opened) == 2
    inside.read("x", 0, 1, None)
    assert len(opened) == 3


def test_check_sums_are_compared_by_whoever_reads_all(tmp_path: Path) -> None:
    # The beginning of a short array would be its whole.
    values = np.tile(X, (1, 10, 10))
    path = plain(tmp_path / "a", x=values)
    data = bytearray(path.read_bytes())
    at = data.index(values[6].tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    array = only(path)
    np.testing.assert_array_equal(array.rows(0, 6), values[:6])
    with pytest.raises(InputError, match="check sum is wrong") as caught:
        array.rows(6, 7)
    assert caught.value.where == f"{path}, x"
    assert (array.values(0, values.size, checked=False) != values.ravel()).sum() == 1


@pytest.mark.parametrize("writer", WRITERS)
def test_an_array_can_be_sent_to_another_process(tmp_path: Path, writer: Callable[..., Path]) -> None:
    array = only(writer(tmp_path / "a", x=X))
    array.rows(0, 2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)).rows(1, 3), X[1:3])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(array.rows, (2, 5)), X[2:5])
    np.testing.assert_array_equal(array.rows(2, 5), X[2:5])


def test_a_reader_that_wants_too_much_memory_is_stopped(tmp_path: Path) -> None:
    said = "Reading the file takes more than 1,024 MiB of memory, the limit for one of its size."
    assert refuse(promise(tmp_path / "a.npz", x=(1, 2**31))) == said
    assert only(hdf5(tmp_path / "a.h5", x=np.zeros((2, 2**23)))).rows(0, 2).nbytes == 2**27


@pytest.mark.parametrize(("size", "memory", "seconds"), [(0, 2**30, 14), (2**23, 2**29 + 200 * 2**23, 22)])
def test_limits_grow_with_the_file_as_the_docs_say(tmp_path: Path, size: int, memory: int, seconds: int) -> None:
    path = packed(tmp_path / "a.npz", x=X)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("beside.txt", bytes(max(0, size - path.stat().st_size - 128)))
        archive.comment = b""
    limits = only(path).source.limits  # type: ignore[union-attr]
    assert limits.seconds == seconds
    assert abs(limits.memory - memory) < 200 * 128


@pytest.mark.parametrize(
    ("what", "said"), [("time", "takes more than 10 seconds, the limit"), ("died", "cannot be read: it did")]
)
def test_a_reader_that_meets_a_limit_is_told(tmp_path: Path, what: str, said: str) -> None:
    path = packed(tmp_path / "a.npz", x=X)
    refusal = ContainedContents(path, "NPZ", 2**20).refusal(LimitError(what, "it did"))
    assert said in refusal.message and refusal.where == str(path) and refusal.hint


def test_an_archive_of_very_many_members_is_refused_at_once(tmp_path: Path) -> None:
    # Violation 13: 120,000 members took 10.6 seconds.
    content = io.BytesIO()
    np.save(content, np.zeros(1))
    took = {}
    for count in (120_000, 2**12 + 1):
        path = tmp_path / f"{count}.npz"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(count):
                archive.writestr(zipfile.ZipInfo(f"a{number}.npy"), content.getvalue())
        start = time.perf_counter()
        told = refuse(path)
        took[count] = time.perf_counter() - start
        assert f"{count}" in told
    assert "4096 can be read" in told
    assert took[120_000] < 5


def test_one_name_twice_or_in_two_readings_is_refused_and_others_are_names(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.npz", x=X, X=-X, é=NAMES)
    archive = open_archive(path)
    assert list(archive.arrays) == ["x", "X", "é"]
    np.testing.assert_array_equal(archive.arrays["X"].whole(), -X)
    assert archive.arrays["é"].items(0, 7) == NAMES.tolist()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"X.npy", b"x.npy"))
    assert "lists 'x.npy' twice" in refuse(path)
    path.write_bytes(data.replace(b"X.npy", b"\xe9.npy"))
    assert "can be read in two ways" in refuse(path)


def test_only_wanted_forms_are_opened(tmp_path: Path) -> None:
    (tmp_path / "b.npz").write_bytes(b"nothing that is known" * 100)
    assert refuse(tmp_path / "b.npz") == "This is not a file of arrays that is known here."
    assert refuse(tmp_path / "b.npz", forms=("NPZ",)) == "This is not an NPZ."
    path = npy(tmp_path / "a.npz", x=X)
    assert refuse(path, forms=("NPZ",)) == "This is a file of the form NPY, not an NPZ."
    assert refuse(hdf5(path, x=X), forms=("NPZ", "NPY")) == "This is a file of the form HDF5, not an NPZ or an NPY."


def test_a_zip_of_torch_is_told_by_its_entries(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "a.npz"
    torch.save({"x": torch.from_numpy(X)}, path)
    assert refuse(path, forms=("NPZ", "NPY")) == "This is a file of the form torch, not an NPZ or an NPY."
    archive = open_archive(path)
    assert archive.form == "torch"
    np.testing.assert_array_equal(archive.arrays["x"].rows(1, 4, (1, 0, 2)), X[1:4, :2])


@pytest.mark.parametrize("numbers", [(-1, 200, 0, 80), (0, 10**12, 0, 80), (0, 0, 0, 0)])
def test_a_child_that_lies_is_not_believed(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    array = only(packed(tmp_path / "a.npz", x=X))
    with pytest.raises(InputError, match="another shape than it promised"):
        replace(array, shape=(7, 5, 7)).rows(0, 1)
    with pytest.raises(InputError, match="contradict each other"):
        listed_array(array.path, array.source, array.stamp, "x", (5, 6), "<f4", False, numbers)


def test_arrays_that_unpack_to_too_much_together_are_refused(tmp_path: Path) -> None:
    archive = open_archive(promise(tmp_path / "a.npz", x=(200, 10**6), y=(2, 10**8), z=(3,), far=(2, 2**28)))
    archive.check_expansion(("x", "z", "w"))
    archive.check_expansion(("y",))
    with pytest.raises(InputError, match="The file unpacks to 400000000 bytes, over 100 times its size"):
        archive.check_expansion(("x", "y"))
    with pytest.raises(InputError, match="The array 'far' unpacks to 536870912 bytes"):
        archive.check_expansion(("far",))


@pytest.mark.parametrize("how", ["replaced", "written", "cut off", "gone"])
@pytest.mark.parametrize("name", ["plain.npz", "packed.npz", "a.npy", "a.h5"])
def test_a_file_that_changes_after_it_was_listed_is_refused(tmp_path: Path, name: str, how: str) -> None:
    def save(path: Path, values: Any) -> None:
        if path.suffix == ".h5":
            with h5py.File(path, "w") as file:
                file["array"] = values
        elif path.suffix == ".npy":
            np.save(path, values)
        else:
            (np.savez if name == "plain.npz" else np.savez_compressed)(path, array=values)

    path, later = tmp_path / name, tmp_path / f"next{Path(name).suffix}"
    save(path, np.zeros((4, 2)))
    save(later, np.ones((4, 2)))
    # Clocks of files may be coarse.
    os.utime(path, (1, 1))
    array = open_archive(path).find("array")
    assert array.whole().sum() == 0
    os.link(path, tmp_path / "kept")
    assert array.rows(1, 2).sum() == 0
    if how == "replaced":
        later.replace(path)
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(later.read_bytes()[: -9 if how == "cut off" else None])
    for read in (lambda: array.rows(0, 2), array.whole):
        with pytest.raises(InputError, match="No such file" if how == "gone" else "changed while it was read"):
            read()
