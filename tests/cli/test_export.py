"""Does `miles export` give every run to MLflow, to a card, to a pipeline and to a signer, whole or not at all?"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from refusals import one_panel

from audits.report.exports.mlflow import MARK, MOST_VALUE, metrics
from audits.report.exports.subjects import systems
from audits.report.exports.wording import carrying
from audits.report.pages.content import setting
from audits.report.report_file import read_report

Call = Callable[..., Any]
BY_US = ("--evaluator", "Us", "--relationship", "other")
VALID = JsonStrictValidator(SchemaVersion.V1_7)
RUNS = ("canaries", "certified", "first", "grids", "groups", "matrix", "phones", "short", "slopes", "suite", "texts")


@pytest.fixture
def runs(prepared: Path) -> Path:
    """Return the finished runs, which no export may change."""
    return prepared / "work" / "runs"


@pytest.fixture
def own(runs: Path, tmp_path: Path) -> Path:
    """Return a copy of a run that a test may change."""
    return Path(shutil.copytree(runs / "certified", tmp_path / "own"))


def judged(folder: Path, outcome: str) -> Path:
    """Give a run a gate that some of its rows break, or none."""
    data = json.loads((folder / "report.json").read_text("utf-8"))
    rows = [place for place, row in enumerate(data["estimates"]) if row["name"] == "certified_accuracy"]
    data["gates"] = [{"expression": "certified_accuracy < 0.5", "outcome": outcome, "rows": rows}]
    (folder / "report.json").write_text(json.dumps(data), "utf-8")
    return folder


def test_every_audit_can_be_exported(runs: Path, call_miles: Call) -> None:
    from huggingface_hub import ModelCard

    for name in RUNS:
        report = read_report(runs / name)
        before = {path: path.stat().st_mtime_ns for path in (runs / name).rglob("*")}
        done = call_miles("export", runs / name, "--to", "junit")
        assert done.code == 0 and len(ET.fromstring(done.out.encode())) == 1, done.err
        done = call_miles("export", runs / name / "report.json", "--to", "in-toto")
        digests = [next(iter(one["digest"].values())) for one in json.loads(done.out)["predicate"]["configuration"]]
        assert digests[-1] == hashlib.sha256((runs / name / "report.json").read_bytes()).hexdigest()
        done = call_miles("export", runs / name, "--to", "sarif")
        assert len(json.loads(done.out)["runs"][0]["results"]) == len(report.findings) + len(report.gates), done.err
        assert call_miles("export", runs / name, "--to", "github").out.startswith("## ")
        named = () if report.subject else ("--model-name", "Ours")
        done = call_miles("export", runs / name, "--to", "model-card", *named)
        places = {place for finding in report.findings for place in finding.evidence}
        assert len(ModelCard(done.out).data.eval_results or ()) == len(places), name
        held = systems(report, carrying(report))
        named = ("--system", held[0]) if len(held) > 1 else named
        done = call_miles("export", runs / name, "--to", "cyclonedx", *named)
        assert done.code == 0 and VALID.validate_str(done.out) is None, done.err
        done = call_miles("export", runs / name, "--to", "every-eval-ever", *named, *BY_US)
        # Some audits have no estimate of which less is better or worse.
        assert done.code == 0 or "better or worse" in done.err or "carries a finding" in done.err, done.err
        assert done.code or json.loads(done.out)["evaluation_results"]
        assert {path: path.stat().st_mtime_ns for path in (runs / name).rglob("*")} == before


def test_a_bill_and_a_record_are_written_with_what_they_are_about(runs: Path, tmp_path: Path, call_miles: Call) -> None:
    bill, record = tmp_path / "bom.json", tmp_path / "record.json"
    done = call_miles("export", runs / "certified", "--to", "cyclonedx", "--out", bill)
    assert done.out == f"Written: {bill}; about net.safetensors\n"
    component = json.loads(bill.read_text("utf-8"))["metadata"]["component"]
    assert component["name"] == "net.safetensors"
    done = call_miles("export", runs / "canaries", "--to", "cyclonedx", "--out", bill)
    assert "; about data alone, since the run names no model; --system or" in done.out
    words = ("export", runs / "certified", "--to", "every-eval-ever", *BY_US)
    done = call_miles(*words, "--model-name", "us/net", "--only", "certified_accuracy[radius=0.25]", "--out", record)
    assert done.out == f"Written: {record}; 4 results of us/net\n", done.err
    done = call_miles(*words, "--only", "certified_accuracy[radius=0.25]", "--only", "draws_per_item", "--out", record)
    assert "; 1 left out, since less of them is neither better nor worse" in done.out


def test_what_the_run_was_made_of_is_not_written_over(own: Path, tmp_path: Path, call_miles: Call) -> None:
    report = json.loads((own / "report.json").read_text("utf-8"))
    for name in ("model", "images", "criteria"):
        (tmp_path / name).write_text(name, "utf-8")
    report["subject"]["path"] = str(tmp_path / "model")
    report["data"] = [{**report["data"][0], "path": path} for path in ("\0", "x" * 9999, str(tmp_path / "images"))]
    cited = {"sha256": "a" * 64, "file": str(tmp_path / "criteria"), "created": "2026-11-28T03:00:00Z", "miles": "1"}
    (own / "report.json").write_text(json.dumps({**report, "registration": cited, "gates": []}), "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "images")
    for name in ("model", "images", "criteria", "link"):
        one_panel(call_miles("export", own, "--to", "sarif", "--out", tmp_path / name), "was made of this file")
        one_panel(call_miles("export", own, "--to", "model-card", "--card", tmp_path / name), "was made of this file")
    assert all((tmp_path / name).read_text("utf-8") == name for name in ("model", "images", "criteria"))
    assert call_miles("export", own, "--to", "sarif", "--out", tmp_path / "new.sarif").code == 0


def test_a_failed_gate_is_red_in_the_file(own: Path, tmp_path: Path, call_miles: Call) -> None:
    done = call_miles("export", judged(own, "fail"), "--to", "junit", "--out", tmp_path / "miles.xml")
    assert (done.code, done.out) == (0, f"Written: {tmp_path / 'miles.xml'}\n")
    root = ET.parse(tmp_path / "miles.xml").getroot()
    assert root[0].get("failures") == "1" and root.find(".//failure") is not None
    done = call_miles("export", own, "--to", "in-toto")
    assert json.loads(done.out)["predicate"]["failedTests"] == ["gate certified_accuracy < 0.5"]


def test_a_card_is_changed_in_place_and_only_once(runs: Path, tmp_path: Path, call_miles: Call) -> None:
    card = tmp_path / "README.md"
    card.write_text("---\nlicense: mit\n---\n# Ours\n", "utf-8")
    words = ("export", runs / "certified", "--to", "model-card", "--card", card)
    assert call_miles(*words).out == f"Written: {card}; results under the name net.safetensors\n"
    once = card.read_text("utf-8")
    assert once.startswith("---\nlicense: mit\nmodel-index:\n") and "# Ours\n\n<!-- miles:certify -->" in once
    assert call_miles(*words).out == f"Nothing changed: {card}; results under the name net.safetensors\n"
    assert call_miles(*words, "--only", "abstention_rate").code == 0
    assert "abstention_rate" in card.read_text("utf-8").split("---\n")[1]
    done = call_miles("export", runs / "certified", "--to", "model-card", "--section-only")
    assert done.out.startswith("<!-- miles:certify -->") and done.out in once
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_results_of_a_run_without_a_model_stand_under_the_name_that_is_given(
    runs: Path, tmp_path: Path, call_miles: Call
) -> None:
    card = tmp_path / "README.md"
    words = ("export", runs / "canaries", "--to", "model-card")
    done = call_miles(*words, "--out", card, "--model-name", "Ours 1")
    assert done.out == f"Written: {card}; results under the name Ours 1\n"
    text = card.read_text("utf-8")
    assert "- name: Ours 1\n" in text and "name: canaries.npz\n  results" not in text
    assert call_miles(*words, "--card", card).out == f"Nothing changed: {card}; results under the name Ours 1\n"
    assert call_miles(*words, "--section-only").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{runs}/certified", "--to", "juint"], "Did you mean junit?"),
        (["{runs}/certified", "--to", "junit", "--card", "README.md"], "It belongs to model-card"),
        (["{runs}/certified", "--to", "in-toto", "--only", "x"], "It belongs to model-card"),
        (["{runs}/certified", "--to", "junit", "--problems-only"], "It belongs to sarif"),
        (["{runs}/certified", "--to", "sarif", "--card", "x"], "sarif takes --out, --problems-only"),
        (["{runs}/certified", "--to", "sarif", "--out", "{runs}/certified/x.sarif"], "stands in the run folder"),
        (["{runs}/certified", "--to", "github", "--no-records"], "github takes --out"),
        (["{runs}/certified", "--to", "github", "--out", "none/x.md"], "a folder that is not there"),
        (["{runs}/certified", "--to", "mlflow", "--out", "x"], "takes --tracking-uri"),
        (["{runs}/certified", "--to", "junit", "--model-name", "a"], "It belongs to model-card"),
        (["{runs}/certified", "--to", "in-toto", "--model-name", ""], "It belongs to model-card"),
        (["{runs}/certified", "--to", "junit", "--no-records"], "It belongs to mlflow"),
        (["{runs}/certified", "--to", "model-card", "--model-name", " "], "This is no name"),
        (["{runs}/certified", "--to", "model-card", "--model-name", "a", "--section-only"], "Leave out --model-name"),
        (["{runs}/canaries", "--to", "model-card"], "names no model"),
        (["{runs}/canaries", "--to", "model-card", "--out", "x.md"], "--model-name NAME"),
        (["{runs}/certified", "--to", "model-card", "--card", "two.md"], "The run audited net.safetensors"),
        (["{runs}/certified", "--to", "model-card", "--only", "accuracy["], "cannot be read"),
        (["{runs}/certified", "--to", "model-card", "--only", "nothing"], "There are:"),
        (["{runs}/certified", "--to", "model-card", "--card", "none.md"], "There is no card here"),
        (["{runs}/certified", "--to", "model-card", "--card", "latin.md"], "no UTF-8"),
        (["{runs}/certified", "--to", "model-card", "--card", "bad.md"], "no YAML"),
        (["{runs}/certified", "--to", "model-card", "--card", "bad.md", "--out", "x"], "Leave out --out"),
        (["{runs}/certified", "--to", "junit", "--out", "."], "is no file"),
        (["{runs}/certified", "--to", "junit", "--out", "none/x.xml"], "a folder that is not there"),
        (["{runs}/certified", "--to", "junit", "--out", "{runs}/certified/report.json"], "stands in the run folder"),
        (["{runs}/certified", "--to", "junit", "--out", "{runs}/certified/x.xml"], "stands in the run folder"),
        (["{runs}/certified", "--to", "cyclonedx", "--system", "x"], "The run has no system 'x'"),
        (["{runs}/certified", "--to", "cyclonedx", "--only", "nothing"], "There are:"),
        (["{runs}/certified", "--to", "cyclonedx", "--model-name", " "], "This is no name"),
        (["{runs}/certified", "--to", "cyclonedx", "--out", "{runs}/certified/x.json"], "stands in the run folder"),
        (["{runs}/certified", "--to", "cyclonedx", "--evaluator", "Us"], "It belongs to every-eval-ever"),
        (["{runs}/certified", "--to", "mlflow", "--system", "x"], "model-card, cyclonedx and every-eval-ever"),
        (["{runs}/certified", "--to", "every-eval-ever"], "who ran the evaluation"),
        (["{runs}/certified", "--to", "every-eval-ever", "--evaluator", "Us"], "One of first_party, third_party"),
        (["{runs}/canaries", "--to", "every-eval-ever", *BY_US], "The run names no model"),
        (["{runs}/slopes", "--to", "every-eval-ever", *BY_US], "better or worse when it grows"),
        (["bad.md", "--to", "junit"], "The report cannot be read"),
        (["none", "--to", "junit"], "There is no finished report here"),
    ],
)
def test_wrong_input_ends_in_one_panel_and_nothing_is_written(
    runs: Path, tmp_path: Path, call_miles: Call, words: list[str], said: str
) -> None:
    (tmp_path / "bad.md").write_text("---\na: [\n---\n", "utf-8")
    (tmp_path / "latin.md").write_bytes(b"\xe4\n")
    (tmp_path / "two.md").write_text("---\nmodel-index: [{name: a, results: []}]\n---\n", "utf-8")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = call_miles("export", *(word.format(runs=runs) for word in words), cwd=tmp_path)
    plain = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2 and done.out == "" and said in plain and plain.count("╭─ Error ─") == 1, done.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_is_no_file_is_not_replaced_by_one(runs: Path, tmp_path: Path, call_miles: Call) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert call_miles("export", runs / "certified", "--to", "junit", "--out", tmp_path / "pipe").code == 2
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_to_a_card_stays_and_nobody_else_may_read_the_card(runs: Path, tmp_path: Path, call_miles: Call) -> None:
    (tmp_path / "cards").mkdir()
    card, link = tmp_path / "cards" / "a.md", tmp_path / "README.md"
    card.write_text("# Ours\n", "utf-8")
    card.chmod(0o600)
    link.symlink_to(card)
    assert call_miles("export", runs / "certified", "--to", "model-card", "--card", link).code == 0
    assert link.is_symlink() and "<!-- miles:certify -->" in card.read_text("utf-8")
    assert card.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in card.parent.iterdir()] == ["a.md"]
    # A new file is for everybody to read.
    assert call_miles("export", runs / "certified", "--to", "junit", "--out", tmp_path / "x.xml").code == 0
    assert (tmp_path / "x.xml").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("words", [["{runs}/certified", "--out", "circle"], ["circle", "--out", "x.xml"]])
def test_a_link_that_leads_in_a_circle_is_refused(
    runs: Path, tmp_path: Path, call_miles: Call, words: list[str]
) -> None:
    (tmp_path / "circle").symlink_to("circle")
    one_panel(call_miles("export", *(word.format(runs=runs) for word in words), "--to", "junit", cwd=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["circle"] and (tmp_path / "circle").is_symlink()


def test_sarif_points_at_files_of_the_folder_it_is_called_in(own: Path, tmp_path: Path, call_miles: Call) -> None:
    data = json.loads((judged(own, "pass") / "report.json").read_text("utf-8"))
    table = tmp_path / "ä b.csv"
    table.write_text("a\n", "utf-8")
    digest = hashlib.sha256(table.read_bytes()).hexdigest()
    data["data"] = [{"role": "images", "path": str(table), "sha256": digest, "items": 1}]
    (own / "report.json").write_text(json.dumps(data), "utf-8")
    words = ("export", own, "--to", "sarif", "--out", "miles.sarif")
    assert call_miles(*words, cwd=tmp_path).out == "Written: miles.sarif\n"
    text = (tmp_path / "miles.sarif").read_text("utf-8")
    (run,) = json.loads(text)["runs"]
    assert {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]} == {
        "%C3%A4%20b.csv"
    }
    hashes = {one["location"]["uri"]: one.get("hashes") for one in run["artifacts"]}
    assert hashes["%C3%A4%20b.csv"] == {"sha-256": digest}
    assert hashes["own/report.json"] == {"sha-256": hashlib.sha256((own / "report.json").read_bytes()).hexdigest()}
    call_miles(*words, cwd=tmp_path)
    assert (tmp_path / "miles.sarif").read_text("utf-8") == text
    kinds = [one["kind"] for one in run["results"]]
    done = call_miles(*words[:-2], "--problems-only", cwd=tmp_path)
    assert len(json.loads(done.out)["runs"][0]["results"]) == kinds.count("fail") < len(kinds)


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a step's summary, as GitHub Actions names it."""
    file = tmp_path / "step_summary_1"
    file.touch()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    return file


