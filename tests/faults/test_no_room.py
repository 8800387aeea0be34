"""What does a run leave on a disk that is full or cannot be written, and does it go on once there is room?"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from equal_runs import QUICK, same, to
from forked_runs import Ended, Server

KILOBYTES = (4, 12, 400)
"""Too small for the settings of a run beside its lock, for its report, and for its pages."""

GO_ON = ("interference", "lipschitz", "spectra")
"""Audits that are run to their end once the cache has room; all write to it in one of the ways that these do."""

CACHELESS = {
    "audit-conditional",
    "audit-faithfulness",
    "audit-gradients",
    "audit-groups",
    "audit-scaling",
    "audit-tracking",
}
"""Runs of the small world that keep nothing."""


class Disk:
    """A file system of its own whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def mount(self, options: str) -> None:
        again = "remount," if os.path.ismount(self.folder) else ""
        command = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode and not again:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("only root may mount a file system")
    made = Disk(tmp_path / "disk")
    yield made
    if os.path.ismount(made.folder):
        subprocess.run(["umount", str(made.folder)], check=True)


def told_once(ended: Ended, *said: str) -> None:
    """Fail unless the run ended in one panel that says these things."""
    assert ended.code == 3, ended.err
    assert ended.err.count("╭─ Error ─") == 1
    assert all(part in " ".join(ended.err.split()) for part in said), ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("kilobytes", KILOBYTES)
def test_a_run_folder_without_room_is_told_and_the_run_goes_on_when_there_is_some(
    kilobytes: int, disk: Disk, server: Server, work: Path, prepared: Path, tmp_path: Path
) -> None:
    disk.mount(f"size={kilobytes}k")
    run, cache = disk.folder / "run", tmp_path / "cache"
    words = to(QUICK["lipschitz"], run)
    # Pages are dear to make, and only the largest disk has room for what comes before them.
    more = {"pages": True} if kilobytes == KILOBYTES[-1] else {}
    told_once(server.run(words, work, cache, **more), "No space left on device", "Make room")
    assert not (run / "report.json").exists()
    assert not list(run.rglob(".part-*"))
    assert server.run(["show", str(run)], work, cache).code == 2
    disk.mount("size=64m")
    kept = {file: file.stat().st_mtime_ns for file in cache.rglob("*") if file.is_file()}
    assert server.run(words, work, cache).code == 0
    assert kept.items() <= {file: file.stat().st_mtime_ns for file in cache.rglob("*") if file.is_file()}.items()
    same(run, prepared / "work" / QUICK["lipschitz"][-1])


def test_a_disk_without_room_for_the_run_folder_itself_is_told_alike(
    disk: Disk, server: Server, work: Path, tmp_path: Path
) -> None:
    disk.mount("size=64m,nr_inodes=2")
    run, cache = disk.folder / "new" / "run", tmp_path / "cache"
    words = to(QUICK["lipschitz"], run)
    told_once(server.run(words, work, cache), "The run folder cannot be made: No space left on device", "Make room")
    assert list(disk.folder.iterdir()) == []
    assert not cache.exists()
    disk.mount("size=64m,nr_inodes=1000")
    assert server.run(words, work, cache).code == 0


def test_a_run_folder_that_cannot_be_written_is_refused_before_anything_is_run(
    disk: Disk, server: Server, work: Path, prepared: Path, tmp_path: Path
) -> None:
    disk.mount("size=64m")
    run, cache = disk.folder / "run", tmp_path / "cache"
    disk.mount("ro")
    refused = server.run(to(QUICK["lipschitz"], run), work, cache)
    assert (refused.code, refused.out) == (2, "")
    assert "The run folder cannot be made: Read-only file system" in refused.err
    assert not cache.exists()
    disk.mount("rw")
    assert server.run(to(QUICK["lipschitz"], run), work, cache).code == 0
    disk.mount("ro")
    # What is finished is read, and only what would change it is refused.
    assert server.run(to(QUICK["lipschitz"], run), work, cache).code == 0
    assert server.run(["show", str(run)], work, cache).code == 0
    told_once(server.run(["render", str(run)], work, cache, pages=True), "Read-only file system")
    same(run, prepared / "work" / QUICK["lipschitz"][-1])


@pytest.mark.parametrize("name", sorted(QUICK.keys() - CACHELESS))
def test_a_cache_without_room_is_told_and_the_run_goes_on_when_there_is_some(
    name: str, disk: Disk, server: Server, work: Path, prepared: Path, tmp_path: Path
) -> None:
    disk.mount("size=8k")
    run, cache = tmp_path / "run", disk.folder / "cache"
    words = to(QUICK[name], run)
    told_once(
        server.run(words, work, cache), "cannot be written", "Make room", "run the same command again: it resumes"
    )
    assert not (run / "report.json").exists()
    assert not list(cache.rglob(".part-*"))
    if name not in GO_ON:
        return
    disk.mount("size=64m")
    ended = server.run(words, work, cache)
    assert ended.code == 0, ended.err
    same(run, prepared / "work" / QUICK[name][-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_cache_that_can_only_be_read_is_enough_for_a_run_that_finds_everything_in_it(
    name: str, disk: Disk, server: Server, work: Path, prepared: Path, tmp_path: Path
) -> None:
    disk.mount("size=64m")
    cache = Path(shutil.copytree(prepared / "cache", disk.folder / "cache"))
    disk.mount("ro")
    ended = server.run(to(QUICK[name], tmp_path / "run"), work, cache)
    assert ended.code == 0, ended.err
    same(tmp_path / "run", prepared / "work" / QUICK[name][-1])


def test_a_run_that_finds_not_everything_in_a_cache_that_can_only_be_read_is_told_so(
    disk: Disk, server: Server, work: Path, tmp_path: Path
) -> None:
    disk.mount("size=1m")
    disk.mount("ro")
    ended = server.run(to(QUICK["lipschitz"], tmp_path / "run"), work, disk.folder / "cache")
    told_once(ended, "The cache cannot be written", "Read-only file system")


def test_a_damaged_entry_that_cannot_be_removed_is_met_like_one_that_can(
    disk: Disk, server: Server, work: Path, prepared: Path, tmp_path: Path
) -> None:
    disk.mount("size=64m")
    cache = Path(shutil.copytree(prepared / "cache", disk.folder / "cache"))
    for entry in cache.glob("spectral-norms/*/*"):
        entry.write_bytes(b"spoilt")
    disk.mount("ro")
    ended = server.run(to(QUICK["lipschitz"], tmp_path / "run"), work, cache)
    told_once(ended, "The cache cannot be written", "Make room or point MILES_CACHE at another folder")
