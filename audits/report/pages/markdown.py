"""report.md: the same document as the page, in Markdown for a pull request or a wiki."""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence

from audits.core.gates import abridged
from audits.core.numbers import coordinate, coordinates, counted, described, interval, levelled, point
from audits.core.records import Coordinate, Report
from audits.report.pages import content, overview, registered
from audits.report.pages.glyphs import Span, equality, reference, scale_of, span, text_glyph

MOST_ROWS = 40
"""Most rows of a table in Markdown; the page and report.json have all."""

MOST_WARNINGS = 10


def to_markdown(report: Report) -> str:
    """Return report.md: the sections, words and numbers of the page, with its figures as links."""
    report = content.canonical(report)
    parts = [
        *_head(report),
        *_overview(report),
        *_found(report),
        *_nulls(report),
        *_figures(report),
        *_coverage(report),
        *_asked(report),
        *_limits(report),
        *_tables(report),
        *_provenance(report),
    ]
    return "\n\n".join(parts) + "\n"


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")


def escaped(text: object) -> str:
    r"""Escape foreign text, so that Markdown shows it as it is.

    Examples
    --------
    >>> print(escaped("accent=<script>|a_b*"))
    accent=&lt;script&gt;\|a_b\*
    >>> print(escaped("see http://x.example or www.x.example"))
    see http\://x.example or www\.x.example
    """
    # Who prints the file must not have their terminal steered by it.
    line = _CONTROLS.sub("\ufffd", " ".join(str(text).split()))
    # Escape & only where it would start an entity: names of crossed groups are full of it.
    line = re.sub(r"&(?=#?\w+;)", "&amp;", line).replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"([\\`*\[\]|~!])", r"\\\1", line)
    # A backslash keeps GitHub from turning bare addresses into links.
    line = re.sub(r":(?=//)", r"\:", line)
    line = re.sub(r"(?<![A-Za-z0-9])(www|mailto|xmpp)([.:])", r"\1\\\2", line, flags=re.IGNORECASE)
    # An underscore between letters is no emphasis, and names of estimates are full of them.
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", line)


def code(text: str) -> str:
    """Return text as a code span, whatever backticks it holds."""
    line = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _head(report: Report) -> Iterable[str]:
    answer = overview.answer(report)
    yield f"# {escaped(answer.title)}"
    yield escaped(content.over(report))
    if report.gates:
        mark = {"pass": "✓", "fail": "✗"}
        lines = []
        for gate in report.gates:
            lines.append(f"- Gate {mark[gate.outcome]} {registered.outcome(gate)}: {code(abridged(gate.expression))}")
            lines += [f"  - {escaped(row)}" for row in content.broken(report, gate)]
        yield "\n".join(lines)
    if report.registration is not None:
        held = report.registration
        yield f"Criteria registered at {escaped(registered.registered_at(report))}, SHA-256 {code(held.sha256)}."
    if answer.numbers:
        keys = [(report.estimates[number.row], number.words) for number in answer.numbers]
        yield "\n".join(
            f"- **{escaped(point(row))}** {escaped(words)}: {escaped(described(row))}" for row, words in keys
        )
    if answer.next_step:
        yield f"**What now?** {escaped(answer.next_step)}"
    for title, said in (("You may report", answer.may), (content.cautions(report), answer.may_not)):
        if said:
            yield f"**{title}**\n\n" + "\n".join(f"- {escaped(line)}" for line in said)


def _overview(report: Report) -> Iterable[str]:
    matrix = overview.matrix(report)
    if matrix is None:
        return
    yield f"## {escaped(matrix.title)}"
    rows = []
    for name, cells in zip(matrix.rows, matrix.cells, strict=True):
        rows.append([escaped(name), *(_matrix_cell(report, cell) for cell in cells)])
    yield _table(["", *map(escaped, matrix.columns)], rows, right=())


