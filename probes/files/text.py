"""Read untrusted text files in blocks of whole lines, decoded from UTF-8.

What is no text is refused with what it is instead, and with the line that shows it.
"""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from string import ascii_letters

from probes.core.errors import InputError
from probes.files.file_kinds import IN_EXCEL, binary_kind, wide_encoding
from probes.files.gzips import is_gzip, open_plain, read_plain_head
from probes.files.opening import unreadable

LONGEST_LINE = 2**26
"""Bytes of the longest line that is read, where a reader sets no other limit."""
LARGEST = 2**30
"""Bytes of the largest text that is held as a whole."""
HINT = "Name a file with text in UTF-8."
OLD_ENDS = " Its lines may end in CR alone, as on old Macs: write LF."
MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""

_BLOCK = 2**15
_AROUND = 2**15


def read_text(path: Path, *, hint: str = HINT, largest: int = LARGEST, wide: bool = False) -> str:
    """Return a text file, decoded from UTF-8 with or without a byte order mark.

    Parameters
    ----------
    hint
        What to do where there is no text.
    largest
        Bytes of a file after which it is refused.
    wide
        UTF-16 with a byte order mark is read too, as Praat writes it.

    Raises
    ------
    InputError
        Where it is missing, a folder, unreadable, empty, binary, in another encoding or too large.
    """
    check_size(path, largest)
    if wide and read_plain_head(path, wanted="text", hint=hint).startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        text = _from_utf16(path, largest)
    else:
        text = "".join(_limited(path, byte_blocks(path, hint=hint, longest=largest, size=2**22), largest))
    if not text.strip():
        raise InputError("The file is empty.", where=str(path), hint=hint)
    return text


def _limited(path: Path, blocks: Iterator[bytes], largest: int) -> Iterator[str]:
    """Yield blocks as text; what a compressed file unpacks to is known only while it is read."""
    count = 0
    for block in blocks:
        count += len(block)
        if count > largest:
            message = f"The file unpacks to more than {largest} bytes."
            raise InputError(message, where=str(path), hint="Split it, or leave out what is not needed.")
        yield block.decode()


def _from_utf16(path: Path, largest: int) -> str:
    try:
        with open_plain(path) as file:
            text = file.read(largest).decode("utf-16")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        message = f"The byte 0x{error.object[error.start]:02x} at offset {error.start} is not UTF-16 text."
        raise InputError(message, where=str(path), hint="Save it as UTF-8.") from None
    if "\0" in text:
        where = f"{path}:{text.count(chr(10), 0, text.index(chr(0))) + 1}"
        raise InputError("The file holds a NUL byte: it is not text.", where=where, hint="Save it as UTF-8.")
    return text


def check_size(path: Path, most: int, *, hint: str = "Split it, or leave out what is not needed.") -> None:
    """Refuse a file of more than `most` bytes; a missing file is left to its reader."""
    size = path.stat().st_size if path.is_file() else 0
    if size > most:
        raise InputError(f"The file has {size} bytes; at most {most} are read.", where=str(path), hint=hint)


def text_blocks(path: Path, *, hint: str = HINT, size: int = _BLOCK) -> Iterator[str]:
    """Yield the text of a file in blocks of whole lines, so that its size does not matter to memory."""
    return (block.decode() for block in byte_blocks(path, hint=hint, size=size))


def numbered_lines(path: Path, *, hint: str = HINT) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, without its end, which is LF or CR LF."""
    blocks = (block.removesuffix("\n").split("\n") for block in text_blocks(path, hint=hint))
    for number, line in enumerate(chain.from_iterable(blocks), start=1):
        yield number, line.removesuffix("\r")


def byte_blocks(
    path: Path,
    *,
    hint: str = HINT,
    longest: int = LONGEST_LINE,
    size: int = _BLOCK,
    seen: Callable[[bytes], object] | None = None,
) -> Iterator[bytes]:
    """Yield the bytes of a text file in whole lines, known to be UTF-8; a byte order mark is left out.

    A file `.gz` is unpacked while it is read.

    Parameters
    ----------
    hint
        What to do where the file is something else.
    longest
        Bytes of a line after which nothing more is read.
    seen
        Called with all bytes as they are in the file, which may be compressed.

    Raises
    ------
    InputError
        As of `read_head`, and where the bytes are no UTF-8 text or a line is longer than `longest`.
    """
    _check_head(path, hint)
    # A line of many blocks is put together once: joining block after block would take time by its square.
    parts: list[bytes] = []
    lines, held, start = 0, 0, True
    try:
        with open_plain(path, seen) as file:
            while data := file.read(size):
                data, start = data.removeprefix(MARK) if start else data, False
                end = data.rfind(b"\n") + 1
                if end:
                    whole = b"".join([*parts, data[:end]])
                    yield _checked(whole, path, lines)
                    lines, data, parts, held = lines + whole.count(b"\n"), data[end:], [], 0
                parts.append(data)
                held += len(data)
                if held > longest:
                    raise too_long(b"".join(parts), f"{path}:{lines + 1}", longest)
    except OSError as error:
        raise unreadable(path, error) from error
    if held:
        yield _checked(b"".join(parts), path, lines)


def too_long(line: bytes, where: str, longest: int) -> InputError:
    """Return the refusal of a line that is longer than the limit."""
    message = f"The line is longer than {longest:,} bytes."
    return InputError(message, where=where, hint="Write one sentence or one row a line." + OLD_ENDS * (b"\r" in line))


def _check_head(path: Path, hint: str) -> None:
    head = read_plain_head(path, wanted="text", hint=hint)
    found = binary_kind(head)
    if found:
        packed = is_gzip(path)
        message = f"{'In the gzip file' if packed else 'This'} is {found.what}, not text."
        # Where it has the suffix that the hint names, this reader takes no such file.
        advice = "" if path.suffix and path.suffix.lower() in found.hint else found.hint
        advice = f"Unpack it (gunzip -k FILE). {advice}" if packed else advice
        raise InputError(message, where=str(path), hint=f"{advice} {hint}".strip())
    wide = wide_encoding(head)
    if wide:
        raise InputError(f"The text is in {wide}.", where=f"{path}:1", hint=f"Save it as UTF-8. {IN_EXCEL}.")


def _checked(data: bytes, path: Path, lines: int) -> bytes:
    """Return the bytes if they are text; `lines` is the number of lines before them."""
    zero = data.find(b"\0")
    if zero >= 0:
        message, at = "The file holds a NUL byte: it is not text, or not in UTF-8.", zero
    else:
        try:
            if not data.isascii():
                data.decode()
            return data
        except UnicodeDecodeError as error:
            at = error.start
            near = data[max(0, at - _AROUND) : at + _AROUND]
            message = f"The byte 0x{data[at]:02x} is not UTF-8 text: {_likely(near)}."
    line = lines + data.count(b"\n", 0, at) + 1
    raise InputError(message, where=f"{path}:{line}", hint="Save it as UTF-8.")


def _likely(data: bytes) -> str:
    """Name the likely encoding of text that is not UTF-8."""
    text = data.decode(errors="replace")
    bad, latin = text.count("\ufffd"), sum(letter in ascii_letters for letter in text)
    if sum(not letter.isascii() for letter in text) > 2 * bad:
        return "the rest looks like UTF-8, so it may be damaged there"
    if 2 * bad < latin:
        return "it looks like Latin-1 or Windows-1252"
    return "it looks like an older encoding of its script, such as Windows-1251 or GB18030"
