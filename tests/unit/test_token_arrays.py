import io
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audits.phoneme_errors.tokens import NO_FEATURE, NO_PHONE, Tokens, read_tokens, write_tokens
from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.core.progress import Silent
from probes.vectors import token_arrays

RNG = np.random.default_rng(5)
N, WIDTH, DEPTH = 9, 4, 3
PHONES = np.array(list("sasatzzas"))
SPEAKERS = np.array(["b", "a", "a"] * 3)
ACCENT = np.array(["north", "south", "south"] * 3)
CUBE = RNG.normal(size=(DEPTH, N, WIDTH)).astype(np.float32)
LABELS = {"phone": PHONES, "speaker": SPEAKERS, "accent": ACCENT}
SAVERS = (np.savez, np.savez_compressed)


def save(folder: Path, saver=np.savez, /, **arrays) -> Path:
    path = folder / f"t{len(list(folder.iterdir()))}.npz"
    saver(path, **{**LABELS, **arrays})
    return path


def read(path: Path, **options) -> Tokens:
    return read_tokens(path, **{"by": ("accent",), **options})


def held(tokens: Tokens, layer: int = 0, size: int = 4) -> np.ndarray:
    parts = list(tokens.vectors.chunks(layer, size))
    assert all(0 < len(part) <= size and part.dtype == np.float32 for part in parts)
    return np.concatenate(parts)


def refuse(path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert str(path) in caught.value.where
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.where} | {caught.value.hint}"


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize(
    ("arrays", "options", "layers"),
    [
        ({"features": CUBE[0]}, {}, {0: CUBE[0]}),
        ({"features": CUBE[0], "layers": np.array([7])}, {}, {7: CUBE[0]}),
        ({"features": CUBE}, {}, dict(enumerate(CUBE))),
        ({"features": CUBE, "layers": np.array([9, -1, 4])}, {}, dict(zip((9, -1, 4), CUBE, strict=True))),
        ({"features": CUBE}, {"layers": (2, 0)}, {2: CUBE[2], 0: CUBE[0]}),
        ({"layer_10": CUBE[1], "layer_2": CUBE[0, :, :2]}, {}, {2: CUBE[0, :, :2], 10: CUBE[1]}),
        ({"layer1": CUBE[1], "layer_-1": CUBE[0]}, {}, {-1: CUBE[0], 1: CUBE[1]}),
        ({"layer_3": CUBE[1]}, {}, {3: CUBE[1]}),
        ({"layer_0": CUBE[1], "layer_1": CUBE[2]}, {"features": ("layer_1",)}, {1: CUBE[2]}),
        ({"hidden": CUBE, "features": CUBE[0]}, {"features": ("hidden",)}, dict(enumerate(CUBE))),
        ({f"x{k}": CUBE[0, :, k] for k in (2, 0, 3, 1)}, {}, {0: CUBE[0]}),
        ({"x0": CUBE[0, :, 3]}, {}, {0: CUBE[0, :, 3:]}),
        ({"f1": CUBE[0, :, 1], "f0": CUBE[0, :, 0]}, {"features": ("f0..f1",)}, {0: CUBE[0, :, :2]}),
        ({"features": CUBE.astype(np.float64)}, {}, dict(enumerate(CUBE))),
        ({"features": CUBE.astype(">f4")}, {}, dict(enumerate(CUBE))),
        ({"features": CUBE.astype(np.float16)}, {}, dict(enumerate(CUBE.astype(np.float16)))),
        ({"features": (CUBE[0] * 9).astype(np.int8)}, {}, {0: (CUBE[0] * 9).astype(np.int8)}),
    ],
)
def test_every_form_gives_back_what_was_stored(tmp_path, saver, arrays, options, layers) -> None:
    path = save(tmp_path, saver, **arrays)
    found = read(path, **options)
    assert found.vectors.layers == tuple(layers)
    for layer, values in layers.items():
        assert found.vectors.width(layer) == values.shape[1]
        for size in (1, 4, 100):
            assert np.array_equal(held(found, layer, size), values.astype(np.float32))
    assert [found.phone_names[place] for place in found.phones] == PHONES.tolist()
    assert [found.speaker_names[place] for place in found.speakers] == SPEAKERS.tolist()
    assert [found.level_names["accent"][place] for place in found.levels["accent"]] == ACCENT.tolist()
    assert (found.given, found.skipped, found.lines.tolist()) == (N, {}, list(range(N)))
    assert found.sha256 == sha256_file(path)
    first = next(iter(arrays))
    assert found.features == (options.get("features") and ("f0", "f1") if first == "f1" else found.features)
    assert bool(found.features) == (arrays[first].ndim == 1)


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (np.arange(N) % 2, ["0", "1"]),
        (np.array([b"a", b"\xc3\xa9"] * 4 + [b"a"]), ["a", "\u00e9"]),
        (np.array([True, False] * 4 + [True]), ["false", "true"]),
        (np.array([25.0, 0.5] * 4 + [25.0]), ["0.5", "25"]),
        (np.array(["a ", " a"] * 4 + ["b"]), ["a", "b"]),
    ],
)
def test_labels_are_texts_or_numbers(tmp_path, labels, shown) -> None:
    found = read(save(tmp_path, phone=labels, features=CUBE))
    assert list(found.phone_names) == shown


