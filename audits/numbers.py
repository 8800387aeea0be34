"""How is a number written? With the digits that its interval bears, its interval, its level and its count.

The page, the Markdown and the terminal all take their numbers from here, so that they never differ.
"""

import math
from collections.abc import Mapping

from audits.records import Coordinate, Estimate

LOWER_BOUND = "Lower bound:"
"""How the method of an estimate begins that bounds from below: its upper end is no limit, but what could be proved."""
MOST_DECIMALS = 8
"""With more decimals than this, or from 10 ** 15 on, a plain number would be unreadable."""


def decimals(estimate: Estimate) -> int:
    """Return how many decimals the point and both ends take.

    Two significant digits of the interval's width w decide: 1 - floor(log10 w), never below zero. Without an
    interval, or with one of no width, three significant digits of the point do. Whole numbers stay whole.

    Examples
    --------
    >>> decimals(Estimate(name="rate", value=0.1638, low=0.116, high=0.2141, method="Wilson", n=9, unit="x"))
    3
    >>> decimals(Estimate(name="layer", value=3.0, low=2.0, high=4.0, method="bootstrap", n=9, unit="x"))
    0
    """
    ends = [number for number in (estimate.value, estimate.low, estimate.high) if number is not None]
    if all(float(number).is_integer() for number in ends):
        return 0
    width = 0.0 if estimate.low is None or estimate.high is None else estimate.high - estimate.low
    if width > 0:
        places = max(0, 1 - math.floor(math.log10(width)))
        # An end that is not zero must not be written as zero: it decides on which side the interval lies.
        hidden = [end for end in (estimate.low, estimate.high) if end and not round(end, places)]
        return places + 1 if any(round(end, places + 1) for end in hidden) else places
    size = max(abs(number) for number in ends)
    return max(0, 2 - math.floor(math.log10(size))) if size else 0


def written(number: float, places: int) -> str:
    """Return one number with `places` decimals; a zero has no sign.

    Examples
    --------
    >>> written(0.1638, 3), written(-0.0001, 2), written(969.0, 0), written(2.5e-12, 13)
    ('0.164', '0.00', '969', '2.5e-12')
    """
    if number and (places > MOST_DECIMALS or abs(number) >= 1e15):
        return f"{number:.2g}"
    text = f"{number:.{min(places, MOST_DECIMALS)}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def bounded(number: float) -> str:
    """Return what a bound proves, in three significant digits, never more than it: a bound is rounded down.

    Examples
    --------
    >>> bounded(0.05439), bounded(4.8977), bounded(0.0), bounded(120.9)
    ('0.0543', '4.89', '0', '120')
    """
    places = max(0, 2 - math.floor(math.log10(number))) if number > 0 else 0
    text = written(number, places)
    # In writing it may have been rounded up; one unit of the last digit less never is too much.
    return text if float(text) <= number else written(number - 10.0**-places, places)


def probability(p: float) -> str:
    """Return a p-value in two significant digits and three decimals at least, never less than it.

    More digits stand where it would else look like a hundredth that it lies below: 0.0496 is not written 0.050.

    Examples
    --------
    >>> [probability(p) for p in (0.0025, 0.0005, 0.0374, 0.4358, 0.0496, 0.05, 1.0)]
    ['0.0025', '0.0005', '0.038', '0.436', '0.0496', '0.050', '1.000']
    """
    places = max(3, 1 - math.floor(math.log10(p))) if p > 0 else 3
    if places > MOST_DECIMALS:
        return f"{p:.2g}"
    while True:
        # Beside the rounding of a float, which must not raise the last digit.
        raised = math.ceil(p * 10**places - 1e-6) / 10**places
        text = f"{raised:.{places}f}"
        carried = raised > p * (1 + 1e-9) and not round(raised * 10**places) % 10 ** (places - 2)
        if not carried or places >= MOST_DECIMALS or p >= 0.5:
            return text if len(text) <= 5 else text[:5] + text[5:].rstrip("0")
        places += 1


def point(estimate: Estimate) -> str:
    """Return the value alone, for a column that stands beside its interval."""
    if estimate.name.endswith("p_value"):
        return probability(estimate.value)
    if estimate.method.startswith(LOWER_BOUND):
        return bounded(estimate.value)
    return written(estimate.value, decimals(estimate))


def interval(estimate: Estimate) -> str:
    """Return "0.116 to 0.214", or why there is no interval."""
    if estimate.low is None or estimate.high is None:
        return "exact" if estimate.method == "exact" else "no interval"
    if estimate.method.startswith(LOWER_BOUND):
        return f"at least; {bounded(estimate.high)} provable"
    places = decimals(estimate)
    return f"{written(estimate.low, places)} to {written(estimate.high, places)}"


def percent(level: float) -> str:
    """Return a confidence level in words.

    Examples
    --------
    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * level:.6g} %"


def counted(n: int, unit: str) -> str:
    """Return a count with its unit.

    Examples
    --------
    >>> counted(969, "speakers"), counted(1, "speakers"), counted(12000, "clips")
    ('969 speakers', '1 speaker', '12,000 clips')
    """
    single = n == 1 and unit.endswith("s") and not unit.endswith(("ss", "ses", "ies"))
    return f"{n:,} {unit.removesuffix('s') if single else unit}".strip()


def described(estimate: Estimate) -> str:
    """Return the number as a sentence may carry it.

    Examples
    --------
    >>> ends = {"value": 0.164, "low": 0.116, "high": 0.214}
    >>> described(Estimate(name="rate", **ends, method="Wilson", n=969, unit="speakers"))
    '0.164 (0.116 to 0.214), 95 %, 969 speakers'
    >>> described(Estimate(name="bound", value=2.0, method="exact", n=1, unit="models"))
    '2, exact, 1 model'
    """
    count = counted(estimate.n, estimate.unit)
    if estimate.low is None:
        return f"{point(estimate)}, {interval(estimate)}, {count}"
    return f"{point(estimate)} ({interval(estimate)}), {percent(estimate.level)}, {count}"


def coordinate(value: Coordinate) -> str:
    """Return one coordinate as text; 3.0 and 3 are the same place.

    Examples
    --------
    >>> coordinate(3.0), coordinate(0.25), coordinate("head")
    ('3', '0.25', 'head')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def placed(where: Mapping[str, Coordinate]) -> str:
    """Return coordinates as words, in alphabetical order of their keys.

    Examples
    --------
    >>> placed({"layer": 3, "by": "accent"})
    'by accent, layer 3'
    """
    return ", ".join(f"{key} {coordinate(value)}" for key, value in sorted(where.items()))
