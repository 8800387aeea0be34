"""`miles compare` on real runs: paired where both judged the same records, told, judged, and written as a page."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from refusals import everything, one_panel
from small_world import CERTIFY, call


@pytest.fixture(scope="module")
def folder(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two more runs of certify beside the first: with more noise, and with fewer images and more draws."""
    made = tmp_path_factory.mktemp("compare") / "work"
    made.mkdir()
    for name in ("net.safetensors", "images.npz"):
        shutil.copy(prepared / "work" / name, made)
    for name in ("certified", "first", "second", "texts", "slopes"):
        shutil.copytree(prepared / "work" / "runs" / name, made / "runs" / name)
    noisier = [*CERTIFY[:-2], "--out", "runs/noisier"]
    noisier[noisier.index("0.25")] = "0.5"
    fewer = [*CERTIFY[:-2], "--max", "25", "--out", "runs/fewer"]
    fewer[fewer.index("1000")] = "2000"
    for words in (noisier, fewer):
        assert call(words, made).code == 0
    return made


def compared(folder: Path, *words: str) -> dict[str, Any]:
    told = call(["compare", *words, "--json"], folder)
    assert told.code == 0, told.out
    found: dict[str, Any] = json.loads(told.out)
    return found


def test_a_rerun_with_another_sigma_is_paired_by_image(folder: Path) -> None:
    (run,) = compared(folder, "runs/certified", "runs/noisier")["runs"]
    assert run["records"] == {"both": 30, "before": 0, "after": 0}
    assert [one["name"] for one in run["differing"]["settings"]] == ["sigma"]
    rows = {(one["name"], *sorted(one["where"].items())): one for one in run["changes"]}
    radius = rows[("average_certified_radius",)]
    assert radius["paired"] == {"matched": 30, "of": 30} and radius["verdict"] == "changed" and radius["worse"]
    assert rows[("noisy_accuracy",)]["paired"] is None and "not a sum" in rows[("noisy_accuracy",)]["why"]
    assert rows[("clean_accuracy",)]["verdict"] == "same"
    shares = [one for key, one in rows.items() if key[0] == "certified_accuracy"]
    assert any(one["paired"] for one in shares)
    assert all(one["paired"] or one["why"].startswith("fewer than 5 units") for one in shares)


def test_images_of_one_run_only_are_counted(folder: Path) -> None:
    (run,) = compared(folder, "runs/certified", "runs/fewer")["runs"]
    assert run["records"] == {"both": 25, "before": 5, "after": 0}
    radius = next(one for one in run["changes"] if one["name"] == "average_certified_radius" and not one["where"])
    assert radius["paired"] == {"matched": 25, "of": 30}
    first = json.loads((folder / "runs/certified/report.json").read_text(encoding="utf-8"))
    whole = next(one for one in first["estimates"] if one["name"] == "average_certified_radius" and not one["where"])
    assert radius["before"] != whole["value"]


def test_the_terminal_counts_what_changed_then_says_what_differs_and_why_what_is_not_paired(folder: Path) -> None:
    told = call(["compare", "runs/certified", "runs/noisier", "runs/fewer", "--all"], folder)
    assert told.code == 0, told.out
    words = " ".join(told.out.split())
    assert words.startswith("2 later runs against runs/certified: ") and "changes are significant: " in words
    for said in (
        "settings: sigma 0.25 (runs 1, 3), 0.5 (run 2); max not given (runs 1, 2), 25 (run 3); n 1,000 (runs 1, 2),",
        "2 runs/noisier, ",
        "average certified radius",
        "Run 3: Records: 25 in both runs, 5 in the first only, 0 in the second only.",
        "rows could not be paired by record (",
        ": not a sum or an area over records",
        "intervals are wider than needed.",
        "p-values are corrected by Holm over",
    ):
        assert said in words, (said, words)


def test_layers_of_an_encoder_are_paired_by_speaker(folder: Path) -> None:
    found = compared(folder, "runs/first", "runs/second", "--only", "error_rate[group=all]")
    (run,) = found["runs"]
    assert {one["name"] for one in run["changes"]} == {"error_rate"}
    assert all(one["paired"] or one["why"].startswith("all units") for one in run["changes"])


