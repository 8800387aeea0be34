"""report.html: one page that opens anywhere, offline, and can be signed.

Everything is inside the file: style, the charting library (compressed), the charts and the numbers. A content policy in
the head lets the browser run the script of the page and what that unpacks, and fetch nothing.
"""

import base64
import json
import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup, escape

from audits.core import numbers
from audits.core.gates import abridged
from audits.core.records import Coordinate, Estimate, Finding, Json, Report, Warning
from audits.core.registration import standing
from audits.core.wording import capitalised
from audits.report.pages import content, figures, offline, overview, registered
from audits.report.pages.glyphs import Reference, Span, equality, reference, scale_of, span, svg_bar, svg_glyph
from audits.report.pages.live import Live, live_charts
from audits.report.pages.packing import fitting_tables, inlined

HERE = "audits.report.pages"
LARGEST_PAGE = 1_480_000
"""Most bytes of a page; charts, then rows, that do not fit stay in the run folder."""

PICTURES = 120_000
"""Most bytes of all pictures for readers without scripts."""

LISTS = 100_000
"""Most bytes of all tables under figures; those that do not fit are in report.md only."""

MOST_EVIDENCE = 4
OPEN_GROUPS, MOST_GROUPS = 24, 1000
"""Groups up to which their table stands open, and groups that it lists."""
MOST_NULLS = 12
"""Rows of the table of nulls that are shown unfolded."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One estimate under a finding: what it is, where, the number in words, and how it was made."""

    name: str
    place: str
    number: str
    method: str


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
    live, looks = live_charts(report)
    bare = {stem: figures.for_page(svg) for stem, svg in svgs.items()}
    pictured = _within({stem: len(svg.encode()) for stem, svg in bare.items()}, PICTURES)
    answer, matrix = overview.answer(report), overview.matrix(report)
    lists = {figure.file: found for figure in report.figures if (found := content.listing(figure)) is not None}
    frame = {
        "report": report,
        "content": content,
        "registered": registered,
        "standing": standing,
        "over": content.over(report),
        "answer": answer,
        "numbers_on_top": [_key(report.estimates[number.row], number.words) for number in answer.numbers],
        "matrix": matrix,
        "nulls_note": overview.NULLS_NOTE,
        "most_nulls": MOST_NULLS,
        "numbers": numbers,
        **_matrix_parts(report, matrix),
        "abridged": abridged,
        "style": Markup(offline.style()),
        "policy": offline.policy(script, evaluated=True),
        **_parted(_findings(report, limits), content.findings(report), matrix),
        "pictures": {stem: Markup(svg) for stem, svg in bare.items() if stem in pictured},
        "live": live,
        "lists": lists,
        "listed": _within({stem: _weight(found) for stem, found in lists.items()}, LISTS),
        "tables": content.tables(report),
        "cited": [(report.estimates[index], content.label(report.estimates[index])) for index in content.cited(report)],
        "groups": content.people(report),
        "open_groups": OPEN_GROUPS,
        "most_groups": MOST_GROUPS,
        "small": {str(w.where.get("group")) for w in report.warnings if w.id == content.SMALL},
        "notices": content.notices(report),
        "command": shlex.join(report.provenance.command),
        "settings": json.dumps(report.settings, sort_keys=True, indent=1, ensure_ascii=False),
    }
    # Rendered twice: the size of the page without rows decides how many rows fit.
    page: str = template.render(**frame, data="", bundle="", script="")
    room = LARGEST_PAGE - len(page.encode()) - len(bundle.encode()) - len(script.encode())
    data = inlined(_data(report, live, looks, room))
    whole: str = template.render(**frame, data=Markup(data), bundle=Markup(bundle), script=Markup(script))
    return whole


def _data(report: Report, live: Mapping[str, Live], looks: Json, room: int) -> Json:
    charts = [
        {"at": f"chart-{index}", **live[figure.file].to_json()}
        for index, figure in enumerate(report.figures)
        if figure.file in live
    ]
    # 200: the keys and brackets around the three parts.
    left = room - len(inlined(charts)) - len(inlined(looks)) - 200
    return {"config": looks, "figures": charts, "tables": fitting_tables(report, left)}


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


def _key(estimate: Estimate, words: str) -> tuple[str, str, str]:
    """Return the point, what it is, and interval and count, for the numbers on top."""
    held = [numbers.interval(estimate), numbers.level_of(estimate), numbers.counted(estimate.n, estimate.unit)]
    return numbers.point(estimate), words, " · ".join(filter(None, held))


