"""Are canaries that a language model learnt by heart found, its claim refuted, and nothing said of one without them?"""

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from memorised_texts import background, train_lm
from run_folders import estimates, found, read, warned

Call = Callable[..., Any]
COUNT = 120
# Runs here are judged by their reports; their pages are tested elsewhere.
pytestmark = pytest.mark.usefixtures("no_pages")


@dataclass(frozen=True)
class World:
    """The folders of a sealed list and of the language models trained with and without what it says."""

    folder: Path

    @property
    def sealed(self) -> Path:
        return self.folder / "canaries" / "canaries.csv"

    def words(self, name: str, *more: object) -> list[object]:
        """Return a run on one of the models, with canaries included by coins and a small claim."""
        claim = ("--coin-flip", "0.5", "--epsilon", "0.5")
        return ["membership", "--model", self.folder / name, "--canaries", self.sealed, *claim, *more]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language-models")
    texts = background(300)
    train_lm(folder / "untrained", texts[:5], known=texts, steps=1)
    return folder


@pytest.fixture
def world(made: Path, call_miles: Call) -> World:
    """Return the world, made by the command itself the first time."""
    found, texts = World(made), background(300)
    if not found.sealed.is_file():
        words = ("canaries", "--count", COUNT, "--length", "8", "--tokenizer", made / "untrained", "--seed", "0")
        assert call_miles(*words, "--out", made / "canaries").code == 0
        included = (made / "canaries" / "include.txt").read_text(encoding="utf-8").splitlines()
        train_lm(made / "with", texts[:60] + included, known=texts, steps=100)
        train_lm(made / "without", texts[:60], known=texts, steps=100)
    return found


def test_a_model_that_learnt_canaries_by_heart_is_found_and_its_claim_refuted(
    world: World, call_miles: Call, tmp_path: Path
) -> None:
    outcome = call_miles(*world.words("with", "--out", tmp_path / "run"))
    assert outcome.code == 0, outcome.err
    run = tmp_path / "run"
    areas = {row["where"]["attack"]: row for row in estimates(run, "auc")}
    assert set(areas) == {"loss", "zlib", "min-k", "min-k++"}
    assert all(row["where"]["tier"] == "generator" and row["n"] == COUNT for row in areas.values())
    assert areas["loss"]["value"] > 0.98 and min(row["low"] for row in areas.values()) > 0.8
    (bound,) = estimates(run, "epsilon_lower", attack="loss", method="one-run")
    assert bound["value"] > 1 and bound["where"]["validity"] == "certified"
    verdicts = [one for one in read(run)["findings"] if one["id"] == "membership.verdict"]
    assert "violation" in {one["where"]["verdict"] for one in verdicts}
    assert "membership.leak" in found(run) and "membership.shifted" not in found(run)
    # The sealed list is what was published.
    (source,) = [one for one in read(run)["data"] if one["role"] == "canaries"]
    assert source["sha256"] == (world.sealed.parent / "commitment.txt").read_text(encoding="utf-8").split()[0]


def test_of_a_model_without_them_nothing_is_found(world: World, call_miles: Call, tmp_path: Path) -> None:
    assert call_miles(*world.words("without", "--out", tmp_path / "run")).code == 0
    run = tmp_path / "run"
    assert all(row["low"] < 0.5 < row["high"] for row in estimates(run, "auc"))
    assert all(row["value"] == 0 for row in estimates(run, "epsilon_lower", method="one-run"))
    assert "membership.leak" not in found(run)
    verdicts = [one["where"]["verdict"] for one in read(run)["findings"] if one["id"] == "membership.verdict"]
    assert verdicts == ["consistent"]


def test_losses_are_held_against_those_of_a_reference_model(world: World, call_miles: Call, tmp_path: Path) -> None:
    words = world.words("with", "--reference-model", world.folder / "without", "--out", tmp_path / "run")
    assert call_miles(*words).code == 0
    (row,) = estimates(tmp_path / "run", "auc", attack="reference")
    assert row["low"] > 0.75
    assert "reference model" in {one["role"] for one in read(tmp_path / "run")["data"]}
    # One that was trained on what the coins left out would tell them by itself.
    assert "reference-coins" in warned(tmp_path / "run")
    # A model is no reference for itself: every score is 0, and nothing is proved.
    words = world.words("with", "--reference-model", world.folder / "with", "--attack", "reference")
    assert call_miles(*words, "--out", tmp_path / "self").code == 0
    assert estimates(tmp_path / "self", "auc", attack="reference")[0]["value"] == 0.5


