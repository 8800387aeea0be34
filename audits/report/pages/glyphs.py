"""Glyphs: an interval in one line, with its point, both ends and the reference on one axis.

Drawn as characters for the terminal and Markdown, and as a small SVG for the page. What a number is held
against comes from the report: the limit of a gate, else equality for a difference, else everyone.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from audits.core.gates import MOST_LETTERS
from audits.core.numbers import decimals, ends, written
from audits.core.records import Coordinate, Estimate, Report

NEUTRAL = {0.0: "none", 0.5: "chance", 1.0: "equal"}
"""Names of neutral values: of a difference, of a probability by chance, of a ratio."""
WIDTH, HEIGHT, MARGIN = 300, 46, 14
LETTER, GAP = 3.4, 4
"""Half the width of a letter of a label, and the room between two labels, in pixels."""
LEAST_STEP = 1e-300
"""Steps of an axis below which there is no power of ten to round to."""
LIMIT = re.compile(r"(?:<=|>=|==|!=|<|>)\s*([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*$")


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference value of a number, with its name."""

    value: float
    name: str


@dataclass(frozen=True, slots=True)
class Span:
    """The two ends of an axis.

    Examples
    --------
    >>> Span(0.0, 2.0).share(0.5)
    0.25
    """

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def reference(report: Report, index: int) -> Reference | None:
    """Return the reference of the estimate at `index`, or None where the report has none."""
    estimate = report.estimates[index]
    for gate in report.gates:
        limit = LIMIT.search(gate.expression[-MOST_LETTERS:])
        if index in gate.rows and limit and math.isfinite(float(limit[1])):
            return Reference(float(limit[1]), "limit")
    if equality(estimate) is not None:
        return equality(estimate)
    everyone = {**estimate.where, "group": "all"}
    if estimate.where.get("group", "all") != "all":
        for other in report.estimates:
            if other.name == estimate.name and other.where == everyone:
                return Reference(other.value, "everyone")
    return None


def equality(estimate: Estimate) -> Reference | None:
    """Return the neutral value of an estimate (no gap, no change) as a reference; None where it has none.

    Examples
    --------
    >>> from audits.core.measures import Measure
    >>> gap = Measure("gap", neutral=0.0)
    >>> equality(Estimate(name="gap", value=0.1, method="exact", n=2, unit="clips", measure=gap))
    Reference(value=0.0, name='none')
    """
    neutral = estimate.measure.neutral
    return None if neutral is None else Reference(neutral, NEUTRAL.get(neutral, "neutral"))


def scale_of(estimate: Estimate) -> tuple[Coordinate, ...]:
    """Return the key that two estimates must share to be drawn on one axis."""
    return (estimate.name, *(estimate.where.get(key, "") for key in estimate.measure.apart))


def span(estimates: Iterable[Estimate], references: Iterable[Reference | None] = ()) -> Span:
    """Return an axis that spans all intervals and references.

    It has the ends of the measure where that has any; else it begins at 0 where nothing lies below and no value is
    neutral, since an axis that fits one number tells nothing of it.
    """
    values = [reference.value for reference in references if reference is not None]
    neutral = bool(values)
    for estimate in estimates:
        values += [end for end in (estimate.value, estimate.low, estimate.high) if end is not None]
        values += estimate.measure.ends or ()
        neutral = neutral or estimate.measure.neutral is not None
    if values and not neutral and min(values) > 0:
        values.append(0.0)
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    return Span(low, high)


def rounded(axis: Span) -> Span:
    """Return an axis whose ends are round numbers, not farther in.

    Examples
    --------
    >>> rounded(Span(-0.026, 0.172)), rounded(Span(0.0, 1.0))
    (Span(low=-0.05, high=0.2), Span(low=0.0, high=1.0))
    """
    size = (axis.high - axis.low) / 8
    if not LEAST_STEP < size < math.inf:
        return axis
    power = 10.0 ** math.floor(math.log10(size))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= size)
    # A millionth of a step: ends that are round but for the last bit stay.
    ends_in_steps = math.floor(axis.low / step + 1e-6), math.ceil(axis.high / step - 1e-6)
    low, high = (float(f"{end * step:.12g}") for end in ends_in_steps)
    # Of an axis that is a speck of its values, or reaches beyond all numbers, no ends are round.
    return Span(low, high) if low < high < math.inf and low > -math.inf else axis


