"""Does a zip that two readers could read as two contents never get as far as a reader?"""

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from probes.core.errors import InputError
from probes.files.zips import entries

CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"


class Unseekable(io.RawIOBase):
    """A stream."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self.file.write(data)


def written(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for place, name in enumerate(names):
            archive.writestr(name, f"content {place}")
    return path


def flagged(path: Path, place: int) -> Path:
    """Mark the name of an entry as UTF-8, in the list at the end."""
    data = bytearray(path.read_bytes())
    start = -1
    for _ in range(place + 1):
        start = data.index(CENTRAL, start + 1)
    flags = struct.unpack_from("<H", data, start + 8)[0]
    struct.pack_into("<H", data, start + 8, flags | 0x800)
    path.write_bytes(bytes(data))
    return path


def refused(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        entries(path, **options)  # type: ignore[arg-type]
    assert str(path) in caught.value.where and caught.value.hint
    return caught.value.message


def test_entries_are_what_zipfile_lists(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", "a/x", "a/y", "b")
    assert [info.filename for info in entries(path)] == ["a/x", "a/y", "b"]
    assert [info.file_size for info in entries(path)] == [9, 9, 9]
    assert entries(written(tmp_path / "none.zip")) == []


def test_a_zip_of_more_than_four_gigabytes_is_listed_by_its_second_kind_of_end(tmp_path: Path) -> None:
    path = tmp_path / "big.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for place in range(2**16 + 5):
            archive.writestr(zipfile.ZipInfo(f"{place}"), b"")
    assert len(entries(path, most=2**17)) == 2**16 + 5
    assert "lists 65541 entries; 65536 can be read" in refused(path)


def test_one_raw_name_under_two_decodings_is_refused(tmp_path: Path) -> None:
    # The bytes E2 84 AA are a Kelvin sign as UTF-8, three other letters as cp437; zipfile decodes by a mark of each.
    path = written(tmp_path / "a.zip", "qqqX/data.pkl", "pppX/data.pkl")
    path.write_bytes(path.read_bytes().replace(b"qqqX", b"\xe2\x84\xaaX").replace(b"pppX", b"\xe2\x84\xaaX"))
    flagged(path, 1)
    with zipfile.ZipFile(path) as archive:
        assert len({info.filename for info in archive.infolist()}) == 2
    for unicode in (False, True):
        assert "can be read in two ways" in refused(path, unicode=unicode)


def test_names_that_are_not_ascii_are_refused_except_where_asked_for_and_marked(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", "é.npy", "è.npy")
    assert r"\xc3\xa9.npy" in refused(path)
    assert [info.filename for info in entries(path, unicode=True)] == ["é.npy", "è.npy"]
    unmarked = tmp_path / "b.zip"
    unmarked.write_bytes(written(tmp_path / "c.zip", "qq.npy").read_bytes().replace(b"qq", "é".encode()))
    assert "can be read in two ways" in refused(unmarked, unicode=True)
    broken = tmp_path / "d.zip"
    broken.write_bytes(path.read_bytes().replace("é".encode(), b"\xc3\xc3"))
    assert "cannot be read" in refused(broken, unicode=True)
    assert "cannot be read" in refused(flagged(broken, 0))


@pytest.mark.parametrize("unicode", [False, True])
def test_one_name_twice_or_a_zero_byte_in_it_is_refused(tmp_path: Path, unicode: bool) -> None:
    path = written(tmp_path / "a.zip", "x.npy", "y.npy")
    twice = tmp_path / "twice.zip"
    twice.write_bytes(path.read_bytes().replace(b"y.npy", b"x.npy"))
    assert "lists 'x.npy' twice" in refused(twice, unicode=unicode)
    zero = tmp_path / "zero.zip"
    zero.write_bytes(path.read_bytes().replace(b"y.npy", b"x\0npy"))
    assert r"x\x00npy" in refused(zero, unicode=unicode)


def test_letters_in_another_case_are_another_array_but_the_same_entry_for_torch(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", "x.npy", "X.npy")
    assert "twice" in refused(path)
    assert len(entries(path, unicode=True)) == 2


def test_counts_and_bytes_of_the_list_must_agree(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", "x", "y", "z")
    data = path.read_bytes()
    end = data.rindex(END)
    for count, message in ((2, "longer than the file says"), (4, "shorter than the file says")):
        path.write_bytes(data[: end + 8] + struct.pack("<HH", count, count) + data[end + 12 :])
        with zipfile.ZipFile(path) as archive:
            assert len(archive.infolist()) == 3
        assert message in refused(path)


@pytest.mark.parametrize("change", [lambda d: d + b"x", lambda d: b"x" + d, lambda d: d[:-9], lambda d: b"no zip"])
def test_what_stands_around_the_list_is_refused(tmp_path: Path, change: object) -> None:
    path = written(tmp_path / "a.zip", "x")
    assert len(entries(path)) == 1
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    assert "could be read in two ways" in refused(path)


def test_another_name_in_an_extra_field_is_no_second_reading(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("x.npy")
    other = b"\x01" + struct.pack("<I", zlib.crc32(b"x.npy")) + b"y.npy"
    info.extra = struct.pack("<HH", 0x7075, len(other)) + other
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, b"")
    assert "an entry has two names" in refused(path)


def test_a_long_list_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", *(f"{place}" for place in range(20)))
    assert len(entries(path, most=20)) == 20
    # What is no list any more is not found out.
    path.write_bytes(path.read_bytes().replace(b"PK\x01\x02", b"none"))
    assert "its list of entries is shorter" in refused(path, most=20)
    assert "lists 20 entries; 19 can be read" in refused(path, most=19)


def test_entries_outside_of_the_file_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", "a", "b")
    data = path.read_bytes()
    end = data.rindex(END)
    start = struct.unpack_from("<I", data, end + 16)[0]
    for far in (2**64 - 1, 2**63, len(data)):
        # The place of the first entry, in the field that large files have for it.
        entry = bytearray(data[start : start + 47]) + struct.pack("<HHQ", 1, 8, far)
        struct.pack_into("<H", entry, 30, 12)
        struct.pack_into("<I", entry, 42, 2**32 - 1)
        tail = bytearray(data[end:])
        struct.pack_into("<I", tail, 12, end - start + 12)
        path.write_bytes(data[:start] + entry + data[start + 47 : end] + tail)
        assert "outside of the file" in refused(path)


@pytest.mark.parametrize(
    ("place", "field", "value", "said"),
    [
        (1, 28, 60, "stands outside of the file"),
        (1, 28, 60_000, "stands outside of the file"),
        (1, 26, 60, "stands outside of the file"),
        (0, 28, 20, "two entries in it share bytes"),
        (0, 26, 20, "two entries in it share bytes"),
        (0, 2, 0x0605, "has no header"),
    ],
)
def test_entries_stand_one_behind_the_other_by_their_own_headers(
    place: int, field: int, value: int, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.zip", "a", "b")
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, entries(path)[place].header_offset + field, value)
    path.write_bytes(data)
    assert said in refused(path)


def test_two_entries_of_one_header_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", "a", "b")
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rindex(CENTRAL) + 42, 0)
    path.write_bytes(data)
    assert "two entries in it share bytes" in refused(path)


def test_what_stands_behind_an_entry_is_passed_over(tmp_path: Path) -> None:
    """Such as sizes that a writer knew too late, as of a stream."""
    with (tmp_path / "a.zip").open("wb") as file, zipfile.ZipFile(Unseekable(file), "w") as archive:
        archive.writestr("a", "1" * 100)
        archive.writestr("b", "2" * 100)
    assert [info.compress_size for info in entries(tmp_path / "a.zip")] == [100, 100]
