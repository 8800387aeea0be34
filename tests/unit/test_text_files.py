"""Does every text that a file holds come back as it was written, in its place, or with a word on why not?"""

import csv
import io
import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from promised_arrays import promise

from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files import arrays as arrays_of_files
from probes.texts import text_files
from probes.texts.text_files import EMPTY, TextSet, read_texts
from probes.texts.text_vectors import open_vectors, texts_beside, vectors_of
from probes.texts.text_words import count_words, words_of

VECTORS = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)
NAMES = np.array(["one", " two ", "", "th\u00e9", "\U0001f600 five"])
LONG = "word " * 200_000
ANY_TEXT = st.text(st.characters(blacklist_categories=()), max_size=30)
TEXTS = st.lists(ANY_TEXT, min_size=1, max_size=8)
LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=30), min_size=1, max_size=8)
# What follows `visible` keeps the whole set from being empty, which is refused.
VISIBLE = "x"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def save(folder: Path, saver=np.savez, /, **arrays) -> Path:
    path = folder / "a.npz"
    saver(path, **arrays)
    return path


def refuse(path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_texts(path, **options)
    error = caught.value
    assert str(path) in error.where
    assert error.hint or "JSON cannot be read" in error.message
    told = f"{error.message} | {error.where.replace(str(path), 'FILE')} | {error.hint}"
    told.encode()
    return told


def csv_of(*rows: list[str], **options) -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, **options).writerows(rows)
    return stream.getvalue()


def lines_of(*entries: object, **options) -> str:
    return "".join(json.dumps(entry, **options) + "\n" for entry in entries)


def expected(text: str) -> str:
    """Return a text whose lone surrogates are replaced; pairs of them are one character once read."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()


def check(found: TextSet, given: list[str]) -> None:
    """Compare a set with all texts of its file, one a place."""
    kept = [(place, text) for place, text in enumerate(map(str.strip, given), start=1) if text]
    assert (found.places.tolist(), found.texts) == ([place for place, _ in kept], tuple(text for _, text in kept))
    assert found.words.tolist() == [count_words(text) for _, text in kept]
    assert (len(found), found.given, found.shortened) == (len(kept), len(given), 0)
    assert found.skipped == ({EMPTY: len(given) - len(kept)} if len(given) > len(kept) else {})
    assert found.sha256 == sha256_file(found.path)


@pytest.mark.parametrize(
    ("name", "content", "options", "texts", "places", "where"),
    [
        ("a.jsonl", '{"text": " a b "}\n{"id": 1, "text": "c"}\n', {}, ["a b", "c"], [1, 2], "line"),
        ("a.JSONL", '\ufeff{"text": "a"}\r\n\r\n{"text": "c"}', {}, ["a", "c"], [1, 3], "line"),
        ("a.ndjson", '"a"\n{"text": "c", "nll": NaN}\n', {}, ["a", "c"], [1, 2], "line"),
        ("a.json", '{"text": "a", "story": "b"}\n', {"column": "story"}, ["b"], [1], "line"),
        ("a.json", '\n[{"text": "a"},\n "b", {"text": " c"}]', {}, ["a", "b", "c"], [1, 2, 3], "entry"),
        ("a.jsonl", ' ["a"]', {}, ["a"], [1], "entry"),
        (
            "a.jsonl",
            r'"\ud800" "'.replace(' "', "\n") + r'"\ud83d\ude00"',
            {},
            ["\ufffd", "\U0001f600"],
            [1, 2],
            "line",
        ),
        ("a.jsonl", r'{"text": "a\u0000b", "\udc00": 1}', {}, ["a\0b"], [1], "line"),
        ("a.json", r'["x\udfff\ud800y"]', {}, ["x\ufffd\ufffdy"], [1], "entry"),
        ("a.csv", 'id,text\n1," a, ""b"""\n2,"c\n\nd"\n3,e\n', {}, ['a, "b"', "c\n\nd", "e"], [2, 3, 6], "line"),
        ("a.csv", "\ufefftext\r\na\r\n\r\nb\r\n", {}, ["a", "b"], [2, 4], "line"),
        ("a.CSV", "\n text ,x\na,b\n", {}, ["a"], [3], "line"),
        ("a.csv", "story,x,x\na,b,c\n", {"column": "story"}, ["a"], [2], "line"),
        ("a.tsv", 'id\ttext\n1\t"no, she\n2\t"a", b\n', {}, ['"no, she', '"a", b'], [2, 3], "line"),
        ("a.tab", "text\na\n", {}, ["a"], [2], "line"),
        ("a.txt", "a b\n c\r\nd", {}, ["a b", "c", "d"], [1, 2, 3], "line"),
        ("a", "a\u2028b\x0bc\x85d\re\n", {}, ["a\u2028b\x0bc\x85d\re"], [1], "line"),
        ("a.txt", '\ufeff{"text": "a"}', {}, ['{"text": "a"}'], [1], "line"),
    ],
)
def test_each_form_gives_its_texts_and_their_places(tmp_path, name, content, options, texts, places, where) -> None:
    path = write(tmp_path, name, content)
    found = read_texts(path, **options)
    assert found.texts == tuple(texts)
    assert found.places.tolist() == places
    assert found.words.tolist() == [len(text.split()) for text in texts]
    assert (found.path, found.sha256, found.where) == (path, sha256_file(path), where)
    assert (found.given, found.skipped, found.shortened, found.embeddings) == (len(texts), {}, 0, None)
    assert found.places.dtype == found.words.dtype == np.int64


