"""Which steps is a pickle made of, of those that torch's restricted reader knows?"""

import pickle
import struct
from collections.abc import Callable, Iterator
from typing import IO

_BARE = {
    b"(": "MARK", b"N": "NONE", b"\x88": "NEWTRUE", b"\x89": "NEWFALSE", b")": "EMPTY_TUPLE", b"]": "EMPTY_LIST",
    b"}": "EMPTY_DICT", b"\x8f": "EMPTY_SET", b"R": "REDUCE", b"\x81": "NEWOBJ", b"b": "BUILD", b"Q": "BINPERSID",
    b"a": "APPEND", b"e": "APPENDS", b"s": "SETITEM", b"u": "SETITEMS", b"t": "TUPLE", b"\x85": "TUPLE1",
    b"\x86": "TUPLE2", b"\x87": "TUPLE3", b".": "STOP",
}  # fmt: skip
_NUMBERED = {
    b"\x80": ("PROTO", "<B"), b"q": ("BINPUT", "<B"), b"r": ("BINPUT", "<I"), b"h": ("BINGET", "<B"),
    b"j": ("BINGET", "<I"), b"K": ("BININT", "<B"), b"M": ("BININT", "<H"), b"J": ("BININT", "<i"),
    b"G": ("BINFLOAT", ">d"),
}  # fmt: skip
_FORMS: dict[bytes, tuple[str, int, Callable[[bytes], tuple[int, ...]]]] = {
    code: (name, struct.calcsize(form), struct.Struct(form).unpack) for code, (name, form) in _NUMBERED.items()
}


def steps(file: IO[bytes]) -> Iterator[tuple[str, object, int]]:
    """Yield name, value and length in bytes of each step of a pickle, the last one among them.

    Raises
    ------
    ValueError
        Where the pickle is cut off or damaged.
    pickle.UnpicklingError
        At a step that torch does not know.
    """
    read = file.read
    while True:
        code = read(1)
        name = _BARE.get(code)
        if name is not None:
            yield name, None, 1
            if name == "STOP":
                return
        elif code in _FORMS:
            name, size, unpack = _FORMS[code]
            data = read(size)
            if len(data) < size:
                raise ValueError("cut off")
            yield name, unpack(data)[0], 1 + size
        elif code == b"c":
            module, last = _line(file), _line(file)
            yield "GLOBAL", f"{module.decode()} {last.decode()}", 3 + len(module) + len(last)
        else:
            yield _counted(code, read)


def _counted(code: bytes, read: Callable[[int], bytes]) -> tuple[str, object, int]:
    """Return a step that says how many bytes follow."""
    if code not in (b"X", b"U", b"\x8a"):
        raise pickle.UnpicklingError("a step that torch does not know")
    width = 4 if code == b"X" else 1
    size = int.from_bytes(read(width), "little")
    data = read(size)
    if len(data) < size:
        raise ValueError("cut off")
    length = 1 + width + size
    if code == b"\x8a":
        return "LONG1", int.from_bytes(data, "little", signed=True), length
    return "TEXT", data.decode("utf-8", "surrogatepass" if code == b"X" else "strict"), length


def _line(file: IO[bytes]) -> bytes:
    line = file.readline()
    if not line.endswith(b"\n"):
        raise ValueError("cut off")
    return line[:-1]
