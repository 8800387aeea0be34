"""Is what training loops save read, and a file that makes much of a few bytes refused in time, with little memory?"""

import codecs
import io
import os
import pickle
import pickletools
import resource
import struct
import time
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pytest
import torch

from probes.contained import call
from probes.core.errors import InputError
from probes.files import pickles
from probes.files.pickles import Other, read_pickle

NEEDLESS, DAMAGED, CODE = "more than a checkpoint needs", "is damaged", "run code"
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


def saved(content: Any, zipped: bool = True) -> bytes:
    target = io.BytesIO()
    torch.save(content, target, _use_new_zipfile_serialization=zipped)
    return target.getvalue()


def noted(tensor: Any) -> Any:
    tensor.is_shared_by_all = True
    return tensor


HARMLESS: dict[str, Callable[[], Any]] = {
    "weights": lambda: {"a": torch.ones(2, 3), "b": torch.nn.Parameter(torch.ones(2)), "c": torch.ones(2).half()},
    "counters of a training loop": lambda: {"epoch": 3, "loss": np.float64(0.5), "milestones": {3: 1}},
    "an optimiser": lambda: torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]).state_dict(),
    "containers": lambda: OrderedDict(a=({1, 2}, [3], (4, (5,)), 6j, b"bytes", {"b": {}}, None)),
    "a tensor with a note": lambda: {"a": noted(torch.nn.Parameter(torch.ones(2)))},
    "views": lambda: {"a": torch.arange(6.0).view(2, 3).T, "b": torch.arange(6.0)[::2]},
    "seen many times": lambda: {"a": torch.ones(1).expand(50, 60), "b": torch.ones(10).as_strided((5, 6), (1, 1))},
    "other kinds of numbers": lambda: {
        "a": torch.ones(2).bfloat16(),
        "b": torch.tensor([1 + 2j, 3]).conj(),
        "c": torch.tensor([True]),
        "e": torch.empty(0),
        "f": torch.tensor(2.0),
        "g": torch.ones(3).to(torch.float8_e4m3fn).view(torch.uint8),
    },
    "keys that are tuples": lambda: {("a", 1, (2.5, None)): 1, 7: {140_234_567_890_123: 2}, b"c": 3, True: 4},
    "what old releases of Python wrote": lambda: OrderedDict(a=torch.ones(2), b=torch.zeros(1)),
}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_training_loops_save_is_read(name: str, zipped: bool, tmp_path: Path) -> None:
    content, path = HARMLESS[name](), tmp_path / "a.pt"
    old = mutations.Call(OrderedDict, [[key, value] for key, value in content.items()])
    torch.save(old if name.startswith("what old") else content, path, _use_new_zipfile_serialization=zipped)
    found: Any = read_pickle(path)
    known = torch.load(path, weights_only=False)
    assert list(found) == list(content)
    for key, value in content.items():
        if not isinstance(value, torch.Tensor):
            assert found[key] == value and str(found[key]) == str(value)
            continue
        assert torch.equal(found[key], value) and type(found[key]) is torch.Tensor
        # Steps in memory and its room are those that torch gives them: results may depend on them.
        wanted = known[key].resolve_conj()
        assert (found[key].dtype, found[key].stride()) == (wanted.dtype, wanted.stride())
        assert found[key].untyped_storage().nbytes() == wanted.untyped_storage().nbytes()
        assert found[key].untyped_storage().data_ptr() % 64 == 0


LONG: dict[str, Callable[[], Any]] = {
    "a history of steps": lambda: list(range(1_000_000)),
    "numbers that are all alike": lambda: [1] * 1_000_000,
    "rates by time": lambda: {place / 7: place for place in range(6000)},
    "pairs of a tokenizer": lambda: {(f"a{place}", f"b{place % 7}"): place for place in range(50_000)},
}


@pytest.mark.parametrize("name", LONG)
def test_long_plain_values_beside_weights_are_read(name: str, tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "more": LONG[name]()}, tmp_path / "a.pt")
    found: Any = read_pickle(tmp_path / "a.pt")
    assert found["more"] == LONG[name]()


