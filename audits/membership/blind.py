"""Can members and non-members be told apart without the model? Then no score says anything about it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from audits.context import Context, Draft
from audits.membership.pool import Pool
from audits.records import Estimate
from audits.statistics import generator
from audits.statistics.roc import area, area_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """The places of the estimates, and of the one that shows a shift, if any does."""

    places: Mapping[str, int]
    shifted: int | None


def compare_blindly(draft: Draft, pool: Pool, context: Context) -> Blind:
    """Add how well each classifier tells members from non-members by the points alone; both share the error."""
    # With scikit-learn behind it, which scores do not need.
    from probes.separability import blind_scores

    assert pool.points is not None
    places = np.arange(len(pool))
    found = blind_scores(
        pool.points.take(places[pool.member]),
        pool.points.take(places[~pool.member]),
        rng=generator(context.seed, "membership", "blind"),
        progress=context.progress,
    )
    # Whichever classifier tells the sides apart stops all verdicts: both may err together as often as one.
    level = 1 - (1 - context.level) / len(found.scores)
    indices: dict[str, int] = {}
    worst: tuple[float, int] | None = None
    for name, scores in found.scores.items():
        met = area(scores, found.member)
        low, high, method = area_interval(met, level)
        indices[name] = draft.add(
            Estimate(
                name="blind_auc",
                value=met.value,
                low=min(low, met.value),
                high=max(high, met.value),
                level=context.level,
                method=f"{method}, cross-fitted; error shared by {len(found.scores)} classifiers",
                n=len(scores),
                unit="points",
                where={"classifier": name},
            )
        )
        if low > 0.5 and (worst is None or met.value > worst[0]):
            worst = met.value, indices[name]
    return Blind(places=indices, shifted=None if worst is None else worst[1])
