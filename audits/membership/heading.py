"""The settings on top of the pages: what is left at its default says nothing of the claim, and is left out."""

from collections.abc import Mapping
from typing import Any

from audits.core.records import Report
from audits.membership import Options

QUIET = ("accountant", "runs_tried")
"""Settings that stand on top only where they were given."""


def heading(report: Report) -> Mapping[str, Any]:
    """Return the settings as they stand on top of the pages: an accountant and runs where they change the claim."""
    defaults = Options()
    kept = report.settings.items()
    return {name: value for name, value in kept if name not in QUIET or value != getattr(defaults, name)}
