"""Recognise models of other frameworks by their content: ONNX, TensorFlow, Keras, Core ML.

None of them is read. A refusal that says what the file is, and how to get from it to weights by name, spares a search.
"""

import re
from pathlib import Path

from probes.core.errors import InputError

_HEAD = 4096
_ZIP, _HDF5 = b"PK\x03\x04", b"\x89HDF"
_KERAS = (b"metadata.json", b"config.json", b"model.weights.h5")
_TABLE = re.compile(r"\.(index|data-\d{5}-of-\d{5})", re.ASCII)
_ONNX, _SAVED, _CORE_ML = "an ONNX model", "a SavedModel of TensorFlow", "a Core ML model"
_STATE = "Save the state dict of the PyTorch network that it was exported from (torch.save(model.state_dict(), file))"
_FOLDER = "Give the folder of the model in PyTorch that it was exported from, as save_pretrained() writes it"
_CONVERTERS = {_ONNX: "onnx2torch.convert(path)"}
"""What turns a file into a network of PyTorch inside a factory, where a package does."""


def refuse_foreign(path: Path, *, factory: bool = True) -> None:
    """Refuse a file, or a folder, that holds a model of another framework; do nothing with any other.

    Parameters
    ----------
    factory
        Whether the command takes --factory, which the hint then names.

    Raises
    ------
    InputError
        With what it is, and how to get to weights that are read here.
    """
    what = foreign_kind(path)
    if not what:
        return
    hint = f"{_FOLDER}."
    if factory:
        converter = _CONVERTERS.get(what, "")
        wrapped = f"return {converter}" if converter else "build the network in PyTorch and copy the weights into it"
        hint = (
            f"{_STATE} and name its network; or let a function of your own, with the path as its argument, {wrapped}: "
            "--factory module:function --allow-code."
        )
    raise InputError(f"This is {what}, which is not read here.", where=str(path), hint=hint)


def foreign_kind(path: Path) -> str:
    """Name the model of another framework that a file or folder holds; "" where it is none that is known."""
    try:
        if path.is_dir():
            return _folder_kind(path)
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return ""
    return kind_of(head, path.name)


def kind_of(head: bytes, name: str) -> str:
    """Name the model of another framework by the first bytes of its file, and by its name where they leave it open.

    >>> kind_of(bytes([8, 9, 18, 7]) + b"pytorch", "net.bin"), kind_of(b"....TFL3", "net"), kind_of(b"PK", "a.pt")
    ('an ONNX model', 'a TensorFlow Lite model', '')
    """
    low = name.lower()
    if head[4:8] == b"TFL3":
        return "a TensorFlow Lite model"
    if head.startswith(_HDF5):
        return "a file of HDF5, as Keras writes models and weights"
    if head.startswith(_ZIP) and head[30:].startswith(_KERAS):
        return "a Keras model"
    if _TABLE.search(low):
        return "a part of a checkpoint of TensorFlow"
    if low.endswith("saved_model.pb"):
        return _SAVED
    return _protobuf_kind(head, low)


def _folder_kind(path: Path) -> str:
    if (path / "saved_model.pb").is_file() or (path / "saved_model.pbtxt").is_file():
        return _SAVED
    if path.suffix.lower() == ".mlpackage" or (path / "Data" / "com.apple.CoreML").is_dir():
        return _CORE_ML
    return ""


def _protobuf_kind(head: bytes, name: str) -> str:
    """Tell ONNX from Core ML: both begin with field 1, a version, mostly before field 2: a producer, or a description.

    A producer is text; a description begins with a message, whose first tag is a line feed.
    """
    # Safetensors may begin so too, with the length of their header.
    if len(head) < 4 or head[0] != 0x08 or not 0 < head[1] < 64 or head[8:9] == b"{":
        return ""
    if head[2] == 0x12:
        start = 3
        while start < min(len(head), 8) and head[start] & 0x80:
            start += 1
        inner = head[start + 1 : start + 2]
        if inner == b"\n":
            return _SAVED if name.endswith(".pb") else _CORE_ML
        return _ONNX if inner.isalnum() or name.endswith(".onnx") else ""
    # Version of the producer, domain, graph, operator sets.
    return _ONNX if name.endswith(".onnx") or head[2] in (0x1A, 0x22, 0x3A, 0x42) else ""
