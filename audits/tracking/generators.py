"""Items made from a seed, of known depth: as many operations, names and options at every depth.

K values start at K entities. Every text has K times the greatest depth operations; only the queried chain has the depth
that is asked for, the others take up the rest. Order and names are random, so that neither place nor name tells
the answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from audits.tracking.group_words import GROUPS, table
from audits.tracking.items import Item, item_id
from audits.tracking.stories import Operation, Story, dependencies, guesses, simulate
from probes.core.errors import InputError

_VALUES = (
    "apple bread chair clock cloud crown dress fence glass grass horse house knife light money mouse paper phone "
    "piano plant plate queen radio river shirt shoe stone sugar table tiger tower train truck watch wheel window"
)
VALUES = tuple(_VALUES.split())
_Statement = tuple[str, tuple[int, ...]]
"""Its text with the space before it, and the statements whose values it takes."""
TASKS = ("pointer", "contents", "swap", "overwrite", *(f"word:{group}" for group in GROUPS))
DEEP = 2
"""Depth from which on cheap rules should fail."""
ERRORS = 3
"""Standard errors by which a rule may differ from chance in a set of items."""
TRIES = 40
SCREENED = {
    "pointer": ("last_mentioned_value", "first_option"),
    "contents": ("initial", "last_mentioned_value", "last_partner_initial", "first_option"),
    "swap": ("initial", "last_op_only", "last_mentioned_value", "last_partner_initial", "first_option"),
    "overwrite": ("initial", "last_mentioned_value", "first_option"),
}
"""Rules that must do no better than chance, by task. To leave out the first operation is none of them: it follows all
others. Nor is the last operation for `overwrite`, where it is the answer whenever it names the queried entity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How items of a task are made.

    Parameters
    ----------
    depths
        Depths, or changes for `overwrite`, of which there are `per_depth` items each.
    values
        Words that serve as values.
    shots
        Worked examples before each question, of names and values that the question does not use.
    """

    task: str
    depths: tuple[int, ...]
    per_depth: int
    entities: int = 4
    rendering: str = "text"
    shots: int = 2
    values: Sequence[str] = VALUES
    seed: int = 0


def make_items(recipe: Recipe) -> list[Item]:
    """Make the items of a task; where a cheap rule does better or worse than chance, others are drawn.

    The n-th item of two tasks with the same seed and depth are twins: changes that chain against changes that do not.
    """
    for attempt in range(TRIES):
        items = list(_draw(recipe, attempt))
        if not biased_rules(items):
            break
    return items


def biased_rules(items: Sequence[Item]) -> dict[str, tuple[float, float]]:
    """Return the cheap rules whose share of right answers differs from chance: the share, and chance.

    Only deep items count: to follow one change is what some rules do. Of `overwrite`, whose chains are short whatever
    their number, the changes count instead.
    """
    found = {}
    deep = [item for item in items if _length(item) >= DEEP and item.chance]
    for rule in SCREENED.get(items[0].task, ("first_option",)):
        asked = [item for item in deep if rule in item.guesses]
        if not asked:
            continue
        chance = sum(item.chance or 0.0 for item in asked) / len(asked)
        share = sum(item.guesses[rule] == {item.target} for item in asked) / len(asked)
        if abs(share - chance) > ERRORS * (chance * (1 - chance) / len(asked)) ** 0.5:
            found[rule] = (share, chance)
    return found


def _length(item: Item) -> int:
    return item.n_changes if item.task == "overwrite" else item.depth


def _draw(recipe: Recipe, attempt: int) -> Iterator[Item]:
    for depth in recipe.depths:
        for number in range(recipe.per_depth):
            # The task is no part of the key: twins share everything that they can.
            rng = np.random.default_rng([recipe.seed, attempt, depth, number])
            yield _item(recipe, depth, number, rng)


def _item(recipe: Recipe, depth: int, number: int, rng: np.random.Generator) -> Item:
    at = depth * recipe.per_depth + number
    if recipe.task.startswith("word:"):
        return _word_item(recipe, depth, at, rng)
    values = [recipe.values[index] for index in rng.permutation(len(recipe.values))]
    names = _names(rng)
    story, values, names = _story(recipe, depth, max(recipe.depths), names, values, rng)
    outcome = simulate(story)
    (target,) = outcome.answer
    options = [value for held in story.initial.values() for value in held]
    options = [options[index] for index in rng.permutation(len(options))]
    statements: list[_Statement] = []
    for part in [*(_example(recipe, names, values, rng) for _ in range(recipe.shots)), _statements(recipe, story)]:
        gap, before = "\n\n" if statements else "", len(statements)
        statements += [
            (text if at else gap + text, tuple(before + one for one in of)) for at, (text, of) in enumerate(part)
        ]
    prompt = "".join(text for text, _ in statements)
    return Item(
        id=item_id(prompt),
        task=recipe.task,
        prompt=prompt,
        options=tuple(options),
        target=target,
        n_ops=len(story.operations),
        n_changes=depth if recipe.task == "overwrite" else outcome.changes,
        depth=outcome.depth,
        entities=recipe.entities,
        guesses=guesses(story, options),
        twin=at,
        graph=_graph(statements),
    )


def _graph(statements: Sequence[_Statement]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple(zip(accumulate(len(text) for text, _ in statements), (of for _, of in statements), strict=True))


def _names(rng: np.random.Generator) -> list[str]:
    """Return names of a letter and a number, in random order."""
    names = [f"{letter}{number}" for letter in "ABCDEFGHJKLMNPQRSTUVWXYZ" for number in range(1, 10)]
    return [names[index] for index in rng.permutation(len(names))]


def _story(
    recipe: Recipe, depth: int, most: int, names: list[str], values: list[str], rng: np.random.Generator
) -> tuple[Story, list[str], list[str]]:
    """Return a story and the values and names that it leaves; the last of its steps leads to the depth."""
    count = recipe.entities
    make = {"pointer": _pointer, "contents": _contents, "swap": _swap, "overwrite": _overwrite}[recipe.task]
    story = make(depth, count * max(most, 1), names, values[:count], rng)
    used = {name for step in story.operations for name in step.touched} | set(story.initial)
    return story, values[count:], [name for name in names if name not in used]


def _lengths(depth: int, operations: int, chains: int, rng: np.random.Generator) -> list[int]:
    """Return how many operations each chain has: the first `depth`, the others the rest, as even as chance deals."""
    rest = rng.multinomial(operations - depth, [1 / (chains - 1)] * (chains - 1))
    return [depth, *rest.tolist()]


def _turns(lengths: Sequence[int], rng: np.random.Generator) -> list[int]:
    turns = np.repeat(np.arange(len(lengths)), lengths)
    return [int(turn) for turn in rng.permutation(turns)]


def _pointer(depth: int, operations: int, names: list[str], values: list[str], rng: np.random.Generator) -> Story:
    """Grow one chain a value: a new name takes the value of the last one of its chain."""
    count = len(values)
    if operations + count > len(names):
        hint = "Ask for smaller depths (--n) or fewer --entities."
        raise InputError(f"A text of {operations} copies needs more names than there are.", where="--n", hint=hint)
    fresh = iter(names)
    last = [next(fresh) for _ in range(count)]
    initial = dict(zip(last, ((value,) for value in values), strict=True))
    steps = []
    for chain in _turns(_lengths(depth, operations, count, rng), rng):
        name = next(fresh)
        steps.append(Operation("copy", name, last[chain]))
        last[chain] = name
    return Story(initial=_shuffled(initial, rng), operations=tuple(steps), query=last[0])


def _contents(depth: int, operations: int, names: list[str], values: list[str], rng: np.random.Generator) -> Story:
    """Move the contents of boxes into boxes that began empty, of which there are twice as many as values."""
    count = len(values)
    boxes, at = names[count : 3 * count], names[:count]
    initial = {box: (value,) for box, value in zip(at, values, strict=True)}
    steps = []
    for chain in _turns(_lengths(depth, operations, count, rng), rng):
        empty = [box for box in boxes if box not in at]
        goal = empty[int(rng.integers(len(empty)))]
        steps.append(Operation("move", goal, at[chain]))
        at[chain] = goal
    return Story(initial=_shuffled(initial, rng), operations=tuple(steps), query=at[0])


def _swap(depth: int, operations: int, names: list[str], values: list[str], rng: np.random.Generator) -> Story:
    """Swap pairs, as many of them with the answer's holder as the depth says."""
    people, holder = names[: len(values)], names[0]
    moved = set(rng.permutation(operations)[:depth].tolist())
    steps = []
    for number in range(operations):
        others = [name for name in people if name != holder]
        first, second = (others[index] for index in rng.permutation(len(others))[:2])
        if number in moved:
            pair = (holder, first) if rng.random() < 0.5 else (first, holder)
            holder = first
        else:
            pair = (first, second)
        steps.append(Operation("swap", *pair))
    initial = {name: (value,) for name, value in zip(people, values, strict=True)}
    return Story(initial=_shuffled(initial, rng), operations=tuple(steps), query=holder)


