"""Do zipfile, the reader of torch and unzip list and read the same in every zip that is let through?"""

import random
import shutil
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from probes.core.errors import InputError
from probes.files.zips import entries

COMBINATIONS = 150
Content = list[tuple[bytes, bytes]]
"""Names and bytes of the entries in the order of the list."""


@dataclass(frozen=True)
class Entry:
    """An entry as it is written; where `local_` says nothing, the header before the data is as the list at the end."""

    name: bytes
    data: bytes = b""
    flags: int = 0
    packed: bool = False
    extra: bytes = b""
    comment: bytes = b""
    local_name: bytes | None = None
    local_flags: int | None = None
    local_size: int | None = None
    size: int | None = None
    shared: bool = False
    """Whether it points to the header of the entry before."""


@dataclass(frozen=True)
class Archive:
    """A zip as it is written."""

    parts: tuple[Entry, ...]
    prefix: bytes = b""
    counted: bool = True
    """Whether offsets count the prefix."""
    comment: bytes = b""
    behind: bytes = b""
    more: int = 0
    """Entries that the end tells beyond those there are."""
    wide: bool = False
    """Whether its end is that of a large file."""
    lie: int = 0
    """By how much the start of the list in that end is wrong."""
    between: bytes = b""
    """What stands before the last end."""
    changes: dict[str, object] = field(default_factory=dict)

    def written(self) -> bytes:
        """Return the bytes."""
        out, listed, start = bytearray(self.prefix), bytearray(), 0
        away = 0 if self.counted else len(self.prefix)
        for one in self.parts:
            deflate = zlib.compressobj(wbits=-15)
            body = deflate.compress(one.data) + deflate.flush() if one.packed else one.data
            method, check = 8 if one.packed else 0, zlib.crc32(one.data)
            size = len(one.data) if one.size is None else one.size
            if not one.shared:
                start = len(out) - away
                name = one.name if one.local_name is None else one.local_name
                flags = one.flags if one.local_flags is None else one.local_flags
                told = size if one.local_size is None else one.local_size
                out += b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, flags, method, 0, 33, check, len(body), told,
                                               len(name), 0) + name + body  # fmt: skip
            listed += b"PK\1\2" + struct.pack(
                "<HHHHHHIIIHHHHHII",
                20,
                20,
                one.flags,
                method,
                0,
                33,
                check,
                len(body),
                size,
                len(one.name),
                len(one.extra),
                len(one.comment),
                0,
                0,
                0,
                start,
            )
            listed += one.name + one.extra + one.comment  # fmt: skip
        place, count = len(out) - away, len(self.parts) + self.more
        out += listed + self.between
        if self.wide:
            end = len(out) - away
            out += b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(listed), place + self.lie)
            out += b"PK\6\7" + struct.pack("<IQI", 0, end, 1)
        out += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(listed), place, len(self.comment))
        return bytes(out + self.comment + self.behind)


