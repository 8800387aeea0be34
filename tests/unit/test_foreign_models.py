"""Is a model of another framework recognised by its content, and told how to become weights, wherever one is taken?"""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from probes.classifiers.classifier_files import load_classifier
from probes.core.errors import InputError
from probes.generators.denoisers import load_denoiser
from probes.generators.generator_files import load_generator
from probes.models.checkpoints import find_model, read_checkpoint
from probes.models.foreign_models import foreign_kind, kind_of
from probes.models.network_weights import read_tensors
from probes.operators.fno.reading import load_operator

# As torch.onnx.export and others begin a file: version, producer; or version and graph.
ONNX = bytes([8, 7, 0x12, 7]) + b"pytorch" + bytes([0x1A, 6]) + b"2.13.0" + bytes([0x3A, 0x80, 1]) + b"\n" * 64
BARE = bytes([8, 9, 0x3A, 0x80, 1]) + b"\n" * 64
CORE_ML = bytes([8, 4, 0x12, 0x94, 1, 0x0A]) + b"\x05image" * 9


def keras(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            file.writestr(name, "{}")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("net.onnx", ONNX, "an ONNX model"),
        ("net.pt", ONNX, "an ONNX model"),
        ("net.onnx", BARE, "an ONNX model"),
        ("net.mlmodel", CORE_ML, "a Core ML model"),
        ("saved_model.pb", bytes([8, 1, 0x12, 0x94, 1, 0x0A]) + b"x" * 20, "a SavedModel of TensorFlow"),
        ("net.tflite", b"\x1c\0\0\0TFL3" + b"\0" * 40, "a TensorFlow Lite model"),
        ("net.h5", b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "a file of HDF5, as Keras writes models and weights"),
        ("model.ckpt.data-00000-of-00001", b"\0" * 40, "a part of a checkpoint of TensorFlow"),
    ],
)
def test_each_is_named_with_the_way_to_weights(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for read in (read_checkpoint, read_tensors, lambda path: load_classifier(str(path), arch="resnet50")):
        with pytest.raises(InputError, match=f"This is {what}, which is not read here") as raised:
            read(path)
        assert raised.value.where == str(path)
        assert "torch.save(model.state_dict(), file)" in str(raised.value.hint)
        assert "--factory module:function --allow-code" in str(raised.value.hint)
        assert ("onnx2torch.convert(path)" in str(raised.value.hint)) == ("ONNX" in what)
    with pytest.raises(InputError, match=what) as raised:
        find_model(str(path))
    assert "save_pretrained()" in str(raised.value.hint) and "--factory" not in str(raised.value.hint)
    with pytest.raises(InputError, match=what):
        load_operator(path)
    with pytest.raises(InputError, match=what):
        load_generator(path, arch="mlp-generator", factory=None, allow_code=False)


def test_a_keras_archive_and_folders_are_named(tmp_path: Path) -> None:
    keras(tmp_path / "net.keras")
    assert foreign_kind(tmp_path / "net.keras") == "a Keras model"
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    (tmp_path / "net.mlpackage" / "Data" / "com.apple.CoreML").mkdir(parents=True)
    reads: list[Callable[[str], object]] = [
        find_model,
        load_classifier,
        load_operator,
        lambda path: load_denoiser(Path(path)),
    ]
    for folder, what in (("saved", "SavedModel"), ("net.mlpackage", "Core ML")):
        for read in reads:
            with pytest.raises(InputError, match=what):
                read(str(tmp_path / folder))


def test_no_weights_of_ours_are_taken_for_any(tmp_path: Path) -> None:
    for count in range(1, 400, 7):
        # The length of the header is what the file begins with.
        save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors", metadata={"x": "y" * count})
        assert foreign_kind(tmp_path / "a.safetensors") == ""
    assert kind_of(bytes([8, 9, 0x1A, 0, 0, 0, 0, 0]) + b'{"a":', "a.safetensors") == ""
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pt")
    torch.save({"a": torch.zeros(1)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert {foreign_kind(tmp_path / name) for name in ("a.pt", "old.pt", "absent", ".")} == {""}


def test_a_factory_that_takes_the_path_may_convert_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(ONNX)
    (tmp_path / "converting_nets.py").write_text(
        "import torch\ndef load(path):\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    found = load_classifier("net.onnx", factory="converting_nets:load", allow_code=True)
    assert found.parameters == 10
