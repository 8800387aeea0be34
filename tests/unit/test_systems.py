"""What differs between systems: locks, memory, ends of processes, and that no other module asks a system for it."""

import ast
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import other_systems
import pytest

from audits.core.options import as_json
from audits.core.records import Source, Subject
from miles_cli import folders
from probes.core import systems, windows
from probes.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for package in ("probes", "audits", "miles_cli") for path in (ROOT / package).rglob("*.py"))
OWNERS = ("probes/core/systems.py", "probes/core/windows.py")
FORKED = ("probes/contained/server.py", "probes/contained/sandbox.py", "probes/contained/launch.py",
          "probes/contained/system_calls.py", "probes/contained/block_limits.py")  # fmt: skip
"""What only a process that can fork, or on Linux alone, comes to."""
_HANDED = ("pass_fds", "preexec_fn", "start_new_session")
KINDS = ("os", "signal", "socket", "select", "selectors", "mmap", "time")


def partial(code: str) -> Iterator[tuple[str, int]]:
    """Yield what is imported or named that Windows lacks, unless the module asks whether it is there."""
    absent = {f"{module}.{name}" for module in KINDS for name in other_systems.ABSENT["windows"][module].split()}
    absent -= {".".join(pair) for pair in re.findall(r"""hasattr\((\w+), ["'](\w+)["']\)""", code)}
    # Most name none of them, and need not be parsed.
    suspects = {name.partition(".")[2] for name in absent} | {*other_systems.POSIX_MODULES, "msvcrt", *_HANDED}
    if not suspects & set(re.findall(r"\w+", code)):
        return
    for node in ast.walk(ast.parse(code)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names if name.name in (*other_systems.POSIX_MODULES, "msvcrt")]
        elif isinstance(node, ast.ImportFrom) and node.module in (*other_systems.POSIX_MODULES, "msvcrt"):
            names = [str(node.module)]
        elif isinstance(node, ast.ImportFrom) and node.module in KINDS:
            names = [one for one in (f"{node.module}.{name.name}" for name in node.names) if one in absent]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [one for one in [f"{node.value.id}.{node.attr}"] if one in absent]
        elif isinstance(node, ast.keyword) and node.arg in _HANDED:
            names = [str(node.arg)]
        yield from ((name, getattr(node, "lineno", 0)) for name in names)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import fcntl", ["fcntl"]),
        ("def f():\n    import resource", ["resource"]),
        ("from os import fork", ["os.fork"]),
        ("os.killpg(1, signal.SIGKILL)", ["os.killpg", "signal.SIGKILL"]),
        ("if hasattr(os, 'chown'):\n    os.chown('a', 0, 0)", []),
        ("Popen([], start_new_session=True)", ["start_new_session"]),
        ("os.getpid(); signal.SIGINT", []),
    ],
)
def test_the_rule_sees_what_windows_lacks(code: str, found: list[str]) -> None:
    assert sorted(name for name, _ in partial(code)) == sorted(found)


def test_one_module_owns_what_differs_between_systems() -> None:
    """Modules that are forked into may name signals and sockets, but import nothing that is not everywhere."""
    breaches = []
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        for what, line in partial(path.read_text(encoding="utf-8")):
            allowed = name in OWNERS or (name in FORKED and "." in what)
            if not allowed and (name, what) != ("probes/contained/client.py", "pass_fds"):
                breaches.append(f"{name}:{line} {what}")
    # What hands files to the fork server, or reads of two pipes, is called where there are forks alone.
    known = ("probes/contained/client.py", "probes/contained/programs.py")
    assert [one for one in breaches if not one.startswith(known)] == []
    assert {one.split()[1] for one in breaches} <= {"socket.send_fds", "selectors.DefaultSelector"}


def test_every_text_file_is_opened_with_its_encoding() -> None:
    """Elsewhere it would be that of the user's country."""
    bare = []
    for path in FILES:
        code = path.read_text(encoding="utf-8")
        if not re.search(r"\bopen\(|read_text\(|write_text\(|\btext=", code):
            continue
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
                continue
            given = {one.arg for one in node.keywords}
            named = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            modes = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            text = named == "open" and any(set(mode) <= set("rwxat+") for mode in modes if mode)
            # `read_text` of a path takes nothing, that of the readers a path.
            whole = (named, len(node.args)) in (("read_text", 0), ("write_text", 1))
            whole = whole and isinstance(node.func, ast.Attribute)
            if (text or whole or ("text" in given and named in ("run", "Popen"))) and "encoding" not in given:
                bare.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)[:80]}")
    # A member of a zip has no encoding, and nothing is written to the other.
    assert [one for one in bare if "archive.open" not in one and "devnull" not in one] == []