def _matrix_parts(report: Report, matrix: overview.Matrix | None) -> Json:
    """Return the bars of a matrix by index, the line under it, and its rows in which no difference was shown."""
    if matrix is None:
        return {"bars": {}, "matrix_note": "", "nulls": []}
    bars, nulls = {}, []
    for cell in (cell for row in matrix.cells for cell in row if cell is not None):
        estimate = report.estimates[cell.index]
        bars[cell.index] = svg_bar(estimate, matrix.axis, equality(estimate))
    for row, column, cell in matrix.nulls():
        estimate = report.estimates[cell.index]
        nulls.append((row, column, estimate, overview.still_fits(estimate)))
    note = (
        f"{capitalised(matrix.label)}. One axis for all bars, {matrix.axis.low:g} to "
        f"{matrix.axis.high:g}{_dashed(matrix.neutral)}. Intervals at {numbers.percent(matrix.level)}."
    )
    return {"bars": bars, "matrix_note": note, "nulls": nulls}


def _dashed(neutral: Reference | None) -> str:
    """Return what the dashed line of a matrix stands for; nothing where there is none."""
    if neutral is None:
        return ""
    return f"; the dashed line is {'no difference' if neutral.name == 'none' else f'{neutral.name}, {neutral.value:g}'}"


def _parted(shown: list[Json], findings: Sequence[Finding], matrix: overview.Matrix | None) -> Json:
    """Return the findings for the list, and those on what the table of nulls shows, which are folded under it."""
    nulls = {cell.index for _, _, cell in matrix.nulls()} if matrix is not None else set()
    silent = [finding.severity == "info" and finding.evidence[:1] != () and finding.evidence[0] in nulls
              for finding in findings]  # fmt: skip
    if all(silent):
        silent = [False] * len(findings)
    kept = [place for place, one in enumerate(silent) if not one]
    more = {place for place, one in zip(kept, content.folded([findings[at] for at in kept]), strict=True) if one}
    return {
        "found": [shown[place] for place in kept if place not in more],
        "more": [shown[place] for place in sorted(more)],
        "silent": [item for item, one in zip(shown, silent, strict=True) if one],
    }


def _findings(report: Report, limits: Mapping[int, list[Warning]]) -> list[Json]:
    """Return the findings with glyphs; those of one quantity share an axis."""
    found = content.findings(report)
    leading = {row.evidence[0] for row in found if row.evidence and row.evidence[0] < len(report.estimates)}
    against = {index: reference(report, index) for index in leading}
    alike: dict[tuple[Coordinate, ...], list[int]] = {}
    for index in sorted(leading):
        alike.setdefault(scale_of(report.estimates[index]), []).append(index)
    axes = {
        index: span([report.estimates[one] for one in group], [against[one] for one in group])
        for group in alike.values()
        for index in group
    }
    return [_found(report, finding, limits, against, axes) for finding in found]


def _found(
    report: Report,
    finding: Finding,
    limits: Mapping[int, list[Warning]],
    against: Mapping[int, Reference | None],
    axes: Mapping[int, Span],
) -> Json:
    """Return a finding with its glyph, its numbers and the warnings that limit them."""
    indices = [index for index in finding.evidence if index < len(report.estimates)]
    estimates = [report.estimates[index] for index in indices]
    # What a statement says already needs no note.
    notes = dict.fromkeys(
        warning.message for index in indices for warning in limits.get(index, ()) if warning.message not in finding.rest
    )
    icon, word = content.MARKS[finding.severity]
    return {
        "severity": finding.severity,
        "icon": icon,
        "word": word,
        "title": finding.title,
        "statement": finding.rest,
        "how_sure": finding.how_sure,
        "glyph": svg_glyph(estimates[0], against[indices[0]], axes[indices[0]]) if _drawn(finding, estimates) else "",
        "proofs": [_proof(estimate) for estimate in estimates[:MOST_EVIDENCE]],
        "more": max(0, len(estimates) - MOST_EVIDENCE),
        "notes": list(notes),
    }


def _drawn(finding: Finding, estimates: Sequence[Estimate]) -> bool:
    """Tell whether the first number is drawn beside a finding: where the headline has it, or there is no headline."""
    return bool(estimates) and (not finding.headline or numbers.point(estimates[0]).lstrip("-") in finding.headline)


def _proof(estimate: Estimate) -> Proof:
    name = estimate.measure.label or estimate.name
    return Proof(name, content.label(estimate), numbers.described(estimate), estimate.method)


@cache
def _bundle() -> str:
    """Return the drawing library, deflated and in base64: Vega, and `vega`, the only name it sets."""
    import vl_convert

    # The package resolves the address among the sources that it brings along.
    source = f"https://cdn.jsdelivr.net/npm/vega@{vl_convert.get_vega_version()}/+esm"
    bundle: str = vl_convert.javascript_bundle(
        f'import {{View, parse}} from "{source}"; window.vega = {{View, parse}};'
    )
    return base64.b64encode(zlib.compress(bundle.encode(), 9)).decode()