def text_glyph(estimate: Estimate, axis: Span, *, against: Reference | None = None, width: int = 18) -> str:
    """Draw an interval in `width` characters; the line of dots is the axis and the bar the reference.

    Examples
    --------
    >>> rate = Estimate(name="rate", value=0.5, low=0.25, high=0.75, method="Wilson", n=9, unit="clips")
    >>> text_glyph(rate, Span(0.0, 1.0), against=Reference(0.0, "none"), width=13)
    '|··├──●──┤···'
    """

    def cell(value: float) -> int:
        return round(axis.share(value) * (width - 1))

    cells = ["·"] * width
    if against is not None:
        cells[cell(against.value)] = "|"
    if estimate.low is not None and estimate.high is not None:
        left, right = cell(estimate.low), cell(estimate.high)
        cells[left : right + 1] = ["─"] * (right + 1 - left)
        cells[left], cells[right] = "├", "┤"
        if against is not None and left < cell(against.value) < right:
            cells[cell(against.value)] = "┼"
    cells[cell(estimate.value)] = "●"
    return "".join(cells)


def svg_bar(estimate: Estimate, axis: Span, against: Reference | None, *, width: int = 190) -> Markup:
    """Draw an interval as SVG without labels, for a cell beside the number; nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return Markup("")

    def pixel(value: float) -> float:
        return round(5 + axis.share(value) * (width - 10), 1)

    parts = [Markup('<line class="axis" x1="0" y1="9" x2="{}" y2="9"/>').format(width)]
    if against is not None:
        parts.append(Markup('<line class="reference" x1="{0}" y1="1" x2="{0}" y2="17"/>').format(pixel(against.value)))
    ends = pixel(estimate.low), pixel(estimate.high)
    parts.append(Markup('<line class="interval" x1="{}" y1="9" x2="{}" y2="9"/>').format(*ends))
    parts.append(Markup('<circle class="point" cx="{}" cy="9" r="4"/>').format(pixel(estimate.value)))
    frame = Markup('<svg class="glyph" viewBox="0 0 {} 18" width="{}" height="18" aria-hidden="true">')
    return frame.format(width, width) + Markup("").join(parts) + Markup("</svg>")


def svg_glyph(estimate: Estimate, against: Reference | None, axis: Span | None = None) -> Markup:
    """Draw one estimate as SVG with the ends and the reference labelled; nothing where there is no interval.

    Parameters
    ----------
    axis
        That of all numbers which this one stands beside; by default one of its own.
    """
    if estimate.low is None or estimate.high is None:
        return Markup("")
    axis = axis or span([estimate], [against])

    def pixel(value: float) -> float:
        return round(MARGIN + axis.share(value) * (WIDTH - 2 * MARGIN), 1)

    places = decimals(estimate)
    middle = pixel(estimate.value)
    parts = [Markup('<line class="axis" x1="0" y1="16" x2="{}" y2="16"/>').format(WIDTH)]
    labels: list[tuple[float, str]] = []
    if against is not None:
        at = pixel(against.value)
        parts.append(Markup('<line class="reference" x1="{0}" y1="3" x2="{0}" y2="29"/>').format(at))
        value = written(against.value, places) if against.name == "everyone" else f"{against.value:g}"
        labels.append((at, value if against.name in ("none", "equal") else f"{against.name} {value}"))
    texts = ends(estimate)
    if texts is not None and estimate.low is not None and estimate.high is not None:
        sides = pixel(estimate.low), pixel(estimate.high)
        parts.append(Markup('<line class="interval" x1="{}" y1="16" x2="{}" y2="16"/>').format(*sides))
        if sides[1] - sides[0] < LETTER * (len(texts[0]) + len(texts[1])) + GAP and texts[0] != texts[1]:
            # One of two labels that touch would be left out, and the other taken for the number.
            labels.append((sum(sides) / 2, " to ".join(texts)))
        labels += zip(sides, texts, strict=True)
    if estimate.measure.neutral is None and axis.low == 0:
        # Last, since they give way: where the axis begins, and where it must end.
        labels.append((pixel(0.0), "0"))
        labels += [(pixel(end), f"{end:g}") for end in (estimate.measure.ends or ())[1:] if axis.high == end]
    parts.append(Markup('<circle class="point" cx="{}" cy="16" r="5"/>').format(middle))
    parts += _labels(labels)
    frame = Markup('<svg class="glyph" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true">')
    return frame.format(WIDTH, HEIGHT, WIDTH, HEIGHT) + Markup("").join(parts) + Markup("</svg>")


def _labels(labels: list[tuple[float, str]]) -> list[Markup]:
    """Return the labels under the axis, the reference first; one that would touch another is left out."""
    taken: list[tuple[float, float]] = []
    drawn = []
    for at, text in labels:
        half = LETTER * len(text)
        centre = round(min(max(at, half), WIDTH - half), 1)
        if all(centre + half + GAP <= left or centre - half - GAP >= right for left, right in taken):
            taken.append((centre - half, centre + half))
            line = '<text x="{}" y="42" text-anchor="middle">{}</text>'
            drawn.append(Markup(line).format(centre, escape(text)))
    return drawn
