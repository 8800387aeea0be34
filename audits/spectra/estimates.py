"""The estimates: errors, mismatch and its parts, spectra and aliasing, each from the counts."""

import numpy as np

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined
from audits.core.records import Coordinate
from audits.spectra.convergence import law, order
from audits.spectra.counts import TRACED, Counts, Floats
from audits.spectra.grids import Grid, Resolution, band_names
from audits.spectra.sample_intervals import (
    FEWEST,
    claim,
    difference,
    mean,
    ratio,
    resampled,
    root_ratio,
    share_of,
    spectrum,
)
from audits.spectra.setup import Setup, traced
from audits.statistics import exact_share

UNCONVERGED = 0.05
"""Share by which aliasing may move when measured at twice the oversampling."""
DUST = 1e-12
"""Share of a stage's energy below which its variation over the domain is rounding."""
VIEWS = {
    "periodic": "Spectra read each field as periodic: a jump from one side of the domain to the other shows as a tail "
    "of high frequencies.",
    "even": "Spectra are of the even extension of each field, which has no jump at the edges but may have a kink.",
    "hann": "Spectra are of each field less its mean under a Hann window, which hides what lies near the edges.",
}

_ORDER = "The parts of the mismatch are differences between controls that follow one another, {}"
ORDER_OF_ALL = _ORDER.format(
    "input before coordinates before nonlinear; where effects interact, the order decides which part bears the "
    "interaction."
)
ORDER_OF_TWO = _ORDER.format(
    "the input first, and all that is left is the operator's; where both interact, the part of the input bears it."
)


def estimates(draft: Draft, counts: Counts) -> None:
    """Add every estimate of the report."""
    setup = counts.setup
    draft.limit(VIEWS[setup.view])
    if any(not grid.refused for grid in setup.grids[1:]):
        draft.limit(ORDER_OF_ALL if any(traced(setup, grid) for grid in setup.grids[1:]) else ORDER_OF_TWO)
    draft.warn("input", _methods(setup))
    if setup.scored:
        for grid in setup.grids:
            _add_scores(draft, counts, grid)
    _add_mismatch(draft, counts)
    for grid in setup.grids:
        _add_spectra(draft, counts, grid)
        for name, table in counts.aliasing.get(grid.resolution, {}).items():
            _add_aliasing(draft, name, table, grid.resolution)


def _methods(setup: Setup) -> str:
    given = "inputs and lifted features" if setup.loaded.operator.divided else "inputs"
    shown = f"{setup.aliasing_samples} of {setup.samples} samples" if setup.aliasing_samples else "no sample"
    return (
        f"Predictions and targets are upsampled by {setup.output_method}, {given} of the controls by "
        f"{setup.input_method}."
        + (f" What activations alias was measured on {shown}, at most 16 channels each." if setup.activations else "")
    )


def add_row(draft: Draft, name: str, found: Interval | None, /, **where: Coordinate) -> None:
    """Add a row, with a warning where it has no interval; where it is not defined, the warning alone."""
    if found is None:
        draft.add(name, Undefined(f"{name} is not defined here: it would divide by zero."), **where)
        return
    if found.method == "none":
        n = found.n
        why = f"rests on {n} samples: too few for an interval."
        if n >= (FEWEST if name == "mismatch_law" else 2):
            why = f"has no interval where all {n} samples have the same: that tells nothing of how others would differ."
        draft.warn("no-interval", f"{name} {why}")
    draft.add(name, found, **where)


def _add_scores(draft: Draft, counts: Counts, grid: Grid) -> None:
    at, level = grid.resolution, draft.level
    errors, slopes = counts.errors(at), counts.errors(at, slopes=True)
    for number, path in enumerate(errors):
        add_row(draft, "relative_l2", mean(errors[path], level), resolution=at, path=path)
        add_row(draft, "relative_h1", mean(slopes[path], level), resolution=at, path=path)
        if path == "floor" and grid.relation == "coarser":
            # Nodes were dropped and nothing interpolated: there is no error to divide into bands.
            continue
        bands = counts.rows[f"{at}/bands"][:, number]
        # Of the bands themselves, so that shares add up to one whatever the view of the spectrum leaves out.
        whole = bands[:, :, 0].sum(axis=1)
        for column, band in enumerate(band_names(grid.bands)):
            lost, held = bands[:, column].T
            where: dict[str, Coordinate] = {"resolution": at, "path": path, "band": band}
            add_row(draft, "band_error", root_ratio(lost, held, level), **where)
            add_row(draft, "band_share", share_of(lost, whole, level), **where)
    if "direct" in errors:
        lead = errors["direct"] - errors["upsampled"]
        claims = len(counts.setup.grids) - 1
        add_row(draft, "direct_minus_upsampled", claim(lead, level, claims), resolution=at)
        add_row(
            draft,
            "direct_worse_share",
            exact_share(int((lead > 0).sum()), len(lead), "samples", level=level),
            resolution=at,
        )


