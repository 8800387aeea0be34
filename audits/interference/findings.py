"""The findings on the matrix and their severity: no more than the intervals and permutations allow."""

from collections import Counter
from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import percent, point, probability
from audits.core.records import Estimate, Severity
from audits.core.wording import capitalised, fitting, listed, many, p_words, size_words, span
from audits.interference.conclusion import CORRECTIONS, conclude, setting_words
from audits.interference.downstream import Relation
from audits.interference.effects import Association
from audits.interference.likenesses import EFFECTS, plural
from audits.interference.matrix import Judged, Matrix
from audits.interference.measure import Counts
from audits.interference.mixtures import Mixtures, where_error
from audits.statistics.qap import QapTest

GRAVE, CONSIDERABLE = 0.10, 0.03
"""Shares of a language's own loss from which interference is high, and medium; below it is low."""
QUIET_SEEDS = 0.2
"""Share of the largest shown effect that the scatter over seeds may have."""
MOST_CITED = 10
"""Estimates that a finding names as its evidence."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings."""
    _find_matrix(draft, counts)
    _find_asymmetry(draft, counts)
    for association in counts.effects:
        _find_association(draft, association)
    _find_mixtures(draft, counts.mixtures)
    for relation in counts.downstream:
        find_relation(draft, relation)
    conclude(draft, counts)


def _find_matrix(draft: Draft, counts: Counts) -> None:
    matrix = counts.matrix
    cells = matrix.cells
    if not cells:
        _find_none(draft, counts)
        return
    verdicts = Counter(judged.verdict(draft.level) for judged in cells.values())
    if verdicts["untested"] == len(cells):
        seeds = min(judged.crossed.seeds for judged in cells.values())
        why = (
            "with one seed, another training might have given anything"
            if seeds < 2
            else f"all losses of {seeds} seeds, and of all sentences, are the same, which tells nothing of others"
        )
        headline = f"None of the {len(cells)} cells has a verdict." if len(cells) > 1 else "The cell has no verdict."
        sure = "Verdicts take two seeds or more, better three (--seeds)." if seeds < 2 else ""
        draft.find("interference.untested", "info", f"{capitalised(why)}.", headline=headline, how_sure=sure)
        return
    _find_extremes(draft, counts)
    correction = CORRECTIONS[counts.options.correction]
    headline = (
        f"Of {many(len(cells), 'cell', 'cells')}, {verdicts['interference']} show interference, {verdicts['synergy']} "
        f"synergy and {verdicts['indistinguishable']} neither."
    )
    text = f"Setting: {setting_words(counts)}."
    lacking = [cell for a, b in matrix.pairs for cell in ((a, b), (b, a)) if cell not in cells]
    failed = sum(bool(matrix.reasons(*cell)) for cell in lacking)
    if failed:
        text += f" {many(failed, 'cell has', 'cells have')} no number: a model did not converge."
    if len(lacking) > failed:
        text += f" {many(len(lacking) - failed, 'cell was', 'cells were')} not measured."
    text += _noise_words(draft, matrix)
    strongest = sorted(draft.select("interference"), key=lambda row: -abs(row.value))
    sure = f"After {correction} correction for all cells, at {percent(draft.level)}."
    draft.find("interference.matrix", "info", text, strongest[:MOST_CITED], headline=headline, how_sure=sure)


def _find_none(draft: Draft, counts: Counts) -> None:
    """Add a finding that there is no cell, and why."""
    text = ""
    if not any(len(chosen) > 1 for chosen in counts.inputs.sets):
        text = " One model as it is has losses only: let it be trained on pairs (--steps), or give one for each."
    failed, steps = counts.matrix.failed, counts.inputs.training.steps
    if failed:
        text += f" {many(len(failed), 'loss', 'losses')} came from models that had not converged"
        text += f": train longer (--steps; these had {steps:,})." if steps else "."
    headline = "Nothing can be said of interference: there is no cell with a number."
    draft.find("interference.none", "info", text.strip() or "No pair was measured.", headline=headline)


def _noise_words(draft: Draft, matrix: Matrix) -> str:
    """Return the scatter of cells over seeds beside the largest significant effect, in words."""
    row = draft.get("seed_deviation")
    if row is None:
        return ""
    shown = [abs(judged.value) for judged in matrix.cells.values() if judged.shown(draft.level)]
    if not shown:
        # By Bonferroni, since Holm's first step is that: a single effect among nothing has to pass it.
        least = smallest_shown(list(matrix.cells.values()), draft.level)
        comparison = (
            f" To be shown in any cell it fell on, an effect had to be about {least:.2g} nats per byte."
            if least
            else ""
        )
        return f" A cell scatters by {point(row)} nats per byte from one training to another.{comparison}"
    share = row.value / max(shown)
    if share > QUIET_SEEDS:
        draft.warn(
            "seed-noise",
            f"Cells scatter over trainings by {point(row)} nats per byte, {100 * share:.0f} % of the largest effect "
            "shown: train longer, or with more seeds.",
        )
    scale = f"{100 * share:.0f} % of the largest effect shown"
    return f" A cell scatters by {point(row)} nats per byte over trainings, {scale}."


