"""Can a registered criterion be dropped, bent or made after the fact? Every order of events, and what each says."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from refusals import one_panel
from run_folders import files, read

from audits.report.registration_file import Registered, read_registration
from miles_cli import InputError, audit_run, folders, register, run

Call = Callable[..., Any]
QUICK = ("--by", "accent", "--bootstrap", "200", "--permutations", "100", "--min-speakers", "6")
LOW, ALL = "gap[by=accent,kind=absolute].low > 0.01", "rate[group=all] > 0.9"
AFTER = "gap[by=accent,kind=absolute] > 0.02"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_pages: object) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    rows = ["speaker,accent,age,words,errors"]
    for speaker in range(24):
        for _ in range(5):
            words = int(rng.integers(5, 20))
            errors = rng.poisson((0.1, 0.3)[speaker % 2] * words)
            rows.append(f"s{speaker},{('east', 'west')[speaker % 2]},{speaker // 2 % 2},{words},{errors}")
    Path("clips.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture
def registered(call_miles: Call) -> Registered:
    """Return what criteria.json says: one criterion that fails and one that passes."""
    done = call_miles("register", *audit("--fail-if", LOW, "--fail-if", ALL, "--out", "criteria.json"))
    assert done.code == 0, done.err
    held = read_registration(Path("criteria.json"))
    assert done.out.startswith("criteria.json: registered.") and held.digest in done.out
    assert LOW in done.out and ALL in done.out and "miles cannot prove when it was made" in done.out
    return held


def audit(*more: object, data: str = "clips.csv") -> list[str]:
    return ["audit-groups", data, *QUICK, *map(str, more)]


def cited(*more: object, data: str = "clips.csv") -> list[str]:
    return audit("--registration", "criteria.json", "--out", "run", *more, data=data)


def gates(folder: str = "run") -> list[tuple[str, str, bool | None]]:
    return [(gate["expression"], gate["outcome"], gate.get("registered")) for gate in read(Path(folder))["gates"]]


def dated(held: Registered, created: str, file: str = "criteria.json", **more: Any) -> Registered:
    """Write the registration as if it had been made at another time."""
    other = replace(held, created=created, **more)
    Path(file).write_text(other.dumps(), encoding="utf-8")
    return other


def backdate(created: str) -> None:
    """Let the finished run have been made at another time."""
    report = read(Path("run"))
    Path("run/report.json").write_text(json.dumps({**report, "created": created}), encoding="utf-8")


BOTH = [(LOW, "fail", True), (ALL, "pass", True)]
POST_HOC = (AFTER, "fail", False)


# What is registered


def test_a_registration_holds_all_that_decides_the_run_and_nothing_is_run(registered: Registered) -> None:
    assert files(Path()) == {"clips.csv", "criteria.json"}
    assert registered.criteria == (LOW, ALL) and (registered.seed, registered.level) == (0, 0.95)
    assert [(one.role, one.path, one.items) for one in registered.data] == [("manifest", "clips.csv", 120)]
    assert registered.settings["bootstrap"] == 200 and registered.settings["device"] == "auto"
    presentation = {
        "out",
        "config",
        "json",
        "quiet",
        "verbose",
        "dry_run",
        "force",
        "registration",
        "fail_if",
        "detect",
    }
    assert not presentation & registered.settings.keys()


def test_without_criteria_or_a_file_for_them_nothing_is_registered(call_miles: Call) -> None:
    one_panel(call_miles("register", *audit("--out", "criteria.json")), "nothing to register", "--fail-if")
    one_panel(call_miles("register", *audit("--fail-if", LOW)), "--out is missing")
    bad = "gap[by=age].low > 0"
    one_panel(call_miles("register", *audit("--fail-if", bad, "--out", "criteria.json")), "by=age")
    one_panel(
        call_miles("register", *audit("--fail-if", LOW, "--out", "criteria.json", data="nothing.csv")), "no such file"
    )
    assert files(Path()) == {"clips.csv"}


def test_another_registration_is_not_overwritten_silently(registered: Registered, call_miles: Call) -> None:
    first = Path("criteria.json").read_bytes()
    again = call_miles("register", *audit("--fail-if", LOW, "--fail-if", ALL, "--out", "criteria.json"))
    assert again.code == 0 and "registered already" in again.out and registered.digest in again.out
    other = audit("--fail-if", LOW, "--out", "criteria.json")
    one_panel(call_miles("register", *other), "Another registration", "--force")
    assert Path("criteria.json").read_bytes() == first
    assert call_miles("register", *other, "--force").code == 0
    assert read_registration(Path("criteria.json")).criteria == (LOW,)
    # What is no registration is nobody's to replace.
    one_panel(call_miles("register", *audit("--fail-if", LOW, "--out", "clips.csv", "--force")), "no registration")


def test_a_registration_is_not_put_into_a_run_folder(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*cited("--quiet")).code == 1
    into = audit("--fail-if", LOW, "--out", "run/criteria.json")
    one_panel(call_miles("register", *into), "stands in the run folder", "--out")
    one_panel(call_miles("register", *audit("--fail-if", LOW, "--out", "no/criteria.json")), "not there")
    assert files(Path("run")) == {"report.json", "records.csv"}


def test_options_may_come_from_a_file_but_not_the_place_of_the_registration(call_miles: Call) -> None:
    lines = (
        'out = "run"',
        'registration = "criteria.json"',
        "[audit-groups]",
        f'fail-if = ["{LOW}"]',
        'by = ["accent"]',
    )
    Path("miles.toml").write_text("\n".join((*lines, "bootstrap = 200")))
    words = ["audit-groups", "clips.csv", "--config", "miles.toml"]
    one_panel(call_miles("register", *words), "--out is missing")
    assert call_miles("register", *words, "--out", "criteria.json").code == 0
    assert call_miles(*words, "--quiet").code == 1
    assert gates() == [(LOW, "fail", True)]


def test_the_help_has_the_options_of_the_audit(call_miles: Call) -> None:
    shown = call_miles("register", "audit-groups", "--help")
    assert shown.code == 0 and "--by" in shown.out and "--fail-if" in shown.out and "--dry-run" not in shown.out
    assert "audit-groups" in call_miles("register", "--help").out
    assert call_miles("register", "no-audit").code == 2


# Runs that cite one


def test_registered_and_added_gates_stand_side_by_side(registered: Registered, call_miles: Call) -> None:
    done = call_miles(*cited("--fail-if", AFTER))
    assert done.code == 1
    assert "✗ gate failed, registered before the run  " + LOW in done.out
    assert "✗ gate failed, added after registration  " + AFTER in done.out and registered.digest in done.out
    report = read(Path("run"))
    assert gates() == [*BOTH, POST_HOC]
    assert report["registration"] == {
        "sha256": registered.digest, "file": "criteria.json", "created": registered.created, "miles": registered.miles,
    }  # fmt: skip
    assert "registration" not in report["settings"] and report["warnings"] == without(call_miles)["warnings"]
    quiet = call_miles(*cited("--fail-if", AFTER, "--quiet"))
    assert "failed, registered before the run  gap" in quiet.err and "failed, added after registration" in quiet.err
    assert "registered: 1 of 2 failed; post hoc: 1 of 1 failed" in call_miles("runs", ".").out.replace("\n", " ")


def without(call_miles: Call) -> Any:
    """Return the report of the same run without a registration; but for gates it says the same."""
    assert call_miles(*audit("--out", "plain", "--quiet")).code == 0
    report = read(Path("plain"))
    assert "registration" not in report and report["gates"] == []
    return report


def test_a_registered_gate_that_is_repeated_stays_registered(registered: Registered, call_miles: Call) -> None:
    spaced = LOW.replace(" > ", ">").replace("by=accent,kind=absolute", "kind=absolute, by=accent")
    assert call_miles(*cited("--fail-if", spaced, "--quiet")).code == 1
    assert gates() == BOTH


def test_a_failed_gate_that_was_added_fails_as_well(call_miles: Call) -> None:
    assert call_miles("register", *audit("--fail-if", ALL, "--out", "criteria.json")).code == 0
    assert call_miles(*cited("--quiet")).code == 0
    assert call_miles(*cited("--fail-if", AFTER, "--quiet")).code == 1
    assert gates() == [(ALL, "pass", True), POST_HOC]


DIFFERENT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "seed": (("--seed", "1"), ("seed: registered 0, here 1",)),
    "level": (("--level", "0.9"), ("level: registered 0.95, here 0.9",)),
    "option": (("--bootstrap", "300"), ("bootstrap: registered 200, here 300",)),
    "two": (
        ("--metric", "wer", "--max-order", "1", "--dtype", "float16"),
        ("max-order: registered 2, here 1", "dtype"),
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_run_than_the_registered_one_is_refused(name: str, registered: Registered, call_miles: Call) -> None:
    more, says = DIFFERENT[name]
    one_panel(call_miles(*cited(*more)), "not the run that was registered", *says)
    assert not Path("run").exists()


def test_what_differs_is_told_before_what_a_gate_misses_for_it(registered: Registered, call_miles: Call) -> None:
    words = [word.replace("accent", "age") for word in audit("--registration", "criteria.json", "--out", "run")]
    one_panel(call_miles(*words), 'by: registered ["accent"], here ["age"]')


def test_other_data_is_refused_and_the_same_elsewhere_is_not(registered: Registered, call_miles: Call) -> None:
    moved = Path("elsewhere/moved.csv")
    moved.parent.mkdir()
    moved.write_bytes(Path("clips.csv").read_bytes())
    assert call_miles(*cited("--quiet", "--device", "cpu", data=str(moved))).code == 1
    assert gates() == BOTH
    text = Path("clips.csv").read_text()
    Path("clips.csv").write_text(text[:-2] + ("1" if text[-2] == "0" else "0") + "\n")
    says = ("manifest: registered clips.csv", registered.data[0].sha256[:12], 'not: registered "clips.csv"')
    one_panel(call_miles(*cited("--force")), *says)


def test_a_registration_of_another_audit_several_or_none_is_refused(registered: Registered, call_miles: Call) -> None:
    dated(registered, registered.created, "other.json", audit="certify")
    words = audit("--out", "run")
    one_panel(call_miles(*words, "--registration", "other.json"), "for certify, not for audit-groups")
    twice = ("--registration", "criteria.json", "--registration", "criteria.json")
    one_panel(call_miles(*words, *twice), "2 registrations")
    one_panel(call_miles(*words, "--registration", "clips.csv"), "not JSON")
    one_panel(call_miles(*words, "--registration", "nothing.json"), "no such file")
    Path("report.json").write_text('{"answer": 1, "audit": "audit-groups", "title": "' + "long " * 99 + '"}')
    one_panel(call_miles(*words, "--registration", "report.json"), "This is no registration of miles.", "register one")
    dated(registered, registered.created, "gone.json", criteria=("loss > 1",))
    one_panel(call_miles(*words, "--registration", "gone.json"), "names no estimate", "gone.json, key criteria")
    assert not Path("run").exists()


def test_a_dry_run_is_held_against_it_too(registered: Registered, call_miles: Call) -> None:
    done = call_miles(*cited("--dry-run", "--fail-if", "rate > 0.99"))
    assert done.code == 0 and f"this is the run that was registered, sha256 {registered.digest}\n" in done.out
    assert f"  fail if    {registered.criteria[0]} (registered before the run)\n" in done.out
    assert "  fail if    rate > 0.99 (added after registration)\n" in done.out
    assert "registered" not in call_miles(*audit("--dry-run")).out
    one_panel(call_miles(*cited("--dry-run", "--seed", "1")), "seed")
    assert not Path("run").exists()


def test_another_version_is_a_warning(registered: Registered, call_miles: Call) -> None:
    dated(registered, registered.created, miles="0.0.9")
    assert call_miles(*cited("--quiet")).code == 1
    (warning,) = [one for one in read(Path("run"))["warnings"] if one["id"] == "registration.version"]
    assert "0.0.9" in warning["message"]
    assert call_miles(*cited("--fail-if", AFTER, "--quiet")).code == 1
    assert [one["id"] for one in read(Path("run"))["warnings"]].count("registration.version") == 1


# Orders of events


def test_a_finished_run_may_cite_what_was_registered_before_it(registered: Registered, call_miles: Call) -> None:
    dated(registered, "2026-01-01T00:00:00Z")
    assert call_miles(*audit("--out", "run", "--fail-if", AFTER, "--quiet")).code == 1
    assert gates() == [(AFTER, "fail", None)]
    before = read(Path("run"))["created"]
    done = call_miles(*cited())
    # What had been asked before is not dropped: it was added.
    assert done.code == 1 and "nothing was run" in done.out and gates() == [*BOTH, POST_HOC]
    report = read(Path("run"))
    assert report["created"] == before and report["provenance"]["command"][-2:] == ["--registration", "criteria.json"]


def test_a_run_that_was_finished_before_cites_nothing(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*audit("--out", "run", "--quiet")).code == 0
    backdate("2026-01-01T00:00:00Z")
    kept = Path("run/report.json").read_bytes()
    one_panel(call_miles(*cited()), "before the criteria were registered", "2026-01-01", registered.created)
    # Nor where it is made anew: its numbers are known.
    one_panel(call_miles(*cited("--force")), "before the criteria were registered")
    assert Path("run/report.json").read_bytes() == kept
    assert call_miles(*audit("--out", "run", "--seed", "1", "--quiet", "--force")).code == 0


def test_criteria_that_were_registered_while_it_ran_are_too_late(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*audit("--out", "run", "--quiet")).code == 0
    report = read(Path("run"))
    report["provenance"]["seconds"]["total"] = 7200.0
    Path("run/report.json").write_text(json.dumps({**report, "created": "2026-11-01T12:00:00Z"}))
    dated(registered, "2026-11-01T11:00:00Z")
    one_panel(call_miles(*cited()), "before the criteria were registered")
    dated(registered, "2026-11-01T09:59:00Z")
    assert call_miles(*cited("--quiet")).code == 1


def test_a_registration_of_tomorrow_is_refused(registered: Registered, call_miles: Call) -> None:
    dated(registered, "2999-01-01T00:00:00Z")
    one_panel(call_miles(*cited()), "2999-01-01", "clock")
    assert not Path("run").exists()


def test_without_the_option_citation_and_registered_gates_stay(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*cited("--quiet")).code == 1
    kept = Path("run/report.json").read_bytes()
    # Asked again without a word of gates, and a failed criterion is still failed.
    assert call_miles(*audit("--out", "run", "--quiet")).code == 1
    assert Path("run/report.json").read_bytes() == kept
    assert call_miles(*audit("--out", "run", "--fail-if", AFTER, "--quiet")).code == 1
    assert gates() == [*BOTH, POST_HOC] and read(Path("run"))["registration"]["sha256"] == registered.digest
    # Others in the place of those that were added; those registered are not theirs to replace.
    assert call_miles(*audit("--out", "run", "--fail-if", "rate[group=all] > 2", "--quiet")).code == 1
    assert gates() == [*BOTH, ("rate[group=all] > 2", "pass", False)]
    one_panel(call_miles(*audit("--out", "run", "--force")), "would vanish", registered.digest[:12])
    assert gates()[:2] == BOTH


def test_the_same_registration_again_changes_no_byte(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*cited("--quiet")).code == 1
    kept = Path("run/report.json").read_bytes()
    Path("criteria.json").rename("renamed.json")
    assert call_miles(*audit("--registration", "renamed.json", "--out", "run", "--quiet")).code == 1
    assert Path("run/report.json").read_bytes() == kept
    assert call_miles(*audit("--registration", "renamed.json", "--out", "run", "--quiet", "--force")).code == 1


def test_a_second_registration_does_not_replace_the_first(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*cited("--quiet")).code == 1
    dated(registered, "2026-01-01T00:00:00Z", criteria=(ALL,))
    one_panel(call_miles(*cited()), "another registration", registered.digest[:12])
    assert gates() == BOTH
    # Made anew under one that is older than the run.
    assert call_miles(*cited("--quiet", "--force")).code == 0
    assert gates() == [(ALL, "pass", True)]


def unfinished(call_miles: Call, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from audits.core import runner

    def stop(*_: object) -> None:
        raise MemoryError("cut")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "carry_out", stop)
        assert call_miles(*words).code == 3
    assert Path("run/state/settings.json").exists() and not Path("run/report.json").exists()


def test_an_unfinished_run_is_resumed_under_its_registration_alone(
    registered: Registered, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(call_miles, cited(), monkeypatch)
    one_panel(call_miles(*audit("--out", "run")), "would vanish", registered.digest[:12])
    dated(registered, "2026-01-01T00:00:00Z", "other.json", criteria=(ALL,))
    one_panel(call_miles(*audit("--out", "run", "--registration", "other.json")), "begun under another")
    assert call_miles(*cited("--quiet")).code == 1
    assert gates() == BOTH


def test_an_unfinished_run_is_not_registered_afterwards(
    registered: Registered, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(call_miles, audit("--out", "run"), monkeypatch)
    os.utime("run/state/settings.json", (1.7e9, 1.7e9))
    one_panel(call_miles(*cited()), "unfinished run", "before the criteria were registered")
    dated(registered, "2023-01-01T00:00:00Z")
    assert call_miles(*cited("--quiet")).code == 1


def test_a_run_that_is_resumed_twice_or_copied_began_when_it_began(
    call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(call_miles, audit("--out", "run"), monkeypatch)
    state = Path("run/state/settings.json")
    began = json.loads(state.read_text())
    state.write_text(json.dumps({**began, "begun": 1.7e9}))
    unfinished(call_miles, audit("--out", "run"), monkeypatch)
    shutil.copytree("run", "copy")
    assert call_miles("register", *audit("--fail-if", ALL, "--out", "criteria.json")).code == 0
    for folder in ("run", "copy"):
        for force in ([], ["--force"]):
            words = audit("--registration", "criteria.json", "--out", folder, *force)
            one_panel(call_miles(*words), "unfinished run", "before the criteria were registered")
    # Once it is finished, its last part alone would be younger than the criteria.
    assert call_miles(*audit("--out", "run", "--quiet")).code == 0
    assert read(Path("run"))["provenance"]["begun"] == "2023-11-14T22:13:20Z"
    held = dated(read_registration(Path("criteria.json")), "2024-01-01T00:00:00Z")
    one_panel(call_miles(*cited()), "had begun before the criteria were registered")
    dated(held, "2023-01-01T00:00:00Z")
    assert call_miles(*cited("--quiet")).code == 0


def test_force_does_not_take_the_citation_from_an_unfinished_run(
    registered: Registered, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(call_miles, cited(), monkeypatch)
    one_panel(call_miles(*audit("--out", "run", "--force")), "would vanish", registered.digest[:12])
    one_panel(call_miles(*audit("--out", "run", "--force", "--seed", "1")), "would vanish")
    dated(registered, "2026-01-01T00:00:00Z", "other.json", criteria=(ALL,))
    assert call_miles(*audit("--out", "run", "--registration", "other.json", "--force", "--quiet")).code == 0


# Reports that were changed by hand


def test_an_outcome_that_the_estimates_do_not_give_is_judged_again(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*cited("--quiet", "--fail-if", AFTER)).code == 1
    report = read(Path("run"))
    for mark in (False, True):
        changed = [{**gate, "outcome": "pass", "registered": mark or gate["registered"]} for gate in report["gates"]]
        Path("run/report.json").write_text(json.dumps({**report, "gates": changed}), encoding="utf-8")
        assert call_miles(*cited("--quiet")).code == 1
        assert gates() == [*BOTH, POST_HOC]


def test_a_report_of_no_day_is_refused_and_not_judged(registered: Registered, call_miles: Call) -> None:
    assert call_miles(*audit("--out", "run", "--quiet")).code == 0
    backdate("2026-13-41T25:00:00Z")
    one_panel(call_miles(*cited()), "2026-13-41T25:00:00Z")


def test_of_two_calls_at_once_none_takes_the_citation_of_the_other(
    registered: Registered, call_miles: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call_miles(*audit("--out", "run", "--quiet")).code == 0
    again = audit_run._judged_again
    calls: list[Any] = []

    def meanwhile(report: Any, *more: Any) -> Any:
        if not calls:
            calls.append(report)
            calls.append(call_miles(*audit("--out", "run", "--fail-if", AFTER)))
        return again(report, *more)

    monkeypatch.setattr(audit_run, "_judged_again", meanwhile)
    assert call_miles(*cited("--quiet")).code == 1
    one_panel(calls[1], "Another run is at work in this folder")
    assert gates() == BOTH and not list(Path("run").glob(".part-*"))
    # What was read before another call had written is not written over that.
    with pytest.raises(InputError, match="at work"), folders.judging(Path("run"), calls[0]):
        raise AssertionError


# What others are told


def test_exports_tell_registered_gates_from_those_added(registered: Registered, call_miles: Call) -> None:
    call_miles(*cited("--fail-if", AFTER, "--quiet"))
    suite = ET.fromstring(call_miles("export", "run", "--to", "junit").out)[0]
    cases = [(case.get("classname"), case.get("name")) for case in suite.iter("testcase")]
    assert cases == [
        ("audit-groups.registered", LOW), ("audit-groups.registered", ALL), ("audit-groups.post-hoc", AFTER),
    ]  # fmt: skip
    held = {item.get("name"): item.get("value") for item in suite.iter("property")}
    assert held["registration"] == registered.digest
    predicate = json.loads(call_miles("export", "run", "--to", "in-toto").out)["predicate"]
    assert predicate["passedTests"] == [f"gate {ALL}"]
    assert predicate["failedTests"] == [f"gate {LOW}", f"gate (post hoc) {AFTER}"]
    (about,) = [one for one in predicate["configuration"] if one["name"] == "criteria.json"]
    assert about["digest"] == {"milesContent": registered.digest}
    card = call_miles("export", "run", "--to", "model-card", "--model-name", "a").out
    assert "failed, added after registration" in card and registered.digest in card


def test_from_python_the_same_is_registered_and_cited(registered: Registered, call_miles: Call) -> None:
    options: dict[str, Any] = {"manifest": "clips.csv", "by": ["accent"], "bootstrap": 200, "permutations": 100}
    options |= {"min_speakers": 6}
    held = register("audit-groups", out="python.json", fail_if=[LOW, ALL], **options)
    assert held.says_as(registered) and read_registration(Path("python.json")) == held
    report = run("audit-groups", out="run", registration="python.json", **options)
    assert gates() == BOTH and report.registration is not None and report.registration.sha256 == held.digest
    assert "registered before the run" in report._repr_html_() and held.digest in report._repr_html_()
    with pytest.raises(InputError, match="seed: registered 0, here 1"):
        run("audit-groups", out="other", registration="python.json", seed=1, **options)
    with pytest.raises(InputError, match="no option"):
        register("audit-groups", out="python.json", fail_if=[LOW], registration="x", **options)
    with pytest.raises(InputError, match="nothing to register"):
        register("audit-groups", out="none.json", **options)
    assert not Path("none.json").exists()


def test_a_report_marks_gates_where_it_cites_a_registration_and_only_there(
    registered: Registered, call_miles: Call
) -> None:
    call_miles(*cited("--quiet"))
    report = read(Path("run"))
    del report["registration"]
    Path("run/report.json").write_text(json.dumps(report))
    one_panel(call_miles("show", "run"), "marked as registered")
