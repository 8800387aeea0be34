"""Which numbers does the audit tell? Errors, mismatch and its parts, spectra, aliasing, each from the counts."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from audits.records import Coordinate
from audits.spectra.estimator import Estimator
from audits.spectra.measuring import Grid, Setup
from audits.spectra.nesting import band_names
from audits.spectra.tally import Floats, Tally

UNCONVERGED = 0.05
"""Share by which aliasing may move when measured at twice the oversampling."""
DUST = 1e-12
"""Share of a stage's energy below which its variation over the domain is rounding."""
ORDERS = np.arange(0.1, 4.001, 0.01)
"""Orders of convergence that are tried, before the best is found between its neighbours."""


def relative(norms: Floats, column: int = 0) -> Floats:
    """Return the relative error of every sample and path from squared norms, shape (n, paths)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt(norms[..., column] / norms[..., column + 1]))


def paths_of(setup: Setup, grid: Grid) -> tuple[str, ...]:
    """Return the paths that are scored on a grid, in the order of the counts."""
    return ("same",) if grid is setup.grids[0] else ("direct", "upsampled", "floor")


def add_estimates(
    estimator: Estimator, counts: Tally, aliasing: Mapping[int, Mapping[str, NDArray[np.float64]]]
) -> None:
    """Add every estimate of the report."""
    setup = estimator.setup
    for grid in setup.grids:
        if setup.scored:
            _add_scores(estimator, counts, grid)
    _add_mismatch(estimator, counts)
    for grid in setup.grids:
        _add_spectra(estimator, counts, grid)
        for name, table in aliasing[grid.resolution].items():
            _add_aliasing(estimator, name, table, grid.resolution)


def _add_scores(estimator: Estimator, counts: Tally, grid: Grid) -> None:
    at = grid.resolution
    norms, bands = counts.rows[f"{at}/norms"], counts.rows[f"{at}/bands"]
    errors, with_gradients = relative(norms), relative(norms, 2)
    for place, path in enumerate(paths_of(estimator.setup, grid)):
        estimator.mean("relative_l2", errors[:, place], resolution=at, path=path)
        estimator.mean("relative_h1", with_gradients[:, place], resolution=at, path=path)
        # Of the bands themselves, so that shares add up to one whatever the view of the spectrum leaves out.
        whole = bands[:, place, :, 0].sum(axis=1)
        for number, band in enumerate(band_names(grid.bands)):
            lost, held = bands[:, place, number, 0], bands[:, place, number, 1]
            where: dict[str, Coordinate] = {"resolution": at, "path": path, "band": band}
            estimator.root_ratio("band_error", lost, held, **where)
            estimator.share_of("band_share", lost, whole, **where)
    if grid is not estimator.setup.grids[0]:
        lead = errors[:, 0] - errors[:, 1]
        estimator.claim("direct_minus_upsampled", lead, len(estimator.setup.grids) - 1, resolution=at)
        estimator.share("direct_worse_share", int((lead > 0).sum()), len(lead), resolution=at)


def _add_mismatch(estimator: Estimator, counts: Tally) -> None:
    setup = estimator.setup
    finer = setup.grids[1:]
    for grid in finer:
        at = grid.resolution
        for place, tap in enumerate(setup.stages):
            estimator.mean("mismatch", counts.rows[f"{at}/distances"][:, place], resolution=at, tap=tap)
        for part, column in parts_of(counts, at).items():
            estimator.difference("mismatch_share", column, resolution=at, part=part)
        controls = counts.rows[f"{at}/controls"]
        estimator.difference("domain_share", controls[:, 1] - controls[:, 2], resolution=at)
        estimator.mean("operator_aliasing", controls[:, 3], resolution=at)
    if len(finer) > 1:
        _add_law(estimator, counts)


def _add_law(estimator: Estimator, counts: Tally) -> None:
    first, *finer = (grid.resolution for grid in estimator.setup.grids)
    table = np.stack([counts.rows[f"{at}/distances"][:, -1] for at in finer], axis=1)
    places = np.array([1 / first - 1 / at for at in finer])
    for part, statistic in (
        ("coefficient", lambda means: law(places, means)[0]),
        ("r2", lambda means: law(places, means)[1]),
        ("order", lambda means: order(first, finer, means)),
    ):
        estimator.resampled("mismatch_law", table, statistic, part=part)


def parts_of(counts: Tally, resolution: int) -> dict[str, Floats]:
    """Return what each part adds to the mismatch of the output, a number a sample; the three add up to it."""
    whole = counts.rows[f"{resolution}/distances"][:, -1]
    controls = counts.rows[f"{resolution}/controls"]
    padded, periodic = controls[:, 0], controls[:, 2]
    return {"input": whole - padded, "coordinates": padded - periodic, "nonlinear": periodic}


def law(places: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Fit mismatch = c (1/s - 1/S) and return c and R^2; the grid of training, where both are zero, counts too.

    Parameters
    ----------
    places
        1/s - 1/S of every finer grid, shape (grids,).
    means
        Mismatch, shape (..., grids).

    Examples
    --------
    >>> c, r2 = law(np.array([0.1, 0.2]), np.array([0.3, 0.6]))
    >>> round(float(c), 6), round(float(r2), 6)
    (3.0, 1.0)
    """
    slope = (means * places).sum(-1) / (places**2).sum()
    left = ((means - slope[..., None] * places) ** 2).sum(-1)
    count = means.shape[-1] + 1
    spread = (means**2).sum(-1) - means.sum(-1) ** 2 / count
    with np.errstate(invalid="ignore", divide="ignore"):
        return slope, np.asarray(1 - left / spread)


