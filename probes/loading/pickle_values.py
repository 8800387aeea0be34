"""What does a step of a pickle leave, as far as it matters for what later steps would take?"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_PARTS = 2**20
"""Of a tuple, those of the tuples in it among them."""
_DEEPEST = 1000
"""Tuples within tuples: no writer goes deeper, and hashing them takes the stack of the machine."""
_SAFE_NUMBER = 2**60
"""Whole numbers below it have a hash each of their own; larger ones can be chosen to share one."""
_CANNOT_CHOOSE = ("text", "bytes", "name", "plain")
"""Kinds whose hashes a file cannot choose: those of text and bytes differ from run to run, the others are few."""


class NeedlessError(pickle.UnpicklingError):
    """A pickle asks for more than a checkpoint needs; the message says what it holds."""


@dataclass(eq=False, slots=True)
class Value:
    """What a step leaves.

    Parameters
    ----------
    kind
        "text", "bytes", "name", "number", "plain", "tuple", "list", "dict", "tensor", "storage" or "other".
    text
        Of a text or a name; of a result what made it.
    number
        The number; of a storage its bytes.
    item
        Bytes of one number of a storage.
    wide
        Whether a tensor claims more numbers than its storage holds.
    parts
        Of a tuple or list; of a dictionary its keys. Lists and dictionaries grow.
    weight, letters, loose, depth
        Of a tuple: the parts in all, letters in them, parts whose hashes a file can choose, tuples within tuples.
    """

    kind: str = "other"
    text: str = ""
    number: int = 0
    item: float = 1
    wide: bool = False
    parts: Sequence["Value"] = field(default=())
    weight: int = 1
    letters: int = 0
    loose: int = 0
    depth: int = 0

    @property
    def grows(self) -> bool:
        """Whether later steps can add to it."""
        return self.kind in ("list", "dict")

    def add(self, parts: Sequence["Value"]) -> None:
        """Add parts to a list, or keys to a dictionary; of a list's numbers only that they are numbers is kept."""
        assert isinstance(self.parts, list)
        self.parts += [_ANY if part.kind == "number" and abs(part.number) < _SAFE_NUMBER else part for part in parts]


_ANY = Value("number", loose=1)


def text_value(kind: str, text: str) -> Value:
    """Return what stands for a text or for bytes."""
    return Value(kind, text, letters=len(text))


def number_value(number: int) -> Value:
    """Return what stands for a whole number."""
    return Value("number", number=number, loose=1)


def tuple_value(parts: Sequence[Value]) -> Value:
    """Return what stands for a tuple.

    Raises
    ------
    NeedlessError
        Where it cannot be gone through.
    """
    weight = 1 + sum(part.weight for part in parts)
    depth = 1 + max((part.depth for part in parts), default=0)
    if weight > _MOST_PARTS or depth > _DEEPEST:
        raise NeedlessError("a tuple of too many parts")
    loose = sum(part.loose if part.kind in ("tuple", "number") else part.kind not in _CANNOT_CHOOSE for part in parts)
    letters = sum(part.letters for part in parts)
    return Value("tuple", parts=tuple(parts), weight=weight, letters=letters, loose=loose if parts else 1, depth=depth)


def numbers_of(value: Value) -> list[int] | None:
    """Return the numbers of a tuple of whole numbers; None for anything else."""
    if value.kind != "tuple" or any(part.kind != "number" for part in value.parts):
        return None
    return [part.number for part in value.parts]


def key_cost(key: Value) -> tuple[int, int]:
    """Return how many parts of a key are gone through to hash it and to write it out, and those a file can choose.

    Raises
    ------
    NeedlessError
        Where no dictionary has such keys: a tensor's text can be longer than anything.
    """
    if key.kind in ("tensor", "storage"):
        raise NeedlessError("a tensor as a key")
    if key.kind == "tuple":
        return key.weight + key.letters, key.weight if key.loose else 0
    if key.kind in _CANNOT_CHOOSE or (key.kind == "number" and abs(key.number) < _SAFE_NUMBER):
        return 0, 0
    return 1, 1
