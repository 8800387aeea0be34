"""The audit of docs/plugins.md as its authors would have it: gates, demo, comparison, group sizes, and its errors."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_runs import Ended, Server

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "plugins.md"
Miles = Callable[..., Ended]
POINTS = "[miles.audits]\naudit-brier = brier_audit:AUDIT\n"


@pytest.fixture(scope="module")
def miles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Miles]:
    """Return a function that runs miles in a process of its own, where the example is installed in the folder."""
    server = Server(tmp_path_factory.mktemp("server") / "logs")

    def run(site: Path, *words: str, **more: Any) -> Ended:
        return server.run(list(words), site, site / "cache", installed=str(site), **more)

    yield run
    server.close()


@pytest.fixture(scope="module")
def site(miles: Miles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the example of the page, installed, and its demo run planted and balanced."""
    folder = tmp_path_factory.mktemp("site")
    for name, code in re.findall(r'^```python title="([\w.]+)"\n(.*?)^```$', PAGE.read_text(), re.M | re.S):
        (folder / name).write_text(code, encoding="utf-8")
    info = folder / "brier_audit-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brier-audit\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    done = miles(folder, "demo", "audit-brier", "--out", "runs/planted", pages=True)
    assert done.code == 0, done.err
    done = miles(folder, "demo", "audit-brier", "--out", "runs/balanced", "--balanced")
    assert done.code == 0, done.err
    return folder


def answers(site: Path) -> list[Path]:
    return sorted(site.glob("cache/demo/*/answers.csv"))


def planted(site: Path) -> Path:
    report = json.loads((site / "runs/planted/report.json").read_text(encoding="utf-8"))
    return Path(report["settings"]["answers"])


def test_its_own_test_passes(site: Path, tmp_path: Path) -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run([*run, str(site / "test_brier_audit.py")], capture_output=True, text=True, timeout=120,
                          cwd=tmp_path, env={"PYTHONPATH": f"{site}:{ROOT}", "PATH": ""})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_measures_stand_in_the_report(site: Path) -> None:
    report = json.loads((site / "runs/planted/report.json").read_text(encoding="utf-8"))
    assert report["measures"] == {
        "brier": {"label": "Brier score", "worse": "up", "neutral": None, "unit": "users"},
        "brier_gap": {"label": "difference of Brier scores", "worse": "away", "neutral": 0.0, "unit": "users"},
    }
    assert [finding["id"] for finding in report["findings"]] == ["brier.gap"]


def test_groups_have_their_own_sizes_on_the_page(site: Path) -> None:
    page = (site / "runs/planted/report.md").read_text(encoding="utf-8")
    sizes = re.findall(r"^\| (team=\w+) \| *(\d+) \|$", page, flags=re.M)
    assert dict(sizes) == {"team=blue": "30", "team=red": "30"}, page


def test_a_worse_model_fails_the_regression_gate_and_a_better_one_does_not(miles: Miles, site: Path) -> None:
    """The same questions, answered with probabilities that are shifted for everybody."""
    with planted(site).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name, shift in (("before", 0.0), ("after", 0.3)):
        with (site / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            for row in rows:
                worse = min(1.0, float(row["probability"]) + shift * (row["team"] == "red"))
                writer.writerow({**row, "probability": worse})
        done = miles(site, "audit-brier", f"{name}.csv", "--by", "team", "--out", f"runs/{name}")
        assert done.code == 0, done.err
    worse = miles(site, "compare", "runs/before", "runs/after", "--fail-on-regression")
    assert worse.code == 1, worse.out + worse.err
    assert "worse" in worse.out
    assert miles(site, "compare", "runs/after", "runs/before", "--only", "brier", "--fail-on-regression").code == 0


def test_its_changes_are_paired_by_question_and_user(miles: Miles, site: Path) -> None:
    told = miles(site, "compare", "runs/before", "runs/after", "--json")
    rows = {row["name"]: row for row in json.loads(told.out)["runs"][0]["changes"]}
    assert rows["brier_gap"]["paired"] and rows["brier"]["paired"]


def test_a_new_version_is_another_run(miles: Miles, site: Path, tmp_path: Path) -> None:
    folder = copied(site, tmp_path, (site / "brier_audit.py").read_text(encoding="utf-8"))
    words = ("audit-brier", str(planted(site)), "--by", "team", "--out", "runs/one")
    assert miles(folder, *words).code == 0
    again = miles(folder, *words)
    assert again.code == 0 and "finished earlier" in again.out
    provenance = json.loads((folder / "runs/one/report.json").read_text(encoding="utf-8"))["provenance"]
    assert provenance["packages"]["brier-audit"] == "0.1.0"
    metadata = folder / "brier_audit-0.1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text(encoding="utf-8").replace("0.1.0", "0.2.0"), encoding="utf-8")
    newer = miles(folder, *words)
    assert newer.code == 2 and "version" in newer.err


def test_a_package_that_is_not_installed_is_told_in_a_comparison(miles: Miles, site: Path, tmp_path: Path) -> None:
    told = miles(tmp_path, "compare", str(site / "runs/before"), str(site / "runs/after"))
    assert told.code == 0 and "audit-brier is not installed here" in told.out


def copied(site: Path, tmp_path: Path, code: str) -> Path:
    """Return another folder with the example installed, with other code."""
    folder = tmp_path / "site"
    info = folder / "brier_audit-0.1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "brier_audit.py").write_text(code, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brier-audit\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ("brier[team=red] > 1", "team"),
        ("brier[other=team=red] > 1", "other"),
        ("brier[group=team=green] > 1", "team=green"),
        ("brief > 1", "brier"),
    ],
)
def test_a_gate_that_cannot_match_is_refused_before_anything_runs(
    miles: Miles, site: Path, gate: str, why: str
) -> None:
    words = ("audit-brier", str(planted(site)), "--by", "team", "--dry-run", "--fail-if", gate)
    done = miles(site, *words)
    assert done.code == 2 and why in done.err


def test_bounds_stand_in_the_help_and_are_kept(miles: Miles, site: Path) -> None:
    assert "200 to 100,000" in re.sub(r"\s+", " ", miles(site, "audit-brier", "--help").out)
    done = miles(site, "audit-brier", str(planted(site)), "--by", "team", "--bootstrap", "3")
    assert done.code == 2 and "--bootstrap" in done.err


@pytest.mark.parametrize(
    "function", ["check", "measure", "estimates", "findings", "figures", "records", "prepare", "units"]
)
def test_a_crash_names_its_package(miles: Miles, site: Path, tmp_path: Path, function: str) -> None:
    code = (site / "brier_audit.py").read_text(encoding="utf-8")
    head = re.search(rf"^def {function}\(.*?:\n    \"\"\".*?\"\"\"\n", code, flags=re.M | re.S)
    assert head is not None
    folder = copied(site, tmp_path, code[: head.end()] + "    1 / 0\n" + code[head.end() :])
    words = ("audit-brier", str(planted(site)), "--by", "team", "--out", "runs/broken")
    if function == "prepare":
        words = ("demo", "audit-brier", "--out", "runs/broken")
    if function == "units":
        words = ("compare", str(site / "runs/before"), str(site / "runs/after"))
    done = miles(folder, *words)
    assert done.code == 3
    assert "brier-audit" in done.err and "division by zero" in done.err and "Traceback" not in done.err
    assert not (folder / "runs" / "broken" / "report.json").exists()