def order(coarse: int, finer: Sequence[int], means: Floats) -> Floats:
    """Return the p between the ends of `ORDERS` for which c (s^-p - S^-p) comes nearest to the mismatch, shape (...).

    Parameters
    ----------
    means
        Mismatch at every finer grid, shape (..., grids), two grids at least.

    Examples
    --------
    >>> finer = np.array([60, 120, 240])
    >>> round(float(order(30, finer.tolist(), 1 / 30**1.234 - 1.0 / finer**1.234)), 4)
    1.234
    """
    sizes = np.asarray(finer, dtype=float)
    shapes = coarse ** -ORDERS[:, None] - sizes ** -ORDERS[:, None]
    # Of unit length, so that what fits best does not depend on how steep a shape is.
    shapes /= np.linalg.norm(shapes, axis=1, keepdims=True)
    # The direction nearest to the mismatch leaves the least.
    near = means @ shapes.T
    best = np.argmax(near, axis=-1)
    # Between its neighbours by the parabola through the three: the digits told are finer than the steps that are tried.
    inner = np.clip(best, 1, len(ORDERS) - 2)
    before, here, after = (np.take_along_axis(near, (inner + step)[..., None], -1)[..., 0] for step in (-1, 0, 1))
    bend = before - 2 * here + after
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = np.where((best == inner) & (bend < 0), (before - after) / (2 * bend), 0.0)
    return np.asarray(ORDERS[best] + np.clip(shift, -0.5, 0.5) * (ORDERS[1] - ORDERS[0]))


def _add_spectra(estimator: Estimator, counts: Tally, grid: Grid) -> None:
    at, setup = grid.resolution, estimator.setup
    sums, taps = counts.rows[f"{at}/stages/sums"], list(setup.stages)
    spectra = counts.spectra[f"{at}/stages"]
    estimator.energies(spectra, taps, at)
    levels = spectra.mean[:, 0]
    if setup.scored:
        estimator.energies(counts.spectra[f"{at}/target"], ["target"], at)
        sums, taps = np.concatenate([sums, counts.rows[f"{at}/target/sums"]], axis=1), [*taps, "target"]
        levels = np.append(levels, counts.spectra[f"{at}/target"].mean[:, 0])
    for place, tap in enumerate(taps):
        total, high, above, moment = sums[:, place].T
        where: dict[str, Coordinate] = {"tap": tap, "resolution": at}
        whole = float(total.mean() + levels[place])
        if not total.mean() > DUST * whole:
            estimator.draft.warn("constant-stage", "This stage does not vary over the domain.", **where)
            continue
        estimator.share_of("high_frequency_share", high, total, **where)
        estimator.share_of("above_training_share", above, total, **where)
        estimator.ratio("centroid", moment, total, **where)
    line = main_line(setup.stages)
    energies = {tap: sums[:, setup.stages.index(tap), 1] for tap in line}
    for before, tap in zip([None, *line], line, strict=False):
        gained = energies[tap] if before is None else energies[tap] - energies[before]
        estimator.difference("high_frequency_made", gained, stage=tap, resolution=at)
    estimator.mean("high_frequency_made", energies[line[-1]], stage="all", resolution=at)


def main_line(stages: Sequence[str]) -> list[str]:
    """Return the stages that follow one on another, from input to output: without branches that are added up later.

    Examples
    --------
    >>> main_line(["input", "lift", "block0.skip", "block0.spectral", "block0.sum", "block0.activated", "output"])
    ['input', 'lift', 'block0.sum', 'block0.activated', 'output']
    """
    added = {name.removesuffix(".sum") for name in stages if name.endswith(".sum")}
    branches = ("skip", "spectral", "norm", "inner")
    kept = []
    for name in stages:
        block, _, rest = name.partition(".")
        if rest.partition(".")[0] in branches and (block in added or rest == "skip"):
            continue
        kept.append(name)
    return kept


def _add_aliasing(estimator: Estimator, name: str, table: Floats, resolution: int) -> None:
    if not len(table):
        return
    for column, told in enumerate(("activation_aliasing", "energy_above_nyquist")):
        estimator.mean(told, table[:, column], tap=name, resolution=resolution)
    coarse, fine = table[0, 2:]
    if abs(fine - coarse) > UNCONVERGED * max(fine, coarse) > DUST:
        estimator.draft.warn(
            "aliasing-unconverged",
            f"Oversampled twice as finely, the aliasing of this activation moves from {coarse:.3g} to {fine:.3g}.",
            tap=name,
            resolution=resolution,
        )