@pytest.mark.parametrize(
    ("name", "content", "places", "empty"),
    [
        ("a.jsonl", '{"text": ""}\n"a"\n\n" \\n"\n"b"\n', [2, 5], 2),
        ("a.json", '["", "a", {"text": "\\t"}, "b"]', [2, 4], 2),
        ("a.csv", 'text\n""\na\n\n" "\nb\n', [3, 6], 2),
        ("a.csv", "x,text\n1,\n2,a\n3,b\n", [3, 4], 1),
        ("a.tsv", "text\tx\n\t1\na\t2\n \t3\nb\t4\n", [3, 5], 2),
        ("a.txt", "\n\na\n\u2003\r\nb\n\n", [3, 5], 4),
    ],
)
def test_empty_texts_are_left_out_and_counted(tmp_path, name, content, places, empty) -> None:
    found = read_texts(write(tmp_path, name, content))
    assert (found.texts, found.places.tolist()) == (("a", "b"), places)
    assert (found.skipped, found.given, len(found)) == ({EMPTY: empty}, empty + 2, 2)
    assert found.words.tolist() == [1, 1]


@given(TEXTS, st.booleans())
def test_json_lines_give_back_any_text(tmp_path_factory, texts, escaped) -> None:
    texts = [*map(expected, texts), VISIBLE] if not escaped else [*texts, VISIBLE]
    path = write(tmp_path_factory.mktemp("t"), "a.jsonl", lines_of(*({"text": t} for t in texts), ensure_ascii=escaped))
    check(read_texts(path), list(map(expected, texts)))
    check(read_texts(write(path.parent, "a.json", json.dumps(texts))), list(map(expected, texts)))


@given(LINES)
def test_plain_text_gives_back_any_line(tmp_path_factory, lines) -> None:
    lines = [VISIBLE, *lines]
    folder = tmp_path_factory.mktemp("t")
    for ending in ("\n", "\r\n"):
        check(read_texts(write(folder, "a.txt", "".join(line + ending for line in lines))), lines)
    check(read_texts(write(folder, "a.txt", "\n".join([*lines, VISIBLE]))), [*lines, VISIBLE])


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30), min_size=1, max_size=8))
def test_csv_gives_back_any_text(tmp_path_factory, texts) -> None:
    texts = [*texts, VISIBLE]
    content = csv_of(["text", "id"], *([text, "7"] for text in texts), quoting=csv.QUOTE_ALL)
    found = read_texts(write(tmp_path_factory.mktemp("t"), "a.csv", content))
    assert found.texts == tuple(text.strip() for text in texts if text.strip())
    assert found.given == len(texts)


