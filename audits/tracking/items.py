"""Items of state tracking: a text, a question with one answer, and the three lengths that must be kept apart."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from probes.core.errors import InputError

CHAINED = ("pointer", "contents", "word:A5", "word:S5")
"""Tasks whose changes depend on each other and have no shortcut of constant depth that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question about a story.

    Parameters
    ----------
    options
        Possible answers, the target among them; empty where an answer is free text.
    labels
        Short names of the options, such as "(A)"; empty where they have none.
    n_ops, n_changes, depth
        Operations in the text, those that touch the queried entity, and the longest chain that leads to the answer.
    guesses
        What each cheap rule answers, by its name.
    prediction
        The answer that stands in the file of items itself.
    twin
        Items of two tasks with the same twin are compared as a pair.
    index
        Row in its file, from 0.
    private
        Its text must not be written anywhere.
    graph
        Of each statement of the prompt: where it ends, and the statements whose values it takes; empty if not known.
    skipped_because
        Why nothing is asked of it, such as that its text does not lead to its target; its depth is not known then.
    """

    id: str
    task: str
    prompt: str
    target: str
    options: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    n_ops: int
    n_changes: int
    depth: int
    entities: int = 0
    properties: int = 1
    guesses: Mapping[str, frozenset[str]] = field(default_factory=dict)
    prediction: str | None = None
    twin: int | None = None
    index: int = 0
    private: bool = False
    graph: tuple[tuple[int, tuple[int, ...]], ...] = ()
    skipped_because: str = ""

    @property
    def chance(self) -> float | None:
        """Share of right answers by guessing among the options; None where there are none."""
        return 1 / len(self.options) if self.options else None

    @property
    def answers(self) -> frozenset[str]:
        """The parts of the target: an answer may be a list."""
        return split_answer(self.target)


class Skip(NamedTuple):
    """What was left out: an item, or one answer to it, and why."""

    system: str
    item: Item
    reason: str


def split_answer(text: str) -> frozenset[str]:
    """Return the parts of an answer that is a list, without articles and punctuation.

    >>> sorted(split_answer("the Painting and a bell."))
    ['bell', 'painting']
    """
    parts = text.casefold().strip(" .!\n").replace(" and ", ",").split(",")
    words = (part.strip(" .\"'").removeprefix("the ").removeprefix("an ").removeprefix("a ").strip() for part in parts)
    return frozenset(word for word in words if word)


def item_id(prompt: str) -> str:
    """Return the name of an item that has none: the start of the hash of its prompt."""
    return sha256(prompt.encode()).hexdigest()[:16]


def task_words(task: str) -> str:
    """Return a task as people say it.

    >>> task_words("pointer"), task_words("tracking_shuffled_objects_three_objects")
    ('copied values', 'tracking shuffled objects three objects')
    """
    words = {
        "pointer": "copied values",
        "contents": "moved contents",
        "swap": "swaps",
        "overwrite": "overwritten values",
    }
    return words.get(task, task.replace("_", " "))


def check_items(items: Iterable[Item], where: str) -> None:
    """Check what no single row can show.

    Raises
    ------
    InputError
        Where there is no item, two have one name, or the target is none of the options.
    """
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            hint = "Give each item a name of its own, or leave the column id out."
            raise InputError(f"Two items are named {item.id!r}.", where=where, hint=hint)
        seen.add(item.id)
        if item.options and item.target not in item.options:
            message = f"The target {item.target!r} is none of the options of item {item.id!r}."
            raise InputError(message, where=where, hint="Write the target as one of the options, letter by letter.")
    if not seen:
        raise InputError("There is no item.", where=where, hint="Give at least one item.")


def is_gold(item: Item, rule: str) -> bool:
    """Tell whether a cheap rule gives the target."""
    return frozenset(part.casefold() for part in item.guesses[rule]) in ({item.target.casefold()}, item.answers)


def agrees(item: Item, rule: str, said: str) -> bool:
    """Tell whether an answer is that of a cheap rule: as it is written, or as a list."""
    guess = item.guesses[rule]
    return {part.casefold() for part in guess} == {said.casefold()} or (
        # An option is what was understood, and is meant as a whole.
        said not in item.options and split_answer(" , ".join(sorted(guess))) == split_answer(said)
    )
