import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from audits.core.records import Report
from audits.report.comparison.comparing import differing
from audits.report.report_file import fingerprint_of, write_report
from miles_cli import folders
from probes.core.errors import IncompleteError, InputError

ROOT = Path(__file__).resolve().parents[2]
MARK = "a" * 64


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_run_without_a_name_gets_one_from_command_and_time() -> None:
    first, second = (folders.default_folder("audit-fairness") for _ in range(2))
    assert re.fullmatch(r"runs/audit-fairness-\d{8}T\d{6}Z-[0-9a-f]{4}", str(first))
    assert first != second


def test_absent_and_empty_folders_are_free(tmp_path: Path) -> None:
    assert folders.finished(tmp_path / "new", MARK, force=False) is None
    assert folders.finished(tmp_path, MARK, force=False) is None


def test_a_finished_run_is_reported_refused_or_overwritten(tmp_path: Path, sample_report: Report) -> None:
    write_report(sample_report, tmp_path)
    mark = fingerprint_of(sample_report)
    found = folders.finished(tmp_path, mark, force=False)
    assert found is not None
    assert found.to_json() == sample_report.to_json()
    with pytest.raises(InputError, match="other settings") as error:
        folders.finished(tmp_path, MARK, force=False)
    assert "--force" in error.value.hint
    assert folders.finished(tmp_path, MARK, force=True) is None
    assert left(tmp_path) == ["report.json"]


def test_an_option_that_older_versions_lack_counts_only_where_it_is_given(sample_report: Report) -> None:
    old, default, given = (
        replace(sample_report, audit="audit-groups", settings={"by": ["age"], **more})
        for more in ({}, {"decimal": None}, {"decimal": ","})
    )
    assert fingerprint_of(old) == fingerprint_of(default) != fingerprint_of(given)
    assert differing(old, default).settings == () != differing(old, given).settings
    # No other option may be absent, nor that of an audit without it.
    for audit, more in (("audit-groups", {"values": None}), ("certify", {"decimal": None})):
        one, other = (replace(sample_report, audit=audit, settings=settings) for settings in ({}, more))
        assert fingerprint_of(one) != fingerprint_of(other)


def test_the_state_of_a_run_killed_at_its_very_end_goes(tmp_path: Path, sample_report: Report) -> None:
    write_report(sample_report, tmp_path)
    (tmp_path / "state").mkdir()
    assert folders.finished(tmp_path, fingerprint_of(sample_report), force=False) is not None
    assert left(tmp_path) == ["report.json"]


def test_an_unfinished_run_is_resumed_with_its_own_settings_only(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "settings.json").write_text(json.dumps({"fingerprint": MARK}), encoding="utf-8")
    assert folders.finished(tmp_path, MARK, force=False) is None
    with pytest.raises(InputError, match="unfinished"):
        folders.finished(tmp_path, "b" * 64, force=False)
    assert folders.finished(tmp_path, "b" * 64, force=True) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"fingerprint": 7}', "{}", "[" * 100_000])
def test_an_unfinished_run_that_does_not_say_what_it_is_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "settings.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="unfinished"):
        folders.finished(tmp_path, MARK, force=False)


@pytest.mark.parametrize("force", [True, False])
def test_a_file_and_somebodys_folder_are_left_alone(tmp_path: Path, force: bool) -> None:
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is a file"):
        folders.finished(file, MARK, force=force)
    with pytest.raises(InputError, match="other things"):
        folders.finished(tmp_path, MARK, force=force)
    assert left(tmp_path) == ["file"]


def test_while_a_run_works_its_folder_says_so_and_afterwards_not(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    with folders.working(folder, MARK):
        assert left(folder) == ["state", "state/lock", "state/settings.json"]
        (folder / "report.md").write_text("done", encoding="utf-8")
    assert left(folder) == ["report.md"]


def test_what_an_earlier_run_left_goes_before_the_work(tmp_path: Path) -> None:
    for name in ("report.json", "report.md", "report.html", "records.csv", ".part-x1"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "old.png").write_bytes(b"old")
    with folders.working(tmp_path, MARK, force=True):
        assert left(tmp_path) == ["state", "state/lock", "state/settings.json"]
    assert left(tmp_path) == []


def test_a_report_that_was_finished_meanwhile_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("new", encoding="utf-8")
    with pytest.raises(InputError, match="just finished"), folders.working(tmp_path, MARK):
        raise AssertionError
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "new"


def test_a_link_among_the_pages_is_removed_and_not_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine", encoding="utf-8")
    (folder / "figures").symlink_to(elsewhere)
    with folders.working(folder, MARK):
        pass
    assert left(tmp_path) == ["elsewhere", "elsewhere/mine.txt", "run"]


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), IncompleteError("full"), MemoryError(), RuntimeError("bug")])
def test_what_can_be_resumed_keeps_its_state(tmp_path: Path, raised: BaseException) -> None:
    folder = tmp_path / "run"
    with pytest.raises(type(raised)), folders.working(folder, MARK):
        raise raised
    assert left(folder) == ["state", "state/lock", "state/settings.json"]
    assert folders.finished(folder, MARK, force=False) is None


