"""Numbers as text: rounded to the digits that the interval bears, with interval, level and count.

The page, the Markdown and the terminal all take their numbers from here, so that they never differ.
"""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from audits.core.records import Coordinate, Estimate

LOWER_BOUND = "Lower bound:"
"""Prefix of the method of a lower bound; its upper end is no limit, but the largest bound that could be proved."""
UPPER_BOUND = "Upper bound:"
"""Prefix of the method of a proved upper bound; its lower end was attained, or is 0."""
ATTAINED = "Attained:"
"""Prefix of the method of an attained value, which is a lower bound of the truth; its upper end was proved."""
RANGE = "Range:"
"""Prefix of the method of a given number, whose ends come from rounding and the like instead of from sampling.

They are rounded outwards.
"""
MOST_DECIMALS = 8
"""With more decimals, or from 10 ** 15 on, a number is written as a power of ten."""


def decimals(estimate: Estimate) -> int:
    """Return the number of decimals for the value and both ends.

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
        # A limit other than zero must not be rounded to zero: its sign says whether the interval excludes zero.
        hidden = [end for end in (estimate.low, estimate.high) if end and not round(end, places)]
        return places + 1 if any(round(end, places + 1) for end in hidden) else places
    size = max(abs(number) for number in ends)
    return max(0, 2 - math.floor(math.log10(size))) if size else 0


def written(number: float, places: int) -> str:
    """Return one number with `places` decimals; a zero has no sign.

    Examples
    --------
    >>> written(0.1638, 3), written(-0.0001, 2), written(969.0, 0), written(2.5e-12, 13)
    ('0.164', '0.00', '969', '2.5 x 10^-12')
    """
    if number and (places > MOST_DECIMALS or abs(number) >= 1e15):
        digits, _, power = f"{number:.2g}".partition("e")
        return f"{digits} x 10^{int(power)}" if power else digits
    text = f"{number:.{min(places, MOST_DECIMALS)}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def bounded(number: float, digits: int = 3, *, up: bool = False) -> str:
    """Return a bound in so many significant digits, rounded down, or up where `up` says so.

    Whole numbers below ten million keep all their digits; others of unusual size get a power of ten.

    Examples
    --------
    >>> bounded(0.05439), bounded(4.8977), bounded(0.0), bounded(120.9)
    ('0.0543', '4.89', '0', '120')
    >>> bounded(1142.4, up=True), bounded(136.1, 2, up=True), bounded(1.0921e11, up=True), bounded(2.029e-10)
    ('1143', '137', '1.10 x 10^11', '2.02 x 10^-10')
    """
    if not number:
        return "0"
    exact = Decimal(repr(float(number)))
    places = digits - 1 - exact.adjusted()
    plain = places <= MOST_DECIMALS and exact.adjusted() < 7
    unit = Decimal(1).scaleb(-max(places, 0) if plain else -places)
    rounded = exact.quantize(unit, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    if plain or not rounded:
        return f"{rounded:f}"
    # Rounding may have carried it to the next power of ten.
    power = rounded.adjusted()
    return f"{rounded.scaleb(-power):.{digits - 1}f} x 10^{power}"


def exceeding(number: float, limit: float, digits: int = 3) -> str:
    """Return a bound, rounded down to so many significant digits, or to more until it is above a limit as it is.

    Examples
    --------
    >>> exceeding(0.0184983, 0.001), exceeding(0.00099998811, 0.000999), exceeding(0.00099998811, 0.00099998)
    ('0.0184', '0.0009999', '0.000999988')
    """
    exact = Decimal(repr(float(number)))
    while True:
        rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - digits), rounding=ROUND_FLOOR)
        if float(rounded) > limit or rounded == exact:
            return f"{rounded:f}"
        digits += 1


def is_bound(estimate: Estimate) -> bool:
    """Tell whether a number is a one-sided bound, which is never rounded towards the truth."""
    return estimate.method.startswith((LOWER_BOUND, UPPER_BOUND, ATTAINED))


def is_sampled(estimate: Estimate) -> bool:
    """Tell whether a number was sampled, so that its interval holds at a level."""
    return estimate.method != "exact" and not estimate.method.startswith((UPPER_BOUND, ATTAINED, RANGE))


def is_rounded(estimate: Estimate) -> bool:
    """Tell whether the interval decides the digits of a number; it does not for bounds and given numbers."""
    proved = estimate.method == "exact" and estimate.measure.written in ("down", "given")
    return not (proved or is_bound(estimate))


def given(number: float) -> str:
    """Return a number with the digits in which it was given.

    Examples
    --------
    >>> given(8.0), given(1.37848)
    ('8', '1.37848')
    """
    return f"{number:.12g}"


def probability(p: float) -> str:
    """Return a p-value in two significant digits and three decimals at least, never less than it.

    More digits stand where it would else look like a hundredth that it lies below (above 0.1 a twentieth), since tests
    are judged at these with the levels in common use: 0.0496 is not written 0.050. With others they are not: of
    --level 0.975 the value is 0.025, and 0.02496 looks like it.

    Examples
    --------
    >>> [probability(p) for p in (0.0025, 0.0005, 0.0374, 0.4358, 0.0496, 0.05, 0.109954, 0.14996, 1.0, 1e308)]
    ['0.0025', '0.0005', '0.038', '0.436', '0.0496', '0.050', '0.110', '0.14996', '1.000', '1e+308']
    """
    if p <= 0:
        return "0.000"
    if p > 1:
        # None is; a report may hold one all the same.
        return f"{p:.3g}"
    # Rounded to twelve digits first, so that float error cannot raise the last digit shown.
    exact = Decimal(f"{p:.12g}")
    places = max(3, 1 - exact.adjusted())
    hundredths = 1 if p < 0.1 else 5
    if places > MOST_DECIMALS:
        return bounded(p, 2, up=True)
    while True:
        raised = exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING)
        carried = raised > exact and not int(raised.scaleb(places)) % (hundredths * 10 ** (places - 2))
        if not carried or places >= MOST_DECIMALS or p >= 0.5:
            text = f"{raised:f}"
            return text if len(text) <= 5 else text[:5] + text[5:].rstrip("0")
        places += 1


def point(estimate: Estimate) -> str:
    """Return the value alone, for a column beside that of its interval."""
    if estimate.measure.written == "probability":
        return probability(estimate.value)
    if is_rounded(estimate):
        return written(estimate.value, decimals(estimate))
    if estimate.method == "exact" and estimate.measure.written == "given":
        return given(estimate.value)
    return bounded(estimate.value, up=estimate.method.startswith(UPPER_BOUND))


def ends(estimate: Estimate) -> tuple[str, str] | None:
    """Return both ends of an interval as text, or None where there is none.

    Examples
    --------
    >>> proved = {"value": 1142.4, "low": 225.67, "high": 1142.4, "method": "Upper bound: proved", "n": 5}
    >>> ends(Estimate(name="product_bound", **proved, unit="layers"))
    ('225', '1143')
    """
    if estimate.low is None or estimate.high is None:
        return None
    if is_bound(estimate):
        # The upper end of a lower bound is what a perfect attack would prove, and is rounded down like the bound.
        return bounded(estimate.low), bounded(estimate.high, up=not estimate.method.startswith(LOWER_BOUND))
    places = decimals(estimate)
    if estimate.method.startswith(RANGE):
        # What rounding leaves is a fact, not a guess: no end may shut out what is possible.
        if places > MOST_DECIMALS:
            return bounded(estimate.low, 2), bounded(estimate.high, 2, up=True)
        unit = Decimal(1).scaleb(-places)
        low, high = (Decimal(repr(float(end))) for end in (estimate.low, estimate.high))
        return f"{low.quantize(unit, rounding=ROUND_FLOOR):f}", f"{high.quantize(unit, rounding=ROUND_CEILING):f}"
    return written(estimate.low, places), written(estimate.high, places)


def interval(estimate: Estimate) -> str:
    """Return "0.116 to 0.214", or why there is no interval.

    Examples
    --------
    >>> found = {"value": 6.357, "low": 6.357, "high": 239.63, "method": "Attained: a slope that was met", "n": 100}
    >>> interval(Estimate(name="constant_lower", **found, unit="images"))
    'attained; at most 240'
    """
    written_ends = ends(estimate)
    if written_ends is None:
        return "exact" if estimate.method == "exact" else "no interval"
    low, high = written_ends
    if estimate.method.startswith(LOWER_BOUND):
        return f"at least; {high} provable"
    if estimate.method.startswith(UPPER_BOUND):
        return f"at most; at least {low}" if estimate.low else "at most"
    return f"attained; at most {high}" if estimate.method.startswith(ATTAINED) else f"{low} to {high}"


def level_of(estimate: Estimate) -> str:
    """Return the level of an interval in words; empty where there is no interval or nothing was sampled.

    Examples
    --------
    >>> level_of(Estimate(name="rate", value=0.2, low=0.1, high=0.3, method="Wilson", n=9, unit="clips"))
    '95 %'
    """
    return percent(estimate.level) if estimate.low is not None and is_sampled(estimate) else ""


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
    >>> counted(969, "speakers"), counted(1, "speakers"), counted(12000, "clips"), counted(1, "radius")
    ('969 speakers', '1 speaker', '12,000 clips', '1 radius')
    """
    single = n == 1 and unit.endswith("s") and not unit.endswith(("ss", "us", "ses", "ies"))
    return f"{n:,} {unit.removesuffix('s') if single else unit}".strip()