ENDLESS: dict[str, tuple[Callable[[], Any], str]] = {
    "floats": (lambda: {place / 7: place for place in range(9000)}, "more than 8192 keys"),
    "tuples of numbers": (lambda: {("a", place): place for place in range(9000)}, "more than 8192 keys"),
    # The hash of a text without letters is known.
    "tuples of no text": (lambda: {("",) * 2 + (f"{place}",): place for place in range(9000)}, "more than 8192 keys"),
    "one in another": (lambda: [NESTED], r"more than 2\d{5} values"),
    "tensors": (lambda: [torch.ones(1)] * 400_000, r"more than \d{6} containers"),
}
NESTED: list[Any] = []
for _ in range(30):
    NESTED = [NESTED, NESTED, 1]


@pytest.mark.parametrize("name", ENDLESS)
def test_a_refusal_of_too_many_values_names_the_limit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine the limit of time would come first.
    monkeypatch.setattr(pickles, "_SECONDS", 60)
    make, said = ENDLESS[name]
    torch.save({"a": make()}, tmp_path / "a.pt")
    start = time.monotonic()
    with pytest.raises(InputError, match=said) as caught:
        read_pickle(tmp_path / "a.pt")
    assert NEEDLESS in caught.value.message and time.monotonic() - start < 30


@pytest.mark.parametrize("zipped", [True, False])
def test_tied_tensors_stay_one(zipped: bool, tmp_path: Path) -> None:
    one = torch.randn(3, 4)
    torch.save({"a": one, "b": one, "c": one[1:].T, "d": one.clone()}, tmp_path / "a.pt",
               _use_new_zipfile_serialization=zipped)  # fmt: skip
    found: Any = read_pickle(tmp_path / "a.pt")
    first, *others = (found[key].untyped_storage().data_ptr() for key in "abcd")
    assert [place == first for place in others] == [True, True, False]
    assert torch.equal(found["c"], one[1:].T)


@pytest.mark.filterwarnings("ignore")
def test_what_is_no_plain_array_comes_without_numbers(tmp_path: Path) -> None:
    odd = {
        "a": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "b": torch.ones(3).to_sparse(),
        "c": torch.ones(3, device="meta"),
    }
    more = {"d": torch.ones(3), "e": torch.float32, "f": torch.Size([1, 2]), "g": torch.ones(3).to(torch.uint16)}
    torch.save({**odd, **more}, tmp_path / "a.pt")
    found: Any = read_pickle(tmp_path / "a.pt")
    assert {found[key].device.type for key in odd} == {"meta"} and torch.equal(found["d"], torch.ones(3))
    assert isinstance(found["e"], Other) and found["f"] == (1, 2)
    assert found["g"].tolist() == [1, 1, 1]
    bare: Any = read_pickle(tmp_path / "a.pt", held=False)
    assert bare["d"].device.type == "meta" and bare["d"].shape == (3,)


