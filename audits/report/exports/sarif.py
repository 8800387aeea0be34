"""A report as SARIF, for code scanning and other viewers of results: gates, findings, and the hashes of the inputs.

Source: Static Analysis Results Interchange Format (SARIF) 2.1.0, OASIS; the limits are those that GitHub code scanning
states.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from audits.core.gates import abridged, breaking, counted_findings
from audits.core.numbers import coordinates, counted
from audits.core.records import Coordinate, Estimate, GateResult, Json, Report, Severity
from audits.core.registration import standing
from audits.report.exports.places import uri
from audits.report.exports.wording import ends, line, outcome
from audits.report.pages import content, overview

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

MOST_RESULTS = 25_000
"""Results of a file; one with more is refused by code scanning. As many rules are allowed, and no more can arise."""
MOST_EVIDENCE = 10
"""Estimates of one result that are written out; the rest are counted."""
MOST_WARNINGS = 100
MOST_LIMITATIONS = 20
MOST_HELPED = 100
"""Kinds of findings whose rules say what the audit cannot; no audit has as many."""
MOST_LETTERS = 20_000
"""Letters of a message, far above any that miles writes."""
MOST_DESCRIBED = 1000
"""Letters of a rule's description, of which code scanning takes 1,024."""

CONTENT = "milesContent"
"""As in the in-toto statement: a hash of what miles read, which is not that of a file."""

LEVELS: Mapping[Severity, str] = {"high": "error", "medium": "warning", "low": "note", "info": "none"}
"""Level of a finding's result; SARIF asks for "none" where a result is no failure."""
OUTCOMES = ("verdict",)
"""Coordinates of findings that hold an answer and not a question: they do not tell which result it is."""


@dataclass(frozen=True, slots=True)
class _Result:
    """A result before it has a place: its rule, its kind and level, its words, what identifies it, its details."""

    rule: str
    kind: str
    level: str
    message: str
    identity: tuple[object, ...]
    details: Json


def to_sarif(
    report: Report,
    digest: str,
    plain: Collection[str] = (),
    *,
    file: str = "report.json",
    root: str = "",
    problems_only: bool = False,
) -> str:
    """Return the report as one run of SARIF; equal reports, places and files give equal bytes.

    Parameters
    ----------
    digest
        The SHA-256 of report.json.
    plain
        Hashes of the report that are those of a file's bytes. Others stand as `milesContent` in properties.
    file
        Path of report.json.
    root
        Absolute folder to which paths are made relative, such as the checkout of a repository.
    problems_only
        Leave out, and count, gates that passed and findings for information: code scanning shows every result as a
        problem, of whatever kind it is.
    """
    found = [*_gates(report, "fail"), *_findings(report), *_gates(report, "pass")]
    kept = [one for one in found if one.kind == "fail"] if problems_only else found
    shown = kept[:MOST_RESULTS]
    artifacts = _artifacts(report, digest, plain, file, root)
    rules = _rules(report, shown)
    left_out = {"notProblems": len(found) - len(kept), "overLimit": len(kept) - len(shown)}
    run = {
        "tool": {"driver": {"name": "miles", "version": line(report.provenance.miles), "rules": list(rules.values())}},
        "automationDetails": {"id": f"miles/{line(report.audit)}/{_question(report, root)[:8]}/"},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": list(_notices(report, left_out))}],
        "artifacts": artifacts,
        "results": _results(report, shown, list(rules), artifacts, root),
        "properties": _about(report, left_out),
    }
    return json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}, sort_keys=True, indent=1) + "\n"


def _text(text: str) -> str:
    """Return foreign text as a message: no link and no placeholder, which SARIF would read in it.

    >>> _text("see [this](https://x.example) and {0}")
    'see [this] (https://x.example) and { 0}'
    """
    shown = re.sub(r"\](?=\()|\{(?=\d)", r"\g<0> ", line(text))
    return shown if len(shown) <= MOST_LETTERS else f"{shown[:MOST_LETTERS]}… ({len(shown):,} letters, in report.json)"


def _cut(text: str) -> str:
    shown = _text(text)
    return shown if len(shown) <= MOST_DESCRIBED else shown[: MOST_DESCRIBED - 1] + "…"


def _where(where: Mapping[str, Coordinate]) -> Json:
    return {line(key): line(value) if isinstance(value, str) else value for key, value in where.items()}


# Results


