"""A comparison as one page that opens anywhere, offline: what differs, what changed, and every change in a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from audits.report.comparison import wording
from audits.report.comparison.changes import Change
from audits.report.comparison.comparing import Comparison
from audits.report.pages import content, offline
from audits.report.pages.glyphs import Span

HERE = "audits.report.comparison"
MOST_ROWS = 1500
"""Rows of all tables together: with more, the page would be slow to open."""
ICONS = {"changed": "●", "unclear": "○", "same": "=", "no interval": "–"}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page: one change."""

    change: Change
    place: str
    before: str
    after: str
    moved: str
    p: str
    basis: str
    icon: str
    verdict: str
    glyph: Markup


def to_html(comparisons: Sequence[Comparison]) -> str:
    """Return the page of comparisons that share their first run."""
    script = offline.script(HERE, "compare.js")
    page: str = offline.template(HERE, "compare.html.jinja").render(
        first=comparisons[0].before,
        comparisons=comparisons,
        tables=[_rows(found.rows[: MOST_ROWS // len(comparisons)]) for found in comparisons],
        content=content,
        wording=wording,
        # Let long names wrap after each underscore.
        broken=Markup("_<wbr>"),
        policy=offline.policy(script),
        style=Markup(offline.style()),
        script=Markup(script),
    )
    return page


def _rows(changes: Sequence[Change]) -> list[Row]:
    axes = _axes(changes)
    found = []
    for row in changes:
        before, after, moved = wording.shown(row)
        verdict = f"{row.verdict}, worse" if row.is_regression else row.verdict
        found.append(
            Row(
                change=row,
                place=wording.place(row),
                before=before,
                after=after,
                moved=moved,
                p=wording.p_shown(row),
                basis=wording.basis(row),
                icon="▲" if row.is_regression else ICONS[row.verdict],
                verdict=verdict,
                glyph=_glyph(row, axes[row.name]),
            )
        )
    return found


def _axes(changes: Sequence[Change]) -> dict[str, Span]:
    """Return an axis for each name that spans all of its changes, with zero in the middle."""
    reach: dict[str, float] = {}
    for row in changes:
        ends = row.difference or (row.moved,)
        reach[row.name] = max(reach.get(row.name, 0.0), *map(abs, ends))
    return {name: Span(-(most or 1.0), most or 1.0) for name, most in reach.items()}


def _glyph(row: Change, axis: Span) -> Markup:
    def position(value: float) -> str:
        return f"{6 + 128 * axis.share(value):.1f}"

    parts = [Markup('<line class="axis" x1="0" x2="140" y1="8" y2="8"/>')]
    parts.append(Markup('<line class="reference" x1="70" x2="70" y1="1" y2="15"/>'))
    if row.difference is not None:
        ends = position(row.difference[1]), position(row.difference[2])
        parts.append(Markup('<line class="interval" x1="{}" x2="{}" y1="8" y2="8"/>').format(*ends))
    parts.append(Markup('<circle class="point" cx="{}" cy="8" r="4"/>').format(position(row.moved)))
    frame = Markup('<svg class="glyph" viewBox="0 0 140 16" width="140" height="16" aria-hidden="true">{}</svg>')
    return frame.format(Markup("").join(parts))
