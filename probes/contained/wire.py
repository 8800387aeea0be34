"""Messages between a process and the contained children that work for it.

Requests to a child are pickled, since they are ours. Answers are JSON and plain numbers only: a child
that a hostile file has taken over can answer nonsense, and no more.
"""

import json
import pickle
import re
import socket
import sys
from typing import Any

import numpy as np

from probes.contained.limits import ContainedError, LimitError
from probes.core.errors import IncompleteError, InputError, MilesError

_LENGTH = 8
_ERRORS = {"InputError": InputError, "IncompleteError": IncompleteError}
_DTYPE = re.compile(r"[<>|=]?[biufcSU][0-9]{1,9}")
_TENSORS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool", "int8", "int16", "int32",
            "int64", "uint8", "uint16", "uint32", "uint64")  # fmt: skip
"""Kinds of tensors that are handed over: of others (quantised ones) bytes alone make no tensor."""
_SCALARS = (str, int, float, bool)
_PIECE, _HEAD = 2**24, 2**28
"""Bytes that are received at a time, and of an answer without its numbers: values of Python take many times more."""
_NONSENSE = (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError)
"""What an answer that is none may raise."""
_ALIGNMENT = 64


class MalformedAnswer(ValueError):
    """An answer that is malformed."""


def send_request(sock: socket.socket, request: object) -> None:
    """Send a request to a child."""
    data = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
    sock.sendall(len(data).to_bytes(_LENGTH, "little") + data)


def read_request(sock: socket.socket, length: bytes = b"") -> Any:
    """Return the next request; raises EOFError where the other end is closed."""
    size = int.from_bytes(length or _read(sock, _LENGTH), "little")
    return pickle.loads(_read(sock, size))


def send_answer(sock: socket.socket, answer: object) -> None:
    """Send a tree of plain values, arrays and tensors.

    Raises
    ------
    TypeError
        Where a value is of another kind.
    """
    blobs: list[memoryview] = []
    tree = _encode(answer, blobs, {})
    _send(sock, {"tree": tree}, blobs)


def send_error(sock: socket.socket, error: BaseException) -> None:
    """Send the error that a job ended in."""
    head: dict[str, Any] = {"error": type(error).__name__, "text": str(error)[:10_000]}
    if isinstance(error, MilesError):
        head |= {"text": error.message, "where": error.where, "hint": error.hint}
    _send(sock, head, [])


def read_answer(sock: socket.socket, most: int) -> Any:
    """Return the answer of a child.

    Parameters
    ----------
    most
        Bytes that it may have.

    Raises
    ------
    EOFError
        Where the child is gone.
    MalformedAnswer
        Where it sent something else.
    ContainedError, MilesError
        What the job ended in.
    """
    size = int.from_bytes(_read(sock, _LENGTH), "little")
    if size > min(most, _HEAD):
        raise MalformedAnswer(f"an answer of {size} bytes")
    try:
        head = json.loads(_read(sock, size))
        sizes = [int(length) for length in head["blobs"]]
        if min(sizes, default=0) < 0 or sum(sizes) > most:
            raise MalformedAnswer(f"an answer of {sum(sizes)} bytes")
        blobs = [_read_blob(sock, length) for length in sizes]
        if "error" in head:
            raise _error(head)
        return _decode(head["tree"], blobs, {})
    except _NONSENSE as error:
        raise MalformedAnswer(str(error)) from error


def _error(head: dict[str, Any]) -> Exception:
    kind, text = str(head["error"]), str(head["text"])
    if kind in _ERRORS:
        return _ERRORS[kind](text, where=str(head["where"]), hint=str(head["hint"]))
    if kind == "MemoryError":
        return LimitError("memory", "it asks for more memory than it may take")
    return ContainedError(kind[:80], text)


def _send(sock: socket.socket, head: dict[str, Any], blobs: list[memoryview]) -> None:
    data = json.dumps({**head, "blobs": [blob.nbytes for blob in blobs]}).encode()
    sock.sendall(len(data).to_bytes(_LENGTH, "little") + data)
    for blob in blobs:
        sock.sendall(blob)


