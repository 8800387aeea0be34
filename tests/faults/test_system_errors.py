"""What does an error of the operating system end a run with, above all one that names no file?"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_world import Outcome, call

import audits.core.runner as runner
from audits.report.report_file import write_text
from miles_cli import folders
from probes.core.errors import IncompleteError, InputError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
RUN = Path("runs/first")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with a table of errors that can be audited."""
    folder = tmp_path / "work"
    folder.mkdir()
    rows = (f"s{speaker},{'fm'[speaker % 2]},{speaker % 5},20\n" for speaker in range(20))
    (folder / "counts.csv").write_text("speaker,gender,errors,words\n" + "".join(rows), encoding="utf-8")
    return folder


def raising(number: int, name: str | None = None) -> Callable[..., Any]:
    """Return a function that fails as the system does."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number), name)

    return fail


def ended(work: Path) -> Outcome:
    """Run an audit, which ends in one panel."""
    outcome = call(["audit-groups", "counts.csv", "--by", "gender", "--out", str(RUN)], work)
    assert outcome.out.count("╭─ Error ─") == 1
    assert "Traceback" not in outcome.out
    return outcome


@pytest.mark.parametrize(
    ("number", "name", "code", "said"),
    [
        (errno.EIO, None, 2, ("Input/output error.", "where: the inputs of audit-groups", "Check the disk")),
        (errno.EACCES, "far/clips.csv", 2, ("Permission denied.", "where: far/clips.csv", "its permissions")),
        (errno.ESTALE, None, 2, ("Stale file handle.", "where: the inputs of audit-groups")),
        (errno.ENOSPC, None, 3, ("No space left on device.", "where: the inputs of audit-groups", "Make room")),
        (errno.EMFILE, None, 3, ("Too many open files.", "where: the inputs of audit-groups")),
        (errno.ENOENT, "far/clips.csv", 2, ("No such file or directory.", "where: far/clips.csv")),
        (errno.EPIPE, None, 3, ("Broken pipe.", "where: the inputs of audit-groups")),
        (errno.EROFS, "cache/entry", 3, ("Read-only file system.", "where: cache/entry")),
        (errno.ENOENT, f"{runner.__file__}.lost", 3, ("No such file or directory.", "Install miles again")),
        (errno.EACCES, os.__file__, 3, ("Permission denied.", "Install miles again")),
        (errno.ENOENT, "env/lib/site-packages/a/b.json", 3, ("No such file or directory.", "Install miles again")),
    ],
)
def test_an_input_that_the_system_does_not_give_is_wrong_input(
    number: int, name: str | None, code: int, said: tuple[str, ...], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "check", raising(number, name))
    outcome = ended(work)
    assert outcome.code == code
    assert all(part in outcome.out for part in said), outcome.out
    assert not (work / RUN).exists()


@pytest.mark.parametrize("said", ["library not found using find_library.", ""])
def test_an_error_without_a_number_keeps_its_text(said: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(spec: Any, options: Any, context: Any) -> Any:
        with context.progress.phase("Checking recordings", 1, "recordings"):
            raise OSError(said) if said else OSError

    monkeypatch.setattr(runner, "check", fail)
    outcome = ended(work)
    assert outcome.code == 3
    assert (said or "OSError.") in outcome.out and ".." not in outcome.out
    assert "where: miles audit-groups" in outcome.out and "--verbose" in outcome.out


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_an_error_of_a_run_at_work_says_what_was_at_work(
    number: int, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(spec: Any, options: Any, plan: Any, context: Any) -> Any:
        with context.progress.phase("Resampling speakers", 1, "draws"):
            raising(number)()

    monkeypatch.setattr(runner, "carry_out", fail)
    outcome = ended(work)
    assert outcome.code == 3
    assert f"{os.strerror(number)}." in outcome.out
    assert "where: Resampling speakers" in outcome.out
    # It can be gone on with.
    assert (work / RUN / "state" / "settings.json").exists()


def test_an_error_of_another_command_names_the_command(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import miles_cli.commands.list as listing

    monkeypatch.setattr(listing, "command", lambda: raising(errno.EIO)())
    outcome = call(["list"], work)
    assert outcome.code == 3
    assert "where: miles list" in outcome.out


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", raising(errno.EIO))
    with pytest.raises(OSError, match="Input/output error") as error:
        write_text(tmp_path / "records.csv", "a\n")
    assert error.value.filename == str(tmp_path / "records.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["state", "lock"])
@pytest.mark.parametrize("number", [*FULL, errno.EACCES, errno.EROFS])
def test_a_disk_that_is_full_while_the_run_folder_is_made_is_no_wrong_usage(
    place: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "kept"
    made.mkdir()
    mkdir = Path.mkdir

    def half(self: Path, *more: Any, **named: Any) -> None:
        mkdir(self.parent, parents=True, exist_ok=True)
        raising(number)()

    monkeypatch.setattr(*((Path, "mkdir", half) if place == "state" else (os, "open", raising(number))))
    kind = IncompleteError if number in FULL else InputError
    with pytest.raises(kind) as error, folders.working(made / "new" / "run", "0"):
        pass
    assert error.value.message == f"The run folder cannot be made: {os.strerror(number)}."
    assert error.value.where == str(made / "new" / "run")
    assert ("Make room" if number in FULL else "Name another") in error.value.hint
    # What was made on the way is gone, and what stood there is not.
    assert list(made.iterdir()) == []
