"""`miles audit-scaling`: clocks of known overhead, law and noise, with bursts; nothing is timed."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from audits.core.intervals import Interval, Undefined
from audits.scaling.claim_verdicts import verdict
from audits.scaling.crossovers import crossovers
from audits.scaling.growth_claims import Law
from audits.scaling.growth_fits import local_exponents, seconds_excess, seconds_exponent
from audits.scaling.growth_laws import law_weights
from audits.scaling.rounds import interval, resampled
from calibration.checks import Calibration, Case, Check, Outcomes

Floats = NDArray[np.float64]
SIZES = 16 * 2.0 ** np.arange(8)
BURSTS, LONGEST = 0.15, 3.0
"""Share of cells that last up to three times as long."""
TOLERANCE = 0.15
HERE = "exchangeable"
HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds (overhead + law(n) / law(first n)) with log-normal noise.

    Parameters
    ----------
    uneven
        Whether the noise is twice that at every other size, and half that at the others.
    tick
        Step of the clock; 0: none.
    covered
        Whether the overhead runs beside the work, as launches on a GPU do: the longer of the two is the time.
    """

    law: Law
    overhead: float = 0.0
    noise: float = 0.03
    uneven: bool = False
    tick: float = 0.0
    covered: bool = False

    @property
    def text(self) -> str:
        """What it is called."""
        extra = ", uneven" if self.uneven else ", ticks" if self.tick else ", beside" if self.covered else ""
        return f"{self.law.text}, overhead {self.overhead:g}, noise {self.noise:g}{extra}"

    @property
    def seconds(self) -> Floats:
        """Without noise."""
        work = self.law.values(SIZES) / float(self.law.values(SIZES[0]))
        return np.maximum(self.overhead, work) if self.covered else self.overhead + work

    def cells(self, rounds: int, rng: np.random.Generator) -> Floats:
        """Return what is measured, shape (rounds, sizes)."""
        noise = self.noise * np.where(np.arange(SIZES.size) % 2, 2.0, 0.5) if self.uneven else self.noise
        drawn = self.seconds * np.exp(noise * rng.normal(size=(rounds, SIZES.size)))
        drawn *= np.where(rng.random(drawn.shape) < BURSTS, rng.uniform(1, LONGEST, drawn.shape), 1.0)
        return np.maximum(np.round(drawn / self.tick), 1) * self.tick if self.tick else drawn


LINEAR = Clock(Law(1))
LAWS = (Law(1), Law(Fraction(4, 3)), Law(Fraction(3, 2)), Law(2), Law(1, 1))
CLOCKS = (
    *(Clock(law, over, noise) for law in LAWS for over in (0, 10, 100) for noise in (0.03, 0.15)),
    *(Clock(law, 10, 0.15, uneven=True) for law in LAWS),
    *(Clock(law, 0, 0.03, tick=0.2) for law in LAWS),
    *(Clock(Law(1), over, 0.03, covered=True) for over in (8, 32, 64)),
    Clock(Law(2), 1000, 0.03, covered=True),
    Clock(Law(1), 1e4),
    Clock(Law(0)),
)
EFFECTS = {"none": LINEAR, **{clock.text: clock for clock in CLOCKS if clock != LINEAR}}


@cache
def slowed(noise: float) -> float:
    """Return the median of noise and bursts."""
    rng = np.random.default_rng(7)
    drawn = np.exp(noise * rng.normal(size=1_000_001))
    return float(
        np.median(np.where(rng.random(drawn.size) < BURSTS, drawn * rng.uniform(1, LONGEST, drawn.size), drawn))
    )


def _held(found: Interval | Undefined | None, truth: float) -> bool | None:
    if not isinstance(found, Interval) or found.low is None or found.high is None:
        return None
    return found.low <= truth + 1e-9 and truth <= found.high + 1e-9


