"""Courses: one number over several runs as SVG, with its intervals and a line to hold it against."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from audits.report.pages.glyphs import Span

WIDTH, HEIGHT, MARGIN, LEFT = 320, 96, 8, 54
MANY = 60
"""Points from which on they are small."""

Kind = Literal["", "fail", "plain"]


@dataclass(frozen=True, slots=True)
class Stop:
    """A number at one place of the course: `kind` tells those that failed, and those that show nothing."""

    value: float
    low: float | None
    high: float | None
    words: str
    kind: Kind = ""


def drawn(stops: Sequence[Stop | None], words: str, *, line: float | None = None) -> Markup:
    """Draw a course: a bar for each interval, a dot for each value, a dashed line where there is one to draw.

    Parameters
    ----------
    stops
        From the first run to the last; None where a run does not hold the number.
    words
        What is drawn, for who cannot see it.
    line
        A limit, or the value at which nothing is found.
    """
    axis = _axis([stop for stop in stops if stop is not None], line)
    last = max(1, len(stops) - 1)

    def across(place: int) -> float:
        return round(LEFT + MARGIN + (WIDTH - LEFT - 2 * MARGIN) * place / last, 1)

    def down(value: float) -> float:
        return round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * axis.share(value), 1)

    parts = [
        Markup('<text x="{}" y="{}" text-anchor="end">{:.3g}</text>').format(LEFT - 4, down(end) + 4, end)
        for end in (axis.low, axis.high)
    ]
    if line is not None:
        mark = '<line class="reference" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        parts.append(Markup(mark).format(LEFT, WIDTH, down(line), down(line)))
    # Many stand close together.
    radius = 3.5 if len(stops) <= MANY else 1.5
    there = [(across(place), stop) for place, stop in enumerate(stops) if stop is not None]
    path = " ".join(f"{at},{down(stop.value)}" for at, stop in there)
    parts.append(Markup('<polyline class="course" points="{}"/>').format(path))
    for at, stop in there:
        if stop.low is not None and stop.high is not None:
            bar = '<line class="interval" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
            parts.append(Markup(bar).format(at, down(stop.low), down(stop.high)))
        dot = '<circle class="{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>'
        kind = f"point {stop.kind}".strip()
        parts.append(Markup(dot).format(kind, at, down(stop.value), radius, escape(stop.words)))
    frame = '<svg class="trend" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    return Markup(frame).format(WIDTH, HEIGHT, WIDTH, HEIGHT, words, Markup("").join(parts))


def _axis(stops: Sequence[Stop], line: float | None) -> Span:
    """Return an axis that spans all values, intervals and the line."""
    values = [end for stop in stops for end in (stop.value, stop.low, stop.high) if end is not None]
    low, high = min(values), max(values)
    if line is not None:
        low, high = min(low, line), max(high, line)
    return Span(low, high) if high > low else Span(low - 0.5, high + 0.5)
