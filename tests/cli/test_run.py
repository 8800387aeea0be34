"""Does a whole run leave exactly what the contract says, and does every option of a run do what it says?"""

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from run_folders import files, pictures_of, stripped

Finished = tuple[Path, Any]
Call = Callable[..., Any]


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call of an encoder fail: what passes has run no model."""
    from probes.speech import activations

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the encoder was called")

    monkeypatch.setattr(activations.SpeechEncoder, "__init__", refuse)


@pytest.fixture
def old_pictures(finished_run: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages be made of the pictures of the finished run."""
    monkeypatch.setattr("audits.report.pages.figures.draw", lambda report: pictures_of(report, finished_run[0]))


def test_a_run_leaves_what_the_contract_says(finished_run: Finished, world: Any) -> None:
    folder, outcome = finished_run
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    pictures = {f"figures/{figure['file']}.{kind}" for figure in report["figures"] for kind in ("png", "svg")}
    assert len(pictures) >= 4
    assert files(folder) == {"report.json", "report.md", "report.html", "records.csv"} | pictures
    assert not (folder / "state").exists()
    assert report["audit"] == "audit-fairness"
    assert report["subject"]["path"] == str(world.model)
    assert report["coverage"] == {"given": 60, "used": 60, "skipped": []}
    assert report["provenance"]["command"][:3] == ["miles", "audit-fairness", str(world.model)]
    assert "Traceback" not in outcome.err
    with (folder / "records.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    assert {"path", "speaker", "gender", "accent", "status"} <= set(rows[0])
    # Every file can be read by others, not by its owner alone.
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in folder.rglob("*") if path.is_file())


