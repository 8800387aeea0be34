"""The counts of the audit: how estimates agree with the gradient, stored in files or made here by a network."""

from audits.core.context import Context
from audits.gradients import Options
from audits.gradients.counts import ALL, HIDDEN, Counts
from audits.gradients.inputs import Inputs
from probes.gradients.stored_gradients import StoredGradients, compare_stored


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Compare stored gradients, or those that the methods give along a training by backpropagation."""
    if inputs.stored is not None:
        stored = compare_stored(inputs.stored, context.progress)
        totals = {name: one.with_totals(inputs.stored.hidden) for name, one in stored.agreements.items()}
        return Counts(
            layers=(*inputs.stored.shapes, HIDDEN, ALL),
            steps=inputs.stored.axes[0],
            agreements=totals,
            absent={name: count for name, count in stored.absent.items() if count},
            not_finite=stored.not_finite,
            no_file=_no_file(inputs.stored),
            claims=inputs.claims,
        )
    # With torch behind it, which stored gradients do not need.
    from audits.gradients.comparing import compared

    return compared(options, inputs, context)


def _no_file(stored: StoredGradients) -> frozenset[tuple[int, int]]:
    steps, batches = stored.axes
    pairs = ((at, when) for at in range(len(steps)) for when in range(len(batches)))
    return frozenset((at, when) for at, when in pairs if (steps[at], batches[when]) not in stored.files)
