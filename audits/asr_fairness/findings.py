"""The findings, in sentences that say no more than the intervals of their estimates.

A gap is called one only if the lower end of its interval is above zero and chance is ruled out by permutation of the
labels over speakers, Holm-corrected over all attributes and their crossings of a task.
"""

from collections.abc import Mapping, Sequence

from audits.asr_fairness.comparisons import FEWEST_LAYERS, Comparison
from audits.asr_fairness.conclusion import conclude
from audits.asr_fairness.contrasts import (
    CROSSINGS,
    Contrast,
    by_size,
    contrasts,
    find_not_shown,
    gap_headline,
    layer_words,
    limits,
)
from audits.asr_fairness.counts import BASELINE, CONTROLS, HEAD, TASK_WORDS, TEST, TaskCounts, named
from audits.asr_fairness.measure import Counts
from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import counted, point
from audits.core.records import Estimate
from audits.core.wording import capitalised, fitting, listed, many, p_words, span
from audits.group_rates import METRIC_WORDS
from audits.group_rates.clips import find_skipped
from audits.group_rates.findings import how_tested, joined, severity_of
from audits.group_rates.wording import columns_of, levels_of

MOST_SPREADS = 3


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings; there is always one."""
    judged: list[Contrast] = []
    for task in counts.tasks:
        if task.compared:
            judged += _find_in_task(draft, task, counts.of(task))
            _find_deals(draft, task, counts.of(task))
    _warn_about_controls(draft)
    used = [item.clip for item in counts.inputs.recordings]
    find_skipped(draft, "fairness.skipped", used, counts.inputs.skipped, counts.inputs.sets)
    if any(row.name.endswith("p_value") and row.method == "none" for row in draft.estimates):
        draft.warn(
            "p-without-interval", "p-values of joint intervals are computed, not sampled: they have no interval."
        )
    conclude(draft, counts, judged, worth_a_finding([contrast for contrast in judged if contrast.shown]))


def _find_in_task(draft: Draft, task: TaskCounts, comparisons: Sequence[Comparison]) -> list[Contrast]:
    """Add the findings of a task, and return all contrasts that were judged."""
    if not comparisons:
        draft.find(
            "fairness.too-few-speakers",
            "info",
            "No attribute has two groups with enough speakers, so nothing is said about any group."
            f"{limits(draft, task, task.judged)}",
            headline=f"No groups could be compared in {TASK_WORDS[task.task]}.",
            task=task.task,
        )
        return []
    judged = contrasts(draft, comparisons)
    shown = [contrast for contrast in judged if contrast.shown]
    silent = [contrast for contrast in judged if not contrast.shown]
    for contrast in worth_a_finding(shown):
        _find_gap(draft, contrast, len(judged))
    find_crossings(draft, task, shown)
    if silent:
        find_not_shown(draft, task, silent, len(judged))
    _find_pattern(draft, [contrast.comparison for contrast in shown if contrast.layer == task.best])
    return judged


def _find_deals(draft: Draft, task: TaskCounts, comparisons: Sequence[Comparison]) -> None:
    """Add the finding on the number of deals of the clips, and the spread between them on the best layer."""
    if task.deals is None or len(task.deals) < 2:
        return
    layer = task.best
    everyone = draft.get("deal_spread", **task.at(layer), group=ALL)
    single = [comparison for comparison in comparisons if not comparison.crossed]
    gaps = [row for row in (draft.get("gap_deal_spread", **one.at(layer)) for one in single) if row is not None]
    # The headline has the first.
    others = gaps if everyone is not None else gaps[1:]
    spreads = [f"the gap by {row.where['by']} by {span(row)}" for row in others[:MOST_SPREADS]]
    scatter = f" One deal scatters {listed(spreads)} on layer {layer}." if spreads else ""
    draft.find(
        "fairness.deals",
        "info",
        f"In {TASK_WORDS[task.task]} the clips were dealt over the folds {len(task.deals)} times; means over the deals "
        f"are reported.{scatter}",
        [everyone, *gaps],
        headline=_deal_headline(len(task.deals), everyone, gaps),
        how_sure="Standard deviations over deals; the intervals of rates and gaps hold that of the mean.",
        **task.at(layer),
    )


def _deal_headline(deals: int, everyone: Estimate | None, gaps: Sequence[Estimate]) -> str:
    """Return the answer on deals: the standard deviation that one more deal of the clips brings."""
    if everyone is not None:
        return f"Another deal of the clips would move the error rate of all by about {span(everyone)}."
    if gaps:
        return f"Another deal of the clips would move the gap by {gaps[0].where['by']} by about {span(gaps[0])}."
    return f"All {deals} deals of the clips gave the same error rate over all speakers."


def worth_a_finding(shown: Sequence[Contrast]) -> list[Contrast]:
    """Return every single attribute, and the largest crossings whose gap exceeds those of their attributes."""
    single = [contrast for contrast in shown if not contrast.crossed]
    more = [contrast for contrast in shown if contrast.crossed and _beyond_parts(contrast, single)]
    return by_size([*single, *by_size(more)[:CROSSINGS]])


def _beyond_parts(crossing: Contrast, single: Sequence[Contrast]) -> bool:
    """Tell whether a crossing's gap exceeds that of each of its attributes that differ beyond chance."""
    parts = crossing.by.split("&")
    parents = [other.gap.value for other in single if other.layer == crossing.layer and other.by in parts]
    return crossing.gap.above(max(parents, default=0.0))


