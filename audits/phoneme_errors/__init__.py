"""Where do the phones of some groups of speakers lie elsewhere (a bias), and where are they only noisy?

From phone tokens with feature vectors, or from a speech encoder, recordings and alignments.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.measures import Measure
from audits.options import argument, option
from audits.registry import AuditSpec

PROBES = ("auto", "logistic", "discriminant")
TRANSFORMS = ("none", "log")
WEIGHTS = ("corpus", "phones")
ALIGNMENTS = "alignments.csv"
"""File of the run folder with the phones that --align-with placed."""
_TOKENS, _SPEECH, _ALIGNMENT, _PROBING, _GROUPS = (
    "Tokens",
    "Recordings",
    "Alignment",
    "Probes",
    "Groups and statistics",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `miles audit-phonemes` can be asked."""

    tokens: str = argument(
        "Phone tokens: CSV, TSV, JSONL or NPZ with phone, speaker, attributes and features; or a speech encoder: a "
        "local Hugging Face folder or a hub id, with --manifest.",
        metavar="TOKENS|MODEL",
    )
    by: tuple[str, ...] = option("Columns whose levels are compared.", (), required=True, metavar="COLUMN...")
    against: str | None = option(
        "The same tokens in another file or encoder, such as after a fine-tuning: what changed?",
        metavar="TOKENS2|MODEL2",
    )
    layers: tuple[str, ...] = option("Layers to look at: all, or numbers such as 0,3,6.", ("all",), metavar="all|N,...")
    features: tuple[str, ...] = option(
        "Feature columns of a table; default all of x0, x1, ...", (), metavar="COLUMN,...", panel=_TOKENS
    )
    transform: str = option(
        "What is done to every feature first: nothing, or its natural logarithm.",
        "none",
        choices=TRANSFORMS,
        metavar="none|log",
        panel=_TOKENS,
    )
    phone_col: str | None = option("Column of the phone.", metavar="COLUMN", panel=_TOKENS)
    speaker_col: str | None = option("Column of the speaker.", metavar="COLUMN", panel=_TOKENS)
    values: Path | None = option("Map of attribute values: CSV column,from,to or TOML.", metavar="FILE", panel=_TOKENS)
    bin: tuple[str, ...] = option(
        "Bins of a numeric column, such as age=0,13,18,30,50; repeatable.",
        (),
        listed=False,
        metavar="COLUMN=N,...",
        panel=_TOKENS,
    )
    on_bad: str = option(
        "A token or a clip that cannot be used stops the audit, or is skipped and counted.",
        "stop",
        choices=("stop", "skip"),
        metavar="stop|skip",
        panel=_TOKENS,
    )
    manifest: Path | None = option(
        "Recordings with speaker and attributes, for an encoder: CSV, TSV or JSONL; with --preset the corpus.",
        metavar="FILE",
        panel=_SPEECH,
    )
    preset: str | None = option("Layout of a published corpus; see docs/formats.md.", metavar="NAME", panel=_SPEECH)
    path_col: str | None = option("Column of the recording.", metavar="COLUMN", panel=_SPEECH)
    text_col: str | None = option("Column of the transcript.", metavar="COLUMN", panel=_SPEECH)
    audio_root: Path | None = option("Folder of relative recording paths.", metavar="DIR", panel=_SPEECH)
    batch: int = option("Most clips in one forward pass.", 8, metavar="N", panel=_SPEECH)
    alignments: Path | None = option(
        "Where the phones lie: a folder of TextGrid, CTM, TIMIT PHN or CSV files, or one file for all.",
        metavar="DIR",
        panel=_ALIGNMENT,
    )
    align_with: str | None = option(
        "Without alignments: a CTC checkpoint that places the phones itself, a folder or a hub id.",
        metavar="MODEL",
        panel=_ALIGNMENT,
    )
    phones_col: str | None = option(
        "Column of the phones that --align-with places; without one it places the letters of the text.",
        metavar="COLUMN",
        panel=_ALIGNMENT,
    )
    tier: str | None = option("Tier of the phones in a TextGrid or a table.", metavar="NAME", panel=_ALIGNMENT)
    phone_map: Path | None = option(
        "Names of phones to be joined or left out: CSV from,to.", metavar="FILE", panel=_ALIGNMENT
    )
    keep_stress: bool = option("Keep the stress digits of ARPAbet vowels.", False, panel=_ALIGNMENT)
    probe: str = option(
        "What reads the phones: a softmax regression (C = 1), a linear discriminant, or the first where it takes "
        "minutes at most and else the second.",
        "auto",
        choices=PROBES,
        metavar="auto|logistic|discriminant",
        panel=_PROBING,
    )
    folds: int = option(
        "Parts that the speakers are dealt into; each is read by probes of the others.", 5, panel=_PROBING
    )
    repeats: int = option(
        "How often speakers are dealt and matched tokens drawn anew; more of them steady what is borderline.",
        5,
        metavar="N",
        panel=_PROBING,
    )
    weights: str = option(
        "The mix of phones that probes expect and accuracies are stated for: that of the corpus, or every phone alike.",
        "corpus",
        choices=WEIGHTS,
        metavar="corpus|phones",
        panel=_PROBING,
    )
    max_order: int = option(
        "Largest number of attributes crossed; 2 takes apart groups that are mixtures, such as men and boys.",
        1,
        metavar="N",
        panel=_GROUPS,
    )
    min_speakers: int = option("Speakers that a group needs to be compared.", 10, metavar="N", panel=_GROUPS)
    min_tokens: int = option("Tokens of a phone that every compared group needs.", 5, metavar="N", panel=_GROUPS)
    bootstrap: int = option("Bootstrap samples of speakers.", 2000, metavar="N", panel=_GROUPS)
    permutations: int = option("Permutations of speakers.", 2000, metavar="N", panel=_GROUPS)


