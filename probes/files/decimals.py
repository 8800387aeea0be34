"""Tell columns of numbers with a decimal point, as in 2.31, from those with a decimal comma, as in 2,31.

One value cannot say: 1,234 is a little more than one to some, and more than a thousand to others. A column mostly can.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from probes.core.errors import InputError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WITH_COMMA = re.compile(r"[+-]?(\d+,\d+|,\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_IN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
# Marks between thousands that cannot be decimal ones: they occur twice, or a decimal mark follows.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}((\.\d{3}){2,}(,\d+)?|\.\d{3},\d+|(,\d{3}){2,}(\.\d+)?|,\d{3}\.\d+)", re.ASCII)
_LONGEST = 60
"""Letters of a number that a hint repeats."""
_WITH_UNIT = re.compile(r"[+-]?[\d.,']*\d\s*([^\W\d_]{1,12}\.?|%|\u00b0)", re.ASCII | re.IGNORECASE)


def with_decimal_commas(texts: Collection[str], *, column: str, where: str, decimal: str | None = None) -> bool:
    """Tell whether the numbers among these values have a decimal comma; words are ignored.

    The mark is `decimal` where that is known.

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
    if decimal is not None:
        return decimal == ","
    commas = [text for text in texts if _WITH_COMMA.fullmatch(text) or _IN_THOUSANDS.fullmatch(text)]
    points = [text for text in texts if _NUMBER.fullmatch(text)]
    if not commas or any("." in text for text in points):
        return False
    if not all(_IN_THOUSANDS.fullmatch(text) for text in commas):
        return all(_WITH_COMMA.fullmatch(text) for text in commas)
    if 2 * (len(commas) + len(points)) < len(texts):
        return False
    raise _unclear(commas[0], column, where)


def _unclear(text: str, column: str, where: str) -> InputError:
    return InputError(
        f"{text!r} of {column} may be {text.replace(',', '')} or {text.replace(',', '.', 1)}: every "
        "comma in this column has three digits behind it.",
        where=where,
        hint="Write its numbers with a decimal point, and without commas between thousands; or say --decimal , where "
        "the command takes it.",
    )


class NumberColumn:
    """A column of numbers, checked block by block: it has decimal points or commas, not both.

    Parameters
    ----------
    name, path
        The column, and the file that holds it.
    decimal
        The mark that the user names.
    """

    def __init__(self, name: str, path: Path, decimal: str | None = None) -> None:
        self._name, self._path, self._named = name, path, decimal
        self._point, self._decimal = decimal == ".", decimal == ","
        self._comma: tuple[str, int] | None = ("", 0) if decimal == "," else None

    def look(self, cells: Iterable[str | None], lines: Sequence[int]) -> None:
        """Take the next cells of the column into account.

        Raises
        ------
        InputError
            Where one has a decimal comma and another a decimal point.
        """
        texts = [cell or "" for cell in cells]
        joined = "".join(texts)
        # Columns have millions of cells of the same form, so once the form is known cells are not analysed.
        points, commas = "." in joined, "," in joined
        if (not points or (self._point and not commas)) and (not commas or (self._decimal and not points)):
            return
        for text, line in zip(texts, lines, strict=True):
            self._take(text.strip(), line)

    def _take(self, text: str, line: int) -> None:
        if "." in text and _NUMBER.fullmatch(text):
            self._point = True
            here, others = "point", "comma"
        elif "," in text and ((thousands := _IN_THOUSANDS.fullmatch(text)) or _WITH_COMMA.fullmatch(text)):
            self._comma = self._comma or (text, line)
            self._decimal |= not thousands
            here, others = "comma", "point"
        else:
            return
        if self._point and self._comma:
            message = f"other numbers of {self._name} have a {others}"
            mark = "point" if self._named is None else others
            raise InputError(
                f"{text[:60]!r} has a {'decimal ' * (self._named is None)}{here}, and "
                f"{message if self._named is None else f'--decimal says that numbers have a decimal {others}'}.",
                where=f"{self._path}:{line}, {self._name}",
                hint=f"Write all numbers of the column with a decimal {mark}, and without marks between thousands.",
            )

    def finish(self) -> bool:
        """Tell whether the column, all of whose cells were passed to `look`, has decimal commas.

        Raises
        ------
        InputError
            Where the commas may as well be those of thousands.
        """
        if self._named is not None:
            return self._named == ","
        if self._comma is not None and not self._decimal:
            text, line = self._comma
            raise _unclear(text, self._name, f"{self._path}:{line}, {self._name}")
        return self._comma is not None


