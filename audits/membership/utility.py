"""How good are the models? One that learnt nothing leaks nothing, and its privacy is no achievement."""

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.membership import Options
from audits.membership.inputs import Inputs
from audits.membership.releases import Release
from audits.records import Estimate
from audits.statistics import generator, wilson
from audits.statistics.mean_intervals import mean_interval
from probes import knn
from probes.attacks.denoiser import Request, score_denoiser
from probes.attacks.samples import flat
from probes.loading.point_sets import PointSet
from probes.support_metrics import Side, balls, evaluate, ground, reach

STEPS = 10
"""Timesteps, evenly spaced, at which the loss on unseen points is taken."""
K = 5
MOST = 2000
"""Samples and reference points that are compared."""
Places = dict[tuple[str, str], int]


def utilities(draft: Draft, inputs: Inputs, options: Options, context: Context) -> Places:
    """Add how well each release does its work; return the places of the estimates by model and measure."""
    found: Places = {}
    for release in inputs.releases:
        if release.denoiser is not None:
            found[release.name, "held_out_loss"] = _loss(draft, release, inputs, options, context)
        if release.samples is not None:
            for name, place in _support(draft, release, inputs, context).items():
                found[release.name, name] = place
    return found


def _loss(draft: Draft, release: Release, inputs: Inputs, options: Options, context: Context) -> int:
    """Add the mean squared error of the predicted noise on non-members, over the whole schedule."""
    denoiser, pool = release.denoiser, inputs.pool
    assert denoiser is not None and pool.points is not None
    total = len(denoiser.alphas_bar)
    # The middles of equal stretches, so that no end of the schedule counts for more than its share.
    steps = sorted({int((place + 0.5) * total / STEPS) for place in range(STEPS)})
    others = np.flatnonzero(~pool.member)
    scores = score_denoiser(
        denoiser,
        pool.points.take(others),
        [Request("loss", step) for step in steps],
        seed=context.seed,
        draws=1,
        batch=options.batch,
        device=context.device,
        dtype=context.dtype,
        cache=context.cache,
        progress=context.progress,
        label="Loss on non-members",
        indices=others,
    )
    values = -np.mean(list(scores.values()), axis=0)
    made = mean_interval(values, level=context.level, positive=True)
    if made is None:
        why = "Every non-member has the same loss: that tells nothing of how others would differ."
        draft.warn("no-interval", why, **release.where)
    method, (low, high) = made or ("none", (None, None))
    return draft.add(
        Estimate(
            name="utility",
            value=float(values.mean()),
            low=low,
            high=high,
            level=context.level,
            method=method if made is None else f"{method}; squared error of the noise at {len(steps)} timesteps",
            n=len(values),
            unit="non-members",
            where={**release.where, "measure": "held_out_loss"},
        )
    )


def _support(draft: Draft, release: Release, inputs: Inputs, context: Context) -> dict[str, int]:
    """Add precision and recall of the samples against points that were not trained on."""
    samples, against = release.samples, inputs.reference
    assert samples is not None and inputs.pool.points is not None
    if against is None:
        against = inputs.pool.points.take(np.flatnonzero(~inputs.pool.member))
    size = min(len(samples), len(against), MOST)
    if size < 10 * K:
        where = {**release.where}
        draft.warn("few-samples", f"{size} samples and reference points are too few for precision and recall.", **where)
        return {}
    rows = [_drawn(one, size, role, context) for one, role in ((against, "reference"), (samples, "samples"))]
    own, others = (knn.points(part, rows[0].mean(0, dtype=np.float64)) for part in rows)
    sides = [Side(knn.neighbours(part, K), np.ones((1, size), dtype=np.int32)) for part in (own, others)]
    drawn = [balls(side, [K])[0] for side in sides]
    near = knn.pairs(own, others, reach([drawn[0]]), reach([drawn[1]]))
    scores = evaluate(ground(drawn[0]), drawn[1], near)
    found = {}
    for name in ("precision", "recall"):
        value = float(scores[name][0])
        low, high = wilson(round(value * size), size, level=context.level)
        found[name] = draft.add(
            Estimate(
                name="utility",
                value=value,
                low=min(low, value),
                high=max(high, value),
                level=context.level,
                method=f"{K} nearest neighbours, Wilson given the balls of the other side",
                n=size,
                unit="samples" if name == "precision" else "points",
                where={**release.where, "measure": name},
            )
        )
    return found


def _drawn(points: PointSet, size: int, role: str, context: Context) -> NDArray[np.float32]:
    """Return some points, laid flat, all of them different."""
    rng = generator(context.seed, "membership", "utility", role)
    rows = flat(points.take(np.sort(rng.permutation(len(points))[:size])), 0, size)
    if len(np.unique(rows, axis=0)) < size:
        # Copies have balls of no size; noise far below the scale of the data keeps every row a point of its own.
        rows = rows + rng.normal(scale=1e-5 * (float(rows.std()) + 1e-12), size=rows.shape).astype(np.float32)
    return rows
