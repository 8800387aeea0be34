"""Do manifests say which parts of a run are done, and is what is no manifest of ours left aside?"""

import json
import os
import time
from pathlib import Path

import pytest

from audits.core.context import Cache
from audits.core.errors import IncompleteError
from audits.core.machines import Stage
from audits.report.part_manifests import MOST_BYTES, Manifest, Parts, parts_of, remove, write

MARK = "5e" * 32


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def begun(number: int = 1, of: int = 3, mark: str = MARK) -> Manifest:
    return Manifest(
        audit="certify", mark=mark, number=number, of=of, state="begun", began="2026-11-28T08:00:00Z", seconds=0.0,
        machine="node-7", command=("miles", "certify", "ünï", "--array", f"{number}/{of}"),
    )  # fmt: skip


def stage(computed: int = 2, **missing: int) -> Stage:
    return Stage(
        things="images", jobs=9, computed=computed, found=1, missing={int(k[1:]): n for k, n in missing.items()}
    )


def test_a_part_is_begun_then_waits_then_is_done(cache: Cache) -> None:
    assert parts_of(cache, MARK) == Parts() and not cache.folder.exists()
    path = write(cache, begun(2))
    assert path == cache.folder / "parts" / "5e" / f"{MARK}.2-of-3.json"
    assert parts_of(cache, MARK).states == {2: "begun"}
    waits = begun(2).ended([stage(_1=3), stage(computed=1, _3=4)], waits=True, seconds=1.23456)
    assert write(cache, waits) == path
    assert parts_of(cache, MARK).states == {2: "waits"}
    held = json.loads(path.read_text(encoding="utf-8"))
    assert held == waits.to_json() and (held["state"], held["seconds"], held["part"]) == ("waits", 1.235, 2)
    assert held["command"] == ["miles", "certify", "ünï", "--array", "2/3"]
    (summed,) = held["stages"]
    assert summed == {"things": "images", "jobs": 18, "computed": 3, "found": 2, "missing": {"1": 3, "3": 4}}
    write(cache, begun(2).ended([stage()], waits=False, seconds=1))
    assert parts_of(cache, MARK) == Parts(of=3, states={2: "done"})
    assert parts_of(cache, "5e" + "0" * 62) == Parts(), "of another run"
    remove(cache, begun(2))
    remove(cache, begun(2))
    assert parts_of(cache, MARK) == Parts()


def test_parts_that_never_began_are_named(cache: Cache) -> None:
    for number, state in ((1, "done"), (2, "begun"), (4, "waits")):
        made = begun(number, 20)
        write(cache, made if state == "begun" else made.ended([], waits=state == "waits", seconds=0))
    known = parts_of(cache, MARK)
    assert known.of == 20 and known.never_begun == [3, *range(5, 21)]
    expected = "1 of 20 parts are done; waiting for others: 4; at work or killed: 2; "
    assert known.words() == f"{expected}not begun: 3, 5, 6, 7, 8, 9, 10, 11, 12, 13 and 7 more"


def test_of_two_ways_to_cut_the_later_one_counts(cache: Cache) -> None:
    now = time.time()
    for number, of, age in ((1, 3, 30), (2, 3, 90), (1, 5, 60), (4, 5, 40)):
        path = write(cache, begun(number, of))
        os.utime(path, (now - age, now - age))
    assert parts_of(cache, MARK) == Parts(of=3, states={1: "begun", 2: "begun"})
    os.utime(path, (now - 20, now - 20))
    assert parts_of(cache, MARK) == Parts(of=5, states={1: "begun", 4: "begun"})


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"7", b"{}", b'{"state": "lost"}', b'{"state": ["done"]}', b'{"state": {}}',
     b"\xff\xfe", b"[" * 100_000, b'{"state": ' + b"9" * 5000 + b"}",
     b'{"state": "done", "more": "' + b"x" * MOST_BYTES + b'"}'],
)  # fmt: skip
def test_a_damaged_manifest_is_none(cache: Cache, content: bytes) -> None:
    write(cache, begun(1).ended([], waits=False, seconds=0))
    write(cache, begun(2)).write_bytes(content)
    assert parts_of(cache, MARK) == Parts(of=3, states={1: "done"})


def test_ten_megabytes_are_not_read(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(cache, begun())
    with path.open("r+b") as file:
        file.truncate(10**7)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it is read"))
    assert parts_of(cache, MARK) == Parts()


@pytest.mark.parametrize(
    "name", ["{}.0-of-3.json", "{}.4-of-3.json", "{}.1-of-0.json", "{}.1-of-99999999.json", "{}.-1-of-3.json",
             "{}.1-of-3.json.json", "{}.x.json", "{}.2-of-3 .json"],
)  # fmt: skip
def test_other_names_are_none_of_ours(cache: Cache, name: str) -> None:
    path = write(cache, begun())
    path.rename(path.with_name(name.format(MARK)))
    assert parts_of(cache, MARK) == Parts()


def test_links_and_folders_are_none(cache: Cache, tmp_path: Path) -> None:
    path = write(cache, begun(1))
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    path.with_name(f"{MARK}.2-of-3.json").mkdir()
    assert parts_of(cache, MARK) == Parts()


def test_a_pipe_is_not_opened(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(cache, begun())
    path.unlink()
    os.mkfifo(path)
    # Who opened it would wait for ever.
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it is read"))
    assert parts_of(cache, MARK) == Parts()


def test_manifests_are_counted_and_cleared(cache: Cache) -> None:
    size = sum(write(cache, begun(number)).stat().st_size for number in (1, 2))
    mine = cache.folder / "parts" / "5e" / "mine.json"
    mine.write_text("{}", encoding="utf-8")
    assert cache.usage() == {"parts": (2, size)}
    assert cache.clear() == size and mine.exists() and parts_of(cache, MARK) == Parts()


def test_a_cache_that_cannot_be_written_is_told(cache: Cache) -> None:
    cache.folder.mkdir()
    (cache.folder / "parts").write_text("no folder", encoding="utf-8")
    with pytest.raises(IncompleteError, match="manifest") as told:
        write(cache, begun())
    assert "parts" in told.value.where and "MILES_CACHE" in told.value.hint
    remove(cache, begun())
