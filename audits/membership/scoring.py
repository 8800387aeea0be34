"""The score that every attack gives every point, at the settings that other points or models chose."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from audits.context import Context
from audits.membership import Options
from audits.membership.pool import LEAST, Pool
from audits.membership.reading import Inputs
from audits.records import Warning
from audits.statistics.roc import Bools, Floats, area
from probes.attacks.likelihood_ratios import Ratios, count_gap, left_out, lira, rmia
from probes.errors import InputError
from probes.loading.membership_scores import ScoreSet, ShadowScores

if TYPE_CHECKING:
    # With torch behind it, which scores do not need.
    from probes.attacks.copies import Copies

SCORES = "scores"
"""Name of the attack where a file does not tell one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variants:
    """One attack at several settings.

    Parameters
    ----------
    settings
        Each in words.
    scores
        Shape (settings, n), higher for members.
    merits
        How well each setting does elsewhere, on shadow models; None: the choosing half has to tell.
    """

    name: str
    tier: str
    settings: tuple[str, ...]
    scores: Floats
    merits: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attack:
    """One attack's scores.

    Parameters
    ----------
    where
        The model, where there are several.
    setting
        In words; empty where there was nothing to set.
    scores
        Shape (n,), higher for members.
    member
        Shape (n,).
    judged
        The points that numbers may be taken from, shape (n,): not those that chose the setting.
    usable
        The points that have a score at all; None: all.
    """

    name: str
    tier: str
    where: Mapping[str, str] = field(default_factory=dict)
    setting: str
    scores: Floats
    member: Bools
    judged: Bools
    usable: Bools | None = None

    @property
    def model(self) -> str:
        """The model that is attacked; empty where there is one."""
        return self.where.get("model", "")

    def half(self, chooses: Bools) -> tuple[Bools, Bools]:
        """Return the points that choose and the points that are left, of those that have a score."""
        there = np.ones(len(chooses), dtype=np.bool_) if self.usable is None else self.usable
        return chooses & there, ~chooses & there

    @property
    def label(self) -> str:
        """Return what a sentence calls it."""
        return f"{self.name} on {self.where['model']}" if self.where else self.name


@dataclass(slots=True, kw_only=True)
class Scored:
    """All attacks of a run, and the warnings that came up on the way.

    `copies` are by model, under an empty name where there is one, of those whose samples were given.
    """

    attacks: list[Attack] = field(default_factory=list)
    copies: dict[str, "Copies"] = field(default_factory=dict)
    warnings: list[Warning] = field(default_factory=list)

    def warn(self, id: str, message: str, **where: str) -> None:
        """Keep a warning."""
        self.warnings.append(Warning(id=id, message=message, where=where))


def model_where(model: str) -> dict[str, str]:
    """Return the coordinates of the numbers of a model; none where it is the only one."""
    return {"model": model} if model else {}


def score(inputs: Inputs, options: Options, context: Context) -> Scored:
    """Run or read every attack."""
    found = Scored()
    if isinstance(inputs.given, ScoreSet):
        for name, scores in inputs.given.scores.items():
            found.attacks.append(_given(name, scores, inputs.pool, options.tier))
    elif isinstance(inputs.given, ShadowScores):
        _from_models(found, inputs.given, inputs.pool, options)
    else:
        from audits.membership.attacking import attack_all

        attack_all(found, inputs, options, context)
    if inputs.given is not None and options.attack:
        found.attacks = [one for one in found.attacks if one.name in options.attack]
    return found


def settle_on(variants: Variants, pool: Pool, where: Mapping[str, str]) -> Attack:
    """Choose a setting on shadow models or on the choosing half, and judge it on the points that had no say."""
    judged = np.ones(len(pool), dtype=np.bool_)
    chosen, how = 0, ""
    if len(variants.settings) > 1:
        if variants.merits is not None:
            chosen, how = int(np.argmax(variants.merits)), ", chosen on shadow models"
        else:
            half = pool.chooses
            merits = [area(row[half], pool.member[half]).value for row in variants.scores]
            chosen, how = int(np.argmax(merits)), ", chosen on the other half"
            judged = ~half
    return Attack(
        name=variants.name,
        tier=variants.tier,
        where=where,
        setting=f"{variants.settings[chosen]}{how}",
        scores=np.asarray(variants.scores[chosen], dtype=np.float64),
        member=pool.member,
        judged=judged,
    )


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


TINY = 1e-45
"""Probability below which none is taken to be: float32's smallest."""


def _add_ratio(found: Scored, name: str, ratios: Ratios, pool: Pool, tier: str) -> None:
    """Add the scores of those that have one; the others are not judged, and too few are no attack."""
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
    """Warn where the number of shadow models tells who is a member, whatever the scores."""
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
