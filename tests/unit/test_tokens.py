import json
import os
from pathlib import Path

import numpy as np
import pytest

from audits.phoneme_errors import token_tables as module
from audits.phoneme_errors.tokens import NO_FEATURE, NO_PHONE, NO_SPEAKER, Tokens, read_tokens
from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files.tables import SEMICOLONS

HEADER = "phone,speaker,accent,x0,x1\n"
ROWS = [
    {"phone": "s", "speaker": "b", "accent": "north", "x0": 1.5, "x1": -2},
    {"phone": "a", "speaker": "a", "accent": "south", "x0": 0.25, "x1": 1e3},
    {"phone": "s", "speaker": "a", "accent": "south", "x0": -4, "x1": 8},
]
VALUES = np.array([[1.5, -2], [0.25, 1e3], [-4, 8]], np.float32)


def delimited(separator: str) -> str:
    lines = [separator.join(ROWS[0]), *(separator.join(str(value) for value in row.values()) for row in ROWS)]
    return "\n".join(lines)


def write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path, **options) -> Tokens:
    return read_tokens(path, **{"by": ("accent",), **options})


def held(tokens: Tokens, layer: int = 0, size: int = 2) -> np.ndarray:
    parts = list(tokens.vectors.chunks(layer, size))
    assert all(0 < len(part) <= size and part.dtype == np.float32 for part in parts)
    return np.concatenate(parts)


def refuse(path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.where
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.where} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        ("t.csv", delimited(","), 2),
        ("s.csv", delimited(";").replace(".", ","), 2),
        ("t.tsv", delimited("\t"), 2),
        ("t.txt", delimited("\t"), 2),
        ("t.jsonl", "\n".join(json.dumps(row) for row in ROWS), 1),
        ("t.json", json.dumps(ROWS), 1),
    ],
)
def test_every_form_gives_the_same_tokens(tmp_path, name, content, first) -> None:
    path = write(tmp_path, content, name)
    found = read(path)
    assert (found.phone_names, found.phones.tolist()) == (("a", "s"), [1, 0, 1])
    assert (found.speaker_names, found.speakers.tolist()) == (("a", "b"), [1, 0, 0])
    assert found.level_names == {"accent": ("north", "south")}
    assert found.levels["accent"].tolist() == [0, 1, 1]
    assert (found.vectors.layers, found.vectors.width(0), found.features) == ((0,), 2, ("x0", "x1"))
    assert np.array_equal(held(found), VALUES)
    assert (found.given, found.skipped, found.notes) == (3, {}, ())
    assert found.lines.tolist() == list(range(first, first + 3))
    assert found.sha256 == sha256_file(path)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_parquet_and_arrow_give_the_tokens_of_the_same_csv_file(tmp_path, name) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    values = np.random.default_rng(0).normal(size=(50, 2)) * 10.0 ** np.arange(-24, 26)[:, None]
    values[7, 1] = np.nan
    labels = {
        "phone": ["a", "s"] * 25,
        "speaker": [f"p{at // 5}" for at in range(50)],
        "age": [20 + at for at in range(50)],
    }
    kinds = {"x0": values[:, 0].astype(np.float32), "x1": values[:, 1]}
    table, path = pa.table({**labels, **kinds}), tmp_path / name
    write_table = parquet.write_table if name == "t.parquet" else feather.write_feather
    write_table(table, str(path))
    lines = [",".join(table.column_names)]
    lines += [
        ",".join(map(str, row))
        for row in zip(*labels.values(), *(column.tolist() for column in kinds.values()), strict=True)
    ]
    asked = {"by": ("age",), "bins": {"age": (0, 30, 60)}}
    found, same = read(path, **asked), read(write(tmp_path, "\n".join(lines)), **asked)
    assert np.array_equal(held(found, size=64), held(same, size=64))
    assert (found.given, found.skipped) == (same.given, same.skipped) == (50, {NO_FEATURE: 1})
    for part in ("phones", "phone_names", "speakers", "speaker_names", "level_names", "notes", "read_as"):
        assert np.array_equal(getattr(found, part), getattr(same, part))
    assert np.array_equal(found.levels["age"], same.levels["age"]) and found.lines[0] == 1
    assert "'b'" in refuse(path, by=("b",)) and "There are: phone, speaker, age, x0, x1" in refuse(path, by=("b",))


