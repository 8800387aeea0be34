"""Pooled error rates of groups with intervals, and groups where they differ from the mean over speakers."""

from collections.abc import Iterator, Sequence

import numpy as np

from audits.core.intervals import Interval
from audits.statistics import Floats, RateIntervals, SpeakerSums, differs_from_pooled, rate_intervals
from audits.statistics.clustered_rates import Spread

MOST_NAMED = 12
"""Most groups that a sentence on differing rates names."""


def rate_at(rates: RateIntervals, index: int, *, unit: str = "speakers", most: float = np.inf) -> Interval:
    """Return one of several rates, with the clusters that its interval rests on, and no end above `most`."""
    bounded = rates.method[index] != "none"
    return Interval(
        value=float(rates.value[index]),
        low=float(rates.low[index]) if bounded else None,
        high=min(float(rates.high[index]), most) if bounded else None,
        method=rates.method[index],
        n=int(rates.clusters[index]),
        unit=unit,
    )


def group_rates(
    sums: SpeakerSums, *, level: float, unit: str = "speakers", extra: Floats | float = 0.0, most: float = np.inf
) -> list[list[Interval]]:
    """Return the rate of every group in every column: errors over trials of all clips, never a mean of clip rates.

    A group of one speaker has no interval, and one without a trial a rate of NaN.

    Parameters
    ----------
    extra
        Variance of each rate that speakers do not show, shape (groups, columns).
    most
        No rate is above it.
    """
    people, groups, columns = sums.errors.shape
    sizes = np.repeat(sums.sizes[:, :, None], columns, axis=2)
    flat = (people, groups * columns)
    beside = np.broadcast_to(extra, (groups, columns)).ravel()
    rates = rate_intervals(sums.errors.reshape(flat), sizes.reshape(flat), level=level, extra=beside)
    return [
        [rate_at(rates, group * columns + column, unit=unit, most=most) for column in range(columns)]
        for group in range(groups)
    ]


def differing(mean: Spread, above: Spread, names: Sequence[str], *, level: float, tests: int) -> Iterator[str]:
    """Yield in words the groups whose mean over speakers differs from the pooled rate.

    A pooled rate is that of the words: who says much weighs much. Where those err more, or less, it depends on how many
    of them were drawn, and its interval cannot know of any who were not.

    Parameters
    ----------
    mean, above
        As of `mean_of_rates`.
    """
    for at in np.flatnonzero(differs_from_pooled(mean, above, level=level, tests=tests)).tolist():
        value = float(mean.value[at])
        yield f"{names[at]} ({value:.3f} each, {value - float(above.value[at]):.3f} pooled)"


def differing_words(groups: Sequence[str], unit: str = "speakers", trials: str = "words") -> str:
    """Return the sentence on groups (from `differing`) in which the amount of speech goes with the error rate."""
    more = f" and {len(groups) - MOST_NAMED} more" if len(groups) > MOST_NAMED else ""
    return (
        f"Who says more errs otherwise than who says less, in {', '.join(groups[:MOST_NAMED])}{more}: the mean over "
        f"{unit} and the pooled rate part. The pooled rate is that of the {trials}, and depends on how many such "
        f"{unit} were drawn: others may change it beyond its interval."
    )
