"""A report for a job of GitHub Actions: annotations as workflow commands, and a summary in Markdown.

Source: GitHub's documentation of workflow commands and of job summaries, with their limits.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from audits.core.gates import abridged
from audits.core.numbers import described
from audits.core.records import Finding, GateResult, Report, Severity
from audits.core.registration import standing
from audits.report.exports.wording import line
from audits.report.pages import content, markdown, overview, registered

MOST_ANNOTATIONS = 10
"""Annotations of one kind that GitHub shows for a step."""
MOST_MESSAGE = 4000
"""Letters of an annotation, of which GitHub takes more than anybody reads."""
MOST_BYTES = 2**20
"""Bytes of the summary of a step; GitHub shows none of a larger one."""
_SPARE = 4096
"""Bytes that stay free for what counts the rest and says where it is."""
LEAST_BYTES = 4 * _SPARE
"""Bytes below which a summary is not worth beginning."""
MOST_ITEM = 20_000
"""Letters of one line of the summary, far above any that miles writes."""

_COMMANDS: dict[Severity, str] = {"high": "error", "medium": "warning", "low": "notice"}
_KINDS = {"error": "errors", "warning": "warnings", "notice": "notices"}


# Annotations


def annotations(report: Report) -> list[str]:
    """Return the workflow commands, a line each: failed gates and grave findings first; the rest of a kind is counted.

    Findings for information are in the summary alone.
    """
    said: dict[str, list[tuple[str, str]]] = {kind: [] for kind in _KINDS}
    name = f"miles {line(report.audit)}"
    for gate in report.gates:
        if gate.outcome == "fail":
            why = "; ".join(content.broken(report, gate))
            said["error"].append((f"{name}: gate failed", f"{_gate(gate)}: {why}" if why else _gate(gate)))
    for finding in content.findings(report):
        if finding.severity in _COMMANDS:
            word = content.MARKS[finding.severity][1]
            said[_COMMANDS[finding.severity]].append((f"{name}: {word}", finding.whole))
    return [command for kind, found in said.items() for command in _commands(kind, name, found)]


def _gate(gate: GateResult) -> str:
    asked = standing(gate.registered)
    return line(abridged(gate.expression)) + (f" ({asked})" if asked else "")


def _commands(kind: str, name: str, found: Sequence[tuple[str, str]]) -> Iterator[str]:
    fits = len(found) <= MOST_ANNOTATIONS
    shown = found if fits else found[: MOST_ANNOTATIONS - 1]
    for title, message in shown:
        yield _command(kind, title, message)
    if not fits:
        rest = len(found) - len(shown)
        yield _command(kind, name, f"and {rest:,} more {_KINDS[kind]} in report.json")


def _command(kind: str, title: str, message: str) -> str:
    """Return one workflow command, in which nothing of the texts can be read as a command or a property of its own.

    >>> _command("error", "a: b, c", "100 %\\n::stop-commands::x")
    '::error title=a%3A b%2C c::100 %25 ::stop-commands::x'
    """
    text = line(message)
    if len(text) > MOST_MESSAGE:
        text = f"{text[:MOST_MESSAGE]}… (the rest in report.json)"
    return f"::{kind} title={_property(line(title)[:200])}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# The summary


def summary(report: Report, most: int = MOST_BYTES) -> str:
    """Return the summary: gates, conclusion, key numbers, findings; in at most so many bytes, the rest counted.

    Figures are left out, since a summary cannot reach the files of the run.

    Examples
    --------
    >>> _safe("@all <b> a|b $x$ ##[error]")
    '@\u200ball &lt;b&gt; a\\\\|b <span>$</span>x<span>$</span> ##\\\\[error\\\\]'
    """
    paper = _Paper(most - _SPARE)
    answer = overview.answer(report)
    # Foreign text never begins a line: where the summary is printed, a runner would take one for a command.
    paper.add([f"## {_safe(answer.title)}", "", f"<sub>{_safe(content.over(report))}</sub>", ""])
    paper.add_all(_gates(report), "gates", "### Gates")
    if report.registration is not None:
        held = report.registration
        paper.add([f"Criteria registered at {_safe(registered.registered_at(report))}, SHA-256 `{held.sha256}`.", ""])
    keys = [(report.estimates[key.row], key.words) for key in answer.numbers if key.row < len(report.estimates)]
    paper.add_all(
        [f"- {_safe(words)}: **{_safe(described(row))}**" for row, words in keys], "numbers", "### Key numbers"
    )
    paper.add_all(_findings(report), "findings", "### What we found")
    notes = [f"- {_finding(finding)}" for finding in report.findings if finding.severity == "info"]
    if notes and paper.add([f"<details><summary>For information: {len(notes):,}</summary>", ""]):
        paper.add_all(notes, "of these")
        paper.close("</details>")
    for title, said in (("You may report", answer.may), (content.cautions(report), answer.may_not)):
        paper.add_all([f"- {_safe(text)}" for text in said], "of these", f"### {title}")
    if answer.next_step:
        paper.add([f"**What now?** {_safe(answer.next_step)}", ""])
    return paper.text(_rest(report))


class _Paper:
    """Lines of Markdown up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._lines: list[str] = []
        self._free = most

    def add(self, lines: Sequence[str]) -> bool:
        """Add these lines where all of them fit."""
        size = sum(len(text.encode()) + 1 for text in lines)
        if size > self._free:
            return False
        self._lines += lines
        self._free -= size
        return True

    def add_all(self, items: Iterable[str], what: str, title: str = "") -> None:
        """Add a list with its title, and count the items that do not fit."""
        kept = list(items)
        if not kept or (title and not self.add([title, ""])):
            return
        shown = 0
        while shown < len(kept) and self.add([kept[shown]]):
            shown += 1
        if shown < len(kept):
            # A few such lines always fit into what is spared.
            self._lines.append(f"- and {len(kept) - shown:,} more {what} in report.json")
        self._lines.append("")

    def close(self, text: str) -> None:
        """Add a short line that must follow, whatever room there is."""
        self._lines += [text, ""]

    def text(self, last: str) -> str:
        """Return all lines, with a last one."""
        return "\n".join([*self._lines, last]) + "\n"


