"""The findings: how deep each system follows, what it loses by chaining and by length, and whether it takes a shortcut.

High: more depth than its layers allow, or a form of the operator that should be exact and is not. Medium: answers below
chance, a cheap rule that explains more answers than the truth does, and a loss of more than half by chaining. Low:
smaller losses, and answers at chance. What a system follows is information.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from audits.core.context import Draft
from audits.core.records import Estimate, Severity
from audits.core.wording import fitting, listed, many, span
from audits.statistics import clopper_pearson
from audits.tracking.conclusion import conclude
from audits.tracking.critical_depth import Hits, limits_of
from audits.tracking.estimates import OVERWRITE, chance_of, leading_scoring
from audits.tracking.expectations import expected_loss
from audits.tracking.inputs import MODEL
from audits.tracking.items import CHAINED, agrees, is_gold, task_words
from audits.tracking.measure import Counts, Graded
from audits.tracking.network_findings import find_heads, find_operators, find_structure

LOSS, LARGE = 0.1, 0.5
"""Loss of accuracy from which it is reported, and from which its severity is medium."""
NAMED = 0.9
"""Least share of answers that name an option, for accuracy to be compared with guessing."""
_SIMULTANEOUS = "Clopper-Pearson intervals hold together over all depths; no shape of the curve is assumed."


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings and set the answer."""
    for graded in counts.graded:
        if graded.scoring == leading_scoring(counts, graded.system):
            for task in counts.tasks:
                _find_shortcuts(draft, counts, graded, task)
                _find_chance(draft, counts, graded, task)
    for system in dict.fromkeys(graded.system for graded in counts.graded):
        _find_cost(draft, system)
        _find_format(draft, system)
    for row in draft.select("critical_n"):
        _find_depth(draft, counts, row)
    find_heads(draft, counts)
    find_structure(draft)
    find_operators(draft, counts)
    conclude(draft, counts)


def followed(row: Estimate) -> str:
    """Return how deep is followed, as a whole number with its interval; -1 is not even what needs no change."""
    ends = f"{row.low:.0f} to {row.high:.0f}" if row.low is not None and row.high is not None else ""
    return f"{row.value:.0f} ({ends})"


def _find_depth(draft: Draft, counts: Counts, row: Estimate) -> None:
    """Say how deep a system follows a task, and how that stands to its layers."""
    system, task, scoring = (str(row.where[key]) for key in ("system", "task", "scoring"))
    layers = _layers(counts, system)
    depths = _asked(draft, row)
    shallowest, deepest = depths[0], depths[-1]
    verdict = depth_verdict(row, layers, task, deepest)
    changes = "changes" if task == OVERWRITE else "chained changes"
    said = f"{system} follows {followed(row)} {changes} of {task_words(task)}"
    text = f"The accuracy is first below {counts.level_accuracy:g} after that depth, scored by {scoring}."
    if row.value < 0:
        text = f"Accuracy is below {counts.level_accuracy:g} at {shallowest} already, the least depth that was asked, "
        text += f"scored by {scoring}: −1 stands for none."
    if row.high == deepest:
        text = f"No failure was shown up to {deepest}, the greatest that was asked: the upper end means at least."
    bound = cell = None
    if layers is not None and task in CHAINED:
        bound = draft.get("depth_bound", layers=layers)
        text += f" {_bound_words(verdict, layers, deepest)}{_loss_words(counts, system)}"
    severity: Severity = "high" if verdict == "above-bound" else "info"
    ending = "; its layers allow fewer." if verdict == "above-bound" else "."
    headline, short = f"{said}{ending}", f"{system} follows {followed(row)} {changes}{ending}"
    if row.high is not None and row.high < 0:
        cell = _least_cell(draft, row)
        headline, short = _failing_words(cell, system, task, shallowest)
    elif row.low is not None and row.low < 0 and row.high == deepest:
        # From none to all that was asked: such an interval excludes nothing.
        headline = f"How deep {system} follows {task_words(task)} is not shown."
        short = f"How deep {system} follows is not shown."
    draft.find(
        "tracking.depth_pattern",
        severity,
        text,
        [row, cell, bound],
        headline=fitting(headline, short),
        how_sure=_SIMULTANEOUS,
        system=system,
        task=task,
        scoring=scoring,
        verdict=verdict,
    )


