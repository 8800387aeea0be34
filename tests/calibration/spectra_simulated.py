"""Counts of `miles spectra` on samples whose true means are known, and what the audit makes of them; no network is run.

A sample is a unit. Its rate in a world stands for an error, relative to the target, or for a share of an energy, which
is its size: means weigh every sample alike, ratios of sums weigh it by its energy. What the audit sees of different
stages, paths and grids is drawn apart, the worst case for what is told of several grids.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from audits.core.context import Draft
from audits.core.records import Estimate
from audits.spectra.convergence import law, order
from audits.spectra.counts import Counts, Running
from audits.spectra.estimates import estimates
from audits.spectra.findings import CLAIMED_FROM, FIRST, POOR, findings
from audits.statistics import mean_intervals
from calibration.checks import NONE, Case, Outcomes, held
from calibration.worlds import GAP, Floats, Group, groups_of

EDGE, HALF, POOR_FIT, WORSE = "edge", "half", "poor fit", "worse"
COARSE, FINER = 13, (25, 49, 97)
STAGES = ("input", "lift", "output")
ACTIVATION, CYCLES, SECOND = "lift.activated", 10.0, 0.2
_FIRST_BAND, _LAST_BAND = "0-4", "4-"
_MANY = 200_000
_QUANTILE = cache(mean_intervals._student)
"""The same for all numbers of a report, of which it takes a third of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the audit counts of its samples, beside the true means."""

    counts: Counts
    truths: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Draws numbers of as many samples as there are units."""

    case: Case
    rng: np.random.Generator

    def group(self, place: int = 1, shift: float = 0.0) -> Group:
        """Draw one number a sample; places 0 and 2 are calm where groups differ in spread, else all have one law."""
        place = place if self.case.world == "unequal-spread" else 1
        return groups_of(self.case.world, self.case.units, self.rng, [shift] * 4)[place]


def setup_of(units: int) -> Any:
    """Return as much of a setup as estimates and sentences look at."""
    padding = SimpleNamespace(cells=lambda sizes: [(0, 0) for _ in sizes], amounts=(0, 0), fixed=False)
    layout = SimpleNamespace(padding=padding, coordinates="none")
    grids = [
        SimpleNamespace(
            resolution=at, sizes=(at, at), bands=(0.0, 4.0, float("inf")), relation="finer", refused="",
        )
        for at in (COARSE, *FINER)
    ]  # fmt: skip
    return SimpleNamespace(
        loaded=SimpleNamespace(operator=SimpleNamespace(layout=layout, shifted_at_odd=False, divided=True)),
        activations=(ACTIVATION,), parts=lambda grid: ("input", "coordinates", "nonlinear"),
        grids=grids, kind="closed", scored=True, stages=STAGES, samples=units, aliasing_samples=units,
        cut=SimpleNamespace(box=(4.0, 3.0), radius=None), input_method="even", output_method="sine", view="even",
    )  # fmt: skip


def count(case: Case, rng: np.random.Generator) -> Counted:
    """Draw the counts of one data set."""
    samples = _Samples(case, rng)
    aliasing = {at: _aliased(samples) for at in (COARSE, *FINER)}
    made = Counted(counts=Counts(setup=setup_of(case.units), rows={}, spectra={}, aliasing=aliasing))
    made.truths["activation"] = samples.group().mean_rate
    _add_scores(made, samples)
    _add_mismatch(made, samples)
    for at in (COARSE, *FINER):
        _add_spectra(made, samples, at)
    return made


def _aliased(samples: _Samples) -> Mapping[str, Floats]:
    columns = [samples.group().rates, samples.group().rates]
    return {ACTIVATION: np.stack([*columns, np.zeros(samples.case.units), np.zeros(samples.case.units)], axis=1)}


