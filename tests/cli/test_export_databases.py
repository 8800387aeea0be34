"""Is a run logged whole into a database of SQLite, found again, and is every other database refused with a mend?"""

import dataclasses
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import one_panel

from audits.core.records import GateResult, Report
from audits.report.exports import mlflow_stores
from audits.report.exports.mlflow import MARK, metrics
from audits.report.report_file import read_report, write_report

Call = Callable[..., Any]
# MLflow uses what the newest SQLAlchemy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("MLFLOW_LOGGING_LEVEL", "ERROR")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def few(report: Report) -> Report:
    """Return the report with few estimates, and a gate on them."""
    gate = GateResult(expression="error_rate > 0.05", outcome="fail", rows=(0, 1))
    rows = tuple(row for row in report.estimates if row.name == "error_rate")[:5]
    return dataclasses.replace(report, estimates=rows, findings=(), gates=(gate,), figures=())


@pytest.fixture
def run(sample_report: Report, tmp_path: Path) -> Path:
    """Return the folder of a run that holds its report alone."""
    folder = tmp_path / "run"
    folder.mkdir()
    write_report(few(sample_report), folder)
    return folder


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with the tables of MLflow, which take seconds to make, and nothing in them."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("tables") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def database(tables: Path, tmp_path: Path) -> Path:
    """Return a database of one's own in a folder of its own."""
    (tmp_path / "store").mkdir()
    return Path(shutil.copy(tables, tmp_path / "store" / "mlflow.db"))


def held(database: Path, experiment: str = "miles") -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{database}")
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


