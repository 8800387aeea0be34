"""What do the estimates carry, in sentences that say no more than their intervals?

Severity of a gap, by the lower end of the interval of the absolute gap: high from 0.10, medium from 0.03,
low above zero. A gap is called one only if that end is above zero and chance is ruled out by permutation
of the labels over speakers, Holm-corrected over all attributes and their crossings of a task.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

from audits.asr_fairness.counts import BASELINE, HEAD, METRIC_WORDS, TASK_WORDS, TaskCounts
from audits.asr_fairness.gaps import PERMUTED, GapRows
from audits.asr_fairness.inputs import Inputs
from audits.context import Context, Draft
from audits.groups import ALL
from audits.numbers import point
from audits.records import Estimate, Severity
from audits.statistics import OUT_OF_REACH, adjust, scaled
from audits.wording import listed, p_words, span

HIGH, MEDIUM = 0.10, 0.03
POWER = 0.84
"""Normal quantile of four in five."""
HOW = "labels permuted over speakers or joint intervals, the larger; Holm"
_CROSSINGS = 4
"""Most crossings of attributes that get a finding of their own."""


def judge(
    draft: Draft, counts: Sequence[TaskCounts], rows: Sequence[GapRows], inputs: Inputs, context: Context
) -> None:
    """Add the findings, worst first; there is always one."""
    for task in counts:
        if task.metric == "cer":
            continue
        mine = [row for row in rows if row.comparison.counts is task]
        _judge_task(draft, task, mine, context)
        _tell_deals(draft, task, mine)
    _judge_controls(draft)
    _judge_skipped(draft, inputs)
    if any(row.name.endswith("p_value") and row.method == "none" for row in draft.estimates):
        draft.warn(
            "p-without-interval", "p-values of joint intervals are computed, not sampled: they have no interval."
        )
    order = {"high": 0, "medium": 1, "low": 2, "info": 3}
    draft.findings.sort(key=lambda finding: order[finding.severity])


def _judge_task(draft: Draft, task: TaskCounts, rows: Sequence[GapRows], context: Context) -> None:
    columns = [task.best()] + ([task.layers.index(HEAD)] if HEAD in task.layers else [])
    if not rows:
        limits = "".join(_limit(draft, task, column) for column in columns)
        draft.find(
            "fairness.too-few-speakers",
            "info",
            f"No group comparison could be made for {TASK_WORDS[task.task]}: no attribute has two groups with "
            f"enough speakers, so nothing is said about any group.{limits}",
            task=task.task,
        )
        return
    tests = [(row, column) for column in columns for row in rows]
    corrected = adjust([draft.estimates[row.p[column]].value for row, column in tests], "holm")
    shown: list[Told] = []
    silent: list[Told] = []
    for (row, column), p in zip(tests, corrected, strict=True):
        _add_corrected(draft, row, column, p)
        gap = draft.estimates[row.gap[column, "absolute"]]
        row.found[column] = gap.low is not None and gap.low > 0 and p < 1 - context.level
        (shown if row.found[column] else silent).append((row, column, p, gap))
    for row, column, p, gap in _worth_telling(shown):
        _tell_gap(draft, row, column, p, gap)
    _tell_crossings(draft, task, shown)
    if silent:
        _tell_silence(draft, task, silent, len(tests))
    _tell_pattern(draft, task, [row for row, column, *_ in shown if column == task.best()])


def _tell_deals(draft: Draft, task: TaskCounts, rows: Sequence[GapRows]) -> None:
    """Say how often the clips were dealt, and by how much one deal differs from the next on the best layer."""
    if task.deals is None or len(task.deals) < 2:
        return
    column = task.best()
    here = {**task.place(column), "group": ALL}
    everyone = [at for at, row in enumerate(draft.estimates) if row.name == "deal_spread" and row.where == here]
    gaps = [row for row in rows if column in row.spread and "&" not in row.comparison.groups.by]
    told = [f"the error rate of all by {span(draft.estimates[at])}" for at in everyone]
    told += [f"the gap by {row.comparison.groups.by} by {span(draft.estimates[row.spread[column]])}" for row in gaps]
    scatter = (
        f"On layer {task.layers[column]}, one deal scatters {listed(told)} (standard deviations); the intervals hold "
        "that of the mean."
        if told
        else f"On layer {task.layers[column]} all deals gave the same."
    )
    draft.find(
        "fairness.deals",
        "info",
        f"In {TASK_WORDS[task.task]} the clips were dealt over the folds {len(task.deals)} times, and means over the "
        f"deals are reported. {scatter}",
        [*everyone, *(row.spread[column] for row in gaps)],
        **task.place(column),
    )


def _limit(draft: Draft, task: TaskCounts, column: int) -> str:
    """Say so where a probe hears next to nothing or makes next to no error: gaps are squeezed to nothing there."""
    rate = float(task.errors[:, column].sum() / task.sizes.sum())
    if 0.02 <= rate <= 0.9:
        return ""
    why = "learned next to nothing" if rate > 0.9 else "makes next to no errors"
    who = _layer_words(task.layers[column])
    name, here = task.named("error_rate", column), {**task.place(column), "group": ALL}
    # As the page writes the estimate, wherever it stands.
    known = (point(row) for row in draft.estimates if row.name == name and row.where == here)
    size = f"{METRIC_WORDS[task.metric]} {next(known, f'{rate:.3f}')}"
    draft.warn(
        "at-the-limit",
        f"{who[0].upper()}{who[1:]} {why} ({size}): gaps are squeezed together there and say little about the groups.",
        **task.place(column),
    )
    return f" Mind that {who} {why} ({size})."


Told = tuple[GapRows, int, float, Estimate]


def _worth_telling(shown: Sequence[Told]) -> list[Told]:
    """Return every single attribute, and the largest crossings that show more than each attribute on its own does."""
    single = [told for told in shown if not _crossed(told)]
    more = [told for told in shown if _crossed(told) and _beyond_parts(told, single)]
    more.sort(key=_least)
    return sorted([*single, *more[:_CROSSINGS]], key=_least)


def _crossed(told: Told) -> bool:
    return "&" in told[0].comparison.groups.by


def _least(told: Told) -> float:
    return -(told[3].low or 0.0)


def _beyond_parts(told: Told, single: Sequence[Told]) -> bool:
    """Tell whether a crossing's gap lies above that of each of its attributes that differ beyond chance."""
    row, column, _, gap = told
    parts = row.comparison.groups.by.split("&")
    parents = [other[3].value for other in single if other[1] == column and other[0].comparison.groups.by in parts]
    return gap.low is not None and gap.low > max(parents, default=0.0)