def test_wrong_input_leaves_what_was_there_before(tmp_path: Path) -> None:
    for folder in (tmp_path / "a" / "b" / "run", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError), folders.working(folder, MARK):
            (folder / "records.csv").write_text("half", encoding="utf-8")
            (folder / ".part-9").write_text("half", encoding="utf-8")
            raise InputError("wrong")
    assert left(tmp_path) == ["empty"]


def test_a_second_run_is_kept_out_and_leaves_the_first_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code = (
        "import sys; from pathlib import Path; from miles_cli.folders import working\n"
        "from probes.core.errors import *\n"
        "try:\n    with working(Path(sys.argv[1]), 'b' * 64): print('in')\n"
        "except InputError as error: print(error.message)"
    )
    with folders.working(folder, MARK):
        (folder / "records.csv").write_text("of the first", encoding="utf-8")
        command = [sys.executable, "-c", code, str(folder)]
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert "Another run" in second.stdout
        assert left(folder) == ["records.csv", "state", "state/lock", "state/settings.json"]
        state = json.loads((folder / "state" / "settings.json").read_text(encoding="utf-8"))
        assert state.keys() == {"fingerprint", "begun"} and state["fingerprint"] == MARK
    assert left(folder) == ["records.csv"]


def test_the_lock_of_a_run_that_died_holds_nobody_out(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from miles_cli.folders import working\n"
        "with working(Path(sys.argv[1]), 'a' * 64): os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, timeout=60)
    assert done.returncode == 9
    assert left(tmp_path) == ["state", "state/lock", "state/settings.json"]
    with folders.working(tmp_path, MARK):
        pass
    assert left(tmp_path) == []


def test_a_lock_that_was_removed_before_it_was_held_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    first = folders.working(folder, MARK)
    first.__enter__()
    hold = fcntl.flock

    def slowly(lock: int, how: int) -> None:
        # The first run ends between the opening of the lock and its being held.
        first.__exit__(None, None, None)
        hold(lock, how)

    monkeypatch.setattr(fcntl, "flock", slowly)
    with pytest.raises(InputError, match="just finished"), folders.working(folder, MARK):
        raise AssertionError
    monkeypatch.undo()
    with folders.working(folder, MARK):
        assert left(folder) == ["state", "state/lock", "state/settings.json"]


def test_a_lock_that_another_run_made_anew_keeps_this_one_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = fcntl.flock

    def slowly(lock: int, how: int) -> None:
        (tmp_path / "run" / "state" / "lock").unlink()
        (tmp_path / "run" / "state" / "lock").touch()
        hold(lock, how)

    monkeypatch.setattr(fcntl, "flock", slowly)
    with pytest.raises(InputError, match="Another run"), folders.working(tmp_path / "run", MARK):
        raise AssertionError


@pytest.mark.parametrize("force", [True, False])
def test_a_state_that_is_a_link_is_refused_and_not_followed(tmp_path: Path, force: bool) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine", encoding="utf-8")
    (folder / "state").symlink_to(elsewhere)
    with pytest.raises(InputError, match="link"):
        folders.finished(folder, MARK, force=force)
    with pytest.raises(InputError, match="link"), folders.working(folder, MARK, force=force):
        raise AssertionError
    assert left(elsewhere) == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_wrong_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be made"), folders.working(tmp_path / "file" / "run", MARK):
        pass
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "state").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be made"), folders.working(tmp_path / "run", MARK):
        pass
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot be made"), folders.working(tmp_path / "run", MARK):
        pass


def test_a_folder_above_that_another_run_tidies_away_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, tidied = os.mkdir, []

    def mkdir(path: str, mode: int = 0o777) -> None:
        if Path(path).name == "run" and Path(path).parent.exists() and not tidied:
            tidied.append(path)
            Path(path).parent.rmdir()
        made(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with folders.working(tmp_path / "runs" / "run", "b" * 64):
        assert tidied and (tmp_path / "runs" / "run" / "state").is_dir()
