"""Is a spreadsheet, or a packed file, that stands where a reader wants something else named, with the way out?"""

import bz2
import gzip
import io
import zipfile
from pathlib import Path

import pytest
from hostile.test_parsers import READERS

from probes.core.errors import InputError
from probes.files.tables import read_table


def book(first: str) -> bytes:
    """Return a zip whose first members are those of a workbook."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in dict.fromkeys((first, "[Content_Types].xml", "_rels/.rels", "xl/workbook.xml")):
            archive.writestr(name, "<Types/>")
    return file.getvalue()


BOOKS = {
    "Excel": book("[Content_Types].xml"),
    "openpyxl": book("docProps/app.xml"),
    "XlsxWriter": book("xl/worksheets/sheet1.xml"),
    "XLS": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
}
PACKED = {
    "a ZIP archive": book("table.csv"),
    "a gzip file": gzip.compress(b"path,text\na.wav,up\n"),
    "a bzip2 file": bz2.compress(b"path,text\na.wav,up\n"),
}


def refusal(path: Path, content: bytes, read: object = read_table) -> InputError:
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(path)  # type: ignore[operator]
    return caught.value


# `langs.csv` and `en.txt` are found by their names in a folder, which their readers are given.
@pytest.mark.parametrize("name", sorted(READERS.keys() - {"tokenizer.json", "report.json", "config.toml"}))
def test_a_workbook_is_named_with_the_way_out(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path / name, BOOKS["Excel"], READERS[name][1])
    assert "This is a document of Office, such as an Excel workbook" in error.message
    assert error.hint.startswith("In Excel: File, Save As, CSV UTF-8.") and str(tmp_path / name) in str(error.where)


@pytest.mark.parametrize("book", BOOKS)
def test_whoever_wrote_the_workbook(tmp_path: Path, book: str) -> None:
    assert "an Excel workbook" in refusal(tmp_path / "t.csv", BOOKS[book]).message


@pytest.mark.parametrize("what", PACKED)
def test_a_packed_table_is_to_be_unpacked(tmp_path: Path, what: str) -> None:
    error = refusal(tmp_path / "t.csv", PACKED[what])
    assert error.message == f"This is {what}, not text."
    advice = "Where it is a text or a table, let its name end in .gz, or unpack it."
    advice = advice if what == "a gzip file" else "Unpack it, and name the file inside."
    assert error.hint == f"{advice} Give a table with a header and rows."


@pytest.mark.parametrize("level", [1, 9])
def test_bzip2_is_known_by_more_than_three_letters(tmp_path: Path, level: int) -> None:
    for content in (b"", b"path,text\n"):
        assert "a bzip2 file" in refusal(tmp_path / "t.csv", bz2.compress(content, level)).message
    for name in ("BZh", "BZhello", f"BZh{level}"):
        (tmp_path / "t.csv").write_text(f"{name},text\n1,a\n", encoding="utf-8")
        assert [dict(row.values) for row in read_table(tmp_path / "t.csv").rows] == [{name: "1", "text": "a"}]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_the_unicode_text_of_excel_is_named(tmp_path: Path, encoding: str) -> None:
    error = refusal(tmp_path / "t.txt", "path\ttext\na.wav\tun été\n".encode(encoding))
    assert error.message == f"The text is in {encoding[:6].upper()}." and error.where == f"{tmp_path / 't.txt'}:1"
    assert error.hint == "Save it as UTF-8. In Excel: File, Save As, CSV UTF-8."