def _add_mismatch(draft: Draft, counts: Counts) -> None:
    level, coarse = draft.level, int(counts.setup.grids[0].resolution)
    others = [grid.resolution for grid in counts.setup.grids[1:] if not grid.refused]
    for at in others:
        for tap, column in zip(counts.setup.stages, counts.rows[f"{at}/distances"].T, strict=True):
            add_row(draft, "mismatch", mean(column, level), resolution=at, tap=tap)
        for part, column in counts.parts(at).items():
            add_row(draft, "mismatch_share", difference(column, level), resolution=at, part=part)
        controls = counts.rows[f"{at}/controls"].T
        if len(controls) == TRACED:
            add_row(draft, "domain_share", difference(controls[1] - controls[2], level), resolution=at)
        add_row(draft, "operator_aliasing", mean(controls[-1], level), resolution=at)
    # Of one ratio on all axes: how far others are apart is no one number.
    finer = [at for at in others if isinstance(at, int) and at > coarse]
    if len(finer) > 1:
        _add_law(draft, counts, coarse, finer)


def _add_law(draft: Draft, counts: Counts, first: int, finer: list[int]) -> None:
    table = np.stack([counts.rows[f"{at}/distances"][:, -1] for at in finer], axis=1)
    steps = np.array([1 / first - 1 / at for at in finer])
    for part, statistic in (
        ("coefficient", lambda means: law(steps, means)[0]),
        ("r2", lambda means: law(steps, means)[1]),
        ("order", lambda means: order(first, finer, means)),
    ):
        add_row(draft, "mismatch_law", resampled(table, statistic, draft.level, draft.seed), part=part)


def _add_spectra(draft: Draft, counts: Counts, grid: Grid) -> None:
    at, setup, level = grid.resolution, counts.setup, draft.level
    if grid.refused:
        return
    sums = {tap: counts.rows[f"{at}/stages/sums"][:, number] for number, tap in enumerate(setup.stages)}
    energies = {tap: (counts.spectra[f"{at}/stages"], number) for number, tap in enumerate(setup.stages)}
    if setup.scored:
        sums["target"] = counts.rows[f"{at}/target/sums"][:, 0]
        energies["target"] = counts.spectra[f"{at}/target"], 0
    for tap, (running, stage) in energies.items():
        for wavenumber, energy in enumerate(spectrum(running, stage, level)):
            add_row(draft, "energy", energy, tap=tap, resolution=at, wavenumber=wavenumber)
    for tap, (running, stage) in energies.items():
        total, high, above, moment = sums[tap].T
        where: dict[str, Coordinate] = {"tap": tap, "resolution": at}
        if not total.mean() > DUST * float(total.mean() + running.mean[stage, 0]):
            draft.warn("constant-stage", "This stage does not vary over the domain.", **where)
            continue
        add_row(draft, "high_frequency_share", share_of(high, total, level), **where)
        if grid.relation != "coarser":
            # A coarser grid holds nothing beyond that of training.
            add_row(draft, "above_training_share", share_of(above, total, level), **where)
        add_row(draft, "centroid", ratio(moment, total, level), **where)
    before: Floats | float = 0.0
    for tap in counts.main_line:
        high = sums[tap][:, 1]
        add_row(draft, "high_frequency_made", difference(high - before, level), stage=tap, resolution=at)
        before = high
    add_row(draft, "high_frequency_made", mean(high, level), stage="all", resolution=at)


def _add_aliasing(draft: Draft, tap: str, table: Floats, resolution: Resolution) -> None:
    if not len(table):
        return
    for name, column in zip(("activation_aliasing", "energy_above_nyquist"), table.T, strict=False):
        add_row(draft, name, mean(column, draft.level), tap=tap, resolution=resolution)
    coarse, fine = table[0, 2:]
    if abs(fine - coarse) > UNCONVERGED * max(fine, coarse) > DUST:
        draft.warn(
            "aliasing-unconverged",
            f"Oversampled twice as finely, the aliasing of this activation moves from {coarse:.3g} to {fine:.3g}.",
            tap=tap,
            resolution=resolution,
        )
