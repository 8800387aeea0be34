"""Does a call from Python do what the command does, with the same bytes, and refuse what it refuses?"""

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pandas as pd
import pytest
from small_world import ONE_EACH

from audits.core import registry, runner
from audits.core.context import Cache
from miles_cli import IncompleteError, InputError, Report, read, run
from probes.core import holding

ROOT = Path(__file__).parents[2]
QUICK: dict[str, Any] = {"bootstrap": 200, "permutations": 100}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILES_CACHE", str(tmp_path / "cache"))


def clips(speakers: int = 24) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    names = np.repeat([f"s{number}" for number in range(speakers)], 5)
    groups = np.repeat(["east", "-west"], len(names) // 2)
    words = rng.integers(5, 20, len(names))
    errors = rng.poisson(np.where(groups == "east", 0.1, 0.3) * words)
    return pd.DataFrame({"speaker": names, "accent": groups, "words": words, "errors": errors})


def audited(**more: Any) -> Report:
    return run("audit-groups", **{"manifest": clips(), "by": ["accent"], "out": "runs/a", **QUICK, **more})


def plain(folder: str) -> Any:
    data = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))
    return {key: value for key, value in data.items() if key not in ("created", "provenance")}


def test_a_call_that_fails_holds_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> Any:
        holding.held("model", list)
        raise InputError("It is wrong.", where="here", hint="Mend it.")

    monkeypatch.setattr(runner, "carry_out", fails)
    with pytest.raises(InputError, match="wrong"):
        audited()
    assert not holding._HELD


def test_a_call_gives_the_bytes_of_the_command_that_its_report_holds(call_miles: Any) -> None:
    report = audited(fail_if=["gap[kind=absolute].low > 0.9"], level=0.9)
    command = list(report.provenance.command)
    assert command[:2] == ["miles", "audit-groups"]
    command[command.index("runs/a")] = "runs/b"
    assert call_miles(*command[1:]).code == 0
    assert plain("runs/a") == plain("runs/b")
    assert Path("runs/a/records.csv").read_bytes() == Path("runs/b/records.csv").read_bytes()


def test_the_command_of_a_call_that_repeats_all_settings_is_taken(call_miles: Any) -> None:
    clips().to_csv("clips.csv", index=False)
    first = audited(manifest="clips.csv")
    again = run("audit-groups", out="runs/b", **first.settings)
    command = list(again.provenance.command)
    command[command.index("runs/b")] = "runs/c"
    done = call_miles(*command[1:])
    assert done.code == 0, done.out
    assert plain("runs/a") == plain("runs/b") == plain("runs/c")


def test_the_same_call_again_reads_the_finished_run() -> None:
    first, second = audited(), audited()
    assert first == second and first.created == second.created
    assert read("runs/a") == first == read(Path("runs/a/report.json"))
    with pytest.raises(InputError, match="other settings"):
        audited(seed=1)
    assert audited(seed=1, force=True) != first


def test_the_frame_has_every_estimate_with_its_coordinates() -> None:
    report = audited()
    frame = report.frame()
    assert list(frame["name"]) == [row.name for row in report.estimates]
    for (_, cells), row in zip(frame.iterrows(), report.estimates, strict=True):
        assert (cells["value"], cells["n"], cells["unit"], cells["method"]) == (row.value, row.n, row.unit, row.method)
        for key, value in row.where.items():
            # A key with the name of a column of numbers, here the level of an attribute, has one of its own.
            assert cells["where.level" if key == "level" else key] == value
    assert (frame["level"] == 0.95).all() and "where.level" in frame
    gaps = report.frame("gap")
    assert list(gaps.columns[:6]) == ["name", "system", "metric", "by", "kind", "adjusted"]
    with pytest.raises(InputError) as error:
        report.frame("gaps")
    assert "gap" in error.value.hint


def test_an_estimate_without_interval_has_missing_ends() -> None:
    report = audited()
    bare = [row.low is None for row in report.estimates]
    assert any(bare)
    assert list(report.frame()["low"].isna()) == bare == list(report.frame()["high"].isna())


def test_records_are_as_they_were_given() -> None:
    records = audited().records()
    assert list(records["accent"]) == list(clips()["accent"])
    assert list(records["words"]) == list(clips()["words"])
    Path("runs/a/records.csv").write_text("id,'=a\nNA,'=1+1\nnull,\n", encoding="utf-8")
    records = read("runs/a").records()
    assert list(records["id"]) == ["NA", "null"] and list(records["=a"].isna()) == [False, True]
    assert records["=a"][0] == "=1+1"
    text = "id,speaker,group,hits,score,there,none\n0012,123456789012345678901,nan,3,0.1,True,\n7,8,nan,,-2e-5,False,\n"
    Path("runs/a/records.csv").write_text(text, encoding="utf-8")
    records = read("runs/a").records()
    # What calls something is no number, though digits are all it has.
    assert list(records["id"]) == ["0012", "7"] and list(records["speaker"]) == ["123456789012345678901", "8"]
    assert list(records["group"]) == ["nan", "nan"] and list(records["there"]) == [True, False]
    assert list(records["score"]) == [0.1, -2e-5] and records["none"].isna().all()
    assert records["hits"][0] == 3.0 and list(records["hits"].isna()) == [False, True]
    Path("runs/a/records.csv").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        read("runs/a").records()