def test_texts_of_files_are_counted_cut_and_compared_without_the_model(
    world: World, call_miles: Call, tmp_path: Path
) -> None:
    texts = background(300)
    inside = [*texts[:60], texts[0], texts[100], "", " ".join(texts[:8])]
    outside = [*texts[100:160], "!"]
    (tmp_path / "in.txt").write_text("\n".join(inside) + "\n", encoding="utf-8")
    rows = [json.dumps({"text": text}) for text in outside]
    (tmp_path / "out.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    sides = ("--members", tmp_path / "in.txt", "--nonmembers", tmp_path / "out.jsonl")
    words = ("membership", "--model", world.folder / "with", *sides, "--no-start-token", "--out", tmp_path / "run")
    outcome = call_miles(*words)
    assert outcome.code == 0, outcome.err
    report = read(tmp_path / "run")
    skipped = {one["reason"]: one["count"] for one in report["coverage"]["skipped"]}
    assert skipped == {
        "both member and non-member": 2,
        "empty text": 1,
        "fewer than two tokens": 1,
        "repeated member": 1,
    }
    assert report["coverage"]["given"] == 125 and report["coverage"]["used"] == 120
    assert "texts-cut" in warned(tmp_path / "run") and "start-token" not in warned(tmp_path / "run")
    # Sixty sentences were in its training, sixty others of the same words were not.
    assert "membership.leak" in found(tmp_path / "run") and "membership.shifted" not in found(tmp_path / "run")
    (loss,) = estimates(tmp_path / "run", "utility", measure="held_out_loss")
    assert 0 < loss["low"] < loss["value"] < loss["high"] and loss["unit"] == "non-members"


def test_texts_stand_in_chats_and_in_a_column_of_one_side(world: World, call_miles: Call, tmp_path: Path) -> None:
    texts = background(300)
    sides = {"in": texts[:60], "out": texts[100:160]}
    for name, own in sides.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
    chats = [json.dumps({"messages": [{"content": "?"}, {"content": text}]}) for text in sides["in"]]
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(("\n".join(chats) + "\n").encode()))
    rows = [json.dumps({"answer": text}) for text in sides["out"]]
    (tmp_path / "out.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = ("membership", "--model", world.folder / "with", "--members", tmp_path / "in.txt")
    assert call_miles(*words, "--nonmembers", tmp_path / "out.txt", "--out", tmp_path / "plain").code == 0
    words = ("membership", "--model", world.folder / "with", "--members", tmp_path / "in.jsonl.gz")
    words += ("--text-col", "members=messages.-1.content,nonmembers=answer")
    outcome = call_miles(*words, "--nonmembers", tmp_path / "out.jsonl", "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert read(tmp_path / "run")["estimates"] == read(tmp_path / "plain")["estimates"]
    assert "start-token" in warned(tmp_path / "run")


def test_texts_of_another_kind_than_members_give_no_verdict(world: World, call_miles: Call, tmp_path: Path) -> None:
    texts = background(300)
    (tmp_path / "in.txt").write_text("\n".join(texts[:60]) + "\n", encoding="utf-8")
    others = [f"{text[:20]} in 2024" for text in texts[100:160]]
    (tmp_path / "out.txt").write_text("\n".join(others) + "\n", encoding="utf-8")
    sides = ("--members", tmp_path / "in.txt", "--nonmembers", tmp_path / "out.txt", "--epsilon", "0.5")
    run = tmp_path / "run"
    assert call_miles("membership", "--model", world.folder / "without", *sides, "--out", run).code == 0
    assert "membership.shifted" in found(run) and "membership.verdict" not in found(run)
    assert all(row["low"] > 0.9 for row in estimates(run, "blind_auc"))
    assert "text-lengths" in warned(run)


def test_a_second_run_takes_scores_from_the_cache(
    world: World, call_miles: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from probes.texts import text_likelihoods

    assert call_miles(*world.words("with", "--out", tmp_path / "one")).code == 0

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a text was read again")

    monkeypatch.setattr(text_likelihoods, "CausalLM", refuse)
    assert call_miles(*world.words("with", "--attack", "loss", "--out", tmp_path / "two")).code == 0
    shutil.rmtree(tmp_path / "one")