def find_crossings(draft: Draft, task: TaskCounts, shown: Sequence[Contrast]) -> None:
    """Add the finding that names the crossings beyond chance without a finding of their own."""
    named_already = worth_a_finding(shown)
    single = [contrast for contrast in shown if not contrast.crossed]
    rest = [contrast for contrast in shown if contrast not in named_already]
    sentences = []
    for beyond, what in (
        (True, "differ too, and by more than the attributes on their own."),
        (False, "differ beyond chance too; whether by more than the attributes on their own could not be shown."),
    ):
        names = dict.fromkeys(contrast.name for contrast in rest if _beyond_parts(contrast, single) == beyond)
        if names:
            sentences.append(f"the groups by {', '.join(names)} {what}")
    if sentences:
        crossings = many(
            len({contrast.by for contrast in rest}), "further crossing differs", "further crossings differ"
        )
        draft.find(
            "fairness.crossings",
            "info",
            joined(f"In {TASK_WORDS[task.task]}, ", sentences),
            [contrast.gap for contrast in rest],
            headline=f"In {TASK_WORDS[task.task]}, {crossings} beyond chance.",
            **task.where,
        )


def _find_gap(draft: Draft, contrast: Contrast, tests: int) -> None:
    comparison, layer, gap = contrast.comparison, contrast.layer, contrast.gap
    task, worst, best = comparison.task, comparison.worst(layer), comparison.best(layer)
    high, low = (draft.row(named("error_rate", layer), **task.at(layer), group=name) for name in (worst, best))
    each = [
        f"{point(row)} for {levels_of(name)} ({counted(row.n, row.unit)})" for name, row in ((worst, high), (best, low))
    ]
    metric = METRIC_WORDS[task.metric]
    text = f"{capitalised(metric)} of {layer_words(layer)}: {', '.join(each)}."
    evidence = [gap, high, low]
    if len(comparison.names) > 2:
        others = draft.row(named("gap_to_others", layer), **comparison.at(layer, group=worst))
        beyond = "above" if others.above(0) else "against"
        text += f" The first is {span(others)} {beyond} that of all others."
        evidence.append(others)
    if BASELINE in task.layers and layer != HEAD:
        before = draft.row("gap_to_others", **comparison.at(BASELINE, group=worst))
        what = "that" if len(comparison.names) > 2 else "the gap"
        text += f" On log-mel energies, without the encoder, {what} is {span(before)}."
        evidence.append(before)
    text += limits(draft, task, [layer])
    sure = f"p {p_words(contrast.p)}: {how_tested()} over {many(tests, 'comparison', 'comparisons')}."
    sure += " The layer with the least error was chosen on the same clips." if layer != HEAD else ""
    if comparison.overlapping:
        sure += " Some speakers are in several of these groups; rates are pooled over all clips, not compared in pairs."
    draft.find(
        "fairness.gap",
        severity_of(contrast.low),
        text,
        evidence,
        headline=gap_headline(contrast),
        how_sure=sure,
        **task.at(layer),
        by=comparison.by,
        group=worst,
    )


def _find_pattern(draft: Draft, comparisons: Sequence[Comparison]) -> None:
    """Add the finding on how error and gap correlate over the layers, for the first attribute with a gap."""
    for comparison in comparisons:
        sure = sure_layers(draft, comparison)
        rows = draft.select("layer_correlation", **comparison.at())
        if rows and len(sure) >= FEWEST_LAYERS:
            _find_relation(draft, comparison, rows, sure)
            return


