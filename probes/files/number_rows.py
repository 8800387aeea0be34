"""Delimited files of numbers alone, with or without a header, read in blocks of rows.

pandas reads the blocks, which is fast; where it fails, `Delimited` reads the file again to say which field is wrong.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.delimited import Delimited
from probes.files.text import text_blocks

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# A comma that separates no thousands: it follows no digit but zeros, or four, or has not three digits behind it.
_DECIMAL = re.compile(
    r"(?:^|[\s;\"+-])0*,\d|\d{4},\d|,(?:\d{1,2}|\d{4,})(?!\d)|,\d+e", re.ASCII | re.IGNORECASE | re.MULTILINE
)
BLOCK = 2**22
"""Characters of a file that are parsed at once."""


def is_plain_number(text: str) -> bool:
    """Tell whether a field is a finite number with a decimal point.

    >>> is_plain_number(" 2.5e3"), is_plain_number("2,5"), is_plain_number("nan")
    (True, False, False)
    """
    return _NUMBER.fullmatch(text.strip()) is not None


def counts_up(names: Sequence[str], start: int = 0) -> bool:
    """Tell whether names are numbers that count up, as a data frame writes them above columns without names."""
    return list(names) == [str(number + start) for number in range(len(names))]


class NumberRows:
    """A file of numbers whose first row has been read.

    Parameters
    ----------
    is_header
        Says whether the first row, given its fields and its location, names the columns.
    largest
        What a number may be at most, without its sign.
    row
        What a row holds, in words.
    dtype
        What all numbers become; None: whole ones stay whole.
    size
        Characters of the file that are parsed at once.

    Attributes
    ----------
    first, line
        The fields of the first row with decimal points, and its line.
    header
        Whether it names the columns.
    decimal_comma
        Whether the numbers read so far have decimal commas: a file has commas or points, not both.
    """

    def __init__(
        self,
        path: Path,
        *,
        is_header: Callable[[Sequence[str], str], bool],
        largest: float,
        row: str,
        dtype: type[np.float64] | None = None,
        size: int = BLOCK,
    ) -> None:
        self._size = size
        self.path, self._largest, self._row, self._dtype = path, largest, row, dtype
        file = Delimited(path, numbers=True)
        self.separator, self.semicolons = file.dialect.separator, file.dialect.decimal_comma
        # Numbers with decimal commas are no names of columns.
        names = [field.replace(",", ".") if self.semicolons else field for field in file.header]
        self.first, self.line = [name.strip() for name in names], file.header_line
        self.header = is_header(self.first, f"{path}:{self.line}")
        self.decimal_comma = self._point = self._clear = False

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the numbers of some rows at once, shape (rows, columns).

        Raises
        ------
        InputError
            Where there are no rows, one has another length than the first, a field is no number, or it cannot be told
            whether commas are decimal ones.
        """
        found = False
        for text in self._texts():
            values = self._parsed(text)
            # A short row is filled with NaN, which a file can also hold in words.
            if values.dtype.kind not in "iuf" or values.shape[1] != len(self.first) or np.isnan(values[:, -1]).any():
                raise self.refusal()
            found = True
            yield values
        if not found or (self.decimal_comma and not self._clear):
            raise self.refusal()

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the fields of each row of numbers."""
        file = Delimited(self.path, numbers=True)
        first = [] if self.header else [(file.header_line, file.header)]
        return ((line, [field.strip() for field in fields]) for line, fields in chain(first, file.rows()))

    def refusal(self) -> InputError:
        """Return the refusal of the first wrong field or row of the file."""
        comma: tuple[str, str] | None = None
        point, line = False, 0
        for line, fields in self.rows():
            for number, content in enumerate(fields, start=1):
                where = f"{self.path}:{line}, column {number}"
                plain = content.replace(",", ".") if self.semicolons else content
                if not is_plain_number(plain) or abs(float(plain)) > self._largest:
                    wrong = "is too large" if is_plain_number(plain) else "is not a finite number"
                    message = f"{content[:40]!r} {wrong}." if content else "The field is empty."
                    return InputError(message, where=where, hint=f"Give numbers only: every row is {self._row}.")
                point |= "." in content
                if "," in content:
                    comma = comma or (content, where)
                if comma and point:
                    mark, other = ("comma", "point") if "," in content else ("point", "comma")
                    message = f"{content[:40]!r} has a decimal {mark}, and other numbers of the file have a {other}."
                    return InputError(message, where=where, hint="Write all numbers of the file in one way.")
        if not line:
            hint = f"Give rows below it, each of which is {self._row}."
            return InputError("The file has a header but no rows.", where=str(self.path), hint=hint)
        if comma and not self._clear:
            content, where = comma
            message = (
                f"{content!r} may be {content.replace(',', '')} or {content.replace(',', '.')}: every comma in this "
            )
            hint = "Write numbers with a decimal point, and without commas between thousands."
            return InputError(f"{message}file has three digits behind it.", where=where, hint=hint)
        hint = "Write plain numbers and commas."
        return InputError("The rows cannot be read as numbers.", where=str(self.path), hint=hint)

    def _texts(self) -> Iterator[str]:
        """Yield blocks of whole lines of rows."""
        skipped = self.line - (not self.header)
        for text in text_blocks(self.path, size=self._size):
            lines = io.StringIO(text, newline="")
            while skipped and lines.readline():
                skipped -= 1
            text = text[lines.tell() :]
            if text.strip():
                yield text

    def _parsed(self, text: str) -> NDArray[Any]:
        import pandas as pd

        # pandas takes "true" and "FALSE" for 1 and 0; one of these letters is in each, and in no number.
        if any(letter in text for letter in "uUsS"):
            raise self.refusal()
        if self.semicolons:
            self._point |= "." in text
            self.decimal_comma |= "," in text
            self._clear = self._clear or bool(self.decimal_comma and _DECIMAL.search(text))
            if self._point and self.decimal_comma:
                raise self.refusal()
        try:
            frame = pd.read_csv(
                io.StringIO(text, newline=""),
                header=None,
                sep=self.separator,
                decimal="," if self.decimal_comma else ".",
                dtype=self._dtype,
                # NA is an error here, not a missing number.
                keep_default_na=False,
                skipinitialspace=True,
                # Read in pieces, one column could get several types.
                low_memory=False,
            )
            return np.asarray(frame.to_numpy())
        except (ValueError, OverflowError):
            raise self.refusal() from None
