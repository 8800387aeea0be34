"""`miles spectra`: counts of samples whose true means are known, at three finer grids; no network is run.

Levels .9 and .95 are run in all worlds, .5 and .999 in two of them: nothing in the audit depends on the level but
quantiles of one kind. An error of 1 on the grid of training is looked at in those two as well.
"""

from calibration.checks import NONE, Calibration, Case, Check
from calibration.spectra_simulated import EDGE, EFFECTS, HALF, POOR_FIT, WORSE, simulate
from calibration.worlds import UNITS, WORLDS

_BOTH = (NONE, WORSE)
_TWO = ("exchangeable", "unequal-spread")
_VERDICTS = "all finer grids of a report"
_MEAN = "mean over samples"
_SAYS = (
    "Under 20 samples the warning `few-samples`: Intervals hold as often as they say where samples are no more skewed "
    "than exponential numbers; of so few, nobody can know. Of log-normal ones of sigma 1.5 about 87 % of intervals of "
    "95 % hold. From 20 samples on nothing."
)
_POOLED = "ratio of expected sums over samples, by energy"


def _estimate(name: str, estimand: str, family: str = "itself", effects: tuple[str, ...] = (NONE,)) -> Check:
    return Check(name=name, kind="estimate", estimand=estimand, family=family, effects=effects, says=_SAYS)


def _finding(name: str, estimand: str, family: str, effect: str) -> Check:
    return Check(name=name, kind="finding", estimand=estimand, family=family, effects=(effect,), says=_SAYS)


def _power(
    name: str, estimand: str, family: str, effect: str = WORSE, worlds: tuple[str, ...] = tuple(WORLDS)
) -> Check:
    return Check(name=name, kind="power", estimand=estimand, family=family, effects=(effect,), worlds=worlds)


CHECKS = (
    _estimate("relative_l2", f"relative error, {_MEAN}", effects=_BOTH),
    _estimate("relative_h1", f"relative error with slopes, {_MEAN}"),
    _estimate(
        "direct_minus_upsampled", f"difference of two errors, {_MEAN}", f"simultaneous over {_VERDICTS}", _BOTH
    ),
    _estimate("direct_worse_share", "share of samples like these on which direct errs more"),
    _estimate("band_error", f"root of the error's energy over the target's in a band, {_POOLED}"),
    _estimate("band_share", f"share of the error's energy in a band, {_POOLED}"),
    _estimate("mismatch", f"relative difference of two predictions, {_MEAN}"),
    _estimate("mismatch_share", f"part of the mismatch, {_MEAN}"),
    _estimate("domain_share", f"part of the mismatch, {_MEAN}"),
    *(
        _estimate(f"mismatch_law[part={part}]", f"{what} of the law that fits the mean mismatch of all grids")
        for part, what in (("coefficient", "coefficient"), ("r2", "R²"), ("order", "order"))
    ),
    _estimate("operator_aliasing", f"relative difference, {_MEAN}"),
    _estimate("energy", f"energy of a stage at a wavenumber, {_MEAN}"),
    _estimate("high_frequency_share", f"share of a stage's energy, {_POOLED}"),
    _estimate("above_training_share", f"share of a stage's energy, {_POOLED}"),
    _estimate("high_frequency_made[stage=output]", f"high-frequency energy less that of the stage before, {_MEAN}"),
    _estimate("high_frequency_made[stage=all]", f"high-frequency energy of the output, {_MEAN}"),
    _estimate("centroid", f"wavenumber, {_POOLED}"),
    _estimate("activation_aliasing", f"relative difference, {_MEAN}"),
    _estimate("energy_above_nyquist", f"share of the energy, {_MEAN} of the samples' own shares"),
    _finding("spectra.verdict", "one way errs less, at any grid (both err alike)", _VERDICTS, NONE),
    _finding(
        "spectra.verdict[severity=high]", "direct errs more than twice as much, at any grid (it errs twice as much)",
        _VERDICTS, EDGE,
    ),
    _finding(
        "spectra.verdict[limited=yes]", "the floor is more than half of the upsampled error, at any grid (it is half)",
        "two intervals of each grid", EDGE,
    ),
    _finding("spectra.poor-fit", "the error on the grid of training is above 0.5 (it is 0.5)", "itself", HALF),
    _finding(
        "spectra.attribution", "one part of the mismatch is the largest (two are alike)",
        "intervals of three parts that lie apart", NONE,
    ),
    _finding(
        "spectra.attribution[cause=blocks]", "domain_share is more than half of the largest part (it is half)",
        "two intervals that lie apart", EDGE,
    ),
    _finding("spectra.law", "the mismatch is, or is not, of first order (its order is 1.25)", "itself", EDGE),
    _finding(
        "spectra.high-frequency", "the share of high frequencies rises after a stage (it is the same in all)",
        "intervals of stages that lie apart", NONE,
    ),
    _power("spectra.verdict", "direct errs by .12 more (.10 among ties)", _VERDICTS),
    _power("spectra.poor-fit", "the error on the grid of training is 1", "itself", POOR_FIT, _TWO),
    _power("spectra.attribution", "the coordinates' part is the largest", "intervals of three parts that lie apart"),
    _power("spectra.law", "the order of the mismatch is nearly 1", "itself"),
    _power("spectra.high-frequency", "the share rises by .12 (.10 among ties)", "intervals of stages that lie apart"),
)  # fmt: skip

REASONS = {
    "spectra.no-targets": "tells that there are no targets",
    "spectra.direct-refused": "tells that the operator failed on a grid",
    "spectra.aliasing": "tells which activation aliases most in these samples, with the intervals of "
    "activation_aliasing and mismatch_share",
}


def _grid() -> tuple[Case, ...]:
    null = [Case(world=w, units=u, level=c) for w in WORLDS for u in UNITS for c in (0.9, 0.95)]
    far = [Case(world=w, units=u, level=c) for w in _TWO for u in UNITS for c in (0.5, 0.999)]
    more = [
        Case(world=w, units=u, level=0.95, effect=e)
        for e in EFFECTS
        for w in (_TWO if e == POOR_FIT else WORLDS)
        for u in UNITS
    ]
    return (*null, *far, *more)


def _full(case: Case) -> int:
    return 160 if case.effect == NONE and case.level == 0.95 else 120


CALIBRATION = Calibration(
    checks=CHECKS,
    reasons=REASONS,
    simulate=simulate,
    effects=EFFECTS,
    quick=(
        *((Case(world=world, units=20, level=0.95), 12) for world in WORLDS),
        *((Case(world="exchangeable", units=20, level=0.95, effect=effect), 12) for effect in EFFECTS),
        (Case(world="ties", units=20, level=0.95, effect=WORSE), 12),
    ),
    grid=_grid(),
    full=_full,
)
