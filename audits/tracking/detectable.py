"""What a run could show with these items, before anything is asked: above guessing, and losses of paired items."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.intervals import Interval
from audits.core.wording import first_of, many
from audits.statistics.power import needed_units, rate_above, rate_reaching
from audits.tracking import Options
from audits.tracking.estimates import OVERWRITE, POINTER, chance_of, mean_of_pairs
from audits.tracking.findings import LOSS
from audits.tracking.inputs import Inputs
from audits.tracking.items import Item, task_words

MOST_ITEMS = 10**6
"""Items a depth beyond which nothing is looked for."""
_ALWAYS = "where all others are right; an interval of one depth"


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least accuracy above guessing, and the least losses by chaining and by saying, at one depth."""
    inputs: Inputs = plan.inputs
    found = [*_above_guessing(inputs, context.level)]
    pairs = _pairs(inputs)
    if pairs:
        what = f"accuracy lost by chaining at one depth (a loss of more than {LOSS:g} is told)"
        found.append(_loss(what, min(pairs.values()), "pairs", context.level))
    if {"choice", "exact"} <= set(inputs.scorings) and inputs.folder is not None:
        chosen = Counter((item.task, item.depth) for item in inputs.items if item.options)
        if chosen:
            what = f"accuracy lost in saying it at one depth (a loss of more than {LOSS:g} is told)"
            found.append(_loss(what, min(chosen.values()), "items", context.level))
    if inputs.trainings and options.properties == 1:
        from probes.language_models.tracking_networks import TEST

        depths = max(inputs.depths) + 1
        found.append(_guessing("accuracy of a network", TEST, "sequences", 1 / options.entities, depths, context.level))
    return tuple(found)


def _asked(inputs: Inputs) -> list[Sequence[Item]]:
    """Return the items that each system is asked."""
    answered = [[inputs.items[at] for at in sorted(answers)] for answers in inputs.answers.values()]
    return [*answered, *([inputs.items] if inputs.folder is not None else [])]


def _above_guessing(inputs: Inputs, level: float) -> Iterator[Detectable]:
    """Yield the accuracy that is above guessing, with the tasks of which it is the same in one line."""
    alike: dict[tuple[int, float, int], list[str]] = {}
    for task in dict.fromkeys(item.task for item in inputs.items):
        by_changes = task == OVERWRITE
        least: dict[int, int] = {}
        for items in _asked(inputs):
            for depth, count in _by_depth(items, task, by_changes=by_changes).items():
                least[depth] = min(count, least.get(depth, count))
        chances = chance_of(inputs.items, task, by_changes=by_changes)
        if least and least.keys() <= chances.keys():
            key = min(least.values()), round(max(chances[depth] for depth in least), 6), len(least)
            alike.setdefault(key, []).append(task_words(task))
    for (count, chance, depths), tasks in alike.items():
        yield _guessing(f"accuracy in {first_of(tasks, 3)}", count, "items", chance, depths, level)


def _by_depth(items: Sequence[Item], task: str, *, by_changes: bool) -> Mapping[int, int]:
    return Counter(item.n_changes if by_changes else item.depth for item in items if item.task == task)


def _guessing(what: str, count: int, unit: str, chance: float, depths: int, level: float) -> Detectable:
    """Return the least distance from guessing at one depth that intervals joint over all depths show."""
    together = 1 - (1 - level) / depths

    def above(units: int) -> float | None:
        rate = rate_above(chance, units, together)
        return None if rate is None else rate - chance

    return Detectable(
        what=f"{what} above guessing ({chance:.2g}) at one depth",
        effect=above(count),
        units=f"{count:,} {unit} a depth",
        assuming=f"exact intervals that hold together over {many(depths, 'depth', 'depths')}",
        needed=needed_units(above, f"{unit} a depth", MOST_ITEMS),
        possible=(0.0, 1 - chance),
    )


def _pairs(inputs: Inputs) -> dict[int, int]:
    """Return of each depth, but that without a change, the twins that chain and do not, of the system with fewest."""
    found: dict[int, int] = {}
    for items in _asked(inputs):
        chained, plain = (
            {
                (item.n_changes if task == OVERWRITE else item.depth, item.twin)
                for item in items
                if item.task == task and item.twin is not None
            }
            for task in (POINTER, OVERWRITE)
        )
        for depth, count in Counter(depth for depth, _ in chained & plain if depth > 0).items():
            found[depth] = min(count, found.get(depth, count))
    return found


def _loss(what: str, count: int, unit: str, level: float) -> Detectable:
    lost = partial(_least_loss, level=level)
    return Detectable(
        what=what,
        effect=lost(count),
        units=f"{count:,} {unit} a depth",
        assuming=_ALWAYS,
        needed=needed_units(lost, f"{unit} a depth", MOST_ITEMS),
        possible=(LOSS, 1.0),
    )


def _least_loss(pairs: int, level: float) -> float | None:
    """Return the rate of pairs that are lost which is shown to exceed `LOSS`; None: not even all.

    Of n pairs of which k are lost and none is won the interval is known, and so is the least k that is told.
    """
    low, high = 0, pairs + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_shown(middle, pairs, level) else (middle, high)
    return None if high > pairs else rate_reaching(high, pairs)


def _is_shown(lost: int, pairs: int, level: float) -> bool:
    found = mean_of_pairs(np.repeat([-1, 0], [lost, pairs - lost]).tolist(), level)
    return isinstance(found, Interval) and found.high is not None and found.high < -LOSS
