"""Which differences are beyond chance, with all questions counted that a run asks of the same promise?

One family holds everything by which a candidate may be said to fall short of the reference: its four scores against
the ceiling (or relabelled texts, where there is none) and the likeness of its texts in words, for all candidates. Of
equal texts a run says so in at most 1 less the level, however many scores and candidates it has.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.precision_recall.estimating import CLIPPED, UNIT, At, Found, Measured, add, defined
from audits.precision_recall.inputs import ASKED, CEILING, FLOOR, FLOORED, REFERENCE, RELABELLED, Inputs
from audits.records import Coordinate, Estimate
from audits.statistics import adjust
from audits.statistics.halves import Halved, halved
from probes.support_metrics import METRICS

COMPARED = (*METRICS, "mauve")
"""Scores of which differences are taken."""
SHORTFALL = "shortfall"


@dataclass(frozen=True, slots=True)
class _Row:
    """A difference before any correction."""

    at: At
    value: Halved
    size: int
    p: float


def add_differences(draft: Draft, found: Found, measured: Measured, inputs: Inputs, context: Context) -> None:
    """Add all differences at the first k, each with its p-value, which counts the questions of its family."""
    rows = [row for metric in COMPARED for row in _of_metric(metric, found, measured, inputs)]
    rows += _of_words(draft, found, inputs)
    families: dict[str, list[_Row]] = {}
    for row in rows:
        families.setdefault(_family(row.at), []).append(row)
    for family in families.values():
        for row, p in zip(family, adjust([row.p for row in family], "holm"), strict=True):
            found.adjusted[row.at], found.questions[row.at] = p, len(family)
    for row in rows:
        _add(draft, found, row, context)
    if rows:
        draft.warn("p-without-interval", "p-values, of t tests or of labels dealt anew, have no interval.")


def _family(at: At) -> str:
    """Return which questions are counted together."""
    if at.name == "self_bleu" or (at.name in ASKED and at.against in (CEILING, RELABELLED)):
        return SHORTFALL
    return f"{at.against if at.against in (CEILING, FLOOR) else 'pairs'} {at.name}"


def _of_metric(metric: str, found: Found, measured: Measured, inputs: Inputs) -> list[_Row]:
    """Return the differences of one score: of all pairs of candidates, and of each to what bounds it."""
    k, names = inputs.settings.k[0], [one.name for one in inputs.candidates]
    rows: list[_Row] = []
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            pair = [_told(measured, found, At(metric, one, k)) for one in (name, other)]
            if pair[0] is not None and pair[1] is not None:
                size = measured.clusters[name].size if metric == "mauve" else inputs.size
                rows.append(_tested(At(metric, name, k, other), pair[0] - pair[1], size))
        if metric in METRICS:
            rows += _to_controls(metric, name, k, measured)
        own, dealt = found.values.get(At(metric, name, k)), measured.relabelled.get(name)
        if dealt is not None and metric in ASKED and own is not None:
            value = _less_relabelled(own, dealt.mean(metric), dealt.size)
            rows.append(_Row(At(metric, name, k, RELABELLED), value, dealt.size, dealt.p(metric)))
    if metric in FLOORED:
        # Whether the encoder tells people's texts from their own words dealt anew, before candidates are held to it.
        rows += _to_controls(metric, CEILING, k, measured)
    return rows


def _less_relabelled(own: Halved, mean: float, size: int) -> Halved:
    """Return a score less what sets of one source have.

    >>> _less_relabelled(Halved(0.0, np.zeros(2)), 0.9, 88).error() > 0
    True
    """
    if own.error() > 0:
        return Halved(own.value - mean, own.gaps, own.chance)
    # Halves agree where no text, or each, is inside. A mean of relabellings has no halves that could differ, so the
    # error is that of a share which one text more is inside of and one more is not.
    share = (min(own.value, 1.0) * size + 1) / (size + 2)
    return Halved(own.value - mean, own.gaps, share * (1 - share) / size)


def _to_controls(metric: str, name: str, k: int, measured: Measured) -> list[_Row]:
    rows: list[_Row] = []
    for control in (CEILING, FLOOR):
        if {name, control} <= measured.controls.keys() and name != control:
            sides = [capped(measured.controls[one].scores[metric, k], metric) for one in (name, control)]
            if all(defined(side) for side in sides):
                rows.append(_tested(At(metric, name, k, control), sides[0] - sides[1], measured.controls[name].size))
    return rows


def _of_words(draft: Draft, found: Found, inputs: Inputs) -> list[_Row]:
    """Return how much more alike in their words the texts of each candidate are than those of the reference."""
    reference = found.values.get(At("self_bleu", REFERENCE))
    rows: list[_Row] = []
    for one in inputs.candidates:
        own = found.values.get(At("self_bleu", one.name))
        if own is not None and reference is not None:
            size = draft.estimates[found.places[At("self_bleu", one.name)]].n
            rows.append(_tested(At("self_bleu", one.name, 0, REFERENCE), own - reference, size))
    return rows


def _tested(at: At, value: Halved, size: int) -> _Row:
    return _Row(at, value, size, value.p())


def capped(parts: NDArray[np.float64], metric: str) -> Halved:
    """Return a score as it is reported, at most 1 where it is clipped, so that differences are of what is read."""
    # The mean over draws first: capped draw by draw, chance above 1 would be cut off and chance below not.
    return halved(np.minimum(parts.mean(1, keepdims=True), 1.0) if metric in CLIPPED else parts)


def _told(measured: Measured, found: Found, at: At) -> Halved | None:
    if at.name in CLIPPED:
        return capped(measured.main[at.candidate].scores[at.name, at.k], at.name)
    return found.values.get(at)


def _add(draft: Draft, found: Found, row: _Row, context: Context) -> None:
    at = row.at
    where: dict[str, Coordinate] = {"candidate": at.candidate, "against": at.against, "metric": at.name}
    where |= {"k": at.k} if at.k else {}
    found.values[at] = row.value
    found.places[at] = add(draft, "difference", row.value, row.size, where, context)
    draft.add(
        Estimate(
            name="p_value",
            value=found.adjusted[at],
            method="none",
            level=context.level,
            n=row.size,
            unit=UNIT,
            where={**where, "correction": "holm"},
        )
    )
