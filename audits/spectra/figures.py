"""The charts of the audit; each answers the question in its title."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from audits.core.context import Draft
from audits.core.records import Figure
from audits.report.charts import Axis, Picture, figure_of, forest, images, lines, numbers_of
from audits.spectra.counts import Counts
from audits.spectra.grids import Grid
from audits.spectra.setup import Setup, predicted, read_batch, silent_pass
from probes.operators.grids import restricted
from probes.operators.resampling import upsample

POINTS = 20
"""Points of one spectrum that are drawn, evenly on a logarithmic axis."""
SHOWN = ("input", "lift", "activated", "out", "projection.activated", "output", "target")
_PATHS = {"direct": "run directly", "upsampled": "via training grid", "floor": "truth via that grid"}
_SHORT = {"input": "input", "coordinates": "coordinates, edges, period", "nonlinear": "nonlinear aliasing",
          "operator": "the operator itself"}  # fmt: skip


def figures(draft: Draft, counts: Counts) -> Iterator[Figure]:
    """Yield the figures; fields on one axis get no picture."""
    setup = counts.setup
    if setup.scored:
        yield _errors(draft, setup)
    if draft.select("mismatch_share"):
        yield _parts(draft)
    if draft.select("mismatch"):
        yield _stages(draft)
    yield _spectra(draft, setup)
    yield _made(draft, counts)
    run = [grid for grid in setup.grids[1:] if not grid.refused]
    if run and len(run[-1].sizes) > 1:
        yield _example(counts, run[-1])


def _errors(draft: Draft, setup: Setup) -> Figure:
    rows = []
    coarser = {grid.resolution for grid in setup.grids if grid.relation == "coarser"}
    for row in draft.select("relative_l2"):
        at, path = row.where["resolution"], row.where["path"]
        if path == "floor" and at in coarser:
            # Nodes are dropped and nothing is interpolated: zero, which is no floor of anything.
            continue
        # On the grid of training both ways are one: each line begins there.
        names = ("direct", "upsampled") if path == "same" else (str(path),)
        rows += [numbers_of(row, resolution=at, path=_PATHS[name]) for name in names]
    named = any(isinstance(grid.resolution, str) for grid in setup.grids)
    order = [grid.resolution for grid in sorted(setup.grids, key=lambda grid: (math.prod(grid.sizes), grid.sizes))]
    rows.sort(key=lambda row: (str(row["path"]), order.index(row["resolution"])))
    if named:
        rows = [{**row, "resolution": str(row["resolution"])} for row in rows]
    spec = lines(
        rows,
        x=Axis("resolution", "Points on an axis", kind="ordinal" if named else "quantitative", zero=False),
        y=Axis("value", "Relative l2 error", ".3f"),
        low="low",
        high="high",
        series="path",
        series_title="Path",
    )
    coarse = setup.grids[0].resolution
    return figure_of(
        "errors",
        "Is it better run on another grid, or where it was trained?",
        _said_of_errors(setup, int(coarse)),
        spec,
    )


def _said_of_errors(setup: Setup, coarse: int) -> str:
    rest = (
        "The truth via that grid is what upsampling the true solution costs. Bands are intervals over samples; that "
        "the two bands overlap says nothing, since the samples are the same."
    )
    if all(grid.relation == "finer" for grid in setup.grids):
        return (
            f"Both ways start from the same error on the grid of training ({coarse}). Run directly: on the finer grid. "
            f"Via training grid: run there, and upsampled. {rest}"
        )
    return (
        f"Both ways are one on the grid of training ({coarse}). Run directly: on the grid itself. Via training grid: "
        "run there, with the input upsampled where the grid is coarser, and the output where it is finer. On coarser "
        f"grids nothing of the truth is interpolated, and it has no line. {rest}"
    )


def _parts(draft: Draft) -> Figure:
    rows = [
        numbers_of(row, grid=f"{row.where['resolution']} points on an axis", part=_SHORT[str(row.where["part"])])
        for row in draft.select("mismatch_share")
    ]
    undivided = bool(draft.select("mismatch_share", part="operator"))
    traced = bool(draft.select("mismatch_share", part="coordinates"))
    spec = forest(
        rows,
        label="part",
        value=Axis("value", "Mismatch of the prediction at the common nodes, relative l2", ".3f"),
        low="low",
        high="high",
        reference=0.0,
        facet="grid",
    )
    return figure_of("parts", "Why does the answer change with the grid?", _said_of_parts(undivided, traced), spec)


def _said_of_parts(undivided: bool, traced: bool) -> str:
    last = (
        " Coordinates, edges, period: what goes when the features do, too, in the blocks' own period. Nonlinear "
        "aliasing: what is left."
    )
    if not undivided:
        return (
            "The three parts of a grid add up to how far its prediction lies from that on the grid of training. "
            f"Input: what goes when the input holds no more than the coarse grid.{last}"
        )
    return (
        "The parts of a grid add up to how far its prediction lies from that on the grid of training. Input: what goes "
        "when both grids are given what the coarser one holds. The operator itself: what is left then, undivided."
        + (last if traced else "")
    )


def _stages(draft: Draft) -> Figure:
    rows = [
        numbers_of(row, stage=str(row.where["tap"]), grid=f"{row.where['resolution']}")
        for row in draft.select("mismatch")
    ]
    spec = lines(
        rows,
        x=Axis("stage", "", kind="ordinal"),
        y=Axis("value", "Mismatch at the common nodes, relative l2", ".2f"),
        low="low",
        high="high",
        series="grid",
        series_title="Points on an axis",
    )
    return figure_of(
        "stages",
        "In which stage is the difference born?",
        "Stages in the order in which the network computes them; how far each lies from the same stage on the "
        "grid of training.",
        spec,
    )


def _spectra(draft: Draft, setup: Setup) -> Figure:
    nyquist = {
        str(grid.resolution): (grid.resolution if isinstance(grid.resolution, int) else max(grid.sizes)) / 2
        for grid in setup.grids
    }
    kept = {tap for tap in (*setup.stages, "target") if tap in SHOWN or tap.rpartition(".")[2] in SHOWN}
    if not setup.loaded.operator.divided:
        # Stages that were named are wanted.
        kept = {*setup.stages, "target"}
    rows = []
    for row in draft.select("energy"):
        tap, at, wavenumber = row.where["tap"], row.where["resolution"], float(row.where["wavenumber"])
        if tap in kept and 1 <= wavenumber <= nyquist[str(at)] and _drawn(int(wavenumber)) and row.value > 0:
            rows.append(numbers_of(row, wavenumber=wavenumber, stage=str(tap), grid=f"{at}"))
    spec = lines(
        [{key: value for key, value in row.items() if key != "n"} for row in rows],
        x=Axis("wavenumber", "Cycles per domain", kind="quantitative", zero=False, scale="log"),
        y=Axis("value", "Energy", ".0e", zero=False, scale="log"),
        low="low",
        high="high",
        series="grid",
        series_title="Points on an axis",
        facet="stage",
    )
    return figure_of(
        "spectra",
        "Which frequencies does each stage hold?",
        "Energy a wavenumber, mean of the channels and samples, on every grid in the same unit, up to half the "
        "points on an axis; what lies in the corners beyond is in the table. Near its end the curve of a grid bends up "
        "even for the target, since what the grid cannot hold folds back.",
        spec,
    )


def _drawn(wavenumber: int) -> bool:
    """Tell whether a wavenumber is drawn: all small ones, then some, evenly spaced on a logarithmic axis."""
    step = max(1, wavenumber // POINTS * 4)
    return wavenumber % step == 0


def _made(draft: Draft, counts: Counts) -> Figure:
    line, cut = [*counts.main_line, "target"], counts.setup.cut
    rows = [
        numbers_of(row, stage=str(row.where["tap"]), grid=f"{row.where['resolution']}")
        for row in draft.select("high_frequency_share")
        if row.where["tap"] in line and row.value > 0 and (row.low is None or row.low > 0)
    ]
    spec = lines(
        rows,
        x=Axis("stage", "", kind="ordinal"),
        y=Axis("value", "Share of energy that is high-frequency", ".0e", zero=False, scale="log"),
        low="low",
        high="high",
        series="grid",
        series_title="Points on an axis",
    )
    box = " x ".join(f"{edge:g}" for edge in dict.fromkeys(cut.box))
    beyond = f"{box} (the modes kept)" if cut.radius is None else f"{cut.radius:g}"
    return figure_of(
        "made",
        "Where are high frequencies made?",
        f"Share of the energy of each stage beyond {beyond} cycles per domain, from input to output, and of "
        "the target: where the line rises a stage makes high frequencies, where it falls it removes them. The energies "
        "themselves are in the table; they depend on how a network scales its stages, the shares do not.",
        spec,
    )


def _example(counts: Counts, grid: Grid) -> Figure:
    """Draw the sample whose difference of direct and upsampled error is the median, on the finest grid."""
    setup = counts.setup
    if setup.scored:
        errors = counts.errors(grid.resolution)
        score = errors["direct"] - errors["upsampled"]
    else:
        score = counts.rows[f"{grid.resolution}/distances"][:, -1]
    # The median, so that nobody picks the sample that a reader sees.
    sample = int(np.argsort(score)[len(score) // 2])
    arrays = setup.fields.read(sample, sample + 1)
    coarse, _ = read_batch(setup, setup.grids[0], arrays)
    fine, target = read_batch(setup, grid, arrays)
    direct = predicted(setup, silent_pass(setup, fine))
    if grid.relation != "finer":
        coarse = upsample(restricted(fine, grid.common), setup.grids[0].sizes, setup.kind, setup.input_method)
    raised = predicted(setup, silent_pass(setup, coarse))
    raised = upsample(restricted(raised, grid.within), grid.sizes, setup.kind, setup.output_method)
    other = "upsampled" if grid.relation == "finer" else "via training grid"
    shown = _panels(fine, target, direct, raised, other)
    lead = "upsampling" if grid.relation == "finer" else "the grid of training"
    median = f"whose lead of {lead} is the median" if setup.scored else "whose mismatch is the median"
    note = "Both errors share one scale." if setup.scored else "The last is the difference of the two before it."
    return figure_of(
        "fields",
        "What does the difference look like?",
        f"Sample {sample}, {median}, at {grid.resolution} points on an axis; under each title the values of "
        f"the darkest and the brightest colour. {note}",
        images(shown),
    )


def _panels(
    fine: torch.Tensor, target: torch.Tensor | None, direct: torch.Tensor, raised: torch.Tensor, other: str
) -> Sequence[Picture]:
    if target is None:
        apart = (direct - raised).abs()
        return [Picture("Network's input", _plane(fine)), Picture("Run directly", _plane(direct)),
                Picture(other.capitalize(), _plane(raised)), Picture("Difference", _plane(apart))]  # fmt: skip
    lost = [_plane((field - target).abs()) for field in (direct, raised)]
    most = max(float(field.max()) for field in lost)
    truth = _plane(target)
    ends = (float(truth.min()), float(truth.max()))
    return [
        Picture("Network's input", _plane(fine)),
        Picture("Target", truth, ends),
        Picture("Run directly", _plane(direct), ends),
        Picture(other.capitalize(), _plane(raised), ends),
        Picture("Error, run directly", lost[0], (0.0, most)),
        Picture(f"Error, {other}", lost[1], (0.0, most)),
    ]


def _plane(field: torch.Tensor) -> NDArray[np.float64]:
    """Return the first channel of the first sample; in three dimensions the middle slice of the last axis."""
    values: NDArray[np.float64] = field[0, 0].double().cpu().numpy()
    return values[..., values.shape[-1] // 2] if values.ndim == 3 else values