def by_zipfile(path: Path) -> Content | None:
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            coded = [info.filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437") for info in infos]
            return list(zip(coded, [archive.read(info) for info in infos], strict=True))
    except (zipfile.BadZipFile, ValueError, EOFError, zlib.error, RuntimeError, OSError):
        return None


def by_torch(path: Path) -> Content | None:
    import torch

    try:
        reader = torch._C.PyTorchFileReader(str(path))
        names = reader.get_all_records()
        return [(name.encode(), reader.get_record(name)) for name in names]
    except (RuntimeError, UnicodeError):
        return None


def by_unzip(path: Path) -> tuple[list[bytes], bytes] | None:
    listed, read = (
        subprocess.run(
            ["unzip", *how, str(path)], capture_output=True, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
        )
        for how in (["-Z1"], ["-p"])
    )
    return None if listed.returncode or read.returncode else (listed.stdout.split(b"\n")[:-1], read.stdout)


def differences(path: Path) -> list[str]:
    """Return how readers differ in what they find; one that refuses the file does not differ."""
    plain, torch, unzip = by_zipfile(path), by_torch(path), by_unzip(path) if shutil.which("unzip") else None
    wrong = []
    if plain is not None and torch is not None:
        # It names entries without the folder that all of them stand in, and finds each by its name.
        inside = [(name.split(b"/", 1)[-1], data) for name, data in plain]
        if inside != torch:
            wrong.append(f"zipfile and torch: {inside} and {torch}")
    if plain is not None and unzip is not None:
        names, data = unzip
        if [name for name, _ in plain] != names or b"".join(data for _, data in plain) != data:
            wrong.append(f"zipfile and unzip: {plain} and {unzip}")
    return wrong


def accepted(path: Path, *, unicode: bool) -> bool:
    try:
        entries(path, unicode=unicode)
    except InputError:
        return False
    return True


GOOD = Archive(
    (
        Entry(b"a/data.pkl", b"\x80\x02}."),
        Entry(b"a/version", b"3\n"),
        Entry(b"a/byteorder", b"little"),
        Entry(b"a/data/0", bytes(range(64))),
    )
)


def _each(**changes: object) -> Callable[[Archive], Archive]:
    return lambda good: replace(good, parts=tuple(replace(one, **changes) for one in good.parts))


def _last(**changes: object) -> Callable[[Archive], Archive]:
    return lambda good: replace(good, parts=(*good.parts[:-1], replace(good.parts[-1], **changes)))


def _add(*more: Entry) -> Callable[[Archive], Archive]:
    return lambda good: replace(good, parts=good.parts + more)


def _first(*more: Entry) -> Callable[[Archive], Archive]:
    return lambda good: replace(good, parts=more + good.parts)


def _whole(**changes: object) -> Callable[[Archive], Archive]:
    return lambda good: replace(good, **changes)


KELVIN = b"\xe2\x84\xaa"
OTHER = replace(GOOD, parts=(Entry(b"a/data.pkl", b"\x80\x02N."), *GOOD.parts[1:])).written()
TRICKS: dict[str, Callable[[Archive], Archive]] = {
    "as it is": _whole(),
    "packed": _each(packed=True),
    "marked as UTF-8": _each(flags=0x800),
    "names in UTF-8, marked": _add(Entry("a/é".encode(), b"x", flags=0x800)),
    "names in UTF-8, unmarked": _add(Entry("a/é".encode(), b"x")),
    "two decodings of one name": _first(Entry(KELVIN + b"/data.pkl", b"N."), Entry(KELVIN + b"/data.pkl", b".", 0x800)),
    "a Kelvin sign": _add(Entry(b"a/data/" + KELVIN, b"x", flags=0x800), Entry(b"a/data/k", b"y")),
    "one name twice, at the end": _add(Entry(b"a/data.pkl", b"N.")),
    "one name twice, at the start": _first(Entry(b"a/data.pkl", b"N.")),
    "one name in two cases": _add(Entry(b"a/DATA.PKL", b"N.")),
    "one name in two cases, at the start": _first(Entry(b"A/data.pkl", b"N.")),
    "a zero byte": _add(Entry(b"a/data.pkl\0", b"N.")),
    "a zero byte in between": _first(Entry(b"a/data.pkl\0.txt", b"N.")),
    "a backslash": _add(Entry(b"a\\data.pkl", b"N.")),
    "two slashes": _add(Entry(b"a//data.pkl", b"N.")),
    "a dot": _add(Entry(b"a/./data.pkl", b"N.")),
    "a way up": _add(Entry(b"a/../a/data.pkl", b"N.")),
    "a line break": _add(Entry(b"a/x\ny", b"N.")),
    "another folder": _add(Entry(b"b/data.pkl", b"N.")),
    "another folder first": _first(Entry(b"b/data.pkl", b"N.")),
    "no name": _add(Entry(b"", b"N.")),
    "a folder": _add(Entry(b"a/b/", b"")),
    "a folder with bytes": _add(Entry(b"a/b/", b"N.")),
    "another name before the data": _last(local_name=b"a/data/1"),
    "a longer name before the data": _last(local_name=b"a/data/00"),
    "other flags before the data": _last(local_flags=0x800),
    "a secret": _last(flags=1),
    "a secret before the data": _last(local_flags=1),
    "another size before the data": _last(local_size=3),
    "another size": _last(size=3),
    "a larger size": _last(size=10**6),
    "two entries of one place": _add(Entry(b"a/data/1", bytes(range(64)), shared=True)),
    "another name of one place": _add(Entry(b"a/data/1", bytes(range(64)), shared=True, local_name=b"a/data/1")),
    "an extra field": _last(extra=struct.pack("<HH", 0x9999, 4) + b"abcd"),
    "an extra field cut off": _last(extra=b"\x75\x70\xff"),
    "a name in an extra field": _last(extra=struct.pack("<HHBI", 0x7075, 13, 1, zlib.crc32(b"a/data/0")) + b"a/data/1"),
    "sizes in an extra field": _last(extra=struct.pack("<HHQQ", 1, 16, 3, 3)),
    "comments of entries": _each(comment=b"PK\5\6 or not"),
    "something before": _whole(prefix=b"#!/bin/sh\n"),
    "something before that is not counted": _whole(prefix=b"#!/bin/sh\n", counted=False),
    "another zip before": _whole(prefix=OTHER, counted=False),
    "another zip before, counted": _whole(prefix=OTHER),
    "a comment": _whole(comment=b"hello"),
    "a zip as a comment": _whole(comment=OTHER),
    "an end as a comment": _whole(comment=b"PK\5\6" + bytes(18)),
    "something behind": _whole(behind=b"PK\5\6"),
    "an end behind": _whole(behind=b"PK\5\6" + bytes(18)),
    "another zip behind": _whole(behind=OTHER),
    "an end before the end": _whole(between=b"PK\5\6" + bytes(18)),
    "more entries than there are": _whole(more=1),
    "fewer entries than there are": _whole(more=-1),
    "as a large file": _whole(wide=True),
    "as a large file with another list": _whole(wide=True, prefix=OTHER, lie=-len(OTHER)),
    "as a large file with a wrong list": _whole(wide=True, lie=10),
}


@pytest.fixture(scope="module")
def differ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return how readers differ, by trick."""
    folder, found = tmp_path_factory.mktemp("zips"), {}
    for name, trick in TRICKS.items():
        path = folder / "a.pt"
        path.write_bytes(trick(GOOD).written())
        found[name] = differences(path)
    return found


def test_the_readers_see_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(GOOD.written())
    meant = [(one.name, one.data) for one in GOOD.parts]
    assert by_zipfile(path) == meant
    assert by_torch(path) == [(name[2:], data) for name, data in meant]
    assert accepted(path, unicode=False) and accepted(path, unicode=True)


def test_unzip_sees_what_is_written(tmp_path: Path) -> None:
    if not shutil.which("unzip"):
        pytest.skip("unzip is not installed")
    path = tmp_path / "a.pt"
    path.write_bytes(GOOD.written())
    assert by_unzip(path) == ([one.name for one in GOOD.parts], b"".join(one.data for one in GOOD.parts))


@pytest.mark.parametrize("name", TRICKS)
def test_what_readers_differ_on_is_refused(name: str, differ: dict[str, list[str]], tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(TRICKS[name](GOOD).written())
    assert not (accepted(path, unicode=False) and differ[name]), differ[name]


def test_readers_do_differ(differ: dict[str, list[str]]) -> None:
    assert sum(bool(wrong) for wrong in differ.values()) > 8


def test_what_readers_differ_on_is_refused_where_tricks_meet(tmp_path: Path) -> None:
    rng, path, let_through = random.Random(0), tmp_path / "a.pt", 0
    for _ in range(COMBINATIONS):
        made, names = GOOD, rng.sample(sorted(TRICKS), rng.randint(2, 3))
        for name in names:
            made = TRICKS[name](made)
        path.write_bytes(made.written())
        if accepted(path, unicode=False):
            let_through += 1
            assert differences(path) == [], names
    assert let_through > 5