@pytest.mark.parametrize("saver", SAVERS)
def test_a_token_that_is_not_finite_in_one_layer_is_left_out_of_all(tmp_path, saver) -> None:
    values = CUBE.astype(np.float64)
    values[0, 1, 2], values[2, 5, 0], values[1, 5, 1], values[1, 8, 1] = np.nan, np.inf, -np.inf, 1e39
    phones = PHONES.copy()
    phones[0] = ""
    path = save(tmp_path, saver, phone=phones, features=values)
    found = read(path, on_bad="skip")
    kept = [2, 3, 4, 6, 7]
    assert (found.given, found.skipped, found.lines.tolist()) == (N, {NO_PHONE: 1, NO_FEATURE: 3}, kept)
    for layer in range(DEPTH):
        for size in (1, 2, 50):
            assert np.array_equal(held(found, layer, size), CUBE[layer, kept])
    # Only the layers that are read are asked.
    assert read(path, on_bad="skip", layers=(2,)).skipped == {NO_PHONE: 1, NO_FEATURE: 1}
    assert "no phone | " + f"{path}, phone[0]" in refuse(path).replace("The token has ", "").replace(". |", " |")


@pytest.mark.parametrize("saver", SAVERS)
def test_iterators_start_again_and_run_side_by_side(tmp_path, saver) -> None:
    vectors = read(save(tmp_path, saver, features=CUBE)).vectors
    one, two, three = vectors.chunks(2, 3), vectors.chunks(0, 2), vectors.chunks(2, 3)
    got = [(next(one), next(two), next(three)) for _ in range(3)]
    assert np.array_equal(np.concatenate([part[0] for part in got]), CUBE[2])
    assert np.array_equal(np.concatenate([part[1] for part in got]), CUBE[0, :6])
    assert np.array_equal(np.concatenate([part[2] for part in got]), CUBE[2])
    got[0][0][:] = 0
    assert np.array_equal(next(vectors.chunks(2, 3)), CUBE[2, :3])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_logarithm_is_taken_of_what_is_above_nought(tmp_path, dtype) -> None:
    values = np.exp(CUBE).astype(dtype)
    values[0, 3, 1] = np.nan
    found = read(save(tmp_path, features=values), transform="log")
    assert found.skipped == {NO_FEATURE: 1}
    kept = [0, 1, 2, *range(4, N)]
    np.testing.assert_array_equal(held(found, 1), np.log(values[1, kept].astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize(
    ("arrays", "place"),
    [
        (lambda values: {"features": values}, "layer 1 [token 7, number 2]"),
        (lambda values: {"layer_5": values[1], "layer_4": values[0]}, "layer 5 [token 7, number 2]"),
        (lambda values: {f"x{k}": values[1, :, k] for k in range(WIDTH)}, "x2[7]"),
    ],
)
def test_what_has_no_logarithm_is_told_with_its_place(tmp_path, arrays, place) -> None:
    values = np.exp(CUBE)
    values[1, 7, 2] = 0
    path = save(tmp_path, **arrays(values))
    assert f"0 has no logarithm. | {path}, {place}" in refuse(path, transform="log")
    # Also where it is not in the first piece that is read.
    vectors = replace(read(path).vectors, transform="log")
    with pytest.raises(InputError) as caught:
        vectors.usable(Silent(), piece=3 * 8 * WIDTH)
    assert caught.value.where == f"{path}, {place}"


class Watch:
    def __init__(self) -> None:
        self.steps: list[int] = []

    @contextmanager
    def phase(self, name, total, unit) -> Iterator[Callable[[int], None]]:
        self.opened = (name, total, unit)
        yield self.steps.append


def test_progress_counts_tokens_over_all_layers(tmp_path) -> None:
    watch = Watch()
    assert read(save(tmp_path, features=CUBE)).vectors.usable(watch, piece=2 * 8 * WIDTH).all()
    assert watch.opened == ("Checking tokens", N, "tokens")
    assert sum(watch.steps) == N
    assert len(watch.steps) == 5 * DEPTH


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({"speaker": SPEAKERS[:8]}, {}, ("'speaker' has the shape (8,)", "'phone' holds 9 tokens")),
        ({"accent": ACCENT[:1]}, {}, ("'accent' has the shape (1,)", "'phone' holds 9 tokens")),
        ({"features": CUBE[0, :8]}, {}, ("'features' has the shape (8, 4)", "'phone' holds 9 tokens")),
        ({"features": CUBE.transpose(1, 0, 2).copy()}, {}, ("(9, 3, 4)", "x.transpose(1, 0, 2)")),
        ({"features": None, "layer_0": CUBE[0], "layer_1": CUBE[1, :3]}, {}, ("'layer_1' has the shape (3, 4)",)),
        ({"features": None, "x0": CUBE[0, :, 0], "x1": CUBE[0, :3, 0]}, {}, ("'x1' has the shape (3,)",)),
        ({"features": None, "x0": CUBE[0, :, 0], "x1": CUBE[0]}, {}, ("'x1' has the shape (9, 4)", "alone is")),
        ({"features": None, "layer_0": CUBE[0], "layer0": CUBE[0]}, {}, ("not one for each layer", "once")),
        ({"a": CUBE[0], "layer_0": CUBE[0]}, {"features": ("a", "layer_0")}, ("not one for each layer",)),
        ({"features": None, "layer_0": CUBE}, {}, None),
        ({"features": CUBE[None]}, {}, ("(1, 3, 9, 4)", "(layers, tokens, width)")),
        ({"features": np.float32(3)}, {}, ("shape ()",)),
        ({"features": CUBE[:, :, :0]}, {}, ("vectors of 0 numbers",)),
        ({"features": CUBE[:0]}, {}, ("no such layers: none",)),
        ({"features": np.zeros((2000, N, 1), np.int8)}, {}, ("2000 layers", "at most 1024")),
        ({"features": np.zeros((N, 2**16 + 1), np.int8)}, {}, ("vectors of 65537 numbers", "65536")),
        ({"layers": np.arange(2)}, {}, ("'layers' does not number the 3 of 'features'",)),
        ({"layers": np.array([1, 1, 2])}, {}, ("'layers' does not number",)),
        ({"layers": np.arange(3.0)}, {}, ("'layers' does not number", "one integer")),
        ({}, {"layers": (1, 5)}, ("no such layers: 1, 5", "0, 1, 2", "--layers")),
        ({}, {"layers": (1, 1)}, ("no such layers: 1, 1", "Name each once")),
        ({"features": None, "emb": CUBE[0]}, {}, ("no features x0, x1", "--features emb")),
        ({"layer_0": CUBE[0]}, {}, ("may be features or layer_0", "--features features")),
        ({"x0": CUBE[0, :, 0]}, {}, ("may be features or x0",)),
        ({}, {"features": ("featurs",)}, ("no column 'featurs'", "Did you mean 'features'")),
        ({}, {"by": ("dialect",)}, ("no column 'dialect'", "--by")),
        ({"features": CUBE.astype(str)}, {}, ("type <U32, not of plain numbers", "float16, float32")),
        ({"features": CUBE[0].astype(">f2").view("V2")}, {}, ("|V2", "x.float().numpy()")),
        ({"features": CUBE * 1j}, {}, ("complex",)),
        ({"features": CUBE > 0}, {}, ("type bool",)),
        ({"features": np.asfortranarray(CUBE[0])}, {}, ("Fortran order", "ascontiguousarray")),
        ({"features": CUBE.astype(object)}, {}, ("Python objects, which are not unpickled", "plain numbers")),
        ({"phone": PHONES.astype(object)}, {}, ("'phone' holds Python objects",)),
        ({"phone": PHONES[None]}, {}, ("'phone' has the shape (1, 9)", "one label for each token")),
        ({"phone": PHONES.astype("U1").view("V4")}, {}, ("type |V4",)),
        ({"phone": PHONES.astype("U257")}, {}, ("room for 257 characters; 1 to 256",)),
        ({"phone": PHONES.astype("S1000000")}, {}, ("room for 1000000 characters",)),
        ({"phone": np.array([b"\xff"] * N)}, {}, ("not UTF-8 text", "phone[0]")),
        ({"phone": np.array(["a"] * 8 + ["\ud800"])}, {}, ("not UTF-8 text", "phone[8]")),
        ({"phone": np.full(N, 0x7FFFFFFF, np.uint32).view("U1")}, {}, ("cannot be read",)),
        ({"phone": PHONES[:0], "speaker": PHONES[:0], "accent": PHONES[:0]}, {}, ("holds 0 tokens",)),
        ({"features": np.full(CUBE.shape, np.nan)}, {}, ("No token is left: 9 (a feature",)),
        ({"speaker": np.array(["s", "NA", "s"] * 3)}, {}, ("no speaker", "speaker[1]", "--on-bad skip")),
    ],
)
def test_arrays_that_cannot_be_used_are_told(tmp_path, arrays, options, said) -> None:
    given = {name: values for name, values in {"features": CUBE, **arrays}.items() if values is not None}
    path = save(tmp_path, **given)
    if said is None:
        assert read(path, **options).vectors.layers == (0, 1, 2)
        return
    text = refuse(path, **options)
    assert all(part in text for part in said), text


