"""What is left of a gap once the other attributes and the controls are held fixed?

A Poisson model of errors with words as offset and speakers as clusters (Liu, Veliche and Peng 2021 use its mixed
form): with one attribute alone, the marginal ratios; with everything, the adjusted ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audits.context import Context, Draft
from audits.records import Estimate
from audits.speaker_groups import Options
from audits.speaker_groups.counts import Counts, Floats, Utterances, place
from audits.speaker_groups.designs import Design, Model, Term, design_of
from audits.speaker_groups.gaps import GapRow, clearest, name_of
from audits.speaker_groups.strata import strata_of, turned
from audits.statistics import (
    Ends,
    Kind,
    NotFitted,
    adjusted_gap,
    adjusted_rates,
    attenuation,
    coefficient_interval,
    share_left,
    unscaled,
    wald_test,
)
from audits.wording import many

GEE = "Poisson GEE, clusters of speakers, Student t"
GEE_PAIRS = "Poisson GEE, clusters of speakers, simultaneous over all pairs of levels"
SHARE = "Fieller, of two Poisson GEE models of the same clips, paired over clusters"
ATTENUATION = "difference of two Poisson GEE models of the same clips, paired over clusters"
LINEARISED = "Student t, linearised over clusters"
HALF = 0.5
MOST = 0.8
"""Share of what the adjustment took away that the terms named as its explanation take on their own."""


@dataclass(slots=True, kw_only=True)
class Rung:
    """One level against the reference: marginal, within the levels of others, adjusted.

    Parameters
    ----------
    marginal, adjusted
        Log rate ratios with their ends, and the places of both ratios in the report.
    faded
        Log ratio lost by the adjustment, with its ends.
    strata
        Log ratio within each level of another attribute, by `attribute=level`.
    share
        Share of the log ratio that the adjustment leaves, with its ends; None where it has no interval.
    held
        The terms that the adjustment holds fixed.
    held_words
        How it holds each of them fixed, as a sentence carries it.
    turned_by
        The attribute within whose levels the difference points the other way.
    explained_by
        The terms that explain the gap, where the loss is beyond chance.
    """

    system: int
    attribute: str
    level: str
    reference: str
    marginal: Ends
    adjusted: Ends
    places: tuple[int, int]
    faded: Ends = (0.0, 0.0, 0.0)
    strata: dict[str, Ends] = field(default_factory=dict)
    share: Ends | None = None
    held: tuple[str, ...] = ()
    held_words: tuple[str, ...] = ()
    turned_by: str = ""
    explained_by: tuple[str, ...] = ()

    @property
    def shown(self) -> bool:
        """Whether there is a marginal difference beyond its interval."""
        return self.marginal[1] > 0 or self.marginal[2] < 0

    @property
    def spurious(self) -> bool:
        """Whether most of the difference goes with what else differs, beyond chance: less than half is left."""
        return bool(self.explained_by) and self.share is not None and self.share[2] < HALF


@dataclass(slots=True, kw_only=True)
class Adjusted:
    """What the models of all systems say: rungs by level, p-values by (system, attribute), adjusted gaps by place."""

    rungs: list[Rung] = field(default_factory=list)
    p: dict[tuple[int, str], float] = field(default_factory=dict)
    held_words: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)
    gap: dict[tuple[int, str, Kind], int] = field(default_factory=dict)
    left_out: dict[int, tuple[str, ...]] = field(default_factory=dict)
    extremes: dict[tuple[int, str], tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One system with its fitted model: what all the steps below work on."""

    draft: Draft
    found: Adjusted
    data: Utterances
    counts: Counts
    system: int
    design: Design
    full: Model
    context: Context

    def add(self, name: str, ends: Ends, method: str, n: int, **where: str) -> int:
        """Add an estimate of this system and return its place."""
        coordinates = place(self.data, self.counts, self.system, **where)
        return self.draft.add(self.data.estimate(name, ends, method, n, coordinates, self.context.level))

    def others(self, term: Term) -> tuple[Term, ...]:
        """Return what is held fixed for a term."""
        return tuple(other for other in self.design.terms if other.name != term.name)


def adjust_gaps(
    draft: Draft, data: Utterances, counts: Counts, rows: Sequence[GapRow], options: Options, context: Context
) -> Adjusted:
    """Fit the models of every system and add ratios, adjusted gaps and what the adjustment took away.

    Every level is set against the reference of its attribute, and the worst group of a gap against the best one.
    """
    found = Adjusted()
    for system in range(len(data.systems)):
        design = design_of(data, counts, system, options)
        full = _full_model(draft, found, data, counts, system, design)
        if full is None:
            continue
        draft.add(
            Estimate(
                name="overdispersion",
                value=full[0].dispersion,
                method="exact",
                n=len(design.rows),
                unit="clips",
                where=place(data, counts, system),
            )
        )
        # The pairs that findings may tell of, beside every level against the reference.
        told = {
            row.by: [(row.worst[system], row.best[system]), clearest(row, system, options.hypothesis)]
            for row in rows
            if not row.crossed
        }
        case = _Case(
            draft=draft,
            found=found,
            data=data,
            counts=counts,
            system=system,
            design=design,
            full=full,
            context=context,
        )
        for term in design.attributes:
            _add_term(case, term, told.get(term.name, []), next((row for row in rows if row.by == term.name), None))
    return found


