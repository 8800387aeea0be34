"""Do the published replications follow from their intervals, stand on pages, and can their scripts be run again?"""

import doctest
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from forked_scripts import Scripts

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "replications"
PAGES = ROOT / "docs" / "replications"
STEMS = sorted(file.stem for file in SCRIPTS.glob("*.py") if file.stem != "replicating")


@pytest.fixture(name="load")
def _load(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module
    for name in (*STEMS, "replicating", "replication_tables"):
        sys.modules.pop(name, None)


def published(stem: str) -> dict[str, Any]:
    """Return what is published of a paper."""
    found: dict[str, Any] = json.loads((PAGES / f"{stem}.json").read_text(encoding="utf-8"))
    return found


def test_every_page_has_a_script_and_every_script_a_page() -> None:
    pages = {file.stem for file in PAGES.glob("*.md")} - {"index"}
    assert pages == set(STEMS) == {file.stem for file in PAGES.glob("*.json")}
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [stem for stem in STEMS if f": replications/{stem}.md\n" not in listed] == []
    asks = [stem for stem in STEMS if f"python tests/replications/{stem}.py" not in page(stem)]
    assert asks == [] and [stem for stem in STEMS if "<!-- replication -->" not in page(stem)] == []


def page(stem: str) -> str:
    """Return the text of a page."""
    return (PAGES / f"{stem}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("stem", STEMS)
def test_verdicts_follow_from_intervals(stem: str, load: Any) -> None:
    frame: ModuleType = load("replicating")
    script: ModuleType = load(stem)
    rows = published(stem)["claims"]
    assert [row["name"] for row in rows] == list(script.CLAIMS)
    level = frame.level_of(script.CLAIMS)
    for row in rows:
        claim, told = script.CLAIMS[row["name"]], row["found"]
        found = None if told is None else frame.Found(**{key: told[key] for key in frame.Found.__slots__})
        # What stands on the page is what the script claims and judges today.
        assert row == frame.row_of(row["name"], claim, found, level)
        assert (found is None) == bool(claim.untried)
        assert found is None or found.low <= found.value <= found.high


def test_tables_show_every_claim_and_count_verdicts(load: Any) -> None:
    tables = load("replication_tables")
    for stem in STEMS:
        shown = tables.with_replications(tables.MARK, stem)
        rows = published(stem)["claims"]
        assert sum(line.startswith("| ") for line in shown.splitlines()) == len(rows) + 2
        assert all(row["says"] in shown for row in rows)
    total = tables.with_replications(tables.ALL, "index").splitlines()[-1]
    claims = [row["verdict"] for stem in STEMS for row in published(stem)["claims"]]
    counts = [f"**{claims.count(verdict)}**" for verdict in ("confirmed", "refuted", "undecided")]
    assert total.startswith(f"| **all** | {' | '.join(counts)} | **")
    assert tables.with_replications("no mark", "index") == "no mark"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.1, 1.9, "confirmed"),
        (0.9, 1.5, "undecided"),
        (1.5, 2.1, "undecided"),
        (0.5, 2.5, "undecided"),
        (0.0, 1.0, "refuted"),
        (2.0, 3.0, "refuted"),
        # At a border, which the claim excludes.
        (1.0, 1.5, "undecided"),
        (1.5, 2.0, "undecided"),
    ],
)
def test_a_claim_between_two_borders(low: float, high: float, verdict: str, load: Any) -> None:
    frame = load("replicating")
    claim = frame.Claim("", "", "", above=1.0, below=2.0)
    assert frame.verdict(claim, frame.Found((low + high) / 2, low, high, 9, "", "")) == verdict
    assert frame.verdict(claim, None) == "undecided"


def test_examples_of_the_frame_hold(load: Any) -> None:
    # pytest collects neither: scripts import one another by name.
    for name in ("replicating", "replication_tables"):
        failed, tried = doctest.testmod(load(name))
        assert tried and not failed


def test_claims_of_a_page_share_their_error(load: Any) -> None:
    frame = load("replicating")
    claims = {"a": frame.Claim("", ""), "b": frame.Claim("", ""), "c": frame.Claim("", "", untried="too large")}
    assert frame.level_of(claims) == pytest.approx(0.975)
    assert frame.mean_of([1.0, 2.0, 3.0], 0.95, "seeds").high == pytest.approx(2 + 2.4841, abs=1e-4)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripts]:
    made = Scripts(tmp_path_factory.mktemp("scripts") / "logs")
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_a_script_runs_on_small_sizes(stem: str, scripts: Scripts, tmp_path: Path) -> None:
    if not (ROOT.parent / "shared" / "data").is_dir() and "DATA" in (SCRIPTS / f"{stem}.py").read_text("utf-8"):
        pytest.skip("the data of ../shared are not here")
    done = scripts.run(SCRIPTS / f"{stem}.py", "--trial", folder=tmp_path)
    assert done.code == 0, done.err
    names = [row["name"] for row in published(stem)["claims"]]
    assert [line.split()[1].rstrip(":") for line in done.out.splitlines()[-len(names) :]] == names
