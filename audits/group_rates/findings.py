"""Parts of findings on gaps between groups: severity, test, and the size that could be missed where none is shown.

Severity of a gap, by the lower end of the interval of the absolute gap: high from 0.10, medium from 0.03, low above
zero.
"""

from collections.abc import Sequence
from statistics import NormalDist

from audits.core.context import Draft
from audits.core.records import Severity
from audits.core.wording import capitalised
from audits.statistics import OUT_OF_REACH

HIGH, MEDIUM = 0.10, 0.03
POWER = 0.84
"""The 80 % quantile of the normal distribution."""


def severity_of(low: float) -> Severity:
    """Return the severity of a gap, from the distance of its interval from zero."""
    return "high" if low >= HIGH else "medium" if low >= MEDIUM else "low"


def how_tested(unit: str = "speakers") -> str:
    """Return the name of the test of a gap, in words."""
    return f"labels permuted over {unit} or joint intervals, the larger; Holm"


def missed_size(widest: float, tests: int, *, level: float) -> float:
    """Return the gap that an audit like this shows with 80 % power, from the width of the widest interval.

    It has to pass the strictest step of Holm's correction, with a normal quantile of its level for one of so many
    tests. Half the interval over its own quantile is a standard error, and four in five lie `POWER` of them above.

    >>> round(missed_size(0.2, 1, level=0.95), 3)
    0.143
    """
    tail = (1 - level) / 2
    plain, corrected = (NormalDist().inv_cdf(1 - share) for share in (tail, tail / tests))
    return (corrected + POWER) / plain * widest / 2


def missed_words(sizes: str, what: str = "a gap") -> str:
    """Return the sentence on gaps that may have been missed."""
    return f"{what} of less than about {sizes} may have been missed."


def blind_words(draft: Draft, seen: Sequence[str]) -> str:
    """Return the sentence on gaps that too few shuffles could not test; empty where there were enough."""
    why = next((warning.message for warning in draft.warnings if warning.id == OUT_OF_REACH), "")
    return f"nothing was told by {'; '.join(seen)}. {why}" if why and seen else ""


def doubtful_words(seen: Sequence[str], tests: str) -> str:
    """Return the sentence on gaps that only the correction for multiple tests keeps from being shown."""
    return f"what was seen by {'; '.join(seen)} may be chance, given all {tests}."


def joined(lead: str, sentences: Sequence[str]) -> str:
    """Join sentences, the first after a lead and the others with a capital.

    >>> joined("In transcription, ", ["nothing was told.", "a gap may hide."])
    'In transcription, nothing was told. A gap may hide.'
    >>> joined("", ["nothing was told."])
    'Nothing was told.'
    """
    first, *rest = sentences
    return " ".join(capitalised(part) for part in (f"{lead}{first}", *rest))
