"""The counts of the audit: every target counted at every length, and then timed in rounds."""

from audits.core.context import Context
from audits.scaling import Options
from audits.scaling.counts import Counts
from audits.scaling.inputs import Inputs


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Count and time the targets, or take the curves of a table."""
    if inputs.table is not None:
        return Counts(
            targets=inputs.table.targets,
            asked=inputs.lengths,
            curves=inputs.table.curves,
            claims=inputs.claims,
            tolerance=options.tolerance,
            mode="",
            cells=inputs.table.cells,
        )
    # torch is loaded for targets alone.
    from audits.scaling.counting import count_all

    counted = count_all(options, inputs.targets, inputs.lengths, inputs.further, context)
    curves = dict(counted.curves)
    cells: list[dict[str, object]] = []
    contention = None
    if options.rounds:
        from audits.scaling.timing import time_all

        timed = time_all(options, inputs, counted, context)
        curves |= timed.curves
        counted.skipped_lengths += timed.skipped_lengths
        cells, contention = timed.cells, timed.contention
    return Counts(
        targets=tuple(inputs.targets),
        asked=inputs.lengths,
        curves=curves,
        claims=inputs.claims,
        tolerance=options.tolerance,
        mode=options.mode,
        allocated=counted.allocated,
        skipped_lengths=counted.skipped_lengths,
        uncounted=counted.uncounted,
        on_real=counted.on_real,
        contention=contention,
        cells=cells,
    )
