"""Are files in gzip read as the plain ones are, in constant memory, and refused where they are damaged or a bomb?"""

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files import gzips
from probes.files.number_rows import NumberRows
from probes.files.schemas import Column, Schema, SchemaReader
from probes.files.tables import Table, read_table
from probes.files.text import numbered_lines, read_text
from probes.files.text_lines import TextLines
from probes.language_models.language_corpora import read_language
from probes.texts.text_files import read_texts

TABLE = 'name,text\na,up we go\n\nb,"no,\nno"\n'
JSONL = '{"name": "a", "text": "up we go"}\n{"name": "b", "text": null}\n'


def packed(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data, mtime=0))
    return path


def refused(call: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.where and caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", TABLE),
        ("a.CSV", "\ufeff" + TABLE),
        ("a.tsv", "name\ttext\na\tup we go\n\nb\tno\n"),
        ("a.csv", "name;x\na;2,5\nb;3,5\n"),
        ("a.csv", "a,b\tc\n1,2\t3\n"),
        ("a.jsonl", JSONL),
        ("a.json", "[" + JSONL.strip().replace("\n", ",") + "]"),
        ("a", TABLE),
    ],
)
def test_a_packed_table_is_the_plain_one(tmp_path: Path, name: str, text: str) -> None:
    plain, other = tmp_path / name, packed(tmp_path / f"{name}.gz", text)
    plain.write_text(text)

    def held(table: Table) -> object:
        return table.columns, [(row.line, row.values) for row in table.rows], table.notes, table.separator

    assert held(read_table(other)) == held(read_table(plain))
    assert read_table(other).sources == (other,)


def test_two_members_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x\n1\n") + gzip.compress(b"2\n") + bytes(9))
    assert [row.values["x"] for row in read_table(path).rows] == ["1", "2"]


def test_readers_of_blocks_and_of_texts_take_it(tmp_path: Path) -> None:
    schema = Schema(columns=(Column(name="x", kind="number", required=True),), most_rows=99, hint="Give x.")
    reader = SchemaReader(packed(tmp_path / "x.csv.gz", "x\n1\n2.5\n"), schema)
    assert reader.form == "CSV" and [block.numbers("x").tolist() for block in reader.blocks()] == [[1.0, 2.5]]
    rows = NumberRows(
        packed(tmp_path / "n.csv.gz", "1,2\n3,4\n"), is_header=lambda first, where: False, largest=9, row="a point"
    )
    assert [block.tolist() for block in rows.blocks()] == [[[1, 2], [3, 4]]]
    texts = read_texts(packed(tmp_path / "t.txt.gz", "up we go\n\nno\n"))
    assert (texts.texts, texts.places.tolist()) == (("up we go", "no"), [1, 3])
    assert texts.sha256 == sha256_file(tmp_path / "t.txt.gz")


def test_a_language_may_be_packed(tmp_path: Path) -> None:
    text = "".join(f"line {number:02}\n" for number in range(50))
    for name in ("plain", "gz", "both"):
        (tmp_path / name).mkdir()
    (tmp_path / "plain" / "en.txt").write_text(text)
    packed(tmp_path / "gz" / "en.txt.gz", text)
    plain, other = (
        read_language(tmp_path / name, "en", seed=0, train_bytes=240, held_bytes=40) for name in ("plain", "gz")
    )
    assert (other.train, other.held, other.bytes, other.given) == (plain.train, plain.held, plain.bytes, plain.given)
    # The hash is that of the file as it lies.
    assert other.sha256 == sha256_file(tmp_path / "gz" / "en.txt.gz") != plain.sha256
    (tmp_path / "gz" / "en.txt").write_text(text)
    assert (
        "en.txt and en.txt.gz"
        in refused(lambda: read_language(tmp_path / "gz", "en", seed=0, train_bytes=240, held_bytes=40)).message
    )


def test_a_bomb_is_refused_and_never_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzips, "FREE", 2**20)
    bomb = tmp_path / "bomb.csv.gz"
    with gzip.open(bomb, "wb", compresslevel=9) as file:
        file.write(b"x\n")
        # Blank lines are no rows: no limit of rows ends them.
        for _ in range(8):
            file.write((b" " * 1023 + b"\n") * 2**10)
    assert bomb.stat().st_size < 2**15
    tracemalloc.start()
    try:
        error = refused(lambda: read_table(bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "unpacks to more than " in error.message and "gunzip -k" in error.hint
    assert error.where == str(bomb)
    assert peak < 2**22


def test_text_that_is_held_has_its_limit_when_unpacked(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.json.gz", "[" + "1,\n" * 10_000 + "1]")
    assert path.stat().st_size < 2_000
    assert "unpacks to more than 2000 bytes" in refused(lambda: read_text(path, largest=2_000)).message


def test_a_ratio_that_texts_have_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzips, "FREE", 2**10)
    path = packed(tmp_path / "a.txt.gz", "".join(f"we go up {number}\n" for number in range(5_000)))
    assert sum(1 for _ in numbered_lines(path)) == 5_000
    monkeypatch.setattr(gzips, "MOST_TIMES", 1)
    assert "unpacks to more than" in refused(lambda: list(numbered_lines(path))).message


def test_damage_is_said(tmp_path: Path) -> None:
    whole = gzip.compress(TABLE.encode() * 200, mtime=0)
    path = tmp_path / "a.csv.gz"
    flipped = whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:]
    for data in (whole[: len(whole) // 2], whole[:-3], flipped, whole[:12] + b"\xff" * 9 + whole[21:], whole[:5]):
        path.write_bytes(data)
        error = refused(lambda: read_table(path))
        assert "damaged or cut off" in error.message and error.where == str(path) and "gzip -t" in error.hint
    path.write_bytes(whole + b"more")
    assert "damaged or cut off" in refused(lambda: read_table(path)).message


def test_what_is_in_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    cases = {
        b"<!DOCTYPE html><html>": "In the gzip file is a web page",
        b"PAR1" + bytes(20): "In the gzip file is a Parquet file",
        gzip.compress(b"x\n1\n"): "In the gzip file is a gzip file",
        b"": "nothing in the gzip file",
        "x\n\u00e9\n".encode("latin-1"): "is not UTF-8 text",
        b"x\n\0\n": "NUL byte",
    }
    for data, said in cases.items():
        packed(path, data)
        assert said in refused(lambda: read_table(path)).message, data
    path.write_text("x\n1\n")
    error = refused(lambda: read_table(path))
    assert "is no gzip file" in error.message and "Take .gz off" in error.hint


def test_lines_have_the_numbers_of_the_plain_text(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.csv.gz", "x,y\n1,2\n3\n")
    assert refused(lambda: read_table(path)).where == f"{path}:3"


def test_a_gzip_file_named_otherwise_is_refused_with_its_name(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.csv", TABLE)
    error = refused(lambda: read_table(path))
    assert "This is a gzip file" in error.message and "end in .gz" in error.hint


def test_lines_count_what_they_read(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.txt.gz", "up\r\nno\n")
    lines = TextLines(path)
    assert [block.texts(np.arange(2)) for block in lines.blocks()] == [["up", "no"]]
    assert (lines.count, lines.size, lines.digest.hexdigest()) == (2, 7, sha256_file(path))