def duration(seconds: float) -> str:
    """Return a length of time in words.

    >>> duration(50), duration(600), duration(9000)
    ('50 s', '10 min', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    whole = round(seconds / 60)
    return f"{whole} min" if whole < 100 else f"{whole // 60} h {whole % 60} min"


def minutes(seconds: float) -> str:
    """Return a rough length of time in words.

    >>> minutes(2), minutes(150), minutes(9000), minutes(36000)
    ('0.1 minutes', '2.5 minutes', '150 minutes', '10 hours')
    """
    count = max(seconds / 60, 0.1)
    if count >= 600:
        return f"{count / 60:,.0f} hours"
    return f"{count:.1f} minutes" if count < 10 else f"{count:,.0f} minutes"


def levelled(estimate: Estimate) -> str:
    """Return the interval with its level, for a column."""
    return ", ".join(filter(None, (interval(estimate), level_of(estimate))))


def described(estimate: Estimate) -> str:
    """Return the number with interval, level and count, for a sentence.

    Examples
    --------
    >>> ends = {"value": 0.164, "low": 0.116, "high": 0.214}
    >>> described(Estimate(name="rate", **ends, method="Wilson", n=969, unit="speakers"))
    '0.164 (0.116 to 0.214), 95 %, 969 speakers'
    >>> described(Estimate(name="bound", value=2.0, method="exact", n=1, unit="models"))
    '2, exact, 1 model'
    """
    held = f" ({interval(estimate)})" if estimate.low is not None else f", {interval(estimate)}"
    return ", ".join(filter(None, (point(estimate) + held, level_of(estimate), counted(estimate.n, estimate.unit))))


def coordinate(value: Coordinate) -> str:
    """Return one coordinate as text; 3.0 and 3 are the same.

    Examples
    --------
    >>> coordinate(3.0), coordinate(0.25), coordinate("head")
    ('3', '0.25', 'head')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def coordinates(where: Mapping[str, Coordinate]) -> str:
    """Return coordinates as words, in alphabetical order of their keys.

    Examples
    --------
    >>> coordinates({"layer": 3, "by": "accent"})
    'by accent, layer 3'
    """
    return ", ".join(f"{key} {coordinate(value)}" for key, value in sorted(where.items()))