def test_a_database_holds_the_run_and_its_files_lie_beside_it(
    run: Path, database: Path, tmp_path: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    report = read_report(run)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = ("export", run, "--to", "mlflow", "--tracking-uri", f"sqlite:///{database}")
    done = call_miles(*words)
    files = database.parent / "mlruns" / "miles"
    assert done.code == 0 and f"They are in {files}." in done.out, done.err
    (found,) = held(database)
    assert found.data.metrics == dict(metrics(report.estimates)) and found.info.status == "FINISHED"
    assert found.data.tags["miles.gates"] == "failed" and found.data.tags[MARK]
    kept = files / found.info.run_id / "artifacts" / "report.json"
    assert kept.read_bytes() == (run / "report.json").read_bytes()
    (listed,) = MlflowClient(tracking_uri=f"sqlite:///{database}").list_artifacts(found.info.run_id)
    assert listed.path == "report.json"
    assert not list((tmp_path / "here").iterdir())
    # Again, by another spelling of the same file, it is found; by force there are two.
    monkeypatch.chdir(database.parent)
    again = call_miles(*words[:-1], "sqlite:///mlflow.db")
    assert again.code == 0 and again.out.startswith(f"It is there already: run {found.info.run_id} ")
    assert call_miles(*words, "--force").code == 0 and len(held(database)) == 2


def test_half_a_run_is_taken_for_none(
    run: Path, database: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    def killed(*_: object, **__: object) -> None:
        raise OSError("no room")

    words = ("export", run, "--to", "mlflow", "--tracking-uri", f"sqlite:///{database}")
    with monkeypatch.context() as patch:
        # As when the process is killed: nothing is cleared up.
        patch.setattr(MlflowClient, "log_artifact", killed)
        patch.setattr(MlflowClient, "delete_run", lambda *_: None)
        assert call_miles(*words).code == 3
    (half,) = held(database)
    assert MARK not in half.data.tags and half.info.status == "RUNNING"
    assert call_miles(*words).out.startswith("Logged: ")
    assert sum(MARK in found.data.tags for found in held(database)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_artifact", killed)
        assert call_miles(*words, "--force").code == 3
    assert len(held(database)) == 2


def test_without_a_word_it_is_the_store_that_mlflow_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert mlflow_stores.store_address(None) == f"sqlite:///{tmp_path}/mlflow.db"
    # A folder of runs that is there already stays in use, in MLflow and so here.
    (tmp_path / "mlruns" / "0").mkdir(parents=True)
    (tmp_path / "mlruns" / "0" / "meta.yaml").touch()
    assert mlflow_stores.store_address(None) == (tmp_path / "mlruns").as_uri()


def of_another_program(path: Path) -> Path:
    with sqlite3.connect(path) as held:
        held.execute("CREATE TABLE customers (name TEXT)")
    held.close()
    return path


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqlite:///{there}/none/mlflow.db", "a folder that is not there"),
        ("sqlite:///{there}", "This is a folder, and no database"),
        ("sqlite:///{there}/words.txt", "no database of SQLite"),
        ("sqlite:///{there}/theirs.db", "another program's"),
        ("sqlite:///{there}/fifo", "no database of SQLite"),
        ("sqlite://", "a file that stays"),
        ("sqlite:///:memory:", "a file that stays"),
        ("sqlite:mlflow.db", "no address of a database"),
        ("{there}/theirs.db", "This is a file, and no folder"),
        ("postgresql+psycopg2://me:secret@127.0.0.1:9/runs", "pip install 'psycopg2-binary'"),
        ("mysql://me:secret@127.0.0.1:9/runs", "pip install 'mysqlclient'"),
        ("postgresql+nothing://127.0.0.1/runs", "no such driver"),
    ],
)
def test_what_is_no_store_is_refused_and_nothing_is_made(
    run: Path, tmp_path: Path, call_miles: Call, address: str, said: str
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "words.txt").write_text("words", "utf-8")
    of_another_program(there / "theirs.db")
    os.mkfifo(there / "fifo")
    before = {path: path.stat().st_mtime_ns for path in there.rglob("*")}
    done = call_miles("export", run, "--to", "mlflow", "--tracking-uri", address.format(there=there), cwd=there)
    one_panel(done, said, "--tracking-uri")
    assert "secret" not in done.err and {path: path.stat().st_mtime_ns for path in there.rglob("*")} == before


def test_a_database_needs_two_packages_that_the_extra_brings(
    run: Path, tmp_path: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(mlflow_stores, "find_spec", lambda name: None if name == "alembic" else found(name))
    done = call_miles("export", run, "--to", "mlflow", "--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db")
    one_panel(done, "A database needs alembic", "pip install 'miles-audit[mlflow]'")
    assert not (tmp_path / "mlflow.db").exists()


def test_a_database_of_another_version_is_left_as_it_is(run: Path, database: Path, call_miles: Call) -> None:
    with sqlite3.connect(database) as there:
        there.execute("UPDATE alembic_version SET version_num = '0c779009ac13'")
    there.close()
    done = call_miles("export", run, "--to", "mlflow", "--tracking-uri", f"sqlite:///{database}")
    one_panel(done, "An older version of MLflow made the database", f"mlflow db upgrade sqlite:///{database}")


def test_files_that_a_server_keeps_are_not_written_past_it(run: Path, database: Path, call_miles: Call) -> None:
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=f"sqlite:///{database}").create_experiment("miles", "mlflow-artifacts:/1")
    one_panel(
        call_miles("export", run, "--to", "mlflow", "--tracking-uri", f"sqlite:///{database}"),
        "go elsewhere: mlflow-artifacts:/1",
        "--experiment",
    )
    assert held(database) == []


class _Server:
    """What is asked of a client of a database on a server."""

    def get_experiment_by_name(self, name: str) -> None:
        """Have no experiment."""


def test_a_server_of_databases_is_not_told_where_files_go() -> None:
    store = mlflow_stores.Store(address="postgresql://host/runs", kind="database")
    with pytest.raises(mlflow_stores.InputError, match="on this machine alone") as refused:
        mlflow_stores.experiment(_Server(), store, "ours")
    assert "mlflow experiments create -n 'ours'" in refused.value.hint


AT_ONCE = """
import json, os, sys
import alembic.config, mlflow, sqlalchemy
from mlflow import MlflowClient
from mlflow.store.tracking import sqlalchemy_store
from miles_cli.main import main

asked, children = json.loads(sys.argv[1]), []
for number, words in enumerate(asked):
    child = os.fork()
    if not child:
        os.dup2(os.open(f"said-{number}", os.O_CREAT | os.O_WRONLY), 1)
        sys.argv = ["miles", *words]
        main()
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
json.dump([[code, open(f"said-{number}").read()] for number, code in enumerate(codes)], sys.stdout)
"""
"""Calls that begin at one moment, each in a process of its own; what all import is imported once."""


@pytest.mark.slow
def test_two_exports_at_once_both_end_whole(sample_report: Report, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "same")]
    for folder, seconds in zip(folders, (1.0, 2.0, 2.0), strict=True):
        folder.mkdir()
        made = dataclasses.replace(sample_report.provenance, seconds={"total": seconds})
        write_report(dataclasses.replace(few(sample_report), provenance=made), folder)
    address = f"sqlite:///{tmp_path}/mlflow.db"
    asked = [("export", str(folder), "--to", "mlflow", "--tracking-uri", address) for folder in folders]
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, json.dumps(asked)], capture_output=True, text=True, cwd=tmp_path
    )
    ended = json.loads(done.stdout)
    assert [code for code, _ in ended] == [0, 0, 0], done.stderr
    said = [text for _, text in ended]
    # Two of them hold the same report.
    assert sorted(text.partition(":")[0] for text in said) == ["It is there already", "Logged", "Logged"]
    found = held(tmp_path / "mlflow.db")
    assert len({one.data.tags[MARK] for one in found}) == len(found) == 2
    assert {one.info.status for one in found} == {"FINISHED"}