def _matrix_cell(report: Report, cell: overview.Cell | None) -> str:
    if cell is None:
        return ""
    estimate = report.estimates[cell.index]
    words = "".join(f"; {escaped(text)}" for text in (cell.detail, f"{cell.icon} {cell.words}".strip()) if text)
    return f"{escaped(point(estimate))} ({escaped(interval(estimate))}){words}"


def _nulls(report: Report) -> Iterable[str]:
    matrix = overview.matrix(report)
    nulls = list(matrix.nulls()) if matrix else []
    if matrix is None or not nulls:
        return
    yield "## No difference shown"
    rows = []
    for row, column, cell in nulls:
        estimate = report.estimates[cell.index]
        seen = f"{point(estimate)} ({interval(estimate)})"
        rows.append([escaped(row), escaped(column), escaped(seen), overview.still_fits(estimate)])
    yield _table(["", "", escaped(matrix.label), "still fits the data"], rows, right=(3,))
    yield overview.NULLS_NOTE


def _found(report: Report) -> Iterable[str]:
    yield "## What we found"
    if not report.findings:
        yield "Nothing was found that the estimates below would carry."
    for finding in content.findings(report):
        icon, word = content.MARKS[finding.severity]
        said = " ".join(filter(None, (finding.rest, finding.how_sure and f"How sure: {finding.how_sure}")))
        lines = [f"**{icon} {word}. {escaped(finding.title)}** {escaped(said)}".rstrip()]
        for index in finding.evidence[:4]:
            estimate, against = report.estimates[index], reference(report, index)
            glyph = text_glyph(estimate, span([estimate], [against]), against=against)
            where = escaped(content.label(estimate))
            lines.append(f"- {code(estimate.name)} {where}: `{glyph}` {escaped(described(estimate))}")
        if len(finding.evidence) > 4:
            lines.append(f"- and {len(finding.evidence) - 4} more in report.json")
        yield lines[0] + ("\n\n" + "\n".join(lines[1:]) if lines[1:] else "")


def _asked(report: Report) -> Iterable[str]:
    yield "## What was asked"
    yield escaped(report.question)
    facts = [(word, escaped(value)) for word, value in content.head(report) + content.asked(report)]
    facts.append(("Method", code(content.method_page(report))))
    if content.calibration_page(report):
        facts.append(("How often these intervals hold", code(content.calibration_page(report))))
    yield "\n".join(f"- {word}: {value}" for word, value in facts)


def _coverage(report: Report) -> Iterable[str]:
    yield "## What was used"
    coverage = report.coverage
    rows = [("given", coverage.given), ("used", coverage.used)]
    rows += [(f"skipped: {item.reason}", item.count) for item in coverage.skipped]
    yield _table(["", "items"], [[escaped(word), f"{count:,}"] for word, count in rows], right=(1,))
    units, groups = content.people(report)
    if groups:
        rows_of_groups = [[escaped(group), *(f"{count:,}" for count in counts)] for group, counts in groups[:MOST_ROWS]]
        yield _table(["group", *map(escaped, units)], rows_of_groups, right=range(1, len(units) + 1))
        yield from _rest(len(groups))


def _figures(report: Report) -> Iterable[str]:
    if report.figures:
        yield "## Figures"
    for figure in report.figures:
        yield f"### {escaped(figure.title)}"
        # The caption stands below; said twice it would be read twice where pictures are not shown.
        yield f"![{escaped(figure.title)}](figures/{figure.file}.svg)"
        yield escaped(figure.caption)
        found = content.listing(figure)
        if found is not None:
            rows = [[escaped(cell) for cell in row] for row in found.rows]
            right = [column for column, number in enumerate(found.numbers) if number]
            yield _table([escaped(title) for title in found.titles], rows, right=right)