def test_a_regression_that_is_paired_fails_only_when_asked(folder: Path) -> None:
    words = ["compare", "runs/certified", "runs/noisier"]
    assert call(words, folder).code == 0
    failed = call([*words, "--fail-on-regression"], folder)
    assert failed.code == 1 and "got worse" in failed.out
    assert call(["compare", "runs/noisier", "runs/certified", "--fail-on-regression"], folder).code == 0
    assert call([*words, "--only", "clean_accuracy", "--fail-on-regression"], folder).code == 0


def test_audits_whose_records_are_not_matched_are_compared_as_before(folder: Path) -> None:
    report = json.loads((folder / "runs/texts/report.json").read_text(encoding="utf-8"))
    report["settings"]["seed"] = 9
    shutil.copytree(folder / "runs/texts", folder / "runs/texts-again", dirs_exist_ok=True)
    (folder / "runs/texts-again/report.json").write_text(json.dumps(report), encoding="utf-8")
    (run,) = compared(folder, "runs/texts", "runs/texts-again")["runs"]
    assert run["records"] is None and any("does not tell" in note for note in run["notes"])
    assert not any(one["paired"] for one in run["changes"])


def test_damaged_records_are_bad_input_and_missing_ones_are_told(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder / "runs/noisier", tmp_path / "copied")
    (copied / "records.csv").write_text("idx,label\n1\n", encoding="utf-8")
    refused = call(["compare", "runs/certified", str(copied)], folder)
    assert refused.code == 2 and "records.csv" in refused.out
    (copied / "records.csv").unlink()
    told = call(["compare", "runs/certified", str(copied)], folder)
    assert told.code == 0 and "is not there" in told.out and "taken as independent" in told.out


