"""Utility of the models: one that learnt nothing leaks nothing, and its privacy is no achievement."""

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.core.intervals import Interval, Undefined
from audits.membership import Options
from audits.membership.reading import Inputs
from audits.membership.releases import Release
from audits.membership.text_attacking import loss_on_nonmembers
from audits.statistics import generator, wilson
from audits.statistics.mean_intervals import mean_interval
from probes.core.spreading import as_a_job
from probes.generators.attacks.denoiser import Request, score_denoiser
from probes.generators.attacks.denoiser_jobs import Asked, compute_scores
from probes.generators.attacks.samples import flat
from probes.generators.diffusion import Denoiser
from probes.generators.point_sets import PointSet
from probes.vectors import knn
from probes.vectors.support_metrics import Side, balls, evaluate, prepare_reference, reach

STEPS = 10
"""Timesteps, evenly spaced, at which the loss on unseen points is taken."""
K = 5
MOST = 2000
"""Samples and reference points that are compared."""
SUPPORT = {"precision": "samples", "recall": "points"}
"""What each share of the supports is a share of."""
Utilities = dict[tuple[str, str], Interval | Undefined]
"""By model and measure."""


def utilities(inputs: Inputs, options: Options, context: Context) -> Utilities:
    """Return the utility of each release, by model and measure."""
    found: Utilities = {}
    for release in inputs.releases:
        if release.language is not None and not release.language.canaries:
            loss = loss_on_nonmembers(release.language, inputs.pool, options, context)
            found[release.name, "held_out_loss"] = loss
        if release.denoiser is not None:
            found[release.name, "held_out_loss"] = _loss(release, inputs, options, context)
        if release.samples is not None:
            found |= {(release.name, name): one for name, one in _support(release, inputs, context).items()}
    return found


def _loss(release: Release, inputs: Inputs, options: Options, context: Context) -> Interval:
    """Return the mean squared error of the predicted noise on non-members, over the whole schedule."""
    share_loss(release, inputs, options, context)
    denoiser, pool = release.denoiser, inputs.pool
    assert denoiser is not None and pool.points is not None
    others, asked = np.flatnonzero(~pool.member), _asked(denoiser, options, context)
    # A chunk that was damaged since is scored again, to the same bits.
    with as_a_job():
        scores = score_denoiser(
            denoiser,
            pool.points.take(others),
            **asked.call,
            cache=context.cache,
            progress=context.progress,
            label="Loss on non-members",
            indices=others,
        )
    steps = asked.requests
    values = -np.mean(list(scores.values()), axis=0)
    made = mean_interval(values, level=context.level, positive=True)
    method, (low, high) = made or ("none", (None, None))
    if made is not None:
        method += f"; squared error of the noise at {len(steps)} timesteps"
    return Interval(value=float(values.mean()), low=low, high=high, method=method, n=len(values), unit="non-members")


def share_loss(release: Release, inputs: Inputs, options: Options, context: Context) -> None:
    """Compute the loss of a denoiser on every non-member, or on those of this run's part."""
    denoiser, pool = release.denoiser, inputs.pool
    assert denoiser is not None and pool.points is not None
    others = np.flatnonzero(~pool.member)
    compute_scores(
        denoiser,
        pool.points.take(others),
        _asked(denoiser, options, context),
        cache=context.cache,
        progress=context.progress,
        label="Loss on non-members",
        machines=context.machines,
        indices=others,
    )


def _asked(denoiser: Denoiser, options: Options, context: Context) -> Asked:
    total = len(denoiser.alphas_bar)
    # The middles of equal stretches, so that no end of the schedule counts for more than its share.
    steps = sorted({int((part + 0.5) * total / STEPS) for part in range(STEPS)})
    return Asked(
        requests=tuple(Request("loss", step) for step in steps),
        seed=context.seed,
        draws=1,
        batch=options.batch,
        device=context.device,
        dtype=context.dtype,
    )


def _support(release: Release, inputs: Inputs, context: Context) -> dict[str, Interval | Undefined]:
    """Return precision and recall of the samples against points that were not trained on."""
    samples, against = release.samples, inputs.reference
    assert samples is not None and inputs.pool.points is not None
    if against is None:
        against = inputs.pool.points.take(np.flatnonzero(~inputs.pool.member))
    size = min(len(samples), len(against), MOST)
    if size < 10 * K:
        why = f"{size} samples and reference points are too few for precision and recall."
        return dict.fromkeys(SUPPORT, Undefined(why, id="few-samples", where=release.where))
    rows = [_drawn(one, size, role, context) for one, role in ((against, "reference"), (samples, "samples"))]
    own, others = (knn.points(part, rows[0].mean(0, dtype=np.float64)) for part in rows)
    sides = [Side(knn.neighbours(part, K), np.ones((1, size), dtype=np.int32)) for part in (own, others)]
    drawn = [balls(side, [K])[0] for side in sides]
    near = knn.pairs(own, others, reach([drawn[0]]), reach([drawn[1]]))
    scores = evaluate(prepare_reference(drawn[0]), drawn[1], near)
    return {name: _share(float(scores[name][0]), size, unit, context.level) for name, unit in SUPPORT.items()}


def _share(value: float, size: int, unit: str, level: float) -> Interval:
    low, high = wilson(round(value * size), size, level=level)
    method = f"{K} nearest neighbours, Wilson given the balls of the other side"
    return Interval(value=value, low=min(low, value), high=max(high, value), method=method, n=size, unit=unit)


def _drawn(points: PointSet, size: int, role: str, context: Context) -> NDArray[np.float32]:
    """Return a sample of distinct points, flattened."""
    rng = generator(context.seed, "membership", "utility", role)
    rows = flat(points.take(np.sort(rng.permutation(len(points))[:size])), 0, size)
    if len(np.unique(rows, axis=0)) < size:
        # Copies have balls of no size; noise far below the scale of the data keeps every row a point of its own.
        rows = rows + rng.normal(scale=1e-5 * (float(rows.std()) + 1e-12), size=rows.shape).astype(np.float32)
    return rows
