"""Do audits that need no torch run without it, with the same numbers, and do the others name what to install?"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from equal_runs import report, to
from small_world import (
    CANARIES,
    CONDITIONAL,
    FAITHFULNESS,
    GRADIENTS,
    GROUPS,
    LANGUAGES,
    PICTURES,
    SCALING,
    TEXT_SETS,
    TRACKING,
    Outcome,
)

from audits.core.missing_packages import refusal
from miles_cli.environment import choose_device

ROOT = Path(__file__).resolve().parents[2]
LIGHT = (GROUPS, CANARIES, LANGUAGES, TRACKING, FAITHFULNESS, GRADIENTS, SCALING, CONDITIONAL)
"""Runs that import no torch, whether it is installed or not."""
LOGGED = [
    *("certify", "--from-log", "runs/certified/certify.tsv", "--sigma", "0.25", "--n", "1000", "--n0", "100"),
    *("--out", "runs/logged"),
]
COUNTED = ["certify", "--from-counts", "runs/certified", "--radii", "0.1,0.25", "--out", "runs/counted"]
SCORED = ["membership", "--scores", "scores.csv", "--higher-is", "member", "--out", "runs/scored"]
AROUND = (
    ["list"],
    ["register", *SCORED[:-2], "--fail-if", "auc.low > 0.9", "--out", "criteria.json"],
    ["runs", "runs"],
    ["show", "runs/light-groups"],
    ["render", "runs/light-groups"],
    ["export", "runs/light-groups", "--to", "junit"],
    ["compare", "runs/light-groups", "runs/groups"],
    ["certify", "--help"],
)
HEAVY = (
    ["audit-fairness", "encoder", "--manifest", "clips.csv", "--by", "gender", "--out", "runs/heavy"],
    ["certify", "net.safetensors", "--arch", "small_cnn", "--data", "images.npz", "--sigma", "0.25", "--out", "heavy"],
    ["lipschitz", "net.safetensors", "--arch", "small_cnn", "--input", "1,8,8", "--out", "heavy"],
    ["spectra", "darcy.pt", "--data", "darcy.npz", "--train-resolution", "13", "--test-resolutions", "25"],
    ["membership", "--model", "lm", "--members", "seen.txt", "--nonmembers", "unseen.txt", "--out", "heavy"],
    ["interference", "corpora", "--langs", "en,fr", "--out", "heavy"],
    ["audit-scaling", "attention", "--lengths", "256:1024", "--out", "heavy"],
    ["audit-tracking", "--train", "--layers", "1", "--out", "heavy"],
)


def light(words: list[str]) -> list[str]:
    return to(words, Path("runs") / f"light-{Path(words[-1]).name}")


@pytest.fixture
def work(prepared: Path, tmp_path: Path) -> Path:
    """Return a copy of the small world, whose runs are there to be read and compared with."""
    folder = tmp_path / "work"
    shutil.copytree(prepared / "work", folder, copy_function=os.link, ignore=shutil.ignore_patterns("runs"))
    for name in ("certified", "groups"):
        shutil.copytree(prepared / "work" / "runs" / name, folder / "runs" / name)
    (tmp_path / PICTURES).symlink_to((prepared / PICTURES).resolve())
    return folder


def carried_out(kind: str, folder: Path, runs: list[list[str]]) -> list[Outcome]:
    paths = os.pathsep.join(str(ROOT / name) for name in ("", "tests/support", "tests"))
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/support/without_torch.py"), kind, str(folder)],
        input=json.dumps(runs), capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [Outcome(*one) for one in json.loads(done.stdout)]


@pytest.mark.slow
def test_audits_of_tables_never_import_torch_and_give_the_numbers_that_they_gave(work: Path, prepared: Path) -> None:
    runs = [*map(light, LIGHT), LOGGED, COUNTED, SCORED, *AROUND]
    for words, outcome in zip(runs, carried_out("forbidden", work, runs), strict=True):
        assert outcome.code == 0, (words, outcome.out)
    for words in LIGHT:
        made, kept = (folder / "runs" for folder in (work, prepared / "work"))
        assert report(made / light(words)[-1].split("/")[1]) == report(kept / Path(words[-1]).name), words


@pytest.mark.slow
def test_without_torch_texts_are_compared_all_the_same(work: Path, prepared: Path) -> None:
    (texts,) = carried_out("absent", work, [light(TEXT_SETS)])
    assert texts.code == 0, texts.out
    assert report(work / "runs/light-texts") == report(prepared / "work/runs/texts")


def test_without_torch_tables_are_audited_and_models_are_refused(work: Path) -> None:
    scored, *others = carried_out("absent", work, [SCORED, *HEAVY])
    assert scored.code == 0, scored.out
    for words, outcome in zip(HEAVY, others, strict=True):
        assert outcome.code == 2, (words, outcome.out)
        said = " ".join(outcome.out.replace("│", " ").split())
        assert "This run needs torch, which is not installed here." in said, (words, said)
        assert "pip install torch torchaudio transformers" in said
        assert "Traceback" not in said
    assert not (work / "heavy").exists()


def test_a_package_that_is_there_but_lacks_a_module_is_no_missing_package() -> None:
    assert refusal(ModuleNotFoundError("", name="torch.no_such_module"), "miles certify") is None
    assert refusal(ModuleNotFoundError("", name="yaml"), "miles certify") is None


def test_without_torch_a_model_would_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miles_cli.environment.is_installed", lambda name: False)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choose_device("auto") == "cpu"
