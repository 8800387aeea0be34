"""How is a number written? With the digits that its interval bears, its interval, its level and its count.

The page, the Markdown and the terminal all take their numbers from here, so that they never differ.
"""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from audits.records import Coordinate, Estimate

LOWER_BOUND = "Lower bound:"
"""How the method of an estimate begins that bounds from below: its upper end is no limit, but what could be proved."""
UPPER_BOUND = "Upper bound:"
"""The same of one that bounds from above: its lower end is what was shown of the number from below."""
EXACT_FROM_BELOW = frozenset({"epsilon_ceiling"})
"""Names of exact numbers that tell what could be proved: rounded up they would promise more."""
AS_GIVEN = frozenset({"epsilon_claimed"})
"""Names of exact numbers that somebody stated: they stand as they were given."""
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


def bounded(number: float, *, up: bool = False, digits: int = 3) -> str:
    """Return a bound in so many significant digits, never beyond it: rounded down, or `up` where it is from above.

    Examples
    --------
    >>> bounded(0.05439), bounded(4.8977), bounded(0.0), bounded(120.9), bounded(1.37848)
    ('0.0543', '4.89', '0', '120', '1.37')
    >>> bounded(1.7119, up=True), bounded(2.0049, digits=5)
    ('1.72', '2.0049')
    """
    if not number:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(number)))
    powers = places > MOST_DECIMALS or abs(number) >= 1e15
    # In decimals, of its shortest name: multiplied as a float a number may already have passed its neighbour.
    step = Decimal(1).scaleb(-places if powers else -max(0, places))
    rounded = Decimal(repr(float(number))).quantize(step, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(rounded):.{digits}g}" if powers else f"{rounded:f}"


def is_bound(estimate: Estimate) -> bool:
    """Tell whether an estimate bounds from one side only: how it changes from run to run says nothing."""
    return estimate.method.startswith((LOWER_BOUND, UPPER_BOUND))


def has_level(estimate: Estimate) -> bool:
    """Tell whether an interval holds at a confidence level; a bound from above is proved, whatever was drawn."""
    return estimate.low is not None and not estimate.method.startswith(UPPER_BOUND)


def given(number: float) -> str:
    """Return a number as somebody stated it.

    Examples
    --------
    >>> given(8.0), given(1.37848)
    ('8', '1.37848')
    """
    return f"{number:.12g}"


def is_rounded(estimate: Estimate) -> bool:
    """Tell whether the digits of an interval say how the number is written; not of a bound, nor of what was given."""
    proved = estimate.method == "exact" and estimate.name in EXACT_FROM_BELOW | AS_GIVEN
    return not (proved or is_bound(estimate))


def point(estimate: Estimate) -> str:
    """Return the value alone, for a column that stands beside its interval."""
    if is_rounded(estimate):
        return written(estimate.value, decimals(estimate))
    if estimate.method == "exact" and estimate.name in AS_GIVEN:
        return given(estimate.value)
    return bounded(estimate.value, up=estimate.method.startswith(UPPER_BOUND))


def ends(estimate: Estimate) -> tuple[str, str] | None:
    """Return both ends in words; of a bound, from either side, none is written beyond what it says."""
    if estimate.low is None or estimate.high is None:
        return None
    if is_bound(estimate):
        return bounded(estimate.low), bounded(estimate.high, up=estimate.method.startswith(UPPER_BOUND))
    places = decimals(estimate)
    return written(estimate.low, places), written(estimate.high, places)


def interval(estimate: Estimate) -> str:
    """Return "0.116 to 0.214", or why there is no interval."""
    told = ends(estimate)
    if told is None:
        return "exact" if estimate.method == "exact" else "no interval"
    low, high = told
    if estimate.method.startswith(LOWER_BOUND):
        return f"at least; {high} provable"
    if estimate.method.startswith(UPPER_BOUND):
        return f"at most; at least {low}" if estimate.low else "at most"
    return f"{low} to {high}"


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
    ends = f", {interval(estimate)}" if estimate.low is None else f" ({interval(estimate)})"
    level = f", {percent(estimate.level)}" if has_level(estimate) else ""
    return f"{point(estimate)}{ends}{level}, {counted(estimate.n, estimate.unit)}"


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
