"""Signs that others slowed the machine while times were measured: then wall time says nothing of the growth."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from probes.scaling.timing import Cell

SLOWED = 1.3
"""A round is flagged where the reference takes this many times its least."""
VARIES = 0.2
SPREAD = 1.5
SHARE = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """Signs that a machine was busy.

    Parameters
    ----------
    flagged
        Rounds whose median of the reference is above 1.3 times its least over all cells.
    variation
        Coefficient of variation of the wall seconds over rounds, robust, by target and length.
    ratio_spread
        Greatest over least ratio of wall to processor seconds (medians over rounds) of all sizes; 1 without a
        processor clock.
    others
        How many others were running, by the cores of the machine, in the middle of the cells; 0 where it is not known.
    contended
        Whether a third of the rounds are flagged, others took all cores, a third of the sizes vary by more than .2, or
        the ratio by 1.5.
    """

    flagged: tuple[int, ...]
    variation: Mapping[tuple[str, int], float]
    ratio_spread: float
    others: float
    contended: bool


def contention(cells: Sequence[Cell]) -> Contention:
    """Look for signs of other work in the cells of a timing."""
    rounds = {cell.round: [one.reference for one in cells if one.round == cell.round] for cell in cells}
    least = min((cell.reference for cell in cells), default=0.0)
    flagged = tuple(sorted(one for one, seconds in rounds.items() if statistics.median(seconds) > SLOWED * least))
    variation = {size: varies([cell.wall for cell in own]) for size, own in by_size(cells).items()}
    spread = _ratio_spread(cells)
    others = statistics.median([cell.others for cell in cells if cell.others is not None] or [0.0])
    restless = sum(one > VARIES for one in variation.values()) > SHARE * len(variation)
    return Contention(
        flagged=flagged,
        variation=variation,
        ratio_spread=spread,
        others=others,
        contended=restless or spread > SPREAD or others >= 1 or len(flagged) > SHARE * len(rounds),
    )


def by_size(cells: Sequence[Cell]) -> dict[tuple[str, int], list[Cell]]:
    """Return the cells of each target and length, those of all rounds together."""
    found: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.target, cell.n), []).append(cell)
    return found


def varies(seconds: Sequence[float]) -> float:
    """Return the coefficient of variation by quartiles, which a few slow rounds do not move; 0 of a single number.

    >>> round(varies([1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 9.0]), 3)
    0.111
    """
    if len(seconds) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    # The quartiles of a normal distribution lie 1.349 standard deviations apart.
    return (high - low) / (1.349 * middle)


def _ratio_spread(cells: Sequence[Cell]) -> float:
    ratios = [
        statistics.median(known)
        for own in by_size(cells).values()
        if (known := [cell.wall / cell.cpu for cell in own if cell.cpu])
    ]
    return max(ratios) / min(ratios) if ratios else 1.0
