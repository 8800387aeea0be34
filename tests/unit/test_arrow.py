import datetime
import decimal
import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from probes.contained import Limits
from probes.core.errors import InputError
from probes.files.arrow import read_arrow
from probes.files.tables import read_table
from probes.speech.corpora import read_corpus
from probes.speech.manifests import ColumnMap, Manifest, read_manifest

ROWS = {"path": ["a.wav", "b.wav"], "speaker": ["s1", None], "age": [25, None]}


def save(table: Any, path: Path) -> Path:
    """Write a table in the form that the name asks for; `.stream.arrow` is Arrow without an index."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".parquet", ".pq"):
        parquet.write_table(table, path)
    elif path.name.endswith(".stream.arrow") or path.name.startswith("data-"):
        with ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
    else:
        feather.write_feather(table, str(path))
    return path


def column(folder: Path, values: Any, name: str = "a.parquet") -> list[str | None]:
    table = read_table(save(pa.table({"x": values}), folder / name))
    return [row.values["x"] for row in table.rows]


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert caught.value.where.startswith(str(path)) and caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "t.arrow", "t.feather", "t.ipc", "t.stream.arrow", "T.PARQUET"])
def test_every_form_holds_the_same_rows(tmp_path: Path, name: str) -> None:
    path = save(pa.table(ROWS), tmp_path / name.lower()).rename(tmp_path / name)
    table = read_table(path)
    assert (table.path, table.columns, table.sources) == (path, ("path", "speaker", "age"), (path,))
    assert [(row.line, dict(row.values)) for row in table.rows] == [
        (1, {"path": "a.wav", "speaker": "s1", "age": "25"}),
        (2, {"path": "b.wav", "speaker": None, "age": None}),
    ]


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (pa.array([0.1, 2.0, None], pa.float32()), ["0.1", "2", None]),
        (pa.array([0.1, 25.0, 1e300]), ["0.1", "25", "1e+300"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None]),
        (pa.array(["é", ""], pa.large_string()), ["é", ""]),
        (pa.array([datetime.date(2020, 1, 2)]), ["2020-01-02"]),
        (pa.array([datetime.datetime(2020, 1, 2, 3, 4, 5)]), ["2020-01-02T03:04:05"]),
        (pa.array([decimal.Decimal("1.50")]), ["1.50"]),
        (
            pa.array([decimal.Decimal("20.000"), decimal.Decimal("0.125"), None], pa.decimal128(10, 3)),
            ["20", "0.125", None],
        ),
        (pa.array([2**63], pa.uint64()), [str(2**63)]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_values_are_written_as_in_a_csv_file(tmp_path: Path, values: Any, read: list[str | None]) -> None:
    assert column(tmp_path, values) == read


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.array([b"RIFF"]), "holds bytes"),
        (pa.array([b"RIFF"]).dictionary_encode(), "holds bytes"),
        (pa.array([b"RIFF"], pa.binary(4)), "holds bytes"),
    ],
)
def test_bytes_are_refused_by_name(tmp_path: Path, values: Any, said: str) -> None:
    error = refused(save(pa.table({"path": ["a.wav"], "extra": values}), tmp_path / "t.parquet"))
    assert said in error.message and "'extra'" in error.message
    assert error.where == f"{tmp_path / 't.parquet'}, column extra"
    assert "drop_columns(['extra'])" in error.hint


@pytest.mark.parametrize(
    ("values", "cell"),
    [
        (pa.array([[1, 2]]), "[1, 2]"),
        (pa.array([{"b": "\u00e9", "a": None}]), '{"a": null, "b": "\u00e9"}'),
        (pa.array([[{"bytes": b"x", "at": datetime.date(2026, 1, 2)}]]), '[{"at": null, "bytes": null}]'),
    ],
)
@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_lists_and_structures_are_json_and_refused_where_they_are_used(
    tmp_path: Path, values: Any, cell: str, name: str
) -> None:
    path = save(pa.table({"path": ["a.wav"], "extra": values}), tmp_path / name)
    table = read_table(path)
    assert table.rows[0].values == {"path": "a.wav", "extra": cell}
    assert table.nested == {"extra": f"{path}, column extra"}
    # As of JSON: it does not matter where nobody uses it.
    assert read(path).clips[0].name == "a.wav"
    with pytest.raises(InputError, match="'extra' holds a list or an object") as caught:
        read(path, "extra")
    assert caught.value.where == f"{path}, column extra"


def test_recordings_of_hugging_face_are_known_by_their_paths(tmp_path: Path) -> None:
    audio = [{"bytes": b"RIFF", "path": "a.wav"}, {"bytes": None, "path": "b.wav"}, {"bytes": None, "path": None}]
    assert column(tmp_path, audio) == ["a.wav", "b.wav", None]
    audio[1] = {"bytes": b"RIFF", "path": None}
    error = refused(save(pa.table({"audio": audio}), tmp_path / "t.stream.arrow"))
    assert error.message == "The recording stands in the table itself and has no path."
    assert error.where.endswith("t.stream.arrow, column audio, row 2")
    assert "Write its bytes to a file" in error.hint


def test_classes_of_hugging_face_have_their_names(tmp_path: Path) -> None:
    features = {"sex": {"names": ["female", "male"], "_type": "ClassLabel"}, "n": {"dtype": "int64"}}
    table = pa.table({"sex": [1, 0, -1], "n": [1, 0, -1]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    rows = read_table(save(table, tmp_path / "t.parquet")).rows
    assert [row.values["sex"] for row in rows] == ["male", "female", None]
    assert [row.values["n"] for row in rows] == ["1", "0", "-1"]
    for broken in ("[", "[]", '{"info": 3}', '{"info": {"features": {"sex": {"names": 3}}}}', "[" * 9999):
        table = table.replace_schema_metadata({"huggingface": broken})
        assert read_table(save(table, tmp_path / "t.parquet")).rows[0].values["sex"] == "1"


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    good = save(pa.table(ROWS), tmp_path / "t.parquet").read_bytes()
    stream = save(pa.table(ROWS), tmp_path / "t.stream.arrow").read_bytes()
    cases = {
        "cut.parquet": (good[:-9], "not Parquet that can be read"),
        "head.parquet": (b"PAR1" + bytes(60), "not Parquet that can be read"),
        "text.parquet": (b"path,speaker\na.wav,s\n", "not Parquet that can be read"),
        "cut.arrow": (stream[: len(stream) // 2], "not an Arrow file that can be read"),
        "noise.feather": (bytes(range(256)), "not an Arrow file that can be read"),
        "old.feather": (b"FEA1" + bytes(60), "first version of Feather"),
        "empty.parquet": (b"", "The file is empty"),
        "page.parquet": (b"<!doctype html>", "a web page, not a table"),
    }
    for name, (content, said) in cases.items():
        (tmp_path / name).write_bytes(content)
        assert said in refused(tmp_path / name).message, name
    assert "no such file" in refused(tmp_path / "nowhere.parquet").message
    os.mkfifo(tmp_path / "pipe.parquet")
    assert "not an ordinary file" in refused(tmp_path / "pipe.parquet").message
    assert "header but no rows" in refused(save(pa.table({"a": pa.nulls(0)}), tmp_path / "t.parquet")).message
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", " a"])
    assert "two columns 'a'" in refused(save(twice, tmp_path / "t.arrow")).message
    nul = refused(save(pa.table({"a": ["x", "a\0b"]}), tmp_path / "t.stream.arrow"))
    assert nul.where.endswith("column a, row 2") and "NUL" in nul.message


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.stream.arrow"])
def test_a_damaged_file_is_refused_or_read(tmp_path: Path, name: str) -> None:
    audio = [{"bytes": b"x", "path": "a.wav"}, {"bytes": None, "path": "b.wav"}]
    whole = save(pa.table({**ROWS, "sex": pa.array(["f", "m"]).dictionary_encode(), "audio": audio}), tmp_path / name)
    content, source = whole.read_bytes(), random.Random(name)
    refusals = 0
    for number in range(25):
        damaged = bytearray(content)
        for _ in range(source.randint(1, 8)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        whole.write_bytes(damaged[: source.randrange(len(damaged))] if number % 5 == 0 else damaged)
        try:
            read_table(whole)
        except InputError:
            refusals += 1
    assert refusals > 10


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    offsets, data = pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")
    table = pa.table({"a": pa.StringArray.from_buffers(1, offsets, data)})
    assert "UTF" in refused(save(table, tmp_path / "t.stream.arrow")).message


def test_a_table_that_is_too_large_is_refused(tmp_path: Path) -> None:
    many = pa.table({f"c{number}": pa.nulls(1_000_000) for number in range(31)})
    said = "There are more than 5,000,000 rows or 30,000,000 cells."
    assert refused(save(many, tmp_path / "many.parquet")).message == said
    # 1 kB in the file, 8 GB as text.
    long = pa.table({"x": pa.array(["a" * 2**20]).dictionary_encode().take(pa.array([0] * 8192))})
    parquet.write_table(long, tmp_path / "long.parquet", compression="zstd")
    assert (tmp_path / "long.parquet").stat().st_size < 2**20
    with pytest.raises(InputError, match="The table is not read: "):
        read_arrow(
            tmp_path / "long.parquet", most_rows=10**6, most_cells=10**6, limits=Limits(memory=2**29, seconds=30)
        )
    with (tmp_path / "long.parquet").open("ab") as file:
        file.truncate(2**31 + 1)
    assert "2,147,483,649 bytes, more than 2,147,483,648." in refused(tmp_path / "long.parquet").message


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(pa.table(ROWS), tmp_path / "t.parquet")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    error = refused(path)
    assert "pyarrow" in error.message and "pip install 'miles-audit[tables]'" in error.hint


# Folders.
def read(path: Path, *by: str, **options: Any) -> Manifest:
    defaults: dict[str, Any] = {"columns": ColumnMap(), "values": None, "bins": {}, "needs": frozenset({"path"})}
    return read_manifest(path, by=by, **{**defaults, **options})


def saved(folder: Path, *parts: Any, **state: Any) -> Path:
    """Write what `Dataset.save_to_disk` writes."""
    names = [f"data-{number:05}-of-{len(parts):05}.arrow" for number in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        save(pa.table(part), folder / name)
    files = [{"filename": name} for name in names]
    (folder / "state.json").write_text(json.dumps({"_data_files": files, "_fingerprint": "0", **state}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def refuse(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.hint
    return caught.value


def test_a_saved_dataset_is_a_manifest(tmp_path: Path) -> None:
    one = {"audio": [{"bytes": None, "path": "a.wav"}, {"bytes": None, "path": "sub/b.wav"}], "sex": ["f", "m"]}
    other = {"audio": [{"bytes": b"RIFF", "path": str(tmp_path / "c.wav")}], "sex": ["f"]}
    folder = saved(tmp_path / "set", one, other)
    manifest = read(folder, "sex")
    # Rows are counted through all parts, as the data set counts them.
    assert [(clip.name, clip.line, clip.source, clip.attributes["sex"]) for clip in manifest.clips] == [
        ("a.wav", 1, folder, "f"),
        ("sub/b.wav", 2, folder, "m"),
        (str(tmp_path / "c.wav"), 3, folder, "f"),
    ]
    assert manifest.clips[1].path == folder.resolve() / "sub" / "b.wav"
    assert (manifest.path, len(manifest.sha256)) == (folder, 64)
    assert read(folder, audio_root=tmp_path).clips[0].path == tmp_path.resolve() / "a.wav"


def test_a_saved_dataset_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    one, other = {"path": ["a.wav"]}, {"file": ["b.wav"]}
    assert "other columns" in refuse(saved(tmp_path / "odd", one, other)).message
    chosen = refuse(saved(tmp_path / "chosen", one, _indices_data_files=[{"filename": "i.arrow"}]))
    assert "flatten_indices" in chosen.hint
    for files in (None, [], [{}], [{"filename": "../x.arrow"}], [{"filename": "/etc/hostname"}], ["x"], {"a": 1}, 3):
        error = refuse(saved(tmp_path / "bad", one, _data_files=files))
        assert error.where.endswith("state.json, key _data_files"), files
    gone = saved(tmp_path / "gone", one)
    (gone / "data-00000-of-00001.arrow").unlink()
    assert "no such file" in refuse(gone).message
    (gone / "data-00000-of-00001.arrow").symlink_to(save(pa.table(one), tmp_path / "outside.arrow"))
    assert "leads out of its folder" in refuse(gone).message
    (gone / "state.json").unlink()
    (gone / "state.json").symlink_to("/etc/hostname")
    assert "leads out of its folder, to /etc/hostname." in refuse(gone).message
    splits = saved(tmp_path / "splits" / "train", one).parent
    (splits / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert [clip.name for clip in read(splits).clips] == ["a.wav"]
    saved(splits / "test", one)
    assert "several splits: test, train." in refuse(splits).message and f"{splits}:train" in refuse(splits).hint
    assert "no split 'dev'" in refuse(Path(f"{splits}:dev")).message


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl", "metadata.parquet"])
def test_a_folder_with_metadata_is_a_manifest(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    if name.endswith("csv"):
        (folder / name).write_text("file_name,speaker\na/x.wav,s\n")
    elif name.endswith("jsonl"):
        (folder / name).write_text('{"file_name": "a/x.wav", "speaker": "s"}\n')
    else:
        save(pa.table({"file_name": ["a/x.wav"], "speaker": ["s"]}), folder / name)
    (clip,) = read(folder).clips
    assert (clip.path, clip.speaker, clip.source) == (folder.resolve() / "a" / "x.wav", "s", folder / name)
    assert refuse(tmp_path).message == "This is a folder of splits, each with its own metadata: clips."
    (folder / "metadata.csv").touch()
    (folder / "metadata.jsonl").touch()
    assert "several tables of metadata: metadata.csv, metadata.jsonl" in refuse(folder).message


def test_metadata_that_are_a_link_out_of_the_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "metadata.csv").symlink_to("/etc/hostname")
    assert "leads out of its folder, to /etc/hostname." in refuse(tmp_path / "clips").message


def test_a_preset_reads_parquet(tmp_path: Path) -> None:
    save(
        pa.table({"speaker": ["s"], "text": ["HELLO"], "audio": [{"bytes": None, "path": "1.wav"}]}), tmp_path / "t.pq"
    )
    (tmp_path / "t.pq").rename(tmp_path / "test.parquet")
    (clip,) = read_corpus(
        "edacc", tmp_path, audio_root=None, by=[], values=None, bins={}, needs=frozenset({"path", "text"})
    ).clips
    assert (clip.name, clip.text, clip.line) == ("1.wav", "HELLO", 1)
