"""Families of metrics that score outputs against their evidence: built once, then asked of any texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.faithfulness import METRICS, Options
from probes.core.errors import InputError
from probes.models.checkpoints import ModelFolder
from probes.texts.evidence import Evidence, Grounded

if TYPE_CHECKING:
    from probes.texts.grounded_prompts import Template

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

KINDS = {"numbers": "number", "entities": "entity", "values": "value"}
"""Families that check mentions, with what they check."""
FLAGGED_BELOW = {
    "number_support": 1.0,
    "entity_support": 1.0,
    "value_support": 1.0,
    "entailment": 0.5,
    "cxmi_token": 0.0,
}
"""Scores below which an output is flagged; other metrics have no natural one."""
SEES = {"number_support": ("number",), "entity_support": ("name",), "value_support": ("value",)}
"""Planted errors that a check is made for; other metrics are for all of them."""
LEANS_ON_REFERENCE = ("parent_precision", "parent_recall")
INFORMATION = ("cxmi_token", "cxmi_output", "cxmi_minimum")
PLAUSIBILITY = "log_probability"
"""No metric of grounding: how likely the model finds an output."""
LABEL = "label"
"""Stands for what people say where systems are compared by metrics."""
_WORDS = ("unigram_precision", "bigram_precision", "lcs_precision", "idf_precision", "no_contradiction")
TAKEN = frozenset((LABEL, PLAUSIBILITY, *FLAGGED_BELOW, *LEANS_ON_REFERENCE, *INFORMATION, *_WORDS))
"""Names of metrics that are computed here, which a metric of --scores may not have."""


class Family(Protocol):
    """Metrics that are computed together."""

    def score(self, pairs: Sequence[Grounded]) -> dict[str, Floats]:
        """Return scores by metric, shape (pairs,), higher for better grounded; NaN where undefined."""


def families_of(options: Options, pairs: Sequence[Grounded]) -> tuple[str, ...]:
    """Return the families that were asked for, or all that the inputs allow.

    Raises
    ------
    InputError
        Where a family lacks its input.
    """
    has_cells = any(pair.evidence.cells for pair in pairs)
    lacking = {
        "values": None if has_cells else "contexts that are tables or lists of slots",
        "parent": None if has_cells and any(pair.reference for pair in pairs) else "tables, and references",
        "cxmi": None if options.model else "--model",
        "nli": None if options.nli else "--nli",
    }
    for name in options.metrics:
        if lacking.get(name):
            hint = "Give it, or leave the family out of --metrics."
            raise InputError(f"{name} needs {lacking[name]}.", where="--metrics", hint=hint)
    return tuple(name for name in options.metrics or METRICS if not lacking.get(name))


def build(
    names: Sequence[str],
    pairs: Sequence[Grounded],
    folders: Mapping[str, ModelFolder],
    template: "Template | None",
    options: Options,
    context: Context,
) -> dict[str, Family]:
    """Return the families by name; those that learn from the run's contexts learn from the pairs'."""
    from probes.texts.named_values import EntitySupport, ValueSupport
    from probes.texts.number_words import NumberSupport
    from probes.texts.overlap_precision import OverlapPrecision
    from probes.texts.parent_scores import Parent

    evidences = list({pair.evidence: None for pair in pairs})
    makers: dict[str, Callable[[], Family]] = {
        "overlap": lambda: OverlapPrecision.fit(evidences),
        "numbers": lambda: NumberSupport(derived=options.arithmetic),
        "entities": lambda: EntitySupport.fit(evidences),
        "values": lambda: ValueSupport.fit(evidences),
        "parent": Parent,
        "cxmi": lambda: _information(folders["model"], template, evidences, options, context),
        "nli": lambda: _entailment(folders["nli"], options, context),
    }
    return {name: makers[name]() for name in names}


def _information(
    folder: ModelFolder,
    template: "Template | None",
    evidences: Sequence[Evidence],
    options: Options,
    context: Context,
) -> Family:
    from probes.texts.token_information import Information

    assert template is not None
    texts = [evidence.text for evidence in evidences]
    call = context.running(options.batch)
    return Information(folder, template, options.without, seed=context.seed, contexts=texts, **call)


def _entailment(folder: ModelFolder, options: Options, context: Context) -> Family:
    from probes.texts.entailment import Entailment

    return Entailment(folder, **context.running(options.batch))


def compute_all(families: Mapping[str, Family], pairs: Sequence[Grounded]) -> None:
    """Let models compute what `score_all` needs of them, or this run's part of it."""
    for family in families.values():
        compute = getattr(family, "compute", None)
        if compute is not None and pairs:
            compute(pairs)


def score_all(families: Mapping[str, Family], pairs: Sequence[Grounded]) -> dict[str, Floats]:
    """Return the scores of all families by metric, shape (pairs,)."""
    found: dict[str, Floats] = {}
    for family in families.values():
        found |= family.score(pairs)
    return found


def said(metric: str) -> str:
    """Return a metric's name in words.

    >>> said("lcs_precision"), said("value_support")
    ('LCS precision', 'value support')
    """
    return " ".join(word.upper() if word in ("lcs", "idf", "cxmi") else word for word in metric.split("_"))
