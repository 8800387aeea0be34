"""The audit from plan to draft: run the operator on every grid, count, estimate, judge, draw, list."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft, Plan
from audits.records import Coverage, Skipped
from audits.spectra import Options
from audits.spectra.estimating import add_estimates, parts_of, paths_of, relative
from audits.spectra.estimator import Estimator
from audits.spectra.figures import draw
from audits.spectra.inputs import Inputs
from audits.spectra.judging import judge
from audits.spectra.measuring import Setup, measure, measure_aliasing
from audits.spectra.tally import Tally, tally

LIMITATIONS = (
    "One checkpoint is judged, on these samples: another training run of the same network may do otherwise.",
    "Intervals take the samples as drawn at random from those that the operator is for.",
    "The parts of the mismatch are differences between controls that follow one another, input before coordinates "
    "before nonlinear; where effects interact, the order decides which part bears the interaction.",
    "The targets are taken as the truth on every grid. Those of coarse grids are nodes of the finest one, so that an "
    "error of the solver that made them is in all of them.",
)
VIEWS = {
    "periodic": "Spectra read each field as periodic: a jump from one side of the domain to the other shows as a tail "
    "of high frequencies.",
    "even": "Spectra are of the even extension of each field, which has no jump at the edges but may have a kink.",
    "hann": "Spectra are of each field less its mean under a Hann window, which hides what lies near the edges.",
}


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs: Inputs = plan.inputs
    setup = inputs.setup
    counts = tally(measure(setup, context))
    aliasing = measure_aliasing(setup, context)
    draft = Draft(limitations=[*LIMITATIONS, VIEWS[setup.view]], coverage=_coverage(setup))
    for id, message in inputs.cautions:
        draft.warn(id, message)
    for note in plan.notes:
        draft.warn("input", note)
    draft.warn("input", _methods(setup))
    add_estimates(Estimator(draft, setup, context), counts, aliasing)
    judge(draft, setup)
    draft.figures = draw(draft, setup, counts)
    draft.records = _records(setup, counts)
    return draft


def _methods(setup: Setup) -> str:
    shown = f"{setup.aliasing_samples} of {setup.samples} samples" if setup.aliasing_samples else "no sample"
    return (
        f"Predictions and targets are upsampled by {setup.output_method}, inputs and lifted features of the controls "
        f"by {setup.input_method}. What activations alias was measured on {shown}, at most 16 channels each."
    )


def _coverage(setup: Setup) -> Coverage:
    left = setup.fields.count - setup.samples
    skipped = (Skipped(reason="beyond --max-samples", count=left),) if left else ()
    return Coverage(given=setup.fields.count, used=setup.samples, skipped=skipped)


def _records(setup: Setup, counts: Tally) -> list[dict[str, Any]]:
    """Return a row for every sample on every finer grid."""
    rows = []
    first = setup.grids[0]
    for grid in setup.grids[1:]:
        at = grid.resolution
        columns: Mapping[str, NDArray[np.float64]] = {}
        if setup.scored:
            errors = relative(counts.rows[f"{at}/norms"])
            same = relative(counts.rows[f"{first.resolution}/norms"])[:, 0]
            columns = {"same": same, **dict(zip(paths_of(setup, grid), errors.T, strict=True))}
        columns = {**columns, "mismatch": counts.rows[f"{at}/distances"][:, -1], **parts_of(counts, at)}
        for sample in range(setup.samples):
            row = {"sample": sample, "resolution": at}
            rows.append({**row, **{name: _number(column[sample]) for name, column in columns.items()}})
    return rows


def _number(value: float) -> float | str:
    return float(value) if np.isfinite(value) else ""
