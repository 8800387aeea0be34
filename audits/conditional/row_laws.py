"""What one candidate's laws give on a block of rows, by the kind of law."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audits.conditional.central_intervals import central_of, central_pair, quantiles_of, ranks_outside, width_of
from audits.conditional.counts import Rows
from audits.conditional.draws import untested
from audits.conditional.rank_tests import FOLDED
from probes.conditional.laws import Candidate, Floats, Ints, Truth
from probes.conditional.quantisers import fitted_points, nearest, normal_quantiser
from probes.conditional.ranks import Projections, pits
from probes.conditional.scores import (
    distances,
    fair_crps,
    fair_energy,
    interval_score,
    normal_crps,
    normal_log,
    pinball,
    self_gap,
    spread_and_error,
    variogram,
    weighted_energy,
)
from probes.conditional.wasserstein import conditional, of_points

FEWEST_DRAWS, NORMAL_DRAWS = 3, 100
"""Draws for each point that is fitted to them, and draws that stand for a normal law where no formula is known."""
LOOKED_AT = 2000
"""Rows of different inputs, at most, that are looked at to see whether samples are draws."""


@dataclass(frozen=True, slots=True)
class Block:
    """The laws of rows from `start` to `stop`, by the names of `KEYS`; a normal law with draws beside."""

    start: int
    stop: int
    arrays: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all candidates are measured with.

    Parameters
    ----------
    y, scale
        Outcomes in the scale of distances, shape (n, d), and that scale by column.
    swaps
        Rows whose outcomes stand in for the own one, shape (exchanges, n).
    pairs
        Pairs of columns whose variogram is scored.
    levels, score_level, score_levels
        Levels of coverage; those of intervals and quantiles that some candidate gives, which are scored of all.
    points, chosen
        Numbers of points, and the rows on whose draws points are fitted.
    modes, radius
        As given, in the scale of the file.
    """

    y: Floats
    scale: Floats
    swaps: Ints
    projected: Projections
    pairs: Ints
    levels: tuple[float, ...]
    score_level: float | None
    score_levels: Floats | None
    points: tuple[int, ...]
    chosen: Ints
    modes: Floats | None
    radius: float
    directions: Floats
    clusters: Ints
    truth: Truth

    def in_mode(self) -> Floats | None:
        """Return whether y lies within the radius of each mode, shape (n, modes)."""
        if self.modes is None:
            return None
        near = np.linalg.norm(self.modes - (self.y * self.scale)[:, None], axis=2) <= self.radius
        return np.asarray(near, dtype=np.float64)

    def oracle_of(self, block: "Block") -> Floats | None:
        """Return draws of the true law of a block's rows in the scale of distances, where there are such."""
        return None if self.truth.oracle is None else self.truth.oracle(block.start, block.stop) / self.scale

    def exchange(self, score: str, at: tuple[float, ...], blocks: Iterator["Block"]) -> Floats:
        """Return the contributions of `exchanged` for laws of draws by a kind of score, at its level or levels."""
        own, crossed = [], []
        for block in blocks:
            made = _score_of(score, at, block.arrays["samples"])
            here = slice(block.start, block.stop)
            own.append(made(self.y[here]))
            crossed.append(np.stack([made(self.y[swap[here]]) for swap in self.swaps]))
        return exchanged(np.concatenate(own), np.concatenate(crossed, axis=1), self.swaps)


def _score_of(score: str, at: tuple[float, ...], draws: Floats) -> Callable[[Floats], Floats]:
    if score == "quantile":
        levels = np.array(at)
        quantiles = quantiles_of(draws, levels)
        return lambda y: pinball(y, quantiles, levels)
    if score == "interval":
        ends = central_of(draws, at[0])
        return lambda y: interval_score(y, *ends, at[0])
    return lambda y: np.asarray(np.linalg.norm(draws - y[:, None], axis=2).mean(1))


def exchanged(own: Floats, crossed: Floats, swaps: Ints) -> Floats:
    """Return contributions of rows to the mean score lost with outcomes of other rows.

    With a(i, j) the score of the law of row i at the outcome of row j and mean m over exchanges, row i gives
    mean_r a(i, p_r(i)) + mean_r a(p_r^-1(i), i) - m - a(i, i): the projection of a U-statistic, whose mean is the loss.

    Parameters
    ----------
    own, crossed
        Shapes (n,) and (exchanges, n).

    Examples
    --------
    >>> exchanged(np.zeros(2), np.array([[1.0, 3.0]]), np.array([[1, 0]])).tolist()
    [2.0, 2.0]
    """
    back = np.stack([row[np.argsort(swap)] for row, swap in zip(crossed, swaps, strict=True)])
    return np.asarray(crossed.mean(0) + back.mean(0) - crossed.mean() - own)