def _overwrite(depth: int, operations: int, names: list[str], values: list[str], rng: np.random.Generator) -> Story:
    """Name a value at every change; entities end with different ones, so that each value is present once."""
    count = len(values)
    entities, turns = names[:count], _turns(_lengths(depth, operations, count, rng), rng)
    # The last change is of each entity alike, however many changes the queried one has.
    last = 0 if depth and rng.integers(count) == 0 else int(rng.choice([at for at in turns if at]))
    turns.remove(last)
    turns.append(last)
    left = [turns.count(at) for at in range(count)]
    initial = {name: (value,) for name, value in zip(entities, values, strict=True)}
    # Entities that nothing changes keep their values; the others share the rest.
    moved = [at for at in range(count) if left[at]]
    final = dict(zip(moved, [values[at] for at in rng.permutation(moved)], strict=True))
    steps = []
    for at in turns:
        left[at] -= 1
        value = final[at] if not left[at] else values[int(rng.integers(count))]
        steps.append(Operation("set", entities[at], values=(value,)))
    return Story(initial=_shuffled(initial, rng), operations=tuple(steps), query=entities[0])


def _shuffled(initial: Mapping[str, tuple[str, ...]], rng: np.random.Generator) -> dict[str, tuple[str, ...]]:
    names = list(initial)
    return {names[at]: initial[names[at]] for at in rng.permutation(len(names))}


