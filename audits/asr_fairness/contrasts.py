"""The gaps that are judged, on the best layer and by the checkpoint's own head, and the finding on those not shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from audits.asr_fairness.comparisons import Comparison
from audits.asr_fairness.counts import HEAD, TASK_WORDS, TEST, Layer, TaskCounts, named
from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import point
from audits.core.records import Estimate
from audits.core.wording import capitalised, first_of, fitting, many, p_words, span
from audits.group_rates import METRIC_WORDS
from audits.group_rates.findings import blind_words, doubtful_words, how_tested, joined, missed_size, missed_words
from audits.group_rates.wording import columns_of, compared

NOTHING_LEARNED, NO_ERRORS = "learned next to nothing", "makes next to no errors"
"""Why gaps say little where error rates are near 1 or 0."""
MOST_QUIET = 2
"""Comparisons without a gap that are reported one by one; all stand in the tables."""
CROSSINGS = 4
"""Most crossings of attributes that are reported one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A comparison on one layer: the row of its absolute gap, and its p-value corrected within the task.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> gap = Estimate(name="gap", value=0.2, low=0.05, high=0.3, method="Zou", n=9, unit="speakers")
    >>> found = Contrast(comparison=SimpleNamespace(by="accent", crossed=False), layer=4, gap=gap, p=0.01)
    >>> found.shown, found.described
    (True, 'accent on layer 4, 0.20 (0.05 to 0.30)')
    """

    comparison: Comparison
    layer: Layer
    gap: Estimate
    p: float

    @property
    def by(self) -> str:
        """The attribute, or several crossed."""
        return self.comparison.by

    @property
    def crossed(self) -> bool:
        """Whether several attributes are crossed."""
        return self.comparison.crossed

    @property
    def low(self) -> float:
        """The lower end of the gap; 0 where it has none."""
        return self.gap.low or 0.0

    @property
    def shown(self) -> bool:
        """Whether the gap is beyond chance, by its interval and by the corrected test."""
        return self.gap.above(0.0) and self.p < 1 - self.gap.level

    @property
    def name(self) -> str:
        """Name in a sentence."""
        return f"{self.by} on {layer_name(self.layer)}"

    @property
    def described(self) -> str:
        """Name with the gap and its interval."""
        return f"{self.name}, {span(self.gap)}"


def contrasts(draft: Draft, comparisons: Sequence[Comparison]) -> list[Contrast]:
    """Return the judged contrasts of a task's comparisons, layer by layer."""
    layers = comparisons[0].task.judged if comparisons else ()
    return [
        Contrast(
            comparison=comparison,
            layer=layer,
            gap=draft.row(named("gap", layer), **comparison.at(layer, kind="absolute")),
            p=draft.row(named("p_value", layer), **comparison.at(layer, test=TEST, correction="holm")).value,
        )
        for layer in layers
        for comparison in comparisons
    ]


def by_size(found: Sequence[Contrast]) -> list[Contrast]:
    """Return contrasts by the lower ends of their gaps, the largest first."""
    return sorted(found, key=lambda contrast: -contrast.low)


def layer_name(layer: Layer) -> str:
    """Return the short name of a layer, or of the head, in a list."""
    return "the own head" if layer == HEAD else f"layer {layer}"


def layer_words(layer: Layer) -> str:
    """Return the name in a sentence of the probe or head on a layer."""
    return "the checkpoint's own CTC head" if layer == HEAD else f"the probe on layer {layer}"


def judged_words(task: TaskCounts, layer: Layer) -> str:
    """Return what errs, for a headline: a task on a layer, or the own head."""
    if layer == HEAD:
        return "the model's own CTC head"
    return f"{TASK_WORDS[task.task]} {'on' if task.task == 'sid' else 'from'} layer {layer}"


def within(task: TaskCounts, layer: Layer) -> str:
    """Return where a gap lies, after its name in a sentence."""
    return f"{'with' if layer == HEAD else 'in'} {judged_words(task, layer)}"


def gap_headline(contrast: Contrast) -> str:
    """Return the answer of a shown gap: what errs more on whom, and by how much."""
    comparison, layer, size = contrast.comparison, contrast.layer, span(contrast.gap)
    who, pair = judged_words(comparison.task, layer), compared(comparison.worst(layer), comparison.best(layer))
    who = capitalised(who)
    return fitting(
        f"{who} errs more {pair}: by {size}.",
        f"{who} errs more {pair}: {size}.",
        f"{who} errs unevenly by {columns_of(contrast.by)}: {size}.",
        f"{who} errs unevenly by {len(contrast.by.split('&'))} attributes crossed: {size}.",
    )


def limits(draft: Draft, task: TaskCounts, layers: Sequence[Layer]) -> str:
    """Warn where error rates are near 0 or 1, which squeezes gaps; return sentences that say so."""
    squeezed: dict[str, list[str]] = {}
    for layer, column in zip(layers, task.columns(layers), strict=True):
        rate = float(task.errors[:, column].sum() / task.sizes.sum())
        if 0.02 <= rate <= 0.9:
            continue
        why = NOTHING_LEARNED if rate > 0.9 else NO_ERRORS
        who = layer_words(layer)
        # As the page writes the estimate, wherever it stands.
        row = draft.get(named("error_rate", layer), **task.at(layer), group=ALL)
        size = f"{METRIC_WORDS[task.metric]} {f'{rate:.3f}' if row is None else point(row)}"
        draft.warn(
            "at-the-limit",
            f"{capitalised(who)} {why} ({size}): gaps are squeezed together there and say little about the groups.",
            **task.at(layer),
        )
        squeezed.setdefault(why, []).append(f"{who} ({size})")
    return "".join(
        f" Mind that {' and '.join(names)} {why.replace('makes', 'make') if len(names) > 1 else why}."
        for why, names in squeezed.items()
    )


