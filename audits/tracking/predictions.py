"""Answers that were made elsewhere: tables of them, and samples of lm-evaluation-harness, matched to items."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from audits.core.wording import first_of
from audits.tracking.items import Item
from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.tables import Row, Table, read_table

SPLITS = ("system", "mode", "filter")
"""Columns that part the answers of several systems, or of one in several ways, in one file."""
LONGEST_NAME, NAME_WORDS = 120, 5
_TEXTS = ("prediction", "answer", "output", "response")
_HINT = "Give rows of id (or index, or a row for each item, in their order) and prediction."


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system answered: its text, or the option to which it gave the highest likelihood."""

    text: str = ""
    choice: int | None = None


Key = TypeVar("Key")
Answers = dict[int, Answer]
"""By the position of the item."""


def read_predictions(name: str, path: Path, items: Sequence[Item]) -> dict[str, Answers]:
    """Read the answers of a file, by the name of the system, and what parts several in it.

    Raises
    ------
    InputError
        Where a row has no answer, belongs to no item, or an item has two answers; and where only the order tells
        whose rows are, and there are not as many as items.
    """
    table = read_table(path)
    # Published answers begin with the mark by which benchmarks are found in training texts.
    rows = [row for row in table.rows if {key for key, value in row.values.items() if value} != {"canary"}]
    match = _Matcher(items, table)
    splits = [column for column in SPLITS if column in table.columns]
    several = [column for column in splits if len({row.values.get(column) for row in rows}) > 1]
    systems = [".".join([name, *(row.values.get(column) or "" for column in several)]) for row in rows]
    match.check_order(Counter(systems))
    found: dict[str, Answers] = {}
    for row, system in zip(rows, systems, strict=True):
        where = f"{row.source or path}:{row.line}"
        if system not in found:
            check_system(system, where)
        answers = found.setdefault(system, {})
        at = match(row, len(answers), where)
        if at in answers:
            hint = "Give one answer for each item, or part several systems by a column `system`."
            raise InputError(f"There are two answers to item {items[at].id!r}.", where=where, hint=hint)
        answers[at] = _answer(row, items[at], where, table)
    return found


def check_system(name: str, where: str) -> None:
    """Check the name of a system, which stands in headlines.

    Raises
    ------
    InputError
        Where it is long, of many words, or holds characters that cannot be seen.
    """
    if len(name) > LONGEST_NAME or len(name.split()) > NAME_WORDS or not name.isprintable():
        hint = f"Name a system in at most {LONGEST_NAME} characters and {NAME_WORDS} words."
        raise InputError(f"{name[:40]!r} is no name of a system.", where=where, hint=hint)


class _Matcher:
    """Find the item of a row: by its name, by what lm-evaluation-harness keeps of it, by its number, or by order."""

    def __init__(self, items: Sequence[Item], table: Table) -> None:
        self._count, self._path = len(items), table.path
        self._by_id = {item.id: at for at, item in enumerate(items)}
        self._by_prompt = _single((item.prompt.strip(), at) for at, item in enumerate(items))
        self._by_index = _single(((item.task, item.index), at) for at, item in enumerate(items))
        self._tasks = {item.task for item in items}
        self._key = next((key for key in ("id", "doc", "index", "doc_id") if key in table.columns), "")

    def __call__(self, row: Row, order: int, where: str) -> int:
        """Return the position of the row's item."""
        if self._key == "id":
            return self._known(self._by_id.get((row.values.get("id") or "").strip()), row, where)
        if self._key == "doc":
            at = self._of_document(row, where)
            return self._known(self._numbered(row, "doc_id") if at is None else at, row, where)
        if self._key:
            return self._known(self._numbered(row, self._key), row, where)
        return order

    def check_order(self, rows: Mapping[str, int]) -> None:
        """Refuse rows that only their order could match, of which a system has more or fewer than there are items."""
        system = next((system for system, count in rows.items() if count != self._count), None)
        if not self._key and system is not None:
            check_system(system, str(self._path))
            message = (
                f"There are {rows[system]} rows of {system}, and {self._count} items: no column tells whose they are."
            )
            raise InputError(message, where=str(self._path), hint=_HINT)

    def _of_document(self, row: Row, where: str) -> int | None:
        document = parse_json(row.values.get("doc") or "{}", where)
        if not isinstance(document, dict):
            return None
        for key in ("input", "prompt", "question", "sentence_masked"):
            text = document.get(key)
            if isinstance(text, str) and text.strip() in self._by_prompt:
                return self._by_prompt[text.strip()]
        return self._by_id.get(str(document.get("id")))

    def _numbered(self, row: Row, key: str) -> int | None:
        text = (row.values.get(key) or "").strip()
        task = (row.values.get("task") or "").strip() or (next(iter(self._tasks)) if len(self._tasks) == 1 else "")
        return self._by_index.get((task, int(text))) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def _known(self, at: int | None, row: Row, where: str) -> int:
        if at is None:
            named = {key: row.values.get(key) for key in ("task", self._key) if key != "doc" and row.values.get(key)}
            words = ", ".join(f"{key} {value}"[:80] for key, value in named.items()) or "this row"
            hint = "Check that --items holds the items of these answers, under the same names and tasks."
            task = (row.values.get("task") or "").strip()
            if task and task not in self._tasks:
                names = first_of([name[:80] for name in sorted(self._tasks)], 3)
                hint = (
                    f"Give the items of {task[:80]!r} by --items too, or leave its rows out of this file; where only "
                    f"the name differs, write that of the items: {names}."
                )
            raise InputError(f"No item has {words}, or several have.", where=where, hint=hint)
        return at


def _single(pairs: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    """Return positions by their keys, without keys that several have: they tell no item."""
    found: dict[Key, int] = {}
    several = set[Key]()
    for key, at in pairs:
        if key in found:
            several.add(key)
        found[key] = at
    return {key: at for key, at in found.items() if key not in several}


def _answer(row: Row, item: Item, where: str, table: Table) -> Answer:
    column = next((name for name in _TEXTS if name in table.columns), None)
    if column is not None:
        return Answer(row.values.get(column) or "")
    raw = row.values.get("filtered_resps") or row.values.get("resps")
    if raw is None:
        raise InputError("There is no column `prediction`.", where=str(table.path), hint=_HINT)
    leaves = list(_leaves(parse_json(raw, where)))
    if leaves and not isinstance(leaves[0], str):
        return Answer(choice=_best(leaves, item, where))
    return Answer(str(leaves[0]) if leaves else "")


def _leaves(value: Any) -> Iterator[Any]:
    """Yield texts, or pairs of log-likelihood and whether greedy decoding gives it, however deep they lie."""
    if isinstance(value, list) and not (len(value) == 2 and _is_number(value[0]) and isinstance(value[1], bool | str)):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and float(value) == float(value)
    except (TypeError, ValueError):
        return False


def _best(leaves: Sequence[Any], item: Item, where: str) -> int:
    scores = [float(leaf[0]) if isinstance(leaf, list) else float("-inf") for leaf in leaves]
    if len(scores) != len(item.options):
        message = f"The sample has {len(scores)} log-likelihoods, and its item {len(item.options)} options."
        raise InputError(message, where=where, hint="Give the samples of the task that the items are of.")
    return max(range(len(scores)), key=lambda at: (scores[at], -at))


def own_predictions(items: Sequence[Item]) -> Mapping[int, Answer]:
    """Return the answers that stand beside the items themselves."""
    return {at: Answer(item.prediction) for at, item in enumerate(items) if item.prediction is not None}