def _word(cells: Floats, claim: Law, level: float, seed: int) -> str:
    return verdict(seconds_excess(SIZES, cells, claim, level=level, seed=seed), claim, TOLERANCE).word


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Hold exponents, overhead and crossover against a clock, and verdicts against its law."""
    clock, seed = EFFECTS[case.effect], int(rng.integers(2**31))
    cells = clock.cells(case.units, rng)
    # The one it is compared with does not grow, and costs as much in the middle.
    level = float(np.sqrt(clock.seconds[3] * clock.seconds[4]))
    flat = Clock(Law(0), level - 1, clock.noise).cells(case.units, rng)
    found = seconds_exponent(SIZES, cells, level=case.level, seed=seed)
    excess = seconds_excess(SIZES, cells, clock.law, level=case.level, seed=seed)
    less = Law(clock.law.power - HALF, clock.law.log)
    true, low = verdict(excess, clock.law, TOLERANCE).word, _word(cells, less, case.level, seed)
    weights = law_weights(SIZES, cells)
    met = crossovers(SIZES, cells, flat, level=case.level, seed=seed)
    values = resampled(cells, seed)
    last = interval(local_exponents(SIZES, values)[:, -1], case.units, case.level)
    steps = local_exponents(SIZES, clock.seconds)
    return {
        "exponent": _held(found.exponent, float(clock.law.power)),
        "excess_exponent": _held(excess.exponent, 0.0),
        "overhead": _held(
            found.overhead if isinstance(found.exponent, Interval) else None, clock.overhead * slowed(clock.noise)
        ),
        "local_exponent": _held(last, float(steps[-1])),
        "crossover": _held(met.crossings[0].n, float(np.sqrt(SIZES[3] * SIZES[4]))) if met.crossings else None,
        "ratio_at": _held(met.ratios[1], float(clock.seconds[-1] / level)),
        "law_weight found": max(weights, key=lambda law: weights[law]) == clock.law,
        "scaling.claim[verdict=refuted]": true == "refuted",
        "scaling.claim[verdict=confirmed]": low == "confirmed",
        "scaling.claim[verdict=refuted] found": low == "refuted",
        "scaling.claim[verdict=confirmed] found": true == "confirmed",
        "scaling.claim[claim=n]": _word(cells, Law(1), case.level, seed) == "refuted" if clock.law.log else None,
    }


def _check(name: str, kind: str, estimand: str, *effects: str) -> Check:
    return Check(name=name, kind=kind, estimand=estimand, effects=effects, worlds=(HERE,))  # type: ignore[arg-type]


GROWING = tuple(name for name, clock in EFFECTS.items() if clock.law.power)
POWERS = tuple(name for name in GROWING if not EFFECTS[name].law.log)
SMOOTH = tuple(name for name in GROWING if not EFFECTS[name].uneven and not EFFECTS[name].tick)
LOGS = tuple(name for name in GROWING if EFFECTS[name].law.log)
CALIBRATION = Calibration(
    checks=(
        _check("exponent", "estimate", "p of a + b n^p", *POWERS),
        _check("excess_exponent", "estimate", "exponent in excess of the true law", *GROWING),
        _check(
            "overhead",
            "estimate",
            "a of a + b n^p",
            *(name for name in SMOOTH if name in POWERS and not EFFECTS[name].covered),
        ),
        _check("local_exponent", "estimate", "slope of the last doubling", *SMOOTH),
        _check("crossover", "estimate", "where a clock that does not grow costs as much", *SMOOTH),
        _check("ratio_at", "estimate", "ratio of medians at the largest size", *SMOOTH),
        _check("scaling.claim[verdict=refuted]", "finding", "the claim is the true law", *EFFECTS),
        _check("scaling.claim[verdict=confirmed]", "finding", "the claim is half a power too low", *GROWING),
        _check("scaling.claim[claim=n]", "finding", "n log n told from n", *LOGS),
        _check("scaling.claim[verdict=refuted]", "power", "the claim is half a power too low", *GROWING),
        _check("scaling.claim[verdict=confirmed]", "power", "the claim is the true law", *EFFECTS),
        _check("law_weight", "power", "the true law has the largest weight", *EFFECTS),
    ),
    reasons={
        "operations": "counted, without chance",
        "memory": "counted, without chance",
        "state_bytes": "counted, without chance",
        "seconds": "the interval of ratio_at, of one median",
        "scaling.time_not_operations": "tells exponent beside that of operations",
        "scaling.uncounted": "counted, without chance",
        "scaling.contention": "a rule on spreads, without a level",
        "scaling.quadratic_memory": "counted, without chance",
        "scaling.leak": "counted, without chance",
    },
    simulate=simulate,
    effects={
        name: f"{clock.text}, in first seconds; {BURSTS:.0%} bursts to {LONGEST:g} times"
        for name, clock in EFFECTS.items()
        if name != "none"
    },
    grid=tuple(Case(world=HERE, units=rounds, level=0.95, effect=effect) for effect in EFFECTS for rounds in (9, 3)),
    full=lambda case: 200,
    quick=tuple(
        (Case(world=HERE, units=9, level=0.95, effect=effect), 20)
        for effect in ("none", *(Clock(law, 10, 0.15).text for law in LAWS))
    ),
    worlds=(HERE,),
)
