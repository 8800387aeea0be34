"""The reader of a file of losses: its rows, before any is compared.

They become columns of numbers, block by block. Anything that is no loss is refused with its line.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.schemas import CellBlock, Column, Schema, SchemaReader

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_Value = TypeVar("_Value")
_Model = tuple[tuple[str, ...], str]
"""The languages trained on, and the one that is held out."""
MOST_ROWS = 2 * 10**7
_LARGEST = 1e12
_WEIGHTS = ("weight", "bytes", "masked")
_CODE = re.compile(r"[\w.()@-]{1,60}")


def _not_negative(name: str, *, required: bool = False) -> Column:
    hint = f"Write a number from 0 to {_LARGEST:g}; leave out the rows of a model that has none."
    return Column(
        name=name, kind="number", required=required, least=0, most=_LARGEST, refusal=f"is no {name}", hint=hint
    )


SCHEMA = Schema(
    columns=(
        Column(name="lang", required=True),
        Column(name="with", required=True),
        _not_negative("loss", required=True),
        Column(name="seed", kind="whole", refusal="is no seed", hint="Write a whole number."),
        Column(name="sentence"),
        *map(_not_negative, _WEIGHTS),
    ),
    most_rows=MOST_ROWS,
    hint="The columns are lang, with (lang itself: monolingual) and loss, in nats per byte (0.693 x bits).",
    fewer="Give so many rows as CSV, one loss a model instead of one a sentence, or fewer languages.",
)


@dataclass(slots=True)
class LossRows:
    """Columns of the file, one entry a row; `model` and `sentence` are indices of the tuples below."""

    lines: Integers
    model: Integers
    seed: Integers
    sentence: Integers
    loss: Floats
    weight: Floats
    models: tuple[_Model, ...]
    sentences: tuple[str, ...]

    @property
    def by_sentence(self) -> bool:
        """Tell whether the file has a column `sentence`, whose ids are never empty."""
        return self.sentences != ("",)


def read_rows(path: Path) -> tuple[LossRows, list[str]]:
    """Return all rows of a file of losses, and notes on columns that are not used.

    Raises
    ------
    InputError
        Where the file cannot be read, lacks a column, is too large, or holds something that is no loss.
    """
    reader = SchemaReader(path, SCHEMA)
    weight = next((name for name in _WEIGHTS if {name, "sentence"} <= {*reader.names}), None)
    others = [name for name in reader.names if name not in reader.columns or (name in _WEIGHTS and name != weight)]
    notes = [f"Not used: {', '.join(others[:10])}{', ...' if len(others) > 10 else ''}."] if others else []
    collector = _Collector(path, weight)
    for block in reader.blocks():
        collector.add(block)
    lines, model, seed, sentence, loss, weights = map(np.concatenate, zip(*collector.parts, strict=True))
    sentences = tuple(collector.sentences) or ("",)
    found = LossRows(lines, model, seed, sentence, loss, weights, tuple(collector.models), sentences)
    return found, [*reader.notes, *notes]


class _Collector:
    """A collector of rows, block by block; each distinct text of a column is parsed once."""

    def __init__(self, path: Path, weight: str | None) -> None:
        self.path = path
        self.weight = weight
        self.pairs: dict[tuple[str, str], int] = {}
        self.models: dict[_Model, int] = {}
        self.texts: dict[str, int] = {}
        self.sentences: dict[str, int] = {}
        self.parts: list[tuple[NDArray[Any], ...]] = []

    def add(self, block: CellBlock) -> None:
        """Add a block of rows."""
        lines = block.lines
        pairs = list(zip(block.texts("lang"), block.texts("with"), strict=True))
        zeros = np.zeros(len(block), dtype=np.int64)
        model = _coded(pairs, lines, self.pairs, self._model)
        seed = block.wholes("seed") if "seed" in block.cells else zeros
        sentence = zeros
        if "sentence" in block.cells:
            sentence = _coded(block.texts("sentence"), lines, self.texts, self._sentence)
        weights = np.ones(len(block)) if self.weight is None else block.numbers(self.weight)
        # The mean of nothing is NaN in many a table; such a row is left out later.
        loss = block.numbers("loss", only=None if self.weight is None else weights > 0)
        self.parts.append((np.array(lines, dtype=np.int64), model, seed, sentence, loss, weights))

    def _model(self, pair: tuple[str, str], line: int) -> int:
        lang, partners = (text.strip() for text in pair)
        parts = [part.strip() for part in partners.split("+")]
        for column, code in (("lang", lang), *(("with", part) for part in parts)):
            if not _CODE.fullmatch(code):
                message = f"{code[:60]!r} is no code of a language."
                hint = "with names the languages trained on beside lang, joined by +; lang itself: monolingual."
                raise InputError(message, where=f"{self.path}:{line}, {column}", hint=hint)
        return self.models.setdefault((tuple(sorted({lang, *parts})), lang), len(self.models))

    def _sentence(self, text: str, line: int) -> int:
        name = text.strip()
        if not name:
            raise InputError("A sentence has no id.", where=f"{self.path}:{line}, sentence", hint="Give each an id.")
        return self.sentences.setdefault(name, len(self.sentences))


def _coded(
    values: Sequence[_Value], lines: Sequence[int], known: dict[_Value, int], read: Callable[[_Value, int], int]
) -> Integers:
    for index, value in enumerate(values):
        if value not in known:
            known[value] = read(value, lines[index])
    return np.fromiter(map(known.__getitem__, values), dtype=np.int64, count=len(values))
