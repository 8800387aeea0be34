"""The estimates: accuracy by depth, how deep each system follows, what chaining costs, and the operators."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined, exact
from audits.core.records import Coordinate
from audits.statistics import clopper_pearson, exact_share
from audits.statistics.mean_intervals import mean_interval
from audits.tracking.critical_depth import critical_depth, depth_above_chance, half_depth
from audits.tracking.inputs import MODEL
from audits.tracking.items import Item, agrees, is_gold, task_words
from audits.tracking.measure import Counts, Graded
from audits.tracking.trained_curves import TrainedCurve
from probes.core.timing import middle

POINTER, OVERWRITE = "pointer", "overwrite"
TRAINED = "trained"
"""The scoring of networks: the likeliest value."""


def estimates(draft: Draft, counts: Counts) -> None:
    """Add all estimates."""
    _add_chance(draft, counts)
    for graded in counts.graded:
        for task in counts.tasks:
            _add_curve(draft, counts, graded, task)
    _add_pairs(draft, counts)
    _add_rules(draft, counts)
    for curve in counts.curves:
        _add_trained(draft, curve, counts.level_accuracy)
    _add_bounds(draft, counts)
    _add_structure(draft, counts)
    _add_operators(draft, counts)
    for name, count in counts.silent.items():
        draft.warn(
            "no-answer", f"{count:,} answers of {name} say nothing that could be understood, and count as wrong."
        )
    if counts.ties:
        draft.warn("ties", f"{counts.ties:,} choices were between options of equal likelihood; the first was taken.")
    if counts.several_tokens:
        message = (
            f"The options of {counts.several_tokens:,} items have more than one token: their likelihood behind a bare "
            '"Answer:" was taken off.'
        )
        draft.warn("multi-token-options", message)


def chance_of(items: Sequence[Item], task: str, *, by_changes: bool = False) -> dict[int, float]:
    """Return the accuracy of guessing by depth, of the depths at which all items have options."""
    found: dict[int, list[float | None]] = {}
    for item in items:
        if item.task == task:
            found.setdefault(item.n_changes if by_changes else item.depth, []).append(item.chance)
    known = {depth: [one for one in each if one is not None] for depth, each in sorted(found.items())}
    return {depth: math.fsum(each) / len(each) for depth, each in known.items() if len(each) == len(found[depth])}


def _add_chance(draft: Draft, counts: Counts) -> None:
    there = Counter((item.task, item.depth) for item in counts.items)
    for task in counts.tasks:
        for depth, chance in chance_of(counts.items, task).items():
            draft.add("chance", exact(chance, n=there[task, depth], unit="items"), task=task, depth=depth)


def _add_curve(draft: Draft, counts: Counts, graded: Graded, task: str) -> None:
    """Add accuracy by depth, and how deep; of `overwrite` by the number of changes, which is its axis."""
    changes = task == OVERWRITE
    hits = graded.hits(counts.items, task, by_changes=changes)
    if not hits:
        return
    where = {"system": graded.system, "task": task, "scoring": graded.scoring}
    for number, (right, count) in hits.items():
        cell = {"depth": min(number, 1), "n_changes": number} if changes else {"depth": number}
        draft.add("accuracy", exact_share(right, count, "items", level=draft.level), **where, **cell)
    chances = chance_of(counts.items, task, by_changes=changes)
    _add_depths(draft, hits, chances, counts.level_accuracy, where)
    if graded.system == MODEL and counts.layers and graded.scoring != "contains" and not changes:
        _add_use(draft, graded, task, counts.layers)


def _add_depths(
    draft: Draft,
    hits: Mapping[int, tuple[int, int]],
    chances: Mapping[int, float],
    accuracy: float,
    where: Mapping[str, str],
) -> None:
    who = f"{where['system']} on {task_words(where['task'])}"
    found = critical_depth(hits, accuracy, draft.level)
    draft.add("critical_n", found, **where)
    if found.high == max(hits):
        message = (
            f"{who}: no failure was shown up to {max(hits)}, the greatest that was asked: the upper end means at least."
        )
        draft.warn("not-reached", message, **where)
    if hits.keys() <= chances.keys():
        draft.add("above_chance_depth", depth_above_chance(hits, chances, draft.level), **where)
        floor = math.fsum(chances[depth] * count for depth, (_, count) in hits.items())
        half = half_depth(hits, floor / sum(count for _, count in hits.values()), draft.level)
        if isinstance(half, Undefined):
            half = replace(half, why=f"{who}: {half.why[:1].lower()}{half.why[1:]}")
        draft.add("half_n", half, **where)


def _add_use(draft: Draft, graded: Graded, task: str, layers: int) -> None:
    if draft.get("depth_use", system=MODEL, task=task) is not None:
        return
    row = draft.row("critical_n", system=MODEL, task=task, scoring=graded.scoring)
    assert row.low is not None and row.high is not None
    used = [math.log2(max(end, 0.0) + 1) / layers for end in (row.value, row.low, row.high)]
    found = Interval(value=used[0], low=used[1], high=used[2], method=row.method, n=row.n, unit="items")
    draft.add("depth_use", found, system=MODEL, task=task)


def _add_pairs(draft: Draft, counts: Counts) -> None:
    """Add the differences of twins: changes that chain against changes that do not, and choosing against saying."""
    by_name = {(graded.system, graded.scoring): graded for graded in counts.graded}
    for (system, scoring), graded in by_name.items():
        if scoring != leading_scoring(counts, system):
            continue
        chained, plain = (_by_twin(graded, counts.items, task) for task in (POINTER, OVERWRITE))
        for depth in sorted({depth for depth, _ in chained} & {depth for depth, _ in plain}):
            shared = [key for key in chained if key[0] == depth and key in plain]
            pairs = [chained[key] - plain[key] for key in shared]
            draft.add("chained_minus_overwrite", mean_of_pairs(pairs, draft.level), system=system, depth=depth)
    for (system, scoring), graded in by_name.items():
        said = by_name.get((system, "exact"))
        if scoring == "choice" and said is not None:
            for task in counts.tasks:
                _add_format(draft, counts, (graded, said), system, task)


def _by_twin(graded: Graded, items: Sequence[Item], task: str) -> dict[tuple[int, int], int]:
    return {
        (items[at].n_changes if task == OVERWRITE else items[at].depth, items[at].twin or 0): int(one.correct)
        for at, one in graded.scores.items()
        if items[at].task == task and items[at].twin is not None
    }


def _add_format(draft: Draft, counts: Counts, both: tuple[Graded, Graded], system: str, task: str) -> None:
    chosen, said = both
    by_depth: dict[int, list[int]] = {}
    for at, one in chosen.scores.items():
        if counts.items[at].task == task and at in said.scores:
            by_depth.setdefault(counts.items[at].depth, []).append(int(one.correct) - int(said.scores[at].correct))
    for depth, pairs in sorted(by_depth.items()):
        draft.add("format_gap", mean_of_pairs(pairs, draft.level), system=system, task=task, depth=depth)


def mean_of_pairs(pairs: Sequence[int], level: float) -> Interval | Undefined:
    """Return the mean of differences that are -1, 0 or 1; where all are alike, that of the shares they come from."""
    values, n = np.array(pairs, dtype=np.float64), len(pairs)
    if n < 2:
        return Undefined("There are fewer than two pairs.", "few-pairs")
    found = mean_interval(values, level=level)
    if found is None:
        # All pairs alike: at most this share of them can be otherwise.
        low, high = clopper_pearson(n, n, level=level)
        value, slack = float(values[0]), 1 - low
        return Interval(
            value=value,
            low=max(value - slack, -1.0),
            high=min(value + slack, 1.0),
            method="all pairs alike; Clopper-Pearson of those that differ",
            n=n,
            unit="pairs",
        )
    method, (low, high) = found
    return Interval(
        value=float(values.mean()), low=max(low, -1.0), high=min(high, 1.0), method=method, n=n, unit="pairs"
    )


def _add_rules(draft: Draft, counts: Counts) -> None:
    for task in counts.tasks:
        positions = [at for at, item in enumerate(counts.items) if item.task == task]
        for rule in sorted({rule for at in positions for rule in counts.items[at].guesses}):
            asked = [at for at in positions if rule in counts.items[at].guesses]
            right = sum(is_gold(counts.items[at], rule) for at in asked)
            # Of all items: a rule that has no answer is not right.
            gold = exact(right / len(positions), n=len(positions), unit="items")
            draft.add("heuristic_gold", gold, heuristic=rule, task=task)
            for graded in counts.graded:
                there = [at for at in asked if at in graded.scores]
                if there and graded.scoring == leading_scoring(counts, graded.system):
                    same = sum(agrees(counts.items[at], rule, graded.scores[at].said) for at in there)
                    row = exact_share(same, len(there), "items", level=draft.level)
                    draft.add("heuristic_agreement", row, system=graded.system, heuristic=rule, task=task)


def leading_scoring(counts: Counts, system: str) -> str:
    """Return the scoring by which a system's answers are compared with rules: the first it has."""
    return next(graded.scoring for graded in counts.graded if graded.system == system)