def smallest_shown(cells: Sequence[Judged], level: float) -> float | None:
    """Return the smallest effect that would be significant in every cell (Bonferroni); None if there is none."""
    from scipy.stats import t

    known = [(one.crossed.se, one.crossed.df) for one in cells if one.crossed.df is not None]
    if not known:
        return None
    return max(se * float(t.isf((1 - level) / (2 * len(cells)), df)) for se, df in known)


def _find_extremes(draft: Draft, counts: Counts) -> None:
    """Add findings on the largest significant interference and synergy."""
    cells, losses = counts.matrix.cells, counts.matrix.losses
    for verdict, sign in (("interference", 1), ("synergy", -1)):
        shown = [cell for cell, judged in cells.items() if judged.verdict(draft.level) == verdict]
        if not shown:
            continue
        target, source = max(shown, key=lambda cell: sign * cells[cell].value)
        row, alone = draft.row("interference", target=target, source=source), (target,)
        own = [losses.cells[alone, seed, target].loss for seed in sorted(losses.seeds(alone, target))]
        share = abs(row.value) / (sum(own) / len(own)) if sum(own) else 0.0
        word, among = ("raises", "the largest rise") if sign > 0 else ("lowers", "the largest fall")
        headline = f"Adding {source} {word} the held-out loss of {target} by {size_words(row)} nats per byte."
        text = (
            f"That is {100 * share:.1f} % of the loss of {target} alone, {among} of those shown "
            f"({setting_words(counts)})."
        )
        severity: Severity = "info"
        if sign > 0:
            severity = "high" if share >= GRAVE else "medium" if share >= CONSIDERABLE else "low"
        sure = f"{CORRECTIONS[counts.options.correction]} correction over all cells, at {percent(draft.level)}."
        where = {"target": target, "source": source}
        draft.find(f"interference.{verdict}", severity, text, [row], headline=headline, how_sure=sure, **where)


def _find_asymmetry(draft: Draft, counts: Counts) -> None:
    pairs = counts.matrix.asymmetries
    shown = [pair for pair, judged in pairs.items() if judged.shown(draft.level)]
    if not shown:
        return
    a, b = max(shown, key=lambda pair: abs(pairs[pair].value))
    row = draft.row("asymmetry", a=a, b=b)
    hurt, other = (a, b) if row.value > 0 else (b, a)
    rank = "the only asymmetry" if len(shown) == 1 else f"the largest of {len(shown)} asymmetries"
    headline = f"Trained together, {hurt} suffers more than {other}: by {size_words(row)} nats per byte."
    text = "That is the change of its loss by the other, less the reverse"
    text += f"; {rank} shown among {len(pairs)} pairs." if len(pairs) > 1 else "."
    sure = f"{CORRECTIONS[counts.options.correction]} correction over all pairs, at {percent(draft.level)}."
    draft.find("interference.asymmetry", "low", text, [row], headline=headline, how_sure=sure, a=a, b=b)


def _find_association(draft: Draft, one: Association) -> None:
    rows = [draft.row(one.estimate, **one.where), draft.row("p_value", **one.where_p("none"))]
    if one.name in EFFECTS and not one.given:
        headline, text, sure = _effect_words(rows[0], one, 1 - draft.level)
        draft.find(f"interference.{one.name}", "info", text, rows, headline=headline, how_sure=sure)
    elif one.adjusted <= 1 - draft.level:
        headline, text = _similarity_words(rows[0], one)
        sure = f"p {p_words(one.adjusted)} after Holm: permutation of the languages."
        draft.find("interference.similarity", "info", text, rows, headline=headline, how_sure=sure, attribute=one.name)


def _effect_words(row: Estimate, one: Association, alpha: float) -> tuple[str, str, str]:
    """Return headline, statement and method of the permutation test of script or family."""
    known = one.contrast is not None and one.contrast <= alpha
    if known:
        word = "more" if row.value > 0 else "less"
        headline = f"Here languages of one {one.name} hurt each other {word}, by {size_words(row)} nats per byte"
        kept = "That is against those of two, among these languages. "
    else:
        headline = f"No effect of one {one.name} on interference is shown: {span(row)} nats per byte"
        kept = f"Whether languages of one {one.name} hurt each other more or less than others cannot be told here. "
        if (row.low or 0.0) * (row.high or 0.0) > 0:
            kept += "By its interval alone it would be shown, not once all effects are counted. "
    test = one.test
    counted = f"of {ways_words(test)} to deal {plural(one.name)} anew, {as_far_words(test)} by as much"
    # Before p itself: where no relabelling could be rare enough, a large p is no finding.
    if test.smallest_p > alpha:
        reason = f"Whether {one.name} is the reason cannot be shown with these languages"
        sure = f"{counted}; the smallest p that could come out is {probability(test.smallest_p)}"
    else:
        shown = one.adjusted <= alpha
        reason = "That is more than chance would do" if shown else f"That {one.name} is the reason is not shown"
        sure = f"{counted} (p {p_words(one.adjusted)} after Holm)"
    # Tiny numbers take more words.
    headline = fitting(f"{headline}.", f"{headline.removesuffix(' nats per byte')}.")
    return headline, f"{kept}{reason}.", f"{capitalised(sure)}."


