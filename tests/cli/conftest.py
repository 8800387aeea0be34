"""A world small enough for a whole audit in seconds: a random encoder, twenty speakers, three clips each."""

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from refusals import everything, one_panel
from run_folders import WITHOUT_PAGES, read
from small_world import made_once

ROOT = Path(__file__).resolve().parents[2]
QUICK = (
    "--by", "gender", "accent", "--bootstrap", "200", "--permutations", "100", "--probe-epochs", "1",
    "--folds", "3", "--min-speakers", "5", "--device", "cpu", "--workers", "1",
)  # fmt: skip
"""Words of a small audit; beside other tests it may seem long, and would start workers that each import torch."""
TEXTS = ("no go up so we do at", "up at no do so we go", "we do so at up go no")


@dataclass(frozen=True)
class Outcome:
    """How a call ended, and after how many seconds."""

    code: int
    out: str
    err: str
    seconds: float = 0.0


@dataclass(frozen=True)
class World:
    """Where the inputs of the test audits lie."""

    folder: Path
    model: Path
    manifest: Path

    def rows(self) -> list[dict[str, str]]:
        with self.manifest.open(newline="") as file:
            return list(csv.DictReader(file))

    def command(self, *more: object) -> list[str]:
        """Return the words of a quick audit of this world."""
        words = ["audit-fairness", str(self.model), "--manifest", str(self.manifest), *QUICK]
        return [*words, *(str(word) for word in more)]

    def write(self, path: Path, rows: list[dict[str, str]]) -> Path:
        """Write another manifest of the same clips, wherever it stands."""
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            for row in rows:
                name = row["path"]
                inside = name and not name.startswith((".", "/"))
                writer.writerow({**row, "path": str(self.folder / name) if inside else name})
        return path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    with made_once(tmp_path_factory, "speech-world") as (folder, new):
        if new:
            _encoder(folder / "encoder")
            _clips(folder)
    return World(folder=folder, model=folder / "encoder", manifest=folder / "clips.csv")


def _encoder(folder: Path) -> None:
    import torch

    from probes.core.library_imports import transformers

    hub = transformers()
    config = hub.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=48, conv_dim=(16,) * 5,
        conv_kernel=(10, 3, 3, 3, 2), conv_stride=(5, 2, 2, 2, 2), feat_extract_norm="layer",
        do_stable_layer_norm=True, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, hidden_dropout=0,
        attention_dropout=0, feat_proj_dropout=0, layerdrop=0, mask_time_prob=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hub.Wav2Vec2Model(config).save_pretrained(folder)
    hub.Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)


def _clips(folder: Path) -> None:
    import numpy as np
    import soundfile

    rng = np.random.default_rng(0)
    rows = []
    (folder / "clips").mkdir()
    for speaker in range(20):
        pitch = 90 + 12 * speaker
        for take, text in enumerate(TEXTS):
            times = np.arange(int(16000 * (0.3 + 0.1 * take))) / 16000
            sound = 0.3 * np.sin(2 * np.pi * pitch * times) + 0.05 * rng.normal(size=times.size)
            name = f"clips/s{speaker:02d}-{take}.wav"
            soundfile.write(folder / name, sound, 16000, subtype="PCM_16")
            rows.append(
                {
                    "path": name,
                    "speaker": f"s{speaker:02d}",
                    "text": text,
                    "gender": ("female", "male")[speaker % 2],
                    "accent": ("north", "south")[speaker // 2 % 2],
                }
            )
    manifest = folder / "clips.csv"
    with manifest.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables under which every call of these tests runs; all share one warm cache."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MILES_CACHE", "COLUMNS")}
    cache = str(tmp_path_factory.mktemp("cache"))
    return {**kept, "MILES_CACHE": cache, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


@pytest.fixture(scope="session")
def run_miles(environment: dict[str, str]) -> Callable[..., Outcome]:
    """Return a function that runs the command line in a process of its own; if asked for, without its `pages`."""

    def run(*words: object, cwd: Path | None = None, pages: bool = True, **more: Any) -> Outcome:
        variables = {**environment, **more.pop("variables", {})}
        program = ["-m", "miles_cli"] if pages else ["-c", WITHOUT_PAGES]
        command = [sys.executable, *program, *(str(word) for word in words)]
        if cwd is not None:
            variables["PYTHONPATH"] = str(ROOT)
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=cwd or ROOT, env=variables, capture_output=True, text=True, timeout=120, **more
        )
        return Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - started)

    return run


