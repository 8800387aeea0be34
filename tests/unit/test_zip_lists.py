"""Steps between the parts of a zip's list: extra fields, comments, and the second kind of end."""

import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from probes.core.errors import InputError
from probes.files.zips import entries

PLAIN_FIELD = struct.pack("<HH", 0xCAFE, 3) + b"abc"


def listed(path: Path, extra: bytes, comment: bytes) -> list[str]:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a", "b"):
            info = zipfile.ZipInfo(name)
            info.extra, info.comment = extra, comment
            archive.writestr(info, b"1")
    return [info.filename for info in entries(path)]


@pytest.mark.parametrize(("extra", "comment"), [(PLAIN_FIELD, b""), (b"", b"a remark"), (2 * PLAIN_FIELD, b"both")])
def test_fields_and_comments_are_stepped_over(tmp_path: Path, extra: bytes, comment: bytes) -> None:
    assert listed(tmp_path / "a.zip", extra, comment) == ["a", "b"]


def test_another_name_is_found_behind_another_field(tmp_path: Path) -> None:
    other = b"\x01" + struct.pack("<I", zlib.crc32(b"a")) + b"y"
    extra = PLAIN_FIELD + struct.pack("<HH", 0x7075, len(other)) + other
    with pytest.raises(InputError, match="an entry has two names"):
        listed(tmp_path / "a.zip", extra, b"")


@pytest.mark.parametrize(
    ("part", "place", "byte"), [("end", 0, b"Q"), ("end", 4, b"-"), ("end", 40, b"Q"), ("locator", 8, b"\1")]
)
def test_a_second_kind_of_end_that_does_not_fit_is_refused(tmp_path: Path, part: str, place: int, byte: bytes) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"1")
    data = path.read_bytes()
    at = data.index(b"PK\x05\x06")
    count, length, start = struct.unpack("<HII", data[at + 10 : at + 20])
    # The long end, its locator, and the short end that names neither entries nor bytes.
    long = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, length, start)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, at, 1)
    short = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(data[:at] + long + locator + short)
    assert [info.filename for info in entries(path)] == ["a"]
    where = at + place + (len(long) if part == "locator" else 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:where] + byte + whole[where + 1 :])
    with pytest.raises(InputError, match="could be read in two ways"):
        entries(path)