def _tell_crossings(draft: Draft, task: TaskCounts, shown: Sequence[Told]) -> None:
    """Name the crossings that differ beyond chance and got no finding of their own."""
    told = {(id(row), column) for row, column, *_ in _worth_telling(shown)}
    single = [item for item in shown if not _crossed(item)]
    rest = [item for item in shown if (id(item[0]), item[1]) not in told]
    sentences = []
    for beyond, what in (
        (True, "differ too, and by more than the attributes on their own."),
        (False, "differ beyond chance too; whether by more than the attributes on their own could not be shown."),
    ):
        items = [item for item in rest if _beyond_parts(item, single) == beyond]
        if items:
            named = ", ".join(dict.fromkeys(_where_told(item) for item in items))
            sentences.append(f"the groups by {named} {what}")
    if sentences:
        first, *more = sentences
        text = " ".join([f"In {TASK_WORDS[task.task]}, {first}", *(part[0].upper() + part[1:] for part in more)])
        evidence = [row.gap[column, "absolute"] for row, column, *_ in rest]
        draft.find("fairness.crossings", "info", text, evidence, **task.where)


def _add_corrected(draft: Draft, row: GapRows, column: int, p: float) -> None:
    raw = draft.estimates[row.p[column]]
    value, low, high = scaled((raw.value, raw.low, raw.high), p)
    draft.add(
        replace(
            raw,
            value=value,
            low=low,
            high=high,
            method="none" if low is None else f"{PERMUTED}, Holm over the attributes of the task",
            where={**raw.where, "correction": "holm"},
        )
    )


def _layer_words(layer: int | str) -> str:
    return "the checkpoint's own CTC head" if layer == HEAD else f"the probe on layer {layer}"