def depth_verdict(row: Estimate, layers: int | None, task: str, deepest: int) -> str:
    """Return how a critical depth stands to 2^L - 1; only tasks whose changes chain say anything about it."""
    assert row.low is not None and row.high is not None
    if layers is None or task not in CHAINED:
        return "undetermined"
    bound = 2**layers - 1
    if bound >= deepest:
        return "bound-not-binding"
    if row.low > bound:
        return "above-bound"
    if row.low == row.high == bound:
        return "at-bound"
    return "within-bound" if row.high <= bound else "undetermined"


def _bound_words(verdict: str, layers: int, deepest: int) -> str:
    whole = f"{layers} {'layer allows' if layers == 1 else 'layers allow'} {2**layers - 1}"
    return {
        "above-bound": f"{whole} along a chain: either the items have a shortcut, or the claim does not hold.",
        "at-bound": f"{whole}: this is consistent with that bound, and proves nothing.",
        "within-bound": f"{whole}: less than the bound says nothing about the bound.",
        "bound-not-binding": f"{whole}, more than the {deepest} that were asked: this limit is the model's own.",
        "undetermined": f"{whole}: the interval reaches to both sides of that.",
    }[verdict]


def _layers(counts: Counts, system: str) -> int | None:
    if system == MODEL:
        return counts.layers
    plain = (one.training for one in counts.curves if not one.training.resolvent)
    return next((training.layers for training in plain if training.name == system), None)


def _asked(draft: Draft, row: Estimate) -> list[int]:
    """Return the depths, or changes, of which a system was asked, the least first."""
    cells = draft.select("accuracy", **{key: row.where[key] for key in ("system", "task", "scoring")})
    return sorted(int(cell.where.get("n_changes", cell.where["depth"])) for cell in cells)


def _least_cell(draft: Draft, row: Estimate) -> Estimate:
    """Return the accuracy at the least depth, or changes, of which a system was asked."""
    cells = draft.select("accuracy", **{key: row.where[key] for key in ("system", "task", "scoring")})
    return min(cells, key=lambda cell: int(cell.where.get("n_changes", cell.where["depth"])))


def _failing_words(cell: Estimate, system: str, task: str, shallowest: int) -> tuple[str, str]:
    """Return a long and a short headline of a system that fails at the least depth that was asked."""
    # An accuracy alone would read as a success: near the level it may be high.
    kind, right = "" if task == OVERWRITE else "chained ", f"right in only {span(cell)}."
    if not shallowest:
        short = f"{system} fails even without a change: {right}"
        return f"{system} does not follow {task_words(task)} even without a change: {right}", short
    changes = many(shallowest, f"{kind}change", f"{kind}changes")
    long = f"{system} does not follow {changes} of {task_words(task)}: {right}"
    return long, f"{system} does not follow {changes}: {right}"


def _hits(counts: Counts, graded: Graded, task: str) -> Hits:
    return graded.hits(counts.items, task, by_changes=task == OVERWRITE)


