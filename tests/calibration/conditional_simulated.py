"""Laws of y given x as users have them, with their truths.

python tests/calibration/conditional_simulated.py      writes conditional_truths.json, a quarter of an hour
"""

import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

_HERE = Path(__file__).resolve()
if __name__ == "__main__":
    sys.path[:0] = [str(_HERE.parents[1]), str(_HERE.parents[2])]

from audits.conditional import Options  # noqa: E402
from audits.conditional.counts import Counts  # noqa: E402
from audits.conditional.inputs import Inputs  # noqa: E402
from audits.conditional.measure import measure  # noqa: E402
from audits.conditional.row_groups import grouped  # noqa: E402
from audits.core.context import Cache, Context  # noqa: E402
from probes.conditional.laws import Candidate, Truth  # noqa: E402
from probes.conditional.quantisers import normal_quantiser  # noqa: E402

Floats = NDArray[np.float64]
Noise = Callable[[Floats, int, np.random.Generator], Floats]
NARROW = 0.7
"""Spread of the wrong law, in spreads of the true one."""
SCALES = np.array([0.1, 1.0, 10.0, 100.0])
LEVELS = (0.5, 0.8)
POINTS, MANY, DIRECTIONS = 5, 20_000, 8
"""Points of a law, rows that stand for all, and directions of joint distances: fewer than the audit's, to be quick."""
TIMES = 60
"""How many times as many rows: what few draws miss is so skewed that 40,000 rows had its mean to a tenth only."""
TRUTHS = _HERE.with_name("conditional_truths.json")


@dataclass(frozen=True, slots=True)
class World:
    """y = middle(x) + noise(x), rounded where `whole`.

    Parameters
    ----------
    text
        What it is.
    draws
        Draws of each row.
    normal
        Standard deviation given x, where the noise is normal and d = 1.
    inputs
        Number of distinct x; 0: each row has its own.
    scale
        In what distances are measured, by column.
    """

    text: str
    draws: int
    middle: Callable[[Floats], Floats]
    noise: Noise
    normal: Callable[[Floats], Floats] | None = None
    inputs: int = 0
    whole: bool = False
    scale: Floats | None = None
    columns: int = 1

    @property
    def spread_by_error(self) -> Callable[[float], float] | None:
        """What the ratio of spread and error is of a law with so much of the spread; None where values are rounded."""
        if self.whole:
            return None
        return lambda share: math.sqrt(share**2 * (1 + 1 / self.draws) / (1 + share**2 / self.draws))

    def x(self, n: int, rng: np.random.Generator) -> Floats:
        """Return inputs, shape (n, p)."""
        if self.inputs:
            return np.asarray((rng.integers(self.inputs, size=(n, 1)) + 0.5) / self.inputs)
        return rng.uniform(size=(n, self.columns))

    def samples(self, x: Floats, draws: int, rng: np.random.Generator, spread: float = 1.0) -> Floats:
        """Return draws, shape (n, draws, d), with so much of the true spread."""
        made = self.middle(x)[:, None] + spread * self.noise(x, draws, rng)
        return np.rint(made) if self.whole else made


def _wave(x: Floats) -> Floats:
    return np.sin(2 * np.pi * x[:, :1])


def _two_modes(x: Floats, draws: int, rng: np.random.Generator) -> Floats:
    sign = np.where(rng.random((len(x), draws, 1)) < 0.5, 1.0, -1.0)
    return np.asarray(sign * (1 + x[:, None]) + 0.3 * rng.standard_normal(sign.shape))


def _normal(std: Callable[[Floats], Floats]) -> Noise:
    return lambda x, draws, rng: std(x)[:, None] * rng.standard_normal((len(x), draws, 1))


def _four(x: Floats, draws: int, rng: np.random.Generator) -> Floats:
    shared = rng.standard_normal((len(x), draws, 1))
    return np.asarray(SCALES * (0.6 * shared + 0.8 * rng.standard_normal((len(x), draws, 4))))


def _plain(x: Floats) -> Floats:
    return 0.3 + x


def _uneven(x: Floats) -> Floats:
    return 0.1 + 2 * x**2


_MODES = "two modes that move with x"
WORLD = {
    "none": World(f"{_MODES}, 10 draws", 10, lambda x: 0 * x, _two_modes),
    "fifty": World(f"{_MODES}, 50 draws", 50, lambda x: 0 * x, _two_modes),
    "four": World(
        "4 normal columns of scale .1 to 100, 10 draws",
        10,
        lambda x: SCALES * (x[:, :1] - x[:, 1:]),
        _four,
        scale=SCALES * np.sqrt(7 / 6),
        columns=2,
    ),
    "heavy": World(
        "t with 3 degrees of freedom, 50 draws",
        50,
        _wave,
        lambda x, draws, rng: 0.5 * rng.standard_t(3, size=(len(x), draws, 1)),
    ),
    "repeated": World("normal, 50 distinct x, 10 draws", 10, _wave, _normal(_plain), normal=_plain, inputs=50),
    "ties": World("whole numbers with ties, 50 draws", 50, lambda x: 2 * _wave(x), _normal(_plain), whole=True),
    "uneven": World("normal, spread .1 to 2.1 over x, 10 draws", 10, _wave, _normal(_uneven), normal=_uneven),
}


