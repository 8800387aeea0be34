"""A report as a section of a model card in Markdown, and as results for `model-index`.

Source: Hugging Face, the model card's metadata (model-index).
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from audits.core.gates import abridged
from audits.core.numbers import counted, described, level_of, levelled, point
from audits.core.records import Estimate, Json, Report
from audits.report.exports.places import file_name
from audits.report.exports.subjects import About, about
from audits.report.exports.wording import chosen, ends, line, named, plain
from audits.report.pages import content, registered
from audits.report.pages.markdown import code, escaped

MOST_ROWS = 40
"""Rows of the table in the section; the rest are counted."""

MOST_EVIDENCE = 4


def section(report: Report, only: Sequence[str] = (), system: str | None = None) -> str:
    """Return the section, between markers that identify it.

    Parameters
    ----------
    only, system
        As in `about`.

    Raises
    ------
    InputError
        Where a selection of `only` cannot be read or selects nothing, or the run has no such system.
    """
    subject = _subject(report, only, system)
    parts = [
        f"## {escaped(report.title)}",
        *_asked(report),
        *_found(report, subject),
        *_estimates(report, subject.rows),
        *_coverage(report),
        *_limits(report),
        *_again(report),
    ]
    begin, end = markers(report)
    # Gates and commands are quoted verbatim; an HTML comment in them must not end the section.
    body = plain("\n\n".join(parts)).replace("<!--", "&lt;!--")
    return f"{begin}\n{body}\n{end}\n"


def markers(report: Report) -> tuple[str, str]:
    """Return the comments before and after the section of this audit."""
    name = re.sub(r"[^a-z0-9]+", "-", report.audit.lower())
    return f"<!-- miles:{name} -->", f"<!-- /miles:{name} -->"


def _subject(report: Report, only: Sequence[str], system: str | None) -> About:
    """Return what a card is about: without a system all that was chosen, of whichever system it is."""
    if system is None:
        return About(name=None, system=None, rows=tuple(chosen(report, only)))
    return about(report, only=only, system=system)


def result(report: Report, only: Sequence[str] = (), system: str | None = None) -> Json | None:
    """Return the entry of `model-index` for the chosen estimates; None where there are none.

    Raises
    ------
    InputError
        As `section`.
    """
    rows = [report.estimates[index] for index in _subject(report, only, system).rows]
    if not rows:
        return None
    return {
        "task": {"type": line(report.audit), "name": task_name(report)},
        "dataset": _dataset(report),
        "metrics": [_metric(report, row) for row in rows],
    }


def task_name(report: Report) -> str:
    """Return the name of the task under which a card holds the results of this audit."""
    return f"miles {line(report.audit)}"


def model_name(report: Report) -> str | None:
    """Return the last part of the model's path; None where the run audited data."""
    return line(file_name(report.subject.path, report.provenance.platform)) or None if report.subject else None


def _dataset(report: Report) -> Json:
    names = [line(file_name(source.path, report.provenance.platform)) or line(source.path) for source in report.data]
    kind = names[0] if names else "none"
    about = [
        {"role": line(source.role), "name": name, "sha256": source.sha256, "items": source.items}
        for source, name in zip(report.data, names, strict=True)
    ]
    return {"type": kind, "name": ", ".join(names) or "none", "args": {"sources": about}}


def _metric(report: Report, row: Estimate) -> Json:
    level = {"level": row.level} if level_of(row) else {}
    about = {**ends(row), **level, "method": line(row.method), "n": row.n, "unit": line(row.unit)}
    where = {key: line(value) if isinstance(value, str) else value for key, value in sorted(row.where.items())}
    made = {"where": where} if where else {}
    return {
        "type": line(row.name),
        "value": row.value,
        "name": named(row.name, row.where),
        "args": {**about, **made, "miles": line(report.provenance.miles)},
    }


