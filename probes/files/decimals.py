"""Do the numbers of a column have a decimal point, as in 2.31, or a decimal comma, as in 2,31?

One value cannot say: 1,234 is a little more than one to some, and more than a thousand to others. A column mostly can.
"""

import re
from collections.abc import Collection

from probes.errors import InputError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_WITH_COMMA = re.compile(r"[+-]?(\d+,\d+|,\d+)", re.ASCII)
_IN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_WITH_UNIT = re.compile(r"[+-]?[\d.,']*\d\s*([^\W\d_]{1,12}\.?|%|\u00b0)", re.ASCII | re.IGNORECASE)


def with_decimal_commas(texts: Collection[str], *, column: str, where: str) -> bool:
    """Tell whether the numbers among these values have a decimal comma; words beside them say nothing.

    Raises
    ------
    InputError
        Where the commas may as well be those of thousands, in a column that holds more numbers than words.

    Examples
    --------
    >>> with_decimal_commas(["2,31", "4", "0,5"], column="duration", where="--control")
    True
    >>> with_decimal_commas(["2.31", "4", "0,5"], column="duration", where="--control")
    False
    """
    commas = [text for text in texts if _WITH_COMMA.fullmatch(text) or _IN_THOUSANDS.fullmatch(text)]
    points = [text for text in texts if _NUMBER.fullmatch(text)]
    if not commas or any("." in text for text in points):
        return False
    if not all(_IN_THOUSANDS.fullmatch(text) for text in commas):
        return all(_WITH_COMMA.fullmatch(text) for text in commas)
    if 2 * (len(commas) + len(points)) < len(texts):
        return False
    raise InputError(
        f"{commas[0]!r} of {column} may be {commas[0].replace(',', '')} or {commas[0].replace(',', '.', 1)}: every "
        "comma in this column has three digits behind it.",
        where=where,
        hint="Write its numbers with a decimal point, and without commas between thousands.",
    )


def with_point(text: str) -> str:
    """Return a number that has a decimal comma as one that has a point; any other text as it is.

    >>> with_point("2,31"), with_point("1,234,567"), with_point("a,b")
    ('2.31', '1,234,567', 'a,b')
    """
    return text.replace(",", ".") if _WITH_COMMA.fullmatch(text) else text


def has_unit(text: str) -> bool:
    """Tell whether a value is a number with a unit behind it.

    >>> has_unit("2.31 s"), has_unit("16kHz"), has_unit("2.31"), has_unit("site 3")
    (True, True, False, False)
    """
    return _WITH_UNIT.fullmatch(text) is not None
