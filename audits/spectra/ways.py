"""The words for the way over the grid of training, which is another on coarser grids than on finer ones."""

from audits.spectra.grids import Relation
from audits.spectra.setup import Setup

SHORT: dict[Relation, str] = {
    "finer": "upsampled from {}",
    "coarser": "run at {} with the input upsampled",
    "mixed": "run over the grid of {}",
}
"""After "less": the other way, at the points of the grid of training."""
RUN: dict[Relation, str] = {
    "finer": "run at {} and upsampled",
    "coarser": "with the input upsampled to {} and run there",
    "mixed": "with the input taken to {}, run there and taken back",
}
ADVICE: dict[Relation, str] = {
    "finer": "run at {} and upsample",
    "coarser": "upsample the input to {} and run there",
    "mixed": "take the input to {}, run there and take the output back",
}
OTHER: dict[Relation, str] = {
    "finer": "upsampling from {}",
    "coarser": "upsampling the input to {}",
    "mixed": "going over the grid of {}",
}


def settings_of(setup: Setup) -> str:
    """Return the options besides scales that may not be those of training: some are for known families alone."""
    if setup.loaded.operator.divided:
        return "--grid, --padding, --norm"
    return "the channels of --input, --grid, --coordinates"


def said(words: dict[Relation, str], relation: Relation, coarse: int | str) -> str:
    """Return the words for a grid, with the points of the grid of training.

    Examples
    --------
    >>> said(ADVICE, "coarser", 31)
    'upsample the input to 31 and run there'
    """
    return words[relation].format(coarse)