def _add_trained(draft: Draft, trained: TrainedCurve, accuracy: float) -> None:
    training, curve = trained.training, trained.curve
    if training.properties > 1:
        row = exact_share(curve.exact, curve.sequences, "sequences", level=draft.level)
        draft.add("exact_match", row, system=training.name, properties=training.properties, heads=training.heads)
        return
    hits = {depth: (int(right), curve.sequences) for depth, right in enumerate(curve.hits.tolist())}
    where = {"system": training.name, "task": POINTER, "scoring": TRAINED}
    for depth, (right, count) in hits.items():
        draft.add("accuracy", exact_share(right, count, "sequences", level=draft.level), **where, depth=depth)
    chances = dict.fromkeys(hits, 1 / trained.design.chains)
    _add_depths(draft, hits, chances, accuracy, where)
    for layer, row in enumerate(curve.read.tolist()):
        read = {depth: (int(right), curve.sequences) for depth, right in enumerate(row)}
        found = critical_depth(read, accuracy, draft.level)
        draft.add("layer_critical_n", found, system=training.name, layer=layer)


def _add_bounds(draft: Draft, counts: Counts) -> None:
    layers = {one.training.layers for one in counts.curves if not one.training.resolvent}
    if counts.layers:
        layers.add(counts.layers)
    # Beyond 50 layers the bound has more digits than anybody reads.
    for count in sorted(layers):
        if count <= 50:
            draft.add("depth_bound", exact(float(2**count - 1), n=count, unit="layers"), layers=count)
    depths = {item.depth for item in counts.items} | {
        depth for one in counts.curves for depth in range(one.design.depth + 1)
    }
    for depth in sorted(depths):
        if depth:
            draft.add(
                "layers_needed", exact(float(math.ceil(math.log2(depth + 1))), n=depth, unit="changes"), depth=depth
            )


