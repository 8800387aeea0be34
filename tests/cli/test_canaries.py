"""Is the sealed list of `miles canaries` kept from others, from other calls, and from being written in part?"""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from audits.membership.canary_making import FILES, LIST
from miles_cli.commands import canaries

MAKE = ("canaries", "--count", "40", "--seed", "1", "--out")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_only_the_owner_may_read_the_list(call_miles: Any) -> None:
    assert call_miles(*MAKE, "a").code == 0
    assert Path("a", LIST).stat().st_mode & 0o077 == 0
    assert Path("a", "include.txt").stat().st_mode & 0o777 == 0o666 & ~_umask()


def names() -> list[str]:
    return [path.name for path in Path("a").iterdir()]


def _umask() -> int:
    held = os.umask(0)
    os.umask(held)
    return held


@pytest.mark.parametrize("name", FILES)
def test_no_link_leads_the_list_elsewhere(call_miles: Any, name: str) -> None:
    Path("a").mkdir()
    Path("a", name).symlink_to(Path("elsewhere").absolute())
    called = call_miles(*MAKE, "a")
    assert called.code == 2 and "is there already" in called.err
    assert not Path("elsewhere").exists() and names() == [name]


def test_a_link_to_nothing_is_no_folder(call_miles: Any) -> None:
    Path("a").symlink_to("nowhere")
    called = call_miles(*MAKE, "a")
    assert called.code == 2 and "is no folder" in called.err


def test_two_calls_at_once_do_not_mix_their_coins(call_miles: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = canaries.making.files_of

    def slow(drawn: Any) -> dict[str, str]:
        Path("a").mkdir()
        Path("a", LIST).write_text("of the other")
        return made(drawn)

    monkeypatch.setattr(canaries.making, "files_of", slow)
    called = call_miles(*MAKE, "a")
    assert called.code == 2 and "is there already" in called.err
    assert names() == [LIST] and Path("a", LIST).read_text() == "of the other"


@pytest.mark.parametrize("at", range(len(FILES)))
def test_a_call_that_is_stopped_leaves_no_part(call_miles: Any, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    write, calls = canaries.write, []

    def stopped(path: Path, text: str) -> None:
        calls.append(path)
        if len(calls) > at:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(canaries, "write", stopped)
        assert call_miles(*MAKE, "a").code == 3
    assert names() == []
    assert call_miles(*MAKE, "a").code == 0


def test_more_than_can_be_held_is_refused_first(call_miles: Any) -> None:
    called = call_miles("canaries", "--count", "1000000", "--length", "1000", "--out", "a")
    assert called.code == 2 and "more than 16,777,216 parts" in called.err and not Path("a").exists()