def _example(recipe: Recipe, names: list[str], values: list[str], rng: np.random.Generator) -> list[_Statement]:
    """Return a worked example of depth 1 or 2, of other names and values than those of the question."""
    depth = int(rng.integers(1, 3))
    picked = [values[at] for at in rng.permutation(len(values))]
    story, _, _ = _story(recipe, depth, 2, [names[at] for at in rng.permutation(len(names))], picked, rng)
    *statements, (question, of) = _statements(recipe, story)
    return [*statements, (f"{question} {next(iter(simulate(story).answer))}", of)]


_WORDS: dict[str, Callable[[Operation], str]] = {
    "copy": lambda step: f"{step.entity} gets the same as {step.source}.",
    "move": lambda step: f"Move the contents of Box {step.source} to Box {step.entity}.",
    "swap": lambda step: f"{step.entity} and {step.source} swap.",
    "set": lambda step: f"{step.entity} now has the {step.values[0]} instead.",
}
_CODE: dict[str, Callable[[Operation], str]] = {
    "copy": lambda step: f"{step.entity} = {step.source}",
    "move": lambda step: f"{step.entity}, {step.source} = {step.source}, None",
    "swap": lambda step: f"{step.entity}, {step.source} = {step.source}, {step.entity}",
    "set": lambda step: f"{step.entity} = {step.values[0]!r}",
}


def _statements(recipe: Recipe, story: Story) -> list[_Statement]:
    """Write a story as statements, the last of which ends where the answer begins, with what each depends on."""
    if recipe.rendering == "code":
        lines = [f"{name} = {values[0]!r}" for name, values in story.initial.items()]
        lines += [*(_CODE[step.kind](step) for step in story.operations), f"# The value of {story.query} is:"]
    else:
        box = "Box " if recipe.task == "contents" else ""
        verb = "contains" if box else "has"
        lines = [f"{box}{name} {verb} the {values[0]}." for name, values in story.initial.items()]
        lines += [_WORDS[step.kind](step) for step in story.operations]
        lines.append(f"At the end, {box}{story.query} {verb} the")
    gap = "\n" if recipe.rendering == "code" else " "
    return list(zip([lines[0], *(gap + line for line in lines[1:])], dependencies(story), strict=True))


def _word_item(recipe: Recipe, depth: int, at: int, rng: np.random.Generator) -> Item:
    """Return a word of a group, padded with identities to the greatest depth, and its product."""
    group, length = recipe.task.removeprefix("word:"), max(recipe.depths)
    products = table(group)
    order, count = len(products), min(recipe.entities, len(products))
    word = np.zeros(length, dtype=int)
    word[np.sort(rng.permutation(length)[:depth])] = rng.integers(1, order, depth)
    state = 0
    for letter in word.tolist():
        state = products[state][letter]
    others = [number for number in rng.permutation(order).tolist() if number != state][: count - 1]
    options = [str(([state, *others])[index]) for index in rng.permutation(count)]
    # The place in its set makes equal words of small groups two items.
    prompt = " ".join(map(str, word.tolist()))
    letters: list[_Statement] = [(f" {letter}", (at,) if at else ()) for at, letter in enumerate(word.tolist())]
    statements = [(f"The product in {group} of", ()), *letters, (" is", (length,))]
    return Item(
        id=item_id(f"{prompt}#{at}"),
        task=recipe.task,
        prompt="".join(text for text, _ in statements),
        options=tuple(options),
        target=str(state),
        n_ops=length,
        n_changes=depth,
        depth=depth,
        entities=count,
        guesses={"first_option": frozenset(options[:1]), "last_mentioned_value": frozenset([str(word[-1])])},
        twin=at,
        graph=_graph(statements),
    )