def sure_layers(draft: Draft, comparison: Comparison) -> list[int]:
    """Return the encoder's layers whose gap is beyond chance, without correction over layers."""
    layers = comparison.task.encoder_layers
    rows = [draft.row("p_value", **comparison.at(layer, test=TEST, correction="none")) for layer in layers]
    return [layer for layer, row in zip(layers, rows, strict=True) if row.value <= 1 - row.level]


def _find_relation(draft: Draft, comparison: Comparison, rows: Sequence[Estimate], sure: Sequence[int]) -> None:
    task, found = comparison.task, {str(row.where["kind"]): row for row in rows}
    signs = {kind: comparison.relation(kind, (row.low or 0.0, row.high or 0.0), sure) for kind, row in found.items()}
    ways = set(signs.values())
    # The headline has the first where all measures of the gap agree.
    rest = {kind: row for kind, row in found.items() if len(ways) > 1 or ways == {0} or row is not rows[0]}
    numbers = ", ".join(f"{_kinds([kind])} {span(row)}" for kind, row in rest.items())
    lead = "" if len(ways) == 1 else f"{pattern_words(signs, comparison.by)} "
    draft.find(
        "fairness.layer-pattern",
        "info",
        f"{capitalised(lead)}The gap is beyond chance on {len(sure)} of {len(task.encoder_layers)} layers, "
        f"and judged on those. Rank correlation of error and gap over all layers, by measure of the gap: {numbers}.",
        rows,
        headline=_pattern_headline(task, comparison.by, rows, signs),
        how_sure="A relation is told where its intervals over all layers and over those with a gap exclude 0.",
        **task.where,
        by=comparison.by,
    )


def _pattern_headline(task: TaskCounts, by: str, rows: Sequence[Estimate], signs: Mapping[str, int]) -> str:
    """Return the answer on the pattern over layers; with a number where all measures of the gap agree on it."""
    where, name = f"in {TASK_WORDS[task.task]}", columns_of(by)
    ways = set(signs.values())
    if ways == {0}:
        return f"No relation of error and gap by {name} over the layers is shown {where}."
    if ways >= {1, -1}:
        return f"Over the layers, the measures of the gap by {name} disagree {where}."
    kinds = "" if len(ways) == 1 else f"{_kinds([kind for kind, sign in signs.items() if sign])} "
    lead = f"Layers with less error have {'smaller' if 1 in ways else 'larger'} {kinds}gaps by {name}"
    number = f": rank correlation {span(rows[0])}" if len(ways) == 1 else ""
    return fitting(f"{lead} {where}{number}.", f"{lead}{number}.", f"{lead}.")


def pattern_words(signs: Mapping[str, int], by: str) -> str:
    """Return the sentence on the correlation of error and gap over the layers, by measure."""
    rising, falling = ([kind for kind, sign in signs.items() if sign == way] for way in (1, -1))
    if not rising and not falling:
        return f"no relation of error and gap by {by} over the layers could be shown."
    if rising and falling:
        return (
            f"the measures of the gap by {by} disagree: layers with less error have smaller {_kinds(rising)} gaps but "
            f"larger {_kinds(falling)} gaps."
        )
    size = "smaller" if rising else "larger"
    silent = [kind for kind, sign in signs.items() if sign == 0]
    but = f" The {_kinds(silent)} gap shows no relation." if silent else " All measures of the gap agree."
    return f"layers with less error have {size} {_kinds(rising or falling)} gaps by {by}.{but}"


def _kinds(kinds: Sequence[str]) -> str:
    return " and ".join(kind.replace("_", "-") for kind in kinds)


def _warn_about_controls(draft: Draft) -> None:
    """Warn where a probe trained on shuffled labels identifies speakers beyond chance, on any layer."""
    from scipy.stats import t

    rows = draft.select("control_error_rate", task="sid", group=ALL, control=CONTROLS[0])
    for row in rows:
        chance, tail = 1 - 1 / max(row.n, 1), (1 - row.level) / 2
        # One of many layers errs less than chance by chance: all of them are looked at.
        wider = float(t.isf(tail / len(rows), max(row.n - 1, 1)) / t.isf(tail, max(row.n - 1, 1)))
        if row.high is not None and row.value + (row.high - row.value) * wider < chance:
            draft.warn(
                "control-above-chance",
                f"A speaker probe trained on shuffled labels errs less than chance ({point(row)} against "
                f"{chance:.3f}): the splits may leak.",
                **row.where,
            )