def test_a_gate_is_judged_as_on_the_command_line() -> None:
    report = audited()
    passed, failed = report.gate("gap[kind=absolute].low > 0.9"), report.gate("gap[kind=absolute].high > 0.01")
    assert passed and not failed
    assert {report.estimates[row].name for row in failed.rows} == {"gap"}
    with pytest.raises(InputError):
        report.gate("gap[by=nothing].low > 0")
    with pytest.raises(InputError):
        report.gate("no gate")


@pytest.mark.parametrize(
    ("options", "where", "hint"),
    [
        ({"b": ["accent"]}, "run('audit-groups', b=...)", "Did you mean 'by'?"),
        ({"json": True}, "run('audit-groups', json=...)", "There are"),
        ({"by": ["acent"]}, "--by", "Did you mean 'accent'?"),
        ({"seed": "one"}, "run('audit-groups')", "seed"),
        ({"seed": -1}, "--seed", "2^63 - 1"),
        ({"bootstrap": 3}, "--bootstrap", "Give 200"),
        ({"manifest": "none.csv"}, "none.csv", ""),
        ({"manifest": None}, "MANIFEST", "Clips"),
        ({"manifest": clips().set_axis(["a", "a", "b", "c"], axis=1)}, "manifest, a data frame", "Name every column"),
        ({"config": "none.toml"}, "none.toml", ""),
    ],
)
def test_what_the_command_refuses_is_refused(options: dict[str, Any], where: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        audited(**options)
    assert where in error.value.where and hint in error.value.hint
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("options", "where", "says"),
    [
        ({"manifest": clips().to_dict("records")}, "manifest", "type dict"),
        ({"manifest": clips()["words"]}, "manifest", "type Series"),
        ({"predictions": {"a": {"one.wav": "secret words"}}}, "predictions['a']", "type dict"),
        ({"predictions": clips()}, "predictions", "without a name"),
        ({"predictions": [clips()]}, "predictions", "without a name"),
        ({"predictions": {"a=b": clips()}}, "predictions", "cannot be a name"),
    ],
)
def test_a_value_that_no_option_takes_is_named_and_not_printed(options: Any, where: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        audited(**options)
    assert error.value.where == where and error.value.hint and len(str(error.value)) < 100
    assert error.value.__notes__ == [f"where: {where}", f"fix: {error.value.hint}"]


def test_frames_are_the_users_alone_and_are_cleared_with_the_cache(tmp_path: Path) -> None:
    audited()
    folder = tmp_path / "cache" / "frames"
    assert len(list(folder.iterdir())) == 1 and folder.stat().st_mode & 0o777 == 0o700
    cache = Cache.default()
    assert cache.usage()["frames"] == (1, cache.clear())
    assert list(folder.iterdir()) == []
    assert audited().folder == Path("runs/a")


def test_an_unknown_audit_is_refused() -> None:
    with pytest.raises(InputError, match="no audit named"):
        run("audit-group", manifest=clips())
    with pytest.raises(InputError, match="no finished report"):
        read("runs/none")


def test_options_come_from_a_file_and_a_call_wins() -> None:
    Path("miles.toml").write_text('[audit-groups]\nmax-order = 1\nby = ["accent"]\nbootstrap = 300\n', encoding="utf-8")
    report = run("audit-groups", manifest=clips(), config="miles.toml", out="runs/a", **QUICK)
    assert (report.settings["max_order"], report.settings["bootstrap"]) == (1, 200)


def test_systems_are_given_by_name() -> None:
    rows = clips().assign(path=[f"{number}.wav" for number in range(120)], text="one two three")
    rows = rows.drop(columns=["words", "errors"])
    heard = rows[["path"]].assign(prediction="one two three")
    report = run(
        "audit-groups",
        manifest=rows,
        predictions={"good": heard, "bad": heard.assign(prediction="one two tree")},
        by=["accent"],
        **QUICK,
    )
    assert report.folder.parent == Path("runs")
    rates = report.frame("rate").query("metric == 'wer' and group == 'all'").set_index("system")["value"]
    assert dict(rates) == {"good": 0.0, "bad": pytest.approx(1 / 3)}


def test_the_cells_of_a_frame_are_those_of_a_file() -> None:
    from miles_cli.given_tables import as_given

    frame = pd.DataFrame(
        {"a": [1, 2], "b": [True, False], "c": [None, "x,y"], "d": [[1, "é"], {"k": 1}], "e": [0.1, np.nan]}
    )
    path = as_given(frame, "data")
    assert Path(path).read_text(encoding="utf-8") == (
        'a,b,c,d,e\n1,true,,"[1, ""é""]",0.1\n2,false,"x,y","{""k"": 1}",\n'
    )
    assert as_given(frame, "data") == path != as_given(frame.head(1), "data")
    assert as_given(frame.set_index("a"), "data") == path
    Path(path).write_text("changed", encoding="utf-8")
    assert Path(as_given(frame, "data")).read_text(encoding="utf-8")[:5] == "a,b,c"


def test_errors_of_the_system_are_those_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from audits.core import runner

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runner, "carry_out", full)
    with pytest.raises(IncompleteError, match="No space") as error:
        audited()
    assert "it resumes" in error.value.hint


