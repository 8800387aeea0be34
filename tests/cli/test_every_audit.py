"""Does every audit keep to what the contract asks of all: its run folder, its numbers, the shared options, refusals?"""

import csv
import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import equal_runs
import jsonschema
import pytest
from equal_runs import QUICK
from headlines import faults
from refusals import everything, nothing_runs, one_panel, told
from run_folders import files, pictures_of, read, strict
from small_world import LANGUAGES, ONE_EACH

from audits.core import registry
from audits.report.registration_file import read_registration
from audits.report.report_file import read_report

Call = Callable[..., Any]
AUDITS = sorted(ONE_EACH)
PAGES = {"report.json", "report.md", "report.html", "records.csv"}
MORE = {"certify": {"certify.tsv", "counts.safetensors"}}
"""What stands in a run folder besides, of this run."""


def with_out(words: list[str], folder: Path) -> list[str]:
    return [*words[:-1], str(folder)]


@pytest.fixture(scope="module")
def work(prepared: Path) -> Iterator[Path]:
    """Return the folder of all inputs and finished runs, in which none of these tests may change anything."""
    # Once for all of them: to look after each was a quarter of their time.
    before = everything(prepared)
    yield prepared / "work"
    assert everything(prepared) == before


@pytest.fixture
def copied(work: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies the finished run of an audit, to be changed."""

    def copy(audit: str) -> Path:
        return Path(shutil.copytree(work / QUICK[audit][-1], tmp_path / "run"))

    return copy


@pytest.fixture
def old_pictures(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages be made of the pictures of the finished runs."""
    monkeypatch.setattr(
        "audits.report.pages.figures.draw", lambda report: pictures_of(report, work / QUICK[report.audit][-1])
    )


@pytest.fixture
def warm(prepared: Path, environment: dict[str, str]) -> None:
    """Let runs find what the finished ones kept in their cache."""
    shutil.copytree(prepared / "cache", environment["MILES_CACHE"], dirs_exist_ok=True)


@pytest.fixture
def no_audit() -> Iterator[None]:
    with nothing_runs():
        yield


@pytest.fixture(scope="module")
def schema(prepared: Path) -> Any:
    from small_world import call

    printed = json.loads(call(["schema"], prepared / "work").out)
    jsonschema.Draft202012Validator.check_schema(printed)
    return jsonschema.Draft202012Validator(printed)


# What a finished run leaves.
@pytest.mark.parametrize("audit", AUDITS)
def test_a_run_leaves_what_the_contract_says_and_nothing_else(work: Path, schema: Any, audit: str) -> None:
    folder, spec = work / ONE_EACH[audit][-1], registry.find(audit)
    text = (folder / "report.json").read_text(encoding="utf-8")
    report = strict(text)
    schema.validate(report)
    assert text == json.dumps(report, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    pictures = {f"figures/{figure['file']}.{kind}" for figure in report["figures"] for kind in ("png", "svg")}
    assert files(folder) == PAGES | pictures | MORE.get(audit, set())
    assert MORE.get(audit, set()) <= set(spec.files)
    assert {path.name for path in folder.iterdir() if path.is_dir()} == ({"figures"} if pictures else set())
    # Every file can be read by others, not by its owner alone, and none is empty.
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in folder.rglob("*"))
    assert all((folder / name).stat().st_size > 0 for name in files(folder))
    assert (report["audit"], report["question"]) == (audit, spec.question)
    assert report["provenance"]["command"] == ["miles", *ONE_EACH[audit]]
    assert sum(part["count"] for part in report["coverage"]["skipped"]) == (
        report["coverage"]["given"] - report["coverage"]["used"]
    )


@pytest.mark.parametrize("audit", AUDITS)
def test_headlines_are_short_and_their_numbers_stand_in_the_evidence(work: Path, audit: str) -> None:
    report = read_report(work / ONE_EACH[audit][-1])
    assert report.answer is not None and all(finding.headline for finding in report.findings)
    assert faults(report) == []


@pytest.mark.parametrize("audit", AUDITS)
def test_records_are_a_table(work: Path, audit: str) -> None:
    with (work / ONE_EACH[audit][-1] / "records.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert rows and len(set(header)) == len(header) and all(header)
    for row in rows:
        assert len(row) == len(header)
        assert not {"nan", "inf", "-inf", "none"} & {cell.lower() for cell in row}


@pytest.mark.parametrize("audit", AUDITS)
def test_every_number_has_its_name_its_count_and_its_interval(work: Path, audit: str) -> None:
    report = read(work / ONE_EACH[audit][-1])
    rows = report["estimates"]
    assert {row["name"] for row in rows} <= set(registry.find(audit).estimates)
    told_of = " ".join(warning["message"] for warning in report["warnings"])
    for row in rows:
        assert row["n"] >= 1 and row["unit"] and row["method"] and math.isfinite(row["value"]), row
        if row["low"] is None:
            assert row["high"] is None and row["method"] in ("exact", "none"), row
            assert row["method"] == "exact" or row["name"] in told_of or "no interval" in told_of, row
        else:
            assert row["low"] <= row["value"] <= row["high"], row
            assert row["method"] not in ("exact", "none") and row["level"] == 0.95, row
    places = [(row["name"], tuple(sorted(row["where"].items(), key=str))) for row in rows]
    assert len(set(places)) == len(places)
    for finding in report["findings"]:
        assert finding["statement"].endswith(".") and len(set(finding["evidence"])) == len(finding["evidence"])


# The options of every command, on a finished run.
@pytest.mark.parametrize("audit", AUDITS)
def test_the_same_settings_again_are_reported_and_not_run(
    work: Path, copied: Any, call_miles: Call, no_audit: None, audit: str
) -> None:
    folder = copied(audit)
    before = everything(folder)
    again = call_miles(*with_out(QUICK[audit], folder), cwd=work)
    assert again.code == 0, again.err
    assert f"{folder} was finished earlier; nothing was run." in again.out
    printed = call_miles(*with_out(QUICK[audit], folder), "--json", cwd=work)
    assert (printed.code, printed.out) == (0, (folder / "report.json").read_text(encoding="utf-8"))
    silent = call_miles(*with_out(QUICK[audit], folder), "--quiet", cwd=work)
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    assert everything(folder) == before


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize("more", [("--seed", "1"), ("--level", "0.9")], ids=" ".join)
def test_other_settings_in_a_finished_folder_are_refused(
    work: Path, copied: Any, call_miles: Call, no_audit: None, audit: str, more: tuple[str, str]
) -> None:
    folder = copied(audit)
    before = everything(folder)
    one_panel(call_miles(*with_out(QUICK[audit], folder), *more, cwd=work), "--force")
    assert everything(folder) == before


@pytest.mark.parametrize("audit", AUDITS)
def test_force_runs_again_and_the_answer_is_the_same(
    work: Path, copied: Any, call_miles: Call, old_pictures: None, warm: None, audit: str
) -> None:
    """With a cache that is empty, `faults/test_interrupted.py` shows it."""
    first, folder = work / QUICK[audit][-1], copied(audit)
    (folder / "report.md").write_text("spoilt", encoding="utf-8")
    (folder / ".part-left").write_text("by a killed run", encoding="utf-8")
    done = call_miles(*with_out(QUICK[audit], folder), "--force", "--json", cwd=work)
    assert (done.code, done.out) == (0, (folder / "report.json").read_text(encoding="utf-8")), done.err
    equal_runs.same(folder, first)
    assert files(folder) == files(first)
    assert "spoilt" not in (folder / "report.md").read_text(encoding="utf-8")[:10]


@pytest.mark.parametrize("audit", AUDITS)
def test_the_settings_of_a_report_are_a_configuration_that_gives_the_same_run(
    work: Path, copied: Any, call_miles: Call, no_audit: None, tmp_path: Path, audit: str
) -> None:
    folder = copied(audit)
    settings = {key: value for key, value in read(folder)["settings"].items() if value is not None}
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in {**settings, "seed": 99}.items()]
    config = tmp_path / "audit.toml"
    config.write_text(f"[{audit}]\n" + "".join(lines), encoding="utf-8")
    words = (audit, "--config", config, "--out", folder)
    one_panel(call_miles(*words, cwd=work), "--force")
    # The command line wins.
    done = call_miles(*words, "--seed", "0", cwd=work)
    assert done.code == 0 and "nothing was run" in done.out, done.err


@pytest.mark.parametrize("audit", AUDITS)
def test_gates_fail_pass_or_select_nothing(
    work: Path, copied: Any, call_miles: Call, no_audit: None, old_pictures: None, audit: str
) -> None:
    folder = copied(audit)
    before = read(folder)
    row = next(row for row in before["estimates"] if row["where"])
    alike = [
        (place, other["value"])
        for place, other in enumerate(before["estimates"])
        if other["name"] == row["name"] and row["where"].items() <= other["where"].items()
    ]
    chosen = f"{row['name']}[{','.join(f'{key}={value}' for key, value in row['where'].items())}]"
    words = with_out(QUICK[audit], folder)
    nobody = f"{row['name']}[{next(iter(row['where']))}=nobody] > 0"
    one_panel(call_miles(*words, "--fail-if", nobody, cwd=work), "--fail-if", "nobody")
    assert read(folder) == before
    for mild, code, outcome in ((">", 0, "pass"), (">=", 1, "fail")):
        gate = f"{chosen}.value {mild} {max(value for _, value in alike)!r}"
        done = call_miles(*words, "--fail-if", gate, cwd=work)
        assert done.code == code, done.err
        after = read(folder)
        assert [(found["expression"], found["outcome"]) for found in after["gates"]] == [(gate, outcome)]
        assert after["gates"][0]["rows"] == [place for place, _ in alike]
        assert after["estimates"] == before["estimates"]
    assert row["name"] in (folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("audit", AUDITS)
def test_a_run_cites_what_was_registered_of_it(
    work: Path, copied: Any, call_miles: Call, no_audit: None, old_pictures: None, tmp_path: Path, audit: str
) -> None:
    folder, file = copied(audit), tmp_path / "criteria.json"
    before = read(folder)
    criteria = ("findings[severity=high] < 0", "findings > 9999")
    gates = [word for expression in criteria for word in ("--fail-if", expression)]
    done = call_miles("register", *with_out(QUICK[audit], file), *gates, cwd=work)
    assert done.code == 0, done.err
    # The run was made before this test began.
    file.write_text(replace(read_registration(file), created="2026-01-01T00:00:00Z").dumps(), encoding="utf-8")
    words = with_out(QUICK[audit], folder)
    done = call_miles(*words, "--registration", file, cwd=work)
    assert done.code == 0 and "nothing was run" in done.out, done.err
    after = read(folder)
    assert [(gate["expression"], gate["registered"]) for gate in after["gates"]] == [(one, True) for one in criteria]
    assert after["registration"]["sha256"] == read_registration(file).digest
    assert (after["estimates"], after["settings"]) == (before["estimates"], before["settings"])
    one_panel(call_miles(*words, "--registration", file, "--seed", "7", cwd=work), "seed: registered", "here 7")


@pytest.mark.parametrize("audit", AUDITS)
def test_show_and_render_need_the_report_alone(
    work: Path, copied: Any, call_miles: Call, no_audit: None, old_pictures: None, audit: str
) -> None:
    folder = copied(audit)
    shown = call_miles("show", folder)
    assert shown.code == 0 and shown.out == call_miles("show", folder / "report.json").out
    assert read(folder)["title"] in " ".join(shown.out.split())
    first = {name: (folder / name).read_bytes() for name in files(folder) - {"records.csv"}}
    shutil.rmtree(folder / "figures", ignore_errors=True)
    for name in ("report.md", "report.html"):
        (folder / name).unlink()
    assert call_miles("render", folder).code == 0
    for name in first.keys() & (PAGES | files(folder)):
        assert (folder / name).read_bytes() == first[name], name
    assert files(folder) == first.keys() | {"records.csv"}


# Before a run.
@pytest.mark.parametrize("audit", AUDITS)
def test_a_dry_run_prints_the_plan_and_writes_nothing(
    work: Path, call_miles: Call, no_audit: None, environment: dict[str, str], tmp_path: Path, audit: str
) -> None:
    cached = everything(Path(environment["MILES_CACHE"]))
    done = call_miles(*with_out(QUICK[audit], tmp_path / "new" / "run"), "--dry-run", cwd=work)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert f"{audit}: every input is in order. Nothing was run." in said
    for source in read(work / QUICK[audit][-1])["data"]:
        assert f"{source['path']} ({source['items']} items)" in said
    assert " time " in said, done.out
    assert list(tmp_path.iterdir()) == []
    assert everything(Path(environment["MILES_CACHE"])) == cached


WRONG = {
    "option_unknown": (("--no-such-option", "1"), ("No such option", "--no-such-option")),
    "option_without_value": (("--seed",), ("--seed",)),
    "level_of_two": (("--level", "2"), ("--level", "2.0 is too large")),
    "level_nan": (("--level", "nan"), ("--level",)),
    "seed_negative": (("--seed", "-1"), ("--seed", "-1 is too small")),
    "seed_fraction": (("--seed", "0.5"), ("--seed",)),
    "device_unknown": (("--device", "tpu"), ("--device", "tpu")),
    "device_elsewhere": (("--device", "cuda:99"), ("There is no cuda:99", "node of a cluster that has one")),
    "dtype_unknown": (("--dtype", "int8"), ("--dtype", "int8")),
    "gate_that_is_none": (("--fail-if", "it is bad"), ("--fail-if", "it is bad")),
    "gate_of_no_estimate": (("--fail-if", "no_such_number > 0"), ("--fail-if", "no_such_number")),
    "config_missing": (("--config", "{}/my.toml"), ("my.toml", "no such file")),
    "config_of_unknown_keys": (("--config", "{}/keys.toml"), ("'sead' is no option", "keys.toml, key sead")),
    "config_out_of_range": (("--config", "{}/level.toml"), ("2.0 is too large",)),
    "config_of_another_kind": (("--config", "{}/words.toml"), ("words.toml, key seed", "a whole number")),
    "out_is_a_file": (("--out", "{}/keys.toml"), ("is a file",)),
    "out_is_somebodys_folder": (("--out", "{}", "--force"), ("keys.toml",)),
}
"""Wrong words after a right command, with the folder of what they name; and what the panel must hold."""


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("audit", AUDITS)
def test_wrong_options_are_refused(
    work: Path, call_miles: Call, no_audit: None, environment: dict[str, str], tmp_path: Path, audit: str, name: str
) -> None:
    for stem, text in (("keys", "sead = 1\n"), ("level", "level = 2.0\n"), ("words", 'seed = "one"\n')):
        (tmp_path / f"{stem}.toml").write_text(text, encoding="utf-8")
    watched = (tmp_path, Path(environment["MILES_CACHE"]))
    before = everything(*watched)
    more, says = WRONG[name]
    words = with_out(QUICK[audit], tmp_path / "run")
    words = words[:-2] if more[0] == "--out" else words
    one_panel(call_miles(*words, *(word.format(tmp_path) for word in more), cwd=work), *says)
    assert everything(*watched) == before


FILES = [
    (audit, word)
    for audit, words in [*sorted(QUICK.items()), ("interference", LANGUAGES)]
    for word in words[1:-2]
    if word.endswith((".csv", ".tsv", ".npz", ".npy", ".pt", ".safetensors", ".jsonl", ".toml"))
    or word in ("encoder", "corpora")
]
"""Every word of the quick runs that names an input."""
SPOILT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda path: None, "no such"),
    "a folder": (lambda path: path.mkdir(), ""),
    "empty": (lambda path: path.touch(), ""),
    "not UTF-8": (lambda path: path.write_bytes(b"\xff\xfe\xfa caf\xe9, \x80\n" * 99), ""),
}
"""What becomes of an input, and what the panel must hold of it besides the name."""


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize(("audit", "word"), FILES, ids=lambda part: part)
def test_wrong_files_are_refused(
    work: Path,
    call_miles: Call,
    no_audit: None,
    environment: dict[str, str],
    tmp_path: Path,
    audit: str,
    word: str,
    spoil: str,
) -> None:
    stem, _, name = word.rpartition("=")
    wrong = tmp_path / f"wrong-{name}"
    make, says = SPOILT[spoil]
    make(wrong)
    watched = (tmp_path, Path(environment["MILES_CACHE"]))
    before = everything(*watched)
    whole = QUICK[audit] if word in QUICK[audit] else LANGUAGES
    words = with_out(whole, tmp_path / "run")
    words[words.index(word)] = f"{stem}={wrong}" if stem else str(wrong)
    outcome = call_miles(*words, cwd=work)
    # A folder may be a checkpoint, which then needs no architecture.
    one_panel(outcome, "--arch" if spoil == "a folder" and name == "net.safetensors" else wrong.name, says)
    assert "Errno" not in told(outcome)
    assert everything(*watched) == before
