"""Files of items: our own table, and published benchmarks, told apart by what is in them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from audits.tracking.items import Item, check_items, item_id
from audits.tracking.published_items import Found, read_babi, read_boxes, read_shuffled_objects, read_words
from probes.core.errors import InputError
from probes.files.gzips import plain_suffix, read_plain_head
from probes.files.json_values import parse_json
from probes.files.table_sources import find_table
from probes.files.tables import Row, Table, read_table

NEEDED = ("prompt", "target", "depth")
LONGEST = 10_000
_HINT = "An item has prompt, target and depth, and may have id, task, options, n_ops, n_changes and prediction."


def read_items(path: Path) -> Found:
    """Read a file of items.

    Raises
    ------
    InputError
        Where it is no known form, a row lacks its text, target or depth, options lack the target, or a name repeats.
    """
    found = _read(path)
    if not found.items:
        reasons = "; ".join(f"{count}: {reason}" for reason, count in found.skipped.items()) or "none is there"
        raise InputError(f"No item can be used ({reasons}).", where=str(path), hint=_HINT)
    check_items(found.items, str(path))
    return found


def _read(path: Path) -> Found:
    source = find_table(path)
    suffix = plain_suffix(source.files[0])
    if suffix == ".txt":
        return read_babi(source.file)
    if suffix == ".json" and b'"examples"' in read_plain_head(source.file, wanted="items", hint=_HINT, size=4096):
        return read_shuffled_objects(source.file)
    table = read_table(path)
    columns = {name.casefold() for name in table.columns}
    if {"sentence_masked", "masked_content"} <= columns:
        return read_boxes(table)
    if {"input", "target"} <= columns and "prompt" not in columns:
        return read_words(table, path)
    return Found("items", tuple(_own(table)))


def _own(table: Table) -> Sequence[Item]:
    for name in NEEDED:
        if name not in table.columns:
            message = f"There is no column {name!r}."
            raise InputError(message, where=str(table.path), hint=f"{_HINT} {table.suggest(name)}")
    table.check_flat([name for name in table.columns if name != "options"])
    return [_item(row, index, table) for index, row in enumerate(table.rows)]


def _item(row: Row, index: int, table: Table) -> Item:
    where = f"{row.source or table.path}:{row.line}"
    prompt, target = (_text(row, name, where) for name in ("prompt", "target"))
    depth = _whole(row, "depth", where)
    assert depth is not None
    operations = _whole(row, "n_ops", where, missing=True)
    changes = _whole(row, "n_changes", where, missing=True)
    options = _options(row.values.get("options"), where)
    return Item(
        id=(row.values.get("id") or "").strip() or item_id(prompt),
        task=(row.values.get("task") or "").strip() or "items",
        prompt=prompt,
        target=target.strip(),
        options=options,
        n_ops=depth if operations is None else operations,
        n_changes=depth if changes is None else changes,
        depth=depth,
        entities=_whole(row, "entities", where, missing=True) or 0,
        properties=_whole(row, "properties", where, missing=True) or 1,
        guesses={"first_option": frozenset(options[:1])} if options else {},
        prediction=row.values.get("prediction"),
        twin=_whole(row, "seed", where, missing=True),
        index=index,
    )


def _text(row: Row, name: str, where: str) -> str:
    text = row.values.get(name)
    if text is None or not text.strip():
        raise InputError(f"The item has no {name}.", where=f"{where}, {name}", hint="Write it, or leave the row out.")
    return text


def _whole(row: Row, name: str, where: str, *, missing: bool = False) -> int | None:
    text = (row.values.get(name) or "").strip()
    if not text and missing:
        return None
    digits = text.removesuffix(".0")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18 or (name == "depth" and int(digits) > LONGEST):
        what = "The item has no depth." if not text else f"{text[:40]!r} is no whole number from 0 on."
        hint = "Depth is the number of changes that depend on each other and lead to the answer: 0, 1, 2 and so on."
        raise InputError(what, where=f"{where}, {name}", hint=hint if name == "depth" else "Write a whole number.")
    return int(digits)


def _options(text: str | None, where: str) -> tuple[str, ...]:
    if text is None or not text.strip():
        return ()
    value = parse_json(text, f"{where}, options") if text.lstrip().startswith("[") else text.split("|")
    options = [str(option).strip() for option in value] if isinstance(value, list) else []
    twice = [option for option, times in Counter(options).items() if times > 1]
    if len(options) < 2 or twice:
        what = f"The option {twice[0]!r} stands twice." if twice else "There is one option, or none."
        hint = "Give a list of at least two different options, or leave the column out."
        raise InputError(what, where=f"{where}, options", hint=hint)
    return tuple(options)