def _read(sock: socket.socket, size: int) -> bytearray:
    # The buffer grows with what arrives, so that a false size takes no memory.
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(min(size - len(data), _PIECE))
        if not piece:
            raise EOFError
        data += piece
    return data


def _read_blob(sock: socket.socket, size: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    # Pages of an empty array take memory only when they are filled.
    # Aligned as torch does it: results may depend on the alignment in memory.
    room = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    data = room[start : start + size]
    filled = 0
    while filled < size:
        got = sock.recv_into(data[filled:])  # type: ignore[arg-type]
        if not got:
            raise EOFError
        filled += got
    return data


def _encode(value: Any, blobs: list[memoryview], known: dict[Any, int]) -> Any:
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, list | tuple):
        tag = "l" if isinstance(value, list) else "t"
        if all(item is None or type(item) in _SCALARS for item in value):
            return {tag: list(value)}
        return {tag: [_encode(item, blobs, known) for item in value]}
    if isinstance(value, dict):
        pairs = value.items()
        return {"d": [[_encode(key, blobs, known), _encode(item, blobs, known)] for key, item in pairs]}
    if isinstance(value, bytes | bytearray):
        return {"b": _add(memoryview(value), blobs)}
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value, order="C")
        if not _DTYPE.fullmatch(array.dtype.str):
            raise TypeError(f"an array of {array.dtype} cannot be handed over")
        return {"a": [_add(_bytes(array), blobs), array.dtype.str, list(array.shape)]}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return {"T": [_tensor(value, blobs, known), str(value.dtype).removeprefix("torch."), list(value.shape)]}
    raise TypeError(f"a {type(value).__name__} cannot be handed over")


def _add(blob: memoryview, blobs: list[memoryview]) -> int:
    blobs.append(blob)
    return len(blobs) - 1


def _bytes(array: Any) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8)) if array.size else memoryview(b"")


def _tensor(value: Any, blobs: list[memoryview], known: dict[Any, int]) -> int:
    """Return the index of the blob of a tensor; a tensor that has two names is sent once."""
    import torch

    tensor = value.detach()
    key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
    if tensor.numel() == 0 or key not in known:
        flat = tensor.reshape(-1)
        # The stride of a single number may be anything.
        flat = (
            flat if flat.stride(0) == 1 else torch.empty_like(flat, memory_format=torch.contiguous_format).copy_(flat)
        )
        known[key] = _add(_bytes(flat.view(torch.uint8).numpy()), blobs)
    return known[key]


def _decode(tree: Any, blobs: list[Any], known: dict[int, Any]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((tag, inner),) = tree.items()
    match tag:
        case "l" | "t":
            items = [_decode(item, blobs, known) for item in inner]
            return items if tag == "l" else tuple(items)
        case "d":
            return {_decode(key, blobs, known): _decode(item, blobs, known) for key, item in inner}
        case "b":
            return blobs[inner].tobytes()
        case "a":
            index, kind, shape = inner
            if not _DTYPE.fullmatch(kind):
                raise MalformedAnswer("an array of an unknown kind")
            return np.frombuffer(blobs[index], dtype=np.dtype(kind)).reshape(shape)
        case "T":
            index, kind, shape = inner
            return _decode_tensor(index, kind, shape, blobs, known)
    raise MalformedAnswer("an unknown kind of value")


def _decode_tensor(index: int, kind: str, shape: list[int], blobs: list[Any], known: dict[int, Any]) -> Any:
    import torch

    if kind not in _TENSORS:
        raise MalformedAnswer("a tensor of an unknown kind")
    dtype = getattr(torch, kind)
    if index not in known:
        data = blobs[index]
        if not len(data) and 0 not in shape:
            raise MalformedAnswer("a tensor without its numbers")
        flat = torch.frombuffer(data, dtype=dtype) if len(data) else torch.empty(0, dtype=dtype)
        known[index] = flat.reshape(shape)
    return known[index]