@given(st.lists(ANY_TEXT.map(expected).filter(bool), min_size=1, max_size=5), st.integers(1, 6))
def test_a_cut_text_is_the_longest_beginning_with_so_many_words(tmp_path_factory, texts, most) -> None:
    path = write(tmp_path_factory.mktemp("t"), "a.jsonl", lines_of(*texts))
    found = read_texts(path, max_words=most)
    assert found.words.tolist() == [count_words(text) for text in texts]
    assert found.shortened == sum(count_words(text) > most for text in texts)
    for whole, cut in zip(texts, found.texts, strict=True):
        assert whole.startswith(cut)
        assert words_of(cut) == words_of(whole)[:most]
        assert cut == cut.strip()


def test_whitespace_before_the_cut_stays(tmp_path) -> None:
    path = write(tmp_path, "a.json", json.dumps(["a  b\n\tc d", "a b c"]))
    found = read_texts(path, max_words=3)
    assert (found.texts, found.words.tolist(), found.shortened) == (("a  b\n\tc", "a b c"), [4, 3], 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", lines_of({"text": LONG})),
        ("a.csv", csv_of(["text"], [LONG + ","])),
        ("a.tsv", f"text\tx\n{LONG}\tx\n"),
        ("a.txt", LONG),
    ],
)
def test_a_text_may_be_a_million_characters_long(tmp_path, name, content) -> None:
    before = csv.field_size_limit()
    found = read_texts(write(tmp_path, name, content), max_words=3)
    assert (found.texts, found.shortened) == (("word word word",), 1)
    assert found.words[0] in (200_000, 200_001)
    assert csv.field_size_limit() == before