def _given(name: str, samples: Floats) -> Candidate:
    n, draws, d = samples.shape
    return Candidate(
        name=name, kind="samples", n=n, d=d, draws=draws, block=lambda start, stop: {"samples": samples[start:stop]}
    )


def _points(name: str, points: Floats, weights: Floats) -> Candidate:
    n, m, d = points.shape
    tiled = np.tile(weights, (n, 1))
    return Candidate(
        name=name,
        kind="points",
        n=n,
        d=d,
        draws=m,
        block=lambda start, stop: {"points": points[start:stop], "weights": tiled[start:stop]},
    )


def measured(effect: str, n: int, level: float, rng: np.random.Generator, *, all_laws: bool = True) -> Counts:
    """Return the counts of the true law, a narrow one, one of no input, and points with right or equal weights."""
    world = WORLD[effect]
    x = world.x(n, rng)
    y = world.samples(x, 1, rng)[:, 0]
    laws = [
        _given("truth", world.samples(x, world.draws, rng)),
        _given("narrow", world.samples(x, world.draws, rng, NARROW)),
    ]
    if all_laws and effect == "none":
        laws.append(_given("climate", world.samples(world.x(n, rng), world.draws, rng)))
    if world.normal is not None:
        best = normal_quantiser(POINTS)
        points = world.middle(x)[:, None] + world.normal(x)[:, None] * best.points[:, None]
        laws += [_points("optimal", points, best.weights), _points("equal", points, np.full(POINTS, 1 / POINTS))]
    modal = effect in ("none", "fifty")
    truth = Truth(y=y, x=x, modes=np.stack([-(1 + x), 1 + x], axis=1) if modal else None)
    seed = int(rng.integers(2**31))
    inputs = Inputs(
        truth=truth,
        candidates=tuple(laws),
        groups=grouped(truth, "x0:4", seed)[0],
        scale=np.ones(y.shape[1]) if world.scale is None else world.scale,
        levels=LEVELS,
        points=(1, 2),
    )
    with tempfile.TemporaryDirectory() as folder:
        context = Context(seed=seed, level=level, cache=Cache(Path(folder)))
        radius = 0.6 if modal else None
        with patch("audits.conditional.measure.DIRECTIONS", DIRECTIONS):
            return measure(Options(data=Path("rows.npz"), modes="modes", mode_radius=radius), inputs, context)


@cache
def truths() -> Mapping[str, Mapping[str, float]]:
    """Return what many rows have, by world and estimate."""
    found: dict[str, dict[str, float]] = json.loads(TRUTHS.read_text(encoding="utf-8"))
    return found


def _of_many(effect: str) -> dict[str, float]:
    from audits.conditional.estimates import inside_of
    from audits.conditional.rank_tests import uniformity

    parts: dict[str, list[float]] = {}
    for seed in range(TIMES):
        with (
            patch("audits.conditional.measure.FLOORS", 1),
            patch("audits.conditional.measure._references", lambda *given: ({}, {})),
        ):
            counts = measured(effect, MANY, 0.95, np.random.default_rng([11, seed]), all_laws=False)
        truth, narrow = counts.rows["truth"], counts.rows["narrow"]
        metric = "energy" if counts.dimensions > 1 else "crps"
        climate = counts.rows["climatology"].scores[metric].mean()
        assert truth.used is not None and narrow.gap is not None and narrow.pits is not None
        values = {
            "score": truth.scores[metric].mean(),
            "difference": truth.scores[metric].mean() - climate,
            "skill": 1 - truth.scores[metric].mean() / climate,
            "self_gap": narrow.gap.mean(),
            "uses_input": truth.used.mean(),
            "distortion": truth.distortion[2][1].mean(),
            "best_of": truth.best_of[2].mean(),
            "pit_deviation": uniformity(narrow.pits[:, -1])[0],
            "wasserstein": counts.distances["narrow", 1, "marginal", "all"][0],
        }
        for level in LEVELS:
            held = inside_of(narrow, level, counts.dimensions)
            if held is not None and level in narrow.width:
                values[f"coverage {level}"] = held.mean()
                values[f"width {level}"] = narrow.width[level].mean()
        for key, value in values.items():
            parts.setdefault(key, []).append(float(value))
    return {key: round(float(np.mean(each)), 6) for key, each in parts.items()}


if __name__ == "__main__":
    made = {effect: _of_many(effect) for effect in WORLD}
    TRUTHS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
