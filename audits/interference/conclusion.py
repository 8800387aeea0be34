"""The answer: what adding a language does to others, under the setting of the run."""

from collections.abc import Sequence

from audits.core.context import Claim, Draft
from audits.core.numbers import decimals, written
from audits.core.records import Estimate
from audits.core.wording import NOT_AFTER_CORRECTION, first_of, listed, span
from audits.interference.measure import Counts

MOST_NAMED = 6
_BUDGETS = {
    "same-data": "at the same data of each language",
    "same-total": "at the same total, half of each language's data",
}
CORRECTIONS = {"holm": "Holm's", "bh": "Benjamini and Hochberg's"}
_SAID = ("interference", "synergy", "matrix", "asymmetry", "similarity", "recommended", "downstream")
"""Findings that may be reported as they stand, less the prefix of their ids."""


def conclude(draft: Draft, counts: Counts) -> None:
    """Set the answer: the largest effect shown, or that none is; its numbers; and what may be reported."""
    found = draft.by_severity()
    if not found:
        return
    draft.conclude(
        found[0].headline,
        numbers=[(row, number_words(row)) for row in draft.leading()],
        may=_may(counts, found),
        may_not=_may_not(draft, counts),
        verdicts=_verdicts(draft, counts),
    )


def _verdicts(draft: Draft, counts: Counts) -> list[tuple[Estimate, bool, str]]:
    """Return what each cell shows after correction for all cells, which its own interval does not know of."""
    words = {"untested": "not tested", "indistinguishable": ""}
    found = []
    for (target, source), judged in counts.matrix.cells.items():
        row, verdict = draft.row("interference", target=target, source=source), judged.verdict(draft.level)
        apart = row.above(0.0) or row.below(0.0)
        unsaid = NOT_AFTER_CORRECTION if apart and verdict == "indistinguishable" else words.get(verdict, verdict)
        found.append((row, judged.shown(draft.level), unsaid))
    return found


def setting_words(counts: Counts) -> str:
    """Return the conditions under which the cells were measured, in words."""
    if counts.inputs.table is not None:
        return "losses measured elsewhere"
    return "models as they are" if counts.inputs.kind == "scored" else _BUDGETS[counts.options.budget]


def number_words(row: Estimate) -> str:
    """Return what a row of the matrix, or of what follows from it, is, for people."""
    where = {key: str(value) for key, value in row.where.items()}
    if row.name == "interference":
        return f"change of loss of {where['target']} by adding {where['source']}, nats per byte"
    if row.name == "asymmetry":
        return f"change of loss of {where['a']} by {where['b']}, less the reverse, nats per byte"
    named = [where[key] for key in ("attribute", "score", "mixture", "target") if key in where]
    return f"{row.measure.label}{f', {listed(named)}' if named else ''}"


def _may(counts: Counts, found: Sequence[Claim]) -> list[str]:
    lines = [
        claim.headline
        for claim in found
        if claim.id.removeprefix("interference.") in _SAID and not claim.headline.startswith("No ")
    ][:MOST_NAMED]
    options = counts.options
    if counts.matrix.cells:
        correction = CORRECTIONS[options.correction]
        lines.append(
            f"Beside these numbers their setting: {setting_words(counts)}; {correction} correction over all cells."
        )
    return lines


def _may_not(draft: Draft, counts: Counts) -> list[str]:
    cells = counts.matrix.cells
    quiet = [
        draft.row("interference", target=target, source=source)
        for (target, source), judged in cells.items()
        if judged.verdict(draft.level) == "indistinguishable"
    ]
    lines = []
    if quiet:
        named = [f"{row.where['source']} to {row.where['target']} {_furthest(row)}" for row in quiet]
        lines.append(f"That adding a language does nothing. Still possible, nats per byte: {first_of(named, 3)}.")
    if any(judged.verdict(draft.level) == "untested" for judged in cells.values()):
        lines.append("A verdict on a cell that was not tested: it has one training, or nothing that varies.")
    lines.append("Losses of one language against those of another: bytes are not equal text.")
    lines.append("That script, family or likeness is the cause: languages differ in their texts as well.")
    lines.append("Anything on other languages, texts or sizes of model.")
    return lines


def _furthest(row: Estimate) -> str:
    """Return the end of an interval that is farther from no effect."""
    if row.low is None or row.high is None:
        return span(row)
    return written(max(row.low, row.high, key=abs), decimals(row))
