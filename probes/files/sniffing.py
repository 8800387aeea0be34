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