def test_a_lock_keeps_others_out_until_it_is_closed(tmp_path: Path) -> None:
    first, second = (systems.open_lock(tmp_path / "lock") for _ in range(2))
    systems.lock(first)
    with pytest.raises(OSError):
        systems.lock(second)
    os.close(first)
    systems.lock(second)
    os.close(second)


def test_a_link_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        systems.open_lock(tmp_path / "lock")
    monkeypatch.delattr(os, "O_NOFOLLOW")
    with pytest.raises(OSError, match="is a link"):
        systems.open_lock(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_is_given_back_where_open_files_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is closed before its file goes; a link that was never removed would keep later runs out."""
    monkeypatch.setattr(folders, "REMOVES_OPEN_FILES", False)
    closed: list[int] = []
    real = os.close
    monkeypatch.setattr(os, "close", lambda handle: (closed.append(handle), real(handle))[1])
    seen: list[int] = []
    monkeypatch.setattr(folders.shutil, "rmtree", lambda *_, **__: seen.append(len(closed)))
    with folders.working(tmp_path / "run", "a" * 64):
        pass
    assert seen[-1] == len(closed) == 1
    with pytest.raises(InputError), folders.working(tmp_path / "wrong", "a" * 64):
        raise InputError("Wrong.", where="x", hint="y")
    assert len(closed) == 2


def test_memory_is_told_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    peak, whole = systems.peak_memory(), systems.physical_memory()
    assert peak is not None and whole is not None and 2**23 < peak < whole < 2**44
    monkeypatch.setattr(systems, "resource", None)
    monkeypatch.delattr(os, "sysconf")
    assert systems.peak_memory() is systems.physical_memory() is None


def test_records_have_the_size_that_windows_expects() -> None:
    """Of 64-bit Windows, as its headers say."""
    sizes = [ctypes.sizeof(one) for one in (windows.MemoryCounters, windows.MemoryStatus, windows.JobLimits)]
    assert sizes == [72, 64, 144]
    offsets = [getattr(windows.JobLimits, name).offset for name in ("flags", "processes", "process_memory")]
    assert offsets == [16, 40, 112]
    assert [getattr(windows.MemoryCounters, name).offset for name in ("committed", "peak_committed")] == [56, 64]
    assert windows.MemoryStatus.physical.offset == 8


def test_windows_is_asked_nothing_elsewhere() -> None:
    assert windows.used_memory() is windows.physical_memory() is None
    assert windows.wait_for(os.getpid()) is windows.limit_process(2**30) is False


def test_a_process_ends_with_what_it_started() -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **systems.APART)
    assert process.stdout is not None
    below = int(process.stdout.readline())
    systems.end_with_children(process)
    process.stdout.close()
    assert process.returncode == -signal.SIGKILL
    for _ in range(100):
        if not Path(f"/proc/{below}").exists() or "Z" in Path(f"/proc/{below}/stat").read_text().split()[2]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the process below is still there")


def test_without_process_groups_taskkill_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    process = subprocess.Popen(["sleep", "60"])
    monkeypatch.delattr(os, "killpg")
    monkeypatch.setattr(subprocess, "run", lambda words, **_: asked.append(words))
    systems.end_with_children(process)
    assert asked[0][1:] == ["/F", "/T", "/PID", str(process.pid)] and process.returncode == -signal.SIGKILL


def test_reports_name_files_with_slashes_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import PureWindowsPath

    assert PureWindowsPath("data\\m.csv").as_posix() == as_json(Path("data/m.csv")) == "data/m.csv"
    kept = Source(role="manifest", path="data\\m.csv", sha256="0" * 64, items=1)
    monkeypatch.setattr(os, "sep", "\\")
    one = Source(role="manifest", path="data\\m.csv", sha256="0" * 64, items=1)
    other = Subject(path="C:\\models\\a", family="x", sha256="0" * 64, parameters=1)
    assert (kept.path, one.path, other.path) == ("data\\m.csv", "data/m.csv", "C:/models/a")


@pytest.mark.parametrize("name", ["fcntl", "resource"])
def test_a_system_that_lost_its_limits_is_not_taken_for_windows(name: str) -> None:
    """Files of others would be read without walls, and nobody would be told."""
    code = f"import sys; sys.modules[{name!r}] = None; import probes.core.systems"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and f"import of {name} halted" in done.stderr
