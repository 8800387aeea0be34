"""audit-fairness on vectors of layers: the numbers of the run on the model, and what is refused."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from refusals import one_panel
from safetensors.numpy import load_file, save_file
from stand_in_ffmpeg import as_m4a, stand_in

ROOT = Path(__file__).resolve().parents[2]
DIFFERING = {"created", "provenance", "subject", "data", "settings", "warnings"}
"""Keys of report.json that say what the numbers were made from."""


@pytest.fixture(scope="session")
def dump() -> ModuleType:
    """Return the module that docs/formats.md shows."""
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    found = re.search(r'^```python title="dump.py"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    assert found
    module = ModuleType("dump")
    exec(compile(found[1], "dump.py", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="session")
def vectors(world: Any, dump: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of the vectors of the world's encoder, written as the page says."""
    from probes.core.library_imports import transformers

    hub, folder = transformers(), tmp_path_factory.mktemp("dumped") / "vectors"
    model = hub.AutoModel.from_pretrained(world.model).eval()
    prepare = hub.AutoFeatureExtractor.from_pretrained(world.model)
    # The norm that follows the last block stands in its place.
    blocks = [*model.encoder.layers[:-1], model.encoder.layer_norm]
    layers = dump.layers_of(lambda wave: model(**prepare(wave, sampling_rate=16000, return_tensors="pt")), blocks)
    dump.write_vectors(layers, world.manifest, folder, hop=80)
    return folder


def command(world: Any, model: Path, *more: object) -> list[str]:
    words: list[str] = world.command(*more)
    words[1] = str(model)
    return words


