"""The charts."""

from typing import TYPE_CHECKING

from audits.context import Draft
from audits.records import Figure

if TYPE_CHECKING:
    from audits.membership.report import Results


def draw(draft: Draft, results: "Results") -> list[Figure]:
    """Return the charts."""
    return []
