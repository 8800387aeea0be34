"""miles on a Windows and a macOS that are pretended on this system: nothing here ran on a real one.

`other_systems` says what is pretended: what those systems lack of Python's modules, files that cannot be removed while
they are open, text that is not UTF-8 unless it is said, and kernel32 as far as it is called.
"""

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import other_systems
import pytest

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ("--by", "accent", "--bootstrap", "200", "--permutations", "100", "--min-speakers", "5")


def work(
    system: str,
    folder: Path,
    what: str,
    *arguments: Any,
    kernel: bool = True,
    cwd: Path | None = None,
    timeout: float = 120,
) -> Any:
    """Return what a part of `other_systems_work` answers there."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "other_systems_work.py"), what, json.dumps(arguments)],
        env=other_systems.variables(system, folder, kernel=kernel, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1"),
        cwd=cwd or folder,
        capture_output=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    found = json.loads(done.stdout)
    assert found["platform"] == {"windows": "win32"}.get(system, system)
    assert found["encoding"] == ("cp1252" if system == "windows" else "utf-8")
    return found["answer"]


def manifest(folder: Path) -> Path:
    """Write a manifest of Windows: backslashes, a BOM and CRLF, and a name that cp1252 lacks."""
    rows = [
        f"clips\\s{speaker:02}-{take}.wav,s{speaker:02},{('łódź', 'nord')[speaker % 2]},no go up so we do at,"
        f"no go {'up so' if (speaker * take) % 3 else 'so'} we do at"
        for speaker in range(12)
        for take in range(3)
    ]
    path = folder / "m.csv"
    text = "\r\n".join(["path,speaker,accent,text,prediction", *rows, ""])
    path.write_bytes(text.encode("utf-8-sig"))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows", "darwin"])
def test_every_module_can_be_imported(system: str, tmp_path: Path) -> None:
    assert work(system, tmp_path, "imports") == {}


@pytest.fixture(scope="module")
def on_windows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[Any]]:
    """Return a folder, and what the command line said there from its help to an export, in one process."""
    tmp_path = tmp_path_factory.mktemp("windows")
    manifest(tmp_path)
    (tmp_path / "held" / "state").mkdir(parents=True)
    lock = (tmp_path / "held" / "state" / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    run = ["audit-groups", "m.csv", *GROUPS]
    commands = [
        ["--help"],
        ["--version"],
        ["list"],
        ["audit-groups", "--help"],
        [*run, "--dry-run"],
        [*run, "--out", "held"],
        [*run, "--out", "run", "--fail-if", "gap.low > 0.9"],
        [*run, "--out", "run"],
        [*run, "--out", "run", "--seed", "1"],
        [*run, "--out", "run", "--seed", "1", "--force"],
        ["show", "run"],
        ["render", "run"],
        ["export", "run", "--to", "junit"],
        ["export", "run", "--to", "junit", "--out", "junit.xml"],
        ["export", "run", "--to", "junit", "--out", "junit.xml"],
        ["compare", "run", "run", "--json"],
        [*run, "--out", "json", "--json"],
        ["runs", "."],
        ["cache"],
        [*run, "--out", "wrong", "--values", "none.toml"],
    ]
    found = work("windows", tmp_path, "calls", commands)
    lock.close()
    return tmp_path, [" ".join(words[:1] + words[-2:]) for words in commands], found


def test_a_whole_run_on_windows(on_windows: tuple[Path, list[str], list[Any]]) -> None:
    """The command line, and the files that it leaves."""
    tmp_path, names, found = on_windows
    told = dict(zip(names, found, strict=True))
    codes = [code for code, _ in found]
    assert codes == [0, 0, 0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], told
    text = [said for _, said in found]
    assert "audit-groups" in text[0] and "miles" in text[1] and "needs:" in text[2]
    assert "Another run is at work in this folder" in text[5]
    assert "without walls around your files" in " ".join(text[6].split())
    assert "finished earlier" in text[7] and "other settings" in text[8]
    assert "<testsuites" in text[12] and "\r" not in text[12].replace("\r\n", "")
    assert json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))["data"][0]["path"] == "m.csv"
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == ["figures", "records.csv", "report.html", "report.json", "report.md"]
    for path in tmp_path.glob("run/*.*"):
        assert b"\r" not in path.read_bytes(), path
    assert "łódź" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert not (tmp_path / "wrong").exists()


def test_the_report_is_that_of_this_system(on_windows: tuple[Path, list[str], list[Any]], call_miles: Any) -> None:
    """All but what says how it was made, and the warning of what that system lacks."""
    tmp_path = on_windows[0]
    assert call_miles("audit-groups", "m.csv", *GROUPS, "--out", "here", cwd=tmp_path).code == 0
    there, here = (json.loads((tmp_path / name / "report.json").read_bytes()) for name in ("json", "here"))
    assert [one["id"] for one in there["warnings"] if one not in here["warnings"]] == ["system"]
    assert [one for one in here["warnings"] if one not in there["warnings"]] == []
    for name in there.keys() - {"created", "provenance", "warnings"}:
        assert there[name] == here[name], name
    assert (tmp_path / "json" / "records.csv").read_bytes() == (tmp_path / "here" / "records.csv").read_bytes()


@pytest.mark.parametrize(
    ("system", "kernel"),
    [
        ("windows", True),
        pytest.param("windows", False, marks=pytest.mark.slow),
        pytest.param("darwin", True, marks=pytest.mark.slow),
    ],
)
def test_readers_have_limits(system: str, kernel: bool, tmp_path: Path) -> None:
    """None takes more than it may, or computes for ever; and what is not limited is said."""
    found = work(system, tmp_path, "reading", kernel=kernel)
    limits = "limits of time and memory" if kernel else "a limit of time, and none of memory"
    assert limits in found.pop("walls")
    assert found == {
        "forks": system == "darwin",
        "session": 9,
        "memory": "limit: memory" if kernel else "",
        "time": "limit: time",
        "block": "limit: time",
        "raised": "refused: A column is missing.",
    }


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows", "darwin"])
def test_a_strangers_pickle_is_read_in_a_child_and_runs_nothing(system: str, tmp_path: Path) -> None:
    found = work(system, tmp_path, "pickles", str(tmp_path))
    assert "would run code" in found.pop("harmful")
    assert found == {"good": "read: [0.0, 1.0, 2.0]", "was-run": False}
