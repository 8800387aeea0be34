"""Items of published benchmarks, with their texts replayed where they can be: what changes, and what depends on what.

A story is taken from the text and carried out; an item whose outcome is not its own target is left out and counted.
Formats: BIG-Bench-Hard's shuffled objects (Suzgun et al. 2023), Boxes (Kim and Schuster 2023), bAbI (Weston et al.
2015), words of groups (Merrill, Petty and Sabharwal 2024).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.tracking.group_words import GROUPS, fold
from audits.tracking.items import Item, item_id, split_answer
from audits.tracking.stories import Operation, Story, guesses, simulate
from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.tables import Table
from probes.files.text import read_text

DISAGREES, UNREAD = "replay disagrees with the target", "story cannot be read"

_OPTION = re.compile(r"^(\([A-Z]\)) (.+)$", re.MULTILINE)
_HOLDS = re.compile(r"(?:\s|^)(?:and )?(\w+) (?:gets|has a|is dancing with|is playing|has) ([^,.]+(?:\.[^,. ]+)*)[,.]")
_SWAPS = re.compile(r"(\w+) and (\w+) (?:swap|switch|trade)")
_ASKED = re.compile(r"At the end of [^,]+, (\w+) (?:has|is)\b")
_BOX = re.compile(r"Box (\w+) (?:contains (?:nothing|(.+))|is (empty))")
_TAKES = re.compile(
    r"(Move|Put|Remove) (?:the contents of Box (\w+)|(.+?))(?: from Box (\w+))?(?: (?:in)?to Box (\w+))?"
)
_BLANK = "<extra_id_0>"


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a file, in its order; nothing is asked of those that say why they are skipped."""

    form: str
    rows: tuple[Item, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """What can be asked."""
        return tuple(row for row in self.rows if not row.skipped_because)

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many were left out, by reason."""
        return Counter(row.skipped_because for row in self.rows if row.skipped_because)


def read_shuffled_objects(path: Path) -> Found:
    """Read a task of BIG-Bench-Hard: a JSON object whose `examples` have `input` and `target`.

    Raises
    ------
    InputError
        Where the file is no such object.
    """
    whole = parse_json(read_text(path), str(path))
    rows = whole.get("examples") if isinstance(whole, dict) else None
    if not isinstance(rows, list) or not rows:
        hint = "Give BIG-Bench-Hard's file as it is, or a table of items."
        raise InputError("The file has no list `examples`.", where=str(path), hint=hint)
    found = []
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("input", "target")):
            where = f"{path}, examples[{index}]"
            raise InputError("An example has no text `input` or `target`.", where=where, hint="Write both as texts.")
        options = {label: text.strip() for label, text in _OPTION.findall(row["input"])}
        target = options.get(row["target"].strip(), row["target"].strip())
        read = {"prompt": row["input"], "task": path.stem, "index": index}
        found.append(_replayed(_swapped(row["input"]), target, options, **read))
    return Found("BIG-Bench-Hard", tuple(found))


def _swapped(text: str) -> Story | None:
    body = text.split("\nOptions:")[0]
    first, _, rest = body.partition("\n")
    initial = {name: (value.strip(),) for name, value in _HOLDS.findall(first.split(": ", 1)[-1])}
    asked = _ASKED.search(rest)
    swaps = tuple(Operation("swap", *pair) for pair in _SWAPS.findall(rest))
    if asked is None or not initial or not {name for step in swaps for name in step.touched} <= initial.keys():
        return None
    return Story(initial=initial, operations=swaps, query=asked[1])


def read_boxes(table: Table) -> Found:
    """Read Boxes: a row a query, `sentence_masked` with a blank, and `masked_content` that fills it."""
    found = []
    for index, row in enumerate(table.rows):
        text, filler = (row.values.get(name) or "" for name in ("sentence_masked", "masked_content"))
        prompt = text.split(_BLANK)[0].strip()
        target = filler.replace(_BLANK, "").strip(" .")
        target = "" if target in ("nothing", "empty") else target
        # Its authors ask that no text of it be copied.
        read = {"prompt": prompt, "task": "boxes", "index": index, "private": True}
        found.append(_replayed(_boxed(prompt), target, {}, **read))
    return Found("Boxes", tuple(found))


def _boxed(prompt: str) -> Story | None:
    first, *sentences = [part.strip() for part in prompt.split(".") if part.strip()] or [""]
    initial = {}
    for part in re.split(r", (?:and )?(?=Box )", first):
        holds = _BOX.fullmatch(part)
        if holds is None:
            return None
        initial[holds[1]] = tuple(sorted(split_answer(holds[2] or "")))
    if not sentences or (asked := re.match(r"Box (\w+)", sentences[-1])) is None:
        return None
    steps = []
    for sentence in sentences[:-1]:
        takes = _TAKES.fullmatch(sentence)
        if takes is None:
            return None
        steps.append(_box_operation(*takes.groups()))
    return Story(initial=initial, operations=tuple(steps), query=asked[1])


def _box_operation(verb: str, whole: str | None, items: str | None, source: str | None, goal: str | None) -> Operation:
    values = tuple(sorted(split_answer(items or "")))
    if whole is not None:
        return Operation("move", goal or "", whole)
    if verb == "Put":
        return Operation("add", goal or "", values=values)
    if verb == "Remove":
        return Operation("remove", source or "", values=values)
    return Operation("carry", goal or "", source or "", values)


def read_babi(path: Path) -> Found:
    """Read bAbI: numbered lines; a question has its answer and the numbers of the facts it needs behind tabs."""
    items: list[Item] = []
    facts: list[str] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        at, _, rest = line.strip().partition(" ")
        if not at.isdigit():
            message = (
                "A .txt file of items is read as bAbI, of which each line begins with a number; this one does not."
            )
            hint = (
                "Give items as a table with prompt, target and depth (CSV, TSV, JSONL, Parquet), or bAbI's own lines: "
                "a number, a sentence, and behind a question its answer and facts."
            )
            raise InputError(message, where=f"{path}:{number}", hint=hint)
        if at == "1":
            facts = []
        question, *behind = rest.split("\t")
        if not behind:
            facts.append(question)
            continue
        support = behind[1].split() if len(behind) > 1 else []
        prompt = "\n".join([*facts, question.strip()])
        items.append(
            Item(
                id=item_id(f"{prompt}#{len(items)}"),
                task=path.stem,
                prompt=prompt,
                target=behind[0].strip(),
                n_ops=len(facts),
                n_changes=len(support),
                depth=len(support),
                index=len(items),
            )
        )
    return Found("bAbI", tuple(items))


def read_words(table: Table, path: Path) -> Found:
    """Read words of a group: `input`, numbers of elements, and `target`, the running products; the last is asked."""
    group = re.split(r"[=_.\-]", path.stem)[0]
    found = []
    for index, row in enumerate(table.rows):
        word, target = ((row.values.get(name) or "").split() for name in ("input", "target"))
        if not target or not all(text.isascii() and text.isdigit() for text in (*word, *target)):
            hint = "Write the numbers of elements, with spaces between them."
            raise InputError("A word or its products are no whole numbers.", where=f"{path}:{row.line}", hint=hint)
        moved = sum(letter != "0" for letter in word)
        prompt = " ".join(word)
        found.append(
            Item(
                id=item_id(f"{path.stem}#{prompt}#{index}"),
                task=f"word:{group}",
                prompt=prompt,
                target=target[-1],
                n_ops=len(word),
                n_changes=moved,
                depth=moved,
                guesses={"last_mentioned_value": frozenset(word[-1:])},
                index=index,
                skipped_because="" if group not in GROUPS or _folds(group, word, target) else DISAGREES,
            )
        )
    return Found("words of a group", tuple(found))


def _folds(group: str, word: Sequence[str], target: Sequence[str]) -> bool:
    try:
        return fold(group, [int(letter) for letter in word]) == [int(letter) for letter in target]
    except IndexError:
        return False


def _replayed(story: Story | None, target: str, options: Mapping[str, str], **read: Any) -> Item:
    """Return an item with what its story leads to; it is skipped where that is not its target."""
    whole = story or Story(initial={}, operations=(), query="")
    outcome = simulate(whole)
    led = frozenset[str]().union(*map(split_answer, outcome.answer)) == split_answer(target)
    choices = tuple(options.values())
    return Item(
        id=item_id(f"{read['task']}#{read['index']}#{read['prompt']}"),
        target=target,
        options=choices,
        labels=tuple(options),
        n_ops=len(whole.operations),
        n_changes=outcome.changes,
        depth=outcome.depth,
        entities=len(whole.initial),
        guesses=guesses(whole, choices),
        skipped_because=UNREAD if story is None else "" if led else DISAGREES,
        **read,
    )