def mark_hint(text: str, decimal_comma: bool, named: str | None = None, *, option: bool = False) -> str:
    """Return how to write a number whose marks cannot be read; empty for any other text.

    Parameters
    ----------
    decimal_comma, named
        Whether numbers of the file may have decimal commas, and the decimal mark that the user names.
    option
        Whether `--decimal ,` can be said of the file.

    Examples
    --------
    >>> mark_hint("1.234.567", False)
    'Its points separate thousands: write all numbers of the column without such marks, this one as 1234567.'
    >>> mark_hint("2,31", False), mark_hint("2,31", True)
    ('Its comma may be the decimal mark: write 2.31.', '')
    >>> mark_hint("1,234", False, option=True)
    'It may be 1234 or 1.234: write the one that is meant, or say --decimal , if commas are decimal marks.'
    """
    number = text.strip()
    decimal = named or ("" if decimal_comma else ".")
    if len(number) > _LONGEST:
        return ""
    if _GROUPED.fullmatch(number):
        mark = next(letter for letter in number if letter in ".,")
        plain = number.replace(mark, "")
        whole = not {*plain} & {*".,"}
        # Where the file may have either decimal mark, which one the other numbers have is not known here.
        example = f", this one as {plain if whole else re.sub('[.,]', decimal, plain)}" if whole or decimal else ""
        marks = "points" if mark == "." else "commas"
        return f"Its {marks} separate thousands: write all numbers of the column without such marks{example}."
    if decimal != "." or not _WITH_COMMA.fullmatch(number):
        return ""
    say = ", or say --decimal , if commas are decimal marks" if option and named is None else ""
    if _IN_THOUSANDS.fullmatch(number):
        return f"It may be {number.replace(',', '')} or {with_point(number)}: write the one that is meant{say}."
    return f"Its comma may be the decimal mark: write {with_point(number)}{say}."


def in_thousands(text: str) -> bool:
    """Tell whether the mark in a number may separate thousands: three digits follow it.

    >>> in_thousands("1.000"), in_thousands("1,000"), in_thousands("3.0"), in_thousands("0.125")
    (True, True, False, False)
    """
    return _IN_THOUSANDS.fullmatch(text.replace(".", ",")) is not None and sum(map(text.count, ".,")) == 1


def with_point(text: str) -> str:
    """Return a number that has a decimal comma as one that has a point; any other text as it is.

    >>> with_point("2,31"), with_point("1,234,567"), with_point("a,b")
    ('2.31', '1,234,567', 'a,b')
    """
    return text.replace(",", ".") if _WITH_COMMA.fullmatch(text) else text


def is_number(text: str) -> bool:
    """Tell whether a value is a number, with a decimal point or a comma.

    >>> is_number("2.31"), is_number("2,31"), is_number("1,234,567"), is_number("2,31 s")
    (True, True, True, False)
    """
    return any(form.fullmatch(text) for form in (_NUMBER, _WITH_COMMA, _IN_THOUSANDS))


def plain_float(text: str) -> float:
    """Return a number as Python reads it, but refuse 1_000 and digits of other scripts, which only Python takes.

    Raises
    ------
    ValueError
        Where the text is no number.

    >>> plain_float("1e3"), plain_float("nan")
    (1000.0, nan)
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is no number")
    return float(text)


def has_unit(text: str) -> bool:
    """Tell whether a value is a number with a unit behind it.

    >>> has_unit("2.31 s"), has_unit("16kHz"), has_unit("2.31"), has_unit("site 3")
    (True, True, False, False)
    """
    return _WITH_UNIT.fullmatch(text) is not None
