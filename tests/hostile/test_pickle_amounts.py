"""Is a file refused that makes much of a few bytes, or that shows one content to its checker and another to torch?"""

import io
import pickle
import pickletools
import struct
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mutations
import pytest
import torch

from probes.errors import InputError
from probes.loading.pickles import check_calls
from probes.loading.weights import read_pickle

NEEDLESS = "more than a checkpoint needs"
WIDE = torch.ones(1).expand(50)
LISTS = [[1.0, 1.0]]
for _ in range(12):
    LISTS = [LISTS, LISTS]  # type: ignore[list-item]


class Noted:
    """A dictionary, or another object, with a state that no writer would give it."""

    def __init__(self, state: Any, function: Any = OrderedDict, *values: Any) -> None:
        self.state, self.function, self.values = state, function, values

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.values, self.state


def rebuilt(name: str, *values: Any) -> mutations.Call:
    return mutations.Call(getattr(torch._utils, f"_rebuild_{name}"), *values)


def quantised(*parameters: Any, size: int = 2, stride: int = 1) -> mutations.Call:
    store = stored_bytes(torch.ones(2))
    scheme = (torch.per_channel_affine, *parameters, 0)
    return rebuilt("qtensor", store, 0, (size,), (stride,), scheme, False, OrderedDict())


def widened(first: Any, then: Any) -> Noted:
    """Return a parameter of one tensor that takes over the numbers of another."""
    return Noted((then, None, OrderedDict(), False, None), torch.nn.Parameter, first)


def stored_bytes(values: torch.Tensor) -> Any:
    return torch.quantize_per_tensor(values, 0.1, 0, torch.qint8)._typed_storage()


def with_state(state: Any) -> mutations.Call:
    return rebuilt("parameter_with_state", torch.ones(2), False, OrderedDict(), state)


