"""Ways to break a file: bytes that flip, vanish or lie, tensors that are not what they should be, pickles that act."""

import io
import json
import pickle
import pickletools
import random
import re
import struct
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

_LIES = (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 2**40)
_VALUES = (None, True, -1, 0, 1, 3, 2**16, 2**31, 2**62, 10**30, 0.5, -1e300, "", "gelu", "\x1b[2J", "../../etc", [],
           [1, 2, 3], {}, {"a": 1}, [[[[]]]])  # fmt: skip


def _flip(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    for _ in range(rng.randint(1, 8)):
        data[place()] ^= 1 << rng.randrange(8)
    return data


def _cut(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    return data[: rng.choice((place(), len(data) - 1, rng.randrange(min(64, len(data)))))]


def _span(data: bytearray, rng: random.Random, place: Callable[[], int]) -> slice:
    start = place()
    return slice(start, start + rng.choice((1, 4, 16, 64, 512, len(data) // 4)))


def _zero(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    part = _span(data, rng, place)
    data[part] = bytes([rng.choice((0, 0xFF))]) * len(data[part])
    return data


def _twice(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    part = _span(data, rng, place)
    return data[: part.stop] + data[part] + data[part.stop :]


def _drop(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    del data[_span(data, rng, place)]
    return data


def _noise(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    part = _span(data, rng, place)
    data[part] = rng.randbytes(len(data[part]))
    return data


def _lie(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    width = rng.choice((4, 8))
    start = place() // 4 * 4
    number = rng.choice(_LIES) & (2 ** (8 * width) - 1)
    data[start : start + width] = number.to_bytes(width, rng.choice(("little", "big")))
    return data


def _digits(data: bytearray, rng: random.Random, place: Callable[[], int]) -> bytearray:
    """Write another number where the file spells one, of the same length or not."""
    found = list(re.finditer(rb"\d+", bytes(data[:4096])))
    if not found:
        return _lie(data, rng, place)
    one = rng.choice(found)
    new = str(rng.choice(_LIES)) if rng.random() < 0.5 else "9" * len(one[0])
    return data[: one.start()] + new.encode() + data[one.end() :]


_BYTES = (_flip, _flip, _cut, _zero, _twice, _drop, _noise, _lie, _lie, _digits)


def broken_bytes(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return the name of a mutation and the bytes that it leaves; headers and ends are hit as often as the rest."""
    size = len(data)
    where = rng.choice(((0, size), (0, min(size, 300)), (max(0, size - 600), size)))
    change = rng.choice(_BYTES)
    return change.__name__, bytes(change(bytearray(data), rng, lambda: rng.randrange(*where)))


def broken_json(text: str, rng: random.Random) -> tuple[str, str]:
    """Return JSON with one value, key or level changed, and what was done."""
    value = json.loads(text)
    holder: Any = value
    while True:
        keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return "empty", "[" * 100_000
        key = rng.choice(keys)
        if not (isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.7):
            break
        holder = holder[key]
    new = rng.choice(_VALUES)
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[str(rng.choice((key, "auto_map", "quantization_config", "torch_dtype", "dtype")))] = new
        case _:
            holder[key] = new
    return f"{key} = {str(new)[:20]!a}", json.dumps(value)


class Act:
    """What asks its reader to call a function; `marker` is made where that is done."""

    def __init__(self, marker: str, how: int = 0) -> None:
        self.marker, self.how = marker, how

    def __reduce__(self) -> tuple[Any, ...]:
        import os
        import subprocess

        calls = (
            (os.mkdir, (self.marker,)),
            (os.system, (f"mkdir {self.marker}",)),
            (eval, (f"__import__('os').mkdir({self.marker!r})",)),
            (subprocess.check_call, (["mkdir", self.marker],)),
        )
        return calls[self.how % len(calls)]


class Call:
    """What asks its reader to call any function."""

    def __init__(self, function: Any, *values: Any) -> None:
        self.function, self.values = function, values

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.values


def acting(marker: str) -> dict[str, Any]:
    """Return contents that would run code, or ask for far more memory or time than they take on the disk."""
    import codecs

    import torch

    wide = torch.zeros(1).expand(2**28)
    found: dict[str, Any] = {f"act {how}": {"fc.weight": Act(marker, how)} for how in range(4)}
    found["act inside a wrapper"] = {"state_dict": {"a": torch.zeros(2)}, "epoch": Act(marker)}
    found["memory of zeros"] = {"a": torch.zeros(2), "b": Call(bytearray, 2**29)}
    found["tensor by its class"] = {"a": Call(torch.Tensor, 2**29)}
    found["copy of one number"] = {
        "a": Call(torch._utils._rebuild_device_tensor_from_cpu_tensor, wide, torch.float64, "cpu", False)
    }
    for function in (set, Counter, OrderedDict, torch.Size):
        found[f"{function.__name__} of one number"] = {"a": Call(function, wide)}
    text: Any = "a" * 1000
    for _ in range(20):
        text = Call(codecs.encode, text, "hex")
    found["text that doubles"] = {"a": text}
    found["view of one number"] = {"fc.weight": wide, "0.weight": wide}
    state = {"numel": torch.Size, "shape": 3, "layout": 3}
    parameter = torch._utils._rebuild_parameter_with_state
    found["methods of its own"] = {"fc.weight": Call(parameter, torch.zeros(2), False, OrderedDict(), {"numel": 3})}
    found["shape of its own"] = {"fc.weight": Call(parameter, torch.zeros(2), False, OrderedDict(), state)}
    found["class by another's name"] = {"a": Call(torch._tensor._rebuild_from_type_v2, bytearray, int, (2**29,), {})}
    found["nested beyond reason"] = {"a": _deep(5000)}
    found["meta"] = {"0.weight": torch.empty(2**40, device="meta")}
    return found


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def key_of_tuples(depth: int = 60) -> bytes:
    """Return a pickle of a dictionary whose one key takes 2^depth steps to be hashed; no writer could write it."""
    pairs = (b"q" + bytes([place]) + b"h" + bytes([place]) + b"\x86" for place in range(depth))
    return b"\x80\x02})" + b"".join(pairs) + b"K\x01s."


def with_pickle(data: bytes, content: bytes) -> bytes:
    """Return a zip of torch.save with another pickle in it."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            new.writestr(
                zipfile.ZipInfo(entry.filename), content if entry.filename.endswith("data.pkl") else old.read(entry)
            )
    return target.getvalue()


def broken_zip(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return a zip whose entries lie: names that lead out, twice the same, compressed zeros, sizes, broken pickles."""
    target = io.BytesIO()
    kind = rng.choice(("names", "twice", "bomb", "less", "swapped", "case", "pickle", "pickle", "opcodes", "opcodes"))
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        entries = old.infolist()
        chosen = rng.choice(entries)
        for entry in entries:
            name, content = entry.filename, old.read(entry)
            if kind == "less" and entry is chosen:
                continue
            if kind == "names" and entry is chosen:
                name = rng.choice(("../", "/tmp/", "C:\\", "a/../../", "\x1b[2J")) + name
            if kind == "case" and entry is chosen:
                name = name.upper()
            if kind == "swapped" and entry is chosen:
                content = old.read(entries[(entries.index(chosen) + 1) % len(entries)])
            if kind == "pickle" and name.endswith(".pkl"):
                content = broken_bytes(content, rng)[1]
            if kind == "opcodes" and name.endswith(".pkl"):
                content = _opcodes(content, rng)
            if kind == "bomb" and entry is chosen:
                new.writestr(zipfile.ZipInfo(name), bytes(64 * 2**20), compress_type=zipfile.ZIP_DEFLATED)
                continue
            new.writestr(zipfile.ZipInfo(name), content)
            if kind == "twice" and entry is chosen:
                new.writestr(zipfile.ZipInfo(name + " "), content)
    return f"zip {kind}", target.getvalue()


def _opcodes(content: bytes, rng: random.Random) -> bytes:
    """Drop, repeat or exchange whole steps of a pickle, or change the numbers in them."""
    try:
        starts = [place for _, _, place in pickletools.genops(content) if place is not None]
    except ValueError:
        return content
    parts = [content[start:end] for start, end in zip(starts, [*starts[1:], len(content)], strict=True)]
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(parts))
        numbers = [at for at, part in enumerate(parts) if part[:1] in b"JKM"]
        match rng.randrange(4):
            case 0:
                del parts[place]
            case 1:
                parts.insert(place, rng.choice(parts))
            case 2:
                parts[place] = rng.choice(parts)
            case _ if numbers:
                parts[rng.choice(numbers)] = b"J" + struct.pack("<i", rng.choice((-1, 0, 2**20, 2**31 - 1)))
        if not parts:
            break
    return b"".join(parts)


def broken_tensors(tensors: dict[str, Any], rng: random.Random) -> tuple[str, Any]:
    """Return tensors by name of which one or more are not what they should be."""
    import torch

    made: dict[Any, Any] = {name: value.clone() for name, value in tensors.items()}
    name = rng.choice(list(made))
    value = made[name]
    kind = rng.choice(
        ("nan", "inf", "huge", "rename", "remove", "extra", "dtype", "flat", "empty", "transposed", "expanded", "grown",
         "scalar", "wrapped", "deep", "number", "key", "complex", "sparse", "most", "meta", "lines", "itself",
         "negative")
    )  # fmt: skip
    match kind:
        case "nan" | "inf" | "huge" | "negative":
            number = {"nan": float("nan"), "inf": float("inf"), "huge": 3e38, "negative": -1.0}[kind]
            made[name] = torch.full(value.shape, number).to(value.dtype)
        case "rename":
            made[rng.choice((f"{name}.0", name.upper(), "", "module.", "fc.weight", "\x1b[2J"))] = made.pop(name)
        case "remove":
            del made[name]
        case "extra":
            made[rng.choice(("more", "0.weight", "conv9.weight", "module.module.", "99999999999.weight"))] = value
        case "dtype":
            made[name] = value.to(rng.choice((torch.float16, torch.float64, torch.int64, torch.bool, torch.uint8)))
        case "flat":
            made[name] = value.flatten()
        case "empty":
            made[name] = value[:0] if value.ndim else torch.zeros(0)
        case "transposed":
            made[name] = value.T.contiguous() if value.ndim == 2 else value[None]
        case "expanded":
            made[name] = torch.zeros(1).expand(*(rng.choice((1, 2**10, 2**14)) for _ in range(max(1, value.ndim))))
        case "scalar":
            made[name] = torch.tensor(1.0)
        case "wrapped":
            made = {rng.choice(("state_dict", "model", "net", "ema", "model_state_dict")): made, "epoch": 3, "arch": 5}
        case "deep":
            for _ in range(rng.choice((2, 30))):
                made = {"state_dict": made}
        case "number":
            made[name] = rng.choice((3, "text", None, [1.0], {"a": value}))
        case "key":
            made[rng.choice((3, None, (1, 2), b"bytes", 2.5))] = made.pop(name)
        case "complex":
            made[name] = torch.zeros(value.shape, dtype=torch.complex64)
        case "sparse":
            made[name] = torch.zeros(value.shape).to_sparse()
        case "most":
            made[name] = torch.zeros(*([1] * rng.choice((9, 60))))
        case "meta":
            made[name] = torch.empty(value.shape, device="meta")
        case "lines":
            made[f"a\nb\x1b[31m{'x' * 100_000}"] = value
        case "itself":
            made["state_dict"] = made
        case "grown":
            made[name] = torch.zeros([2 * size + 1 for size in value.shape])
    return f"tensors {kind} {name}", made


def as_pickle(content: object) -> bytes:
    """Return a plain pickle, as no release of torch writes it."""
    return pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
