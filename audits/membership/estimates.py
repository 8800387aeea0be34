"""The estimates: rates of every attack, copies, bounds of epsilon, the blind comparison, and leaks."""

from dataclasses import replace

from audits.core.context import Draft
from audits.core.intervals import Interval, exact
from audits.core.numbers import point
from audits.membership.bounding import Bounds
from audits.membership.claims import CERTAIN
from audits.membership.copying import MEMBERS, OTHERS, Copying
from audits.membership.leaks import Leak
from audits.membership.measure import Counts
from audits.membership.pool import Bools
from audits.membership.rates import Judged, balanced, best_threshold, held_out, hit_rate, of_area
from audits.membership.scoring import model_where


def estimates(draft: Draft, counts: Counts) -> None:
    """Add the estimates of every attack, and those of models and accesses that follow from them."""
    for warning in counts.warnings:
        draft.warn(warning.id, warning.message, **warning.where)
    for one in counts.judged:
        add_rates(draft, one, counts.pool.chooses, counts.inputs.fprs)
    for model, claim in counts.claims.items():
        draft.add("epsilon_claimed", claim.interval, **model_where(model))
    for hit in counts.hits:
        draft.add("hit_ratio", hit.ratio, **hit.where)
    for copying in counts.copying:
        _add_copies(draft, copying)
    for bounds in counts.bounds:
        add_bounds(draft, bounds)
    _add_blind(draft, counts)
    for leak in counts.leaks:
        _add_leak(draft, leak)
    for gap in counts.gaps:
        draft.add("leakage_difference", gap.interval, **gap.where)
    for (model, measure), found in counts.utilities.items():
        if isinstance(found, Interval) and found.method == "none":
            why = "Every non-member has the same loss: that tells nothing of how others would differ."
            draft.warn("no-interval", why, **model_where(model))
        draft.add("utility", found, **model_where(model), measure=measure)


def add_rates(draft: Draft, one: Judged, chooses: Bools, fprs: tuple[float, ...]) -> None:
    """Add area, advantages and hits of an attack, with their warnings."""
    _add_area(draft, one)
    _add_thresholds(draft, one, chooses)
    _add_hits(draft, one, fprs)


def _add_area(draft: Draft, one: Judged) -> None:
    where = {**one.where, "tier": one.attack.tier}
    row = draft.add("auc", one.unless_constant(of_area(one.area, draft.level)), **where)
    if one.constant:
        text = f"All scores of {one.attack.label} are equal: they tell nobody apart, and nothing of what leaks."
        draft.warn("constant-scores", f"{text} Its numbers are those of a coin, without intervals.", **where)
    if one.flipped:
        text = (
            f"Scores of {one.attack.label} are higher for non-members (AUC {point(row)}): they are the wrong way "
            "round, or what the attack rests on does not hold here. They were not turned."
        )
        draft.warn("flipped", text, **where)
    usable = one.attack.usable
    if usable is not None and not usable.all():
        text = f"{int((~usable).sum()):,} of {len(usable):,} points have too few other models for {one.attack.label}."
        draft.warn("unscored", f"{text} They are left out of its numbers.", **one.where)


def _add_thresholds(draft: Draft, one: Judged, chooses: Bools) -> None:
    """Add the advantage of the best threshold, and of one chosen on the other half."""
    gains = {"": best_threshold(one, draft.level), "_held_out": held_out(one, chooses, draft.level)}
    for suffix, gain in gains.items():
        for name, found in (("advantage", gain), ("balanced_accuracy", balanced(gain))):
            draft.add(name + suffix, one.unless_constant(found), **one.where, tier=one.attack.tier)


def _add_hits(draft: Draft, one: Judged, fprs: tuple[float, ...]) -> None:
    """Add the share of members found at each rate of false alarms that the non-members can resolve."""
    for rate, call in one.calls.items():
        draft.add("tpr", one.unless_constant(hit_rate(call, draft.level)), **one.where, fpr=rate)
    coarse = [rate for rate in fprs if rate not in one.calls]
    if coarse:
        others = one.curve.others
        text = (
            f"{others:,} non-members, which {one.attack.label} is judged on, resolve rates of false alarms in steps of "
            f"{1 / others:.2g}: hits at {', '.join(f'{rate:g}' for rate in coarse)} are not told."
        )
        draft.warn("fpr-resolution", text, **one.where, fpr=min(coarse))


def _add_copies(draft: Draft, copying: Copying) -> None:
    """Add the shares of points that are repeated, and of samples that repeat."""
    for side in (MEMBERS, OTHERS):
        draft.add(f"copied_{side}", copying.copied(side, draft.level), **copying.where)
        draft.add("copies", copying.copies(side, draft.level), side=side, **copying.where)


def add_bounds(draft: Draft, bounds: Bounds) -> None:
    """Add the bounds of an attack, each with its ceiling, and the credible interval of epsilon."""
    where = bounds.judged.where
    for method, one in bounds.proved.items():
        draft.add("epsilon_lower", one.bound, **where, method=method, validity=one.validity)
        ceiling = exact(one.ceiling, n=one.bound.n, unit="points", level=CERTAIN)
        draft.add("epsilon_ceiling", ceiling, **where, method=method)
        if one.credible is not None:
            draft.add("epsilon_credible", one.credible, **where)


def _add_blind(draft: Draft, counts: Counts) -> None:
    """Add the areas of the classifiers that work without the model.

    Whichever does stops all verdicts, so that they share the error: both may err together as often as one.
    """
    several = len(counts.blind)
    for name, area in counts.blind.items():
        found = of_area(area, 1 - (1 - draft.level) / several)
        how = f"{found.method}, cross-fitted; error shared by {several} classifiers"
        draft.add("blind_auc", replace(found, method=how), classifier=name)


def _add_leak(draft: Draft, leak: Leak) -> None:
    if leak.says_nothing and not leak.judged.constant:
        text = f"All scores of {leak.judged.attack.label} that judge it are equal: they tell nothing of what leaks."
        draft.warn("constant-scores", text, **leak.where)
    draft.add("leakage", leak.interval(draft.level), **leak.where)
