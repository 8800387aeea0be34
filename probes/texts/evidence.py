"""Evidence that a text must rest on: a passage, retrieved chunks, a table of attributes and values, or a list of slots.

Every metric of grounding reads a `Grounded`: one output, its evidence, and where there is one a reference.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from probes.core.errors import InputError

# Nothing is matched twice: of long texts that nearly are lists of slots that would take forever.
_SLOTS = re.compile(r"[^\[\],]++\[[^\[\]]*+\]\s*+(?:,[^\[\],]++\[[^\[\]]*+\]\s*+)*+")
_SLOT = re.compile(r"(?:^|,)([^\[\],]++)\[([^\[\]]*+)\]")
_CAMEL = re.compile(r"(?<=[a-z])[A-Z](?=[a-z])")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an output may state.

    Parameters
    ----------
    text
        All of it, as a reader reads it.
    chunks
        Its parts, where it came in parts.
    cells
        (attribute, value) of a table or of a list of slots.
    """

    text: str
    chunks: tuple[str, ...] = ()
    cells: tuple[tuple[str, str], ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class Grounded:
    """An output beside the evidence that it must rest on."""

    evidence: Evidence
    output: str
    reference: str | None = None
    question: str | None = None


def read_evidence(value: object, where: str) -> Evidence:
    """Return the evidence that a cell of a table or a value of JSON holds.

    >>> read_evidence("name[Aromi], food[Chinese]", "line 2").cells
    (('name', 'Aromi'), ('food', 'Chinese'))
    >>> read_evidence([["name", "Aromi"]], "line 2").text
    'name: Aromi'

    Raises
    ------
    InputError
        Where it is neither text, nor a list of texts, nor a list of pairs.
    """
    if isinstance(value, str):
        stripped = value.strip()
        if stripped.startswith(("[", "{")) and (parsed := _json(stripped)) is not None:
            return read_evidence(parsed, where)
        if _SLOTS.fullmatch(stripped):
            return _of_cells((name.strip(), content.strip()) for name, content in _SLOT.findall(stripped))
        return Evidence(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return Evidence("\n".join(value), chunks=tuple(value))
    if isinstance(value, list) and all(_is_pair(part) for part in value):
        return _of_cells((str(name), str(content)) for name, content in value)
    if isinstance(value, dict):
        return _of_cells(_flat(value))
    hint = "Give a text, a list of texts, [[attribute, value], ...], or name[value], name[value]."
    raise InputError("The context has a form that is not known.", where=where, hint=hint)


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of an object within objects, with their keys joined."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, name)
    elif value is not None:
        yield name, str(value)


def _of_cells(cells: Iterable[tuple[str, str]]) -> Evidence:
    kept = tuple(cells)
    return Evidence("\n".join(f"{_spelled(name)}: {content}" for name, content in kept), cells=kept)


def _spelled(name: str) -> str:
    # Attributes are often one word of a programmer, and texts say them as people do: familyFriendly, birth_date.
    return _CAMEL.sub(lambda letter: " " + letter[0].lower(), name.replace("_", " "))


def _is_pair(part: object) -> bool:
    return isinstance(part, list) and len(part) == 2 and all(isinstance(one, str | int | float) for one in part)


def _json(text: str) -> object | None:
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, list | dict) else None
