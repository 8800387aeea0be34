"""What may a pickle of torch.save call, with what, and how much may that make?

A few bytes can name a large thing again and again. So what calls go through is counted against the length of the
pickle, and what storages hold against the file.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from probes.loading.pickle_values import NeedlessError, Value, key_cost, numbers_of, tuple_value

_REBUILD = "torch._utils._rebuild_"
_STORED = tuple(_REBUILD + name for name in ("tensor", "tensor_v2", "tensor_v3", "qtensor"))
_SPARSE, _META = _REBUILD + "sparse_tensor", _REBUILD + "meta_tensor_no_storage"
_PARAMETERS = ("torch.nn.parameter.Parameter", _REBUILD + "parameter", _REBUILD + "parameter_with_state")
_TYPED = "torch._tensor._rebuild_from_type_v2"
_GROUPS = ("collections.OrderedDict", "collections.Counter", "builtins.set")
_SMALL = ("builtins.complex", "torch.device", "torch.serialization._get_layout")
_ENCODED = ("_codecs.encode", "builtins.bytearray")
_ENCODINGS = ("latin1", "latin-1", "utf-8", "utf8", "ascii")
_ITEMS = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "ComplexDouble": 16, "ComplexFloat": 8, "QUInt8": 1, "QInt8": 1, "QInt32": 4, "QUInt4x2": 0.5, "QUInt2x4": 0.25,
    "Untyped": 1,
}  # fmt: skip

_PACKAGES = ("torch", "collections", "builtins", "_codecs")

_AGAIN, _SLACK = 4, 2**16
"""What calls go through: so many parts or letters for each byte of the pickle, and so many besides."""
_MOST_LETTERS, _MOST_LOOSE = 2**22, 2**14
"""Of keys: parts and letters in all tuples, and parts of those whose hashes a file can choose."""
_MADE, _STORAGE, _RESULT, _ENTRY = 2**27, 600, 640, 100
"""Bytes of memory: what a pickle may make besides the numbers of its storages, and what one of each takes."""
_STEPS = 5 * 2**19
"""What a small file may take; larger ones may have one more for each eight bytes, and make two bytes for each."""


@dataclass(slots=True)
class Calls:
    """Judges the calls of one pickle.

    Parameters
    ----------
    standins
        Further dotted names that may be called.
    room
        Bytes that all storages together may take.
    records
        Bytes of each storage by its key, in lower case; None where they stand behind the pickle.
    """

    standins: frozenset[str]
    room: int
    records: Mapping[str, int] | None
    most_made: int = field(init=False)
    most_steps: int = field(init=False)
    place: int = 0
    steps: int = 0
    made: int = 0
    work: int = 0
    keys: list[int] = field(default_factory=lambda: [0, 0])
    stored: dict[str, tuple[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.most_made, self.most_steps = _MADE + 2 * self.room, _STEPS + self.room // 8

    def step(self, length: int) -> None:
        """Count one more step of so many bytes.

        Raises
        ------
        NeedlessError
            Where there are too many, as in all methods.
        """
        self.place += length
        self.steps += 1
        if self.steps > self.most_steps:
            raise NeedlessError("too many steps")

    def count(self, size: int) -> None:
        """Count the bytes of memory that something takes."""
        self.made += size
        if self.made > self.most_made:
            raise NeedlessError("too many containers")

    def name(self, name: str) -> Value:
        """Return what stands for a name, which torch would refuse here too where it is of another package."""
        if name not in self.standins and name.partition(".")[0] not in _PACKAGES:
            raise pickle.UnpicklingError(f"GLOBAL {name}")
        return Value("name", name)

    def hash(self, keys: Sequence[Value]) -> None:
        """Count what it takes to tell keys apart."""
        for key in keys:
            for place, cost in enumerate(key_cost(key)):
                self.keys[place] += cost
        if self.keys[0] > _MOST_LETTERS or self.keys[1] > _MOST_LOOSE:
            raise NeedlessError("keys that nobody can tell apart")

    def storage(self, given: Value) -> Value:
        """Return what stands for a storage that a pickle names."""
        parts = given.parts if given.kind == "tuple" else ()
        kinds = [part.kind for part in parts]
        if kinds[:5] != ["text", "name", "text", "text", "number"] or parts[0].text != "storage":
            raise NeedlessError("a reference to something else than numbers")
        item = _ITEMS.get(parts[1].text.rpartition(".")[2].removesuffix("Storage"))
        if item is None:
            raise NeedlessError(f"an object of {parts[1].text}")
        width, key = max(1, int(item)), parts[2].text
        size = parts[4].number * width
        held = size if self.records is None else self.records.get(key.lower(), -1)
        # Whoever asks for the same numbers by two keys gets them twice.
        self.count(0 if key in self.stored else _STORAGE)
        self.room -= 0 if key in self.stored else held
        if not 0 <= size <= held or self.room < 0 or self.stored.setdefault(key, (size, item)) != (size, item):
            # So does a file that is cut off.
            raise pickle.UnpicklingError("more numbers by name than there are")
        if parts[5:] and kinds[5] == "tuple":
            size = self._view(parts[5].parts, size, width)
        return Value("storage", number=size, item=item)

    def _view(self, parts: Sequence[Value], size: int, width: int) -> int:
        if [part.kind for part in parts] != ["text", "number", "number"]:
            raise pickle.UnpicklingError("a view of numbers that is none")
        start, length = parts[1].number * width, parts[2].number * width
        known = self.stored.setdefault(parts[0].text, (length, width))
        if min(start, length) < 0 or start + length > size or known[0] != length:
            raise pickle.UnpicklingError("a view of more numbers than there are")
        return length

    def call(self, function: Value, given: Value) -> Value:
        """Return what stands for the result of a call, which has to be one that checkpoints need."""
        name = function.text if function.kind == "name" else ""
        self.count(_RESULT if name not in _GROUPS else _RESULT // 2)
        if given.kind != "tuple":
            raise NeedlessError("a call that is none")
        self._go_through(given, name)
        if name in self.standins:
            return Value("plain", name)
        result = _rule(name)(self, name, given.parts)
        if result is None:
            # What torch's reader lets a file call runs no code, whatever it is given.
            known = name in _RULES or name.startswith(_REBUILD) or _is_tensor_class(name)
            raise (
                NeedlessError(f"an object of {name}")
                if known
                else pickle.UnpicklingError(f"GLOBAL {name or 'unknown'}")
            )
        return result

    def build(self, target: Value, state: Value) -> None:
        """Judge what is written into an object."""
        self._go_through(tuple_value([state]), "a state")
        fitting = (target.kind == "dict" and state.kind == "dict") or target.text in self.standins
        if target.text == _PARAMETERS[0]:
            # Three are what the first releases kept of a parameter, five of a variable; four would make it anew.
            fitting = state.kind == "tuple" and len(state.parts) in (3, 5)
            if fitting and len(state.parts) == 5:
                # The first is the tensor whose numbers it takes over.
                fitting = state.parts[0].kind == "tensor"
                target.wide |= state.parts[0].wide
        if not fitting:
            raise NeedlessError("a state where none belongs")

    def _go_through(self, given: Value, name: str) -> None:
        self.work += given.weight + given.letters
        self._check_work(name)
        self.count(8 * given.weight + given.letters)
        entries = _held(given, levels=4)
        # Whoever goes through entries copies them.
        self.count(_ENTRY * entries)
        self.work += entries
        self._check_work(name)

    def _check_work(self, name: str) -> None:
        if self.work > _AGAIN * self.place + _SLACK:
            raise NeedlessError(f"the same parts of {name} again and again")

    def _tensor(self, name: str, parts: Sequence[Value]) -> Value | None:
        if len(parts) < 4 or parts[0].kind != "storage" or parts[1].kind != "number":
            return None
        sizes, strides = numbers_of(parts[2]), numbers_of(parts[3])
        if sizes is None or strides is None or len(sizes) != len(strides):
            return None
        store, offset = parts[0], parts[1].number
        item = _item_of(parts[6]) if name.endswith("v3") and len(parts) > 6 else store.item
        numel = 1
        for size in sizes:
            numel *= size
            if numel > 2**63:
                return None
        last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if min(offset, *sizes, *strides, 0) < 0 or (numel and (offset + last + 1) * item > store.number):
            raise pickle.UnpicklingError("a tensor that leaves its numbers")
        wide = numel > store.number / item
        # Scales are one for each place along a side, of which there may be many where another side is of none.
        long = any(size > max(1, store.number / item) for size in sizes)
        if name.endswith("qtensor") and (wide or long or not _is_plain_tuple(parts[4:5])):
            return None
        return Value("tensor", wide=wide)

    def _parameter(self, name: str, parts: Sequence[Value]) -> Value | None:
        if not parts or parts[0].kind != "tensor":
            return None
        if name.endswith("with_state") and not (len(parts) == 4 and _is_state(parts[3])):
            return None
        return Value("tensor", _PARAMETERS[0], wide=parts[0].wide)

    def _typed(self, name: str, parts: Sequence[Value]) -> Value | None:
        if [part.kind for part in parts[:3]] != ["name", "name", "tuple"] or parts[0].text == _TYPED:
            return None
        # What rebuilds a tensor of a subclass calls its first part with its third.
        inner = _rule(parts[0].text)(self, parts[0].text, parts[2].parts)
        fitting = inner is not None and inner.kind == "tensor" and len(parts) == 4 and _is_state(parts[3])
        return inner if fitting else None

    def _sparse(self, name: str, parts: Sequence[Value]) -> Value | None:
        fitting = len(parts) == 2 and parts[0].kind in ("name", "other") and _is_plain_tuple(parts[1:])
        return Value("tensor") if fitting else None

    def _meta(self, name: str, parts: Sequence[Value]) -> Value | None:
        fitting = len(parts) == 4 and numbers_of(parts[1]) is not None and numbers_of(parts[2]) is not None
        return Value("tensor") if fitting else None

    def _group(self, name: str, parts: Sequence[Value]) -> Value | None:
        kind = "other" if name.endswith("set") else "dict"
        if not parts:
            return Value(kind, parts=[])
        whole = parts[0]
        if len(parts) > 1 or (not whole.grows and whole.kind != "tuple"):
            return None
        keys = list(whole.parts)
        if kind == "dict" and whole.kind != "dict" and name.endswith("OrderedDict"):
            # Pairs, which are taken apart by going through them.
            if not all(pair.kind in ("list", "tuple") and len(pair.parts) == 2 for pair in keys):
                return None
            keys = [pair.parts[0] for pair in keys]
        self.hash(keys)
        return Value(kind, parts=keys if kind == "dict" else ())

    def _small(self, name: str, parts: Sequence[Value]) -> Value | None:
        return Value() if all(_is(part, "text", "number", "plain", "other") for part in parts) else None

    def _size(self, name: str, parts: Sequence[Value]) -> Value | None:
        return parts[0] if len(parts) == 1 and numbers_of(parts[0]) is not None else None

    def _encoded(self, name: str, parts: Sequence[Value]) -> Value | None:
        kinds, last = [part.kind for part in parts], name.endswith("bytearray")
        fitting = kinds == ["text", "text"] and parts[1].text in _ENCODINGS
        # Entries that can be changed are made of others, or of none; a number would ask for that many.
        if not (fitting or (last and kinds in ([], ["bytes"]))):
            return None
        return Value("other" if last else "bytes", letters=sum(part.letters for part in parts[:1]))


_Rule = Callable[[Calls, str, Sequence[Value]], Value | None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_STORED, Calls._tensor),
    **dict.fromkeys(_PARAMETERS, Calls._parameter),
    **dict.fromkeys(_GROUPS, Calls._group),
    **dict.fromkeys(_SMALL, Calls._small),
    **dict.fromkeys(_ENCODED, Calls._encoded),
    _TYPED: Calls._typed,
    _SPARSE: Calls._sparse,
    _META: Calls._meta,
    "torch.Size": Calls._size,
}


def _rule(name: str) -> _Rule:
    return _RULES.get(name, lambda calls, name, parts: None)


def _held(given: Value, levels: int) -> int:
    """Return the entries of lists and dictionaries in a tuple, as far down as a call may look."""
    if given.grows:
        return len(given.parts)
    return sum(_held(part, levels - 1) for part in given.parts if part.parts) if levels else 0


def _is_tensor_class(name: str) -> bool:
    return name.startswith("torch.") and name.endswith("Tensor")


def _is(value: Value, *kinds: str) -> bool:
    return value.kind in kinds


def _is_plain_tuple(given: Sequence[Value]) -> bool:
    """Tell whether there is one tuple, of nothing that would be laid out to be larger than it is."""
    if [part.kind for part in given] != ["tuple"]:
        return False
    return all(not part.grows and not part.wide and part.kind != "storage" for part in given[0].parts)


def _is_state(state: Value) -> bool:
    """Tell whether a state is one of notes by name: what a tensor computes when it is set has no place there."""
    import torch

    halves = state.parts if state.kind == "tuple" else (state,)
    if (state.kind == "tuple" and len(halves) != 2) or not all(_is(half, "dict", "plain") for half in halves):
        return False
    names = [key.text if key.kind == "text" else "" for half in halves for key in half.parts]
    return not any(hasattr(getattr(torch.Tensor, name, None), "__set__") for name in names)


def _item_of(kind: Value) -> float:
    import torch

    found = getattr(torch, kind.text.removeprefix("torch."), None) if kind.kind == "name" else None
    return found.itemsize if isinstance(found, torch.dtype) else 1