def ways_words(test: QapTest) -> str:
    """Return how many permutations were made, in words."""
    return f"{test.arrangements:,} {'ways' if test.exact else 'random ways'}"


def as_far_words(test: QapTest) -> str:
    """Return how many permutations separate the cells at least as much as the real labels, in words."""
    count = round(test.p * test.arrangements)
    if count >= test.arrangements:
        return "all separate the cells"
    return f"{count:,} separate{'s' if count == 1 else ''} the cells"


def _similarity_words(row: Estimate, one: Association) -> tuple[str, str]:
    word = "more" if row.value > 0 else "less"
    if one.name in EFFECTS:
        return (
            f"Given {one.given}, languages of one {one.name} hurt each other {word}, by {size_words(row)} nats per "
            "byte.",
            f"That is with {one.given} held fixed.",
        )
    likeness = f"in {one.name}" if one.kind != "given" else f"by {one.name}"
    return (
        f"The more alike languages are {likeness}, the {word} they hurt each other: rank correlation {span(row)}.",
        f"Over pairs of {row.n:,} languages.",
    )


def _find_mixtures(draft: Draft, mixtures: Mixtures) -> None:
    if mixtures.errors:
        _find_errors(draft, mixtures)
    if len(mixtures.ranked) > 1 and mixtures.apart is not None and mixtures.apart <= 1 - draft.level:
        best, *_, worst = mixtures.ranked
        rows = [draft.row("predicted_interference", mixture="+".join(one)) for one in (best, worst)]
        draft.find(
            "interference.recommended",
            "info",
            f"{listed(worst)} go together worst: the mean rise of their losses is {span(rows[1])} nats per byte. These "
            "are the least and the most of all mixtures of three.",
            rows,
            headline=f"If pairs' effects add up, {listed(best)} go together best: mean rise {span(rows[0])}.",
            how_sure=f"p {p_words(mixtures.apart)}, corrected for their having been picked.",
            mixture="+".join(best),
        )


def _find_errors(draft: Draft, mixtures: Mixtures) -> None:
    errors = mixtures.errors
    verdicts = [judged.verdict(draft.level) for judged in errors.values()]
    off = sum(verdict in ("interference", "synergy") for verdict in verdicts)
    beyond = f"It is off beyond the noise in {off} of {many(len(errors), 'case', 'cases')}. "
    largest = sorted(errors, key=lambda member: -abs(errors[member].value))[:MOST_CITED]
    rows = [draft.row("prediction_error", **where_error(*member)) for member in largest]
    (chosen, target), row = largest[0], rows[0]
    text = (
        f"That is in nats per byte, of {target} trained with {listed([code for code in chosen if code != target])}, "
        f"whose real loss is {'higher' if row.value > 0 else 'lower'}. {'' if 'untested' in verdicts else beyond}"
    ).strip()
    headline = f"Summed effects of pairs miss the loss in mixtures of three by {span(row)} at worst, for {target}."
    sure = "" if "untested" in verdicts else f"Corrected for all cases, at {percent(draft.level)}."
    draft.find("interference.mixtures", "info", text, rows, headline=headline, how_sure=sure)


def find_relation(draft: Draft, one: Relation) -> None:
    """Add a finding on whether a column of scores correlates with the matrix."""
    correlation, p = draft.row("downstream_correlation", **one.where), draft.row("p_value", **one.where_p("none"))
    errors = [draft.row("prediction_error", **one.where_error(predictor)) for predictor in one.errors]
    what = "the interference that a language receives" if one.side == "received" else "the cells of the matrix"
    if one.adjusted <= 1 - draft.level:
        way = "rises" if correlation.value > 0 else "falls"
        headline = f"{one.score} {way} with {what}: rank correlation {span(correlation)}."
    else:
        headline = f"No relation of {one.score} with {what} is shown: {span(correlation)}."
    text = f"A rank correlation over {correlation.n:,} {correlation.unit}."
    if errors:
        ours, plain = errors
        text += f" A language left out is predicted with an error of {span(ours)}, by the mean of others {span(plain)}."
    draft.find(
        "interference.downstream",
        "info",
        text,
        [correlation, p, *errors],
        headline=headline,
        how_sure=f"p {p_words(one.adjusted)} after Holm.",
        score=one.score,
    )
