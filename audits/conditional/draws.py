"""Whether what is called samples are draws at all, and such that their ranks can be tested."""

import numpy as np

from probes.conditional.draws_check import piled, regular_spacing, shared_draws, whole_numbers
from probes.conditional.laws import Floats

COARSE = 10
"""Standard deviation of the draws of a row below which whole outcomes beside draws that are not whole are a matter."""
REGULAR = 0.6
"""Mean ratio above which values are no independent draws; quantiles of a normal law have .79 (5) to .92 (50)."""


def untested(y: Floats, samples: Floats) -> str:
    """Return why ranks among these samples test nothing, with the remedy; empty where they do.

    Parameters
    ----------
    y, samples
        Outcomes of all rows, (n, d), and samples of some with different inputs, (rows, K, d), in the file's scale.
    """
    alike = shared_draws(samples)
    if alike is not None and alike.shared:
        return (
            "the same random numbers stand behind every row, so that ranks of rows are not independent: draw anew "
            "for each row"
        )
    spacing = regular_spacing(samples) if samples.shape[2] == 1 else None
    if spacing is not None and spacing > REGULAR:
        return (
            f"its samples are spaced too evenly to be draws (neighbouring gaps have a ratio of {spacing:.2f}, those of "
            "draws .39): give them as points with weights, or as quantiles with levels"
        )
    # Where draws of a row spread over many whole numbers, rounding moves no rank that matters.
    if whole_numbers(y) and not whole_numbers(samples) and np.median(samples.std(1)) < COARSE:
        return "outcomes are whole numbers and its samples are not: round the samples as the outcomes were"
    ours, theirs = piled(y), piled(samples.reshape(-1, samples.shape[2]))
    if (ours.least and not theirs.least) or (ours.greatest and not theirs.greatest):
        return "outcomes pile up at their least or greatest value and its samples do not: censor the samples likewise"
    return ""
