"""Gates that were registered before the run beside those that were added, in words, and the registration itself."""

from audits.core.records import GateResult, Report
from audits.core.registration import standing

PASSED, FAILED = "passed", "failed"


def outcome(gate: GateResult) -> str:
    """Return what became of a gate, and whether it was registered where the report cites a registration.

    Examples
    --------
    >>> outcome(GateResult(expression="gap > 0", outcome="fail", rows=(), registered=False))
    'failed, added after registration'
    >>> outcome(GateResult(expression="gap > 0", outcome="pass", rows=()))
    'passed'
    """
    words = PASSED if gate.outcome == "pass" else FAILED
    return ", ".join(filter(None, (words, standing(gate.registered))))


def is_later(gate: GateResult) -> bool:
    """Tell whether a gate was added after registration: one that fails must not look like one that was registered."""
    return gate.registered is False


def registered_at(report: Report) -> str:
    """Return when the criteria were registered; empty where the report cites no registration."""
    held = report.registration
    return "" if held is None else held.created.replace("T", " ").replace("Z", " UTC")


def facts(report: Report) -> list[tuple[str, str]]:
    """Return the registration as pairs of a word and its value; none where the report cites none."""
    held = report.registration
    if held is None:
        return []
    return [
        ("Registration", f"{held.file}, made at {registered_at(report)} with miles {held.miles}"),
        ("sha256 of the registration", held.sha256),
    ]