def _add_scores(made: Counted, samples: _Samples) -> None:
    effect, rows = samples.case.effect, made.counts.rows
    own = samples.group()
    scale = {HALF: POOR / own.mean_rate, POOR_FIT: 2 * POOR / own.mean_rate}.get(effect, 0.4)
    rows[f"{COARSE}/norms"], rows[f"{COARSE}/bands"] = _paths([own.rates * scale], samples, made)
    leads = {}
    for number, at in enumerate(FINER):
        direct = samples.group((1, 3, 1)[number], GAP if effect == WORSE else 0.0)
        raised, floor = samples.group(0), samples.group()
        times, part = (2.0, 0.5) if effect == EDGE else (1.0, 0.1)
        errors = [direct.rates * times, raised.rates, floor.rates * part * raised.mean_rate / floor.mean_rate]
        rows[f"{at}/norms"], rows[f"{at}/bands"] = _paths(errors, samples, made)
        made.truths[f"{at}/direct"] = direct.mean_rate * times
        leads[at] = direct.mean_rate * times - raised.mean_rate
    made.truths["leads"] = leads


def _paths(errors: list[Floats], samples: _Samples, made: Counted) -> tuple[Floats, Floats]:
    """Return squared norms, shape (n, paths, 4), and those by band, shape (n, paths, 2, 2)."""
    norms, bands = [], []
    for error in errors:
        slopes, band = samples.group(), samples.group()
        ones = np.ones_like(error)
        norms.append(np.stack([error**2, ones, slopes.rates**2, ones], axis=1))
        lost = np.stack([band.rates * band.sizes, (1 - band.rates) * band.sizes], axis=1)
        bands.append(np.stack([lost, np.stack([band.sizes, band.sizes], axis=1)], axis=2))
        made.truths.update({"h1": slopes.mean_rate, "band": band.estimand})
    return np.stack(norms, axis=1), np.stack(bands, axis=1)


def curves() -> tuple[Floats, Floats]:
    """Return how a mismatch of first and one of second order grow over the finer grids, 1 on the finest."""
    sizes = np.array(FINER, dtype=float)
    first, second = 1 / COARSE - 1 / sizes, 1 / COARSE**2 - 1 / sizes**2
    return first / first[-1], second / second[-1]


@cache
def share_at_edge() -> float:
    """Return how much of second order, of one of first, makes the order that is just not told as the first."""
    first, second = curves()
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        above = float(order(COARSE, FINER, first + middle * second)) > FIRST[1]
        low, high = (low, middle) if above else (middle, high)
    return (low + high) / 2


def _add_mismatch(made: Counted, samples: _Samples) -> None:
    """Of first order come coordinates and a little aliasing, of second order the input."""
    first, second = curves()
    coordinates, inputs, blocks = samples.group(1), samples.group(3), samples.group()
    little = 0.1
    # With aliasing of first order too, the share at the edge is of both.
    share = {EDGE: share_at_edge() * (1 + little), WORSE: 0.02}.get(samples.case.effect, 1.0)
    # Where both parts are alike, so are their laws: their means are those of their groups.
    mean = coordinates.mean_rate
    factor = share * mean / inputs.mean_rate
    whole_mean = mean * ((1 + little) * first + share * second)
    for number, at in enumerate(FINER):
        part = {"coordinates": coordinates.rates * first[number], "input": inputs.rates * factor * second[number]}
        nonlinear = little * mean / blocks.mean_rate * blocks.rates * first[number]
        domain = samples.group().rates * first[number] / 2
        whole = part["input"] + part["coordinates"] + nonlinear
        stages = [samples.group().rates for _ in STAGES[1:]]
        made.counts.rows[f"{at}/distances"] = np.stack([*stages, whole], axis=1)
        alone = samples.group()
        padded = part["coordinates"] + nonlinear
        made.counts.rows[f"{at}/controls"] = np.stack([padded, domain + nonlinear, nonlinear, alone.rates], axis=1)
        made.truths.update(
            {
                f"{at}/mismatch": whole_mean[number],
                f"{at}/coordinates": mean * first[number],
                f"{at}/domain": mean * first[number] / 2,
                "aliasing": alone.mean_rate,
            }
        )
    places = np.array([1 / COARSE - 1 / at for at in FINER])
    coefficient, straight = law(places, whole_mean)
    fitted = order(COARSE, FINER, whole_mean)
    made.truths.update({"coefficient": float(coefficient), "r2": float(straight), "order": float(fitted)})


