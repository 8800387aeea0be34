"""Does a pickle of torch.save ask for no more than a checkpoint needs?

The restricted reader of torch runs no code, but some of what it may call takes any amount of memory or time: it makes
a gigabyte of a number, counts the entries of a tensor that is one number seen many times, or hashes tuples that hold
each other. Here the steps of the pickle are followed without doing them.
"""

import pickle
import pickletools
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from probes.loading.pickle_calls import Calls
from probes.loading.pickle_values import Value, number_value, text_value, tuple_value

_OLD_NAMES = {"__builtin__": "builtins"}
_PLAIN, _OTHER = Value("plain"), Value()


def check_calls(
    file: IO[bytes],
    standins: Collection[str],
    *,
    pickles: int = 1,
    room: int = sys.maxsize,
    records: Mapping[str, int] | None = None,
) -> None:
    """Follow the pickles at the beginning of a file.

    Parameters
    ----------
    standins
        Further dotted names that may be called.
    pickles
        How many there are, one behind the other.
    room
        Bytes that all storages together may take.
    records
        Bytes of each storage by its key, in lower case; None where they stand behind the pickles.

    Raises
    ------
    NeedlessError
        Where one calls what no checkpoint needs, or makes more of its bytes than can be gone through.
    pickle.UnpicklingError
        Where one is cut off, damaged, or takes steps that torch does not know.
    """
    for _ in range(pickles):
        if not _Machine(Calls(frozenset(standins), room, records)).follow(file):
            raise pickle.UnpicklingError("a step that leads nowhere")


@dataclass(slots=True)
class _Machine:
    calls: Calls
    stack: list[Value] = field(default_factory=list)
    outer: list[list[Value]] = field(default_factory=list)
    memo: dict[object, Value] = field(default_factory=dict)

    def follow(self, file: IO[bytes]) -> bool:
        """Follow one pickle; tell whether it came to its end."""
        steps = _steps(file)
        while True:
            try:
                name, value, self.calls.place = next(steps)
            except (StopIteration, ValueError):
                # Cut off or damaged: torch will not come further.
                return False
            if name == "STOP":
                return True
            if not self.step(name, value):
                return False

    def step(self, name: str, value: object) -> bool:
        """Follow one step; tell whether torch does so too."""
        try:
            return self.change(name) if name in _CHANGES else self.leave(name, value)
        except (IndexError, KeyError):
            # It takes more than lies there.
            return False

    def leave(self, name: str, value: object) -> bool:
        """Put on the stack what a step makes from nothing."""
        push = self.stack.append
        match name:
            case "PROTO":
                pass
            case "MARK":
                self.calls.count()
                self.outer.append(self.stack)
                self.stack = []
            case "BINPUT" | "LONG_BINPUT":
                self.memo[value] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                push(self.memo[value])
            case "GLOBAL":
                module, _, last = str(value).partition(" ")
                push(self.calls.name(f"{_OLD_NAMES.get(module, module)}.{last}"))
            case "BINUNICODE" | "SHORT_BINSTRING":
                push(text_value("text", str(value)))
            case "BININT" | "BININT1" | "BININT2" | "LONG1":
                assert isinstance(value, int)
                push(number_value(value))
            case "NONE" | "NEWTRUE" | "NEWFALSE" | "BINFLOAT":
                push(_PLAIN)
            case "EMPTY_TUPLE":
                push(tuple_value([]))
            case "EMPTY_LIST" | "EMPTY_DICT":
                self.calls.count()
                push(Value("list" if name == "EMPTY_LIST" else "dict", parts=[]))
            case "EMPTY_SET":
                self.calls.count()
                push(_OTHER)
            case _:
                return False
        return True

    def change(self, name: str) -> bool:
        """Take from the stack what a step takes, and put there what it makes of it."""
        match name:
            case "REDUCE" | "NEWOBJ":
                given = self.stack.pop()
                self.stack[-1] = self.calls.call(self.stack[-1], given)
            case "BUILD":
                state = self.stack.pop()
                self.calls.build(self.stack[-1], state)
            case "BINPERSID":
                self.stack[-1] = self.calls.storage(self.stack[-1])
            case "APPEND":
                return self.add([self.stack.pop()], "list")
            case "APPENDS":
                return self.add(self.marked(), "list")
            case "SETITEM":
                value = self.stack.pop()
                return self.add([self.stack.pop(), value], "dict")
            case "SETITEMS":
                return self.add(self.marked(), "dict")
            case "TUPLE":
                self.calls.count()
                parts = self.marked()
                self.stack.append(tuple_value(parts))
            case _:
                self.calls.count()
                size = int(name[-1])
                self.stack[-size:] = [tuple_value(self.stack[-size:])]
        return True

    def marked(self) -> list[Value]:
        """Take everything since the last mark."""
        parts, self.stack = self.stack, self.outer.pop()
        return parts

    def add(self, parts: list[Value], kind: str) -> bool:
        """Add parts to what lies on the stack; tell whether it is of that kind."""
        if self.stack[-1].kind != kind:
            return False
        if kind == "dict":
            parts = parts[::2]
            self.calls.hash(parts)
        self.stack[-1].add(parts)
        return True


_CHANGES = frozenset(
    ("REDUCE", "NEWOBJ", "BUILD", "BINPERSID", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "TUPLE")
) | {f"TUPLE{size}" for size in (1, 2, 3)}


def _steps(file: IO[bytes]) -> Iterator[tuple[str, object, int]]:
    start = None
    for opcode, value, place in pickletools.genops(file):
        start = place if start is None else start
        yield opcode.name, value, (place or 0) - (start or 0)
