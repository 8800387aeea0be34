"""Cells that a column of each kind refuses; tests of readers take them from here, and need none of their own."""

from probes.files.schemas import Column

NO_NUMBERS = ("many", "1_0", "1e", "0x10", "1 2", "--1", "٣", "1,5", "true", "[1]")
"""What no spelling of a number is, though float() takes some of it."""
NOT_FINITE = ("", "nan", "-NaN", "inf", "-Infinity", "1e400")
"""What only a column takes in which numbers may be missing."""
BAD_CELLS = {
    "text": (),
    "number": NO_NUMBERS,
    "whole": (*NO_NUMBERS, *NOT_FINITE, "1.5", "1e3", "9" * 30),
    "flag": ("", "yes", "2", "-1", "0.5", "nan", "maybe", "١"),
    # A comma may be that of thousands, which has a refusal of its own.
    "count": (*(cell for cell in NO_NUMBERS if "," not in cell), *NOT_FINITE, "-1", "1.5", "0.1", "9" * 30),
}
"""By the kind of a column: those of a schema, and counts in a manifest."""


def bad_cells(column: Column) -> list[str]:
    """Return what a declared column must refuse: what is of another kind, missing, or outside its bounds."""
    cells = [*BAD_CELLS[column.kind]]
    if column.kind == "number" and not column.missing:
        cells += [*NOT_FINITE, *(f"{limit:.17g}" for limit in beyond(column))]
    return cells


def beyond(column: Column) -> list[float]:
    """Return a number below the least, and one above the most, of a column that has such bounds."""
    low = [column.least - 0.5] if column.least > -1e300 else []
    return [*low, *([column.most * 1.001] if column.most < 1e300 else [])]
