"""Another tool's log of certificates, and to how many digits its radii were printed; or its log of predictions."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from audits.certification.bounds import Floats
from audits.certification.certificates import ABSTAIN, Verdict
from probes.core.errors import InputError
from probes.files.decimals import plain_float
from probes.files.delimited import Delimited

COLUMNS = ("idx", "label", "predict", "radius", "correct", "time")
PREDICTED = ("idx", "label", "predict", "correct", "time")
"""Columns of a log of predictions, which has no radii."""
USUAL_ALPHAS = (0.1, 0.05, 0.01, 0.005, 0.001, 0.0001)
"""Error probabilities in common use."""
Rounding = Literal["nearest", "down"]
ROUNDINGS: tuple[Rounding, ...] = ("nearest", "down")
"""How a number can have been brought to the digits that were printed; down: the others were cut off."""
_HINT = (
    f"A log of certificates has, separated by tabs: {' '.join(COLUMNS)}; one of predictions the same without radius."
)
_CLOCK = re.compile(r"(?:(\d+) days?, )?(\d+):(\d{2}):(\d{2}(?:\.\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log of certificates, or of predictions.

    Parameters
    ----------
    verdicts
        One per row; of predictions all have the radius 0, which says nothing.
    digits, decimals
        Most significant digits, and most decimals, to which radii are printed.
    contradictions
        Lines whose `correct` is not whether `predict` is `label`.
    certified
        Whether there are radii.
    """

    path: str
    verdicts: tuple[Verdict, ...]
    digits: int
    decimals: int
    contradictions: tuple[int, ...]
    certified: bool = True

    def windows(self, radii: Floats, rounding: Rounding) -> tuple[Floats, Floats]:
        """Return the interval of each radius before rounding."""
        # Fixed decimals show fewer digits of small radii; fixed digits show fewer decimals of large ones.
        significant = np.floor(np.log10(np.maximum(radii, 1e-300))) - self.digits + 1
        # The coarser of the two: a print can have been cut by either.
        unit = 10.0 ** np.maximum(significant, -self.decimals)
        return (radii - unit / 2, radii + unit / 2) if rounding == "nearest" else (radii, radii + unit)

    @property
    def radii(self) -> Floats:
        """The positive radii."""
        return np.array([row.radius for row in self.verdicts if row.radius > 0])


def read_log(path: Path) -> Log:
    """Read `idx label predict radius correct time`, separated by tabs or commas; time in seconds or as H:MM:SS.

    Without the column `radius` it is a log of predictions, as Cohen et al. 2019 (arXiv 1902.02918, PREDICT) write it.

    Raises
    ------
    InputError
        Where a column is missing or a value cannot be read; line and column are named.
    """
    file = Delimited(path)
    header = [name.strip() for name in file.header]
    certified = "radius" in header or any(name not in header for name in PREDICTED)
    wanted = COLUMNS if certified else PREDICTED
    missing = [name for name in wanted if name not in header]
    if missing:
        message = f"The log has no column {', '.join(missing)}."
        raise InputError(message, where=f"{path}:{file.header_line}", hint=_HINT)
    columns = [file.names.index(name) for name in wanted]
    verdicts, contradictions, digits, decimals = [], [], 3, 1
    seen: set[int] = set()
    for line, cells in file.rows():
        where = f"{path}:{line}"
        texts = [cells[column].strip() for column in columns]
        texts = texts if certified else [*texts[:3], "0", *texts[3:]]
        verdict, agrees = _row(texts, where)
        verdicts.append(verdict)
        contradictions += [] if agrees else [line]
        digits, decimals = max(digits, _digits(texts[3])), max(decimals, _decimals(texts[3]))
        if verdict.index in seen:
            hint = "An image counts once: take its other rows out."
            raise InputError(f"The idx {verdict.index} stands twice.", where=where, hint=hint)
        seen.add(verdict.index)
    if not verdicts:
        raise InputError("The log has no rows.", where=str(path), hint="One row per image below the header.")
    return Log(
        path=str(path),
        verdicts=tuple(verdicts),
        digits=digits,
        decimals=decimals,
        contradictions=tuple(contradictions),
        certified=certified,
    )


def _row(texts: Sequence[str], where: str) -> tuple[Verdict, bool]:
    index, label, predict, correct = (_whole(texts[at], where, COLUMNS[at]) for at in (0, 1, 2, 4))
    try:
        radius = plain_float(texts[3])
    except ValueError:
        radius = math.nan
    if not 0 <= radius < math.inf or (predict == ABSTAIN and radius > 0):
        raise InputError(
            f"{texts[3]!r} is no radius{' of an abstention' if predict == ABSTAIN else ''}.",
            where=f"{where}, column radius",
            hint="Numbers from 0 on; 0 where predict is -1.",
        )
    verdict = Verdict(
        index=index,
        label=label,
        predict=predict,
        radius=radius,
        correct=predict != ABSTAIN and predict == label,
        seconds=_seconds(texts[5], where),
    )
    if label < 0:
        raise InputError(f"{label} is no class.", where=f"{where}, column label", hint="Classes count from 0.")
    return verdict, correct == (predict == label)


def _whole(text: str, where: str, column: str) -> int:
    try:
        plain_float(text)
        return int(text)
    except ValueError:
        raise InputError(
            f"{text!r} is no whole number.",
            where=f"{where}, column {column}",
            hint="Write idx, label and predict as numbers, and correct as 0 or 1.",
        ) from None


def _seconds(text: str, where: str) -> float:
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes = (int(part or 0) for part in clock.groups()[:3])
        return ((days * 24 + hours) * 60 + minutes) * 60 + float(clock[4])
    try:
        seconds = plain_float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"{text!r} is no time.", where=f"{where}, column time", hint="Seconds, or H:MM:SS.")
    return seconds


def _digits(text: str) -> int:
    """Count significant digits as printed.

    >>> _digits("0.0123"), _digits("1.50"), _digits("0.0"), _digits("1.23E-05")
    (3, 3, 0, 3)
    """
    return len(text.lower().partition("e")[0].replace(".", "").lstrip("+-0"))


def _decimals(text: str) -> int:
    """Count decimals as printed.

    >>> _decimals("0.550"), _decimals("1.5e-05"), _decimals("2")
    (3, 6, 0)
    """
    mantissa, _, exponent = text.lower().partition("e")
    return max(len(mantissa.partition(".")[2]) - int(exponent or 0), 0)
