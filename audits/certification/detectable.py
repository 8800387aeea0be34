"""What a run could show with so many images, before the first draw: differences in certified accuracy."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from audits.certification import Options
from audits.certification.inputs import Inputs
from audits.certification.named_logs import Logs, NamedLog
from audits.certification.parts import LEAST, class_name
from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.core.records import Coordinate
from audits.statistics.power import needed_units, rate_above
from audits.statistics.power_exact import both_needed, paired_rates, rates_apart


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least differences of certified accuracy that would be shown: between classes, groups, or logs."""
    if isinstance(plan.inputs, Logs):
        logs = plan.inputs
        between = tuple(_between_logs(logs, context.level))
        return between or (
            _from_stated(logs.used, context.level, "certified accuracy" if logs.certified else "accuracy"),
        )
    inputs: Inputs = plan.inputs
    labels = _labels(inputs)
    named: list[Coordinate] = [class_name(label, inputs.names) for label in labels]
    families: dict[str, Sequence[Coordinate]] = {"classes": named}
    families |= {f"groups of {column}": levels for column, levels in sorted(inputs.attributes.items())}
    radius = inputs.rule.radii[len(inputs.rule.radii) // 2]
    return (
        _from_stated(len(labels), context.level),
        *(found for what, parts in families.items() if (found := _apart(what, parts, radius, context.level))),
    )


def _labels(inputs: Inputs) -> list[int]:
    if inputs.work is not None:
        return [int(inputs.work.images.labels[index]) for index in inputs.work.chosen]
    if inputs.log is not None:
        return [row.label for row in inputs.log.verdicts]
    return [item.label for item in inputs.stored]


def _from_stated(images: int, level: float, what: str = "certified accuracy") -> Detectable:
    def size(count: int) -> float | None:
        least = rate_above(0.5, count, level)
        return None if least is None else least - 0.5

    return Detectable(
        what=f"distance of {what} from a stated one",
        effect=size(images),
        units=counted(images, "images"),
        assuming="exact binomial; a half is stated, where it takes the most; each radius by itself",
        needed=needed_units(size, "images"),
        possible=(0.0, 0.5),
    )


def _apart(what: str, parts: Sequence[Coordinate], radius: float, level: float) -> Detectable | None:
    """Return the difference between the two smallest of these parts: of any other two less is shown."""
    sizes: Mapping[Coordinate, int] = {
        name: count for name, count in Counter(parts).most_common()[::-1] if count >= LEAST
    }
    if len(sizes) < 2:
        return None
    least, next_to_it = list(sizes)[:2]
    units, size = (sizes[least], sizes[next_to_it]), partial(rates_apart, 0.5, level=1 - (1 - level) / len(sizes))

    def needed(effect: float) -> str | None:
        both = both_needed(size, units, effect)
        return None if both is None else f"{both[0]:,} and {both[1]:,} images of these"

    return Detectable(
        what=f"difference in certified accuracy at radius {radius:g} between {what}, {least} and {next_to_it}",
        effect=size(units),
        units=f"{units[0]:,} and {units[1]:,} images, the fewest of any",
        assuming=f"rates about a half, where it takes the most; Bonferroni over {len(sizes):,}, intervals do not meet",
        needed=needed,
        possible=(0.0, 1.0),
    )


def _between_logs(logs: Logs, level: float) -> Iterator[Detectable]:
    """Yield the differences of each further log from the first; how often they differ is known, not in whose favour."""
    first, others = logs.logs[0], logs.logs[1:]
    each = len(logs.radii) + 1 if logs.certified else 1
    corrected = 1 - (1 - level) / max(1, each * len(others))
    radius = next((radius for radius in logs.radii if radius > 0), 0.0)
    for one in others:
        yield _share(logs, first, one, radius, corrected, each * len(others))


def _share(logs: Logs, first: NamedLog, one: NamedLog, radius: float, level: float, tests: int) -> Detectable:
    sides = [
        np.array([row.correct and row.radius >= radius for row in logs.verdicts[log.name]]) for log in (one, first)
    ]
    discordant = float((sides[0] != sides[1]).mean())
    size = partial(paired_rates, discordant=discordant, level=level)
    what = f"certified accuracy at radius {radius:g}" if logs.certified else "accuracy"
    return Detectable(
        what=f"difference in {what}, {one.name} and {first.name}",
        effect=size(logs.used),
        units=counted(logs.used, "images"),
        assuming=f"McNemar, exact; they differ on {100 * discordant:.2g} % of the images; {_holm(tests)}",
        needed=needed_units(size, "images"),
        possible=(0.0, 1.0),
    )


def _holm(tests: int) -> str:
    return f"Holm over {tests:,} differences" if tests > 1 else "one test"
