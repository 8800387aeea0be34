"""Text files of strangers, decoded from UTF-8."""

from pathlib import Path

from probes.errors import InputError
from probes.files.names import nearest_name
from probes.files.sniffing import impostor


def read_text(path: Path) -> str:
    """Return a text file, decoded from UTF-8 with or without a byte order mark.

    Raises
    ------
    InputError
        Where it is missing, a folder, unreadable, empty, binary or in another encoding.
    """
    where = str(path)
    try:
        # A pipe or a device is refused unopened: reading it might never end.
        if not (path.is_file() or path.is_dir()) and path.exists():
            raise InputError("This is not an ordinary file.", where=where, hint="Name a file with the text in it.")
        data = path.read_bytes()
    except FileNotFoundError:
        near = nearest_name(path)
        raise InputError(
            "There is no such file.", where=where, hint=f"Did you mean {near}?" if near else "Check the path."
        ) from None
    except IsADirectoryError:
        raise InputError("This is a folder, not a file.", where=where, hint="Name the file in it.") from None
    except (OSError, ValueError) as error:
        # The text of an error of the system ends with the path, which stands in `where`.
        why = getattr(error, "strerror", None) or error
        raise InputError(f"The file cannot be read: {why}.", where=where, hint="Check the path.") from error
    return _decode(data, where)


def _decode(data: bytes, where: str) -> str:
    disguise = impostor(data[:512])
    if disguise:
        raise InputError(f"This is {disguise.what}, not a table.", where=where, hint=disguise.hint)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("The text is in UTF-16.", where=where, hint="Save it as UTF-8.")
    if b"\x00" in data:
        line = data.count(b"\n", 0, data.index(b"\x00")) + 1
        raise InputError(
            "The file holds a NUL byte: it is not text.",
            where=f"{where}:{line}",
            hint="Give a CSV, TSV or JSON file.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"The byte 0x{data[error.start]:02x} is not UTF-8 text.",
            where=f"{where}:{line}",
            hint="Save it as UTF-8.",
        ) from None
    if not text.strip():
        raise InputError("The file is empty.", where=where, hint="Give a table with a header and rows.")
    return text
