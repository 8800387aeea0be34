"""Which groups of speakers does a recogniser serve worse, once their crossings and what else differs are looked at?

From transcripts and metadata alone, or from counts of errors; no model is run.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.measures import Measure
from audits.options import argument, option
from audits.registry import AuditSpec

HYPOTHESES = ("parity", "worst-group", "conditional")
METRICS = ("wer", "cer")
MISSING = ("skip", "empty", "stop")
EMPTY_REFERENCES = ("count", "skip", "stop")
_DATA, _GROUPS = "Data", "Groups and statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `miles audit-groups` can be asked."""

    manifest: Path = argument(
        "Clips with reference text and attributes, or counts of errors: CSV, TSV or JSONL; with --preset the corpus.",
        metavar="MANIFEST",
    )
    by: tuple[str, ...] = option("Columns whose levels are compared.", (), required=True, metavar="COLUMN...")
    predictions: tuple[str, ...] = option(
        "Transcripts of a system; repeatable: the others are compared with the first.",
        (),
        listed=False,
        several=False,
        metavar="NAME=FILE",
    )
    hypothesis: str = option(
        "What is declared and tested for each attribute: that its groups err alike, that none errs more than the "
        "reference, or that they err alike once everything else is held fixed.",
        "parity",
        choices=HYPOTHESES,
        metavar="parity|worst-group|conditional",
    )
    reference: tuple[str, ...] = option(
        "What a group is compared with: all others (overall), the group that errs least (best), or a group such as "
        "accent=us; one for each attribute.",
        ("overall",),
        listed=False,
        metavar="overall|best|GROUP",
    )
    control: tuple[str, ...] = option(
        "Columns held fixed beside the attributes, such as duration; words counts those of the reference.",
        (),
        metavar="COLUMN...",
    )
    metric: str = option("The rate that is tested; both are shown.", "wer", choices=METRICS, metavar="wer|cer")
    preset: str | None = option("Layout of a published corpus; see docs/formats.md.", metavar="NAME", panel=_DATA)
    path_col: str | None = option("Column of the recording.", metavar="COLUMN", panel=_DATA)
    text_col: str | None = option("Column of the reference text.", metavar="COLUMN", panel=_DATA)
    speaker_col: str | None = option("Column of the speaker.", metavar="COLUMN", panel=_DATA)
    prediction_col: str | None = option(
        "Column of the transcript, where it stands in the manifest.", metavar="COLUMN", panel=_DATA
    )
    cluster_by: tuple[str, ...] = option(
        "Without speakers: columns that together stand for one; default those of --by.",
        (),
        metavar="COLUMN...",
        panel=_DATA,
    )
    values: Path | None = option("Map of attribute values: CSV column,from,to or TOML.", metavar="FILE", panel=_DATA)
    bin: tuple[str, ...] = option(
        "Bins of a numeric column, such as age=0,13,18,30,50; repeatable.",
        (),
        listed=False,
        metavar="COLUMN=N,...",
        panel=_DATA,
    )
    normalise: str = option(
        "How text is compared.", "basic", choices=("none", "basic", "whisper-english"), metavar="HOW", panel=_DATA
    )
    on_missing: str = option(
        "A clip that a system has no transcript of is left out for all, counts as an empty transcript, or stops the "
        "audit.",
        "skip",
        choices=MISSING,
        metavar="skip|empty|stop",
        panel=_DATA,
    )
    on_empty_reference: str = option(
        "A clip without a word of reference counts, as insertions alone, is left out, or stops the audit.",
        "count",
        choices=EMPTY_REFERENCES,
        metavar="count|skip|stop",
        panel=_DATA,
    )
    max_order: int = option("Largest number of attributes crossed.", 2, metavar="N", panel=_GROUPS)
    min_speakers: int = option("Speakers that a group needs to be compared.", 10, metavar="N", panel=_GROUPS)
    bootstrap: int = option("Bootstrap samples of speakers.", 2000, metavar="N", panel=_GROUPS)
    permutations: int = option("Permutations of labels over speakers.", 2000, metavar="N", panel=_GROUPS)
    faas: bool = option(
        "Add the fairness adjusted ASR score of other tools, for comparison only.", False, panel=_GROUPS
    )