def _find_chance(draft: Draft, counts: Counts, graded: Graded, task: str) -> None:
    """Say where answers are no better than guesses, or worse."""
    hits, chances = _hits(counts, graded, task), chance_of(counts.items, task, by_changes=task == OVERWRITE)
    asked = {depth: hit for depth, hit in hits.items() if depth > 0 and depth in chances}
    # Who does not name an option does not guess among them.
    named = [one.said in counts.items[at].options for at, one in graded.scores.items() if counts.items[at].task == task]
    if sum(named) < NAMED * len(named):
        return
    if not asked:
        return
    limits = limits_of(asked, draft.level)
    where = {"system": graded.system, "task": task, "scoring": graded.scoring}
    below = [depth for depth, (_, high) in limits.items() if high < chances[depth]]
    if below:
        rows = [_cell(draft, graded, task, depth) for depth in below]
        first = many(below[0], "change", "changes")
        draft.find(
            "tracking.below_chance",
            "medium",
            f"Guessing among the options is right in {chances[below[0]]:.3g}. Answers below that follow a rule that "
            "avoids the right one.",
            rows,
            headline=fitting(
                f"{graded.system} is below chance at {first} of {task_words(task)}: {span(rows[0])} right.",
                f"{graded.system} is below chance after {first}: right in {span(rows[0])}.",
            ),
            how_sure=_SIMULTANEOUS,
            **where,
        )
    elif all(low <= chances[depth] for depth, (low, _) in limits.items()):
        rows = [_cell(draft, graded, task, depth) for depth in asked]
        best = max(rows, key=lambda row: row.value)
        ends = " to ".join(str(depth) for depth in dict.fromkeys((min(asked), max(asked))))
        pairs = [f"{row.value:.3g} at {depth} ({chances[depth]:.3g})" for depth, row in zip(asked, rows, strict=True)]
        plural = "change" if ends == "1" else "changes"
        at_depths = f"{graded.system} is not shown above chance at {ends} {plural} of {task_words(task)}"
        seen = f"largest accuracy seen {span(best)}"
        guessed = [
            draft.row("chance", task=task, depth=depth) for depth in sorted({row.where["depth"] for row in rows})
        ]
        draft.find(
            "tracking.at_chance",
            "low",
            f"At no depth is accuracy shown to be above chance, which stands in brackets: it is {', '.join(pairs)}.",
            [best, *(row for row in rows if row is not best), *guessed],
            headline=fitting(
                f"{at_depths}: {seen}.",
                f"{at_depths}: largest accuracy {span(best)}.",
                f"{graded.system} is not shown above chance on {task_words(task)}: {seen}.",
                f"{graded.system} is not shown to be above chance: {seen}.",
            ),
            how_sure=_SIMULTANEOUS,
            **where,
        )


def _cell(draft: Draft, graded: Graded, task: str, depth: int) -> Estimate:
    where = {"system": graded.system, "task": task, "scoring": graded.scoring}
    if task == OVERWRITE:
        return draft.row("accuracy", **where, depth=min(depth, 1), n_changes=depth)
    return draft.row("accuracy", **where, depth=depth)


def _find_shortcuts(draft: Draft, counts: Counts, graded: Graded, task: str) -> None:
    """Say which cheap rule gives more of the answers than the truth does, and than the rule is right."""
    asked = len(draft.select("heuristic_agreement", system=graded.system))
    level = 1 - (1 - draft.level) / max(asked, 1)
    for row in draft.select("heuristic_agreement", system=graded.system, task=task):
        rule = str(row.where["heuristic"])
        gold, own = draft.row("heuristic_gold", heuristic=rule, task=task), _against(counts, graded, task, rule)
        # Items on which rule and truth differ: which of them does the answer go with?
        sided = own.with_rule + own.with_truth
        least, _ = clopper_pearson(own.with_rule, sided, level=level) if sided else (0.0, 1.0)
        lowest, _ = clopper_pearson(round(row.value * row.n), row.n, level=level)
        if least > 0.5 and lowest > own.gold:
            words = rule.replace("_", " ")
            draft.find(
                "tracking.shortcut",
                "medium",
                f"Of the items to which it has an answer, that rule is right on {own.gold:.3g}, and the system on "
                f"{own.right:.3g}: where rule and truth differ, answers go with the rule more often.",
                [row, gold],
                headline=fitting(
                    f"{graded.system} answers as the rule '{words}' does in {span(row)} of {task_words(task)}.",
                    f"{graded.system} answers as the rule '{words}' does in {span(row)}.",
                ),
                how_sure="Sign test of the items on which rule and truth differ, corrected for all rules and tasks.",
                system=graded.system,
                task=task,
                heuristic=rule,
            )


@dataclass(frozen=True, slots=True)
class _Sides:
    """Answers with a rule and not the truth, with the truth and not the rule, and shares of both that are right.

    All of the items that were answered and to which the rule has an answer.
    """

    with_rule: int
    with_truth: int
    right: float
    gold: float


def _against(counts: Counts, graded: Graded, task: str, rule: str) -> _Sides:
    asked = [
        (agrees(counts.items[at], rule, one.said), one.correct, is_gold(counts.items[at], rule))
        for at, one in graded.scores.items()
        if counts.items[at].task == task and rule in counts.items[at].guesses
    ]
    alone = sum(same and not right for same, right, _ in asked)
    truth = sum(right and not same for same, right, _ in asked)
    return _Sides(
        alone,
        truth,
        sum(right for _, right, _ in asked) / len(asked),
        sum(gold for *_, gold in asked) / len(asked),
    )