def test_the_limit_of_fields_is_put_back_after_a_refusal(tmp_path) -> None:
    before = csv.field_size_limit()
    refuse(write(tmp_path, "a.csv", f'text\n{LONG}\n"open'))
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.csv"])
def test_texts_are_not_held_twice(tmp_path, name) -> None:
    lines = [f"{number} {'x' * 2000} \U0001f600" for number in range(2000)]
    content = {
        "a.jsonl": lines_of(*lines, ensure_ascii=False),
        "a.txt": "\n".join(lines),
        "a.csv": csv_of(["text"], *([line] for line in lines)),
    }
    path = write(tmp_path, name, content[name])
    del content, lines
    tracemalloc.start()
    try:
        found = read_texts(path, max_words=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == found.shortened == 2000
    assert peak < path.stat().st_size / 4


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b"", ("The file is empty. | FILE |", "JSONL")),
        ("a.txt", b"", ("The file is empty.",)),
        ("a.npy", b"", ("The file is empty.",)),
        ("a.txt", "\n \n", ("all 2 are empty",)),
        ("a.jsonl", '{"text": ""}\n', ("all 1 are empty",)),
        ("a.jsonl", "\n\n", ("holds no texts",)),
        ("a.json", "[]", ("holds no texts",)),
        ("a.csv", "text\n", ("holds no texts",)),
        ("a.csv", "\n\n", ("The file is empty.", "a header")),
        ("a.csv", '""\n', ("no column 'text'", "FILE:1")),
        ("a.txt", "a\nb".encode("utf-16"), ("UTF-16", "UTF-8")),
        ("a.jsonl", '"ab"\n'.encode("utf-16-le"), ("UTF-16", "FILE:1")),
        ("a.csv", "text\na".encode("utf-16"), ("UTF-16",)),
        ("a.json", "[]".encode("utf-16"), ("UTF-16",)),
        ("a.txt", b"a\nb\xe9\n", ("byte 0xe9 is not UTF-8", "FILE:2")),
        ("a.jsonl", b'"a"\n"b\xe9"\n', ("byte 0xe9 is not UTF-8", "FILE:2")),
        ("a.jsonl", b"PK\x03\x04\0\0\0", ("This is a ZIP archive, not text.", "FILE", "JSONL")),
        ("a.txt", b"a\nb\0\n", ("NUL byte", "FILE:2")),
        ("a.csv", b"text\na\0\n", ("NUL byte", "FILE:2")),
        ("a.txt", "<!DOCTYPE html><html>", ("a web page",)),
        ("a.npz", "<html>", ("a web page",)),
        ("a.jsonl", "version https://git-lfs.github.com/spec/v1\n", ("Git LFS pointer", "git lfs pull")),
        ("a.jsonl", '"a"\n{"text": "b"\n', ("This is not JSON", "FILE:2")),
        ("a.json", '{\n "text": "b"\n}', ("This is not JSON", "FILE:1")),
        ("a.json", '[\n"b",\n]', ("This is not JSON", "line 3")),
        ("a.jsonl", '"a"\n["b"]\n', ("The entry is a list", "FILE:2", '{"text": ...}')),
        ("a.jsonl", "7\n", ("The entry is a number", "FILE:1")),
        ("a.json", '["a", null]', ("The entry is null", "FILE, entry 2")),
        ("a.jsonl", '"a"\n{"txt": "b", "id": 1}\n', ("no key 'text'", "FILE:2", "Did you mean 'txt'", "txt, id")),
        ("a.jsonl", r'{"\ud800": "b"}', ("no key 'text'", "\ufffd")),
        ("a.json", '[{"text": "a"}, {}]', ("no key 'text'", "FILE, entry 2", "There are: none")),
        ("a.jsonl", '{"text": null}', ("'text' is null, not a text",)),
        ("a.jsonl", '{"text": true}', ("'text' is true or false, not a text",)),
        ("a.jsonl", '{"text": ["a"]}', ("'text' is a list, not a text", "FILE:1")),
        ("a.jsonl", '{"text": {}}', ("'text' is an object, not a text",)),
        ("a.jsonl", '{"text": 1.5}', ("'text' is a number, not a text",)),
        ("a.jsonl", '"a"\n{"text": "a", "text": "b"}', ("'text' stands twice", "FILE:2")),
        ("a.jsonl", "[" * 100_000, ("cannot be read",)),
        ("a.jsonl", '"a"\n{"x":' + "[" * 100_000, ("cannot be read", "FILE:2")),
        ("a.csv", "id,txt\n1,a\n", ("no column 'text'", "FILE:1", "Did you mean 'txt'", "id, txt")),
        ("a.csv", "text,text\n1,a\n", ("'text' stands twice", "FILE:1")),
        ("a.csv", "text,id\na,1\n\nb, c,2\n", ("3 fields, the header 2", "FILE:4", "quotation marks")),
        ("a.tsv", "text\tid\na\n", ("1 fields, the header 2", "FILE:2", "tab")),
        ("a.csv", 'text\na\n"b\nc\n', ("cannot be read", "FILE:3", "quotation mark")),
        ("a.npz", "text", ("not an NPZ or an NPY",)),
        ("a.npy", b"\x80\x04", ("not an NPZ or an NPY",)),
        ("a.npz", b"PK\x03\x04 and no more", ("cannot be read",)),
        ("a.npy", b"\x93NUMPY\x01\x00", ("cannot be read",)),
    ],
)
def test_what_holds_no_texts_is_refused(tmp_path, name, content, said) -> None:
    told = refuse(write(tmp_path, name, content))
    for part in said:
        assert part in told


