"""Estimates with the measures that the built-in audits declare, for tests that make reports by hand."""

from dataclasses import replace
from functools import cache

from audits.core import registry
from audits.core.measures import UNDECLARED, Measure
from audits.core.records import Estimate


@cache
def _all() -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for entry in registry.AUDITS:
        for measure in registry.find(entry.name).measures:
            found.setdefault(measure.name, measure)
    return found


def measured(estimate: Estimate, audit: str = "") -> Estimate:
    """Return an estimate with the measure of its name: that of an audit, or of the first that has it."""
    known = registry.find(audit).by_name if audit else _all()
    return replace(estimate, measure=known.get(estimate.name, UNDECLARED))
