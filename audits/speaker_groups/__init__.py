"""Which groups of speakers does a recogniser serve worse, once their crossings and what else differs are looked at?

From transcripts and metadata alone, or from counts of errors; no model is run.
"""

from dataclasses import dataclass
from pathlib import Path

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
    estimates=(
        "rate",
        "substitution_rate",
        "deletion_rate",
        "insertion_rate",
        "speaker_rate",
        "shrunken_rate",
        "gap",
        "gap_ratio",
        "gap_to_reference",
        "excess",
        "noise_floor",
        "rate_ratio",
        "attenuation",
        "share_left",
        "stratum_ratio",
        "differential_fairness",
        "entropy_index",
        "entropy_noise_floor",
        "p_value",
        "overdispersion",
        "confirmed_difference",
        "intersection_ratio",
        "system_difference",
        "gap_difference",
        "faas",
    ),
)