MEASURES = (
    Measure(
        "accuracy",
        ("group", "layer", "training"),
        "share of phones that a probe reads right",
        unit="speakers",
        worse="down",
    ),
    Measure(
        "systematic_error",
        ("group", "layer"),
        "systematic error: what the group's own data mend",
        unit="speakers",
        worse="up",
        neutral=0.0,
    ),
    Measure("random_error", ("group", "layer"), "variance of the group's phones over that of all", unit="speakers"),
    Measure("own_data_gain", ("group", "layer"), "gain by the group's own data over everyone's", unit="speakers"),
    Measure("accuracy_gap", ("group", "layer"), "gap in accuracy to the other groups", unit="speakers", neutral=0.0),
    Measure("remaining_gap", ("group", "layer"), "gap that the group's own data leave", unit="speakers", neutral=0.0),
    Measure(
        "systematic_minus_remaining",
        ("group", "layer"),
        "systematic error less the gap left",
        unit="speakers",
        neutral=0.0,
    ),
    Measure(
        "random_error_within_speakers",
        ("group", "layer"),
        "variance of the phones within speakers, over all",
        unit="speakers",
    ),
    Measure("random_error_cosine", ("group", "layer"), "variance of the phones by direction alone", unit="speakers"),
    Measure(
        "variance_ratio",
        ("group", "layer"),
        "variance of the phones over the other groups'",
        unit="speakers",
        neutral=1.0,
    ),
    Measure(
        "variance_ratio_within_speakers",
        ("group", "layer"),
        "variance within speakers over the other groups'",
        unit="speakers",
        neutral=1.0,
    ),
    Measure(
        "scatter_minus_shift",
        ("group", "layer"),
        "additional scatter less the squared shift",
        unit="speakers",
        neutral=0.0,
    ),
    Measure("centroid_shift", ("group", "layer"), "shift of the group's phones from the others'", unit="speakers"),
    Measure(
        "variance_accuracy_correlation",
        ("layer", "partial", "unit"),
        "rank correlation of variance and accuracy",
        unit="speakers",
        neutral=0.0,
    ),
    Measure(
        "split_correlation",
        ("layer", "partial", "unit"),
        "rank correlation of variance and accuracy, split phones",
        unit="speakers",
        neutral=0.0,
    ),
    Measure(
        "p_value",
        ("correction", "group", "layer", "test", "partial", "unit"),
        "p-value",
        unit="speakers",
        apart=("test",),
        compared=False,
        written="probability",
    ),
    Measure("alignment_error_rate", ("group",), "error rate of the checkpoint that placed phones", unit="speakers"),
    Measure("against_accuracy", ("group", "layer", "training"), "accuracy in the second encoder", unit="speakers"),
    Measure(
        "against_systematic_error",
        ("group", "layer"),
        "systematic error in the second encoder",
        unit="speakers",
        neutral=0.0,
    ),
    Measure("against_random_error", ("group", "layer"), "variance over that of all, second encoder", unit="speakers"),
    Measure(
        "against_variance_ratio",
        ("group", "layer"),
        "variance over the other groups', second encoder",
        unit="speakers",
        neutral=1.0,
    ),
    Measure(
        "accuracy_difference", ("group", "layer", "training"), "change of the accuracy", unit="speakers", neutral=0.0
    ),
    Measure(
        "systematic_error_difference",
        ("group", "layer"),
        "change of the systematic error",
        unit="speakers",
        neutral=0.0,
    ),
    Measure(
        "random_error_difference",
        ("group", "layer"),
        "change of the variance over that of all",
        unit="speakers",
        neutral=0.0,
    ),
    Measure(
        "variance_ratio_difference",
        ("group", "layer"),
        "change of the variance over the others'",
        unit="speakers",
        neutral=1.0,
    ),
)

AUDIT = AuditSpec(
    name="audit-phonemes",
    title="Random and systematic error of phones in embeddings",
    question=(
        "Are the phones of a group of speakers read worse because the embeddings place them elsewhere, which data of "
        "the group can mend, or because they scatter them?"
    ),
    summary="Does an encoder place some groups' sounds elsewhere, or only noisily?",
    options=Options,
    plan="audits.phoneme_errors.inputs:plan",
    run="audits.phoneme_errors.report:run",
    demo="audits.phoneme_errors.demo:prepare",
    measures=MEASURES,
    files=(ALIGNMENTS,),
)
