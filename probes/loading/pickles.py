"""Does a pickle of torch.save ask for no more than a checkpoint needs?

The restricted reader of torch runs no code, but some of what it may call takes any amount of memory or time: it makes
a gigabyte of a number, counts the entries of a tensor that is one number seen many times, or hashes tuples that hold
each other. Here the steps of the pickle are followed without doing them.
"""

import pickle
import pickletools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import IO

_REBUILD = "torch._utils._rebuild_"
_TENSORS = frozenset(
    _REBUILD + name
    for name in ("parameter", "parameter_with_state", "tensor", "tensor_v2", "tensor_v3", "qtensor", "sparse_tensor",
                 "meta_tensor_no_storage")
)  # fmt: skip
_TYPED = "torch._tensor._rebuild_from_type_v2"
_PLAIN = frozenset(
    (
        *("collections.OrderedDict", "collections.Counter", "builtins.set", "builtins.complex", "_codecs.encode"),
        *("torch.Size", "torch.device", "torch.serialization._get_layout", "torch.nn.parameter.Parameter"),
    )
)
_ENCODINGS = ("latin1", "latin-1", "utf-8", "utf8", "ascii")
_OLD_NAMES = {"__builtin__": "builtins"}
_MOST_PARTS = 2**20
"""Of a tuple, those of the tuples in it among them."""
_PICKLES = 5
"""In a file of the form before the zip: a number, a version, sizes of numbers, the content, keys of the storages."""


@dataclass(frozen=True, slots=True)
class _Value:
    """What a step leaves: its kind, its text or name, and of a tuple the parts, and how many there are in all."""

    kind: str = "other"
    text: str = ""
    parts: "tuple[_Value, ...]" = ()
    weight: int = 1


_OTHER, _MADE = _Value(), _Value("made")


def check_calls(file: IO[bytes], standins: Collection[str]) -> None:
    """Follow the pickles at the beginning of a file; what torch itself will refuse is left to it.

    Parameters
    ----------
    standins
        Further dotted names that may be called.

    Raises
    ------
    pickle.UnpicklingError
        Where one calls what no checkpoint needs, or holds a tuple of more parts than can be gone through.
    """
    for _ in range(_PICKLES):
        machine = _Machine(frozenset(standins))
        if not machine.follow(file):
            return


@dataclass(slots=True)
class _Machine:
    standins: frozenset[str]
    stack: list[_Value] = field(default_factory=list)
    outer: list[list[_Value]] = field(default_factory=list)
    memo: dict[object, _Value] = field(default_factory=dict)

    def follow(self, file: IO[bytes]) -> bool:
        """Follow one pickle; tell whether it came to its end."""
        try:
            for name, value in _steps(file):
                if name == "STOP":
                    return True
                if not self.step(name, value):
                    return False
        except (ValueError, IndexError, KeyError):
            # Cut off or damaged: torch will not come further.
            return False
        return False

    def step(self, name: str, value: object) -> bool:
        """Follow one step; tell whether torch knows it."""
        stack = self.stack
        match name:
            case "PROTO":
                pass
            case "MARK":
                self.outer.append(stack)
                self.stack = []
            case "BINPUT" | "LONG_BINPUT":
                self.memo[value] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[value])
            case "GLOBAL":
                module, _, last = str(value).partition(" ")
                stack.append(_Value("name", f"{_OLD_NAMES.get(module, module)}.{last}"))
            case "REDUCE" | "NEWOBJ":
                given = stack.pop()
                stack[-1] = self.called(stack[-1], given)
            case "APPEND" | "BUILD":
                stack.pop()
            case "SETITEM":
                del stack[-2:]
            case "APPENDS" | "SETITEMS":
                self.stack = self.outer.pop()
            case "TUPLE":
                self.stack = self.outer.pop()
                self.stack.append(_tuple(stack))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(name[-1])
                stack[-size:] = [_tuple(stack[-size:])]
            case "BINPERSID":
                stack[-1] = _MADE
            case "EMPTY_TUPLE":
                stack.append(_tuple([]))
            case "BINUNICODE" | "SHORT_BINSTRING":
                stack.append(_Value("text", str(value)))
            case ("NONE" | "NEWTRUE" | "NEWFALSE" | "BININT" | "BININT1" | "BININT2" | "BINFLOAT" | "LONG1"
                  | "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_SET"):  # fmt: skip
                stack.append(_OTHER)
            case _:
                return False
        return True

    def called(self, function: _Value, given: _Value) -> _Value:
        """Return what stands for the result of a call, which has to be one that checkpoints need."""
        name, parts = function.text if function.kind == "name" else "", given.parts
        # What rebuilds a tensor of a subclass calls its first part with its third.
        fitting = name in _TENSORS or name in self.standins
        fitting |= name == _TYPED and bool(parts) and parts[0].kind == "name" and parts[0].text in _TENSORS
        if name in _PLAIN:
            fitting = name.startswith("torch.nn.") or all(part.kind != "made" for part in parts)
            if name == "_codecs.encode":
                fitting = fitting and parts[1:] != () and parts[1].text in _ENCODINGS
        if not fitting or given.kind != "tuple":
            raise pickle.UnpicklingError(f"GLOBAL {name or 'unknown'}")
        return _MADE


def _steps(file: IO[bytes]) -> Iterator[tuple[str, object]]:
    for opcode, value, _ in pickletools.genops(file):
        yield opcode.name, value


def _tuple(parts: list[_Value]) -> _Value:
    weight = 1 + sum(part.weight for part in parts)
    if weight > _MOST_PARTS:
        raise pickle.UnpicklingError("a tuple of too many parts")
    return _Value("tuple", parts=tuple(parts), weight=weight)
