"""What may be said of the matrix, and how grave it is: no more than the intervals, and the permutations, allow."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.interference.effects import Association
from audits.interference.estimating import Entry
from audits.interference.likenesses import EFFECTS
from audits.numbers import percent
from audits.records import Severity
from audits.statistics.crossed import Crossed
from audits.statistics.qap import QapTest
from audits.wording import listed, many, p_words, size_words, span

if TYPE_CHECKING:
    from audits.interference.report import Results

GRAVE, CONSIDERABLE = 0.10, 0.03
"""Shares of a language's own loss from which interference is high, and medium; below it is low."""
QUIET_SEEDS = 0.2
"""Share of the largest shown effect that the scatter over seeds may have."""
MOST_CITED = 10
"""Estimates that a finding names as its evidence."""
_BUDGETS = {
    "same-data": "at the same data of each language",
    "same-total": "at the same total, half of each language's data",
}


def judge(draft: Draft, results: "Results", context: Context) -> None:
    """Add the findings."""
    if results.inputs.part is not None:
        return _judge_part(draft, results)
    _judge_matrix(draft, results, context)
    _judge_asymmetry(draft, results, context)
    _judge_likenesses(draft, results, context)
    _judge_mixtures(draft, results, context)
    _judge_downstream(draft, results, context)
    return None


def _judge_part(draft: Draft, results: "Results") -> None:
    part = results.inputs.part
    assert part is not None
    count = sum(part.has(place) for place in range(len(results.inputs.jobs)))
    text = (
        f"Part {part.number} of {part.of} is done: {many(count, 'model', 'models')} of {len(results.inputs.jobs):,}. "
        "The matrix needs all parts: run the command without --array when they are done."
    )
    draft.find("interference.part", "info", text)


def _judge_matrix(draft: Draft, results: "Results", context: Context) -> None:
    cells = results.found.cells
    if not cells:
        text = "There is no cell with a number: nothing can be said of interference."
        if not any(len(chosen) > 1 for chosen in results.inputs.sets):
            text += " One model as it is has losses only: let it be trained on pairs (--steps), or give one for each."
        if results.matrix.failed:
            steps = results.inputs.training.steps
            text += f" {many(len(results.matrix.failed), 'loss', 'losses')} came from models that had not converged"
            text += f": train longer (--steps; these had {steps:,})." if steps else "."
        draft.find("interference.none", "info", text)
        return
    verdicts = {where: entry.judged.verdict(context.level) for where, entry in cells.items()}
    counts = Counter(verdicts.values())
    if counts["untested"] == len(cells):
        seeds = min(entry.judged.crossed.seeds for entry in cells.values())
        why = (
            "with one seed, another training might have given anything"
            if seeds < 2
            else f"all losses of {seeds} seeds, and of all sentences, are the same, which tells nothing of others"
        )
        text = f"None of the {many(len(cells), 'cell', 'cells')} has a verdict: {why}."
        draft.find("interference.untested", "info", text)
        return
    _say_extremes(draft, results, verdicts)
    corrected = {
        "holm": f"after Holm's correction for all of them, at {percent(context.level)}",
        "bh": f"after Benjamini and Hochberg's correction for all of them, at {percent(context.level)}",
    }[results.options.correction]
    failed, absent = _without_number(results)
    text = (
        f"Of {many(len(cells), 'cell', 'cells')}, {counts['interference']} show interference, {counts['synergy']} "
        f"synergy and {counts['indistinguishable']} neither, {corrected} ({_where(results)})."
    )
    if failed:
        text += f" {many(failed, 'cell has', 'cells have')} no number: a model did not converge."
    if absent:
        text += f" {many(absent, 'cell was', 'cells were')} not measured."
    text += _noise_words(draft, results, verdicts)
    strongest = sorted(cells.values(), key=lambda entry: -abs(entry.judged.crossed.value))
    draft.find("interference.matrix", "info", text, [entry.place for entry in strongest[:MOST_CITED]])


def _without_number(results: "Results") -> tuple[int, int]:
    """Return how many cells lack a model that converged, and how many were never measured."""
    failed = absent = 0
    for chosen in results.inputs.sets:
        for target in chosen if len(chosen) == 2 else ():
            (source,) = (code for code in chosen if code != target)
            if (target, source) not in results.found.cells:
                gone = (chosen, target) in results.matrix.failed or ((target,), target) in results.matrix.failed
                failed, absent = failed + gone, absent + (not gone)
    return failed, absent


def _where(results: "Results") -> str:
    if results.inputs.table is not None:
        return "losses measured elsewhere"
    return "models as they are" if results.inputs.kind == "scored" else _BUDGETS[results.options.budget]


