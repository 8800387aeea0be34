"""Parts of longer recordings: the columns of a manifest that hold the start and the end or length of a clip."""

import math
from dataclasses import dataclass

from probes.core.errors import InputError
from probes.files.decimals import plain_float
from probes.files.tables import Row, Table


@dataclass(frozen=True, slots=True)
class SegmentColumns:
    """The column of the start, and that of the end or, where `is_length`, of the length; both in seconds."""

    start: str
    end: str
    is_length: bool = False

    @property
    def names(self) -> tuple[str, str]:
        """Both columns."""
        return self.start, self.end

    def read(self, row: Row, table: Table, where: str) -> tuple[float | None, float | None]:
        """Return start and end of a row in seconds; none of both where both cells are empty.

        Raises
        ------
        InputError
            Where a cell is no number, or the part is empty or out of order.
        """
        texts = [(row.values.get(name) or "").strip() for name in self.names]
        if not any(texts):
            return None, None
        try:
            start, end = (plain_float(text) for text in texts)
        except ValueError:
            message = f"{self.start} {texts[0]!r} and {self.end} {texts[1]!r} are not both seconds."
            usual = "Write both like 0.25, or leave both empty for the whole file."
            raise InputError(message, where=where, hint=table.mark_hint(texts, usual, option=True)) from None
        end += start if self.is_length else 0.0
        if not (math.isfinite(end) and 0 <= start < end):
            raise InputError(
                f"The part from {start:g} s to {end:g} s is empty or out of order.",
                where=where,
                hint="A part needs 0 <= start < end, in seconds.",
            )
        return start, end


def find_segment_columns(table: Table, start: str | None, end: str | None, path: str | None) -> SegmentColumns | None:
    """Return the named columns of start and end, or those of a NeMo manifest, whose recordings are in `audio_filepath`.

    Raises
    ------
    InputError
        Where a named column is not there, or only one of both is named.
    """
    for name in (start, end):
        if name is not None and name not in table.columns:
            raise InputError(f"There is no column {name!r}.", where=str(table.path), hint=table.suggest(name))
    if start and end:
        return SegmentColumns(start, end)
    if start or end:
        raise InputError("A start needs an end, and an end a start.", where=str(table.path), hint="Name both columns.")
    if path == "audio_filepath" and {"offset", "duration"} <= set(table.columns):
        return SegmentColumns("offset", "duration", is_length=True)
    return None