def _gates(report: Report) -> Iterator[str]:
    # Those that failed come first.
    marks = {"pass": "✓ Gate passed", "fail": "✗ Gate failed"}
    for gate in sorted(report.gates, key=lambda one: one.outcome):
        asked = standing(gate.registered)
        why = "".join(f"; {_safe(row)}" for row in content.broken(report, gate)).removeprefix("; ")
        said = f"- **{marks[gate.outcome]}** {_code(abridged(gate.expression))}{f' ({asked})' if asked else ''}"
        yield said + (f": {why}" if why else "")
    if not report.gates:
        yield "- No gates: nothing was decided. `--fail-if` sets some."


def _findings(report: Report) -> Iterator[str]:
    for finding in content.findings(report):
        if finding.severity != "info":
            yield f"- {' '.join(content.MARKS[finding.severity])}: {_finding(finding)}"
    if not report.findings:
        yield "- Nothing was found that the estimates would carry."


def _finding(finding: Finding) -> str:
    return f"**{_safe(finding.title)}**" + (f" {_safe(finding.rest)}" if finding.rest else "")


def _rest(report: Report) -> str:
    coverage = report.coverage
    counts = (
        f"{coverage.used:,} of {coverage.given:,} items were used.",
        f"{len(report.warnings):,} warnings, {len(report.estimates):,} estimates and {len(report.figures):,} figures"
        " are in the report: a summary cannot show files of the run, so keep its folder as an artefact.",
    )
    return f"<sub>{' '.join(counts)} miles {_safe(report.provenance.miles)}, seed {report.provenance.seed}.</sub>"


def _safe(text: str) -> str:
    """Return foreign text for Markdown on GitHub: nothing formats, links, mentions, computes or commands."""
    shown = line(text)
    if len(shown) > MOST_ITEM:
        shown = f"{shown[:MOST_ITEM]}… (the rest in report.json)"
    # A mention is an @ and a name; a letter without width between them is not seen. Mathematics stands between dollars.
    safe = markdown.escaped(shown).replace("@", "@\u200b").replace("$", "<span>$</span>")
    # At the beginning of an item these would make a head or a list in it.
    return f"\\{safe}" if re.match(r"#|[+-](?:\s|$)", safe) else safe


def _code(text: str) -> str:
    # Where there is no file for it, the summary is printed, and this begins a command anywhere in a line.
    return markdown.code(re.sub(r"##\[", "## [", line(text)))
