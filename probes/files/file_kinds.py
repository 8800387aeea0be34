"""Recognise files that are something else than their names say: a web page, a pointer without content, a workbook.

They come from downloads that went wrong and from spreadsheets, and would surface as an obscure error of a parser.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file really is, and how to get what was meant."""

    what: str
    hint: str


def unexpected_kind(head: bytes) -> FileKind | None:
    """Recognise a file by its first bytes (512 are enough); None where nothing is suspicious.

    >>> unexpected_kind(b"<!DOCTYPE html><html>").what
    'a web page'
    >>> unexpected_kind(b"RIFF") is None
    True
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return FileKind("a web page", "The download went wrong (a log-in or error page).")
    if start.startswith(b"version https://git-lfs.github.com/spec"):
        return FileKind(
            "a Git LFS pointer",
            "Its content was not fetched: run `git lfs pull` where it is from.",
        )
    # The name of the first member of a zip begins behind 30 bytes.
    if head.startswith(_OLD_OFFICE) or (head.startswith(_ZIP) and head[30:].startswith(_WORKBOOKS)):
        return FileKind("a document of Office, such as an Excel workbook", f"{IN_EXCEL}.")
    return None


IN_EXCEL = "In Excel: File, Save As, CSV UTF-8"
"""How a spreadsheet becomes a table that is read."""
_ZIP, _OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_WORKBOOKS = (
    b"[Content_Types].xml",
    b"_rels/.rels",
    b"docProps/",
    b"xl/workbook",
    b"xl/worksheets/",
    b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
)
"""What begins a workbook that Excel, LibreOffice or a library wrote."""
_UNPACK = "Unpack it, and name the file inside."
_BZIP2 = (b"1AY&SY", b"\x17rE8P\x90")
_MAGIC = {
    b"\x89PNG": ("a PNG image", ""),
    b"\xff\xd8\xff": ("a JPEG image", ""),
    _ZIP: ("a ZIP archive", _UNPACK),
    b"\x1f\x8b": (
        "a gzip file",
        "Where it is a text or a table, let its name end in .gz, or unpack it.",
    ),
    # The size of its blocks and the first of them, or the end; "BZh" alone may begin the name of a column.
    **{b"BZh%d%s" % (size, block): ("a bzip2 file", _UNPACK) for size in range(1, 10) for block in _BZIP2},
    b"\xfd7zXZ": ("an xz file", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("a Zstandard file", _UNPACK),
    b"%PDF-": ("a PDF document", ""),
    b"PAR1": ("a Parquet file", "Where it is a table, name it .parquet."),
    b"ARROW1": ("an Arrow file", "Where it is a table, name it .arrow."),
    b"\x89HDF": ("an HDF5 file", ""),
    b"\x93NUMPY": ("an array of numpy (NPY)", ""),
}


def binary_kind(head: bytes) -> FileKind | None:
    """Name the kind of a binary file by its first bytes; None where they may be text.

    >>> binary_kind(bytes([31, 139, 8])).what, binary_kind(b"path,text")
    ('a gzip file', None)
    """
    return next((FileKind(*found) for start, found in _MAGIC.items() if head.startswith(start)), None)


def wide_encoding(head: bytes) -> str:
    """Name the encoding of a text in which letters take two bytes and more; "" where they take one.

    Without a byte order mark it is known by every second byte, which is zero in the letters of Europe.

    >>> wide_encoding("a,b".encode("utf-16")), wide_encoding("a,b".encode("utf-16-le")), wide_encoding(b"a,b")
    ('UTF-16', 'UTF-16', '')
    """
    named = next((name for mark, name in _WIDE.items() if head.startswith(mark)), "")
    pairs = len(head) // 2
    zeros = [head[side : 2 * pairs : 2].count(0) for side in (0, 1)]
    return named or ("UTF-16" if pairs > 1 and 2 * max(zeros) > pairs and not min(zeros) else "")


_WIDE = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
