"""Attacks on given scores: as they are, or likelihood ratios of one model with the others as its shadows."""

from collections.abc import Callable

import numpy as np

from audits.membership import Options
from audits.membership.membership_scores import ScoreSet, ShadowScores
from audits.membership.pool import LEAST, Pool
from audits.membership.scoring import Attack, Scored
from audits.statistics.roc import Bools, Floats
from probes.core.errors import InputError
from probes.generators.attacks.likelihood_ratios import Ratios, count_gap, left_out, lira, rmia

TINY = 1e-45
"""Probability below which none is taken to be: float32's smallest."""


def take_scores(found: Scored, given: ScoreSet | ShadowScores, pool: Pool, options: Options) -> None:
    """Add the attacks that scores allow, or those requested."""
    if isinstance(given, ScoreSet):
        found.attacks += [_given(name, scores, pool, options.tier) for name, scores in given.scores.items()]
    else:
        _from_models(found, given, pool, options)
    if options.attack:
        found.attacks = [one for one in found.attacks if one.name in options.attack]


def _given(name: str, scores: Floats, pool: Pool, tier: str) -> Attack:
    everybody = np.ones(len(pool), dtype=np.bool_)
    return Attack(name=name, tier=tier, setting="", scores=scores, member=pool.member, judged=everybody)


def _from_models(found: Scored, given: ShadowScores, pool: Pool, options: Options) -> None:
    """Attack the audited model of a file with the others as its shadows."""
    own = given.scores[given.target]
    found.attacks.append(_given("threshold", own.mean(axis=1), pool, options.tier))
    # Its complement is left out with it, or the number of models that hold a point would tell its members.
    chosen = left_out(given.keep, given.target)
    _check_counts(found, given, chosen)
    others, keep = given.scores[chosen], given.keep[chosen]
    made: dict[str, Callable[[], Ratios]] = {
        "lira-online": lambda: lira(own, others, keep, mode="online", variance="pooled"),
        "lira-offline": lambda: lira(own, others, keep, mode="offline", variance="pooled"),
    }
    reference = given.reference
    if reference is not None and given.scale == "probability":
        # A probability of 0, which float32 makes of the smallest ones, has no logarithm.
        logs = [np.log(np.maximum(part, TINY)) for part in (own.mean(1), others.mean(2), reference)]
        made["rmia"] = lambda: rmia(logs[0], logs[1], keep, logs[2][given.target], logs[2][chosen])
    for name, make in made.items():
        try:
            ratios = make()
        except InputError as error:
            found.warn("no-shadows", f"{name} was not made: {error.message}", attack=name)
            continue
        _add_ratio(found, name, ratios, pool, options.tier)


def _add_ratio(found: Scored, name: str, ratios: Ratios, pool: Pool, tier: str) -> None:
    """Add the scores of the points that have one; too few are no attack."""
    sides = [half & ratios.scored & (pool.member == kind) for half in (pool.chooses, ~pool.chooses) for kind in (0, 1)]
    # Each half of each side, since one chooses and the other is judged.
    if min(int(side.sum()) for side in sides) < LEAST // 2:
        text = f"{name} was not made: {int(ratios.scored.sum()):,} of {len(pool):,} points have enough other models."
        found.warn("no-shadows", text, attack=name)
        return
    # Any number would do for the others: `usable` keeps them out of all that is counted.
    scores = np.zeros(len(pool))
    scores[ratios.scored] = ratios.scores
    attack = Attack(
        name=name, tier=tier, setting="", scores=scores, member=pool.member, judged=ratios.scored, usable=ratios.scored
    )
    found.attacks.append(attack)


def _check_counts(found: Scored, given: ShadowScores, chosen: Bools) -> None:
    """Warn where the number of shadow models alone reveals who is a member."""
    gap = count_gap(given.keep, given.target, chosen)
    member = given.keep[given.target]
    spread = given.keep[chosen].sum(0).std()
    # Four standard errors of a difference of means: halves that were drawn at random stay below that.
    chance = 4 * spread * np.sqrt(1 / max(1, member.sum()) + 1 / max(1, (~member).sum()))
    if abs(gap) > max(chance, 1e-9):
        text = (
            f"Members of the audited model are in {gap:+.2f} more of the other models than non-members are: the counts "
            "alone tell them apart. Draw the halves of shadow models without regard to each other, or in complements."
        )
        found.warn("counts-tell", text)