def measured(
    candidate: Candidate, shared: Shared, blocks: Iterator[Block], rng: np.random.Generator, *, full: bool
) -> Rows:
    """Return what a candidate's laws give on all rows; of `full` ones also ranks, points and distances."""
    parts: dict[str, list[Floats]] = {}
    why = ""
    fit = np.random.default_rng(rng.integers(2**63))
    for block in blocks:
        if block.start == 0 and full and candidate.kind in ("samples", "normal"):
            other = np.unique(shared.clusters[: block.stop], return_index=True)[1][:LOOKED_AT]
            # As the file has them: of what was divided and multiplied again not all is whole that was.
            why = untested(shared.truth.y, block.arrays["samples"][other] * shared.scale)
        found = _of_block(candidate, shared, block, rng, fit, full=full)
        for key, values in found.items():
            parts.setdefault(key, []).append(values)
    whole = {key: np.concatenate(values) for key, values in parts.items()}
    return _collected(candidate, shared, whole, why)


def _of_block(
    candidate: Candidate,
    shared: Shared,
    block: Block,
    rng: np.random.Generator,
    fit: np.random.Generator,
    *,
    full: bool,
) -> dict[str, Floats]:
    y, arrays = shared.y[block.start : block.stop], block.arrays
    others = [shared.y[swap[block.start : block.stop]] for swap in shared.swaps]
    if candidate.kind == "quantiles":
        return _of_quantiles(y, others, arrays["quantiles"], candidate.levels, shared, rng)
    if candidate.kind == "intervals":
        return _of_intervals(y, others, arrays["lower"], arrays["upper"], float(candidate.level or 0.0))
    if candidate.kind == "points":
        return _of_points(y, others, arrays["points"], arrays["weights"], shared, block, rng)
    oracle = shared.oracle_of(block) if full else None
    found = _of_draws(y, others, arrays["samples"], shared, block, oracle, rng, full=full)
    if full:
        found |= _of_fitted(candidate, y, arrays, shared, block, oracle, fit)
    if candidate.kind == "normal":
        found["score:crps"] = normal_crps(y, arrays["mean"], arrays["std"])
        if (arrays["std"] > 0).all():
            # A density of values in another unit: back to that of y.
            found["score:log"] = normal_log(y, arrays["mean"], arrays["std"]) + float(np.log(shared.scale).sum())
        if y.shape[1] == 1:
            for points in shared.points:
                found[f"closed:{points}"] = arrays["std"][:, 0] ** 2 * normal_quantiser(points).distortion
    return found


def _of_draws(
    y: Floats,
    others: list[Floats],
    samples: Floats,
    shared: Shared,
    block: Block,
    oracle: Floats | None,
    rng: np.random.Generator,
    *,
    full: bool,
) -> dict[str, Floats]:
    draws, d = samples.shape[1:]
    to_truth, between = distances(y, samples)
    found = {"own": to_truth.mean(1)}
    found["crossed"] = np.stack([np.linalg.norm(samples - one[:, None], axis=2).mean(1) for one in others], axis=1)
    found["single"] = np.linalg.norm(samples.mean(1) - y, axis=1)
    if draws > 1:
        found["score:crps"] = fair_crps(y, samples)
        found["gap"] = self_gap(to_truth, between)
        found["spread"], found["error"] = spread_and_error(y, samples)
        if d > 1:
            found["score:energy"] = fair_energy(to_truth, between)
            found["score:variogram"] = variogram(y, samples, shared.pairs)
        elif shared.score_levels is not None:
            found["score:quantile"] = pinball(y, quantiles_of(samples, shared.score_levels), shared.score_levels)
        if d == 1 and shared.score_level is not None:
            found["score:interval"] = interval_score(y, *central_of(samples, shared.score_level), shared.score_level)
    if not full:
        return found
    found["pits"] = pits(shared.projected, y, samples, to_truth, between, rng)
    found["drawn"] = samples[np.arange(len(y)), rng.integers(draws, size=len(y))]
    found["law"] = np.array([_digest(row) for row in samples])
    for level in shared.levels:
        below = ranks_outside(draws, level, d)
        if below is not None:
            found[f"width:{level}"] = width_of(samples, below)
    for points in shared.points:
        if points <= draws:
            found[f"best:{points}"] = to_truth[:, :points].min(1) ** 2
    if shared.modes is not None:
        found["hits"] = _hits(samples, shared, block)
    if oracle is not None:
        for order in (1, 2):
            found[f"conditional:{order}"] = np.stack(
                conditional(samples, oracle, order, shared.directions, rng), axis=1
            )
    return found