def member(values: np.ndarray, **claims) -> bytes:
    """Return a NPY file whose header claims something else."""
    file = io.BytesIO()
    header = {**np.lib.format.header_data_from_array_1_0(values), **claims}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + values.tobytes()


def archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def members(**changed: bytes) -> dict[str, bytes]:
    good = {name: member(values) for name, values in {**LABELS, "features": CUBE}.items()}
    return {f"{name}.npy": content for name, content in {**good, **changed}.items()}


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize(
    "changed",
    [
        {"features": member(CUBE, shape=(DEPTH, N, 10**15))},
        {"features": member(CUBE, shape=(DEPTH, 10**12, WIDTH))},
        {"features": member(CUBE, shape=(-DEPTH, -N, WIDTH))},
        {"features": member(CUBE, descr="<f8")},
        {"features": member(CUBE)[:-1]},
        {"features": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535},
        {"features": b"\x93NUMPY\x09\x00"},
        {"features": b""},
        {"phone": member(PHONES, shape=(10**14,))},
        {"phone": member(PHONES, shape=(10**14,), descr="<U0")},
        {"phone": member(np.empty(0, np.uint8), shape=(10**14,), descr="|S0")},
        {"phone": member(PHONES, descr="<U1000000")},
        {"phone": member(PHONES, descr="|O")},
        {"phone": member(PHONES, descr=[("a", "<U1")])},
    ],
)
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, changed, compression) -> None:
    path = archive(tmp_path / "t.npz", members(**changed), compression)
    tracemalloc.start()
    refuse(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


@pytest.mark.parametrize("saver", SAVERS)
def test_a_file_that_is_cut_off_is_refused(tmp_path, saver) -> None:
    content = save(tmp_path, saver, features=CUBE).read_bytes()
    path = tmp_path / "cut.npz"
    for size in (2, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        refuse(path)


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("name", ["features", "phone"])
def test_a_value_that_was_changed_is_found_by_the_check_sum(tmp_path, saver, name) -> None:
    # Longer than what a reader of zip files takes at once, so that the header alone does not show it.
    count = 20_000
    labels = {key: np.resize(values, count) for key, values in LABELS.items()}
    content = bytearray(save(tmp_path, saver, **labels, features=RNG.normal(size=(count, 2))).read_bytes())
    at = content.index(name.encode() + b".npy")
    content[content.index(b"PK", at) - 9] ^= 1
    path = tmp_path / "hurt.npz"
    path.write_bytes(content)
    assert "cannot be read" in refuse(path)


def test_damage_anywhere_ends_in_an_answer_or_a_refusal(tmp_path) -> None:
    content = save(tmp_path, np.savez_compressed, features=CUBE).read_bytes()
    path = tmp_path / "hurt.npz"
    refused = 0
    for at in RNG.integers(0, len(content), 75):
        path.write_bytes(content[:at] + bytes(RNG.integers(0, 256, 3, dtype=np.uint8)) + content[at + 3 :])
        try:
            held(read(path))
        except InputError:
            refused += 1
    assert refused > 25


def test_texts_without_room_are_refused(tmp_path) -> None:
    path = archive(tmp_path / "t.npz", members(phone=member(np.empty(0, np.uint8), shape=(N,), descr="<U0")))
    assert "room for 0 characters" in refuse(path)


def test_a_size_in_the_list_of_members_that_lies_is_refused(tmp_path) -> None:
    path = archive(tmp_path / "t.npz", members(), zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02", 0, content.rindex(b"features.npy"))
    size = len(member(CUBE))
    assert struct.unpack_from("<II", content, at + 20) == (size, size)
    struct.pack_into("<I", content, at + 20, size // 2)
    path.write_bytes(content)
    refuse(path)


def test_a_zip_bomb_is_refused_unread(tmp_path) -> None:
    zeros = member(np.empty(0, np.float32), shape=(3, N, 10**7)) + bytes(4 * 3 * N * 10**7 // 100)
    path = archive(tmp_path / "t.npz", members(features=zeros))
    assert "promises" in refuse(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members().items():
            if name != "features.npy":
                file.writestr(name, content)
        with file.open("features.npy", "w") as stream:
            stream.write(member(np.empty(0, np.int8), shape=(N, 30_000_000)))
            for _ in range(N):
                stream.write(bytes(30_000_000))
    tracemalloc.start()
    assert "over 100 times its size" in refuse(path)
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_too_many_tokens_are_refused_before_they_are_read(tmp_path, monkeypatch) -> None:
    path = save(tmp_path, features=CUBE)
    monkeypatch.setattr(token_arrays, "MAX_TOKENS", N)
    assert len(read(path).phones) == N
    monkeypatch.setattr(token_arrays, "MAX_TOKENS", N - 1)
    assert "holds 9 tokens; 1 to 8" in refuse(path)


def test_names_like_paths_are_names(tmp_path) -> None:
    odd = {"../../evil.npy": member(CUBE[0]), "/etc/passwd.npy": member(ACCENT), "readme.txt": b"x"}
    path = archive(tmp_path / "t.npz", {**members(), **odd})
    found = read(path, by=("/etc/passwd",), features=("../../evil",))
    assert np.array_equal(held(found), CUBE[0])
    assert sorted(item.name for item in tmp_path.iterdir()) == ["t.npz"]


@pytest.mark.parametrize("name", ["phone", "features"])
def test_an_array_that_stands_twice_is_refused(tmp_path, name) -> None:
    path = archive(tmp_path / "t.npz", members())
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr(f"{name}.npy", members()[f"{name}.npy"])
    assert "twice" in refuse(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_read_as_streams(tmp_path, compression) -> None:
    found = read(archive(tmp_path / "t.npz", members(), compression))
    assert np.array_equal(held(found, 2), CUBE[2])


def test_other_files_of_arrays_are_refused(tmp_path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, CUBE)
    assert "the form NPY, not an NPZ" in refuse(path)
    archive(path, {"word/document.xml": b"<x/>"})
    assert "no column" in refuse(path)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_written_is_read_again(tmp_path, dtype) -> None:
    path = tmp_path / "t.npz"
    layers = {-1: np.array_split(CUBE[0, :, :3], 4), 6: iter([CUBE[1, :1], CUBE[1, :0], CUBE[1, 1:]])}
    write_tokens(
        path, phones=PHONES, speakers=list(SPEAKERS), attributes={"accent": ACCENT}, layers=layers, dtype=dtype
    )
    found = read(path)
    assert (found.vectors.layers, found.given, found.skipped) == ((-1, 6), N, {})
    assert np.array_equal(held(found, -1), CUBE[0, :, :3].astype(dtype).astype(np.float32))
    assert np.array_equal(held(found, 6), CUBE[1].astype(dtype).astype(np.float32))
    assert [found.phone_names[place] for place in found.phones] == PHONES.tolist()
    with np.load(path, allow_pickle=False) as plain, zipfile.ZipFile(path) as file:
        assert plain["layer_6"].dtype == dtype
        assert plain["accent"].tolist() == ACCENT.tolist()
        assert all(info.compress_type == zipfile.ZIP_STORED for info in file.infolist())
    assert [item.name for item in tmp_path.iterdir()] == ["t.npz"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"speakers": SPEAKERS[:3]}, "'speaker' has 3 entries, 'phone' 9"),
        ({"layers": {0: [CUBE[0, :5]]}}, "'layer_0' has 5 entries, 'phone' 9"),
        ({"layers": {0: []}}, "'layer_0' has 0 entries"),
        ({"layers": {0: [CUBE[0, :5], CUBE[0, 5:, :2]]}}, "shape (2,), the first one of (4,)"),
        ({"layers": {0: [CUBE[0] * 1e6]}, "dtype": "float16"}, "too large for float16"),
        ({"layers": {}}, "no layers"),
        ({"attributes": {"layer_2": ACCENT}}, "'layer_2' has the name of another array"),
        ({"attributes": {"phone": ACCENT}}, "'phone' has the name of another array"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, changes, said) -> None:
    usual = {"phones": PHONES, "speakers": SPEAKERS, "attributes": {}, "layers": {0: [CUBE[0]]}}
    with pytest.raises(InputError) as caught:
        write_tokens(tmp_path / "t.npz", **{**usual, **changes})
    assert said in caught.value.message
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def pack(path: Path, packed: Path) -> None:
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for info in source.infolist():
            with source.open(info) as reading, target.open(info.filename, "w", force_zip64=True) as writing:
                while block := reading.read(2**20):
                    writing.write(block)


def test_a_large_file_takes_little_memory(tmp_path) -> None:
    count, width = 50_000, 256
    block = np.tile(RNG.normal(size=(1000, 16)).astype(np.float32), width // 16)
    path = tmp_path / "stored.npz"
    phones = [f"p{row % 40}" for row in range(count)]
    tracemalloc.start()
    layers = {layer: (block + layer for _ in range(count // len(block))) for layer in (0, 1, 2)}
    write_tokens(path, phones=phones, speakers=phones, attributes={"accent": phones}, layers=layers)
    assert path.stat().st_size > 150e6
    assert tracemalloc.get_traced_memory()[1] < 60e6
    packed = tmp_path / "packed.npz"
    pack(path, packed)
    assert packed.stat().st_size < 75e6
    for place in (path, packed):
        tracemalloc.reset_peak()
        found = read(place)
        total = 0
        for start, part in enumerate(found.vectors.chunks(2, 1000)):
            assert start or np.array_equal(part, block + 2)
            total += len(part)
        assert total == count
        assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()
