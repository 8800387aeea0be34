"""The charts of the audit, each answering the question in its title."""

from typing import TYPE_CHECKING

from audits.context import Draft
from audits.phoneme_errors import Options
from audits.records import Figure

if TYPE_CHECKING:
    from audits.phoneme_errors.report import Results


def draw(draft: Draft, results: "Results", options: Options) -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    return []
