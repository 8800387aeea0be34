"""The overview of runs as one page that opens offline: a table that can be filtered, and trends of gated estimates."""

from markupsafe import Markup, escape

from audits.report.pages import offline
from audits.report.pages.content import MARKS
from audits.report.pages.glyphs import Span
from audits.report.run_index.listing import Listing
from audits.report.run_index.trends import Trend, ends_of, trends_of

HERE = "audits.report.run_index"
WIDTH, HEIGHT, MARGIN = 320, 72, 6
MANY = 60
"""Runs from which on dots are small."""


def to_html(listing: Listing) -> str:
    """Return the page of all runs below a folder."""
    script = offline.script(HERE, "runs.js")
    page: str = offline.template(HERE, "runs.html.jinja").render(
        listing=listing,
        marks=MARKS,
        trends=[(trend, drawn(trend)) for trend in trends_of(listing.runs)],
        failed=sum(run.failed > 0 for run in listing.runs),
        policy=offline.policy(script),
        style=Markup(offline.style()),
        script=Markup(script),
    )
    return page


def drawn(trend: Trend) -> Markup:
    """Draw a trend as SVG: a bar for each interval, a dot for each value, a dashed line for the limit."""
    low, high = ends_of(trend.points)
    if trend.limit is not None:
        low, high = min(low, trend.limit), max(high, trend.limit)
    axis = Span(low, high) if high > low else Span(low - 0.5, high + 0.5)
    last = len(trend.points) - 1

    def across(place: int) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * place / last, 1)

    def down(value: float) -> float:
        return round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * axis.share(value), 1)

    # Many runs stand close together.
    radius = 3 if last < MANY else 1.5
    parts = []
    if trend.limit is not None:
        line = '<line class="reference" x1="0" x2="{}" y1="{}" y2="{}"/>'
        parts.append(Markup(line).format(WIDTH, down(trend.limit), down(trend.limit)))
    path = " ".join(f"{across(place)},{down(point.row.value)}" for place, point in enumerate(trend.points))
    parts.append(Markup('<polyline class="course" points="{}"/>').format(path))
    for place, point in enumerate(trend.points):
        if point.row.low is not None and point.row.high is not None:
            bar = '<line class="interval" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
            parts.append(Markup(bar).format(across(place), down(point.row.low), down(point.row.high)))
        dot = '<circle class="{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>'
        said = escape(f"{point.run.created[:10]} {point.run.folder}: {point.row.value:.4g}")
        kind = "point" if point.passed else "point fail"
        parts.append(Markup(dot).format(kind, across(place), down(point.row.value), radius, said))
    frame = '<svg class="trend" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    words = f"{trend.name} {trend.where}: from {trend.points[0].row.value:.4g} to {trend.points[-1].row.value:.4g}"
    return Markup(frame).format(WIDTH, HEIGHT, WIDTH, HEIGHT, words, Markup("").join(parts))