def test_nothing_is_printed_but_progress_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    audited()
    assert capfd.readouterr() == ("", "")


def test_the_package_starts_without_what_it_runs() -> None:
    code = "import sys, miles_cli; print(sorted(m for m in ('numpy', 'pandas', 'typer', 'audits') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
    assert all((ROOT / package / "py.typed").exists() for package in ("miles_cli", "audits", "probes"))


def test_names_of_the_house_in_the_folder_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "audits").mkdir()
    (tmp_path / "audits" / "notes.txt").write_text("mine", encoding="utf-8")
    code = "from miles_cli import run; print(run.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "miles_cli.from_python\n"), done.stderr


def test_a_report_shows_itself_without_a_script() -> None:
    html = audited(fail_if=["gap[kind=absolute].low > 0.01"])._repr_html_()
    assert "<script" not in html and "✗ gate failed" in html and "data:image/svg+xml" in html
    assert "runs/a/report.html" in html
    assert repr(read("runs/a")).startswith("<Report of audit-groups: ")


def test_the_notebook_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorials" / "first_report.ipynb").read_text(encoding="utf-8")
    notebook: Any = nbformat.reads(page, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    _, shown, gaps, gate, sums = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "scottish" in shown.outputs[0].data["text/html"] and "<table" in shown.outputs[0].data["text/html"]
    assert "accent" in gaps.outputs[0].data["text/plain"]
    assert "outcome='fail'" in gate.outputs[0].data["text/plain"]
    assert "indian" in sums.outputs[0].data["text/plain"]
    assert (tmp_path / "runs" / "first" / "report.html").exists()


@pytest.mark.parametrize("audit", ONE_EACH)
def test_every_audit_finds_its_run_again_by_the_settings_of_its_report(
    audit: str, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prepared / "work")
    folder = Path(ONE_EACH[audit][-1])
    known = {item.name for item in fields(registry.find(audit).options)} | {"seed", "level", "device", "dtype"}
    settings = {key: value for key, value in read(folder).settings.items() if key in known}
    before = (folder / "report.json").read_bytes()
    assert run(audit, **settings, out=folder) == read(folder)
    assert (folder / "report.json").read_bytes() == before


def test_columns_that_hold_no_plain_values_do_not_stop_a_frame() -> None:
    frame = clips()
    frame["when"] = [[pd.Timestamp("2020-01-02").date()]] * len(frame)
    frame["weight"] = [{"a": np.float32(0.5), "b": b"x", "c": {1}}] * len(frame)
    (kept,) = [audited(manifest=frame).data[0].path]
    held = pd.read_csv(kept)
    assert held["when"][0] == '["2020-01-02"]' and json.loads(held["weight"][0]) == {"a": 0.5, "b": None, "c": "{1}"}


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([b"a b"], "a column holds bytes"),
        ([{(1, 2): 3}], "keys must be"),
        ([["\ud800"]], "surrogates not allowed"),
    ],
)
def test_cells_that_no_table_holds_are_refused(cells: list[Any], says: str) -> None:
    frame = clips()
    frame["more"] = pd.Series(cells * len(frame), dtype=object)
    with pytest.raises(InputError, match=says) as refused:
        audited(manifest=frame)
    assert refused.value.where == "manifest, a data frame" and refused.value.hint and not Path("runs").exists()


def test_an_index_named_like_a_column_is_refused() -> None:
    with pytest.raises(InputError, match="one name twice"):
        audited(manifest=clips().rename_axis("accent"))


def test_frames_of_other_packages_that_build_on_pandas_are_frames() -> None:
    kind = type("Kind", (pd.DataFrame,), {"__module__": "geo"})
    assert audited(manifest=kind(clips())).coverage.used


def test_a_value_of_a_wrong_type_is_shown_in_short() -> None:
    with pytest.raises(InputError, match="type ndarray") as refused:
        audited(manifest=np.zeros((9, 9)))
    assert len(refused.value.message) < 150 and "\n" not in refused.value.message


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MILES_CACHE", str(tmp_path / "file"))
    with pytest.raises((InputError, IncompleteError), match="exists") as refused:
        audited()
    assert str(tmp_path / "file") in str(refused.value.where)


def test_a_figure_or_records_that_are_no_file_are_not_waited_for() -> None:
    report = audited()
    records = report.folder / "records.csv"
    records.unlink()
    os.mkfifo(records)
    with pytest.raises(InputError, match="no ordinary file"):
        report.records()
    odd = replace(report, figures=(replace(report.figures[0], file="a" * 5000),))
    assert "data:image" in report._repr_html_() and "data:image" not in odd._repr_html_()


def test_a_home_that_nobody_has_is_wrong_input() -> None:
    with pytest.raises(InputError, match="no such home folder"):
        run("certify", from_log=["~nobody-of-this-name/log.tsv"], sigma=0.5)
