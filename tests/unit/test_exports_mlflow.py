"""Are the keys such as MLflow takes, one for each number, and is no other machine asked without a word?"""

import dataclasses
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audits.core.records import Estimate, GateResult, Report
from audits.core.registration import Registration
from audits.report.exports import mlflow, mlflow_stores
from probes.core.errors import InputError

TEXT = st.one_of(
    st.sampled_from(["a", "A", "a.b", "a_b", "a b", "gap.low", "low", "x" * 300, "ü", "", ".."]), st.text(max_size=4)
)
WHERE = st.dictionaries(TEXT, st.one_of(TEXT, st.sampled_from([0, 0.5, 0.5000001, -1, 1e-7, 3.0])), max_size=2)


def row(name: str, where: object = (), method: str = "Wilson", **ends: float) -> Estimate:
    ends = ends or {"low": 0.1, "high": 0.3}
    return Estimate(name=name, value=ends.get("low", 0.1), **ends, method=method, n=9, unit="x", where=dict(where))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXT, WHERE), max_size=6, unique_by=lambda pair: repr((pair[0], sorted(pair[1].items())))))
def test_keys_are_valid_unique_and_do_not_hang_on_the_order(pairs: list[tuple[str, dict[str, object]]]) -> None:
    rows = [row(name, where) for name, where in pairs]
    keys = [key for key, _ in mlflow.metrics(rows)]
    assert len({key.lower() for key in keys}) == len(keys) == 3 * len(rows)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", key) and len(key) <= 250 for key in keys)
    assert sorted(mlflow.metrics(rows)) == sorted(mlflow.metrics(rows[::-1]))


def test_each_number_stands_under_a_key_that_tells_what_it_is() -> None:
    first = row("gap", {"layer": 3, "by": "accent"}, low=0.1, high=0.3)
    bound = row("epsilon_lower", {"attack": "score"}, "Lower bound: one-sided", low=1.5, high=4.0)
    exact = Estimate(name="product_bound", value=7.0, method="exact", n=1, unit="models")
    assert dict(mlflow.metrics([first, bound, exact])) == {
        "gap.by-accent.layer-3": 0.1,
        "gap.by-accent.layer-3.low": 0.1,
        "gap.by-accent.layer-3.high": 0.3,
        "epsilon_lower.attack-score": 1.5,
        "epsilon_lower.attack-score.low": 1.5,
        "epsilon_lower.attack-score.provable": 4.0,
        "product_bound": 7.0,
    }


def test_the_same_row_twice_loses_neither() -> None:
    assert len({key for key, _ in mlflow.metrics([row("gap"), row("gap")])}) == 6


def test_only_a_store_of_this_machine_is_used_without_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert mlflow_stores.store_address("runs of mlflow") == (tmp_path / "runs of mlflow").as_uri()
    for given_by_word in ("http://localhost:5000", "databricks"):
        assert mlflow_stores.store_address(given_by_word) == given_by_word
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "other"))
    assert mlflow_stores.store_address(None) == (tmp_path / "other").as_uri()
    for elsewhere in ("https://example.org", "databricks", "databricks://me", "postgresql://host/db"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", elsewhere)
        with pytest.raises(InputError, match="elsewhere"):
            mlflow_stores.store_address(None)


@pytest.mark.parametrize(
    ("address", "files", "is_refused"),
    [
        ("sqlite:///x.db", "s3://bucket/5", True),
        ("sqlite:///x.db", "{store}/5", False),
        ("https://example.org", "s3://bucket/5", False),
        ("file:{store}", "file://{store}/5", False),
        ("file:{store}", "file://{store}/%2e%2e/5", True),
        ("file:{store}", "file://elsewhere{store}/5", True),
        ("file://elsewhere{store}", "s3://bucket/5", True),
    ],
)
def test_files_stay_in_a_store_of_this_machine(tmp_path: Path, address: str, files: str, is_refused: bool) -> None:
    with pytest.raises(InputError) if is_refused else nullcontext():
        mlflow_stores.check_files(lambda: files.format(store=tmp_path), address.format(store=tmp_path), "5")


def test_tags_and_note_tell_registered_gates_from_those_that_were_added(sample_report: Report) -> None:
    held = Registration(sha256="cd" * 32, file="criteria.json", created="2026-01-01T00:00:00Z", miles="0.1.0")
    gates = (
        GateResult(expression="gap > 0.2", outcome="pass", rows=(0,), registered=True),
        GateResult(expression="gap > 0.05", outcome="fail", rows=(0,), registered=False),
    )
    tags = mlflow._tags(dataclasses.replace(sample_report, gates=gates, registration=held))
    assert tags["miles.registration"] == "cd" * 32 and tags["miles.gates"] == "failed"
    assert (tags["miles.gates_registered"], tags["miles.gates_post_hoc"]) == ("passed", "failed")
    said = tags["mlflow.note.content"].split("\n\n")
    assert said[:2] == [
        "Gate passed, registered before the run: gap > 0.2",
        "Gate failed, added after registration: gap > 0.05",
    ]
    plain = mlflow._tags(sample_report)
    assert not any("regist" in key or "post" in key for key in plain) and "Gate" not in plain["mlflow.note.content"]