def test_what_columns_were_read_as_and_what_is_left_out_is_said(tmp_path) -> None:
    file = write(tmp_path, delimited(";").replace(".", ","), "s.csv")
    assert read(file).preview() == (
        "Columns are read as: phone: the phone, 2 of them; speaker: the speaker, 2 of them; accent: 2 levels; "
        "x0, x1: numbers.",
        SEMICOLONS,
    )
    content = HEADER.replace("x0,x1", "x0,x1,x2,x3,x4") + "a,s,n,1,2,3,4,5\n,s,n,1,2,3,4,5\n"
    first, left_out = read(write(tmp_path, content), on_bad="skip").preview("b.csv")
    assert first.startswith("Columns of b.csv are read as: phone: ")
    assert first.endswith("accent: 1 level; x0 to x4 (5 columns): numbers.")
    assert left_out == "1 of 2 tokens are left out: no phone."


def test_chunks_start_again_and_run_side_by_side(tmp_path) -> None:
    vectors = read(write(tmp_path, delimited(","))).vectors
    one, two = vectors.chunks(0, 1), vectors.chunks(0, 1)
    next(one)
    next(one)[:] = 0
    assert np.array_equal(next(two), VALUES[:1])
    assert np.array_equal(next(two), VALUES[1:2])
    assert [len(part) for part in vectors.chunks(0, 2)] == [2, 1]


@pytest.mark.parametrize(
    ("header", "options", "names"),
    [
        ("Phone,vowel,speaker,accent,x0", {}, ("1", "3")),
        ("vowel,other,client_id,accent,x0", {}, ("1", "3")),
        ("segment,label,speaker,accent,x0", {"phone_col": "label"}, ("2", "3")),
        ("phone,who,speaker,accent,x0", {"speaker_col": "who"}, ("1", "2")),
    ],
)
def test_columns_have_usual_names_or_are_named(tmp_path, header, options, names) -> None:
    found = read(write(tmp_path, f"{header}\n1,2,3,north,5\n"), **options)
    assert (found.phone_names[0], found.speaker_names[0]) == names


