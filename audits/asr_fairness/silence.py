"""The finding on what could not be shown: how large a gap could hide, and where only the correction was against it."""

from collections.abc import Sequence
from statistics import NormalDist

from audits.asr_fairness.contrasts import CROSSINGS, HOW, Contrast, by_size, layer_words, limits
from audits.asr_fairness.counts import METRIC_WORDS, TASK_WORDS, Layer, TaskCounts
from audits.context import Draft
from audits.statistics import OUT_OF_REACH
from audits.wording import p_words

POWER = 0.84
"""Normal quantile of four in five."""


def tell_silence(draft: Draft, task: TaskCounts, silent: Sequence[Contrast], tests: int) -> None:
    """Say what could not be shown, how large a gap could hide, and where only the correction stood against it."""
    doubtful, unnumbered = _doubtful(silent)
    quiet = [contrast for contrast in silent if contrast.low <= 0 and not contrast.crossed]
    crossed = [contrast for contrast in silent if contrast.low <= 0 and contrast.crossed]
    if not quiet and not doubtful:
        quiet, crossed = crossed, []
    blind = next((warning.message for warning in draft.warnings if warning.id == OUT_OF_REACH), "")
    sentences = [f"nothing was told by {_described(quiet + doubtful)}. {blind}"] * bool(blind)
    if blind:
        quiet, doubtful, crossed = [], [], []
    if quiet:
        sentences.append(f"no difference could be shown by {_described(quiet)}.")
    if doubtful:
        names = [f"{contrast.described}, p {p_words(contrast.p)}" for contrast in doubtful]
        names += [contrast.name for contrast in unnumbered]
        sentences.append(f"what was seen by {'; '.join(names)} may be chance, given all the comparisons made ({HOW}).")
    if crossed:
        sentences.append(f"{_crossings_named(crossed, [*doubtful, *unnumbered])} showed nothing beyond chance either.")
    layers = list(dict.fromkeys(contrast.layer for contrast in silent))
    if not blind:
        sentences += _missed_sentences(task, silent, layers, tests)
    first, *rest = sentences
    text = " ".join([f"In {TASK_WORDS[task.task]}, {first}", *(part[0].upper() + part[1:] for part in rest)])
    evidence = silent if blind else [*quiet, *doubtful, *unnumbered, *crossed]
    draft.find(
        "fairness.no-gap-shown",
        "info",
        text + limits(draft, task, layers),
        [contrast.gap for contrast in evidence],
        **task.where,
    )


def _described(silent: Sequence[Contrast]) -> str:
    return "; ".join(contrast.described for contrast in silent)


def _doubtful(silent: Sequence[Contrast]) -> tuple[list[Contrast], list[Contrast]]:
    """Return what lies above zero before correction: what is told with its numbers, and more crossings without."""
    above = [contrast for contrast in silent if contrast.low > 0]
    crossed = by_size([contrast for contrast in above if contrast.crossed])
    return [*(contrast for contrast in above if not contrast.crossed), *crossed[:CROSSINGS]], crossed[CROSSINGS:]


def _crossings_named(crossed: Sequence[Contrast], doubtful: Sequence[Contrast]) -> str:
    """Name crossings, and where, if something was seen by the same crossing elsewhere."""
    elsewhere = {contrast.by for contrast in doubtful}
    return ", ".join(sorted({one.name if one.by in elsewhere else one.by for one in crossed}))


def _missed_sentences(task: TaskCounts, silent: Sequence[Contrast], layers: Sequence[Layer], tests: int) -> list[str]:
    sizes = {layer: missed([one for one in silent if one.layer == layer], tests) for layer in layers}
    sentences = []
    numbers = ", ".join(f"{size:.2f} on {layer_words(layer)}" for layer, size in sizes.items() if size)
    if numbers:
        sentences.append(f"a gap in {METRIC_WORDS[task.metric]} of less than about {numbers} may have been missed.")
    flat = " and ".join(layer_words(layer) for layer, size in sizes.items() if size is None)
    if flat:
        sentences.append(f"with {flat} all speakers of a group fare alike, so what may have been missed is not known.")
    return sentences


def missed(silent: Sequence[Contrast], tests: int) -> float | None:
    """Return the gap on a layer that four of five audits like this one would show; None where all fare alike.

    It has to pass the strictest step of Holm's correction, with a normal quantile of its level for one of so many
    tests, in the widest of the intervals of groups whose speakers are not all alike.
    """
    widths = [(one.gap.high or 0) - one.low for one in silent if not one.comparison.alike(one.layer)]
    if not widths:
        return None
    tail = (1 - silent[0].gap.level) / 2
    plain, corrected = (NormalDist().inv_cdf(1 - share) for share in (tail, tail / tests))
    return (corrected + POWER) / plain * max(widths) / 2
