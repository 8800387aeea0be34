"""Tables in Parquet and Arrow files, read by pyarrow in a contained child, as the text that a CSV file would hold."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from probes.contained import ContainedError, LimitError, Limits, call
from probes.core.errors import InputError
from probes.files.json_values import json_text
from probes.files.names import suggest
from probes.files.opening import read_head

PARQUET = frozenset({".parquet", ".pq"})
ARROW = frozenset({".arrow", ".arrows", ".feather", ".ipc"})
LARGEST = 2**31
"""Bytes of a file."""
LIMITS = Limits(memory=4 * 2**30, seconds=300)
_BATCH = 2**14
_EXACT = 2.0**53
"""Floats from which on whole numbers are written as floats: not every whole number is one."""
_EXPORT = "Write it again with pyarrow, pandas or datasets, or export it as CSV."
_FEWER = "Leave out columns that are not needed, or split the table."


def is_arrow(path: Path) -> bool:
    """Tell whether a file is Parquet or Arrow by its suffix."""
    return path.suffix.lower() in PARQUET | ARROW


def read_arrow(
    path: Path, parts: Sequence[Path] = (), *, most_rows: int, most_cells: int, limits: Limits = LIMITS
) -> tuple[tuple[str, ...], list[tuple[str | None, ...]], tuple[str, ...]]:
    """Return the columns of a Parquet or Arrow file, its rows as text, and the columns whose cells are JSON.

    A value that is null is None; one that is a list or a structure is written as JSON.

    Parameters
    ----------
    parts
        The files of a table that lies in several, which `path` names; default `path` alone.
    most_rows, most_cells
        Limits of the table; one that is larger is refused before it is held.
    limits
        What the process that reads it may take.

    Raises
    ------
    InputError
        Where pyarrow is absent, the file is damaged or too large, or a column holds bytes.
    """
    columns, values, nested = _contained(path, parts, (), most_rows, most_cells, limits)
    return columns, list(zip(*values, strict=True)), nested


def read_arrow_column(
    path: Path, parts: Sequence[Path], names: Sequence[str], *, most_rows: int, limits: Limits = LIMITS
) -> tuple[str, bool, list[str | None]]:
    """Return the first of some columns that there is, whether a path leads into its cells, and these as text.

    The cells are JSON where a name is a path (`probes.files.json_paths`) that begins with the name of a column. Other
    columns are not read: they may hold recordings.

    Raises
    ------
    InputError
        As of `read_arrow`, and where there is no such column.
    """
    (root,), (values,), _ = _contained(path, parts, names, most_rows, most_rows, limits)
    name = next(name for name in names if root in (name, _root(name)))
    return name, name != root, values


def _root(name: str) -> str:
    return name.partition(".")[0]


def _contained(
    path: Path, parts: Sequence[Path], only: Sequence[str], most_rows: int, most_cells: int, limits: Limits
) -> tuple[tuple[str, ...], list[list[str | None]], tuple[str, ...]]:
    """Return names and columns, read in a child, and the names of those that are JSON."""
    parts = parts or (path,)
    check_files(path, parts)
    names = [str(part) for part in parts]
    with refusals(path, parts):
        columns, values, nested = call(
            _read, names, list(only), most_rows, most_cells, reads=parts, limits=limits, loads=("pyarrow.parquet",)
        )
    return tuple(columns), [json.loads(column) for column in values], tuple(nested)


def check_files(path: Path, parts: Sequence[Path]) -> None:
    """Refuse the files of a table, which `path` names, that are no files, too large together, or of an old form.

    Raises
    ------
    InputError
        There, and where pyarrow is absent.
    """
    size = 0
    for part in parts:
        head = read_head(part, wanted="a table", hint=_EXPORT)
        _check_installed(part)
        size += part.stat().st_size
        if size > LARGEST:
            raise InputError(f"The file has {size:,} bytes, more than {LARGEST:,}.", where=str(path), hint=_FEWER)
        if head[:4] == b"FEA1":
            raise InputError("This is the first version of Feather.", where=str(part), hint=_EXPORT)


@contextmanager
def refusals(path: Path, parts: Sequence[Path]) -> Iterator[None]:
    """Turn what the child that reads these files ended in into a refusal."""
    try:
        yield
    except LimitError as error:
        raise InputError(f"The table is not read: {error.text}.", where=str(path), hint=_FEWER) from None
    except ContainedError as error:
        kind = "Parquet" if parts[0].suffix.lower() in PARQUET else "an Arrow file"
        message = f"This is not {kind} that can be read: {' '.join(error.text.split())[:300]}"
        raise InputError(f"{message.rstrip('.')}.", where=str(path), hint=_EXPORT) from None


def _check_installed(path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise InputError(
            "Parquet and Arrow files are read by pyarrow, which is not installed.",
            where=str(path),
            hint="pip install 'miles-audit[tables]', or export the table as CSV.",
        )


def _read(paths: list[str], only: list[str], most_rows: int, most_cells: int) -> tuple[list[str], list[str], list[str]]:
    """Return names and columns of a table, each of these as one JSON list of texts, and the names of nested ones.

    Of `only`, where it names some, the first that there is. This runs in the child.
    """
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    names: list[str] = []
    nested: dict[str, None] = {}
    values: list[list[str | None]] = []
    for path in paths:
        with open(path, "rb") as file:  # noqa: PTH123
            schema, declared, batches = _batches(file, path)
            rows = len(values[0]) if values else 0
            _check_amount(rows + declared, 1 if only else len(schema), most_rows, most_cells, path)
            own = _names(schema, path)
            names = names or own
            if own != names:
                hint = "Write all parts of a table with the same columns, in one order."
                raise InputError("The part has other columns than the first one.", where=path, hint=hint)
            chosen, into = _chosen(names, only, path)
            values = values or [[] for _ in chosen]
            nested |= dict.fromkeys(names[at] for at in chosen if _is_nested(schema.field(at).type))
            makers = [_maker(schema.field(at), _labels(schema), path, nested=into) for at in chosen]
            for made in _made(batches, chosen, makers, rows, (most_rows, most_cells), path):
                for held, new in zip(values, made, strict=True):
                    held += new
    # One text a column crosses between processes many times as fast as a list of them.
    return [names[at] for at in chosen], [json.dumps(column, ensure_ascii=False) for column in values], [*nested]


def _chosen(names: list[str], only: list[str], path: str) -> tuple[list[int], bool]:
    """Return the numbers of the columns to read, and whether paths lead into them."""
    if not only:
        return [*range(len(names))], False
    for name in only:
        for column in (name, _root(name)):
            if column in names:
                return [names.index(column)], column != name
    hint = suggest(only[0], [name[:60] for name in names[:1000]])
    raise InputError(f"There is no column {only[0]!r}.", where=path, hint=hint)


def _made(
    batches: Iterator[Any],
    chosen: list[int],
    makers: list[Callable[[Any, int], list[str | None]]],
    before: int,
    most: tuple[int, int],
    path: str,
) -> Iterator[list[list[str | None]]]:
    """Yield the rows of one file, column by column; refusals count from its own first row."""
    rows = 0
    for batch in batches:
        _check_amount(before + rows + batch.num_rows, len(chosen), *most, path)
        batch.validate(full=True)
        yield [make(batch.columns[at], rows) for at, make in zip(chosen, makers, strict=True)]
        rows += batch.num_rows


def _check_amount(rows: int, columns: int, most_rows: int, most_cells: int, path: str) -> None:
    if rows > most_rows or rows * columns > most_cells:
        message = f"There are more than {most_rows:,} rows or {most_cells:,} cells."
        raise InputError(message, where=path, hint=_FEWER)


def _batches(file: Any, path: str) -> tuple[Any, int, Iterator[Any]]:
    """Return the schema, how many rows are declared beforehand, and the table part by part."""
    if Path(path).suffix.lower() in PARQUET:
        from pyarrow import parquet

        table = parquet.ParquetFile(file)
        return table.schema_arrow, table.metadata.num_rows, table.iter_batches(batch_size=_BATCH, use_threads=False)
    from pyarrow import ipc

    options = ipc.IpcReadOptions(use_threads=False)
    magic = file.read(6)
    file.seek(0)
    if magic == b"ARROW1":
        reader = ipc.open_file(file, options=options)
        return reader.schema, 0, (reader.get_batch(number) for number in range(reader.num_record_batches))
    stream = ipc.open_stream(file, options=options)
    return stream.schema, 0, iter(stream)


def _names(schema: Any, path: str) -> list[str]:
    names = [name.strip() or f"column {number}" for number, name in enumerate(schema.names, start=1)]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise InputError(
            f"There are two columns {twice[:60]!r}.", where=path, hint="Give every column a name of its own."
        )
    if not names:
        raise InputError("The table has no columns.", where=path, hint=_EXPORT)
    return names


def _labels(schema: Any) -> dict[str, list[str]]:
    """Return the names of classes by column, which Hugging Face's datasets keep as numbers."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        found = {name: feature["names"] for name, feature in features.items() if "names" in feature}
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        return {}
    return {name: names for name, names in found.items() if isinstance(names, list) and all(map(_is_name, names))}


