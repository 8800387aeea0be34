"""What a run could show with so many texts, before a text is encoded."""

from functools import partial

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.precision_recall import Options
from audits.precision_recall.sides import ASKED, Inputs
from audits.statistics.power import needed_units, rate_difference

USUAL = 0.95
"""Precision and recall of texts of the reference's own source, about."""


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least shortfall of a candidate, and the least difference of two, in precision or recall."""
    inputs: Inputs = plan.inputs
    names, alpha = inputs.names, 1 - context.level
    # Self-BLEU stands in the family too, where texts are known.
    asked = len(names) * (len(ASKED) + (inputs.encoder is not None))
    found = [_below("of reference texts", inputs.control or inputs.size, alpha, asked, "scores")]
    if len(names) > 1:
        found.append(_below("of another candidate", inputs.size, alpha, len(names) * (len(names) - 1) // 2, "pairs"))
    return tuple(found)


def _below(what: str, texts: int, alpha: float, questions: int, kind: str) -> Detectable:
    size = partial(_size, level=1 - alpha / questions)

    return Detectable(
        what=f"shortfall in precision or recall from that {what}",
        effect=size(texts),
        units=f"{counted(texts, 'texts')} a side",
        assuming=f"shares of texts as of independent trials, the higher {USUAL:g}; Holm over {questions:,} {kind}",
        needed=needed_units(size, "texts a side"),
        possible=(0.0, USUAL),
    )


def _size(texts: int, level: float) -> float | None:
    return rate_difference(USUAL, (texts, texts), level, below=True)