def test_the_page_holds_every_comparison_and_json_stays_alone(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "changes.html"
    words = ["compare", "runs/certified", "runs/noisier", "runs/fewer", "--html", str(page), "--json"]
    told = call(words, folder)
    assert told.code == 0 and json.loads(told.out)["schema"] == "miles.comparison/1"
    text = page.read_text(encoding="utf-8")
    assert text.count('<section id="run-') == 2 and "sigma 0.25 (runs 1, 3), 0.5 (run 2)" in text
    before = page.read_bytes()
    assert call(words, folder).code == 0 and page.read_bytes() == before
    assert call(["compare", "runs/certified", "runs/fewer", "--html", "nowhere/x.html"], folder).code == 2


def test_a_folder_takes_page_markdown_and_json(folder: Path, call_miles: Any, tmp_path: Path) -> None:
    words = ["compare", "runs/certified", "runs/noisier", "runs/fewer", "--out", str(tmp_path / "changes")]
    told = call([*words, "--html", str(tmp_path / "page.html")], folder)
    assert told.code == 0, told.out
    made = tmp_path / "changes"
    assert sorted(one.name for one in made.iterdir()) == ["comparison.html", "comparison.json", "comparison.md"]
    assert (made / "comparison.html").read_bytes() == (tmp_path / "page.html").read_bytes()
    matrix = json.loads((made / "comparison.json").read_text(encoding="utf-8"))["matrix"]
    assert matrix["runs"] == ["runs/certified", "runs/noisier", "runs/fewer"]
    assert any(row["main"] for row in matrix["rows"]) and all(len(row["cells"]) == 3 for row in matrix["rows"])
    assert "| certified | noisier | fewer | change" in (made / "comparison.md").read_text(encoding="utf-8")
    for place in ("runs/certified", "runs/certified/deeper", "nowhere/deeper", "images.npz"):
        before = everything(folder)
        one_panel(call_miles(*words[:-1], place, cwd=folder), "--out")
        assert everything(folder) == before
    refused = call(["compare", "runs/certified", "runs/first", "--out", str(tmp_path / "never")], folder)
    assert refused.code == 2 and not (tmp_path / "never").exists()


def test_more_than_thirty_runs_are_left_to_the_overview(folder: Path, call_miles: Any) -> None:
    one_panel(call_miles("compare", *["runs/noisier"] * 31, cwd=folder), "31 runs are more than 30", "miles runs DIR")


def test_an_audit_without_directions_cannot_be_judged(folder: Path, call_miles: Any, tmp_path: Path) -> None:
    text = (folder / "runs/slopes/report.json").read_text(encoding="utf-8")
    report = json.loads(text)
    for measure in report["measures"].values():
        measure["worse"] = None
    for name, seed in (("one", 0), ("two", 1)):
        (tmp_path / name).mkdir()
        report["settings"]["seed"] = seed
        (tmp_path / name / "report.json").write_text(json.dumps(report), encoding="utf-8")
    told = call_miles("compare", "one", "two", "--fail-on-regression", cwd=tmp_path)
    one_panel(told, "which direction is worse", "regressions cannot be judged")


@pytest.mark.parametrize(
    "place",
    ["runs/second/report.json", "runs/first/x.html", "runs/slopes/figures/x.html", "link/x.html", "pipe", "circle"],
)
def test_a_page_is_written_neither_over_a_run_nor_beside_it(folder: Path, call_miles: Any, place: str) -> None:
    for name, target in (("link", "runs/first"), ("circle", "circle")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    if not (folder / "pipe").exists():
        os.mkfifo(folder / "pipe")
    before = everything(folder)
    one_panel(call_miles("compare", "runs/second", "runs/first/report.json", "--html", place, cwd=folder), "--html")
    assert everything(folder) == before


def test_no_text_of_a_report_steers_the_terminal(folder: Path, tmp_path: Path) -> None:
    nasty = "\x1b]0;pwned\x07\x1b[31mred\x9b31m\u202e\nThe runs differ in: nothing"
    report = json.loads((folder / "runs/slopes/report.json").read_text(encoding="utf-8"))
    report["settings"]["x"] = nasty
    report["data"][0]["role"] = nasty
    report["estimates"][0]["where"] = {"layer": nasty}
    for name in ("one", "two\x1b[2J"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(report), encoding="utf-8")
        report["settings"]["x"] = "other"
        report["data"][0]["sha256"] = "ab" * 32
    told = call(["compare", "one", "two\x1b[2J", "--all"], tmp_path)
    assert told.code == 0 and "pwned" in told.out
    assert all(letter.isprintable() or letter == "\n" for letter in told.out), told.out
    assert told.out.count("\nThe runs differ in:") == 1


def test_a_name_that_is_no_utf_8_stands_on_the_page(folder: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"bad\xff")
    shutil.copytree(folder / "runs/noisier", odd)
    (odd / "records.csv").unlink()
    told = call(["compare", str(folder / "runs/certified"), str(odd), "--html", "p.html", "--json"], tmp_path)
    assert told.code == 0, told.out
    assert json.loads(told.out)["runs"][0]["after"].endswith("bad\ufffd")
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("bad\ufffd") >= 2


def test_a_renamed_system_is_hinted_at_and_matched(prepared: Path, tmp_path: Path) -> None:
    text = (prepared / "work" / "runs" / "groups" / "report.json").read_text(encoding="utf-8")
    for name in ("ours", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(text.replace('"ours"', f'"{name}"'), encoding="utf-8")
    told = call(["compare", "ours", "new"], tmp_path)
    assert told.code == 0 and "nothing is compared" in told.out
    assert "There is a system ours in ours only and new in new only: --match ours=new compares" in told.out, told.out
    (run,) = compared(tmp_path, "ours", "new", "--match", "ours=new")["runs"]
    assert run["renamed"] == [{"before": "ours", "after": "new"}] and len(run["changes"]) > 20
    assert run["estimates_in_one_run"] == {"before": 0, "after": 0}
    refused = call(["compare", "ours", "new", "--match", "our=new"], tmp_path)
    assert refused.code == 2 and "Did you mean 'ours'?" in refused.out


def test_runs_that_differ_in_nothing_told_are_not_said_to_differ_by_chance(folder: Path, tmp_path: Path) -> None:
    report = json.loads((folder / "runs/slopes/report.json").read_text(encoding="utf-8"))
    report["estimates"][0]["value"] *= 2
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    told = call(["compare", "runs/slopes", str(tmp_path)], folder)
    assert told.code == 0 and "The runs differ in: nothing that the reports tell." in told.out, told.out
    report["provenance"]["packages"]["torch"] = "0.1"
    report["provenance"]["device"] = "cuda"
    row = next(row for row in report["estimates"] if row["name"] == "margin_radius")
    row["low"] = row["high"] = row["value"]
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    told = call(["compare", "runs/slopes", str(tmp_path)], folder)
    assert "The runs differ in:\n  surroundings: torch " in told.out and " → 0.1, device cpu → cuda" in told.out
    said = "1 change has no interval, so that nothing can be said of them (the interval of one run has no width)."
    assert said in " ".join(told.out.split())
    (run,) = compared(folder, "runs/slopes", str(tmp_path))["runs"]
    assert [one["name"] for one in run["differing"]["surroundings"]] == ["torch", "device"]
