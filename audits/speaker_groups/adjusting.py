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
    all_pairs,
    attenuation,
    coefficient_interval,
    coefficient_p,
    generator,
    simultaneous_contrasts,
    unscaled,
    wald_test,
)
from audits.wording import many

GEE = "Poisson GEE, clusters of speakers, Student t"
GEE_PAIRS = "Poisson GEE, clusters of speakers, simultaneous over all pairs of levels"
ATTENUATION = "difference of two Poisson GEE models of the same clips, paired over clusters"
LINEARISED = "Student t, linearised over clusters"
DRAWS = 4000
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
    lost
        What the adjustment did away with: any of "size", "significance", "sign".
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
    lost: list[str] = field(default_factory=list)
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
        """Whether half of the marginal difference or more goes with what else differs, beyond chance.

        Where only its significance is lost, more than half of it may be there all the same.
        """
        return bool(self.explained_by) and self.lost != ["significance"]


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
            _add_term(case, term, told.get(term.name, []))
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


def _add_term(case: _Case, term: Term, told: Sequence[tuple[str, str]]) -> None:
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
    _add_adjusted_gap(case, term)
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
    """Say what the adjustment took away, and what explains it where the loss is beyond chance."""
    sign = 1.0 if rung.marginal[0] > 0 else -1.0
    pair = (rung.level, rung.reference)
    rung.strata = strata_of(case.data, case.counts, case.design, case.system, (term.name, *pair), case.context)
    if sign * rung.adjusted[0] < HALF * sign * rung.marginal[0]:
        rung.lost.append("size")
    if coefficient_p(case.full.fit, _contrast(case.full, term.name, pair)) >= 1 - case.context.level:
        rung.lost.append("significance")
    rung.turned_by = turned(rung.strata, sign)
    if rung.turned_by:
        rung.lost.append("sign")
    # The end of the loss that is nearer to no loss, counted in the direction of the difference.
    least = rung.faded[1] if sign > 0 else -rung.faded[2]
    if not rung.lost or least <= 0:
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


def _add_adjusted_gap(case: _Case, term: Term) -> None:
    """Add the adjusted gap of the worst and the best level, as ratio, relative and absolute.

    Absolute: rates with the adjusted ratios that, over the words heard of each level, make as many errors as there
    were (indirect standardisation).
    """
    fit, columns, _ = case.full
    design, level = case.design, case.context.level
    levels = [term.reference, *term.shown]
    rng = generator(case.context.seed, "adjusted", case.counts.metric, term.name)
    chosen = [columns[term.name, name] for name in term.shown]
    covariance = fit.covariance[np.ix_(chosen, chosen)]
    drawn = rng.multivariate_normal(fit.coefficients[chosen], covariance, size=DRAWS, method="eigh")
    # Row 0 is the estimate, the rest are draws; column 0 is the reference, whose log ratio is 0.
    logs = np.concatenate([np.zeros((DRAWS + 1, 1)), np.vstack([fit.coefficients[chosen], drawn])], axis=1)
    labels = case.data.labels(term.name)[design.rows]
    words = np.array([design.sizes[labels == name].sum() for name in levels])
    errors = sum(design.errors[labels == name].sum() for name in levels)
    rates = np.exp(logs) * (errors / (np.exp(logs) @ words))[:, None]
    people = np.array([len(np.unique(design.clusters[labels == name])) for name in levels])
    worst = int(np.argmax(logs[0]))
    best = int(np.argmin(np.where(np.arange(len(levels)) == worst, np.inf, logs[0])))
    case.found.extremes[case.system, term.name] = (f"{term.name}={levels[worst]}", f"{term.name}={levels[best]}")
    pairs, mine = all_pairs(len(levels), worst, best)
    log_ends = simultaneous_contrasts(logs[0], logs[1:], pairs, people, level=level).at(mine)
    absolute = simultaneous_contrasts(rates[0], rates[1:], pairs, people, level=level).at(mine)
    kinds: dict[Kind, Ends] = {
        "absolute": absolute,
        "ratio": unscaled("ratio", log_ends),
        "relative": unscaled("relative", log_ends),
    }
    for kind, ends in kinds.items():
        where = {"by": term.name, "kind": kind, "adjusted": "yes"}
        case.found.gap[case.system, term.name, kind] = case.add(name_of(kind), ends, GEE_PAIRS, fit.clusters, **where)


def _add_strata(case: _Case, rung: Rung) -> None:
    where = {"attribute": rung.attribute, "level": rung.level, "reference": rung.reference}
    for stratum, ends in rung.strata.items():
        ratio = unscaled("ratio", ends)
        case.add("stratum_ratio", ratio, LINEARISED, case.data.people, **where, within=stratum)