def test_the_report_keeps_to_the_schema_that_miles_prints(finished_run: Finished, call_miles: Call) -> None:
    printed = call_miles("schema")
    assert printed.code == 0
    schema = json.loads(printed.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    text = (finished_run[0] / "report.json").read_text(encoding="utf-8")
    jsonschema.validate(json.loads(text), schema)
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def test_estimates_have_the_names_and_coordinates_of_the_contract(finished_run: Finished) -> None:
    rows = json.loads((finished_run[0] / "report.json").read_text(encoding="utf-8"))["estimates"]
    keys = {
        "error_rate": {"task", "metric", "layer", "group"},
        "gap": {"task", "metric", "layer", "by", "kind"},
        "layer_correlation": {"task", "metric", "by", "kind"},
        "best_layer": {"task", "metric"},
        "fairest_layer": {"task", "metric", "by", "kind"},
    }
    for name, wanted in keys.items():
        found = [row for row in rows if row["name"] == name]
        assert found, name
        assert all(set(row["where"]) == wanted for row in found), name
    groups = {row["where"]["group"] for row in rows if row["name"] == "error_rate"}
    assert {"all", "gender=female", "accent=north", "accent=north&gender=female"} <= groups
    assert {row["where"]["layer"] for row in rows if row["name"] == "gap"} == {-1, 0, 1, 2, 3}


def test_the_same_settings_again_are_reported_and_not_run(
    copied_run: Path, world: Any, call_miles: Call, no_encoder: None
) -> None:
    before = {name: (copied_run / name).stat().st_mtime_ns for name in files(copied_run)}
    again = call_miles(*world.command("--out", copied_run))
    assert again.code == 0, again.err
    assert "report.html" in again.out
    assert f"{copied_run} was finished earlier; nothing was run." in again.out
    assert before == {name: (copied_run / name).stat().st_mtime_ns for name in files(copied_run)}


def test_other_settings_in_a_finished_folder_are_refused(copied_run: Path, world: Any, call_miles: Call) -> None:
    before = (copied_run / "report.json").read_bytes()
    refused = call_miles(*world.command("--out", copied_run, "--seed", "1"))
    assert refused.code == 2
    assert "--force" in refused.err
    assert (copied_run / "report.json").read_bytes() == before


@pytest.mark.slow
def test_equal_runs_in_cold_caches_and_other_folders_give_equal_bytes(
    finished_run: Finished, world: Any, run_miles: Call, tmp_path: Path
) -> None:
    variables = {"MILES_CACHE": str(tmp_path / "cache"), "PYTHONHASHSEED": "7", "LC_ALL": "C"}
    words = world.command("--out", tmp_path / "second")
    assert run_miles(*words, pages=False, variables=variables).code == 0
    assert stripped(tmp_path / "second") == stripped(finished_run[0])
    assert (tmp_path / "second" / "records.csv").read_bytes() == (finished_run[0] / "records.csv").read_bytes()


def test_json_prints_the_report_and_nothing_else(copied_run: Path, world: Any, call_miles: Call) -> None:
    done = call_miles(*world.command("--out", copied_run, "--json"))
    assert done.code == 0
    assert done.out == (copied_run / "report.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("way", ["--quiet", "--json"])
def test_a_failed_gate_is_told_in_one_line_where_nothing_else_is(
    copied_run: Path, world: Any, call_miles: Call, old_pictures: None, way: str
) -> None:
    gates = ("best_layer.value > 99", "best_layer.value >= 0", "findings[severity=info] > 0")
    words = [word for gate in gates for word in ("--fail-if", gate)]
    done = call_miles(*world.command("--out", copied_run, way, *words))
    assert done.code == 1
    report = json.loads((copied_run / "report.json").read_text(encoding="utf-8"))
    assert done.out == ("" if way == "--quiet" else (copied_run / "report.json").read_text(encoding="utf-8"))
    (row, *_) = (report["estimates"][place] for place in report["gates"][1]["rows"])
    lines = done.err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"✗ gate failed  {gate}" for gate in gates[1:]]
    assert f": best_layer {row['where']['metric']}" in lines[0] or f"{row['value']:g}" in lines[0]
    assert "Info: " in lines[1]


def test_quiet_prints_nothing(copied_run: Path, world: Any, call_miles: Call) -> None:
    done = call_miles(*world.command("--out", copied_run, "--quiet"))
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_dry_run_prints_the_plan_and_writes_nothing(
    world: Any, call_miles: Call, tmp_path: Path, no_encoder: None, environment: dict[str, str]
) -> None:
    cached = set(Path(environment["MILES_CACHE"]).rglob("*"))
    done = call_miles(*world.command("--dry-run"), cwd=tmp_path)
    assert done.code == 0, done.err
    for word in ("wav2vec2", "60 items", "forwards", "disk", "time"):
        assert word in done.out
    assert list(tmp_path.iterdir()) == []
    assert set(Path(environment["MILES_CACHE"]).rglob("*")) == cached


def test_without_out_the_folder_is_named_by_command_and_time(
    finished_run: Finished, world: Any, call_miles: Call, tmp_path: Path
) -> None:
    words = world.command("--tasks", "sid", "--no-baseline", "--layers", "3", "--seed", "5", "--quiet")
    done = call_miles(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    (folder,) = (tmp_path / "runs").iterdir()
    command, stamp = folder.name[: len("audit-fairness")], folder.name[len("audit-fairness-") :]
    assert command == "audit-fairness"
    day, tail = stamp.split("-")
    assert time.strptime(day, "%Y%m%dT%H%M%SZ")
    assert len(tail) == 4
    assert int(tail, 16) >= 0
    first, other = (json.loads((run / "report.json").read_bytes())["estimates"] for run in (finished_run[0], folder))
    assert {(row["where"]["task"], row["where"].get("layer", 3)) for row in other} == {("sid", 3)}
    # Another seed: other folds and other bootstrap samples, so other numbers.
    assert [row for row in other if row["where"].get("group") == "all" and row in first] == []


def dealt(world: Any, call_miles: Call, out: Path, times: int) -> Any:
    words = ("--tasks", "sid", "--no-baseline", "--layers", "3", "--repeats", times, "--out", out, "--quiet")
    done = call_miles(*world.command(*words))
    assert done.code == 0, done.err
    return json.loads((out / "report.json").read_bytes())


def test_deals_of_the_clips_are_told_with_their_spread(world: Any, call_miles: Call, tmp_path: Path) -> None:
    report = dealt(world, call_miles, tmp_path / "three", 3)
    (told,) = [finding for finding in report["findings"] if finding["id"] == "fairness.deals"]
    assert "dealt over the folds 3 times" in told["statement"]
    spreads = [row for row in report["estimates"] if row["name"] in ("deal_spread", "gap_deal_spread")]
    keys = {(row["name"], *sorted(row["where"])) for row in spreads}
    assert ("deal_spread", "group", "layer", "metric", "task") in keys
    assert keys <= {
        ("deal_spread", "group", "layer", "metric", "task"),
        ("gap_deal_spread", "by", "layer", "metric", "task"),
    }
    assert all(row["n"] == 3 and row["unit"] == "deals" and row["low"] < row["value"] < row["high"] for row in spreads)
    assert set(told["evidence"]) <= {report["estimates"].index(row) for row in spreads}
    with (tmp_path / "three" / "records.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    errors = [int(row["sid_error_errors_3"]) for row in rows if row["sid_error_size"]]
    assert {row["sid_error_size"] for row in rows} <= {"3", ""} and set(errors) <= {0, 1, 2, 3}
    (everyone,) = [
        row for row in report["estimates"] if (row["name"], row["where"].get("group")) == ("error_rate", "all")
    ]
    assert everyone["value"] == pytest.approx(sum(errors) / len(errors) / 3)


def test_one_deal_is_warned_of(world: Any, call_miles: Call, tmp_path: Path) -> None:
    report = dealt(world, call_miles, tmp_path / "one", 1)
    assert "one-deal" in {warning["id"] for warning in report["warnings"]}
    assert "deal_spread" not in {row["name"] for row in report["estimates"]}
    assert "fairness.deals" not in {finding["id"] for finding in report["findings"]}


PASSING = {
    "error_rate[group=all,task=sid].value > 1": "pass",
    "gap[by=accent,kind=absolute].low > 0.99": "pass",
}
FAILING = {
    "error_rate[group=all,task=sid].value >= 0": "fail",
    "gap[by=accent,layer=-1].high > -9": "fail",
    "error_rate[group=accent=north&gender=female].value < 2": "fail",
}


@pytest.mark.parametrize(("gates", "code"), [(PASSING, 0), (FAILING, 1), (PASSING | FAILING, 1)])
def test_gates_on_a_finished_run_are_judged_without_a_rerun(
    copied_run: Path,
    world: Any,
    call_miles: Call,
    no_encoder: None,
    old_pictures: None,
    gates: dict[str, str],
    code: int,
) -> None:
    before = json.loads((copied_run / "report.json").read_text(encoding="utf-8"))
    words = [word for expression in gates for word in ("--fail-if", expression)]
    done = call_miles(*world.command("--out", copied_run, *words))
    assert done.code == code, done.err
    after = json.loads((copied_run / "report.json").read_text(encoding="utf-8"))
    assert {gate["expression"]: gate["outcome"] for gate in after["gates"]} == gates
    assert after["settings"]["fail_if"] == list(gates)
    assert after["provenance"]["command"] == [*before["provenance"]["command"], *words]
    assert after["estimates"] == before["estimates"]
    assert after["provenance"]["seconds"] == before["provenance"]["seconds"]
    told = (copied_run / "report.md").read_text(encoding="utf-8")
    assert all(expression.split("[")[0] in told for expression in gates)
    # Who asks nothing changes nothing, and an earlier verdict stands.
    held = (copied_run / "report.json").read_bytes()
    again = call_miles(*world.command("--out", copied_run))
    assert again.code == 0 and (copied_run / "report.json").read_bytes() == held
    assert ("gate failed" in again.out) == bool(code)
    # Another gate takes its place, in the command too.
    call_miles(*world.command("--out", copied_run, "--fail-if", "best_layer >= 99"))
    last = json.loads((copied_run / "report.json").read_text(encoding="utf-8"))
    assert last["provenance"]["command"] == [*before["provenance"]["command"], "--fail-if", "best_layer >= 99"]


def test_a_gate_that_selects_nothing_is_bad_usage_and_changes_nothing(
    copied_run: Path, world: Any, call_miles: Call
) -> None:
    before = (copied_run / "report.json").read_bytes()
    done = call_miles(*world.command("--out", copied_run, "--fail-if", "gap[by=age].low > 0"))
    assert done.code == 2
    assert "accent" in done.err
    assert (copied_run / "report.json").read_bytes() == before


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_gate_on_a_coordinate_that_no_estimate_can_have_is_refused_before_the_run(
    world: Any,
    call_miles: Call,
    tmp_path: Path,
    no_encoder: None,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
) -> None:
    from audits.asr_fairness import inputs

    made = inputs.check
    known = {"by": ("gender", "accent"), "layer": (0, 1, 2, 3)}
    monkeypatch.setattr(inputs, "check", lambda *words: replace(made(*words), coordinates=known))
    done = call_miles(*world.command("--out", tmp_path / "run", "--fail-if", "gap[by=acent].low > 0", *more))
    assert done.code == 2
    assert "by can be: accent, gender." in done.err
    assert not (tmp_path / "run").exists()


def test_one_failed_gate_of_two_fails_the_run(
    copied_run: Path, world: Any, call_miles: Call, old_pictures: None
) -> None:
    gates = ("--fail-if", "best_layer.value > 99", "--fail-if", "best_layer.value >= 0")
    done = call_miles(*world.command("--out", copied_run, *gates, "--json"))
    assert done.code == 1
    assert [gate["outcome"] for gate in json.loads(done.out)["gates"]] == ["pass", "fail"]


def test_a_fresh_run_with_a_hopeless_gate_leaves_no_folder(world: Any, call_miles: Call, tmp_path: Path) -> None:
    words = world.command("--tasks", "sid", "--layers", "3", "--no-baseline", "--fail-if", "nothing[a=b] > 0")
    for out, left in (("new/run", set()), ("empty", {"empty"})):
        (tmp_path / "empty").mkdir(exist_ok=True) if out == "empty" else None
        done = call_miles(*words, "--out", tmp_path / out)
        assert done.code == 2
        assert {path.name for path in tmp_path.iterdir()} == left
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_configuration_file_gives_the_same_run(
    copied_run: Path, world: Any, call_miles: Call, tmp_path: Path, no_encoder: None
) -> None:
    config = tmp_path / "audit.toml"
    config.write_text(
        f"""
        manifest = "{world.manifest}"
        device = "cpu"
        seed = 99
        [audit-fairness]
        by = ["gender", "accent"]
        bootstrap = 200
        permutations = 100
        probe-epochs = 1
        folds = 3
        min_speakers = 5
        """,
        encoding="utf-8",
    )
    words = ["audit-fairness", world.model, "--config", config, "--out", copied_run]
    assert call_miles(*words).code == 2
    done = call_miles(*words, "--seed", "0")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "by", [["--by", "gender,accent"], ["--by", "gender", "--by", "accent"], ["--by", "gender", "accent"]]
)
def test_all_spellings_of_a_list_are_one(
    copied_run: Path, world: Any, call_miles: Call, no_encoder: None, by: list[str]
) -> None:
    words = world.command("--out", copied_run)
    at = words.index("--by")
    assert call_miles(*words[:at], *by, *words[at + 3 :]).code == 0
    # The model may come after the list, too.
    assert call_miles("audit-fairness", *words[2:at], *words[at + 3 :], *by, world.model).code == 0


def test_a_run_compared_with_itself_is_told_so(finished_run: Finished, copied_run: Path, call_miles: Call) -> None:
    compared = call_miles("compare", finished_run[0], copied_run, "--fail-on-regression")
    assert compared.code == 0, compared.err
    assert "are the same run" in compared.out
    assert "┃" not in compared.out


def test_runs_that_cannot_be_judged_are_bad_usage(finished_run: Finished, copied_run: Path, call_miles: Call) -> None:
    path = copied_run / "report.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    report["settings"]["level"] = 0.9
    path.write_text(json.dumps(report), encoding="utf-8")
    refused = call_miles("compare", finished_run[0], copied_run)
    assert refused.code == 2
    assert "0.95" in refused.err
    assert "--level 0.9" in refused.err
    report["settings"] |= {"level": 0.95, "seed": 3}
    for row in report["estimates"]:
        row.update(low=None, high=None, method="none")
    path.write_text(json.dumps(report), encoding="utf-8")
    told = call_miles("compare", finished_run[0], copied_run)
    assert told.code == 0, told.err
    assert "changes have no interval" in told.out
    refused = call_miles("compare", finished_run[0], copied_run, "--fail-on-regression")
    assert refused.code == 2
    assert "--fail-on-regression" in refused.err
    assert refused.out == ""


def test_long_names_are_not_cut_at_80_columns(
    finished_run: Finished,
    copied_run: Path,
    call_miles: Call,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("compare", finished_run[0], copied_run, "--only", "gap[by=accent&gender,kind=absolute]")
    monkeypatch.setitem(environment, "COLUMNS", "300")
    wide = call_miles(*words).out
    monkeypatch.setitem(environment, "COLUMNS", "80")
    narrow = call_miles(*words).out
    assert max(map(len, wide.splitlines())) > 80
    table = narrow.partition("The rest")[2]
    assert max(map(len, table.splitlines())) <= 80 and "…" not in table

    def letters(out: str) -> list[str]:
        return sorted("".join(out.partition("The rest")[2].replace("─", "").split()))

    assert letters(narrow) == letters(wide) and len(letters(wide)) > 200


def test_show_compare_render_list_and_cache(
    finished_run: Finished, copied_run: Path, call_miles: Call, environment: dict[str, str]
) -> None:
    shown = call_miles("show", copied_run)
    assert shown.code == 0
    assert shown.out == call_miles("show", copied_run / "report.json").out
    assert "gender" in shown.out
    compared = call_miles("compare", finished_run[0], copied_run, "--all")
    assert compared.code == 0, compared.err
    assert "0 of " in compared.out
    assert "accent" in compared.out
    pages = {name: (copied_run / name).read_bytes() for name in ("report.md", "report.html")}
    for name in pages:
        (copied_run / name).unlink()
    assert call_miles("render", copied_run).code == 0
    assert {name: (copied_run / name).read_bytes() for name in pages} == pages
    assert "audit-fairness" in call_miles("list").out
    cache = call_miles("cache")
    assert environment["MILES_CACHE"] in cache.out
    assert "pooled-embeddings" in cache.out


def test_a_terminal_without_the_characters_is_no_obstacle(finished_run: Finished, world: Any, run_miles: Call) -> None:
    narrow = {"PYTHONIOENCODING": "ascii"}
    assert run_miles("show", finished_run[0], variables=narrow).code == 0
    done = run_miles(*world.command("--out", finished_run[0], "--json"), variables=narrow)
    assert done.code == 0
    assert done.out == (finished_run[0] / "report.json").read_text(encoding="utf-8")


def test_a_regression_fails_only_when_asked(finished_run: Finished, copied_run: Path, call_miles: Call) -> None:
    path = copied_run / "report.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    for row in report["estimates"]:
        if row["name"] == "error_rate" and row["where"]["group"] == "gender=male":
            row.update(value=row["value"] + 5, low=row["low"] + 5, high=row["high"] + 5)
    path.write_text(json.dumps(report), encoding="utf-8")
    assert call_miles("compare", finished_run[0], copied_run).code == 0
    assert call_miles("compare", finished_run[0], copied_run, "--fail-on-regression").code == 1
    assert call_miles("compare", copied_run, finished_run[0], "--fail-on-regression").code == 0
    chosen = ("--only", "error_rate[group=gender=female]", "--fail-on-regression")
    assert call_miles("compare", finished_run[0], copied_run, *chosen).code == 0


def test_clearing_the_cache_removes_entries_only(call_miles: Call, environment: dict[str, str], tmp_path: Path) -> None:
    from probes.core.cache import Cache

    torch = pytest.importorskip("torch")
    environment = {**environment, "MILES_CACHE": str(tmp_path)}
    Cache(tmp_path).write("kind", 1, {"a": torch.zeros(4)})
    (tmp_path / "diary.txt").write_text("mine", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(environment, "MILES_CACHE", str(tmp_path))
        done = subprocess.run(
            [sys.executable, "-m", "miles_cli", "cache", "--clear"], env=environment, capture_output=True, text=True
        )
    assert done.returncode == 0
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["diary.txt"]


@pytest.mark.slow
def test_an_interrupt_leaves_130_and_a_run_that_resumes(
    finished_run: Finished, world: Any, environment: dict[str, str], call_miles: Call, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    variables = {**environment, "MILES_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "miles_cli", *world.command("--out", out)]

    def listen() -> None:
        # A shell that starts the tests in the background makes all its children deaf to interrupts.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    running = subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen
    )
    patience = time.monotonic() + 60
    while not (out / "state" / "settings.json").exists() and time.monotonic() < patience:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert not (out / "report.json").exists()
    assert (out / "state").is_dir()
    assert call_miles("show", out).code == 2
    assert call_miles(*world.command("--out", out, "--seed", "3")).code == 2
    assert call_miles(*world.command("--out", out, "--quiet")).code == 0
    assert stripped(out) == stripped(finished_run[0])