def _gates(report: Report, wanted: str) -> Iterator[_Result]:
    for gate in report.gates:
        if gate.outcome != wanted:
            continue
        failed = gate.outcome == "fail"
        asked = standing(gate.registered)
        said = f"Gate {'failed' if failed else 'passed'}: {abridged(gate.expression)}"
        said += f" ({asked})." if asked else "."
        rows = breaking(gate, report.estimates) if failed else gate.rows
        why = "; ".join(content.broken(report, gate)) or f"It looked at {_looked_at(report, gate)}"
        details: Json = {"expression": line(abridged(gate.expression)), "outcome": gate.outcome}
        if gate.registered is not None:
            details["registered"] = gate.registered
        details |= _evidence([report.estimates[row] for row in rows if row < len(report.estimates)])
        yield _Result(
            rule=_rule_of(gate),
            kind="fail" if failed else "pass",
            level="error" if failed else "none",
            message=f"{said} {why}.",
            identity=("gate", gate.expression),
            details=details,
        )


def _looked_at(report: Report, gate: GateResult) -> str:
    found = counted_findings(gate.expression, report.findings)
    return counted(len(gate.rows), "estimates") if found is None else counted(len(found), "findings")


def _findings(report: Report) -> Iterator[_Result]:
    for finding in content.findings(report):
        sure = f" How sure: {finding.how_sure}" if finding.how_sure else ""
        rows = [report.estimates[row] for row in finding.evidence if row < len(report.estimates)]
        asked = {key: value for key, value in finding.where.items() if key not in OUTCOMES}
        yield _Result(
            rule=line(finding.id),
            kind="informational" if finding.severity == "info" else "fail",
            level=LEVELS[finding.severity],
            message=finding.whole + sure,
            identity=("finding", finding.id, sorted((key, str(value)) for key, value in asked.items())),
            details={"severity": finding.severity, "where": _where(finding.where), **_evidence(rows)},
        )


def _rule_of(gate: GateResult) -> str:
    return f"gate {line(abridged(gate.expression))}"


def _evidence(rows: list[Estimate]) -> Json:
    """Return the first numbers that a result rests on, and how many there are more."""
    shown = [
        {
            "name": line(row.name),
            "where": _where(row.where),
            "value": row.value,
            **ends(row),
            "level": row.level,
            "method": line(row.method),
            "n": row.n,
            "unit": line(row.unit),
        }
        for row in rows[:MOST_EVIDENCE]
    ]
    more = len(rows) - len(shown)
    return {"estimates": shown, **({"estimatesNotShown": more} if more else {})}


def _results(report: Report, shown: list[_Result], rules: list[str], artifacts: list[Json], root: str) -> list[Json]:
    question, place = _question(report, root), _place(artifacts)
    number = {rule: index for index, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    results = []
    for one in shown:
        mark = _hash([question, *one.identity])[:16]
        seen[mark] += 1
        # The first is the name that code scanning looks for, in the form that it computes from lines of code.
        prints = {"primaryLocationLineHash": f"{mark}:{seen[mark]}", "milesQuestion/v1": f"{mark}:{seen[mark]}"}
        results.append(
            {
                "ruleId": one.rule,
                "ruleIndex": number[one.rule],
                "kind": one.kind,
                "level": one.level,
                "message": {"text": _text(one.message)},
                "locations": [{"physicalLocation": {"artifactLocation": place}}],
                "partialFingerprints": prints,
                "properties": one.details,
            }
        )
    return results


def _question(report: Report, root: str) -> str:
    """Return a hash of what was asked of which files, and of no answer: the same for each run of the same question.

    A file outside of `root` counts by its name, since folders of a machine change.
    """
    platform = report.provenance.platform
    asked = [report.subject.path] if report.subject is not None else []
    places = sorted((source.role, uri(source.path, root, platform)) for source in report.data)
    named = [(role, place.rpartition("/")[2] if place.startswith("file:") else place) for role, place in places]
    model = [uri(path, root, platform).rpartition("/")[2] for path in asked]
    return _hash([report.audit, model, sorted(named)])


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# Files


def _artifacts(report: Report, digest: str, plain: Collection[str], file: str, root: str) -> list[Json]:
    """Return the model, the data and report.json, each place once."""
    platform = report.provenance.platform
    held: dict[str, Json] = {}
    if report.subject is not None:
        model = report.subject
        about = {"roles": ["model"], "family": line(model.family), "parameters": model.parameters}
        _take(held, uri(model.path, root, platform), model.sha256, plain, about)
    for source in report.data:
        about = {"roles": [line(source.role)], "items": source.items}
        _take(held, uri(source.path, root, platform), source.sha256, plain, about)
    _take(held, uri(file, root), digest, [digest], {"roles": ["report"]})
    return list(held.values())


def _take(held: dict[str, Json], place: str, digest: str, plain: Collection[str], about: Json) -> None:
    if place in held:
        # One file in two parts, such as a manifest with predictions.
        held[place]["properties"]["roles"] += about["roles"]
        return
    made: Json = {"location": {"uri": place}, "properties": about}
    if digest in plain:
        made["hashes"] = {"sha-256": digest}
    else:
        about[CONTENT] = digest
    held[place] = made


def _place(artifacts: list[Json]) -> Json:
    """Return the place that results point at: data below the root, else any data, else the model, else the report."""

    def rank(index: int) -> tuple[bool, bool, bool, int]:
        roles = artifacts[index]["properties"]["roles"]
        outside = artifacts[index]["location"]["uri"].startswith("file:")
        return "report" in roles, "model" in roles, outside, index

    best = min(range(len(artifacts)), key=rank)
    return {"uri": artifacts[best]["location"]["uri"], "index": best}


# Rules


def _rules(report: Report, shown: list[_Result]) -> dict[str, Json]:
    """Return the rules of these results by their id: each gate is one, and each kind of finding."""
    gates = {_rule_of(gate) for gate in report.gates}
    rules: dict[str, Json] = {}
    limits, kinds = _limits(report), 0
    for one in shown:
        # The gravest result of a rule comes first, and gives it its level.
        if one.rule not in rules:
            if one.rule in gates:
                rules[one.rule] = _gate_rule(report, one)
            else:
                kinds += 1
                rules[one.rule] = _finding_rule(report, one, limits if kinds <= MOST_HELPED else "")
    return rules


def _limits(report: Report) -> str:
    """Return what the audit cannot say, which each kind of finding repeats."""
    limits = [f"- {_text(limit)}" for limit in report.limitations[:MOST_LIMITATIONS]]
    text = "\n".join(["", "What this audit cannot say:", *limits]) if limits else ""
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}… (the rest in report.json)"