def _is_name(value: object) -> bool:
    return isinstance(value, str)


def _maker(
    field: Any, classes: Mapping[str, list[str]], path: str, *, nested: bool = False
) -> Callable[[Any, int], list[str | None]]:
    """Return a function that turns a part of a column into text, given the number of rows before it.

    `nested` columns are written as JSON, as lists and structures always are; `classes` are names of whole numbers.
    """
    from pyarrow import types

    if nested or _is_nested(field.type):
        return lambda column, _: [_as_json(value) for value in column.to_pylist()]
    labels = classes.get(field.name, [])
    kind = getattr(field.type, "storage_type", field.type)
    where = f"{path}, column {field.name[:60]}"
    if _is_recording(kind):
        return lambda column, rows: _paths(column, rows, where)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if "binary" in str(inner):
        raise InputError(
            f"The column {field.name[:60]!r} holds bytes, not one text or number a row.",
            where=where,
            hint=f"Leave the column out, such as with table.drop_columns([{field.name[:60]!r}]) of pyarrow.",
        )
    if types.is_string(inner) or types.is_large_string(inner) or str(inner) == "string_view":
        return lambda column, rows: _texts(column.to_pylist(), rows, where)
    if types.is_integer(inner):
        names = dict(enumerate(labels))
        # Hugging Face's datasets write -1 where no class is known.
        written = (lambda value: names.get(value)) if names else str
        return lambda column, _: [None if value is None else written(value) for value in column.to_pylist()]
    write = _short if types.is_float32(inner) or types.is_float16(inner) else _text
    return lambda column, _: [None if value is None else write(value) for value in column.to_pylist()]