def _tables(report: Report) -> Iterable[str]:
    if report.estimates:
        yield "## All numbers"
    noted = content.limits(report)
    first = set(content.cited(report))
    for table in content.tables(report):
        yield f"### {escaped(table.label or table.name)} ({code(table.name)})"
        rows = sorted(table.rows, key=lambda index: index not in first)[:MOST_ROWS]
        titles = [*map(escaped, table.keys), "value", "interval", "", "n", "method"]
        right = (len(table.keys), len(table.keys) + 1, len(table.keys) + 3)
        axes = _axes(report, table)
        cells = [_cells(report, index, table, axes, index in noted) for index in sorted(rows)]
        yield _table(titles, cells, right=right)
        yield from _rest(len(table.rows))
        if any(index in noted for index in rows):
            yield "† limited by a warning: see What this cannot say."


def _axes(report: Report, table: content.Table) -> dict[tuple[Coordinate, ...], Span]:
    """Return the axis of each scale in a table, so that its glyphs can be compared."""
    alike = defaultdict(list)
    for index in table.rows:
        alike[scale_of(report.estimates[index])].append(report.estimates[index])
    return {scale: span(rows, [equality(rows[0])]) for scale, rows in alike.items()}


def _cells(
    report: Report, index: int, table: content.Table, axes: dict[tuple[Coordinate, ...], Span], limited: bool
) -> list[str]:
    estimate = report.estimates[index]
    glyph = text_glyph(estimate, axes[scale_of(estimate)], against=equality(estimate), width=14)
    where = [escaped(coordinate(estimate.where[key])) if key in estimate.where else "" for key in table.keys]
    return [
        *where,
        point(estimate) + (" †" if limited else ""),
        levelled(estimate),
        # A pipe ends the cell, even inside code.
        "`" + glyph.replace("|", "╎") + "`",
        escaped(counted(estimate.n, estimate.unit)),
        escaped(estimate.method),
    ]


def _limits(report: Report) -> Iterable[str]:
    yield "## What this cannot say"
    if report.limitations:
        yield "\n".join(f"- {escaped(line)}" for line in report.limitations)
    for notice in content.notices(report):
        lines = [_warning(warning.message, coordinates(warning.where)) for warning in notice.warnings]
        shown = lines[:MOST_WARNINGS]
        if len(lines) > len(shown):
            shown.append(f"- and {len(lines) - len(shown)} more of this kind in report.json")
        yield f"Warning {code(notice.id)}:\n\n" + "\n".join(shown)


def _warning(message: str, where: str) -> str:
    return f"- {escaped(message)}" + (f" ({escaped(where)})" if where else "")


def _provenance(report: Report) -> Iterable[str]:
    made = report.provenance
    yield "## Provenance"
    facts = {
        "miles": made.miles,
        "Python": made.python,
        "packages": ", ".join(f"{name} {version}" for name, version in made.packages.items()),
        "platform": made.platform,
        "device": f"{made.device}, {made.dtype}, {counted(made.threads, 'threads')}",
        "seed": str(made.seed),
        "seconds": ", ".join(f"{phase} {spent:.1f}" for phase, spent in made.seconds.items()),
    }
    facts |= dict(content.paths(report))
    for source in report.data:
        facts[f"sha256 of {source.path}"] = source.sha256
    if report.subject is not None:
        facts["sha256 of the model"] = report.subject.sha256
    facts |= dict(registered.facts(report))
    yield "\n".join(f"- {escaped(word)}: {escaped(value)}" for word, value in facts.items())
    yield "Run it again:"
    # Indented instead of fenced, so that nothing in the command can close the block.
    yield "    " + " ".join(shlex.join(made.command).split("\n"))
    yield "Settings:"
    yield "    " + json.dumps(report.settings, sort_keys=True, ensure_ascii=True)


def _rest(total: int) -> Iterable[str]:
    if total > MOST_ROWS:
        yield f"{MOST_ROWS} of {total:,} rows; the page and report.json hold them all."


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int]) -> str:
    rule = ["---:" if column in right else "---" for column in range(len(titles))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (titles, rule, *rows))