def _full_model(
    draft: Draft, found: Adjusted, data: Utterances, counts: Counts, system: int, design: Design
) -> Model | None:
    """Fit the model with all terms of one system, warn of those it lacks, and of why where there is none."""
    where, name = place(data, counts, system), data.systems[system]
    if not design.attributes:
        draft.warn(
            "not-adjusted",
            f"{name} has no attribute of two levels with enough {data.unit}, words and errors among the clips of the "
            "model: nothing is adjusted.",
            **where,
        )
        return None
    found.left_out[system] = design.left_out
    _warn_of_columns(draft, data, design, name, where)
    try:
        return design.fit([term.name for term in design.terms])
    except NotFitted as reason:
        draft.warn(
            "not-adjusted",
            f"The adjusted model of {name} cannot be fitted: {reason}. Gaps are not adjusted; leave out an attribute "
            "or control that says the same as another, or unite levels.",
            **where,
        )
        return None


def _warn_of_columns(draft: Draft, data: Utterances, design: Design, system: str, where: dict[str, Any]) -> None:
    """Tell which columns are not held fixed, and which only in part."""
    for term in design.left_out:
        if term not in design.small:
            draft.warn(
                "term-left-out",
                f"{term} has no two levels with enough {data.unit}, words and errors, or values, among the clips of "
                f"the model of {system}: it is not held fixed, and has no adjusted gap.",
                **where,
            )
    for term, found in design.small.items():
        few = (
            f"{term} has {many(found.levels, 'level', 'levels')}, {found.pooled} of them, with {found.clips:,} of "
            f"{found.of:,} clips, of too few {data.unit}, words or errors for the model of {system}"
        )
        if term in design.left_out:
            told = "there would be next to nothing to hold fixed, and it is not. Unite levels with --values"
            draft.warn("term-left-out", f"{few}: {told}, or give plain numbers.", **where)
        else:
            what = "these clips are not in the model" if term in data.controls else "these count as one level"
            draft.warn("small-levels", f"{few}: {what}.", **where)


def _add_term(case: _Case, term: Term, told: Sequence[tuple[str, str]], plain: GapRow | None) -> None:
    try:
        alone = case.design.fit([term.name])
    except NotFitted as reason:
        case.draft.warn(
            "not-adjusted",
            f"The model of {case.data.systems[case.system]} with {term.name} alone cannot be fitted: {reason}.",
            **place(case.data, case.counts, case.system, by=term.name),
        )
        return
    columns = [case.full.columns[term.name, level] for level in term.shown]
    case.found.held_words[case.system, term.name] = tuple(other.words for other in case.others(term))
    case.found.p[case.system, term.name] = wald_test(case.full.fit, columns)
    _add_adjusted_gap(case, term, plain)
    pairs = [(level, term.reference) for level in term.shown]
    for groups in told:
        one, other = (name.partition("=")[2] for name in groups)
        if {one, other} <= {term.reference, *term.shown}:
            pairs.append((one, other))
    for pair in dict.fromkeys(pairs):
        rung = _rung(case, term, pair, alone)
        case.found.rungs.append(rung)
        if rung.shown and rung.held:
            _judge_rung(case, rung, term)
            _add_strata(case, rung)


def _rung(case: _Case, term: Term, pair: tuple[str, str], alone: Model) -> Rung:
    where = {"attribute": term.name, "level": pair[0], "reference": pair[1]}
    before, after = (_contrast(model, term.name, pair) for model in (alone, case.full))
    ends, places = [], []
    for model, row, adjusted in ((alone, before, "no"), (case.full, after, "yes")):
        ends.append(coefficient_interval(model.fit, row, level=case.context.level))
        ratio = unscaled("ratio", ends[-1])
        places.append(case.add("rate_ratio", ratio, GEE, model.fit.clusters, **where, adjusted=adjusted))
    rung = Rung(
        system=case.system,
        attribute=term.name,
        level=pair[0],
        reference=pair[1],
        marginal=ends[0],
        adjusted=ends[1],
        places=(places[0], places[1]),
        held=tuple(other.name for other in case.others(term)),
        held_words=tuple(other.words for other in case.others(term)),
    )
    if rung.held:
        rung.faded = attenuation(alone.fit, before, case.full.fit, after, level=case.context.level)
        case.add("attenuation", rung.faded, ATTENUATION, case.full.fit.clusters, **where)
        rung.share = share_left(alone.fit, before, case.full.fit, after, level=case.context.level)
        if rung.share is not None:
            case.add("share_left", rung.share, SHARE, case.full.fit.clusters, **where)
    return rung