def _is_recording(kind: Any) -> bool:
    """Tell whether a type is that of recordings or images of Hugging Face's datasets."""
    from pyarrow import types

    return types.is_struct(kind) and {kind.field(at).name for at in range(kind.num_fields)} == {"bytes", "path"}


def _is_nested(kind: Any) -> bool:
    """Tell whether a type is that of lists or structures, other than recordings."""
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    if _is_recording(kind):
        return False
    return bool(types.is_nested(kind.value_type if types.is_dictionary(kind) else kind))


def _as_json(value: object) -> str | None:
    """Return a value as JSON, in which bytes and dates are null: no path leads to a text there."""
    return None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False, default=lambda _: None)


def _texts(values: list[str | None], rows: int, where: str) -> list[str | None]:
    if "\0" in "".join(filter(None, values)):
        row = next(number for number, value in enumerate(values, start=rows + 1) if value and "\0" in value)
        raise InputError("The text holds a NUL character.", where=f"{where}, row {row}", hint="Remove it.")
    return values


def _short(value: float) -> str | None:
    """Return a number of at most 32 bits with as few digits as identify it."""
    import numpy as np

    return _text(float(str(np.float32(value))))


def _text(value: Any) -> str | None:
    """Return a value as it would stand in a CSV file: dates and times in ISO 8601, whole decimal numbers as such."""
    if isinstance(value, float) and not abs(value) < _EXACT:
        return str(value)
    if isinstance(value, bool | int | float):
        return json_text(value)
    # As 20.000 it could be taken for thousands, which a number that has a type never is.
    # One with a positive exponent could have digits without end.
    if isinstance(value, Decimal) and int(value.as_tuple().exponent) < 0 and value == value.to_integral_value():
        return str(value.to_integral_value())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _paths(column: Any, rows: int, where: str) -> list[str | None]:
    """Return the paths of recordings or images of Hugging Face's datasets, which have bytes beside them."""
    found: list[str | None] = column.field("path").to_pylist()
    held = column.field("bytes").is_valid().to_pylist()
    for number, name in enumerate(found):
        if name is None and held[number]:
            raise InputError(
                "The recording stands in the table itself and has no path.",
                where=f"{where}, row {rows + number + 1}",
                hint="Write its bytes to a file and name that: dataset.cast_column('audio', Audio(decode=False)) "
                "gives them.",
            )
    return found
