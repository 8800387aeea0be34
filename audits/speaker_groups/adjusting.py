"""Adjusted gaps: with the other attributes and the controls held fixed, and the share of a gap that remains.

A Poisson model of errors with words as offset and speakers as clusters (Liu, Veliche and Peng 2021 use its mixed
form): with one attribute alone, the marginal ratios; with everything, the adjusted ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined, exact
from audits.core.wording import many
from audits.speaker_groups import Options
from audits.speaker_groups.counts import Floats, MetricCounts, Utterances
from audits.speaker_groups.designs import Design, Model, Term, design_of
from audits.speaker_groups.gaps import Comparison, name_of
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

GEE = "Poisson GEE, clusters of speakers, Student t"
GEE_PAIRS = "Poisson GEE, clusters of speakers, simultaneous over all pairs of levels"
SHARE = "Fieller, of two Poisson GEE models of the same clips, paired over clusters"
ATTENUATION = "difference of two Poisson GEE models of the same clips, paired over clusters"
LINEARISED = "Student t, linearised over clusters"
HALF = 0.5
MOST = 0.8
"""Share of what the adjustment took away that the terms named as its explanation take on their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One level against the reference: marginal, within strata of other attributes, adjusted.

    Parameters
    ----------
    marginal, adjusted
        Log rate ratios with their ends.
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
    faded: Ends = (0.0, 0.0, 0.0)
    strata: Mapping[str, Ends] = field(default_factory=dict)
    share: Ends | None = None
    held: tuple[str, ...] = ()
    held_words: tuple[str, ...] = ()
    turned_by: str = ""
    explained_by: tuple[str, ...] = ()

    @property
    def where(self) -> dict[str, str]:
        """Coordinates of its estimates, besides system and metric."""
        return {"attribute": self.attribute, "level": self.level, "reference": self.reference}

    @property
    def shown(self) -> bool:
        """Whether the interval of the marginal difference excludes zero."""
        return self.marginal[1] > 0 or self.marginal[2] < 0

    @property
    def spurious(self) -> bool:
        """Whether adjusting removes more than half of the difference, beyond chance."""
        return bool(self.explained_by) and self.share is not None and self.share[2] < HALF


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedTerm:
    """Results of one system's models for one attribute.

    Parameters
    ----------
    failed
        Why there is no model with this attribute alone; then there is nothing else either.
    p
        Of all its levels erring alike, with everything else held fixed.
    extremes
        The worst and the best group after adjusting.
    gaps
        Their adjusted gap.
    held_words
        How everything else is held fixed.
    """

    name: str
    failed: str = ""
    p: float = 1.0
    extremes: tuple[str, str] = ("", "")
    gaps: Mapping[Kind, Interval] = field(default_factory=dict)
    held_words: tuple[str, ...] = ()
    rungs: tuple[Rung, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """The models of one system: `full` has all terms, and is None where there is none, since it `failed`."""

    system: int
    design: Design
    full: Model | None = None
    failed: str = ""
    terms: tuple[AdjustedTerm, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that could not be held fixed."""
        return self.design.left_out if self.design.attributes else ()

    def term(self, name: str) -> AdjustedTerm | None:
        """Return the models' results for an attribute; None where there are none."""
        return next((term for term in self.terms if term.name == name and not term.failed), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One system with its fitted model, the input of all steps below."""

    data: Utterances
    counts: MetricCounts
    system: int
    design: Design
    full: Model
    level: float

    def others(self, term: Term) -> tuple[Term, ...]:
        """Return the terms that are held fixed for a term."""
        return tuple(other for other in self.design.terms if other.name != term.name)


def adjust_gaps(
    data: Utterances, counts: MetricCounts, comparisons: Sequence[Comparison], options: Options, level: float
) -> tuple[Adjustment, ...]:
    """Fit the models of every system: ratios, adjusted gaps, and what the adjustment takes away.

    Every level is set against the reference of its attribute, and the worst group of a gap against the best one.
    """
    found = []
    for system in range(len(data.systems)):
        design = design_of(data, counts, system, options)
        if not design.attributes:
            found.append(Adjustment(system=system, design=design))
            continue
        try:
            full = design.fit([term.name for term in design.terms])
        except NotFitted as reason:
            found.append(Adjustment(system=system, design=design, failed=str(reason)))
            continue
        case = _Case(data=data, counts=counts, system=system, design=design, full=full, level=level)
        terms = []
        for term in design.attributes:
            plain = next((item for item in comparisons if item.by == term.name), None)
            # The pairs that findings may be about, beside every level against the reference.
            pairs = [plain.extremes[system], plain.tested_pair(system, options.hypothesis)] if plain else []
            terms.append(_adjusted_term(case, term, pairs, plain))
        found.append(Adjustment(system=system, design=design, full=full, terms=tuple(terms)))
    return tuple(found)


def _adjusted_term(case: _Case, term: Term, more: Sequence[tuple[str, str]], plain: Comparison | None) -> AdjustedTerm:
    try:
        alone = case.design.fit([term.name])
    except NotFitted as reason:
        return AdjustedTerm(name=term.name, failed=str(reason))
    pairs = [(level, term.reference) for level in term.shown]
    for groups in more:
        one, other = (name.partition("=")[2] for name in groups)
        if {one, other} <= {term.reference, *term.shown}:
            pairs.append((one, other))
    extremes, gaps = _adjusted_gaps(case, term, plain)
    return AdjustedTerm(
        name=term.name,
        p=wald_test(case.full.fit, [case.full.columns[term.name, level] for level in term.shown]),
        extremes=extremes,
        gaps=gaps,
        held_words=tuple(other.words for other in case.others(term)),
        rungs=tuple(_rung(case, term, pair, alone) for pair in dict.fromkeys(pairs)),
    )


def _rung(case: _Case, term: Term, pair: tuple[str, str], alone: Model) -> Rung:
    before, after = (_contrast(model, term.name, pair) for model in (alone, case.full))
    rung = Rung(
        system=case.system,
        attribute=term.name,
        level=pair[0],
        reference=pair[1],
        marginal=coefficient_interval(alone.fit, before, level=case.level),
        adjusted=coefficient_interval(case.full.fit, after, level=case.level),
        held=tuple(other.name for other in case.others(term)),
        held_words=tuple(other.words for other in case.others(term)),
    )
    if not rung.held:
        return rung
    models = alone.fit, before, case.full.fit, after
    rung = replace(rung, faded=attenuation(*models, level=case.level), share=share_left(*models, level=case.level))
    return _explained(case, rung, term) if rung.shown else rung


def _contrast(model: Model, name: str, pair: tuple[str, str]) -> Floats:
    """Return the coefficients of the model's log ratio of two levels; the model's reference has no column."""
    fit, columns, _ = model
    row = np.zeros(len(fit.coefficients))
    for level, sign in zip(pair, (1.0, -1.0), strict=True):
        if (name, level) in columns:
            row[columns[name, level]] = sign
    return row


def _explained(case: _Case, rung: Rung, term: Term) -> Rung:
    """Return a rung with its strata, the attribute within which its sign turns, and what explains it."""
    sign = 1.0 if rung.marginal[0] > 0 else -1.0
    pair = (rung.level, rung.reference)
    strata = strata_of(case.data, case.design, (term.name, *pair), case.level)
    rung = replace(rung, strata=strata, turned_by=turned(strata, sign))
    # The end of the loss that is nearer to no loss, counted in the direction of the difference.
    if (rung.faded[1] if sign > 0 else -rung.faded[2]) <= 0:
        return rung
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
    return replace(rung, explained_by=tuple(ranked[:enough]) or rung.held)


def _adjusted_gaps(case: _Case, term: Term, plain: Comparison | None) -> tuple[tuple[str, str], dict[Kind, Interval]]:
    """Return the worst and the best level with their adjusted gap, as absolute, ratio and relative.

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
    pair = (f"{term.name}={levels[worst]}", f"{term.name}={levels[best]}")
    errors, sizes = (np.bincount(design.clusters, part) for part in (design.errors, design.sizes))
    top = max(1.0, float((errors / np.maximum(sizes, 1.0)).max()))
    log_ends, absolute = adjusted_gap(model.fit, rates, (worst, best), level=case.level, top=top)
    kinds: dict[Kind, Ends] = {
        "absolute": absolute,
        "ratio": unscaled("ratio", log_ends),
        "relative": unscaled("relative", log_ends),
    }
    if plain is not None and not case.others(term) and pair == plain.extremes[case.system]:
        kinds = {kind: _with_plain(plain, case.system, kind, ends) for kind, ends in kinds.items()}
    return pair, {kind: case.data.interval(ends, GEE_PAIRS, model.fit.clusters) for kind, ends in kinds.items()}


def _with_plain(plain: Comparison, system: int, kind: Kind, ends: Ends) -> Ends:
    """Return the ends, widened to those of the unadjusted gap of the same two groups."""
    other = plain.gap(system, kind)
    if isinstance(other, Undefined) or other.low is None or other.high is None:
        return ends
    return ends[0], min(ends[1], other.low), max(ends[2], other.high)


def add_adjusted(draft: Draft, data: Utterances, counts: MetricCounts, adjustment: Adjustment) -> None:
    """Add the estimates of one system's models, and warn of what they lack or why there are none."""
    design, where, name = adjustment.design, data.where(counts, adjustment.system), data.systems[adjustment.system]
    if not design.attributes:
        draft.warn(
            "not-adjusted",
            f"{name} has no attribute of two levels with enough {data.unit}, words and errors among the clips of the "
            "model: nothing is adjusted.",
            **where,
        )
        return
    _warn_of_columns(draft, data, design, name, where)
    if adjustment.full is None:
        draft.warn(
            "not-adjusted",
            f"The adjusted regression of {name}'s errors cannot be fitted: {adjustment.failed}. Gaps are not adjusted; "
            "leave out an attribute or control that says the same as another, or unite levels.",
            **where,
        )
        return
    fit = adjustment.full.fit
    # At the level of earlier reports: an exact number has none of its own.
    draft.add("overdispersion", exact(fit.dispersion, n=design.clips, unit="clips", level=0.95), **where)
    for term in adjustment.terms:
        if term.failed:
            message = f"The regression of {name}'s errors on {term.name} alone cannot be fitted: {term.failed}."
            draft.warn("not-adjusted", message, **where, by=term.name)
        for kind, gap in term.gaps.items():
            draft.add(name_of(kind), gap, **where, by=term.name, kind=kind, adjusted="yes")
        for rung in term.rungs:
            _add_rung(draft, data, rung, fit.clusters, where)


def _add_rung(draft: Draft, data: Utterances, rung: Rung, clusters: int, where: Mapping[str, str]) -> None:
    def add(name: str, ends: Ends, method: str, n: int = clusters, **more: str) -> None:
        draft.add(name, data.interval(ends, method, n), **where, **rung.where, **more)

    add("rate_ratio", unscaled("ratio", rung.marginal), GEE, adjusted="no")
    add("rate_ratio", unscaled("ratio", rung.adjusted), GEE, adjusted="yes")
    if rung.held:
        add("attenuation", rung.faded, ATTENUATION)
    if rung.share is not None:
        add("share_left", rung.share, SHARE)
    for stratum, ends in rung.strata.items():
        add("stratum_ratio", unscaled("ratio", ends), LINEARISED, data.people, within=stratum)


def _warn_of_columns(draft: Draft, data: Utterances, design: Design, system: str, where: Mapping[str, str]) -> None:
    """Warn of columns that are not held fixed, or only in part."""
    for term in design.left_out:
        if term not in design.small:
            draft.warn(
                "term-left-out",
                f"{term} has no two levels with enough {data.unit}, words and errors, or values, among the clips of "
                f"the regression of {system}'s errors: it is not held fixed, and has no adjusted gap.",
                **where,
            )
    for term, found in design.small.items():
        few = (
            f"{term} has {many(found.levels, 'level', 'levels')}, {found.pooled} of them, with {found.clips:,} of "
            f"{found.of:,} clips, of too few {data.unit}, words or errors in the regression of {system}'s errors"
        )
        if term in design.left_out:
            reason = "there would be next to nothing to hold fixed, and it is not. Unite levels with --values"
            draft.warn("term-left-out", f"{few}: {reason}, or give plain numbers.", **where)
        else:
            what = "these clips are not in it" if term in data.controls else "these count as one level"
            draft.warn("small-levels", f"{few}: {what}.", **where)
