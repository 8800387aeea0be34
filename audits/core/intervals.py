"""The result of a statistic: a number with its interval, or the reason why there is none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


class Ends:
    """Questions about the two ends of an interval, shared by statistics and estimates."""

    __slots__ = ()
    value: float
    low: float | None
    high: float | None
    method: str

    def below(self, limit: float) -> bool:
        """Tell whether the whole interval lies below a limit; of an exact number, whether the number does."""
        end = self._end(self.high)
        return end is not None and end < limit

    def above(self, limit: float) -> bool:
        """Tell whether the whole interval lies above a limit; of an exact number, whether the number does."""
        end = self._end(self.low)
        return end is not None and end > limit

    def excludes(self, number: float) -> bool:
        """Tell whether a number lies outside of the interval."""
        return self.below(number) or self.above(number)

    def _end(self, end: float | None) -> float | None:
        return self.value if end is None and self.method == "exact" else end


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Ends):
    """A number with its interval, as a statistic returns it; a name and coordinates make it an estimate.

    Parameters
    ----------
    value, low, high
        The point and both ends; the ends are None only where `method` is "exact" or "none".
    method
        How the interval was made, in words.
    n, unit
        How many independent units it rests on, and what they are.
    level
        Confidence level; None: that of the run.

    Examples
    --------
    >>> found = Interval(value=0.2, low=0.1, high=0.35, method="Wilson", n=40, unit="clips")
    >>> found.above(0.05), found.below(0.3), found.excludes(0.4)
    (True, False, True)
    """

    value: float
    low: float | None = None
    high: float | None = None
    method: str
    n: int
    unit: str
    level: float | None = None

    def clipped(self, least: float = -math.inf, most: float = math.inf) -> "Interval":
        """Return the interval with both ends moved into a range; the value stays."""
        low, high = (None if end is None else min(max(end, least), most) for end in (self.low, self.high))
        return replace(self, low=low, high=high)


@dataclass(frozen=True, slots=True)
class Undefined:
    """The reason why a number could not be computed: it becomes a warning of this id instead of an estimate.

    Parameters
    ----------
    why
        The message of the warning.
    id
        Its id.
    where
        Its coordinates; None: those of the estimate that is not there.
    """

    why: str
    id: str = "undefined"
    where: Mapping[str, str | int | float] | None = field(default=None)


def exact(value: float, *, n: int, unit: str, level: float | None = None) -> Interval:
    """Return a number that was not sampled and so has no interval."""
    return Interval(value=value, method="exact", n=n, unit=unit, level=level)