MEASURES = (
    Measure("rate", ("group", "metric", "system"), "error rate", unit="speakers", worse="up", apart=("metric",)),
    Measure(
        "substitution_rate",
        ("group", "metric", "system"),
        "substitutions a word",
        unit="speakers",
        worse="up",
        apart=("metric",),
    ),
    Measure(
        "deletion_rate",
        ("group", "metric", "system"),
        "deletions a word",
        unit="speakers",
        worse="up",
        apart=("metric",),
    ),
    Measure(
        "insertion_rate",
        ("group", "metric", "system"),
        "insertions a word",
        unit="speakers",
        worse="up",
        apart=("metric",),
    ),
    Measure(
        "speaker_rate", ("group", "metric", "system"), "mean error rate of speakers", unit="speakers", apart=("metric",)
    ),
    Measure(
        "shrunken_rate",
        ("group", "metric", "system"),
        "partially pooled error rate",
        unit="speakers",
        apart=("metric",),
    ),
    Measure(
        "gap",
        ("adjusted", "by", "kind", "metric", "system"),
        "gap in error rate",
        unit="speakers",
        worse="up",
        neutral=0.0,
        apart=("kind", "metric"),
    ),
    Measure(
        "gap_ratio",
        ("adjusted", "by", "kind", "metric", "system"),
        "ratio of error rates, worst to best",
        unit="speakers",
        neutral=1.0,
        apart=("kind", "metric"),
    ),
    Measure(
        "gap_to_reference",
        ("by", "group", "metric", "reference", "system"),
        "error rate less that of the reference",
        unit="speakers",
        neutral=0.0,
        apart=("metric",),
    ),
    Measure(
        "excess",
        ("by", "group", "metric", "reference", "system"),
        "excess of a group over the reference",
        unit="speakers",
    ),
    Measure(
        "noise_floor",
        ("by", "metric", "system"),
        "gap that chance alone makes",
        unit="speakers",
        apart=("metric",),
        compared=False,
    ),
    Measure(
        "rate_ratio",
        ("adjusted", "attribute", "level", "metric", "reference", "system"),
        "ratio of error rates to the reference",
        unit="speakers",
        neutral=1.0,
        apart=("metric",),
    ),
    Measure(
        "attenuation",
        ("attribute", "level", "metric", "reference", "system"),
        "log ratio lost by adjusting",
        unit="speakers",
        apart=("metric",),
    ),
    Measure(
        "share_left",
        ("attribute", "level", "metric", "reference", "system"),
        "share of the log ratio that adjusting leaves",
        unit="speakers",
        apart=("metric",),
    ),
    Measure(
        "stratum_ratio",
        ("attribute", "level", "metric", "reference", "system", "within"),
        "ratio of error rates within another level",
        unit="speakers",
        neutral=1.0,
        apart=("metric",),
    ),
    Measure(
        "differential_fairness", ("by", "metric", "system"), "differential fairness", unit="speakers", apart=("metric",)
    ),
    Measure(
        "entropy_index",
        ("by", "index", "metric", "part", "system"),
        "inequality of correct words",
        unit="speakers",
        apart=("metric",),
    ),
    Measure(
        "entropy_noise_floor",
        ("by", "index", "metric", "system"),
        "inequality that chance alone makes",
        unit="speakers",
        apart=("metric",),
    ),
    Measure(
        "p_value",
        ("by", "correction", "metric", "system", "test", "group"),
        "p-value",
        unit="speakers",
        apart=("metric", "test"),
        compared=False,
        written="probability",
    ),
    Measure("overdispersion", ("metric", "system"), "overdispersion of errors", unit="clips", apart=("metric",)),
    Measure(
        "confirmed_difference",
        ("by", "group", "metric", "system"),
        "difference confirmed on other speakers",
        unit="speakers",
        neutral=0.0,
        apart=("metric",),
    ),
    Measure(
        "intersection_ratio",
        ("by", "group", "metric", "system"),
        "error rate over that expected of its parts",
        unit="speakers",
        neutral=1.0,
        apart=("metric",),
    ),
    Measure(
        "system_difference",
        ("against", "group", "metric", "system"),
        "error rate less that of the first system",
        unit="speakers",
        neutral=0.0,
        apart=("metric",),
    ),
    Measure(
        "gap_difference",
        ("against", "by", "group", "metric", "reference", "system"),
        "gap less that of the first system",
        unit="speakers",
        neutral=0.0,
        apart=("metric",),
    ),
    Measure("faas", ("metric", "system"), "fairness adjusted ASR score", unit="clips"),
)

AUDIT = AuditSpec(
    name="audit-groups",
    title="Error rates of groups of speakers and their intersections",
    question=(
        "On which groups of speakers, and on which intersections of groups, does speech recognition err more often, "
        "and what is left of that once everything else that was recorded is held fixed?"
    ),
    summary="Which groups of speakers does a recogniser serve worse? From transcripts alone.",
    options=Options,
    plan="audits.speaker_groups.inputs:plan",
    run="audits.speaker_groups.report:run",
    records="audits.speaker_groups.pairing",
    demo="audits.speaker_groups.demo:prepare",
    model=False,
    measures=MEASURES,
)
