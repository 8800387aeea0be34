"""Runs with more records than CSV takes, by a small bound: whatever reads records.csv reads records.parquet alike."""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from refusals import one_panel
from run_folders import stripped
from small_world import GROUPS

from audits.report import records_file
from audits.report.comparison.tables import Table, read_table
from audits.report.records_file import CSV, PARQUET
from miles_cli import read

Call = Callable[..., Any]
SEEN_BY_COMPARE = ("certified", "first", "grids", "groups", "suite")
OTHERS = ("canaries", "matrix", "phones", "short", "slopes", "texts")


@pytest.fixture(scope="module")
def work(prepared: Path, tmp_path_factory: pytest.TempPathFactory, finish_run: Any) -> Path:
    """Two runs, each with its records in both forms: runs/csv/old and new, runs/parquet/old and new."""
    made = tmp_path_factory.mktemp("many") / "work"
    made.mkdir()
    shutil.copy(prepared / "work" / "clips.csv", made)
    ours = (prepared / "work" / "ours.tsv").read_text(encoding="utf-8")
    (made / "ours.tsv").write_text(ours, encoding="utf-8")
    first, *lines = ours.splitlines()
    changed = [line.rsplit(" ", 1)[0] if at % 3 else line for at, line in enumerate(lines)]
    (made / "theirs.tsv").write_text("\n".join([first, *changed]) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        for form, most in (("csv", 100), ("parquet", 5)):
            patch.setattr(records_file, "MOST_IN_CSV", most)
            for name, texts in (("old", "ours.tsv"), ("new", "theirs.tsv")):
                words = [word.replace("ours.tsv", texts) for word in GROUPS[:-2]]
                finish_run(*words, out=Path("runs", form, name))
    for name in ("old", "new"):
        # They were made at another moment, which a page of a comparison tells.
        old, new = (made / "runs" / form / name for form in ("csv", "parquet"))
        assert stripped(old) == stripped(new)
        shutil.copy(old / "report.json", new)
    return made


@pytest.fixture
def runs(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a copy that a test may change; it is the folder in which commands run."""
    copied = Path(shutil.copytree(work / "runs", tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    yield copied


def compared(call_miles: Call, old: Path, new: Path) -> tuple[str, str]:
    """Return what is printed and what a page says of two runs, under names that do not tell their form."""
    for name, folder in (("old", old), ("new", new)):
        shutil.rmtree(name, ignore_errors=True)
        shutil.copytree(folder, name)
    done = call_miles("compare", "old", "new", "--json", "--html", "page.html")
    assert done.code == 0, done.err
    return done.out, Path("page.html").read_text(encoding="utf-8")


def test_a_run_has_one_of_both(work: Path) -> None:
    for name in ("old", "new"):
        first, second = (work / "runs" / form / name for form in ("csv", "parquet"))
        names = [{path.name for path in folder.iterdir()} for folder in (first, second)]
        assert names[0] - names[1] == {CSV} and names[1] - names[0] == {PARQUET}
        pandas.testing.assert_frame_equal(read(first).records(), read(second).records())


def test_compare_says_the_same_of_either(runs: Path, call_miles: Call) -> None:
    old, new = ([runs / form / name for form in ("csv", "parquet")] for name in ("old", "new"))
    wanted = compared(call_miles, old[0], new[0])
    assert '"paired": {' in wanted[0]
    for first, second in ((old[0], new[1]), (old[1], new[0]), (old[1], new[1])):
        assert compared(call_miles, first, second) == wanted


@pytest.mark.parametrize("run", SEEN_BY_COMPARE + OTHERS)
def test_compare_sees_the_same_of_every_audit(prepared: Path, run: str, tmp_path: Path, patched: Any) -> None:
    table = read_table(prepared / "work" / "runs" / run)
    assert isinstance(table, Table)
    columns = {name: [typed(cell) for cell in table.text[name]] for name in table.text}
    records_file.write_records(
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], tmp_path
    )
    again = read_table(tmp_path)
    assert isinstance(again, Table) and (tmp_path / PARQUET).exists()
    for name in table.text:
        assert again.text[name].tolist() == table.text[name].tolist()
        if all(cell == "" or not isinstance(cell, str) for cell in columns[name]):
            assert np.array_equal(again.numbers[name], table.numbers[name], equal_nan=True)


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_file, "MOST_IN_CSV", 0)


def typed(cell: str) -> Any:
    """Return what an audit gave for a cell, as far as that can be told."""
    for kind in (int, float):
        try:
            if str(kind(cell)) == cell:
                return kind(cell)
        except ValueError:
            continue
    return cell


def test_what_needs_no_records_works_with_either(runs: Path, call_miles: Call) -> None:
    for words in (("show", "runs/parquet/old"), ("render", "runs/parquet/old"), ("runs", "runs")):
        assert call_miles(*words).code == 0


def test_force_and_a_resume_remove_the_other_form(work: Path, monkeypatch: pytest.MonkeyPatch, finish_run: Any) -> None:
    monkeypatch.chdir(work)
    folder = Path("runs", "again")
    for most, name in ((100, CSV), (5, PARQUET), (100, CSV)):
        monkeypatch.setattr(records_file, "MOST_IN_CSV", most)
        finish_run(*GROUPS[:-2], "--force", out=folder)
        assert [one for one in (CSV, PARQUET) if (folder / one).exists()] == [name]
    # Killed before the report, with records of the other form.
    monkeypatch.setattr(records_file, "MOST_IN_CSV", 5)
    (folder / "report.json").unlink()
    finish_run(*GROUPS[:-2], out=folder)
    assert [one for one in (CSV, PARQUET) if (folder / one).exists()] == [PARQUET]
    # A finished run with them is read.
    created = read(folder).created
    finish_run(*GROUPS[:-2], out=folder)
    assert read(folder).created == created
    shutil.rmtree(folder)


def test_damaged_records_are_refused_in_a_panel(runs: Path, call_miles: Call) -> None:
    file = runs / "parquet" / "new" / PARQUET
    whole = file.read_bytes()
    for data in (b"", b"a,b\n1,2\n", whole[:-30], whole[: len(whole) // 2]):
        file.write_bytes(data)
        refused = call_miles("compare", "runs/parquet/old", "runs/parquet/new")
        assert refused.code == 2
        one_panel(refused, PARQUET, "Make the run again")
    file.write_bytes(whole)
    shutil.copy(runs / "csv" / "new" / CSV, file.parent)
    one_panel(call_miles("compare", "runs/parquet/old", "runs/parquet/new"), CSV, "Move the one away")


def test_without_pyarrow_compare_says_how_to_install_it(
    runs: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyarrow" else found(name))
    one_panel(call_miles("compare", "runs/parquet/old", "runs/parquet/new"), "pyarrow", "pip install")


def test_a_file_is_not_written_into_a_run_with_parquet(runs: Path, call_miles: Call) -> None:
    place = runs / "parquet" / "new" / "figures" / "page.html"
    place.parent.mkdir(exist_ok=True)
    one_panel(call_miles("compare", "runs/csv/old", "runs/csv/new", "--html", place), "stands in the run folder")


def test_mlflow_gets_either(runs: Path, tmp_path: Path, call_miles: Call) -> None:
    pytest.importorskip("mlflow")
    words = ("export", "runs/parquet/new", "--to", "mlflow", "--tracking-uri", tmp_path / "store")
    told = call_miles(*words).out
    assert f"2 files: report.json, {PARQUET}." in told and f"{PARQUET} holds rows about people or items" in told
    assert f"{PARQUET} too where it holds it" in call_miles(*words, "--no-records").out
