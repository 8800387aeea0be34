"""The figures of the audit."""

from typing import TYPE_CHECKING

from audits.context import Draft
from audits.records import Figure

if TYPE_CHECKING:
    from audits.precision_recall.report import Results


def draw(draft: Draft, results: "Results") -> list[Figure]:
    """Draw all figures."""
    return []
