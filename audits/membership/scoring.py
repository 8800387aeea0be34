"""Attacks: a score for every point, at a setting chosen on other points or models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from audits.core.records import Warning
from audits.membership.pool import Pool
from audits.statistics.roc import Bools, Floats, area

if TYPE_CHECKING:
    # With torch behind it, which scores do not need.
    from probes.generators.attacks.copies import Copies


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
    """The scores of one attack.

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
        """Return its name in a sentence."""
        return f"{self.name} on {self.where['model']}" if self.where else self.name


@dataclass(slots=True, kw_only=True)
class Scored:
    """All attacks of a run, and the warnings from making them.

    `copies` are by model, under an empty name where there is one, of those whose samples were given.
    """

    attacks: list[Attack] = field(default_factory=list)
    copies: dict[str, "Copies"] = field(default_factory=dict)
    warnings: list[Warning] = field(default_factory=list)

    def warn(self, id: str, message: str, **where: str) -> None:
        """Keep a warning."""
        self.warnings.append(Warning(id=id, message=message, where=where))


def model_where(model: str) -> dict[str, str]:
    """Return the key of a model; none where it is the only one."""
    return {"model": model} if model else {}


def settle_on(variants: Variants, pool: Pool, where: Mapping[str, str]) -> Attack:
    """Choose a setting on shadow models or on the choosing half, and judge it on the other points."""
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