def test_what_is_no_file_is_refused(tmp_path) -> None:
    write(tmp_path, "outputs.jsonl", '"a"')
    told = refuse(tmp_path / "output.jsonl")
    assert "no such file" in told
    assert "outputs.jsonl" in told
    assert "no such file" in refuse(tmp_path / "none.npz")
    assert "a folder" in refuse(tmp_path)
    assert "cannot be read" in read_error(Path("a\0.txt"))
    assert "cannot be read" in read_error(tmp_path / ("x" * 5000))
    os.mkfifo(tmp_path / "pipe.txt")
    assert "not an ordinary file" in refuse(tmp_path / "pipe.txt")


def read_error(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_texts(path)
    return caught.value.message


@pytest.mark.parametrize("most", [0, -3])
def test_a_text_keeps_a_word_at_least(tmp_path, most) -> None:
    with pytest.raises(InputError, match=f"{most} words leave nothing"):
        read_texts(write(tmp_path, "a.txt", "a"), max_words=most)


def stored(folder: Path, form: str, values: np.ndarray) -> Path:
    if form == "npy":
        np.save(folder / "a.npy", values)
        return folder / "a.npy"
    return save(folder, {"npz": np.savez, "packed": np.savez_compressed}[form], embeddings=values)


def in_pieces(path: Path) -> np.ndarray:
    """Return embeddings that are read a few rows at a time."""
    _, name, stored = open_vectors(path)
    return vectors_of(stored, f"{path}, {name}", piece=40)


@pytest.mark.parametrize("form", ["npy", "npz", "packed"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", "i1", "<u2", "<i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_embeddings_come_back_as_float32(tmp_path, form, dtype, order) -> None:
    values = np.array(VECTORS * 9 if dtype[1] == "f" else np.abs(VECTORS) * 9, dtype=dtype, order=order)
    path = stored(tmp_path, form, values)
    found = read_texts(path, max_words=2)
    assert found.embeddings.dtype == np.float32
    assert found.embeddings.flags.c_contiguous
    np.testing.assert_array_equal(found.embeddings, values.astype(np.float32))
    np.testing.assert_array_equal(in_pieces(path), found.embeddings)
    assert (found.texts, found.words.tolist(), found.words.dtype) == (None, [], np.int64)
    assert (found.places.tolist(), found.where, len(found), found.given) == ([1, 2, 3, 4, 5], "row", 5, 5)
    assert (found.skipped, found.shortened, found.sha256) == ({}, 0, sha256_file(path))


def test_texts_of_parquet_and_arrow_keep_their_rows(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    table = pa.table({"id": [1, 2, 3, 4], "text": ["one", None, " two ", ""]})
    parquet.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "a.arrow")
    for name in ("a.parquet", "a.arrow"):
        found = read_texts(tmp_path / name)
        assert found.texts == ("one", "two") and found.places.tolist() == [1, 3] and found.where == "row"
        assert found.given == 4 and found.skipped == {EMPTY: 2}
    with pytest.raises(InputError) as caught:
        read_texts(tmp_path / "a.parquet", column="story")
    assert "no column 'story'" in caught.value.message and "id, text" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id,completion\n1,one\n2,two\n"),
        ("a.jsonl", '{"completion": "one", "id": 1}\n{"completion": "two", "text": "no"}\n'),
        ("a.json", '[{"completion": "one"}, {"completion": "two", "text": "no"}]'),
    ],
)
def test_of_several_columns_the_first_that_a_file_has_is_read(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path, name, content)
    assert read_texts(path, column="text, completion").texts == ("one", "two")
    with pytest.raises(InputError, match="'text,story'"):
        read_texts(path, column="text,story")


def test_a_column_whose_name_has_a_comma_is_read_as_one(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"a": "no", "a,b": "one"}\n')
    assert read_texts(path, column="a,b").texts == ("one",)


def test_spaces_of_no_width_are_an_empty_text(tmp_path: Path) -> None:
    found = read_texts(write(tmp_path, "a.txt", "a\n\u200b\n\u200b \u200b\nb\n"))
    assert (found.texts, found.skipped, found.given) == (("a", "b"), {EMPTY: 2}, 4)


@pytest.mark.parametrize("name", ["text", "texts"])
@pytest.mark.parametrize("saver", [np.savez, np.savez_compressed])
def test_texts_beside_embeddings_stay_whole_and_an_empty_one_takes_its_row_along(tmp_path, name, saver) -> None:
    path = save(tmp_path, saver, embeddings=VECTORS, **{name: NAMES})
    found = read_texts(path, max_words=1)
    assert found.texts == ("one", "two", "th\u00e9", "\U0001f600 five")
    assert (found.places.tolist(), found.words.tolist(), found.shortened) == ([1, 2, 4, 5], [1, 1, 1, 2], 0)
    np.testing.assert_array_equal(found.embeddings, VECTORS[[0, 1, 3, 4]])
    assert (found.given, found.skipped, found.where) == (5, {EMPTY: 1}, "row")
    archive, beside, _ = open_vectors(path)
    assert [*(texts_beside(archive, beside, 5, piece=2 * NAMES.itemsize) or ())] == NAMES.tolist()


@pytest.mark.parametrize(
    "arrays",
    [
        {"features": VECTORS},
        {"features": VECTORS, "ids": np.arange(5), "masks": VECTORS > 0, "names": np.array([["a"]])},
        {"embeddings": VECTORS, "other": VECTORS[:2]},
        {"features": VECTORS, "notes": np.array([None, 1], dtype=object)},
    ],
)
def test_the_only_table_of_numbers_is_taken(tmp_path, arrays) -> None:
    np.testing.assert_array_equal(read_texts(save(tmp_path, **arrays)).embeddings, VECTORS)


def test_a_lone_surrogate_in_an_array_is_replaced(tmp_path) -> None:
    found = read_texts(save(tmp_path, embeddings=VECTORS[:1], text=np.array(["a\ud800"])))
    assert found.texts == ("a\ufffd",)


def at(row: int, column: int, value: float, dtype: str = "f8") -> np.ndarray:
    values = VECTORS.astype(dtype)
    values[row, column] = value
    return values


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"embeddings": at(3, 1, np.nan)}, ("A number is nan.", "embeddings, row 4, column 2")),
        ({"embeddings": at(0, 2, -np.inf, "f2")}, ("A number is -inf.", "row 1, column 3")),
        ({"embeddings": at(4, 0, 1e39)}, ("1e+39, beyond the range of float32", "row 5, column 1")),
        ({"embeddings": VECTORS[0]}, ("'embeddings' has the shape (3,)", "(texts, width)")),
        ({"embeddings": VECTORS[None]}, ("the shape (1, 5, 3)",)),
        ({"embeddings": np.float32(1)}, ("the shape ()",)),
        ({"embeddings": VECTORS[:, :0]}, ("the shape (5, 0)", "1 to 65536")),
        ({"embeddings": VECTORS[:0]}, ("the shape (0, 3)",)),
        ({"embeddings": np.zeros((1, 65537), np.int8)}, ("the shape (1, 65537)", "1 to 65536")),
        ({"embeddings": VECTORS > 0}, ("type bool",)),
        ({"embeddings": VECTORS + 1j}, ("complex",)),
        ({"embeddings": VECTORS.astype(str)}, ("values of type <U",)),
        ({"embeddings": VECTORS.astype(object)}, ("Python objects", "not unpickled")),
        ({"embeddings": VECTORS.astype(object), "other": VECTORS}, ("'embeddings' holds Python objects",)),
        ({"a": VECTORS, "b": VECTORS}, ("no array 'embeddings', and 2 others", "a (5, 3), b (5, 3)")),
        ({"a": VECTORS[0]}, ("and 0 others could be meant", "a (3,)")),
        ({"embeddings": VECTORS, "text": NAMES[:4]}, ("'text' has the shape (4,)", "'embeddings' holds 5")),
        ({"embeddings": VECTORS, "texts": NAMES[:, None]}, ("'texts' has the shape (5, 1)",)),
        ({"embeddings": VECTORS, "text": NAMES.astype(object)}, ("'text' holds Python objects", "dtype=str")),
        ({"embeddings": VECTORS, "text": np.arange(5)}, ("'text' holds values of type int64, not texts",)),
        ({"embeddings": VECTORS, "text": np.full(5, " ")}, ("all 5 are empty",)),
    ],
)
def test_arrays_that_are_no_embeddings_are_refused(tmp_path, arrays, said) -> None:
    path = save(tmp_path, **arrays)
    told = refuse(path)
    for part in said:
        assert part in told
    if "column" in said[-1]:
        with pytest.raises(InputError) as caught:
            in_pieces(path)
        assert said[-1] in caught.value.where