def _add_structure(draft: Draft, counts: Counts) -> None:
    for (layer, head, block, kind), shares in sorted(counts.shares.items(), key=lambda each: each[0][:3]):
        found = mean_interval(np.array(shares), level=draft.level)
        where: dict[str, Coordinate] = {"layer": layer, "head": head, "block": block or "auto", "kind": kind}
        value, n = math.fsum(shares) / len(shares), len(shares)
        if found is None:
            draft.add("block_share", exact(value, n=n, unit="items"), **where)
        else:
            low, high = (min(max(end, 0.0), 1.0) for end in found[1])
            row = Interval(value=value, low=min(low, value), high=max(high, value), method=found[0], n=n, unit="items")
            draft.add("block_share", row, **where)


def _add_operators(draft: Draft, counts: Counts) -> None:
    for row in counts.compared:
        where: dict[str, Coordinate] = {"form": row.form, "length": row.length}
        found = exact(row.difference, n=1, unit="solutions")
        draft.add("operator_difference", found, **where, gamma=row.gamma)
        if row.ratios:
            value, low, high = middle(row.ratios)
            timed = Interval(
                value=value,
                low=low,
                high=high,
                method="median of 7 pairs, least to greatest (98.4 %)",
                n=7,
                unit="seconds",
                level=1 - 2**-6,
            )
            draft.add("seconds_ratio", timed, **where)