def _asked(report: Report) -> Iterator[str]:
    yield escaped(report.question)
    # The table has the methods of the intervals.
    facts = [*content.head(report), *(fact for fact in content.asked(report) if fact[0] != "Intervals")]
    yield "\n".join(f"- {escaped(word)}: {escaped(value)}" for word, value in facts)


def _found(report: Report, subject: About) -> Iterator[str]:
    yield "### What was found"
    if report.gates:
        lines = []
        for gate in report.gates:
            lines.append(f"- Gate {registered.outcome(gate)}: {code(line(abridged(gate.expression)))}")
            lines += [f"  - {escaped(line(row))}" for row in content.broken(report, gate)]
        yield "\n".join(lines)
    if report.registration is not None:
        held = report.registration
        yield f"Criteria registered at {escaped(registered.registered_at(report))}, SHA-256 {code(held.sha256)}."
    if not report.findings:
        yield "Nothing was found that the estimates would carry."
    for finding in content.findings(report):
        if not subject.holds(finding.where):
            continue
        icon, word = content.MARKS[finding.severity]
        parts = [f"**{icon} {word}.** {escaped(finding.whole)}"]
        # A sentence on all systems rests on numbers of all; of one system only its own are shown.
        evidence = [row for row in map(report.estimates.__getitem__, finding.evidence) if subject.holds(row.where)]
        shown = evidence[:MOST_EVIDENCE]
        lines = [f"- {code(named(row.name, row.where))}: {escaped(described(row))}" for row in shown]
        if len(evidence) > MOST_EVIDENCE:
            lines.append(f"- and {len(evidence) - MOST_EVIDENCE} more in report.json")
        yield "\n\n".join([*parts, "\n".join(lines)] if lines else parts)


def _estimates(report: Report, indices: Sequence[int]) -> Iterator[str]:
    yield "### Estimates"
    if indices:
        rows = [report.estimates[index] for index in indices[:MOST_ROWS]]
        yield "\n".join(["| estimate | value | interval | n | method |", "| --- | ---: | ---: | ---: | --- |"]
                        + [_cells(row) for row in rows])  # fmt: skip
    shown = min(len(indices), MOST_ROWS)
    yield f"{shown} of {len(report.estimates):,} estimates; report.json holds them all. Rates are fractions."


def _cells(row: Estimate) -> str:
    name = code(named(row.name, row.where)).replace("|", "\\|")
    cells = [name, point(row), levelled(row), escaped(counted(row.n, row.unit)), escaped(row.method)]
    return f"| {' | '.join(cells)} |"


def _coverage(report: Report) -> Iterator[str]:
    yield "### Coverage"
    given, used = report.coverage.given, report.coverage.used
    lines = [f"- {given:,} items given, {used:,} used"]
    yield "\n".join(lines + [f"- {item.count:,} skipped: {escaped(item.reason)}" for item in report.coverage.skipped])


def _limits(report: Report) -> Iterator[str]:
    yield "### What this cannot say"
    lines = [f"- {escaped(limit)}" for limit in report.limitations]
    for notice in content.notices(report):
        more = len(notice.warnings) - 1
        rest = f" And {more} more of this kind." if more else ""
        lines.append(f"- Warning {code(line(notice.id))}: {escaped(notice.warnings[0].message)}{rest}")
    yield "\n".join(lines) or "The report names no limits."


def _again(report: Report) -> Iterator[str]:
    yield "### Run it again"
    facts = [("miles", report.provenance.miles), ("seed", str(report.provenance.seed))]
    if report.subject is not None:
        facts.append(("sha256 of the model", report.subject.sha256))
    facts += [(f"sha256 of {source.path}", source.sha256) for source in report.data]
    yield "\n".join(f"- {escaped(word)}: {escaped(value)}" for word, value in facts)
    yield _fenced(plain(" ".join(shlex.join(report.provenance.command).split("\n"))))


def _fenced(text: str) -> str:
    """Return a line as a fenced block of code, since an indented one after a list would belong to its item."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"