def test_github_gets_annotations_and_a_summary(own: Path, tmp_path: Path, step: Path, call_miles: Call) -> None:
    words = ("export", judged(own, "fail"), "--to", "github")
    done = call_miles(*words)
    lines = done.out.splitlines()
    assert done.code == 0 and lines[0].startswith(
        "::error title=miles certify%3A gate failed::certified_accuracy < 0.5: "
    )
    assert all(line.startswith("::") for line in lines)
    once = step.read_text("utf-8")
    assert once.startswith("## ") and "**✗ Gate failed** `certified_accuracy < 0.5`" in once
    # Another report of the same step stands below.
    assert call_miles(*words).out == done.out
    assert step.read_text("utf-8") == f"{once}\n\n{once}"
    written = call_miles(*words, "--out", tmp_path / "summary.md").out
    assert written == f"Written: {tmp_path / 'summary.md'}\n{done.out}"
    assert (tmp_path / "summary.md").read_text("utf-8") == once and step.read_text("utf-8") == f"{once}\n\n{once}"


def test_a_summary_of_a_step_is_not_filled_beyond_its_limit(own: Path, step: Path, call_miles: Call) -> None:
    for held, room in ((2**20 - 20_000, True), (2**20 - 9000, False)):
        step.write_text("x" * held, "utf-8")
        done = call_miles("export", judged(own, "fail"), "--to", "github")
        assert done.code == 0 and "::error" in done.out
        size = step.stat().st_size
        assert held < size <= 2**20 if room else size == held
        assert ("there is no room for another report" in done.out) is not room