TAKEN: dict[str, Callable[[], Any]] = {
    "a dictionary updated by a tensor": lambda: Noted(WIDE),
    "a parameter made anew": lambda: Noted((WIDE, 0, (1,), (1,)), torch.nn.Parameter, torch.ones(1)),
    "a tensor made anew": lambda: Noted(WIDE, torch._utils._rebuild_tensor, torch.ones(1)._typed_storage(), 0, (), ()),
    "a pair that is a tensor": lambda: mutations.Call(OrderedDict, [WIDE]),
    "a pair of more than two": lambda: mutations.Call(OrderedDict, [["a", 1, 2]]),
    "tensors that are counted": lambda: mutations.Call(Counter, [torch.ones(1)]),
    "a tensor as a key": lambda: {torch.ones(1): 1},
    "scales in lists of lists": lambda: quantised(LISTS, LISTS),
    "scales that are one": lambda: quantised(WIDE.double(), WIDE.long(), size=50, stride=0),
    "a part of a sparse tensor that is one": lambda: rebuilt(
        "sparse_tensor", torch.sparse_coo, (torch.zeros(1, 1, dtype=torch.long).expand(1, 50), WIDE, (60,), False)
    ),
    "scales that become wide": lambda: quantised(
        widened(torch.ones(1), WIDE), widened(torch.zeros(1).int(), torch.zeros(1).int().expand(50)), size=1
    ),
    "a side of many beside one of none": lambda: rebuilt(
        "qtensor",
        stored_bytes(torch.ones(2)),
        0,
        (2**27, 0),
        (1, 1),
        (torch.per_channel_affine, torch.ones(1), torch.zeros(1).int(), 0),
        False,
        OrderedDict(),
    ),
    "a parameter of something else": lambda: widened(torch.ones(1), [1.0]),
    "a layout that is written out": lambda: rebuilt("sparse_tensor", LISTS, (torch.ones(1),)),
    "a state that is written out": lambda: with_state((LISTS, LISTS, LISTS)),
    "a state that computes": lambda: with_state({"real": WIDE}),
    "a size of lists": lambda: mutations.Call(torch.Size, LISTS),
    "nested tensors": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", TAKEN)
def test_calls_that_take_a_thing_apart_are_refused(name: str, zipped: bool, tmp_path: Path) -> None:
    torch.save({"a": TAKEN[name]()}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=NEEDLESS):
        read_pickle(tmp_path / "a.pt", device="cpu")


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def name_of(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def again(what: bytes, function: bytes, times: int) -> bytes:
    """Return steps that call a function with the same tuple many times, and keep what it makes."""
    return what + b"q\x01" + function + b"q\x02](" + b"h\x02h\x01R" * times + b"e."


def doubled(times: int) -> bytes:
    """Return steps that leave a tuple of a tuple, twice, of a tuple, twice, and so on."""
    return b")" + b"".join(b"q" + bytes([place]) + b"h" + bytes([place]) + b"\x86" for place in range(times))


def long_keys(keys: int) -> bytes:
    return b"}(" + b"".join(b"\x8a\x0a" + (one * (2**61 - 1)).to_bytes(10, "little") + b"N" for one in range(keys))


NUMBERS = b"](" + b"".join(b"J" + struct.pack("<i", one) for one in range(3000)) + b"e\x85"
STEPS: dict[str, bytes] = {
    "a set of one list, often": again(NUMBERS, name_of("__builtin__", "set"), 300),
    "a dictionary of one list, often": again(b"}q\x05" + b"\x85", name_of("collections", "OrderedDict"), 3)[:-1]
    + b"h\x05(" + b"".join(text(str(one)) + b"N" for one in range(3000)) + b"u" + b"h\x02h\x01R" * 300 + b".",
    "a long text, often": again(text("a" * 20_000) + text("latin1") + b"\x86", name_of("_codecs", "encode"), 300),
    "a long size, often": again(b"(" + b"K\x01" * 3000 + b"t\x85", name_of("torch", "Size"), 300),
    "one large key, often": b"}" + doubled(14) + b"q\x20" + b"Ns" + b"h\x20Ns" * 400 + b".",
    "keys of one hash": long_keys(20_000) + b"u.",
    "long keys": b"}(" + text("a" * 20_000) + b"q\x00" + b"h\x00" * 300 + b"tNs.",
    "sets of nothing": b"]" + (b"(" + b"\x8f" * 1000 + b"e") * 700 + b".",
    "copies of one dictionary": text("a" * 300_000) + again(
        b"}(" + b"".join(text(f"{one:05d}") + b"N" for one in range(20_000)) + b"u\x85",
        name_of("collections", "OrderedDict"), 70,
    ),
    "a tuple of many parts": b"(" + b")" * 300_000 + b"t.",
    "many marks": b"(" * 10_000 + b".",
    "a protocol of frames": b"\x80\x04}.",
    "tuples too deep to hash": b"})" + b"\x85" * 5000 + b"Ns.",
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_make_much_of_little_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(mutations.with_pickle(saved(torch.ones(4)), b"\x80\x02" + STEPS[name]))
    with pytest.raises(InputError, match=NEEDLESS):
        read_pickle(tmp_path / "a.pt", device="cpu")


@pytest.mark.parametrize("part", [b")", b"K\x01", b"N", b"h\x00"])
def test_following_a_pickle_takes_little_memory(part: bytes) -> None:
    steps = b"\x80\x02)q\x00]" + (b"(" + part * 1000 + b"e") * 100 + b"."
    tracemalloc.start()
    check_calls(io.BytesIO(steps), (), room=len(steps))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25 * len(part) * 100_000


def test_the_pickles_of_one_file_share_what_they_may_take() -> None:
    numbers = b"\x80\x02" + long_keys(5000) + b"u."
    check_calls(io.BytesIO(numbers), ())
    with pytest.raises(pickle.UnpicklingError, match="tell apart"):
        check_calls(io.BytesIO(numbers * 5), (), pickles=5)


def saved(content: Any, zipped: bool = True) -> bytes:
    target = io.BytesIO()
    torch.save(content, target, _use_new_zipfile_serialization=zipped)
    return target.getvalue()


def hostile(zipped: bool) -> bytes:
    return saved({"a": mutations.Call(Counter, WIDE)}, zipped)


def rezipped(data: bytes, *more: tuple[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry))
        for name, content in more:
            new.writestr(zipfile.ZipInfo(name), content)
    return target.getvalue()


def two_lists() -> bytes:
    """Return a file whose end leads to one list of entries, with the record of another right before it."""
    other, good = hostile(True), saved({"a": torch.ones(4)})
    data = other + good
    place = data.rindex(b"PK\x06\x07")
    return data[: place + 8] + struct.pack("<Q", other.rindex(b"PK\x06\x06")) + data[place + 16 :]


def one_record_by_many_keys() -> bytes:
    """Return a zip of one record under a name that is spelt in many ways, each of which is loaded by itself."""
    head = text("storage") + b"q\x00" + name_of("torch", "ByteStorage") + b"q\x01" + text("cpu") + b"q\x02]("
    keys = ["".join("Aa"[place >> bit & 1] for bit in range(4)) for place in range(16)]
    steps = head + b"".join(b"(h\x00h\x01" + text(key) + b"h\x02M\x10\x27tQ" for key in keys) + b"e."
    data = rezipped(saved({}), ("archive/data/aaaa", bytes(10_000)))
    return mutations.with_pickle(data, b"\x80\x02" + steps)


def without_numbers() -> bytes:
    """Return a file of the form before the zip that names numbers and holds none."""
    file = io.BytesIO(saved(torch.ones(10**4), False))
    for _ in range(4):
        list(pickletools.genops(file))
    return file.getvalue()[: file.tell()] + pickle.dumps([], protocol=2)


CONTENTS: dict[str, Callable[[], bytes]] = {
    "pickles before a zip": lambda: hostile(False) + rezipped(saved({"a": torch.ones(4)})),
    "an end behind the end": lambda: hostile(True) + b"PK\x05\x06junk",
    "two lists": two_lists,
    "two pickles": lambda: rezipped(saved({"a": torch.ones(4)}), ("archive/DATA.PKL", b"\x80\x02}.")),
    "one record by many keys": one_record_by_many_keys,
    "numbers that are not there": without_numbers,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_files_that_lie_about_what_they_hold_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(CONTENTS[name]())
    with pytest.raises(InputError):
        read_pickle(tmp_path / "a.pt", device="cpu")