def _find_cost(draft: Draft, system: str) -> None:
    """Say whether chained changes cost more than as many changes that do not chain, or as much."""
    rows = draft.select("chained_minus_overwrite", system=system)
    # Without a change nothing chains: what is lost there is lost in reading.
    losses = [row for row in rows if row.where["depth"] != 0 and row.high is not None and row.high < -LOSS]
    if losses:
        worst = min(losses, key=lambda row: row.value)
        depth = worst.where["depth"]
        draft.find(
            "tracking.chaining_cost",
            "medium" if worst.below(-LARGE) else "low",
            f"Both texts have as many operations, names and options; in one each change takes its value from another "
            f"entity, in the other it names it. A loss of more than {LOSS} shows at "
            f"{_depths([int(row.where['depth']) for row in losses])}.",
            losses,
            headline=fitting(
                f"Chaining costs {system} {_loss(worst)} of accuracy at {depth} changes, length held equal.",
                f"Chaining costs {system} {_loss(worst)} of accuracy.",
            ),
            how_sure="Pairs of items of the same seed; intervals are those of one depth each.",
            system=system,
        )
        return
    length = _length_loss(draft, system) if rows else None
    if length is not None:
        first, last = length
        draft.find(
            "tracking.length_cost",
            "low",
            f"Without chaining, accuracy falls from {span(first)} to {span(last)}. That as many chained changes cost "
            f"more than {LOSS} beyond that is not shown.",
            [last, first],
            headline=fitting(
                f"{system} loses without chaining too: right in {span(last)} after many plain changes.",
                f"{system} loses without chaining too.",
            ),
            how_sure="Intervals of the two ends do not overlap.",
            system=system,
        )


def _depths(depths: Sequence[int]) -> str:
    return f"depth {depths[0]}" if len(depths) == 1 else f"depths {listed([str(depth) for depth in depths])}"


def _loss(row: Estimate) -> str:
    assert row.low is not None and row.high is not None
    return f"{-row.value:.2f} ({-row.high:.2f} to {-row.low:.2f})"


def _length_loss(draft: Draft, system: str) -> tuple[Estimate, Estimate] | None:
    cells = draft.select("accuracy", system=system, task=OVERWRITE)
    if len(cells) < 2:
        return None
    scoring = cells[0].where["scoring"]
    cells = sorted(
        (cell for cell in cells if cell.where["scoring"] == scoring), key=lambda cell: int(cell.where["n_changes"])
    )
    first, last = cells[0], cells[-1]
    overlap = first.low is None or last.high is None or last.high >= first.low
    return None if overlap or first.value - last.value <= LOSS else (first, last)


def _find_format(draft: Draft, system: str) -> None:
    """Say where a system knows what it does not say."""
    rows = [
        row
        for row in draft.select("format_gap", system=system)
        # Who guesses among options is right by chance, and knows nothing that it does not say.
        if row.low is not None and row.low > LOSS and _chosen_above_chance(draft, row)
    ]
    if rows:
        worst = max(rows, key=lambda row: row.value)
        draft.find(
            "tracking.format",
            "low",
            f"The right option is the likeliest more often than it is what the model writes, by more than {LOSS} at "
            f"{many(len(rows), 'depth of a task', 'depths of tasks')}. At those depths its choices are above chance.",
            rows,
            headline=fitting(
                f"{system} knows more than it says: {span(worst)} of answers are right only when chosen.",
                f"{system} knows more than it says.",
            ),
            how_sure="Pairs of the same items; intervals are those of one depth each.",
            system=system,
        )


def _chosen_above_chance(draft: Draft, gap: Estimate) -> bool:
    where = {key: gap.where[key] for key in ("task", "depth")}
    chance = draft.get("chance", **where)
    chosen = draft.select("accuracy", system=gap.where["system"], scoring="choice", **where)
    return chance is not None and all(row.low is not None and row.low > chance.value for row in chosen)


def _loss_words(counts: Counts, system: str) -> str:
    """Return the loss of a network beside that of following 2^L - 1 steps and guessing beyond."""
    one = next((one for one in counts.curves if one.training.name == system and not one.training.resolvent), None)
    if one is None:
        return ""
    expected = expected_loss(one.training.layers, one.design.depth, one.design.chains)
    return (
        f" Its loss is {one.curve.loss:.3f} nats a token; following {2**one.training.layers - 1} and guessing beyond"
        f" gives {expected:.3f}."
    )