@pytest.mark.parametrize(
    ("asked", "columns"),
    [
        ((), ("x0", "x1", "x2")),
        (("f2", "f1"), ("f2", "f1")),
        (("x1..x2",), ("x1", "x2")),
        (("f1..f2", "x0..x0"), ("f1", "f2", "x0")),
        (("m08..m10",), ("m08", "m09", "m10")),
        (("a..b",), ("a..b",)),
    ],
)
def test_features_are_numbered_named_or_a_range(tmp_path, asked, columns) -> None:
    names = ("x2", "f1", "x0", "m08", "m09", "m10", "x1", "f2", "a..b")
    path = write(tmp_path, f"phone,speaker,{','.join(names)}\na,s,{','.join(map(str, range(9)))}\n")
    found = read(path, by=(), features=asked)
    assert found.features == columns
    assert held(found)[0].tolist() == [names.index(name) for name in columns]


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("phone,speaker,accent,x0,x2\na,s,n,1,2\n", {}, ("no column 'x1' before 'x2'", "x0..x2")),
        ("phone,speaker,accent,x1\na,s,n,1\n", {}, ("no column 'x0' before 'x1'",)),
        (
            "phone,speaker,accent,f1,f2,word,gap\na,s,n,500,1500,yes,\na,s,n,,1500,yes,NA\n",
            {},
            ("no features x0, x1, ... and none are named", "--features f1,f2."),
        ),
        ("phone,speaker,accent,word\na,s,n,yes\n", {}, ("--features a,b,...",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("x0", "x0")}, ("'x0' is named twice",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("x0", "x0..x1")}, ("'x0' is named twice",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("x0", "phone")}, ("'phone' is a label of the tokens",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("speaker",)}, ("'speaker' is a label",)),
        (HEADER + "a,s,n,1,2\n", {"by": ("x0",)}, ("'x0' is a label",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("y0",)}, ("no column 'y0'", "--features", "x0")),
        (HEADER + "a,s,n,1,2\n", {"features": ("x0..x3",)}, ("no column 'x2'",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("x1..x0",)}, ("range 'x1..x0' cannot be read",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("x0..y1",)}, ("range 'x0..y1'",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("x0..x999999",)}, ("range",)),
        (HEADER + "a,s,n,1,2\n", {"features": ("x0..x99999999999",)}, ("range",)),
        (HEADER + "a,s,n,1,2\na,s,n,1,two\n", {}, ("'two' is not a number", "t.csv:3, column x1", "full stop")),
        (HEADER + 'a,s,n,1,"2,5"\n', {}, ("'2,5' is not a number", "write 2.5, or say --decimal ,")),
        (HEADER + "a,s,n,1,2\n,s,n,1,2\n", {}, ("no phone", "t.csv:3, column phone", "--on-bad skip")),
        (HEADER + "NA,s,n,1,2\n", {}, ("no phone",)),
        (HEADER + "a,unknown,n,1,2\n", {}, ("no speaker", "t.csv:2, column speaker")),
        (HEADER + ",s,n,1,2\na,,n,1,2\na,s,n,,2\n", {"on_bad": "skip"}, ("No token is left", "1 (no phone), 1 (no sp")),
        (HEADER + "a,s,n,1,2\na,s,n,1,0\n", {"transform": "log"}, ("0 has no logarithm", "t.csv:3, column x1")),
        (HEADER + "a,s,n,-1,2\n", {"transform": "log"}, ("-1 has no logarithm", "column x0", "--transform none")),
        (HEADER + "a,s,n,1,2\n", {"transform": "exp"}, ("'exp' is unknown", "--transform", "none, log")),
        (HEADER + "a,s,n,1,2\n", {"on_bad": "go"}, ("'go' is unknown", "--on-bad", "stop, skip")),
        (HEADER + "a,s,n,1,2\n", {"layers": (1,)}, ("no such layers: 1", "--layers", "are: 0")),
        (HEADER + "a,s,n,1,2\n", {"layers": ()}, ("no such layers: none",)),
        (HEADER + "a,s,n,1,2\n", {"by": ("accnt",)}, ("no column 'accnt'", "--by", "'accent'")),
        (HEADER + "a,s,n,1,2\n", {"phone_col": "fone"}, ("no column 'fone'", "--phone-col", "'phone'")),
        (HEADER + "a,s,n,1,2\n", {"bins": {"x0": (0.0,)}}, ("'x0' has bins but is not audited",)),
        ("vowel,segment,speaker,accent,x0\na,b,s,n,1\n", {}, ("Several columns may hold the phone", "--phone-col")),
        ("fone,speaker,accent,x0\na,s,n,1\n", {}, ("no column for the phone", "segment", "--phone-col")),
        ("phone,spk,accent,x0\na,s,n,1\n", {}, ("no column for the speaker", "client_id", "--speaker-col")),
        (HEADER + "a,s,n,1\n", {}, ("The row has 4 fields", "t.csv:2")),
        (HEADER, {}, ("no rows",)),
        ("", {}, ("empty",)),
        (b"\x89HDF\r\n\x1a\n\x00", {}, ("This is an HDF5 file, not text.",)),
        (b"\x93NUMPY\x01\x00", {}, ("the form NPY, not an NPZ",)),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(tmp_path, content, options, said) -> None:
    text = refuse(write(tmp_path, content), **options)
    assert all(part in text for part in said), text


