"""The counts of the audit: what was scored and measured, from which the report is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from audits.core.context import Context
from audits.core.intervals import Interval, Undefined
from audits.core.records import Warning
from audits.membership import Options
from audits.membership.blind import compare_blindly
from audits.membership.bounding import Bounds, bound_all
from audits.membership.claims import Claim
from audits.membership.copying import Copying, copies_of
from audits.membership.given_scores import take_scores
from audits.membership.hit_ratios import Hit, hits_of
from audits.membership.leaks import Difference, Leak, gaps_of, leaks_of
from audits.membership.pool import Pool
from audits.membership.rates import Judged, judge_all
from audits.membership.reading import Inputs
from audits.membership.scoring import Attack, Scored
from audits.statistics.roc import Area

if TYPE_CHECKING:
    # With torch behind it, which scores do not need.
    from probes.generators.attacks.copies import Copies


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """The scores and measurements; what follows from them is computed once, when first needed.

    Parameters
    ----------
    attacks
        The scores of each attack.
    copies
        What samples repeat, by model.
    blind
        By classifier, how well it tells members from non-members without the model; empty where nobody looked.
    utilities
        How well each model does its work, by model and measure.
    warnings
        What came up while attacks were made.
    """

    inputs: Inputs
    options: Options
    level: float
    seed: int
    attacks: tuple[Attack, ...]
    copies: Mapping[str, "Copies"] = field(default_factory=dict)
    blind: Mapping[str, Area] = field(default_factory=dict)
    utilities: Mapping[tuple[str, str], Interval | Undefined] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()

    @property
    def pool(self) -> Pool:
        """The points that are audited."""
        return self.inputs.pool

    @property
    def claims(self) -> Mapping[str, Claim]:
        """The claims by model."""
        return self.inputs.claims

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """Hits and false alarms of every attack."""
        return judge_all(self.attacks, self.level, self.inputs.fprs)

    @cached_property
    def hits(self) -> list[Hit]:
        """The ratio of hits to false alarms at few false alarms, by attack."""
        return hits_of(self.judged, self.level)

    @cached_property
    def copying(self) -> list[Copying]:
        """The copies of members and of non-members, by model and measure of a copy."""
        return copies_of(self.copies, self.pool.member)

    @cached_property
    def bounds(self) -> list[Bounds]:
        """The bounds of epsilon, by attack."""
        return bound_all(self.judged, self.pool, self.options, self.claims, level=self.level, seed=self.seed)

    @cached_property
    def leaks(self) -> list[Leak]:
        """The best attack of each model with each access."""
        return leaks_of(self.judged, self.pool, self.inputs.models)

    @cached_property
    def gaps(self) -> list[Difference]:
        """The differences between models."""
        return gaps_of(self.leaks, self.level)


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Run or read every attack, compare the points without the model, and measure the utility of models."""
    scored = score(inputs, options, context)
    blind = compare_blindly(inputs.blind, context) if options.blind and inputs.blind is not None else {}
    utilities: Mapping[tuple[str, str], Interval | Undefined] = {}
    if inputs.given is None:
        # Of models only: a file of scores needs no torch.
        from audits.membership.utility import utilities as measured

        utilities = measured(inputs, options, context)
    return Counts(
        inputs=inputs,
        options=options,
        level=context.level,
        seed=context.seed,
        attacks=tuple(scored.attacks),
        copies=scored.copies,
        blind=blind,
        utilities=utilities,
        warnings=tuple(scored.warnings),
    )


def score(inputs: Inputs, options: Options, context: Context) -> Scored:
    """Run or read every attack."""
    found = Scored()
    if inputs.given is not None:
        # There is nothing that parts could share.
        context.machines.join(last=True)
        take_scores(found, inputs.given, inputs.pool, options)
    else:
        # With torch behind it, which scores do not need.
        from audits.membership.attacking import attack_all, share

        if context.machines.part is not None:
            share(inputs, options, context)
        attack_all(found, inputs, options, context)
    return found