def _hits(samples: Floats, shared: Shared, block: Block, weights: Floats | None = None) -> Floats:
    """Return the share of draws (weight of points) at each mode, and whether one is there: shape (rows, 2, modes)."""
    assert shared.modes is not None
    modes = shared.modes[block.start : block.stop]
    near = [
        np.linalg.norm(samples * shared.scale - modes[:, at, None], axis=2) <= shared.radius
        for at in range(modes.shape[1])
    ]
    shares = [one.mean(1) if weights is None else (weights * one).sum(1) for one in near]
    pairs = zip(shares, near, strict=True)
    return np.stack([np.stack([share, one.any(1).astype(np.float64)], axis=1) for share, one in pairs], axis=2)


def _of_fitted(
    candidate: Candidate,
    y: Floats,
    arrays: Mapping[str, Floats],
    shared: Shared,
    block: Block,
    oracle: Floats | None,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Return squared distances from y to points of the law: optimal ones of a normal law, else fitted to its draws."""
    found = {}
    if candidate.kind == "normal" and y.shape[1] == 1:
        for points in shared.points:
            best = normal_quantiser(points).points[:, None]
            placed = arrays["mean"][:, None] + arrays["std"][:, None] * best
            found[f"distortion:{points}"] = nearest(y, placed)[1]
            if oracle is not None:
                found[f"ideal:{points}"] = nearest(oracle, placed)[1].mean(1)
        return found
    samples = arrays["samples"]
    here = shared.chosen[(shared.chosen >= block.start) & (shared.chosen < block.stop)] - block.start
    for points in shared.points:
        if samples.shape[1] >= FEWEST_DRAWS * points:
            fitted = fitted_points(samples[here], points, rng)[0]
            found[f"distortion:{points}"] = nearest(y[here], fitted)[1]
    return found


def _of_points(
    y: Floats,
    others: list[Floats],
    points: Floats,
    weights: Floats,
    shared: Shared,
    block: Block,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    to_truth, between = distances(y, points)
    cells, near = nearest(y, points)
    name = "crps" if y.shape[1] == 1 else "energy"
    mean = np.einsum("nm,nmd->nd", weights, points)
    heaped = np.cumsum(weights, axis=1)
    taken = (rng.random((len(y), 1)) * heaped[:, -1:] >= heaped).sum(1).clip(max=points.shape[1] - 1)
    found = {
        f"score:{name}": weighted_energy(to_truth, between, weights),
        "own": (weights * to_truth).sum(1),
        "crossed": np.stack(
            [(weights * np.linalg.norm(points - one[:, None], axis=2)).sum(1) for one in others], axis=1
        ),
        "single": np.linalg.norm(mean - y, axis=1),
        "cells": cells,
        "weights": weights,
        f"distortion:{points.shape[1]}": near,
        "drawn": points[np.arange(len(y)), taken],
    }
    if shared.modes is not None:
        found["hits"] = _hits(points, shared, block, weights)
    oracle = shared.oracle_of(block)
    if oracle is not None:
        found[f"ideal:{points.shape[1]}"] = nearest(oracle, points)[1].mean(1)
        value = of_points(points, weights, oracle, shared.directions)
        # Points are the law itself: what is off by chance are the draws of the truth, by less than their halves are.
        first, second = oracle[:, ::2], oracle[:, 1::2]
        floor = conditional(first, second, 2, shared.directions, rng)[0] if oracle.shape[1] > 1 else value
        found["conditional:2"] = np.stack([value, floor], axis=1)
    return found


def _of_quantiles(
    y: Floats, others: list[Floats], quantiles: Floats, levels: Floats | None, shared: Shared, rng: np.random.Generator
) -> dict[str, Floats]:
    assert levels is not None
    own = pinball(y, quantiles, levels)
    crossed = np.stack([pinball(one, quantiles, levels) for one in others], axis=1)
    ends = np.concatenate([[0.0], levels, [1.0]])
    below, reached = (quantiles < y).sum(1), (quantiles <= y).sum(1)
    ranks = ends[below] + rng.random(len(y)) * (ends[reached + 1] - ends[below])
    found = {"own": own, "crossed": crossed, "score:quantile": own, "pits": np.stack([ranks, np.abs(2 * ranks - 1)], 1)}
    for level in shared.levels:
        if pair := central_pair(levels, level):
            found[f"width:{level}"] = quantiles[:, pair[1]] - quantiles[:, pair[0]]
    scored = shared.score_level
    if scored is not None and (pair := central_pair(levels, scored)):
        found["score:interval"] = interval_score(y, quantiles[:, pair[0]], quantiles[:, pair[1]], scored)
    return found


def _of_intervals(y: Floats, others: list[Floats], lower: Floats, upper: Floats, level: float) -> dict[str, Floats]:
    own = interval_score(y, lower, upper, level)
    crossed = np.stack([interval_score(one, lower, upper, level) for one in others], axis=1)
    inside = ((lower <= y[:, 0]) & (y[:, 0] <= upper)).astype(np.float64)
    width = upper - lower
    return {"own": own, "crossed": crossed, "score:interval": own, "inside": inside, f"width:{level}": width}


def _scored_at(candidate: Candidate, shared: Shared) -> dict[str, tuple[float, ...]]:
    level = shared.score_level if candidate.level is None else candidate.level
    levels = shared.score_levels if candidate.levels is None else candidate.levels
    return ({} if level is None else {"interval": (level,)}) | (
        {} if levels is None else {"quantile": tuple(levels.tolist())}
    )


def _digest(row: Floats) -> int:
    return int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=7).digest(), "little")


def _collected(candidate: Candidate, shared: Shared, whole: dict[str, Floats], why: str) -> Rows:
    def named(prefix: str) -> dict[str, Floats]:
        return {key.partition(":")[2]: values for key, values in whole.items() if key.startswith(f"{prefix}:")}

    n = len(shared.y)
    kept: dict[str, Any] = {
        key: whole.get(key) for key in ("gap", "pits", "spread", "error", "single", "inside", "drawn")
    }
    scores, absent = named("score"), dict[str, str]()
    if candidate.kind == "samples" and candidate.draws == 1:
        absent["score"] = "a single draw has no fair score"
    if candidate.kind == "normal" and len(scores.get("log", ())) < n:
        scores.pop("log", None)
        absent["log"] = "a standard deviation of 0 has no density"
    steps = np.diff(candidate.levels, prepend=0.0, append=1.0) if candidate.levels is not None else np.zeros(1)
    every = np.arange(n)
    chosen = {points: every if len(values) == n else shared.chosen for points, values in named("distortion").items()}
    return Rows(
        name=candidate.name,
        kind=candidate.kind,
        draws=NORMAL_DRAWS if candidate.kind == "normal" else candidate.draws,
        scores=scores,
        scored_at=_scored_at(candidate, shared),
        absent=absent,
        projections=FOLDED if candidate.kind == "quantiles" else shared.projected.items,
        untested=why,
        width={float(level): values for level, values in named("width").items()},
        used=exchanged(whole["own"], whole["crossed"].T, shared.swaps) if n > 1 else None,
        best_of={int(points): values for points, values in named("best").items()},
        distortion={int(points): (chosen[points], values) for points, values in named("distortion").items()},
        ideal={int(points): values for points, values in named("ideal").items()},
        closed={int(points): values for points, values in named("closed").items()},
        cells=whole["cells"].astype(np.int64) if "cells" in whole else None,
        weights=whole.get("weights"),
        weighted=candidate.weighted,
        hits=np.moveaxis(whole["hits"], 1, 0) if "hits" in whole else None,
        level=candidate.level,
        calibration=candidate.calibration,
        conditional={int(order): values.T for order, values in named("conditional").items()},
        law=np.unique(whole["law"], return_inverse=True)[1] if candidate.kind == "samples" and "law" in whole else None,
        grain=1 / (candidate.draws + 1) if candidate.kind == "samples" else float(steps.max()),
        **kept,
    )
