"""Blind comparison: where points alone tell members from non-members, no score says anything about the model."""

import numpy as np

from audits.core.context import Context
from audits.membership.pool import Pool
from audits.statistics import generator
from audits.statistics.roc import Area, area


def compare_blindly(pool: Pool, context: Context) -> dict[str, Area]:
    """Return the scores of classifiers that separate members from non-members by the points alone."""
    # With scikit-learn behind it, which scores do not need.
    from audits.membership.separability import blind_scores, blind_text_scores

    rng = generator(context.seed, "membership", "blind")
    if pool.texts is not None:
        scores, member = blind_text_scores(pool.texts, pool.member, rng=rng, progress=context.progress)
        return {name: area(own, member) for name, own in scores.items()}
    assert pool.points is not None
    everybody = np.arange(len(pool))
    scores, member = blind_scores(
        pool.points.take(everybody[pool.member]),
        pool.points.take(everybody[~pool.member]),
        rng=rng,
        progress=context.progress,
    )
    return {name: area(own, member) for name, own in scores.items()}
