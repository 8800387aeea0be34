"""Files that are something else than their names say: a web page, or a pointer without content.

Both come from downloads that went wrong, and would surface as an obscure error of a parser.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Impostor:
    """What a file is instead, and how to get what was meant."""

    what: str
    hint: str


def impostor(head: bytes) -> Impostor | None:
    """Recognise a file by its first bytes (512 are enough); None where nothing is suspicious.

    >>> impostor(b"<!DOCTYPE html><html>").what
    'a web page'
    >>> impostor(b"RIFF") is None
    True
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return Impostor("a web page", "The download went wrong (a log-in or error page).")
    if start.startswith(b"version https://git-lfs.github.com/spec"):
        return Impostor(
            "a Git LFS pointer",
            "Its content was not fetched: run `git lfs pull` where it is from.",
        )
    return None


_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"%PDF-": "a PDF document",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "an array of numpy (NPY)",
    b"\xd0\xcf\x11\xe0": "an old Office document, such as XLS",
}


def magic(head: bytes) -> str | None:
    """Name the kind of file that is no text by its first bytes; None where they may be text.

    >>> magic(bytes([31, 139, 8])), magic(b"path,text")
    ('a gzip file', None)
    """
    return next((what for start, what in _MAGIC.items() if head.startswith(start)), None)
