"""The overview of runs as one page that opens offline: a table that can be filtered, and trends of gated estimates."""

import os
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from audits.report.pages import courses, offline
from audits.report.pages.content import MARKS
from audits.report.run_index.listing import Listing
from audits.report.run_index.trends import Trend, trends_of

HERE = "audits.report.run_index"
MOST_POINTS = 500
"""Most runs of a course that are drawn, the newest: it is 320 pixels wide, and a page has many courses."""


def to_html(listing: Listing, folder: Path | None = None) -> str:
    """Return the page of all runs below a folder.

    Parameters
    ----------
    folder
        Where the page will lie, for links to the pages of the runs; without it there are none.
    """
    script = offline.script(HERE, "runs.js")
    page: str = offline.template(HERE, "runs.html.jinja").render(
        listing=listing,
        links=["" if folder is None else _link(listing.root / run.folder, folder) for run in listing.runs],
        marks=MARKS,
        most_points=MOST_POINTS,
        trends=[(trend, drawn(trend)) for trend in trends_of(listing.runs)],
        failed=sum(run.failed > 0 for run in listing.runs),
        policy=offline.policy(script),
        style=Markup(offline.style() + offline.beside("audits.report.pages", "courses.css")),
        script=Markup(script),
    )
    # Names of folders need not be UTF-8.
    return page.encode(errors="replace").decode()


def _link(run: Path, folder: Path) -> str:
    """Return the address of a run's page from a folder; empty where there is none."""
    page = run / "report.html"
    if not page.is_file():
        return ""
    # With ./ before it, no folder's name is taken for the scheme of an address.
    return f"./{quote(os.fsencode(os.path.relpath(os.path.realpath(page), folder)))}"


def drawn(trend: Trend) -> Markup:
    """Draw a trend: red where the gate failed, a dashed line for its limit."""
    stops = [
        courses.Stop(
            point.row.value,
            point.row.low,
            point.row.high,
            f"{point.run.created[:10]} {point.run.folder}: {point.row.value:.4g}",
            "" if point.passed else "fail",
        )
        for point in trend.points[-MOST_POINTS:]
    ]
    words = f"{trend.title}: from {stops[0].value:.4g} to {stops[-1].value:.4g}"
    return courses.drawn(stops, words, line=trend.limit)
