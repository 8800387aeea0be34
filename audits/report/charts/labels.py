"""Labels beside points, placed so that they overlap neither each other nor the edge of the panel.

Points that touch share one label; a name that finds no room joins the label in its way where both are short, and is
left to the tooltip where they are not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audits.core.records import Json
from audits.report.charts.axes import Axis
from audits.report.charts.marks import layer
from audits.report.charts.text import distinct

TOUCH, LETTER, LINE, MARGIN = 6.0, 6.5, 14.0, 8.0
"""Pixels: within which two points are one, the width and height of a letter, and how far a label may leave a panel."""
RADIUS = 5.0
LONGEST_JOINED = 16
"""Letters of a label of several names."""
SIDES: Mapping[str, tuple[str, int, int]] = {
    "above": ("left", 8, -8),
    "below": ("left", 8, 17),
    "above left": ("right", -8, -8),
    "below left": ("right", -8, 17),
    "over": ("center", 0, -18),
    "under": ("center", 0, 28),
}
"""Where a label may stand, clear of intervals, the best first: which side is held, and how far right of and below its
point."""

Box = tuple[float, float, float, float]
"""Left, right, lower and upper end in pixels; heights grow upwards."""


@dataclass(frozen=True, slots=True)
class Side:
    """One direction of a panel: its axis (with ends) and its size in pixels."""

    axis: Axis
    size: float

    def pixel(self, row: Json) -> float:
        """Return the position of a row, in pixels from the lower end."""
        low, high = self.axis.ends or (0.0, 1.0)
        number = float(row[self.axis.field])
        share = (
            math.log(number / low) / math.log(high / low) if self.axis.scale == "log" else (number - low) / (high - low)
        )
        return share * self.size


def name_points(rows: Sequence[Json], x: Side, y: Side, label: str, named: str | None) -> None:
    """Add to the rows of a panel the label's `name` and the `side` of the point on which it has room.

    `named` is the key of whether a row has its label beside it; without one all have.
    """
    positions = [(x.pixel(row), y.pixel(row)) for row in rows]
    wanted = [index for index, row in enumerate(rows) if named is None or row[named]]
    for index, (text, side) in place_labels([str(row[label]) for row in rows], positions, wanted, x.size).items():
        rows[index].update(name=text, side=side)


def place_labels(
    names: Sequence[str], positions: Sequence[tuple[float, float]], wanted: Sequence[int], width: float
) -> dict[int, tuple[str, str]]:
    """Return text and side of each label by the index of its point.

    Examples
    --------
    >>> place_labels(["0", "1", "2"], [(0.0, 0.0), (0.0, 1.0), (90.0, 90.0)], [0, 1, 2], 190.0)
    {0: ('0, 1', 'above'), 2: ('2', 'above')}
    >>> place_labels(["0", "1"], [(0.0, 9.0), (0.0, 0.0)], [0, 1], 190.0)
    {0: ('0', 'above'), 1: ('1', 'below')}
    """
    labels: dict[int, tuple[str, str]] = {}

    def box(index: int) -> Box:
        return box_of(*positions[index], *labels[index])

    def join(index: int, other: int) -> bool:
        text = f"{labels[other][0]}, {names[index]}"
        if len(text) <= LONGEST_JOINED:
            labels[other] = text, labels[other][1]
        return len(text) <= LONGEST_JOINED

    points = [(x - RADIUS, x + RADIUS, y - RADIUS, y + RADIUS) for x, y in positions]
    for index in wanted:
        x, y = positions[index]
        same = [other for other in labels if math.dist(positions[index], positions[other]) < TOUCH]
        if same and join(index, same[0]):
            continue
        taken = [box(other) for other in labels]
        found = [(side, box_of(x, y, names[index], side)) for side in SIDES]
        found = [(side, own) for side, own in found if own[0] >= -MARGIN and own[1] <= width + MARGIN]
        free = [(side, own) for side, own in found if not any(_meet(own, other) for other in taken)]
        # Prefer a side on which the label hides no point either.
        clear = [side for side, own in free if not any(_meet(own, point) for point in points)]
        if free:
            labels[index] = names[index], (clear or [free[0][0]])[0]
        elif hit := [other for other in labels if any(_meet(own, box(other)) for _, own in found)]:
            join(index, hit[0])
    return labels


def box_of(x: float, y: float, text: str, side: str) -> Box:
    """Return the box of a label at a point."""
    held, right, down = SIDES[side]
    width = LETTER * len(text)
    left = x + right - {"left": 0.0, "center": width / 2, "right": width}[held]
    return left, left + width, y - down - 3, y - down - 3 + LINE


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def label_layers(rows: Sequence[Json], sides: Json) -> list[Json]:
    """Return one layer of labels for each side that has any."""
    found = []
    for side in distinct(rows, "side"):
        held, right, down = SIDES[side]
        words = {**sides, "text": {"field": "name", "type": "nominal"}}
        test = f"datum.side == '{side}'"
        found.append(layer("text", words, only=test, align=held, dx=right, dy=down, fontSize=12))
    return found