def _tell_gap(draft: Draft, row: GapRows, column: int, p: float, gap: Estimate) -> None:
    counts = row.comparison.counts
    worst, best = row.worst[column], row.best[column]
    rates = {name: row.rates[column, name] for name in (worst, best)}
    high, low = (point(draft.estimates[rates[name]]) for name in (worst, best))
    severity: Severity = "high" if (gap.low or 0) >= HIGH else "medium" if (gap.low or 0) >= MEDIUM else "low"
    others = draft.estimates[row.others[column, worst]]
    evidence = [row.gap[column, "absolute"], row.rates[column, worst], row.rates[column, best]]
    rest = ""
    if len(row.comparison.names) > 2:
        beyond = "above" if (others.low or 0) > 0 else "against"
        rest = f" Its rate is {span(others)} {beyond} that of all other groups together."
        evidence.append(row.others[column, worst])
    before = _before_the_encoder(row, column)
    if before is not None:
        rest += f" On log-mel energies, without the encoder, that is {span(draft.estimates[before])}."
        evidence.append(before)
    if row.comparison.sums.present.sum(1).max() > 1:
        rest += " Some speakers are in several of these groups; rates are pooled over all clips, not compared in pairs."
    rest += _limit(draft, counts, column)
    draft.find(
        "fairness.gap",
        severity,
        f"In {TASK_WORDS[counts.task]}, {_layer_words(counts.layers[column])} errs more often on {worst} than on "
        f"{best}: {METRIC_WORDS[counts.metric]} {high} against {low}, a gap of {span(gap)}; "
        f"p {p_words(p)} ({HOW}).{rest}",
        evidence,
        **counts.place(column),
        by=row.comparison.groups.by,
        group=worst,
    )


def _before_the_encoder(row: GapRows, column: int) -> int | None:
    """Return the row of log-mel that says how far the same group is from the others there."""
    layers = row.comparison.counts.layers
    if BASELINE not in layers or layers[column] == HEAD:
        return None
    return row.others[layers.index(BASELINE), row.worst[column]]


def _tell_silence(draft: Draft, task: TaskCounts, silent: Sequence[Told], tests: int) -> None:
    """Say what could not be shown, how large a gap could hide, and where only the correction stood against it."""
    doubtful, unnumbered = _doubtful(silent)
    quiet = [told for told in silent if (told[3].low or 0) <= 0 and not _crossed(told)]
    crossed = [told for told in silent if (told[3].low or 0) <= 0 and _crossed(told)]
    if not quiet and not doubtful:
        quiet, crossed = crossed, []
    blind = next((warning.message for warning in draft.warnings if warning.id == OUT_OF_REACH), "")
    sentences = [f"nothing was told by {'; '.join(_placed(told) for told in quiet + doubtful)}. {blind}"] * bool(blind)
    if blind:
        quiet, doubtful, crossed = [], [], []
    if quiet:
        sentences.append(f"no difference could be shown by {'; '.join(_placed(told) for told in quiet)}.")
    if doubtful:
        named = "; ".join(f"{_placed(told)}, p {p_words(told[2])}" for told in doubtful)
        named += "".join(f"; {_where_told(told)}" for told in unnumbered)
        sentences.append(f"what was seen by {named} may be chance, given all the comparisons made ({HOW}).")
    if crossed:
        sentences.append(f"{_crossings_named(crossed, [*doubtful, *unnumbered])} showed nothing beyond chance either.")
    columns = dict.fromkeys(column for _, column, _, _ in silent)
    sizes = {} if blind else {column: _missed(silent, column, tests) for column in columns}
    missed = ", ".join(f"{size:.2f} on {_layer_words(task.layers[place])}" for place, size in sizes.items() if size)
    if missed:
        sentences.append(f"a gap in {METRIC_WORDS[task.metric]} of less than about {missed} may have been missed.")
    flat = " and ".join(_layer_words(task.layers[column]) for column, size in sizes.items() if size is None)
    if flat:
        sentences.append(f"with {flat} all speakers of a group fare alike, so what may have been missed is not known.")
    first, *rest = sentences
    text = " ".join([f"In {TASK_WORDS[task.task]}, {first}", *(part[0].upper() + part[1:] for part in rest)])
    listing = silent if blind else [*quiet, *doubtful, *unnumbered, *crossed]
    draft.find(
        "fairness.no-gap-shown",
        "info",
        text + "".join(_limit(draft, task, column) for column in columns),
        [row.gap[column, "absolute"] for row, column, _, _ in listing],
        **task.where,
    )


