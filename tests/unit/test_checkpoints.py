import json
import os
import pickle
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file

from probes.core.errors import InputError
from probes.models.checkpoints import count_parameters, find_model, load_state_dict

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
CONFIG = {"model_type": "wav2vec2", "hidden_size": 8}
TENSORS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.zeros(2)}


class Touch:
    """An object whose pickle runs a command when an ordinary reader opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def model(folder: Path, config: object = CONFIG) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    save_file(TENSORS, folder / "model.safetensors")
    return folder


def refuse(reference: Path | str) -> InputError:
    with pytest.raises(InputError) as caught:
        find_model(str(reference))
    assert caught.value.where and caught.value.message
    return caught.value


def refuse_weights(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load_state_dict(path)
    assert caught.value.where == str(path)
    return caught.value


def test_a_folder_with_safetensors(tmp_path: Path) -> None:
    found = find_model(str(model(tmp_path / "m")))
    assert found.path == (tmp_path / "m").resolve()
    assert (found.family, found.config) == ("wav2vec2", CONFIG)
    assert [file.name for file in found.weights] == ["model.safetensors"]
    assert len(found.sha256) == 64
    assert find_model(str(model(tmp_path / "copy"))).sha256 == found.sha256
    (tmp_path / "m" / "README.md").write_text("not a part of the model")
    assert find_model(str(tmp_path / "m")).sha256 == found.sha256
    (tmp_path / "m" / "preprocessor_config.json").write_text("{}")
    assert find_model(str(tmp_path / "m")).sha256 != found.sha256


def test_a_folder_with_pickled_weights(tmp_path: Path) -> None:
    folder = model(tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save(TENSORS, folder / "pytorch_model.bin")
    assert [file.name for file in find_model(str(folder)).weights] == ["pytorch_model.bin"]
    torch.save({"a": Touch(tmp_path / "ran")}, folder / "pytorch_model.bin")
    error = refuse(folder)
    assert "run code" in error.message and "system" in error.message and "safetensors" in error.hint
    assert not (tmp_path / "ran").exists()


def test_a_config_may_point_to_code_which_is_never_followed(tmp_path: Path) -> None:
    folder = model(tmp_path, {**CONFIG, "auto_map": {"AutoModel": "evil.Model"}})
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert find_model(str(folder)).family == "wav2vec2"
    assert not (tmp_path / "ran").exists()


def test_shards(tmp_path: Path) -> None:
    folder = model(tmp_path)
    (folder / "model.safetensors").unlink()
    for place, (name, tensor) in enumerate(TENSORS.items(), start=1):
        save_file({name: tensor}, folder / f"model-0000{place}-of-00002.safetensors")
    names = {name: f"model-0000{place}-of-00002.safetensors" for place, name in enumerate(TENSORS, start=1)}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    assert len(find_model(str(folder)).weights) == 2
    (folder / names["a.bias"]).unlink()
    assert names["a.bias"] in refuse(folder).message
    for bad in ({}, {"weight_map": {}}, {"weight_map": {"a": 3}}, {"weight_map": []}, []):
        index.write_text(json.dumps(bad))
        assert "weight_map" in refuse(folder).message


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/tmp/outside.safetensors", "sub/../../outside.safetensors"]
)
def test_an_index_cannot_name_files_outside(tmp_path: Path, name: str) -> None:
    folder = model(tmp_path / "m")
    (folder / "sub").mkdir()
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    assert "outside the folder" in refuse(folder).message


def test_links_out_of_the_folder_are_for_the_cache_of_the_hub_only(tmp_path: Path) -> None:
    home = tmp_path / "models--org--name"
    folder = home / "snapshots" / "0123"
    model(folder)
    (home / "blobs").mkdir()
    for file in list(folder.iterdir()):
        file.rename(home / "blobs" / file.name)
        file.symlink_to(home / "blobs" / file.name)
    assert find_model(str(folder)).family == "wav2vec2"
    other = tmp_path / "other"
    other.mkdir()
    for file in (home / "blobs").iterdir():
        (other / file.name).symlink_to(file)
    assert "leaves the model's folder" in refuse(other).message
    (folder / "vocab.json").symlink_to("/etc/hostname")
    assert "vocab.json" in refuse(folder).message


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ("{}", "no model_type"),
        ('{"model_type": 3}', "no model_type"),
        ("", "empty"),
        ("<!DOCTYPE html>", "web page"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_broken_configs(tmp_path: Path, config: str, message: str) -> None:
    error = refuse(model(tmp_path, config))
    assert message in error.message
    assert "config.json" in error.where
    # The mend is about a model, not about a table.
    assert error.hint
    assert "JSONL" not in error.hint
    assert "table" not in error.hint
    assert ("download" in error.hint) == (message == "web page")


def test_incomplete_folders(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "weights.pt")
    error = refuse(folder)
    assert "no weights" in error.message and "weights.pt" in error.hint
    (folder / "config.json").unlink()
    assert "no config.json" in refuse(folder).message


def header_of(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


GOOD = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()


def changed(**entry: Any) -> bytes:
    return json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **entry}}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\x01\x02", "damaged"),
        (struct.pack("<Q", 2**63) + b"{}", "header would be"),
        (struct.pack("<Q", 5000) + GOOD + bytes(8), "header would be"),
        (header_of(b"not json") + bytes(8), "not JSON"),
        (header_of(b"\xff\xff") + bytes(8), "not JSON"),
        (header_of(b"[]") + bytes(8), "not an object"),
        (header_of(b"[" * 100_000) + bytes(8), "not JSON"),
        (header_of(GOOD) + bytes(7), "the file has"),
        (header_of(GOOD) + bytes(9), "the file has"),
        (header_of(changed(shape=[3])) + bytes(8), "contradicts"),
        (header_of(changed(shape=[-2])) + bytes(8), "contradicts"),
        (header_of(changed(shape=[10**30])) + bytes(8), "not JSON"),
        (header_of(changed(shape=[2**49])) + bytes(8), "contradicts"),
        (header_of(changed(shape=[2**40] * 2)) + bytes(8), "contradicts"),
        (header_of(changed(shape=[1] * 65)) + bytes(8), "contradicts"),
        (header_of(b'{"a": 1, "a": 2}'), "not JSON"),
        (header_of(changed(data_offsets=[8, 0])) + bytes(8), "contradicts"),
        (header_of(changed(data_offsets=[4, 12])) + bytes(12), "gaps"),
        (header_of(changed(data_offsets="ab")) + bytes(8), "contradicts"),
        (header_of(b'{"a": 1}'), "contradicts"),
        (b"<html>" + bytes(100), "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
    ],
)
def test_broken_safetensors(tmp_path: Path, content: bytes, message: str) -> None:
    folder = model(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(content)
    assert message in refuse(folder).message
    assert message in refuse_weights(folder / "model.safetensors").message


def test_safetensors_kinds_are_known(tmp_path: Path) -> None:
    kinds = [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.bool, torch.complex64]
    kinds += [torch.float8_e4m3fn, torch.float8_e5m2, torch.uint8, torch.int16]
    tensors = {str(kind): torch.zeros(3, 5, dtype=kind) for kind in kinds}
    tensors |= {"scalar": torch.tensor(1.0), "none": torch.zeros(0, 4)}
    save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    assert set(load_state_dict(tmp_path / "a.safetensors")) == set(tensors)


@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.bin", "a.th", "a.ckpt", "a.pth.tar"])
@pytest.mark.parametrize("legacy", [False, True])
def test_state_dicts_in_every_wrapping(tmp_path: Path, name: str, legacy: bool) -> None:
    prefixed = {f"module.{key}": value for key, value in TENSORS.items()}
    for content in (TENSORS, prefixed, {"state_dict": prefixed, "epoch": 3}, {"model": TENSORS, "best": 0.5}):
        torch.save(content, tmp_path / name, _use_new_zipfile_serialization=not legacy)
        found = load_state_dict(tmp_path / name)
        assert list(found) == list(TENSORS)
        assert torch.equal(found["a.weight"], TENSORS["a.weight"])


def test_a_prefix_stays_where_not_every_name_has_it(tmp_path: Path) -> None:
    mixed = {"module.a": torch.zeros(1), "b": torch.zeros(1)}
    torch.save(mixed, tmp_path / "a.pt")
    assert list(load_state_dict(tmp_path / "a.pt")) == list(mixed)


def test_a_name_of_very_many_prefixes_is_not_copied_as_often(tmp_path: Path) -> None:
    name = "module." * 1000 + "a"
    save_file({name: torch.zeros(1)}, tmp_path / "a.safetensors")
    (found,) = load_state_dict(tmp_path / "a.safetensors")
    assert len(name) - len(found) == 8 * len("module.")


def test_checkpoints_that_would_run_code_are_refused(tmp_path: Path) -> None:
    path, ran = tmp_path / "a.pt", tmp_path / "ran"
    for legacy in (False, True):
        torch.save({"a": Touch(ran)}, path, _use_new_zipfile_serialization=not legacy)
        assert "run code" in refuse_weights(path).message
    for protocol in range(2, 6):
        path.write_bytes(pickle.dumps({"a": Touch(ran)}, protocol=protocol))
        assert "run code" in refuse_weights(path).message
    torch.save(torch.nn.Linear(2, 2), path)
    error = refuse_weights(path)
    assert "Linear" in error.message and "safetensors" in error.hint
    assert not ran.exists()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_checkpoints(tmp_path: Path, legacy: bool, share: float) -> None:
    path = tmp_path / "a.pt"
    torch.save({"a": torch.ones(5000)}, path, _use_new_zipfile_serialization=not legacy)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert "damaged" in refuse_weights(path).message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello", "damaged"),
        (b"PK\x03\x04" + bytes(50), "damaged"),
        (b"  <!DOCTYPE html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    ],
)
def test_what_is_no_checkpoint(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    assert message in refuse_weights(path).message


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"a": 1}, {}, {"state_dict": {"a": [1]}}, torch.zeros(2)])
def test_what_holds_no_tensors_by_name(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "a.pt")
    assert "state_dict()" in refuse_weights(tmp_path / "a.pt").hint


def test_wrong_kinds_of_path(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "weights.pt")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    assert "is a file" in refuse(tmp_path / "weights.pt").message
    assert "pickle" in refuse(tmp_path / "model.pkl").message
    assert "suffix" in refuse_weights(tmp_path / "model.pkl").message
    assert "folder" in refuse_weights(tmp_path).message
    assert "weights.pt" in refuse_weights(tmp_path / "weigths.pt").hint
    assert "weights.pt" in refuse(tmp_path / "weigths.pt").hint
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("reference", ["a/b/c", "./nope", "../nope", "https://example.org/a", "a..b", "nope.pt", ""])
def test_what_is_no_id_never_reaches_the_hub(reference: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(InputError):
        find_model(reference)


def test_offline_ends_soon_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("waited before another try"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("asked the network"))
    error = refuse("org/no-such-model-at-all")
    assert "local folder" in error.hint
    assert error.where == "org/no-such-model-at-all"


def test_an_existing_folder_wins_over_an_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    model(tmp_path / "org" / "name")
    assert find_model("org/name").path == (tmp_path / "org" / "name").resolve()


@pytest.mark.parametrize("safe", [True, False])
def test_pickles_are_fetched_only_where_there_is_no_safetensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = model(tmp_path / "snapshot")
    asked: list[list[str]] = []
    if not safe:
        (folder / "model.safetensors").unlink()

    def fetch(reference: str, *, allow_patterns: list[str], etag_timeout: float) -> str:
        asked.append(allow_patterns)
        if any(pattern.endswith(".bin") for pattern in allow_patterns):
            torch.save(TENSORS, folder / "pytorch_model.bin")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert find_model("org/name").weights[0].suffix == (".safetensors" if safe else ".bin")
    assert len(asked) == (1 if safe else 2)
    assert not any(pattern.endswith((".py", ".bin")) for pattern in asked[0])


@pytest.mark.real
@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is absent; MILES_TEST_DATA names another place")
def test_real_checkpoints() -> None:
    resnet = load_state_dict(DATA / "classifiers" / "resnet20-12fca82f.th")
    assert "conv1.weight" in resnet and not any(name.startswith("module.") for name in resnet)
    assert resnet["linear.weight"].shape == (10, 64)
    lenet = load_state_dict(DATA / "classifiers" / "mnist_lenet5_clntrained.pt")
    assert lenet["linear1.weight"].shape == (200, 3136)
    assert {tensor.device.type for tensor in lenet.values()} == {"cpu"}


def test_a_header_of_very_long_numbers_takes_no_time(tmp_path: Path) -> None:
    shape = ", ".join(["9" * 4299] * 400)
    header = f'{{"a": {{"dtype": "F32", "shape": [{shape}], "data_offsets": [0, 8]}}}}'.encode()
    (tmp_path / "a.safetensors").write_bytes(header_of(header) + bytes(8))
    start = time.process_time()
    assert "damaged" in refuse_weights(tmp_path / "a.safetensors").message
    # By long products alone it took twelve seconds.
    assert time.process_time() - start < 2


@pytest.mark.parametrize("legacy", [False, True])
def test_parameters_of_a_pickle_are_counted_without_its_numbers(tmp_path: Path, legacy: bool) -> None:
    folder = model(tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save(TENSORS, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    assert count_parameters(find_model(str(folder))) == 8