@pytest.mark.parametrize("place", ["", "none/x.md", "."])
def test_without_a_file_of_a_step_the_summary_is_printed_or_refused(
    own: Path, tmp_path: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", place and str(tmp_path / place))
    done = call_miles("export", judged(own, "fail"), "--to", "github", cwd=tmp_path)
    if place:
        one_panel(done, "GITHUB_STEP_SUMMARY")
        return
    assert done.code == 0 and done.out.startswith("## ") and "\n\n::error title=miles certify%3A" in done.out


# MLflow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    return tmp_path / "store"


def client_of(store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store.as_uri())


def runs_in(client: Any, experiment: str) -> list[Any]:
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


def test_a_run_of_mlflow_holds_the_whole_report(
    runs: Path, store: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = read_report(runs / "suite")
    words = ("export", runs / "suite", "--to", "mlflow", "--tracking-uri", store, "--experiment", "audits")
    done = call_miles(*words)
    assert done.code == 0 and done.out.startswith("Logged: run ") and done.out.count("\n") == 1, done.err
    assert f"{len(report.estimates)} estimates as {len(metrics(report.estimates))} metrics" in done.out
    client = client_of(store, monkeypatch)
    (found,) = runs_in(client, "audits")
    assert found.data.metrics == dict(metrics(report.estimates))
    assert any(key.endswith(".provable") for key in found.data.metrics)
    assert found.data.params == {key: setting(value) or "not given" for key, value in report.settings.items()}
    assert report.settings["timesteps"] == [] and found.data.params["timesteps"] == "not given"
    tags = found.data.tags
    assert tags["miles.audit"] == "membership" and tags["miles.gates"] == "none"
    assert tags["miles.subject_sha256"] == report.subject.sha256 and tags["miles.version"] == report.provenance.miles
    assert found.info.status == "FINISHED" and report.findings[0].statement in tags["mlflow.note.content"]
    kept = Path(client.download_artifacts(found.info.run_id, ""))
    names = {path.relative_to(kept) for path in kept.rglob("*") if path.is_file()}
    assert names == {path.relative_to(runs / "suite") for path in (runs / "suite").rglob("*") if path.is_file()}
    assert all((kept / name).read_bytes() == (runs / "suite" / name).read_bytes() for name in names)
    pictures = sum(name.parts[0] == "figures" for name in names)
    said = f"{len(names)} files: report.json, report.html, report.md, records.csv, {pictures} in figures/."
    assert said in done.out and "records.csv holds rows about people or items; --no-records" in done.out
    # Again: it is found; by force there are two.
    again = call_miles(*words)
    assert again.code == 0 and again.out.startswith(f"It is there already: run {found.info.run_id} ")
    assert len(runs_in(client, "audits")) == 1
    assert call_miles(*words, "--force").code == 0
    assert len({run.data.tags[MARK] for run in runs_in(client, "audits")}) == 1 and len(runs_in(client, "audits")) == 2


def test_rows_about_people_can_be_left_out(
    own: Path, store: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("export", own, "--to", "mlflow", "--tracking-uri", store, "--no-records")
    done = call_miles(*words)
    assert done.code == 0 and "records.csv" not in done.out and "report.md, " in done.out, done.err
    client = client_of(store, monkeypatch)
    (found,) = runs_in(client, "miles")
    held = {item.path for item in client.list_artifacts(found.info.run_id)}
    assert held == {"report.json", "report.html", "report.md", "figures"}
    # A run that was logged before may hold them.
    assert "records.csv too where it holds it" in call_miles(*words).out


def test_what_is_cut_missing_or_linked_is_told(
    own: Path, store: Path, tmp_path: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads((judged(own, "fail") / "report.json").read_text("utf-8"))
    data["settings"]["radii"] = ["0.123456789"] * 1000
    (own / "report.json").write_text(json.dumps(data), "utf-8")
    (own / "report.md").unlink()
    secret = tmp_path / "secret.csv"
    secret.write_text("secret", "utf-8")
    (own / "records.csv").unlink()
    (own / "records.csv").symlink_to(secret)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(store))
    done = call_miles("export", own, "--to", "mlflow")
    assert done.code == 0 and "Cut, since they are too long for MLflow: radii." in done.out, done.err
    assert "Not in the run folder: report.md, records.csv." in done.out
    client = client_of(store, monkeypatch)
    (found,) = runs_in(client, "miles")
    assert len(found.data.params["radii"]) == MOST_VALUE and found.data.tags["miles.gates"] == "failed"
    held = {item.path for item in client.list_artifacts(found.info.run_id)}
    assert held == {"report.json", "report.html", "figures"}


def test_what_breaks_off_leaves_no_run(
    own: Path, store: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(store, monkeypatch)

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(type(client), "log_artifact", refuse)
        assert call_miles("export", own, "--to", "mlflow", "--tracking-uri", store).code == 3
    assert runs_in(client, "miles") == []
    assert call_miles("export", own, "--to", "mlflow", "--tracking-uri", store).code == 0
    assert len(runs_in(client, "miles")) == 1


def test_mlflow_is_asked_for_only_here_and_its_absence_is_told(
    own: Path, store: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mlflow", None)
        assert call_miles("export", own, "--to", "junit").code == 0
        done = call_miles("export", own, "--to", "mlflow", "--tracking-uri", store)
    assert done.code == 2 and "pip install 'miles-audit[mlflow]'" in done.err and not store.exists()
    done = call_miles("export", own, "--to", "mlflow", "--tracking-uri", "nonsense://x")
    assert done.code == 2 and "MLflow cannot use the store" in done.err
    # Nothing answers at the port that is for discarding.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = call_miles("export", own, "--to", "mlflow", "--tracking-uri", "http://me:secret@127.0.0.1:9")
    assert done.code == 2 and "MLflow cannot use the store" in done.err and done.out == "" and "secret" not in done.err
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0" and "MLFLOW_DISABLE_TELEMETRY" not in os.environ


def test_a_store_elsewhere_needs_a_word(
    own: Path, store: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://example.org")
    done = call_miles("export", own, "--to", "mlflow")
    assert done.code == 2 and "names a store elsewhere" in done.err and "--tracking-uri" in done.err


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/api/2.0/mlflow-artifacts/artifacts", "elsewhere", "link"])
def test_a_store_that_sends_its_files_elsewhere_is_refused_before_anything_is_logged(
    own: Path, store: Path, tmp_path: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    client = client_of(store, monkeypatch)
    made = {"elsewhere": elsewhere.as_uri(), "link": None}.get(place, place)
    experiment = client.create_experiment("miles", made)
    if place == "link":
        (store / experiment).rename(elsewhere / experiment)
        (store / experiment).symlink_to(elsewhere / experiment)
    before = sorted(tmp_path.rglob("*"))
    one_panel(call_miles("export", own, "--to", "mlflow", "--tracking-uri", store), "go elsewhere", "--experiment")
    assert sorted(tmp_path.rglob("*")) == before and runs_in(client, "miles") == []
    assert call_miles("export", own, "--to", "mlflow", "--tracking-uri", store, "--experiment", "mine").code == 0
