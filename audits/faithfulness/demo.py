"""The demo: two made-up systems that describe restaurants, one of which invents more, and a tiny model of them.

The model's probabilities are known in closed form: with the context it errs at a share of the slots that is set here,
without the context it only guesses. So what each output's information must be is known, too.
"""

from collections.abc import Iterator

from audits.core.context import Context
from audits.core.planted import Planted
from audits.core.records import Report
from audits.faithfulness import Options

CONTEXTS, ERRORS = 200, {"careful": 0.05, "careless": 0.3}
"""Contexts, and the share of slots at which each system says something else."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Write outputs and the model, and return the audit's options; with `balanced` both systems err alike."""
    raise NotImplementedError


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what was planted, and what the report says of it."""
    raise NotImplementedError