@pytest.fixture
def call_miles(
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Outcome]:
    """Return a function that runs the command line in this process, which saves the imports."""

    def call(*words: object, cwd: Path | None = None) -> Outcome:
        from miles_cli.main import main

        for name in ("MILES_CACHE", "HF_HUB_OFFLINE", "COLUMNS"):
            monkeypatch.setenv(name, environment[name])
        if cwd is not None:
            monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["miles", *(str(word) for word in words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        code = left.value.code
        return Outcome(code if isinstance(code, int) else (0 if code is None else 1), out, err)

    return call


@pytest.fixture(scope="session")
def finish_run(environment: dict[str, str]) -> Callable[..., Path]:
    """Return a function that carries a run out in this process, without its pages, and returns its folder."""

    def run(*words: object, out: Path) -> Path:
        from audits.report import pages as rendering
        from miles_cli.main import main

        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
            patch.setattr(rendering, "write_pages", lambda report, folder: None)
            for name in ("MILES_CACHE", "HF_HUB_OFFLINE", "COLUMNS"):
                patch.setenv(name, environment[name])
            patch.setattr(sys, "argv", ["miles", *(str(word) for word in words), "--out", str(out), "--quiet"])
            main()
        assert not left.value.code
        return out

    return run


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Spare the calls in this process their pages and pictures, most of a small run; return what writes them."""
    from audits.core import registry
    from audits.report import pages as rendering

    plain = rendering.write_pages
    monkeypatch.setattr(rendering, "write_pages", lambda report, folder: None)
    # What other packages add is looked for many times in each call, and is of no matter here.
    monkeypatch.setattr(registry, "entry_points", lambda **_: ())
    return plain


@pytest.fixture
def quick(
    call_miles: Callable[..., Outcome], no_pages: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Path]:
    """Return a function that carries a run out without figures and pages, and returns its folder."""
    from audits.core import registry

    packages = {entry.name: entry.target.partition(":")[0] for entry in registry.AUDITS}

    def run(*words: object, name: str = "run", code: int = 0) -> Path:
        folder = tmp_path / name
        monkeypatch.setattr(f"{packages[str(words[0])]}.figures.figures", lambda *_: iter(()))
        outcome = call_miles(*words, "--out", folder, "--quiet")
        assert (outcome.code, outcome.out) == (code, ""), outcome.err
        # Nothing is said but which gates failed.
        gates = [line.startswith("✗ gate failed") for line in outcome.err.splitlines()]
        assert gates == [True] * int(code == 1), outcome.err
        read(folder)
        return folder

    return run


def _changeable(folders: Iterable[Path]) -> list[tuple[str, int]]:
    """Return what lies in folders without what checks of a classifier have found: that holds whatever else is wrong."""
    return [found for found in everything(*folders) if "classifier-checks" not in found[0]]


@pytest.fixture
def refused(call_miles: Callable[..., Outcome], environment: dict[str, str], tmp_path: Path) -> Callable[..., None]:
    """Return a function that makes a wrong input of what is right, and fails unless it is refused without a trace."""

    def check(case: tuple[Callable[[Any, Path], list[Any]], tuple[str, ...]], right: Any) -> None:
        make, says = case
        inputs, place = tmp_path / "inputs", tmp_path / "place"
        inputs.mkdir()
        place.mkdir()
        words = make(right, inputs)
        folders = (inputs, right.folder, Path(environment["MILES_CACHE"]))
        before = _changeable(folders)
        one_panel(call_miles(*words, cwd=place), *says)
        assert list(place.iterdir()) == []
        assert _changeable(folders) == before

    return check


@pytest.fixture(scope="session")
def finished_run(
    world: World,
    run_miles: Callable[..., Outcome],
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Outcome]:
    """Return a run folder that nobody may change, and how the run that made it ended; the cache is that of the run."""
    with made_once(tmp_path_factory, "speech-run") as (folder, new):
        ended = folder / "ended.json"
        if new:
            cache = {"MILES_CACHE": str(folder / "cache")}
            outcome = run_miles(*world.command("--out", folder / "first"), variables=cache)
            assert outcome.code == 0, outcome.err
            ended.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
        shutil.copytree(folder / "cache", environment["MILES_CACHE"], dirs_exist_ok=True)
    return folder / "first", Outcome(**json.loads(ended.read_text(encoding="utf-8")))


@pytest.fixture
def copied_run(finished_run: tuple[Path, Outcome], tmp_path: Path) -> Path:
    """Return a copy of the finished run that a test may change."""
    return Path(shutil.copytree(finished_run[0], tmp_path / "copied"))