def _doubtful(silent: Sequence[Told]) -> tuple[list[Told], list[Told]]:
    """Return what lies above zero before correction: what is told with its numbers, and more crossings without."""
    above = [told for told in silent if (told[3].low or 0) > 0]
    crossed = sorted((told for told in above if _crossed(told)), key=_least)
    return [*(told for told in above if not _crossed(told)), *crossed[:_CROSSINGS]], crossed[_CROSSINGS:]


def _crossings_named(crossed: Sequence[Told], doubtful: Sequence[Told]) -> str:
    """Name crossings, and where, if something was seen by the same crossing elsewhere."""
    elsewhere = {told[0].comparison.groups.by for told in doubtful}
    names = {
        _where_told(told) if told[0].comparison.groups.by in elsewhere else told[0].comparison.groups.by
        for told in crossed
    }
    return ", ".join(sorted(names))


def _missed(silent: Sequence[Told], column: int, tests: int) -> float | None:
    """Return the gap that four of five audits like this one would show; None where speakers of a group are all alike.

    It has to pass the strictest step of Holm's correction, with a normal quantile of its level for one of so many
    tests, in the widest of the intervals.
    """
    here = [(row, gap) for row, other, _, gap in silent if other == column]
    told = [(gap.high or 0) - (gap.low or 0) for row, gap in here if column not in row.alike]
    if not told:
        return None
    tail = (1 - here[0][1].level) / 2
    plain, corrected = (NormalDist().inv_cdf(1 - share) for share in (tail, tail / tests))
    return (corrected + POWER) / plain * max(told) / 2


def _where_told(told: Told) -> str:
    row, column, _, _ = told
    layer = row.comparison.counts.layers[column]
    return f"{row.comparison.groups.by} on {'the own head' if layer == HEAD else f'layer {layer}'}"


def _placed(told: Told) -> str:
    return f"{_where_told(told)}, {span(told[3])}"


def _tell_pattern(draft: Draft, task: TaskCounts, rows: Sequence[GapRows]) -> None:
    """Say how error and gap go together over the layers, for the first attribute whose gap was found."""
    row = next((row for row in rows if row.signs), None)
    if row is None:
        return
    found = {kind: draft.estimates[row.correlation[kind]] for kind in row.signs}
    numbers = ", ".join(f"{kind.replace('_', '-')} {span(estimate)}" for kind, estimate in found.items())
    draft.find(
        "fairness.layer-pattern",
        "info",
        f"In {TASK_WORDS[task.task]}, {_pattern_words(row.signs, row.comparison.groups.by)} The gap is beyond chance "
        f"on {len(row.sure)} of {len(task.numbered())} layers, and judged on those. Rank correlation over all layers "
        f"of error and gap: {numbers}.",
        [row.correlation[kind] for kind in found],
        **task.where,
        by=row.comparison.groups.by,
    )


def _pattern_words(signs: dict[str, int], by: str) -> str:
    """Say which way error and gap go together over the layers, by which measures."""
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


def _judge_controls(draft: Draft) -> None:
    """Warn where a probe trained on shuffled labels knows the speaker, on any layer, beyond chance."""
    from scipy.stats import t

    rows = [
        row
        for row in draft.estimates
        if row.name == "control_error_rate"
        and (row.where["task"], row.where["group"], row.where["control"]) == ("sid", "all", "shuffled-labels")
    ]
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


def _judge_skipped(draft: Draft, inputs: Inputs) -> None:
    if not inputs.skipped:
        return
    total = len(inputs.recordings) + len(inputs.skipped)
    reasons = ", ".join(f"{item.count} {item.reason}" for item in inputs.reasons)
    whom = "; ".join(_skipped_by(inputs, groups.by) for groups in inputs.sets if "&" not in groups.by)
    draft.find(
        "fairness.skipped",
        "info",
        f"{len(inputs.skipped)} of {total} clips were left out ({reasons}): {whom}.",
    )


def _skipped_by(inputs: Inputs, by: str) -> str:
    given: dict[str, int] = {}
    lost: dict[str, int] = {}
    for clip in [item.clip for item in inputs.recordings] + [clip for clip, _ in inputs.skipped]:
        given[clip.attributes[by]] = given.get(clip.attributes[by], 0) + 1
    for clip, _ in inputs.skipped:
        lost[clip.attributes[by]] = lost.get(clip.attributes[by], 0) + 1
    return f"by {by}, " + ", ".join(f"{lost.get(name, 0)} of {count} {name}" for name, count in sorted(given.items()))
