"""The answer: where candidates fall short of the reference, with the settings that the numbers hold for."""

from collections.abc import Iterator, Sequence

from audits.core.context import Claim, Draft
from audits.core.numbers import coordinate, decimals, written
from audits.core.records import Estimate
from audits.core.wording import NOT_AFTER_CORRECTION, first_of
from audits.precision_recall.counts import Counts
from audits.precision_recall.lookup import difference, shown
from audits.precision_recall.sides import REFERENCE

MOST_NAMED = 6
_SAID = ("texts.below-ceiling", "texts.below-relabelled", "texts.mode-collapse", "texts.copied", "texts.dominates")
"""Findings that may be reported as they stand."""
_SIDES = {
    "ceiling": "the reference against itself",
    "relabelled": "texts of the reference's own source",
    "floor": "shuffled words",
}


def conclude(draft: Draft, counts: Counts) -> None:
    """Set the answer: the gravest finding, its numbers, and what may be reported of the texts."""
    found = draft.by_severity()
    if not found:
        return
    draft.conclude(
        found[0].headline,
        numbers=[(row, number_words(row)) for row in draft.leading()],
        may=_may(counts, found),
        may_not=_may_not(draft, counts),
        verdicts=list(_verdicts(draft, counts)),
    )


def _verdicts(draft: Draft, counts: Counts) -> Iterator[tuple[Estimate, bool, str]]:
    """Yield what each difference to the reference shows after correction for all scores of all candidates."""
    for row in draft.select("difference", against=counts.benchmark, k=counts.k):
        name, metric = str(row.where["candidate"]), str(row.where["metric"])
        if name not in counts.names:
            continue
        sign = shown(draft, counts, metric, name, counts.benchmark)
        apart = row.above(0.0) or row.below(0.0)
        grouped = {name, REFERENCE} & counts.grouped
        unsaid = "not told: texts in small groups" if grouped else NOT_AFTER_CORRECTION if apart else ""
        yield row, bool(sign), ("higher" if sign > 0 else "lower") if sign else unsaid


def number_words(row: Estimate) -> str:
    """Return what a row of the audit of texts is, for people."""
    where = {key: coordinate(value) for key, value in row.where.items()}
    name = where.get("candidate", "")
    if row.name == "difference":
        side = "reference texts" if name == "ceiling" else name
        metric = "Self-BLEU" if where["metric"] == "self_bleu" else where["metric"]
        return f"{metric} of {side}, less that of {_SIDES.get(where['against'], where['against'])}"
    words = {"duplicates": "share of copies among its texts", "copied": "share of texts copied from the reference"}
    return f"{words.get(row.name) or row.measure.label}{f', {name}' if name else ''}"


def _may(counts: Counts, found: Sequence[Claim]) -> list[str]:
    lines = [claim.headline for claim in found if claim.id in _SAID][:MOST_NAMED]
    lines += [claim.headline for claim in found if claim.id == "texts.no-shortfall"]
    encoder, settings = counts.inputs.encoder, counts.inputs.settings
    seen = "given embeddings" if encoder is None else f"the encoder {encoder.reference}"
    lines.append(
        f"These numbers as those of {seen}, k = {counts.k}, with {counts.inputs.size:,} texts a side in each draw and "
        f"duplicates {'kept' if settings.duplicates == 'keep' else 'set apart'}."
    )
    return lines


def _may_not(draft: Draft, counts: Counts) -> list[str]:
    lines = []
    for metric in ("precision", "recall"):
        rows = {name: difference(draft, counts, metric, name, counts.benchmark) for name in counts.names}
        least = [
            f"{name} {written(-(row.low or 0.0), decimals(row))}"
            for name, row in rows.items()
            if row is not None and (row.low or 0.0) < 0 and shown(draft, counts, metric, name, counts.benchmark) == 0
        ]
        if least:
            lines.append(
                f"That {metric} equals the reference's. A shortfall that still fits: {first_of(least, MOST_NAMED)}."
            )
    lines.append("Scores by another encoder, k or number of texts beside these: they are no common scale.")
    lines.append("What readers would say: texts are judged as the encoder sees them.")
    lines.append("Anything on other prompts, another training run, or texts that come in families.")
    return lines
