"""Stories of changing states with an exact simulator: what each change does, what depends on what, and cheap rules.

Three lengths of a story are kept apart: all its operations, those that touch the queried entity (`changes`), and the
longest chain of dependencies that leads to the answer (`depth`). An operation that names its value starts a chain
anew; one that takes the value of another entity makes a chain longer by one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["copy", "move", "swap", "set", "add", "remove", "carry"]
State = dict[str, frozenset[str]]

LINKS: frozenset[Kind] = frozenset({"copy", "move", "swap"})
"""Operations whose outcome depends on the state of another entity, which the text does not name."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One change: `entity` is where a value comes to.

    Parameters
    ----------
    kind
        `copy`: it gets what `source` has. `move`: it gets all that `source` has, which is then empty, beside its own.
        `swap`: both exchange. `set`: it has `values` alone. `add`, `remove`: it gets or loses `values`.
        `carry`: `values` go from `source` to it, each by its name.
    """

    kind: Kind
    entity: str
    source: str = ""
    values: tuple[str, ...] = ()

    @property
    def touched(self) -> tuple[str, ...]:
        """The entities whose state it changes, or that it reads."""
        return (self.entity, self.source) if self.source else (self.entity,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Initial values by entity, operations in order, and the entity that is asked for."""

    initial: Mapping[str, tuple[str, ...]]
    operations: tuple[Operation, ...]
    query: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a story leads to: the values of the queried entity, operations that touch it, and the depth of the answer.

    Raises nothing: an entity that was never named holds nothing.
    """

    answer: frozenset[str]
    changes: int
    depth: int


def simulate(story: Story) -> Outcome:
    """Carry out a story, with the length of the chain that each value rests on.

    Examples
    --------
    >>> swaps = (Operation("swap", "Ann", "Bob"), Operation("swap", "Bob", "Cid"))
    >>> simulate(Story(initial={"Ann": ("ball",), "Bob": ("cup",), "Cid": ("hat",)}, operations=swaps, query="Cid"))
    Outcome(answer=frozenset({'ball'}), changes=1, depth=2)
    """
    held: dict[str, dict[str, int]] = {name: dict.fromkeys(values, 0) for name, values in story.initial.items()}
    # Of an entity that is empty: the chain that emptied it.
    emptied: dict[str, int] = {}
    for step in story.operations:
        _apply(step, held, emptied)
    values = held.get(story.query, {})
    changes = sum(story.query in step.touched for step in story.operations)
    depth = max(values.values(), default=emptied.get(story.query, 0))
    return Outcome(frozenset(values), changes, depth)


def _apply(step: Operation, held: dict[str, dict[str, int]], emptied: dict[str, int]) -> None:
    own, other = held.setdefault(step.entity, {}), held.setdefault(step.source, {}) if step.source else {}
    longer = {value: depth + 1 for value, depth in other.items()}
    if step.kind == "copy":
        held[step.entity] = longer
    elif step.kind == "move":
        held[step.entity], held[step.source] = {**own, **longer}, {}
        emptied[step.source] = 1
    elif step.kind == "swap":
        held[step.entity], held[step.source] = longer, {value: depth + 1 for value, depth in own.items()}
    elif step.kind == "set":
        held[step.entity] = dict.fromkeys(step.values, 1)
    elif step.kind in ("add", "carry"):
        held[step.entity] = own | dict.fromkeys(step.values, 1)
    _lose(step, held, emptied)


def _lose(step: Operation, held: dict[str, dict[str, int]], emptied: dict[str, int]) -> None:
    loser = {"remove": step.entity, "carry": step.source}.get(step.kind)
    if loser is not None:
        held[loser] = {value: depth for value, depth in held[loser].items() if value not in step.values}
        emptied[loser] = 1


def dependencies(story: Story) -> list[tuple[int, ...]]:
    """Return for each statement those that its values come from: initial states, copies, moves, swaps, the question.

    Examples
    --------
    >>> dependencies(Story(initial={"a": ("cup",)}, operations=(Operation("copy", "b", "a"),), query="b"))
    [(), (0,), (1,)]
    """
    last = {name: at for at, name in enumerate(story.initial)}
    found: list[tuple[int, ...]] = [()] * len(last)
    for step in story.operations:
        read = step.touched if step.kind == "swap" else (step.source,) if step.kind in LINKS else ()
        changed = (step.entity,) if step.kind == "copy" else step.touched
        found.append(tuple(sorted({last[name] for name in read if name in last})))
        last |= dict.fromkeys(changed, len(found) - 1)
    return [*found, (last[story.query],)]


def _initial(story: Story) -> frozenset[str]:
    return frozenset(story.initial.get(story.query, ()))


def _last_only(story: Story) -> frozenset[str]:
    return simulate(replace(story, operations=story.operations[-1:])).answer


def _without_first(story: Story) -> frozenset[str]:
    return simulate(replace(story, operations=story.operations[1:])).answer


def _last_partner(story: Story) -> frozenset[str]:
    for step in reversed(story.operations):
        if story.query in step.touched and step.source:
            partner = step.source if step.entity == story.query else step.entity
            return frozenset(story.initial.get(partner, ()))
    return frozenset()


def _last_mentioned(story: Story) -> frozenset[str]:
    for step in reversed(story.operations):
        if step.values:
            return frozenset(step.values[-1:])
    return frozenset([*story.initial.values()][-1][-1:]) if story.initial else frozenset()


RULES: Mapping[str, Callable[[Story], frozenset[str]]] = {
    "initial": _initial,
    "last_op_only": _last_only,
    "drop_first": _without_first,
    "last_partner_initial": _last_partner,
    "last_mentioned_value": _last_mentioned,
}
"""Cheap rules that follow no chain, by name; an empty set where a rule has no answer."""


def guesses(story: Story, options: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return what each cheap rule answers; rules without an answer are left out, `first_option` needs options."""
    answers = {name: rule(story) for name, rule in RULES.items()}
    if options:
        answers["first_option"] = frozenset(options[:1])
    return {name: answer for name, answer in answers.items() if answer}
