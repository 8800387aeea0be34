"""Measure whether texts are grounded in their inputs, and which errors each metric can see on these data.

A metric is trusted for a kind of error only where it tells planted errors of that kind from faithful texts of other
contexts. Content that is left out is no invention: what a metric says of omissions is told apart.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.core.measures import Measure
from audits.core.option_groups import Workers
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

METRICS = ("overlap", "numbers", "entities", "values", "parent", "cxmi", "nli")
CORRUPTIONS = ("name", "value", "number", "negation", "drop")
PRESETS = ("begin", "e2e", "ragtruth", "frank", "summac")
_DATA, _TRUST, _MODELS = "Data", "Metrics and trust", "Models"


@dataclass(frozen=True, kw_only=True)
class Options(Workers):
    """Options of `miles audit-faithfulness`."""

    file: Path = argument("Table of context, output, and what else is known of each output.", metavar="FILE")
    preset: str | None = option("Layout of published data.", choices=PRESETS, metavar="|".join(PRESETS), panel=_DATA)
    column: tuple[str, ...] = option(
        "Column that holds a field, such as context=knowledge; repeatable. Fields: id, context, context_id, output, "
        "reference, label, system, question, run.",
        (),
        listed=False,
        metavar="FIELD=COLUMN",
        panel=_DATA,
    )
    faithful: tuple[str, ...] = option(
        "Labels of outputs that are faithful; all others are not. Default: 1, true, yes.",
        (),
        metavar="LABEL,...",
        panel=_DATA,
        several=False,
    )
    by: tuple[str, ...] = option("Columns whose levels are groups.", (), metavar="COLUMN...", panel=_DATA)
    scores: tuple[str, ...] = option(
        "Columns of metrics that were computed elsewhere, higher for more faithful; -NAME where lower is.",
        (),
        metavar="COLUMN,...",
        panel=_DATA,
        several=False,
    )
    metrics: tuple[str, ...] = option(
        "Families of metrics. Default: all that the inputs allow.",
        (),
        metavar=",".join(METRICS),
        choices=METRICS,
        panel=_TRUST,
        several=False,
    )
    corrupt: tuple[str, ...] = option(
        "Errors to plant; drop leaves out content, which is no invention.",
        CORRUPTIONS,
        metavar=",".join(CORRUPTIONS),
        choices=CORRUPTIONS,
        panel=_TRUST,
        several=False,
    )
    rates: tuple[str, ...] = option(
        "Shares of an output's mentions that are corrupted, at least one of them. The least decides on trust.",
        ("0.1", "0.25", "0.5", "1"),
        metavar="SHARE,...",
        panel=_TRUST,
        several=False,
    )
    unit: str = option(
        "What is scored: whole outputs, or each of their sentences, of which labels say nothing.",
        "output",
        choices=("output", "sentence"),
        metavar="output|sentence",
        panel=_TRUST,
    )
    plant: int = option("Most outputs in which errors are planted.", 1000, metavar="N", panel=_TRUST, least=20)
    arithmetic: bool = option(
        "Count a number as supported where it is a sum, difference, count or rounding of the context's.",
        False,
        panel=_TRUST,
    )
    model: str | None = option(
        "A causal language model, for pointwise cross-mutual information (cxmi) and --noisy: a local Hugging Face "
        "folder or a hub id.",
        metavar="MODEL",
        panel=_MODELS,
    )
    context_free: str | None = option(
        "A second causal language model with the same tokens, which says what comes without the context in --noisy.",
        metavar="MODEL",
        panel=_MODELS,
        only_with=("noisy",),
    )
    nli: str | None = option(
        "A model that tells entailment from contradiction: a local Hugging Face folder or a hub id.",
        metavar="MODEL",
        panel=_MODELS,
    )
    without: str = option(
        "What stands for no context: a blank one, that of another row, or a text.",
        "blank",
        metavar="blank|shuffled|TEXT",
        panel=_MODELS,
        only_with=("model",),
    )
    template: Path | None = option(
        "Text that joins {context}, {question} and {output} for the model.",
        metavar="FILE",
        panel=_MODELS,
        only_with=("model",),
    )
    noisy: tuple[str, ...] = option(
        "Shares of steps at which the model decodes without the context, such as 0,0.1,0.5,1.",
        (),
        metavar="SHARE,...",
        panel=_MODELS,
        several=False,
        only_with=("model",),
    )
    max_new_tokens: int = option("Tokens of a noisy decode.", 90, metavar="N", panel=_MODELS, least=1)
    batch: int = option("Texts at a time.", 16, metavar="N", panel=_MODELS, least=1)


_ROW = ("system", "metric", "group")
MEASURES = (
    Measure("metric", _ROW, "score of a metric", unit="outputs", worse="down"),
    Measure(
        "difference",
        ("system", "against", "metric", "group"),
        "difference of two systems",
        unit="contexts",
        worse="down",
        neutral=0.0,
    ),
    Measure("unsupported_rate", ("system", "kind"), "mentions without support", unit="mentions", worse="up"),
    Measure(
        "corrected_rate",
        ("system", "metric"),
        "outputs with an error that it sees, corrected",
        unit="outputs",
        worse="up",
    ),
    Measure(
        "cxmi", ("system", "unit"), "information that the context gives", unit="outputs", worse="down", neutral=0.0
    ),
    Measure(
        "human_auc", ("metric", "scope", "group"), "AUC against human labels", unit="outputs", worse="down", neutral=0.5
    ),
    Measure("system_only_auc", (), "AUC of the system's name alone", unit="outputs", neutral=0.5),
    Measure(
        "detection_auc",
        ("metric", "corruption", "strength", "pairing"),
        "AUC against planted errors",
        unit="outputs",
        worse="down",
        neutral=0.5,
    ),
    Measure("omission_auc", ("metric",), "AUC against what leaves something out", unit="outputs", neutral=0.5),
    Measure(
        "dose_response",
        ("metric", "knob"),
        "rank correlation with the share of errors",
        unit="outputs",
        worse="up",
        neutral=0.0,
    ),
    Measure("false_alarm", ("metric",), "faithful outputs that are flagged", unit="outputs", worse="up"),
    Measure("label_rate", ("system",), "outputs labelled faithful", unit="outputs", worse="down"),
)

LIMITATIONS = (
    "Planted errors are swaps, negations and omissions that a rule makes in English text: errors of models can be "
    "subtler, and a metric that sees the planted ones may miss those.",
    "A metric of words, numbers or names reads no sentence: what is true in other words, or follows from the context, "
    "counts as unsupported.",
    "Intervals over contexts leave out the training seed of a system: another training may come out otherwise.",
)

STEPS = {
    "faithfulness.trust": (
        "Use a metric only for the kinds of error that it sees here, and read outputs by hand for those that none sees."
    ),
    "faithfulness.verdict": (
        "Train each system several times and give the runs (column run), or judge more contexts, before you choose."
    ),
    "faithfulness.system_name": (
        "Judge metrics within each system: pooled over systems they also earn what the system's name tells."
    ),
    "faithfulness.omission": (
        "Read a low score of this metric as missing or added content, and check which of the two by hand."
    ),
    "faithfulness.dose": "Keep the share of context-free steps low enough for the use that you make of the decodes.",
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-faithfulness",
    title="Faithfulness of texts to their inputs",
    question="Is the text grounded in its input, and can the metric tell on these data?",
    summary="Is a text grounded in its input, and can the metric tell on your data?",
    options=Options,
    package="audits.faithfulness",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    summaries=(
        Summary(
            measure="detection_auc",
            title="What each metric can see",
            row="metric",
            column="corruption",
            where={"pairing": "pooled"},
            words={
                "metric=lcs_precision": "LCS precision",
                "metric=idf_precision": "IDF precision",
                "corruption=drop": "omission",
            },
        ),
    ),
    headed=("preset", "metrics", "corrupt", "rates", "plant", "unit", "without"),
    model=("model", "nli"),
    spreads=("scores, and texts with noise", "scores of texts with noise"),
)