def test_what_is_no_file_is_told(tmp_path) -> None:
    write(tmp_path, delimited(","))
    assert "Did you mean t.csv" in refuse(tmp_path / "tt.csv")
    assert "not an ordinary file" in refuse(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not an ordinary file" in refuse(tmp_path / "pipe")


@pytest.mark.parametrize("cell", ["", " ", "NA", "n/a", "nan", "NaN", "inf", "-Infinity", "1e400", "1e39"])
def test_a_token_with_a_number_that_is_missing_is_left_out_and_counted(tmp_path, cell) -> None:
    content = HEADER + f"a,s,n,1,2\nb,t,m,3,{cell}\nc,s,n,5,6\n"
    found = read(write(tmp_path, content))
    assert (found.given, found.skipped) == (3, {NO_FEATURE: 1})
    assert held(found).tolist() == [[1, 2], [5, 6]]
    assert (found.phone_names, found.speaker_names, found.level_names) == (("a", "c"), ("s",), {"accent": ("n",)})
    assert found.lines.tolist() == [2, 4]


def test_a_key_that_a_json_line_lacks_is_a_missing_number(tmp_path) -> None:
    rows = [*ROWS, {"phone": "z", "speaker": "a", "accent": "south", "x0": 1}, {**ROWS[0], "x1": None}]
    found = read(write(tmp_path, "\n".join(map(json.dumps, rows)), "t.jsonl"))
    assert (found.given, found.skipped, len(found.lines)) == (5, {NO_FEATURE: 2}, 3)


def test_tokens_without_phone_or_speaker_are_skipped_where_asked_for(tmp_path) -> None:
    content = HEADER + ",,n,,2\n,s,n,1,2\na,NA,n,1,2\na,s,n,1,\na,s,n,1,2\nna,s,n,3,4\n"
    found = read(write(tmp_path, content), on_bad="skip")
    # Each token counts once, and `na` is a syllable.
    assert found.skipped == {NO_PHONE: 2, NO_SPEAKER: 1, NO_FEATURE: 1}
    assert (found.given, found.lines.tolist(), found.phone_names) == (6, [6, 7], ("a", "na"))


def test_levels_go_through_map_and_bins_and_count_used_tokens_only(tmp_path) -> None:
    content = "phone,speaker,age,accent,x0\na,s,25,N,1\na,t,71,,2\na,u,x,N,3\na,v,30,N,\n"
    path = write(tmp_path, content)
    mapping = write(tmp_path, "column,from,to\naccent,N,north\n", "map.csv")
    found = read(path, by=("age", "accent", "age"), bins={"age": (18.0, 60.0)}, values=mapping)
    assert found.level_names == {"age": ("18-59", "60+", "unknown"), "accent": ("north", "unknown")}
    assert {name: numbers.tolist() for name, numbers in found.levels.items()} == {
        "age": [0, 1, 2],
        "accent": [0, 1, 0],
    }
    assert {note.id: note.count for note in found.notes} == {
        "manifest.not-numeric": 1,
        "manifest.binned": 2,
        "manifest.unknown": 1,
        "manifest.mapped": 2,
    }


def test_labels_have_one_spelling(tmp_path) -> None:
    content = HEADER + "\u00e9,Zo\u00eb,n,1,2\n e\u0301 ,Zoe\u0308,n,1,2\n"
    found = read(write(tmp_path, content))
    assert (found.phone_names, found.speaker_names) == (("\u00e9",), ("Zo\u00eb",))


def test_the_logarithm_is_natural_and_taken_before_rounding(tmp_path) -> None:
    found = read(write(tmp_path, HEADER + "a,s,n,1,1e39\na,s,n,2.718281828459045,\n"), transform="log")
    assert (found.skipped, held(found).tolist()) == ({NO_FEATURE: 1}, [[0.0, np.float32(39 * np.log(10))]])


def test_a_table_of_many_blocks_keeps_its_order(tmp_path) -> None:
    content = HEADER + "".join(f"p{row % 7},s{row % 3},n,{row},{-row}\n" for row in range(3000))
    found = read(write(tmp_path, content))
    assert held(found, size=700)[:, 0].tolist() == list(range(3000))
    assert [found.phone_names[number] for number in found.phones[:9]] == [f"p{row % 7}" for row in range(9)]


def test_a_table_that_cannot_be_held_is_refused_before_it_is_read(tmp_path, monkeypatch) -> None:
    path = write(tmp_path, HEADER + "a,s,n,1,2\n" * 10)
    monkeypatch.setattr(module, "MAX_CELLS", 55)
    assert len(read(path).phones) == 10
    monkeypatch.setattr(module, "MAX_CELLS", 54)
    monkeypatch.setattr(module, "read_table", None)
    assert "about 55 cells" in refuse(path)
    assert "numpy.savez" in refuse(path)
