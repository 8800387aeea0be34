"""From counts to numbers with intervals: means over samples, ratios of sums, spectra."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.records import Coordinate, Estimate
from audits.spectra.inputs import band_names
from audits.spectra.measuring import Grid, Setup
from audits.spectra.tally import Floats, Running, Tally
from audits.statistics import cluster_weights, generator, percentile_interval

SAMPLES = 2000
"""Bootstrap samples."""
PERCENTILE = "bootstrap over samples, percentile"
STUDENT = "Student t over samples"
LOG_STUDENT = "Student t over samples, of the logarithm"
UNCONVERGED = 0.05
"""Share by which aliasing may move when measured at twice the oversampling."""
_DUST = 1e-12

Where = Mapping[str, Coordinate]
Statistic = Callable[[Floats], Floats]


class Estimator:
    """Adds estimates to a draft; every bootstrap draws the same samples, so that differences are paired."""

    def __init__(self, draft: Draft, setup: Setup, context: Context) -> None:
        self.draft, self.setup, self.level = draft, setup, context.level
        rng = generator(context.seed, "spectra", "bootstrap")
        self.weights = cluster_weights(setup.samples, SAMPLES, rng)

    def add(self, name: str, columns: Floats, statistic: Statistic, **where: Coordinate) -> int | None:
        """Add a statistic of the means of columns, shape (n, k); `statistic` maps (..., k) to (...)."""
        n = len(columns)
        value = float(statistic(columns.mean(axis=0)))
        if not math.isfinite(value):
            self.draft.warn("undefined", f"{name} is not defined here: it would divide by zero.", **where)
            return None
        ends = None
        if n > 1:
            with np.errstate(invalid="ignore", divide="ignore"):
                ends = percentile_interval(statistic(self.weights @ columns / n), n, level=self.level)
        if ends is None:
            return self._bare(name, value, n, where)
        low, high = min(ends[0], value), max(ends[1], value)
        return self._put(name, value, low, high, PERCENTILE, n, where)

    def mean(self, name: str, column: Floats, **where: Coordinate) -> int | None:
        """Add the mean of one number a sample."""
        return self.add(name, column[:, None], lambda sums: sums[..., 0], **where)

    def ratio(self, name: str, above: Floats, below: Floats, **where: Coordinate) -> int | None:
        """Add the ratio of two sums over samples."""
        return self.add(name, np.stack([above, below], axis=1), _ratio, **where)

    def student(self, name: str, column: Floats, **where: Coordinate) -> int:
        """Add the mean of a few samples, too few to draw from."""
        from scipy.stats import t

        n, value = len(column), float(column.mean())
        if n < 2:
            return self._bare(name, value, n, where)
        half = float(t.ppf((1 + self.level) / 2, n - 1)) * float(column.std(ddof=1)) / math.sqrt(n)
        return self._put(name, value, max(value - half, 0.0), value + half, STUDENT, n, where)

    def energies(self, running: Running, taps: Sequence[str], resolution: int) -> None:
        """Add the spectrum of every stage, shape (stages, wavenumbers)."""
        from scipy.stats import t

        n = running.n
        reach = float(t.ppf((1 + self.level) / 2, n - 1)) if n > 1 else 0.0
        # Relative errors beyond one would make factors that say nothing.
        relative = running.error / np.maximum(running.mean, np.finfo(float).tiny) if n > 1 else np.zeros(0)
        for place, tap in enumerate(taps):
            for wavenumber, value in enumerate(running.mean[place].tolist()):
                where: Where = {"tap": tap, "resolution": resolution, "wavenumber": wavenumber}
                if n < 2:
                    self._bare("energy", value, n, where)
                    continue
                factor = math.exp(min(reach * float(relative[place, wavenumber]), 600.0))
                self._put("energy", value, value / factor, value * factor, LOG_STUDENT, n, where)

    def _bare(self, name: str, value: float, n: int, where: Where) -> int:
        self.draft.warn("no-interval", "A number measured on a single sample has no interval.")
        return self.draft.add(
            Estimate(name=name, value=value, level=self.level, method="none", n=n, unit="samples", where=dict(where))
        )

    def _put(self, name: str, value: float, low: float, high: float, method: str, n: int, where: Where) -> int:
        return self.draft.add(
            Estimate(
                name=name,
                value=value,
                low=low,
                high=high,
                level=self.level,
                method=method,
                n=n,
                unit="samples",
                where=dict(where),
            )
        )


def _ratio(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def _root_ratio(sums: Floats) -> Floats:
    return np.asarray(np.sqrt(_ratio(sums)))


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
        whole = bands[:, place, :, 0].sum(axis=1)
        for number, band in enumerate(band_names(grid.bands)):
            lost, held = bands[:, place, number, 0], bands[:, place, number, 1]
            where: dict[str, Coordinate] = {"resolution": at, "path": path, "band": band}
            estimator.add("band_error", np.stack([lost, held], axis=1), _root_ratio, **where)
            estimator.ratio("band_share", lost, whole, **where)
    if grid is not estimator.setup.grids[0]:
        lead = errors[:, 0] - errors[:, 1]
        estimator.mean("direct_minus_upsampled", lead, resolution=at)
        _add_share(estimator, int((lead > 0).sum()), len(lead), at)


def _add_share(estimator: Estimator, worse: int, n: int, resolution: int) -> None:
    from audits.statistics import clopper_pearson

    low, high = clopper_pearson(worse, n, level=estimator.level)
    where: Where = {"resolution": resolution}
    estimator._put("direct_worse_share", worse / n, low, high, "Clopper-Pearson", n, where)


def _add_mismatch(estimator: Estimator, counts: Tally) -> None:
    setup = estimator.setup
    finer = setup.grids[1:]
    for grid in finer:
        at = grid.resolution
        for place, tap in enumerate(setup.stages):
            estimator.mean("mismatch", counts.rows[f"{at}/distances"][:, place], resolution=at, tap=tap)
        for part, column in parts_of(counts, at).items():
            estimator.mean("mismatch_share", column, resolution=at, part=part)
        controls = counts.rows[f"{at}/controls"]
        estimator.mean("domain_share", controls[:, 1] - controls[:, 2], resolution=at)
        estimator.mean("operator_aliasing", controls[:, 3], resolution=at)
    if len(finer) > 1:
        coarse = setup.grids[0].resolution
        places = np.array([1 / coarse - 1 / grid.resolution for grid in finer])
        table = np.stack([counts.rows[f"{grid.resolution}/distances"][:, -1] for grid in finer], axis=1)
        estimator.add("mismatch_law", table, lambda means: law(places, means)[0], part="coefficient")
        estimator.add("mismatch_law", table, lambda means: law(places, means)[1], part="r2")


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


def _add_spectra(estimator: Estimator, counts: Tally, grid: Grid) -> None:
    at, setup = grid.resolution, estimator.setup
    sums, taps = counts.rows[f"{at}/stages/sums"], list(setup.stages)
    spectra = counts.spectra[f"{at}/stages"]
    estimator.energies(spectra, taps, at)
    if setup.scored:
        estimator.energies(counts.spectra[f"{at}/target"], ["target"], at)
        sums, taps = np.concatenate([sums, counts.rows[f"{at}/target/sums"]], axis=1), [*taps, "target"]
    for place, tap in enumerate(taps):
        total, high, above, moment = sums[:, place].T
        where: dict[str, Coordinate] = {"tap": tap, "resolution": at}
        if not total.mean() > _DUST * np.finfo(float).eps:
            estimator.draft.warn("constant-stage", "This stage does not vary over the domain.", **where)
            continue
        estimator.ratio("high_frequency_share", high, total, **where)
        estimator.ratio("above_training_share", above, total, **where)
        estimator.ratio("centroid", moment, total, **where)
    line = main_line(setup.stages)
    energies = {tap: sums[:, setup.stages.index(tap), 1] for tap in line}
    for before, tap in zip([None, *line], line, strict=False):
        gained = energies[tap] if before is None else energies[tap] - energies[before]
        estimator.mean("high_frequency_made", gained, stage=tap, resolution=at)
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
    estimator.student("activation_aliasing", table[:, 0], tap=name, resolution=resolution)
    coarse, fine = table[0, 2:]
    if abs(fine - coarse) > UNCONVERGED * max(fine, coarse) > _DUST:
        estimator.draft.warn(
            "aliasing-unconverged",
            f"Oversampled twice as finely, the aliasing of this activation moves from {coarse:.3g} to {fine:.3g}.",
            tap=name,
            resolution=resolution,
        )