def _noise_words(draft: Draft, results: "Results", verdicts: Mapping[tuple[str, str], str]) -> str:
    """Return how much cells scatter over seeds, beside the largest effect that is shown."""
    noise = results.found.seed_sd
    shown = [
        abs(results.found.cells[where].judged.crossed.value)
        for where, verdict in verdicts.items()
        if verdict in ("interference", "synergy")
    ]
    if noise is None:
        return ""
    if not shown:
        # By Bonferroni, since Holm's first step is that: a single effect among nothing has to pass it.
        least = smallest_shown([one.judged.crossed for one in results.found.cells.values()], results.matrix.level)
        said = (
            f" To be shown in any cell it fell on, an effect had to be about {least:.2g} nats per byte."
            if least
            else ""
        )
        return f" A cell scatters by {noise:.2g} nats per byte from one training to another.{said}"
    share = noise / max(shown)
    if share > QUIET_SEEDS:
        draft.warn(
            "seed-noise",
            f"Cells scatter over trainings by {noise:.2g} nats per byte, {share:.0%} of the largest effect shown: "
            "train longer, or with more seeds.",
        )
    return f" A cell scatters by {noise:.2g} nats per byte over trainings, {share:.0%} of the largest effect shown."


def smallest_shown(cells: Sequence[Crossed], level: float) -> float | None:
    """Return the effect from which every cell would have had a verdict, by Bonferroni; None where none could have."""
    from scipy.stats import t

    known = [one for one in cells if one.df is not None]
    if not known:
        return None
    return max(one.se * float(t.isf((1 - level) / (2 * len(cells)), one.df)) for one in known if one.df is not None)


def _say_extremes(draft: Draft, results: "Results", verdicts: Mapping[tuple[str, str], str]) -> None:
    """Tell the largest interference and the largest synergy that are shown."""
    for verdict, sign in (("interference", 1), ("synergy", -1)):
        shown = [where for where, found in verdicts.items() if found == verdict]
        if not shown:
            continue
        target, source = max(shown, key=lambda where: sign * results.found.cells[where].judged.crossed.value)
        entry = results.found.cells[target, source]
        losses, alone = results.matrix.losses, (target,)
        own = [losses.cells[alone, seed, target].loss for seed in sorted(losses.seeds(alone, target))]
        share = abs(entry.judged.crossed.value) / (sum(own) / len(own)) if sum(own) else 0.0
        size = size_words(draft.estimates[entry.place])
        word = "raises" if sign > 0 else "lowers"
        place = (
            f"{word} the held-out loss of {target} by {size} nats per byte, {share:.1%} of what {target} alone loses"
        )
        among = "the largest rise" if sign > 0 else "the largest fall"
        text = f"Adding {source} {place}: {among} of those shown ({_where(results)})."
        severity: Severity = "info"
        if sign > 0:
            severity = "high" if share >= GRAVE else "medium" if share >= CONSIDERABLE else "low"
        draft.find(f"interference.{verdict}", severity, text, [entry.place], target=target, source=source)


def _judge_asymmetry(draft: Draft, results: "Results", context: Context) -> None:
    shown = {
        key: entry
        for key, entry in results.found.asymmetries.items()
        if entry.judged.verdict(context.level) in ("interference", "synergy")
    }
    if not shown:
        return
    (a, b), entry = max(shown.items(), key=lambda item: abs(item[1].judged.crossed.value))
    hurt, other = (a, b) if entry.judged.crossed.value > 0 else (b, a)
    rank = "the only asymmetry" if len(shown) == 1 else f"the largest of {len(shown)} asymmetries"
    text = (
        f"Trained together, {hurt} suffers more than {other}: its loss changes for the worse by "
        f"{size_words(draft.estimates[entry.place])} nats per byte more, {rank} shown among "
        f"{many(len(results.found.asymmetries), 'pair', 'pairs')}."
    )
    draft.find("interference.asymmetry", "low", text, [entry.place], a=a, b=b)


def _judge_likenesses(draft: Draft, results: "Results", context: Context) -> None:
    for one in results.effects.tests:
        if one.name in EFFECTS and not one.given:
            draft.find(f"interference.{one.name}", *_effect_words(draft, results, one, context))
        elif one.adjusted <= 1 - context.level:
            severity, text, places = _similarity_words(draft, one)
            draft.find("interference.similarity", severity, text, places, attribute=one.name)


def _effect_words(
    draft: Draft, results: "Results", one: Association, context: Context
) -> tuple[Severity, str, list[int]]:
    """Return what the permutation test of script or family allows to say."""
    estimate = draft.estimates[one.effect]
    kept = f"Of these languages, those of one {one.name} hurt each other"
    if one.contrast is None or one.contrast > 1 - context.level:
        kept = f"Whether languages of one {one.name} hurt each other more or less than others cannot be told here"
        kept += f" (difference {span(estimate)} nats per byte)"
    else:
        word = "more" if estimate.value > 0 else "less"
        kept += f" {word} than those of two, by {size_words(estimate)} nats per byte"
    alpha = 1 - context.level
    test = one.test
    plural = {"family": "families"}.get(one.name, f"{one.name}s")
    said = f"of {ways_words(test)} to deal {plural} to the languages, {as_far_words(test)} as far"
    # Before p itself: where no relabelling could be rare enough, a large p is no finding.
    if test.smallest_p > alpha:
        text = (
            f"{kept}. Whether {one.name} is the reason cannot be shown with these languages: {said}, and none could "
            f"have had p below {test.smallest_p:.2g}."
        )
    elif one.adjusted <= alpha:
        text = f"{kept}, and that is more than chance would do: {said} (p {p_words(one.adjusted)} after Holm)."
    else:
        text = f"{kept}. That {one.name} is the reason is not shown: {said} (p {p_words(one.adjusted)} after Holm)."
    return "info", text, [one.effect, one.p]


