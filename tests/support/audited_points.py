"""Inputs, attacks and counts of `miles membership`, for tests of what is said of them before a run and after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from audits.membership import Options
from audits.membership.bounding import Bounds
from audits.membership.copying import Copying
from audits.membership.hit_ratios import Hit
from audits.membership.leaks import Difference, Leak
from audits.membership.measure import Counts
from audits.membership.pool import Pool, pool_of_labels
from audits.membership.rates import Judged
from audits.membership.reading import Inputs
from audits.membership.scoring import Attack, model_where
from audits.statistics.roc import Area, Bools
from probes.generators.point_sets import PointSet, read_points

FPRS = (0.1, 0.01)


def labelled(member: Bools, skipped: Mapping[str, int] | None = None, *, seed: int = 0) -> Pool:
    """Return a pool of points of which only the sides are known."""
    names = [str(number) for number in range(len(member))]
    return pool_of_labels(member, names, seed, given=len(member), skipped=skipped or {}, where="")


def inputs_of(pool: Pool, **more: Any) -> Inputs:
    """Return inputs of a pool, with nothing that is not said."""
    nothing = {"timesteps": (), "given": None, "blind": None, "reference": None, "releases": (), "claim": None}
    return Inputs(**{"fprs": FPRS, "pool": pool, "notes": (), **nothing, **more})


def attack_of(
    name: str, scores: Any, member: Bools, *, model: str = "", tier: str = "full", judged: Bools | None = None
) -> Attack:
    """Return the scores of an attack that may be judged on all points, if not on others."""
    return Attack(
        name=name,
        tier=tier,
        where=model_where(model),
        setting="",
        scores=np.asarray(scores, dtype=np.float64),
        member=member,
        judged=np.ones(len(member), dtype=np.bool_) if judged is None else judged,
    )


def points_of(path: Path, low: float, high: float, *, count: int = 400, pixels: bool = False) -> PointSet:
    """Write points whose values lie from one number to another, and read them."""
    values = np.linspace(low, high, 4 * count, dtype=np.float32)
    if pixels:
        np.savez(path.with_suffix(".npz"), img_r01=values.reshape(count, 2, 2))
        return read_points(path.with_suffix(".npz"), role="--members")
    np.save(path.with_suffix(".npy"), values.reshape(count, 4))
    return read_points(path.with_suffix(".npy"), role="--members")


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenCounts(Counts):
    """Counts whose results are given in the place of computed ones: a limit can then lie just where a test wants it."""

    options: Options = field(default_factory=Options)
    level: float = 0.95
    seed: int = 0
    attacks: tuple[Attack, ...] = ()
    blind: Mapping[str, Area] = field(default_factory=dict)
    judged: tuple[Judged, ...] = ()
    hits: list[Hit] = field(default_factory=list)
    copying: list[Copying] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)
    leaks: list[Leak] = field(default_factory=list)
    gaps: list[Difference] = field(default_factory=list)