def find_not_shown(draft: Draft, task: TaskCounts, silent: Sequence[Contrast], tests: int) -> None:
    """Add the finding on gaps that were not shown: the size that could be missed, and gaps lost to the correction."""
    doubtful, unnumbered = _doubtful(silent)
    quiet = [contrast for contrast in silent if contrast.low <= 0 and not contrast.crossed]
    crossed = [contrast for contrast in silent if contrast.low <= 0 and contrast.crossed]
    if not quiet and not doubtful:
        quiet, crossed = crossed, []
    blind = blind_words(draft, [contrast.described for contrast in quiet + doubtful])
    sentences = [blind] if blind else []
    if blind:
        quiet, doubtful, unnumbered, crossed = [], [], [], []
    layers = list(dict.fromkeys(contrast.layer for contrast in silent))
    mind = limits(draft, task, layers)
    # Where next to all or nothing goes wrong, the sizes say little.
    sentences += _quiet_sentences(quiet, tests, 0 if mind and len(quiet) > 1 else MOST_QUIET, alone=len(silent) == 1)
    if doubtful:
        names = [contrast.name for contrast in [*doubtful, *unnumbered]]
        sentences.append(doubtful_words(names, "the comparisons made"))
    if crossed:
        sentences.append(f"{_crossings_named(crossed, [*doubtful, *unnumbered])} showed nothing beyond chance either.")
    before = "; ".join(f"{contrast.described}, p {p_words(contrast.p)}" for contrast in doubtful)
    evidence = silent if blind else [*quiet, *doubtful, *unnumbered, *crossed]
    draft.find(
        "fairness.no-gap-shown",
        "info",
        joined("", sentences) + mind,
        [contrast.gap for contrast in evidence],
        headline=_null_headline(task, evidence, blind=bool(blind)),
        how_sure=f"Tested with {how_tested()} over {many(tests, 'comparison', 'comparisons')}."
        + (f" Before correction above zero: {before}." if before else ""),
        **task.where,
    )


def _quiet_sentences(quiet: Sequence[Contrast], tests: int, most: int, *, alone: bool) -> list[str]:
    """Return what was seen in each comparison, and the gap that may have been missed; the headline has a lone one."""
    sentences = []
    for one in quiet[:most]:
        size = missed([one], tests)
        words = (
            "all speakers of a group fare alike, so what may have been missed is not known."
            if size is None
            else missed_words(f"{size:.2f}")
        )
        sentences.append(words if alone else f"by {one.described}: {words}")
    left = len(quiet) - most
    if left > 0:
        more = "more " if most else ""
        shows = many(left, f"{more}comparison shows", f"{more}comparisons show")
        sentences.append(f"{shows} no gap: see the tables.")
    return sentences


def _null_headline(task: TaskCounts, silent: Sequence[Contrast], *, blind: bool) -> str:
    """Return the answer where no gap is shown; with its number where it is about one comparison."""
    what = TASK_WORDS[task.task]
    if blind:
        return f"Whether groups differ in {what} could not be tested."
    if len(silent) == 1:
        (only,) = silent
        by, size = columns_of(only.by), span(only.gap)
        where = within(task, only.layer)
        if only.low > 0:
            return fitting(f"A gap by {by} {where}, {size}, may be chance.", f"A gap of {size} may be chance.")
        return fitting(f"No gap by {by} {where} is shown: {size}.", f"No gap is shown: {size}.")
    single = [contrast for contrast in silent if not contrast.crossed] or list(silent)
    layers: dict[str, set[Layer]] = {}
    for contrast in single:
        layers.setdefault(contrast.by, set()).add(contrast.layer)
    names = [
        columns_of(by) if own == set(task.judged) else f"{columns_of(by)} on {layer_name(min(own, key=str))}"
        for by, own in layers.items()
    ]
    short = [" or ".join(names)] if len(names) < 3 else []
    short += [first_of(names, most) for most in (3, 2, 1)]
    return fitting(*(f"No gap by {some} is shown in {what}." for some in short))


def _doubtful(silent: Sequence[Contrast]) -> tuple[list[Contrast], list[Contrast]]:
    """Return the contrasts above zero before correction: those reported with numbers, and further crossings without."""
    above = [contrast for contrast in silent if contrast.low > 0]
    crossed = by_size([contrast for contrast in above if contrast.crossed])
    return [*(contrast for contrast in above if not contrast.crossed), *crossed[:CROSSINGS]], crossed[CROSSINGS:]


def _crossings_named(crossed: Sequence[Contrast], doubtful: Sequence[Contrast]) -> str:
    """Return the names of crossings, with the layer where the same crossing was doubtful on another."""
    elsewhere = {contrast.by for contrast in doubtful}
    return ", ".join(sorted({one.name if one.by in elsewhere else one.by for one in crossed}))


def missed(silent: Sequence[Contrast], tests: int) -> float | None:
    """Return the gap on a layer that such an audit shows with 80 % power; None where nothing varies.

    It follows from the widest of the intervals of groups whose speakers are not all alike.
    """
    widths = [(one.gap.high or 0) - one.low for one in silent if not one.comparison.alike(one.layer)]
    if not widths:
        return None
    return missed_size(max(widths), tests, level=silent[0].gap.level)
