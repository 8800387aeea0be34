"""Columns of a Parquet file, read one at a time and part by part: memory grows with a part, not with the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from probes.contained import Limits, Session
from probes.core.errors import InputError
from probes.files.arrow import check_files, refusals

Kind = Literal["text", "whole", "number", "truth"]
LIMITS = Limits(memory=2 * 2**30, seconds=60)
MOST_TEXT = 2**29
"""Bytes of all texts of a column."""
_PART = 2**14
_KINDS: dict[str, Kind] = {
    "string": "text", "large_string": "text", "int64": "whole", "double": "number", "bool": "truth",
}  # fmt: skip
_TYPES = {"whole": np.dtype(np.int64), "number": np.dtype(np.float64), "truth": np.dtype(np.bool_)}
DAMAGED = "Write the file again: it was changed or damaged."


@dataclass(frozen=True, slots=True)
class Part:
    """Some cells of a column, in order.

    Parameters
    ----------
    values
        Texts, empty where null; or whole numbers, floats or truth, shape (n,), anything where null.
    given
        Which cells are not null, shape (n,).
    """

    values: list[str] | NDArray[Any]
    given: NDArray[np.bool_]


class ParquetColumns:
    """A Parquet file of flat columns, opened in a contained child that ends with this object.

    Parameters
    ----------
    path
        The file.
    hint
        How to mend a file that cannot be read, or is not what it should be.

    Attributes
    ----------
    kinds
        What every column holds: texts, whole numbers and floats of 64 bits, or truth.
    rows
        Rows that the file declares.

    Raises
    ------
    InputError
        Where pyarrow is absent, or the file is damaged, too large, or has a column of another kind.
    """

    def __init__(self, path: Path, *, hint: str = DAMAGED, limits: Limits = LIMITS) -> None:
        self.path, self.hint = path, hint
        check_files(path, (path,))
        with self._refusals():
            self._session = Session(Opened, str(path), reads=[path], limits=limits, loads=("pyarrow.parquet",))
        names, types, self.rows = self._ask("shape")
        odd = [(name, kind) for name, kind in zip(names, types, strict=True) if kind not in _KINDS]
        if odd:
            message = f"The column {odd[0][0][:60]!r} holds {odd[0][1][:60]}."
            raise InputError(message, where=str(path), hint=self.hint)
        if len(set(names)) < len(names):
            raise InputError("Two columns have one name.", where=str(path), hint=self.hint)
        self.kinds = {name: _KINDS[kind] for name, kind in zip(names, types, strict=True)}

    def parts(self, name: str) -> Iterator[Part]:
        """Yield a column part by part.

        Raises
        ------
        InputError
            Where it is damaged, has not as many cells as the file declares, or holds too much text.
        """
        kind = self.kinds[name]
        rows = text = 0
        reading = self._ask("begin", list(self.kinds).index(name))
        try:
            while rows < self.rows:
                values, given = self._ask("part", reading, kind == "text")
                if not len(given) or rows + len(given) > self.rows:
                    raise ValueError(f"it has not the {self.rows:,} cells that the file declares")
                part = _part(values, given, kind)
                rows += len(given)
                text += len(values) if kind == "text" else 0
                if text > MOST_TEXT:
                    raise ValueError(f"it holds more than {MOST_TEXT:,} bytes")
                yield part
        except ValueError as error:
            where = f"{self.path}, column {name[:60]}"
            raise InputError(f"The column cannot be read: {error}.", where=where, hint=self.hint) from None

    def _ask(self, method: str, *args: Any) -> Any:
        with self._refusals():
            return self._session.ask(method, *args)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            with refusals(self.path, (self.path,)):
                yield
        except InputError as error:
            error.hint = self.hint
            raise


def _part(values: Any, given: Any, kind: Kind) -> Part:
    """Return a part as it came from the child, which a hostile file may have taken over.

    Raises
    ------
    ValueError
        Where it is none.
    """
    if not isinstance(given, np.ndarray) or given.dtype != np.bool_:
        raise ValueError("its cells are of another kind")
    if kind == "text" and isinstance(values, bytes):
        values = values.decode().split("\0")
    elif not isinstance(values, np.ndarray) or values.dtype != _TYPES.get(kind):
        raise ValueError("its cells are of another kind")
    if len(values) != len(given):
        raise ValueError("a text holds a NUL character")
    return Part(values, given)


class Opened:
    """The file in the child."""

    def __init__(self, path: str) -> None:
        import pyarrow
        from pyarrow import parquet

        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        self._table = parquet.ParquetFile(path)
        self._read: list[tuple[str, Iterator[Any]]] = []

    def shape(self) -> tuple[list[str], list[str], int]:
        """Return names and types of the columns, and how many rows are declared."""
        schema = self._table.schema_arrow
        return schema.names, [str(kind) for kind in schema.types], self._table.metadata.num_rows

    def begin(self, at: int) -> int:
        """Begin to read a column; return what `part` needs to go on."""
        name = self._table.schema_arrow.names[at]
        batches = self._table.iter_batches(batch_size=_PART, columns=[name], use_threads=False)
        self._read.append((name, batches))
        return len(self._read) - 1

    def part(self, reading: int, as_text: bool) -> tuple[Any, Any]:
        """Return the next cells, texts as one with NUL between them, and which are not null; none at the end."""
        name, batches = self._read[reading]
        batch = next((batch for batch in batches if batch.num_rows), None)
        if batch is None:
            return b"", np.zeros(0, dtype=np.bool_)
        batch.validate(full=True)
        # A name with a point in it also brings columns that a path of that name would lead to.
        column = batch.column(batch.schema.get_field_index(name))
        if as_text and column.nbytes > MOST_TEXT:
            raise ValueError(f"a part of a column holds {column.nbytes:,} bytes")
        given = column.is_valid().to_numpy(zero_copy_only=False)
        if as_text:
            return "\0".join(column.fill_null("").to_pylist()).encode(), given
        empty = False if str(column.type) == "bool" else 0
        return column.fill_null(empty).to_numpy(zero_copy_only=False), given