@pytest.mark.parametrize("function", [print, os.system, bytearray, torch.load])
def test_what_would_run_code_is_refused(function: Any, tmp_path: Path) -> None:
    for zipped in (True, False):
        ran = tmp_path / "ran"
        call = mutations.Call(function, f"touch {ran}")
        torch.save({"a": call}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(InputError, match=f"{CODE}|{DAMAGED}") as caught:
            read_pickle(tmp_path / "a.pt")
        assert caught.value.where == str(tmp_path / "a.pt") and caught.value.hint
        assert not ran.exists()


def rebuilt(name: str, *values: Any) -> mutations.Call:
    return mutations.Call(getattr(torch._utils, f"_rebuild_{name}"), *values)


def with_state(state: Any) -> mutations.Call:
    return rebuilt("parameter_with_state", torch.ones(2), False, OrderedDict(), state)


ODD: dict[str, Callable[[], Any]] = {
    "a dictionary updated by a tensor": lambda: Noted(WIDE),
    "a parameter made anew": lambda: Noted((WIDE, 0, (1,), (1,)), torch.nn.Parameter, torch.ones(1)),
    "a tensor made anew": lambda: Noted(WIDE, torch._utils._rebuild_tensor, torch.ones(1)._typed_storage(), 0, (), ()),
    "a pair that is a tensor": lambda: mutations.Call(OrderedDict, [WIDE]),
    "a pair of more than two": lambda: mutations.Call(OrderedDict, [["a", 1, 2]]),
    "tensors that are counted": lambda: mutations.Call(Counter, [torch.ones(1)]),
    "a tensor as a key": lambda: {torch.ones(1): 1},
    "a parameter of something else": lambda: Noted(([1.0], None, OrderedDict(), False, None), torch.nn.Parameter, WIDE),
    "a layout that is written out": lambda: rebuilt("sparse_tensor", LISTS, (torch.ones(1),)),
    "a state that is written out": lambda: with_state((LISTS, LISTS, LISTS)),
    "a state that computes": lambda: with_state({"real": WIDE}),
    "a size of lists": lambda: mutations.Call(torch.Size, LISTS),
    "a text in a strange encoding": lambda: mutations.Call(codecs.encode, "a", "hex"),
    "a tensor outside its storage": lambda: rebuilt("tensor_v2", torch.ones(2)._typed_storage(), 0, (2**40,), (1,),
                                                    False, OrderedDict()),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ODD)
def test_what_no_writer_makes_is_refused(name: str, zipped: bool, tmp_path: Path) -> None:
    torch.save({"a": ODD[name]()}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=f"{NEEDLESS}|{DAMAGED}|{CODE}"):
        read_pickle(tmp_path / "a.pt")


@pytest.mark.parametrize("name", ["numel", "items", "__len__", "__class__"])
def test_what_a_file_writes_onto_its_objects_stays_behind(name: str, tmp_path: Path) -> None:
    state: OrderedDict[str, Any] = OrderedDict({name: 3})
    torch.save({"inner": [{"a": with_state(OrderedDict(numel=3, element_size=None))}]}, tmp_path / "a.pt")
    found: Any = read_pickle(tmp_path / "a.pt")
    assert found["inner"][0]["a"].numel() == 2
    torch.save({"inner": [Noted(state, OrderedDict, [["a", 1]])]}, tmp_path / "a.pt")
    try:
        found = read_pickle(tmp_path / "a.pt")
    except InputError:
        return
    assert type(found["inner"][0]) is dict and list(found["inner"][0].items()) == [("a", 1)]


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def name_of(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def again(what: bytes, function: bytes, times: int) -> bytes:
    """Return steps that call a function with the same tuple many times, and keep what it makes."""
    return what + b"q\x01" + function + b"q\x02](" + b"h\x02h\x01R" * times + b"e."


def doubled(times: int, last: bytes = b")") -> bytes:
    """Return steps that leave a tuple of a tuple, twice, of a tuple, twice, and so on."""
    return last + b"".join(b"q" + bytes([place]) + b"h" + bytes([place]) + b"\x86" for place in range(times))


def long_keys(keys: int) -> bytes:
    return b"}(" + b"".join(b"\x8a\x0a" + (one * (2**61 - 1)).to_bytes(10, "little") + b"N" for one in range(keys))


NUMBERS = b"](" + b"".join(b"J" + struct.pack("<i", one) for one in range(3000)) + b"e\x85"
STEPS: dict[str, bytes] = {
    "a key of tuples in tuples (timebomb)": mutations.key_of_tuples(60)[2:],
    "a bytearray of a number (membomb)": name_of("builtins", "bytearray") + b"\x8a\x05" + (2**33).to_bytes(5, "little")
    + b"\x85R.",
    "a set of one list, often": again(NUMBERS, name_of("__builtin__", "set"), 300),
    "a long size, often": again(b"(" + b"K\x01" * 3000 + b"t\x85", name_of("torch", "Size"), 300),
    "tuples in tuples": doubled(60) + b".",
    "tuples of texts in tuples": doubled(40, text("a" * 1000)) + b".",
    "a long text, very often": again(text("a" * 10**6) + text("latin1") + b"\x86", name_of("_codecs", "encode"), 3000),
    "keys of one hash": long_keys(20_000) + b"u.",
    "sets of nothing": b"]" + (b"(" + b"\x8f" * 1000 + b"e") * 700 + b".",
    "a tuple of many parts": b"(" + b")" * 300_000 + b"t.",
    "many marks": b"(" * 10_000 + b".",
    "tuples too deep to hash": b"})" + b"\x85" * 5000 + b"Ns.",
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_make_much_of_little_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "timebomb" in name:
        # Nothing but its time ends this one.
        monkeypatch.setattr("probes.files.pickles._SECONDS", 1)
    (tmp_path / "a.pt").write_bytes(mutations.with_pickle(saved(torch.ones(4)), b"\x80\x02" + STEPS[name]))
    before = resource.getrusage(resource.RUSAGE_SELF)
    with pytest.raises(InputError, match=f"{NEEDLESS}|{DAMAGED}|{CODE}"):
        read_pickle(tmp_path / "a.pt")
    after = resource.getrusage(resource.RUSAGE_SELF)
    # Nothing of it happened in this process.
    assert after.ru_utime - before.ru_utime < 3 and after.ru_maxrss - before.ru_maxrss < 200_000


def rezipped(data: bytes, *more: tuple[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry))
        for name, content in more:
            new.writestr(zipfile.ZipInfo(name), content)
    return target.getvalue()


def raw_zip(entries: list[tuple[bytes, int, bytes]]) -> bytes:
    """Return a zip of entries (name as bytes, flags, content), whatever a reader makes of the names."""
    import zlib

    body, listed = b"", b""
    for name, flags, content in entries:
        sizes = struct.pack("<IIIHH", zlib.crc32(content), len(content), len(content), len(name), 0)
        common = struct.pack("<HHHHH", 20, flags, 0, 0, 33) + sizes
        listed += b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name
        body += b"PK\x03\x04" + common + name + content
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(listed), len(body), 0)
    return body + listed + b"PK\x05\x06" + end


def two_names(bomb: bytes) -> bytes:
    """Return a zip whose two pickles have one name for torch, and two for a reader that decodes names."""
    name = b"\xe2\x84\xaaX"
    harmless = b"\x80\x02" + b"}" + text("w") + b"K\x01s."
    return raw_zip([
        (name + b"/data.pkl", 0, bomb), (name + b"/data.pkl", 0x800, harmless), (name + b"/version", 0, b"3\n"),
    ])  # fmt: skip


def kelvin() -> bytes:
    """Return a zip that claims a megabyte by the key of the Kelvin sign, whose small letter is an ordinary k."""
    head = text("storage") + b"q\x00" + name_of("torch", "ByteStorage") + b"q\x01"
    steps = head[: -len(b"q\x01")] + b"X\x03\x00\x00\x00\xe2\x84\xaa" + text("cpu") + b"\x8a\x03\x00\x00\x10"
    steps = b"\x80\x02" + name_of("torch._utils", "_rebuild_tensor_v2") + b"((" + steps + b"tQK\x00"
    steps += b"J\x00\x00\x10\x00\x85K\x01\x85\x89" + name_of("collections", "OrderedDict") + b")RtR."
    return raw_zip([
        (b"a/data.pkl", 0, steps), (b"a/version", 0, b"3\n"), (b"a/data/\xe2\x84\xaa", 0x800, bytes(16)),
        (b"a/data/k", 0, bytes(2**20)),
    ])  # fmt: skip


def two_lists() -> bytes:
    """Return a file whose end leads to one list of entries, with the record of another right before it."""
    other, good = saved({"b": torch.ones(4)}), saved({"a": torch.ones(4)})
    data = other + good
    place = data.rindex(b"PK\x06\x07")
    return data[: place + 8] + struct.pack("<Q", other.rindex(b"PK\x06\x06")) + data[place + 16 :]


def one_record_by_many_keys() -> bytes:
    """Return a zip of one record under a name that is spelt in many ways, each of which is loaded by itself."""
    head = text("storage") + b"q\x00" + name_of("torch", "ByteStorage") + b"q\x01" + text("cpu") + b"q\x02"
    head += (
        name_of("torch._utils", "_rebuild_tensor_v2") + b"q\x03" + name_of("collections", "OrderedDict") + b"q\x04]("
    )
    keys = ["".join("Aa"[place >> bit & 1] for bit in range(4)) for place in range(16)]
    steps = head + b"".join(
        b"h\x03((h\x00h\x01" + text(key) + b"h\x02M\x10\x27tQK\x00M\x10\x27\x85K\x01\x85\x89h\x04)RtR" for key in keys
    )
    data = rezipped(saved({}), ("archive/data/aaaa", bytes(10_000)))
    return mutations.with_pickle(data, b"\x80\x02" + steps + b"e.")


def without_numbers() -> bytes:
    """Return a file of the form before the zip that names numbers and holds none."""
    file = io.BytesIO(saved(torch.ones(10**4), False))
    for _ in range(4):
        list(pickletools.genops(file))
    return file.getvalue()[: file.tell()] + pickle.dumps([], protocol=2)


def tarred() -> bytes:
    """Return a tar, which torch wrote in its first releases."""
    import tarfile

    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in ("storages", "tensors", "pickle"):
            entry = tarfile.TarInfo(name)
            entry.size = 2
            archive.addfile(entry, io.BytesIO(b"}."))
    return target.getvalue()


def moved_record() -> bytes:
    """Return a zip of which one record is compressed: its bytes are not where they seem to be."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved({"a": torch.zeros(1000)}))) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            kind = zipfile.ZIP_DEFLATED if "/data/" in entry.filename else zipfile.ZIP_STORED
            new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry), kind)
    return target.getvalue()


CONTENTS: dict[str, Callable[[], bytes]] = {
    "timebomb.pt": lambda: two_names(mutations.key_of_tuples(60)),
    "membomb.pt": lambda: two_names(b"\x80\x02" + STEPS["a bytearray of a number (membomb)"]),
    "kelvin.pt": kelvin,
    "a name with NUL": lambda: raw_zip([(b"a/data.pkl\0x", 0, b"\x80\x02}."), (b"a/version", 0, b"3\n")]),
    "pickles before a zip": lambda: saved({"b": WIDE}, False) + rezipped(saved({torch.ones(1): 1})),
    "an end behind the end": lambda: saved({"a": WIDE}) + b"PK\x05\x06junk",
    "two lists": two_lists,
    "two pickles": lambda: rezipped(saved({"a": torch.ones(4)}), ("archive/DATA.PKL", b"\x80\x02}.")),
    "numbers that are not there": without_numbers,
    "a tar": tarred,
    "a compressed record": moved_record,
}


@pytest.mark.parametrize("name", [name for name in CONTENTS if name != "pickles before a zip"])
def test_files_that_lie_about_what_they_hold_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(CONTENTS[name]())
    start = time.process_time()
    with pytest.raises(InputError, match=f"{DAMAGED}|{NEEDLESS}"):
        read_pickle(tmp_path / "a.pt")
    assert time.process_time() - start < 3


def test_what_stands_before_a_zip_is_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(CONTENTS["pickles before a zip"]())
    assert list(read_pickle(tmp_path / "a.pt")) == ["b"]  # type: ignore[call-overload]


def test_one_record_by_many_keys_is_held_once(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(one_record_by_many_keys())
    found: Any = read_pickle(tmp_path / "a.pt")
    assert len(found) == 16 and len({one.untyped_storage().data_ptr() for one in found}) == 1


def test_a_file_without_checksums_is_read(tmp_path: Path) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.arange(1000)}, tmp_path / "a.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    found: Any = read_pickle(tmp_path / "a.pt")
    assert torch.equal(found["a"], torch.arange(1000))


@pytest.mark.parametrize("record", ["byteorder", "BYTEORDER", "ByteOrder"])
def test_a_file_of_another_byte_order_is_turned_around(record: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(saved({"a": torch.tensor([1, 256], dtype=torch.int16)}))) as old:
        entries = [(entry.filename, old.read(entry)) for entry in old.infolist()]
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as new:
        for name, content in entries:
            order = name.endswith("byteorder")
            new.writestr(zipfile.ZipInfo(name.replace("byteorder", record)), b"big" if order else content)
    found: Any = read_pickle(tmp_path / "a.pt")
    assert found["a"].tolist() == torch.load(tmp_path / "a.pt")["a"].tolist() == [256, 1]


def parts_before_zip(data: bytes) -> tuple[bytes, list[str], bytes]:
    """Return the head of a file of the form before the zip, the keys of its storages, and their numbers."""
    file, ends = io.BytesIO(data), []
    for _ in range(5):
        for _step in pickletools.genops(file):
            pass
        ends.append(file.tell())
    return data[: ends[3]], pickle.loads(data[ends[3] : ends[4]]), data[ends[4] :]


def test_numbers_that_are_given_twice_are_refused(tmp_path: Path) -> None:
    """torch keeps those that it reads last."""
    head, keys, first = parts_before_zip(saved({"a": torch.ones(2), "b": torch.ones(2)}, zipped=False))
    last = parts_before_zip(saved({"a": torch.full((2,), 9.0), "b": torch.full((2,), 9.0)}, zipped=False))[2]
    (tmp_path / "a.pt").write_bytes(head + pickle.dumps(keys + keys, 2) + first + last)
    assert torch.load(tmp_path / "a.pt")["a"].tolist() == [9, 9]
    with pytest.raises(InputError, match="fills the same tensor twice"):
        read_pickle(tmp_path / "a.pt")


@pytest.mark.parametrize(
    "tree",
    [
        ("tensor", "float32", 0, 0, [50], [1]),
        ("tensor", "float32", 0, -1, [1], [1]),
        ("tensor", "float32", 0, 0, [1], [-1]),
        ("tensor", "float32", 7, 0, [1], [1]),
        ("tensor", "load", 0, 0, [1], [1]),
        ("odd", "load", [1]),
        ("name", "os.system"),
        ("dict", [("list", [])], [1]),
        ("dict", [1, 2], [1]),
        ("tensor",),
        (),
    ],
)
def test_a_reader_that_was_taken_over_makes_nothing_of_it(
    tree: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(saved({"a": torch.ones(2)}))
    answer = {"tree": tree, "storages": [torch.zeros(8, dtype=torch.uint8)]}
    monkeypatch.setattr("probes.files.pickles.call", lambda *args, **options: answer)
    with pytest.raises(InputError, match=DAMAGED):
        read_pickle(path)


@pytest.mark.parametrize("most", [0, 2**30])
def test_numbers_read_ahead_are_those_read_afterwards(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = torch.arange(6.0)
    content = {"a": shared, "b": shared[2:].view(2, 2), "c": torch.ones(3, dtype=torch.int16), "d": torch.zeros(0)}
    path = tmp_path / "weights.pt"
    path.write_bytes(saved(content))
    monkeypatch.setattr("probes.files.pickles._AHEAD", most)
    found: Any = read_pickle(path)
    assert all(torch.equal(found[name], value) for name, value in content.items())
    found["a"][2] = 7.0
    assert found["b"][0, 0] == 7.0


@pytest.mark.parametrize("how", ["replaced", "written", "cut off", "gone"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, later = tmp_path / "run.pt", tmp_path / "next.pt"
    path.write_bytes(saved({"old": torch.ones(4)}))
    # Clocks of files may be coarse.
    os.utime(path, (1, 1))
    later.write_bytes(saved({"new": torch.full((4,), 2.0)}))

    def change_first(*args: Any, meanwhile: Callable[[], None], **options: Any) -> Any:
        meanwhile()
        if how == "replaced":
            later.replace(path)
        elif how == "written":
            path.write_bytes(later.read_bytes())
        elif how == "cut off":
            path.write_bytes(later.read_bytes()[:200])
        else:
            path.unlink()
        return call(*args, **options)

    monkeypatch.setattr("probes.files.pickles.call", change_first)
    with pytest.raises(InputError, match="No such file" if how == "gone" else "changed while it was read"):
        read_pickle(path)


@pytest.mark.parametrize("place", [(0, 8), (-1, 8), (10**9, 8), (10**9, 10**12), (64, -1)])
def test_places_of_bytes_that_are_none_are_refused(
    place: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(saved({"a": torch.ones(2)}))
    answer = {"tree": ("tensor", "float32", 0, 0, [2], [1]), "storages": [place]}
    monkeypatch.setattr("probes.files.pickles.call", lambda *args, **options: answer)
    with pytest.raises(InputError, match=DAMAGED):
        read_pickle(path)
