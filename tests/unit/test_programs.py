"""Programs of others behind walls: what comes back, what they cannot reach, and how they end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from probes.contained import programs
from probes.contained.limits import LimitError, Limits
from probes.contained.programs import installed, run_program

SMALL = Limits(memory=2**26, seconds=1)
SHELL = Path("/bin/sh")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="walls around files and the network are Linux's")


def shell(code: str, *, reads: tuple[Path, ...] = (), limits: Limits = SMALL, most: int = 2**20) -> tuple[int, str]:
    ended = run_program(SHELL, ["-c", code], reads=reads, limits=limits, most=most)
    return ended.status, ended.output.decode()


def test_output_status_and_complaints_come_back_and_nothing_is_read_by_a_shell() -> None:
    ended = run_program(SHELL, ["-c", 'printf "%s" "$1"; echo no >&2; exit 3', "x", "$(id) ; *"], limits=SMALL, most=99)
    assert (ended.status, ended.output, ended.said) == (3, b"$(id) ; *", "no\n")


@LINUX
def test_only_the_files_that_it_is_given_can_be_read_and_none_written(tmp_path: Path) -> None:
    given, other = tmp_path / "given", tmp_path / "other"
    given.write_text("mine")
    other.write_text("secret")
    assert shell(f"cat {given}", reads=(given,)) == (0, "mine")
    assert shell(f"cat {other}", reads=(given,)) == (1, "")
    assert shell(f"cat {Path.home()}/.* /etc/passwd /proc/self/environ", reads=(given,))[1] == ""
    for target in (given, tmp_path / "new"):
        assert shell(f"echo x > {target}", reads=(given,))[0] != 0
    assert given.read_text() == "mine" and not (tmp_path / "new").exists()


def test_secrets_of_the_environment_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILES_TOKEN", "secret")
    monkeypatch.setenv("FFREPORT", "file=x.log")
    assert {line.partition("=")[0] for line in shell("env")[1].splitlines()} <= {
        "PATH", "LC_ALL", "LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL", "_"
    }  # fmt: skip


def test_time_output_and_memory_have_limits() -> None:
    with pytest.raises(LimitError, match="more than 1 seconds"):
        shell("while :; do :; done")
    with pytest.raises(LimitError, match="writes more than 0 MiB"):
        shell("yes", most=1000)
    begin = time.monotonic()
    with pytest.raises(LimitError, match="does not end"):
        run_program(SHELL, ["-c", "sleep 50"], limits=_Impatient(memory=2**26, seconds=1), most=1)
    assert time.monotonic() - begin < 20


class _Impatient(Limits):
    @property
    def patience(self) -> float:
        return 1.0


@LINUX
def test_memory_has_a_limit() -> None:
    # The shell holds what it reads into a variable, and two copies while it grows.
    code, room = "x=$(yes | head -c %s); echo ${#x}", Limits(memory=2**25, seconds=9)
    assert shell(code % 1_000_000, limits=room) == (0, "999999\n")
    status, output = shell(code % 60_000_000, limits=room)
    assert status != 0 and output == ""


def test_a_program_is_found_in_absolute_folders_of_the_path_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "prog").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join(["here", "", str(tmp_path / "there")]))
    (tmp_path / "here" / "prog").chmod(0o755)
    assert installed("prog") is None
    (tmp_path / "there" / "prog").chmod(0o755)
    assert installed("prog") == tmp_path / "there" / "prog"


@LINUX
@pytest.mark.parametrize(("parent", "output"), [(0, b""), (1, b"on\n")])
def test_a_program_whose_caller_died_before_it_began_does_not_begin(parent: int, output: bytes) -> None:
    walls = json.dumps([2**28, 9, [], ["/usr", "/bin", "/lib", "/lib64"], parent * os.getpid()])
    call = [sys.executable, "-I", "-S", programs._LAUNCH, walls, "/bin/sh", "-c", "echo on"]
    assert subprocess.run(call, capture_output=True, check=False).stdout == output


def test_where_a_process_cannot_become_a_program_it_is_started_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: two threads read, and seconds count by the clock."""
    monkeypatch.setattr(programs, "FORKS", False)
    assert shell("printf x; echo no >&2; exit 3") == (3, "x")
    large = "head -c 600000 /dev/zero; head -c 300000 /dev/zero >&2"
    ended = run_program(SHELL, ["-c", large], limits=SMALL, most=2**20)
    assert len(ended.output) == 600_000 and len(ended.said) < 2**19
    begun = time.monotonic()
    with pytest.raises(LimitError, match="does not end within 1 seconds") as late:
        shell("sleep 50")
    with pytest.raises(LimitError, match="writes more than 1 MiB") as long:
        shell("cat /dev/zero")
    assert (late.value.what, long.value.what) == ("time", "output") and time.monotonic() - begun < 20
