"""Does asking for help stay quick, because nothing dear is imported for it?"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

DEAR = {
    "torch", "numpy", "scipy", "transformers", "sklearn", "pandas", "matplotlib", "statsmodels",
    "soundfile", "h5py", "jsonschema", "jinja2", "torchaudio", "jiwer", "safetensors", "huggingface_hub",
}  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["list"], ["audit-fairness", "--help"], ["show", "--help"], ["register", "--help"], []],
)
def test_help_imports_nothing_dear(words: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "miles_cli", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    # Without a command click shows the help and calls it bad usage.
    assert done.returncode == (0 if words else 2)
    assert "miles" in done.stdout
    imported = {line.split(".")[0] for line in re.findall(r"^import time:.*\|\s*(\S+)$", done.stderr, re.MULTILINE)}
    assert "typer" in imported
    assert imported & DEAR == set()


def test_help_of_an_audit_names_every_option(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "miles_cli", "audit-fairness", "--help"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout
    for flag in (
        "MODEL", "--manifest", "--by", "--tasks", "--layers", "--max-order", "--preset", "--folds", "--probe-epochs",
        "--no-baseline", "--controls", "--out", "--seed", "--level", "--device", "--dtype", "--fail-if", "--config",
        "--json", "--quiet", "--verbose", "--dry-run", "--force", "--normalise",
    ):  # fmt: skip
        assert flag in shown


def test_packages_of_the_user_do_not_stand_in_the_place_of_ours(tmp_path: Path, environment: dict[str, str]) -> None:
    for name in ("audits", "probes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")
    command = [sys.executable, "-m", "miles_cli", "list"]
    environment = {**environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "membership" in done.stdout, done.stderr


def test_an_interrupt_within_code_made_from_text_still_ends_in_130(tmp_path: Path) -> None:
    # Python remembers such an interrupt past its handling, and would die of the signal at its end.
    (tmp_path / "interrupted.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "import miles_cli.main as m\n"
        "def app(**_):\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
        "m.app = app\n"
        "m.main()\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    assert subprocess.run(command, cwd=tmp_path, timeout=60, check=False).returncode == 130


def test_threads_sleep_and_sums_keep_one_order_unless_the_user_says_otherwise(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "asked.py").write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "import miles_cli.main as m\n"
        "def app(**_):\n"
        "    assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "    print(*(os.environ[name] for name in ('OMP_WAIT_POLICY', 'OPENBLAS_THREAD_TIMEOUT', 'MKL_CBWR')))\n"
        "m.app = app\n"
        "m.main()\n"
    )
    clean = {name: value for name, value in environment.items() if not name.startswith(("OMP_", "OPENBLAS_", "MKL_"))}
    told = {"OMP_WAIT_POLICY": "ACTIVE", "MKL_CBWR": "AVX2"}
    for given, shown in (({}, "PASSIVE 4 AUTO,STRICT"), (told, "ACTIVE 4 AVX2")):
        done = subprocess.run(
            [sys.executable, "asked.py"], cwd=tmp_path, env=clean | given, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == shown, done.stderr


def test_a_report_is_checked_without_the_grammars_of_a_format_that_its_schema_does_not_name(tmp_path: Path) -> None:
    # Found first, as the package of this name is where it is installed.
    (tmp_path / "rfc3987_syntax.py").write_text("raise RuntimeError('slow')\n")
    (tmp_path / "asked.py").write_text(
        "import sys\n"
        f"sys.path.append({str(ROOT)!r})\n"
        "import miles_cli.main as m\n"
        "def app(**_):\n"
        "    from audits.report.report_file import _validator\n"
        "    print(_validator().is_valid({}))\n"
        "m.app = app\n"
        "m.main()\n"
    )
    done = subprocess.run([sys.executable, "asked.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