def all_of(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = {}
    for file in folder.iterdir():
        found |= load_file(file)
    return found


@pytest.fixture(scope="session")
def pooled(vectors: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an NPZ of one vector a clip and layer."""
    path = tmp_path_factory.mktemp("pooled") / "all.npz"
    import torch

    np.savez(path, **{key: torch.from_numpy(value).mean(1).numpy() for key, value in all_of(vectors).items()})
    return path


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return found


def test_vectors_of_a_model_give_the_bytes_of_the_run_on_the_model(
    call_miles: Callable[..., Any], world: Any, vectors: Path, pooled: Path, tmp_path: Path
) -> None:
    runs, twice = tmp_path, ("--repeats", "2")
    np.savez_compressed(runs / "all.npz", hop=80, **all_of(vectors))
    assert call_miles(*world.command(*twice, "--batch", "1"), "--out", runs / "model").code == 0
    assert call_miles(*command(world, runs / "all.npz", *twice), "--out", runs / "npz").code == 0
    model, run = report_of(runs / "model"), report_of(runs / "npz")
    assert {row["where"]["task"] for row in model["estimates"]} == {"sid", "asr"} and model["findings"]
    assert {key for key in model if json.dumps(model[key]) != json.dumps(run[key])} == DIFFERING
    assert (runs / "npz" / "records.csv").read_bytes() == (runs / "model" / "records.csv").read_bytes()
    changed = {key for key in model["settings"] if model["settings"][key] != run["settings"][key]}
    assert changed == {"model", "batch"} and run["subject"] is None
    assert run["data"][:2] == model["data"] and [source["role"] for source in run["data"]][2:] == ["vectors"]
    assert [one["id"] for one in run["warnings"] if one not in model["warnings"]] == ["vectors"]
    assert [one for one in model["warnings"] if one not in run["warnings"]] == []
    # One vector a clip is enough to tell speakers apart.
    assert call_miles(*command(world, pooled, *twice, "--tasks", "sid"), "--out", runs / "pooled").code == 0
    rows = report_of(runs / "pooled")["estimates"]
    assert rows == [row for row in model["estimates"] if row["where"]["task"] == "sid"]


def test_keys_of_a_column_the_control_without_a_twin_and_recordings_that_ffmpeg_decodes(
    call_miles: Callable[..., Any], world: Any, pooled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(stand_in(tmp_path / "bin").parent), prepend=os.pathsep)
    rows = world.rows()
    named = [{**row, "utt": f"u{at}"} for at, row in enumerate(rows)]
    for row in named[:3]:
        name = Path(row["path"]).with_suffix(".m4a").name
        row["path"] = str(as_m4a(world.folder / row["path"], tmp_path / name))
    manifest = world.write(tmp_path / "clips.csv", named)
    held = np.load(pooled)
    renamed = {f"u{at}": held[row["path"]].astype(np.float16) for at, row in enumerate(rows)}
    save_file(renamed, tmp_path / "named.safetensors")
    words = command(world, tmp_path / "named.safetensors", "--tasks", "sid", "--id-col", "utt", "--controls")
    words[words.index("--manifest") + 1] = str(manifest)
    assert call_miles(*words, "--layers", "0,3", "--repeats", "2", "--out", tmp_path / "run").code == 0
    report = report_of(tmp_path / "run")
    controls = {row["where"]["control"] for row in report["estimates"] if row["name"] == "control_error_rate"}
    assert controls == {"shuffled-labels"}
    assert {row["where"]["layer"] for row in report["estimates"] if row["name"] == "error_rate"} == {-1, 0, 3}
    assert any(one["id"] == "vectors" and "random-init" in one["message"] for one in report["warnings"])
    told = [one["message"] for one in report["warnings"] if one["id"] == "decoded-by-ffmpeg"]
    assert len(told) == 1 and told[0].startswith("3 clips were decoded by ffmpeg 9.9: another version")


Change = Callable[[dict[str, Any]], object]


def _nan(held: dict[str, Any]) -> None:
    held["clips/s03-1.wav"][2, 5, 7] = np.nan


REFUSED: dict[str, tuple[Change, str, str]] = {
    "missing": (lambda held: held.pop("clips/s03-1.wav"), "no vectors under its path 'clips/s03-1.wav'", "clips/s03-"),
    "extra": (lambda held: held.update(other=held["clips/s03-1.wav"]), "1 of 61 keys are of no clip", "skip"),
    "nan": (_nan, "layer 2, frame 5, is not a finite number", "again"),
    "layers": (lambda held: held.update({"clips/s03-1.wav": held["clips/s03-1.wav"][:2]}), "layers", "one encoder"),
    "width": (lambda held: held.update({"clips/s03-1.wav": held["clips/s03-1.wav"][..., :9]}), "vector", "one encoder"),
    "padded": (lambda held: held.update({"clips/s00-0.wav": held["clips/s00-2.wav"]}), "frames", "padded"),
    "strangers": (lambda held: [held.update({f"x{key}": held.pop(key)}) for key in list(held)], "No key", "letter"),
    "weights": (lambda held: held.update({"bias": np.zeros(3, np.float32)}), "the shape (3,)", "config.json"),
    "whole": (lambda held: held.update({"clips/s03-1.wav": np.zeros((4, 9, 32), np.int8)}), "I8", "float16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_vectors_that_do_not_fit_are_refused_in_one_panel(
    name: str, call_miles: Callable[..., Any], world: Any, vectors: Path, tmp_path: Path
) -> None:
    change, message, hint = REFUSED[name]
    held = {key: value.copy() for key, value in all_of(vectors).items()}
    change(held)
    save_file(held, tmp_path / "all.safetensors", metadata={"hop": "80"})
    done = call_miles(*command(world, tmp_path / "all.safetensors", "--on-bad-clip", "list"), "--out", tmp_path / "run")
    one_panel(done, message, hint)
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_is_left_out_and_counted_where_that_is_asked_for(
    call_miles: Callable[..., Any], world: Any, vectors: Path, tmp_path: Path
) -> None:
    held = all_of(vectors)
    held["clips/s04-0.wav"] = held["clips/s04-0.wav"].copy()
    held["clips/s04-0.wav"][0, 0, 0] = np.inf
    held["other"] = held.pop("clips/s03-1.wav")
    save_file(held, tmp_path / "all.safetensors", metadata={"hop": "80"})
    done = call_miles(*command(world, tmp_path / "all.safetensors", "--on-bad-clip", "skip", "--dry-run"))
    said = " ".join(done.out.split())
    assert done.code == 0 and "2 of 60 clips are left out (1 no vectors, 1 unusable vectors)" in said
    assert "1 key of the vectors is of no clip of the manifest, and left out." in said


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--hop", "160"), "frames, 160 samples apart"),
        (("--hop", "soon"), "'hop' is 'soon'"),
        (("--hop", ""), "how far apart"),
        (("--layers", "0,4"), "There is no layer 4"),
        (("--id-col", "nobody"), "There is no column 'nobody'"),
        (("--id-col", "text"), "is used as something else"),
    ],
)
def test_a_wrong_hop_layer_or_column_is_refused(
    more: tuple[str, str], message: str, call_miles: Callable[..., Any], world: Any, vectors: Path, tmp_path: Path
) -> None:
    metadata = {"hop": "80"}
    if more[0] == "--hop":
        metadata, more = ({"hop": more[1]} if more[1] else {}), ()
    save_file(all_of(vectors), tmp_path / "all.safetensors", metadata=metadata)
    done = call_miles(*command(world, tmp_path / "all.safetensors", *more), "--out", tmp_path / "run")
    one_panel(done, message)


def test_frames_are_needed_to_transcribe_and_an_id_is_of_vectors_alone(
    call_miles: Callable[..., Any], world: Any, pooled: Path, tmp_path: Path
) -> None:
    done = call_miles(*command(world, pooled), "--out", tmp_path / "run")
    one_panel(done, "needs the frames")
    done = call_miles(*world.command("--id-col", "text"), "--out", tmp_path / "run")
    one_panel(done, "MODEL is none")


def test_a_folder_with_a_key_in_two_files_and_a_link_out_of_it(
    call_miles: Callable[..., Any], world: Any, vectors: Path, tmp_path: Path
) -> None:
    twice = Path(shutil.copytree(vectors, tmp_path / "twice"))
    shutil.copy(twice / "000003.safetensors", twice / "again.safetensors")
    done = call_miles(*command(world, twice), "--out", tmp_path / "run")
    one_panel(done, "also stands in")
    linked = Path(shutil.copytree(vectors, tmp_path / "linked"))
    (linked / "more.safetensors").symlink_to(twice / "again.safetensors")
    done = call_miles(*command(world, linked), "--out", tmp_path / "run")
    one_panel(done, "leads out of its folder")
