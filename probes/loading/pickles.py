"""Does a pickle of torch.save ask for no more than a checkpoint needs?

The restricted reader of torch runs no code, but some of what it may call takes any amount of memory or time: it makes
a gigabyte of a number, counts the entries of a tensor that is one number seen many times, or hashes tuples that hold
each other. Here the steps of the pickle are followed without doing them.
"""

import pickle
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import IO

from probes.loading.pickle_calls import Calls
from probes.loading.pickle_steps import steps
from probes.loading.pickle_values import NeedlessError, Value, number_value, text_value, tuple_value

_OLD_NAMES = {"__builtin__": "builtins"}
_PLAIN, _OTHER, _EMPTY_TUPLE = Value("plain"), Value(), tuple_value([])
_NUMBERS = [number_value(number) for number in range(256)]
"""What files hold most of stands in memory once."""
_MOST_ON_STACK, _MOST_OPEN = 2**18, 2**12
"""Values that wait to be put somewhere, and marks: writers put the parts of a list down by the thousand."""
_NEWEST = 3
"""Of the protocols of pickle: the last one before whole pickles stand in frames, which torch does not know."""
_NUMBER, _TEXT, _SET, _CONTAINER, _TUPLE, _NOTED = 32, 120, 240, 180, 120, 80
"""Bytes that one takes in torch and here, beside its parts; _NOTED is what remembering one takes."""
_LARGE, _ITEM, _KEY = 112, 16, 100
"""The same of a number of a tuple that is not among the shared ones, of a part, and of a key."""


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
    calls = Calls(frozenset(standins), room, records)
    for _ in range(pickles):
        if not _Machine(calls).follow(file):
            raise pickle.UnpicklingError("a step that leads nowhere")


@dataclass(slots=True)
class _Machine:
    calls: Calls
    stack: list[Value] = field(default_factory=list)
    outer: list[list[Value]] = field(default_factory=list)
    memo: dict[object, Value] = field(default_factory=dict)

    def follow(self, file: IO[bytes]) -> bool:
        """Follow one pickle; tell whether it came to its end."""
        calls = self.calls
        try:
            for name, value, length in steps(file):
                if name == "STOP":
                    return True
                calls.step(length)
                if not calls.steps & 1023:
                    self.check_stack()
                if not (self.change(name) if name in _CHANGES else self.leave(name, value)):
                    return False
        except (IndexError, KeyError, ValueError):
            # It is cut off or damaged, or takes more than lies there: torch will not come further.
            return False
        return False

    def check_stack(self) -> None:
        """Check what lies on the stack, which is not yet counted as a part of anything."""
        if len(self.stack) + sum(map(len, self.outer)) > _MOST_ON_STACK:
            raise NeedlessError("too many parts in one step")

    def leave(self, name: str, value: object) -> bool:
        """Put on the stack what a step makes from nothing."""
        push = self.stack.append
        match name:
            case "BINPUT":
                last = self.stack[-1]
                self.calls.count(_NOTED + (_LARGE if last.kind == "number" else 0))
                self.memo[value] = last
            case "BINGET":
                push(self.memo[value])
            case "TEXT":
                text = str(value)
                self.calls.count(_TEXT + 2 * sys.getsizeof(text))
                push(text_value("text", text))
            case "BININT" | "LONG1":
                assert isinstance(value, int)
                push(self.number(value))
            case "MARK":
                if len(self.outer) >= _MOST_OPEN:
                    raise NeedlessError("too many containers in each other")
                self.outer.append(self.stack)
                self.stack = []
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                push(_PLAIN)
            case _:
                return self.leave_rarer(name, value)
        return True

    def number(self, number: int) -> Value:
        """Return what stands for a whole number."""
        if 0 <= number < 256:
            return _NUMBERS[number]
        self.calls.count(_NUMBER if -(2**60) < number < 2**60 else _LARGE + sys.getsizeof(number))
        return number_value(number)

    def leave_rarer(self, name: str, value: object) -> bool:
        """Put on the stack what the other steps make from nothing."""
        push = self.stack.append
        match name:
            case "EMPTY_TUPLE":
                push(_EMPTY_TUPLE)
            case "EMPTY_LIST" | "EMPTY_DICT":
                self.calls.count(_CONTAINER)
                push(Value("list" if name == "EMPTY_LIST" else "dict", parts=[]))
            case "BINFLOAT":
                self.calls.count(_NUMBER)
                push(_PLAIN)
            case "GLOBAL":
                module, _, last = str(value).partition(" ")
                self.calls.count(_TEXT + len(module) + len(last))
                push(self.calls.name(f"{_OLD_NAMES.get(module, module)}.{last}"))
            case "EMPTY_SET":
                self.calls.count(_SET)
                push(_OTHER)
            case "PROTO":
                if self.calls.records is not None and isinstance(value, int) and value > _NEWEST:
                    raise NeedlessError(f"a pickle of protocol {value}, newer than torch reads")
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
                made = self.tuple(self.marked())
                self.stack.append(made)
            case _:
                size = int(name[-1])
                self.stack[-size:] = [self.tuple(self.stack[-size:])]
        return True

    def tuple(self, parts: list[Value]) -> Value:
        """Return what stands for a tuple."""
        large = sum(part.kind == "number" and not 0 <= part.number < 256 for part in parts)
        self.calls.count(_TUPLE + _ITEM * len(parts) + _LARGE * large)
        return tuple_value(parts)

    def marked(self) -> list[Value]:
        """Take everything since the last mark."""
        parts, self.stack = self.stack, self.outer.pop()
        return parts

    def add(self, parts: list[Value], kind: str) -> bool:
        """Add parts to what lies on the stack; tell whether it is of that kind."""
        target = self.stack[-1]
        if target.kind != kind:
            return False
        # The first part makes room for some more.
        self.calls.count(0 if target.parts else _CONTAINER)
        if kind == "dict":
            parts = parts[::2]
            self.calls.hash(parts)
        self.calls.count(len(parts) * (_KEY if kind == "dict" else _ITEM))
        target.add(parts)
        return True


_CHANGES = frozenset(
    ("REDUCE", "NEWOBJ", "BUILD", "BINPERSID", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "TUPLE")
) | {f"TUPLE{size}" for size in (1, 2, 3)}
