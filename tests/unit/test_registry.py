import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from audits.core import registry
from probes.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
GOOD = """
from dataclasses import dataclass
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
print("imported", file=__import__("sys").stderr)

@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    data: str = argument("What to count.", metavar="DATA")
    times: int = option("How often.", 1)

def check(options, context):
    from audits.core.context import Plan
    return Plan(inputs=None, subject=None, data=(), cost=(("items", str(options.times)),))

def measure(options, inputs, context):
    return options.times

def estimates(draft, counts):
    from audits.core.intervals import exact
    draft.add("count", exact(float(counts), n=1, unit="items"))

def findings(draft, counts):
    pass

def records(counts):
    return ()

def coverage(counts):
    from audits.core.records import Coverage
    return Coverage(given=1, used=1)

AUDIT = AuditSpec(name="count", title="Counting", question="How many?", summary="Counts.", options=Options,
                  package="counting")
"""


def install(folder: Path, package: str, name: str, target: str, code: str) -> None:
    """Put a package with an entry point on a path, as an installer would."""
    folder.mkdir(exist_ok=True)
    (folder / f"{package}.py").write_text(code, encoding="utf-8")
    info = folder / f"{package}-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.5\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[miles.audits]\n{name} = {target}\n", encoding="utf-8")


def miles(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    code = "import sys; sys.path[:0] = [sys.argv.pop(1), sys.argv.pop(1)]; from miles_cli.main import main; main()"
    command = [sys.executable, "-c", code, str(ROOT), str(folder), *words]
    variables = {"MILES_CACHE": str(folder / "cache"), "PATH": "", "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120)


def test_an_audit_of_another_package_is_listed_without_being_imported(tmp_path: Path) -> None:
    install(tmp_path / "site", "counting", "count", "counting:AUDIT", GOOD)
    for words in (("list",), ("--help",)):
        listed = miles(tmp_path / "site", *words)
        assert listed.returncode == 0, listed.stderr
        assert "count" in listed.stdout
        assert "from counting 2.5" in listed.stdout
        assert "imported" not in listed.stderr


def test_an_audit_of_another_package_runs_like_ours(tmp_path: Path) -> None:
    install(tmp_path / "site", "counting", "count", "counting:AUDIT", GOOD)
    shown = miles(tmp_path / "site", "count", "--help")
    assert "--times" in shown.stdout
    assert "--fail-if" in shown.stdout
    words = ("count", "thing", "--times", "3", "--out", str(tmp_path / "run"), "--device", "cpu")
    done = miles(tmp_path / "site", *words, "--fail-if", "count > 2")
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "run" / "report.html").is_file()
    assert miles(tmp_path / "site", "count").returncode == 2


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("counting:AUDIT", "import nothing_of_this_name"),
        ("counting:AUDIT", "raise SystemExit(0)"),
        ("counting:AUDIT", "AUDIT = 3"),
        ("counting:MISSING", GOOD),
        ("elsewhere:AUDIT", GOOD),
        ("counting", GOOD),
    ],
)
def test_a_broken_package_is_one_panel_and_only_when_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, code: str
) -> None:
    install(tmp_path / "site", "counting", "count", target, code)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "counting", raising=False)
    assert "count" in [entry.name for entry in registry.entries()]
    with pytest.raises(InputError) as error:
        registry.find("count")
    assert "counting" in error.value.message + error.value.hint
    sys.modules.pop("counting", None)


def test_audits_stand_by_name_in_every_list() -> None:
    names = [entry.name for entry in registry.AUDITS]
    assert names == sorted(names)


def test_a_broken_package_leaves_the_other_commands_alone(tmp_path: Path) -> None:
    install(tmp_path / "site", "counting", "count", "counting:AUDIT", "raise RuntimeError('no')")
    broken = miles(tmp_path / "site", "count", "thing")
    assert broken.returncode == 2
    assert "counting" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert miles(tmp_path / "site", "list").returncode == 0


def test_a_clash_of_names_is_bad_usage(tmp_path: Path) -> None:
    install(tmp_path / "site", "thief", "audit-fairness", "thief:AUDIT", GOOD)
    clash = miles(tmp_path / "site", "list")
    assert clash.returncode == 2
    assert "thief" in clash.stderr
    assert "pip uninstall thief" in clash.stderr


@pytest.mark.parametrize("name", ["audit-fairness", "count", "show"])
def test_no_two_packages_share_a_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    points = [EntryPoint(name=name, value=f"{package}:AUDIT", group=registry.GROUP) for package in ("one", "two")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    with pytest.raises(InputError, match=name):
        registry.entries()


def test_a_package_may_not_take_the_name_of_a_command(tmp_path: Path) -> None:
    install(tmp_path / "site", "thief", "show", "thief:AUDIT", GOOD)
    clash = miles(tmp_path / "site", "show", str(tmp_path))
    assert clash.returncode == 2
    assert "thief" in clash.stderr


def test_unknown_audits_are_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match="tarot") as error:
        registry.find("tarot")
    assert "audit-fairness" in error.value.hint


def test_built_in_audits_say_what_they_are() -> None:
    for entry in registry.AUDITS:
        spec = registry.find(entry.name)
        assert (spec.name, spec.summary) == (entry.name, entry.summary)
        for step in ("measure", "estimates", "findings", "figures", "records"):
            assert callable(spec.step(step)), (entry.name, step)
        assert callable(spec.step("inputs", "check")) and callable(spec.step("records", "coverage"))