def test_what_a_pickle_would_do_is_not_done(tmp_path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "a.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    assert "Python objects" in refuse(tmp_path / "a.npy")
    assert not (tmp_path / "sprung").exists()


def header(shape: tuple[int, ...], descr: str) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": descr})
    return stream.getvalue()


@pytest.mark.parametrize("shape", [(2**40, 4), (4, 2**40), (-1, 4)])
def test_a_header_that_promises_too_much_is_refused(tmp_path, shape) -> None:
    assert "promises" in refuse(write(tmp_path, "a.npy", header(shape, "<f4") + bytes(64)))


@pytest.mark.parametrize(
    ("name", "shape", "descr"), [("embeddings", (2**20 + 1, 64), "<f4"), ("text", (5,), f"<U{2**24}")]
)
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, name, shape, descr) -> None:
    path = tmp_path / "a.npz"
    if name == "text":
        np.savez_compressed(path, embeddings=VECTORS)
    promise(path, descr=descr, **{name: shape})
    assert f"'{name}' unpacks to {np.prod(shape) * np.dtype(descr).itemsize} bytes" in refuse(path)


def test_an_archive_may_unpack_to_its_own_size(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(arrays_of_files, "UNPACKED", 0)
    np.savez(tmp_path / "a.npz", embeddings=np.zeros((1000, 64), np.float32), text=np.full(1000, "a", "<U9"))
    assert len(read_texts(tmp_path / "a.npz")) == 1000


@pytest.mark.parametrize("form", ["npz", "packed"])
def test_damaged_bytes_are_told(tmp_path, form) -> None:
    path = stored(tmp_path, form, np.random.default_rng(1).normal(size=(200, 50)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    assert "cannot be read" in refuse(path)


@pytest.mark.parametrize(
    ("descr", "data", "said"),
    [
        ("<U2", b"\xff" * 8, "cannot be read: it holds what is no character"),
        ("<U1", b"\0\0\x11\0", "no character"),
        (">U1", b"\0\x11\0\0", "no character"),
        ("<U0", b"", "'text' holds values of type <U0, not texts"),
    ],
)
def test_what_is_no_character_is_told(tmp_path, descr, data, said) -> None:
    assert said in refuse(with_text(tmp_path, descr, data))


def test_the_last_character_of_all_is_one(tmp_path) -> None:
    assert read_texts(with_text(tmp_path, ">U1", b"\0\x10\xff\xff")).texts == ("\U0010ffff",)


def with_text(folder: Path, descr: str, data: bytes) -> Path:
    path = save(folder, embeddings=VECTORS[:1])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("text.npy", header((1,), descr) + data)
    return path


def test_a_text_of_a_table_is_no_longer_than_a_line_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    monkeypatch.setattr(text_files, "LONGEST_LINE", 5)
    parquet.write_table(pa.table({"text": ["short", "longer"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="6 letters; at most 5") as refused:
        read_texts(tmp_path / "a.parquet")
    assert refused.value.where.endswith("a.parquet, row 2")