def _gate_rule(report: Report, one: _Result) -> Json:
    said = (
        f"A condition that was set for this run of miles {report.audit}. It fails where any of the estimates that it"
        " names makes it true; an end of an interval is named by .low or .high. A gate that passed is no proof that"
        " nothing is wrong: with few items an interval is wide."
    )
    return _rule(report, one, f"Gate {one.rule.removeprefix('gate ')}", said, f"{said} {_pages(report)}")


def _finding_rule(report: Report, one: _Result, limits: str) -> Json:
    said = (
        f"A finding of miles {report.audit}, which asks: {report.question} It is made where its estimates with their"
        " intervals carry it, and is as grave as stated thresholds say."
    )
    return _rule(report, one, f"{one.rule} (miles {report.audit})", said, f"{_cut(said)} {_pages(report)}{limits}")


def _pages(report: Report) -> str:
    page = content.method_page(report)
    return f"Method, estimates and thresholds: {line(page)}."


def _rule(report: Report, one: _Result, title: str, said: str, helped: str) -> Json:
    return {
        "id": one.rule,
        "shortDescription": {"text": _cut(title)},
        "fullDescription": {"text": _cut(said)},
        "help": {"text": helped},
        "defaultConfiguration": {"level": one.level},
        "properties": {"tags": ["miles", line(report.audit)]},
    }


# The run


def _notices(report: Report, left_out: Mapping[str, int]) -> Iterator[Json]:
    """Yield the warnings of the report, and what this file does not hold."""
    for warning in report.warnings[:MOST_WARNINGS]:
        where = f" ({coordinates(warning.where)})" if warning.where else ""
        yield {
            "descriptor": {"id": line(warning.id)},
            "level": "warning",
            "message": {"text": _text(warning.message + where)},
        }
    rest = {
        "more warnings": len(report.warnings) - MOST_WARNINGS,
        "results over the limit of a file": left_out["overLimit"],
        "gates that passed and findings for information": left_out["notProblems"],
    }
    for what, count in rest.items():
        if count > 0:
            said = f"Not in this file but in report.json: {count:,} {what}."
            yield {"descriptor": {"id": "left-out"}, "level": "note", "message": {"text": said}}


def _about(report: Report, left_out: Mapping[str, int]) -> Json:
    coverage = report.coverage
    about: Json = {
        "audit": line(report.audit),
        "title": line(report.title),
        "question": line(report.question),
        "conclusion": _text(overview.answer(report).title),
        "created": report.created,
        "seed": report.provenance.seed,
        "gates": outcome(report),
        "coverage": {"given": coverage.given, "used": coverage.used, "skipped": coverage.given - coverage.used},
        "estimates": len(report.estimates),
        "leftOut": dict(left_out),
    }
    if report.registration is not None:
        about["registration"] = {"sha256": report.registration.sha256, "file": line(report.registration.file)}
    return about
