"""report.html: one page that opens anywhere, offline, and can be signed.

Everything is inside the file: style, one script bundle, the charts and the numbers. A content policy in the head
lets the browser run these two scripts and nothing else, and fetch nothing.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup, escape

from audits.core import numbers
from audits.core.gates import abridged
from audits.core.records import Estimate, Figure, Finding, Json, Report, Warning
from audits.report.charts.theme import CONFIG
from audits.report.pages import content, figures, offline
from audits.report.pages.glyphs import reference, svg_glyph
from audits.report.pages.packing import fitting_tables, inlined

HERE = "audits.report.pages"
LARGEST_PAGE = 1_480_000
"""Most bytes of a page; charts, then rows, that do not fit stay in the run folder."""

PICTURES = 120_000
"""Most bytes of all pictures for readers without scripts."""

SPECIFICATIONS = 200_000
"""Most bytes of all specifications of interactive charts."""

LISTS = 100_000
"""Most bytes of all tables under figures; those that do not fit are in report.md only."""

MOST_EVIDENCE = 4
OPEN_GROUPS = 24


@dataclass(frozen=True, slots=True)
class Proof:
    """One estimate under a finding: what it is, where, and the number in words."""

    name: str
    place: str
    number: str


def to_html(report: Report, svgs: Mapping[str, str]) -> str:
    """Return report.html.

    Parameters
    ----------
    report
        What was found.
    svgs
        SVG of each figure by the stem of its file, for readers without scripts.
    """
    report = content.canonical(report)
    bundle, script = _bundle(), offline.script(HERE, "page.js")
    template = offline.template(HERE, "page.html.jinja")
    limits = content.limits(report)
    live = _within({figure.file: len(inlined(content.chart(figure))) for figure in report.figures}, SPECIFICATIONS)
    bare = {stem: figures.for_page(svg) for stem, svg in svgs.items()}
    pictured = _within({stem: len(svg.encode()) for stem, svg in bare.items()}, PICTURES)
    lists = {figure.file: found for figure in report.figures if (found := content.listing(figure)) is not None}
    frame = {
        "report": report,
        "content": content,
        "head": content.head(report),
        "numbers": numbers,
        "abridged": abridged,
        "style": Markup(offline.style()),
        "policy": offline.policy(bundle, script, evaluated=True),
        "found": [_found(report, finding, limits) for finding in content.findings(report)],
        "pictures": {stem: Markup(svg) for stem, svg in bare.items() if stem in pictured},
        "live": live,
        "lists": lists,
        "listed": _within({stem: _weight(found) for stem, found in lists.items()}, LISTS),
        "tables": content.tables(report),
        "cited": [(report.estimates[index], content.label(report.estimates[index])) for index in content.cited(report)],
        "groups": content.people(report),
        "open_groups": OPEN_GROUPS,
        "small": {str(w.where.get("group")) for w in report.warnings if w.id == content.SMALL},
        "notices": content.notices(report),
        "command": shlex.join(report.provenance.command),
        "settings": json.dumps(report.settings, sort_keys=True, indent=1, ensure_ascii=False),
    }
    # Rendered twice: the size of the page without rows decides how many rows fit.
    page: str = template.render(**frame, data="", bundle="", script="")
    room = LARGEST_PAGE - len(page.encode()) - len(bundle.encode()) - len(script.encode())
    data = inlined(_data(report, live, room))
    whole: str = template.render(**frame, data=Markup(data), bundle=Markup(bundle), script=Markup(script))
    return whole


def _data(report: Report, live: frozenset[str], room: int) -> Json:
    charts = [_chart(index, figure) for index, figure in enumerate(report.figures) if figure.file in live]
    # 200: the keys and brackets around the three parts.
    left = room - len(inlined(charts)) - len(inlined(CONFIG)) - 200
    return {"config": CONFIG, "figures": charts, "tables": fitting_tables(report, left)}


def _chart(index: int, figure: Figure) -> Json:
    return {"at": f"chart-{index}", "spec": content.chart(figure)}


def _within(sizes: Mapping[str, int], room: int) -> frozenset[str]:
    """Return the names that fit into `room` bytes, the smallest first."""
    kept = []
    for name, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        room -= size
        if room < 0:
            break
        kept.append(name)
    return frozenset(kept)


def _weight(listing: content.Listing) -> int:
    """Return the approximate bytes of a table on the page, where titles stand beside each cell."""
    cells = [cell for row in listing.rows for cell in (*row, *listing.titles)]
    return sum(len(escape(cell).encode()) + 40 for cell in cells)


def _found(report: Report, finding: Finding, limits: Mapping[int, list[Warning]]) -> Json:
    """Return a finding with its glyph, its numbers and the warnings that limit them."""
    indices = [index for index in finding.evidence if index < len(report.estimates)]
    estimates = [report.estimates[index] for index in indices]
    notes = dict.fromkeys(warning.message for index in indices for warning in limits.get(index, ()))
    icon, word = content.MARKS[finding.severity]
    return {
        "severity": finding.severity,
        "icon": icon,
        "word": word,
        "statement": finding.statement,
        "glyph": svg_glyph(estimates[0], reference(report, indices[0])) if indices else "",
        "proofs": [_proof(estimate) for estimate in estimates[:MOST_EVIDENCE]],
        "more": max(0, len(estimates) - MOST_EVIDENCE),
        "notes": list(notes),
    }


def _proof(estimate: Estimate) -> Proof:
    return Proof(estimate.name, content.label(estimate), numbers.described(estimate))


@cache
def _bundle() -> str:
    """Return the one script bundle: Vega, Vega-Lite and `vegaEmbed`, the only name that it sets."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    return bundle