def _add_spectra(made: Counted, samples: _Samples, at: int) -> None:
    """Of every stage the same share of the energy is high-frequency, but for a rise that is planted."""
    case, sums, energies = samples.case, [], []
    for place, stage in enumerate((*STAGES, "target")):
        shift = GAP if case.effect == WORSE and stage == "output" else 0.0
        drawn = samples.group(place, shift)
        high = drawn.rates * drawn.sizes
        sums.append(np.stack([drawn.sizes, high, high / 2, CYCLES * high], axis=1))
        other = samples.group()
        energies.append(np.stack([high, SECOND * other.rates * other.sizes], axis=1))
        made.truths[f"{at}/{stage}"] = drawn.estimand, drawn.estimand * drawn.words / case.units
    for name, stages in (("stages", slice(0, -1)), ("target", slice(-1, None))):
        made.counts.rows[f"{at}/{name}/sums"] = np.stack(sums[stages], axis=1)
        table = np.stack(energies[stages], axis=1)
        mean = table.mean(0)
        made.counts.spectra[f"{at}/{name}"] = Running(case.units, mean, ((table - mean) ** 2).sum(0))


@cache
def worse_share(world: str) -> float:
    """Return how often the direct error of a sample is the larger one, where both have one mean."""
    samples = _Samples(Case(world=world, units=_MANY, level=0.95), np.random.default_rng(4))
    if world == "informative-size":
        return 0.2 * 0.8
    direct, raised = samples.group(1), samples.group(0)
    return float((direct.rates > raised.rates).mean())


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Estimate and judge one data set, and hold every number and sentence against the truth."""
    made = count(case, rng)
    draft = Draft(level=case.level, seed=int(rng.integers(2**31)))
    with patch.object(mean_intervals, "_student", _QUANTILE):
        estimates(draft, made.counts)
    findings(draft, made.counts)
    found = _Found(case=case, truths=made.truths, draft=draft)
    return {**found.means(), **found.ratios(), **found.sentences()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A report beside the truth."""

    case: Case
    truths: Mapping[str, Any]
    draft: Draft

    def row(self, name: str, **where: str | int) -> Estimate | None:
        """Return the first estimate at these coordinates."""
        rows = (row for row in self.draft.estimates if row.name == name)
        return next((row for row in rows if all(row.where.get(key) == value for key, value in where.items())), None)

    def means(self) -> dict[str, bool | None]:
        """Hold what is a mean over samples, and the law that is fitted to such means."""
        true, at, finest = self.truths, FINER[0], FINER[-1]
        leads = [held(self.row("direct_minus_upsampled", resolution=at), lead) for at, lead in true["leads"].items()]
        output = {"stage": "output", "resolution": at}
        high = {stage: true[f"{at}/{stage}"][1] for stage in STAGES}
        return {
            "relative_l2": held(self.row("relative_l2", resolution=at, path="direct"), true[f"{at}/direct"]),
            "relative_h1": held(self.row("relative_h1", resolution=at, path="direct"), true["h1"]),
            "direct_minus_upsampled": None if None in leads else all(leads),
            "direct_worse_share": held(
                self.row("direct_worse_share", resolution=at), worse_share(self.case.world)
            ),
            "mismatch": held(self.row("mismatch", resolution=finest, tap="output"), true[f"{finest}/mismatch"]),
            "mismatch_share": held(
                self.row("mismatch_share", resolution=finest, part="coordinates"), true[f"{finest}/coordinates"]
            ),
            "domain_share": held(self.row("domain_share", resolution=finest), true[f"{finest}/domain"]),
            **{
                f"mismatch_law[part={part}]": held(self.row("mismatch_law", part=part), true[part])
                for part in ("coefficient", "r2", "order")
            },
            "operator_aliasing": held(self.row("operator_aliasing", resolution=at), true["aliasing"]),
            "activation_aliasing": held(self.row("activation_aliasing", resolution=at), true["activation"]),
            "energy_above_nyquist": held(self.row("energy_above_nyquist", resolution=at), true["activation"]),
            "energy": held(self.row("energy", tap="input", resolution=at, wavenumber=0), high["input"]),
            "high_frequency_made[stage=output]": held(
                self.row("high_frequency_made", **output), high["output"] - high["lift"]
            ),
            "high_frequency_made[stage=all]": held(
                self.row("high_frequency_made", stage="all", resolution=at), high["output"]
            ),
        }  # fmt: skip

    def ratios(self) -> dict[str, bool | None]:
        """Hold ratios of sums over samples."""
        at, band = FINER[0], {"path": "direct", "band": _FIRST_BAND}
        share = self.truths[f"{at}/output"][0]
        rows = {
            name: self.row(name, tap="output", resolution=at)
            for name in ("high_frequency_share", "above_training_share", "centroid")
        }
        return {
            "band_error": held(self.row("band_error", resolution=at, **band), self.truths["band"] ** 0.5),
            "band_share": held(self.row("band_share", resolution=at, **band), self.truths["band"]),
            "high_frequency_share": held(rows["high_frequency_share"], share),
            "above_training_share": held(rows["above_training_share"], share / 2),
            "centroid": held(rows["centroid"], share * CYCLES),
        }

    def sentences(self) -> dict[str, bool | None]:
        """Tell which sentences the report has."""
        told = {id: [item for item in self.draft.findings if item.id == id] for id in _IDS}
        verdicts = [str(item.where["verdict"]) for item in told["spectra.verdict"]]
        unclear = any(warning.id in ("poor-fit", "unclear-fit") for warning in self.draft.warnings)
        judged = self.case.units >= CLAIMED_FROM and not unclear
        parts = " ".join(item.statement for item in told["spectra.attribution"])
        lawful = [item.headline for item in told["spectra.law"]]
        first = any("is of first order in" in text for text in lawful)
        # Of one sample no interval tells anything; of two or more every sentence could be told.
        rises = any("grows most at stage" in item.statement for item in told["spectra.high-frequency"])
        named = "The largest part is" in parts
        return {
            "spectra.verdict": any(verdict != "tie" for verdict in verdicts) if judged else None,
            "spectra.verdict found": "upsample" in verdicts if judged else None,
            "spectra.verdict[severity=high]": (
                any(item.severity == "high" for item in told["spectra.verdict"]) if judged else None
            ),
            "spectra.verdict[limited=yes]": any(
                "Limited by interpolation" in item.statement for item in told["spectra.verdict"]
            ),
            "spectra.poor-fit": bool(told["spectra.poor-fit"]),
            "spectra.poor-fit found": bool(told["spectra.poor-fit"]),
            "spectra.attribution": named,
            "spectra.attribution found": "largest part is that of the coordinates" in parts,
            "spectra.attribution[cause=blocks]": "made in the blocks" in parts if named else None,
            "spectra.law": first or any(", not the first." in text for text in lawful) if lawful else None,
            "spectra.law found": first if lawful else None,
            "spectra.high-frequency": rises,
            "spectra.high-frequency found": rises,
        }


_IDS = ("spectra.verdict", "spectra.poor-fit", "spectra.attribution", "spectra.law", "spectra.high-frequency")
EFFECTS = {
    EDGE: "direct errs twice as much as upsampled, and the floor half as much; domain_share is half of the "
    "coordinates' part; the order of the mismatch is 1.25",
    HALF: "the error on the grid of training is 0.5",
    POOR_FIT: "the error on the grid of training is 1",
    WORSE: "direct errs by .12 more (.10 among ties), the coordinates' part is 50 times the input's, the order of the "
    "mismatch is nearly 1, and the output has .12 more high frequencies (.10 among ties) than the stage before",
}
assert NONE not in EFFECTS