def ways_words(test: QapTest) -> str:
    """Return how many arrangements were looked at."""
    return f"{test.arrangements:,} {'ways' if test.exact else 'random ways'}"


def as_far_words(test: QapTest) -> str:
    """Return how many of the arrangements part the cells as far as the real one, which is one of them."""
    count = round(test.p * test.arrangements)
    if count >= test.arrangements:
        return "all part the cells"
    return f"{count:,} part{'s' if count == 1 else ''} the cells"


def _similarity_words(draft: Draft, one: Association) -> tuple[Severity, str, list[int]]:
    estimate = draft.estimates[one.effect]
    likeness = f"in {one.name}" if one.kind != "given" else f"by {one.name}"
    if one.name in EFFECTS:
        word = "more" if estimate.value > 0 else "less"
        text = (
            f"Given {one.given}, languages of one {one.name} hurt each other {word}, by {size_words(estimate)} nats "
            f"per byte (p {p_words(one.adjusted)} after Holm)."
        )
        return "info", text, [one.effect, one.p]
    way = "more" if estimate.value > 0 else "less"
    text = (
        f"The more alike two languages are {likeness}, the {way} they hurt each other: rank correlation "
        f"{span(estimate)} (p {p_words(one.adjusted)} after Holm)."
    )
    return "info", text, [one.effect, one.p]


def _judge_mixtures(draft: Draft, results: "Results", context: Context) -> None:
    mixed = results.mixed
    if mixed.errors:
        verdicts = [one.judged.verdict(context.level) for one in mixed.errors.values()]
        off = sum(verdict in ("interference", "synergy") for verdict in verdicts)
        worst = max(mixed.errors.items(), key=lambda item: abs(item[1].judged.crossed.value))
        (chosen, target), entry = worst
        count = len(mixed.errors)
        known = "untested" not in verdicts
        beyond = f"; it is off beyond the noise in {off} of {many(count, 'case', 'cases')}" if known else ""
        text = (
            "The sum of the effects of pairs foretells a language's loss in a real mixture of three within "
            f"{abs(entry.judged.crossed.value):.2g} nats per byte{beyond}. It is farthest off for {target} in "
            f"{'+'.join(chosen)}: {_off_words(draft, entry)}."
        )
        cited = sorted(mixed.errors.values(), key=lambda one: -abs(one.judged.crossed.value))[:MOST_CITED]
        draft.find("interference.mixtures", "info", text, [one.place for one in cited])
    if len(mixed.ranked) > 1:
        best, *_, worst_set = mixed.ranked
        first, last = (draft.estimates[mixed.ranked[one].place] for one in (best, worst_set))
        if mixed.apart is not None and mixed.apart <= 1 - context.level:
            text = (
                f"If effects of pairs add up, {listed(best)} go together better than {listed(worst_set)}: the mean "
                f"rise of their losses is {span(first)} against {span(last)} nats per byte, the least and the most "
                f"of all mixtures of three (p {p_words(mixed.apart)}, corrected for their having been picked)."
            )
            places = [mixed.ranked[one].place for one in (best, worst_set)]
            draft.find("interference.recommended", "info", text, places, mixture="+".join(best))


def _off_words(draft: Draft, entry: Entry) -> str:
    estimate = draft.estimates[entry.place]
    word = "higher" if estimate.value > 0 else "lower"
    return f"the real loss is {word} by {size_words(estimate)}"


def _judge_downstream(draft: Draft, results: "Results", context: Context) -> None:
    for one in results.downstream.related:
        correlation = draft.estimates[one.correlation]
        what = "the interference that a language receives" if one.side == "received" else "the cells of the matrix"
        p = f"p {p_words(one.adjusted)} after Holm"
        if one.adjusted <= 1 - context.level:
            way = "rises" if correlation.value > 0 else "falls"
            text = f"{one.score} {way} with {what}: rank correlation {span(correlation)} ({p})."
        else:
            text = f"No relation of {one.score} with {what} could be shown: {span(correlation)} ({p})."
        if one.errors:
            ours, plain = (draft.estimates[place] for place in one.errors)
            text += f" Left out, a language is foretold within {span(ours)}; by the mean of the others {span(plain)}."
        draft.find("interference.downstream", "info", text, [one.correlation, one.p, *one.errors], score=one.score)