def _contrast(model: Model, name: str, pair: tuple[str, str]) -> Floats:
    """Return the coefficients of the model's log ratio of two levels; the model's reference has no column."""
    fit, columns, _ = model
    row = np.zeros(len(fit.coefficients))
    for level, sign in zip(pair, (1.0, -1.0), strict=True):
        if (name, level) in columns:
            row[columns[name, level]] = sign
    return row


def _judge_rung(case: _Case, rung: Rung, term: Term) -> None:
    """Say within which levels the difference turns, and what explains the loss where it is beyond chance."""
    sign = 1.0 if rung.marginal[0] > 0 else -1.0
    pair = (rung.level, rung.reference)
    rung.strata = strata_of(case.data, case.counts, case.design, case.system, (term.name, *pair), case.context)
    rung.turned_by = turned(rung.strata, sign)
    # The end of the loss that is nearer to no loss, counted in the direction of the difference.
    if (rung.faded[1] if sign > 0 else -rung.faded[2]) <= 0:
        return
    taken: dict[str, float] = {}
    for other in rung.held:
        try:
            model = case.design.fit([term.name, other])
        except NotFitted:
            continue
        taken[other] = sign * (rung.marginal[0] - float(model.fit.coefficients @ _contrast(model, term.name, pair)))
    ranked = sorted((name for name in taken if taken[name] > 0), key=lambda name: -taken[name])
    whole = sign * rung.faded[0]
    shares = np.cumsum([taken[name] for name in ranked])
    enough = int(np.searchsorted(shares, MOST * whole)) + 1
    # Where no term takes any of it on its own, all of them together do.
    rung.explained_by = tuple(ranked[:enough]) or rung.held


def _add_adjusted_gap(case: _Case, term: Term, plain: GapRow | None) -> None:
    """Add the adjusted gap of the worst and the best level, as ratio, relative and absolute.

    Where nothing else is in the model, both gaps are one question: the adjusted interval then holds the plain one.
    """
    model, design = case.full, case.design
    levels = (term.reference, *term.shown)
    labels = case.data.labels(term.name)[design.rows]
    logs = np.stack([_contrast(model, term.name, (name, term.reference)) for name in levels])
    inside = np.select([labels == name for name in levels], list(range(len(levels))), -1)
    rates = adjusted_rates(model.fit, logs, design.sizes, inside)
    worst = int(np.argmax(rates.value))
    best = int(np.argmin(np.where(np.arange(len(levels)) == worst, np.inf, rates.value)))
    case.found.extremes[case.system, term.name] = (f"{term.name}={levels[worst]}", f"{term.name}={levels[best]}")
    errors, sizes = (np.bincount(design.clusters, part) for part in (design.errors, design.sizes))
    top = max(1.0, float((errors / np.maximum(sizes, 1.0)).max()))
    log_ends, absolute = adjusted_gap(model.fit, rates, (worst, best), level=case.context.level, top=top)
    kinds: dict[Kind, Ends] = {
        "absolute": absolute,
        "ratio": unscaled("ratio", log_ends),
        "relative": unscaled("relative", log_ends),
    }
    for kind, ends in kinds.items():
        if plain is not None and not case.others(term):
            ends = _with_plain(case, term, plain, kind, ends)
        where = {"by": term.name, "kind": kind, "adjusted": "yes"}
        at = case.add(name_of(kind), ends, GEE_PAIRS, model.fit.clusters, **where)
        case.found.gap[case.system, term.name, kind] = at


def _with_plain(case: _Case, term: Term, plain: GapRow, kind: Kind, ends: Ends) -> Ends:
    """Return the ends, farther out where those of the plain gap of the same two groups are."""
    system, pair = case.system, case.found.extremes[case.system, term.name]
    if pair != (plain.worst[system], plain.best[system]) or (system, kind) not in plain.gap:
        return ends
    other = case.draft.estimates[plain.gap[system, kind]]
    if other.low is None or other.high is None:
        return ends
    return ends[0], min(ends[1], other.low), max(ends[2], other.high)


def _add_strata(case: _Case, rung: Rung) -> None:
    where = {"attribute": rung.attribute, "level": rung.level, "reference": rung.reference}
    for stratum, ends in rung.strata.items():
        ratio = unscaled("ratio", ends)
        case.add("stratum_ratio", ratio, LINEARISED, case.data.people, **where, within=stratum)
